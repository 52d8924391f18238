use serde::{Deserialize, Serialize};

use super::robin::Robin;
use super::tolerances::Tolerances;
use super::wheel::{TICK_BITS, Wheel};
use super::{Entry, Grant, Pace, Place, Schedule, bursts_of, owner_of};
use crate::Time;
use crate::adapter::{Planted, VcIndex};
use crate::contract::{Bursts, CellRate, Early, Increment, Shaper};

/// One transmit port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    /// The line's slots: a sender at the line rate that makes good `burst_cells - 1` cell times.
    slots: Shaper,
    burst_cells: u32,
    guaranteed_vcs: u32,
    /// A burst of each of them.
    burst_of_all: u32,
    guaranteed_cell_s: u64,
    tolerances: Tolerances,
    wheel: Wheel,
    vbr_vcs: u32,
    /// The bursts of VBR VCs that have cells to send.
    bursts: Wheel,
    robin: Robin,
    /// VCs of ABR that have a floor.
    floors: u32,
}

/// 128 slots of an OC-3.
pub(super) const PATIENCE_MAX_NS: u64 = 362_400;

/// The time that a line at `rate` may make good: with 0 ns one cell leaves at a time.
fn burst_ns(rate: CellRate, burst_cells: u32) -> u64 {
    Increment::of(rate).times_ns(u64::from(burst_cells.saturating_sub(1)))
}

impl Line {
    pub(super) fn new(rate: CellRate, burst_cells: u32, vcs: usize) -> Self {
        Self {
            slots: Shaper::new(rate, burst_ns(rate, burst_cells)),
            burst_cells,
            guaranteed_vcs: 0,
            burst_of_all: 0,
            guaranteed_cell_s: 0,
            tolerances: Tolerances::new(),
            wheel: Wheel::new(),
            vbr_vcs: 0,
            bursts: Wheel::new(),
            robin: Robin::new(vcs),
            floors: 0,
        }
    }

    pub(super) fn set_rate(&mut self, rate: CellRate) {
        self.slots.modify(rate, burst_ns(rate, self.burst_cells));
    }

    /// A VC was opened.
    pub(super) fn reserve(&mut self, vc: &Entry) {
        if let Some(rate) = vc.guaranteed() {
            self.guaranteed_cell_s += u64::from(rate.cell_s());
            self.guaranteed_vcs += 1;
            self.vbr_vcs += u32::from(vc.is_vbr());
        }
        if let Some(shaper) = vc.shaper() {
            self.burst_of_all += vc.burst();
            self.tolerances.add(shaper.cdvt_ns());
        }
    }

    /// A VC is gone.
    pub(super) fn release(&mut self, vc: &Entry) {
        if let Some(rate) = vc.guaranteed() {
            self.guaranteed_cell_s -= u64::from(rate.cell_s());
            self.guaranteed_vcs -= 1;
            self.vbr_vcs -= u32::from(vc.is_vbr());
        }
        if let Some(shaper) = vc.shaper() {
            self.burst_of_all -= vc.burst();
            self.tolerances.remove(shaper.cdvt_ns());
        }
    }

    /// The floor of a VC of ABR was opened, if it has one.
    pub(super) fn reserve_floor(&mut self, floor: &Entry) {
        if let Pace::Floor { .. } = floor.pace {
            self.reserve(floor);
            self.floors += 1;
        }
    }

    /// It is gone.
    pub(super) fn release_floor(&mut self, floor: &Entry) {
        if let Pace::Floor { .. } = floor.pace {
            self.release(floor);
            self.floors -= 1;
        }
    }

    /// The least CDVT of VCs with a rate, or a little less.
    pub(super) fn least_cdvt_ns(&self) -> Option<u64> {
        self.tolerances.least_ns()
    }

