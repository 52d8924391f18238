//! When a source releases its PDUs.

use std::time::Duration;

use cellgate_core::Time;
use cellgate_host::clock::MonotonicClock;

use super::plan::{Hazard, SDU};

/// A sleep ends about this much late, by Linux' timer slack (50,000 ns unless changed): it is asked
/// to end this much earlier.
const SLACK_NS: u64 = 50_000;

/// What a source is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Release a PDU; it is this late.
    Release {
        /// Nanoseconds after the instant that the rate asks for.
        late_ns: u64,
    },
    /// Nothing before this instant.
    Wait(Time),
    /// Nothing any more.
    Over,
}

/// The instants at which a source releases PDUs, from absolute time: one that is late does not
/// shift those after it; what is due is released at once, and all that is due before the end even
/// after it. But a source that keeps a contract catches up no further than its CDVT allows: what it
/// lost beyond that is lost, and it has missed its rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    begin: Time,
    end: Time,
    hazard: Hazard,
    catch_up_ns: u64,
    released: u64,
}

/// Bit-nanoseconds per second of an SDU: divided by a rate, the time T of a PDU.
const PER_SDU: u128 = SDU as u128 * 8 * 1_000_000_000;

impl Pace {
    /// From `begin` to `end`, catching up at most `catch_up_ns` nanoseconds at once.
    pub(crate) fn new(begin: Time, end: Time, hazard: Hazard, catch_up_ns: u64) -> Self {
        Self {
            begin,
            end,
            hazard,
            catch_up_ns,
            released: 0,
        }
    }

    /// PDUs that the rate asks for from begin to end; 0 without a rate.
    pub(crate) fn due(&self) -> u64 {
        let ns = u128::from(self.end.since_ns(self.begin));
        match self.hazard {
            Hazard::BitS(bit_s) => (ns * u128::from(bit_s)).div_ceil(PER_SDU) as u64,
            Hazard::Max => 0,
        }
    }

    /// The instant of release `k`: `begin` + k T, rounded down.
    fn release(&self, k: u64, bit_s: u64) -> Time {
        //  A phase lasts less than 2^64 ns.
        let after_ns = u128::from(k) * PER_SDU / u128::from(bit_s);
        self.begin
            .plus_ns(u64::try_from(after_ns).unwrap_or(u64::MAX))
    }

    /// What to do at `now`. A release counts as made.
    pub(crate) fn next(&mut self, now: Time) -> Next {
        let release = match self.hazard {
            Hazard::BitS(0) => return Next::Over,
            Hazard::BitS(bit_s) => self.release(self.released, bit_s),
            Hazard::Max if now >= self.end => return Next::Over,
            Hazard::Max => now.max(self.begin),
        };
        if release >= self.end {
            Next::Over
        } else if release > now {
            Next::Wait(release)
        } else {
            let late_ns = now.since_ns(release);
            let lost_ns = late_ns.saturating_sub(self.catch_up_ns);
            self.begin = self.begin.plus_ns(lost_ns);
            self.released += 1;
            Next::Release { late_ns }
        }
    }
}

/// Sleeps until shortly before `instant`; near it, comes back at once.
pub(crate) fn sleep_until(instant: Time) {
    let left_ns = instant.since_ns(MonotonicClock.now());
    if left_ns > 2 * SLACK_NS {
        std::thread::sleep(Duration::from_nanos(left_ns - SLACK_NS));
    } else {
        //  On a machine with one CPU the others run meanwhile.
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Time = Time::from_ns(1_000);

    fn after_s(s: u64) -> Time {
        BEGIN.plus_ns(s * 1_000_000_000)
    }

    #[test]
    fn releases_what_the_rate_asks_for_however_late_it_is_asked() {
        //  20 Mbit/s for 3 s: 915.5 PDUs begin.
        for step_ns in [1_000, 3_276_800, 50_000_000] {
            let mut pace = Pace::new(BEGIN, after_s(3), Hazard::BitS(20_000_000), u64::MAX);
            assert_eq!(pace.due(), 916);
            let (mut now, mut released, mut late_max_ns) = (Time::ZERO, 0, 0);
            loop {
                match pace.next(now) {
                    Next::Release { late_ns } => {
                        released += 1;
                        late_max_ns = late_max_ns.max(late_ns);
                    }
                    Next::Wait(_) => now = now.plus_ns(step_ns),
                    Next::Over => break,
                }
            }
            assert_eq!(released, 916, "step {step_ns}");
            assert!(late_max_ns < step_ns);
        }
    }

    #[test]
    fn a_late_release_does_not_shift_the_next() {
        let mut pace = Pace::new(BEGIN, after_s(1), Hazard::BitS(65_536_000), u64::MAX);
        assert_eq!(pace.next(BEGIN), Next::Release { late_ns: 0 });
        let late = BEGIN.plus_ns(1_700_000);
        assert_eq!(pace.next(late), Next::Release { late_ns: 700_000 });
        assert_eq!(pace.next(late), Next::Wait(BEGIN.plus_ns(2_000_000)));
    }

    #[test]
    fn catches_up_no_further_than_it_may() {
        //  T is 1 ms; at 10 ms, 10 PDUs are late, of which 2 ms' worth may still come.
        let mut pace = Pace::new(BEGIN, after_s(1), Hazard::BitS(65_536_000), 2_000_000);
        let late = BEGIN.plus_ns(10_000_000);
        for late_ns in [10_000_000, 1_000_000, 0] {
            assert_eq!(pace.next(late), Next::Release { late_ns });
        }
        assert_eq!(pace.next(late), Next::Wait(late.plus_ns(1_000_000)));
    }

    #[test]
    fn without_a_rate_it_releases_whenever_asked_or_never() {
        let mut max = Pace::new(BEGIN, after_s(1), Hazard::Max, u64::MAX);
        assert_eq!(max.next(Time::ZERO), Next::Wait(BEGIN));
        assert_eq!(max.next(BEGIN), Next::Release { late_ns: 0 });
        assert_eq!(max.next(BEGIN), Next::Release { late_ns: 0 });
        assert_eq!(max.next(after_s(1)), Next::Over);
        let mut none = Pace::new(BEGIN, after_s(1), Hazard::BitS(0), u64::MAX);
        assert_eq!(none.next(Time::ZERO), Next::Over);
    }
}
