use cellgate_core::upper::msna::Work;

use crate::world::Ps;

/// What a host spends its time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// An interrupt, until the handler looks for a cell.
    Interrupt,
    Work(Work),
    /// A block that is sent, and one that is received, beside their work.
    SentBlock,
    ReceivedBlock,
    /// Words to the station and from it.
    Word,
    /// The station has no room for a word, or has none yet.
    Waits,
    /// Looks for a cell while it dallies.
    Looks,
    /// The DMA has the bus.
    Dma,
    /// The application's own work.
    Application,
    /// An interface that takes time to start, beside words.
    Starts,
}

impl Charge {
    const COUNT: usize = 16;

    const fn index(self) -> usize {
        match self {
            Self::Interrupt => 0,
            Self::SentBlock => 1,
            Self::ReceivedBlock => 2,
            Self::Word => 3,
            Self::Waits => 4,
            Self::Looks => 5,
            Self::Dma => 6,
            Self::Work(Work::TransmitCall) => 7,
            Self::Work(Work::CheckBroadcast) => 8,
            Self::Work(Work::SelectChannel) => 9,
            Self::Work(Work::TransmitCell) => 10,
            Self::Work(Work::ReceiveCall) => 11,
            Self::Work(Work::LookUp) => 12,
            Self::Work(Work::ReceiveCell) => 13,
            Self::Application => 14,
            Self::Starts => 15,
        }
    }
}

/// The time that a host has spent, and how often, by what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charges([(u64, Ps); Charge::COUNT]);

impl Charges {
    pub(in crate::machine) fn spend(&mut self, charge: Charge, span: Ps) {
        let (times, spent) = &mut self.0[charge.index()];
        *times += 1;
        *spent = spent.plus(span);
    }

    pub(in crate::machine) fn add(&mut self, other: &Self) {
        for ((times, spent), (more, span)) in self.0.iter_mut().zip(other.0) {
            *times += more;
            *spent = spent.plus(span);
        }
    }

    /// How often, and how much in all.
    pub const fn of(&self, charge: Charge) -> (u64, Ps) {
        self.0[charge.index()]
    }

    /// All of it.
    pub fn total(&self) -> Ps {
        let spans = self.0.iter().map(|(_, spent)| *spent);
        spans.fold(Ps::ZERO, Ps::plus)
    }
}
