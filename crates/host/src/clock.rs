//! The one clock of everything live, and what CPU time was used.

use cellgate_core::Time;
use rustix::time::{ClockId, clock_gettime};

/// The clock of everything live: `CLOCK_MONOTONIC`, so that instants of different processes on one
/// machine compare. Reading it makes no system call where the kernel offers a vDSO.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl MonotonicClock {
    /// The present instant.
    #[inline]
    pub fn now(self) -> Time {
        let timespec = clock_gettime(ClockId::Monotonic);
        // Neither field is negative: the clock starts at boot.
        Time::from_ns(timespec.tv_sec as u64 * 1_000_000_000 + timespec.tv_nsec as u64)
    }
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    cpu_ns(ClockId::ThreadCPUTime)
}

/// CPU time of this process, all threads, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    cpu_ns(ClockId::ProcessCPUTime)
}

fn cpu_ns(clock: ClockId) -> u64 {
    let timespec = clock_gettime(clock);
    timespec.tv_sec as u64 * 1_000_000_000 + timespec.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_goes_backwards() {
        let mut last = MonotonicClock.now();
        for _ in 0..10_000 {
            let now = MonotonicClock.now();
            assert!(now >= last);
            last = now;
        }
        assert!(last.ns() > 0);
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let (thread, process) = (thread_cpu_ns(), process_cpu_ns());
        let mut x = 1u64;
        while thread_cpu_ns() == thread || process_cpu_ns() == process {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::hint::black_box(x);
        }
    }
}
