use serde::{Deserialize, Serialize};

use super::robin::Robin;
use super::tolerances::Tolerances;
use super::wheel::{TICK_BITS, Wheel};
use super::{Entry, Grant, Pace, Place, Schedule};
use crate::Time;
use crate::adapter::{Planted, VcIndex};
use crate::contract::{Bursts, CellRate, Increment, Shaper};

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
    robin: Robin,
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
            robin: Robin::new(vcs),
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
        }
        if let Some(shaper) = vc.shaper() {
            self.burst_of_all -= vc.burst();
            self.tolerances.remove(shaper.cdvt_ns());
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
        // Of every other guaranteed VC a burst, what is left of its own, and one of best effort.
        let cells = u64::from(self.burst_of_all);
        self.slots.increment().times_ns(cells) + (1 << TICK_BITS)
    }

    /// Gives an idle VC its place.
    #[inline(always)]
    pub(super) fn insert(&mut self, entries: &mut [Entry], now: Time, vc: VcIndex) {
        match &mut entries[usize::from(vc.0)].pace {
            Pace::Guaranteed { shaper, .. } => {
                // Makes no difference to what leaves when, but puts it in order by what it can
                // make good instead of by how long it was idle.
                shaper.catch_up(now.minus_ns(shaper.shaper().cdvt_ns()));
                let next = shaper.next();
                self.wheel.rebase(now.min(next));
                self.wheel.insert(entries, vc, next);
            }
            Pace::BestEffort { .. } => self.robin.insert(entries, vc),
            Pace::Closed => {}
        }
    }

    /// Takes a VC from wherever it is.
    #[inline(always)]
    pub(super) fn remove(&mut self, entries: &mut [Entry], vc: VcIndex) {
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
            return Some(Grant { vc, cells });
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
            (Place::Near(_) | Place::Far(_) | Place::Beyond, Pace::Guaranteed { shaper, .. }) => {
                shaper.emit(now, cells);
                let next = shaper.next();
                self.wheel.remove(entries, vc);
                self.wheel.insert(entries, vc, next);
                self.wheel.bring_near(entries, cells);
            }
            (Place::Robin | Place::Returned, Pace::BestEffort { shaper, .. }) => {
                if let Some(shaper) = shaper {
                    shaper.emit(now, cells);
                }
                self.robin.sent(entries, vc, cells);
            }
            // Nothing to put in order, but what left counts.
            (Place::Held(_), _) => self.robin.charge_held(entries, now, vc, cells),
            (_, Pace::Guaranteed { shaper, .. }) => shaper.emit(now, cells),
            (
                _,
                Pace::BestEffort {
                    shaper: Some(shaper),
                    ..
                },
            ) => shaper.emit(now, cells),
            (_, Pace::BestEffort { .. } | Pace::Closed) => {}
        }
    }

    pub(super) fn next_deadline(&self, entries: &[Entry]) -> Option<Time> {
        let slot = self.slots.next();
        if !self.robin.is_empty() {
            return Some(slot);
        }
        let guaranteed = self.wheel.next_deadline(entries);
        let held = self.robin.held_until(entries);
        let next = match (guaranteed, held) {
            (Some(guaranteed), Some(held)) => guaranteed.min(held),
            (guaranteed, held) => guaranteed.or(held)?,
        };
        Some(next.max(slot))
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
