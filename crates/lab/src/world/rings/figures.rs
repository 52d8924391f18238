//! Percentiles of what was measured.

use serde::{Deserialize, Serialize};

use crate::world::Ps;

/// Of times: that of the middle one, of one in a hundred, and the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

impl Percentiles {
    /// None: nothing was measured.
    pub(super) fn of(mut times: Vec<Ps>) -> Option<Self> {
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        let at = |percent: usize| times[last * percent / 100].ns();
        Some(Self {
            p50_ns: at(50),
            p99_ns: at(99),
            max_ns: at(100),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_times_have_their_percentiles() {
        let times = (0..=100).rev().map(Ps::from_ns).collect();
        let found = Percentiles::of(times);
        let of = found.map(|one| (one.p50_ns, one.p99_ns, one.max_ns));
        assert_eq!(of, Some((50, 99, 100)));
        assert_eq!(Percentiles::of(Vec::new()), None);
    }
}
