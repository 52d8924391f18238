//! What a wake-up of a thread takes: from a write to an eventfd, or from the end of a time, until
//! the thread reads the clock.

use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use cellgate_core::keeper::WakeUp;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::clock::MonotonicClock;

/// Pauses before a wake-up lie between these, in nanoseconds.
const PAUSE_MIN_NS: u64 = 50_000;
const PAUSE_MAX_NS: u64 = 400_000;
/// How long a measurement may take: so much, and so much for each sample. Beside an adapter that
/// spins on the same CPU a timer is late by 4 ms.
const BOUND_NS: u64 = 2_000_000_000;
const BOUND_SAMPLE_NS: u64 = 5_000_000;

/// Gives the calling thread timers that fire at their time: the kernel adds 50 us of slack to
/// those of threads that are not real-time.
pub fn fine_timers() {
    // A thread whose timers are coarse works as well.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Measures `samples` wake-ups of the calling thread, at least one: every other one by an eventfd
/// that a thread on another CPU writes, the rest by a time for which it waits. It takes some
/// 0.25 ms for each.
///
/// # Errors
/// The machine is too busy for as many within 2 s and 5 ms for each, or a descriptor or a thread
/// cannot be had.
pub fn measure_wake_up(samples: usize) -> io::Result<WakeUp> {
    let samples = samples.max(1);
    let bound = BOUND_NS.saturating_add(BOUND_SAMPLE_NS.saturating_mul(samples as u64));
    let mut taken = wake_ups(samples, Duration::from_nanos(bound))?;
    if taken.len() < samples {
        return Err(io::ErrorKind::TimedOut.into());
    }
    WakeUp::of(&mut taken).ok_or_else(|| io::ErrorKind::TimedOut.into())
}

/// As [`measure_wake_up`], for `longest` at most: each sample in nanoseconds, fewer than asked
/// where the time was over.
///
/// # Errors
/// A descriptor or a thread cannot be had, or the kernel (before 5.11) has no timer that is fine
/// enough.
pub fn wake_ups(samples: usize, longest: Duration) -> io::Result<Vec<u64>> {
    let slack = rustix::thread::current_timer_slack().ok();
    fine_timers();
    let taken = take(samples, longest);
    if let Some(slack) = slack {
        // As in `fine_timers`.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(slack));
    }
    taken
}

fn now_ns() -> u64 {
    MonotonicClock.now().ns()
}

fn take(samples: usize, longest: Duration) -> io::Result<Vec<u64>> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let data = epoll::EventData::new_u64(0);
    epoll::add(&watch, &bell, data, epoll::EventFlags::IN)?;
    let others = other_cpus();
    // When the bell was rung; 0: not yet.
    let rung_ns = AtomicU64::new(0);
    let end_ns = now_ns().saturating_add(u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX));
    let mut pauses = Pauses(0x9e37_79b9_7f4a_7c15);
    let mut taken = Vec::with_capacity(samples);
    std::thread::scope(|scope| {
        let (pause, asked) = mpsc::channel::<u64>();
        let ringer = || {
            ring_others_cpu(others);
            // Ends with the sender, which is dropped on every way out.
            for pause_ns in asked {
                std::thread::sleep(Duration::from_nanos(pause_ns));
                rung_ns.store(now_ns(), Ordering::Release);
                // A count that is full has rung as well.
                let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
            }
        };
        std::thread::Builder::new()
            .name("cg-ringer".to_owned())
            .spawn_scoped(scope, ringer)?;
        for sample in 0..samples {
            let pause_ns = pauses.next_ns();
            let late_ns = if sample % 2 == 0 {
                // A ringer that has ended is one that never rings.
                let _ = pause.send(pause_ns);
                wait_for_bell(&watch, &bell, &rung_ns, end_ns)?
            } else {
                wait_for_time(&watch, now_ns() + pause_ns, end_ns)?
            };
            match late_ns {
                Some(late_ns) => taken.push(late_ns),
                None => break,
            }
        }
        drop(pause);
        Ok(taken)
    })
}

