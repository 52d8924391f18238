//! The middle of some measurements, and how far they lie apart.

use serde::Serialize;

/// The five numbers of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) q1: f64,
    pub(crate) median: f64,
    pub(crate) q3: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Between neighbours by linear interpolation; zeros of nothing.
    pub(crate) fn of(mut sample: Vec<f64>) -> Self {
        sample.sort_by(f64::total_cmp);
        let Some(last) = sample.len().checked_sub(1) else {
            return Self::default();
        };
        let at = |part: f64| {
            let place = part * last as f64;
            let below = sample[place.floor() as usize];
            below + (sample[place.ceil() as usize] - below) * place.fract()
        };
        Self {
            min: at(0.0),
            q1: at(0.25),
            median: at(0.5),
            q3: at(0.75),
            max: at(1.0),
        }
    }

    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            min: self.min * factor,
            q1: self.q1 * factor,
            median: self.median * factor,
            q3: self.q3 * factor,
            max: self.max * factor,
        }
    }

    /// `min/q1/median/q3/max`, as people read it.
    pub(crate) fn text(&self, decimals: usize) -> String {
        [self.min, self.q1, self.median, self.q3, self.max]
            .map(|value| format!("{value:.decimals$}"))
            .join("/")
    }
}

/// The percentile `part` (0 to 1) of samples in order: of n, the one at rank ceil(`part` n). 0 of
/// none.
pub(crate) fn at_rank(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_lies_between_the_values() {
        let spread = Spread::of(vec![5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(spread.text(0), "1/2/3/4/5");
        assert_eq!(spread.times(2.0).max, 10.0);
        assert_eq!(Spread::of(vec![7.0]).text(0), "7/7/7/7/7");
        assert_eq!(
            Spread::of(vec![2.0, 1.0]).text(2),
            "1.00/1.25/1.50/1.75/2.00"
        );
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }

    #[test]
    fn a_percentile_is_the_sample_at_its_rank() {
        let sorted: Vec<f64> = (1..=2_000).map(f64::from).collect();
        let ranks = [0.5, 0.99, 0.999, 1.0].map(|part| at_rank(&sorted, part));
        assert_eq!(ranks, [1_000.0, 1_980.0, 1_998.0, 2_000.0]);
        assert_eq!(at_rank(&[7.0, 8.0, 9.0], 0.5), 8.0);
        assert_eq!(at_rank(&[], 0.99), 0.0);
    }
}
