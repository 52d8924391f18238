//! How an extent of a file is cut: into disk-PDUs, and these into pieces, each of which a PDU or a
//! frame carries.

use core::ops::Range;

use crate::aal::tree::Place;

use super::{DiskHeader, Source};

/// How a transfer is cut into PDUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Octets of payload in a PDU, at most; 1 or more.
    pub pdu_len: u16,
    /// Octets of a disk-PDU, a power of two: no PDU crosses from one to the next. None for a
    /// stream without a disk layer, which ends nowhere.
    pub disk_len: Option<u32>,
    /// Where the file ends; none: the transfer's end is not the file's, or it is a stream, whose
    /// transfer has no end until the source says where it is.
    pub file_len: Option<u64>,
}

/// A piece that can be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) place: Place,
    /// Of the file; at most as many as a PDU has.
    pub(super) octets: Range<u64>,
    /// Of the first of a disk-PDU.
    pub(super) header: Option<DiskHeader>,
    disk_end: u64,
    /// The extent ends with it.
    is_end: bool,
}

/// Cuts an extent. That of a file, with a `disk_len`, begins where a disk-PDU does, ends where one
/// does or the file does, and is not empty.
#[derive(Clone, Debug)]
pub(super) struct Cutter {
    split: Split,
    at: u64,
    end: u64,
    /// The disk-PDU that is cut ends here.
    disk_end: Option<u64>,
    is_done: bool,
}

impl Cutter {
    pub(super) const fn new(split: Split, (start, end): (u64, u64)) -> Self {
        Self {
            split,
            at: start,
            end,
            disk_end: None,
            is_done: false,
        }
    }

    /// Pieces have so many octets at most from now on.
    pub(super) const fn set_pdu_len(&mut self, pdu_len: u16) {
        self.split.pdu_len = pdu_len;
    }

    /// Whether the last piece is cut. A stream has none.
    pub(super) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// Where the next piece is cut, if there is something to send and room for it below `edge`. It
    /// is not cut before [`Cutter::cut`].
    pub(super) fn next<S: Source>(&self, source: &mut S, edge: u64) -> Option<Piece> {
        match self.split.disk_len {
            _ if self.is_done => None,
            None => self.of_stream(source, edge),
            Some(disk_len) => self.of_file(source, disk_len.into(), edge),
        }
    }

    /// The piece is cut.
    pub(super) fn cut(&mut self, piece: &Piece) {
        self.at = piece.octets.end;
        let is_last = piece.place.is_last();
        self.disk_end = (!is_last).then_some(piece.disk_end);
        self.is_done = is_last && piece.is_end;
        if is_last {
            self.at = piece.disk_end;
        }
    }

    fn of_stream<S: Source>(&self, source: &mut S, edge: u64) -> Option<Piece> {
        let data = source.data(self.at, edge.min(self.end));
        let length = (data.end - data.start).min(self.split.pdu_len.into());
        (length > 0).then(|| Piece {
            place: Place::Middle,
            octets: data.start..data.start + length,
            header: None,
            disk_end: self.end,
            is_end: false,
        })
    }

    /// A part of a disk-PDU. One that is a hole as a whole is left out, but for the last.
    fn of_file<S: Source>(&self, source: &mut S, disk_len: u64, edge: u64) -> Option<Piece> {
        // Whatever has become of the file meanwhile, a disk-PDU that was begun comes to its end.
        let data = source.data(self.at, self.disk_end.unwrap_or(self.end));
        // Behind what is there: what came meanwhile may be the end.
        let source_end = source.end();
        let all = source_end.map_or(self.end, |end| end.min(self.end));
        let until = self.disk_end.unwrap_or(all);
        let (mut start, mut data_end) = if data.is_empty() {
            (until, until)
        } else {
            (data.start, data.end)
        };
        let mut inside = start.min(until - 1);
        let stop_of = |start: u64, data_end: u64, inside: u64| {
            let span = inside / disk_len * disk_len;
            let span_end = span.saturating_add(disk_len).min(all);
            let stop = start.saturating_add(self.split.pdu_len.into());
            (stop.min(data_end).min(span_end), span_end)
        };
        if stop_of(start, data_end, inside).0 > edge {
            // The window opens with Ap, which comes no further than pieces do: an empty one leads
            // it through a hole, and what is behind that may be more than the window has left.
            // Without a hole a piece waits, and is not cut short.
            start = start.min(edge);
            if start <= self.at {
                return None;
            }
            data_end = start;
            inside = start - 1;
        }
        let (stop, span_end) = stop_of(start, data_end, inside);
        let span = inside / disk_len * disk_len;
        if self.end == u64::MAX && (data.start > self.at || data.end < span_end) {
            // Of a stream a disk-PDU waits until all of it is there.
            return None;
        }
        // Ap comes no further than the last piece: where the window does not reach to the end of
        // the disk-PDU, empty ones follow.
        let is_last = stop == span_end
            || span_end <= edge && {
                let next = source.data(stop, all);
                next.is_empty() || next.start >= span_end
            };
        let is_first = self.disk_end.is_none();
        let header = is_first.then(|| DiskHeader {
            index: (span / disk_len) as u32,
            is_end: self.split.file_len.or(source_end) == Some(span_end),
            length: (span_end - span) as u32,
            offset: span,
        });
        Some(Piece {
            place: Place::new(is_first, is_last),
            octets: start..stop,
            header,
            disk_end: span_end,
            is_end: span_end == all,
        })
    }
}
