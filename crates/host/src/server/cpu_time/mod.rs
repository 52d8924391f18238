//! CPU time that applications have reserved for threads of their own (*L4ATM*'s scheduling).
//!
//! ```text
//!  service thread                       cg-reserve, above these threads    kernel
//!  CpuTimes: hold, release  --inbox-->  every millisecond: within?  -----> class of the thread
//!            ^--- how it is scheduled, or why not ---+
//! ```
//!
//! A thread that is within its budget is real-time; beyond it, it is scheduled like everything else
//! until it has credit again. The numbers of all of them are in a file: who has reserved something
//! loses it when the daemon dies, for nobody would hold it to its budget, and the next daemon
//! demotes it first.

mod thread;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cellgate_core::server::{ClientId, CpuTime, Refused};
use cellgate_shm::wake_descriptor;

use crate::adapter::wake::ring;
use crate::sys::{AdapterCpus, Cpus, FavouredThread, ThreadScheduling, demote_left};
use thread::{Held, Told};

/// How long is waited for the thread that schedules the others.
const PATIENCE: Duration = Duration::from_secs(1);
/// Threads at a time.
const THREADS_MAX: usize = 256;

/// Where the numbers are kept.
pub(super) const NAMES: &str = "reserved-threads";
pub(super) const NAMES_MAX: u64 = 1 << 16;

/// Threads of applications, as the service thread has them.
pub(super) struct CpuTimes {
    cpus: Cpus,
    adapters: AdapterCpus,
    held: BTreeMap<ClientId, Reserved>,
    watch: Option<Watch>,
}

/// A thread, and its share.
struct Reserved {
    /// Its number, and when it began.
    name: (u32, u64),
    ppm: u32,
}

/// The thread that schedules the others.
struct Watch {
    inbox: Arc<Mutex<Vec<Told>>>,
    bell: Arc<OwnedFd>,
    scheduling: ThreadScheduling,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(cpus: &Cpus, adapters: AdapterCpus) -> std::io::Result<Self> {
        let inbox = Arc::new(Mutex::new(Vec::new()));
        let bell = Arc::new(wake_descriptor().map_err(std::io::Error::other)?);
        let (cpus, mail, rung) = (cpus.clone(), Arc::clone(&inbox), Arc::clone(&bell));
        let (scheduling, thread) = thread::start(cpus, adapters, mail, rung)?;
        Ok(Self {
            inbox,
            bell,
            scheduling,
            thread: Some(thread),
        })
    }

    fn tell(&self, told: Told) {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        inbox.push(told);
        drop(inbox);
        ring(&self.bell);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tell(Told::End);
        // Whose class it has not taken away keeps it.
        self.thread.take().map(JoinHandle::join);
    }
}

impl CpuTimes {
    /// Demotes what another daemon has left; nothing is reserved.
    pub(super) fn new(cpus: Cpus, left: &[u8]) -> Self {
        names(left).for_each(demote_left);
        Self {
            cpus,
            adapters: AdapterCpus::ANY,
            held: BTreeMap::new(),
            watch: None,
        }
    }

    /// The adapters are on these CPUs.
    pub(super) fn keep_off(&mut self, adapters: AdapterCpus) {
        if adapters != self.adapters {
            self.adapters = adapters;
            if let Some(watch) = &self.watch {
                watch.tell(Told::KeepOff(adapters));
            }
        }
    }

    /// The text of the file of the numbers.
    pub(super) fn octets(&self) -> Vec<u8> {
        let lines = self.held.values().map(
            |Reserved {
                 name: (number, began),
                 ..
             }| format!("{number} {began}\n"),
        );
        lines.collect::<String>().into_bytes()
    }

    /// Has a thread of this user's have `ppm` millionths of a CPU, in place of the one before.
    pub(super) fn hold(
        &mut self,
        client: ClientId,
        uid: u32,
        (time, ppm): (&CpuTime, u32),
    ) -> Result<ThreadScheduling, Refused> {
        let wrong = |why: String| Refused::Unsupported(why);
        if self.held.len() >= THREADS_MAX && !self.held.contains_key(&client) {
            let most = format!("{THREADS_MAX} threads have CPU time reserved, and no more may");
            return Err(wrong(most));
        }
        let thread = FavouredThread::find(time.tid, uid).map_err(wrong)?;
        let name = thread.name();
        let mut others = self.held.iter().filter(|(other, _)| **other != client);
        if others.any(|(_, held)| held.name == name) {
            let text = format!("thread {} has CPU time reserved already", time.tid);
            return Err(wrong(text));
        }
        let (answers, answer) = sync_channel(1);
        let watch = self.watch()?;
        watch.tell(Told::Hold(
            client,
            Held::new(thread, ppm, time.budget_ns),
            answers,
        ));
        let said = answer.recv_timeout(PATIENCE);
        let scheduling = match said {
            Ok(scheduled) => scheduled.map_err(wrong),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(
                Refused::Kernel("threads are scheduled by nobody".to_owned()),
            ),
        };
        match &scheduling {
            Ok(_) => drop(self.held.insert(client, Reserved { name, ppm })),
            Err(_) => self.release(client),
        }
        scheduling
    }

