//! The sender's half of a transfer: what is sent next, what again, and when.
//!
//! A VC keeps the order of PDUs, and each PDU has a sequence number of its own, those that are sent
//! again, too. So what was sent before the newest that came, and is not there, is lost: nothing is
//! sent again for having been late. A timer is there for the last PDUs, and for statuses that get
//! lost.

use std::collections::VecDeque;
use std::ops::Range;

use super::{Arq, Extents, Status};
use crate::Time;

/// Without an answer for so long, at first, a PDU is sent again.
const PATIENCE_NS: u64 = 200_000_000;
/// The shortest that a sender waits, and the longest.
const PATIENCE_MIN_NS: u64 = 2_000_000;
const PATIENCE_MAX_NS: u64 = 8_000_000_000;

/// A transfer, as its sender has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Octets.
    pub len: u64,
    /// Octets of the file in a PDU, at most; 1 or more.
    pub pdu_len: u32,
    /// Octets of a disk-PDU: a power of two. No PDU crosses from one to the next.
    pub disk_len: u64,
    /// How what is lost is sent again.
    pub arq: Arq,
}

/// A PDU to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its sequence number.
    pub sequence: u32,
    /// The octets of the file that are in it.
    pub octets: Range<u64>,
    /// It begins a disk-PDU.
    pub is_first: bool,
    /// It ends a disk-PDU.
    pub is_last: bool,
    /// These octets were sent before.
    pub is_again: bool,
}

/// A status that says what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a receiver says that it has what was never sent")]
pub struct StatusFault;

/// What a sender has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// PDUs sent, and those of them whose octets were sent before.
    pub pdus: u64,
    pub again: u64,
    /// Octets of the file in the latter.
    pub octets_again: u64,
    /// PDUs that were lost on their way.
    pub lost: u64,
    /// Disk-PDUs whose digest was wrong.
    pub refused: u64,
    /// Times that nothing was heard for too long.
    pub timeouts: u64,
}

/// A PDU that nothing has been heard of.
#[derive(Clone, Debug)]
struct Flight {
    sequence: u32,
    octets: Range<u64>,
    at: Time,
}

/// The sender's half of a transfer.
#[derive(Clone, Debug)]
pub struct Sender {
    shape: Shape,
    /// The next octet that was never sent; with go-back-N, the next that is sent.
    next: u64,
    /// The highest octet that was ever sent, plus one.
    reached: u64,
    acknowledged: u64,
    edge: u64,
    /// What is there beyond what is acknowledged.
    there: Extents,
    /// What is to be sent again, in the order in which that was found.
    lost: VecDeque<Range<u64>>,
    flights: VecDeque<Flight>,
    sequence: u32,
    /// Nothing was sent yet of an empty file.
    is_unsent: bool,
    is_finished: bool,
    /// The round trip, smoothed; none was measured yet.
    round_trip_ns: Option<u64>,
    patience_ns: u64,
    deadline: Option<Time>,
    counts: SenderCounts,
}

impl Sender {
    /// Nothing was sent yet; the receiver has `there` already, and room up to `edge`.
    pub fn new(shape: Shape, there: &Extents, edge: u64) -> Self {
        let acknowledged = there.end_from(0).min(shape.len);
        Self {
            shape,
            next: acknowledged,
            reached: acknowledged,
            acknowledged,
            edge,
            there: there.clone(),
            lost: VecDeque::new(),
            flights: VecDeque::new(),
            sequence: 0,
            is_unsent: acknowledged == shape.len,
            is_finished: false,
            round_trip_ns: None,
            patience_ns: PATIENCE_NS,
            deadline: None,
            counts: SenderCounts::default(),
        }
    }

    /// Whether the receiver has all, checked, and in its place.
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// All octets before this one are there, checked and safe.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// What it has counted.
    pub fn counts(&self) -> SenderCounts {
        self.counts
    }

    /// The round trip in nanoseconds, smoothed, if one was measured.
    pub fn round_trip_ns(&self) -> Option<u64> {
        self.round_trip_ns
    }

    /// Octets of the file in PDUs from now on: what is lost of longer ones is sent in parts.
    pub fn set_pdu_len(&mut self, pdu_len: u32) {
        self.shape.pdu_len = pdu_len.max(1);
    }

    /// When [`Sender::handle_deadline`] is due, if nothing is heard before.
    pub fn next_deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// The next PDU, if there is one to send: the caller sends it at once.
    pub fn poll(&mut self, now: Time) -> Option<Segment> {
        if self.is_finished {
            return None;
        }
        let octets = self.next_again().or_else(|| self.next_new())?;
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        let is_again = octets.start < self.reached;
        self.reached = self.reached.max(octets.end);
        self.counts.pdus += 1;
        self.counts.again += u64::from(is_again);
        if is_again {
            self.counts.octets_again += octets.end - octets.start;
        }
        self.flights.push_back(Flight {
            sequence,
            octets: octets.clone(),
            at: now,
        });
        self.deadline = Some(now.plus_ns(self.patience_ns));
        let ends = |at: u64| at.is_multiple_of(self.shape.disk_len) || at == self.shape.len;
        Some(Segment {
            sequence,
            is_first: octets.start.is_multiple_of(self.shape.disk_len),
            is_last: ends(octets.end),
            is_again,
            octets,
        })
    }

