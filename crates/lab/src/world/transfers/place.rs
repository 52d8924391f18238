//! Where a terminal takes files to: the losing disk, and what the oracle is to know of it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellgate_core::Time;
use cellgate_core::terminal::unfinished::{
    Content, Digest, Header, Identity, Job, Receiving, Settled, Unfinished, Volume, finish_named,
};
use cellgate_core::terminal::{
    self, CONTENT_MAX, Destination, DiskPdu, Entry, EntryKind, Lying, Manner, Offered, Partial,
    Planted, Standing, Store,
};

use super::content::DISK_LEN;
use super::disk::{DiskError, Named};
use super::held::{SharedDisk, SimHeld, Traits};

/// What was found right of a file, and when.
#[derive(Debug, Default)]
pub(super) struct Found {
    mark: [u8; 16],
    ranges: Vec<(Range<u64>, Time)>,
}

/// What has happened at a place: what the oracle is told beside what the disk shows.
#[derive(Debug, Default)]
pub(super) struct PlaceLog {
    pub(super) now: Time,
    found: BTreeMap<String, Found>,
    /// The disk has failed: it says what it likes of what it had, and nothing is promised.
    pub(super) has_failed: bool,
    pub(super) violations: Vec<(&'static str, String)>,
    /// Counts for coverage: files gone on with, disk-PDUs found there.
    pub(super) resumed: u64,
    pub(super) thrown_away: u64,
    pub(super) begun: u64,
    pub(super) small: u64,
    pub(super) compared: u64,
    pub(super) wrong: u64,
}

impl PlaceLog {
    /// A file is opened: what was found right is there, as far as that was promised.
    fn opened(&mut self, path: &str, mark: [u8; 16], missing: &[(u64, u64)], len: u64) {
        let is_promised = !self.has_failed;
        let found = self.found.entry(path.to_owned()).or_default();
        if found.mark == mark {
            let is_missing = |range: &Range<u64>| {
                let mut missing = missing.iter();
                missing.any(|(start, end)| *start < range.end && range.start < *end)
            };
            let mut promised = found.ranges.iter();
            let promised = promised.find(|(range, _)| is_promised && is_missing(range));
            if let Some((range, at)) = promised {
                let text = format!(
                    "{path}: {range:?} was found right at {} ns and is asked for again",
                    at.ns()
                );
                self.violations.push(("I25", text));
            }
        }
        // What is there now its journal says.
        let mut at = 0;
        found.mark = mark;
        found.ranges.clear();
        for (start, end) in missing {
            found.ranges.push((at..*start, Time::ZERO));
            at = *end;
        }
        found.ranges.push((at..len, Time::ZERO));
        found.ranges.retain(|(range, _)| !range.is_empty());
        self.resumed += u64::from(!found.ranges.is_empty());
    }

    fn found_right(&mut self, path: &str, range: Range<u64>) {
        let now = self.now;
        let found = self.found.entry(path.to_owned()).or_default();
        found.ranges.push((range, now));
    }

    /// What was found right later than this is lost by a death.
    pub(super) fn keeps_to(&mut self, safe_to: Time) {
        for found in self.found.values_mut() {
            found.ranges.retain(|(_, at)| *at <= safe_to);
        }
    }

    /// Nothing is promised of a file any more.
    pub(super) fn forget(&mut self, path: &str) {
        self.found.remove(path);
    }
}

/// The log, whoever writes it.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedLog(Arc<Mutex<PlaceLog>>);

impl SharedLog {
    pub(super) fn lock(&self) -> MutexGuard<'_, PlaceLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Queue<T> = Arc<Mutex<VecDeque<T>>>;

/// Work for who may wait for the disk, and what has come of it.
#[derive(Clone, Default)]
pub(super) struct Desk {
    jobs: Queue<Job<SharedDisk>>,
    settled: Queue<Settled>,
}

impl Desk {
    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job<SharedDisk>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settled(&self) -> MutexGuard<'_, VecDeque<Settled>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn next_job(&self) -> Option<Job<SharedDisk>> {
        self.jobs().pop_front()
    }

