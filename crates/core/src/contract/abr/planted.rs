//! The bugs that tests plant in the machines of ABR.

use crate::planted::planted;

planted! {
    /// Bugs that a test can switch on in a [`Source`](super::Source) or a
    /// [`Destination`](super::Destination), a rule each, to prove that the tests would notice them.
    /// Adapters have none of them, and the compiler removes the switches.
    pub enum Planted {
        /// Source rule 1: the rate rises above PCR.
        PeakExceeded,
        /// Source rule 1: the rate falls below MCR.
        FloorForgotten,
        /// Source rule 2: the source begins at PCR.
        InitialRateForgotten,
        /// Source rule 2: data leaves first.
        DataFirst,
        /// Source rule 3a: Nrm cells, not Nrm - 1, are between two forward RM cells.
        ForwardByOneLate,
        /// Source rule 3a: no time makes a forward RM cell due.
        TrmForgotten,
        /// Source rule 3a: time alone makes one due, though fewer than Mrm cells were sent.
        MrmForgotten,
        /// Source rule 3b: a backward RM cell waits for the end of the data.
        BackwardLast,
        /// Source rule 3b: all backward RM cells go before data.
        BackwardAlwaysFirst,
        /// Source rule 3c: a cell of data is named though none waits.
        DataOutOfNothing,
        /// Source rule 4: in-rate RM cells have low priority.
        InRateLowPriority,
        /// Source rule 5: a rate that was not used stays.
        UnusedRateKept,
        /// Source rule 5: a rate below ICR rises to it.
        UnusedRateRaised,
        /// Source rule 6: silence of the network lowers nothing.
        SilenceIgnored,
        /// Source rule 6: it lowers the rate one forward RM cell late.
        SilenceOneLate,
        /// Source rule 6: RM cells of a switch (BN 1) break it.
        NoticeBreaksSilence,
        /// Source rule 7: CCR is the rate before rules 5 and 6.
        OldRateTold,
        /// Source rule 8: congestion lowers nothing.
        CongestionIgnored,
        /// Source rule 8: NI is not looked at.
        NoIncreaseIgnored,
        /// Source rule 8: the rate rises by a part of itself, not of PCR.
        IncreaseOfRate,
        /// Source rule 9: ER is not looked at.
        ExplicitRateIgnored,
        /// Source rule 9: ER counts before rule 8, which then rises above it.
        ExplicitRateFirst,
        /// Source rule 10: ER of a forward RM cell is the source's rate, not PCR.
        ExplicitRateOfSource,
        /// Source rule 11: out-of-rate RM cells come as fast as they are asked for.
        OutOfRateUnbounded,
        /// Source rule 11: they have high priority.
        OutOfRateHighPriority,
        /// Source rule 13: RM cells that answer nothing raise the rate.
        UnaskedBelieved,
        /// Destination rule 1: EFCI is kept though the last cell of data came without.
        MarkStays,
        /// Destination rule 2: the direction stays.
        DirectionKept,
        /// Destination rule 2: EFCI is not told.
        MarkNotTold,
        /// Destination rule 2: EFCI, once told, is told again.
        MarkToldTwice,
        /// Destination rule 2: ER that the network has lowered is lost.
        ExplicitRateLost,
        /// Destination rule 3: an RM cell that comes while another waits is lost.
        NewerLost,
        /// Destination rule 4: what was turned round is sent again.
        TurnedTwice,
        /// Destination rule 5: notices come as often as they are asked for.
        NoticesUnbounded,
        /// Destination rule 5: a notice has BN 0, as if it had been turned round.
        NoticeUnmarked,
        /// Destination rule 6: out-of-rate backward RM cells have high priority.
        TurnedHighPriority,
    }
}
