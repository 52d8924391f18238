//! Bugs on purpose in how video is sent and played.

use crate::planted::{flaws, planted};

planted! {
    /// Bugs that a test can switch on, to prove that the tests would notice them.
    pub enum Planted {
        /// A clock reference that begins anew is taken for one that goes back.
        WrapIgnored,
        /// The sender's clock is taken for the receiver's, whatever is seen of it.
        DriftIgnored,
        /// Its rate is followed, its phase is not.
        PhaseIgnored,
        /// The output's rate is not bounded.
        RateUnbounded,
        /// A packet that is due is released with the next.
        ReleasedLate,
        /// A gap in the PDUs' numbers counts one PDU too few.
        GapMiscounted,
        /// The first PDU behind the number 255 counts as a gap.
        NumberWrapIgnored,
        /// The error flag of a packet that stands for a lost one is not set.
        ErrorFlagForgotten,
        /// The first packet's delay is taken for the least, whatever comes sooner before anything
        /// is played.
        FirstBelieved,
        /// The anchor is kept where the clock jumps.
        AnchorKept,
        /// A discontinuity that is announced is not looked at.
        DiscontinuityIgnored,
        /// A stream that comes later for good stays late.
        LateForGood,
        /// Latency that has grown stays.
        LatencyCreeps,
        /// Where the buffer is full the newest packet is left out.
        NewestLeftOut,
        /// A packet that is left out is not counted.
        OverrunUncounted,
        /// A packet that comes late is not counted.
        LateUncounted,
        /// A packet is released a millisecond before it is due.
        ReleasedEarly,
        /// What stands for lost packets comes behind the packet that follows them.
        MarksBehind,
        /// One packet stands for all that are lost in a gap.
        MarkedOnce,
        /// Packets that are lost take no time.
        LostTakeNoTime,
        /// A lost PDU counts as one packet.
        LostPackIsOne,
        /// The buffer has no bound.
        Unbounded,
        /// Bursts of VBR are not counted into the latency.
        BurstsForgotten,
        /// The number of a PDU stays the same.
        NumberKept,
        /// A PDU goes on behind a clock reference.
        PcrPassed,
        /// A file's packets leave at once.
        Unpaced,
    }
}

flaws! {}
