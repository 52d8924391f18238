//! Files of ERF records, one after the other; there is no file header.

use std::io::{self, Read};

use super::chain::{self, Records};
use super::input::Input;
use super::{Fault, Step};
use crate::erf::{self, ErfHeader, HEADER_LEN};
use crate::error::Reason;
use crate::link::Link;
use crate::record::Record;

/// Octets from the start in which a whole record has to come.
const RECOGNIZED_WITHIN: usize = 65_536;

/// Whether the file starts with what can be an ERF record, and what follows it can be another.
pub(super) fn recognize<R: Read>(input: &mut Input<R>) -> io::Result<bool> {
    let Some(first) = header(input, 0)? else {
        return Ok(false);
    };
    let octets = input.peek(HEADER_LEN)?;
    let is_text = octets
        .iter()
        .all(|octet| octet.is_ascii_graphic() || octet.is_ascii_whitespace());
    if is_text || !first.is_plausible() {
        return Ok(false);
    }
    // A file that ends inside its only record is taken for one that was cut.
    let next = header(input, first.record_len())?;
    if next.is_none_or(|next| next.is_plausible()) {
        return Ok(true);
    }
    // One that is damaged early on has others behind it.
    let last = Some(first.seconds());
    Ok(chain::inside(input, &NativeErf { last }, RECOGNIZED_WITHIN)?.is_some())
}

fn header<R: Read>(input: &mut Input<R>, at: usize) -> io::Result<Option<ErfHeader>> {
    let octets = input.peek(at + HEADER_LEN)?;
    let header = octets.get(at..).and_then(|octets| octets.first_chunk());
    Ok(header.map(ErfHeader::parse))
}

/// A file that is being read.
#[derive(Debug, Default)]
pub(super) struct NativeErf {
    /// When the last good record was, in seconds; before it, when the first said it was.
    last: Option<u32>,
}

impl Records for NativeErf {
    const HEADER_LEN: usize = HEADER_LEN;

    fn likely_len(&self, header: &[u8]) -> Option<usize> {
        let header = ErfHeader::parse(header.first_chunk()?);
        // Padding may have no time.
        let near = chain::is_near(self.last, header.seconds())
            || header.is_filler() && header.seconds() == 0;
        (near && header.is_plausible()).then_some(header.record_len())
    }
}

impl NativeErf {
    pub(super) fn next<R: Read>(&mut self, input: &mut Input<R>) -> Step {
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
            self.last.get_or_insert(header.seconds());
            if wanted < HEADER_LEN {
                let (len, least) = (wanted, HEADER_LEN);
                return self.lost(input, offset, Reason::ErfLength { len, least });
            }
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
            if header.is_filler() {
                input.consume(wanted);
                continue;
            }
            let record = erf::parse(input.peek(wanted)?, 0);
            input.consume(wanted);
            let record = record.map_err(|reason| Fault::Broken(offset, reason))?;
            self.last = Some(header.seconds());
            return Ok(Some(Record {
                offset,
                time_ns: Some(record.time_ns),
                interface: 0,
                link: Link::Erf,
                direction: record.decoded.direction,
                content: record.decoded.content,
                missing: record.decoded.missing,
                marks: record.decoded.marks,
                comments: Vec::new(),
            }));
        }
    }

    fn lost<R: Read>(&self, input: &mut Input<R>, offset: u64, reason: Reason) -> Step {
        match chain::skip_to_next(input, self)? {
            true => Err(Fault::Broken(offset, reason)),
            false => Err(Fault::Lost(offset, reason)),
        }
    }
}
