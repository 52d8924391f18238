//! What a thread uses of the CPU time that it may use before others.

use cellgate_core::Time;

use crate::sys::RESERVED_PERIOD_NS;

/// What a thread may use at once: its share of so long, and a burst of packets beside.
const BURST_NS: u64 = 5 * RESERVED_PERIOD_NS;
const BURST_MIN_NS: i64 = 500_000;

/// What a share comes to in CPU time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    ppm: u32,
    /// What it may use at once.
    burst_ns: i64,
    /// Below 0: what it has used too much, which is charged against what it earns next.
    credit_ns: i64,
    at: Time,
    used_ns: u64,
    within: bool,
}

impl Meter {
    pub(crate) fn new(ppm: u32, at: Time, used_ns: u64) -> Self {
        let burst_ns = earned_ns(ppm, BURST_NS).max(BURST_MIN_NS);
        Self {
            ppm,
            burst_ns,
            credit_ns: burst_ns,
            at,
            used_ns,
            within: true,
        }
    }

    /// Of a thread that may use so much at once, if that is longer.
    pub(crate) fn with_burst(ppm: u32, burst_ns: u64, at: Time, used_ns: u64) -> Self {
        let mut meter = Self::new(ppm, at, used_ns);
        meter.burst_ns = meter
            .burst_ns
            .max(i64::try_from(burst_ns).unwrap_or(i64::MAX));
        meter.credit_ns = meter.burst_ns;
        meter
    }

    /// What [`Meter::charge`] said last.
    pub(crate) fn is_within(&self) -> bool {
        self.within
    }

    /// All that it might use at once is gone.
    pub(crate) fn forfeit(&mut self) {
        (self.credit_ns, self.within) = (0, false);
    }

    /// Whether the thread is within its share, its CPU clock showing `used_ns`. What it uses while
    /// it is beyond is not charged; it is within again when it has half a burst.
    pub(crate) fn charge(&mut self, now: Time, used_ns: u64) -> bool {
        let used = used_ns.saturating_sub(self.used_ns);
        let earned = earned_ns(self.ppm, now.since_ns(self.at));
        self.credit_ns = self.credit_ns.saturating_add(earned).min(self.burst_ns);
        (self.at, self.used_ns) = (now, used_ns);
        if self.within {
            let used = i64::try_from(used).unwrap_or(i64::MAX);
            self.credit_ns = self.credit_ns.saturating_sub(used);
            self.within = self.credit_ns >= 0;
        } else {
            self.within = self.credit_ns >= self.burst_ns / 2;
        }
        self.within
    }
}

/// What a share comes to in `elapsed_ns`.
fn earned_ns(ppm: u32, elapsed_ns: u64) -> i64 {
    let earned = u128::from(elapsed_ns) * u128::from(ppm) / 1_000_000;
    i64::try_from(earned).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Time {
        Time::from_ns(1_000_000_000 + ms * MS)
    }

    #[test]
    fn who_uses_its_share_is_within_for_ever_and_who_uses_more_is_beyond() {
        let ppm = 100_000;
        let mut steady = Meter::new(ppm, at(0), 7);
        assert!((1..10_000).all(|ms| steady.charge(at(ms), 7 + ms * MS / 10)));
        // Twice its share: it has precedence for what it was promised, half of what it uses.
        let mut greedy = Meter::new(ppm, at(0), 0);
        let (mut used_within, mut changes, mut last) = (0, 0, true);
        for ms in 1..10_000 {
            let within = greedy.charge(at(ms), ms * MS / 5);
            changes += u32::from(within != last);
            used_within += if last { MS / 5 } else { 0 };
            last = within;
        }
        let share = 10_000 * MS / 10;
        let burst = greedy.burst_ns.cast_unsigned();
        assert!(used_within.abs_diff(share) <= 2 * burst, "{used_within}");
        assert!(changes > 100, "{changes}");
    }

    #[test]
    fn idle_time_is_worth_a_burst_and_no_more() {
        let mut meter = Meter::new(50_000, at(0), 0);
        let burst = meter.burst_ns;
        let used = |ns: i64| ns.cast_unsigned();
        assert_eq!(used(burst), BURST_NS / 20);
        assert!(meter.charge(at(60_000), used(burst)));
        assert!(!meter.charge(at(60_000), used(burst + 20)));
        let beyond = meter.charge(at(60_000), used(9 * burst));
        assert!(
            !beyond && meter.credit_ns == -20,
            "no more is charged beyond"
        );
        let half = at(60_000).plus_ns(BURST_NS / 2);
        assert!(!meter.charge(half, used(9 * burst)));
        assert!(meter.charge(half.plus_ns(20 * 20), used(9 * burst)));
        assert_eq!(Meter::new(1, at(0), 0).burst_ns, BURST_MIN_NS);
    }
}
