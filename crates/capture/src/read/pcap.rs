//! Classic pcap: a file header, then records with a time, the octets kept and those of the wire.
//! Modified pcap, of Linux distributions in the 1990s, has fields behind those, which are not used.

use std::io::{self, Read};

use super::chain::{self, Records};
use super::input::Input;
use super::{Fault, Step};
use crate::error::{Error, Reason, Refusal};
use crate::link::Link;
use crate::record::Record;

const FILE_HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;
/// Octets of a record's header in modified pcap: what nearly every writer has, then two others.
const MODIFIED_LENS: [usize; 3] = [24, 28, RECORD_HEADER_LEN];
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;
const VERSION: u16 = 2;
/// Below this minor version the two lengths are the other way round; in it, with some writers.
const SWAPPED_BELOW: u16 = 3;
/// Octets on the wire of the longest packet that is believed where nothing else tells a record.
const ORIGINAL_LIKELY_MAX: u32 = 1 << 20;
/// Flag of the link type: the four bits above say how long the check sequence of frames is.
const FCS_SAID: u32 = 0x0400_0000;

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

    pub(super) fn u64(self, octets: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(octets),
            Self::Big => u64::from_be_bytes(octets),
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
    minor: u16,
    link: Link,
    fcs_len: usize,
    header_len: usize,
    /// When the last good record was, in seconds; before it, when the first said it was.
    last: Option<u32>,
}

/// The fields of a record's header that are used.
struct Header {
    seconds: u32,
    fraction: u32,
    kept: u32,
    original: u32,
}

pub(super) fn is_magic(octets: [u8; 4]) -> bool {
    Order::of(octets, &[MICROSECONDS, NANOSECONDS, MODIFIED]).is_some()
}

impl Pcap {
    pub(super) fn open<R: Read>(input: &mut Input<R>) -> Result<Self, Error> {
        let refused = |refusal| Err(Error::Refused(refusal));
        let failed = |source| Error::Io { offset: 0, source };
        let octets = input.peek(FILE_HEADER_LEN).map_err(failed)?;
        let Some([m0, m1, m2, m3, v0, v1, w0, w1, .., l0, l1, l2, l3]) =
            octets.first_chunk::<FILE_HEADER_LEN>()
        else {
            return refused(Refusal::ShortHeader {
                octets: FILE_HEADER_LEN,
            });
        };
        let magic = [*m0, *m1, *m2, *m3];
        let Some((order, number)) = Order::of(magic, &[MICROSECONDS, NANOSECONDS, MODIFIED]) else {
            return refused(Refusal::Unknown);
        };
        let version = order.u16([*v0, *v1]);
        if version != VERSION {
            return refused(Refusal::Version {
                format: "pcap",
                version,
            });
        }
        let minor = order.u16([*w0, *w1]);
        let network = order.u32([*l0, *l1, *l2, *l3]);
        let Some(link) = Link::from_number(network & 0xffff) else {
            return refused(Refusal::LinkType(network & 0xffff));
        };
        input.consume(FILE_HEADER_LEN);
        let mut pcap = Self {
            order,
            unit_ns: if number == NANOSECONDS { 1 } else { 1_000 },
            minor,
            link,
            // In units of 16 bits.
            fcs_len: match network & FCS_SAID {
                0 => 0,
                _ => (network >> 28) as usize * 2,
            },
            header_len: RECORD_HEADER_LEN,
            last: None,
        };
        if number == MODIFIED {
            pcap.find_header_len(input).map_err(failed)?;
        }
        Ok(pcap)
    }

    /// The length of header with which the second record follows the first.
    fn find_header_len<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<()> {
        for len in MODIFIED_LENS {
            self.header_len = len;
            let first = input.peek(RECORD_HEADER_LEN)?;
            if let Some(first) = self.likely_len(first)
                && chain::goes_on(input, self, first)?
            {
                return Ok(());
            }
        }
        self.header_len = MODIFIED_LENS[0];
        Ok(())
    }

    fn header(&self, octets: &[u8]) -> Option<Header> {
        let (fields, _) = octets.as_chunks::<4>();
        let [seconds, fraction, kept, original, ..] = *fields else {
            return None;
        };
        let [seconds, fraction, kept, original] =
            [seconds, fraction, kept, original].map(|field| self.order.u32(field));
        let swapped = self.minor < SWAPPED_BELOW || self.minor == SWAPPED_BELOW && kept > original;
        let (kept, original) = if swapped {
            (original, kept)
        } else {
            (kept, original)
        };
        Some(Header {
            seconds,
            fraction,
            kept,
            original,
        })
    }

    pub(super) fn next<R: Read>(&mut self, input: &mut Input<R>) -> Step {
        let offset = input.offset();
        let octets = input.peek(self.header_len)?;
        let (found, wanted) = (octets.len(), self.header_len);
        if found == 0 {
            return Ok(None);
        }
        let header = self.header(octets).filter(|_| found == wanted);
        let Some(header) = header else {
            return Err(Fault::Lost(offset, Reason::Truncated { wanted, found }));
        };
        self.last.get_or_insert(header.seconds);
        if header.kept as usize > crate::RECORD_LEN_MAX {
            let reason = Reason::TooLong { len: header.kept };
            return match chain::skip_to_next(input, self)? {
                true => Err(Fault::Broken(offset, reason)),
                false => Err(Fault::Lost(offset, reason)),
            };
        }
        let wanted = self.header_len + header.kept as usize;
        let found = input.peek(wanted)?.len();
        if found < wanted || !chain::goes_on(input, self, wanted)? {
            if let Some(at) = chain::inside(input, self, found)? {
                input.consume(at);
                let (said, found) = (wanted, at);
                return Err(Fault::Broken(offset, Reason::NextRecord { said, found }));
            }
            if found < wanted {
                return Err(Fault::Lost(offset, Reason::Truncated { wanted, found }));
            }
        }
        let packet = input.peek(wanted)?.get(self.header_len..);
        let record = self.record(offset, &header, packet.unwrap_or_default());
        input.consume(wanted);
        self.last = Some(header.seconds);
        record
            .map(Some)
            .map_err(|reason| Fault::Broken(offset, reason))
    }

    fn record(&self, offset: u64, header: &Header, packet: &[u8]) -> Result<Record, Reason> {
        let decoded = self.link.decode(packet, header.original, self.fcs_len)?;
        // A fraction of a second or more is a time all the same.
        let fraction_ns = u64::from(header.fraction) * u64::from(self.unit_ns);
        Ok(Record {
            offset,
            time_ns: Some(u64::from(header.seconds) * 1_000_000_000 + fraction_ns),
            interface: 0,
            link: self.link,
            direction: decoded.direction,
            content: decoded.content,
            missing: decoded.missing,
            marks: decoded.marks,
            comments: Vec::new(),
        })
    }
}

impl Records for Pcap {
    const HEADER_LEN: usize = RECORD_HEADER_LEN;

    fn likely_len(&self, header: &[u8]) -> Option<usize> {
        let header = self.header(header)?;
        let len = header.kept as usize;
        let lens = (1..=crate::RECORD_LEN_MAX).contains(&len)
            && (header.kept..=ORIGINAL_LIKELY_MAX).contains(&header.original);
        let fraction = u64::from(header.fraction) * u64::from(self.unit_ns) < 1_000_000_000;
        let likely = lens && fraction && chain::is_near(self.last, header.seconds);
        likely.then_some(self.header_len + len)
    }
}
