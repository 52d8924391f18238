//! A watch for idle CPUs, whose time the server lends (*Policing Offloaded*, section 7.3).
//!
//! A thread of the class SCHED_IDLE gets a CPU when no other thread wants it, and now and then a
//! moment beside others. This one sleeps, and if it then runs without delay, and the kernel has
//! counted idle time of its CPUs lately, a CPU was idle. Under load it comes late, nothing is
//! counted, and what was lent runs out. It takes no lock: who waits for one would wait for an idle
//! CPU.
//!
//! ```text
//!  service thread               cg-idle
//!  watch: borrowers?  --------> sleep, run: late? idle time counted?
//!  found: Idleness    <--bell-- a CPU was idle just now
//! ```

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, sleep};
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::server::Idleness;
use cellgate_shm::wake_descriptor;

use crate::adapter::wake::{ring, silence};
use crate::clock::MonotonicClock;
use crate::sys::{AdapterCpus, Cpus, allowed_cpus, name_thread, take_idle};

/// From one look to the next.
const PAUSE_NS: u64 = 4_000_000;
/// A thread that an idle CPU wakes comes no later.
const LATE_MAX_NS: u64 = 1_000_000;
/// The kernel counts idle time in hundredths of a second (proc_stat(5)): one, and a look.
const RECENT_NS: u64 = 14_000_000;
/// A lease outlives the next look by so much: it is over 8 ms after it was given.
const BEYOND_NS: u64 = 4_000_000;
/// Lent of the time from one look to the next, where no thread has waited for a CPU lately: the
/// rest is for whoever comes.
const LENT_NS: u64 = PAUSE_NS / 2;
/// Looks from one at the pressure to the next.
const PRESSURE_LOOKS: u32 = 250;

/// The thread, as the service thread has it.
pub(super) struct IdleWatch {
    cpus: Cpus,
    adapters: AdapterCpus,
    bell: Arc<OwnedFd>,
    /// None: nobody borrows.
    shared: Option<Arc<Shared>>,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    /// When a CPU was idle last, in nanoseconds; 0: not since that was asked.
    idle_at: AtomicU64,
    lent_ns: AtomicU64,
}

impl IdleWatch {
    /// Nobody watches yet.
    pub(super) fn new(cpus: Cpus) -> std::io::Result<Self> {
        Ok(Self {
            cpus,
            adapters: AdapterCpus::ANY,
            bell: Arc::new(wake_descriptor().map_err(std::io::Error::other)?),
            shared: None,
        })
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The adapters are on these CPUs: nobody else is looked for there.
    pub(super) fn keep_off(&mut self, adapters: AdapterCpus) {
        if adapters != self.adapters {
            self.adapters = adapters;
            self.stop();
        }
    }

    /// Watches as long as somebody borrows.
    pub(super) fn watch(&mut self, has_borrowers: bool) {
        if !has_borrowers {
            return self.stop();
        }
        if self.shared.is_some() {
            return;
        }
        let shared = Arc::new(Shared::default());
        let thread = Thread {
            shared: Arc::clone(&shared),
            bell: Arc::clone(&self.bell),
            pressure: File::open("/proc/pressure/cpu").ok(),
            counted: Counted::default(),
        };
        let (cpus, adapters) = (self.cpus.clone(), self.adapters);
        let begun = Builder::new()
            .name("idle".to_owned())
            .spawn(move || thread.run(&cpus, &adapters));
        // Without a thread nothing is lent; the next look tries again.
        self.shared = begun.is_ok().then_some(shared);
    }

    fn stop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.ends.store(true, Ordering::Relaxed);
        }
    }

    /// Idle time to lend, found since this was asked last.
    pub(super) fn found(&self) -> Option<Idleness> {
        silence(&self.bell);
        let shared = self.shared.as_ref()?;
        let at = shared.idle_at.swap(0, Ordering::Relaxed);
        (at > 0).then(|| Idleness {
            ns: shared.lent_ns.load(Ordering::Relaxed),
            until: Time::from_ns(at).plus_ns(PAUSE_NS + BEYOND_NS),
        })
    }
}

impl Drop for IdleWatch {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Thread {
    shared: Arc<Shared>,
    bell: Arc<OwnedFd>,
    /// None: this kernel does not tell.
    pressure: Option<File>,
    counted: Counted,
}

/// Idle time as the kernel counts it.
#[derive(Default)]
struct Counted {
    /// None: this kernel does not tell.
    stat: Option<File>,
    cpus: Vec<usize>,
    ticks: u64,
    /// When more was counted last.
    at: Time,
}

impl Counted {
    /// Of the CPUs of the calling thread.
    fn begin() -> Self {
        let mut counted = Self {
            stat: File::open("/proc/stat").ok(),
            cpus: allowed_cpus(),
            ..Self::default()
        };
        counted.ticks = counted.read().unwrap_or(0);
        counted
    }

