//! What waits to be played, and the instant of the stream that each packet has.

use std::collections::VecDeque;

use crate::Time;
use crate::wire::TS_LEN;

/// A packet that waits, or packets that are lost.
#[expect(clippy::large_enum_variant, reason = "nearly all are packets")]
#[derive(Clone, Debug)]
pub(super) enum Held {
    /// A packet.
    Packet(Waiting),
    /// So many that did not come.
    Lost(u64),
}

/// A packet that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) octets: [u8; TS_LEN],
    pub(super) arrival: Time,
    /// Its number in the stream; those that are lost count.
    pub(super) number: u64,
    /// Its instant in ticks of 27 MHz, as far as is known.
    pub(super) ticks: Option<i64>,
}

/// Packets in order, as many as there is room for.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    entries: VecDeque<Held>,
    packets: usize,
    packets_max: usize,
    /// The next packet's number.
    number: u64,
    timeline: Timeline,
}

/// Clock references, as far as they place packets.
#[derive(Clone, Copy, Debug, Default)]
struct Timeline {
    /// The last one's packet and its instant.
    last: Option<(u64, i64)>,
    /// Packets and ticks from the one before to the last.
    step: Option<(u64, i64)>,
}

impl Timeline {
    /// Where a packet behind the last reference is, if the stream goes on as between the last two.
    fn expected(&self, number: u64) -> Option<i64> {
        let (at, ticks) = self.last?;
        if number == at {
            return Some(ticks);
        }
        let (packets, step) = self.step?;
        Some(ticks.saturating_add(part(step, number.saturating_sub(at), packets)))
    }
}

/// `ticks * of / whole`.
fn part(ticks: i64, of: u64, whole: u64) -> i64 {
    let part = i128::from(ticks) * i128::from(of) / i128::from(whole.max(1));
    i64::try_from(part).unwrap_or(i64::MAX)
}

impl Queue {
    /// Room for so many packets, with a gap before each, all of it made now.
    pub(super) fn new(packets_max: usize) -> Self {
        Self {
            entries: VecDeque::with_capacity(packets_max.saturating_mul(2).saturating_add(2)),
            packets: 0,
            packets_max,
            number: 0,
            timeline: Timeline::default(),
        }
    }

    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    /// So many packets are lost: those around them are apart by them, too, if they `take_time`.
    pub(super) fn push_lost(&mut self, packets: u64, take_time: bool) {
        if take_time {
            self.number = self.number.saturating_add(packets);
        }
        match self.entries.back_mut() {
            Some(Held::Lost(before)) => *before = before.saturating_add(packets),
            _ => self.entries.push_back(Held::Lost(packets)),
        }
    }

    /// The packets that were lost last were none: their sender has begun anew.
    pub(super) fn take_back(&mut self, packets: u64) {
        let lost = self.entries.iter_mut().rev().find_map(|held| match held {
            Held::Lost(lost) => Some(lost),
            Held::Packet(_) => None,
        });
        if let Some(lost) = lost {
            *lost = lost.saturating_sub(packets);
        }
    }

    /// Puts a packet behind the others; whether there was room.
    pub(super) fn push(&mut self, octets: &[u8; TS_LEN], arrival: Time, bounded: bool) -> bool {
        let number = self.number;
        self.number = self.number.saturating_add(1);
        let ticks = self.timeline.expected(number);
        self.entries.push_back(Held::Packet(Waiting {
            octets: *octets,
            arrival,
            number,
            ticks,
        }));
        self.packets += 1;
        let has_room = self.packets <= self.packets_max || !bounded;
        if !has_room {
            self.drop_first();
        }
        has_room
    }

    /// The packet that has waited longest gives its place up.
    fn drop_first(&mut self) {
        while let Some(held) = self.entries.pop_front() {
            if let Held::Packet(_) = held {
                self.packets -= 1;
                return;
            }
        }
    }

    /// The packet that was put last has the clock reference `ticks`: those between it and the one
    /// before are spread evenly. Behind a jump none are.
    pub(super) fn reference(&mut self, ticks: i64, jumps: bool) {
        let number = self.number.saturating_sub(1);
        let before = self.timeline.last.filter(|_| !jumps);
        let step = before.map(|(at, then)| (number.saturating_sub(at).max(1), ticks - then));
        for held in self.entries.iter_mut().rev() {
            let Held::Packet(packet) = held else {
                continue;
            };
            match (before, step) {
                (Some((at, _)), _) if packet.number <= at => break,
                (Some((at, then)), Some((packets, step))) => {
                    packet.ticks = Some(then + part(step, packet.number - at, packets));
                }
                _ if packet.number == number => packet.ticks = Some(ticks),
                // Behind a jump: what came before goes on as it did, and first of all.
                _ if packet.ticks.is_none_or(|at| at > ticks) => packet.ticks = Some(ticks),
                _ => break,
            }
        }
        self.timeline.last = Some((number, ticks));
        if step.is_some() {
            self.timeline.step = step;
        }
    }

    /// Where the packet that was put last is, if the stream goes on as it did.
    pub(super) fn expected(&self) -> i64 {
        let expected = self.timeline.expected(self.number.saturating_sub(1));
        // One reference alone says no more than where it is.
        expected.unwrap_or_else(|| self.timeline.last.map_or(0, |(_, ticks)| ticks))
    }

    /// What is first.
    pub(super) fn front(&self) -> Option<&Held> {
        self.entries.front()
    }

    /// The first packet.
    pub(super) fn first_packet(&self) -> Option<&Waiting> {
        self.entries.iter().find_map(|held| match held {
            Held::Packet(packet) => Some(packet),
            Held::Lost(_) => None,
        })
    }

    /// Takes a packet of those lost that are first; `false`: none is.
    pub(super) fn pop_lost(&mut self) -> bool {
        match self.entries.front_mut() {
            Some(Held::Lost(0)) => {
                self.entries.pop_front();
                self.pop_lost()
            }
            Some(Held::Lost(lost)) => {
                *lost -= 1;
                true
            }
            _ => false,
        }
    }

    /// Those lost that are first come behind the packet that follows: a bug on purpose.
    pub(super) fn put_off_lost(&mut self) {
        let packet = self
            .entries
            .iter()
            .position(|held| matches!(held, Held::Packet(_)));
        if let Some(at) = packet {
            self.entries.make_contiguous()[..=at].rotate_right(1);
        }
    }

    /// Takes all of those lost that are first.
    pub(super) fn skip_lost(&mut self) -> u64 {
        match self.entries.front() {
            Some(&Held::Lost(lost)) => {
                self.entries.pop_front();
                lost
            }
            _ => 0,
        }
    }

    /// Takes the first, if it is a packet.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        match self.entries.pop_front() {
            Some(Held::Packet(packet)) => {
                self.packets -= 1;
                Some(packet)
            }
            Some(lost) => {
                self.entries.push_front(lost);
                None
            }
            None => None,
        }
    }

    /// The last packet's instant.
    pub(super) fn last_ticks(&self) -> Option<i64> {
        self.entries.iter().rev().find_map(|held| match held {
            Held::Packet(packet) => packet.ticks,
            Held::Lost(_) => None,
        })
    }
}
