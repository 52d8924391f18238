//! How far the two CPUs are from each other.

use std::sync::atomic::{AtomicU64, Ordering};

use cellgate_host::sys::pin_thread;

use super::turns::Cpus;
use crate::commands::bench::measure::{Spread, ticks};

const TRIPS: u64 = 500;

#[repr(align(128))]
struct Line(AtomicU64);

/// Median ticks of a round trip of a word between threads that spin.
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
        match cpus.first == cpus.last {
            true => std::thread::yield_now(),
            false => std::hint::spin_loop(),
        }
    }
}
