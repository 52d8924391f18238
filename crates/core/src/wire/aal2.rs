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

/// What an AAL2 cell held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpsUnit<'a> {
    /// A packet, header and all, which this cell completes; its HEC is right or not.
    Packet(&'a [u8]),
    /// So many octets of a packet whose rest is not here: cells are missing.
    Part(usize),
    /// So many octets before the first packet whose beginning is not here.
    Strays(usize),
    /// So many octets of padding at the end.
    Padding(usize),
    /// So many octets behind a packet header whose HEC is wrong: no packet can be found in them.
    Unreadable(usize),
}

/// Puts the CPS packets of one VC together from its cells (I.363.2 clause 9).
#[derive(Clone, Copy, Debug)]
pub struct CpsReceiver {
    packet: [u8; CpsPacketHeader::LEN + 64],
    /// Octets of the packet in progress.
    len: usize,
    expected_sn: Option<bool>,
}

impl Default for CpsReceiver {
    fn default() -> Self {
        Self {
            packet: [0; CpsPacketHeader::LEN + 64],
            len: 0,
            expected_sn: None,
        }
    }
}

impl CpsReceiver {
    /// Tells of each unit of a cell in turn; whether its sequence number is the one due. What comes
    /// behind a wrong start field is not read.
    pub fn receive(&mut self, cell: &[u8; 48], mut told: impl FnMut(CpsUnit<'_>)) -> bool {
        let [first, octets @ ..] = cell;
        let (start, valid) = StartField::parse(*first);
        let in_order = self.expected_sn.is_none_or(|sn| sn == start.sn);
        if !valid {
            self.expected_sn = None;
            self.give_up(&mut told);
            return true;
        }
        self.expected_sn = Some(!start.sn);
        if !in_order {
            self.give_up(&mut told);
        }
        let (before, after) = octets.split_at(start.osf.into());
        // Without a packet in progress these are of one whose beginning is not here, or padding.
        let rest = match self.len {
            0 => before,
            _ => self.fill(before, &mut told),
        };
        if usize::from(start.osf) < octets.len() {
            // A packet begins here, whatever the one before says of its length.
            self.give_up(&mut told);
        }
        match rest {
            [] => {}
            _ if rest.iter().all(|octet| *octet == 0) => told(CpsUnit::Padding(rest.len())),
            _ => told(CpsUnit::Strays(rest.len())),
        }
        self.packets(after, &mut told);
        in_order
    }

    /// Octets of a packet in progress.
    pub const fn held(&self) -> usize {
        self.len
    }

    fn packets(&mut self, octets: &[u8], told: &mut impl FnMut(CpsUnit<'_>)) {
        let mut rest = octets;
        while let Some(cid) = rest.first() {
            if *cid == 0 {
                return told(CpsUnit::Padding(rest.len()));
            }
            let header = rest
                .first_chunk()
                .map(|octets| CpsPacketHeader::parse(*octets));
            if let Some((_, false)) = header {
                told(CpsUnit::Packet(&rest[..CpsPacketHeader::LEN]));
                if rest.len() > CpsPacketHeader::LEN {
                    told(CpsUnit::Unreadable(rest.len() - CpsPacketHeader::LEN));
                }
                return;
            }
            rest = self.fill(rest, told);
        }
    }

    /// Adds octets to the packet in progress, or begins one with them; what is behind its end.
    fn fill<'a>(&mut self, octets: &'a [u8], told: &mut impl FnMut(CpsUnit<'_>)) -> &'a [u8] {
        let mut rest = octets;
        while let Some((octet, after)) = rest.split_first() {
            self.packet[self.len] = *octet;
            self.len += 1;
            rest = after;
            if self.is_whole() {
                told(CpsUnit::Packet(&self.packet[..self.len]));
                self.len = 0;
                break;
            }
        }
        rest
    }

    fn is_whole(&self) -> bool {
        let header = self
            .packet
            .first_chunk()
            .filter(|_| self.len >= CpsPacketHeader::LEN);
        header.is_some_and(|octets| {
            let (header, _) = CpsPacketHeader::parse(*octets);
            self.len == CpsPacketHeader::LEN + usize::from(header.li) + 1
        })
    }

    fn give_up(&mut self, told: &mut impl FnMut(CpsUnit<'_>)) {
        if self.len > 0 {
            told(CpsUnit::Part(self.len));
            self.len = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(cid: u8, len: u8) -> Vec<u8> {
        let (li, uui) = (len - 1, 3);
        let header = CpsPacketHeader { cid, li, uui }.emit();
        [&header[..], &vec![cid; len.into()]].concat()
    }

    /// What a stream of packets makes of cells that hold it, and of those without the cell `lost`.
    fn units(packets: &[Vec<u8>], lost: Option<usize>) -> (Vec<String>, Vec<bool>) {
        let stream = packets.concat();
        let starts: Vec<usize> = packets
            .iter()
            .scan(0, |at, packet| {
                *at += packet.len();
                Some(*at - packet.len())
            })
            .collect();
        let mut receiver = CpsReceiver::default();
        let (mut told, mut order) = (Vec::new(), Vec::new());
        for (n, octets) in stream.chunks(47).enumerate() {
            let begin = n * 47;
            let first = starts.iter().find(|start| **start >= begin);
            let end = first.map_or(stream.len(), |start| *start) - begin;
            let (osf, sn) = (end.min(47) as u8, n % 2 == 1);
            let mut cell = [0; 48];
            cell[0] = StartField { osf, sn }.emit();
            cell[1..=octets.len()].copy_from_slice(octets);
            if lost == Some(n) {
                continue;
            }
            order.push(receiver.receive(&cell, |unit| {
                told.push(match unit {
                    CpsUnit::Packet(packet) => format!("{} of {}", packet[0], packet.len() - 3),
                    other => format!("{other:?}"),
                });
            }));
        }
        (told, order)
    }

    #[test]
    fn packets_are_put_together_wherever_cells_end() {
        for first in 1..=64 {
            let packets = [
                packet(8, first),
                packet(9, 44),
                packet(10, 64),
                packet(11, 1),
            ];
            let (told, order) = units(&packets, None);
            let wanted = ["9 of 44", "10 of 64", "11 of 1"];
            assert_eq!(told[0], format!("8 of {first}"));
            assert_eq!(told[1..4], wanted, "{first}");
            assert!(
                told.len() == 4 || told[4].starts_with("Padding"),
                "{told:?}"
            );
            assert!(order.iter().all(|in_order| *in_order));
        }
    }

    #[test]
    fn a_lost_cell_costs_the_packets_in_it() {
        let packets = [packet(8, 40), packet(9, 44), packet(10, 40), packet(11, 20)];
        let (told, order) = units(&packets, Some(1));
        assert_eq!(order, [true, false, true]);
        assert_eq!(told[..3], ["8 of 40", "Part(4)", "Strays(39)"]);
        assert_eq!(told[3], "11 of 20");
    }

    #[test]
    fn a_wrong_packet_header_hides_what_is_behind_it() {
        let mut cell = [0; 48];
        cell[0] = StartField::default().emit();
        cell[1..4].copy_from_slice(&[8, 0x24, 0x65]);
        let mut told = Vec::new();
        CpsReceiver::default().receive(&cell, |unit| told.push(format!("{unit:?}")));
        assert_eq!(told, ["Packet([8, 36, 101])", "Unreadable(44)"]);
    }

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
