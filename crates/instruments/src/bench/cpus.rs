//! The two CPUs of a bench, and how far they are from each other.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use cellgate_host::sys::{Scheduling, SchedulingRequest, allowed_cpus, pin_thread, schedule};

use super::measure::ticks;
use crate::live::spread::Spread;

/// The CPUs of a run. A machine with one has it twice.
#[derive(Clone, Copy)]
pub(super) struct Cpus {
    /// The bench's own thread's.
    pub(super) first: usize,
    /// The adapter's, or that of a peer.
    pub(super) last: usize,
}

impl Cpus {
    /// The first and the last that this thread may use.
    pub(super) fn allowed() -> anyhow::Result<Self> {
        let cpus = allowed_cpus();
        let ends = cpus.first().copied().zip(cpus.last().copied());
        let (first, last) = ends.context("the allowed CPUs are unknown")?;
        Ok(Self { first, last })
    }

    /// Whether there are two.
    pub(super) fn are_two(self) -> bool {
        self.first != self.last
    }
}

/// Takes the adapter's nice value where that can be had, so that whoever else uses this machine
/// disturbs all who are measured as little.
pub(super) fn be_prompt() -> Scheduling {
    schedule(&SchedulingRequest {
        pin: false,
        own_session: false,
        lock_memory: false,
        ..SchedulingRequest::default()
    })
}

const TRIPS: u64 = 500;

#[repr(align(128))]
struct Line(AtomicU64);

/// Median ticks of a round trip of a word between threads that spin: this one, which is on the
/// first CPU, and one on the last.
pub(super) fn round_trip(cpus: Cpus) -> f64 {
    let (there, back) = (Line(AtomicU64::new(0)), Line(AtomicU64::new(0)));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Where both are on one CPU, the other yields, too.
            let _ = pin_thread(cpus.last);
            for trip in 1..=TRIPS {
                await_word(&there, trip, cpus);
                back.0.store(trip, Ordering::Release);
            }
        });
        let mut trips = Vec::new();
        for trip in 1..=TRIPS {
            let from = ticks();
            there.0.store(trip, Ordering::Release);
            await_word(&back, trip, cpus);
            trips.push((ticks() - from) as f64);
        }
        Spread::of(trips).median
    })
}

fn await_word(line: &Line, word: u64, cpus: Cpus) {
    while line.0.load(Ordering::Acquire) != word {
        match cpus.are_two() {
            true => std::hint::spin_loop(),
            false => std::thread::yield_now(),
        }
    }
}
