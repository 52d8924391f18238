//! The words that say how a line is impaired.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Share;
use crate::TimeWord;
use crate::contract::CellRate;

/// Where a line is narrower than what comes onto it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bottleneck {
    /// Cells per second that go on.
    pub rate: CellRate,
    /// Cells that can wait, the one that leaves included.
    pub queue: u32,
    /// A cell that finds so many waiting is marked: EFCI (I.371).
    pub efci: Option<u32>,
}

/// How a line is impaired. In words, each of them once or not at all:
///
/// `ber SHARE` `loss SHARE` `duplicate SHARE` `delay TIME` `jitter TIME` `rate CELLS_S queue CELLS
/// [efci CELLS]` `seed N`; `clean`: in no way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LineSpec {
    /// Bits in error of all bits, those of headers included.
    pub ber: Share,
    /// Cells lost of all cells.
    pub loss: Share,
    /// Cells that come twice of those that come.
    pub duplicate: Share,
    /// Nanoseconds that each cell takes.
    pub delay_ns: u64,
    /// Nanoseconds more that a cell takes at most. All between are as likely; cells keep their
    /// order.
    pub jitter_ns: u64,
    pub bottleneck: Option<Bottleneck>,
    /// Of the random numbers.
    pub seed: u64,
}

/// Words that describe no line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error(
        "`{0}` is not known: expected ber, loss, duplicate, delay, jitter, rate, queue, efci, \
         seed, or clean alone"
    )]
    Unknown(String),
    #[error("`{0}` comes twice")]
    Twice(String),
    #[error("`{0}` has no value")]
    NoValue(String),
    #[error("`{word} {value}`: {expected}")]
    Value {
        word: String,
        value: String,
        expected: String,
    },
    /// They go together.
    #[error("`rate CELLS_S` and `queue CELLS` go together, and `efci CELLS` with them")]
    Apart,
    #[error("`clean` has no other words beside it")]
    CleanAndNot,
    #[error("expected how the line is impaired, or clean")]
    Empty,
}

impl LineSpec {
    /// The longest delay, and the longest jitter, in nanoseconds.
    pub const DELAY_NS_MAX: u64 = 10_000_000_000;
    /// The longest queue in cells.
    pub const QUEUE_MAX: u32 = 65_536;

    /// Whether the line is impaired in no way.
    pub fn is_clean(&self) -> bool {
        let unimpaired = Self {
            seed: self.seed,
            ..Self::default()
        };
        *self == unimpaired
    }
}

impl FromStr for LineSpec {
    type Err = LineError;

    fn from_str(text: &str) -> Result<Self, LineError> {
        let mut words = text.split_whitespace();
        let mut spec = Self::default();
        let (mut rate, mut queue, mut efci) = (None, None, None);
        let mut seen: Vec<&str> = Vec::new();
        while let Some(word) = words.next() {
            if seen.contains(&word) {
                return Err(LineError::Twice(word.to_owned()));
            }
            seen.push(word);
            if word == "clean" {
                continue;
            }
            let known = [
                "ber",
                "loss",
                "duplicate",
                "delay",
                "jitter",
                "rate",
                "queue",
                "efci",
                "seed",
            ];
            if !known.contains(&word) {
                return Err(LineError::Unknown(word.to_owned()));
            }
            let value = words.next();
            let value = value.ok_or_else(|| LineError::NoValue(word.to_owned()))?;
            let wrong = |expected: String| LineError::Value {
                word: word.to_owned(),
                value: value.to_owned(),
                expected,
            };
            let share = || {
                value
                    .parse::<Share>()
                    .map_err(|error| wrong(error.to_string()))
            };
            let time = || {
                let most = Self::DELAY_NS_MAX;
                let ns = value.parse().ok().map(|TimeWord(ns)| ns);
                ns.filter(|ns| *ns <= most).ok_or_else(|| {
                    wrong("expected a time up to 10s, as 250us, 5ms or 1s".to_owned())
                })
            };
            let cells = || {
                let cells = value.parse().ok();
                let cells = cells.filter(|cells| (1..=Self::QUEUE_MAX).contains(cells));
                cells.ok_or_else(|| wrong(format!("expected 1 to {} cells", Self::QUEUE_MAX)))
            };
            match word {
                "ber" => spec.ber = share()?,
                "loss" => spec.loss = share()?,
                "duplicate" => spec.duplicate = share()?,
                "delay" => spec.delay_ns = time()?,
                "jitter" => spec.jitter_ns = time()?,
                "rate" => {
                    let given = value.parse().ok().and_then(CellRate::new);
                    let given = given.ok_or_else(|| wrong("expected cells per second".to_owned()));
                    rate = Some(given?);
                }
                "queue" => queue = Some(cells()?),
                "efci" => efci = Some(cells()?),
                _ => {
                    let seed = value
                        .parse()
                        .map_err(|_| wrong("expected a number".to_owned()));
                    spec.seed = seed?;
                }
            }
        }
        if seen.is_empty() {
            return Err(LineError::Empty);
        }
        if seen.contains(&"clean") && seen.len() > 1 {
            return Err(LineError::CleanAndNot);
        }
        spec.bottleneck = match (rate, queue) {
            (Some(rate), Some(queue)) => Some(Bottleneck { rate, queue, efci }),
            (None, None) if efci.is_none() => None,
            _ => return Err(LineError::Apart),
        };
        if let Some(Bottleneck {
            queue,
            efci: Some(efci),
            ..
        }) = spec.bottleneck
            && efci > queue
        {
            return Err(LineError::Value {
                word: "efci".to_owned(),
                value: efci.to_string(),
                expected: format!("never so many wait in a queue of {queue}"),
            });
        }
        Ok(spec)
    }
}

