//! The sender's half.

use std::collections::VecDeque;

use crate::Time;
use crate::terminal::cutter::{Cutter, Split};
use crate::terminal::{Arq, Pci, Source, Status, TransmitBuffer};

/// Without an answer for so long, at first, a PDU is sent again.
const PATIENCE_NS: u64 = 200_000_000;
/// The shortest that a sender waits, which is longer than a receiver keeps a status back, and the
/// longest.
const PATIENCE_MIN_NS: u64 = 10_000_000;
const PATIENCE_MAX_NS: u64 = 4_000_000_000;

/// A status that says what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a receiver says that it has what was never sent")]
pub struct StatusFault;

/// What a sender has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// Times that a PDU was sent, and those of them that were not the first.
    pub pdus: u64,
    pub again: u64,
    /// Octets of payload in each.
    pub octets: u64,
    pub octets_again: u64,
    /// PDUs that were heard of, that they came or were lost, and octets of payload in them.
    pub heard: u64,
    pub octets_heard: u64,
    /// PDUs that were lost on their way, as often as they were.
    pub lost: u64,
    /// Times that nothing was heard for too long.
    pub timeouts: u64,
}

impl SenderCounts {
    /// Of nothing.
    pub const ZERO: Self = Self {
        pdus: 0,
        again: 0,
        octets: 0,
        octets_again: 0,
        heard: 0,
        octets_heard: 0,
        lost: 0,
        timeouts: 0,
    };
}

impl core::ops::AddAssign for SenderCounts {
    fn add_assign(&mut self, other: Self) {
        self.pdus += other.pdus;
        self.again += other.again;
        self.octets += other.octets;
        self.octets_again += other.octets_again;
        self.heard += other.heard;
        self.octets_heard += other.octets_heard;
        self.lost += other.lost;
        self.timeouts += other.timeouts;
    }
}

/// A PDU that nothing has been heard of since it was sent.
#[derive(Clone, Copy, Debug)]
struct Flight {
    serial: u16,
    sequence: u64,
    /// Of payload.
    octets: u64,
    at: Time,
}

/// The sender's half of a transfer.
#[derive(Clone, Debug)]
pub struct Sender<S> {
    buffer: TransmitBuffer<S>,
    cutter: Cutter,
    flights: VecDeque<Flight>,
    /// PDUs to be sent again, in the order in which that was found.
    again: VecDeque<u64>,
    /// Which of the PDUs from a(2) on the receiver holds.
    there: VecDeque<bool>,
    /// PDUs below it were sent once.
    sent_to: u64,
    round_trip_ns: Option<u64>,
    patience_ns: u64,
    deadline: Option<Time>,
    counts: SenderCounts,
}

impl<S: Source> Sender<S> {
    /// Nothing was sent yet. The transfer of a file, with `disk_len`, begins where a disk-PDU
    /// does, ends where one does or the file does, and is not empty.
    pub fn new(buffer: TransmitBuffer<S>, split: Split) -> Self {
        let terms = *buffer.terms();
        let window = terms.window as usize;
        Self {
            buffer,
            cutter: Cutter::new(split, (terms.start, terms.end)),
            flights: VecDeque::with_capacity(window),
            again: VecDeque::with_capacity(window),
            there: VecDeque::with_capacity(window),
            sent_to: 0,
            round_trip_ns: None,
            patience_ns: PATIENCE_NS,
            deadline: None,
            counts: SenderCounts::default(),
        }
    }

    /// PDUs that are cut from now on have so many octets of payload at most.
    pub const fn set_pdu_len(&mut self, pdu_len: u16) {
        self.cutter.set_pdu_len(pdu_len);
    }

    /// What is sent, for the controller.
    pub const fn buffer_mut(&mut self) -> &mut TransmitBuffer<S> {
        &mut self.buffer
    }

    /// As [`Self::buffer_mut`], to look at.
    pub const fn buffer(&self) -> &TransmitBuffer<S> {
        &self.buffer
    }

    /// Whether the receiver has acknowledged all of it. A stream never is.
    pub fn is_finished(&self) -> bool {
        let pointers = self.buffer.pointers();
        self.cutter.is_done() && pointers.a2 == pointers.w2
    }

    /// What it has counted.
    pub const fn counts(&self) -> SenderCounts {
        self.counts
    }

    /// When [`Sender::handle_deadline`] is due, if nothing is heard before.
    pub const fn next_deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// The number of the next PDU to be sent, if there is one: the caller begins it, and calls
    /// [`Sender::sent`].
    pub fn poll(&mut self) -> Option<u64> {
        let a2 = self.buffer.pointers().a2;
        while let Some(sequence) = self.again.front() {
            let at = sequence.checked_sub(a2);
            if at.is_some_and(|at| self.there.get(at as usize) == Some(&false)) {
                return Some(*sequence);
            }
            self.again.pop_front();
        }
        let w2 = self.buffer.pointers().w2;
        if self.sent_to < w2 {
            return Some(self.sent_to);
        }
        self.cut()
    }

    /// The PDU with this number, which [`Sender::poll`] told of, was begun.
    pub fn sent(&mut self, now: Time, sequence: u64) {
        let is_again = sequence < self.sent_to;
        if is_again {
            self.again.pop_front();
        }
        self.sent_to = self.sent_to.max(sequence + 1);
        let octets = self
            .buffer
            .pci(sequence)
            .map_or(0, |pci| u64::from(pci.length));
        self.counts.pdus += 1;
        self.counts.octets += octets;
        self.counts.again += u64::from(is_again);
        self.counts.octets_again += if is_again { octets } else { 0 };
        self.flights.push_back(Flight {
            serial: self.buffer.begun().wrapping_sub(1) as u16,
            sequence,
            octets,
            at: now,
        });
        self.deadline = Some(now.plus_ns(self.patience_ns));
    }