    /// How long nobody need ask for a grant, once there was none. A slow line is asked as often as
    /// a fast one: its cells would leave in bursts that a reader waits for.
    pub(super) fn patience_ns(&self, planted: impl Fn(Planted) -> bool) -> u64 {
        let of_line = self
            .slots
            .increment()
            .times_ns(u64::from(self.burst_cells) / 2);
        let of_line = match planted(Planted::RestShapesWithoutEnd) {
            true => u64::MAX,
            false => of_line.min(PATIENCE_MAX_NS),
        };
        let of_vcs =
            self.tolerances
                .least_ns()
                .map(|cdvt_ns| match planted(Planted::RestShapesLate) {
                    true => cdvt_ns.saturating_mul(4),
                    false => cdvt_ns / 4,
                });
        of_vcs.map_or(of_line, |of_vcs| of_vcs.min(of_line))
    }

    pub(super) fn guaranteed_cell_s(&self) -> u64 {
        self.guaranteed_cell_s
    }

    pub(super) fn contention_ns(&self) -> u64 {
        // Of every other guaranteed VC a burst, what is left of its own, and one of best effort or
        // of VBR that is not due.
        let cells = u64::from(self.burst_of_all);
        self.slots.increment().times_ns(cells) + (1 << TICK_BITS)
    }

    /// Gives an idle VC its place.
    #[inline(always)]
    pub(super) fn insert(&mut self, entries: &mut [Entry], now: Time, vc: VcIndex) {
        match &mut entries[usize::from(vc.0)].pace {
            Pace::Guaranteed { shaper, is_vbr, .. } => {
                // Makes no difference to what leaves when, but puts it in order by what it can
                // make good instead of by how long it was idle.
                let floor = now.minus_ns(shaper.shaper().cdvt_ns());
                shaper.catch_up(floor);
                let (next, is_vbr) = (shaper.next(), *is_vbr);
                self.wheel.rebase(now.min(next));
                self.wheel.insert(entries, vc, next);
                if is_vbr {
                    self.insert_bursts(entries, now, vc, floor, next);
                }
            }
            Pace::BestEffort { .. } => {
                self.robin.insert(entries, vc);
                if self.floors > 0 {
                    self.insert_floor(entries, now, vc);
                }
            }
            Pace::Early(_) | Pace::Floor { .. } | Pace::Closed => {}
        }
    }

    /// Gives the floor of a VC of ABR its place, if it has one.
    fn insert_floor(&mut self, entries: &mut [Entry], now: Time, vc: VcIndex) {
        let floor = bursts_of(vc, entries.len());
        if let Pace::Floor { shaper, .. } = &mut entries[usize::from(floor.0)].pace {
            shaper.catch_up(now.minus_ns(shaper.cdvt_ns()));
            let next = shaper.next();
            self.wheel.rebase(now.min(next));
            self.wheel.insert(entries, floor, next);
        }
    }

    /// Charges the floor of a VC of ABR, if it has one, with cells that it has sent. What the rest
    /// of the line has carried beyond the floor is no debt of it.
    fn sent_of_floor(&mut self, entries: &mut [Entry], now: Time, vc: VcIndex, cells: u32) {
        let floor = bursts_of(vc, entries.len());
        let entry = &mut entries[usize::from(floor.0)];
        let Pace::Floor { shaper, .. } = &mut entry.pace else {
            return;
        };
        shaper.emit(now, cells);
        shaper.forgive(now);
        let next = shaper.next();
        if entry.place != Place::Idle {
            self.wheel.remove(entries, floor);
            self.wheel.insert(entries, floor, next);
            self.wheel.bring_near(entries, cells);
        }
    }

    /// Gives the bursts of an idle VC, whose sustained rate has a cell due at `next`, their place.
    fn insert_bursts(
        &mut self,
        entries: &mut [Entry],
        now: Time,
        vc: VcIndex,
        floor: Time,
        next: Time,
    ) {
        let bursts = bursts_of(vc, entries.len());
        if let Pace::Early(early) = &mut entries[usize::from(bursts.0)].pace {
            early.catch_up(floor);
            early.follow(next);
            let from = early.next();
            self.bursts.rebase(now.min(from));
            self.bursts.insert(entries, bursts, from);
        }
    }

