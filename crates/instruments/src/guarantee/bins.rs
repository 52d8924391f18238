//! Octets over time.

use cellgate_core::Time;
use serde::{Deserialize, Serialize};

/// Length of a bin in nanoseconds.
pub(super) const BIN_NS: u64 = 10_000_000;

/// Octets of SDU in each [`BIN_NS`] from an instant on. What lies outside is in no bin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bins {
    from: Time,
    octets: Vec<u64>,
}

impl Bins {
    /// Empty bins from one instant to another.
    pub(super) fn new(from: Time, to: Time) -> Self {
        let bins = to.since_ns(from).div_ceil(BIN_NS);
        Self {
            from,
            octets: vec![0; bins as usize],
        }
    }

    /// Counts octets at an instant.
    pub(super) fn add(&mut self, at: Time, octets: usize) {
        let bin = at.since_ns(self.from) / BIN_NS;
        if at < self.from {
            return;
        }
        if let Some(bin) = self.octets.get_mut(bin as usize) {
            *bin += octets as u64;
        }
    }

    /// Octets in the whole bins between two instants.
    pub(super) fn between(&self, from: Time, to: Time) -> u64 {
        let first = from.since_ns(self.from).div_ceil(BIN_NS) as usize;
        let last = (to.since_ns(self.from) / BIN_NS) as usize;
        let last = last.min(self.octets.len());
        self.octets[first.min(last)..last].iter().sum()
    }

    /// The beginnings of bins from one instant on, as long as a window of `window_ns` that begins
    /// there ends by another.
    pub(super) fn windows(
        &self,
        from: Time,
        to: Time,
        window_ns: u64,
    ) -> impl Iterator<Item = Time> + use<> {
        let origin = self.from;
        let first = from.since_ns(origin).div_ceil(BIN_NS);
        let bins = (first..).map(move |bin| origin.plus_ns(bin * BIN_NS));
        bins.take_while(move |begin| begin.plus_ns(window_ns) <= to)
    }

    /// Seconds from the first bin and 10^6 SDU bit/s, one point for each `step_ns`.
    pub(super) fn curve(&self, step_ns: u64) -> Vec<(f64, f64)> {
        let per = (step_ns / BIN_NS).max(1) as usize;
        let points = self.octets.chunks(per).enumerate();
        points
            .map(|(i, octets)| {
                let seconds = (per as u64 * BIN_NS) as f64 / 1e9;
                let bits = octets.iter().sum::<u64>() as f64 * 8.0;
                (i as f64 * seconds, bits / seconds / 1e6)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_bins_between_two_instants_are_summed() {
        let from = Time::from_ns(1_000);
        let at = |ms: u64| from.plus_ns(ms * 1_000_000);
        let mut bins = Bins::new(from, at(50));
        for (ms, octets) in [(0, 1), (9, 2), (10, 4), (49, 8), (50, 100)] {
            bins.add(at(ms), octets);
        }
        bins.add(Time::ZERO, 1_000);
        assert_eq!(bins.between(from, at(50)), 15);
        assert_eq!(bins.between(from, at(19)), 3);
        assert_eq!(bins.between(at(1), at(20)), 4);
        assert_eq!(bins.between(at(30), at(20)), 0);
        assert_eq!(bins.between(from, at(5_000)), 15);
        assert_eq!(bins.windows(at(5), at(50), 20_000_000).count(), 3);
        assert_eq!(bins.curve(BIN_NS).len(), 5);
    }
}
