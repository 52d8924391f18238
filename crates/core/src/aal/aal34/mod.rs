//! AAL3/4 (I.363.3): the CPCS-PDU is the SDU, 0 to 3 octets of pad, a header and a trailer, in
//! cells of 44 octets each. PDUs with different MIDs are interleaved on one VC.
//!
//! ```text
//! +-----+------+--------+-------------- ... ---+-----+----+------+--------+
//! | CPI | Btag | BAsize |         SDU          | pad | AL | Etag | length |
//! +-----+------+--------+-------------- ... ---+-----+----+------+--------+
//!  1     1      2        1 to 65,535 octets     0-3   1    1      2         a multiple of 4
//! ```
//!
//! The receiver has no CRC over the PDU: what finds lost cells is SN, the tags and the length, and
//! sixteen lost cells in a row between cells of one MID change no SN.

mod discard;
mod mids;
mod outcome;
mod reassembler;
mod segmenter;
mod space;

pub use discard::Discard;
pub use outcome::{Failed, InProgress, Limits, Outcome, Received, Verdict};
pub use reassembler::Reassembler;
pub use segmenter::Segmenter;

use crate::wire::{CpcsHeader, CpcsTrailer, SAR_PAYLOAD_LEN};

/// Pad makes SDUs a multiple of this.
const PAD_TO: u32 = 4;

/// Octets of an SDU in the first cell of more than one.
const FIRST_LEN: usize = SAR_PAYLOAD_LEN - CpcsHeader::LEN;

/// Cells of the PDU of an SDU of `sdu_len` octets.
pub const fn cells(sdu_len: u16) -> u16 {
    let frame = (CpcsHeader::LEN + CpcsTrailer::LEN) as u32;
    let octets = frame + (sdu_len as u32).next_multiple_of(PAD_TO);
    octets.div_ceil(SAR_PAYLOAD_LEN as u32) as u16
}
