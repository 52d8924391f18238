//! Words for times and for when events tell, read and written.

use std::fmt;
use std::str::FromStr;

use cellgate::{Marks, Notification};
use cellgate_core::TimeWord;

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

/// The marks of cells that are told of, as `mssar`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarksWord(pub(super) Marks);

impl FromStr for MarksWord {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self(Marks::None)),
            "mssar" => Ok(Self(Marks::Mssar)),
            _ => Err("expected mssar or none"),
        }
    }
}

impl fmt::Display for MarksWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Marks::None => "none",
            Marks::Mssar => "mssar",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
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
