//! The fill of a receive queue at which its application is told.

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// A fill of the receive queue at which its application is told, as users write it: `12` PDUs, or
/// `75%` of the largest PDUs that the receive buffer has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum QueueThreshold {
    Pdus(NonZeroU32),
    /// 1 to 100.
    Percent(u8),
}

/// The text is no threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a threshold of the receive queue is a number of PDUs from 1 on, or 1% to 100%")]
pub struct ThresholdError;

impl QueueThreshold {
    /// In PDUs, where the buffer has room for `largest` of the largest size; at least 1.
    pub const fn pdus(self, largest: u32) -> u32 {
        match self {
            Self::Pdus(pdus) => pdus.get(),
            Self::Percent(percent) => {
                let pdus = (largest as u64 * percent as u64).div_ceil(100) as u32;
                if pdus == 0 { 1 } else { pdus }
            }
        }
    }
}

impl fmt::Display for QueueThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pdus(pdus) => write!(f, "{pdus}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for QueueThreshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        match text.strip_suffix('%') {
            Some(percent) => match percent.parse() {
                Ok(percent @ 1..=100) => Ok(Self::Percent(percent)),
                _ => Err(ThresholdError),
            },
            None => text.parse().map(Self::Pdus).map_err(|_| ThresholdError),
        }
    }
}

impl From<QueueThreshold> for String {
    fn from(threshold: QueueThreshold) -> Self {
        threshold.to_string()
    }
}

impl TryFrom<String> for QueueThreshold {
    type Error = ThresholdError;

    fn try_from(text: String) -> Result<Self, ThresholdError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_nothing_else() {
        for text in ["1", "4294967295", "1%", "75%", "100%"] {
            assert_eq!(text.parse::<QueueThreshold>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "0",
            "0%",
            "101%",
            "-1",
            "7.5%",
            "%",
            "75 %",
            "4294967296",
        ] {
            assert_eq!(
                text.parse::<QueueThreshold>(),
                Err(ThresholdError),
                "{text}"
            );
        }
    }

    #[test]
    fn a_part_of_the_queue_is_a_pdu_at_least() {
        let of = |text: &str, largest| text.parse::<QueueThreshold>().unwrap().pdus(largest);
        assert_eq!([of("75%", 100), of("75%", 33), of("1%", 3)], [75, 25, 1]);
        assert_eq!([of("100%", 33), of("12", 3), of("50%", 0)], [33, 12, 1]);
    }
}
