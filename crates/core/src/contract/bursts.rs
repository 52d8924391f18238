use serde::{Deserialize, Serialize};

use super::{Increment, Shaper};
use crate::Time;

/// A [`Shaper`] whose cells leave in bursts: N back to back, a burst every N T (*High Performance
/// ATM Terminals*, section 5).
///
/// The first of a burst leaves as the shaper says. The N - 1 others leave as soon as they can, at
/// most (N - 1) T before their own times: the output conforms to GCRA(T, (N - 1) T + tau). With
/// N = 1 it is the shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bursts {
    shaper: Shaper,
    cells: u16,
    /// Cells of the present burst that have left.
    gone: u16,
}

impl Bursts {
    /// Bursts of so many cells; 0 counts as 1.
    pub const fn new(shaper: Shaper, cells: u16) -> Self {
        Self {
            shaper,
            cells: if cells == 0 { 1 } else { cells },
            gone: 0,
        }
    }

    /// The pace of the cells.
    pub const fn shaper(&self) -> &Shaper {
        &self.shaper
    }

    /// Cells of a burst.
    pub const fn cells(&self) -> u16 {
        self.cells
    }

    /// How early the last cell of a burst of so many is, in nanoseconds.
    pub const fn early_ns(increment: Increment, cells: u32) -> u64 {
        increment.times_ns(cells.saturating_sub(1) as u64)
    }

    /// When the next cell may leave: its theoretical emission time, rounded up, or within a burst
    /// what is so much earlier.
    #[inline(always)]
    pub const fn next(&self) -> Time {
        let next = self.shaper.next();
        if self.gone == 0 {
            return next;
        }
        next.minus_ns(Self::early_ns(self.shaper.increment(), self.cells as u32))
    }

    /// Whether a cell may leave at `now`.
    #[inline(always)]
    pub fn due(&self, now: Time) -> bool {
        self.next() <= now
    }

    /// As [`Shaper::catch_up`].
    #[inline(always)]
    pub fn catch_up(&mut self, floor: Time) {
        self.shaper.catch_up(floor);
    }

    /// As [`Shaper::emit`].
    #[inline(always)]
    pub fn emit(&mut self, now: Time, cells: u32) {
        self.shaper.emit(now, cells);
        if self.cells > 1 {
            self.gone = ((u32::from(self.gone) + cells) % u32::from(self.cells)) as u16;
        }
    }
}
