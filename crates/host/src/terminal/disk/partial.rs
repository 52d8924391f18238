use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cellgate_core::terminal::Store;
use rustix::fs::{FileType, OFlags, fdatasync, fstat, fsync, ftruncate};
use rustix::io::Errno;

use super::digest::{Digest, Digesting, DiskLen, Subtrees};
use super::entry::Entry;
use super::error::{DiskError, refused};
use super::journal::{Header, Journal, Record, Refusal};
use super::partial_directory::{Part, PartialDirectory, PartialName};
use super::path::PathBelow;
use super::payload::{Payload, WINDOW_BITS};
use super::root::Root;
use super::runs::Runs;
use crate::sys::LockedFile;

/// The longest that octets which were found right are not known to outlive a power failure: the
/// time between two [jobs](Partial::sync_job).
pub const SYNC_EVERY: Duration = Duration::from_secs(1);

/// What was there of a file before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Former {
    Nothing,
    /// What its journal says, as far as its octets still have the digests.
    Kept,
    /// Something that was thrown away.
    Refused(Refusal),
}

/// An unfinished file that was opened.
#[derive(Debug)]
pub struct Opened {
    pub partial: Partial,
    /// The disk-PDUs that are there, as ranges of their numbers, in order.
    pub there: Vec<Range<u64>>,
    pub former: Former,
}

/// A file that is received, in the directory of unfinished files; dropped, it stays there, and is
/// taken up by whoever opens it next. Has one receiver at a time.
#[derive(Debug)]
pub struct Partial {
    pub(super) payload: Payload,
    pub(super) shared: Arc<Shared>,
    pub(super) directory: PartialDirectory,
    pub(super) path: PathBelow,
    pub(super) name: PartialName,
    pub(super) disk_len: DiskLen,
    pub(super) size: Option<u64>,
    pub(super) subtrees: Subtrees,
    /// The disk-PDU that is shorter than others: the last. And where the octets end.
    pub(super) short: Option<u64>,
    pub(super) end: u64,
    checked: Vec<Record>,
}

/// What a job needs of a partial, wherever it runs.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) file: Arc<LockedFile>,
    journal: Mutex<Journal>,
    path: String,
    /// The disk has not taken what it was given.
    has_failed: AtomicBool,
}

impl Partial {
    /// Opens what is there of the file that is to be at `path`, or begins it. `source` is the file
    /// at the sender, `size` how long it will be, none: that is not known. Sets the blocks of the
    /// disk aside that are still to come, unless the source may have holes.
    ///
    /// Reads all that is there, to see that it is right, and has the rest be zeros.
    ///
    /// # Errors
    /// There is no room; somebody else receives it; the path leads through a link, or to a
    /// directory.
    pub fn open(
        root: &Root,
        path: &PathBelow,
        source: &Entry,
        size: Option<u64>,
        disk_len: DiskLen,
    ) -> Result<Opened, DiskError> {
        check_place(root, path)?;
        let name = PartialName::of(path);
        let (directory, file) = PartialDirectory::take(root, name)?;
        let header = Header {
            disk_len,
            size,
            source: source.identity,
            path: path.clone(),
        };
        let (journal, former) = open_journal(&directory, name, &file, &header)?;
        if former != Former::Kept {
            // Without its name a journal would outlive a power failure for nothing.
            fsync(&directory).map_err(refused("syncing", path))?;
        }
        let file = Arc::new(file);
        let payload = Payload::new(Arc::clone(&file), path.to_string(), size, WINDOW_BITS)?;
        let shared = Shared {
            file,
            journal: Mutex::new(journal),
            path: path.to_string(),
            has_failed: AtomicBool::new(false),
        };
        let mut partial = Self {
            payload,
            shared: Arc::new(shared),
            directory,
            path: path.clone(),
            name,
            disk_len,
            size,
            subtrees: Subtrees::new(),
            short: None,
            end: 0,
            checked: Vec::new(),
        };
        match partial.begin(source, former) {
            Ok(there) => Ok(Opened {
                partial,
                there,
                former,
            }),
            // What was there already is worth more than the room that it takes.
            Err(error) if partial.subtrees.present() > 0 => Err(error),
            Err(error) => {
                partial.discard()?;
                Err(error)
            }
        }
    }

    fn begin(&mut self, source: &Entry, former: Former) -> Result<Vec<Range<u64>>, DiskError> {
        let there = self.verify()?;
        let len = self.payload.len();
        let disk_len = u64::from(self.disk_len.octets());
        let mut octets = Runs::default();
        for run in there.iter() {
            octets.insert(run.start * disk_len..(run.end * disk_len).min(len));
        }
        // What else came was not found right, and what stays unwritten are zeros.
        if former == Former::Kept {
            for gap in octets.gaps(0..len) {
                self.payload.clear(gap)?;
            }
        }
        match self.size {
            Some(_) if source.is_sparse() => self.payload.check_free(source.allocated)?,
            Some(size) => {
                for gap in octets.gaps(0..size) {
                    self.payload.reserve(gap)?;
                }
            }
            None => {}
        }
        Ok(there.iter().collect())
    }

