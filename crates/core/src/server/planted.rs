//! The bugs that tests plant in the server, and who can have one.

use crate::planted::planted;

/// Whether a server has a bug: one of the type [`Sound`] never has, and the compiler removes the
/// switches.
pub trait Bugs: Copy {
    /// Whether it has this one.
    fn planted(&self, bug: Planted) -> bool;
}

/// A server without bugs on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sound;

impl Bugs for Sound {
    #[inline(always)]
    fn planted(&self, _bug: Planted) -> bool {
        false
    }
}

/// A server with a bug on purpose, or with none.
impl Bugs for Option<Planted> {
    fn planted(&self, bug: Planted) -> bool {
        *self == Some(bug)
    }
}

planted! {
    /// Bugs that a test can switch on in the server, to prove that the tests would notice them.
    pub enum Planted {
        /// What is received is admitted as if its line were idle.
        ReceiveNotAdmitted,
        /// What is taken on a line is not in the machine's books.
        TotalNotTaken,
        /// What is given back is still a user's.
        UserNotReleased,
        /// What a change took in addition is kept after it.
        MoreNotReleased,
        /// Best effort divides the line, whatever is guaranteed.
        RestOfLine,
        /// A connection that has gone keeps what was promised to it.
        GrantKept,
        /// An address is given to a second connection.
        AddressNotLooked,
        /// A client that hangs up leaves its connection open.
        HungUpStays,
        /// A change is refused by the adapter and keeps what it took.
        RefusedChangeKept,
        /// A connection that was handed on keeps the attachment it had.
        LeftoverKept,
        /// A change of contract is not in the list.
        ChangeNotNoted,
        /// The successor does not promise again what was promised.
        TakenNotGranted,
        /// The successor does not know what the Request before it did.
        DoneForgotten,
        /// The successor gives numbers out again.
        NumbersAgain,
        /// The successor begins the account of slots anew.
        AccountLost,
        /// The successor leaves what is nobody's at the adapter.
        OrphansStay,
        /// An address stays taken when its connection has gone.
        AddressKept,
        /// A change needs room beside what it replaces.
        ChangeAddedUp,
        /// All weights are the same.
        WeightForgotten,
        /// What a connection that has gone leaves is not divided anew.
        NotDividedAnew,
        /// The adapter polices best effort by a part of the share that it had when it was opened.
        SharePoliced,
        /// The successor does not say what share there is.
        ShareNotTold,
        /// A file is written where it lies.
        WrittenInPlace,
        /// What an interrupted write has left is in the way of the next.
        RestLeft,
        /// A write that has failed is taken for done.
        FailureTaken,
        /// A write that has failed is told, and not tried again.
        NotTriedAgain,
        /// A write that has failed is tried again, and not told.
        FailureNotTold,
        /// What has killed adapters alone is not left out.
        KillerStays,
        /// Suspects are not halved.
        SuspectsTogether,
        /// All that an adapter has died of is left out.
        BatchLeftOut,
        /// What comes next is opened before the adapter has outlived what was opened before.
        NotOutlived,
        /// The last is opened again first.
        ReopenedBackwards,
        /// What there is no memory for yet ends at once when it is opened again.
        ShortEnds,
        /// Who waits for what is on its way back is forgotten when it is there.
        AwaitingForgotten,
        /// What is on its way back counts as taken.
        ReturningTaken,
        /// A refusal does not tell of what is on its way back.
        ReturningUntold,
    }
}
