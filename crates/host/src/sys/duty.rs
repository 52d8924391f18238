//! How the threads of the daemon share its CPUs: adapter > real-time workers > pseudo-interrupt >
//! taking up > service > best effort.

use std::fmt;

use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::lack::Lack;

/// What a thread is for, the most urgent first. The adapter's thread is above all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Duty {
    /// A worker whose connection's rate is guaranteed.
    RealTime,
    /// Wakes the workers.
    Interrupt,
    /// The service, while it takes up what another server has left, and for a moment beyond.
    TakeUp,
    /// Talks to applications and to the adapter.
    Service,
    /// A worker of a best-effort connection.
    BestEffort,
}

impl Duty {
    /// The priority of the class SCHED_FIFO; none: the thread is not to be real-time.
    pub const fn fifo(self) -> Option<i32> {
        match self {
            Self::RealTime => Some(30),
            Self::Interrupt => Some(20),
            Self::TakeUp => Some(10),
            Self::Service | Self::BestEffort => None,
        }
    }

    /// The nice value where the thread is not real-time, above the adapter's -20; 0: that of the
    /// process.
    pub const fn nice(self) -> i32 {
        match self {
            Self::RealTime => -15,
            Self::Interrupt => -12,
            Self::TakeUp => -11,
            Self::Service => -10,
            Self::BestEffort => 0,
        }
    }
}

/// Period and relative deadline of a reservation, in nanoseconds.
pub const RESERVED_PERIOD_NS: u64 = 4_000_000;
/// The least that is reserved in a period: beside a change of threads it is long.
const RESERVED_MIN_NS: u64 = 40_000;

/// How a thread is scheduled in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadScheduling {
    /// CPU time that the kernel keeps for it in each [`RESERVED_PERIOD_NS`], in nanoseconds
    /// (SCHED_DEADLINE); none: no such reservation.
    pub reserved_ns: Option<u64>,
    /// The priority in the class SCHED_FIFO; none: it is not in that class.
    pub fifo: Option<i32>,
    /// Nice value.
    pub nice: i32,
    /// CPUs that it may run on.
    pub cpus: Vec<usize>,
    /// What was asked and could not be had, and why.
    pub notes: Vec<String>,
}

impl ThreadScheduling {
    /// Whether it comes before all that is not real-time.
    pub const fn is_real_time(&self) -> bool {
        self.reserved_ns.is_some() || self.fifo.is_some()
    }
}

impl fmt::Display for ThreadScheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns / 1_000;
        match (self.reserved_ns, self.fifo) {
            (Some(ns), _) => {
                write!(f, "deadline {} of {} us", us(ns), us(RESERVED_PERIOD_NS))?;
            }
            (None, Some(priority)) => write!(f, "fifo {priority}")?,
            (None, None) => write!(f, "nice {}", self.nice)?,
        }
        let cpus: Vec<_> = self.cpus.iter().map(ToString::to_string).collect();
        write!(f, ", on CPU {}", cpus.join(" "))?;
        for note in Lack::together(&self.notes) {
            write!(f, "; {note}")?;
        }
        Ok(())
    }
}

/// The CPUs of a thread.
#[derive(Clone, Debug)]
pub struct Cpus(Option<CpuSet>);

impl Cpus {
    /// Those of the calling thread.
    pub fn present() -> Self {
        Self(sched_getaffinity(None).ok())
    }

    /// How many; 0 if the kernel does not say.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(0, |set| set.count() as usize)
    }

    pub fn last(&self) -> Option<usize> {
        let set = self.0.as_ref()?;
        (0..CpuSet::MAX_CPU).rev().find(|&cpu| set.is_set(cpu))
    }

    /// All but one; none if there is no other.
    pub fn without(&self, cpu: usize) -> Option<Self> {
        self.beside(&AdapterCpus::of([Some(cpu)]))
    }

    /// All but those of adapters; none if there is no other, or an adapter may be on any.
    pub fn beside(&self, adapters: &AdapterCpus) -> Option<Self> {
        Some(Self(Some(adapters.beside(self.0.as_ref()?)?)))
    }

    pub fn list(&self) -> Vec<usize> {
        let set = self.0.as_ref();
        let is_set = |cpu: &usize| set.is_some_and(|set| set.is_set(*cpu));
        (0..CpuSet::MAX_CPU).filter(is_set).collect()
    }

    /// Has the calling thread run on these alone.
    pub fn use_only(&self) {
        self.give_to(None);
    }

    /// Has a thread of this process run on these alone, beside the adapters' where there are
    /// others.
    pub fn give_beside(&self, thread: Pid, adapters: &AdapterCpus) {
        let own = self.beside(adapters);
        own.as_ref().unwrap_or(self).give_to(Some(thread));
    }

    fn give_to(&self, thread: Option<Pid>) {
        if let Some(set) = &self.0 {
            // A thread that may run elsewhere works as well.
            let _ = sched_setaffinity(thread, set);
        }
    }
}

