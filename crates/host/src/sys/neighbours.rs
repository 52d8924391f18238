//! Which CPU each adapter's firmware thread is pinned to, as far as /proc shows it, and how the
//! calling thread gets one that no other has.
//!
//! ```text
//!  cg-firmware    has its CPU, and stays there
//!  cg-firmware?   is pinned to a CPU, and gives it away if another was there before
//! ```
//! Both names count. Whoever is pinned to a CPU looks who else is there: it leaves to those who
//! stay, and to those who still choose if they are older. For younger ones that still choose it
//! waits: they leave, or have decided before they could see it. So of those who begin together
//! exactly one stays on a CPU.
//!
//! All of it is others' text. A process that gives a thread the name falsely has an adapter take
//! another CPU or share its own, and nothing else.

use std::fs::{self, File, ReadDir};
use std::io::Read;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::thread::{CpuSet, gettid, sched_setaffinity};

use super::{name_thread, pin_thread};

/// The name of a firmware thread.
pub const FIRMWARE: &str = "cg-firmware";
/// Threads that one walk looks at, at most.
const THREADS_MAX: usize = 65_536;
/// Firmware threads that one walk finds, at most.
const FOUND_MAX: usize = 1_024;
/// Octets that are read of a file.
const FILE_MAX: u64 = 8 << 10;
/// The kernel's flag of a thread that is ending (`PF_EXITING`).
const ENDING: u64 = 4;
/// How often, and how long each time, a younger thread is waited for that still chooses.
const WAITS_MAX: u32 = 1_000;
const WAIT: Duration = Duration::from_millis(1);

/// A firmware thread that is pinned to one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirmwareThread {
    pub pid: u32,
    pub cpu: usize,
    /// When it began, in the kernel's ticks since the machine was started, and its number: who has
    /// less is older.
    age: (u64, u32),
    /// It may still give its CPU away.
    chooses: bool,
}

/// A look at all threads of the machine, in parts.
#[derive(Debug)]
pub struct Walk {
    name: String,
    processes: Option<ReadDir>,
    /// The process that is being looked at.
    threads: Option<(u32, ReadDir)>,
    left: usize,
    found: Vec<FirmwareThread>,
}

impl Walk {
    /// Begins to look for firmware threads.
    pub fn begin() -> Self {
        Self::at(Path::new("/proc"), FIRMWARE)
    }

    /// For threads of another name, in a directory like /proc.
    fn at(root: &Path, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            processes: fs::read_dir(root).ok(),
            threads: None,
            left: THREADS_MAX,
            found: Vec::new(),
        }
    }

    /// Looks at as many processes and threads; whether there are more.
    pub fn go_on(&mut self, count: usize) -> bool {
        for _ in 0..count {
            if self.left == 0 || self.found.len() == FOUND_MAX {
                return false;
            }
            if let Some((pid, threads)) = &mut self.threads {
                let pid = *pid;
                match threads.next() {
                    Some(Ok(entry)) => {
                        self.left -= 1;
                        let found = firmware(&entry.path(), pid, &self.name);
                        self.found.extend(found);
                    }
                    // The process may have ended.
                    Some(Err(_)) | None => self.threads = None,
                }
                continue;
            }
            match self.processes.as_mut().and_then(Iterator::next) {
                Some(Ok(entry)) => self.threads = threads_of(&entry.path()),
                Some(Err(_)) => self.left -= 1,
                None => return false,
            }
        }
        true
    }

    /// Those found so far.
    pub fn found(&self) -> &[FirmwareThread] {
        &self.found
    }

    /// Looks at all that is left.
    pub fn finish(mut self) -> Vec<FirmwareThread> {
        while self.go_on(THREADS_MAX) {}
        self.found
    }
}

