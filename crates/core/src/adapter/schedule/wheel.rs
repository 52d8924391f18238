use serde::{Deserialize, Serialize};

use super::list::{List, Slots};
use super::{Entry, Place};
use crate::Time;
use crate::adapter::VcIndex;

/// A tick of the wheel is 2^10 ns: a third of a cell time of an OC-3.
pub(super) const TICK_BITS: u32 = 10;
/// Slots of one tick: 4.2 ms ahead.
const NEAR_SLOTS: u64 = 4096;
/// Ticks of a far slot: a quarter of the near ones, so that a far slot fits whole into the near
/// ones long before it is due.
const FAR_BITS: u32 = 10;
/// Far slots: 1.07 s ahead, beyond the cell time of 1 cell/s.
const FAR_SLOTS: u64 = 1024;
/// Far timers moved near per cell sent. Each cell sent adds one timer at most, so any number above
/// one empties the slots ahead of time.
const MOVES_PER_CELL: u32 = 4;

#[inline(always)]
fn tick(time: Time) -> u64 {
    time.ns() >> TICK_BITS
}

/// The guaranteed VCs of a line that have cells to send, by theoretical emission time.
///
/// A timing wheel of two levels. Every entry lies in the slot of its tick, or in that of `base` if
/// its tick is past; overdue entries stay where they are, so slots from `base` on, each first in
/// first out, *are* the order of service. All near entries lie within 4,096 ticks of `base`, and
/// `base` never passes an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wheel {
    base: u64,
    near: Slots,
    far: Slots,
    /// Entries later than the last far slot. Only a `base` that lags far behind the clock lets any
    /// in: nobody's cell time is longer than the far slots reach.
    beyond: List,
    /// No entry of `beyond` is before this tick.
    beyond_from: u64,
}

impl Wheel {
    pub(super) fn new() -> Self {
        Self {
            base: 0,
            near: Slots::new(NEAR_SLOTS as usize),
            far: Slots::new(FAR_SLOTS as usize),
            beyond: List::EMPTY,
            beyond_from: u64::MAX,
        }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.near.is_empty() && self.far.is_empty() && self.beyond.is_empty()
    }

    /// Nothing is in the wheel: it need not turn to `now` tick by tick.
    pub(super) fn rebase(&mut self, now: Time) {
        if self.is_empty() {
            self.base = self.base.max(tick(now));
        }
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, entries: &mut [Entry], vc: VcIndex, next: Time) {
        let tick = tick(next).max(self.base);
        let place = if tick - self.base < NEAR_SLOTS {
            let slot = tick % NEAR_SLOTS;
            self.near.push_back(entries, slot as usize, vc);
            Place::Near(slot as u16)
        } else if (tick >> FAR_BITS) - (self.base >> FAR_BITS) < FAR_SLOTS {
            let slot = (tick >> FAR_BITS) % FAR_SLOTS;
            self.far.push_back(entries, slot as usize, vc);
            Place::Far(slot as u16)
        } else {
            self.beyond.push_back(entries, vc);
            self.beyond_from = self.beyond_from.min(tick);
            Place::Beyond
        };
        entries[usize::from(vc.0)].place = place;
    }

    /// Takes out `vc`, which is in the wheel at its `place`.
    #[inline(always)]
    pub(super) fn remove(&mut self, entries: &mut [Entry], vc: VcIndex) {
        match entries[usize::from(vc.0)].place {
            Place::Near(slot) => self.near.remove(entries, usize::from(slot), vc),
            Place::Far(slot) => self.far.remove(entries, usize::from(slot), vc),
            Place::Beyond => {
                self.beyond.remove(entries, vc);
                if self.beyond.is_empty() {
                    self.beyond_from = u64::MAX;
                }
            }
            Place::Idle | Place::Robin | Place::Returned | Place::Held(_) => return,
        }
        entries[usize::from(vc.0)].place = Place::Idle;
    }

    /// The tick of the first near entry.
    #[inline(always)]
    fn first_near(&self) -> Option<u64> {
        let from = (self.base % NEAR_SLOTS) as usize;
        Some(self.base + self.near.first_from(from)? as u64)
    }

    /// The far slot that comes first, counted from time zero.
    #[inline(always)]
    fn first_far(&self) -> Option<u64> {
        let base = self.base >> FAR_BITS;
        Some(base + self.far.first_from((base % FAR_SLOTS) as usize)? as u64)
    }

    /// The tick before which nothing is but near entries.
    #[inline(always)]
    fn far_from(&self) -> u64 {
        let far = self.first_far().map_or(u64::MAX, |far| far << FAR_BITS);
        far.min(self.beyond_from)
    }

