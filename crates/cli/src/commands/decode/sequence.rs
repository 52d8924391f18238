//! Sequence numbers of pseudowires, judged as a receiver does (RFC 4385 section 4.2).

use std::collections::BTreeMap;

use cellgate_capture::Direction;
use cellgate_core::wire::pseudowire::{Sequence, SequenceReceiver, SequenceVerdict};

use super::held::PDUS_MAX;
use super::line::Line;
use super::pseudowire::End;

/// Packets out of order in a row after which the sender is taken to have begun anew: as many as an
/// adapter's pseudowire waits for.
const STALE_MAX: u32 = 16;

/// Where a number puts its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It has none.
    Unnumbered,
    /// Behind the one before, after so many that are missing.
    InOrder { missing: u16 },
    /// The same as the one before.
    Duplicate,
    /// Older than the one before.
    OutOfOrder,
}

impl Place {
    /// Whether a receiver discards the packet.
    pub(crate) const fn is_stale(self) -> bool {
        matches!(self, Self::Duplicate | Self::OutOfOrder)
    }

    /// Packets that are missing before it.
    pub(crate) const fn missing(self) -> u64 {
        match self {
            Self::InOrder { missing } => missing as u64,
            _ => 0,
        }
    }

    pub(super) fn describe(self, line: &mut Line) {
        let (word, missing) = match self {
            Self::Unnumbered => return,
            Self::InOrder { missing: 0 } => ("in_order", 0),
            Self::InOrder { missing } => ("gap", missing),
            Self::Duplicate => ("duplicate", 0),
            Self::OutOfOrder => ("out_of_order", 0),
        };
        line.field("sequence_verdict", word);
        line.field("sequence_missing", missing);
        match self {
            Self::InOrder { missing: 1 } => line.say("1 packet LOST before"),
            Self::InOrder { missing } if missing > 0 => {
                line.say(format!("{missing} packets LOST before"));
            }
            Self::Duplicate => line.say("DUPLICATE"),
            Self::OutOfOrder => line.say("OUT OF ORDER"),
            _ => {}
        }
    }
}

/// One pseudowire in one direction: who sends, which way, with what label.
type Key = (End, Direction, u32);

#[derive(Clone, Copy, Debug, Default)]
struct Receiver {
    receiver: SequenceReceiver,
    last: Option<Sequence>,
    stale_in_a_row: u32,
}

/// The receivers of all pseudowires; of more than there is room for none is judged.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    receivers: BTreeMap<Key, Receiver>,
}

impl Numbers {
    pub(super) fn judge(&mut self, key: Key, sequence: Sequence) -> Place {
        let room = self.receivers.len() < PDUS_MAX || self.receivers.contains_key(&key);
        if sequence == Sequence::NONE || !room {
            return Place::Unnumbered;
        }
        self.receivers.entry(key).or_default().judge(sequence)
    }
}

impl Receiver {
    fn judge(&mut self, sequence: Sequence) -> Place {
        match self.receiver.receive(sequence) {
            SequenceVerdict::Unnumbered => Place::Unnumbered,
            SequenceVerdict::InOrder { missing } => {
                self.stale_in_a_row = 0;
                self.last = Some(sequence);
                Place::InOrder { missing }
            }
            SequenceVerdict::OutOfOrder => {
                self.stale_in_a_row += 1;
                if self.stale_in_a_row >= STALE_MAX {
                    *self = Self::default();
                    return Place::OutOfOrder;
                }
                match self.last == Some(sequence) {
                    true => Place::Duplicate,
                    false => Place::OutOfOrder,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::wire::{Framing, MplsFrame};

    use super::*;

    #[test]
    fn each_number_has_its_place() {
        let mut numbers = Numbers::default();
        let stack = [0, 0, 0x91, 0x40];
        let frame = MplsFrame::parse(Framing::Mpls, &stack).unwrap();
        let end = End::of(&frame, 0);
        let key = (end, Direction::Unknown, 9);
        let mut judge = |bits| numbers.judge(key, Sequence::from_bits(bits));
        let in_order = |missing| Place::InOrder { missing };
        for (bits, wanted) in [
            (65_534, in_order(0)),
            (65_535, in_order(0)),
            (0, Place::Unnumbered),
            (1, in_order(0)),
            (5, in_order(3)),
            (5, Place::Duplicate),
            (3, Place::OutOfOrder),
            (6, in_order(0)),
        ] {
            assert_eq!(judge(bits), wanted, "{bits}");
        }
        for bits in 40_000..40_000 + STALE_MAX as u16 {
            assert_eq!(judge(bits), Place::OutOfOrder);
        }
        assert_eq!(judge(40_016), in_order(0), "the sender has begun anew");
        for other in [
            (end, Direction::Receive, 9),
            (End::of(&frame, 1), Direction::Unknown, 9),
        ] {
            assert_eq!(numbers.judge(other, Sequence::FIRST), in_order(0));
        }
    }
}
