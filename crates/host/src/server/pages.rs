//! A watch over the adapter's memory: who takes pages of it away?
//!
//! A client can take pages out of the files that the firmware's thread reads and writes, and each
//! that it touches next is a page fault there, as long as the client makes it. So a thread of its
//! own looks whether the firmware's thread has faults at all. While it has, this thread maps all
//! files, has the kernel find the pages that are missing in its maps again and again, and tells
//! whose they were. A page that the kernel moves in memory is missing for that moment, too: so many
//! are nobody's fault.
//!
//! ```text
//!  service thread                  cg-pages
//!  watch, forget, adapter --notes--> faults of cg-firmware? -- none: rest, without maps
//!  found            <--bell, list--  some: which pages are gone, of which files?
//!                                    more than the kernel has moved meanwhile?
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use cellgate_shm::{Presence, wake_descriptor};

use crate::adapter::wake::{ring, silence};
use crate::sys::{AdapterCpus, Cpus, Duty, name_thread, take_duty};

/// From one look at the firmware's faults to the next.
const QUIET: Duration = Duration::from_millis(100);
/// From one look at the pages to the next, at least.
const ALARMED: Duration = Duration::from_millis(10);
/// Looks take no more than one part in so many of a CPU.
const PART: u32 = 10;
/// How long the pages are looked at after the last fault.
const ALARM: Duration = Duration::from_secs(2);

/// How long after a look the kernel's count of moved pages is read: it counts some together.
const JUDGED_AFTER: Duration = Duration::from_millis(100);

/// Device and inode of the file that a client writes: it stands for all memory that came with it.
pub(super) type FileName = (u64, u64);

type Two = [Arc<OwnedFd>; 2];

enum Note {
    Adapter(u32),
    KeepOff(AdapterCpus),
    Watch(FileName, Two),
    Forget(FileName),
    ForgetAll,
}

/// The thread, as the service thread has it.
pub(super) struct PageWatch {
    notes: Sender<Note>,
    found: Receiver<(FileName, u32)>,
    bell: Arc<OwnedFd>,
}

impl PageWatch {
    /// Starts the thread, which ends with this value.
    pub(super) fn start(cpus: Cpus) -> std::io::Result<Self> {
        let (notes, heard) = channel();
        let (tell, found) = channel();
        let bell = Arc::new(wake_descriptor().map_err(std::io::Error::other)?);
        let thread = Thread {
            heard,
            cpus,
            tell,
            bell: Arc::clone(&bell),
            firmware: None,
            watched: BTreeMap::new(),
            suspected: Suspected::default(),
            alarm_until: None,
            pause: QUIET,
        };
        Builder::new()
            .name("pages".to_owned())
            .spawn(move || thread.run())?;
        Ok(Self { notes, found, bell })
    }

    fn note(&self, note: Note) {
        // The thread lives as long as this end of the channel.
        let _ = self.notes.send(note);
    }

    /// The adapter is this process.
    pub(super) fn adapter(&self, pid: u32) {
        self.note(Note::Adapter(pid));
    }

    /// The adapters are on these CPUs.
    pub(super) fn keep_off(&self, adapters: AdapterCpus) {
        self.note(Note::KeepOff(adapters));
    }

    /// These files are the firmware's, and a client has them.
    pub(super) fn watch(&self, name: FileName, files: Two) {
        self.note(Note::Watch(name, files));
    }

    pub(super) fn forget(&self, name: FileName) {
        self.note(Note::Forget(name));
    }

    pub(super) fn forget_all(&self) {
        self.note(Note::ForgetAll);
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Pages that were gone since this was asked last, by the memory that they were of.
    pub(super) fn found(&self) -> Vec<(FileName, u32)> {
        silence(&self.bell);
        self.found.try_iter().collect()
    }
}

/// The faults of the firmware's thread, as the kernel counts them.
struct Firmware {
    stat: File,
    faults: u64,
}

impl Firmware {
    fn of(pid: u32) -> Option<Self> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let mut tasks = tasks.filter_map(|task| Some(task.ok()?.path()));
        let task = tasks.find(|task| {
            std::fs::read_to_string(task.join("comm"))
                .is_ok_and(|name| name.trim() == "cg-firmware")
        })?;
        let stat = File::open(task.join("stat")).ok()?;
        Some(Self { stat, faults: 0 })
    }

    /// Whether it had any since this was asked last. One that cannot be asked may have had some.
    fn has_faulted(&mut self) -> bool {
        let mut text = String::new();
        let read = self
            .stat
            .rewind()
            .and_then(|()| self.stat.read_to_string(&mut text));
        let faults = read.ok().and_then(|_| minor_faults(&text));
        faults.is_none_or(|faults| std::mem::replace(&mut self.faults, faults) != faults)
    }
}

/// The field `minflt` of proc_pid_stat(5), the eighth behind the name.
fn minor_faults(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(7)?.parse().ok()
}

struct Watched {
    files: Two,
    /// While there is an alarm.
    presence: Option<[Presence; 2]>,
}

struct Thread {
    heard: Receiver<Note>,
    /// All of this process.
    cpus: Cpus,
    tell: Sender<(FileName, u32)>,
    bell: Arc<OwnedFd>,
    /// None: it cannot be found.
    firmware: Option<Firmware>,
    watched: BTreeMap<FileName, Watched>,
    suspected: Suspected,
    alarm_until: Option<Instant>,
    pause: Duration,
}