    /// The VC that is due first at `now`.
    ///
    /// Work: a look at both bitmaps. Far slots that are due themselves are moved whole, which takes
    /// in every entry once or, after a stall of a second, twice. It happens only to VCs slower than
    /// the 3 ms that [`Self::bring_near`] works ahead, when nothing was sent meanwhile.
    #[inline(always)]
    pub(super) fn due(&mut self, entries: &mut [Entry], now: Time) -> Option<VcIndex> {
        let now_tick = tick(now).max(self.base);
        if self.is_empty() {
            self.base = now_tick;
            return None;
        }
        let first = loop {
            let first = self.first_near().unwrap_or(u64::MAX);
            let limit = first.min(now_tick);
            if self.far_from() > limit {
                break first;
            }
            self.turn_to_far(entries, limit);
        };
        if first > now_tick {
            self.base = now_tick;
            return None;
        }
        self.base = first;
        let vc = self.near.list((first % NEAR_SLOTS) as usize).first()?;
        // The first of a tick's entries speaks for all of them: they may wait one tick for it.
        (entries[usize::from(vc.0)].next() <= now).then_some(vc)
    }

    /// Turns to the first far entries and moves them near. They come before `limit`, which is not
    /// to be passed.
    #[cold]
    fn turn_to_far(&mut self, entries: &mut [Entry], limit: u64) {
        let far = self.first_far();
        let far_tick = far.map_or(u64::MAX, |far| far << FAR_BITS);
        if self.beyond_from < far_tick {
            self.sort_beyond(entries, limit.min(far_tick));
            return;
        }
        let Some(far) = far else { return };
        self.base = self.base.max(far_tick);
        let slot = (far % FAR_SLOTS) as usize;
        while let Some(vc) = self.far.list(slot).first() {
            self.far.remove(entries, slot, vc);
            let next = entries[usize::from(vc.0)].next();
            self.insert(entries, vc, next);
        }
    }

    /// Turns to the earliest entry beyond, or to `limit`, in one go however far time has jumped,
    /// and gives all entries beyond their new places.
    fn sort_beyond(&mut self, entries: &mut [Entry], limit: u64) {
        let mut earliest = limit;
        let mut walk = self.beyond.first();
        while let Some(vc) = walk {
            earliest = earliest.min(tick(entries[usize::from(vc.0)].next()));
            walk = List::after(entries, vc);
        }
        self.base = self.base.max(earliest);
        let mut sorted = core::mem::replace(&mut self.beyond, List::EMPTY);
        self.beyond_from = u64::MAX;
        while let Some(vc) = sorted.first() {
            sorted.remove(entries, vc);
            let next = entries[usize::from(vc.0)].next();
            self.insert(entries, vc, next);
        }
    }

    /// Moves a few far timers whose slot fits whole into the near ones: 3 ms ahead of time.
    #[inline(always)]
    pub(super) fn bring_near(&mut self, entries: &mut [Entry], cells: u32) {
        if self.far.is_empty() {
            return;
        }
        for _ in 0..cells.saturating_mul(MOVES_PER_CELL) {
            let Some(far) = self.first_far() else { return };
            if (far + 1) << FAR_BITS > self.base + NEAR_SLOTS {
                return;
            }
            let slot = (far % FAR_SLOTS) as usize;
            let Some(vc) = self.far.list(slot).first() else {
                return;
            };
            self.far.remove(entries, slot, vc);
            let next = entries[usize::from(vc.0)].next();
            self.insert(entries, vc, next);
        }
    }

    /// The tick before which no VC but `vc` can be due. `vc` is the one that is due first; none if
    /// another shares its tick.
    #[inline(always)]
    pub(super) fn others_from(&self) -> Option<u64> {
        let slot = (self.base % NEAR_SLOTS) as usize;
        if !self.near.list(slot).is_single() {
            return None;
        }
        let behind = (slot + 1) % NEAR_SLOTS as usize;
        let near = match self.near.first_from(behind) {
            // Once round: nobody else.
            Some(gap) if gap as u64 + 1 < NEAR_SLOTS => self.base + 1 + gap as u64,
            _ => u64::MAX,
        };
        Some(near.min(self.far_from()))
    }

    /// Whether a VC with this theoretical time would be served before tick `others`.
    #[inline(always)]
    pub(super) fn before(next: Time, others: u64) -> bool {
        tick(next) < others
    }

    /// The earliest time at which [`Self::due`] might answer.
    pub(super) fn next_deadline(&self, entries: &[Entry]) -> Option<Time> {
        let near = self.first_near().and_then(|first| {
            let vc = self.near.list((first % NEAR_SLOTS) as usize).first()?;
            Some(entries[usize::from(vc.0)].next())
        });
        let far = match self.far_from() {
            u64::MAX => None,
            tick => Some(Time::from_ns(tick << TICK_BITS)),
        };
        match (near, far) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
        }
    }
}
