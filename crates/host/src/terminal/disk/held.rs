//! An unfinished file as the file system has it.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use cellgate_core::terminal::unfinished::{Held, JournalFile, Octets, Volume};
use rustix::fs::{Mode, OFlags, fchmod, fdatasync, fstat, fsync, ftruncate, futimens, syncfs};
use rustix::io::{Errno, pwrite};

use super::entry::Entry;
use super::error::{DiskError, refused};
use super::leftover::is_begun;
use super::partial_directory::{Part, PartialDirectory, PartialName};
use super::path::PathBelow;
use super::payload::{Payload, WINDOW_BITS};
use super::root::Root;
use super::settle::{set_owner_and_mode, times};
use super::source_file::read_at;
use crate::sys::LockedFile;

/// An unfinished file that this receiver alone has, in the directory of unfinished files.
#[derive(Debug)]
pub struct HeldFile {
    directory: Arc<PartialDirectory>,
    file: Arc<LockedFile>,
    path: PathBelow,
    name: PartialName,
}

impl Volume for Root {
    type Error = DiskError;
    type Path = PathBelow;
    type Traits = Entry;
    type Held = HeldFile;

    fn take(&self, path: &PathBelow) -> Result<HeldFile, DiskError> {
        let name = PartialName::of(path);
        let (directory, file) = PartialDirectory::take(self, name)?;
        Ok(HeldFile {
            directory,
            file: Arc::new(file),
            path: path.clone(),
            name,
        })
    }

    fn is_begun(&self, path: &PathBelow) -> bool {
        is_begun(self, PartialName::of(path))
    }

    fn leave(&self) {
        // A directory that cannot be opened cannot be removed either.
        if let Ok(Some(directory)) = PartialDirectory::find(self) {
            directory.leave();
        }
    }

    fn is_in_use(error: &DiskError) -> bool {
        matches!(error, DiskError::InUse { .. })
    }

    fn is_there_already(error: &DiskError) -> bool {
        matches!(error, DiskError::Exists { .. })
    }

    fn is_there(&self, path: &PathBelow, wanted: &Entry) -> bool {
        self.stat(path).is_ok_and(|found| {
            found.is_some_and(|found| {
                (found.kind, found.size, found.mtime) == (wanted.kind, wanted.size, wanted.mtime)
            })
        })
    }

    fn too_many(&self, path: &PathBelow) -> DiskError {
        refused("writing too many files at a time:", path)(Errno::MFILE)
    }
}

impl Held for HeldFile {
    type Error = DiskError;
    type Traits = Entry;
    type Octets = Payload;
    type Journal = HeldJournal;

    fn len(&self) -> Result<u64, DiskError> {
        let found = fstat(&self.file).map_err(refused("looking at", &self.path))?;
        Ok(u64::try_from(found.st_size).unwrap_or(0))
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        ftruncate(&self.file, len).map_err(refused("setting the size of", &self.path))
    }

    fn octets(&self, size: Option<u64>) -> Result<Payload, DiskError> {
        let file = Arc::clone(&self.file);
        Payload::new(file, self.path.to_string(), size, WINDOW_BITS)
    }

    fn write_whole(&self, octets: &[u8]) -> Result<(), DiskError> {
        let len = octets.len() as u64;
        write_at(&self.file, octets, 0).map_err(|error| match error {
            Errno::NOSPC | Errno::DQUOT => DiskError::Full { missing: len },
            error => refused("writing", &self.path)(error),
        })?;
        // Another has left more.
        match self.len()? > len {
            true => self.set_len(len),
            false => Ok(()),
        }
    }

    fn sync_octets(&self) -> Result<(), DiskError> {
        fdatasync(&self.file).map_err(refused("syncing", &self.path))
    }

    fn sync(&self) -> Result<(), DiskError> {
        fsync(&self.file).map_err(refused("syncing", &self.path))
    }

    fn sync_disk(&self) -> Result<(), DiskError> {
        syncfs(&self.file).map_err(refused("syncing the file system of", &self.path))
    }

    fn journal(&self) -> Result<Option<Result<HeldJournal, ()>>, DiskError> {
        let name = self.name.with(Part::Journal);
        match self.directory.open_file(&name, OFlags::RDWR) {
            Ok(found) => Ok(Some(Ok(HeldJournal::new(found, self.path.to_string())))),
            Err(Errno::NOENT) => Ok(None),
            Err(_) => Ok(Some(Err(()))),
        }
    }

