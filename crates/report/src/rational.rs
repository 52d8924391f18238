use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// An exact number of a report. What a check decides is decided with these.
///
/// The numbers of a report are far from the bounds of `i128`; an overflow is a bug and panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rational {
    numerator: i128,
    /// More than 0, and without a factor in common with the numerator.
    denominator: i128,
}

/// A constant written as a decimal number, such as `dec("42.5")`.
///
/// # Panics
///
/// If it is none: a slip of the pen in the program.
pub const fn dec(text: &str) -> Rational {
    match Rational::parse(text) {
        Some(number) => number,
        None => panic!("not a decimal number"),
    }
}

const fn common_factor(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Rational {
    pub const ZERO: Self = Self::whole(0);
    pub const ONE: Self = Self::whole(1);
    /// Decimals that a number may be written with.
    const DECIMALS_MAX: u32 = 18;

    /// `numerator / denominator`.
    ///
    /// # Panics
    ///
    /// If the denominator is 0.
    pub const fn new(numerator: i128, denominator: i128) -> Self {
        assert!(denominator != 0, "a denominator is not 0");
        let factor = common_factor(numerator, denominator) * denominator.signum();
        Self {
            numerator: numerator / factor,
            denominator: denominator / factor,
        }
    }

    /// A whole number.
    pub const fn whole(number: i128) -> Self {
        Self {
            numerator: number,
            denominator: 1,
        }
    }

    /// Reads `12`, `-0.5`, `42.5`: at most 18 digits before and behind the point.
    pub const fn parse(text: &str) -> Option<Self> {
        let octets = text.as_bytes();
        let negative = !octets.is_empty() && octets[0] == b'-';
        let mut at = negative as usize;
        let (mut digits, mut decimals, mut point) = (0i128, 0, false);
        let mut count = 0;
        while at < octets.len() {
            match octets[at] {
                digit @ b'0'..=b'9' => {
                    digits = digits * 10 + (digit - b'0') as i128;
                    count += 1;
                    decimals += point as u32;
                }
                b'.' if !point && count > 0 => point = true,
                _ => return None,
            }
            if count > 2 * Self::DECIMALS_MAX || decimals > Self::DECIMALS_MAX {
                return None;
            }
            at += 1;
        }
        if count == 0 || (point && decimals == 0) {
            return None;
        }
        let sign = if negative { -1 } else { 1 };
        Some(Self::new(sign * digits, 10i128.pow(decimals)))
    }

    /// The largest whole number that is not more.
    pub const fn floor(self) -> i128 {
        self.numerator.div_euclid(self.denominator)
    }

    /// The smallest whole number that is not less.
    pub const fn ceil(self) -> i128 {
        -(-self.numerator).div_euclid(self.denominator)
    }

    /// The nearest whole number; halves away from zero.
    pub const fn round(self) -> i128 {
        let doubled = Self::new(
            2 * self.numerator.abs() + self.denominator,
            2 * self.denominator,
        );
        self.numerator.signum() * doubled.floor()
    }

    /// `self / other`; none if that is 0.
    pub fn over(self, other: Self) -> Option<Self> {
        (other != Self::ZERO).then(|| self / other)
    }

    /// Without its sign.
    pub const fn abs(self) -> Self {
        Self {
            numerator: self.numerator.abs(),
            ..self
        }
    }

    /// The nearest number with so many decimals.
    pub fn rounded(self, decimals: u32) -> Self {
        let scale = 10i128.pow(decimals.min(Self::DECIMALS_MAX));
        Self::new((self * scale.into()).round(), scale)
    }

    /// For drawing; decisions stay exact.
    pub fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// With so many decimals, and a comma between groups of three digits.
    pub fn fixed(self, decimals: u32) -> String {
        let decimals = decimals.min(Self::DECIMALS_MAX);
        let scale = 10i128.pow(decimals);
        let scaled = (self * scale.into()).round();
        let sign = if scaled < 0 { "-" } else { "" };
        let whole = grouped(scaled.unsigned_abs() / scale.unsigned_abs());
        match decimals {
            0 => format!("{sign}{whole}"),
            _ => {
                let behind = scaled.unsigned_abs() % scale.unsigned_abs();
                format!("{sign}{whole}.{behind:0width$}", width = decimals as usize)
            }
        }
    }
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: impl Into<u128>) -> String {
    let digits = number.into().to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn small(product: Option<i128>) -> i128 {
    product.expect("the numbers of a report are small")
}

impl Add for Rational {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let left = small(self.numerator.checked_mul(other.denominator));
        let right = small(other.numerator.checked_mul(self.denominator));
        let denominator = small(self.denominator.checked_mul(other.denominator));
        Self::new(small(left.checked_add(right)), denominator)
    }
}

impl Neg for Rational {
    type Output = Self;

    fn neg(self) -> Self {
        Self {
            numerator: -self.numerator,
            ..self
        }
    }
}

impl Sub for Rational {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Rational {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let first = Self::new(self.numerator, other.denominator);
        let second = Self::new(other.numerator, self.denominator);
        Self::new(
            small(first.numerator.checked_mul(second.numerator)),
            small(first.denominator.checked_mul(second.denominator)),
        )
    }
}

impl Div for Rational {
    type Output = Self;

    /// # Panics
    ///
    /// If `other` is 0.
    #[expect(clippy::suspicious_arithmetic_impl, reason = "by the reciprocal")]
    fn div(self, other: Self) -> Self {
        self * Self::new(other.denominator, other.numerator)
    }
}

impl PartialOrd for Rational {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rational {
    fn cmp(&self, other: &Self) -> Ordering {
        (*self - *other).numerator.cmp(&0)
    }
}

macro_rules! from_whole {
    ($($whole:ty),*) => {$(
        impl From<$whole> for Rational {
            fn from(number: $whole) -> Self {
                Self::whole(number as i128)
            }
        }
    )*};
}

from_whole!(i32, u32, i64, u64, usize, i128);

impl FromStr for Rational {
    type Err = NotANumber;

    fn from_str(text: &str) -> Result<Self, NotANumber> {
        Self::parse(text).ok_or(NotANumber)
    }
}

/// A text is not a decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotANumber;

impl std::fmt::Display for NotANumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a decimal number")
    }
}

