/// The first octet of an AAL2 cell: the start field of the CPS-PDU (I.363.2).
///
/// ```text
///   0   1   2   3   4   5    6    7
/// +------------------------+----+---+
/// |          OSF           | SN | P |   P: odd parity over the whole octet
/// +------------------------+----+---+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StartField {
    /// Offset: octets from here to the first packet that begins in this cell; 47 if none does.
    pub osf: u8,
    /// Sequence number, modulo 2.
    pub sn: bool,
}

impl StartField {
    /// The largest offset a cell has room for.
    pub const OSF_MAX: u8 = 47;

    /// From the octet, and whether its parity is right and its offset lies in the cell.
    pub const fn parse(octet: u8) -> (Self, bool) {
        let value = Self {
            osf: octet >> 2,
            sn: octet & 2 != 0,
        };
        let valid = octet.count_ones() & 1 == 1 && value.osf <= Self::OSF_MAX;
        (value, valid)
    }

    /// The octet. Of `osf` the low six bits count.
    pub const fn emit(self) -> u8 {
        let octet = self.osf << 2 | (self.sn as u8) << 1;
        octet | octet.count_ones() as u8 & 1 ^ 1
    }
}

/// The header of an AAL2 packet: CPS-PH (I.363.2).
///
/// ```text
///  0          7 8       13 14     18 19     23
/// +------------+----------+---------+---------+
/// |    CID     |    LI    |   UUI   |   HEC   |   HEC: x^5 + x^2 + 1 over the 19 bits before it
/// +------------+----------+---------+---------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpsPacketHeader {
    /// Channel identifier: 0 is padding, 1 layer management, 8 to 255 users.
    pub cid: u8,
    /// Length indicator: octets of the packet's payload, less one.
    pub li: u8,
    /// User-to-user indication: 0 to 27 of the service above, 30 and 31 of layer management.
    pub uui: u8,
}

impl CpsPacketHeader {
    /// Octets of the header.
    pub const LEN: usize = 3;

    /// From three octets, and whether their HEC is right.
    pub const fn parse(octets: [u8; Self::LEN]) -> (Self, bool) {
        let [cid, second, third] = octets;
        let value = Self {
            cid,
            li: second >> 2,
            uui: (second & 3) << 3 | third >> 5,
        };
        let [.., expected] = value.emit();
        (value, expected == third)
    }

    /// The three octets. Of `li` and `uui` the low six and five bits count.
    pub const fn emit(self) -> [u8; Self::LEN] {
        let bits = (self.cid as u32) << 16 | (self.li as u32 & 0x3f) << 10;
        let bits = bits | (self.uui as u32 & 0x1f) << 5;
        let mut remainder = bits;
        let mut bit = 23;
        while bit >= 5 {
            if remainder & 1 << bit != 0 {
                remainder ^= 0b10_0101 << (bit - 5);
            }
            bit -= 1;
        }
        let [_, cid, second, third] = (bits | remainder).to_be_bytes();
        [cid, second, third]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// x^5 + x^2 + 1, one bit after the other through a register.
    fn hec5(cid: u8, li: u8, uui: u8) -> u8 {
        let bits = u32::from(cid) << 11 | u32::from(li) << 5 | u32::from(uui);
        (0..19).rev().fold(0, |register, bit| {
            let out = register >> 4 ^ (bits >> bit) as u8 & 1;
            (register << 1 & 0x1f) ^ (out * 0b101)
        })
    }

    #[test]
    fn start_fields_have_odd_parity_and_point_into_the_cell() {
        for osf in 0..64 {
            for sn in [false, true] {
                let field = StartField { osf, sn };
                let octet = field.emit();
                assert_eq!(octet.count_ones() % 2, 1);
                assert_eq!(StartField::parse(octet), (field, osf <= 47));
                for bit in 0..8 {
                    assert!(!StartField::parse(octet ^ 1 << bit).1);
                }
            }
        }
    }

    #[test]
    fn every_wrong_bit_or_pair_of_bits_in_a_packet_header_is_found() {
        for (cid, li, uui) in [(0, 0, 0), (8, 44, 27), (255, 63, 31), (0x5a, 0x15, 9)] {
            let header = CpsPacketHeader { cid, li, uui };
            let octets = header.emit();
            assert_eq!(octets[2] & 0x1f, hec5(cid, li, uui));
            assert_eq!(CpsPacketHeader::parse(octets), (header, true));
            let word = u32::from_be_bytes([0, octets[0], octets[1], octets[2]]);
            for one in 0..24 {
                for other in 0..=one {
                    let [_, a, b, c] = (word ^ 1 << one ^ 1 << other).to_be_bytes();
                    let (_, valid) = CpsPacketHeader::parse([a, b, c]);
                    assert_eq!(valid, one == other);
                }
            }
            for one in 0..24 {
                let [_, a, b, c] = (word ^ 1 << one).to_be_bytes();
                assert!(!CpsPacketHeader::parse([a, b, c]).1);
            }
        }
    }
}
