//! The words and numbers of a contract's text.

use core::num::NonZeroU32;

use super::ContractErrorKind as Kind;
use super::{CellRate, ContractError, Part, Peak};

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

const BITS_PER_CELL: u32 = 384;
const BILLION: u128 = 1_000_000_000;

/// What is added to bit/s before they become cells/s.
fn rounding(up: bool) -> u32 {
    if up { BITS_PER_CELL - 1 } else { 0 }
}

/// What is counted in a second.
enum Unit {
    Cells,
    Bits,
}

/// What follows a point.
#[derive(Clone, Copy, Default)]
struct Fraction {
    billionths: u32,
    /// There is more than those.
    finer: bool,
}

impl Fraction {
    /// Times 1000 to this power, which is at most 3; what is left behind the point is dropped.
    fn thousandfold(self, power: u32) -> u32 {
        self.billionths / 1000u32.pow(3 - power)
    }
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
        let meant = None;
        Err(ContractError { at, kind, meant })
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

    /// A rate as libatm reads it: in arithmetic modulo 2^32.
    pub(super) fn libatm_rate(&mut self, up: bool) -> Result<RawRate, ContractError> {
        let start = self.at;
        if self.max() {
            return Ok(RawRate::Max);
        }
        let mut rate = self.strtoul() as u32;
        let fraction = self.libatm_fraction();
        let thousands = self.thousands();
        for _ in 0..thousands {
            if rate > u32::MAX / 1000 {
                return self.error_at(start, Kind::RateRange);
            }
            rate *= 1000;
        }
        rate = rate.wrapping_add(fraction.thousandfold(thousands));
        rate = match self.unit(thousands)? {
            Unit::Cells => rate,
            Unit::Bits => rate.wrapping_add(rounding(up)) / BITS_PER_CELL,
        };
        if rate > i32::MAX as u32 {
            return self.error_at(start, Kind::RateRange);
        }
        Ok(RawRate::Cells(rate))
    }

    /// A rate as it is written: what does not fit is an error. What is less than a bit/s or a
    /// cell/s is dropped, as libatm does.
    pub(super) fn rate(&mut self, up: bool) -> Result<RawRate, ContractError> {
        let start = self.at;
        if self.max() {
            return Ok(RawRate::Max);
        }
        let whole = self.natural();
        let fraction = self.fraction();
        self.blanks_before_a_unit();
        let thousands = self.thousands();
        let unit = match self.bits_a_second() {
            true => Unit::Bits,
            false => self.unit(thousands)?,
        };
        let Some(whole) = whole else {
            return self.error_at(start, Kind::RateRange);
        };
        // Below 2^64 * 10^9 + 10^9.
        let rate = u128::from(whole) * 1000u128.pow(thousands)
            + u128::from(fraction.thousandfold(thousands));
        let cell_s = match unit {
            Unit::Cells => rate,
            Unit::Bits => (rate + u128::from(rounding(up))) / u128::from(BITS_PER_CELL),
        };
        match i32::try_from(cell_s) {
            Ok(cell_s) => Ok(RawRate::Cells(cell_s.unsigned_abs())),
            Err(_) => self.error_at(start, Kind::RateRange),
        }
    }

    /// Blanks, if letters are behind them.
    fn blanks_before_a_unit(&mut self) {
        let blanks = self.rest().iter().take_while(|c| **c == b' ').count();
        if self.rest().get(blanks).is_some_and(u8::is_ascii_alphabetic) {
            self.at += blanks;
        }
    }

    /// `bit/s` or `b/s`, which libatm does not know.
    fn bits_a_second(&mut self) -> bool {
        let words: [&[u8]; 2] = [b"bit/s", b"b/s"];
        let found = words.iter().find(|word| self.rest().starts_with(word));
        self.at += found.map_or(0, |word| word.len());
        found.is_some()
    }

    /// `max`: unlike the other words, this and units are lower case only.
    fn max(&mut self) -> bool {
        let max = self.rest().starts_with(b"max");
        self.at += if max { 3 } else { 0 };
        max
    }

    /// How often a multiplier multiplies by 1000.
    fn thousands(&mut self) -> u32 {
        let thousands = match self.peek() {
            Some(b'k' | b'K') => 1,
            Some(b'm' | b'M') => 2,
            Some(b'g' | b'G') => 3,
            _ => 0,
        };
        self.at += usize::from(thousands > 0);
        thousands
    }

