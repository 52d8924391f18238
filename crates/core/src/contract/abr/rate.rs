//! The rates of ABR, finer than a cell a second, and the parts of them that rules speak of.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::contract::CellRate;
use crate::wire::RmRate;

/// A cell rate in 2^-24 cells/s.
///
/// So every rate of an RM cell is exact, and so is the least increase, 2^-15 of a rate of whole
/// cells/s. A decrease is rounded up.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct AbrRate(u64);

/// A part of a rate: 1 / 2^n, n from 0 to 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Part(u8);

impl AbrRate {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// Bits behind the point.
    const FRACTION: u32 = 24;
    /// The same of what an RM cell says.
    const OF_RM: u32 = 9;

    /// So many whole cells/s.
    pub const fn of_cell_s(cell_s: u32) -> Self {
        Self((cell_s as u64) << Self::FRACTION)
    }

    /// The same of a rate that is one.
    pub const fn of(rate: CellRate) -> Self {
        Self::of_cell_s(rate.cell_s())
    }

    /// What an RM cell says, exactly.
    pub const fn of_rm(rate: RmRate) -> Self {
        // Below 2^41 * 2^15.
        Self(rate.cell_s_512ths() << (Self::FRACTION - Self::OF_RM))
    }

    /// The largest rate of an RM cell that is not above it; none at all below a cell/s.
    pub const fn to_rm(self) -> RmRate {
        RmRate::at_most_512ths(self.0 >> (Self::FRACTION - Self::OF_RM))
    }

    /// Whole cells/s, rounded down.
    pub const fn cell_s(self) -> u32 {
        let whole = self.0 >> Self::FRACTION;
        if whole > u32::MAX as u64 {
            u32::MAX
        } else {
            whole as u32
        }
    }

    /// The same as a rate; none: less than a cell/s.
    pub const fn whole(self) -> Option<CellRate> {
        CellRate::new(self.cell_s())
    }

    /// In 2^-24 cells/s.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// A part of it, rounded down.
    pub const fn part(self, part: Part) -> Self {
        Self(self.0 >> part.0)
    }

    /// What is left without a part of it, that part rounded up.
    pub const fn without(self, part: Part) -> Self {
        let whole = self.0 >> part.0;
        let rest = self.0 != whole << part.0;
        Self(self.0 - whole - rest as u64)
    }

    /// Both together.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left without the other, nothing at least.
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// So many times it.
    pub const fn times(self, n: u32) -> Self {
        Self(self.0.saturating_mul(n as u64))
    }
}

impl Part {
    /// All of it.
    pub const WHOLE: Self = Self(0);
    /// 1/16.
    pub const SIXTEENTH: Self = Self(4);
    /// The least: 1/32768.
    pub const LEAST: Self = Self(15);

    /// 1 / `n`; none if that is no power of two up to 32,768.
    pub const fn one_of(n: u32) -> Option<Self> {
        if n.is_power_of_two() && n <= 1 << 15 {
            Some(Self(n.trailing_zeros() as u8))
        } else {
            None
        }
    }

    /// The n of 1 / n.
    pub const fn of(self) -> u32 {
        1 << self.0
    }
}

impl TryFrom<u8> for Part {
    type Error = &'static str;

    fn try_from(power: u8) -> Result<Self, Self::Error> {
        match power {
            0..=15 => Ok(Self(power)),
            _ => Err("expected the power of two of a part, 0 to 15"),
        }
    }
}

impl From<Part> for u8 {
    fn from(part: Part) -> Self {
        part.0
    }
}

/// As a contract's text has it.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("1"),
            _ => write!(f, "1/{}", self.of()),
        }
    }
}