/// A process with threads to look at. One that has a single thread has no firmware beside it.
fn threads_of(process: &Path) -> Option<(u32, ReadDir)> {
    let pid = process.file_name()?.to_str()?.parse().ok()?;
    let tasks = process.join("task");
    // A directory's links are itself twice, and its subdirectories where they are counted.
    match fs::metadata(&tasks).ok()?.nlink() {
        3 => None,
        _ => Some((pid, fs::read_dir(tasks).ok()?)),
    }
}

/// The thread with this directory, if it has the name, is pinned, and does not end.
fn firmware(thread: &Path, pid: u32, name: &str) -> Option<FirmwareThread> {
    let tid = thread.file_name()?.to_str()?.parse().ok()?;
    let comm = text(&thread.join("comm"))?;
    let rest = comm.trim_end_matches('\n').strip_prefix(name)?;
    let chooses = match rest {
        "" => false,
        "?" => true,
        _ => return None,
    };
    let began = began(&text(&thread.join("stat"))?)?;
    let cpu = only_cpu(&text(&thread.join("status"))?)?;
    Some(FirmwareThread {
        pid,
        cpu,
        age: (began, tid),
        chooses,
    })
}

/// When a thread began, by its `stat`; none: it is ending, or the text is none.
fn began(stat: &str) -> Option<u64> {
    // The name before it is whatever the thread likes, parentheses included.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let flags: u64 = fields.nth(5)?.parse().ok()?;
    let ends = matches!(state, "Z" | "X" | "x") || flags & ENDING != 0;
    let began = fields.nth(12)?.parse().ok()?;
    (!ends).then_some(began)
}

/// The one CPU that a thread may use, by its `status`; none: there are others.
fn only_cpu(status: &str) -> Option<usize> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim().parse().ok()
}

fn text(path: &Path) -> Option<String> {
    beginning(path, FILE_MAX)
}

/// The first octets of a file, as text.
pub(crate) fn beginning(path: &Path, octets: u64) -> Option<String> {
    let mut read = Vec::new();
    let file = File::open(path).ok()?;
    file.take(octets).read_to_end(&mut read).ok()?;
    // A name need not be text.
    Some(String::from_utf8_lossy(&read).into_owned())
}

/// The CPU that an adapter which chooses among `cpus` will find.
pub fn expected_cpu(cpus: &[usize]) -> Option<usize> {
    let all = Walk::begin().finish();
    let is_free = |cpu: &&usize| all.iter().all(|one| one.cpu != **cpu);
    cpus.iter().rev().find(is_free).or(cpus.last()).copied()
}

/// The processes of the other adapters on this CPU, as far as they can be seen, in order: `pid` is
/// the caller's.
pub fn others_on(all: &[FirmwareThread], cpu: usize, pid: u32) -> Vec<u32> {
    let others = all.iter().filter(|one| one.cpu == cpu && one.pid != pid);
    let mut pids: Vec<_> = others.map(|one| one.pid).collect();
    pids.sort_unstable();
    pids
}

/// Where a thread chooses.
trait Place {
    /// All other threads that are pinned.
    fn others(&mut self) -> Vec<FirmwareThread>;
    fn age(&self) -> (u64, u32);
    /// Pins this one; whether it could be.
    fn pin(&mut self, cpu: usize) -> bool;
    /// It gives its CPU away.
    fn leave(&mut self);
    fn wait(&mut self);
}

/// Pins the calling thread to the last of `cpus` that no other thread of its name is pinned to, or
/// else to the one with the fewest; that one, and how many others are there. None: it can be pinned
/// to none of them.
pub(super) fn choose_cpu(cpus: &[usize]) -> Option<(usize, u32)> {
    let mut here = Here::new(cpus);
    name_thread(&format!("{}?", here.name));
    let chosen = choose(&mut here, cpus);
    name_thread(&here.name);
    chosen
}

/// How many other threads of the calling one's name are pinned to a CPU.
pub(super) fn neighbours_on(cpu: usize) -> u32 {
    let mut here = Here::new(&[]);
    let others = here.others();
    let there = others.iter().filter(|other| other.cpu == cpu);
    u32::try_from(there.count()).unwrap_or(u32::MAX)
}

