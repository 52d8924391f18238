//! What becomes of each cell, and the cells that are on their way.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::geometric::{Distances, Draws};
use super::{Bottleneck, LineSpec};
use crate::Time;
use crate::wire::{CELL_LEN, CellFormat, Header, PAYLOAD_LEN, Pti, hec};

/// What a line has done. `cells_in` + `duplicated` = `cells_out` + `lost` + `queue_full` +
/// `overflowed` + `in_flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineCounts {
    /// Cells that came onto it.
    pub cells_in: u64,
    /// Cells that have come off it.
    pub cells_out: u64,
    /// Cells lost by `loss`.
    pub lost: u64,
    /// Cells that found the queue of the bottleneck full.
    pub queue_full: u64,
    /// Cells for which there was no memory: too many were on their way.
    pub overflowed: u64,
    /// Cells that came once more.
    pub duplicated: u64,
    /// Bits inverted.
    pub bit_errors: u64,
    /// Cells with an inverted bit in the header.
    pub header_errors: u64,
    /// Cells with an inverted bit in the payload.
    pub payload_errors: u64,
    /// Cells that the bottleneck has marked (EFCI).
    pub marked: u64,
    /// Cells on their way now.
    pub in_flight: u64,
}

/// What becomes of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When it comes off the line.
    pub due: Time,
    /// How often: not at all if it is lost.
    pub copies: u8,
}

/// What happens to the cells of a line, one after the other.
///
/// Work: a cell costs a few comparisons; each fault some thirty random numbers.
#[derive(Clone, Debug)]
pub struct Impairments {
    spec: LineSpec,
    format: CellFormat,
    losses: Distances,
    duplicates: Distances,
    errors: Distances,
    jitter: Draws,
    /// When cells leave the bottleneck that have not at the last look.
    leaving: VecDeque<Time>,
    /// When the last of them does, and what of a nanosecond comes on top, over the rate.
    free_at: (Time, u64),
    /// When the last cell comes off the line.
    last_due: Time,
    counts: LineCounts,
}

impl Impairments {
    /// Of a line whose first cell is yet to come. Several lines of one specification have a
    /// `number` each, and other faults.
    pub fn new(spec: LineSpec, format: CellFormat, number: u64) -> Self {
        let seed = spec.seed ^ number.wrapping_mul(0xa076_1d64_78bd_642f);
        Self {
            losses: Distances::new(spec.loss, Draws::new(seed, 1)),
            duplicates: Distances::new(spec.duplicate, Draws::new(seed, 2)),
            errors: Distances::new(spec.ber, Draws::new(seed, 3)),
            jitter: Draws::new(seed, 4),
            spec,
            format,
            leaving: VecDeque::with_capacity(spec.bottleneck.map_or(0, |one| one.queue as usize)),
            free_at: (Time::ZERO, 0),
            last_due: Time::ZERO,
            counts: LineCounts::default(),
        }
    }

    /// What was done so far; [`LineCounts::cells_out`] and [`LineCounts::in_flight`] are its
    /// caller's.
    pub fn counts(&self) -> LineCounts {
        self.counts
    }

    /// Whether it can change when cells come off the line.
    pub fn delays(&self) -> bool {
        let spec = &self.spec;
        spec.delay_ns > 0 || spec.jitter_ns > 0 || spec.bottleneck.is_some()
    }

