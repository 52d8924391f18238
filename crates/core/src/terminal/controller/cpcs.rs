//! The controller's handling of the CPCS's octets, and of those of control PDUs.

use crate::aal::tree::{Row, Tree};
use crate::contract::Aal;
use crate::terminal::Discard;
use crate::wire::{CpcsHeader, CpcsTrailer, PAYLOAD_LEN, Trailer};

/// Where the octets of control PDUs go.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    pub(super) record: Box<[u8]>,
    octets: Box<[u8]>,
    len: usize,
}

impl Scratch {
    pub(super) fn new(record: usize, room: usize) -> Self {
        Self {
            record: vec![0; record].into_boxed_slice(),
            octets: vec![0; room].into_boxed_slice(),
            len: 0,
        }
    }

    /// Octets that fit.
    pub(super) const fn room(&self) -> usize {
        self.octets.len()
    }

    pub(super) const fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }

    pub(super) fn write(&mut self, octets: &[u8]) -> Result<(), Discard> {
        let to = self.octets.get_mut(self.len..self.len + octets.len());
        to.ok_or(Discard::Oversized)?.copy_from_slice(octets);
        self.len += octets.len();
        Ok(())
    }
}

#[inline(always)]
pub(super) fn move_pcis(row: &Row, payload: &[u8; PAYLOAD_LEN], record: &mut [u8]) {
    for piece in row.pcis() {
        if let Some(to) = record.get_mut(piece.record())
            && let Some(from) = payload.get(piece.cell())
        {
            to.copy_from_slice(from);
        }
    }
}

/// What the CPCS's octets in `record` say of a PDU that came whole; the CRC of AAL5 was right.
pub(super) fn judge(tree: &Tree, record: &[u8], sdu_len: u16) -> Result<(), Discard> {
    let layout = tree.record();
    let (header, trailer) = (record, record.get(layout.trailer..).unwrap_or_default());
    match tree.aal() {
        Aal::Aal34 => judge_aal34(header, trailer, sdu_len),
        Aal::Aal5 | Aal::Aal0 => judge_aal5(trailer, sdu_len),
    }
}

/// AAL5: the length, behind a CRC that was right.
fn judge_aal5(trailer: &[u8], sdu_len: u16) -> Result<(), Discard> {
    let trailer = trailer.first_chunk().map(|octets| Trailer::parse(*octets));
    match trailer.map(|trailer| trailer.length) {
        Some(len) if len == sdu_len => Ok(()),
        Some(0) => Err(Discard::Aborted),
        _ => Err(Discard::LengthError),
    }
}

/// AAL3/4: the tags and lengths of both ends.
fn judge_aal34(header: &[u8], trailer: &[u8], sdu_len: u16) -> Result<(), Discard> {
    let header = header
        .first_chunk()
        .map(|octets| CpcsHeader::parse(*octets));
    let trailer = trailer
        .first_chunk()
        .map(|octets| CpcsTrailer::parse(*octets));
    let (Some(header), Some(trailer)) = (header, trailer) else {
        return Err(Discard::LengthError);
    };
    if header.cpi != 0 || header.btag != trailer.etag {
        Err(Discard::TagMismatch)
    } else if trailer.length != sdu_len || header.ba_size < sdu_len {
        Err(Discard::LengthError)
    } else {
        Ok(())
    }
}
