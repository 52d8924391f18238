//! Bugs that the world can put into a server, and between it, its adapter and its applications.

use std::fmt;

use cellgate_core::server::Planted;

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// A bug in a server, its books, its take-up or its pace: most as it looks from outside.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ServerBug {
            $($(#[doc = $doc])+ $name,)+
            /// One of its code.
            Inside(Planted),
        }

        impl ServerBug {
            const OUTSIDE: &[Self] = &[$(Self::$name,)+];
        }
    };
}

bugs! {
    /// The books have a tenth more of each line than there is.
    LineTooWide,
    /// Nothing is kept for best effort.
    BestEffortForgotten,
    /// There is no bound on connections.
    ConnectionsUnbounded,
    /// A user's quota is not looked at.
    QuotaIgnored,
    /// A refusal offers a contract that would not fit.
    OfferTooLarge,
    /// A VC that was to be closed stays open.
    VcNotClosed,
    /// An attachment that was to be removed stays.
    AttachmentNotRemoved,
    /// A change of contract is confirmed, and the adapter does not hear of it.
    ModifyForgotten,
    /// What a VC guarantees at the adapter is more than was promised.
    RateTooHigh,
    /// What is left with a VC does not say what is reserved for it.
    DemandNotKept,
    /// What is left with a VC does not say which slots it has had: the account is lost at the
    /// server's death.
    AccountNotKept,
    /// What is left with a VC does not say which Request made it.
    RequestNotKept,
    /// What is left with a VC does not say that its application may not know of it.
    ReopenedNotKept,
    /// An application's socket is not kept for a successor.
    SocketNotKept,
    /// A successor closes the first VC that it finds.
    TakenVcClosed,
    /// A successor does not take up the first VC that it finds.
    VcNotTakenUp,
    /// A successor tells applications nothing of itself.
    RestartNotTold,
    /// An application hears a generation that its VC had before.
    StaleGeneration,
    /// A Confirm gets lost.
    ConfirmLost,
    /// The credit of an interval is twice what it should be.
    CreditDoubled,
    /// A writer does not wait for its credit.
    CreditIgnored,
    /// What is left of a credit for a PDU that waits is lost.
    RemainderLost,
    /// A PDU passes whatever is left of a credit, and its debt is forgiven.
    RemainderOverdrawn,
    /// A writer that is woken early takes that for the end of its wait.
    EarlyWakeTrusted,
    /// Adapters that have died are not opened anything at again.
    NothingReopened,
    /// An empty lock is taken for that of a server that has ended.
    EmptyLockEnds,
    /// A lock that is gone is taken for that of a server that has ended.
    NoLockEnds,
    /// An adapter does not make its socket again.
    SocketNotMadeAgain,
    /// A server writes through a link.
    LinkFollowed,
    /// What a file does not name a successor takes for somebody else's.
    FileBelieved,
}

impl ServerBug {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let inside = Planted::ALL.iter().map(|bug| Self::Inside(*bug));
        Self::OUTSIDE.iter().copied().chain(inside)
    }

    /// The one of its code.
    pub(super) fn inside(self) -> Option<Planted> {
        match self {
            Self::Inside(bug) => Some(bug),
            _ => None,
        }
    }
}

impl fmt::Display for ServerBug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inside(bug) => write!(f, "{bug:?}"),
            bug => write!(f, "{bug:?}"),
        }
    }
}
