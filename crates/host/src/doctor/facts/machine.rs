//! What /proc and /sys say of the kernel, of its CPUs, and of processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::sys::{Walk, allowed_cpus, beginning, spans_of_cpus};

/// Octets that are read of a file.
const FILE_MAX: u64 = 1 << 20;
/// Processes that are looked at.
const PROCESSES_MAX: usize = 65_536;

const CAP_NET_BIND_SERVICE: u32 = 10;
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;

/// A file, without what ends its last line.
pub(crate) fn text(root: &Path, path: &str) -> Option<String> {
    Some(beginning(&root.join(path), FILE_MAX)?.trim_end().to_owned())
}

/// What a process may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) uid: u32,
    /// It has CAP_SYS_NICE.
    pub(crate) sys_nice: bool,
    /// It has CAP_IPC_LOCK.
    pub(crate) ipc_lock: bool,
    /// It has CAP_NET_BIND_SERVICE.
    pub(crate) bind: bool,
    /// RLIMIT_NICE.
    pub(crate) nice: u64,
    /// RLIMIT_RTPRIO.
    pub(crate) real_time: u64,
    /// RLIMIT_MEMLOCK, in octets.
    pub(crate) locked: u64,
    /// RLIMIT_NOFILE, the hard one.
    pub(crate) descriptors: u64,
}

impl Rights {
    /// Of a process, or of this one.
    pub(crate) fn of(root: &Path, pid: Option<u32>) -> Option<Self> {
        let process = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        let status = text(root, &format!("proc/{process}/status"))?;
        let limits = text(root, &format!("proc/{process}/limits"))?;
        Some(Self::read(&status, &limits))
    }

    pub(crate) fn read(status: &str, limits: &str) -> Self {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let effective = field("CapEff:").and_then(|all| u64::from_str_radix(all.trim(), 16).ok());
        let has = |capability: u32| effective.unwrap_or(0) >> capability & 1 == 1;
        let uid = field("Uid:").and_then(|all| all.split_whitespace().nth(1)?.parse().ok());
        // Soft and hard limit follow the name, which has blanks.
        let limit = |name: &str, at: usize| {
            let line = limits.lines().find_map(|line| line.strip_prefix(name));
            let value = line.and_then(|rest| rest.split_whitespace().nth(at));
            match value {
                Some("unlimited") => u64::MAX,
                value => value.and_then(|value| value.parse().ok()).unwrap_or(0),
            }
        };
        Self {
            uid: uid.unwrap_or(u32::MAX),
            sys_nice: has(CAP_SYS_NICE),
            ipc_lock: has(CAP_IPC_LOCK),
            bind: has(CAP_NET_BIND_SERVICE),
            nice: limit("Max nice priority", 0),
            real_time: limit("Max realtime priority", 0),
            locked: limit("Max locked memory", 0),
            descriptors: limit("Max open files", 1),
        }
    }
}

/// How the kernel schedules threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Threads {
    /// `sched_rt_runtime_us`.
    pub(crate) rt_runtime_us: Option<i64>,
    /// Whether it shares CPUs out by sessions.
    pub(crate) autogroup: bool,
    /// CPUs that it leaves alone, as "2-3"; empty: none.
    pub(crate) isolated: String,
    /// CPUs that are there.
    pub(crate) online: String,
    /// CPUs that this process may use.
    pub(crate) allowed: Vec<usize>,
    /// CPUs of the same core as the adapter's, without that one.
    pub(crate) siblings: Vec<usize>,
    /// Who chooses the frequency of the adapter's CPU, if somebody does.
    pub(crate) governor: Option<String>,
}

impl Threads {
    pub(crate) fn of(root: &Path) -> Self {
        let number = text(root, "proc/sys/kernel/sched_rt_runtime_us");
        let autogroup = text(root, "proc/sys/kernel/sched_autogroup_enabled");
        let cpus = |name: &str| text(root, &format!("sys/devices/system/cpu/{name}"));
        Self {
            rt_runtime_us: number.and_then(|text| text.parse().ok()),
            autogroup: autogroup.as_deref() == Some("1"),
            isolated: cpus("isolated").unwrap_or_default(),
            online: cpus("online").unwrap_or_default(),
            allowed: allowed_cpus(),
            siblings: Vec::new(),
            governor: None,
        }
    }

