use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::thread::sleep;
use std::time::Duration;

use cellgate_core::keeper::{Idle, Scheduling, WakeUp};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Signal, getppid, set_parent_process_death_signal, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::duty::set_policy;
use super::lack::Lack;
use super::neighbours::{choose_cpu, neighbours_on};
use super::wake_up::measure_wake_up;

/// The firmware thread's priority in the class SCHED_FIFO, above all threads of the daemon.
pub const ADAPTER_FIFO: i32 = 40;

/// Wake-ups that are measured: of so many the second longest is the 99.9th percentile.
const WAKE_UPS: usize = 2_000;
/// How often a session's nice value is asked for, and the wait in between: as many adapters may
/// start together.
const SESSION_TRIES: u32 = 20;
const SESSION_WAIT: Duration = Duration::from_millis(100);

/// How the firmware thread is to be scheduled. Nothing of it is a condition: what cannot be had is
/// told in [`Scheduling::notes`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulingRequest {
    /// Pin the thread.
    pub pin: bool,
    /// To this CPU; none: the last one allowed that no other thread of this one's name is pinned
    /// to, or that with the fewest.
    pub cpu: Option<usize>,
    /// Nice value to try; none: leave it. At -20, a thread that is pinned and never gives its CPU
    /// away becomes real-time (SCHED_FIFO) where the kernel takes nothing off such threads
    /// (`sched_rt_runtime_us` is -1); else it would be stopped for a part of each second.
    pub nice: Option<i32>,
    /// What the thread does while there is nothing to do. Where there is one CPU, one that spins
    /// gives it away after every idle step.
    pub idle: Idle,
    /// How long it goes on looking before it rests, in nanoseconds; none: as long as has paid.
    pub linger_ns: Option<u64>,
    /// In a process of its own: begin a session. Where the kernel shares CPUs out by sessions
    /// first (`sched_autogroup_enabled`), nice values count only within one, so the nice value is
    /// given to the new session too.
    pub own_session: bool,
    /// Have all memory that the adapter was made with in place, locked, and that of connections
    /// where the kernel lets it: no page fault later.
    pub lock_memory: bool,
}

impl Default for SchedulingRequest {
    fn default() -> Self {
        Self {
            pin: true,
            cpu: None,
            nice: Some(-20),
            idle: Idle::Spin,
            linger_ns: None,
            own_session: true,
            lock_memory: true,
        }
    }
}

impl SchedulingRequest {
    /// A firmware thread that shares its CPUs with everything else, for tests.
    pub const fn modest() -> Self {
        Self {
            pin: false,
            cpu: None,
            nice: None,
            idle: Idle::Sleep,
            linger_ns: None,
            own_session: false,
            lock_memory: false,
        }
    }
}

/// CPUs that the calling thread may run on, in order.
pub fn allowed_cpus() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .collect(),
        Err(_) => Vec::new(),
    }
}

/// Pins the calling thread to one CPU.
///
/// # Errors
/// The CPU does not exist or is not allowed.
pub fn pin_thread(cpu: usize) -> rustix::io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(rustix::io::Errno::INVAL);
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// Keeps the calling thread off one CPU, if it may use others.
pub fn avoid_cpu(cpu: usize) {
    let Ok(mut set) = sched_getaffinity(None) else {
        return;
    };
    if cpu < CpuSet::MAX_CPU && set.is_set(cpu) && set.count() > 1 {
        set.unset(cpu);
        // A thread that may run anywhere works as well.
        let _ = sched_setaffinity(None, &set);
    }
}

/// Names the calling thread as tools show it; the kernel keeps 15 octets.
pub fn name_thread(name: &str) {
    if let Ok(name) = CString::new(name) {
        // A thread without its name works as well.
        let _ = rustix::thread::set_name(&name);
    }
}

/// Has this process killed when the thread that started it ends.
///
/// `parent` is the parent's process identifier as the parent told it: if the parent has died
/// already, this process ends here.
///
/// # Errors
/// The kernel knows no death signal.
pub fn die_with_parent(parent: u32) -> rustix::io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let present = getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
    if present != parent {
        std::process::exit(1);
    }
    Ok(())
}

