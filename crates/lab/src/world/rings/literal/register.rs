use std::collections::VecDeque;

use cellgate_core::wire::{CbnCell, CbnSlot};

use super::ram::Ram;
use crate::cbn::{Presence, Release, Reuse, RingDeed, RingSpec, SlotDeed};
use crate::world::Ps;

/// A slot: what lies in it, who has put it there, and what the monitor has noted.
#[derive(Clone, Copy, Debug)]
struct Slot {
    content: CbnSlot,
    source: Option<usize>,
    is_marked: bool,
}

const EMPTY: Slot = Slot {
    content: CbnSlot {
        type_bit: false,
        cell: CbnCell::EMPTY,
        response: false,
    },
    source: None,
    is_marked: false,
};

impl Slot {
    fn is_empty(&self) -> bool {
        self.content.cell.vci == 0
    }
}

/// A shift register as long as all frames: a frame has as many steps as there are places, and a
/// place is as many steps behind the last one as there are frames.
pub(super) struct Register {
    spec: RingSpec,
    places: Vec<u32>,
    /// Where the front of each frame is, and how often it has come round.
    fronts: Vec<(u32, u64)>,
    /// Shifts so far, in the rotation that is under way.
    shifted: u32,
    /// By frame, then by channel.
    slots: Vec<Vec<Slot>>,
    /// Slots whose VCI is stuck at ones.
    stuck: Vec<Vec<bool>>,
    /// Whether a front can be at a station, or at the first place, in this part of a frame's time.
    is_busy: Vec<bool>,
    /// Of each station and channel, the frames that it counts until it empties one.
    counting: Vec<Vec<Vec<u32>>>,
    pub(super) is_cut: bool,
    pub(super) is_monitored: bool,
}

type Deeds = VecDeque<RingDeed>;

impl Register {
    pub(super) fn new(spec: RingSpec, places: Vec<u32>) -> Self {
        let channels = usize::from(spec.channels);
        let mut is_busy = vec![false; spec.places as usize];
        is_busy[0] = true;
        for place in &places {
            is_busy[(place * spec.frames % spec.places) as usize] = true;
        }
        Self {
            is_busy,
            fronts: Vec::new(),
            shifted: 0,
            slots: vec![vec![EMPTY; channels]; spec.frames as usize],
            stuck: vec![vec![false; channels]; spec.frames as usize],
            counting: vec![vec![Vec::new(); channels]; places.len()],
            is_cut: false,
            is_monitored: true,
            places,
            spec,
        }
    }

    /// When it is shifted for the `n`th time, rounded down to a picosecond.
    pub(super) fn time(&self, n: u64) -> Ps {
        let steps = u128::from(self.spec.frames * self.spec.places);
        Ps::new((u128::from(self.spec.rotation.ps()) * u128::from(n) / steps) as u64)
    }

    /// Every front goes on by a step; each frame begins at the first place.
    pub(super) fn shift(&mut self, n: u64, rams: &mut [Ram], deeds: &mut Deeds) {
        let length = self.spec.frames * self.spec.places;
        self.shifted = (n % u64::from(length)) as u32;
        for (at, laps) in &mut self.fronts {
            *at += 1;
            if *at == length {
                (*at, *laps) = (0, *laps + 1);
            }
        }
        let frames = self.fronts.len() as u64;
        if frames < u64::from(self.spec.frames) && n == frames * u64::from(self.spec.places) {
            self.fronts.push((0, 0));
        }
        // Fronts are a frame apart from the first place on.
        if !self.is_busy[(n % u64::from(self.spec.places)) as usize] {
            return;
        }
        let now = self.time(n);
        let at_first = self.fronts.iter().position(|(at, _)| *at == 0);
        if let Some(frame) = at_first {
            self.monitor(now, frame, deeds);
        }
        for (station, ram) in rams.iter_mut().enumerate() {
            let place = self.places[station] * self.spec.frames;
            if let Some(frame) = self.fronts.iter().position(|(at, _)| *at == place) {
                for channel in 0..usize::from(self.spec.channels) {
                    self.pass(now, (frame, channel), station, ram, deeds);
                }
            }
        }
    }

    fn deed(
        &self,
        at: Ps,
        who: usize,
        (frame, channel): (usize, usize),
        what: SlotDeed,
    ) -> RingDeed {
        let laps = self.fronts.get(frame).map_or(0, |(_, laps)| *laps);
        let number = match who {
            RingDeed::FAULT => frame as u64,
            _ => frame as u64 + laps * u64::from(self.spec.frames),
        };
        RingDeed {
            at,
            who,
            number,
            channel: channel as u8,
            what,
            slot: self.slots[frame][channel].content,
        }
    }

    /// A slot becomes empty, unless its VCI is stuck.
    fn empties(&mut self, (frame, channel): (usize, usize)) {
        let slot = &mut self.slots[frame][channel];
        *slot = EMPTY;
        if self.stuck[frame][channel] {
            slot.content.cell.vci = 0xffff;
        }
    }

    pub(super) fn sticks(&mut self, at: Ps, slot: (u32, u8), is_stuck: bool, deeds: &mut Deeds) {
        let slot = (slot.0 as usize, usize::from(slot.1));
        self.stuck[slot.0][slot.1] = is_stuck;
        if is_stuck {
            self.slots[slot.0][slot.1].content.cell.vci = 0xffff;
            deeds.push_back(self.deed(at, RingDeed::FAULT, slot, SlotDeed::Stuck));
        }
    }

