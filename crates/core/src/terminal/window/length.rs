//! How long a PDU is best, by how many are lost.

use crate::contract::Aal;
use crate::terminal::Pci;
use crate::wire::{PAYLOAD_LEN, SAR_PAYLOAD_LEN, TRAILER_LEN};

use super::SenderCounts;

/// The shortest that a PDU is made, in octets of payload.
const SHORTEST: u64 = 64;
/// Behind so many lost PDUs what was heard before counts half: a line changes.
const LOST_MAX: u64 = 256;

/// The PDU length that carries most, from what was heard of PDUs so far.
///
/// If each cell is lost with the same probability q, a PDU of n cells with H octets around its
/// payload arrives with (1 - q)^n, and carries (n L - H) / n L of L octets a cell. The product is
/// largest where n L = (H + sqrt(H^2 + 4 L H / q)) / 2, nearly.
#[derive(Clone, Copy, Debug)]
pub(in crate::terminal) struct BestLength {
    /// Octets in a cell, and around the payload of a PDU.
    cell: u64,
    around: u64,
    max: u16,
    /// The counts of last time.
    before: SenderCounts,
    octets: u64,
    lost: u64,
}

impl BestLength {
    /// Nothing was heard yet: the best is the longest, `max` octets.
    pub(in crate::terminal) const fn new(aal: Aal, max: u16) -> Self {
        let cell = match aal {
            Aal::Aal34 => SAR_PAYLOAD_LEN as u64,
            Aal::Aal0 | Aal::Aal5 => PAYLOAD_LEN as u64,
        };
        Self {
            cell,
            // The CPCS of AAL3/4 adds as many.
            around: (Pci::LEN + TRAILER_LEN) as u64,
            max,
            before: SenderCounts::ZERO,
            octets: 0,
            lost: 0,
        }
    }

    /// Takes the counts of all transfers until now.
    pub(in crate::terminal) fn handle(&mut self, counts: SenderCounts) {
        let pdus = counts.heard - self.before.heard;
        self.octets += counts.octets_heard - self.before.octets_heard + pdus * self.around;
        self.lost += counts.lost - self.before.lost;
        self.before = counts;
        if self.lost > LOST_MAX {
            self.octets /= 2;
            self.lost /= 2;
        }
    }

    /// Octets of payload of the best PDU: whole cells, unless the longest is best.
    pub(in crate::terminal) fn octets(&self) -> u16 {
        if self.lost == 0 {
            return self.max;
        }
        // 1/q: cells that are lost once.
        let under = self.around * self.around + 4 * self.around * self.octets / self.lost;
        let in_cells = (self.around + under.isqrt()) / 2;
        let cells = (in_cells + self.cell / 2) / self.cell;
        let octets = (cells * self.cell)
            .saturating_sub(self.around)
            .max(SHORTEST);
        octets.min(self.max.into()) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of so many PDUs of this length.
    fn counts(pdus: u64, octets: u64, lost: u64) -> SenderCounts {
        SenderCounts {
            heard: pdus,
            octets_heard: pdus * octets,
            lost,
            ..SenderCounts::ZERO
        }
    }

    #[test]
    fn it_is_the_square_root_of_what_is_around_by_what_is_lost() {
        // BER, cells of which one is lost, and the best by its law.
        for (cells, best) in [
            (260_417, 19_984),
            (26_042, 6_304),
            (2_604, 1_984),
            (260, 640),
        ] {
            let mut length = BestLength::new(Aal::Aal5, 65_000);
            assert_eq!(length.octets(), 65_000);
            let pdus = 200 * cells / 14;
            length.handle(counts(pdus, 640, 200));
            let found = u64::from(length.octets());
            assert!(found.abs_diff(best) <= 48 + best / 100, "{found} of {best}");
            assert_eq!((found + 32) % 48, 0);
        }
    }

    #[test]
    fn what_was_long_ago_counts_less_and_less() {
        let mut length = BestLength::new(Aal::Aal34, 9_108);
        let mut all = counts(1_000, 640, 400);
        length.handle(all);
        let bad = length.octets();
        assert!((64..300).contains(&bad), "{bad}");
        for _ in 0..20 {
            all.heard += 20_000;
            all.octets_heard += 20_000 * 640;
            all.lost += 100;
            length.handle(all);
        }
        let good = length.octets();
        assert!((1_500..2_500).contains(&good), "{good}");
    }
}
