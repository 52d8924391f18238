#![warn(missing_docs)]

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// An instant: nanoseconds since the start of some monotonic clock (584 years fit).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time {
    ns: u64,
}

impl Time {
    /// The start of the clock.
    pub const ZERO: Self = Self { ns: 0 };

    /// The instant `ns` nanoseconds after the clock's start.
    #[inline(always)]
    pub const fn from_ns(ns: u64) -> Self {
        Self { ns }
    }

    /// Nanoseconds since the clock's start.
    #[inline(always)]
    pub const fn ns(self) -> u64 {
        self.ns
    }

    /// The instant `ns` nanoseconds later (the end of time if there is none).
    #[inline(always)]
    pub const fn plus_ns(self, ns: u64) -> Self {
        Self {
            ns: self.ns.saturating_add(ns),
        }
    }

    /// The instant `ns` nanoseconds earlier (the clock's start if there is none).
    #[inline(always)]
    pub const fn minus_ns(self, ns: u64) -> Self {
        Self {
            ns: self.ns.saturating_sub(ns),
        }
    }

    /// Nanoseconds from `earlier` to here, 0 if `earlier` is later.
    #[inline(always)]
    pub const fn since_ns(self, earlier: Self) -> u64 {
        self.ns.saturating_sub(earlier.ns)
    }
}

/// A span of time in words: nanoseconds, in the largest unit of which they are a whole number, as
/// `250us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeWord(pub u64);

const UNITS: [(&str, u64); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// A text that is no span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a time, as 250us (ns, us, ms, s)")]
pub struct TimeWordError;

impl FromStr for TimeWord {
    type Err = TimeWordError;

    fn from_str(text: &str) -> Result<Self, TimeWordError> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = UNITS.iter().find(|unit| unit.0 == &text[digits.len()..]);
        let digits = Some(digits).filter(|digits| digits.bytes().all(|c| c.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse::<u64>().ok());
        let ns = number.zip(unit).and_then(|(n, unit)| n.checked_mul(unit.1));
        ns.map(Self).ok_or(TimeWordError)
    }
}

impl fmt::Display for TimeWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |unit: &&(&str, u64)| self.0.is_multiple_of(unit.1);
        let (name, ns) = UNITS.iter().rev().find(whole).unwrap_or(&UNITS[0]);
        write!(f, "{}{name}", self.0 / ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_print_as_they_read() {
        for (text, ns) in [
            ("0s", 0),
            ("1ns", 1),
            ("1500ns", 1_500),
            ("250us", 250_000),
            ("1ms", 1_000_000),
            ("90s", 90_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(TimeWord(ns)));
            assert_eq!(TimeWord(ns).to_string(), text);
        }
        for text in [
            "",
            "5",
            "ms",
            "-1ms",
            "+1ms",
            "1 ms",
            "1m",
            "1e3ns",
            "99999999999s",
            "18446744073709551616ns",
            "1.5ms",
        ] {
            assert!(text.parse::<TimeWord>().is_err(), "{text}");
        }
    }
}
