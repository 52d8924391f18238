//! MSSAR, the Multi-Service Segmentation and Reassembly of the Cambridge networks (Greaves,
//! Zielinski 1991): a block in cells of D octets each, as many as the network's own cells carry.
//!
//! ```text
//!   block of 70 octets, D = 32
//!   +-- 3 --+----------+ +-- 2 --+----------+ +-- 1 --+------+------ ... --+---+
//!   | Start | 0 to 31  | |       | 32 to 63 | | Part  | 64.. | zeros        | 6 |
//!   +-------+----------+ +-------+----------+ +-------+------+------ ... --+---+
//! ```
//!
//! The first cell says how many there are, and each how many are left. No check goes with a block:
//! a receiver finds a lost cell by the count, and believes the octets.

mod discard;
mod reassembler;
mod segmenter;

pub use discard::Discard;
pub use reassembler::{Block, Failed, Limits, Outcome, Reassembler, Verdict};
pub use segmenter::Segmenter;

/// Cells of the longest block.
pub const CELLS_MAX: u8 = u8::MAX;

/// Octets of the longest block in cells of `data_len` octets.
pub const fn block_max(data_len: u8) -> u16 {
    CELLS_MAX as u16 * data_len as u16
}

/// Cells of a block of `len` octets, `data_len` octets in each; none: no block is so long.
///
/// A block of no octets is one cell.
pub const fn cells(len: usize, data_len: u8) -> Option<u8> {
    match data_len {
        0 => None,
        _ if len > block_max(data_len) as usize => None,
        _ if len == 0 => Some(1),
        _ => Some(len.div_ceil(data_len as usize) as u8),
    }
}
