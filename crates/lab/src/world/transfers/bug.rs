//! Bugs that the world can put into how files are moved.

use std::fmt;

use cellgate_core::terminal::Planted;

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// A bug in terminals that move files: as it looks from outside, or in their code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FileBug {
            $($(#[doc = $doc])+ $name,)+
            /// One of the code.
            Inside(Planted),
        }

        impl FileBug {
            const OUTSIDE: &[Self] = &[$(Self::$name,)+];
        }
    };
}

bugs! {
    /// A terminal that begins anew has the run that it had before.
    RunKept,
    /// The disk says that it has synced what it has not.
    SyncLies,
}

impl FileBug {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let inside = Planted::ALL.iter().map(|bug| Self::Inside(*bug));
        Self::OUTSIDE.iter().copied().chain(inside)
    }

    /// Those that 2,000 random scenarios show: what the others are in is too rare there. A stale
    /// PDU must meet the transfer that has its number, a directory be new whose large file comes
    /// before any small one, or a receiver die between its journal's record and its sync, and its
    /// successor's machine lose power: a scenario of the corpus shows each of these. What is kept
    /// of a rest is written over or punched before anybody judges it: 100,000 have shown none.
    pub fn within_reach() -> impl Iterator<Item = Self> {
        let beyond = [
            Planted::RestKept,
            Planted::ParentsNotSynced,
            Planted::StaleRunTaken,
            Planted::TakenUpNotSynced,
        ];
        Self::all().filter(move |bug| bug.inside().is_none_or(|bug| !beyond.contains(&bug)))
    }

    /// The one of the code.
    pub(super) const fn inside(self) -> Option<Planted> {
        match self {
            Self::Inside(bug) => Some(bug),
            _ => None,
        }
    }
}

impl fmt::Display for FileBug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inside(bug) => write!(f, "{bug:?}"),
            bug => write!(f, "{bug:?}"),
        }
    }
}
