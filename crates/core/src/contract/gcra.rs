use core::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::CellRate;
use crate::Time;

const NS_PER_S: u64 = 1_000_000_000;

/// The time between two cells at a rate: 10^9 / rate nanoseconds, exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Increment {
    whole_ns: u32,
    /// Numerator of the rest, over `rate`.
    rest: u32,
    rate: NonZeroU32,
}

impl Increment {
    /// The increment of `rate`.
    pub const fn of(rate: CellRate) -> Self {
        let divisor = rate.divisor();
        let rate = divisor.get();
        Self {
            whole_ns: (NS_PER_S / rate as u64) as u32,
            rest: (NS_PER_S % rate as u64) as u32,
            rate: divisor,
        }
    }

    /// Whole nanoseconds that `cells` increments take, rounded up; `u64::MAX` for any longer.
    pub const fn times_ns(self, cells: u64) -> u64 {
        let ns = (cells as u128 * NS_PER_S as u128).div_ceil(self.rate.get() as u128);
        if ns > u64::MAX as u128 {
            u64::MAX
        } else {
            ns as u64
        }
    }

    /// Whole increments in `ns` and `early` / rate nanoseconds; above 2^32, some number above that.
    #[inline(always)]
    pub fn count(self, ns: u64, early: u32) -> u64 {
        let sum = ns.saturating_mul(self.rate.get().into());
        sum.saturating_add(early.into()) / NS_PER_S
    }

    /// Adds `cells` increments to a time that is kept rounded up: `time` less `early` / rate
    /// nanoseconds, `early` below the rate.
    #[inline(always)]
    pub fn add(self, time: &mut Time, early: &mut u32, cells: u32) {
        if cells == 1 {
            let (sooner, borrow) = early.overflowing_sub(self.rest);
            *early = if borrow {
                sooner.wrapping_add(self.rate.get())
            } else {
                sooner
            };
            *time = time.plus_ns(u64::from(self.whole_ns) + u64::from(borrow));
        } else {
            // At most 2^32 * 10^9 < 2^62.
            let sum = u64::from(cells) * NS_PER_S;
            let rate = u64::from(self.rate.get());
            let ns = sum.saturating_sub((*early).into()).div_ceil(rate);
            *time = time.plus_ns(ns);
            // Below the rate, whatever was rounded.
            *early = (ns * rate + u64::from(*early) - sum) as u32;
        }
    }
}

/// The generic cell rate algorithm GCRA(T, tau) of I.371 and TM 4.0, in virtual scheduling form.
///
/// Exact: the theoretical arrival time is kept as nanoseconds, rounded up, and the numerator of
/// what it lies before them. A cell at t conforms if and only if t >= TAT - tau.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gcra {
    tat: Time,
    limit_ns: u64,
    increment: Increment,
    early: u32,
}

impl Gcra {
    /// GCRA(1 / `rate`, `limit_ns`). The first cell always conforms.
    pub const fn new(rate: CellRate, limit_ns: u64) -> Self {
        Self {
            tat: Time::ZERO,
            limit_ns,
            increment: Increment::of(rate),
            early: 0,
        }
    }

    /// The increment T.
    pub const fn increment(&self) -> Increment {
        self.increment
    }

    /// The theoretical arrival time, rounded up.
    pub const fn tat(&self) -> Time {
        self.tat
    }

    /// Whether a cell at `now` would conform. Changes nothing.
    #[inline(always)]
    pub fn conforms(&self, now: Time) -> bool {
        // For a whole number of nanoseconds, TAT and TAT rounded up are the same bound.
        now.plus_ns(self.limit_ns) >= self.tat
    }

    /// Moves the theoretical arrival time up to `arrival` if it lies behind.
    #[inline(always)]
    pub fn catch_up(&mut self, arrival: Time) {
        if arrival >= self.tat {
            self.tat = arrival;
            self.early = 0;
        }
    }

    /// Charges `cells` increments.
    #[inline(always)]
    pub fn charge(&mut self, cells: u32) {
        self.increment.add(&mut self.tat, &mut self.early, cells);
    }

    /// Judges one cell that arrived between `earliest` and `now`, and charges it if it conforms.
    ///
    /// The test takes the later time and the charge the earlier one, so that the judge's own
    /// lateness never counts against the sender. With `earliest == now` this is plain GCRA.
    #[inline(always)]
    pub fn police(&mut self, now: Time, earliest: Time) -> bool {
        let conforms = self.conforms(now);
        if conforms {
            self.catch_up(earliest);
            self.charge(1);
        }
        conforms
    }

    /// The same state under another contract; what was charged stays charged.
    pub fn modify(&mut self, rate: CellRate, limit_ns: u64) {
        *self = Self {
            tat: self.tat(),
            ..Self::new(rate, limit_ns)
        };
    }
}

