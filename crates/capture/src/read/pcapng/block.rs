use crate::error::Reason;
use crate::link::Link;
use crate::read::pcap::Order;
use crate::record::{Direction, Marks};

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Options of every block, of an interface, of a packet.
const END: u16 = 0;
const COMMENT: u16 = 1;
const RESOLUTION: u16 = 9;
const FCS_LEN: u16 = 13;
const TIME_OFFSET: u16 = 14;
const FLAGS: u16 = 2;
const DROPPED: u16 = 4;
/// The flags of a packet that tell of errors which the receiver found.
const ERRORS: u32 = 0xffff_0000;
const NS_PER_S: u128 = 1_000_000_000;

/// The order in which `magic` is the byte-order magic.
pub(super) fn section_order(magic: [u8; 4]) -> Option<Order> {
    [Order::Little, Order::Big]
        .into_iter()
        .find(|order| order.u32(magic) == BYTE_ORDER)
}

/// What an interface says about its packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    /// None if its block is broken.
    link: Option<u16>,
    snap_len: u32,
    /// Ticks in a second: this power of ten, or with the first bit set, of two.
    resolution: u8,
    offset_s: i64,
    /// Octets of the check sequence at the end of frames.
    fcs_len: u8,
}

impl Interface {
    pub(super) const fn unknown() -> Self {
        Self {
            link: None,
            snap_len: 0,
            resolution: 6,
            offset_s: 0,
            fcs_len: 0,
        }
    }

    pub(super) fn link(&self) -> Result<Link, Reason> {
        let number = self.link.map_or(u32::MAX, u32::from);
        Link::from_number(number).ok_or(Reason::LinkType(number))
    }

    /// Octets of a packet's check sequence: as many as it says, else as its interface says.
    pub(super) fn fcs_len(&self, packet: &Packet<'_>) -> usize {
        packet.fcs_len.unwrap_or(self.fcs_len).into()
    }

    /// Nanoseconds since 1970 of a time stamp.
    pub(super) fn time_ns(&self, ticks: u64) -> Result<u64, Reason> {
        let ticks = u128::from(ticks);
        let exponent = u32::from(self.resolution & 0x7f);
        // 64 bits of ticks times 10^9 stay below 2^94, so beyond 96 bits nothing is left.
        let ns = match self.resolution & 0x80 {
            0 => 10_u128
                .checked_pow(exponent)
                .map_or(0, |ticks_per_s| ticks * NS_PER_S / ticks_per_s),
            _ => (ticks * NS_PER_S).checked_shr(exponent).unwrap_or(0),
        };
        let ns = ns as i128 + i128::from(self.offset_s) * NS_PER_S as i128;
        u64::try_from(ns).map_err(|_| Reason::Time)
    }

    /// A simple packet block does not say how much was kept: what the interface keeps at most.
    pub(super) fn kept<'a>(&self, octets: &'a [u8], simple: bool) -> &'a [u8] {
        let max = self.snap_len as usize;
        if !simple || max == 0 {
            return octets;
        }
        octets.get(..max).unwrap_or(octets)
    }
}

/// A packet as its block has it.
pub(super) struct Packet<'a> {
    pub(super) interface: u32,
    /// None in a simple packet block.
    pub(super) ticks: Option<u64>,
    pub(super) octets: &'a [u8],
    pub(super) original: u32,
    pub(super) direction: Direction,
    /// If it says so.
    pub(super) fcs_len: Option<u8>,
    pub(super) marks: Marks,
    pub(super) comments: Vec<String>,
}

impl Packet<'_> {
    pub(super) fn is_simple(&self) -> bool {
        self.ticks.is_none()
    }
}

/// The body of a block and how to read it.
pub(super) struct Block<'a> {
    order: Order,
    body: &'a [u8],
}

impl<'a> Block<'a> {
    pub(super) fn new(order: Order, body: &'a [u8]) -> Self {
        Self { order, body }
    }

    /// The fixed fields in front, as numbers of 32 bits, and the rest.
    fn fields<const N: usize>(&self, what: &'static str) -> Result<([u32; N], &'a [u8]), Reason> {
        let too_short = Reason::TooShort {
            what,
            len: self.body.len(),
            least: 4 * N,
        };
        let (front, rest) = self.body.split_at_checked(4 * N).ok_or(too_short)?;
        let (words, _) = front.as_chunks::<4>();
        let words = <[[u8; 4]; N]>::try_from(words).map_err(|_| too_short)?;
        Ok((words.map(|word| self.order.u32(word)), rest))
    }