impl std::error::Error for NotANumber {}

impl Serialize for Rational {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match i64::try_from(self.numerator) {
            Ok(whole) if self.denominator == 1 => serializer.serialize_i64(whole),
            _ => serializer.serialize_f64(self.to_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_digits_by_thousands() {
        for (n, text) in [
            (0_u64, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (12_345_678, "12,345,678"),
        ] {
            assert_eq!(grouped(n), text);
        }
    }

    #[test]
    fn decimal_numbers_are_read_exactly_and_nothing_else_is() {
        for (text, numerator, denominator) in [
            ("12", 12, 1),
            ("-0.5", -1, 2),
            ("42.5", 85, 2),
            ("0.00001", 1, 100_000),
        ] {
            assert_eq!(
                Rational::parse(text),
                Some(Rational::new(numerator, denominator)),
                "{text}"
            );
        }
        let long = "1".repeat(37);
        for bad in [
            "", "-", ".", "1.", ".5", "1e3", "0x1", "1.2.3", "+1", " 1", &long,
        ] {
            assert_eq!(Rational::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn arithmetic_is_exact_and_ordered() {
        let third = Rational::new(1, 3);
        assert_eq!(third + third + third, Rational::ONE);
        assert_eq!(third / Rational::new(2, -6), -Rational::ONE);
        assert_eq!(third.over(Rational::new(2, 3)), Some(dec("0.5")));
        assert_eq!(third.over(Rational::ZERO), None);
        assert_eq!((third - Rational::ONE).abs(), Rational::new(2, 3));
        assert!(dec("0.333333333333333333") < third && third < dec("0.34"));
    }

    #[test]
    fn rounding_goes_to_the_nearest_and_halves_away_from_zero() {
        for (number, floor, ceil, round) in [
            ("2.5", 2, 3, 3),
            ("-2.5", -3, -2, -3),
            ("2.4", 2, 3, 2),
            ("-2.6", -3, -2, -3),
            ("7", 7, 7, 7),
        ] {
            let number = dec(number);
            let found = (number.floor(), number.ceil(), number.round());
            assert_eq!(found, (floor, ceil, round), "{number:?}");
        }
        assert_eq!(dec("1234567.885").fixed(2), "1,234,567.89");
        assert_eq!(dec("-0.04").fixed(1), "0.0");
        assert_eq!(Rational::new(2, 3).rounded(3), dec("0.667"));
    }
}
