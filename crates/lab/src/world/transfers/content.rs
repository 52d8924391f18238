//! The files that are given: their octets follow from a number, and from how often they changed.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cellgate_core::Time;
use cellgate_core::terminal::unfinished::{Digest, DiskLen};
use cellgate_core::terminal::{
    self, Entry, EntryKind, Found, Origin, Planted, SendingFile, Source,
};

use super::disk::Chance;
use super::scenario::{FileSpec, KindSpec};

/// Disk-PDUs of all transfers: the shortest there are.
pub(super) const DISK_LEN: DiskLen = DiskLen::MIN;

/// An entry at the giver.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) spec: FileSpec,
    /// What it is at first, and after each change.
    pub(super) versions: Vec<Arc<Vec<u8>>>,
}

impl Given {
    pub(super) fn new(spec: &FileSpec) -> Self {
        let count = match spec.kind {
            KindSpec::File => spec.changes_ns.len() + 1,
            KindSpec::Directory | KindSpec::Link => 0,
        };
        let versions = (0..count as u64).map(|version| {
            let mut octets = octets(
                spec.content.wrapping_mul(31).wrapping_add(version),
                spec.octets,
            );
            for (start, end) in &spec.holes {
                octets[*start as usize..*end as usize].fill(0);
            }
            Arc::new(octets)
        });
        Self {
            versions: versions.collect(),
            spec: spec.clone(),
        }
    }

    /// How often it has changed by now.
    fn version(&self, now: Time) -> usize {
        let changes = self.spec.changes_ns.iter();
        changes.filter(|at| **at <= now.ns()).count()
    }

    /// When a version of it was written.
    pub(super) const fn modified_ns(&self, version: usize) -> i64 {
        1_000_000_007 * (1 + version as i64) + self.spec.content as i64 % 1_000
    }

    pub(super) fn entry(&self, version: usize) -> Entry {
        let kind = match self.spec.kind {
            KindSpec::File => EntryKind::File {
                len: self.spec.octets,
                holes: !self.spec.holes.is_empty(),
            },
            KindSpec::Directory => EntryKind::Directory,
            KindSpec::Link => EntryKind::Link {
                to: b"somewhere".to_vec(),
            },
        };
        let mut mark = [0; 16];
        mark[0] = version as u8;
        Entry {
            path: self.spec.path.clone().into_bytes(),
            kind,
            mode: self.spec.mode,
            user: 0,
            group: 0,
            modified_ns: self.modified_ns(version),
            mark,
        }
    }
}

/// Octets that follow from a number, none of them 0.
pub(super) fn octets(number: u64, len: u64) -> Vec<u8> {
    let mut chance = Chance::from(number);
    let mut octets = Vec::with_capacity(len as usize + 8);
    while (octets.len() as u64) < len {
        octets.extend((chance.next() | 0x0101_0101_0101_0101).to_le_bytes());
    }
    octets.truncate(len as usize);
    octets
}

/// A file as its giver's disk has it.
pub(super) struct SourceOctets {
    octets: Arc<Vec<u8>>,
    planted: Option<Planted>,
    holes: Vec<(u64, u64)>,
}

impl Source for SourceOctets {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        let end = at as usize + into.len();
        into.copy_from_slice(&self.octets[at as usize..end]);
    }

    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        let mut start = at;
        for (from, to) in &self.holes {
            if *from <= start && start < *to {
                start = *to;
            }
        }
        let next = self.holes.iter().map(|(from, _)| *from);
        let stop = next.filter(|from| *from > start).min().unwrap_or(end);
        start.min(end)..stop.min(end).max(start.min(end))
    }

    fn has(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }
}

/// The tree of a giver.
pub(super) struct Tree {
    files: Arc<Vec<Given>>,
    walk: VecDeque<Option<usize>>,
    by_path: BTreeMap<Vec<u8>, usize>,
    compared: VecDeque<(u32, Result<bool, String>)>,
    clock: Clock,
    planted: Option<Planted>,
}

/// The time, for whoever asks.
#[derive(Clone, Default)]
pub(super) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(super) fn now(&self) -> Time {
        Time::from_ns(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, now: Time) {
        self.0.store(now.ns(), Ordering::Relaxed);
    }
}

impl Tree {
    pub(super) fn new(files: &Arc<Vec<Given>>, clock: Clock, planted: Option<Planted>) -> Self {
        let mut walk = VecDeque::new();
        let mut open: Vec<String> = Vec::new();
        for (n, given) in files.iter().enumerate() {
            let path = &given.spec.path;
            while let Some(directory) = open.last()
                && !path.starts_with(directory)
            {
                walk.push_back(None);
                open.pop();
            }
            walk.push_back(Some(n));
            if given.spec.kind == KindSpec::Directory {
                open.push(format!("{path}/"));
            }
        }
        walk.extend(open.iter().map(|_| None));
        let paths = files.iter().enumerate();
        let by_path = paths.map(|(n, given)| (given.spec.path.clone().into_bytes(), n));
        Self {
            by_path: by_path.collect(),
            files: Arc::clone(files),
            walk,
            compared: VecDeque::new(),
            clock,
            planted,
        }
    }

    fn given(&self, entry: &Entry) -> Result<&Given, String> {
        let at = self.by_path.get(&entry.path).ok_or("it is not there")?;
        Ok(&self.files[*at])
    }

    fn octets(&self, entry: &Entry) -> Result<Arc<Vec<u8>>, String> {
        let given = self.given(entry)?;
        Ok(Arc::clone(&given.versions[given.version(self.clock.now())]))
    }
}

impl Origin for Tree {
    type File = SendingFile<SourceOctets>;

    fn next(&mut self) -> Option<Found> {
        Some(match self.walk.pop_front()? {
            None => Found::Left,
            Some(n) => {
                let given = &self.files[n];
                Found::Entry(given.entry(given.version(self.clock.now())))
            }
        })
    }

    fn open(&mut self, entry: &Entry, _: (u64, u64)) -> Result<Self::File, String> {
        let source = SourceOctets {
            octets: self.octets(entry)?,
            planted: self.planted,
            holes: self.given(entry)?.spec.holes.clone(),
        };
        Ok(SendingFile::new(source, entry.octets(), DISK_LEN))
    }

    fn is_unchanged(&mut self, entry: &Entry) -> bool {
        self.again(entry).as_ref() == Ok(entry)
    }

    fn content(&mut self, entry: &Entry) -> Result<(Vec<u8>, terminal::Digest), String> {
        let octets = self.octets(entry)?;
        Ok((octets.to_vec(), Digest::of_file(&octets).0))
    }

    fn compare(&mut self, id: u32, entry: &Entry, digest: &terminal::Digest) {
        let octets = self.octets(entry);
        let is_same = octets.map(|octets| Digest::of_file(&octets).0 == *digest);
        self.compared.push_back((id, is_same));
    }

    fn compared(&mut self) -> Option<(u32, Result<bool, String>)> {
        self.compared.pop_front()
    }

    fn again(&mut self, entry: &Entry) -> Result<Entry, String> {
        let given = self.given(entry)?;
        Ok(given.entry(given.version(self.clock.now())))
    }

    fn has(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }
}