    /// The first that is lost and not there meanwhile, as long as a PDU may be.
    fn next_again(&mut self) -> Option<Range<u64>> {
        while let Some(lost) = self.lost.pop_front() {
            let start = self.there.end_from(lost.start).max(self.acknowledged);
            if start >= lost.end && !lost.is_empty() {
                continue;
            }
            let end = self.end_of_pdu(start).min(lost.end);
            if end < lost.end {
                self.lost.push_front(end..lost.end);
            }
            return Some(start..end);
        }
        None
    }

    /// The next that was never sent, if the receiver has room for it.
    fn next_new(&mut self) -> Option<Range<u64>> {
        if std::mem::take(&mut self.is_unsent) {
            return Some(self.next..self.next);
        }
        let start = self.there.end_from(self.next).min(self.shape.len);
        let end = self.end_of_pdu(start);
        let end = match self.there.iter().find(|one| one.start > start) {
            Some(there) => end.min(there.start),
            None => end,
        };
        // A PDU that is cut short by the window waits for more of it.
        if start >= self.shape.len || end > self.edge {
            return None;
        }
        self.next = end;
        Some(start..end)
    }

    /// Where a PDU ends that begins here.
    fn end_of_pdu(&self, start: u64) -> u64 {
        let disk_end = (start / self.shape.disk_len + 1).saturating_mul(self.shape.disk_len);
        let end = start.saturating_add(self.shape.pdu_len.into());
        end.min(disk_end).min(self.shape.len)
    }

    /// The receiver has told what it has.
    pub fn handle_status(&mut self, now: Time, status: &Status) -> Result<(), StatusFault> {
        let last = status.extents.iter().next_back();
        let most = last.map_or(status.acknowledged, |last| last.end);
        let newest = self.sequence.wrapping_sub(1);
        let is_sent = newest.wrapping_sub(status.seen) as i32 >= 0;
        if most > self.reached || status.acknowledged > self.reached || !is_sent {
            return Err(StatusFault);
        }
        if status.acknowledged < self.acknowledged {
            // It is older than the last.
            return Ok(());
        }
        self.acknowledged = status.acknowledged;
        self.edge = self.edge.max(status.edge);
        self.is_finished = status.is_finished;
        self.there = status.extents.clone();
        self.hears_of(now, status);
        let is_waiting = !self.flights.is_empty() || self.acknowledged < self.reached;
        self.deadline = (is_waiting && !self.is_finished).then(|| now.plus_ns(self.patience_ns));
        Ok(())
    }

    /// What was sent up to the newest PDU that came is there or lost, or of a disk-PDU that was
    /// damaged, of which all is sent again.
    fn hears_of(&mut self, now: Time, status: &Status) {
        let again = status.again.iter().map(|index| self.disk_pdu(*index));
        let again: Extents = again.collect();
        let mut lost = Vec::new();
        while let Some(flight) = self
            .flights
            .pop_front_if(|flight| status.seen.wrapping_sub(flight.sequence) as i32 >= 0)
        {
            if flight.sequence == status.seen {
                let held_ns = u64::from(status.held_us) * 1_000;
                self.is_timed(now.since_ns(flight.at).saturating_sub(held_ns));
            }
            let left = flight.octets.start.max(self.acknowledged)..flight.octets.end;
            if !left.is_empty() && !self.there.cover(&left) && !again.cover(&left) {
                self.counts.lost += 1;
                lost.push(left);
            }
        }
        match (self.shape.arq, lost.is_empty()) {
            (Arq::Selective, _) => self.lost.extend(lost),
            (Arq::GoBackN, false) => self.goes_back(),
            (Arq::GoBackN, true) => {}
        }
        for index in &status.again {
            self.is_refused(self.disk_pdu(*index));
        }
    }

    /// The octets of a disk-PDU.
    fn disk_pdu(&self, index: u32) -> Range<u64> {
        let start = u64::from(index).saturating_mul(self.shape.disk_len);
        let end = start.saturating_add(self.shape.disk_len);
        start.min(self.shape.len)..end.min(self.shape.len)
    }

    /// All from the first that is not there is sent again.
    fn goes_back(&mut self) {
        self.next = self.acknowledged;
        self.flights.clear();
    }

    /// A disk-PDU was damaged. A receiver says so until it is whole: while some of it is under way
    /// again, that is known.
    fn is_refused(&mut self, whole: Range<u64>) {
        let is_of_it = |one: &Range<u64>| one.start < whole.end && whole.start < one.end;
        let mut flights = self.flights.iter().map(|flight| &flight.octets);
        if whole.start < self.acknowledged
            || self.lost.iter().any(is_of_it)
            || flights.any(is_of_it)
            || self.shape.arq == Arq::GoBackN && self.next <= whole.start
        {
            return;
        }
        self.counts.refused += 1;
        match self.shape.arq {
            Arq::Selective => self.lost.push_back(whole),
            Arq::GoBackN => self.goes_back(),
        }
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
        if !self.lost.is_empty() {
            return;
        }
        let first = match self.flights.pop_front() {
            Some(flight) => flight.octets,
            // All has come, and the last status has not.
            None => self.acknowledged..self.end_of_pdu(self.acknowledged),
        };
        self.lost.push_back(first);
    }
}
