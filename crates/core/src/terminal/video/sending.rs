//! Octets of a transport stream to the SDUs of a connection: two packets each, numbered.
//!
//! What a camera, a pipe or a socket brings leaves as it comes. A file is paced: its clock
//! references say when each packet leaves, and those between two are spread evenly.

use std::collections::VecDeque;

use super::{Flaws, Planted, Sound};
use crate::Time;
use crate::wire::{Pcr, Pid, TS_LEN, TS_SYNC, TsHeader, ticks_to_ns};

/// What says when packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Whoever brings them.
    Source,
    /// Their clock references.
    References,
}

/// How a stream is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendingTerms {
    /// Packets of a PDU, at least one.
    pub pack: usize,
    /// A PDU ends with a packet that has a clock reference, so that no other delays it.
    pub pcr_aware: bool,
    /// The user-to-user octet numbers PDUs; else it is 0.
    pub numbered: bool,
    /// What says when packets leave.
    pub pace: Pace,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SendingCounts {
    /// PDUs.
    pub pdus: u64,
    /// Transport packets.
    pub packets: u64,
    /// Octets that are no transport packet, and were left out.
    pub skipped_octets: u64,
    /// Clock references that were used.
    pub references: u64,
    /// Times that the clock has jumped, announced or not.
    pub jumps: u64,
    /// Packets without a clock reference that places them.
    pub untimed: u64,
}

/// A packet waits for others of its PDU so long, in ns.
const COMPANY_NS: u64 = 10_000_000;
/// References that are farther apart are a jump.
const JUMP_NS: i64 = 1_000_000_000;
/// Packets that are looked at for a reference: half a second of 100 Mbit/s.
const AHEAD_PACKETS: usize = 1 << 15;

/// First octets that have to be right in a row.
const IN_A_ROW: usize = 3;

#[derive(Clone, Debug)]
struct Waiting {
    octets: [u8; TS_LEN],
    /// When it leaves; none: that is not known yet.
    due: Option<Time>,
    has_reference: bool,
}

/// What octets begin with.
enum Step {
    Packet(TsHeader),
    /// No packet.
    None,
    /// That is not known before more have come.
    More,
}

/// A stream on its way to its connection.
#[derive(Clone, Debug)]
pub struct Sending<F: Flaws = Sound> {
    terms: SendingTerms,
    flaws: F,
    /// Octets that are no whole packet yet.
    part: Vec<u8>,
    /// The octets before them were a packet.
    in_step: bool,
    packets: VecDeque<Waiting>,
    /// Of these, the first so many have their time.
    timed: usize,
    last: Option<(Pid, Pcr, Time)>,
    /// Nanoseconds from a packet to the next, between the last two references.
    apart_ns: u64,
    uu: u8,
    ended: bool,
    counts: SendingCounts,
}

impl Sending {
    /// Nothing to send yet.
    pub fn new(terms: SendingTerms) -> Self {
        Sending::with(terms, Sound)
    }
}

impl<F: Flaws> Sending<F> {
    /// The same, perhaps with a bug.
    pub fn with(terms: SendingTerms, flaws: F) -> Self {
        Self {
            terms,
            flaws,
            part: Vec::with_capacity(IN_A_ROW * TS_LEN),
            in_step: false,
            packets: VecDeque::new(),
            timed: 0,
            last: None,
            apart_ns: 0,
            uu: 0,
            ended: false,
            counts: SendingCounts::default(),
        }
    }

    /// What was sent.
    pub const fn counts(&self) -> &SendingCounts {
        &self.counts
    }

    /// Whether more octets are of use now: a file is read ahead to its next reference, and no
    /// farther than there is room for.
    pub fn wants(&self) -> bool {
        let ahead = match self.terms.pace {
            Pace::Source => self.terms.pack,
            Pace::References if self.timed >= 2 * self.terms.pack => 0,
            Pace::References => AHEAD_PACKETS,
        };
        !self.ended && self.packets.len() < ahead.max(1)
    }

    /// Whether everything has left.
    pub fn is_over(&self) -> bool {
        self.ended && self.packets.is_empty()
    }

    /// Octets have come, however they are cut.
    pub fn handle(&mut self, now: Time, octets: &[u8]) {
        self.part.extend_from_slice(octets);
        self.cut(now);
    }

    /// No more octets come.
    pub fn end(&mut self) {
        self.ended = true;
        self.counts.skipped_octets += self.part.len() as u64;
        self.part.clear();
        self.time_rest();
    }

    /// Takes packets off what has come, and leaves out what is none.
    fn cut(&mut self, now: Time) {
        let part = core::mem::take(&mut self.part);
        let mut at = 0;
        while let Some(packet) = part[at..].first_chunk::<TS_LEN>() {
            match self.step(&part[at..]) {
                Step::Packet(header) => {
                    self.in_step = true;
                    self.packet(now, packet, &header);
                    at += TS_LEN;
                }
                Step::None => {
                    self.in_step = false;
                    let next = part[at + 1..].iter().position(|octet| *octet == TS_SYNC);
                    let next = next.map_or(part.len(), |next| at + 1 + next);
                    self.counts.skipped_octets += (next - at) as u64;
                    at = next;
                }
                Step::More => break,
            }
        }
        self.part = part;
        self.part.drain(..at);
    }

