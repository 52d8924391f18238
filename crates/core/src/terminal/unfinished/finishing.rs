use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};

use super::digest::Digest;
use super::file::Unfinished;
use super::sync::SyncJob;
use super::{Group, Volume};
use crate::Time;
use crate::terminal::{self, Entry, Planted};

/// Small files wait so long for others that are synced with them.
const GATHER_NS: u64 = 20_000_000;

/// Who has a file that is wanted may be the other end as it was before its connection was lost, of
/// which nothing is heard for 10 s before that is known. It is waited for that long, and a little
/// longer, and looked for now and then.
pub const IN_USE_NS: u64 = 15_000_000_000;
pub const TRY_EVERY_NS: u64 = 100_000_000;

/// Work for whoever may wait for the disk.
pub enum Job<V: Volume> {
    Sync(SyncJob<V::Held>),
    Content(Content<V>),
    Finish(Box<Finish<V>>),
}

/// A small file.
pub struct Content<V: Volume> {
    pub id: u32,
    pub entry: Entry,
    pub path: V::Path,
    pub traits: V::Traits,
    pub octets: Vec<u8>,
    pub digest: terminal::Digest,
    pub overwrite: bool,
}

/// A file all of whose extents have come.
pub struct Finish<V: Volume> {
    pub id: u32,
    pub entry: Entry,
    pub path: V::Path,
    pub traits: V::Traits,
    pub file: Unfinished<V::Held>,
    /// Holes in it whose digests are not made.
    pub holes: Vec<Range<u64>>,
    pub overwrite: bool,
}

/// The fate of a file.
pub type Settled = (u32, Entry, Result<terminal::Digest, String>);

/// A file of the group that is written and has no name yet.
struct Member<V: Volume> {
    id: u32,
    entry: Entry,
    traits: V::Traits,
    digest: terminal::Digest,
}

/// Does what takes a disk its time, one job after the other: each call waits for the disk.
pub struct Finishing<V: Volume> {
    group: Group<V>,
    members: BTreeMap<V::Path, Member<V>>,
    /// When the group is put, if nothing comes to it before.
    gathered_at: Option<Time>,
    /// Small files that somebody else has, since when.
    later: VecDeque<(Time, Content<V>)>,
    tried_at: Time,
    settled: VecDeque<Settled>,
}

impl<V: Volume> Finishing<V> {
    pub const fn new(volume: V) -> Self {
        Self {
            group: Group::new(volume),
            members: BTreeMap::new(),
            gathered_at: None,
            later: VecDeque::new(),
            tried_at: Time::ZERO,
            settled: VecDeque::new(),
        }
    }

    /// Does a job; what takes long work ends when that `stops`.
    pub fn handle(&mut self, now: Time, job: Job<V>, stops: &dyn Fn() -> bool) {
        match job {
            // The file knows of it.
            Job::Sync(job) => drop(job.run()),
            Job::Content(content) => self.add(now, now, content),
            Job::Finish(job) => {
                let Finish {
                    id,
                    entry,
                    path,
                    traits,
                    mut file,
                    holes,
                    overwrite,
                } = *job;
                let is_there = |error: &V::Error| self.is_there(error, &path, &traits);
                let checked = file.check_holes(&holes, stops);
                let finished = checked.and_then(|()| {
                    file.finish_unless(entry.octets(), &traits, overwrite, &is_there)
                });
                let digest = finished.map(|digest| digest.0);
                let digest = digest.map_err(|error| error.to_string());
                self.settled.push_back((id, entry, digest));
            }
        }
        let is_gathered = !self.group.is_empty() && !self.has(Planted::GroupNeverPut);
        self.gathered_at = is_gathered.then(|| now.plus_ns(GATHER_NS));
    }

    /// When [`Finishing::handle_deadline`] is due, if there is no job before.
    pub fn next_deadline(&self) -> Option<Time> {
        let tries = (!self.later.is_empty()).then(|| self.tried_at.plus_ns(TRY_EVERY_NS));
        self.gathered_at.into_iter().chain(tries).min()
    }

    /// Nothing has come for a while.
    pub fn handle_deadline(&mut self, now: Time) {
        if self.gathered_at.is_some_and(|at| at <= now) {
            self.put_group();
        }
        if now < self.tried_at.plus_ns(TRY_EVERY_NS) {
            return;
        }
        // Each once: one that is still in use goes to the end.
        for _ in 0..self.later.len() {
            if let Some((since, content)) = self.later.pop_front() {
                self.add(now, since, content);
            }
        }
        if !self.group.is_empty() {
            self.gathered_at = Some(now.plus_ns(GATHER_NS));
        }
    }

    /// Nothing comes any more.
    pub fn end(&mut self) {
        self.put_group();
    }

    fn has(&self, bug: Planted) -> bool {
        self.group.volume().has(bug)
    }

    /// The fate of a file.
    pub fn settled(&mut self) -> Option<Settled> {
        self.settled.pop_front()
    }

    /// Writes a small file. One that somebody else has waits, for as long as it may.
    fn add(&mut self, now: Time, since: Time, content: Content<V>) {
        if Digest::of_file(&content.octets).0 != content.digest {
            let reason = "it came with a wrong digest".to_owned();
            return self
                .settled
                .push_back((content.id, content.entry, Err(reason)));
        }
        let Content {
            ref path,
            ref traits,
            ref octets,
            overwrite,
            ..
        } = content;
        match self.group.add(path, traits, octets, overwrite) {
            Ok(_) => {
                let member = Member {
                    id: content.id,
                    entry: content.entry,
                    traits: content.traits,
                    digest: content.digest,
                };
                if self.has(Planted::SettledBeforePut) {
                    let settled = (member.id, member.entry, Ok(member.digest));
                    self.settled.push_back(settled);
                } else {
                    self.members.insert(content.path, member);
                }
                if self.group.is_full() {
                    self.put_group();
                }
            }
            Err(error) if V::is_in_use(&error) && now.since_ns(since) < IN_USE_NS => {
                self.tried_at = now;
                self.later.push_back((since, content));
            }
            Err(error) => {
                let settled = (content.id, content.entry, Err(error.to_string()));
                self.settled.push_back(settled);
            }
        }
    }

    fn put_group(&mut self) {
        self.gathered_at = None;
        let put = self.group.finish();
        let mut members = std::mem::take(&mut self.members);
        let all = match put {
            Ok(failed) => {
                for (path, error) in failed {
                    if let Some(member) = members.remove(&path) {
                        self.settles(&path, member, Some(&error));
                    }
                }
                None
            }
            Err(error) => Some(error),
        };
        for (path, member) in members {
            self.settles(&path, member, all.as_ref());
        }
    }

    fn settles(&mut self, path: &V::Path, member: Member<V>, error: Option<&V::Error>) {
        let Member {
            id,
            entry,
            traits,
            digest,
        } = member;
        let result = match error {
            None => Ok(digest),
            Some(error) if self.is_there(error, path, &traits) => Ok(digest),
            Some(error) => Err(error.to_string()),
        };
        self.settled.push_back((id, entry, result));
    }

    /// Whether a file has an error because whoever had it has put it there: the same session before
    /// its connection was lost.
    fn is_there(&self, error: &V::Error, path: &V::Path, traits: &V::Traits) -> bool {
        V::is_there_already(error) && self.group.volume().is_there(path, traits)
    }
}