    /// Whether anybody else may still put something on it.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.jobs) > 1
    }

    pub(super) fn has_jobs(&self) -> bool {
        !self.jobs().is_empty()
    }

    pub(super) fn settles(&self, settled: Settled) {
        self.settled().push_back(settled);
    }
}

/// A directory on the losing disk.
pub(super) struct Place {
    pub(super) disk: SharedDisk,
    pub(super) manner: Manner,
    pub(super) desk: Desk,
    pub(super) log: SharedLog,
    digested: VecDeque<(u32, Result<terminal::Digest, String>)>,
}

fn path_of(entry: &Entry) -> String {
    String::from_utf8_lossy(&entry.path).into_owned()
}

fn traits_of(entry: &Entry) -> Traits {
    Traits {
        len: entry.octets(),
        mode: entry.mode,
        modified_ns: entry.modified_ns,
    }
}

fn said(error: DiskError) -> String {
    error.to_string()
}

impl Place {
    pub(super) const fn new(disk: SharedDisk, manner: Manner, desk: Desk, log: SharedLog) -> Self {
        Self {
            disk,
            manner,
            desk,
            log,
            digested: VecDeque::new(),
        }
    }

    fn standing(&self, entry: &Entry, is_same: Option<bool>) -> Standing {
        let disk = self.disk.lock();
        let lying = match disk.names().get(&path_of(entry)) {
            None => return Standing::Want,
            Some(Named::Directory) => Lying::Directory,
            Some(Named::Link(to)) => Lying::Link { to: to.clone() },
            Some(Named::File(inode)) => {
                let meta = disk.inodes[*inode].meta;
                Lying::File {
                    len: meta.len,
                    modified_ns: meta.modified_ns,
                }
            }
        };
        self.manner.standing(entry, &lying, is_same)
    }

    fn open(&mut self, entry: &Entry) -> Result<Offered<TakenFile>, String> {
        let path = path_of(entry);
        let held = match self.disk.take(&path) {
            Err(DiskError::InUse) => return Ok(Offered::Later),
            other => other.map_err(said)?,
        };
        // A file that has its name may have left its journal alone.
        let is_new = held.is_new;
        let len = entry.octets();
        let has_holes = matches!(entry.kind, EntryKind::File { holes: true, .. });
        let mut source = Identity {
            size: len,
            ..Identity::default()
        };
        source.inode = entry
            .mark
            .iter()
            .fold(0, |n, octet| n << 4 ^ u64::from(*octet));
        source.mtime.seconds = entry.modified_ns;
        let header = Header {
            disk_len: DISK_LEN,
            size: Some(len),
            source,
            path: path.as_bytes().into(),
        };
        let opened = Unfinished::open(held, &header, has_holes.then_some(0)).map_err(said)?;
        let disbelieved = opened.disbelieved;
        let desk = self.desk.clone();
        let later = Box::new(move |job| desk.jobs().push_back(Job::Sync(job)));
        let (file, missing) = Receiving::new(opened, DISK_LEN, Some(len), has_holes, later);
        let mut log = self.log.lock();
        if disbelieved > 0 && !log.has_failed && !is_new {
            let text = format!("{path}: a journal speaks of what is not on the disk");
            log.violations.push(("I24", text));
        }
        log.opened(&path, entry.mark, &missing, len);
        log.begun += 1;
        drop(log);
        let file = TakenFile {
            file,
            path,
            log: self.log.clone(),
            ap: 0,
        };
        Ok(Offered::Want(file, missing))
    }
}

impl Destination for Place {
    type File = TakenFile;