    /// A cell comes onto the line: it is changed as it comes off. Cells come in the order of time.
    ///
    /// All its faults are drawn, whatever becomes of it: those of the next do not depend on it.
    pub fn pass(&mut self, now: Time, cell: &mut [u8]) -> Passage {
        self.counts.cells_in += 1;
        let is_lost = self.losses.next_in(1).is_some();
        let is_twice = self.duplicates.next_in(1).is_some();
        let jitter_ns = match self.spec.jitter_ns {
            0 => 0,
            most => self.jitter.up_to(most),
        };
        let left = match is_lost {
            true => {
                self.counts.lost += 1;
                None
            }
            false => self.leaves(now, cell),
        };
        // Behind the bottleneck: a mark makes the HEC anew, which would hide an error before it.
        let [bits, header, payload] = self.invert(cell);
        let Some(left) = left else {
            return Passage {
                due: now,
                copies: 0,
            };
        };
        self.counts.bit_errors += bits;
        self.counts.header_errors += header;
        self.counts.payload_errors += payload;
        self.counts.duplicated += u64::from(is_twice);
        let due = left.plus_ns(self.spec.delay_ns + jitter_ns);
        self.last_due = self.last_due.max(due);
        Passage {
            due: self.last_due,
            copies: 1 + u8::from(is_twice),
        }
    }

    /// Inverts bits; how many, and whether any of the header and of the payload.
    fn invert(&mut self, cell: &mut [u8]) -> [u64; 3] {
        let bits = 8 * self.format.stride() as u64;
        let header_bits = bits - 8 * PAYLOAD_LEN as u64;
        let (mut at, mut errors) = (0, [0; 3]);
        while let Some(further) = self.errors.next_in(bits - at) {
            let bit = at + further;
            if let Some(octet) = cell.get_mut((bit / 8) as usize) {
                *octet ^= 0x80 >> (bit % 8);
            }
            errors[0] += 1;
            errors[if bit < header_bits { 1 } else { 2 }] = 1;
            at = bit + 1;
        }
        errors
    }

    /// When a cell has left the bottleneck, if there is one; none: its queue is full.
    fn leaves(&mut self, now: Time, cell: &mut [u8]) -> Option<Time> {
        const NS_PER_S: u64 = 1_000_000_000;
        let Some(Bottleneck { rate, queue, efci }) = self.spec.bottleneck else {
            return Some(now);
        };
        while self.leaving.front().is_some_and(|left| *left <= now) {
            self.leaving.pop_front();
        }
        let waiting = self.leaving.len() as u32;
        if waiting >= queue {
            self.counts.queue_full += 1;
            return None;
        }
        if efci.is_some_and(|efci| waiting >= efci) && mark(cell) {
            self.counts.marked += 1;
        }
        let rate = u64::from(rate.cell_s());
        let (free_at, over) = match self.free_at {
            (free_at, over) if free_at > now => (free_at, over),
            _ => (now, 0),
        };
        let over = over + NS_PER_S % rate;
        let left = free_at.plus_ns(NS_PER_S / rate + u64::from(over >= rate));
        self.free_at = (left, over % rate);
        self.leaving.push_back(left);
        Some(left)
    }
}

/// The bit of the fourth octet by which a user's cell says that it met congestion (I.361).
const EFCI: u8 = 0b0100;

/// Marks a user's cell as one that met congestion; whether it was not before.
fn mark(cell: &mut [u8]) -> bool {
    let Some([a, b, c, d]) = cell.first_chunk().copied() else {
        return false;
    };
    let pti = Header::parse([a, b, c, d]).pti();
    let is_unmarked = matches!(
        pti,
        Pti::User {
            congested: false,
            ..
        }
    );
    if is_unmarked {
        cell[3] |= EFCI;
        if cell.len() == CELL_LEN {
            cell[4] = hec([a, b, c, d | EFCI]);
        }
    }
    is_unmarked
}

/// A line that is impaired: stands between the cells that come and whoever takes them.
#[derive(Clone, Debug)]
pub struct ImpairedLine {
    impairments: Impairments,
    /// Octets of the cells on their way, in order, and when each is due.
    flying: VecDeque<(Time, [u8; CELL_LEN])>,
    flying_max: usize,
    overflowed: u64,
    out: u64,
}

impl ImpairedLine {
    /// Cells on their way at most, 64 octets each: more than a line of OC-3c brings in 180 ms.
    pub const FLYING_MAX: usize = 65_536;
    /// Cells taken at once.
    const BATCH: usize = 64;

