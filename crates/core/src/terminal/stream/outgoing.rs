//! What is sent.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use super::frame::{FRAME_MAX, FrameHeader, FrameKind, PAYLOAD_MAX, PREAMBLE};
use crate::Time;
use crate::aal::tree::Place;
use crate::terminal::carrier::Ended;
use crate::terminal::conversation::Outbox;
use crate::terminal::cutter::Cutter;
use crate::terminal::{DiskHeader, SenderCounts, Source, Split};

/// Whoever has nothing else to send says so often that it is there.
const ALIVE_NS: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
struct Transfer<F> {
    source: F,
    cutter: Cutter,
    end: u64,
    /// Up to where it has left.
    sent: u64,
}

/// What is sent.
#[derive(Clone, Debug)]
pub(super) struct Outgoing<F> {
    has_begun: bool,
    said: Outbox,
    said_to: u64,
    transfers: BTreeMap<u16, Transfer<F>>,
    /// Transfers of which the other end is still to hear that no more comes: it hears so of each,
    /// once, before the number is used again.
    ends: VecDeque<u16>,
    /// The transfer that was sent last: the others come first.
    last_sent: u16,
    alive_at: Time,
    counts: SenderCounts,
}

impl<F: Source> Outgoing<F> {
    pub(super) fn new(now: Time) -> Self {
        Self {
            has_begun: false,
            said: Outbox::default(),
            said_to: 0,
            transfers: BTreeMap::new(),
            ends: VecDeque::new(),
            last_sent: 0,
            alive_at: now,
            counts: SenderCounts::default(),
        }
    }

    pub(super) fn say(&mut self, message: &[u8]) {
        self.said.push(message);
    }

    pub(super) fn unsaid(&self) -> usize {
        self.said.len()
    }

    pub(super) fn begin(&mut self, transfer: u16, extent: (u64, u64), split: Split, source: F) {
        self.end(transfer);
        let new = Transfer {
            source,
            cutter: Cutter::new(split, extent),
            end: extent.1,
            sent: extent.0,
        };
        self.transfers.insert(transfer, new);
    }

    pub(super) fn sent(&self, transfer: u16) -> Option<u64> {
        Some(self.transfers.get(&transfer)?.sent)
    }

    pub(super) fn end(&mut self, transfer: u16) -> Option<Ended> {
        let mut ended = self.transfers.remove(&transfer)?;
        if !ended.cutter.is_done() {
            self.ends.push_back(transfer);
        }
        Some(Ended {
            to: ended.sent,
            fault: ended.source.fault(),
        })
    }

    /// What was sent: a transport sends nothing again that it tells of.
    pub(super) const fn counts(&self) -> SenderCounts {
        self.counts
    }

    pub(super) const fn next_deadline(&self) -> Time {
        self.alive_at
    }

    /// See [`OctetStream::poll_octets`](super::OctetStream::poll_octets).
    pub(super) fn poll(&mut self, now: Time, out: &mut [u8]) -> usize {
        let mut used = 0;
        if !self.has_begun {
            let Some(place) = out.first_chunk_mut() else {
                return 0;
            };
            *place = PREAMBLE;
            used = PREAMBLE.len();
            self.has_begun = true;
        }
        while let Some(room) = out.get_mut(used..).filter(|room| room.len() >= FRAME_MAX)
            && let Some(len) = self.frame(now, used == 0, room)
        {
            used += len;
        }
        if used > 0 {
            self.alive_at = now.plus_ns(ALIVE_NS);
        }
        used
    }

    /// The next frame, which `out` has room for.
    fn frame(&mut self, now: Time, is_first: bool, out: &mut [u8]) -> Option<usize> {
        if let Some(transfer) = self.ends.pop_front() {
            return bare(FrameKind::End, transfer, out);
        }
        if let Some(len) = self.conversation(out) {
            return Some(len);
        }
        let behind = self.last_sent.saturating_add(1);
        self.part(behind..=u16::MAX, out)
            .or_else(|| self.part(0..=self.last_sent, out))
            .or_else(|| {
                let is_due = is_first && now >= self.alive_at;
                is_due.then(|| bare(FrameKind::Alive, 0, out))?
            })
    }

    fn conversation(&mut self, out: &mut [u8]) -> Option<usize> {
        let end = self.said_to.saturating_add(PAYLOAD_MAX.into());
        let octets = self.said.data(self.said_to, end);
        let length = (octets.end - octets.start) as usize;
        if length == 0 {
            return None;
        }
        let header = FrameHeader {
            kind: FrameKind::Said,
            place: Place::Middle,
            transfer: 0,
            length: length as u32,
            offset: octets.start,
        };
        let (place, rest) = out.split_first_chunk_mut()?;
        *place = header.emit();
        self.said.read(octets.start, rest.get_mut(..length)?);
        self.said.release(octets.end);
        self.said_to = octets.end;
        Some(FrameHeader::LEN + length)
    }

    /// A part of the first of these transfers that has one.
    fn part(&mut self, transfers: RangeInclusive<u16>, out: &mut [u8]) -> Option<usize> {
        for (number, transfer) in self.transfers.range_mut(transfers) {
            let before = transfer.sent;
            if let Some(len) = transfer.part(*number, out) {
                self.last_sent = *number;
                self.counts.pdus += 1;
                self.counts.octets += transfer.sent.saturating_sub(before);
                if transfer.cutter.is_done() {
                    self.ends.push_back(*number);
                }
                return Some(len);
            }
        }
        None
    }
}

impl<F: Source> Transfer<F> {
    fn part(&mut self, transfer: u16, out: &mut [u8]) -> Option<usize> {
        let piece = self.cutter.next(&mut self.source, self.end)?;
        let (start, end) = (piece.octets.start, piece.octets.end);
        let header = FrameHeader {
            kind: FrameKind::Part,
            place: piece.place,
            transfer,
            length: (end - start) as u32,
            offset: start,
        };
        let (place, mut rest) = out.split_first_chunk_mut()?;
        *place = header.emit();
        let mut used = FrameHeader::LEN;
        if let Some(disk) = piece.header {
            let place;
            (place, rest) = rest.split_first_chunk_mut()?;
            *place = disk.emit();
            used += DiskHeader::LEN;
        }
        let (payload, rest) = rest.split_at_mut_checked((end - start) as usize)?;
        self.source.read(start, payload);
        used += payload.len();
        if piece.place.is_last() {
            self.source.tail(end, rest.get_mut(..DiskHeader::TAIL)?);
            used += DiskHeader::TAIL;
        }
        self.cutter.cut(&piece);
        self.sent = end;
        self.source.release(end);
        Some(used)
    }
}

fn bare(kind: FrameKind, transfer: u16, out: &mut [u8]) -> Option<usize> {
    *out.first_chunk_mut()? = FrameHeader::bare(kind, transfer).emit();
    Some(FrameHeader::LEN)
}
