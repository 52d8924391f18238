//! One second of the adapter's CPU, and what a wake-up takes there, as an adapter would meet it:
//! in a process and a session of its own, with the adapter's nice value. What is an adapter's CPU
//! already is only watched: whoever spun there would be the trouble that it looks for.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use cellgate_core::server::AdapterSection;
use rustix::process::{Pid, setpriority_process};
use serde::{Deserialize, Serialize};

use super::ask::{self, in_time};
use super::facts::{Adapters, steal, text, wanted_ns};
use crate::clock::MonotonicClock;
use crate::sys::{WakeUp, begin_session, cpu_ns_of, die_with_parent, pin_thread, plain, wake_ups};

/// Makes the program that calls [`look_as_adapter`] with its last argument.
pub type Looker = fn() -> io::Result<Command>;

/// How long that may take, and octets that are read of what it prints.
const LONGEST: Duration = Duration::from_millis(2_200);
const FILE_MAX: u64 = 4_096;

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

/// Where and how it is looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    /// On this CPU; none: on any.
    cpu: Option<usize>,
    /// With this nice value, where it is to be had.
    nice: i32,
    /// What stands still for a second.
    gaps: bool,
    /// What a wake-up takes.
    wake_ups: bool,
    /// The process that asks.
    parent: u32,
}

/// What the process has seen that was started to look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    gap_ns: Option<Result<u64, String>>,
    wake_up: Option<Result<WakeUp, String>>,
}

/// What the process does that [`examine`](super::examine) has started: the text that it prints.
/// `task` is the text that it was given.
///
/// # Errors
/// It is none, or whoever has asked is gone.
pub fn look_as_adapter(task: &str) -> io::Result<String> {
    let task: Task = serde_json::from_str(task)?;
    die_with_parent(task.parent)?;
    begin_session();
    // As an adapter does, which may be refused it as well.
    let _ = fs::write("/proc/self/autogroup", task.nice.to_string());
    Ok(serde_json::to_string(&see(task))?)
}

fn see(task: Task) -> Seen {
    Seen {
        gap_ns: task.gaps.then(|| stood_still(task.cpu, task.nice)),
        wake_up: task.wake_ups.then(|| woken(task.cpu, task.nice)),
    }
}

/// Has a process of its own see, or else this one.
fn seen(program: Looker, task: Task) -> Seen {
    see_aside(program, task).unwrap_or_else(|_| see(task))
}

fn see_aside(program: Looker, task: Task) -> io::Result<Seen> {
    let mut command = program()?;
    command.arg(serde_json::to_string(&task)?);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn()?;
    let stdout = child.stdout.take();
    let read = in_time(LONGEST, || {
        let mut text = String::new();
        let read = stdout.map(|stdout| stdout.take(FILE_MAX).read_to_string(&mut text));
        read.transpose().map(|_| text)
    });
    // It has ended, or is to end.
    let _ = child.kill();
    let _ = child.wait();
    let text = read.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))?;
    Ok(serde_json::from_str(&text)?)
}

/// Looks at the CPU of one adapter. How busy each adapter is it puts down with it.
pub(crate) fn look(
    root: &Path,
    socket: &Path,
    (cpu, adapter): (Option<usize>, &AdapterSection),
    program: Looker,
    adapters: &mut Adapters,
) -> Look {
    let (name, nice) = (adapter.name.as_deref(), adapter.nice);
    watch(adapters, || thread::sleep(GLANCE));
    let somebody = adapters
        .0
        .iter()
        .find(|one| cpu.is_some() && one.cpu == cpu);
    let somebody = somebody.map(|one| (one.pid, one.own));
    let before = text(root, "proc/stat").and_then(|stat| steal(&stat, cpu));
    let then = somebody
        .filter(|(_, own)| *own)
        .and_then(|_| ask::adapter(socket, name));
    let mut task = Task {
        cpu,
        nice,
        gaps: somebody.is_none(),
        wake_ups: somebody.is_none(),
        parent: std::process::id(),
    };
    let mut seen = Seen {
        gap_ns: None,
        wake_up: None,
    };
    if let Some((pid, own)) = somebody {
        watch(adapters, || thread::sleep(SECOND));
        let now = own.then(|| ask::adapter(socket, name)).flatten();
        seen.gap_ns = Some(match then.zip(now) {
            Some((then, now)) => Ok(now.gaps_total_ns.saturating_sub(then.gaps_total_ns)),
            None => Err(format!("adapter {pid} is there, and was not disturbed")),
        });
        let spinner = adapters.spinner_on(cpu);
        seen.wake_up = spinner.map(|pid| Err(format!("adapter {pid} spins there")));
        task.wake_ups = spinner.is_none();
    }
    if task.gaps || task.wake_ups {
        let found = self::seen(program, task);
        seen.gap_ns = seen.gap_ns.or(found.gap_ns);
        seen.wake_up = seen.wake_up.or(found.wake_up);
    }
    let after = text(root, "proc/stat").and_then(|stat| steal(&stat, cpu));
    let steal_ppm = before.zip(after).and_then(|(before, after)| {
        let stolen = after.1.checked_sub(before.1)?;
        stolen
            .saturating_mul(1_000_000)
            .checked_div(after.0.checked_sub(before.0)?)
    });
    let unseen = || "it was not looked at".to_owned();
    Look {
        wake_up: seen.wake_up.unwrap_or_else(|| Err(unseen())),
        gap_ns: seen.gap_ns.unwrap_or_else(|| Err(unseen())),
        steal_ppm,
        clock_ns: clock_ns(),
    }
}

/// How much CPU time each adapter's process uses meanwhile, or waits for.
fn watch(adapters: &mut Adapters, meanwhile: impl FnOnce()) {
    let of = |pid: u32| {
        let used = Pid::from_raw(pid.cast_signed()).and_then(|pid| cpu_ns_of(pid).ok());
        // A kernel may count nothing of what is waited for.
        [used, wanted_ns(Path::new("/"), pid)]
    };
    let before: Vec<_> = adapters.0.iter().map(|one| of(one.pid)).collect();
    let begun = MonotonicClock.now().ns();
    meanwhile();
    let time = MonotonicClock.now().ns().saturating_sub(begun).max(1);
    for (one, before) in adapters.0.iter_mut().zip(before) {
        let used = of(one.pid).into_iter().zip(before);
        let used = used.map(|(now, then)| {
            now.zip(then)
                .map_or(0, |(now, then)| now.saturating_sub(then))
        });
        let used = used.max().unwrap_or(0);
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

fn woken(cpu: Option<usize>, nice: i32) -> Result<WakeUp, String> {
    there(cpu, || {
        // As above.
        let _ = setpriority_process(None, nice);
        let mut taken = wake_ups(WAKE_UPS, WAKE_UPS_LONGEST)
            .map_err(|error| format!("it could not be measured: {}", plain(&error)))?;
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
