//! The data controller (*High Performance ATM Terminals*, sections 2.2 and 3.1): moves the pieces
//! of each cell, or of each SDU, to their places, and out of them. Whose each is, the composition
//! tree says by one look-up; nothing here asks it again.

mod cpcs;
mod demultiplexer;
mod multiplexer;
mod sdus;

pub use demultiplexer::{Demultiplexer, Outcome};
pub use multiplexer::Multiplexer;

use super::buffers::{ReceiveBuffer, Store};

/// The transfers that a receiver has in progress.
pub trait Transfers {
    /// Where their payload goes.
    type Store: Store;

    /// The buffer of the transfer with this number. It is asked for once a cell.
    fn buffer(&mut self, transfer: u16) -> Option<&mut ReceiveBuffer<Self::Store>>;
}

/// One alone.
impl<S: Store> Transfers for ReceiveBuffer<S> {
    type Store = S;

    #[inline(always)]
    fn buffer(&mut self, transfer: u16) -> Option<&mut Self> {
        (self.terms().transfer == transfer).then_some(self)
    }
}
