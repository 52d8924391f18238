use serde::{Deserialize, Serialize};

/// How long PDUs took to leave: of each, from the moment at which it was the first in its queue and
/// the adapter knew of it, to its last cell. Time by the adapter's clock, as of its steps.
///
/// The PDU before may have left at that moment: then the time of a cell lies between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    /// The longest, in nanoseconds.
    pub max_ns: u64,
    /// PDUs by their delay: the first counts those below 2^10 ns, each other twice as long ones,
    /// the last all that are longer.
    pub counts: [u64; Delays::BUCKETS],
}

impl Delays {
    /// The last counts what takes 2^32 ns, 4.3 s, or longer.
    pub const BUCKETS: usize = 24;
    /// Below 2^this nanoseconds, no differences are told.
    const FIRST_BITS: u32 = 10;

    /// A PDU took `ns`.
    #[inline(always)]
    pub(super) fn note(&mut self, ns: u64) {
        let above = u64::BITS - (ns >> Self::FIRST_BITS).leading_zeros();
        self.counts[(above as usize).min(Self::BUCKETS - 1)] += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// PDUs that are counted.
    pub fn pdus(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// What `percent` of the PDUs did not exceed (nearest rank), in nanoseconds, rounded up to the
    /// end of its count, which is less than twice as much; none: no PDU has left.
    pub fn within_ns(&self, percent: u64) -> Option<u64> {
        let pdus = u128::from(self.pdus());
        let rank = (pdus * u128::from(percent)).div_ceil(100).max(1);
        let mut passed = 0;
        let counts = self.counts.iter();
        let bucket = counts.map(|count| u128::from(*count)).position(|count| {
            passed += count;
            passed >= rank
        })?;
        let end = match bucket {
            last if last == Self::BUCKETS - 1 => u64::MAX,
            bucket => (1 << (Self::FIRST_BITS as usize + bucket)) - 1,
        };
        Some(end.min(self.max_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[u64]) -> Delays {
        let mut delays = Delays::default();
        all.iter().for_each(|ns| delays.note(*ns));
        delays
    }

    #[test]
    fn a_percentile_is_rounded_up_to_less_than_twice_as_much() {
        let mut all: Vec<u64> = (1..=2_000).map(|i| i * i * 37).collect();
        all.sort_unstable();
        let delays = of(&all);
        assert_eq!(delays.pdus(), 2_000);
        assert_eq!(delays.max_ns, 2_000 * 2_000 * 37);
        for percent in [1, 10, 50, 90, 99, 100] {
            let exact = all[(2_000 * percent as usize).div_ceil(100) - 1];
            let told = delays.within_ns(percent).unwrap();
            assert!(told >= exact, "{percent}: {told} below {exact}");
            assert!(
                told < 2 * exact.max(1 << 10),
                "{percent}: {told} of {exact}"
            );
        }
    }

    #[test]
    fn every_time_has_its_count() {
        for (ns, bucket) in [
            (0, 0),
            (1_023, 0),
            (1_024, 1),
            (2_047, 1),
            (2_048, 2),
            ((1 << 32) - 1, 22),
            (1 << 32, 23),
            (u64::MAX, 23),
        ] {
            assert_eq!(of(&[ns]).counts[bucket], 1, "{ns}");
            assert!(of(&[ns]).within_ns(99) == Some(ns), "{ns}");
        }
        assert_eq!(Delays::default().within_ns(99), None);
    }
}
