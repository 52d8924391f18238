//! Prices, and what slots cost: an estimate, in exact decimals.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Slots;
use super::charging::{Flaws, Planted, Sound};

/// Decimals that are kept.
const DECIMALS: usize = 15;
const UNIT: u128 = 10_u128.pow(DECIMALS as u32);

/// An amount of money without a currency, to 15 decimals: written as `0.05`, `12` or `0.0000001`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Amount(u128);

/// A text that is no amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no amount: write digits, and 15 decimals behind a point at most, as in \"0.05\"")]
pub struct AmountError(String);

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let error = || AmountError(text.chars().take(40).collect());
        let (whole, decimals) = match text.split_once('.') {
            Some((_, "")) => return Err(error()),
            Some(parts) => parts,
            None => (text, ""),
        };
        let digits = |part: &str| part.bytes().all(|octet| octet.is_ascii_digit());
        // Six digits before the point: 2^57 of the dearest cells are no overflow yet.
        if whole.is_empty() || whole.len() > 6 || decimals.len() > DECIMALS {
            return Err(error());
        }
        if !digits(whole) || !digits(decimals) {
            return Err(error());
        }
        let whole: u128 = whole.parse().map_err(|_| error())?;
        let fraction = decimals
            .bytes()
            .fold(0, |sum, digit| 10 * sum + u128::from(digit - b'0'));
        let missing = 10_u128.pow((DECIMALS - decimals.len()) as u32);
        Ok(Self(whole * UNIT + fraction * missing))
    }
}

impl TryFrom<String> for Amount {
    type Error = AmountError;

    fn try_from(text: String) -> Result<Self, AmountError> {
        text.parse()
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> Self {
        amount.to_string()
    }
}

/// With as many decimals as it has, two at least.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:015}", self.0 % UNIT);
        let shown = decimals.trim_end_matches('0').len().max(2);
        f.pad(&format!("{}.{}", self.0 / UNIT, &decimals[..shown]))
    }
}

impl Amount {
    /// So many times this; the most there is, for any more.
    const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count as u128))
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// What a network asks for a connection: an estimate in a currency of one's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tariff {
    /// The word behind each sum.
    pub currency: String,
    /// For each connection, once.
    pub set_up: Amount,
    /// For each reserved slot, used or not: a cell/s that is reserved for a second.
    pub reserved_slot: Amount,
    /// For each cell of CLP 0.
    pub cell_clp0: Amount,
    /// For each cell of CLP 1.
    pub cell_clp1: Amount,
}

impl Tariff {
    /// What the slots of one direction cost, without the set-up.
    pub fn cost(&self, slots: &Slots) -> Amount {
        self.cost_with(slots, &Sound)
    }

    /// The same, perhaps with a bug.
    pub fn cost_with(&self, slots: &Slots, flaws: &impl Flaws) -> Amount {
        let price = |price: Amount| match flaws.has(Planted::PriceCut) {
            true => Amount(price.0 - price.0 % (UNIT / 1_000_000)),
            false => price,
        };
        let reserved = match flaws.has(Planted::UnoccupiedFree) {
            true => slots.reserved - slots.unoccupied,
            false => slots.reserved,
        };
        let low = match flaws.has(Planted::PriceOfHighPriority) {
            true => self.cell_clp0,
            false => self.cell_clp1,
        };
        price(self.reserved_slot)
            .times(reserved)
            .plus(price(self.cell_clp0).times(slots.clp0))
            .plus(price(low).times(slots.clp1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_printed_to_the_last_decimal() {
        for (text, printed) in [
            ("0", "0.00"),
            ("12", "12.00"),
            ("0.05", "0.05"),
            ("0.5", "0.50"),
            ("0.000000000000001", "0.000000000000001"),
            ("999999.123", "999999.123"),
        ] {
            assert_eq!(text.parse::<Amount>().unwrap().to_string(), printed);
        }
        let wrong = [
            "",
            ".5",
            "5.",
            "-1",
            "1e3",
            "1,5",
            "0.0000000000000001",
            "1000000",
            " 1",
        ];
        for text in wrong {
            assert_eq!(text.parse::<Amount>(), Err(AmountError(text.to_owned())));
        }
    }

    #[test]
    fn slots_cost_what_the_tariff_says_and_unoccupied_ones_what_is_reserved() {
        let tariff = Tariff {
            currency: "EUR".to_owned(),
            set_up: "0.05".parse().unwrap(),
            reserved_slot: "0.000001".parse().unwrap(),
            cell_clp0: "0.00002".parse().unwrap(),
            cell_clp1: "0.000005".parse().unwrap(),
        };
        // 1,000 of 3,000 slots with cells, a tenth of them of CLP 1.
        let slots = Slots::of(3_000, 1_000, 100);
        let expected = "0.0215".parse::<Amount>().unwrap();
        assert_eq!(tariff.cost(&slots), expected, "0.003 + 0.018 + 0.0005");
        assert_eq!(tariff.cost(&Slots::of(3_000, 0, 0)).to_string(), "0.003");
        let most = Amount(u128::MAX).plus(Amount(1)).times(2);
        assert_eq!(most, Amount(u128::MAX));
    }
}
