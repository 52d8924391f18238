//! Threads of other processes, which the daemon has come before those that are not real-time.

use std::fs::{self, File};
use std::io::{Read, Seek};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::duty::{reserve_for, set_policy_of};
use super::{AdapterCpus, ThreadScheduling};

/// The priority in the class SCHED_FIFO: below all threads of the daemon that are real-time.
const APPLICATION_FIFO: i32 = 5;

/// A thread of an application. Whatever is opened of it below `/proc` goes with the thread, whoever
/// has its number later.
#[derive(Debug)]
pub(crate) struct FavouredThread {
    id: Pid,
    began: u64,
    used: File,
    /// Those that it could run on before.
    cpus: CpuSet,
}

impl FavouredThread {
    /// The thread of this number, of a process of this user; root may name anybody's.
    ///
    /// # Errors
    /// There is none, or it is another user's.
    pub(crate) fn find(number: u32, uid: u32) -> Result<Self, String> {
        let none = || format!("user {uid} has no thread {number}");
        let id = pid(number).ok_or_else(none)?;
        let used = File::open(format!("/proc/{number}/schedstat"));
        let used = used.map_err(|error| format!("thread {number}: {error}"))?;
        let status = fs::read_to_string(format!("/proc/{number}/status"));
        let owners = status
            .ok()
            .and_then(|text| owners(&text))
            .ok_or_else(none)?;
        if uid != 0 && owners != [uid; 4] {
            return Err(none());
        }
        let refused = |error| format!("thread {number}: {error}");
        let mut found = Self {
            id,
            began: began(number).ok_or_else(none)?,
            used,
            cpus: sched_getaffinity(Some(id)).map_err(refused)?,
        };
        // Whoever has its number by now is somebody else.
        found.used_ns().ok_or_else(none)?;
        Ok(found)
    }

    /// Its number and when it began, for whoever finds it again.
    pub(crate) fn name(&self) -> (u32, u64) {
        (self.id.as_raw_nonzero().get().cast_unsigned(), self.began)
    }

    /// It was found anew while it was `former`, if that is the same.
    pub(crate) fn succeed(&mut self, former: &Self) {
        if self.name() == former.name() {
            self.cpus = former.cpus;
        }
    }

    /// CPU time that it has used, in nanoseconds; none: it has ended.
    pub(crate) fn used_ns(&mut self) -> Option<u64> {
        let mut text = [0; 64];
        self.used.rewind().ok()?;
        let len = self.used.read(&mut text).ok()?;
        let text = std::str::from_utf8(&text[..len]).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }

    /// Has it come before all that is not real-time, off the adapters' CPUs; `ppm` millionths of a
    /// CPU are reserved by the kernel, where it does that.
    ///
    /// # Errors
    /// The kernel refuses, or it could run on the adapters' CPUs alone.
    pub(crate) fn favour(
        &self,
        ppm: u32,
        adapters: &AdapterCpus,
    ) -> Result<ThreadScheduling, String> {
        let own = adapters.beside(&self.cpus);
        let own = own.ok_or("all CPUs of the thread are the adapters', and it would stop them")?;
        let refused = |error: std::io::Error| format!("the kernel refuses: {error}");
        sched_setaffinity(Some(self.id), &own).map_err(|error| refused(error.into()))?;
        let reserved_ns = reserve_for(Some(self.id), ppm).ok();
        let fifo = match reserved_ns {
            Some(_) => None,
            None => {
                let set = set_policy_of(Some(self.id), libc::SCHED_FIFO, APPLICATION_FIFO);
                set.map_err(refused)?;
                Some(APPLICATION_FIFO)
            }
        };
        Ok(ThreadScheduling {
            reserved_ns,
            fifo,
            cpus: (0..CpuSet::MAX_CPU)
                .filter(|cpu| own.is_set(*cpu))
                .collect(),
            ..ThreadScheduling::default()
        })
    }

    /// Whether it has moved itself to an adapter's CPU.
    pub(crate) fn strays(&self, adapters: &AdapterCpus) -> bool {
        let now = sched_getaffinity(Some(self.id));
        now.is_ok_and(|now| adapters.has_one_of(&now))
    }

    /// Has it be scheduled like any other, for now.
    pub(crate) fn demote(&self) {
        have_plain(self.id);
    }

    /// Has it be as it was before.
    pub(crate) fn release(&self) {
        self.demote();
        let _ = sched_setaffinity(Some(self.id), &self.cpus);
    }
}

/// Has a thread of this user's be scheduled like any other.
pub fn demote(number: u32) {
    if let Some(id) = pid(number) {
        have_plain(id);
    }
}

fn have_plain(id: Pid) {
    // It fails when the thread has ended.
    let _ = set_policy_of(Some(id), libc::SCHED_OTHER, 0);
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// Demotes a thread that another daemon has favoured, if it is still the same.
pub(crate) fn demote_left((number, began_at): (u32, u64)) {
    if let Some(id) = pid(number).filter(|_| began(number) == Some(began_at)) {
        have_plain(id);
        if let Ok(all) = sched_getaffinity(None) {
            let _ = sched_setaffinity(Some(id), &all);
        }
    }
}

/// Real, effective, saved and file system user.
fn owners(status: &str) -> Option<[u32; 4]> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut users = line.split_whitespace().map(str::parse);
    let mut next = || users.next()?.ok();
    Some([next()?, next()?, next()?, next()?])
}

/// When a thread began, in ticks since the machine did (proc_pid_stat(5), field 22).
fn began(number: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // Behind the name, which may have any octets, is field 3.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> u32 {
        rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .cast_unsigned()
    }

    #[test]
    fn a_thread_is_found_by_its_number_and_its_time_is_read() {
        let mut thread = FavouredThread::find(own(), rustix::process::getuid().as_raw()).unwrap();
        assert_eq!(thread.name().0, own());
        let before = thread.used_ns().unwrap();
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_millis(50) {}
        std::thread::yield_now();
        assert!(thread.used_ns().unwrap() > before);
        let gone = std::thread::spawn(own).join().unwrap();
        for (number, uid) in [(gone, 0), (own(), 4_000_000), (0, 0), (u32::MAX, 0)] {
            let error = FavouredThread::find(number, uid).unwrap_err();
            assert!(error.contains(&number.to_string()), "{error}");
        }
    }

    #[test]
    fn a_thread_that_has_ended_is_not_another() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(own()).unwrap();
            ends.recv().unwrap_err();
        });
        let mut found = FavouredThread::find(told.recv().unwrap(), 0).unwrap();
        assert!(found.used_ns().is_some());
        drop(end);
        thread.join().unwrap();
        // The kernel lets go of it a little later.
        let begun = std::time::Instant::now();
        while found.used_ns().is_some() {
            assert!(begun.elapsed() < std::time::Duration::from_secs(60));
        }
    }

    #[test]
    fn users_are_read_as_the_kernel_writes_them() {
        let text = "Name:\tsh\nUid:\t1\t2\t3\t4\nGid:\t5\t5\t5\t5\n";
        assert_eq!(owners(text), Some([1, 2, 3, 4]));
        assert_eq!([owners("Uid:\t1\t2\t3\n"), owners("")], [None, None]);
    }
}
