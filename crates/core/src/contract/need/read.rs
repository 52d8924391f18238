//! The text of a need.

use core::str::FromStr;

use super::{Need, NeedError, Traffic};
use crate::contract::nearest::nearest;

/// What a quantity is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Rate,
    Frames,
    Peak,
    Time,
    Size,
    Mtu,
    Latency,
    Ts,
}

const SLOTS: usize = 8;

impl Slot {
    const fn name(self) -> &'static str {
        match self {
            Self::Rate => "a rate",
            Self::Frames => "a number of frames a second",
            Self::Peak => "a peak",
            Self::Time => "a time",
            Self::Size => "a size",
            Self::Mtu => "an mtu",
            Self::Latency => "a latency",
            Self::Ts => "ts",
        }
    }

    const fn example(self) -> &'static str {
        match self {
            Self::Rate => "8Mbit/s",
            Self::Frames => "25fps",
            Self::Peak => "peak 4x",
            Self::Time => "20ms",
            Self::Size => "100B",
            Self::Mtu => "mtu 1500",
            Self::Latency => "latency 100ms",
            Self::Ts => "ts",
        }
    }

    /// Its least and its most.
    const fn range(self) -> (u64, u64, &'static str) {
        match self {
            Self::Rate => (1, 1_000_000_000_000, "1 bit/s to 1000 Gbit/s"),
            Self::Frames => (1, 1_000_000, "0.001 to 1000 fps"),
            Self::Peak => (1_000, 1_000_000, "1x, the mean frame, to 1000x"),
            Self::Time | Self::Latency => (1, 1_000_000_000_000_000_000, "1 ns to 10^9 s"),
            Self::Size => (1, 1_000_000_000_000_000, "1 B to 1000000 GB"),
            Self::Mtu => (1, 65_504, "1 to 65504 octets"),
            Self::Ts => (0, 0, ""),
        }
    }
}

/// A kind of traffic: what must be said of it, and what can be.
struct Kind {
    name: &'static str,
    needs: &'static [Slot],
    takes: &'static [Slot],
}

const KINDS: [Kind; Need::KINDS.len()] = [
    Kind {
        name: Need::KINDS[0],
        needs: &[Slot::Rate, Slot::Frames],
        takes: &[Slot::Peak, Slot::Latency, Slot::Ts],
    },
    Kind {
        name: Need::KINDS[1],
        needs: &[Slot::Rate, Slot::Time],
        takes: &[Slot::Latency],
    },
    Kind {
        name: Need::KINDS[2],
        needs: &[Slot::Size, Slot::Time],
        takes: &[Slot::Latency],
    },
    Kind {
        name: Need::KINDS[3],
        needs: &[Slot::Size, Slot::Time],
        takes: &[],
    },
    Kind {
        name: Need::KINDS[4],
        needs: &[Slot::Rate, Slot::Mtu],
        takes: &[Slot::Latency],
    },
];

impl Kind {
    /// All that can be said, as examples.
    fn examples(&self) -> String {
        let needs = self.needs.iter().map(|slot| slot.example().to_owned());
        let takes = self.takes.iter();
        let takes = takes.map(|slot| format!("[{}]", slot.example()));
        let all: Vec<_> = needs.chain(takes).collect();
        format!("{} {}", self.name, all.join(" "))
    }
}

/// Units: what they are of, and how much in that one's own unit (bit/s, thousandths of a frame/s
/// or of a frame, nanoseconds, octets).
const UNITS: [(&str, Slot, u64); 8] = [
    ("fps", Slot::Frames, 1_000),
    ("Hz", Slot::Frames, 1_000),
    ("x", Slot::Peak, 1_000),
    ("ns", Slot::Time, 1),
    ("us", Slot::Time, 1_000),
    ("ms", Slot::Time, 1_000_000),
    ("s", Slot::Time, 1_000_000_000),
    ("octets", Slot::Size, 1),
];
/// Units behind a multiplier.
const MULTIPLIED: [(&str, Slot); 4] = [
    ("bit/s", Slot::Rate),
    ("b/s", Slot::Rate),
    ("bps", Slot::Rate),
    ("B", Slot::Size),
];
/// What may have been meant.
const COMMON: [&str; 16] = [
    "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "kbps", "Mbps", "Gbps", "fps", "ns", "us", "ms", "s",
    "kB", "MB", "GB", "x",
];
/// Words before a quantity, and what that is then.
const WORDS: [(&str, Slot); 6] = [
    ("peak", Slot::Peak),
    ("latency", Slot::Latency),
    ("every", Slot::Time),
    ("within", Slot::Time),
    ("mtu", Slot::Mtu),
    ("ts", Slot::Ts),
];

