//! Addresses that not everybody may open.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::wire::VpiVci;

/// VCIs below this are for signalling, ILMI and OAM flows (I.361, ATM Forum UNI).
pub const OWN_VCI_MIN: u16 = 32;

/// Addresses that are for governors and for those named here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reserve {
    /// On this interface alone; none: on each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Of these VPIs.
    pub vpi: Span,
    /// Of these VCIs.
    pub vci: Span,
    /// Users who may open them.
    pub users: Vec<u32>,
    /// Groups whose members may.
    pub groups: Vec<u32>,
}

impl Reserve {
    /// Whether it is about this address.
    pub fn covers(&self, interface: Option<&str>, vc: VpiVci) -> bool {
        let here = self.interface.as_deref();
        let on = here.is_none_or(|here| Some(here) == interface);
        on && self.vpi.contains(vc.vpi()) && self.vci.contains(vc.vci())
    }
}

/// Numbers from one to another, as `5` or `32-63`; without any all there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SpanWord", into = "String")]
pub struct Span {
    pub first: u16,
    pub last: u16,
}

/// A text that is no [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number of 0 to 65535, or two as 32-63, the first not above the second")]
pub struct SpanError;

impl Span {
    const fn contains(self, number: u16) -> bool {
        self.first <= number && number <= self.last
    }
}

impl Default for Span {
    fn default() -> Self {
        Self {
            first: 0,
            last: u16::MAX,
        }
    }
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let number = |text: &str| {
            let digits = text.bytes().all(|c| c.is_ascii_digit());
            text.parse().ok().filter(|_| digits).ok_or(SpanError)
        };
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(text)?, number(text)?),
        };
        match first <= last {
            true => Ok(Self { first, last }),
            false => Err(SpanError),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

/// A single number needs no quotation marks.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a number, or a text as \"32-63\"")]
enum SpanWord {
    One(u16),
    Text(String),
}

impl TryFrom<SpanWord> for Span {
    type Error = SpanError;

    fn try_from(word: SpanWord) -> Result<Self, SpanError> {
        match word {
            SpanWord::One(number) => Ok(Self {
                first: number,
                last: number,
            }),
            SpanWord::Text(text) => text.parse(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_they_are_printed() {
        for (text, first, last) in [("5", 5, 5), ("0-31", 0, 31), ("0-65535", 0, 65_535)] {
            let span: Span = text.parse().unwrap();
            assert_eq!((span.first, span.last), (first, last), "{text}");
            assert_eq!(span.to_string(), text);
            let json = serde_json::to_string(&span).unwrap();
            assert_eq!(serde_json::from_str::<Span>(&json).unwrap(), span);
        }
        assert_eq!(serde_json::from_str::<Span>("7").unwrap().to_string(), "7");
        for text in [
            "", "-", "5-", "-5", "+5", "6-5", "65536", "0-65536", "1-2-3", "a", "1 - 2",
        ] {
            assert_eq!(text.parse::<Span>(), Err(SpanError), "{text}");
        }
    }

    #[test]
    fn a_reserve_covers_its_rectangle_alone() {
        let reserve = Reserve {
            interface: Some("wan".to_owned()),
            vpi: "1-2".parse().unwrap(),
            vci: "40-41".parse().unwrap(),
            ..Reserve::default()
        };
        let covers = |interface, vpi, vci| {
            let vc = VpiVci::new(vpi, vci).unwrap();
            reserve.covers(interface, vc)
        };
        assert!(covers(Some("wan"), 1, 40) && covers(Some("wan"), 2, 41));
        for (interface, vpi, vci) in [
            (Some("lan"), 1, 40),
            (None, 1, 40),
            (Some("wan"), 0, 40),
            (Some("wan"), 3, 41),
            (Some("wan"), 1, 39),
            (Some("wan"), 1, 42),
        ] {
            assert!(!covers(interface, vpi, vci), "{interface:?} {vpi}.{vci}");
        }
        assert!(Reserve::default().covers(None, VpiVci::new(4095, 65_535).unwrap()));
    }
}
