//! Load that takes all CPUs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, available_parallelism, spawn};

/// Takes all CPUs, each twice, until it is dropped.
pub(crate) struct Spinners(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Spinners {
    pub(crate) fn begin() -> Self {
        let stop = Arc::<AtomicBool>::default();
        let cpus = available_parallelism().map_or(1, usize::from);
        let spin = |_| {
            let stop = Arc::clone(&stop);
            spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..2 * cpus).map(spin).collect();
        Self(stop, threads)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.drain(..).for_each(|one| drop(one.join()));
    }
}
