//! Holds a real-time worker to the CPU time that was admitted for its connection. What it uses
//! beyond is not kept from it, but comes before nobody else's: it is scheduled like everything
//! else until it has credit again.

use std::sync::atomic::{AtomicU32, Ordering};

use cellgate_core::Time;

use crate::clock::{MonotonicClock, thread_cpu_ns};
use crate::meter::Meter;
use crate::sys::{Cpus, Duty, ThreadScheduling, take_duty, take_share};

/// How often a worker looks what it has used, in nanoseconds.
const LOOK_NS: u64 = 200_000;

/// No share was told yet.
const UNTOLD: u32 = u32::MAX;

/// A worker's share of a core in millionths, 0 for best effort. The service thread tells it.
#[derive(Debug)]
pub(super) struct Share(AtomicU32);

impl Share {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(UNTOLD))
    }

    /// Whether it is another.
    pub(super) fn tell(&self, ppm: u32) -> bool {
        let ppm = ppm.min(UNTOLD - 1);
        self.0.swap(ppm, Ordering::Relaxed) != ppm
    }
}

/// How the calling worker is scheduled.
pub(super) struct Precedence<'a> {
    share: &'a Share,
    cpus: &'a Cpus,
    /// The adapter's CPU.
    adapter: Option<usize>,
    /// Who is told how it is scheduled, whenever its share is another.
    tell: &'a dyn Fn(ThreadScheduling),
    /// The share that it has now.
    ppm: Option<u32>,
    /// Only what is real-time is metered.
    meter: Option<Meter>,
    next_look: Time,
    beyond: u64,
}

impl<'a> Precedence<'a> {
    pub(super) fn new(
        share: &'a Share,
        cpus: &'a Cpus,
        adapter: Option<usize>,
        tell: &'a dyn Fn(ThreadScheduling),
    ) -> Self {
        Self {
            share,
            cpus,
            adapter,
            tell,
            ppm: None,
            meter: None,
            next_look: Time::ZERO,
            beyond: 0,
        }
    }

    /// How often it had used more than its share.
    pub(super) fn beyond(&self) -> u64 {
        self.beyond
    }

    /// To be called now and then, by the worker: looks at its share, and at what it has used.
    pub(super) fn keep(&mut self) {
        let ppm = self.share.0.load(Ordering::Relaxed);
        if ppm == UNTOLD {
            return;
        }
        if self.ppm != Some(ppm) {
            self.ppm = Some(ppm);
            let scheduling = self.take(ppm);
            self.meter = scheduling
                .is_real_time()
                .then(|| Meter::new(ppm, MonotonicClock.now(), thread_cpu_ns()));
            (self.tell)(scheduling);
            return;
        }
        let now = MonotonicClock.now();
        if now < self.next_look {
            return;
        }
        self.next_look = now.plus_ns(LOOK_NS);
        let Some(mut meter) = self.meter else {
            return;
        };
        let was_within = meter.is_within();
        match (was_within, meter.charge(now, thread_cpu_ns())) {
            (true, false) => {
                self.beyond += 1;
                self.take(0);
            }
            // It has had this before.
            (false, true) => drop(self.take(ppm)),
            _ => {}
        }
        self.meter = Some(meter);
    }

    fn take(&self, ppm: u32) -> ThreadScheduling {
        match ppm {
            0 => take_duty(Duty::BestEffort, self.cpus, self.adapter),
            ppm => take_share(ppm, self.cpus, self.adapter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_uses_more_than_its_share_loses_its_precedence_and_gets_it_back() {
        std::thread::spawn(|| {
            let cpus = Cpus::present();
            let share = Share::new();
            let told = std::cell::RefCell::new(Vec::new());
            let tell = |scheduling: ThreadScheduling| told.borrow_mut().push(scheduling);
            let mut precedence = Precedence::new(&share, &cpus, cpus.last(), &tell);
            precedence.keep();
            assert!(told.borrow().is_empty(), "nobody has told a share");
            // However large, a share that was told is one.
            assert!(Share::new().tell(u32::MAX));
            assert!(share.tell(0));
            precedence.keep();
            assert!(!told.borrow()[0].is_real_time(), "no share, no precedence");
            assert!(share.tell(20_000) && !share.tell(20_000));
            precedence.keep();
            assert_eq!(told.borrow().len(), 2);
            if !told.borrow()[1].is_real_time() {
                return println!("skipped share: {}", told.borrow()[1]);
            }
            let real_time = || {
                std::fs::read_to_string("/proc/thread-self/sched").map_or(0, |s| {
                    let line = s.lines().find(|line| line.starts_with("policy"));
                    let value = line.and_then(|line| line.split(':').nth(1));
                    value
                        .and_then(|value| value.trim().parse().ok())
                        .unwrap_or(0)
                })
            };
            assert_ne!(real_time(), libc::SCHED_OTHER);
            while precedence.beyond() == 0 {
                precedence.keep();
            }
            assert_eq!(real_time(), libc::SCHED_OTHER);
            while real_time() == libc::SCHED_OTHER {
                std::thread::sleep(std::time::Duration::from_millis(1));
                precedence.keep();
            }
            assert_eq!((precedence.beyond(), told.borrow().len()), (1, 2));
            println!("ran share");
        })
        .join()
        .unwrap();
    }
}