/// The CPUs that the adapters of a daemon are pinned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterCpus(Option<CpuSet>);

impl AdapterCpus {
    /// There is an adapter that may be on any CPU.
    pub const ANY: Self = Self(None);

    /// What of a set is none of theirs; none if that is nothing, or an adapter may be on any.
    pub(super) fn beside(&self, set: &CpuSet) -> Option<CpuSet> {
        let (mut set, theirs) = (*set, self.0.as_ref()?);
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| theirs.is_set(*cpu)) {
            set.unset(cpu);
        }
        (set.count() > 0).then_some(set)
    }

    /// Whether one of a set is one of theirs.
    pub(super) fn has_one_of(&self, set: &CpuSet) -> bool {
        self.beside(set) != Some(*set)
    }

    /// Of these adapters; none: one is not pinned.
    pub fn of(adapters: impl IntoIterator<Item = Option<usize>>) -> Self {
        let mut set = CpuSet::new();
        for cpu in adapters {
            match cpu {
                Some(cpu) if cpu < CpuSet::MAX_CPU => set.set(cpu),
                Some(_) => {}
                None => return Self::ANY,
            }
        }
        Self(Some(set))
    }
}

/// Gives the calling thread what its duty needs, as far as that can be had. It is real-time only
/// where it can be kept off the CPUs of all adapters, for it would come before them there. Threads
/// and processes that it starts get nothing of it but the CPUs.
pub fn take_duty(duty: Duty, cpus: &Cpus, adapters: &AdapterCpus) -> ThreadScheduling {
    let mut got = ThreadScheduling::default();
    let own = cpus.beside(adapters);
    own.as_ref().unwrap_or(cpus).use_only();
    got.cpus = super::allowed_cpus();
    if let Some(priority) = duty.fifo() {
        let what = format!("not fifo {priority}");
        let asked = match own {
            Some(_) => set_policy(libc::SCHED_FIFO, priority)
                .map_err(|error| Lack::RealTime.refused(what, error)),
            None if *adapters == AdapterCpus::ANY => Err(Lack::Unpinned.note(what)),
            None => Err(Lack::OneCpu.note(what)),
        };
        match asked {
            Ok(()) => got.fifo = Some(priority),
            Err(note) => got.notes.push(note),
        }
    }
    if got.fifo.is_none() {
        // It may have been real-time before. What may not be had is what is not asked for.
        let _ = set_policy(libc::SCHED_OTHER, 0);
        // On Linux, process 0 is the calling thread alone.
        let nice = duty.nice();
        if nice != 0
            && let Err(error) = setpriority_process(None, nice)
        {
            let what = format!("not nice {nice}");
            got.notes.push(Lack::RealTime.refused(what, error));
        }
    }
    got.nice = getpriority_process(None).unwrap_or(0);
    got
}

/// Has the calling thread run only where no other wants a CPU (SCHED_IDLE), off the adapters' CPUs
/// where there are others.
///
/// # Errors
/// The kernel refuses.
pub fn take_idle(cpus: &Cpus, adapters: &AdapterCpus) -> std::io::Result<()> {
    let own = cpus.beside(adapters);
    own.as_ref().unwrap_or(cpus).use_only();
    set_policy(libc::SCHED_IDLE, 0)
}

/// Gives the calling thread `ppm` millionths of a CPU that the kernel keeps for it and holds it to
/// (SCHED_DEADLINE); where it does not, what [`Duty::RealTime`] has.
///
/// The kernel reserves only for threads that may use all CPUs which it schedules together. Off the
/// adapters' CPUs that takes an exclusive cpuset, or adapters whose CPUs are isolated.
pub fn take_share(ppm: u32, cpus: &Cpus, adapters: &AdapterCpus) -> ThreadScheduling {
    // Who has a reservation may not change its CPUs.
    let _ = set_policy(libc::SCHED_OTHER, 0);
    let Some(own) = cpus.beside(adapters) else {
        return take_duty(Duty::RealTime, cpus, adapters);
    };
    own.use_only();
    match reserve_for(None, ppm) {
        Ok(reserved) => ThreadScheduling {
            reserved_ns: Some(reserved),
            cpus: super::allowed_cpus(),
            ..ThreadScheduling::default()
        },
        Err(error) => {
            let mut got = take_duty(Duty::RealTime, cpus, adapters);
            let what = "no reservation by deadline";
            got.notes.push(Lack::Reservation.refused(what, error));
            got
        }
    }
}

