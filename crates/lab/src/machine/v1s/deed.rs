use cellgate_core::upper::msna::Notify;
use cellgate_core::wire::CbnCell;

use super::Word;
use crate::world::Ps;

/// Whose access to the RAM it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accessed {
    RingReceive,
    /// Of a channel.
    RingTransmit(u8),
    /// For a channel.
    HostWrite(u8),
    HostRead,
}

/// A deed of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A cell of one of its circuits; one that finds the FIFO full is lost.
    Passes {
        at: Ps,
        cell: CbnCell,
        is_full: bool,
    },
    /// A cell that is whole since some time leaves.
    Fills {
        at: Ps,
        channel: u8,
        since: Ps,
        cell: CbnCell,
    },
    FalseCell {
        at: Ps,
        channel: u8,
    },
    /// A cycle of the RAM.
    Access {
        begun: Ps,
        access: Accessed,
        word: Word,
    },
    Interrupts {
        at: Ps,
    },
    /// By the host: a word, at the time at which it is at the port.
    Wrote {
        at: Ps,
        channel: u8,
        word: Word,
    },
    Read {
        at: Ps,
        word: Word,
    },
    Acknowledged {
        at: Ps,
    },
    /// A circuit is the host's from here on, with the cells that interrupt; none: it is nobody's.
    Listens {
        at: Ps,
        vci: u16,
        notify: Option<Notify>,
    },
}
