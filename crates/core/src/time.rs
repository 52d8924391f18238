#![warn(missing_docs)]

use serde::{Deserialize, Serialize};

/// An instant: nanoseconds since the start of some monotonic clock (584 years fit).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time {
    ns: u64,
}

impl Time {
    /// The start of the clock.
    pub const ZERO: Self = Self { ns: 0 };

    /// The instant `ns` nanoseconds after the clock's start.
    #[inline(always)]
    pub const fn from_ns(ns: u64) -> Self {
        Self { ns }
    }

    /// Nanoseconds since the clock's start.
    #[inline(always)]
    pub const fn ns(self) -> u64 {
        self.ns
    }

    /// The instant `ns` nanoseconds later (the end of time if there is none).
    #[inline(always)]
    pub const fn plus_ns(self, ns: u64) -> Self {
        Self {
            ns: self.ns.saturating_add(ns),
        }
    }

    /// The instant `ns` nanoseconds earlier (the clock's start if there is none).
    #[inline(always)]
    pub const fn minus_ns(self, ns: u64) -> Self {
        Self {
            ns: self.ns.saturating_sub(ns),
        }
    }

    /// Nanoseconds from `earlier` to here, 0 if `earlier` is later.
    #[inline(always)]
    pub const fn since_ns(self, earlier: Self) -> u64 {
        self.ns.saturating_sub(earlier.ns)
    }
}