/// The generic cell rate algorithm by frame, for AAL5: the first cell of a PDU is judged, the cells
/// of an accepted PDU are charged, those of a refused one are not.
///
/// GCRA for each cell, with the rest of a PDU discarded once a cell of it was, would starve a VC
/// that sends too much: at 2.5 times its contract nearly every PDU has a cell too many, and the
/// cells of the damaged PDUs use the contract up. By frame, such a VC keeps its contract.
///
/// The limit is CDVT, plus one PDU of the largest size (a sender may send it at line rate, and it
/// is charged as a whole), plus the link's clump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameGcra {
    gcra: Gcra,
}

impl FrameGcra {
    /// F-GCRA(1 / `rate`, limit), limit = `cdvt_ns` + (`max_cells` + `clump_cells` - 1) / `rate`,
    /// rounded up to a nanosecond.
    ///
    /// `max_cells`: cells of the largest PDU ([`aal5_cells`](super::aal5_cells) of max_sdu).
    /// `clump_cells`: cells that the link may deliver at once though they were sent one by one; 1
    /// for none.
    pub const fn new(rate: CellRate, cdvt_ns: u64, max_cells: u32, clump_cells: u32) -> Self {
        Self {
            gcra: Gcra::new(rate, Self::limit_ns(rate, cdvt_ns, max_cells, clump_cells)),
        }
    }

    const fn limit_ns(rate: CellRate, cdvt_ns: u64, max_cells: u32, clump_cells: u32) -> u64 {
        let cells = max_cells as u64 + clump_cells.saturating_sub(1) as u64;
        cdvt_ns.saturating_add(Increment::of(rate).times_ns(cells))
    }

    /// How early a frame may be.
    pub const fn tolerance_ns(&self) -> u64 {
        self.gcra.limit_ns
    }

    /// The increment T of one cell.
    pub const fn increment(&self) -> Increment {
        self.gcra.increment()
    }

    /// The theoretical arrival time of the next PDU, rounded up.
    pub const fn tat(&self) -> Time {
        self.gcra.tat()
    }

    /// Whether a PDU whose first cell arrives at `now` would conform. Changes nothing.
    #[inline(always)]
    pub fn conforms(&self, now: Time) -> bool {
        self.gcra.conforms(now)
    }

    /// Judges the first cell of a PDU that arrived between `earliest` and `now`. If it conforms,
    /// the PDU's cells are to be charged as they are known: see [`charge`](Self::charge).
    #[inline(always)]
    pub fn begin(&mut self, now: Time, earliest: Time) -> bool {
        let conforms = self.conforms(now);
        if conforms {
            self.gcra.catch_up(earliest);
        }
        conforms
    }

    /// Moves the theoretical arrival time up to `arrival` if it lies behind.
    #[inline(always)]
    pub fn catch_up(&mut self, arrival: Time) {
        self.gcra.catch_up(arrival);
    }

    /// Charges `cells` of an accepted PDU, whatever became of it later.
    #[inline(always)]
    pub fn charge(&mut self, cells: u32) {
        self.gcra.charge(cells);
    }

    /// Takes over what `old` has charged, at `now`: its theoretical arrival time, but no more time
    /// than the same cells take at this rate. Else a PDU that was charged at 1 cell/s would keep
    /// the connection shut for seconds, whatever it has been given since.
    pub fn carry_over(&mut self, now: Time, old: &Self) {
        let tat = old.tat();
        let (before, after) = (old.increment().rate.get(), self.increment().rate.get());
        if after <= before {
            return self.catch_up(tat);
        }
        let owed = u128::from(tat.since_ns(now)) * u128::from(before);
        // Less than it was: the rate is higher.
        let owed_ns = owed.div_ceil(u128::from(after)) as u64;
        self.catch_up(tat.min(now.plus_ns(owed_ns)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Vectors whose T is 4.5 link slots: no whole number of cells a second gives it, so they are
    // tested here, where an increment can be made of anything.
    const SLOT_NS: u64 = 1_000;

    fn four_and_a_half_slots(limit_half_slots: u64) -> Gcra {
        Gcra {
            tat: Time::ZERO,
            limit_ns: limit_half_slots * SLOT_NS / 2,
            increment: Increment {
                whole_ns: 4_500,
                rest: 0,
                rate: NonZeroU32::MIN,
            },
            early: 0,
        }
    }

    fn greedy_slots(mut gcra: Gcra, slots: u64) -> Vec<u64> {
        (0..slots)
            .filter(|slot| {
                let now = Time::from_ns(slot * SLOT_NS);
                gcra.police(now, now)
            })
            .collect()
    }

    #[test]
    fn clumps_as_the_examples_of_uni_3_1() {
        let greedy = |limit| greedy_slots(four_and_a_half_slots(limit), 30);
        assert_eq!(greedy(1), [0, 4, 9, 13, 18, 22, 27]);
        assert_eq!(greedy(3), [0, 3, 8, 12, 17, 21, 26]);
        assert_eq!(greedy(7), [0, 1, 6, 10, 15, 19, 24, 28]);
        assert_eq!(greedy(14), [0, 1, 2, 7, 11, 16, 20, 25, 29]);
    }
}