/// The words that make it again.
impl fmt::Display for LineSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            return f.write_str("clean");
        }
        let mut words = Vec::new();
        for (word, share) in [
            ("ber", self.ber),
            ("loss", self.loss),
            ("duplicate", self.duplicate),
        ] {
            if share != Share::NONE {
                words.push(format!("{word} {share}"));
            }
        }
        for (word, ns) in [("delay", self.delay_ns), ("jitter", self.jitter_ns)] {
            if ns > 0 {
                words.push(format!("{word} {}", TimeWord(ns)));
            }
        }
        if let Some(Bottleneck { rate, queue, efci }) = self.bottleneck {
            words.push(format!("rate {} queue {queue}", rate.cell_s()));
            words.extend(efci.map(|efci| format!("efci {efci}")));
        }
        words.push(format!("seed {}", self.seed));
        f.write_str(&words.join(" "))
    }
}

impl TryFrom<String> for LineSpec {
    type Error = LineError;

    fn try_from(text: String) -> Result<Self, LineError> {
        text.parse()
    }
}

impl From<LineSpec> for String {
    fn from(spec: LineSpec) -> Self {
        spec.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_make_a_line_and_a_line_its_words() {
        for (text, printed) in [
            ("clean", "clean"),
            ("seed 9", "clean"),
            ("ber 0", "clean"),
            ("ber 1e-6", "ber 1e-6 seed 0"),
            (
                "seed 18446744073709551615 loss 0.001 duplicate 1%",
                "loss 0.1% duplicate 1% seed 18446744073709551615",
            ),
            ("jitter 1000us delay 5ms", "delay 5ms jitter 1ms seed 0"),
            ("delay 10s", "delay 10s seed 0"),
            (
                "rate 1000 queue 64 efci 64",
                "rate 1000 queue 64 efci 64 seed 0",
            ),
        ] {
            let spec: LineSpec = text.parse().expect(text);
            assert_eq!(spec.to_string(), printed);
            let again: LineSpec = printed.parse().expect(printed);
            assert_eq!(
                (again.to_string(), again.is_clean()),
                (printed.to_owned(), spec.is_clean())
            );
            let json = serde_json::to_string(&again).expect("JSON");
            assert_eq!(
                serde_json::from_str::<LineSpec>(&json).expect("JSON"),
                again
            );
        }
    }

    #[test]
    fn what_is_no_line_is_said() {
        for (text, part) in [
            ("", "or clean"),
            ("noise 3", "`noise` is not known"),
            ("ber", "`ber` has no value"),
            ("ber 2", "`ber 2`: expected 0 to 1"),
            ("ber 1e-6 ber 1e-6", "`ber` comes twice"),
            ("loss 101%", "`loss 101%`"),
            ("delay 5", "250us"),
            ("delay 11s", "up to 10s"),
            ("jitter 99999999999999999999s", "up to 10s"),
            ("delay -1ms", "250us"),
            ("rate 1000", "go together"),
            ("queue 10", "go together"),
            ("efci 10", "go together"),
            ("rate 0 queue 10", "cells per second"),
            ("rate 1000 queue 0", "1 to 65536"),
            ("rate 1000 queue 65537", "1 to 65536"),
            ("rate 1000 queue 10 efci 11", "never so many wait"),
            ("seed x", "expected a number"),
            ("clean loss 1%", "no other words"),
        ] {
            let error = text.parse::<LineSpec>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
