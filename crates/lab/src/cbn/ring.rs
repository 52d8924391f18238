use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use cellgate_core::wire::{CbnCell, CbnSlot};

use super::deed::{RingCounts, RingDeed, SlotDeed};
use super::{CbnBug, Release, Reuse, RingSpec};
use crate::world::Ps;

/// The part that a station's hardware takes in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    #[default]
    Works,
    /// It empties its slots, and neither takes nor fills any.
    Repeats,
    /// The ring goes past it.
    Bypassed,
}

/// A station, as the ring sees it.
pub trait Attached {
    /// A cell passes, in a slot of `channel` whose front is there at `at`. Whether it is taken.
    fn passes(&mut self, at: Ps, channel: u8, cell: &CbnCell) -> bool;

    /// An empty slot of `channel` is there: what it is filled with.
    fn fills(&mut self, at: Ps, channel: u8) -> Option<CbnCell>;

    fn presence(&self) -> Presence {
        Presence::Works
    }
}

/// The content of a full slot.
#[derive(Clone, Copy, Debug)]
struct Full {
    slot: CbnSlot,
    /// The station that has filled it; none: nobody has.
    source: Option<usize>,
    /// The number of its frame when its source is there again.
    returns: u64,
    /// It has passed the monitor.
    is_marked: bool,
    is_damaged: bool,
}

impl Full {
    const NOBODYS: Self = Self {
        slot: CbnSlot {
            type_bit: false,
            cell: CbnCell::EMPTY,
            response: false,
        },
        source: None,
        returns: 0,
        is_marked: false,
        is_damaged: false,
    };

    /// The cell of a slot that stays full though it is emptied.
    const STUCK: Self = Self {
        slot: CbnSlot {
            cell: CbnCell {
                vci: RingSpec::STUCK_VCI,
                ..CbnCell::EMPTY
            },
            ..Self::NOBODYS.slot
        },
        ..Self::NOBODYS
    };
}

/// A station's place, and its slots on the ring.
#[derive(Clone, Debug)]
struct Seat {
    place: u32,
    /// The frame that passes next.
    next: u64,
    /// The numbers of the frames whose slots it is to empty, by channel: it counts, and does not
    /// look into them.
    filled: Vec<VecDeque<u64>>,
}

/// The slots, and where stations are.
#[derive(Clone, Debug)]
pub struct Ring {
    spec: RingSpec,
    /// By frame, then by channel.
    slots: Vec<Option<Full>>,
    /// Those that stay full.
    stuck: Vec<bool>,
    seats: Vec<Seat>,
    /// The passes to come: when, and which station, counted from 1; 0 is the monitor.
    due: BinaryHeap<Reverse<(Ps, usize)>>,
    /// The frame that passes the monitor next; none: there is no monitor.
    monitor: Option<u64>,
    pub(super) is_monitored: bool,
    pub(super) is_cut: bool,
    /// Slots that were filled, by channel.
    filled: Vec<u64>,
    counts: RingCounts,
    log: Option<Vec<RingDeed>>,
    pub(super) bug: Option<CbnBug>,
}

impl Ring {
    /// An empty ring with stations at these places, each of which is another, in rising order.
    pub fn new(spec: RingSpec, places: &[u32]) -> Self {
        let channels = usize::from(spec.channels);
        let seat = |place: &u32| Seat {
            place: *place,
            next: 0,
            filled: vec![VecDeque::new(); channels],
        };
        let seats: Vec<_> = places.iter().map(seat).collect();
        let due = seats.iter().zip(1..);
        let due = due.map(|(seat, station)| Reverse((spec.passes(0, seat.place), station)));
        Self {
            slots: vec![None; spec.frames as usize * channels],
            stuck: vec![false; spec.frames as usize * channels],
            due: due.collect(),
            seats,
            monitor: None,
            is_monitored: true,
            is_cut: false,
            filled: vec![0; channels],
            counts: RingCounts::default(),
            log: None,
            bug: None,
            spec,
        }
    }

    /// The same with a monitor before place 0, which empties what passes it twice, and a book of
    /// what becomes of slots.
    pub fn watched(mut self, bug: Option<CbnBug>) -> Self {
        self.monitor = Some(0);
        self.due.push(Reverse((Ps::ZERO, 0)));
        self.log = Some(Vec::new());
        self.bug = bug;
        self
    }

    pub const fn spec(&self) -> &RingSpec {
        &self.spec
    }

    /// Slots of a channel that were filled so far.
    pub fn filled(&self, channel: u8) -> u64 {
        self.filled[usize::from(channel)]
    }

    pub const fn counts(&self) -> &RingCounts {
        &self.counts
    }

    /// Cells on the ring that a station has sent.
    pub fn under_way(&self) -> u64 {
        let full = self.slots.iter().flatten();
        full.filter(|full| full.source.is_some()).count() as u64
    }

