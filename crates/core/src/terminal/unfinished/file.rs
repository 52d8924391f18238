use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use super::digest::{Digest, Digesting, DiskLen, Subtrees};
use super::journal::{Header, Journal, Record, Refusal};
use super::runs::Runs;
use super::sync::{Shared, SyncJob};
use super::{Held, Octets, unless};
use crate::terminal::{Planted, Store};

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
pub struct Opened<H: Held> {
    pub file: Unfinished<H>,
    /// The disk-PDUs that are there, as ranges of their numbers, in order.
    pub there: Vec<Range<u64>>,
    pub former: Former,
    /// Disk-PDUs that the journal speaks of, and whose octets have not their digests: somebody has
    /// changed them, or the disk has lost what it said was safe.
    pub disbelieved: u64,
}

impl<H: Held> fmt::Debug for Opened<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}", self.former, self.there)
    }
}

/// A file that is received; dropped, it stays, and is taken up by whoever opens it next. Has one
/// receiver at a time.
pub struct Unfinished<H: Held> {
    pub(super) octets: H::Octets,
    pub(super) shared: Arc<Shared<H>>,
    pub(super) disk_len: DiskLen,
    pub(super) size: Option<u64>,
    pub(super) subtrees: Subtrees,
    /// The disk-PDU that is shorter than others: the last. And where the octets end.
    pub(super) short: Option<u64>,
    pub(super) end: u64,
    checked: Vec<Record>,
    /// Disk-PDUs that the journal spoke of, and the octets had not.
    disbelieved: u64,
}

impl<H: Held> Unfinished<H> {
    /// Opens what is there of a file, or begins it. Sets the blocks of the disk aside that are
    /// still to come; `allocated`: of a source that may have holes it is only looked whether there
    /// is room for so many octets.
    ///
    /// Reads all that is there, to see that it is right, and has the rest be zeros.
    ///
    /// # Errors
    /// There is no room.
    pub fn open(held: H, header: &Header, allocated: Option<u64>) -> Result<Opened<H>, H::Error> {
        let (journal, former) = open_journal(&held, header)?;
        // A receiver that died may have synced neither the journal nor the names.
        if former == Former::Kept && !held.has(Planted::TakenUpNotSynced) {
            journal.sync()?;
        }
        // Without its name a journal would outlive a power failure for nothing.
        unless(&held, Planted::NamesNotSynced, H::sync_names)?;
        unless(
            &held,
            Planted::PlaceOfNamesNotSynced,
            H::sync_place_of_names,
        )?;
        let octets = held.octets(header.size)?;
        let mut file = Self {
            octets,
            shared: Arc::new(Shared::new(held, journal)),
            disk_len: header.disk_len,
            size: header.size,
            subtrees: Subtrees::new(),
            short: None,
            end: 0,
            checked: Vec::new(),
            disbelieved: 0,
        };
        match file.begin(allocated, former) {
            Ok(there) => Ok(Opened {
                disbelieved: file.disbelieved,
                file,
                there,
                former,
            }),
            // What was there already is worth more than the room that it takes.
            Err(error) if file.subtrees.present() > 0 => Err(error),
            Err(error) => {
                file.discard()?;
                Err(error)
            }
        }
    }

    fn begin(
        &mut self,
        allocated: Option<u64>,
        former: Former,
    ) -> Result<Vec<Range<u64>>, H::Error> {
        let there = self.verify()?;
        let len = self.octets.len();
        let disk_len = u64::from(self.disk_len.octets());
        let mut octets = Runs::default();
        for run in there.iter() {
            octets.insert(run.start * disk_len..(run.end * disk_len).min(len));
        }
        // What else came was not found right, and what stays unwritten are zeros.
        if former == Former::Kept && !self.has(Planted::RestKept) {
            for gap in octets.gaps(0..len) {
                self.octets.clear(gap)?;
            }
        }
        match (self.size, allocated) {
            (Some(_), Some(allocated)) => self.octets.check_free(allocated)?,
            (Some(size), None) => {
                for gap in octets.gaps(0..size) {
                    self.octets.reserve(gap)?;
                }
            }
            (None, _) => {}
        }
        Ok(there.iter().collect())
    }

