//! Files of ERF records, one after the other; there is no file header.

use std::io::{self, Read};

use super::input::Input;
use super::{Fault, Step};
use crate::erf::{self, ErfHeader, HEADER_LEN};
use crate::error::Reason;
use crate::link::Link;
use crate::record::Record;

/// Whether the file starts with what can be an ERF record, and what follows it can be another.
pub(super) fn recognize<R: Read>(input: &mut Input<R>) -> io::Result<bool> {
    let Some(first) = header(input, 0)? else {
        return Ok(false);
    };
    if !first.is_plausible() {
        return Ok(false);
    }
    // A file that ends inside its only record is taken for one that was cut.
    let next = header(input, first.record_len())?;
    Ok(next.is_none_or(|next| next.is_plausible()))
}

fn header<R: Read>(input: &mut Input<R>, at: usize) -> io::Result<Option<ErfHeader>> {
    let octets = input.peek(at + HEADER_LEN)?;
    let header = octets.get(at..).and_then(|octets| octets.first_chunk());
    Ok(header.map(ErfHeader::parse))
}

pub(super) fn next<R: Read>(input: &mut Input<R>) -> Step {
    loop {
        let offset = input.offset();
        let Some(header) = header(input, 0)? else {
            let found = input.peek(HEADER_LEN)?.len();
            let wanted = HEADER_LEN;
            return match found {
                0 => Ok(None),
                _ => Err(Fault::Lost(offset, Reason::Truncated { wanted, found })),
            };
        };
        let wanted = header.record_len();
        if wanted < HEADER_LEN {
            let (len, least) = (wanted, HEADER_LEN);
            return Err(Fault::Lost(offset, Reason::ErfLength { len, least }));
        }
        let octets = input.peek(wanted)?;
        if octets.len() < wanted {
            let found = octets.len();
            return Err(Fault::Lost(offset, Reason::Truncated { wanted, found }));
        }
        if header.is_filler() {
            input.consume(wanted);
            continue;
        }
        let record = erf::parse(octets, 0);
        input.consume(wanted);
        let record = record.map_err(|reason| Fault::Broken(offset, reason))?;
        return Ok(Some(Record {
            offset,
            time_ns: Some(record.time_ns),
            interface: 0,
            link: Link::Erf,
            direction: record.decoded.direction,
            content: record.decoded.content,
            missing: record.decoded.missing,
            comments: Vec::new(),
        }));
    }
}
