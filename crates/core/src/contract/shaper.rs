use serde::{Deserialize, Serialize};

use super::{CellRate, Increment};
use crate::Time;

/// The sender's side of GCRA(T, tau): when the next cell of one VC may leave.
///
/// Keeps a theoretical emission time, exact like [`super::Gcra`]'s theoretical arrival time. A cell
/// leaves at `now >= next`, and then `next = max(next, now - tau) + T`. Lateness up to tau is made
/// good by the cells after it, lateness beyond tau is lost.
///
/// Why the output conforms whatever stalls happen: `next >= TAT - tau` holds for the TAT of an
/// observer's GCRA(T, tau), since that moves to `max(TAT, now) + T`, and `max(next, now - tau) + T`
/// is not below `max(TAT - tau, now - tau) + T`. No cell leaves before `next`, hence none before
/// `TAT - tau`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shaper {
    next: Time,
    cdvt_ns: u64,
    increment: Increment,
    /// Numerator of what the exact time lies before `next`.
    early: u32,
}

impl Shaper {
    /// Paces cells at `rate`, with `cdvt_ns` of lateness that may be made good. The first cell may
    /// leave at once.
    pub const fn new(rate: CellRate, cdvt_ns: u64) -> Self {
        Self {
            next: Time::ZERO,
            cdvt_ns,
            increment: Increment::of(rate),
            early: 0,
        }
    }

    /// The theoretical emission time of the next cell, rounded up.
    #[inline(always)]
    pub const fn next(&self) -> Time {
        self.next
    }

    /// Whether a cell may leave at `now`.
    #[inline(always)]
    pub fn due(&self, now: Time) -> bool {
        self.next() <= now
    }

    /// How many cells, `max` at most, may leave at `now` one after the other.
    #[inline(always)]
    pub fn due_cells(&self, now: Time, max: u32) -> u32 {
        if !self.due(now) {
            return 0;
        }
        let mut first = *self;
        first.catch_up(now.minus_ns(self.cdvt_ns));
        let behind_ns = now.since_ns(first.next);
        let behind = self.increment.count(behind_ns, first.early);
        // Behind by nothing, one is due.
        behind.min(u64::from(max).saturating_sub(1)) as u32 + u32::from(max > 0)
    }

    /// How much lateness may be made good, in nanoseconds.
    pub const fn cdvt_ns(&self) -> u64 {
        self.cdvt_ns
    }

    /// The cell time T.
    pub const fn increment(&self) -> Increment {
        self.increment
    }

    /// Gives up lateness before `floor`: the theoretical emission time moves there if it lies
    /// behind.
    #[inline(always)]
    pub fn catch_up(&mut self, floor: Time) {
        if floor >= self.next {
            self.next = floor;
            self.early = 0;
        }
    }

    /// `cells` cells leave at `now`. The caller keeps that each was [`due`](Self::due) in its turn.
    #[inline(always)]
    pub fn emit(&mut self, now: Time, cells: u32) {
        self.catch_up(now.minus_ns(self.cdvt_ns));
        self.increment.add(&mut self.next, &mut self.early, cells);
    }

    /// Gives up what has left ahead of its time but for one cell: the next is due a cell time after
    /// `now` at the latest.
    pub fn forgive(&mut self, now: Time) {
        let latest = now.plus_ns(self.increment.times_ns(1));
        if self.next > latest {
            (self.next, self.early) = (latest, 0);
        }
    }

    /// As [`modify`](Self::modify), at `now`, but cells that have left ahead of their times are
    /// paid for at the new rate where that is higher: a burst at 1 cell/s would keep the VC silent
    /// for minutes, whatever it has been given since.
    pub fn carry_over(&mut self, now: Time, rate: CellRate, cdvt_ns: u64) {
        let new = Increment::of(rate);
        let ahead_ns = self.next.since_ns(now);
        let cells = self.increment.count(ahead_ns, 0).saturating_add(1);
        let next = self.next.min(now.plus_ns(new.times_ns(cells)));
        *self = Self {
            next,
            ..Self::new(rate, cdvt_ns)
        };
    }

    /// The same state under another contract: what has left stays paid for.
    pub fn modify(&mut self, rate: CellRate, cdvt_ns: u64) {
        *self = Self {
            next: self.next(),
            ..Self::new(rate, cdvt_ns)
        };
    }
}
