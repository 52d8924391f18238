//! The bugs that tests plant in the adapter.

use crate::planted::planted;

planted! {
    /// Bugs that a test's board can switch on in the adapter ([`super::Board::planted`]), to
    /// prove that the tests would notice them. Boards of products never do, and the compiler
    /// removes the switches.
    pub enum Planted {
        /// Whoever rests has looked at the doorbells of sixteen clients.
        RestLooksAtSixteen,
        /// Whoever rests forgets the last port.
        RestForgetsAPort,
        /// Whoever rests forgets answers to OAM cells.
        RestForgetsReplies,
        /// Whoever rests forgets when a source without a rate probes.
        RestForgetsProbes,
        /// Whoever rests forgets loopback cells that wait to leave.
        RestForgetsLoopbacks,
        /// Whoever rests forgets when loopback cells that are out are late.
        RestForgetsNoReturn,
        /// Whoever rests forgets when silent events are to be told.
        RestForgetsSilent,
        /// Whoever rests forgets when AAL3/4 PDUs are late.
        RestForgetsReassembly,
        /// Whoever rests forgets changes that wait for the end of a PDU.
        RestForgetsPending,
        /// Whoever rests forgets when the board wants a step.
        RestForgetsTheBoard,
        /// Whoever rests does not ask the board what waits.
        RestForgetsWhatWaits,
        /// Whoever shapes rests for four times the CDVT.
        RestShapesLate,
        /// Whoever shapes rests for longer than the line makes good.
        RestShapesWithoutEnd,
        /// Whoever has cells for a line that is held does not rest.
        RestSpinsOnHeld,
        /// The GFC is taken for a part of the address.
        GfcInAddress,
        /// A VC of port 0 takes cells of its address from ports where nobody receives them.
        WrongPortAccepted,
        /// Cells of an unknown VC are told to the first client.
        UnknownVcTold,
        /// Idle cells are counted as cells of an unknown VC.
        IdleAsUnknown,
        /// A corrected header is used uncorrected.
        CorrectedHeaderIgnored,
        /// RM cells with a wrong CRC are believed.
        RmCrcNotChecked,
        /// RM cells of any protocol are taken for those of ABR.
        RmProtocolNotChecked,
        /// RM cells are not policed.
        RmUnpoliced,
        /// The rate that RM cells allow is not kept.
        AllowedRateNotKept,
        /// MCR is not guaranteed: it is a share of the rest, as all best effort.
        FloorNotKept,
        /// An RM cell goes back only with data.
        TurnedAfterDataOnly,
        /// EFCI of data is not told to the source.
        MarkForgotten,
        /// A reader that is too slow is no congestion.
        LossNotNoticed,
        /// A PDU of ABR leaves without RM cells.
        NoRmCells,
        /// A probe is told of the rest of a PDU that was thrown away.
        ProbeBraked,
        /// A source without a rate does not probe.
        SlowNotProbed,
        /// OAM cells are taken for user data.
        OamIntoBuffer,
        /// A refused PDU charges the contract.
        RefusedCharged,
        /// Cells of a PDU that was accepted and lost are not charged.
        LostNotCharged,
        /// Charges begin at the time of the step, not at the earliest arrival.
        EarliestIgnored,
        /// The earliest arrival lies as far back as the port was never empty.
        GapUnbounded,
        /// A PDU exactly at its tolerance is refused.
        GcraStrict,
        /// The tolerance lacks the link's clump.
        ClumpForgotten,
        /// The tolerance lacks one PDU time.
        PduTimeForgotten,
        /// The last cell of a refused PDU does not end the discarding.
        RefusedStaysRefused,
        /// The last cell of a refused PDU begins a PDU.
        LastOfRefusedStored,
        /// Every second cell of a refused PDU begins a PDU.
        RefusedReopens,
        /// The write head stays behind a PDU that failed.
        HeadNotRestored,
        /// PDUs start where the one before ended.
        StartNotRounded,
        /// The space of the SDU is tested, not that of its cells.
        SpaceWithoutPad,
        /// A fixed SDU's space is tested cell by cell.
        FixedSduByCell,
        /// One cell more than the largest SDU needs is accepted.
        OversizedByOne,
        /// The CRC is not looked at.
        CrcNotChecked,
        /// The CRC of a failed PDU goes on into the next.
        CrcStateKept,
        /// The length is not compared with the number of cells.
        LengthNotChecked,
        /// Length 0 is taken for a wrong length.
        AbortAsLengthError,
        /// The congestion indication is lost.
        CongestionLost,
        /// The loss priority of a received PDU is that of its last cell.
        ClpOfLastCell,
        /// The receive queue takes one descriptor too many.
        QueueFullByOne,
        /// The client's tail is never read again.
        TailNotReread,
        /// "Queue full" is told at every refusal.
        FullEventEveryPdu,
        /// "Queue full" is told once and never again.
        FullEventOnce,
        /// "Over threshold" is told at every delivery above it.
        ThresholdRepeats,
        /// The event of a PDU names the head before its publication.
        EventBeforeDescriptor,
        /// The first cell of a PDU is never told.
        FirstCellSilent,
        /// Start of MSSAR marks nothing.
        StartMissed,
        /// The last cell of MSSAR is looked for at Sequence 0.
        LastAtSequence0,
        /// Either mark of MSSAR is taken for both.
        EitherMarkAsBoth,
        /// The last cell of MSSAR is looked for in the cell's header, as that of AAL5.
        MarkOfHeader,
        /// Ports come in their order, whether they are real-time or not.
        PortsInOrder,
        /// Nobody learns that an interrupt is for a guaranteed connection.
        InterruptClassLost,
        /// Silent events wait for one more than the threshold.
        SilentThresholdByOne,
        /// Silent events wait for ever.
        SilentNoDelay,
        /// Lent PDUs charge the contract.
        LentCharged,
        /// A lease holds at the instant of its end.
        LeaseAtExpiry,
        /// A lease does not expire.
        LeaseNotExpiring,
        /// A lease is good for any number of PDUs.
        LeaseNotCounted,
        /// Lent PDUs take the conforming reserve.
        ReserveIgnored,
        /// The sustained rate is not looked at.
        SustainedIgnored,
        /// The sustained rate is not charged.
        SustainedNotCharged,
        /// The sustained rate judges low-priority PDUs that it is not for.
        ClpScopeIgnored,
        /// PDUs of low priority take the reserve of those that the sustained rate judges.
        LowPriorityReserveIgnored,
        /// PDUs of low priority keep the adapter's time under overload.
        LowPriorityStays,
        /// A tagged PDU keeps its high priority.
        TagLost,
        /// PDUs beyond the peak rate are charged though tagged.
        TaggedCharged,
        /// PDUs beyond the sustained rate are charged to it though tagged.
        TaggedChargedSustained,
        /// Tagged PDUs take the conforming reserve.
        TagReserveIgnored,
        /// OAM cells with a wrong CRC are believed.
        OamCrcNotChecked,
        /// Best effort has no peak rate.
        PeakForgotten,
        /// VBR sends at its peak rate: the sustained bucket is ignored.
        SustainedNotShaped,
        /// VBR sends at its sustained rate: a burst is never regained.
        BurstNotRegained,
        /// A burst is regained without a bound.
        BurstUnbounded,
        /// Bursts leave at the rate of the line.
        BurstPeakForgotten,
        /// OAM cells are not policed.
        OamUnpoliced,
        /// Loopback cells that are answers are answered.
        AnswersAnswered,
        /// Loopback cells for other points are answered.
        OthersLoopbackAnswered,
        /// The indication of an answer still says request.
        IndicationKept,
        /// An answer is sent as if it were of the other flow.
        AnswerInOtherFlow,
        /// Answers leave in the wrong order.
        AnswersReversed,
        /// OAM flows of a path are not policed.
        PathUnpoliced,
        /// OAM flows of a path outlast its VCs.
        PathKept,
        /// OAM flows of a path outlast the adapter's own test of it.
        TestedPathKept,
        /// OAM flows of a path are looked at though none of its VCs is open.
        EveryPathAnswers,
        /// OAM cells of a VC that only transmits are nobody's.
        TransmitterDeaf,
        /// OAM cells of a VC of port 0 that only transmits are taken from any port.
        TransmitterOnAnyPort,
        /// A loopback cell comes back with any tag.
        ReturnTagIgnored,
        /// A loopback cell comes back in the other flow of its VC.
        ReturnInOtherFlow,
        /// A loopback cell comes back on another port.
        ReturnOnOtherPort,
        /// A loopback request counts as one of the adapter's own come back.
        RequestTakenBack,
        /// A loopback cell may be out for ever.
        LoopbackNotTimed,
        /// All loopback cells carry one tag.
        LoopbackTagKept,
        /// The adapter is never overloaded.
        OverloadIgnored,
        /// The adapter is overloaded one cell early.
        OverloadByOne,
        /// A port that was found empty stays overloaded.
        OverloadStays,
        /// An overloaded port is none to the others.
        OverloadOfOnePort,
        /// Best effort is not let in until the overload ends.
        OverloadUnrelenting,
        /// Guaranteed VCs are refused under overload, too.
        OverloadRefusesAll,
        /// A PDU refused under overload charges the contract.
        OverloadCharged,
        /// ABR gives way under overload as a whole.
        FloorGivesWay,
        /// Under overload ABR is let in without being charged.
        FloorNotCharged,
        /// A wrong CRC-10 of an AAL3/4 cell is believed.
        Crc10NotChecked,
        /// AAL3/4 PDUs are not policed.
        Aal34Unpoliced,
        /// Of an AAL3/4 PDU only the first cell is charged.
        Aal34ChargedOnce,
        /// AAL3/4 PDUs are never late.
        ReassemblyNotTimed,
        /// AAL3/4 PDUs are late though their last cell is there.
        TimeoutBeforeCells,
        /// AAL3/4 cells whose PDU began without the end of the one before are of the wrong length.
        MissingEomAsLength,
        /// The client's tail frees nothing of an AAL3/4 buffer.
        SpaceNotReleased,
        /// The MID of a received PDU is lost.
        MidLost,
        /// Progress is told of all PDUs of a VC together.
        ProgressOfAllMids,
        /// "Queue full" is not told of an AAL3/4 PDU.
        Aal34FullSilent,
        /// A PDU on a lease leaves the lease as it was if it is interleaved with others.
        Aal34LeaseNotCounted,
        /// The MID of a transmit descriptor is lost.
        TransmitMidLost,
        /// All AAL3/4 PDUs are sent with one tag.
        BtagKept,
        /// In new memory nothing is known of the AAL3/4 PDUs that were cut.
        CutPdusForgotten,
        /// The block of the last VC in it is not free when that is closed.
        BlockKept,
        /// Cells held at a close are not counted.
        CloseForgetsHeld,
        /// Commands for an old generation are carried out.
        StaleGeneration,
        /// A modified largest SDU holds for the PDU in progress.
        ModifyMaxSduNow,
        /// A modified rate forgets what was charged.
        ModifyForgivesDebt,
        /// SDUs longer than the contract's are sent.
        TransmitLenUnchecked,
        /// The transmit tail moves when the PDU begins to leave.
        TransmitTailEarly,
        /// The loss priority of a transmit descriptor is lost.
        TransmitClpLost,
        /// UU and CPI of a transmit descriptor are lost.
        TransmitUuLost,
        /// A doorbell rings for VCs of other clients.
        DoorbellUnchecked,
    }
}
