//! Bugs of the world itself: an oracle that lets one of them pass has its eyes shut.

macro_rules! canaries {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// A bug that a run can be told to have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Canary {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Canary {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

canaries! {
    /// A line loses cells and says nothing.
    LineLoses,
    /// A line damages payloads and says nothing.
    LineDamages,
    /// A line delivers a cell twice and says nothing.
    LineRepeats,
    /// A receive FIFO loses cells and says nothing.
    FifoLoses,
    /// A switch sends the cells of one VC as those of another.
    SwitchConfuses,
    /// A switch puts a cell before the one that came before it.
    SwitchReorders,
    /// A line is longer than it was said to be.
    LineLong,
    /// A source sends faster than it was told.
    SourceHurries,
    /// A source sends slower than it was told where others do harm.
    SourceYields,
    /// The same, but only where an adapter stands still meanwhile.
    YieldsToStalls,
    /// A source sends slower than it was told.
    SourceSlows,
    /// A reader does not look at what is none of its source's.
    ReaderDozes,
    /// A reader does not give back what it has read.
    ReaderKeeps,
    /// A client is not woken.
    WakeUpLost,
    /// A client runs when it should not have been woken.
    WakeUpInvented,
    /// An adapter does not wake up when cells come.
    StepLost,
    /// An adapter takes more cells in a step than it was told.
    StepUnbounded,
    /// An adapter sends at twice the rate of a contract.
    ShaperHurries,
    /// Best effort is held to an eighth of its line.
    RestWithheld,
    /// What a client writes where it should not lands in another's memory, too.
    WriteSpills,
    /// A client runs 0.3 ms later than it should.
    WakeUpLate,
    /// A host whose clients are not run keeps them from running for 3 ms longer than it was told.
    StallLasts,
    /// Faults go on after the healing.
    HealForgotten,
    /// A host forgets commands that find the adapter's queue full.
    CommandDropped,
    /// A VC is not closed at the end.
    CloseForgotten,
    /// A run panics.
    RunPanics,
    /// A run depends on what was run before.
    RunRemembers,
    /// A run counts more events than the one before.
    RunCounts,
}
