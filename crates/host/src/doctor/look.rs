//! One second of the adapter's CPU, and what a wake-up takes there. What is an adapter's CPU
//! already is only watched: whoever spun there would be the trouble that it looks for.

use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, setpriority_process};

use super::ask;
use super::facts::Adapters;
use super::facts::{steal, text};
use crate::clock::MonotonicClock;
use crate::sys::{WakeUp, cpu_ns_of, pin_thread, wake_ups};

/// How long a first look at the adapters takes.
const GLANCE: Duration = Duration::from_millis(60);
/// How long the CPU is watched.
const SECOND: Duration = Duration::from_secs(1);
/// Wake-ups that are measured, and for how long at most.
const WAKE_UPS: usize = 1_000;
const WAKE_UPS_LONGEST: Duration = Duration::from_millis(800);
/// Looks at the clock of one measurement, and how many of these the least is taken of.
const LOOKS: u32 = 1_000;
const TIMES: u32 = 8;

/// What was seen. An error says why it was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// What a wake-up takes.
    pub(crate) wake_up: Result<WakeUp, String>,
    /// The longest that a thread stood still, or the adapter in this second.
    pub(crate) gap_ns: Result<u64, String>,
    /// Of the CPU's time, in millionths, what other virtual machines had.
    pub(crate) steal_ppm: Option<u64>,
    /// What a look at the clock costs.
    pub(crate) clock_ns: u64,
}

/// Looks. How busy adapters are is put down with them.
pub(crate) fn look(
    root: &Path,
    socket: &Path,
    cpu: Option<usize>,
    nice: i32,
    adapters: &mut Adapters,
) -> Look {
    watch(adapters, || thread::sleep(GLANCE));
    let somebody = adapters
        .0
        .iter()
        .find(|one| cpu.is_some() && one.cpu == cpu);
    let somebody = somebody.map(|one| (one.pid, one.own));
    let before = text(root, "proc/stat").and_then(|stat| steal(&stat, cpu));
    let gap_ns = match somebody {
        None => stood_still(cpu, nice),
        Some((pid, own)) => {
            let then = ask::adapter(socket).filter(|_| own);
            watch(adapters, || thread::sleep(SECOND));
            let now = ask::adapter(socket).filter(|_| own);
            match then.zip(now) {
                Some((then, now)) => Ok(now.gaps_total_ns.saturating_sub(then.gaps_total_ns)),
                None => Err(format!("adapter {pid} is there, and was not disturbed")),
            }
        }
    };
    let after = text(root, "proc/stat").and_then(|stat| steal(&stat, cpu));
    let steal_ppm = before.zip(after).and_then(|(before, after)| {
        let stolen = after.1.checked_sub(before.1)?;
        stolen
            .saturating_mul(1_000_000)
            .checked_div(after.0.checked_sub(before.0)?)
    });
    let wake_up = match adapters.spinner_on(cpu) {
        Some(pid) => Err(format!("adapter {pid} spins there")),
        None => woken(cpu),
    };
    Look {
        wake_up,
        gap_ns,
        steal_ppm,
        clock_ns: clock_ns(),
    }
}

/// How much CPU time each adapter's process uses meanwhile.
fn watch(adapters: &mut Adapters, meanwhile: impl FnOnce()) {
    let used = |pid: u32| Pid::from_raw(pid.cast_signed()).and_then(|pid| cpu_ns_of(pid).ok());
    let before: Vec<_> = adapters.0.iter().map(|one| used(one.pid)).collect();
    let begun = MonotonicClock.now().ns();
    meanwhile();
    let time = MonotonicClock.now().ns().saturating_sub(begun).max(1);
    for (one, before) in adapters.0.iter_mut().zip(before) {
        let used = used(one.pid).zip(before);
        let used = used.map_or(0, |(now, then)| now.saturating_sub(then));
        one.busy_ppm = used.saturating_mul(1_000) / (time / 1_000).max(1);
    }
}

/// Does something in a thread on a CPU; where that cannot be had, on another.
fn there<T: Send>(
    cpu: Option<usize>,
    act: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    thread::scope(|scope| {
        let act = || {
            if let Some(cpu) = cpu
                && pin_thread(cpu).is_err()
            {
                return Err(format!("no thread is let on CPU {cpu}"));
            }
            act()
        };
        let started = thread::Builder::new()
            .name("cg-doctor".to_owned())
            .spawn_scoped(scope, act);
        let ended = started.map(thread::ScopedJoinHandle::join);
        match ended {
            Ok(Ok(result)) => result,
            _ => Err("no thread could be had for it".to_owned()),
        }
    })
}

/// The longest that a thread with the adapter's nice value stood still in a second.
fn stood_still(cpu: Option<usize>, nice: i32) -> Result<u64, String> {
    there(cpu, || {
        // On Linux, process 0 is the calling thread alone. Without it, more is seen.
        let _ = setpriority_process(None, nice);
        let begun = MonotonicClock.now().ns();
        let (mut last, mut longest) = (begun, 0);
        while last < begun.saturating_add(SECOND.as_nanos() as u64) {
            let now = MonotonicClock.now().ns();
            longest = longest.max(now.saturating_sub(last));
            last = now;
        }
        Ok(longest)
    })
}

fn woken(cpu: Option<usize>) -> Result<WakeUp, String> {
    there(cpu, || {
        let mut taken = wake_ups(WAKE_UPS, WAKE_UPS_LONGEST)
            .map_err(|error| format!("it could not be measured: {}", crate::sys::plain(&error)))?;
        WakeUp::of(&mut taken).ok_or_else(|| "there was none in time".to_owned())
    })
}

/// The least that a look at the clock took.
fn clock_ns() -> u64 {
    let time = || {
        let begun = MonotonicClock.now().ns();
        for _ in 0..LOOKS {
            std::hint::black_box(MonotonicClock.now());
        }
        MonotonicClock.now().ns().saturating_sub(begun) / u64::from(LOOKS)
    };
    (0..TIMES).map(|_| time()).min().unwrap_or(0)
}
