//! What was probably meant where a contract's text goes wrong.

use super::ContractErrorKind as Kind;
use super::nearest::nearest;
use super::text::PARAMETERS;

const WORDS: [&str; 9] = [
    "cbr", "vbr", "rt-vbr", "nrt-vbr", "ubr", "abr", "aal0", "aal5", "aal34",
];
/// Names that others have for them.
const OTHERS: [(&str, &str); 6] = [
    ("rate=", "pcr="),
    ("bitrate=", "pcr="),
    ("bandwidth=", "pcr="),
    ("mtu=", "max_sdu="),
    ("size=", "max_sdu="),
    ("latency=", "cdvt="),
];
const UNITS: [&str; 11] = [
    "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "bps", "kbps", "Mbps", "Gbps", "cps", "kcps", "Mcps",
];

/// For a mistake after so many octets of a text.
pub(super) fn meant(text: &str, at: usize, kind: Kind) -> Option<&'static str> {
    let word = |from: usize, is_of: fn(char) -> bool| {
        let rest = text.get(from..).unwrap_or_default();
        let end = rest.find(|c: char| !is_of(c)).unwrap_or(rest.len());
        &rest[..end]
    };
    match kind {
        Kind::ExpectedCategory(_) => {
            nearest(word(at, |c| c.is_ascii_alphanumeric() || c == '-'), &WORDS)
        }
        Kind::ExpectedColon => {
            let rest = text.get(at..).unwrap_or_default().trim_start();
            rest.starts_with(|c: char| c.is_ascii_digit())
                .then_some(":pcr=")
        }
        Kind::UnknownParameter(_) => {
            let said = word(at, |c| c.is_ascii_alphanumeric() || "_=".contains(c));
            let end = said.find('=').map_or(said.len(), |end| end + 1);
            let said = said[..end].to_ascii_lowercase();
            let other = OTHERS.iter().find(|(other, _)| *other == said);
            other.map_or_else(|| nearest(&said, &PARAMETERS), |(_, ours)| Some(ours))
        }
        Kind::NoUnit | Kind::ExpectedComma => {
            let is_unit = |c: char| c.is_ascii_alphabetic();
            let before = text.get(..at)?.trim_end_matches(is_unit);
            let behind_a_number = before.ends_with(|c: char| c.is_ascii_digit() || c == ' ');
            let said = word(before.len(), |c| c.is_ascii_alphabetic() || c == '/');
            if !behind_a_number {
                return None;
            }
            // A multiplier by itself, or bit without "/s".
            let with = match said.len() {
                0 => return None,
                1 => format!("{said}bit/s"),
                _ => format!("{said}/s"),
            };
            nearest(said, &UNITS).or_else(|| nearest(&with, &UNITS))
        }
        _ => None,
    }
}