    /// Takes a VC from wherever it is.
    #[inline(always)]
    pub(super) fn remove(&mut self, entries: &mut [Entry], vc: VcIndex) {
        if entries[usize::from(vc.0)].is_vbr() {
            self.bursts.remove(entries, bursts_of(vc, entries.len()));
        }
        if self.floors > 0 {
            let floor = bursts_of(vc, entries.len());
            if let Pace::Floor { .. } = entries[usize::from(floor.0)].pace {
                self.wheel.remove(entries, floor);
            }
        }
        match entries[usize::from(vc.0)].place {
            Place::Idle => {}
            Place::Near(_) | Place::Far(_) | Place::Beyond => self.wheel.remove(entries, vc),
            Place::Robin | Place::Returned | Place::Held(_) => self.robin.remove(entries, vc),
        }
    }

    #[inline(always)]
    pub(super) fn grant(
        &mut self,
        entries: &mut [Entry],
        now: Time,
        max_cells: u32,
    ) -> Option<Grant> {
        if max_cells == 0 || !self.slots.due(now) {
            return None;
        }
        if let Some(vc) = self.wheel.due(entries, now) {
            let cells = match &entries[usize::from(vc.0)].pace {
                Pace::Guaranteed { shaper, .. } if max_cells > 1 => {
                    self.guaranteed_run(*shaper, now, max_cells)
                }
                _ => 1,
            };
            // In the wheel are floors, too.
            let vc = match usize::from(vc.0) < entries.len() / 2 {
                true => vc,
                false => owner_of(vc, entries.len()),
            };
            return Some(Grant { vc, cells });
        }
        if self.vbr_vcs > 0
            && let Some(grant) = self.grant_burst(entries, now, max_cells)
        {
            return Some(grant);
        }
        if let Some(vc) = self.robin.first(entries, now) {
            let cells = match &entries[usize::from(vc.0)].pace {
                _ if max_cells == 1 || !self.robin.is_single() => 1,
                Pace::BestEffort {
                    shaper: Some(shaper),
                    ..
                } => self.slots_due(now, shaper.due_cells(now, max_cells).max(1)),
                _ => self.slots_due(now, max_cells),
            };
            return Some(Grant { vc, cells });
        }
        self.slots.catch_up(now);
        None
    }

    /// The VBR VC that may send first though its sustained rate has no cell due, and how many cells
    /// it has in a row.
    fn grant_burst(&mut self, entries: &mut [Entry], now: Time, max_cells: u32) -> Option<Grant> {
        let bursts = self.bursts.due(entries, now)?;
        let vc = owner_of(bursts, entries.len());
        let paces = (
            &entries[usize::from(vc.0)].pace,
            &entries[usize::from(bursts.0)].pace,
        );
        let cells = match paces {
            (Pace::Guaranteed { shaper, .. }, Pace::Early(early)) if max_cells > 1 => {
                self.burst_run(*shaper, *early, now, max_cells)
            }
            _ => 1,
        };
        Some(Grant { vc, cells })
    }

    /// How many cells the burst that is first has in a row: as [`Self::guaranteed_run`].
    fn burst_run(&self, mut shaper: Bursts, mut early: Early, now: Time, max: u32) -> u32 {
        let Some(others) = self.bursts.others_from() else {
            return 1;
        };
        let floor = now.minus_ns(shaper.shaper().cdvt_ns());
        let mut cells = 0;
        loop {
            shaper.emit(now, 1);
            early.emit(floor, 1, shaper.next());
            cells += 1;
            if cells == max || early.next() > now || !Wheel::before(early.next(), others) {
                break;
            }
        }
        self.slots_due(now, cells)
    }

    /// Whether the VC that is first has slots that are not due yet, too.
    pub(super) fn lends(&self, first: &Entry, now: Time, cells: u32) -> bool {
        let Pace::BestEffort { shaper, .. } = &first.pace else {
            return false;
        };
        self.guaranteed_vcs == 0
            && self.robin.is_single()
            && self.slots.increment().times_ns(cells.into()) <= Schedule::LENT_NS
            && shaper.is_none_or(|shaper| shaper.due_cells(now, cells) == cells)
    }

    /// How many slots, `max` at most and 1 at least, are due at `now`.
    #[inline(always)]
    fn slots_due(&self, now: Time, max: u32) -> u32 {
        self.slots.due_cells(now, max).max(1)
    }

