use serde::{Deserialize, Serialize};

use super::held::Held;
use super::list::List;
use super::{Entry, NEVER, Pace, Place};
use crate::Time;
use crate::adapter::VcIndex;

/// A stratum for every power of two of the weight.
const STRATA: usize = 32;
/// What a cell costs a stratum of weight 1. At most 2^64 cells fit into 128 bits.
const CELL: u64 = u64::MAX;

/// The best effort VCs of a line that have cells to send: deficit round robin in cells.
///
/// Weights span 32 bits, so one round of plain deficit round robin is either long (a quantum of
/// millions of cells) or made of visits that send nothing. Here VCs whose weights share a power of
/// two form a stratum. Within it a quantum is one to two cells: every visit sends, no visit sends
/// more than two. Strata take turns cell by cell, by start-time fair queueing: a cell costs a
/// stratum 1 / the sum of its weights, and whoever has spent least sends. One that comes back has
/// spent no less than the one that sends, so that it neither saves up nor pays for others' absence.
///
/// A VC with a peak rate whose turn comes before its time is put aside. When its time has come it
/// is the next of its stratum, before those whose turn has not come: it loses nothing but what its
/// peak rate forbids, and the others have that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Robin {
    strata: [Stratum; STRATA],
    /// One bit a stratum that holds VCs.
    occupied: u32,
    /// What the stratum that sent last had spent before.
    spent: u128,
    /// Those put aside: in no stratum.
    held: Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stratum {
    list: List,
    /// Those that were put aside: before the others.
    returned: List,
    /// At most 16,384 * 2^32 = 2^46.
    weight: u64,
    /// What a cell costs.
    cost: u64,
    spent: u128,
}

#[inline(always)]
fn stratum_of(weight: u32) -> usize {
    weight.max(1).ilog2() as usize
}

impl Stratum {
    const EMPTY: Self = Self {
        list: List::EMPTY,
        returned: List::EMPTY,
        weight: 0,
        cost: 0,
        spent: 0,
    };

    #[inline(always)]
    fn first(&self) -> Option<VcIndex> {
        self.returned.first().or(self.list.first())
    }

    #[inline(always)]
    fn is_single(&self) -> bool {
        match self.returned.first() {
            None => self.list.is_single(),
            Some(_) => self.returned.is_single() && self.list.is_empty(),
        }
    }

    /// Takes `vc` from whichever list it is in.
    #[inline(always)]
    fn remove(&mut self, entries: &mut [Entry], vc: VcIndex) {
        match entries[usize::from(vc.0)].place {
            Place::Returned => self.returned.remove(entries, vc),
            _ => self.list.remove(entries, vc),
        }
    }
}

impl Robin {
    /// Nobody; of `vcs` VCs each can be put aside.
    pub(super) fn new(vcs: usize) -> Self {
        Self {
            strata: [Stratum::EMPTY; STRATA],
            occupied: 0,
            spent: 0,
            held: Held::new(vcs),
        }
    }

    /// Nobody is in the round.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// When the first of those that were put aside may send.
    #[inline(always)]
    pub(super) fn held_until(&self, entries: &[Entry]) -> Option<Time> {
        let first = self.held.first(entries).map(|(_, time)| time);
        first.filter(|time| *time < NEVER)
    }

    /// Puts `vc` at the end of its round.
    pub(super) fn insert(&mut self, entries: &mut [Entry], vc: VcIndex) {
        let Pace::BestEffort {
            weight, deficit, ..
        } = &mut entries[usize::from(vc.0)].pace
        else {
            return;
        };
        *deficit = 0;
        let weight = *weight;
        entries[usize::from(vc.0)].place = Place::Robin;
        self.join(weight).list.push_back(entries, vc);
    }

    /// The stratum of a weight that comes to it.
    fn join(&mut self, weight: u32) -> &mut Stratum {
        let index = stratum_of(weight);
        let stratum = &mut self.strata[index];
        if self.occupied & 1 << index == 0 {
            stratum.spent = stratum.spent.max(self.spent);
        }
        self.occupied |= 1 << index;
        stratum.weight += u64::from(weight);
        stratum.cost = CELL / stratum.weight;
        stratum
    }

    /// Takes out `vc`, which is in the round or put aside.
    pub(super) fn remove(&mut self, entries: &mut [Entry], vc: VcIndex) {
        if let Place::Held(_) = entries[usize::from(vc.0)].place {
            return self.held.remove(entries, vc);
        }
        self.leave(entries, vc);
    }

    /// Takes `vc` out of its stratum.
    fn leave(&mut self, entries: &mut [Entry], vc: VcIndex) {
        let weight = match entries[usize::from(vc.0)].pace {
            Pace::BestEffort { weight, .. } => weight,
            Pace::Guaranteed { .. } | Pace::Early(_) | Pace::Floor { .. } | Pace::Closed => return,
        };
        let index = stratum_of(weight);
        let stratum = &mut self.strata[index];
        stratum.remove(entries, vc);
        entries[usize::from(vc.0)].place = Place::Idle;
        stratum.weight -= u64::from(weight);
        match stratum.weight {
            0 => self.occupied &= !(1 << index),
            weight => stratum.cost = CELL / weight,
        }
    }

