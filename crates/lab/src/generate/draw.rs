use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The one place that draws: from the seed to a plan, never in a run.
pub(crate) struct Draw(Pcg64Mcg);

impl Draw {
    /// Not `Pcg64Mcg::new`: it takes odd states only, and seeds 0 and 1 would draw the same. Here
    /// the seed is spread over the whole state.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// 0 to `n` - 1; 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of 100.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    pub(crate) fn octet(&mut self) -> u8 {
        self.0.next_u64() as u8
    }

    pub(crate) fn octets(&mut self, n: usize) -> Vec<u8> {
        let mut octets = vec![0; n];
        self.0.fill_bytes(&mut octets);
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_draws_a_stream_of_its_own() {
        let streams: Vec<u64> = (0..64).map(|seed| Draw::new(seed).0.next_u64()).collect();
        let mut distinct = streams.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), streams.len());
    }
}
