use cellgate_core::upper::msna::To;
use cellgate_core::wire::CBN_CELL_LEN;

use super::super::Circuits;
use crate::world::Ps;

/// A block that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub vci: u16,
    /// The channel on which its destination receives, or all.
    pub to: To,
    pub octets: Vec<u8>,
}

/// The work of a host beside its network.
pub trait Application {
    /// The CPU is free: a block to send.
    fn idle(&mut self, at: Ps) -> Option<Outgoing>;

    /// The CPU is free and no block is to be sent: a slice of the application's own work, which
    /// is done by then. Between two slices it hears of blocks that come.
    fn works(&mut self) -> Ps {
        Ps::ZERO
    }

    /// A block has left: its last word is on its way to the RAM.
    fn sent(&mut self, at: Ps);

    /// A block has come.
    fn received(&mut self, at: Ps, vci: u16, block: &[u8]);

    /// The highest circuit that it may open, and how long one rests when it has been closed; none:
    /// it opens none.
    fn room(&self) -> Option<(u16, Ps)> {
        None
    }

    /// The CPU is free: circuits may come and go.
    fn circuits(&mut self, _: Ps, _: &mut Circuits<'_>) {}

    /// A cell has come. Whether it takes the cell: no block is made of it.
    fn takes_cell(&mut self, _at: Ps, _cell: &[u8; CBN_CELL_LEN]) -> bool {
        false
    }

    /// The CPU is free: a cell that goes on, and the channel on which it does.
    fn passes_on(&mut self, _at: Ps) -> Option<(u8, [u8; CBN_CELL_LEN])> {
        None
    }

    /// When it has a block to send though nothing comes; none: it has none by itself.
    fn due(&self) -> Ps {
        Ps::MAX
    }
}
