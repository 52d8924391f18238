//! The slots that a contract has given a connection: those with a cell, and those without.

use serde::{Deserialize, Serialize};

use super::charging::{Flaws, Planted, Sound};
use crate::Time;

const NS_PER_S: u128 = 1_000_000_000;

/// How many slots a reserved rate has had, exactly, whatever the rate has been: one every 1 / rate,
/// the first where the rate begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotClock {
    /// Whole slots up to `since`.
    slots: u64,
    /// Numerator of what comes on top, over 10^9.
    rest: u32,
    /// Cells/s since then; 0: nothing is reserved.
    cell_s: u64,
    since: Time,
}

impl SlotClock {
    /// Of `cell_s` cells/s from `now` on.
    pub fn begin(now: Time, cell_s: u64) -> Self {
        Self::begin_with(now, cell_s, &Sound)
    }

    /// The same, perhaps with a bug.
    pub fn begin_with(now: Time, cell_s: u64, flaws: &impl Flaws) -> Self {
        Self {
            slots: u64::from(cell_s > 0 && !flaws.has(Planted::FirstSlotForgotten)),
            rest: 0,
            cell_s,
            since: now,
        }
    }

    /// Slots that have begun until `now`.
    pub fn begun(&self, now: Time) -> u64 {
        self.at(now).0
    }

    /// The same slots, and from `now` on those of another rate. The slot in progress goes on with
    /// the part of it that has passed.
    #[must_use]
    pub fn changed(&self, now: Time, cell_s: u64) -> Self {
        self.changed_with(now, cell_s, &Sound)
    }

    /// The same, perhaps with a bug.
    #[must_use]
    pub fn changed_with(&self, now: Time, cell_s: u64, flaws: &impl Flaws) -> Self {
        let (slots, rest) = self.at(now);
        match slots {
            0 if !flaws.has(Planted::FirstReserveForgotten) => Self::begin_with(now, cell_s, flaws),
            _ => Self {
                slots: match flaws.has(Planted::SlotsTwice) {
                    true => slots + self.slots,
                    false => slots,
                },
                rest: if flaws.has(Planted::PartLost) {
                    0
                } else {
                    rest
                },
                cell_s: match flaws.has(Planted::RateKept) {
                    true => self.cell_s,
                    false => cell_s,
                },
                since: now.max(self.since),
            },
        }
    }

    fn at(&self, now: Time) -> (u64, u32) {
        let passed = u128::from(now.since_ns(self.since)) * u128::from(self.cell_s);
        let sum = passed + u128::from(self.rest);
        let slots = u64::try_from(sum / NS_PER_S).unwrap_or(u64::MAX);
        (self.slots.saturating_add(slots), (sum % NS_PER_S) as u32)
    }
}

/// Slots of one direction of a connection. A slot is occupied by a cell, or it was reserved and no
/// cell came: `occupied() + unoccupied == granted()`, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slots {
    /// Slots of the reserved rate that have begun.
    pub reserved: u64,
    /// Slots with a cell of CLP 0.
    pub clp0: u64,
    /// Slots with a cell of CLP 1.
    pub clp1: u64,
    /// Reserved slots without a cell.
    pub unoccupied: u64,
}

impl Slots {
    /// Of so many reserved slots and so many cells, of which `clp1` have low priority.
    ///
    /// Cells beyond what was reserved until now are a burst ahead of its time, or best effort: they
    /// occupy slots that the line had left.
    pub fn of(reserved: u64, cells: u64, clp1: u64) -> Self {
        Self::of_with(reserved, cells, clp1, &Sound)
    }

