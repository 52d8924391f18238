//! Classic pcap: a file header, then records with a time, the octets kept and those of the wire.

use std::io::Read;

use super::input::Input;
use super::{Fault, Step};
use crate::error::{Error, Reason, Refusal};
use crate::link::Link;
use crate::record::Record;

const FILE_HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;
const VERSION: u16 = 2;

/// Which octet of a number comes first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub(super) fn u16(self, octets: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(octets),
            Self::Big => u16::from_be_bytes(octets),
        }
    }

    pub(super) fn u32(self, octets: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(octets),
            Self::Big => u32::from_be_bytes(octets),
        }
    }

    /// The order in which `octets` are one of `numbers`, and which.
    fn of(octets: [u8; 4], numbers: &[u32]) -> Option<(Self, u32)> {
        [Self::Little, Self::Big]
            .into_iter()
            .map(|order| (order, order.u32(octets)))
            .find(|(_, number)| numbers.contains(number))
    }
}

/// A file whose header was read.
#[derive(Debug)]
pub(super) struct Pcap {
    order: Order,
    /// Nanoseconds in a unit of the fraction.
    unit_ns: u32,
    link: Link,
}

pub(super) fn is_magic(octets: [u8; 4]) -> bool {
    Order::of(octets, &[MICROSECONDS, NANOSECONDS, MODIFIED]).is_some()
}

impl Pcap {
    pub(super) fn open<R: Read>(input: &mut Input<R>) -> Result<Self, Error> {
        let refused = |refusal| Err(Error::Refused(refusal));
        let octets = input
            .peek(FILE_HEADER_LEN)
            .map_err(|source| Error::Io { offset: 0, source })?;
        let Some([m0, m1, m2, m3, v0, v1, .., l0, l1, l2, l3]) =
            octets.first_chunk::<FILE_HEADER_LEN>()
        else {
            return refused(Refusal::ShortHeader {
                octets: FILE_HEADER_LEN,
            });
        };
        let magic = [*m0, *m1, *m2, *m3];
        let Some((order, number)) = Order::of(magic, &[MICROSECONDS, NANOSECONDS]) else {
            return refused(Refusal::ModifiedPcap);
        };
        let version = order.u16([*v0, *v1]);
        if version != VERSION {
            return refused(Refusal::Version {
                format: "pcap",
                version,
            });
        }
        // The upper half says whether frames keep their check sequence.
        let link = order.u32([*l0, *l1, *l2, *l3]) & 0xffff;
        let Some(link) = Link::from_number(link) else {
            return refused(Refusal::LinkType(link));
        };
        input.consume(FILE_HEADER_LEN);
        let unit_ns = if number == NANOSECONDS { 1 } else { 1_000 };
        Ok(Self {
            order,
            unit_ns,
            link,
        })
    }

    pub(super) fn next<R: Read>(&mut self, input: &mut Input<R>) -> Step {
        let offset = input.offset();
        let octets = input.peek(RECORD_HEADER_LEN)?;
        if octets.is_empty() {
            return Ok(None);
        }
        let (fields, _) = octets.as_chunks::<4>();
        let [seconds, fraction, kept, original] = *fields else {
            let found = octets.len();
            let wanted = RECORD_HEADER_LEN;
            return Err(Fault::Lost(offset, Reason::Truncated { wanted, found }));
        };
        let [seconds, fraction, kept, original] =
            [seconds, fraction, kept, original].map(|field| self.order.u32(field));
        if kept as usize > crate::RECORD_LEN_MAX {
            return Err(Fault::Lost(offset, Reason::TooLong { len: kept }));
        }
        let wanted = RECORD_HEADER_LEN + kept as usize;
        let octets = input.peek(wanted)?;
        if octets.len() < wanted {
            let found = octets.len();
            return Err(Fault::Lost(offset, Reason::Truncated { wanted, found }));
        }
        let packet = octets.get(RECORD_HEADER_LEN..).unwrap_or_default();
        let record = self
            .time_ns(seconds, fraction)
            .and_then(|time_ns| self.record(offset, time_ns, packet, original));
        input.consume(wanted);
        record
            .map(Some)
            .map_err(|reason| Fault::Broken(offset, reason))
    }

    fn time_ns(&self, seconds: u32, fraction: u32) -> Result<u64, Reason> {
        let ns = u64::from(fraction) * u64::from(self.unit_ns);
        if ns >= 1_000_000_000 {
            return Err(Reason::Fraction(fraction));
        }
        Ok(u64::from(seconds) * 1_000_000_000 + ns)
    }

    fn record(
        &self,
        offset: u64,
        time_ns: u64,
        packet: &[u8],
        original: u32,
    ) -> Result<Record, Reason> {
        let decoded = self.link.decode(packet, original)?;
        Ok(Record {
            offset,
            time_ns: Some(time_ns),
            interface: 0,
            link: self.link,
            direction: decoded.direction,
            content: decoded.content,
            missing: decoded.missing,
            comments: Vec::new(),
        })
    }
}