    /// The disk-PDUs of the journal whose octets have their digests. Of two records of one, one
    /// that is right will do.
    fn verify(&mut self) -> Result<Runs, DiskError> {
        let mut there = Runs::default();
        let mut failed = None;
        let shared = Arc::clone(&self.shared);
        let journal = shared.journal();
        let read = journal.each(|record| {
            let Some(record) = record.filter(|_| failed.is_none()) else {
                return;
            };
            if there.contains(record.index) || !self.fits(record.index, record.len) {
                return;
            }
            match self.digest(record.index, record.len) {
                Ok(Some(digest)) if digest == record.digest => {
                    there.insert(record.index..record.index + 1);
                    self.take(record);
                }
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        });
        drop(journal);
        read.map_err(refused("reading the journal of", &self.path))?;
        failed.map_or(Ok(there), Err)
    }

    fn take(&mut self, record: Record) -> bool {
        let start = record.index * u64::from(self.disk_len.octets());
        if record.len < self.disk_len.octets() {
            self.short = Some(record.index);
        }
        self.end = self.end.max(start + u64::from(record.len));
        self.subtrees.insert(record.index, record.digest)
    }

    /// Whether a disk-PDU may have this length here.
    fn fits(&self, index: u64, len: u32) -> bool {
        let size = self.size.unwrap_or(u64::MAX);
        let whole = self.disk_len.range(index, size);
        let most = whole.end - whole.start;
        match self.size {
            Some(_) => len > 0 && u64::from(len) == most,
            None => len > 0 && u64::from(len) <= most,
        }
    }

    /// None: the file is shorter.
    fn digest(&self, index: u64, len: u32) -> Result<Option<Digest>, DiskError> {
        let start = index * u64::from(self.disk_len.octets());
        let mut digesting = Digesting::new(start);
        let mut octets = 0;
        let read = self.payload.read(start..start + u64::from(len), |piece| {
            octets += piece.len();
            digesting.octets(piece);
        });
        read.map_err(refused("reading", &self.path))?;
        Ok(digesting.digest().filter(|_| octets == len as usize))
    }

    /// Where it is to be.
    pub const fn path(&self) -> &PathBelow {
        &self.path
    }

    /// The digests of what is there.
    pub const fn subtrees(&self) -> &Subtrees {
        &self.subtrees
    }

    /// Has octets of `range` find room on the disk and in memory when they are written. Where that
    /// ends: some 100 MiB behind the start of the range at most. Whatever is written beyond is
    /// written as well, only slower, and a full disk is found then.
    ///
    /// # Errors
    /// The disk is full, and how much is missing.
    pub fn make_room(&mut self, range: Range<u64>) -> Result<u64, DiskError> {
        self.payload.make_room(range)
    }

    /// Has a range be a hole: zeros that take no blocks of the disk. Room is not made for it again.
    ///
    /// # Errors
    /// The disk failed.
    pub fn punch(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        self.payload.punch(range)
    }

    /// Whether the `len` octets at `offset`, the disk-PDU `index`, have the digest that was
    /// expected; then they are there. An index, offset or length that cannot be is never right.
    ///
    /// # Errors
    /// The file was shortened, or the disk failed: nothing of it is certain.
    pub fn check(
        &mut self,
        index: u64,
        offset: u64,
        len: u32,
        expected: &Digest,
    ) -> Result<bool, DiskError> {
        let start = index.checked_mul(self.disk_len.octets().into());
        if start != Some(offset) || !self.fits(index, len) {
            return Ok(false);
        }
        let digest = self.digest(index, len)?;
        self.is_sound()?;
        if digest != Some(*expected) {
            return Ok(false);
        }
        let record = Record {
            index,
            len,
            digest: *expected,
        };
        if self.take(record) {
            self.checked.push(record);
        }
        Ok(true)
    }

    /// Throws away what came of a range, none of which was found right: it is zeros, and has room,
    /// once more.
    ///
    /// # Errors
    /// The disk is full, or failed.
    pub fn reject(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        self.payload.clear(range)
    }

    /// Whether all that was written is in the file.
    ///
    /// # Errors
    /// The file was shortened, or the disk failed: what is there has to be sent again.
    pub fn is_sound(&self) -> Result<(), DiskError> {
        self.payload.check()?;
        self.shared.is_sound()
    }

    /// What has the octets found right since the last job outlive a power failure, and the journal
    /// say so after them: for a thread that may wait. None: there is nothing to say.
    pub fn sync_job(&mut self) -> Option<SyncJob> {
        (!self.checked.is_empty()).then(|| SyncJob {
            shared: Arc::clone(&self.shared),
            records: std::mem::take(&mut self.checked),
        })
    }

    /// Runs the job here.
    ///
    /// # Errors
    /// The disk failed or is full.
    pub fn sync(&mut self) -> Result<(), DiskError> {
        self.sync_job().map_or(Ok(()), SyncJob::run)
    }

    /// Removes it: what has come is gone.
    ///
    /// # Errors
    /// It may not be removed.
    pub fn discard(self) -> Result<(), DiskError> {
        self.directory.remove(&self.name.with(Part::Journal))?;
        self.directory.remove(&self.name.with(Part::File))?;
        self.directory.leave();
        Ok(())
    }
}

/// The payload of a transfer. What cannot be written is told by [`Partial::is_sound`].
impl Store for Partial {
    #[inline]
    fn write(&mut self, at: u64, octets: &[u8]) {
        self.payload.write(at, octets);
    }
}

impl Shared {
    fn journal(&self) -> std::sync::MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_sound(&self) -> Result<(), DiskError> {
        match self.has_failed.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(DiskError::Lost {
                path: self.path.clone(),
            }),
        }
    }
}