    fn watch(&mut self) -> Result<&Watch, Refused> {
        let watch = match self.watch.take() {
            Some(watch) => watch,
            None => {
                let started = Watch::start(&self.cpus, self.adapters);
                started.map_err(|error| Refused::Kernel(error.to_string()))?
            }
        };
        if !watch.scheduling.is_real_time() {
            let notes = watch.scheduling.notes.join("; ");
            let text = format!("the server may make nobody real-time: {notes}");
            return Err(Refused::Unsupported(text));
        }
        Ok(self.watch.insert(watch))
    }

    /// A client has no CPU time any more.
    pub(super) fn release(&mut self, client: ClientId) {
        if let Some(watch) = &self.watch {
            watch.tell(Told::Release(client));
        }
        self.held.remove(&client);
    }

    /// Those that have another share by now, or none.
    pub(super) fn outdated(&self, ppm_of: impl Fn(ClientId) -> Option<u32>) -> Vec<ClientId> {
        let outdated = self
            .held
            .iter()
            .filter(|(client, held)| ppm_of(**client) != Some(held.ppm));
        outdated.map(|(client, _)| *client).collect()
    }
}

/// The threads that a file names.
fn names(octets: &[u8]) -> impl Iterator<Item = (u32, u64)> {
    let text = std::str::from_utf8(octets).unwrap_or_default();
    text.lines().filter_map(|line| {
        let (number, began) = line.split_once(' ')?;
        Some((number.parse().ok()?, began.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_anything_names_nobody() {
        assert_eq!(
            names(b"12 34\n5 6\n").collect::<Vec<_>>(),
            [(12, 34), (5, 6)]
        );
        for octets in [&b"12\n-1 3\n \n1 2 3\nx y"[..], b"\xff 1", b""] {
            assert_eq!(names(octets).count(), 0);
        }
    }

    #[test]
    fn a_thread_is_real_time_within_its_budget_and_the_next_daemon_demotes_it() {
        let cpus = Cpus::present();
        let Some(last) = cpus.last().filter(|_| cpus.count() > 1) else {
            return println!("skipped reserved_thread: one CPU");
        };
        let (client, other) = (ClientId(1), ClientId(2));
        let mut times = CpuTimes::new(cpus, b"");
        times.keep_off(AdapterCpus::of([Some(last)]));
        let number = rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .cast_unsigned();
        let time = CpuTime {
            tid: number,
            budget_ns: 500_000,
            period_ns: 10_000_000,
            address: None,
        };
        let uid = rustix::process::getuid().as_raw();
        let held = times.hold(client, uid, (&time, 50_000));
        let scheduling = match held {
            Ok(scheduling) => scheduling,
            Err(refused) => return println!("skipped reserved_thread: {refused}"),
        };
        assert!(
            scheduling.is_real_time() && !scheduling.cpus.contains(&last),
            "{scheduling}"
        );
        let is_real_time = || {
            let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let (_, rest) = text.rsplit_once(')').unwrap();
            // Field 41: the policy.
            rest.split_whitespace().nth(38).unwrap() != "0"
        };
        assert!(is_real_time());
        assert!(
            times.hold(other, uid, (&time, 50_000)).is_err(),
            "a thread has one at most"
        );
        // Who never sleeps is beyond it soon, and within it again later.
        let begun = std::time::Instant::now();
        let until = |wanted: bool| {
            while is_real_time() != wanted {
                assert!(begun.elapsed() < Duration::from_secs(60));
            }
        };
        until(false);
        until(true);
        let kept = times.octets();
        // A daemon that dies says nothing to its thread: this one stays as it is.
        let watch = times.watch.take().unwrap();
        watch.tell(Told::Die);
        drop(watch);
        let next = CpuTimes::new(Cpus::present(), &kept);
        assert!(!is_real_time() && next.octets().is_empty());
        println!("ran reserved_thread");
    }
}
