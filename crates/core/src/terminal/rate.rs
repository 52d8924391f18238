//! The rate timer of a terminal that sends cells itself (*High Performance ATM Terminals*, section
//! 6.2): so many cells back to back at each tick.

use crate::Time;
use crate::contract::CellRate;

/// Ticks at a constant rate of cells. Exact: tick n is n bursts behind the first, whatever the
/// rounding of one.
#[derive(Clone, Debug)]
pub struct RateTimer {
    cell_s: u64,
    burst: u32,
    start: Time,
    /// Ticks that were used, or missed.
    ticks: u64,
    /// Ticks that may be made up for later.
    late_max: u64,
}

impl RateTimer {
    /// Ticks from `start` on: `burst` cells at each, `rate` in all. A tick that is missed is made
    /// up for if no more than `late_max` have been by then.
    pub fn new(start: Time, rate: CellRate, burst: u32, late_max: u32) -> Self {
        Self {
            cell_s: u64::from(rate.cell_s()).max(1),
            burst: burst.max(1),
            start,
            ticks: 0,
            late_max: late_max.into(),
        }
    }

    /// When the next tick is.
    pub fn next_deadline(&self) -> Time {
        self.tick(self.ticks)
    }

    fn tick(&self, number: u64) -> Time {
        let ns = u128::from(number) * u128::from(self.burst) * 1_000_000_000;
        let ns = ns.div_ceil(self.cell_s.into());
        self.start.plus_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Ticks that have been by now.
    fn ticks_by(&self, now: Time) -> u64 {
        let cells = u128::from(now.since_ns(self.start)) * u128::from(self.cell_s) / 1_000_000_000;
        (cells / u128::from(self.burst)) as u64
    }

    /// Takes the tick that is due, if one is: cells that may be sent.
    pub fn poll(&mut self, now: Time) -> Option<u32> {
        if now < self.next_deadline() {
            return None;
        }
        let by = self.ticks_by(now);
        self.ticks = self.ticks.max(by.saturating_sub(self.late_max)) + 1;
        Some(self.burst)
    }

    /// Ticks before `now` are missed, also the one that is due: no cell was ready for it.
    pub fn miss(&mut self, now: Time) {
        let by = self.ticks_by(now);
        let next = by + u64::from(self.tick(by) < now);
        self.ticks = self.ticks.max(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(cell_s: u32) -> CellRate {
        CellRate::new(cell_s).expect("a rate")
    }

    #[test]
    fn bursts_come_at_the_rate_exactly_and_never_sooner() {
        for (cell_s, burst) in [(353_207, 1), (353_207, 32), (7, 3), (1_000_000_000, 1)] {
            let mut timer = RateTimer::new(Time::from_ns(5), rate(cell_s), burst, u32::MAX);
            let mut cells = 0;
            for _ in 0..1_000 {
                let now = timer.next_deadline();
                // One burst is allowed ahead, none before its time.
                let ns = u128::from(now.since_ns(Time::from_ns(5)));
                assert!(u128::from(cells) * 1_000_000_000 <= ns * u128::from(cell_s));
                assert_eq!(timer.poll(now.minus_ns(1)), None);
                assert_eq!(timer.poll(now), Some(burst));
                cells += u64::from(burst);
            }
            let all = 1_000 * u128::from(burst) * 1_000_000_000;
            let by = timer.next_deadline().since_ns(Time::from_ns(5));
            let exact = all.div_ceil(cell_s.into());
            assert_eq!(u128::from(by), exact, "{cell_s} {burst}");
        }
    }

    #[test]
    fn what_is_missed_is_made_up_for_as_far_as_it_may_be() {
        let mut timer = RateTimer::new(Time::ZERO, rate(1_000_000), 10, 3);
        let now = Time::from_ns(1_000_000);
        let mut bursts = 0;
        while timer.poll(now).is_some() {
            bursts += 1;
        }
        assert_eq!(bursts, 4);
        assert_eq!(timer.next_deadline(), Time::from_ns(1_010_000));
    }

    #[test]
    fn a_tick_without_a_cell_is_missed_and_one_at_this_moment_is_not() {
        let mut timer = RateTimer::new(Time::ZERO, rate(1_000_000), 10, 0);
        assert_eq!(timer.poll(Time::ZERO), Some(10));
        timer.miss(Time::from_ns(15_000));
        assert_eq!(timer.poll(Time::from_ns(15_000)), None);
        assert_eq!(timer.next_deadline(), Time::from_ns(20_000));
        timer.miss(Time::from_ns(20_000));
        assert_eq!(timer.poll(Time::from_ns(20_000)), Some(10));
    }
}