    /// Its memory is made here, and none later.
    pub fn new(spec: LineSpec, format: CellFormat) -> Self {
        let impairments = Impairments::new(spec, format, 0);
        let cells = match impairments.delays() {
            true => Self::FLYING_MAX,
            false => 4 * Self::BATCH,
        };
        Self {
            impairments,
            flying: VecDeque::with_capacity(cells),
            flying_max: cells,
            overflowed: 0,
            out: 0,
        }
    }

    /// What it has done so far.
    pub fn counts(&self) -> LineCounts {
        LineCounts {
            cells_out: self.out,
            overflowed: self.overflowed,
            in_flight: self.flying.len() as u64,
            ..self.impairments.counts()
        }
    }

    /// When the next cell comes off it, if any is on its way.
    pub fn next_deadline(&self) -> Option<Time> {
        self.flying.front().map(|(due, _)| *due)
    }

    /// Takes the `waiting` cells that have come, and moves to `fifo` as many as are due and fit;
    /// how many. `take` moves so many of the former into what it is given as that holds. A line
    /// that delays none leaves those that do not fit where they wait.
    ///
    /// Work: at most `waiting` cells in, and as many out as `fifo` has room for.
    pub fn receive(
        &mut self,
        now: Time,
        waiting: usize,
        mut take: impl FnMut(&mut [u8]) -> usize,
        fifo: &mut [u8],
    ) -> usize {
        let stride = self.impairments.format.stride();
        let mut batch = [0; Self::BATCH * CELL_LEN];
        let (mut waiting, mut done) = (waiting, 0);
        loop {
            done += self.hand_on(now, &mut fifo[done * stride..]);
            let is_full = !self.impairments.delays() && !self.flying.is_empty();
            if waiting == 0 || is_full {
                break;
            }
            let wanted = waiting.min(Self::BATCH);
            let came = take(&mut batch[..wanted * stride]).min(wanted);
            for cell in batch.chunks_exact_mut(stride).take(came) {
                self.pass(now, cell);
            }
            // None came though they were said to wait: that is all.
            waiting = if came == 0 { 0 } else { waiting - came };
        }
        self.out += done as u64;
        done
    }

    /// Moves to `fifo` as many cells as are due and fit; how many.
    fn hand_on(&mut self, now: Time, fifo: &mut [u8]) -> usize {
        let stride = self.impairments.format.stride();
        let mut places = fifo.chunks_exact_mut(stride);
        let mut done = 0;
        while let Some((_, cell)) = self.flying.front().filter(|(due, _)| *due <= now) {
            let Some(place) = places.next() else { break };
            place.copy_from_slice(&cell[..stride]);
            self.flying.pop_front();
            done += 1;
        }
        done
    }