    /// How many cells the VC that is due first has in a row: while it is due again at once, and
    /// before any other.
    #[inline(always)]
    fn guaranteed_run(&self, mut shaper: Bursts, now: Time, max: u32) -> u32 {
        shaper.emit(now, 1);
        if !shaper.due(now) {
            return 1;
        }
        let Some(others) = self.wheel.others_from() else {
            return 1;
        };
        let mut cells = 1;
        while cells < max && shaper.due(now) && Wheel::before(shaper.next(), others) {
            shaper.emit(now, 1);
            cells += 1;
        }
        if cells == 1 {
            return 1;
        }
        self.slots_due(now, cells)
    }

    #[inline(always)]
    pub(super) fn sent(&mut self, entries: &mut [Entry], now: Time, vc: VcIndex, cells: u32) {
        self.slots.emit(now, cells);
        let entry = &mut entries[usize::from(vc.0)];
        match (entry.place, &mut entry.pace) {
            (
                Place::Near(_) | Place::Far(_) | Place::Beyond,
                Pace::Guaranteed { shaper, is_vbr, .. },
            ) => {
                shaper.emit(now, cells);
                let (next, is_vbr) = (shaper.next(), *is_vbr);
                self.wheel.remove(entries, vc);
                self.wheel.insert(entries, vc, next);
                self.wheel.bring_near(entries, cells);
                if is_vbr {
                    self.sent_of_vbr(entries, now, vc, cells);
                }
            }
            (Place::Robin | Place::Returned, Pace::BestEffort { shaper, .. }) => {
                if let Some(shaper) = shaper {
                    shaper.emit(now, cells);
                }
                self.robin.sent(entries, vc, cells);
            }
            // Nothing to put in order, but what left counts.
            (Place::Held(_), _) => self.robin.charge_held(entries, now, vc, cells),
            (_, Pace::Guaranteed { shaper, .. }) => {
                shaper.emit(now, cells);
                self.sent_of_vbr(entries, now, vc, cells);
            }
            (
                _,
                Pace::BestEffort {
                    shaper: Some(shaper),
                    ..
                },
            ) => shaper.emit(now, cells),
            (_, Pace::Early(_) | Pace::Floor { .. } | Pace::BestEffort { .. } | Pace::Closed) => {}
        }
        if self.floors > 0 {
            self.sent_of_floor(entries, now, vc, cells);
        }
    }

    /// Charges the bursts of a VC, if it is VBR, with cells that its shaper has been charged with.
    fn sent_of_vbr(&mut self, entries: &mut [Entry], now: Time, vc: VcIndex, cells: u32) {
        let bursts = bursts_of(vc, entries.len());
        let Pace::Guaranteed { shaper, .. } = &entries[usize::from(vc.0)].pace else {
            return;
        };
        let (next, floor) = (shaper.next(), now.minus_ns(shaper.shaper().cdvt_ns()));
        let entry = &mut entries[usize::from(bursts.0)];
        let Pace::Early(early) = &mut entry.pace else {
            return;
        };
        early.emit(floor, cells, next);
        let from = early.next();
        if entry.place != Place::Idle {
            self.bursts.remove(entries, bursts);
            self.bursts.insert(entries, bursts, from);
            self.bursts.bring_near(entries, cells);
        }
    }

    pub(super) fn next_deadline(&self, entries: &[Entry]) -> Option<Time> {
        let slot = self.slots.next();
        if !self.robin.is_empty() {
            return Some(slot);
        }
        let bursts = match self.vbr_vcs {
            0 => None,
            _ => self.bursts.next_deadline(entries),
        };
        let next = [
            self.wheel.next_deadline(entries),
            bursts,
            self.robin.held_until(entries),
        ];
        Some(next.into_iter().flatten().min()?.max(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_line_is_asked_as_often_as_a_fast_one() {
        let patience_ns = |cell_s| {
            let rate = CellRate::new(cell_s).unwrap();
            Line::new(rate, 256, 1).patience_ns(|_| false)
        };
        // 128 slots of 2.83 us.
        assert_eq!(patience_ns(353_207), 362_394);
        assert_eq!(patience_ns(23_585), PATIENCE_MAX_NS);
        assert_eq!(patience_ns(1_000), PATIENCE_MAX_NS);
    }
}