    /// What is to be known of one CPU.
    pub(crate) fn look_at(&mut self, root: &Path, cpu: Option<usize>) {
        let Some(cpu) = cpu else { return };
        let of = |name: &str| text(root, &format!("sys/devices/system/cpu/cpu{cpu}/{name}"));
        let siblings = of("topology/thread_siblings_list").unwrap_or_default();
        self.siblings = list(&siblings);
        self.siblings.retain(|sibling| *sibling != cpu);
        self.governor = of("cpufreq/scaling_governor");
    }
}

/// A list of CPUs as "0-1,8"; what is odd in it is left out.
pub(crate) fn list(text: &str) -> Vec<usize> {
    spans_of_cpus(text)
        .flat_map(|span| span.take(1_024))
        .collect()
}

/// An adapter of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherAdapter {
    pub(crate) pid: u32,
    /// The CPU that it is pinned to.
    pub(crate) cpu: Option<usize>,
    /// It is the one that is asked about.
    pub(crate) own: bool,
    /// Its daemon is gone, as far as can be seen.
    pub(crate) orphan: bool,
    /// It runs a program whose file has been replaced.
    pub(crate) replaced: bool,
    /// CPU time that its process used or waited for while it was looked at, in millionths of a CPU.
    pub(crate) busy_ppm: u64,
}

/// The adapters that can be seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Adapters(pub(crate) Vec<OtherAdapter>);

impl Adapters {
    /// All that /proc shows: `own` is the one that is asked about, `daemon` the daemon.
    pub(crate) fn of(root: &Path, own: Option<u32>, daemon: Option<u32>) -> Self {
        let pinned = Walk::begin().finish();
        let pinned = pinned.iter().map(|firmware| (firmware.pid, firmware.cpu));
        Self::found(root, &pinned.collect(), own, daemon)
    }

    pub(crate) fn found(
        root: &Path,
        pinned: &BTreeMap<u32, usize>,
        own: Option<u32>,
        daemon: Option<u32>,
    ) -> Self {
        let processes = fs::read_dir(root.join("proc"));
        let pids = processes.into_iter().flatten().filter_map(|entry| {
            let name = entry.ok()?.file_name();
            name.to_str()?.parse::<u32>().ok()
        });
        let named = |pid: u32| text(root, &format!("proc/{pid}/comm"));
        let (mut daemons, mut adapters) = (Vec::new(), Vec::new());
        for pid in pids.take(PROCESSES_MAX) {
            match named(pid).as_deref() {
                Some("cg-service") => daemons.push(pid),
                Some("cg-adapter") => adapters.push(pid),
                _ if pinned.contains_key(&pid) => adapters.push(pid),
                _ => {}
            }
        }
        let parent = |pid: u32| {
            let status = text(root, &format!("proc/{pid}/status"))?;
            let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
            line.trim().parse::<u32>().ok()
        };
        let program = |pid: u32| fs::read_link(root.join(format!("proc/{pid}/exe"))).ok();
        let parents: BTreeMap<_, _> = adapters.iter().map(|pid| (*pid, parent(*pid))).collect();
        let own = own.or_else(|| {
            let of = |pid: &&u32| daemon.is_some() && parents[*pid] == daemon;
            adapters.iter().find(of).copied()
        });
        // A daemon without an adapter of its own making has taken one up.
        let has_child = |pid: &u32| parents.values().any(|parent| *parent == Some(*pid));
        let mut takers = daemons.iter().filter(|pid| !has_child(pid)).count();
        if daemon.is_some_and(|pid| own.is_some() && daemons.contains(&pid) && !has_child(&pid)) {
            takers -= 1;
        }
        let alone = |pid: u32| {
            let Some(parent) = parents[&pid].filter(|parent| *parent > 1) else {
                return true;
            };
            // Who is left behind goes to the first process, or to a manager that asks for such.
            let same = program(pid)
                .zip(program(parent))
                .map(|(one, other)| one == other);
            let kin = named(parent).is_some_and(|name| name.starts_with("cg-"));
            named(pid).as_deref() == Some("cg-adapter") && same == Some(false) && !kin
        };
        let governed = |pid: u32| daemon.is_some() && own == Some(pid);
        let left: Vec<_> = adapters
            .iter()
            .filter(|pid| alone(**pid) && !governed(**pid))
            .collect();
        let orphans = if left.len() > takers {
            left
        } else {
            Vec::new()
        };
        let of = |pid: &u32| OtherAdapter {
            pid: *pid,
            cpu: pinned.get(pid).copied(),
            own: own == Some(*pid),
            orphan: orphans.contains(&pid),
            replaced: program(*pid)
                .is_some_and(|path| path.to_string_lossy().ends_with(" (deleted)")),
            busy_ppm: 0,
        };
        Self(adapters.iter().map(of).collect())
    }