/// Schedules the calling thread as asked, as far as that can be had.
pub fn schedule(request: &SchedulingRequest) -> Scheduling {
    let mut got = Scheduling {
        cpus: allowed_cpus(),
        rt_runtime_us: std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us")
            .ok()
            .and_then(|text| text.trim().parse().ok()),
        ..Scheduling::default()
    };
    got.idle = request.idle;
    got.yields = request.idle == Idle::Spin && got.cpus.len() <= 1;
    if request.pin {
        pin(request, &mut got);
    }
    if let Some(nice) = request.nice {
        // On Linux, process 0 is the calling thread alone.
        if let Err(error) = setpriority_process(None, nice) {
            let what = format!("not nice {nice}");
            got.notes.push(Lack::Nice.refused(what, error));
        }
    }
    if wants_fifo(request, &got)
        && let Err(error) = set_policy(libc::SCHED_FIFO, ADAPTER_FIFO)
    {
        let what = format!("not fifo {ADAPTER_FIFO}");
        got.notes.push(Lack::RealTime.refused(what, error));
    }
    got.policy = policy();
    got.session_nice = session_nice(request, &mut got.notes);
    got.nice = rustix::process::getpriority_process(None).unwrap_or(0);
    got
}

/// Pins the calling thread to the CPU that is asked for, or to one that it chooses.
fn pin(request: &SchedulingRequest, got: &mut Scheduling) {
    match request.cpu {
        Some(cpu) => match pin_thread(cpu) {
            Ok(()) => (got.pinned, got.neighbours) = (Some(cpu), neighbours_on(cpu)),
            Err(error) => {
                let what = format!("not pinned to CPU {cpu}");
                got.notes.push(Lack::Cpu.refused(what, error));
            }
        },
        None => match choose_cpu(&got.cpus) {
            Some((cpu, others)) => (got.pinned, got.neighbours) = (Some(cpu), others),
            None if got.cpus.is_empty() => got
                .notes
                .push(Lack::Cpu.note("not pinned, as the allowed CPUs are unknown")),
            None => got.notes.push(Lack::Cpu.note("not pinned to any CPU")),
        },
    }
}

/// Notes what a wake-up of the calling thread takes: as is known of its CPU, or as measured now. A
/// thread that may run anywhere, or that others keep from running, is allowed the most.
pub fn note_wake_up(
    scheduling: &mut Scheduling,
    known: &BTreeMap<usize, WakeUp>,
    headroom_percent: u32,
) {
    if !scheduling.idle.rests() {
        return;
    }
    let measured = || {
        let measured = measure_wake_up(WAKE_UPS).ok();
        measured.filter(|wake_up| wake_up.p99_ns <= Idle::LATE_NS_MAX)
    };
    let of_cpu = |cpu| known.get(&cpu).copied().or_else(measured);
    scheduling.wake_up = scheduling.pinned.and_then(of_cpu);
    let percent = 100 + u64::from(headroom_percent);
    scheduling.late_ns = scheduling.wake_up.map_or(Idle::LATE_NS_MAX, |wake_up| {
        let ns = wake_up.p999_ns.saturating_mul(percent) / 100;
        ns.min(Idle::LATE_NS_MAX)
    });
}

/// Whether a thread that asked for as much as there is, and got its CPU, becomes real-time.
fn wants_fifo(request: &SchedulingRequest, got: &Scheduling) -> bool {
    let untouched = got.rt_runtime_us == Some(-1);
    untouched && got.pinned.is_some() && !got.yields && request.nice == Some(-20)
}

/// Begins a session of this process alone; terminals' signals do not reach it.
pub fn begin_session() {
    // It fails only for a process that has a session of its own already.
    let _ = rustix::process::setsid();
}

/// The nice value of this process's session, after asking for the one requested; none if the
/// kernel does not share out by sessions.
fn session_nice(request: &SchedulingRequest, notes: &mut Vec<String>) -> Option<i32> {
    const PATH: &str = "/proc/self/autogroup";
    let enabled = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").ok()?;
    if enabled.trim() != "1" {
        return None;
    }
    // SAFETY: the calls take and return numbers. A session that was begun outside this PID
    // namespace is number 0, which rustix takes for impossible.
    let alone = unsafe { libc::getsid(0) == libc::getpid() };
    if let Some(nice) = request.nice
        && request.own_session
        && alone
        && let Err(error) = again(|| std::fs::write(PATH, nice.to_string()), sleep)
    {
        notes.push(match error.kind() {
            ErrorKind::WouldBlock => Lack::Session.note(format!(
                "the session not nice {nice}, as the kernel takes one in 100 ms and took others'"
            )),
            _ => Lack::Session.refused(format!("the session not nice {nice}"), error),
        });
    }
    let text = std::fs::read_to_string(PATH).ok()?;
    text.rsplit_once(' ')?.1.trim().parse().ok()
}

/// Writes again what the kernel takes later: of sessions' nice values it takes one in 100 ms, the
/// machine over, from whoever lacks CAP_SYS_ADMIN, and answers EAGAIN to the others.
fn again(
    mut write: impl FnMut() -> io::Result<()>,
    mut wait: impl FnMut(Duration),
) -> io::Result<()> {
    for _ in 1..SESSION_TRIES {
        match write() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(SESSION_WAIT),
            other => return other,
        }
    }
    write()
}