    fn unit(&mut self, thousands: u32) -> Result<Unit, ContractError> {
        if self.rest().starts_with(b"bps") {
            self.at += 3;
            return Ok(Unit::Bits);
        }
        if self.rest().starts_with(b"cps") {
            self.at += 3;
        } else if thousands > 0 {
            return self.error(Kind::NoUnit);
        }
        Ok(Unit::Cells)
    }

    /// A point and digits. libatm stops *at* the ninth digit, so that nine digits are never right:
    /// the digit that is left is no unit and no comma.
    fn libatm_fraction(&mut self) -> Fraction {
        let from = self.at;
        let fraction = self.fraction();
        self.at = self.at.min(from + ".12345678".len());
        fraction
    }

    /// A point and digits, as many as there are.
    fn fraction(&mut self) -> Fraction {
        let mut fraction = Fraction::default();
        if !self.take(b'.') {
            return fraction;
        }
        let mut place = 100_000_000;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            fraction.billionths += u32::from(digit - b'0') * place;
            fraction.finer |= place == 0 && digit != b'0';
            place /= 10;
            self.at += 1;
        }
        fraction
    }

    /// An SDU size as libatm reads it: the low 32 bits of a `long`.
    pub(super) fn libatm_sdu(&mut self) -> Result<u32, ContractError> {
        let start = self.at;
        let (negative, magnitude) = self.strto();
        let long = match (negative, magnitude) {
            (false, Some(magnitude)) => i64::try_from(magnitude).unwrap_or(i64::MAX),
            (true, Some(magnitude)) => 0i64.checked_sub_unsigned(magnitude).unwrap_or(i64::MIN),
            (false, None) => i64::MAX,
            (true, None) => i64::MIN,
        };
        u32::try_from(long as i32).or_else(|_| self.error_at(start, Kind::SduRange))
    }

    /// An SDU size as it is written.
    pub(super) fn sdu(&mut self) -> Result<u32, ContractError> {
        let start = self.at;
        let octets = self.natural().and_then(|octets| i32::try_from(octets).ok());
        match octets {
            Some(octets) => Ok(octets.unsigned_abs()),
            None => self.error_at(start, Kind::SduRange),
        }
    }

    /// White space, a sign, digits, as libatm takes them; none for what is below 0 or needs more
    /// than 64 bits.
    fn natural(&mut self) -> Option<u64> {
        let (negative, magnitude) = self.strto();
        magnitude.filter(|magnitude| !negative || *magnitude == 0)
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

    /// A number of cells, 0 included.
    pub(super) fn cells_or_none(&mut self) -> Result<u32, ContractError> {
        let start = self.at;
        let cells = self.digits().and_then(|cells| u32::try_from(cells).ok());
        match cells.filter(|_| self.at > start) {
            Some(cells) => Ok(cells),
            None => self.error_at(start, Kind::TbeRange),
        }
    }

    /// A part of a rate, `1` or `1/16`; none: `0`.
    pub(super) fn part(&mut self) -> Result<Option<Part>, ContractError> {
        let start = self.at;
        let one = self.digits().filter(|_| self.at > start);
        let of = match self.take(b'/') {
            true => self.digits().and_then(|of| u32::try_from(of).ok()),
            false => Some(1),
        };
        match (one, of.and_then(Part::one_of)) {
            (Some(0), _) if of == Some(1) => Ok(None),
            (Some(1), Some(part)) => Ok(Some(part)),
            _ => self.error_at(start, Kind::ExpectedPart),
        }
    }

    /// Digits, perhaps a fraction, and a unit: nanoseconds, exactly.
    pub(super) fn time_ns(&mut self) -> Result<u64, ContractError> {
        const UNITS: [&str; 4] = ["ns", "us", "ms", "s"];
        const NS: [u128; 4] = [1, 1_000, 1_000_000, BILLION];
        let start = self.at;
        let whole = self.digits();
        if self.at == start {
            return self.error(Kind::ExpectedTime);
        }
        let fraction = self.fraction();
        let Some(unit) = self.take_word(&UNITS) else {
            return self.error(Kind::ExpectedTime);
        };
        let whole = whole.filter(|_| !fraction.finer);
        let ns = whole.and_then(|whole| {
            let billionths = u128::from(whole) * BILLION + u128::from(fraction.billionths);
            let scaled = billionths * NS[unit];
            let ns = scaled.is_multiple_of(BILLION).then_some(scaled / BILLION)?;
            u64::try_from(ns).ok()
        });
        ns.map_or_else(|| self.error_at(start, Kind::TimeRange), Ok)
    }
}