    /// Two 16-bit numbers where `fields` sees one of 32 bits.
    fn halves(&self, word: u32) -> (u16, u16) {
        let (low, high) = (word as u16, (word >> 16) as u16);
        match self.order {
            Order::Little => (low, high),
            Order::Big => (high, low),
        }
    }

    pub(super) fn interface(&self) -> Result<Interface, Reason> {
        let ([link, snap_len], options) = self.fields("pcapng interface block")?;
        let (link, _) = self.halves(link);
        let mut interface = Interface {
            link: Some(link),
            snap_len,
            ..Interface::unknown()
        };
        self.options(options, |code, value| match (code, value) {
            (RESOLUTION, [resolution]) => interface.resolution = *resolution,
            (FCS_LEN, [len]) => interface.fcs_len = *len,
            (TIME_OFFSET, value) => {
                if let Ok(octets) = <[u8; 8]>::try_from(value) {
                    interface.offset_s = self.order.u64(octets) as i64;
                }
            }
            _ => {}
        })?;
        Ok(interface)
    }

    pub(super) fn enhanced_packet(&self) -> Result<Packet<'a>, Reason> {
        let ([interface, high, low, kept, original], rest) = self.fields("pcapng packet block")?;
        self.packet(interface, [high, low], kept, original, rest)
    }

    /// The obsolete packet block: 16 bits each of interface number and of packets lost before.
    pub(super) fn old_packet(&self) -> Result<Packet<'a>, Reason> {
        let ([interface, high, low, kept, original], rest) = self.fields("pcapng packet block")?;
        let (interface, dropped) = self.halves(interface);
        let mut packet = self.packet(interface.into(), [high, low], kept, original, rest)?;
        // All ones: not known.
        if dropped != u16::MAX {
            packet.marks.lost_before = dropped.into();
        }
        Ok(packet)
    }

    fn packet(
        &self,
        interface: u32,
        [high, low]: [u32; 2],
        kept: u32,
        original: u32,
        rest: &'a [u8],
    ) -> Result<Packet<'a>, Reason> {
        let too_short = Reason::TooShort {
            what: "pcapng packet block",
            len: self.body.len(),
            least: (kept as usize).saturating_add(20),
        };
        let (octets, rest) = rest.split_at_checked(kept as usize).ok_or(too_short)?;
        let pad = octets.len().next_multiple_of(4) - octets.len();
        let options = rest.get(pad..).unwrap_or_default();
        let mut packet = Packet {
            interface,
            ticks: Some(u64::from(high) << 32 | u64::from(low)),
            octets,
            original,
            direction: Direction::Unknown,
            fcs_len: None,
            marks: Marks::default(),
            comments: Vec::new(),
        };
        self.options(options, |code, value| match (code, value) {
            (COMMENT, text) => packet
                .comments
                .push(String::from_utf8_lossy(text).into_owned()),
            (FLAGS, [a, b, c, d]) => {
                let flags = self.order.u32([*a, *b, *c, *d]);
                packet.direction = match flags & 3 {
                    1 => Direction::Receive,
                    2 => Direction::Transmit,
                    _ => Direction::Unknown,
                };
                packet.fcs_len = Some((flags >> 5 & 15) as u8).filter(|len| *len > 0);
                packet.marks.receive_error = flags & ERRORS != 0;
            }
            (DROPPED, count) => {
                if let Ok(octets) = <[u8; 8]>::try_from(count) {
                    packet.marks.lost_before = self.order.u64(octets);
                }
            }
            _ => {}
        })?;
        Ok(packet)
    }

    pub(super) fn simple_packet(&self) -> Result<Packet<'a>, Reason> {
        let ([original], rest) = self.fields("pcapng packet block")?;
        // What is behind the packet is padding.
        let octets = rest.get(..original as usize).unwrap_or(rest);
        Ok(Packet {
            interface: 0,
            ticks: None,
            octets,
            original,
            direction: Direction::Unknown,
            fcs_len: None,
            marks: Marks::default(),
            comments: Vec::new(),
        })
    }

    /// Each option to `take`, up to the end or the end option.
    fn options(&self, octets: &[u8], mut take: impl FnMut(u16, &[u8])) -> Result<(), Reason> {
        let mut rest = octets;
        while let Some(([c0, c1, l0, l1], after)) = rest.split_first_chunk() {
            let code = self.order.u16([*c0, *c1]);
            if code == END {
                break;
            }
            let len = self.order.u16([*l0, *l1]);
            let padded = usize::from(len).next_multiple_of(4);
            let value = after.get(..len.into()).ok_or(Reason::Option { len })?;
            take(code, value);
            rest = after.get(padded..).unwrap_or_default();
        }
        Ok(())
    }
}
