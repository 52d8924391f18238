use serde::{Deserialize, Serialize};

use super::{CellRate, Increment};
use crate::Time;

/// The cells that a VBR VC sends before its sustained rate has them due: beside a [`Shaper`] at the
/// sustained rate, the bucket of the peak rate and the burst tolerance (TM 4.0).
///
/// With `next` and tau of the shaper, Tp of the peak rate and the burst tolerance BT, a cell leaves
/// at `now >= max(next - BT, peak)`, and then `peak = max(peak, now - tau) + Tp`. Whatever leaves
/// when its sustained rate has it due counts here, too.
///
/// The output conforms to GCRA(1 / PCR, tau) and GCRA(1 / SCR, BT + tau), whatever stalls happen:
/// the shaper's `next` is never below TAT - tau of an observer at the sustained rate, and `peak`
/// never below that of one at the peak rate. `next` is never below `peak`, for Tp is at most T: a
/// cell that the sustained rate has due conforms to the peak rate.
///
/// [`Shaper`]: super::Shaper
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Early {
    peak: Time,
    /// The shaper's theoretical emission time, less the burst tolerance.
    sustained: Time,
    tolerance_ns: u64,
    increment: Increment,
    /// Numerator of what the exact time lies before `peak`.
    before: u32,
}

impl Early {
    /// Bursts at `peak` cells/s, `tolerance_ns` before the sustained rate has them due. The first
    /// cell may leave at once.
    pub const fn new(peak: CellRate, tolerance_ns: u64) -> Self {
        Self {
            peak: Time::ZERO,
            sustained: Time::ZERO,
            tolerance_ns,
            increment: Increment::of(peak),
            before: 0,
        }
    }

    /// When the next cell may leave, rounded up.
    #[inline(always)]
    pub fn next(&self) -> Time {
        self.peak.max(self.sustained)
    }

    /// Gives up lateness before `floor` of the peak rate.
    #[inline(always)]
    pub fn catch_up(&mut self, floor: Time) {
        if floor >= self.peak {
            self.peak = floor;
            self.before = 0;
        }
    }

    /// `cells` cells leave, behind which the shaper's theoretical emission time is `next`.
    /// Lateness of the peak rate before `floor` is lost.
    #[inline(always)]
    pub fn emit(&mut self, floor: Time, cells: u32, next: Time) {
        self.catch_up(floor);
        self.increment.add(&mut self.peak, &mut self.before, cells);
        self.follow(next);
    }

    /// The shaper's theoretical emission time is `next`.
    #[inline(always)]
    pub fn follow(&mut self, next: Time) {
        self.sustained = next.minus_ns(self.tolerance_ns);
    }

    /// What has left stays paid for: at the peak rate before, or at that of a shaper whose
    /// theoretical emission time is `next`.
    pub fn carry_over(&mut self, old: Option<&Self>, next: Time) {
        self.catch_up(old.map_or(next, |old| old.peak.min(next)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shaper;
    use super::*;

    fn rate(cell_s: u32) -> CellRate {
        CellRate::new(cell_s).unwrap()
    }

    /// A VC that has been idle since 0, and when each of its next cells leaves.
    fn leaves(cells: u64, tolerance_ns: u64) -> Vec<u64> {
        let (mut shaper, mut early) = (
            Shaper::new(rate(1_000), 0),
            Early::new(rate(4_000), tolerance_ns),
        );
        let mut now = Time::from_ns(7_000_000_000);
        let each = (0..cells).map(|_| {
            now = now.max(early.next().min(shaper.next()));
            shaper.emit(now, 1);
            early.emit(now, 1, shaper.next());
            (now.ns() - 7_000_000_000) / 1_000
        });
        each.collect()
    }

    #[test]
    fn mbs_cells_leave_at_the_peak_rate() {
        // MBS 5: 4 (1 - 1/4) ms.
        let expected = [0, 250, 500, 750, 1_000, 2_000, 3_000];
        assert_eq!(leaves(7, 3_000_000), expected);
        assert_eq!(leaves(3, 0), [0, 1_000, 2_000]);
    }

    #[test]
    fn what_was_sent_ahead_is_owed_at_the_new_rate() {
        let mut shaper = Shaper::new(rate(1), 0);
        let now = Time::from_ns(5_000_000_000);
        shaper.emit(now, 60);
        for (cell_s, owed_ns) in [(1_000, 61_000_000), (1, 60_000_000_000)] {
            let mut next = shaper;
            next.carry_over(now, rate(cell_s), 0);
            assert_eq!(next.next(), now.plus_ns(owed_ns), "{cell_s}");
        }
    }
}
