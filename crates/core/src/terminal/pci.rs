//! The header that the terminal puts at the front of each CPCS-SDU, with a check of its own.
//!
//! ```text
//! octet 0      1            4           6           8
//! +----+----+--------------+-----------+-----------+------------------------+
//! |  1 |kLF |   sequence   | transfer  |  serial   |          run           |
//! +----+----+--------------+-----------+-----------+------------------------+ 12
//! |                    offset                      |  length   |   check    |
//! +------------------------------------------------+-----------+------------+ 24
//!   k: kind (2 bits), L: last, F: first; most significant octets first
//! ```
//!
//! AAL5 checks a PDU when its last cell is there, and by then its payload lies where the header
//! said. So the header answers for itself: CRC-16 of the 22 octets before it, with the generator
//! of ITU-T V.41, x^16 + x^12 + x^5 + 1, and a register at first all ones, so that zeros do not
//! check. It finds any three wrong bits and any burst of 16. The CRC-10 of the cells has the right
//! length for one cell, but lets one of 1,024 headers of noise pass, this one of 65,536; and a
//! register of another generator than AAL5's CRC-32 has, so that one does not vouch for the other.

use crate::aal::tree::Place;

/// The kind of the octets behind a PCI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A part of a disk-PDU: payload, with the disk layer's header before it and tail behind it
    /// where the PDU is the first or the last.
    Data,
    /// What the terminals say to each other.
    Control,
}

/// The header of a CPCS-SDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pci {
    /// What is behind it.
    pub kind: Kind,
    /// Where the PDU stands in its disk-PDU.
    pub place: Place,
    /// Whose the PDU is, of all transfers on the VC.
    pub transfer: u16,
    /// Which run of the sender: what an earlier one sent is of no use.
    pub run: u32,
    /// PDUs of this transfer and run before this one, modulo 2^24. A PDU that is sent again keeps
    /// its number.
    pub sequence: u32,
    /// Times that PDUs of this transfer and run were sent before this time, modulo 2^16. A VC keeps
    /// order, so a PDU tells by it what was lost before.
    pub serial: u16,
    /// Octets of the file before the payload.
    pub offset: u64,
    /// Octets of payload, those of the disk layer not among them.
    pub length: u16,
}

/// What is wrong with a header; the first of these in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PciError {
    /// Octets changed, or it never was one.
    #[error("the header's check does not match")]
    Check,
    /// Of another version, or with a kind that this one does not know.
    #[error("a version or kind that is not known")]
    Unknown,
}

impl Pci {
    /// Octets of the header.
    pub const LEN: usize = 24;
    /// The version that [`Pci::emit`] writes, and the only one that is read.
    pub const VERSION: u8 = 1;
    /// A PDU's number on the wire is modulo this.
    pub const SEQUENCES: u32 = 1 << 24;
    /// Flag of the first PDU of a disk-PDU.
    const FIRST: u8 = 1;
    /// Flag of the last PDU of a disk-PDU.
    const LAST: u8 = 2;

    /// Where the payload ends in the file; none if no file is so long.
    pub const fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.length as u64)
    }

    /// From 24 octets.
    pub fn parse(octets: &[u8; Self::LEN]) -> Result<Self, PciError> {
        let (before, check) = octets.split_at(Self::LEN - 2);
        if crc16(before).to_be_bytes() != check {
            return Err(PciError::Check);
        }
        let [first, s0, s1, s2, t0, t1, n0, n1, rest @ ..] = *octets;
        let [r0, r1, r2, r3, o0, o1, o2, o3, o4, o5, o6, o7, rest @ ..] = rest;
        let [l0, l1, _, _] = rest;
        let kind = match first >> 2 ^ Self::VERSION << 2 {
            0 => Kind::Data,
            1 => Kind::Control,
            _ => return Err(PciError::Unknown),
        };
        Ok(Self {
            kind,
            place: Place::new(first & Self::FIRST != 0, first & Self::LAST != 0),
            transfer: u16::from_be_bytes([t0, t1]),
            run: u32::from_be_bytes([r0, r1, r2, r3]),
            sequence: u32::from_be_bytes([0, s0, s1, s2]),
            serial: u16::from_be_bytes([n0, n1]),
            offset: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            length: u16::from_be_bytes([l0, l1]),
        })
    }

    /// The 24 octets. Of `sequence` 24 bits count.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        let first = Self::FIRST * u8::from(self.place.is_first());
        let last = Self::LAST * u8::from(self.place.is_last());
        let control = u8::from(self.kind == Kind::Control);
        octets[..4].copy_from_slice(&self.sequence.to_be_bytes());
        octets[0] = Self::VERSION << 4 | control << 2 | first | last;
        octets[4..6].copy_from_slice(&self.transfer.to_be_bytes());
        octets[6..8].copy_from_slice(&self.serial.to_be_bytes());
        octets[8..12].copy_from_slice(&self.run.to_be_bytes());
        octets[12..20].copy_from_slice(&self.offset.to_be_bytes());
        octets[20..22].copy_from_slice(&self.length.to_be_bytes());
        let check = crc16(&octets[..22]);
        octets[22..].copy_from_slice(&check.to_be_bytes());
        octets
    }
}

/// What an octet leaves behind.
static REMAINDERS: [u16; 256] = remainders();

const fn remainders() -> [u16; 256] {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < 256 {
        let mut register = (octet as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = register & 0x8000 != 0;
            register <<= 1;
            if carry {
                register ^= 0x1021;
            }
            bit += 1;
        }
        table[octet] = register;
        octet += 1;
    }
    table
}

/// CRC-16 with the generator x^16 + x^12 + x^5 + 1 and a register at first all ones.
fn crc16(octets: &[u8]) -> u16 {
    octets.iter().fold(u16::MAX, |register, octet| {
        let [high, low] = register.to_be_bytes();
        u16::from_be_bytes([low, 0]) ^ REMAINDERS[usize::from(high ^ octet)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_crc_comes_out() {
        assert_eq!(crc16(b"123456789"), 0x29b1);
        assert_eq!(crc16(b""), 0xffff);
    }
}