/// This machine, and the calling thread.
struct Here<'a> {
    name: String,
    age: (u64, u32),
    cpus: &'a [usize],
}

impl<'a> Here<'a> {
    fn new(cpus: &'a [usize]) -> Self {
        let own = |file: &str| text(&Path::new("/proc/thread-self").join(file));
        let comm = own("comm").unwrap_or_default();
        // As /proc counts, which may have been mounted for another PID namespace.
        let shown = fs::read_link("/proc/thread-self").ok();
        let shown = shown.and_then(|path| path.file_name()?.to_str()?.parse().ok());
        let tid = shown.unwrap_or_else(|| gettid().as_raw_nonzero().get().cast_unsigned());
        let began = own("stat").and_then(|stat| began(&stat));
        Self {
            name: comm.trim_end_matches('\n').to_owned(),
            age: (began.unwrap_or(u64::MAX), tid),
            cpus,
        }
    }
}

impl Place for Here<'_> {
    fn others(&mut self) -> Vec<FirmwareThread> {
        let mut all = Walk::at(Path::new("/proc"), &self.name).finish();
        all.retain(|one| one.age.1 != self.age.1);
        all
    }

    fn age(&self) -> (u64, u32) {
        self.age
    }

    fn pin(&mut self, cpu: usize) -> bool {
        pin_thread(cpu).is_ok()
    }

    fn leave(&mut self) {
        let mut set = CpuSet::new();
        for &cpu in self.cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
            set.set(cpu);
        }
        // It is pinned to another one next.
        let _ = sched_setaffinity(None, &set);
    }

    fn wait(&mut self) {
        std::thread::sleep(WAIT);
    }
}

fn choose(place: &mut impl Place, cpus: &[usize]) -> Option<(usize, u32)> {
    for &cpu in cpus.iter().rev() {
        let taken = place.others().iter().any(|other| other.cpu == cpu);
        if !taken && place.pin(cpu) {
            if is_left(place, cpu) {
                return Some((cpu, 0));
            }
            place.leave();
        }
    }
    let others = place.others();
    let on = |cpu: usize| others.iter().filter(|other| other.cpu == cpu).count();
    let mut all: Vec<_> = cpus.iter().rev().map(|&cpu| (on(cpu), cpu)).collect();
    all.sort_by_key(|(count, _)| *count);
    let (count, cpu) = all.into_iter().find(|(_, cpu)| place.pin(*cpu))?;
    Some((cpu, u32::try_from(count).unwrap_or(u32::MAX)))
}

/// Whether the CPU that this thread is pinned to is left to it.
fn is_left(place: &mut impl Place, cpu: usize) -> bool {
    let age = place.age();
    for _ in 0..WAITS_MAX {
        let others = place.others();
        let mut there = others.iter().filter(|other| other.cpu == cpu).peekable();
        if there.peek().is_none() {
            return true;
        }
        if there.any(|other| !other.chooses || other.age < age) {
            return false;
        }
        place.wait();
    }
    false
}

/// What the machine says of its CPUs, as "0-3,5"; none: it does not.
pub fn cpus_of_machine() -> Option<String> {
    let list = text(Path::new("/sys/devices/system/cpu/online"))?;
    let list = list.trim();
    let is_list = |c: char| c.is_ascii_digit() || "-,".contains(c);
    (!list.is_empty() && list.chars().all(is_list)).then(|| list.to_owned())
}

/// The CPUs of a list as "0-3,5"; what is odd in it is left out.
pub(crate) fn spans_of_cpus(list: &str) -> impl Iterator<Item = RangeInclusive<usize>> {
    list.split(',').filter_map(|span| {
        let (first, last) = span.split_once('-').unwrap_or((span, span));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    })
}

/// Whether a list as "0-3,5" has this CPU.
pub fn has_cpu(list: &str, cpu: usize) -> bool {
    spans_of_cpus(list).any(|span| span.contains(&cpu))
}

#[cfg(test)]
mod tests;