    /// The one that is asked about.
    pub(crate) fn own(&self) -> Option<&OtherAdapter> {
        self.0.iter().find(|one| one.own)
    }

    /// The others on a CPU.
    pub(crate) fn others_on(&self, cpu: usize) -> impl Iterator<Item = &OtherAdapter> {
        self.0
            .iter()
            .filter(move |one| one.cpu == Some(cpu) && !one.own)
    }

    /// Whether one that never rests is on a CPU; its process.
    pub(crate) fn spinner_on(&self, cpu: Option<usize>) -> Option<u32> {
        let cpu = cpu?;
        let spins = |one: &&OtherAdapter| one.cpu == Some(cpu) && one.busy_ppm >= 500_000;
        self.0.iter().find(spins).map(|one| one.pid)
    }
}

/// The clock in use, and those that could be.
pub(crate) fn clock(root: &Path) -> (String, String) {
    let of = |name: &str| {
        let path = format!("sys/devices/system/clocksource/clocksource0/{name}_clocksource");
        text(root, &path).unwrap_or_default()
    };
    (of("current"), of("available"))
}

/// Octets of memory that can be had without taking them from anybody.
pub(crate) fn memory_available(root: &Path) -> Option<u64> {
    let info = text(root, "proc/meminfo")?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

/// Of a CPU, ticks in all and those that other virtual machines had; of all CPUs without one.
pub fn steal(stat: &str, cpu: Option<usize>) -> Option<(u64, u64)> {
    let name = cpu.map_or_else(|| "cpu".to_owned(), |cpu| format!("cpu{cpu}"));
    let line = stat
        .lines()
        .find(|line| line.split(' ').next() == Some(&*name))?;
    let ticks: Option<Vec<u64>> = line
        .split_ascii_whitespace()
        .skip(1)
        // Guests' time is in the user's, too.
        .take(8)
        .map(|ticks| ticks.parse().ok())
        .collect();
    let ticks = ticks?;
    Some((
        ticks.iter().fold(0, |sum, one| sum.saturating_add(*one)),
        *ticks.get(7)?,
    ))
}

/// Nanoseconds of CPU time that all threads of a process have had or waited for.
pub(crate) fn wanted_ns(root: &Path, pid: u32) -> Option<u64> {
    let tasks = fs::read_dir(root.join(format!("proc/{pid}/task"))).ok()?;
    let of = |task: std::io::Result<fs::DirEntry>| {
        let had = text(&task.ok()?.path(), "schedstat")?;
        let mut numbers = had.split(' ').map(|number| number.parse::<u64>().ok());
        numbers.next()??.checked_add(numbers.next()??)
    };
    let all: Vec<_> = tasks.filter_map(of).collect();
    // A kernel that counts none of it has no such file.
    (!all.is_empty()).then(|| all.iter().fold(0u64, |sum, one| sum.saturating_add(*one)))
}
