//! How late each of a row was that ought to leave at a rate.

use cellgate_core::contract::CellRate;

use crate::live::spread::at_rank;

/// The time from one of a row to the next: so many cells at a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spacing {
    pub(super) cells: u32,
    pub(super) rate: CellRate,
}

impl Spacing {
    /// When the one at place `at` is due after that at place 0, in nanoseconds, rounded down.
    pub(super) fn after_ns(self, at: u64) -> u64 {
        let cells = u128::from(at) * u128::from(self.cells);
        (cells * 1_000_000_000 / u128::from(self.rate.cell_s())) as u64
    }
}

/// When one of a row was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// Its place in the row, from 0.
    pub(super) at: u64,
    /// `CLOCK_MONOTONIC`.
    pub(super) ns: u64,
}

/// How late those of a row were. The least late one of the row was not late.
#[derive(Debug)]
pub(super) struct Lateness {
    /// Microseconds, in order.
    sorted_us: Vec<f64>,
    /// Difference of the rate from the first to the last from the one that was asked for, in parts
    /// of 10^6.
    pub(super) rate_error_ppm: f64,
}

impl Lateness {
    /// Of stamps in the order of the row; none of fewer than two.
    pub(super) fn of(stamps: &[Stamp], spacing: Spacing) -> Option<Self> {
        let [first, .., last] = stamps else {
            return None;
        };
        let beyond = |stamp: &Stamp| stamp.ns as f64 - spacing.after_ns(stamp.at) as f64;
        let least = stamps.iter().map(beyond).reduce(f64::min)?;
        let late_us = stamps.iter().map(|stamp| (beyond(stamp) - least) / 1e3);
        let mut sorted_us: Vec<_> = late_us.collect();
        sorted_us.sort_by(f64::total_cmp);
        let due_ns = spacing.after_ns(last.at) - spacing.after_ns(first.at);
        let took_ns = last.ns.saturating_sub(first.ns).max(1);
        Some(Self {
            sorted_us,
            rate_error_ppm: (due_ns as f64 / took_ns as f64 - 1.0).abs() * 1e6,
        })
    }

    /// The percentile `part` (0 to 1), in microseconds.
    pub(super) fn us(&self, part: f64) -> f64 {
        at_rank(&self.sorted_us, part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 ns each.
    fn spacing() -> Spacing {
        Spacing {
            cells: 100,
            rate: CellRate::new(100_000_000).unwrap(),
        }
    }

    fn stamps(late_ns: &[u64]) -> Vec<Stamp> {
        let stamp = |(at, late_ns): (u64, &u64)| Stamp {
            at,
            ns: 5_000_000 + at * 1_000 + late_ns,
        };
        (0..).zip(late_ns).map(stamp).collect()
    }

    #[test]
    fn the_least_late_is_not_late_wherever_it_stands_in_the_row() {
        let late = Lateness::of(&stamps(&[700, 500, 900, 500, 2_500]), spacing()).unwrap();
        assert_eq!(late.sorted_us, [0.0, 0.0, 0.2, 0.4, 2.0]);
        assert_eq!([0.5, 0.99].map(|part| late.us(part)), [0.2, 2.0]);
    }

    #[test]
    fn one_that_is_left_out_makes_no_other_late() {
        let mut all = stamps(&[0, 0, 90_000, 0, 0]);
        all.remove(2);
        let late = Lateness::of(&all, spacing()).unwrap();
        assert_eq!((late.us(1.0), late.rate_error_ppm), (0.0, 0.0));
    }

    #[test]
    fn the_mean_rate_is_that_from_the_first_to_the_last() {
        // 1,000 of them in one more nanosecond each.
        let drift: Vec<u64> = (0..=1_000).collect();
        let late = Lateness::of(&stamps(&drift), spacing()).unwrap();
        assert!((late.rate_error_ppm - 999.0).abs() < 0.1, "{late:?}");
        assert!(Lateness::of(&stamps(&[1]), spacing()).is_none());
    }

    #[test]
    fn a_spacing_that_is_no_whole_number_of_nanoseconds_does_not_drift() {
        let third = Spacing {
            cells: 1,
            rate: CellRate::new(3).unwrap(),
        };
        assert_eq!(third.after_ns(1), 333_333_333);
        assert_eq!(third.after_ns(3_000_000), 1_000_000_000_000_000);
    }
}
