use serde::{Deserialize, Serialize};

use crate::machine::v1s::{HostCosts, V1sSpec};
use crate::world::Ps;

/// The order of interrupts and sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// At once.
    #[default]
    InterruptFirst,
    /// Never: a block that is there is read when one has been sent, and one is sent when one has
    /// been read.
    InTurn,
}

/// The interface that copies cells by itself (section 7): all but the first word of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dma {
    /// Until it has the bus.
    pub arbitration: Ps,
    /// Of each word.
    pub word: Ps,
    /// Nobody else has the bus until a cell is copied. Otherwise who asks for the next too early
    /// gets a bus error, and the cell is lost.
    pub locks: bool,
}

impl Dma {
    /// 7.4 us for a cell, of which 0.3 are arbitration.
    pub const PAPER: Self = Self {
        arbitration: Ps::from_ns(300),
        word: Ps::new(887_500),
        locks: true,
    };

    /// The time of a cell.
    pub const fn cell(&self) -> Ps {
        let words = V1sSpec::WORDS as u64 - 1;
        self.arbitration.plus(Ps::new(self.word.ps() * words))
    }
}

/// A host's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSpec {
    pub costs: HostCosts,
    /// How long the handler waits for another cell before it ends.
    pub dally: Ps,
    pub order: Order,
    /// Copies cells that are sent; none: the CPU does.
    pub dma: Option<Dma>,
}
