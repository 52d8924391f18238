//! Cells of the Cambridge ring (link type USER0, 147): one octet, ours, before each.
//!
//! ```text
//! octet 0                           1         3                  37
//! +---+---+------+----------+---------+---------+------ ... -----+
//! | T | R | type | response | channel |   VCI   |      data      |
//! +---+---+------+----------+---------+---------+------ ... -----+
//!  1   1   1      1          4         16        272               bits
//! ```
//!
//! T is set on what the host sent, R on what it received; neither: the cell was seen as it passed.

use cellgate_core::wire::CBN_CELL_LEN;

use crate::error::Reason;
use crate::link::Decoded;
use crate::record::{Content, Direction, Marks};

/// Octets of a record: a header and a cell.
pub(crate) const RECORD_LEN: usize = 1 + CBN_CELL_LEN;

const TRANSMIT: u8 = 0x80;
const RECEIVE: u8 = 0x40;
const TYPE: u8 = 0x20;
const RESPONSE: u8 = 0x10;
const CHANNEL: u8 = 0x0f;

/// The bits around a cell in its slot, and its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingHeader {
    /// Which way it went.
    pub direction: Direction,
    /// The bit before the cell in its slot.
    pub type_bit: bool,
    /// The bit behind it: somebody took the cell.
    pub response: bool,
    /// Which of the slots of a frame, from 0 on; at most 15.
    pub channel: u8,
}

impl RingHeader {
    /// From an octet. Any is one.
    pub const fn parse(octet: u8) -> Self {
        Self {
            direction: match octet & (TRANSMIT | RECEIVE) {
                TRANSMIT => Direction::Transmit,
                RECEIVE => Direction::Receive,
                _ => Direction::Unknown,
            },
            type_bit: octet & TYPE != 0,
            response: octet & RESPONSE != 0,
            channel: octet & CHANNEL,
        }
    }

    /// The octet. Of the channel the low four bits count.
    pub const fn emit(self) -> u8 {
        let direction = match self.direction {
            Direction::Transmit => TRANSMIT,
            Direction::Receive => RECEIVE,
            Direction::Unknown => 0,
        };
        let type_bit = if self.type_bit { TYPE } else { 0 };
        let response = if self.response { RESPONSE } else { 0 };
        direction | type_bit | response | self.channel & CHANNEL
    }
}

pub(crate) fn parse(octets: &[u8], missing: usize) -> Result<Decoded, Reason> {
    let wrong = Reason::RingCellLength(octets.len() + missing);
    let (first, cell) = octets.split_first().ok_or(wrong)?;
    let header = RingHeader::parse(*first);
    let octets = cell.try_into().map_err(|_| match missing {
        0 => wrong,
        _ => Reason::TooShort {
            what: "kept ring cell",
            len: octets.len(),
            least: RECORD_LEN,
        },
    })?;
    if missing > 0 {
        return Err(wrong);
    }
    Ok(Decoded {
        direction: header.direction,
        content: Content::RingCell { header, octets },
        missing: 0,
        marks: Marks::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_octet_but_one_that_goes_both_ways_comes_back() {
        for octet in 0..=u8::MAX {
            let both = TRANSMIT | RECEIVE;
            let wanted = match octet & both {
                ways if ways == both => octet & !both,
                _ => octet,
            };
            assert_eq!(RingHeader::parse(octet).emit(), wanted);
        }
    }

    #[test]
    fn a_record_is_of_37_octets() {
        assert!(parse(&[0x81; 37], 0).is_ok());
        for (len, missing) in [(0, 0), (1, 0), (36, 0), (38, 0), (37, 1), (36, 1)] {
            assert!(parse(&vec![0; len], missing).is_err(), "{len} {missing}");
        }
    }
}
