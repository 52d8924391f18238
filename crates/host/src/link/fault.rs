//! Faults of a link, for tests: a list drawn by seed, and the line that does what it says
//! ([`cellgate_core::FaultyLine`]) at a port's receiving end.

use std::collections::BTreeSet;

use cellgate_core::wire::{CellFormat, PAYLOAD_LEN};
use cellgate_core::{Effect, Fault, FaultRates};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Faults in one list at most: 24 octets each.
const FAULTS_MAX: u64 = 1 << 20;

/// The list for a line of this format; none if it were longer than 2^20 faults. The same rates give
/// the same list: of each kind exactly as many faults as its rate says, each at a cell or bit of
/// its own drawn at random.
pub fn draw(rates: &FaultRates, format: CellFormat) -> Option<Vec<Fault>> {
    let header_bits = 8 * (format.stride() - PAYLOAD_LEN) as u64;
    let payload_bits = 8 * PAYLOAD_LEN as u64;
    let of = |rate: u32, each: u64, unit: u64| -> u64 {
        let product = u128::from(rates.cells) * u128::from(rate) * u128::from(each);
        u64::try_from(product / u128::from(unit)).unwrap_or(u64::MAX)
    };
    const PPM: u64 = 1_000_000;
    const PPB: u64 = 1_000_000_000;
    let counts = [
        of(rates.loss_ppm, 1, PPM),
        of(rates.header_errors_ppb, header_bits, PPB),
        of(rates.payload_errors_ppb, payload_bits, PPB),
        of(rates.duplication_ppm, 1, PPM),
        of(rates.misinsertion_ppm, 1, PPM),
        of(rates.holds_ppm, 1, PPM),
    ];
    if counts.iter().fold(0, |sum: u64, n| sum.saturating_add(*n)) > FAULTS_MAX {
        return None;
    }
    let mut rng = Pcg64Mcg::new((u128::from(rates.seed) << 1) | 1);
    // The bias is below `n` / 2^64.
    let mut below = |n: u64| ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64;
    let mut faults = Vec::new();
    for (kind, count) in counts.into_iter().enumerate() {
        let bits = match kind {
            1 => header_bits,
            2 => payload_bits,
            _ => 1,
        };
        for place in distinct(count, rates.cells.saturating_mul(bits), &mut below) {
            let (cell, bit) = (place / bits, (place % bits) as u16);
            let effect = match kind {
                0 => Effect::Lose,
                1 => Effect::Flip { bit },
                2 => Effect::Flip {
                    bit: header_bits as u16 + bit,
                },
                3 => Effect::Duplicate,
                4 => Effect::Insert {
                    address: rates.misinserted,
                    last: below(2) == 1,
                },
                _ => Effect::Hold {
                    ns: 1 + below(rates.hold_max_ns),
                },
            };
            faults.push(Fault { cell, effect });
        }
    }
    Some(faults)
}

/// `count` different numbers below `n`, or all of them (Floyd's sampling: as many draws).
fn distinct(count: u64, n: u64, below: &mut impl FnMut(u64) -> u64) -> BTreeSet<u64> {
    let mut chosen = BTreeSet::new();
    for last in n.saturating_sub(count)..n {
        let drawn = below(last + 1);
        if !chosen.insert(drawn) {
            chosen.insert(last);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use cellgate_core::wire::VpiVci;

    use super::*;

    fn rates(seed: u64) -> FaultRates {
        FaultRates {
            loss_ppm: 1_000,
            header_errors_ppb: 1_000_000,
            payload_errors_ppb: 10_000,
            duplication_ppm: 500,
            misinsertion_ppm: 200,
            misinserted: VpiVci::from_bits(77),
            holds_ppm: 10,
            hold_max_ns: 5_000,
            ..FaultRates::none(seed, 1_000_000)
        }
    }

    #[test]
    fn draws_what_the_rates_say_and_the_same_again() {
        let faults = draw(&rates(1), CellFormat::NoHec).unwrap();
        let count = |is: fn(&Effect) -> bool| faults.iter().filter(|f| is(&f.effect)).count();
        assert_eq!(count(|e| *e == Effect::Lose), 1_000);
        assert_eq!(count(|e| *e == Effect::Duplicate), 500);
        assert_eq!(count(|e| matches!(e, Effect::Insert { .. })), 200);
        assert_eq!(count(|e| matches!(e, Effect::Hold { ns: 1..=5_000 })), 10);
        assert_eq!(
            count(|e| matches!(e, Effect::Flip { bit: 0..32 })),
            32 * 1_000
        );
        assert_eq!(
            count(|e| matches!(e, Effect::Flip { bit: 32..416 })),
            384 * 10
        );
        assert!(faults.iter().all(|fault| fault.cell < 1_000_000));
        let spread = faults.iter().filter(|f| f.cell < 500_000).count();
        assert!((17_000..21_000).contains(&spread), "{spread}");
        assert_eq!(draw(&rates(1), CellFormat::NoHec), Some(faults.clone()));
        assert_ne!(draw(&rates(2), CellFormat::NoHec), Some(faults));
    }

    #[test]
    fn a_list_has_an_end() {
        let many = FaultRates {
            loss_ppm: u32::MAX,
            ..FaultRates::none(1, u64::MAX)
        };
        assert_eq!(draw(&many, CellFormat::NoHec), None);
        let none = draw(&FaultRates::none(1, 1_000), CellFormat::NoHec);
        assert_eq!(none, Some(Vec::new()));
        let all = FaultRates {
            loss_ppm: 2_000_000,
            ..FaultRates::none(1, 1_000)
        };
        let lost = |i| Fault {
            cell: i,
            effect: Effect::Lose,
        };
        let all = draw(&all, CellFormat::NoHec);
        assert_eq!(all, Some((0..1_000).map(lost).collect()));
    }
}