    /// The stratum whose turn it is.
    #[inline(always)]
    fn turn(&self) -> Option<usize> {
        if self.occupied.is_power_of_two() {
            return Some(self.occupied.trailing_zeros() as usize);
        }
        let (mut best, mut least) = (None, u128::MAX);
        let mut left = self.occupied;
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            let spent = self.strata[index].spent;
            if spent <= least {
                (best, least) = (Some(index), spent);
            }
        }
        best
    }

    /// The VC whose turn it is and that may send at `now`.
    ///
    /// Work: O(1) while nobody is put aside or returns, which each VC is once at most for a cell
    /// that it has sent, O(log n) each time.
    #[inline(always)]
    pub(super) fn first(&mut self, entries: &mut [Entry], now: Time) -> Option<VcIndex> {
        self.take_back(entries, now);
        loop {
            let vc = self.strata[self.turn()?].first()?;
            match &entries[usize::from(vc.0)].pace {
                Pace::BestEffort {
                    shaper: Some(shaper),
                    ..
                } if !shaper.due(now) => {}
                _ => return Some(vc),
            }
            self.leave(entries, vc);
            self.held.push(entries, vc);
        }
    }

    /// Takes back those that may send at `now`.
    #[inline(always)]
    fn take_back(&mut self, entries: &mut [Entry], now: Time) {
        while let Some((vc, time)) = self.held.first(entries)
            && time <= now
        {
            self.held.remove(entries, vc);
            let Pace::BestEffort { weight, .. } = entries[usize::from(vc.0)].pace else {
                return;
            };
            entries[usize::from(vc.0)].place = Place::Returned;
            self.join(weight).returned.push_back(entries, vc);
        }
    }

    /// `vc`, which is put aside, sent cells all the same.
    pub(super) fn charge_held(
        &mut self,
        entries: &mut [Entry],
        now: Time,
        vc: VcIndex,
        cells: u32,
    ) {
        self.held.remove(entries, vc);
        if let Pace::BestEffort {
            shaper: Some(shaper),
            ..
        } = &mut entries[usize::from(vc.0)].pace
        {
            shaper.emit(now, cells);
        }
        self.held.push(entries, vc);
    }

    /// Whether exactly one VC is in the round.
    #[inline(always)]
    pub(super) fn is_single(&self) -> bool {
        self.occupied.is_power_of_two()
            && self.strata[self.occupied.trailing_zeros() as usize].is_single()
    }

    /// `vc`, which is in the round, sent `cells` cells, 1 at least.
    #[inline(always)]
    pub(super) fn sent(&mut self, entries: &mut [Entry], vc: VcIndex, cells: u32) {
        let entry = &mut entries[usize::from(vc.0)];
        let Pace::BestEffort { weight, .. } = entry.pace else {
            return;
        };
        let stratum = &self.strata[stratum_of(weight)];
        if entry.place == Place::Robin && stratum.list.is_single() {
            self.charge(entry, cells);
            return;
        }
        for _ in 0..cells {
            self.sent_one(entries, vc);
        }
    }

    fn sent_one(&mut self, entries: &mut [Entry], vc: VcIndex) {
        let entry = &mut entries[usize::from(vc.0)];
        let Some((index, visit_ends)) = self.charge(entry, 1) else {
            return;
        };
        let returned = entry.place == Place::Returned;
        let stratum = &mut self.strata[index];
        if visit_ends && (returned || !stratum.list.is_single()) {
            stratum.remove(entries, vc);
            entries[usize::from(vc.0)].place = Place::Robin;
            stratum.list.push_back(entries, vc);
        }
    }

    /// Charges `cells` cells, 1 at least, to a VC and its stratum: which that is, and whether the
    /// visit ends with them. A visit begins when what is left of the quantum is no cell.
    #[inline(always)]
    fn charge(&mut self, entry: &mut Entry, cells: u32) -> Option<(usize, bool)> {
        let Pace::BestEffort {
            weight, deficit, ..
        } = &mut entry.pace
        else {
            return None;
        };
        let index = stratum_of(*weight);
        let cell = 1_u64 << index;
        // At most 2^32 * 2^31.
        let wanted = u64::from(cells) << index;
        // One visit's quantum is at least a cell: a visit is begun when it is needed, no sooner.
        let visits = match wanted.saturating_sub(*deficit) {
            0 => 0,
            missing if missing <= u64::from(*weight) => 1,
            missing => missing.div_ceil((*weight).into()),
        };
        *deficit = *deficit + visits * u64::from(*weight) - wanted;
        let stratum = &mut self.strata[index];
        let cost = u128::from(stratum.cost);
        let before = u128::from(cells - 1) * cost;
        self.spent = stratum.spent.saturating_add(before);
        stratum.spent = self.spent.saturating_add(cost);
        Some((index, *deficit < cell))
    }
}