    fn offer(
        &mut self,
        entry: &Entry,
        is_same: Option<bool>,
    ) -> Result<Offered<TakenFile>, String> {
        let path = path_of(entry);
        if entry.kind == EntryKind::Directory {
            self.disk.make_directory(&path).map_err(said)?;
            return Ok(Offered::Have);
        }
        match self.standing(entry, is_same) {
            Standing::Have => {
                finish_named(&self.disk, &path).map_err(said)?;
                return Ok(Offered::Have);
            }
            Standing::Stays => return Ok(Offered::Have),
            Standing::Compare => return Ok(Offered::Compare),
            Standing::Want => {}
            Standing::Refused => return Err(said(DiskError::Exists)),
        }
        match &entry.kind {
            EntryKind::Link { to } => {
                self.disk.make_link(&path, to).map_err(said)?;
                Ok(Offered::Have)
            }
            EntryKind::File { len, .. } if *len <= CONTENT_MAX => Ok(Offered::Take),
            _ => self.open(entry),
        }
    }

    fn digest(&mut self, id: u32, entry: &Entry) {
        let disk = self.disk.lock();
        let digest = match disk.names().get(&path_of(entry)) {
            Some(Named::File(inode)) => Ok(Digest::of_file(&disk.inodes[*inode].octets).0),
            _ => Err(said(DiskError::Missing)),
        };
        self.log.lock().compared += 1;
        self.digested.push_back((id, digest));
    }

    fn digested(&mut self) -> Option<(u32, Result<terminal::Digest, String>)> {
        self.digested.pop_front()
    }

    fn content(&mut self, id: u32, entry: Entry, octets: Vec<u8>, digest: terminal::Digest) {
        self.log.lock().small += 1;
        let content = Content {
            id,
            path: path_of(&entry),
            traits: traits_of(&entry),
            entry,
            octets,
            digest,
            overwrite: self.manner.existing == terminal::Existing::Replace,
        };
        self.desk.jobs().push_back(Job::Content(content));
    }

    fn finish(&mut self, id: u32, entry: Entry, file: TakenFile) {
        let overwrite = self.manner.existing == terminal::Existing::Replace;
        let (path, traits) = (path_of(&entry), traits_of(&entry));
        let finish = file.file.finish(id, entry, path, traits, overwrite);
        self.desk.jobs().push_back(Job::Finish(Box::new(finish)));
    }

    fn leave(&mut self, entry: &Entry, file: TakenFile, is_stale: bool) {
        if is_stale {
            let mut log = self.log.lock();
            log.forget(&path_of(entry));
            log.thrown_away += 1;
        }
        file.file.leave(is_stale);
    }

    fn left(&mut self, _: &Entry) -> Result<(), String> {
        Ok(())
    }

    fn settled(&mut self) -> Option<Settled> {
        self.desk.settled().pop_front()
    }

    fn has(&self, bug: Planted) -> bool {
        self.disk.planted == Some(bug)
    }
}

/// A file that is taken.
pub(super) struct TakenFile {
    file: Receiving<SimHeld>,
    path: String,
    log: SharedLog,
    /// Nothing below is to be written: it was acknowledged.
    pub(super) ap: u64,
}

impl Store for TakenFile {
    fn write(&mut self, at: u64, octets: &[u8]) {
        if at < self.ap {
            let text = format!(
                "{}: {at} is written, {} was acknowledged",
                self.path, self.ap
            );
            self.log.lock().violations.push(("I26", text));
        }
        self.file.write(at, octets);
    }

    fn has(&self, bug: Planted) -> bool {
        self.file.has(bug)
    }
}

impl Partial for TakenFile {
    fn make_room(&mut self, from: u64, to: u64) -> Result<u64, String> {
        self.file.make_room(from, to)
    }

    fn hole(&mut self, start: u64, end: u64) {
        self.file.hole(start, end);
    }

    fn check(&mut self, disk_pdu: &DiskPdu) -> bool {
        let is_right = self.file.check(disk_pdu);
        let start = disk_pdu.header.offset;
        let range = start..start.saturating_add(disk_pdu.header.length.into());
        let mut log = self.log.lock();
        if is_right {
            log.found_right(&self.path, range);
        } else {
            log.wrong += 1;
        }
        is_right
    }

    fn handle_deadline(&mut self, now: Time) -> Result<(), String> {
        self.file.handle_deadline(now)
    }
}
