use crate::planted::planted;

/// Whether a machine has a bug: one of the type [`Sound`] never has, and the compiler removes the
/// switches.
pub trait Bugs: Copy {
    /// Whether it has this one.
    fn planted(&self, bug: Planted) -> bool;
}

/// A machine without bugs on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sound;

impl Bugs for Sound {
    #[inline(always)]
    fn planted(&self, _bug: Planted) -> bool {
        false
    }
}

/// A machine with a bug on purpose, or with none.
impl Bugs for Option<Planted> {
    fn planted(&self, bug: Planted) -> bool {
        *self == Some(bug)
    }
}

planted! {
    /// Bugs that a test can switch on in REX, to prove that the tests would notice them.
    pub enum Planted {
        /// A block is believed whatever its CRC.
        CrcNotChecked,
        /// A call that has ended is forgotten: a late copy of it is executed.
        EndedForgotten,
        /// Calls below the floor are executed.
        FloorIgnored,
        /// What was said to a predecessor is taken.
        PredecessorsCallTaken,
        /// A session that was forgotten has its number given to the next.
        SessionNumberReused,
        /// A caller that begins anew goes on with its predecessor's session.
        CallersSessionKept,
        /// A call that was refused may be executed if it comes again.
        RefusedExecuted,
        /// A message is whole when its last fragment has come.
        WholeAtLast,
        /// A reply is said once.
        ReplySaidOnce,
        /// A call is said once.
        CallSaidOnce,
        /// Whoever hears nothing waits for ever.
        SilenceNotTold,
        /// A session that is gone is not missed.
        GoneNotHeard,
        /// A call that is cancelled has its reply, too.
        CancelledStays,
        /// A server that executes does not hear that nobody waits.
        CancelNotHeard,
        /// A reply is kept when its caller has it.
        ReplyKept,
        /// Octets of half calls are not counted.
        OctetsNotCounted,
        /// Half calls are kept until the rest comes.
        HalfCallsKept,
        /// Two bursts follow one that is answered twice.
        RoundIgnored,
    }
}