fn unit(text: &str) -> Option<(Slot, u64)> {
    if let Some((_, slot, factor)) = UNITS.iter().find(|(name, ..)| *name == text) {
        return Some((*slot, *factor));
    }
    MULTIPLIED.iter().find_map(|(name, slot)| {
        let factor = match text.strip_suffix(name)? {
            "" => 1,
            "k" | "K" => 1_000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            _ => return None,
        };
        Some((*slot, factor))
    })
}

/// A word of the text, and its place.
type Word<'a> = (usize, &'a str);

struct Reader<'a> {
    words: Vec<Word<'a>>,
    at: usize,
    kind: &'static Kind,
    /// By slot: what was said, and where.
    said: [Option<(u64, usize)>; SLOTS],
}

fn error<T>(at: usize, reason: String) -> Result<T, NeedError> {
    Err(NeedError { at, reason })
}

impl FromStr for Need {
    type Err = NeedError;

    fn from_str(text: &str) -> Result<Self, NeedError> {
        let words = text.split_whitespace();
        // Each is a part of the text.
        let place = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
        let words: Vec<Word<'_>> = words.map(|word| (place(word), word)).collect();
        let all = Self::KINDS.join(", ");
        let Some((at, first)) = words.first().copied() else {
            return error(0, format!("expected what is to be sent: {all}"));
        };
        let Some(kind) = KINDS.iter().find(|kind| kind.name == first) else {
            let meant = match nearest(first, &Self::KINDS) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("one of {all} comes first"),
            };
            return error(
                at,
                format!("`{first}` is nothing that can be sent; {meant}"),
            );
        };
        let mut reader = Reader {
            words,
            at: 1,
            kind,
            said: [None; SLOTS],
        };
        while reader.at < reader.words.len() {
            reader.next()?;
        }
        reader.need(text.len())
    }
}

