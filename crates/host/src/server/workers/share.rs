//! Holds a real-time worker to the CPU time that was admitted for its connection. What it uses
//! beyond is not kept from it, but comes before nobody else's: it is scheduled like everything
//! else until it has credit again.

use std::sync::atomic::{AtomicU32, Ordering};

use cellgate_core::Time;

use crate::clock::{MonotonicClock, thread_cpu_ns};
use crate::sys::{Cpus, Duty, RESERVED_PERIOD_NS, ThreadScheduling, take_duty, take_share};

/// How often a worker looks what it has used, in nanoseconds.
const LOOK_NS: u64 = 200_000;
/// What a worker may use at once: its share of so long, and a burst of packets beside.
const BURST_NS: u64 = 5 * RESERVED_PERIOD_NS;
const BURST_MIN_NS: i64 = 500_000;

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

/// What a share comes to in CPU time.
#[derive(Clone, Copy, Debug)]
struct Meter {
    ppm: u32,
    /// Below 0: what it has used too much, which is charged against what it earns next.
    credit_ns: i64,
    at: Time,
    used_ns: u64,
    within: bool,
}

impl Meter {
    fn new(ppm: u32, at: Time, used_ns: u64) -> Self {
        let mut meter = Self {
            ppm,
            credit_ns: 0,
            at,
            used_ns,
            within: true,
        };
        meter.credit_ns = meter.burst_ns();
        meter
    }

    fn earned_ns(&self, elapsed_ns: u64) -> i64 {
        let earned = u128::from(elapsed_ns) * u128::from(self.ppm) / 1_000_000;
        i64::try_from(earned).unwrap_or(i64::MAX)
    }

    fn burst_ns(&self) -> i64 {
        self.earned_ns(BURST_NS).max(BURST_MIN_NS)
    }

    /// Whether the worker is within its share, its CPU clock showing `used_ns`. What it uses while
    /// it is beyond is not charged; it is within again when it has half a burst.
    fn charge(&mut self, now: Time, used_ns: u64) -> bool {
        let used = used_ns.saturating_sub(self.used_ns);
        let earned = self.earned_ns(now.since_ns(self.at));
        self.credit_ns = self.credit_ns.saturating_add(earned).min(self.burst_ns());
        (self.at, self.used_ns) = (now, used_ns);
        if self.within {
            let used = i64::try_from(used).unwrap_or(i64::MAX);
            self.credit_ns = self.credit_ns.saturating_sub(used);
            self.within = self.credit_ns >= 0;
        } else {
            self.within = self.credit_ns >= self.burst_ns() / 2;
        }
        self.within
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
        let was_within = meter.within;
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

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Time {
        Time::from_ns(1_000_000_000 + ms * MS)
    }

    #[test]
    fn who_uses_its_share_is_within_for_ever_and_who_uses_more_is_beyond() {
        let ppm = 100_000;
        let mut steady = Meter::new(ppm, at(0), 7);
        assert!((1..10_000).all(|ms| steady.charge(at(ms), 7 + ms * MS / 10)));
        // Twice its share: it has precedence for what it was promised, half of what it uses.
        let mut greedy = Meter::new(ppm, at(0), 0);
        let (mut used_within, mut changes, mut last) = (0, 0, true);
        for ms in 1..10_000 {
            let within = greedy.charge(at(ms), ms * MS / 5);
            changes += u32::from(within != last);
            used_within += if last { MS / 5 } else { 0 };
            last = within;
        }
        let share = 10_000 * MS / 10;
        let burst = greedy.burst_ns().cast_unsigned();
        assert!(used_within.abs_diff(share) <= 2 * burst, "{used_within}");
        assert!(changes > 100, "{changes}");
    }

    #[test]
    fn idle_time_is_worth_a_burst_and_no_more() {
        let mut meter = Meter::new(50_000, at(0), 0);
        let burst = meter.burst_ns();
        let used = |ns: i64| ns.cast_unsigned();
        assert_eq!(used(burst), BURST_NS / 20);
        assert!(meter.charge(at(60_000), used(burst)));
        assert!(!meter.charge(at(60_000), used(burst + 20)));
        let beyond = meter.charge(at(60_000), used(9 * burst));
        assert!(
            !beyond && meter.credit_ns == -20,
            "no more is charged beyond"
        );
        let half = at(60_000).plus_ns(BURST_NS / 2);
        assert!(!meter.charge(half, used(9 * burst)));
        assert!(meter.charge(half.plus_ns(20 * 20), used(9 * burst)));
        assert_eq!(Meter::new(1, at(0), 0).burst_ns(), BURST_MIN_NS);
    }

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