    /// Whether no slot is full.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// The deeds since they were taken last.
    pub fn take_log(&mut self) -> Vec<RingDeed> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn tell(&mut self, deed: RingDeed) {
        if let Some(log) = &mut self.log {
            log.push(deed);
        }
    }

    fn has(&self, bug: CbnBug) -> bool {
        self.bug == Some(bug)
    }

    /// When [`Ring::turn`] is due: the next frame's front is at a station.
    pub fn next(&self) -> Ps {
        self.due.peek().map_or(Ps::MAX, |Reverse((at, _))| *at)
    }

    /// A frame passes a station: the one of the earliest pass, and of equal ones that of the
    /// lowest place. Which one; none: the monitor.
    pub fn turn(&mut self, stations: &mut [impl Attached]) -> Option<usize> {
        let Reverse((at, who)) = self.due.pop()?;
        let Some(station) = who.checked_sub(1) else {
            self.watch(at);
            return None;
        };
        let seat = &mut self.seats[station];
        let number = seat.next;
        seat.next += 1;
        let mut next = self.spec.passes(seat.next, seat.place);
        if self.bug == Some(CbnBug::FrameTimeRounded) {
            next = at.plus(self.spec.frame_part(1, 1));
        }
        self.due.push(Reverse((next, who)));
        for channel in 0..self.spec.channels {
            self.pass(at, number, station, channel, &mut stations[station]);
        }
        Some(station)
    }

    /// The place of a slot among all.
    const fn index(&self, number: u64, channel: u8) -> usize {
        let frame = (number % self.spec.frames as u64) as usize;
        frame * self.spec.channels as usize + channel as usize
    }

    /// A frame passes the monitor.
    fn watch(&mut self, at: Ps) {
        let Some(number) = self.monitor else {
            return;
        };
        self.monitor = Some(number + 1);
        self.due.push(Reverse((self.spec.passes(number + 1, 0), 0)));
        for channel in 0..self.spec.channels {
            let index = self.index(number, channel);
            let (is_cut, is_eager) = (self.is_cut, self.has(CbnBug::MonitorClearsLive));
            let is_awake = self.is_monitored && !self.has(CbnBug::MonitorSleeps);
            let what = match &mut self.slots[index] {
                Some(_) if is_cut => SlotDeed::Lost,
                Some(full) if is_awake && (full.is_marked || is_eager) => SlotDeed::Cleared,
                Some(full) => {
                    full.is_marked |= is_awake;
                    continue;
                }
                None => continue,
            };
            self.goes(index, (at, RingDeed::MONITOR, number, channel), what);
        }
    }

    /// A slot becomes empty, and that is told.
    fn goes(&mut self, index: usize, (at, who, number, channel): Spot, what: SlotDeed) {
        let Some(full) = self.slots[index].take() else {
            return;
        };
        if full.source.is_some() {
            self.counts.ends(what, full.slot.response, full.is_damaged);
        }
        let slot = full.slot;
        self.tell(RingDeed {
            at,
            who,
            number,
            channel,
            what,
            slot,
        });
        if self.stuck[index] && !self.has(CbnBug::StuckSlotFreed) {
            self.slots[index] = Some(Full::STUCK);
        }
    }

    fn pass(
        &mut self,
        at: Ps,
        number: u64,
        station: usize,
        channel: u8,
        attached: &mut impl Attached,
    ) {
        let presence = attached.presence();
        let index = self.index(number, channel);
        let spot = (at, station, number, channel);
        let filled = &mut self.seats[station].filled[usize::from(channel)];
        let mut may_fill = true;
        if filled.front() == Some(&number) {
            filled.pop_front();
            let looks = self.has(CbnBug::SourceLooksIntoSlots);
            let is_own = |full: &Full| !looks || !full.is_damaged;
            let is_emptied = presence != Presence::Bypassed
                && !(self.has(CbnBug::SlotKept) && number.is_multiple_of(5))
                && self.slots[index].as_ref().is_none_or(is_own);
            if is_emptied {
                self.goes(index, spot, SlotDeed::Emptied);
                may_fill = self.spec.reuse == Reuse::AtOnce || self.has(CbnBug::ReusedAtOnce);
            }
        }
        if presence != Presence::Works {
            return;
        }
        if let Some(full) = self.slots[index].as_mut() {
            let mut is_taken = attached.passes(at, channel, &full.slot.cell);
            is_taken |= self.bug == Some(CbnBug::ResponseWithoutTaking) && number.is_multiple_of(3);
            let slot = full.slot;
            if is_taken {
                self.counts.copies += 1;
                full.slot.response = self.bug != Some(CbnBug::ResponseUnset);
                let what = SlotDeed::Taken;
                self.tell(RingDeed {
                    at,
                    who: station,
                    number,
                    channel,
                    what,
                    slot,
                });
            }
            let destination =
                self.spec.release == Release::Destination || self.has(CbnBug::FreedByDestination);
            if is_taken && destination {
                self.releases(index, spot);
            }
            let overwrites = self.has(CbnBug::FullSlotFilled) && number.is_multiple_of(4);
            if self.slots[index].is_some() && !overwrites {
                return;
            }
        }
        let filled = &self.seats[station].filled[usize::from(channel)];
        let most = self.spec.outstanding + u32::from(self.has(CbnBug::OneTooManyOutstanding));
        let has_too_many = self.spec.outstanding > 0 && filled.len() >= most as usize;
        if !may_fill || has_too_many {
            return;
        }
        if let Some(cell) = attached.fills(at, channel) {
            self.fill(index, spot, cell);
        }
    }