    /// The disk-PDUs of the journal whose octets have their digests. Of two records of one, one
    /// that is right will do.
    fn verify(&mut self) -> Result<Runs, H::Error> {
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
                Ok(Some(digest))
                    if digest == record.digest || self.has(Planted::RecordsBelieved) =>
                {
                    there.insert(record.index..record.index + 1);
                    self.take(record);
                }
                Ok(_) => self.disbelieved += 1,
                Err(error) => failed = Some(error),
            }
        });
        drop(journal);
        read?;
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
    fn digest(&self, index: u64, len: u32) -> Result<Option<Digest>, H::Error> {
        let start = index * u64::from(self.disk_len.octets());
        let mut digesting = Digesting::new(start);
        let mut octets = 0;
        let range = start..start + u64::from(len);
        self.octets.read(range, &mut |piece| {
            octets += piece.len();
            digesting.octets(piece);
        })?;
        Ok(digesting.digest().filter(|_| octets == len as usize))
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
    pub fn make_room(&mut self, range: Range<u64>) -> Result<u64, H::Error> {
        self.octets.make_room(range)
    }

    /// Has a range be a hole: zeros that take no blocks of the disk. Room is not made for it again.
    ///
    /// # Errors
    /// The disk failed.
    pub fn punch(&mut self, range: Range<u64>) -> Result<(), H::Error> {
        self.octets.punch(range)
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
    ) -> Result<bool, H::Error> {
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
    ) -> Result<(), H::Error> {
        let disk_len = u64::from(self.disk_len.octets());
        let holes = if self.has(Planted::HolesUnchecked) {
            &[]
        } else {
            holes
        };
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
    pub fn reject(&mut self, range: Range<u64>) -> Result<(), H::Error> {
        self.octets.clear(range)
    }

    /// Whether all that was written is in the file.
    ///
    /// # Errors
    /// The file was shortened, or the disk failed: what is there has to be sent again.
    pub fn is_sound(&self) -> Result<(), H::Error> {
        if !self.has(Planted::FullNotSeen) {
            self.octets.check()?;
        }
        self.shared.is_sound()
    }

    /// What has the octets found right since the last job outlive a power failure, and the journal
    /// say so after them: for a thread that may wait. None: there is nothing to say.
    pub fn sync_job(&mut self) -> Option<SyncJob<H>> {
        (!self.checked.is_empty()).then(|| {
            let records = std::mem::take(&mut self.checked);
            SyncJob::new(Arc::clone(&self.shared), records)
        })
    }

    /// Runs the job here.
    ///
    /// # Errors
    /// The disk failed or is full.
    pub fn sync(&mut self) -> Result<(), H::Error> {
        self.sync_job().map_or(Ok(()), SyncJob::run)
    }

    /// Removes it: what has come is gone.
    ///
    /// # Errors
    /// It may not be removed.
    pub fn discard(self) -> Result<(), H::Error> {
        let held = &self.shared.held;
        held.remove_journal()?;
        held.remove()?;
        held.leave();
        Ok(())
    }
}

/// The payload of a transfer. What cannot be written is told by [`Unfinished::is_sound`].
impl<H: Held> Store for Unfinished<H> {
    #[inline]
    fn write(&mut self, at: u64, octets: &[u8]) {
        self.octets.write(at, octets);
    }

    #[inline(always)]
    fn has(&self, bug: Planted) -> bool {
        self.shared.held.has(bug)
    }
}

/// The journal of an unfinished file; without one that fits, a new one, and nothing in the file.
fn open_journal<H: Held>(
    held: &H,
    header: &Header,
) -> Result<(Journal<H::Journal>, Former), H::Error> {
    let is_any = held.has(Planted::OtherSourceTaken);
    let refusal = match held.journal()? {
        Some(Ok(found)) => match Journal::resume(found, header, is_any)? {
            Ok(journal) => return Ok((journal, Former::Kept)),
            Err(refusal) => Some(refusal),
        },
        // Something else than a file, which nobody resumes.
        Some(Err(())) => Some(Refusal::Damaged),
        None => (!held.is_empty()?).then_some(Refusal::Damaged),
    };
    // The journal goes first: it must not speak of other octets.
    let new = held.new_journal()?;
    held.set_len(0)?;
    let begun = Journal::begin(new, header)?;
    Ok((begun, refusal.map_or(Former::Nothing, Former::Refused)))
}
