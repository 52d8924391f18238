//! Virtual time: picoseconds, and sequences of instants that drift by nothing.

use std::num::NonZeroU64;

use cellgate_core::Time;
use cellgate_core::contract::CellRate;
use serde::{Deserialize, Serialize};

const PS_PER_S: u64 = 1_000_000_000_000;
/// Bits of a cell on a line.
const CELL_BITS: u64 = 424;

/// An instant of virtual time, or a span of it: picoseconds (213 days fit).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Ps(u64);

impl Ps {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(u64::MAX);

    /// So many picoseconds.
    pub const fn new(ps: u64) -> Self {
        Self(ps)
    }

    /// So many nanoseconds (the end of time if there are not so many).
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns.saturating_mul(1_000))
    }

    /// Picoseconds.
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds, rounded down.
    pub const fn ns(self) -> u64 {
        self.0 / 1_000
    }

    /// As the core counts it, rounded down.
    pub const fn time(self) -> Time {
        Time::from_ns(self.ns())
    }

    /// Later by `span` (the end of time if there is no such instant).
    pub const fn plus(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// From `earlier` to here; nothing if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The first multiple of `grid` that is not earlier.
    pub const fn round_up(self, grid: Self) -> Self {
        Self(self.0.div_ceil(grid.0).saturating_mul(grid.0))
    }
}

/// The time from one cell to the next: a whole number of picoseconds and a proper fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    whole: u64,
    part: u64,
    of: NonZeroU64,
}

impl Interval {
    /// `numerator / denominator` picoseconds; a denominator of 0 counts as 1.
    const fn ratio(numerator: u64, denominator: u64) -> Self {
        let of = match NonZeroU64::new(denominator) {
            Some(of) => of,
            None => NonZeroU64::MIN,
        };
        Self {
            whole: numerator / of.get(),
            part: numerator % of.get(),
            of,
        }
    }

    /// At so many cells per second.
    pub const fn of_rate(rate: CellRate) -> Self {
        Self::ratio(PS_PER_S, rate.cell_s() as u64)
    }

    /// Of cells of 53 octets on a line of so many bit/s.
    pub const fn of_line(bit_s: u64) -> Self {
        Self::ratio(CELL_BITS * PS_PER_S, bit_s)
    }

    /// Cells per second, rounded down.
    pub(crate) fn rate(self) -> CellRate {
        let cells = PS_PER_S / self.ps().max(1);
        let rate = u32::try_from(cells).ok().and_then(CellRate::new);
        rate.unwrap_or(CellRate::OC3)
    }

    /// At twice the rate.
    pub(crate) const fn halved(self) -> Self {
        let part = self.part + self.whole % 2 * self.of.get();
        let of = self.of.saturating_mul(NonZeroU64::MIN.saturating_add(1));
        Self {
            whole: self.whole / 2 + part / of.get(),
            part: part % of.get(),
            of,
        }
    }

    /// At half the rate.
    pub(crate) const fn doubled(self) -> Self {
        let part = 2 * self.part;
        Self {
            whole: 2 * self.whole + part / self.of.get(),
            part: part % self.of.get(),
            of: self.of,
        }
    }

    /// Rounded down.
    pub const fn ps(self) -> u64 {
        self.whole
    }

    /// `n` intervals, rounded down.
    pub const fn times(self, n: u64) -> Ps {
        let part = self.part as u128 * n as u128 / self.of.get() as u128;
        Ps(self.whole.saturating_mul(n).saturating_add(part as u64))
    }

    /// How many intervals begin in `span`.
    pub const fn begun_in(self, span: Ps) -> u64 {
        if span.0 == 0 {
            return 0;
        }
        let exact = self.whole as u128 * self.of.get() as u128 + self.part as u128;
        (span.0 as u128 * self.of.get() as u128).div_ceil(exact) as u64
    }
}

/// An instant that moves on by intervals, its fraction of a picosecond kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    at: Ps,
    part: u64,
}

impl Pace {
    /// From this instant on.
    pub const fn from(at: Ps) -> Self {
        Self { at, part: 0 }
    }

    /// The instant, rounded down.
    pub const fn at(self) -> Ps {
        self.at
    }

    /// One interval later.
    pub const fn advance(&mut self, by: Interval) {
        self.at.0 = self.at.0.saturating_add(by.whole);
        self.part += by.part;
        if self.part >= by.of.get() {
            self.part -= by.of.get();
            self.at.0 = self.at.0.saturating_add(1);
        }
    }

    /// Not before `at`.
    pub const fn wait_for(&mut self, at: Ps) {
        if self.at.0 < at.0 {
            *self = Self::from(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_drifts_by_nothing() {
        let line = Interval::of_line(149_760_000);
        let mut pace = Pace::from(Ps::ZERO);
        // So many cells take exactly 424 seconds.
        for _ in 0..149_760 {
            pace.advance(line);
        }
        assert_eq!(pace, Pace::from(Ps::new(424 * PS_PER_S / 1_000)));
        assert_eq!(line.times(149_760), pace.at());
        assert_eq!(line.halved().times(2 * 149_760), pace.at());
    }

    #[test]
    fn intervals_that_begin_in_a_span_are_counted_whole() {
        let line = Interval::of_line(424);
        assert_eq!(line.ps(), PS_PER_S);
        for (span, begun) in [(0, 0), (1, 1), (PS_PER_S, 1), (PS_PER_S + 1, 2)] {
            assert_eq!(line.begun_in(Ps::new(span)), begun, "{span}");
        }
    }

    #[test]
    fn waiting_forgets_the_fraction_and_never_goes_back() {
        let mut pace = Pace::from(Ps::new(5));
        pace.advance(Interval::ratio(10, 3));
        pace.wait_for(Ps::new(7));
        assert_eq!((pace.at, pace.part), (Ps::new(8), 1));
        pace.wait_for(Ps::new(9));
        assert_eq!(pace, Pace::from(Ps::new(9)));
        assert_eq!(Ps::new(21).round_up(Ps::new(10)), Ps::new(30));
    }
}
