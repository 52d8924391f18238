//! Holds a real-time worker to the CPU time that was admitted for its connection. What it uses
//! beyond is not kept from it, but comes before nobody else's: it is scheduled like everything
//! else until it has credit again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use cellgate_core::Time;

use crate::clock::{MonotonicClock, thread_cpu_ns};
use crate::meter::Meter;
use crate::sys::{AdapterCpus, Cpus, Duty, ThreadScheduling, take_duty, take_share};

/// How often a worker looks what it has used, in nanoseconds.
const LOOK_NS: u64 = 200_000;

/// No share was told yet.
const UNTOLD: u32 = u32::MAX;

/// A worker's share of a core in millionths, 0 for best effort, and the CPUs that it keeps off, the
/// adapters'. The service thread tells them.
#[derive(Debug)]
pub(super) struct Share {
    ppm: AtomicU32,
    /// How often the CPUs have changed.
    changes: AtomicU32,
    /// The worker never waits for it: if it is held it looks again.
    adapters: Mutex<AdapterCpus>,
}

impl Share {
    pub(super) fn new(adapters: AdapterCpus) -> Self {
        Self {
            ppm: AtomicU32::new(UNTOLD),
            changes: AtomicU32::new(0),
            adapters: Mutex::new(adapters),
        }
    }

    /// Whether it is another.
    pub(super) fn tell(&self, ppm: u32) -> bool {
        let ppm = ppm.min(UNTOLD - 1);
        self.ppm.swap(ppm, Ordering::Relaxed) != ppm
    }

    /// The adapters are on other CPUs.
    pub(super) fn keep_off(&self, adapters: AdapterCpus) {
        *self.adapters.lock().unwrap_or_else(PoisonError::into_inner) = adapters;
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

/// How the calling worker is scheduled.
pub(super) struct Precedence<'a> {
    share: &'a Share,
    cpus: &'a Cpus,
    /// Who is told how it is scheduled, whenever its share is another.
    tell: &'a dyn Fn(ThreadScheduling),
    /// The share that it has now, and how often the adapters' CPUs had changed then.
    has: Option<(u32, u32)>,
    adapters: AdapterCpus,
    /// Only what is real-time is metered.
    meter: Option<Meter>,
    next_look: Time,
    beyond: u64,
}

impl<'a> Precedence<'a> {
    pub(super) fn new(
        share: &'a Share,
        cpus: &'a Cpus,
        tell: &'a dyn Fn(ThreadScheduling),
    ) -> Self {
        Self {
            share,
            cpus,
            tell,
            has: None,
            adapters: AdapterCpus::ANY,
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
        let ppm = self.share.ppm.load(Ordering::Relaxed);
        if ppm == UNTOLD {
            return;
        }
        let told = Some((ppm, self.share.changes.load(Ordering::Relaxed)));
        if self.has != told
            && let Ok(adapters) = self.share.adapters.try_lock()
        {
            self.adapters = *adapters;
            drop(adapters);
            self.has = told;
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
            0 => take_duty(Duty::BestEffort, self.cpus, &self.adapters),
            ppm => take_share(ppm, self.cpus, &self.adapters),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_keeps_off_the_cpu_that_the_adapter_has_by_now() {
        std::thread::spawn(|| {
            let cpus = Cpus::present();
            let all = cpus.list();
            let [.., other, last] = all[..] else {
                return println!("skipped keep_off: one CPU");
            };
            let on = |cpu| AdapterCpus::of([Some(cpu)]);
            let share = Share::new(on(last));
            let told = std::cell::RefCell::new(Vec::new());
            let tell = |scheduling: ThreadScheduling| told.borrow_mut().push(scheduling);
            let mut precedence = Precedence::new(&share, &cpus, &tell);
            share.tell(0);
            precedence.keep();
            share.keep_off(on(other));
            precedence.keep();
            precedence.keep();
            let told = told.borrow();
            let without = |cpu| all.iter().copied().filter(move |one| *one != cpu);
            assert_eq!(told.len(), 2);
            assert_eq!(told[0].cpus, without(last).collect::<Vec<_>>());
            assert_eq!(told[1].cpus, without(other).collect::<Vec<_>>());
            println!("ran keep_off");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_worker_that_uses_more_than_its_share_loses_its_precedence_and_gets_it_back() {
        std::thread::spawn(|| {
            let cpus = Cpus::present();
            let share = Share::new(AdapterCpus::of([cpus.last()]));
            let told = std::cell::RefCell::new(Vec::new());
            let tell = |scheduling: ThreadScheduling| told.borrow_mut().push(scheduling);
            let mut precedence = Precedence::new(&share, &cpus, &tell);
            precedence.keep();
            assert!(told.borrow().is_empty(), "nobody has told a share");
            // However large, a share that was told is one.
            assert!(Share::new(AdapterCpus::ANY).tell(u32::MAX));
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
