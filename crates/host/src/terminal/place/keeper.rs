//! A thread that waits for the disk, so that who receives does not.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use cellgate_core::terminal::{Digest, Entry};

use crate::terminal::disk::{self, Group, Partial, PathBelow, Root, SyncJob};

/// Small files wait so long for others that are synced with them.
const GATHER: Duration = Duration::from_millis(20);

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

/// What is to be done.
pub(super) enum Job {
    Sync(SyncJob),
    Content {
        id: u32,
        entry: Entry,
        wanted: disk::Entry,
        octets: Vec<u8>,
        digest: Digest,
        overwrite: bool,
    },
    Finish {
        id: u32,
        entry: Entry,
        wanted: disk::Entry,
        partial: Box<Partial>,
        /// Holes in it whose digests are not made.
        holes: Vec<Range<u64>>,
        overwrite: bool,
    },
}

/// What has become of a file.
pub(super) type Settled = (u32, Entry, Result<Digest, String>);

/// The thread. It ends when nobody has work for it any more.
#[derive(Clone, Debug)]
pub(super) struct Keeper {
    jobs: Sender<Job>,
    settles: Sender<Settled>,
    /// Whether nobody waits for long work any more.
    is_left: Arc<AtomicBool>,
    settled: Arc<Mutex<Receiver<Settled>>>,
}

impl Keeper {
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
                keep(&root, &work, &told, &left);
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

    pub(super) fn send(&self, job: Job) {
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

/// Files of a group that are written and have no name yet.
struct Gathered {
    group: Group,
    members: BTreeMap<PathBelow, (u32, Entry, Digest)>,
}

impl Gathered {
    fn add(&mut self, job: (u32, Entry, disk::Entry, Vec<u8>, Digest, bool)) -> Option<Settled> {
        let (id, entry, wanted, octets, digest, overwrite) = job;
        if disk::Digest::of_file(&octets).0 != digest {
            let reason = "it came with a wrong digest".to_owned();
            return Some((id, entry, Err(reason)));
        }
        match self.group.add(&wanted.path, &wanted, &octets, overwrite) {
            Ok(_) => {
                self.members.insert(wanted.path, (id, entry, digest));
                None
            }
            Err(error) => Some((id, entry, Err(error.to_string()))),
        }
    }

    fn finish(&mut self, settles: &Sender<Settled>) {
        let finished = self.group.finish();
        let mut members = std::mem::take(&mut self.members);
        let tell = |settled: Settled| {
            // Nobody waits for it any more.
            let _ = settles.send(settled);
        };
        match finished {
            Ok(failed) => {
                for (path, error) in failed {
                    if let Some((id, entry, _)) = members.remove(&path) {
                        tell((id, entry, Err(error.to_string())));
                    }
                }
                for (id, entry, digest) in members.into_values() {
                    tell((id, entry, Ok(digest)));
                }
            }
            Err(error) => {
                for (id, entry, _) in members.into_values() {
                    tell((id, entry, Err(error.to_string())));
                }
            }
        }
    }
}

fn keep(root: &Root, work: &Receiver<Job>, settles: &Sender<Settled>, is_left: &AtomicBool) {
    let mut gathered = Gathered {
        group: Group::new(root.clone()),
        members: BTreeMap::new(),
    };
    loop {
        let job = match work.recv_timeout(GATHER) {
            Ok(job) => job,
            Err(RecvTimeoutError::Timeout) => {
                gathered.finish(settles);
                match work.recv() {
                    Ok(job) => job,
                    Err(_) => return,
                }
            }
            Err(RecvTimeoutError::Disconnected) => return gathered.finish(settles),
        };
        let settled = match job {
            Job::Sync(job) => {
                // The partial knows of it.
                let _ = job.run();
                None
            }
            Job::Content {
                id,
                entry,
                wanted,
                octets,
                digest,
                overwrite,
            } => gathered.add((id, entry, wanted, octets, digest, overwrite)),
            Job::Finish {
                id,
                entry,
                wanted,
                mut partial,
                holes,
                overwrite,
            } => {
                let checked = partial.check_holes(&holes, || is_left.load(Ordering::Relaxed));
                let finished = checked.and_then(|()| partial.finish(&wanted, overwrite));
                let digest = finished.map(|digest| digest.0);
                Some((id, entry, digest.map_err(|error| error.to_string())))
            }
        };
        if let Some(settled) = settled {
            let _ = settles.send(settled);
        }
        if gathered.group.is_full() {
            gathered.finish(settles);
        }
    }
}
