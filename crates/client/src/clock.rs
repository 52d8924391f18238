use cellgate_core::Time;
use rustix::time::{ClockId, clock_gettime};

const NS_PER_S: u64 = 1_000_000_000;

/// The present instant of the adapter's clock, `CLOCK_MONOTONIC`.
#[inline]
pub(crate) fn now() -> Time {
    let timespec = clock_gettime(ClockId::Monotonic);
    // Neither field is negative: the clock starts at boot.
    Time::from_ns(timespec.tv_sec as u64 * NS_PER_S + timespec.tv_nsec as u64)
}