impl Thread {
    fn run(mut self) {
        name_thread("cg-pages");
        while self.hear() {
            let now = Instant::now();
            if self.firmware.as_mut().is_none_or(Firmware::has_faulted) {
                self.alarm_until = Some(now + ALARM);
            }
            self.pause = QUIET;
            if self.alarm_until.is_some_and(|until| now < until) {
                self.look(now);
                self.pause = ALARMED.max(now.elapsed() * (PART - 1));
            } else if self.alarm_until.take().is_some() {
                self.watched
                    .values_mut()
                    .for_each(|one| one.presence = None);
            }
            self.judge(now);
        }
    }

    /// Takes notes until the pause is over; `false`: nobody writes any more.
    fn hear(&mut self) -> bool {
        let until = Instant::now() + self.pause;
        loop {
            let note = if self.watched.is_empty() {
                self.heard
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                let left = until.saturating_duration_since(Instant::now());
                self.heard.recv_timeout(left)
            };
            match note {
                Ok(Note::Adapter(pid)) => self.firmware = Firmware::of(pid),
                Ok(Note::KeepOff(adapters)) => {
                    take_duty(Duty::Service, &self.cpus, &adapters);
                }
                Ok(Note::Watch(name, files)) => {
                    let presence = None;
                    let watched = self.watched.entry(name);
                    watched.or_insert(Watched { files, presence });
                }
                Ok(Note::Forget(name)) => drop(self.watched.remove(&name)),
                Ok(Note::ForgetAll) => self.watched.clear(),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Looks at all files: a first time, or which pages are gone since the last.
    fn look(&mut self, now: Instant) {
        for (name, one) in &mut self.watched {
            match &one.presence {
                None => one.presence = one.present(),
                Some(presence) => {
                    let pages = presence.iter().map(gone).sum::<u32>();
                    self.suspected.found(now, *name, pages);
                }
            }
        }
        self.suspected.looked(pages_moved());
    }

    /// Tells of what was found some time ago.
    fn judge(&mut self, now: Instant) {
        let mut any = false;
        for found in self.suspected.judged(now, pages_moved) {
            any |= self.tell.send(found).is_ok();
        }
        if any {
            ring(&self.bell);
        }
    }
}

/// Pages that were gone, until it is known how many of them the kernel has moved.
#[derive(Default)]
struct Suspected {
    /// When they were found, and how many pages the kernel had moved by the look before.
    found: VecDeque<(Instant, u64, FileName, u32)>,
    /// By the last look.
    moved: u64,
}

impl Suspected {
    fn found(&mut self, now: Instant, name: FileName, pages: u32) {
        if pages > 0 {
            self.found.push_back((now, self.moved, name, pages));
        }
    }

    /// A look is over; the kernel has moved so many pages ever.
    fn looked(&mut self, moved: u64) {
        self.moved = moved;
    }

    /// What was found long enough ago, less what the kernel has moved about that time.
    fn judged(&mut self, now: Instant, moved: impl FnOnce() -> u64) -> Vec<(FileName, u32)> {
        let is_due = |at: Instant| now.saturating_duration_since(at) >= JUDGED_AFTER;
        let due = self.found.iter().take_while(|(at, ..)| is_due(*at)).count();
        if due == 0 {
            return Vec::new();
        }
        let moved = moved();
        let due = self.found.drain(..due).map(|(_, before, name, pages)| {
            let excused = moved.saturating_sub(before);
            (name, u64::from(pages).saturating_sub(excused) as u32)
        });
        due.filter(|(_, pages)| *pages > 0).collect()
    }
}

/// Pages that the kernel has moved in memory, or tried to, since the machine began. None where it
/// does not count them.
fn pages_moved() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let counts = text.lines().filter_map(|line| {
        let (name, count) = line.split_once(' ')?;
        matches!(name, "pgmigrate_success" | "pgmigrate_fail").then_some(count)
    });
    counts.filter_map(|count| count.parse::<u64>().ok()).sum()
}

impl Watched {
    /// None: the kernel has no memory for the maps.
    fn present(&self) -> Option<[Presence; 2]> {
        let [a, b] = &self.files;
        Some([Presence::of(a).ok()?, Presence::of(b).ok()?])
    }
}

/// Pages that the kernel cannot find now stay missing until it can: the next look tells of them.
fn gone(presence: &Presence) -> u32 {
    presence.restore().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_the_kernel_moves_meanwhile_are_nobodys_fault() {
        let (mut suspected, begin) = (Suspected::default(), Instant::now());
        let (one, other) = ((0, 1), (0, 2));
        suspected.looked(1_000);
        suspected.found(begin, one, 7);
        suspected.found(begin, other, 40);
        suspected.looked(1_000);
        let early = begin + JUDGED_AFTER / 2;
        assert!(suspected.judged(early, || unreachable!()).is_empty());
        suspected.found(early, one, 3);
        // It had moved them by then, and counts them now.
        let late = begin + JUDGED_AFTER;
        assert_eq!(suspected.judged(late, || 1_010), [(other, 30)]);
        suspected.looked(1_010);
        suspected.found(late, one, 5);
        assert_eq!(suspected.judged(late + JUDGED_AFTER, || 1_010), [(one, 5)]);
    }
}
