//! How much of something: a probability as a decimal number, exactly.

use core::fmt;
use core::str::FromStr;

/// A share of one, in parts of 10^12. In words: `0.1%`, `0.001` or `1e-3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u64);

impl Share {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Parts of a whole.
    pub const WHOLE: u64 = 1_000_000_000_000;

    /// So many parts of [`Self::WHOLE`], if that are not more than there are.
    pub const fn new(parts: u64) -> Option<Self> {
        match parts <= Self::WHOLE {
            true => Some(Self(parts)),
            false => None,
        }
    }

    /// Parts of [`Self::WHOLE`].
    pub const fn parts(self) -> u64 {
        self.0
    }
}

/// A text that is no share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 0 to 1 in steps of 1e-12, as 0.1%, 0.001 or 1e-3")]
pub struct ShareError;

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let (text, percent) = match text.strip_suffix('%') {
            Some(text) => (text, -2),
            None => (text, 0),
        };
        let (digits, exponent) = match text.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i32>().map_err(|_| ShareError)?),
            None => (text, 0),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let all = [whole, part].concat();
        let is_number = !all.is_empty() && all.bytes().all(|octet| octet.is_ascii_digit());
        if !is_number || whole.is_empty() || all.len() > 18 || !(-30..=30).contains(&exponent) {
            return Err(ShareError);
        }
        let number: u128 = all.parse().map_err(|_| ShareError)?;
        // In parts: at most 10^18 times 10^42.
        let tens = 12 + exponent + percent - part.len() as i32;
        let parts = match u32::try_from(tens) {
            Ok(_) if number == 0 => 0,
            Ok(tens) => {
                let power = 10_u128.checked_pow(tens).ok_or(ShareError)?;
                number.checked_mul(power).ok_or(ShareError)?
            }
            Err(_) => {
                let power = 10_u128.pow(tens.unsigned_abs());
                if !number.is_multiple_of(power) {
                    return Err(ShareError);
                }
                number / power
            }
        };
        let parts = u64::try_from(parts).map_err(|_| ShareError)?;
        Self::new(parts).ok_or(ShareError)
    }
}

/// In percent where three decimals are enough, else with an exponent.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const THOUSANDTH_OF_PERCENT: u64 = Share::WHOLE / 100_000;
        if self.0.is_multiple_of(THOUSANDTH_OF_PERCENT) {
            let thousandths = self.0 / THOUSANDTH_OF_PERCENT;
            let (whole, part) = (thousandths / 1_000, thousandths % 1_000);
            let part = format!("{part:03}");
            let part = part.trim_end_matches('0');
            return match part {
                "" => write!(f, "{whole}%"),
                part => write!(f, "{whole}.{part}%"),
            };
        }
        let (mut digits, mut exponent) = (self.0, -12);
        while digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        write!(f, "{digits}e{exponent}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_and_print_as_they_read() {
        for (text, parts, printed) in [
            ("0", 0, "0%"),
            ("1", Share::WHOLE, "100%"),
            ("100%", Share::WHOLE, "100%"),
            ("0.1%", 1_000_000_000, "0.1%"),
            ("0.001", 1_000_000_000, "0.1%"),
            ("1e-3", 1_000_000_000, "0.1%"),
            ("12.345%", 123_450_000_000, "12.345%"),
            ("1e-6", 1_000_000, "1e-6"),
            ("0.0001%", 1_000_000, "1e-6"),
            ("2.5E-7", 250_000, "25e-8"),
            ("1e-12", 1, "1e-12"),
            ("10e-1", Share::WHOLE, "100%"),
        ] {
            let share: Share = text.parse().expect(text);
            assert_eq!(
                (share.parts(), share.to_string().as_str()),
                (parts, printed)
            );
            assert_eq!(printed.parse(), Ok(share));
        }
        for text in [
            "",
            "%",
            ".5",
            "-1",
            "+1",
            "1.1",
            "101%",
            "1e-13",
            "1e",
            "e-6",
            "0x1",
            "1e99",
            "1e31",
            "0.0000000000001",
            "1 %",
            "1,5",
            "nan",
            "99999999999999999999",
        ] {
            assert_eq!(text.parse::<Share>(), Err(ShareError), "{text}");
        }
    }
}