/// How long after the bell was rung the calling thread runs; none: it was not rung until `end_ns`.
fn wait_for_bell(
    watch: &impl AsFd,
    bell: &impl AsFd,
    rung_ns: &AtomicU64,
    end_ns: u64,
) -> io::Result<Option<u64>> {
    loop {
        let woken_ns = sleep_until(watch, end_ns)?;
        // Drained before the word is looked at: what is rung later is heard later.
        let _ = rustix::io::read(bell, &mut [0; 8]);
        match rung_ns.swap(0, Ordering::Acquire) {
            0 if woken_ns >= end_ns => return Ok(None),
            0 => {}
            rung => return Ok(Some(woken_ns.saturating_sub(rung))),
        }
    }
}

/// How long after `until_ns` the calling thread runs; none: that is after `end_ns`.
fn wait_for_time(watch: &impl AsFd, until_ns: u64, end_ns: u64) -> io::Result<Option<u64>> {
    if until_ns >= end_ns {
        return Ok(None);
    }
    loop {
        let woken_ns = sleep_until(watch, until_ns)?;
        if woken_ns >= until_ns {
            return Ok(Some(woken_ns - until_ns));
        }
    }
}

/// Sleeps until the bell rings, a signal comes or it is `until_ns`; the time then.
fn sleep_until(watch: &impl AsFd, until_ns: u64) -> io::Result<u64> {
    match epoll_wait_ns(watch, until_ns.saturating_sub(now_ns())) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(now_ns()),
    }
}

pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    }
}

/// Waits until something happens at an epoll descriptor, for `longest_ns` at most: whether
/// something has.
///
/// # Errors
/// A signal came, the descriptor is no epoll's, or the kernel is older than 5.11.
fn epoll_wait_ns(watch: &impl AsFd, longest_ns: u64) -> io::Result<bool> {
    let mut events = [const { MaybeUninit::uninit() }; 1];
    let (happened, _) = epoll::wait(watch, &mut events, Some(&timespec(longest_ns)))?;
    Ok(!happened.is_empty())
}

/// CPUs for the thread that rings: not the caller's, which may be pinned.
fn other_cpus() -> Option<[CpuSet; 2]> {
    let mine = sched_getaffinity(None).ok()?;
    let only = (0..CpuSet::MAX_CPU).find(|&cpu| mine.is_set(cpu));
    let cpu = match only {
        Some(only) if mine.count() == 1 => only,
        _ => sched_getcpu(),
    };
    let without = |mut set: CpuSet| {
        if cpu < CpuSet::MAX_CPU {
            set.unset(cpu);
        }
        set
    };
    // Those of the process first, then those of the machine.
    let process = sched_getaffinity(Some(getpid())).unwrap_or_default();
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    Some([without(process), without(all)])
}

/// Moves the calling thread to the first of these that it may have; with none it shares a CPU.
fn ring_others_cpu(others: Option<[CpuSet; 2]>) {
    for set in others.iter().flatten() {
        // The kernel refuses a set without a CPU that is allowed.
        if sched_setaffinity(None, set).is_ok() {
            return;
        }
    }
}

/// A fixed sequence without a pattern that a timer could fall in with (xorshift).
struct Pauses(u64);

