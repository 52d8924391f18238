use std::collections::VecDeque;

use cellgate_core::contract::CellRate;

use super::cost::FIFOS;
use crate::world::{Interval, Octets, Pace, Ps};

/// Slots of the line by which a token may be late: as many as the other FIFOs can take first.
const LATE_SLOTS: u64 = FIFOS as u64;

/// A cell that has left.
#[derive(Clone, Copy, Debug)]
pub struct Departed {
    /// When its last bit left.
    pub at: Ps,
    /// From which FIFO.
    pub fifo: usize,
    /// The cell.
    pub octets: Octets,
}

/// The transmit FIFOs with their token generators, before one line. The first FIFO with a cell and
/// a token has the next slot.
#[derive(Debug)]
pub struct Transmitter {
    fifos: [Fifo; FIFOS],
    slot: Interval,
    next_slot: Pace,
}

#[derive(Debug)]
struct Fifo {
    cells: VecDeque<Octets>,
    depth: usize,
    token: Interval,
    next_token: Pace,
    rate_to_come: Option<CellRate>,
}

impl Fifo {
    fn set(&mut self, rate: CellRate) {
        self.token = Interval::of_rate(rate);
        self.rate_to_come = None;
    }
}

impl Transmitter {
    /// FIFOs of `depth` cells, with tokens at the line's rate.
    pub fn new(depth: usize, line_bit_s: u64) -> Self {
        let slot = Interval::of_line(line_bit_s);
        let fifo = || Fifo {
            cells: VecDeque::with_capacity(depth),
            depth,
            token: slot,
            next_token: Pace::default(),
            rate_to_come: None,
        };
        Self {
            fifos: std::array::from_fn(|_| fifo()),
            slot,
            next_slot: Pace::default(),
        }
    }

    /// Gives a FIFO's token generator another rate once the FIFO is empty; until then it takes no
    /// cell, for the rate would change in the middle of a PDU (section 4.3).
    pub fn set_rate(&mut self, fifo: usize, rate: CellRate) {
        let fifo = &mut self.fifos[fifo];
        match fifo.cells.is_empty() {
            true => fifo.set(rate),
            false => fifo.rate_to_come = Some(rate),
        }
    }

    /// Whether a FIFO waits to be empty.
    pub fn is_changing(&self, fifo: usize) -> bool {
        self.fifos[fifo].rate_to_come.is_some()
    }

    /// How many cells a FIFO takes.
    pub fn space(&self, fifo: usize) -> usize {
        let fifo = &self.fifos[fifo];
        match fifo.rate_to_come {
            Some(_) => 0,
            None => fifo.depth - fifo.cells.len(),
        }
    }

    /// Puts a cell into a FIFO that has space.
    ///
    /// # Panics
    ///
    /// If it has none.
    pub fn put(&mut self, now: Ps, fifo: usize, octets: Octets) {
        assert!(
            self.space(fifo) > 0,
            "a FIFO takes no more than it has room for"
        );
        let fifo = &mut self.fifos[fifo];
        if fifo.cells.is_empty() {
            // A generator makes no tokens for later.
            fifo.next_token.wait_for(now);
        }
        fifo.cells.push_back(octets);
    }

    /// Sends what leaves before `until`.
    pub fn run(&mut self, until: Ps, mut departs: impl FnMut(Departed)) {
        loop {
            let tokens = self.fifos.iter().filter(|fifo| !fifo.cells.is_empty());
            let Some(token) = tokens.map(|fifo| fifo.next_token.at()).min() else {
                return;
            };
            // Slots that nobody can use pass.
            self.next_slot.wait_for(token);
            let now = self.next_slot.at();
            if now >= until {
                return;
            }
            let ready = |fifo: &Fifo| !fifo.cells.is_empty() && fifo.next_token.at() <= now;
            let Some(index) = self.fifos.iter().position(ready) else {
                return;
            };
            let fifo = &mut self.fifos[index];
            let late = self.slot.times(LATE_SLOTS).ps();
            fifo.next_token
                .wait_for(Ps::new(now.ps().saturating_sub(late)));
            fifo.next_token.advance(fifo.token);
            self.next_slot.advance(self.slot);
            let octets = fifo.cells.pop_front().expect("it is not empty");
            let at = self.next_slot.at();
            departs(Departed {
                at,
                fifo: index,
                octets,
            });
            if fifo.cells.is_empty()
                && let Some(rate) = fifo.rate_to_come
            {
                fifo.set(rate);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE_BIT_S: u64 = 149_760_000;
    const CELL: Octets = [0; 53];

    fn rate(cell_s: u32) -> CellRate {
        CellRate::new(cell_s).expect("not zero")
    }

    fn fill(transmitter: &mut Transmitter, now: Ps, fifos: &[usize]) {
        for &fifo in fifos {
            while transmitter.space(fifo) > 0 {
                transmitter.put(now, fifo, CELL);
            }
        }
    }

    /// Cells that leave each FIFO in 100 ms while the `fifos` are kept full.
    fn left(transmitter: &mut Transmitter, from: Ps, fifos: &[usize]) -> [u64; FIFOS] {
        let mut left = [0; FIFOS];
        for us in 1..=100 {
            fill(
                transmitter,
                from.plus(Ps::from_ns(us * 1_000_000 - 1_000_000)),
                fifos,
            );
            let until = from.plus(Ps::from_ns(us * 1_000_000));
            transmitter.run(until, |cell| left[cell.fifo] += 1);
        }
        left
    }

    #[test]
    fn tokens_pace_and_the_last_fifo_has_the_rest() {
        let mut transmitter = Transmitter::new(512, LINE_BIT_S);
        for (fifo, cell_s) in [(0, 100_000), (1, 24_000), (2, 48_000)] {
            transmitter.set_rate(fifo, rate(cell_s));
        }
        let left = left(&mut transmitter, Ps::ZERO, &[0, 1, 2, 3]);
        for (left, expected) in left.into_iter().zip([10_000, 2_400, 4_800, 18_121]) {
            assert!(left.abs_diff(expected) <= 2, "{left} of {expected}");
        }
    }

    #[test]
    fn a_rate_changes_only_when_the_fifo_is_empty() {
        let mut transmitter = Transmitter::new(64, LINE_BIT_S);
        transmitter.set_rate(0, rate(1_000));
        fill(&mut transmitter, Ps::ZERO, &[0]);
        transmitter.set_rate(0, rate(100_000));
        assert!(transmitter.is_changing(0) && transmitter.space(0) == 0);
        let mut at = Vec::new();
        transmitter.run(Ps::from_ns(100_000_000), |cell| at.push(cell.at));
        assert_eq!(at.len(), 64);
        // All of them at the old rate.
        assert!(
            at.windows(2)
                .all(|pair| pair[1].since(pair[0]) >= Ps::from_ns(999_000))
        );
        assert!(!transmitter.is_changing(0) && transmitter.space(0) == 64);
    }
}
