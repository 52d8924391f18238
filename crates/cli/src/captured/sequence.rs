//! Sequence numbers of pseudowires, judged as a receiver does (RFC 4385 section 4.2).

use std::collections::BTreeMap;

use cellgate_capture::Direction;
use cellgate_core::wire::pseudowire::{Sequence, SequenceReceiver, SequenceVerdict};

use super::PDUS_MAX;
use super::pseudowire::End;

/// Packets out of order in a row after which the sender is taken to have begun anew: as many as an
/// adapter's pseudowire waits for.
const STALE_MAX: u32 = 16;

/// Where a number puts its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequencePlace {
    /// It has none.
    Unnumbered,
    /// Behind the one before, after so many that are missing.
    InOrder { missing: u16 },
    /// The same as the one before.
    Duplicate,
    /// Older than the one before.
    OutOfOrder,
}

impl SequencePlace {
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
    pub(super) fn judge(&mut self, key: Key, sequence: Sequence) -> SequencePlace {
        let room = self.receivers.len() < PDUS_MAX || self.receivers.contains_key(&key);
        if sequence == Sequence::NONE || !room {
            return SequencePlace::Unnumbered;
        }
        self.receivers.entry(key).or_default().judge(sequence)
    }
}

impl Receiver {
    fn judge(&mut self, sequence: Sequence) -> SequencePlace {
        match self.receiver.receive(sequence) {
            SequenceVerdict::Unnumbered => SequencePlace::Unnumbered,
            SequenceVerdict::InOrder { missing } => {
                self.stale_in_a_row = 0;
                self.last = Some(sequence);
                SequencePlace::InOrder { missing }
            }
            SequenceVerdict::OutOfOrder => {
                self.stale_in_a_row += 1;
                if self.stale_in_a_row >= STALE_MAX {
                    *self = Self::default();
                    return SequencePlace::OutOfOrder;
                }
                match self.last == Some(sequence) {
                    true => SequencePlace::Duplicate,
                    false => SequencePlace::OutOfOrder,
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
        let in_order = |missing| SequencePlace::InOrder { missing };
        for (bits, wanted) in [
            (65_534, in_order(0)),
            (65_535, in_order(0)),
            (0, SequencePlace::Unnumbered),
            (1, in_order(0)),
            (5, in_order(3)),
            (5, SequencePlace::Duplicate),
            (3, SequencePlace::OutOfOrder),
            (6, in_order(0)),
        ] {
            assert_eq!(judge(bits), wanted, "{bits}");
        }
        for bits in 40_000..40_000 + STALE_MAX as u16 {
            assert_eq!(judge(bits), SequencePlace::OutOfOrder);
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
