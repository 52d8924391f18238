use serde::{Deserialize, Serialize};

use super::Discard;

/// What one VC may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// PDUs in progress at once, each with a MID of its own. Finding one costs a look at each.
    pub mids: u16,
    /// Octets of the largest SDU.
    pub max_sdu: u16,
    /// From a PDU's BOM to its EOM; then it is given up, or one lost EOM would keep the space of
    /// everything behind it for ever. 0 for no limit.
    pub timeout_ns: u64,
    /// Octets of the receive buffer.
    pub buffer_len: u32,
    /// Of the receive queue.
    pub descriptors: u32,
}

/// A complete PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Of the SDU: octets of receive buffer ever passed before it, a multiple of 64.
    pub position: u64,
    /// Octets of the SDU, at least one.
    pub len: u16,
    /// Cells of the PDU.
    pub cells: u16,
    /// Multiplexing identification.
    pub mid: u16,
    /// Cells of the PDU with low priority (CLP 1).
    pub cells_clp1: u16,
}

/// A PDU in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InProgress {
    /// Cells held.
    pub cells: u16,
    /// What the caller let it bear; 0 before.
    pub mark: u8,
}

/// A PDU that was in progress and is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Multiplexing identification.
    pub mid: u16,
    pub reason: Discard,
    /// Cells that were held: they are discarded for this reason.
    pub cells: u16,
}

/// What became of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Held in a PDU in progress.
    Held,
    /// It completed a PDU.
    Delivered(Received),
    /// Thrown away, and with it the PDU that begins with it.
    Refused(Discard),
    /// Thrown away. If a PDU was in progress that fails by it, [`Outcome::failed`] says so.
    Discarded(Discard),
}

/// What a cell did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The PDU in progress on the cell's MID, if the cell ended it without completing it.
    pub failed: Option<Failed>,
    /// What became of the cell itself.
    pub cell: Verdict,
}

impl Outcome {
    pub(super) const fn of(cell: Verdict) -> Self {
        Self { failed: None, cell }
    }
}
