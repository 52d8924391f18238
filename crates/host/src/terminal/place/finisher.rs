//! A thread that waits for the disk, so that who receives does not.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cellgate_core::terminal::{Digest, Entry};

use crate::terminal::disk::{self, DiskError, Group, Partial, PathBelow, Root, SyncJob};

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
    Content(Content),
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

/// A small file.
pub(super) struct Content {
    pub(super) id: u32,
    pub(super) entry: Entry,
    pub(super) wanted: disk::Entry,
    pub(super) octets: Vec<u8>,
    pub(super) digest: Digest,
    pub(super) overwrite: bool,
    /// When it came.
    pub(super) since: Instant,
}

/// What has become of a file.
pub(super) type Settled = (u32, Entry, Result<Digest, String>);

/// The thread. It ends when nobody has work for it any more.
#[derive(Clone, Debug)]
pub(super) struct Finisher {
    jobs: Sender<Job>,
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
                do_all(&root, &work, &told, &left);
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
    members: BTreeMap<PathBelow, Member>,
}

/// One of them.
struct Member {
    id: u32,
    entry: Entry,
    wanted: disk::Entry,
    digest: Digest,
}

impl Member {
    fn settled(self, root: &Root, error: Option<&DiskError>) -> Settled {
        let result = match error {
            None => Ok(self.digest),
            // Whoever had it has put it there: the same session before its connection was lost.
            Some(DiskError::Exists { .. }) if is_there(root, &self.wanted) => Ok(self.digest),
            Some(error) => Err(error.to_string()),
        };
        (self.id, self.entry, result)
    }
}

/// Whether a file is what is wanted, as far as its length and its time tell.
fn is_there(root: &Root, wanted: &disk::Entry) -> bool {
    root.stat(&wanted.path).is_ok_and(|found| {
        found.is_some_and(|found| {
            (found.kind, found.size, found.mtime) == (wanted.kind, wanted.size, wanted.mtime)
        })
    })
}

impl Gathered {
    /// Writes a file. One that somebody else has waits in `later`, for as long as it may.
    fn add(&mut self, content: Content, later: &mut VecDeque<Content>) -> Option<Settled> {
        if disk::Digest::of_file(&content.octets).0 != content.digest {
            let reason = "it came with a wrong digest".to_owned();
            return Some((content.id, content.entry, Err(reason)));
        }
        let wanted = &content.wanted;
        let added = self
            .group
            .add(&wanted.path, wanted, &content.octets, content.overwrite);
        match added {
            Ok(_) => {
                let member = Member {
                    id: content.id,
                    entry: content.entry,
                    wanted: content.wanted,
                    digest: content.digest,
                };
                self.members.insert(member.wanted.path.clone(), member);
                None
            }
            Err(DiskError::InUse { .. }) if content.since.elapsed() < super::IN_USE => {
                later.push_back(content);
                None
            }
            Err(error) => Some((content.id, content.entry, Err(error.to_string()))),
        }
    }

    fn finish(&mut self, root: &Root, settles: &Sender<Settled>) {
        let finished = self.group.finish();
        let mut members = std::mem::take(&mut self.members);
        let tell = |settled: Settled| {
            // Nobody waits for it any more.
            let _ = settles.send(settled);
        };
        let all = match finished {
            Ok(failed) => {
                for (path, error) in failed {
                    if let Some(member) = members.remove(&path) {
                        tell(member.settled(root, Some(&error)));
                    }
                }
                None
            }
            Err(error) => Some(error),
        };
        for member in members.into_values() {
            tell(member.settled(root, all.as_ref()));
        }
    }
}

fn do_all(root: &Root, work: &Receiver<Job>, settles: &Sender<Settled>, is_left: &AtomicBool) {
    let mut gathered = Gathered {
        group: Group::new(root.clone()),
        members: BTreeMap::new(),
    };
    let mut later = VecDeque::new();
    loop {
        let job = match work.recv_timeout(GATHER) {
            Ok(job) => Some(job),
            Err(RecvTimeoutError::Timeout) => {
                gathered.finish(root, settles);
                let job = match later.is_empty() {
                    true => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
                    false => work.recv_timeout(super::TRY_EVERY),
                };
                match job {
                    Ok(job) => Some(job),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            Err(RecvTimeoutError::Disconnected) => return gathered.finish(root, settles),
        };
        let settled = match job {
            None => {
                // Each once: one that is still in use goes to the end.
                for _ in 0..later.len() {
                    if let Some(content) = later.pop_front()
                        && let Some(settled) = gathered.add(content, &mut later)
                    {
                        let _ = settles.send(settled);
                    }
                    if gathered.group.is_full() {
                        gathered.finish(root, settles);
                    }
                }
                None
            }
            Some(Job::Sync(job)) => {
                // The partial knows of it.
                let _ = job.run();
                None
            }
            Some(Job::Content(content)) => gathered.add(content, &mut later),
            Some(Job::Finish {
                id,
                entry,
                wanted,
                mut partial,
                holes,
                overwrite,
            }) => {
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
            gathered.finish(root, settles);
        }
    }
}
