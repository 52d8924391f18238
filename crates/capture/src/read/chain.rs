//! Finding the next record behind a damaged one, in formats whose records follow one another with
//! nothing between them: where there is what can be a record, and another or the end behind it.

use std::io::{self, Read};

use super::input::Input;

/// What can be a record.
pub(super) trait Records {
    /// Octets of its header.
    const HEADER_LEN: usize;

    /// Octets of the record with this header; none if it can be none.
    fn likely_len(&self, header: &[u8]) -> Option<usize>;
}

/// Octets of the record that `at` octets on may begin, if all of it is there.
fn record<R: Read, F: Records>(
    input: &mut Input<R>,
    records: &F,
    at: usize,
) -> io::Result<Option<usize>> {
    let header = input.peek(at + F::HEADER_LEN)?.get(at..);
    let header = header.filter(|header| header.len() == F::HEADER_LEN);
    let Some(len) = header.and_then(|header| records.likely_len(header)) else {
        return Ok(None);
    };
    let is_whole = input.peek(at + len)?.len() == at + len;
    Ok(is_whole.then_some(len))
}

/// Whether a record can begin at `at`, or the file ends there.
pub(super) fn goes_on<R: Read, F: Records>(
    input: &mut Input<R>,
    records: &F,
    at: usize,
) -> io::Result<bool> {
    let header = input.peek(at + F::HEADER_LEN)?.get(at..);
    Ok(header.is_none_or(|header| header.is_empty() || records.likely_len(header).is_some()))
}

/// Whether a whole record can be there, and what follows it goes on.
fn begins<R: Read, F: Records>(input: &mut Input<R>, records: &F, at: usize) -> io::Result<bool> {
    match record(input, records, at)? {
        Some(len) => goes_on(input, records, at + len),
        None => Ok(false),
    }
}

/// Where a record begins inside the first `len` octets, which were taken for one.
pub(super) fn inside<R: Read, F: Records>(
    input: &mut Input<R>,
    records: &F,
    len: usize,
) -> io::Result<Option<usize>> {
    for at in F::HEADER_LEN..len {
        if begins(input, records, at)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Takes octets up to the next record, at least one; false if there is none.
pub(super) fn skip_to_next<R: Read, F: Records>(
    input: &mut Input<R>,
    records: &F,
) -> io::Result<bool> {
    loop {
        input.consume(1);
        if input.peek(F::HEADER_LEN)?.len() < F::HEADER_LEN {
            return Ok(false);
        }
        if begins(input, records, 0)? {
            return Ok(true);
        }
    }
}

/// Whether two times in seconds can be of one capture: a day apart at most.
pub(super) fn is_near(one: Option<u32>, other: u32) -> bool {
    one.is_none_or(|one| one.abs_diff(other) <= 86_400)
}
