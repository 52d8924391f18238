//! The words and numbers of a contract's text.

use core::num::NonZeroU32;

use super::ContractErrorKind as Kind;
use super::{CellRate, ContractError, Peak};

/// A text and how far it was read.
pub(super) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

/// A rate as libatm has it: 0 is none.
pub(super) enum RawRate {
    Cells(u32),
    Max,
}

impl RawRate {
    pub(super) fn peak(self) -> Option<Peak> {
        match self {
            Self::Cells(cell_s) => CellRate::new(cell_s).map(Peak::Rate),
            Self::Max => Some(Peak::Max),
        }
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text: text.as_bytes(),
            at: 0,
        }
    }

    /// Octets read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The octet read last.
    pub(super) fn last(&self) -> Option<u8> {
        self.text.get(self.at.checked_sub(1)?).copied()
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn at_end(&self) -> bool {
        self.rest().is_empty()
    }

    pub(super) fn error<T>(&self, kind: Kind) -> Result<T, ContractError> {
        self.error_at(self.at, kind)
    }

    pub(super) fn error_at<T>(&self, at: usize, kind: Kind) -> Result<T, ContractError> {
        Err(ContractError { at, kind })
    }

    pub(super) fn starts_with(&self, word: &str) -> bool {
        let start = self.rest().get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Takes one octet if it is this one.
    pub(super) fn take(&mut self, octet: u8) -> bool {
        let found = self.peek() == Some(octet);
        self.at += usize::from(found);
        found
    }

    /// Takes the longest of `words` that the text goes on with, letters in either case.
    pub(super) fn take_word(&mut self, words: &[&str]) -> Option<usize> {
        let found = (0..words.len())
            .filter(|&i| self.starts_with(words[i]))
            .max_by_key(|&i| words[i].len())?;
        self.at += words[found].len();
        Some(found)
    }

    /// A rate, in arithmetic modulo 2^32 as libatm's.
    pub(super) fn rate(&mut self, up: bool) -> Result<RawRate, ContractError> {
        const BITS_PER_CELL: u32 = 384;
        let start = self.at;
        // Unlike the other words, these are lower case only.
        if self.rest().starts_with(b"max") {
            self.at += 3;
            return Ok(RawRate::Max);
        }
        let mut rate = self.strtoul() as u32;
        let (fraction, digits) = self.fraction();
        let thousands = match self.peek() {
            Some(b'k' | b'K') => 1,
            Some(b'm' | b'M') => 2,
            Some(b'g' | b'G') => 3,
            _ => 0,
        };
        for _ in 0..thousands {
            if rate > u32::MAX / 1000 {
                return self.error_at(start, Kind::RateRange);
            }
            rate *= 1000;
        }
        self.at += usize::from(thousands > 0);
        // At most nine digits, scaled to at most 10^9.
        let fraction = if digits > 3 * thousands {
            fraction / 10u32.pow(digits - 3 * thousands)
        } else {
            fraction * 10u32.pow(3 * thousands - digits)
        };
        rate = rate.wrapping_add(fraction);
        if self.rest().starts_with(b"cps") {
            self.at += 3;
        } else if self.rest().starts_with(b"bps") {
            let rounding = if up { BITS_PER_CELL - 1 } else { 0 };
            rate = rate.wrapping_add(rounding) / BITS_PER_CELL;
            self.at += 3;
        } else if thousands > 0 {
            return self.error(Kind::NoUnit);
        }
        if rate > i32::MAX as u32 {
            return self.error_at(start, Kind::RateRange);
        }
        Ok(RawRate::Cells(rate))
    }

    /// A point and digits: their value and number. libatm stops *at* the ninth digit, so that nine
    /// digits are never right: the digit that is left is no unit and no comma.
    fn fraction(&mut self) -> (u32, u32) {
        let (mut value, mut digits) = (0, 0);
        if !self.take(b'.') {
            return (0, 0);
        }
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value * 10 + u32::from(digit - b'0');
            digits += 1;
            if digits == 9 {
                break;
            }
            self.at += 1;
        }
        (value, digits)
    }

    pub(super) fn sdu(&mut self) -> Result<u32, ContractError> {
        let start = self.at;
        let (negative, magnitude) = self.strto();
        let long = match (negative, magnitude) {
            (false, Some(magnitude)) => i64::try_from(magnitude).unwrap_or(i64::MAX),
            (true, Some(magnitude)) => 0i64.checked_sub_unsigned(magnitude).unwrap_or(i64::MIN),
            (false, None) => i64::MAX,
            (true, None) => i64::MIN,
        };
        // libatm keeps the low 32 bits.
        u32::try_from(long as i32).or_else(|_| self.error_at(start, Kind::SduRange))
    }

    /// As strtoul with base 10 and 64-bit `unsigned long`.
    fn strtoul(&mut self) -> u64 {
        match self.strto() {
            (false, Some(magnitude)) => magnitude,
            (true, Some(magnitude)) => magnitude.wrapping_neg(),
            (_, None) => u64::MAX,
        }
    }

    /// White space, a sign, digits: whether negative, and the magnitude, none if it needs more than
    /// 64 bits. Without a digit nothing is taken, and the number is 0.
    fn strto(&mut self) -> (bool, Option<u64>) {
        let start = self.at;
        while let Some(b' ' | b'\t'..=b'\r') = self.peek() {
            self.at += 1;
        }
        let negative = self.take(b'-');
        if !negative {
            self.take(b'+');
        }
        let first = self.at;
        let magnitude = self.digits();
        if self.at == first {
            self.at = start;
        }
        (negative, magnitude)
    }

    /// Digits; none if their number needs more than 64 bits.
    fn digits(&mut self) -> Option<u64> {
        let mut value = Some(0u64);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            let shifted = value.and_then(|value| value.checked_mul(10));
            value = shifted.and_then(|value| value.checked_add(u64::from(digit - b'0')));
            self.at += 1;
        }
        value
    }

    pub(super) fn cells(&mut self) -> Result<NonZeroU32, ContractError> {
        let start = self.at;
        let cells = self.digits().and_then(|cells| u32::try_from(cells).ok());
        match cells.and_then(NonZeroU32::new) {
            Some(cells) => Ok(cells),
            None => self.error_at(start, Kind::ExpectedCells),
        }
    }

    /// Digits, perhaps a fraction, and a unit: nanoseconds, exactly.
    pub(super) fn time_ns(&mut self) -> Result<u64, ContractError> {
        const UNITS: [&str; 4] = ["ns", "us", "ms", "s"];
        const NS: [u128; 4] = [1, 1_000, 1_000_000, 1_000_000_000];
        let start = self.at;
        let whole = self.digits();
        let digits = self.at - start;
        let (fraction, places) = self.fraction();
        // The ninth place is left standing, see there.
        self.at += usize::from(places == 9);
        let (Some(whole), true) = (whole, digits > 0) else {
            return self.error_at(start, Kind::ExpectedTime);
        };
        let Some(unit) = self.take_word(&UNITS) else {
            return self.error(Kind::ExpectedTime);
        };
        let scale = 10u128.pow(places);
        let scaled = (u128::from(whole) * scale + u128::from(fraction)) * NS[unit];
        let ns = u64::try_from(scaled / scale).ok();
        match ns.filter(|_| scaled.is_multiple_of(scale)) {
            Some(ns) => Ok(ns),
            None => self.error_at(start, Kind::ExpectedTime),
        }
    }
}
