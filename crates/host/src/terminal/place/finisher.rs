//! A thread that waits for the disk, so that who receives does not.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use cellgate_core::terminal::Entry;
use cellgate_core::terminal::unfinished::{Finishing, Job, Settled};

use crate::clock::MonotonicClock;
use crate::terminal::disk::Root;

/// Threads at a time: what a place was told is still put when it is left, and whoever comes and
/// goes again and again has no more of them than this.
const THREADS_MAX: usize = 64;
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Counts a thread as long as it runs.
struct Counted;

impl Counted {
    fn new() -> Result<Self, String> {
        let counted = Self;
        if THREADS.fetch_add(1, Ordering::Relaxed) >= THREADS_MAX {
            return Err("too much is still being put that was left: try again later".to_owned());
        }
        Ok(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The thread. It ends when nobody has work for it any more.
#[derive(Clone, Debug)]
pub(super) struct Finisher {
    jobs: Sender<Job<Root>>,
    settles: Sender<Settled>,
    /// Whether nobody waits for long work any more.
    is_left: Arc<AtomicBool>,
    settled: Arc<Mutex<Receiver<Settled>>>,
}

impl Finisher {
    pub(super) fn start(root: Root) -> Result<Self, String> {
        let (jobs, work) = channel();
        let (settles, settled) = channel();
        let told = settles.clone();
        let counted = Counted::new()?;
        let is_left = Arc::new(AtomicBool::new(false));
        let left = Arc::clone(&is_left);
        thread::Builder::new()
            .name("files".to_owned())
            .spawn(move || {
                do_all(root, &work, &told, &left);
                drop(counted);
            })
            .map_err(|error| format!("no thread for the disk: {error}"))?;
        Ok(Self {
            jobs,
            settles,
            is_left,
            settled: Arc::new(Mutex::new(settled)),
        })
    }

    pub(super) fn send(&self, job: Job<Root>) {
        // A thread that has panicked takes no work; nothing settles, then.
        let _ = self.jobs.send(job);
    }

    /// Nobody waits for what is not put by now.
    pub(super) fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }

    pub(super) fn fails(&self, id: u32, entry: Entry, reason: String) {
        let _ = self.settles.send((id, entry, Err(reason)));
    }

    pub(super) fn settled(&self) -> Option<Settled> {
        let settled = self.settled.lock();
        settled
            .unwrap_or_else(PoisonError::into_inner)
            .try_recv()
            .ok()
    }
}

fn do_all(root: Root, work: &Receiver<Job<Root>>, settles: &Sender<Settled>, left: &AtomicBool) {
    let mut finishing = Finishing::new(root);
    let is_left = || left.load(Ordering::Relaxed);
    let mut is_over = false;
    while !is_over {
        let job = match finishing.next_deadline() {
            None => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => {
                let wait = at.since_ns(MonotonicClock.now());
                work.recv_timeout(Duration::from_nanos(wait))
            }
        };
        let now = MonotonicClock.now();
        match job {
            Ok(job) => finishing.handle(now, job, &is_left),
            Err(RecvTimeoutError::Timeout) => finishing.handle_deadline(now),
            Err(RecvTimeoutError::Disconnected) => {
                finishing.end();
                is_over = true;
            }
        }
        while let Some(settled) = finishing.settled() {
            // Nobody waits for it any more.
            let _ = settles.send(settled);
        }
    }
}
