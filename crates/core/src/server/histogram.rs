//! Lengths of an adapter's gaps, late wake-ups and steps, counted by powers of two.

use serde::{Deserialize, Serialize};

use crate::keeper::GapReport;

/// Times by their length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    /// All of them together, in nanoseconds.
    pub total_ns: u64,
    /// Times by length: the first counts those below 2^10 ns, each other twice as long ones, the
    /// last all that are longer.
    pub counts: [u64; Histogram::BUCKETS],
}

/// Those of an adapter, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Histograms {
    /// Gaps: the adapter stood still for longer than its threshold.
    pub gaps: Histogram,
    /// Lateness of wake-ups after which something was due.
    pub lateness: Histogram,
    /// Steps that were timed and not interrupted.
    pub steps: Histogram,
}

impl Histogram {
    /// The last counts what takes 2^32 ns, 4.3 s, or longer.
    pub const BUCKETS: usize = 24;
    /// Below 2^this nanoseconds, no differences are told.
    const FIRST_BITS: usize = 10;

    /// Of counts by the base-2 logarithm of their nanoseconds, from 0 on.
    pub fn of_logarithms(total_ns: u64, counts: &[u64]) -> Self {
        let mut histogram = Self {
            total_ns,
            ..Self::default()
        };
        for (bits, count) in counts.iter().enumerate() {
            let at = (bits + 1).saturating_sub(Self::FIRST_BITS);
            histogram.counts[at.min(Self::BUCKETS - 1)] += count;
        }
        histogram
    }

    /// Where each count ends, in nanoseconds, and the count; the last ends nowhere.
    pub fn ends(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let counts = self.counts.iter().enumerate();
        counts.map(|(at, count)| {
            let end = (at + 1 < Self::BUCKETS).then(|| 1 << (Self::FIRST_BITS + at));
            (end, *count)
        })
    }
}

impl From<&GapReport> for Histograms {
    fn from(gaps: &GapReport) -> Self {
        let (rests, steps) = (&gaps.rests, &gaps.step_histogram);
        Self {
            gaps: Histogram::of_logarithms(gaps.total_ns, &gaps.histogram),
            lateness: Histogram::of_logarithms(rests.late_total_ns, &rests.late_histogram),
            steps: Histogram::of_logarithms(gaps.step_total_ns, steps),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_become_counts_whose_ends_hold_them() {
        let mut logarithms = [0; 40];
        for ns in [1, 1_023, 1_024, 2_047, 2_048, 1 << 31, 1 << 32, u64::MAX] {
            logarithms[(u64::ilog2(ns) as usize).min(39)] += 1;
        }
        let histogram = Histogram::of_logarithms(7, &logarithms);
        assert_eq!((histogram.total_ns, histogram.counts.iter().sum()), (7, 8));
        assert_eq!(histogram.counts[..3], [2, 2, 1]);
        assert_eq!(histogram.counts[22..], [1, 2]);
        let ends: Vec<_> = histogram.ends().collect();
        assert_eq!(ends[..2], [(Some(1 << 10), 2), (Some(1 << 11), 2)]);
        assert_eq!(ends[22..], [(Some(1 << 32), 1), (None, 2)]);
    }
}
