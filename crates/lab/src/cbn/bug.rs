/// Bugs on purpose.
macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// A bug in the ring, its stations or their hosts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CbnBug {
            $($(#[doc = $doc])+ $name,)+
        }

        impl CbnBug {
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

bugs! {
    /// A source leaves every fifth of its slots full.
    SlotKept,
    /// The destination empties the slot.
    FreedByDestination,
    /// A station says that it has taken what it has not.
    ResponseWithoutTaking,
    /// A station takes a cell and does not say so.
    ResponseUnset,
    /// A station has one slot more on the ring than it may.
    OneTooManyOutstanding,
    /// The monitor empties what passes it once.
    MonitorClearsLive,
    /// The monitor empties nothing.
    MonitorSleeps,
    /// A source fills the slot that it has emptied.
    ReusedAtOnce,
    /// A station fills a full slot now and then.
    FullSlotFilled,
    /// The time of a frame is a whole number of picoseconds.
    FrameTimeRounded,
    /// A source empties only what it recognizes.
    SourceLooksIntoSlots,
    /// A frame that is lost loses the slot of its first channel.
    FrameLostInPart,
    /// A station takes what passes on the channel beside its own.
    WrongChannel,
    /// A station takes cells of all circuits.
    AnyCircuit,
    /// A station compares the low octets of circuits.
    CircuitByOctet,
    /// The receive FIFO has a place more.
    FifoOf257,
    /// The receive FIFO has a place less.
    FifoOf255,
    /// A cell that finds the FIFO full is taken, and the oldest is lost.
    OldestLost,
    /// A cell that finds the FIFO full is written beyond it.
    OverflowWritten,
    /// A cell that finds the FIFO full keeps a place from then on.
    OverflowKeepsPlace,
    /// A cell's place is free when its first word has left.
    PlaceFreedEarly,
    /// Every ninth cell's place stays taken when it has left.
    PlaceKept,
    /// The host's accesses to the RAM come first.
    HostBeforeRing,
    /// Cells that leave have the RAM before those that come.
    TransmitBeforeReceive,
    /// What the host reads comes before what it writes, whichever waited longer.
    ReadsBeforeWrites,
    /// A word that the ring brings takes half a cycle.
    AccessInHalfACycle,
    /// The RAM has the second and third word of a cell the other way about.
    WordsSwapped,
    /// The last word of a cell that leaves is the one before it.
    WordDoubled,
    /// The access chip sends a cell that lacks its last word.
    SentUnfinished,
    /// The words of a cell that comes are there when its front is.
    ArrivesWhole,
    /// Every cell interrupts.
    InterruptsForAll,
    /// A block's first cell does not interrupt.
    FirstMissed,
    /// The last cell is that of Sequence 0.
    LastAtSequenceZero,
    /// Of first and last, a cell interrupts that is both.
    BothAsEither,
    /// A cell interrupts again though nobody has heard the one before.
    InterruptUnmasked,
    /// A cell that has left interrupts.
    TransmitInterrupts,
    /// The DMA copies all nine words.
    DmaOfNineWords,
    /// Who asks during a copy has the next one.
    NoBusError,
    /// The bus is not locked during a copy.
    BusUnlocked,
    /// A bus error is not counted.
    BusErrorUncounted,
    /// An interrupt is acknowledged when the handler ends though cells are there.
    AcknowledgedLate,
    /// The time of an interrupt is charged twice.
    ChargedTwice,
    /// A cell that comes costs no time.
    CellForNothing,
    /// The handler dallies twice as long.
    DallyDoubled,
    /// The receive software is that of another stage.
    OtherStage,
    /// A block leaves on the channel on which its sender receives.
    ChannelOfSender,
    /// The last cell of a block is written twice.
    CellTwice,
    /// The second cell of a block is not written.
    CellLeftOut,
    /// All blocks have one identifier.
    RidForgotten,
    /// A receiver does not look at identifiers.
    RidIgnored,
    /// The count of octets is that of the octet before.
    CountOctetEarly,
    /// All octets of a cell are its block's.
    PartIgnored,
    /// A block is handed on twice.
    BlockTwice,
    /// Of blocks that wait the last is handed on first.
    BlocksFromBehind,
    /// A block is handed on without its last octet.
    BlockCutShort,
    /// Interrupts come first though the order is in turn.
    NeverInTurn,
    /// A host that is stopped goes on.
    StopIgnored,
    /// An interrupt that is lost is heard.
    LostInterruptHeard,
    /// A slot that is stuck full is empty when somebody has emptied it.
    StuckSlotFreed,
    /// A station that was reset still empties the slots that it has filled.
    ResetKeepsSlots,
    /// A station that was reset still has the cells that it has received.
    ResetKeepsCells,
    /// A station that was reset still interrupts.
    ResetKeepsInterrupt,
    /// A late copy of a call that has ended, and below which all have, is executed.
    ExecutedTwice,
    /// A caller that hears nothing waits for ever.
    SilenceNotTold,
    /// A reply has the octets of its call.
    OtherReply,
    /// A node that begins anew has its predecessor's number.
    IncarnationKept,
    /// A Connect that nobody answers has no end.
    SilenceKept,
    /// Associations that nobody uses do not end.
    AssociationLeft,
    /// A circuit is another association's as soon as one has ended.
    VciReusedAtOnce,
    /// A run begins where another has ended.
    RunRemembers,
}
