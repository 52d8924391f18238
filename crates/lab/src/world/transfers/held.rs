//! The losing disk as the core wants it: a directory below which files are received.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellgate_core::terminal::unfinished::{Digest, Held, JournalFile, Octets, Volume};
use cellgate_core::terminal::{Planted, Store};

use super::disk::{DiskError, LosingDisk, Named, PARTIAL, parent};

/// A disk, whoever looks at it.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedDisk {
    disk: Arc<Mutex<LosingDisk>>,
    pub(super) planted: Option<Planted>,
}

impl SharedDisk {
    pub(super) fn new(disk: LosingDisk, planted: Option<Planted>) -> Self {
        Self {
            disk: Arc::new(Mutex::new(disk)),
            planted,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LosingDisk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is asked for of a file beside its octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Traits {
    pub(super) len: u64,
    pub(super) mode: u16,
    pub(super) modified_ns: i64,
}

/// An unfinished file.
#[derive(Debug)]
pub(super) struct SimHeld {
    disk: SharedDisk,
    path: String,
    /// In the directory of unfinished files, without an ending.
    name: String,
    inode: usize,
    /// Nothing was there of its octets before.
    pub(super) is_new: bool,
    /// Failures of the disk when it was opened: it hears of later ones.
    failures: AtomicU64,
}

impl Drop for SimHeld {
    fn drop(&mut self) {
        self.disk.lock().taken.remove(&self.name);
    }
}

/// The name of the unfinished file that is to be at `path`.
fn name_of(path: &str) -> String {
    format!("{PARTIAL}/{}", Digest::of_file(path.as_bytes()))
}

impl SharedDisk {
    /// Has the directories be there that lead to a path.
    pub(super) fn make_directory(&self, path: &str) -> Result<(), DiskError> {
        let mut steps = Vec::new();
        let mut at = path;
        while !at.is_empty() {
            steps.push(at);
            at = parent(at);
        }
        for step in steps.into_iter().rev() {
            let mut disk = self.lock();
            match disk.names().get(step) {
                Some(Named::Directory) => {}
                Some(_) => return Err(DiskError::NoDirectory),
                None => disk.name(vec![(step.to_owned(), Some(Named::Directory))])?,
            }
        }
        Ok(())
    }

    pub(super) fn make_link(&self, path: &str, to: &[u8]) -> Result<(), DiskError> {
        self.make_directory(parent(path))?;
        let link = Named::Link(to.to_vec());
        self.lock().name(vec![(path.to_owned(), Some(link))])
    }
}

impl Volume for SharedDisk {
    type Error = DiskError;
    type Path = String;
    type Traits = Traits;
    type Held = SimHeld;

    fn is_begun(&self, path: &String) -> bool {
        let (disk, name) = (self.lock(), name_of(path));
        let is_there = |ending| disk.names().contains_key(&format!("{name}.{ending}"));
        is_there("part") || is_there("journal")
    }

    fn leave(&self) {
        let mut disk = self.lock();
        let inside = format!("{PARTIAL}/");
        let is_empty = !disk.names().keys().any(|name| name.starts_with(&inside));
        if is_empty && disk.names().contains_key(PARTIAL) {
            // The dead leave it.
            let _ = disk.name(vec![(PARTIAL.to_owned(), None)]);
        }
    }

    fn take(&self, path: &String) -> Result<SimHeld, DiskError> {
        self.make_directory(PARTIAL)?;
        let name = name_of(path);
        let mut disk = self.lock();
        if !disk.taken.insert(name.clone()) {
            return Err(DiskError::InUse);
        }
        let part = format!("{name}.part");
        let (inode, is_new) = match disk.names().get(&part) {
            Some(Named::File(inode)) => (*inode, false),
            _ => {
                let inode = disk.make();
                let named = disk.name(vec![(part, Some(Named::File(inode)))]);
                if let Err(error) = named {
                    disk.taken.remove(&name);
                    return Err(error);
                }
                (inode, true)
            }
        };
        Ok(SimHeld {
            disk: self.clone(),
            path: path.clone(),
            name,
            inode,
            is_new,
            failures: AtomicU64::new(disk.failed_syncs),
        })
    }

    fn is_in_use(error: &DiskError) -> bool {
        *error == DiskError::InUse
    }

    fn is_there_already(error: &DiskError) -> bool {
        *error == DiskError::Exists
    }

    fn is_there(&self, path: &String, wanted: &Traits) -> bool {
        let disk = self.lock();
        match disk.names().get(path) {
            Some(Named::File(inode)) => {
                let meta = disk.inodes[*inode].meta;
                (meta.len, meta.modified_ns) == (wanted.len, wanted.modified_ns)
            }
            _ => false,
        }
    }

    fn too_many(&self, _: &String) -> DiskError {
        DiskError::TooMany
    }

    fn has(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }
}

impl SimHeld {
    fn part(&self) -> String {
        format!("{}.part", self.name)
    }

    fn journal_name(&self) -> String {
        format!("{}.journal", self.name)
    }

    fn removes(&self, name: String) -> Result<(), DiskError> {
        let mut disk = self.disk.lock();
        match disk.names().contains_key(&name) {
            true => disk.name(vec![(name, None)]),
            false => Ok(()),
        }
    }
}

impl Held for SimHeld {
    type Error = DiskError;
    type Traits = Traits;
    type Octets = SimOctets;
    type Journal = SimJournal;

    fn len(&self) -> Result<u64, DiskError> {
        Ok(self.disk.lock().inodes[self.inode].meta.len)
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        let mut disk = self.disk.lock();
        disk.change(self.inode, |inode| inode.set_len(len))
    }

    fn octets(&self, size: Option<u64>) -> Result<SimOctets, DiskError> {
        if let Some(size) = size
            && size != self.len()?
        {
            self.set_len(size)?;
        }
        Ok(SimOctets {
            disk: self.disk.clone(),
            inode: self.inode,
            is_reserved: false,
            fault: None,
        })
    }

    fn write_whole(&self, octets: &[u8]) -> Result<(), DiskError> {
        let mut disk = self.disk.lock();
        disk.change(self.inode, |inode| inode.set_len(0))?;
        disk.write(self.inode, 0, octets)?;
        disk.begins()
    }

    fn sync_octets(&self) -> Result<(), DiskError> {
        self.disk.lock().sync(self.inode, false)
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.disk.lock().sync(self.inode, true)
    }

    fn sync_disk(&self) -> Result<(), DiskError> {
        let mut disk = self.disk.lock();
        let synced = disk.sync_all();
        let before = self.failures.swap(disk.failed_syncs, Ordering::Relaxed);
        synced?;
        // What has failed since it was opened may be of this one.
        match disk.failed_syncs == before {
            true => Ok(()),
            false => Err(DiskError::Failed),
        }
    }

    fn journal(&self) -> Result<Option<Result<SimJournal, ()>>, DiskError> {
        let disk = self.disk.lock();
        Ok(match disk.names().get(&self.journal_name()) {
            Some(Named::File(inode)) => Some(Ok(SimJournal {
                disk: self.disk.clone(),
                inode: *inode,
            })),
            Some(_) => Some(Err(())),
            None => None,
        })
    }

    fn new_journal(&self) -> Result<SimJournal, DiskError> {
        self.remove_journal()?;
        let mut disk = self.disk.lock();
        let inode = disk.make();
        disk.name(vec![(self.journal_name(), Some(Named::File(inode)))])?;
        Ok(SimJournal {
            disk: self.disk.clone(),
            inode,
        })
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        self.disk.lock().sync_names(PARTIAL)
    }

    fn sync_place_of_names(&self) -> Result<(), DiskError> {
        self.disk.lock().sync_names("")
    }

    fn give(&self, traits: &Traits) -> Result<(), DiskError> {
        let mut disk = self.disk.lock();
        disk.change(self.inode, |inode| {
            (inode.meta.mode, inode.meta.modified_ns) = (traits.mode, traits.modified_ns);
        })
    }

    fn take_back(&self) {
        let mut disk = self.disk.lock();
        // The dead take nothing back.
        let _ = disk.change(self.inode, |inode| inode.meta.mode = 0o600);
    }

    fn make_parents(&self) -> Result<(), DiskError> {
        self.disk.make_directory(parent(&self.path))
    }

    fn publish(&self, overwrite: bool) -> Result<(), DiskError> {
        let mut disk = self.disk.lock();
        match disk.names().get(&self.path) {
            Some(Named::Directory) => return Err(DiskError::NoDirectory),
            Some(_) if !overwrite => return Err(DiskError::Exists),
            _ => {}
        }
        if !disk.names().contains_key(&self.part()) {
            return Err(DiskError::Missing);
        }
        let file = Named::File(self.inode);
        disk.name(vec![(self.part(), None), (self.path.clone(), Some(file))])
    }

    fn is_beside(&self, other: &Self) -> bool {
        parent(&self.path) == parent(&other.path)
    }

    fn sync_name(&self) -> Result<(), DiskError> {
        self.disk.lock().sync_names(parent(&self.path))
    }

    fn sync_parents(&self) -> Result<(), DiskError> {
        let mut at = parent(&self.path);
        while !at.is_empty() {
            at = parent(at);
            self.disk.lock().sync_names(at)?;
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), DiskError> {
        self.removes(self.part())
    }

    fn remove_journal(&self) -> Result<(), DiskError> {
        self.removes(self.journal_name())
    }

    fn leave(&self) {
        self.disk.leave();
    }

    fn incomplete(&self, missing: u64) -> DiskError {
        DiskError::Incomplete(missing)
    }

    fn lost(&self) -> DiskError {
        DiskError::Lost
    }

    fn is_full(error: &DiskError) -> bool {
        matches!(error, DiskError::Full(_))
    }

    fn has(&self, bug: Planted) -> bool {
        self.disk.planted == Some(bug)
    }
}

/// Its octets.
#[derive(Debug)]
pub(super) struct SimOctets {
    disk: SharedDisk,
    inode: usize,
    /// It has blocks before it is written.
    is_reserved: bool,
    /// Why not all that was written is in the file.
    fault: Option<DiskError>,
}

impl Store for SimOctets {
    fn write(&mut self, at: u64, octets: &[u8]) {
        let written = self.disk.lock().write(self.inode, at, octets);
        self.fault = self.fault.take().or(written.err());
    }
}

impl Octets for SimOctets {
    type Error = DiskError;

    fn len(&self) -> u64 {
        self.disk.lock().inodes[self.inode].meta.len
    }

    fn read(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), DiskError> {
        let disk = self.disk.lock();
        let octets = &disk.inodes[self.inode].octets;
        let end = range.end.min(octets.len() as u64);
        if range.start < end {
            take(&octets[range.start as usize..end as usize]);
        }
        Ok(())
    }

    fn make_room(&mut self, range: Range<u64>) -> Result<u64, DiskError> {
        let end = range.end.min(self.len());
        self.reserve(range.start.min(end)..end)?;
        Ok(end)
    }

    fn reserve(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        self.is_reserved = true;
        self.disk.lock().allocate(self.inode, range)
    }

    // Nobody says how much of the disk a file with holes takes.
    fn check_free(&self, _: u64) -> Result<(), DiskError> {
        Ok(())
    }

    fn punch(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        let mut disk = self.disk.lock();
        disk.change(self.inode, |inode| inode.punch(range))
    }

    fn clear(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        self.punch(range.clone())?;
        match self.is_reserved {
            true => self.reserve(range),
            false => Ok(()),
        }
    }

    fn check(&self) -> Result<(), DiskError> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    fn close(&mut self) {}
}

/// Its journal.
#[derive(Debug)]
pub(super) struct SimJournal {
    disk: SharedDisk,
    inode: usize,
}

impl JournalFile for SimJournal {
    type Error = DiskError;

    fn len(&self) -> Result<u64, DiskError> {
        Ok(self.disk.lock().inodes[self.inode].meta.len)
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        let mut disk = self.disk.lock();
        disk.change(self.inode, |inode| inode.set_len(len))
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize, DiskError> {
        let disk = self.disk.lock();
        let octets = &disk.inodes[self.inode].octets;
        let behind = octets.get(at as usize..).unwrap_or_default();
        let read = behind.len().min(into.len());
        into[..read].copy_from_slice(&behind[..read]);
        Ok(read)
    }

    fn write_at(&self, octets: &[u8], at: u64) -> Result<(), DiskError> {
        let mut disk = self.disk.lock();
        disk.begins()?;
        disk.write(self.inode, at, octets)
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.disk.lock().sync(self.inode, false)
    }
}