    /// What octets begin with, at least a packet's. Behind what is none, one octet alone makes no
    /// packet: those a packet's length behind it have to be right, too, as many as there are if
    /// the octets end with a packet.
    fn step(&self, octets: &[u8]) -> Step {
        let header = octets.first_chunk().map(TsHeader::parse);
        let Some(Ok((header, _))) = header else {
            return Step::None;
        };
        let mut firsts = octets.iter().step_by(TS_LEN).take(IN_A_ROW);
        let is_enough = firsts.len() == IN_A_ROW || octets.len().is_multiple_of(TS_LEN);
        match self.in_step || firsts.all(|octet| *octet == TS_SYNC) {
            true if self.in_step || is_enough => Step::Packet(header),
            true => Step::More,
            false => Step::None,
        }
    }

    fn packet(&mut self, now: Time, octets: &[u8; TS_LEN], header: &TsHeader) {
        let is_paced = self.terms.pace == Pace::References && !self.flaws.has(Planted::Unpaced);
        self.packets.push_back(Waiting {
            octets: *octets,
            due: (!is_paced).then_some(now),
            has_reference: header.pcr().is_some(),
        });
        if !is_paced {
            self.timed = self.packets.len();
        } else if let Some(pcr) = header.pcr() {
            self.referenced(now, header, pcr);
        } else if self.packets.len() >= AHEAD_PACKETS {
            // It has no clock: it leaves as its contract lets it.
            self.counts.untimed += (self.packets.len() - self.timed) as u64;
            self.time_rest();
        }
    }

    /// The last packet has a reference: those before it have their times.
    fn referenced(&mut self, now: Time, header: &TsHeader, pcr: Pcr) {
        let untimed = (self.packets.len() - self.timed) as u64;
        let due = match self.last {
            Some((pid, _, _)) if pid != header.pid => return,
            None => {
                self.counts.references += 1;
                now
            }
            Some((_, before, then)) => {
                self.counts.references += 1;
                let step = ticks_to_ns(pcr.since(before));
                let is_jump = header.is_discontinuity() || !(0..=JUMP_NS).contains(&step);
                match u64::try_from(step) {
                    Ok(step) if !is_jump => {
                        self.apart_ns = step / untimed.max(1);
                        then.plus_ns(step)
                    }
                    _ => {
                        self.counts.jumps += 1;
                        then.plus_ns(self.apart_ns.saturating_mul(untimed))
                    }
                }
            }
        };
        let begun = self.last.map_or(due, |(_, _, then)| then);
        let whole = due.since_ns(begun);
        let first = self.timed;
        for (place, packet) in (1..).zip(self.packets.range_mut(first..)) {
            let part = u128::from(whole) * place / u128::from(untimed.max(1));
            packet.due = Some(begun.plus_ns(part as u64));
        }
        self.timed = self.packets.len();
        self.last = Some((header.pid, pcr, due));
    }

    /// Packets that no reference follows go on as those before them.
    fn time_rest(&mut self) {
        let begun = self.last.map_or(Time::ZERO, |(_, _, then)| then);
        let apart = self.apart_ns;
        for (place, packet) in (1..).zip(self.packets.range_mut(self.timed..)) {
            packet.due = Some(begun.plus_ns(apart.saturating_mul(place)));
        }
        self.timed = self.packets.len();
    }

    /// Packets of the next PDU, and whether it is all of it.
    fn next_pdu(&self) -> (usize, bool) {
        let pack = self.terms.pack.max(1);
        let passes = self.flaws.has(Planted::PcrPassed);
        let ends = |waiting: &Waiting| self.terms.pcr_aware && waiting.has_reference && !passes;
        let of_it = self.packets.iter().take(pack.min(self.timed));
        let end = of_it.clone().position(ends);
        match end {
            Some(last) => (last + 1, true),
            None => (of_it.len(), of_it.len() == pack),
        }
    }

    /// When [`Sending::poll`] has a PDU next; octets may make it sooner.
    pub fn next_deadline(&self) -> Option<Time> {
        let first = self.packets.front()?.due?;
        let (packets, is_whole) = self.next_pdu();
        let waits = first.plus_ns(COMPANY_NS);
        let last = self.packets.get(packets.checked_sub(1)?)?.due?;
        let is_last = self.ended && packets == self.packets.len();
        Some(match is_whole || is_last {
            true => last.min(waits),
            false => waits,
        })
    }

    /// The next PDU, if it is due: its SDU in `sdu`, and its user-to-user octet.
    pub fn poll(&mut self, now: Time, sdu: &mut Vec<u8>) -> Option<u8> {
        if now < self.next_deadline()? {
            return None;
        }
        let (packets, _) = self.next_pdu();
        sdu.clear();
        for packet in self.packets.drain(..packets) {
            sdu.extend_from_slice(&packet.octets);
        }
        self.timed -= packets;
        self.counts.pdus += 1;
        self.counts.packets += packets as u64;
        let uu = self.uu;
        if self.terms.numbered && !self.flaws.has(Planted::NumberKept) {
            self.uu = uu.wrapping_add(1);
        }
        Some(uu)
    }
}