impl Reader<'_> {
    /// A word with its quantity, or a quantity.
    fn next(&mut self) -> Result<(), NeedError> {
        let (at, word) = self.words[self.at];
        self.at += 1;
        let named = WORDS.iter().find(|(name, _)| *name == word);
        let Some((name, slot)) = named else {
            let (value, slot) = self.quantity(at, word)?;
            return self.say(slot, value, at);
        };
        if *slot == Slot::Ts {
            return self.say(*slot, 0, at);
        }
        let Some((behind, value)) = self.words.get(self.at).copied() else {
            let example = slot.example().trim_start_matches(name).trim_start();
            return error(
                at,
                format!("a value is missing behind {name}, as {example}"),
            );
        };
        self.at += 1;
        if let (Slot::Mtu, Ok(mtu)) = (slot, value.parse()) {
            return self.say(Slot::Mtu, mtu, behind);
        }
        let (value, of) = self.quantity(behind, value)?;
        let due = match slot {
            Slot::Latency => Slot::Time,
            Slot::Mtu => Slot::Size,
            slot => *slot,
        };
        match of == due {
            true => self.say(*slot, value, at),
            false => error(behind, format!("{} follows {name}", due.name())),
        }
    }

    /// A number and its unit, which may be the next word.
    fn quantity(&mut self, at: usize, word: &str) -> Result<(u64, Slot), NeedError> {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let number = word.trim_end_matches(|c: char| !is_number(c));
        let (number, rest) = match word.find(|c: char| !is_number(c)) {
            Some(end) => word.split_at(end),
            None => (number, ""),
        };
        if number.is_empty() {
            return self.unknown(at, word);
        }
        let (place, name) = match (rest, self.words.get(self.at).copied()) {
            ("", Some(next)) => {
                self.at += 1;
                next
            }
            ("", None) => {
                let text = format!(
                    "{word} of what? A unit is missing, as in {}",
                    self.examples()
                );
                return error(at, text);
            }
            _ => (at + number.len(), rest),
        };
        let Some((slot, factor)) = unit(name) else {
            let meant = match (name.strip_suffix("B/s"), nearest(name, &COMMON)) {
                (Some(_), _) => "a rate is in bit/s, 8 for each octet".to_owned(),
                (None, Some(meant)) => format!("did you mean {meant}?"),
                (None, None) => format!("known: {}", COMMON.join(", ")),
            };
            return error(place, format!("`{name}` is no unit here; {meant}"));
        };
        match scaled(number, factor) {
            Some(value) => Ok((value, slot)),
            None => {
                let text = format!("`{number}` is no number, is too fine for {name}, or too large");
                error(at, text)
            }
        }
    }

    fn unknown<T>(&self, at: usize, word: &str) -> Result<T, NeedError> {
        let words = WORDS.map(|(name, _)| name);
        let meant = match nearest(word, &words) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("expected {}", self.examples()),
        };
        error(at, format!("`{word}` is no word of a need; {meant}"))
    }

    fn examples(&self) -> String {
        self.kind.examples()
    }

    fn say(&mut self, slot: Slot, value: u64, at: usize) -> Result<(), NeedError> {
        let (name, kind) = (slot.name(), self.kind);
        if !kind.needs.contains(&slot) && !kind.takes.contains(&slot) {
            let text = format!("{} has not {name}; expected {}", kind.name, self.examples());
            return error(at, text);
        }
        let (least, most, range) = slot.range();
        if !(least..=most).contains(&value) {
            return error(at, format!("{name} is out of range: {range}"));
        }
        let said = &mut self.said[slot as usize];
        if said.is_some() {
            return error(at, format!("{name} was said before: give one"));
        }
        *said = Some((value, at));
        Ok(())
    }

    fn need(&self, end: usize) -> Result<Need, NeedError> {
        let said = |slot: Slot| self.said[slot as usize].map(|(value, _)| value);
        let missing = |slot: Slot| NeedError {
            at: end,
            reason: format!(
                "{} is missing, as {}: {}",
                slot.name(),
                slot.example(),
                self.examples()
            ),
        };
        let given = |slot: Slot| said(slot).ok_or_else(|| missing(slot));
        let traffic = match self.kind.name {
            "video" => Traffic::Video {
                bit_s: given(Slot::Rate)?,
                frames_mhz: given(Slot::Frames)?,
                peak_thousandths: said(Slot::Peak).unwrap_or(1_000),
                ts: said(Slot::Ts).is_some(),
            },
            "voice" => Traffic::Voice {
                bit_s: given(Slot::Rate)?,
                every_ns: given(Slot::Time)?,
            },
            "sensor" => Traffic::Sensor {
                octets: given(Slot::Size)?,
                every_ns: given(Slot::Time)?,
            },
            "file" => Traffic::File {
                octets: given(Slot::Size)?,
                within_ns: given(Slot::Time)?,
            },
            _ => Traffic::Ip {
                bit_s: given(Slot::Rate)?,
                // Within its range.
                mtu: given(Slot::Mtu)? as u16,
            },
        };
        let latency_ns = said(Slot::Latency);
        Ok(Need {
            traffic,
            latency_ns,
        })
    }
}

/// A decimal number times a factor, if that is a whole number.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}").parse::<u64>().ok()?;
    let under = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let over = u128::from(digits) * u128::from(factor);
    let exact = over.is_multiple_of(under) && !whole.is_empty();
    u64::try_from(over / under).ok().filter(|_| exact)
}