/// Brings all memory of the process in and keeps it there; that of connections, which is mapped
/// later, is locked one by one, so that a limit costs the lock and no connection. Tells in
/// `scheduling` what came of it.
pub fn lock_memory(scheduling: &mut Scheduling) {
    match mlockall(MlockAllFlags::CURRENT) {
        Ok(()) => scheduling.locked = true,
        Err(error) => {
            let note = Lack::Memory.refused("memory not locked", error);
            scheduling.notes.push(note);
        }
    }
}

/// The class of the calling thread.
pub(super) fn policy() -> String {
    // SAFETY: the call takes a number and returns a number; 0 names the calling thread.
    match unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => "other".to_owned(),
        libc::SCHED_FIFO => "fifo".to_owned(),
        libc::SCHED_RR => "rr".to_owned(),
        libc::SCHED_BATCH => "batch".to_owned(),
        libc::SCHED_IDLE => "idle".to_owned(),
        libc::SCHED_DEADLINE => "deadline".to_owned(),
        other => format!("unknown ({other})"),
    }
}

/// The class of the calling thread and its nice value, for people.
pub fn class_of_thread() -> String {
    let nice = rustix::process::getpriority_process(None).unwrap_or(0);
    format!("class {}, nice {nice}", policy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_s_nice_value_is_asked_for_again_and_not_for_ever() {
        let tried = |refusals: u32, error: libc::c_int| {
            let (mut writes, mut waits) = (0, Vec::new());
            let write = || {
                writes += 1;
                match writes <= refusals {
                    true => Err(io::Error::from_raw_os_error(error)),
                    false => Ok(()),
                }
            };
            let came = again(write, |time| waits.push(time)).is_ok();
            assert!(waits.iter().all(|wait| *wait == Duration::from_millis(100)));
            (came, writes, waits.len())
        };
        assert_eq!(tried(0, libc::EAGAIN), (true, 1, 0));
        assert_eq!(tried(3, libc::EAGAIN), (true, 4, 3));
        assert_eq!(tried(19, libc::EAGAIN), (true, 20, 19));
        assert_eq!(tried(u32::MAX, libc::EAGAIN), (false, 20, 19));
        // Who may not have it need not wait.
        assert_eq!(tried(u32::MAX, libc::EPERM), (false, 1, 0));
    }

    #[test]
    fn pins_to_an_allowed_cpu_and_says_so() {
        std::thread::spawn(|| {
            name_thread("cg-alone");
            let got = schedule(&SchedulingRequest {
                nice: None,
                ..SchedulingRequest::default()
            });
            assert_eq!(got.pinned, got.cpus.last().copied());
            assert_eq!(allowed_cpus(), got.pinned.into_iter().collect::<Vec<_>>());
            assert_eq!(got.yields, got.cpus.len() == 1);
            assert!(got.notes.is_empty(), "{:?}", got.notes);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_cpu_that_is_not_there_is_a_note() {
        std::thread::spawn(|| {
            let before = allowed_cpus();
            let got = schedule(&SchedulingRequest {
                cpu: Some(CpuSet::MAX_CPU - 1),
                ..SchedulingRequest::default()
            });
            assert_eq!(got.pinned, None);
            assert!(got.notes[0].contains("not pinned to CPU"), "{got}");
            assert_eq!(allowed_cpus(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn only_a_pinned_spinner_that_the_kernel_would_not_stop_is_real_time() {
        let request = SchedulingRequest::default();
        let got = Scheduling {
            pinned: Some(1),
            rt_runtime_us: Some(-1),
            ..Scheduling::default()
        };
        assert!(wants_fifo(&request, &got));
        let nice = Some(-19);
        assert!(!wants_fifo(
            &SchedulingRequest {
                nice,
                ..request.clone()
            },
            &got
        ));
        for other in [
            Scheduling {
                pinned: None,
                ..got.clone()
            },
            Scheduling {
                yields: true,
                ..got.clone()
            },
            Scheduling {
                rt_runtime_us: Some(950_000),
                ..got.clone()
            },
            Scheduling {
                rt_runtime_us: None,
                ..got
            },
        ] {
            assert!(!wants_fifo(&request, &other), "{other:?}");
        }
    }

    #[test]
    fn a_modest_thread_asks_for_nothing() {
        let got = schedule(&SchedulingRequest::modest());
        assert_eq!((got.pinned, got.idle), (None, Idle::Sleep));
        assert!(got.notes.is_empty());
    }
}