/// First the data, then the journal. A job that is dropped is forgotten: after a power failure its
/// disk-PDUs are sent again.
#[derive(Debug)]
pub struct SyncJob {
    shared: Arc<Shared>,
    records: Vec<Record>,
}

impl SyncJob {
    /// Waits for the disk. Jobs of one partial wait for each other.
    ///
    /// # Errors
    /// The disk failed or is full. What it had not written it may have forgotten, and says so only
    /// once: the partial is not sound from then on.
    pub fn run(self) -> Result<(), DiskError> {
        let mut journal = self.shared.journal();
        self.shared.is_sound()?;
        // What was written through a map is in the page cache like anything else.
        let synced = fdatasync(&self.shared.file);
        if let Err(error) = synced.and_then(|()| journal.append(&self.records)) {
            self.shared.has_failed.store(true, Ordering::Release);
            return Err(refused("syncing", &self.shared.path)(error));
        }
        Ok(())
    }
}

/// What would only be found at the end is found first: a link on the way, a directory in the
/// file's place, another file system.
fn check_place(root: &Root, path: &PathBelow) -> Result<(), DiskError> {
    let looking = || refused("looking at", path);
    let own = fstat(root).map_err(looking())?.st_dev;
    let mut at = path.split().0;
    loop {
        match root.resolve(at.as_ref(), OFlags::PATH | OFlags::DIRECTORY) {
            Ok(fd) if fstat(&fd).map_err(looking())?.st_dev == own => break,
            Ok(_) => {
                let path = path.to_string();
                return Err(DiskError::OtherFileSystem { path });
            }
            Err(Errno::NOENT) if at.is_some() => at = at.and_then(|at| at.split().0),
            Err(error) => return Err(looking()(error)),
        }
    }
    let is_directory = |mode| FileType::from_raw_mode(mode) == FileType::Directory;
    match root.find(path)? {
        Some(found) if is_directory(found.st_mode) => {
            let path = path.to_string();
            Err(DiskError::IsDirectory { path })
        }
        _ => Ok(()),
    }
}

/// The journal of an unfinished file; without one that fits, a new one, and nothing in the file.
fn open_journal(
    directory: &PartialDirectory,
    name: PartialName,
    file: &LockedFile,
    header: &Header,
) -> Result<(Journal, Former), DiskError> {
    let path = &header.path;
    let journal = name.with(Part::Journal);
    let refusal = match directory.open_file(&journal, OFlags::RDWR) {
        Ok(found) => {
            let resumed = Journal::resume(found, header);
            match resumed.map_err(refused("reading the journal of", path))? {
                Ok(journal) => return Ok((journal, Former::Kept)),
                Err(refusal) => Some(refusal),
            }
        }
        Err(Errno::NOENT) => {
            let found = fstat(file).map_err(refused("looking at", path))?;
            (found.st_size > 0).then_some(Refusal::Damaged)
        }
        // Something else than a file, which nobody resumes.
        Err(_) => Some(Refusal::Damaged),
    };
    directory.remove(&journal)?;
    ftruncate(file, 0).map_err(refused("emptying", path))?;
    let new = directory.open_file(&journal, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL);
    let begun = new.and_then(|new| Journal::begin(new, header));
    let begun = begun.map_err(refused("writing the journal of", path))?;
    Ok((begun, refusal.map_or(Former::Nothing, Former::Refused)))
}