    /// A station counts none of its slots any more.
    pub(super) fn resets(&mut self, station: usize) {
        self.counting[station].iter_mut().for_each(Vec::clear);
    }

    fn monitor(&mut self, now: Ps, frame: usize, deeds: &mut Deeds) {
        for channel in 0..usize::from(self.spec.channels) {
            let slot = self.slots[frame][channel];
            let what = match slot.is_empty() {
                true => continue,
                false if self.is_cut => SlotDeed::Lost,
                false if self.is_monitored && slot.is_marked => SlotDeed::Cleared,
                false => {
                    self.slots[frame][channel].is_marked |= self.is_monitored;
                    continue;
                }
            };
            deeds.push_back(self.deed(now, RingDeed::MONITOR, (frame, channel), what));
            self.empties((frame, channel));
        }
    }

    fn pass(
        &mut self,
        now: Ps,
        slot: (usize, usize),
        station: usize,
        ram: &mut Ram,
        deeds: &mut Deeds,
    ) {
        let (frame, channel) = slot;
        let counting = &mut self.counting[station][channel];
        counting.iter_mut().for_each(|left| *left -= 1);
        let is_own = counting.first() == Some(&0);
        if is_own {
            counting.remove(0);
        }
        let mut may_fill = ram.presence == Presence::Works;
        if is_own && ram.presence != Presence::Bypassed {
            if !self.slots[frame][channel].is_empty() {
                deeds.push_back(self.deed(now, station, slot, SlotDeed::Emptied));
            }
            self.empties(slot);
            may_fill &= self.spec.reuse == Reuse::AtOnce;
        }
        let here = self.slots[frame][channel];
        if ram.presence == Presence::Works
            && !here.is_empty()
            && ram.takes(now, channel as u8, &here.content.cell)
        {
            deeds.push_back(self.deed(now, station, slot, SlotDeed::Taken));
            self.slots[frame][channel].content.response = true;
            if self.spec.release == Release::Destination {
                deeds.push_back(self.deed(now, station, slot, SlotDeed::Released));
                self.empties(slot);
                self.forget(here.source, station, channel);
            }
        }
        let filled = self.counting[station][channel].len() as u32;
        let has_room = self.spec.outstanding == 0 || filled < self.spec.outstanding;
        if may_fill
            && has_room
            && self.slots[frame][channel].is_empty()
            && let Some(cell) = ram.leaves(now, channel as u8)
        {
            self.slots[frame][channel] = Slot {
                source: Some(station),
                ..EMPTY
            };
            self.slots[frame][channel].content.cell = cell;
            self.counting[station][channel].push(self.spec.frames);
            deeds.push_back(self.deed(now, station, slot, SlotDeed::Filled));
        }
    }

    /// The source of a slot that its destination has emptied counts for it no more: it would have
    /// as many frames left as pass it until this one does.
    fn forget(&mut self, source: Option<usize>, here: usize, channel: usize) {
        let Some(source) = source else {
            return;
        };
        let length = self.spec.frames * self.spec.places;
        let [own, other] = [here, source].map(|n| self.places[n] * self.spec.frames);
        let way = (other + length - own) % length;
        // In the first rotation some of these have not begun.
        let passing = (0..self.spec.frames).filter(|frame| {
            let behind = frame * self.spec.places;
            let at = (self.shifted + length - behind) % length;
            let ahead = (other + length - at) % length;
            // One that is there now passes it behind this station.
            let is_to_pass = ahead > 0 || source > here;
            is_to_pass && ahead <= way
        });
        let left = passing.count() as u32;
        let counting = &mut self.counting[source][channel];
        if let Some(at) = counting.iter().position(|one| *one == left) {
            counting.remove(at);
        }
    }

    pub(super) fn loses(&mut self, at: Ps, frame: u32, channel: Option<u8>, deeds: &mut Deeds) {
        for n in 0..usize::from(self.spec.channels) {
            let is_meant = channel.is_none_or(|channel| usize::from(channel) == n);
            let slot = (frame as usize, n);
            if is_meant && !self.slots[slot.0][n].is_empty() {
                deeds.push_back(self.deed(at, RingDeed::FAULT, slot, SlotDeed::Lost));
                self.empties(slot);
            }
        }
    }

    /// The response bit is not flipped: whether a cell was taken is known apart from it.
    pub(super) fn flips(&mut self, at: Ps, slot: (u32, u8), bit: u16, deeds: &mut Deeds) {
        let slot = (slot.0 as usize, usize::from(slot.1));
        let content = &mut self.slots[slot.0][slot.1].content;
        let response = content.response;
        let mut octets = content.emit();
        octets[usize::from(bit / 8)] ^= 0x80 >> (bit % 8);
        *content = CbnSlot::parse(&octets);
        content.response = response;
        if self.stuck[slot.0][slot.1] {
            content.cell.vci = 0xffff;
        }
        let is_empty = content.cell.vci == 0;
        if !is_empty {
            deeds.push_back(self.deed(at, RingDeed::FAULT, slot, SlotDeed::Flipped));
            return;
        }
        // An empty slot is what it was: the bits behind its VCI are nobody's.
        deeds.push_back(self.deed(at, RingDeed::FAULT, slot, SlotDeed::Damaged));
        self.slots[slot.0][slot.1] = EMPTY;
    }
}
