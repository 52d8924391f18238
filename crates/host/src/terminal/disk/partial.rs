use std::ops::Range;
use std::sync::Arc;

use cellgate_core::terminal::Store;
use rustix::fs::fsync;

use super::digest::{Digest, Digesting, DiskLen, Subtrees};
use super::entry::Entry;
use super::error::{DiskError, refused};
use super::journal::{Header, Record, Refusal};
use super::opening::{check_place, open_journal};
use super::partial_directory::{Part, PartialDirectory, PartialName};
use super::path::PathBelow;
use super::payload::{Payload, WINDOW_BITS};
use super::root::Root;
use super::runs::Runs;
use super::sync::{Shared, SyncJob};

/// Disk-PDUs that were found right in holes, before the journal says so.
const CHECKED_MAX: usize = 4_096;

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
        let shared = Shared::new(file, journal, path.to_string());
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

    /// Has stretches of whole disk-PDUs that are holes be there, until it `stops`.
    ///
    /// # Errors
    /// The file was shortened, or the disk failed.
    pub fn check_holes(
        &mut self,
        holes: &[Range<u64>],
        stops: impl Fn() -> bool,
    ) -> Result<(), DiskError> {
        let disk_len = u64::from(self.disk_len.octets());
        for hole in holes {
            let mut at = hole.start;
            while at < hole.end && !stops() {
                let len = disk_len.min(hole.end - at);
                if let Some(digest) = Digesting::new(at).zeros(len).digest() {
                    self.check(at / disk_len, at, len as u32, &digest)?;
                }
                if self.checked.len() >= CHECKED_MAX {
                    self.sync()?;
                }
                at += len;
            }
        }
        Ok(())
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
        (!self.checked.is_empty()).then(|| {
            let records = std::mem::take(&mut self.checked);
            SyncJob::new(Arc::clone(&self.shared), records)
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
