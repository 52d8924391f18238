//! EyeSDN: each record is 0xff, then octets in which 0xfe and 0xff are escaped as 0xfe and the
//! octet less two. So a record's end is the next 0xff, whatever its lengths say.
//!
//! ```text
//! ff | microseconds 24 | seconds 40 | channel 8 | type 7, direction 1 | length 16 | octets
//! ```

use std::io::{self, Read};

use cellgate_core::wire::CELL_LEN;

use super::input::Input;
use super::{Fault, Step};
use crate::error::Reason;
use crate::link::Link;
use crate::record::{Content, Direction, Marks, Record};

const START: u8 = 0xff;
const ESCAPE: u8 = 0xfe;
const HEADER_LEN: usize = 12;
/// The channel number from which on the next octet holds a type, and that of ATM cells.
const TYPED: u8 = 0x80;
const ATM: u8 = 3;
/// Octets kept of a record: one more than a cell has, to see that there are more.
const KEPT_MAX: usize = HEADER_LEN + CELL_LEN + 1;

pub(super) fn next<R: Read>(input: &mut Input<R>) -> Step {
    let offset = input.offset();
    match input.peek_octet()? {
        None => return Ok(None),
        Some(START) => input.consume(1),
        Some(other) => {
            skip_to_start(input)?;
            return Err(Fault::Broken(offset, Reason::EyeSdnStart(other)));
        }
    }
    let body = read_body(input)?;
    body.and_then(|body| parse(offset, &body))
        .map(Some)
        .map_err(|reason| Fault::Broken(offset, reason))
}

fn skip_to_start<R: Read>(input: &mut Input<R>) -> io::Result<()> {
    while let Some(octet) = input.peek_octet()? {
        if octet == START {
            break;
        }
        input.consume(1);
    }
    Ok(())
}

/// The octets of a record without escapes.
struct Body {
    kept: Vec<u8>,
    len: usize,
}

/// Takes everything to the next start. The first escape that is none makes the record broken.
fn read_body<R: Read>(input: &mut Input<R>) -> io::Result<Result<Body, Reason>> {
    let mut body = Body {
        kept: Vec::with_capacity(KEPT_MAX),
        len: 0,
    };
    let mut wrong = None;
    while let Some(octet) = input.peek_octet()? {
        if octet == START {
            break;
        }
        input.consume(1);
        let octet = match octet {
            ESCAPE => match input.peek_octet()? {
                Some(low @ (0xfc | 0xfd)) => {
                    input.consume(1);
                    low + 2
                }
                other => {
                    wrong.get_or_insert(Reason::EyeSdnEscape(other.unwrap_or(START)));
                    continue;
                }
            },
            plain => plain,
        };
        body.len += 1;
        if body.kept.len() < KEPT_MAX {
            body.kept.push(octet);
        }
    }
    Ok(wrong.map_or(Ok(body), Err))
}

fn parse(offset: u64, body: &Body) -> Result<Record, Reason> {
    let Some((header, octets)) = body.kept.split_first_chunk::<HEADER_LEN>() else {
        return Err(Reason::TooShort {
            what: "EyeSDN record",
            len: body.len,
            least: HEADER_LEN,
        });
    };
    let [u0, u1, u2, s0, s1, s2, s3, s4, channel, kind, l0, l1] = *header;
    if channel < TYPED || kind >> 1 != ATM {
        let kind = if channel < TYPED { 0 } else { kind >> 1 };
        return Err(Reason::EyeSdnType(kind));
    }
    let said = usize::from(u16::from_be_bytes([l0, l1]));
    let found = body.len - HEADER_LEN;
    if said != found {
        return Err(Reason::EyeSdnLength { said, found });
    }
    let cell = <[u8; CELL_LEN]>::try_from(octets).map_err(|_| Reason::CellLength(found))?;
    let microseconds = u32::from_be_bytes([0, u0, u1, u2]);
    if microseconds >= 1_000_000 {
        return Err(Reason::Fraction(microseconds));
    }
    let seconds = u64::from_be_bytes([0, 0, 0, s0, s1, s2, s3, s4]);
    let time_ns = seconds
        .checked_mul(1_000_000_000)
        .and_then(|ns| ns.checked_add(u64::from(microseconds) * 1_000))
        .ok_or(Reason::Time)?;
    Ok(Record {
        offset,
        time_ns: Some(time_ns),
        interface: 0,
        link: Link::EyeSdn,
        direction: match kind & 1 {
            0 => Direction::Transmit,
            _ => Direction::Receive,
        },
        content: Content::CellWithHec(cell),
        missing: 0,
        marks: Marks::default(),
        comments: Vec::new(),
    })
}