impl Pauses {
    fn next_ns(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        PAUSE_MIN_NS + self.0 % (PAUSE_MAX_NS - PAUSE_MIN_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{allowed_cpus, pin_thread};
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    #[test]
    fn a_percentile_is_the_sample_at_its_rank() {
        let mut samples: Vec<u64> = (1..=2_000).rev().collect();
        let expected = WakeUp {
            p50_ns: 1_000,
            p99_ns: 1_980,
            p999_ns: 1_998,
            max_ns: 2_000,
        };
        assert_eq!(WakeUp::of(&mut samples), Some(expected));
        let one = WakeUp::of(&mut [7]).unwrap();
        assert_eq!((one.p50_ns, one.p99_ns, one.p999_ns, one.max_ns), {
            (7, 7, 7, 7)
        });
        let odd = WakeUp::of(&mut [3, 1, 2]).unwrap();
        assert_eq!((odd.p50_ns, odd.p99_ns), (2, 3));
        assert_eq!(WakeUp::of(&mut []), None);
    }

    #[test]
    fn as_many_are_taken_as_asked_and_each_takes_some_time() {
        let slack = rustix::thread::current_timer_slack().unwrap();
        let taken = wake_ups(101, Duration::from_secs(60)).unwrap();
        assert_eq!(taken.len(), 101);
        // No wake-up is for nothing: a system call's way back takes longer than this.
        assert!(taken.iter().all(|&ns| ns > 100), "{taken:?}");
        assert_eq!(rustix::thread::current_timer_slack().unwrap(), slack);
        let got = measure_wake_up(0).unwrap();
        assert_eq!(got.p50_ns, got.max_ns);
    }

    #[test]
    fn a_pinned_thread_on_a_busy_machine_comes_to_an_end() {
        let cpus = allowed_cpus();
        let (&first, busy) = (cpus.first().unwrap(), AtomicBool::new(true));
        std::thread::scope(|scope| {
            for &cpu in cpus.iter().take(8) {
                let busy = &busy;
                scope.spawn(move || {
                    pin_thread(cpu).unwrap();
                    while busy.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let measured = scope.spawn(move || {
                pin_thread(first).unwrap();
                let got = measure_wake_up(200);
                assert_eq!(allowed_cpus(), [first]);
                got
            });
            let got = measured.join();
            busy.store(false, Ordering::Relaxed);
            let got = got.unwrap().unwrap();
            assert!(got.p50_ns <= got.p99_ns, "{got:?}");
            assert!(got.p99_ns <= got.p999_ns, "{got:?}");
            assert!(got.p999_ns <= got.max_ns, "{got:?}");
        });
    }

    #[test]
    fn whoever_rings_is_on_another_cpu() {
        std::thread::spawn(|| {
            let cpus = allowed_cpus();
            let last = *cpus.last().unwrap();
            pin_thread(last).unwrap();
            let others = other_cpus();
            let seen = std::thread::spawn(move || {
                ring_others_cpu(others);
                allowed_cpus()
            });
            let seen = seen.join().unwrap();
            // With one CPU alone it is shared.
            assert!(!seen.contains(&last) || cpus.len() == 1, "{seen:?}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_bell_that_is_never_rung_and_a_time_that_is_too_far_end_it() {
        let before = Instant::now();
        // Nothing is taken in no time.
        assert!(wake_ups(10, Duration::ZERO).unwrap().is_empty());
        let bell = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let data = epoll::EventData::new_u64(0);
        epoll::add(&watch, &bell, data, epoll::EventFlags::IN).unwrap();
        let rung_ns = AtomicU64::new(0);
        let end_ns = now_ns() + 20_000_000;
        // A wake-up without a word is none.
        rustix::io::write(&bell, &1u64.to_ne_bytes()).unwrap();
        let got = wait_for_bell(&watch, &bell, &rung_ns, end_ns).unwrap();
        assert_eq!(got, None);
        assert!(now_ns() >= end_ns);
        assert_eq!(wait_for_time(&watch, end_ns + 1, end_ns).unwrap(), None);
        assert!(before.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_wait_ends_at_its_nanosecond_and_not_at_the_next_millisecond() {
        fine_timers();
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let late = (0..200).map(|_| {
            let until_ns = now_ns() + 100_000;
            wait_for_time(&watch, until_ns, u64::MAX).unwrap().unwrap()
        });
        // Whoever is disturbed at each of them has a machine that is of no use.
        assert!(late.min().unwrap() < 500_000);
        assert!(epoll_wait_ns(&std::io::stdin(), 0).is_err());
        let bell = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
        let data = epoll::EventData::new_u64(0);
        epoll::add(&watch, &bell, data, epoll::EventFlags::IN).unwrap();
        assert!(epoll_wait_ns(&watch, u64::MAX).unwrap());
    }

    #[test]
    fn pauses_vary_within_their_bounds() {
        let mut pauses = Pauses(0x9e37_79b9_7f4a_7c15);
        let seen: Vec<_> = (0..1_000).map(|_| pauses.next_ns()).collect();
        assert!(
            seen.iter()
                .all(|ns| (PAUSE_MIN_NS..PAUSE_MAX_NS).contains(ns))
        );
        let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
        assert!(distinct.len() > 900);
    }
}
