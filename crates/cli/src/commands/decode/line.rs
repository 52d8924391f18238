//! One line of output: the same facts as aligned text and as a JSON object.

use cellgate_capture::{Direction, Record};
use cellgate_core::wire::VpiVci;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// Where and when the unit of a line was captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// Number of the record in the file, from 1; 0 for what comes after the last.
    pub(super) record: u64,
    /// Octets before the record.
    pub(super) offset: u64,
    /// Nanoseconds since 1970 began.
    pub(super) time_ns: Option<u64>,
    pub(super) direction: Direction,
}

impl Stamp {
    pub(super) fn of(number: u64, record: &Record) -> Self {
        Self {
            record: number,
            offset: record.offset,
            time_ns: record.time_ns,
            direction: record.direction,
        }
    }
}

/// As much of an address as is known: pseudowires of one VC do not send theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) vpi: Option<u16>,
    pub(super) vci: Option<u16>,
    /// The VCI is the ring's, which has no VPIs.
    pub(super) is_ring: bool,
}

impl Place {
    pub(super) const UNKNOWN: Self = Self {
        vpi: None,
        vci: None,
        is_ring: false,
    };
}

impl From<VpiVci> for Place {
    fn from(address: VpiVci) -> Self {
        Self {
            vpi: Some(address.vpi()),
            vci: Some(address.vci()),
            is_ring: false,
        }
    }
}

/// What is said of one cell, PDU, SDU, packet or frame.
#[derive(Clone, Debug)]
pub(super) struct Line {
    kind: &'static str,
    place: Place,
    length: usize,
    stamp: Stamp,
    fields: Vec<(&'static str, Value)>,
    parts: Vec<String>,
}

impl Line {
    /// A line about `length` octets.
    pub(super) fn new(stamp: Stamp, kind: &'static str, place: Place, length: usize) -> Self {
        Self {
            kind,
            place,
            length,
            stamp,
            fields: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// A fact for programs.
    pub(super) fn field(&mut self, name: &'static str, value: impl Into<Value>) {
        self.fields.push((name, value.into()));
    }

    /// A part of what people read.
    pub(super) fn say(&mut self, part: impl Into<String>) {
        self.parts.push(part.into());
    }

    /// A check that `what` passed or not, for both.
    pub(super) fn verdict(&mut self, field: &'static str, what: &str, valid: bool) {
        self.field(field, valid);
        let word = if valid { "ok" } else { "WRONG" };
        self.say(format!("{what} {word}"));
    }

    pub(super) const fn time_ns(&self) -> Option<u64> {
        self.stamp.time_ns
    }

    /// The line as text; times are counted from `start_ns`.
    pub(super) fn text(&self, start_ns: u64) -> String {
        let time = self.stamp.time_ns.map(|ns| seconds(ns, start_ns));
        let direction = match self.stamp.direction {
            Direction::Receive => "rx",
            Direction::Transmit => "tx",
            Direction::Unknown => "--",
        };
        let number = |number: Option<u16>| number.map_or("?".into(), |number| number.to_string());
        let address = match self.place {
            Place::UNKNOWN => "-".into(),
            Place {
                vci, is_ring: true, ..
            } => number(vci),
            Place { vpi, vci, .. } => format!("{}.{}", number(vpi), number(vci)),
        };
        row(
            &time.unwrap_or_else(|| "-".into()),
            direction,
            &address,
            self.kind,
            &self.length.to_string(),
            &self.parts.join(", "),
        )
    }

    /// The names of the columns.
    pub(super) fn heading() -> String {
        row("seconds", "", "vpi.vci", "kind", "len", "what")
    }
}

fn row(time: &str, dir: &str, address: &str, kind: &str, length: &str, what: &str) -> String {
    let line = format!("{time:>12} {dir:2} {address:<9} {kind:<6} {length:>5} {what}");
    format!("{}\n", line.trim_end())
}

/// Seconds from `start_ns` with nine decimals; captures may go back in time.
fn seconds(ns: u64, start_ns: u64) -> String {
    let distance = ns.abs_diff(start_ns);
    let sign = if ns < start_ns { "-" } else { "" };
    let (whole, rest) = (distance / 1_000_000_000, distance % 1_000_000_000);
    format!("{sign}{whole}.{rest:09}")
}

/// As JSON, in a fixed order: what every line has, then what this one has.
impl Serialize for Line {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("kind", self.kind)?;
        map.serialize_entry("vpi", &self.place.vpi)?;
        map.serialize_entry("vci", &self.place.vci)?;
        map.serialize_entry("length", &self.length)?;
        map.serialize_entry("record", &self.stamp.record)?;
        map.serialize_entry("offset", &self.stamp.offset)?;
        map.serialize_entry("time_ns", &self.stamp.time_ns)?;
        let direction = match self.stamp.direction {
            Direction::Receive => Some("receive"),
            Direction::Transmit => Some("transmit"),
            Direction::Unknown => None,
        };
        map.serialize_entry("direction", &direction)?;
        for (name, value) in &self.fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_are_counted_from_the_first_both_ways() {
        assert_eq!(seconds(7, 7), "0.000000000");
        assert_eq!(seconds(1_500_000_007, 7), "1.500000000");
        assert_eq!(seconds(7, 10), "-0.000000003");
    }
}