    /// The same, perhaps with a bug.
    pub fn of_with(reserved: u64, cells: u64, clp1: u64, flaws: &impl Flaws) -> Self {
        let clp0 = cells.saturating_sub(clp1);
        let (clp0, clp1) = match () {
            () if flaws.has(Planted::PrioritiesMixed) => (clp1, clp0),
            () if flaws.has(Planted::LowPriorityTwice) => (cells, clp1),
            () => (clp0, clp1),
        };
        let occupied = match flaws.has(Planted::LowPriorityUnoccupied) {
            true => clp0,
            false => cells,
        };
        Self {
            reserved,
            clp0,
            clp1,
            unoccupied: match flaws.has(Planted::BurstClippedLate) {
                true => reserved.abs_diff(occupied),
                false => reserved.saturating_sub(occupied),
            },
        }
    }

    /// Those of two directions or connections together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            reserved: self.reserved + other.reserved,
            clp0: self.clp0 + other.clp0,
            clp1: self.clp1 + other.clp1,
            unoccupied: self.unoccupied + other.unoccupied,
        }
    }

    /// Slots with a cell.
    pub const fn occupied(&self) -> u64 {
        self.clp0 + self.clp1
    }

    /// All slots that it was given.
    pub const fn granted(&self) -> u64 {
        self.occupied() + self.unoccupied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Time {
        Time::from_ns(ns)
    }

    /// Counted slot by slot: the n-th begins at n / rate.
    #[test]
    fn slots_begin_every_cell_time_from_the_first_moment_on() {
        let day = 86_400 * 1_000_000_000;
        for (cell_s, ns) in [
            (1, 0),
            (1, 999_999_999),
            (1, 1_000_000_000),
            (3, day),
            (353_207, 2_831),
            (353_207, 2_832),
            (353_207, 1_000_000_001),
            (1_000_000_000, 1_000_001),
        ] {
            let passed = u128::from(ns) * u128::from(cell_s);
            let begun = (0_u64..).take_while(|n| u128::from(*n) * NS_PER_S <= passed);
            let clock = SlotClock::begin(at(5), cell_s);
            let counted = begun.count() as u64;
            assert_eq!(
                clock.begun(at(5 + ns)),
                counted,
                "{cell_s} cells/s, {ns} ns"
            );
        }
    }

    #[test]
    fn no_part_of_a_slot_is_lost_where_the_rate_changes() {
        // A third of a slot at each of 3,000 changes, back and forth between two rates.
        let mut clock = SlotClock::begin(at(0), 1_000);
        for n in 1..=3_000 {
            let cell_s = if n % 2 == 0 { 1_000 } else { 2_000 };
            clock = clock.changed(at(n * 333_333), cell_s);
        }
        // 1,500 spans at each rate, of 333,333 ns.
        let sum: u128 = 1_500 * 333_333 * (1_000 + 2_000);
        assert_eq!(
            clock.begun(at(3_000 * 333_333)),
            (sum / NS_PER_S) as u64 + 1
        );
    }

    #[test]
    fn nothing_is_reserved_without_a_rate_and_a_stopped_rate_has_no_more_slots() {
        let idle = SlotClock::begin(at(7), 0);
        assert_eq!(idle.begun(at(u64::MAX)), 0);
        let begun = idle.changed(at(10), 1);
        assert_eq!(begun.begun(at(10)), 1);
        assert_eq!(begun.begun(at(10 + 999_999_999)), 1);
        let stopped = begun.changed(at(10 + 1_500_000_000), 0);
        assert_eq!(stopped.begun(at(u64::MAX)), 2);
        let resumed = stopped.changed(at(20_000_000_000), 1);
        assert_eq!(resumed.begun(at(20_500_000_000)), 3);
    }

    #[test]
    fn occupied_and_unoccupied_slots_are_all_that_were_granted() {
        for (reserved, cells, clp1) in [(0, 0, 0), (10, 3, 1), (10, 10, 10), (10, 25, 4), (0, 9, 0)]
        {
            let slots = Slots::of(reserved, cells, clp1);
            assert_eq!(slots.occupied(), cells);
            assert_eq!(slots.granted(), cells.max(reserved));
            assert_eq!(slots.clp0 + slots.clp1 + slots.unoccupied, slots.granted());
        }
    }
}