    fn read(&mut self) -> Option<u64> {
        let (stat, mut text) = (self.stat.as_mut()?, String::new());
        stat.rewind().ok()?;
        stat.read_to_string(&mut text).ok()?;
        Some(idle_ticks(&text, &self.cpus))
    }

    /// Whether some was counted lately.
    fn is_recent(&mut self, now: Time) -> bool {
        let ticks = self.read().unwrap_or(self.ticks);
        if ticks > self.ticks {
            (self.ticks, self.at) = (ticks, now);
        }
        now.since_ns(self.at) <= RECENT_NS
    }
}

/// The idle time of these CPUs together, in hundredths of a second.
fn idle_ticks(stat: &str, cpus: &[usize]) -> u64 {
    let of = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let cpu = words.next()?.parse().ok()?;
        let idle: u64 = words.nth(3)?.parse().ok()?;
        cpus.contains(&cpu).then_some(idle)
    };
    let lines = stat.lines().skip(1);
    lines
        .map_while(|line| line.starts_with("cpu").then(|| of(line).unwrap_or(0)))
        .sum()
}

impl Thread {
    fn run(mut self, cpus: &Cpus, adapters: &AdapterCpus) {
        name_thread("cg-idle");
        if take_idle(cpus, adapters).is_err() {
            // It would run beside others, and take them for nobody.
            return;
        }
        self.look_at_pressure();
        self.counted = Counted::begin();
        for look in 1_u32.. {
            let due = MonotonicClock.now().plus_ns(PAUSE_NS);
            sleep(Duration::from_nanos(PAUSE_NS));
            if self.shared.ends.load(Ordering::Relaxed) {
                return;
            }
            if look.is_multiple_of(PRESSURE_LOOKS) {
                self.look_at_pressure();
            }
            let now = MonotonicClock.now();
            if self.counted.is_recent(now) && now.since_ns(due) <= LATE_MAX_NS {
                self.shared.idle_at.store(now.ns(), Ordering::Relaxed);
                ring(&self.bell);
            }
        }
    }

    /// Lends the less the more threads have waited.
    fn look_at_pressure(&mut self) {
        let mut text = String::new();
        let read = self.pressure.as_mut().and_then(|file| {
            file.rewind().ok()?;
            file.read_to_string(&mut text).ok()
        });
        let percent = read.and_then(|_| waited(&text)).unwrap_or(0.0);
        let lent_ns = LENT_NS as f64 * (1.0 - percent / 100.0).clamp(0.0, 1.0);
        self.shared.lent_ns.store(lent_ns as u64, Ordering::Relaxed);
    }
}

/// Percent of the last ten seconds in which some thread waited (Documentation/accounting/psi.rst
/// of Linux).
fn waited(pressure: &str) -> Option<f64> {
    let line = pressure
        .lines()
        .find_map(|line| line.strip_prefix("some "))?;
    let mut words = line.split_whitespace();
    words
        .find_map(|word| word.strip_prefix("avg10="))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn pressure_is_read_as_the_kernel_writes_it() {
        let text = "some avg10=12.50 avg60=3.00 avg300=0.10 total=1234\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(waited(text), Some(12.5));
        assert_eq!([waited(""), waited("some avg60=1")], [None, None]);
    }

    #[test]
    fn idle_time_is_counted_of_the_cpus_that_are_asked_for() {
        let text = "cpu  9 9 9 90 1 1 1 0 0 0\ncpu0 4 5 6 30 0 0 0 0 0 0\n\
                    cpu1 5 4 3 60 1 1 1 0 0 0\ncpu12 0 0 0 7 0 0 0 0 0 0\nintr 5 6 7 8 9 10\n";
        assert_eq!(idle_ticks(text, &[0, 12]), 37);
        assert_eq!([idle_ticks(text, &[3]), idle_ticks("", &[0])], [0, 0]);
    }

    /// A machine that is busy all the time has nothing to lend, and this test nothing to say.
    #[test]
    fn an_idle_cpu_is_found_and_nothing_without_borrowers() {
        let mut watch = IdleWatch::new(Cpus::present()).unwrap();
        assert_eq!(watch.found(), None);
        watch.watch(true);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            if let Some(idle) = watch.found() {
                assert!(idle.until <= MonotonicClock.now().plus_ns(PAUSE_NS + BEYOND_NS));
                watch.watch(false);
                assert_eq!(watch.found(), None);
                return println!("ran idle_cpu");
            }
            sleep(Duration::from_millis(1));
        }
        println!("void idle_cpu: no CPU was idle for 5 s");
    }
}
