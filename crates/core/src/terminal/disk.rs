//! The disk layer: what is said of a disk-PDU in its first cell, and in its last.
//!
//! ```text
//! octet 0                       4                       8                      16
//! header +-----------------------+-----------------------+-----------------------+
//!        |         index         | E |      length       |        offset         |
//!        +-----------------------+-----------------------+-----------------------+
//! tail   | digest, 32 octets                                                     |
//!        +-----------------------------------------------------------------------+
//! ```
//!
//! Of AAL3/4 the header of 16 octets ends exactly with the first cell: 4 of the CPCS, 24 of the
//! PCI, and these are 44.

use crate::aal::tree::Lengths;

use super::Pci;

/// The header of a disk-PDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskHeader {
    /// Disk-PDUs of the file before this one.
    pub index: u32,
    /// The file ends with it.
    pub is_end: bool,
    /// Octets of the file in it, holes among them; at most 2^24.
    pub length: u32,
    /// Octets of the file before it.
    pub offset: u64,
}

impl DiskHeader {
    /// Octets of the header.
    pub const LEN: usize = 16;
    /// Octets of the tail: a digest.
    pub const TAIL: usize = 32;
    /// Lengths of what is around the payload of a terminal's PDUs.
    pub const LENGTHS: Lengths = Lengths {
        pci: Pci::LEN as u8,
        header: Self::LEN as u8,
        tail: Self::TAIL as u8,
    };
    /// Octets of a disk-PDU: the least and the most, both powers of two.
    pub const SHORTEST: u32 = 1 << 16;
    pub const LONGEST: u32 = 1 << 24;
    const END: u32 = 1 << 31;

    /// From its octets; none if it says a length that no disk-PDU has.
    pub fn parse(octets: &[u8; Self::LEN]) -> Option<Self> {
        let [i0, i1, i2, i3, l0, l1, l2, l3, offset @ ..] = *octets;
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        let header = Self {
            index: u32::from_be_bytes([i0, i1, i2, i3]),
            is_end: length & Self::END != 0,
            length: length & !Self::END,
            offset: u64::from_be_bytes(offset),
        };
        (header.length <= Self::LONGEST).then_some(header)
    }

    /// Its octets.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        let end = if self.is_end { Self::END } else { 0 };
        octets[..4].copy_from_slice(&self.index.to_be_bytes());
        octets[4..8].copy_from_slice(&(self.length | end).to_be_bytes());
        octets[8..].copy_from_slice(&self.offset.to_be_bytes());
        octets
    }
}
