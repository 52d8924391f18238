//! The rate that the network allows a connection of ABR, told by and by.

use super::Indication;
use crate::Time;
use crate::adapter::AbrStats;

/// From one telling to the next.
const PAUSE_NS: u64 = 250_000_000;

/// What an application knows of the rate that the network allows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    told: Option<u32>,
    not_before: Time,
}

impl Rates {
    /// What to tell of the rate as it is now; none: it is not time, there is no news, or the
    /// connection has no ABR.
    pub(super) fn next(&mut self, now: Time, stats: Option<&AbrStats>) -> Option<Indication> {
        let AbrStats {
            allowed_cell_s,
            floor_cell_s,
            reason,
            ..
        } = *stats?;
        if now < self.not_before || self.told == Some(allowed_cell_s) {
            return None;
        }
        self.told = Some(allowed_cell_s);
        self.not_before = now.plus_ns(PAUSE_NS);
        Some(Indication::Rate {
            allowed_cell_s,
            floor_cell_s,
            reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::RateReason;

    #[test]
    fn a_rate_is_told_when_it_is_new_and_four_times_a_second() {
        let at = |ms: u64| Time::from_ns(ms * 1_000_000);
        let stats = |allowed_cell_s| AbrStats {
            allowed_cell_s,
            floor_cell_s: 10,
            reason: RateReason::Congestion,
            ..AbrStats::default()
        };
        let told = |allowed_cell_s| Indication::Rate {
            allowed_cell_s,
            floor_cell_s: 10,
            reason: RateReason::Congestion,
        };
        let mut rates = Rates::default();
        assert_eq!(rates.next(at(0), None), None);
        assert_eq!(rates.next(at(0), Some(&stats(500))), Some(told(500)));
        assert_eq!(rates.next(at(249), Some(&stats(400))), None);
        assert_eq!(rates.next(at(250), Some(&stats(300))), Some(told(300)));
        assert_eq!(rates.next(at(900), Some(&stats(300))), None);
    }
}