    /// Makes the next PDU, if there is something to send and room for it.
    fn cut(&mut self) -> Option<u64> {
        let edge = self.buffer.pointers().edge;
        let piece = self.cutter.next(self.buffer.source_mut(), edge)?;
        if let Some(header) = piece.header {
            let (place, _) = self.buffer.disk_mut();
            place.copy_from_slice(&header.emit());
        }
        let length = piece.octets.end - piece.octets.start;
        let sequence = self
            .buffer
            .cut(piece.place, piece.octets.start, length as u16)?;
        self.cutter.cut(&piece);
        self.there.push_back(false);
        Some(sequence)
    }

    /// The receiver has told what it has. One that is older than the last changes nothing.
    pub fn handle_status(&mut self, now: Time, status: &Status<'_>) -> Result<(), StatusFault> {
        let pointers = self.buffer.pointers();
        let (a2, w2) = (pointers.a2, pointers.w2);
        let ahead = status.next.wrapping_sub(a2 as u32) % Pci::SEQUENCES;
        if ahead > Pci::SEQUENCES / 2 {
            return Ok(());
        }
        let next = a2 + u64::from(ahead);
        let bits = || set_bits(status.above).map(|bit| next + 1 + bit as u64);
        let begun = self.buffer.begun();
        let is_sent = |seen: u16| {
            let behind = (begun as u16).wrapping_sub(seen);
            (1..=begun.min(1 << 15)).contains(&behind.into())
        };
        if next > w2
            || bits().any(|sequence| sequence >= self.sent_to)
            || next > self.sent_to
            || status.seen.is_some_and(|seen| !is_sent(seen))
        {
            return Err(StatusFault);
        }
        for sequence in bits() {
            self.there[(sequence - a2) as usize] = true;
        }
        let new = self.buffer.handle_acknowledged(status.next);
        let new = new.ok_or(StatusFault)?;
        self.there.drain(..new as usize);
        self.buffer.open_to(status.edge);
        let mut is_news = new > 0;
        if let Some(seen) = status.seen {
            is_news |= self.hears_of(now, seen, status.held_us);
        }
        let is_waiting = !self.there.is_empty() || !self.flights.is_empty();
        // A status that only comes again tells nothing of a PDU that was lost as the last: it
        // comes more often than patience may last.
        if !is_waiting {
            self.deadline = None;
        } else if is_news || self.deadline.is_none() {
            self.deadline = Some(now.plus_ns(self.patience_ns));
        }
        Ok(())
    }

    /// What was sent up to the newest PDU that came is there or lost. Whether that was not known.
    fn hears_of(&mut self, now: Time, seen: u16, held_us: u32) -> bool {
        let a2 = self.buffer.pointers().a2;
        let (mut is_lost, mut is_news) = (false, false);
        while let Some(flight) = self
            .flights
            .pop_front_if(|flight| seen.wrapping_sub(flight.serial) < 1 << 15)
        {
            is_news = true;
            if flight.serial == seen {
                let held_ns = u64::from(held_us) * 1_000;
                self.is_timed(now.since_ns(flight.at).saturating_sub(held_ns));
            }
            self.counts.heard += 1;
            self.counts.octets_heard += flight.octets;
            let at = flight.sequence.checked_sub(a2);
            if at.is_some_and(|at| self.there.get(at as usize) == Some(&false)) {
                self.counts.lost += 1;
                is_lost = true;
                if self.buffer.terms().arq == Arq::Selective {
                    self.again.push_back(flight.sequence);
                }
            }
        }
        if is_lost && self.buffer.terms().arq == Arq::GoBackN {
            self.goes_back();
        }
        is_news
    }

    /// All from a(2) on is sent again, as it was cut: a PDU that is on its way may still be taken
    /// for the one with its number.
    fn goes_back(&mut self) {
        self.flights.clear();
        self.again.clear();
        self.again.extend(self.buffer.pointers().a2..self.sent_to);
    }

    fn is_timed(&mut self, round_trip_ns: u64) {
        let smoothed = match self.round_trip_ns {
            Some(before) => before - before / 8 + round_trip_ns / 8,
            None => round_trip_ns,
        };
        self.round_trip_ns = Some(smoothed);
        let patience_ns = smoothed.saturating_mul(4);
        self.patience_ns = patience_ns.clamp(PATIENCE_MIN_NS, PATIENCE_MAX_NS);
    }

    /// Nothing was heard for too long: what was sent first is sent again, and the answer to that
    /// says what became of the rest.
    pub fn handle_deadline(&mut self, now: Time) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.counts.timeouts += 1;
        self.patience_ns = (2 * self.patience_ns).min(PATIENCE_MAX_NS);
        self.deadline = Some(now.plus_ns(self.patience_ns));
        if !self.again.is_empty() {
            return;
        }
        let a2 = self.buffer.pointers().a2;
        if self.buffer.terms().arq == Arq::GoBackN {
            self.goes_back();
        } else if let Some(first) = self.flights.pop_front() {
            self.again.push_back(first.sequence);
        } else if !self.there.is_empty() {
            self.again.push_back(a2);
        }
    }
}

/// The numbers of the bits that are set.
fn set_bits(octets: &[u8]) -> impl Iterator<Item = usize> {
    octets.iter().enumerate().flat_map(|(at, octet)| {
        (0..8)
            .filter(move |bit| octet >> bit & 1 == 1)
            .map(move |bit| 8 * at + bit)
    })
}