    fn pass(&mut self, now: Time, cell: &mut [u8]) {
        let Passage { due, copies } = self.impairments.pass(now, cell);
        let mut octets = [0; CELL_LEN];
        octets[..cell.len()].copy_from_slice(cell);
        for _ in 0..copies {
            if self.flying.len() >= self.flying_max {
                self.overflowed += 1;
            } else {
                self.flying.push_back((due, octets));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{HeaderForm, VpiVci};

    const FORMAT: CellFormat = CellFormat::WithHec;

    fn spec(words: &str) -> LineSpec {
        words.parse().expect(words)
    }

    /// A user's cell that knows its number.
    fn cell(number: u64) -> [u8; CELL_LEN] {
        let address = VpiVci::new(0, 40).expect("an address");
        let pti = Pti::User {
            congested: false,
            last: true,
        };
        let header = Header::new(address, pti, false).emit();
        let mut cell = [0; CELL_LEN];
        cell[..4].copy_from_slice(&header);
        cell[4] = hec(header);
        cell[5..13].copy_from_slice(&number.to_be_bytes());
        cell
    }

    /// What comes off a line onto which a cell comes every `gap_ns`, in portions.
    fn through(
        words: &str,
        cells: u64,
        gap_ns: u64,
        portion: u64,
    ) -> (Vec<(u64, [u8; CELL_LEN])>, LineCounts) {
        let mut line = ImpairedLine::new(spec(words), FORMAT);
        let (mut out, mut fifo) = (Vec::new(), vec![0; 32 * CELL_LEN]);
        let mut receive = |line: &mut ImpairedLine, now: u64, from: u64, waiting: u64| {
            let mut next = from;
            let mut waiting = waiting as usize;
            loop {
                let take = |into: &mut [u8]| {
                    for place in into.chunks_exact_mut(CELL_LEN) {
                        place.copy_from_slice(&cell(next));
                        next += 1;
                    }
                    into.len() / CELL_LEN
                };
                let came = line.receive(Time::from_ns(now), waiting, take, &mut fifo);
                let cells = fifo.chunks_exact(CELL_LEN).take(came);
                out.extend(cells.map(|cell| (now, cell.try_into().expect("a cell"))));
                waiting = 0;
                if came < 32 {
                    return;
                }
            }
        };
        for first in (0..cells).step_by(portion as usize) {
            let now = first * gap_ns;
            while let Some(due) = line.next_deadline().filter(|due| due.ns() < now) {
                receive(&mut line, due.ns(), 0, 0);
            }
            receive(&mut line, now, first, portion.min(cells - first));
        }
        while let Some(due) = line.next_deadline() {
            receive(&mut line, due.ns(), 0, 0);
        }
        let counts = line.counts();
        let gone = counts.lost + counts.queue_full + counts.overflowed;
        let came = counts.cells_in + counts.duplicated;
        assert_eq!((came, counts.in_flight), (counts.cells_out + gone, 0));
        assert_eq!(counts.cells_out, out.len() as u64);
        (out, counts)
    }

    #[test]
    fn a_clean_line_changes_nothing() {
        let (out, counts) = through("clean", 1_000, 10, 7);
        let cells = out.iter().map(|(_, octets)| *octets);
        assert!(cells.eq((0..1_000).map(cell)));
        let passed = LineCounts {
            cells_in: 1_000,
            cells_out: 1_000,
            ..LineCounts::default()
        };
        assert_eq!(counts, passed);
    }

    #[test]
    fn the_same_cells_fare_alike_however_they_come() {
        let words = "ber 1e-4 loss 2% duplicate 1% seed 5";
        let [one, other] = [1, 29].map(|portion| {
            let (out, counts) = through(words, 20_000, 1_000, portion);
            (
                out.into_iter().map(|(_, cell)| cell).collect::<Vec<_>>(),
                counts,
            )
        });
        assert_eq!(one, other);
        let (others, _) = through("ber 1e-4 loss 2% duplicate 1% seed 6", 20_000, 1_000, 1);
        assert!(
            !others
                .iter()
                .map(|(_, cell)| *cell)
                .eq(one.0.iter().copied())
        );
        // Another loss leaves bit errors where they are.
        let damaged = |words: &str| {
            let (out, _) = through(words, 20_000, 1_000, 1);
            let cells = out.iter().map(|(_, cell)| *cell);
            let number = |octets: &[u8; CELL_LEN]| {
                u64::from_be_bytes(*octets[5..].first_chunk().expect("eight octets"))
            };
            let damaged =
                cells.filter(|octets| number(octets) < 20_000 && *octets != cell(number(octets)));
            damaged.map(|octets| number(&octets)).collect::<Vec<_>>()
        };
        let all = damaged("ber 1e-5 seed 5");
        let some = damaged("ber 1e-5 loss 50% seed 5");
        assert!(!some.is_empty() && some.len() < all.len());
        assert!(some.iter().all(|number| all.contains(number)));
    }

    /// Each count is of independent trials: sigma is the root of n p (1 - p).
    #[test]
    fn counts_follow_the_law() {
        const CELLS: u64 = 200_000;
        let (_, counts) = through("ber 1e-5 loss 1% duplicate 0.1% seed 3", CELLS, 100, 64);
        let kept = CELLS - counts.lost;
        for (what, count, mean, sigma) in [
            ("lost", counts.lost, 2_000, 45),
            ("duplicated", counts.duplicated, kept / 1_000, 15),
            ("bits", counts.bit_errors, kept * 424 / 100_000, 29),
            ("headers", counts.header_errors, kept * 40 / 100_000, 9),
            ("payloads", counts.payload_errors, kept * 384 / 100_000, 28),
        ] {
            assert!(
                count.abs_diff(mean) <= 3 * sigma,
                "{what}: {count}, not {mean}"
            );
        }
    }

    #[test]
    fn delayed_cells_come_in_order_after_their_delay() {
        let (out, _) = through("delay 5ms", 1_000, 3_000, 1);
        assert!(
            (0..)
                .zip(&out)
                .all(|(n, (at, octets))| { *at == n * 3_000 + 5_000_000 && *octets == cell(n) })
        );
        let (out, _) = through("delay 1ms jitter 2ms seed 4", 5_000, 10_000, 1);
        let delays = (0..).zip(&out).map(|(n, (at, octets))| {
            assert_eq!(*octets, cell(n), "cells keep their order");
            at - n * 10_000
        });
        let delays: Vec<u64> = delays.collect();
        assert!(delays.iter().all(|ns| (1_000_000..=3_000_000).contains(ns)));
        // Who is late holds up who comes behind: most come as late as the latest.
        assert!(delays.iter().min() < Some(&2_500_000) && delays.iter().max() > Some(&2_990_000));
    }

    #[test]
    fn a_bottleneck_keeps_its_rate_discards_what_it_has_no_room_for_and_marks() {
        // Twice as many come as leave: the queue fills, and every second one is lost.
        let words = "rate 300000 queue 10 efci 5";
        let (out, counts) = through(words, 60_000, 1_667, 1);
        let span = out.last().expect("cells").0;
        let rate = out.len() as u64 * 1_000_000_000 / span;
        assert!((299_000..=300_001).contains(&rate), "{rate}");
        assert_eq!(counts.queue_full + counts.cells_out, 60_000);
        assert!(counts.queue_full.abs_diff(30_000) < 50, "{counts:?}");
        assert!(counts.marked > counts.cells_out - 20, "{counts:?}");
        for (_, octets) in &out[20..] {
            let header = Header::parse(*octets.first_chunk().expect("a header"));
            let pti = Pti::User {
                congested: true,
                last: true,
            };
            assert_eq!(
                (header.pti(), header.address(HeaderForm::Uni).bits()),
                (pti, 40)
            );
            assert_eq!(octets[4], hec(*octets.first_chunk().expect("a header")));
        }
        // Exact over any time: 3 cells in 10 us, 1,000,000,000 / 300,000 is no whole number.
        let (out, counts) = through("rate 300000 queue 65536", 30_000, 1_000, 1);
        assert_eq!(
            (counts.queue_full, out.last().expect("cells").0),
            (0, 100_000_000)
        );
    }

    /// A bottleneck stands before the line that damages: it gives no damaged header a good HEC,
    /// which finds up to three bits in error.
    #[test]
    fn a_mark_hides_no_damaged_header() {
        let words = "ber 1e-4 rate 300000 queue 10 efci 1 seed 2";
        let (out, counts) = through(words, 60_000, 1_667, 1);
        let is_bad = |octets: &[u8; CELL_LEN]| {
            let [a, b, c, d, sent, ..] = *octets;
            hec([a, b, c, d]) != sent
        };
        let bad = out.iter().filter(|(_, octets)| is_bad(octets)).count();
        assert!(counts.marked > 20_000, "{counts:?}");
        assert_eq!((bad as u64, bad > 50), (counts.header_errors, true));
    }

    #[test]
    fn cells_without_memory_are_counted() {
        let more = ImpairedLine::FLYING_MAX as u64 + 100;
        let (out, counts) = through("delay 1s", more, 10, 64);
        assert_eq!(
            (counts.overflowed, out.len()),
            (100, ImpairedLine::FLYING_MAX)
        );
    }
}