    /// The destination empties a slot.
    fn releases(&mut self, index: usize, spot: Spot) {
        let Some(full) = self.slots[index] else {
            return;
        };
        self.goes(index, spot, SlotDeed::Released);
        if let Some(source) = full.source {
            let filled = &mut self.seats[source].filled[usize::from(spot.3)];
            filled.retain(|returns| *returns != full.returns);
        }
    }

    fn fill(&mut self, index: usize, (at, who, number, channel): Spot, cell: CbnCell) {
        let slot = CbnSlot {
            type_bit: false,
            cell,
            response: false,
        };
        let returns = number + u64::from(self.spec.frames);
        self.seats[who].filled[usize::from(channel)].push_back(returns);
        self.filled[usize::from(channel)] += 1;
        self.counts.sent += 1;
        self.tell(RingDeed {
            at,
            who,
            number,
            channel,
            what: SlotDeed::Filled,
            slot,
        });
        self.slots[index] = Some(Full {
            slot,
            source: Some(who),
            returns,
            is_marked: false,
            is_damaged: false,
        });
    }

    /// What lies in a slot is lost.
    pub(super) fn loses(&mut self, at: Ps, frame: u32, channel: u8) {
        let index = self.index(frame.into(), channel);
        let spot = (at, RingDeed::FAULT, frame.into(), channel);
        self.goes(index, spot, SlotDeed::Lost);
    }

    /// A bit of a slot becomes another, the first that of its type. What becomes of VCI 0 is empty;
    /// an empty slot that gets a VCI is full, and nobody's.
    pub(super) fn flips(&mut self, at: Ps, frame: u32, channel: u8, bit: u16) {
        let index = self.index(frame.into(), channel);
        let mut full = self.slots[index].unwrap_or(Full::NOBODYS);
        let mut octets = full.slot.emit();
        if let Some(octet) = octets.get_mut(usize::from(bit / 8)) {
            *octet ^= 0x80 >> (bit % 8);
        }
        let before = full.slot;
        full.slot = CbnSlot::parse(&octets);
        // Whether it was taken is known apart from the bit that says so.
        full.slot.response = before.response;
        if self.stuck[index] {
            full.slot.cell.vci = RingSpec::STUCK_VCI;
        }
        full.is_damaged |= before.cell != full.slot.cell;
        self.slots[index] = Some(full);
        let spot = (at, RingDeed::FAULT, u64::from(frame), channel);
        if full.slot.cell.vci == 0 {
            self.goes(index, spot, SlotDeed::Damaged);
            return;
        }
        self.tell(RingDeed {
            at,
            who: RingDeed::FAULT,
            number: frame.into(),
            channel,
            what: SlotDeed::Flipped,
            slot: full.slot,
        });
    }
}

impl Ring {
    /// A slot's VCI is all ones from here on, or may be another again: then the slot stays full
    /// until somebody empties it.
    pub(super) fn sticks(&mut self, at: Ps, frame: u32, channel: u8, is_stuck: bool) {
        let index = self.index(frame.into(), channel);
        self.stuck[index] = is_stuck;
        if !is_stuck {
            return;
        }
        let mut full = self.slots[index].unwrap_or(Full::NOBODYS);
        full.slot.cell.vci = RingSpec::STUCK_VCI;
        full.is_damaged = true;
        self.slots[index] = Some(full);
        self.tell(RingDeed {
            at,
            who: RingDeed::FAULT,
            number: frame.into(),
            channel,
            what: SlotDeed::Stuck,
            slot: full.slot,
        });
    }

    /// A station knows no more which slots it has filled: they are the monitor's.
    pub fn forget(&mut self, station: usize) {
        if !self.has(CbnBug::ResetKeepsSlots) {
            let filled = &mut self.seats[station].filled;
            filled.iter_mut().for_each(VecDeque::clear);
        }
    }
}

/// When, who, the number of the frame, the channel.
type Spot = (Ps, usize, u64, u8);

#[cfg(test)]
mod tests;
