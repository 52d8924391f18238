//! How many trials go well before one does not, drawn exactly and without trying each.

use super::Share;

/// Random numbers of 64 bits (SplitMix64, Steele, Lea and Flood 2014): small, and the same
/// everywhere.
#[derive(Clone, Debug)]
pub(super) struct Draws(u64);

impl Draws {
    /// Of a seed, for the kind of thing that this number names.
    pub(super) fn new(seed: u64, kind: u64) -> Self {
        let mut draws = Self(seed);
        let first = draws.next();
        Self(first ^ kind.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number up to `most`; the bias is below `most` / 2^64.
    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        ((u128::from(self.next()) * (u128::from(most) + 1)) >> 64) as u64
    }
}

/// Bits of the longest distance.
const BITS: usize = 63;

/// Distances from one fault to the next, where each trial is one with the same probability.
///
/// With `q` the probability that a trial goes well, the number of those before the next fault is
/// `n` or more with probability `q^n`. Its binary digits are then independent of each other, and
/// digit `k` is 1 with probability `q^(2^k) / (1 + q^(2^k))`: a draw for each digit that can be 1.
#[derive(Clone, Debug)]
pub(super) struct Distances {
    draws: Draws,
    /// For each digit: below which draw it is 1.
    digits: [u64; BITS],
    /// Trials that go well before the next fault; none: there will be no fault.
    left: Option<u64>,
}

impl Distances {
    pub(super) fn new(probability: Share, draws: Draws) -> Self {
        let mut digits = [0; BITS];
        // q^(2^k) in units of 2^-64, at most 2^64.
        let parts = u128::from(Share::WHOLE - probability.parts());
        let mut goes_well = (parts << 64) / u128::from(Share::WHOLE);
        for digit in &mut digits {
            let whole = (1_u128 << 64) + goes_well;
            // Below 2^63 and a half: the digit is 1 at most every second time.
            *digit = match goes_well >> 64 {
                0 => ((goes_well << 63) / whole * 2) as u64,
                _ => 1 << 63,
            };
            goes_well = match goes_well >> 64 {
                0 => (goes_well * goes_well) >> 64,
                _ => goes_well,
            };
        }
        let mut distances = Self {
            draws,
            digits,
            left: None,
        };
        if probability != Share::NONE {
            distances.left = Some(distances.draw());
        }
        distances
    }

    fn draw(&mut self) -> u64 {
        let mut distance = 0;
        for (k, digit) in self.digits.iter().enumerate() {
            if *digit == 0 {
                break;
            }
            distance |= u64::from(self.draws.next() < *digit) << k;
        }
        distance
    }

    /// Which of the next `trials` trials meets a fault, if any does: the trials up to and with that
    /// one have been had then, else all of them.
    #[inline]
    pub(super) fn next_in(&mut self, trials: u64) -> Option<u64> {
        let left = self.left.as_mut()?;
        if *left >= trials {
            *left -= trials;
            return None;
        }
        let at = *left;
        self.left = Some(self.draw());
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean of `n` distances has a standard deviation of sqrt(q) / p / sqrt(n).
    #[test]
    fn distances_follow_the_law() {
        const N: u64 = 20_000;
        for (text, mean, sigma) in [
            ("100%", 0, 0),
            ("50%", N, 283),
            ("10%", 9 * N, 1_342),
            ("1e-3", 999 * N, 141_400),
            ("1e-6", 999_999 * N, 141_421_356),
        ] {
            let share = text.parse().expect("a share");
            let mut distances = Distances::new(share, Draws::new(7, 1));
            let sum: u64 = (0..N).map(|_| distances.draw()).sum();
            assert!(sum.abs_diff(mean) <= 3 * sigma, "{text}: {sum}, not {mean}");
        }
        let mut none = Distances::new(Share::NONE, Draws::new(7, 1));
        assert_eq!(none.next_in(u64::MAX), None);
    }

    #[test]
    fn trials_in_whatever_portions_meet_the_same_faults() {
        let faults = |portions: &[u64]| {
            let share = "1e-2".parse().expect("a share");
            let mut distances = Distances::new(share, Draws::new(3, 2));
            let (mut all, mut at) = (Vec::new(), 0);
            for portion in portions.iter().cycle() {
                let end = at + portion;
                while let Some(fault) = distances.next_in(end - at) {
                    all.push(at + fault);
                    at += fault + 1;
                }
                at = end;
                if at >= 100_000 {
                    break;
                }
            }
            all.retain(|fault| *fault < 100_000);
            all
        };
        let single = faults(&[1]);
        assert!((700..1_300).contains(&single.len()), "{}", single.len());
        assert_eq!(faults(&[424]), single);
        assert_eq!(faults(&[1, 0, 7, 4_000]), single);
    }
}
