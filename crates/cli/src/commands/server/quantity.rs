//! Words for times and for when events tell, read and written.

use std::fmt;
use std::str::FromStr;

use cellgate::Notification;

/// Nanoseconds, as `250us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeWord(pub(super) u64);

const UNITS: [(&str, u64); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

impl FromStr for TimeWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = UNITS.iter().find(|unit| unit.0 == &text[digits.len()..]);
        let digits = Some(digits).filter(|digits| digits.bytes().all(|c| c.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse::<u64>().ok());
        let ns = number.zip(unit).and_then(|(n, unit)| n.checked_mul(unit.1));
        ns.map(Self)
            .ok_or_else(|| "expected a time, as 250us (ns, us, ms, s)".to_owned())
    }
}

impl fmt::Display for TimeWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |unit: &&(&str, u64)| self.0.is_multiple_of(unit.1);
        let (name, ns) = UNITS.iter().rev().find(whole).unwrap_or(&UNITS[0]);
        write!(f, "{}{name}", self.0 / ns)
    }
}

/// When events tell of received cells, as `last-cell` or `silent:8:1ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotifyWord(pub(super) Notification);

const NAMED: [(&str, Notification); 5] = [
    ("every-cell", Notification::EveryCell),
    ("first-cell", Notification::FirstCell),
    ("last-cell", Notification::LastCell),
    ("first-and-last-cell", Notification::FirstAndLastCell),
    ("polled", Notification::Polled),
];

impl FromStr for NotifyWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, named)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(Self(*named));
        }
        let silent = text.strip_prefix("silent:").and_then(|rest| {
            let (events, delay) = rest.split_once(':')?;
            Some(Notification::Silent {
                threshold: events.parse().ok()?,
                longest_delay_ns: delay.parse::<TimeWord>().ok()?.0,
            })
        });
        let names = NAMED.map(|(name, _)| name).join(", ");
        silent
            .map(Self)
            .ok_or_else(|| format!("expected {names} or silent:EVENTS:TIME"))
    }
}

impl fmt::Display for NotifyWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Notification::Silent {
                threshold,
                longest_delay_ns,
            } => write!(f, "silent:{threshold}:{}", TimeWord(longest_delay_ns)),
            other => {
                let named = NAMED.iter().find(|(_, named)| *named == other);
                f.write_str(named.map_or("", |(name, _)| name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
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
        let named = NAMED.map(|(name, _)| name.to_owned());
        for text in named.into_iter().chain(["silent:8:3ms".to_owned()]) {
            assert_eq!(text.parse::<NotifyWord>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "last",
            "silent",
            "silent:8",
            "silent:x:1ms",
            "silent:1:1",
        ] {
            assert!(text.parse::<NotifyWord>().is_err(), "{text}");
        }
    }
}