/// Has the kernel reserve a quarter more than `ppm` millionths of a CPU for a thread (none: the
/// calling one), of which somebody looks whether it uses more than that; how much in each period.
pub(super) fn reserve_for(thread: Option<Pid>, ppm: u32) -> std::io::Result<u64> {
    let runtime = RESERVED_PERIOD_NS * u64::from(ppm) / 1_000_000 * 5 / 4;
    let runtime = runtime.clamp(RESERVED_MIN_NS, RESERVED_PERIOD_NS);
    // SAFETY: all zeroes is a priority and a nice value of 0.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of_val(&attributes) as u32;
    attributes.sched_policy = libc::SCHED_DEADLINE.cast_unsigned();
    attributes.sched_flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
    attributes.sched_runtime = runtime;
    attributes.sched_deadline = RESERVED_PERIOD_NS;
    attributes.sched_period = RESERVED_PERIOD_NS;
    let thread = Pid::as_raw(thread);
    // SAFETY: the call reads as many octets as `size` says; 0 names the calling thread.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) } {
        0 => Ok(runtime),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The class of the calling thread, not that of threads and processes that it starts.
pub(super) fn set_policy(policy: libc::c_int, priority: i32) -> std::io::Result<()> {
    set_policy_of(None, policy, priority)
}

/// The class of a thread (none: the calling one), not that of threads and processes that it starts.
pub(super) fn set_policy_of(
    thread: Option<Pid>,
    policy: libc::c_int,
    priority: i32,
) -> std::io::Result<()> {
    // SAFETY: all zeroes is a priority of 0, and of other parameters none.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    let policy = policy | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the call reads its parameters; 0 names the calling thread.
    match unsafe { libc::sched_setscheduler(Pid::as_raw(thread), policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duties_are_in_their_order() {
        let order = [
            Duty::RealTime,
            Duty::Interrupt,
            Duty::TakeUp,
            Duty::Service,
            Duty::BestEffort,
        ];
        assert!(order.is_sorted());
        assert!(order.is_sorted_by_key(|duty| -duty.fifo().unwrap_or(0)));
        assert!(order.is_sorted_by_key(|duty| duty.nice()));
        assert!(Duty::RealTime.fifo() < Some(super::super::ADAPTER_FIFO));
        assert!(Duty::RealTime.nice() > -20);
    }

    #[test]
    fn nobody_is_real_time_where_the_adapter_may_run() {
        std::thread::spawn(|| {
            let cpus = Cpus::present();
            let last = cpus.last().unwrap();
            let unpinned = take_duty(Duty::RealTime, &cpus, &AdapterCpus::ANY);
            let note = Lack::Unpinned.note("not fifo 30");
            assert_eq!((unpinned.fifo, &*unpinned.notes), (None, &[note][..]));
            assert_eq!(unpinned.cpus, super::super::allowed_cpus());
            let got = take_duty(Duty::RealTime, &cpus, &AdapterCpus::of([Some(last)]));
            match cpus.without(last) {
                Some(_) => assert!(!got.cpus.contains(&last), "{got}"),
                None => assert_eq!(got.notes[0], Lack::OneCpu.note("not fifo 30")),
            }
            assert_eq!(got.fifo.is_none(), !got.notes.is_empty(), "{got}");
            // Back among the others, and on all CPUs.
            let back = take_duty(Duty::BestEffort, &cpus, &AdapterCpus::ANY);
            assert_eq!((back.fifo, back.cpus.len()), (None, unpinned.cpus.len()));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_kernel_keeps_a_share_of_threads_whose_cpus_it_schedules_apart() {
        std::thread::spawn(|| {
            let cpus = Cpus::present();
            // An adapter whose CPU is isolated is on none of these.
            let isolated = &AdapterCpus::of([Some(CpuSet::MAX_CPU - 1)]);
            let got = take_share(100_000, &cpus, isolated);
            let Some(reserved) = got.reserved_ns else {
                let note = got.notes.last().unwrap();
                assert!(note.starts_with("no reservation by deadline"), "{got}");
                assert_eq!(got.is_real_time(), got.fifo.is_some());
                return println!("skipped deadline: {got}");
            };
            assert_eq!((reserved, got.is_real_time()), (500_000, true));
            assert!(
                got.to_string().starts_with("deadline 500 of 4000 us"),
                "{got}"
            );
            assert_eq!(super::super::scheduling::policy(), "deadline");
            // Others may follow, and what is beyond a CPU is a CPU.
            assert_eq!(
                take_share(1, &cpus, isolated).reserved_ns,
                Some(RESERVED_MIN_NS)
            );
            let whole = take_share(u32::MAX - 1, &cpus, isolated);
            assert!(
                whole.reserved_ns.is_none_or(|ns| ns == RESERVED_PERIOD_NS),
                "{whole}"
            );
            // Without CPUs apart nobody asks the kernel.
            let beside = take_share(100_000, &cpus, &AdapterCpus::ANY);
            assert!(!beside.is_real_time(), "{beside}");
            assert_eq!(super::super::scheduling::policy(), "other");
            println!("ran deadline");
        })
        .join()
        .unwrap();
    }
}