    fn new_journal(&self) -> Result<HeldJournal, DiskError> {
        let name = self.name.with(Part::Journal);
        self.directory.remove(&name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let new = self.directory.open_file(&name, flags);
        let new = new.map_err(refused("writing the journal of", &self.path))?;
        Ok(HeldJournal::new(new, self.path.to_string()))
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        fsync(&self.directory).map_err(refused("syncing", &self.path))
    }

    fn sync_place_of_names(&self) -> Result<(), DiskError> {
        self.directory.root().sync_directory(None)
    }

    fn give(&self, entry: &Entry) -> Result<(), DiskError> {
        set_owner_and_mode(&self.file, entry).map_err(refused("giving away", &self.path))?;
        let times = times(entry.mtime);
        futimens(&self.file, &times).map_err(refused("setting the time of", &self.path))
    }

    fn take_back(&self) {
        // Whoever takes it up is told otherwise.
        let _ = fchmod(&self.file, Mode::RUSR | Mode::WUSR);
    }

    fn make_parents(&self) -> Result<(), DiskError> {
        self.directory.root().make_parents(&self.path)
    }

    fn publish(&self, overwrite: bool) -> Result<(), DiskError> {
        let name = self.name.with(Part::File);
        let root = self.directory.root();
        root.publish(&self.directory, &name, &self.path, overwrite)
    }

    fn is_beside(&self, other: &Self) -> bool {
        self.path.split().0 == other.path.split().0
    }

    fn sync_name(&self) -> Result<(), DiskError> {
        let root = self.directory.root();
        root.sync_directory(self.path.split().0.as_ref())
    }

    fn sync_parents(&self) -> Result<(), DiskError> {
        let root = self.directory.root();
        let mut at = self.path.split().0;
        while let Some(directory) = at {
            at = directory.split().0;
            root.sync_directory(at.as_ref())?;
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), DiskError> {
        self.directory.remove(&self.name.with(Part::File)).map(drop)
    }

    fn remove_journal(&self) -> Result<(), DiskError> {
        let name = self.name.with(Part::Journal);
        self.directory.remove(&name).map(drop)
    }

    fn leave(&self) {
        self.directory.leave();
    }

    fn incomplete(&self, missing: u64) -> DiskError {
        DiskError::Incomplete {
            path: self.path.to_string(),
            missing,
        }
    }

    fn lost(&self) -> DiskError {
        DiskError::Lost {
            path: self.path.to_string(),
        }
    }

    fn is_full(error: &DiskError) -> bool {
        matches!(error, DiskError::Full { .. })
    }
}

impl Octets for Payload {
    type Error = DiskError;

    fn len(&self) -> u64 {
        self.len()
    }

    fn read(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), DiskError> {
        self.read(range, take)
    }

    fn make_room(&mut self, range: Range<u64>) -> Result<u64, DiskError> {
        self.make_room(range)
    }

    fn reserve(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        self.reserve(range)
    }

    fn check_free(&self, allocated: u64) -> Result<(), DiskError> {
        self.check_free(allocated)
    }

    fn punch(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        self.punch(range)
    }

    fn clear(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        self.clear(range)
    }

    fn check(&self) -> Result<(), DiskError> {
        self.check()
    }

    fn close(&mut self) {
        self.unmap_all();
    }
}

/// The journal of an unfinished file.
#[derive(Debug)]
pub struct HeldJournal {
    file: OwnedFd,
    /// Whose it is, for people.
    path: String,
}

impl HeldJournal {
    pub(super) const fn new(file: OwnedFd, path: String) -> Self {
        Self { file, path }
    }
}

impl JournalFile for HeldJournal {
    type Error = DiskError;

    fn len(&self) -> Result<u64, DiskError> {
        let found = fstat(&self.file).map_err(refused("reading the journal of", &self.path))?;
        Ok(u64::try_from(found.st_size).unwrap_or(0))
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        ftruncate(&self.file, len).map_err(refused("reading the journal of", &self.path))
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize, DiskError> {
        read_at(&self.file, into, at).map_err(refused("reading the journal of", &self.path))
    }

    fn write_at(&self, octets: &[u8], at: u64) -> Result<(), DiskError> {
        let written = write_at(&self.file, octets, at);
        written.map_err(refused("writing the journal of", &self.path))
    }

    fn sync(&self) -> Result<(), DiskError> {
        fdatasync(&self.file).map_err(refused("syncing the journal of", &self.path))
    }
}

fn write_at(file: impl AsFd, octets: &[u8], at: u64) -> Result<(), Errno> {
    let mut written = 0;
    while written < octets.len() {
        match pwrite(&file, &octets[written..], at + written as u64) {
            Ok(octets) => written += octets,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
