use serde::{Deserialize, Serialize};

/// Classes of each power of two.
const EIGHTHS: u32 = 8;
/// Classes in all: a time below 8 ns is a class of its own.
const CLASSES: usize = 64 * EIGHTHS as usize;

/// How many VCs of a line make good how much lateness: enough to know the least without a look at
/// each VC. Times of one eighth of a power of two count as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tolerances {
    counts: Vec<u16>,
    /// One bit a class that counts any.
    occupied: [u64; CLASSES / 64],
}

/// The class of a time.
fn class(ns: u64) -> usize {
    match ns.checked_ilog2() {
        None | Some(0..3) => ns as usize,
        Some(power) => ((power - 2) * EIGHTHS) as usize + (ns >> (power - 3)) as usize % 8,
    }
}

/// The least time of a class.
fn floor(class: usize) -> u64 {
    let (power, eighth) = (class as u32 / EIGHTHS, class as u64 % u64::from(EIGHTHS));
    match power {
        0 => eighth,
        power => (8 + eighth) << (power - 1),
    }
}

impl Tolerances {
    pub(super) fn new() -> Self {
        Self {
            counts: vec![0; CLASSES],
            occupied: [0; CLASSES / 64],
        }
    }

    pub(super) fn add(&mut self, ns: u64) {
        let class = class(ns);
        // There are at most 16,384 VCs.
        self.counts[class] += 1;
        self.occupied[class / 64] |= 1 << (class % 64);
    }

    pub(super) fn remove(&mut self, ns: u64) {
        let class = class(ns);
        self.counts[class] -= 1;
        if self.counts[class] == 0 {
            self.occupied[class / 64] &= !(1 << (class % 64));
        }
    }

    /// The least of all times, rounded down by an eighth at most.
    pub(super) fn least_ns(&self) -> Option<u64> {
        let word = self.occupied.iter().position(|word| *word != 0)?;
        let bit = self.occupied[word].trailing_zeros() as usize;
        Some(floor(word * 64 + bit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_an_eighth_of_a_power_of_two() {
        let exact = (0..2_000_u64).chain((0..61).flat_map(|power| {
            let ns = 8_u64 << power;
            [ns - 1, ns, ns + 1, ns / 8 * 15]
        }));
        for ns in exact.chain([1_000_000, u64::MAX]) {
            let least = floor(class(ns));
            assert!(least <= ns && ns - least <= ns / 8, "{ns}: {least}");
            assert_eq!(class(least), class(ns), "{ns}");
        }
        assert!(class(u64::MAX) < CLASSES);
    }

    #[test]
    fn the_least_is_that_of_those_who_are_there() {
        let mut tolerances = Tolerances::new();
        assert_eq!(tolerances.least_ns(), None);
        for ns in [1 << 20, 1 << 10, 1 << 10, 1 << 30, 0] {
            tolerances.add(ns);
        }
        for (gone, least) in [
            (0, Some(1 << 10)),
            (1 << 10, Some(1 << 10)),
            (1 << 30, Some(1 << 10)),
            (1 << 10, Some(1 << 20)),
            (1 << 20, None),
        ] {
            tolerances.remove(gone);
            assert_eq!(tolerances.least_ns(), least, "{gone}");
        }
    }
}
