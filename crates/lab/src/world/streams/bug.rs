//! Bugs that the world can put into streams.

use std::fmt;

use cellgate_core::terminal::video::{Flaws, Planted};

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// A bug in streams: as it looks from outside, or in their code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum StreamBug {
            $($(#[doc = $doc])+ $name,)+
            /// One of the code.
            Inside(Planted),
        }

        impl StreamBug {
            const OUTSIDE: &[Self] = &[$(Self::$name,)+];
        }
    };
}

bugs! {
    /// A PDU that finds no room is left out.
    NoRoomLeftOut,
    /// The player looks at what is due once a millisecond.
    LooksSeldom,
    /// The player hands some PDUs to the playout twice.
    ReadTwice,
}

impl StreamBug {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let inside = Planted::ALL.iter().map(|bug| Self::Inside(*bug));
        Self::OUTSIDE.iter().copied().chain(inside)
    }

    /// Those that 2,000 random scenarios show. The others need a clock that begins anew after 26.5
    /// hours or jumps, a file, a packet that ends a PDU, or a path that is longer for good: the
    /// core's own tests of the playout find each of these.
    pub fn within_reach() -> impl Iterator<Item = Self> {
        let beyond = [
            Planted::WrapIgnored,
            Planted::PhaseIgnored,
            Planted::FirstBelieved,
            Planted::AnchorKept,
            Planted::DiscontinuityIgnored,
            Planted::LateForGood,
            Planted::PcrPassed,
            Planted::Unpaced,
        ];
        Self::all().filter(move |bug| bug.inside().is_none_or(|bug| !beyond.contains(&bug)))
    }

    /// The one of the code.
    pub(crate) const fn inside(self) -> Option<Planted> {
        match self {
            Self::Inside(bug) => Some(bug),
            _ => None,
        }
    }
}

impl fmt::Display for StreamBug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inside(bug) => write!(f, "{bug:?}"),
            bug => write!(f, "{bug:?}"),
        }
    }
}

/// What the code of a stream has of a bug.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bugs(pub(crate) Option<Planted>);

impl Flaws for Bugs {
    fn has(&self, bug: Planted) -> bool {
        self.0 == Some(bug)
    }
}
