//! A disk that forgets what was not synced: all of it or some, torn at sectors, in any order.
//!
//! What is done others see at once; what a power failure leaves is told apart:
//!
//! ```text
//!   write, set_len, punch   -> the file, now  -- sync of the file, of the disk -->  on the disk
//!   create, rename, remove  -> names, now     -- sync of the directory ---------->  on the disk
//! ```
//!
//! A sector that was written is on the disk at the next sync, or before: the disk writes some when
//! it likes. A name changes as a whole, and with it what a rename takes it from.

mod files;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub(super) use files::{Inode, Meta};
pub(super) use names::{Named, Naming, parent};

/// Octets that are on the disk or not as a whole.
pub(super) const SECTOR: u64 = 512;
/// Octets that take room on the disk or not as a whole.
pub(super) const BLOCK: u64 = 4_096;

/// The directory of unfinished files.
pub(super) const PARTIAL: &str = ".cellgate-partial";

/// Why an operation did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DiskError {
    /// Whoever does it has died.
    Dead,
    /// The disk has not taken what it was given.
    Failed,
    InUse,
    Exists,
    Missing,
    NoDirectory,
    /// So many octets have no room.
    Full(u64),
    Incomplete(u64),
    Lost,
    TooMany,
}

impl std::fmt::Display for DiskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The fate of operations that are to come.
#[derive(Clone, Debug, Default)]
pub(super) struct Fate {
    /// Operations until whoever does them dies; none: it lives.
    pub(super) life: Option<u64>,
    pub(super) is_dead: bool,
    /// Operations of this life.
    pub(super) operations: u64,
    /// Syncs so far, and those that fail.
    pub(super) syncs: u64,
    pub(super) failing: BTreeSet<u64>,
}

/// A disk.
#[derive(Clone, Debug, Default)]
pub(super) struct LosingDisk {
    pub(super) inodes: Vec<Inode>,
    pub(super) naming: Naming,
    /// Unfinished files that somebody has, by their names.
    pub(super) taken: BTreeSet<String>,
    pub(super) fate: Fate,
    /// What the disk writes before it is told to is drawn from it.
    chance: Chance,
    /// Names outside the directory of unfinished files that files have got.
    pub(super) published: Vec<(String, usize)>,
    pub(super) failed_syncs: u64,
    /// Octets that it has room for; none: for all.
    pub(super) room: Option<u64>,
    /// Something has found no room.
    pub(super) was_full: bool,
    /// It says that it has synced what it has not.
    pub(super) lies: bool,
}

/// Numbers that follow from the one before: SplitMix64.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) const fn from(number: u64) -> Self {
        Self(number)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

impl LosingDisk {
    pub(super) fn new(chance: u64) -> Self {
        Self {
            chance: Chance::from(chance),
            ..Self::default()
        }
    }

    /// All that was done is of before; these syncs from here on fail.
    pub(super) fn begins_with(&mut self, failing: &[u64]) {
        self.fate = Fate {
            failing: failing.iter().copied().collect(),
            ..Fate::default()
        };
        self.published.clear();
    }

    /// An operation begins, if whoever does it is alive.
    pub(super) fn begins(&mut self) -> Result<(), DiskError> {
        let fate = &mut self.fate;
        if fate.is_dead || fate.life == Some(0) {
            fate.is_dead = true;
            return Err(DiskError::Dead);
        }
        fate.life = fate.life.map(|life| life - 1);
        fate.operations += 1;
        Ok(())
    }

    /// As [`LosingDisk::begins`], of a sync: whether the disk does what it is told.
    fn begins_sync(&mut self) -> Result<bool, DiskError> {
        self.begins()?;
        let number = self.fate.syncs;
        self.fate.syncs += 1;
        let fails = self.fate.failing.contains(&number);
        self.failed_syncs += u64::from(fails);
        Ok(!fails)
    }

    fn is_dead(&self) -> bool {
        self.fate.is_dead
    }

    /// A new file without octets.
    pub(super) fn make(&mut self) -> usize {
        self.inodes.push(Inode::default());
        self.inodes.len() - 1
    }

    /// Octets that nothing with a name takes; none: there is room for all.
    pub(super) fn free(&self) -> Option<u64> {
        let taken = self.names().values().map(|named| match named {
            Named::File(inode) => self.inodes[*inode].blocks.len() as u64 * BLOCK,
            Named::Directory | Named::Link(_) => 0,
        });
        self.room.map(|room| room.saturating_sub(taken.sum()))
    }

    /// Whether there is room for a range of a file.
    fn has_room(&mut self, inode: usize, range: &Range<u64>) -> Result<(), DiskError> {
        let Some(free) = self.free() else {
            return Ok(());
        };
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        let taken = self.inodes[inode].blocks.range(blocks.clone()).count() as u64;
        match ((blocks.end - blocks.start - taken) * BLOCK).saturating_sub(free) {
            0 => Ok(()),
            missing => {
                self.was_full = true;
                Err(DiskError::Full(missing))
            }
        }
    }

    /// Sets blocks aside.
    pub(super) fn allocate(&mut self, inode: usize, range: Range<u64>) -> Result<(), DiskError> {
        self.begins()?;
        self.has_room(inode, &range)?;
        self.inodes[inode].allocate(range);
        Ok(())
    }

    /// Writes octets at their place, all or none of them; of the dead nothing is written.
    pub(super) fn write(&mut self, inode: usize, at: u64, octets: &[u8]) -> Result<(), DiskError> {
        if self.is_dead() {
            return Ok(());
        }
        self.has_room(inode, &(at..at + octets.len() as u64))?;
        self.inodes[inode].write(at, octets);
        let number = self.chance.next();
        if number.is_multiple_of(64) {
            // The disk has time.
            self.inodes[inode].settles_some(number);
        }
        Ok(())
    }

    pub(super) fn change(
        &mut self,
        inode: usize,
        change: impl FnOnce(&mut Inode),
    ) -> Result<(), DiskError> {
        self.begins()?;
        change(&mut self.inodes[inode]);
        Ok(())
    }

    /// Has a file's octets outlive a power failure, and with `all` all that is known of it.
    pub(super) fn sync(&mut self, inode: usize, all: bool) -> Result<(), DiskError> {
        let does = self.begins_sync()?;
        if self.lies {
            return Ok(());
        }
        let does = self.inodes[inode].sync(does, all);
        does.then_some(()).ok_or(DiskError::Failed)
    }

    /// The same of all there is.
    pub(super) fn sync_all(&mut self) -> Result<(), DiskError> {
        let does = self.begins_sync()?;
        for inode in &mut self.inodes {
            match does {
                // That of another file says what got lost of it.
                true => inode.sync_beside(),
                false => inode.gets_lost(),
            }
        }
        if does {
            self.naming.sync(|_| true);
        }
        does.then_some(()).ok_or(DiskError::Failed)
    }

    /// Has the names in a directory outlive a power failure.
    pub(super) fn sync_names(&mut self, directory: &str) -> Result<(), DiskError> {
        let does = self.begins_sync()?;
        if does {
            self.naming.sync(|path| parent(path) == directory);
        }
        does.then_some(()).ok_or(DiskError::Failed)
    }

    /// Changes names at once.
    pub(super) fn name(&mut self, changes: Vec<(String, Option<Named>)>) -> Result<(), DiskError> {
        self.begins()?;
        for (path, named) in &changes {
            if let Some(Named::File(inode)) = named
                && !path.starts_with(PARTIAL)
            {
                self.published.push((path.clone(), *inode));
            }
        }
        self.naming.change(changes);
        Ok(())
    }

    /// What a power failure leaves, drawn from `keeps`; nobody has anything any more.
    pub(super) fn loses_power(&mut self, keeps: u64) {
        let mut chance = Chance::from(keeps);
        for inode in &mut self.inodes {
            inode.loses_power(&mut chance);
        }
        self.naming.loses_power(&mut chance);
    }

    /// Somebody changes octets of something that is unfinished. Whether there was one.
    pub(super) fn gets_spoiled(&mut self, number: u64) -> bool {
        let mut chance = Chance::from(!number);
        let unfinished = self
            .naming
            .now
            .iter()
            .filter_map(|(path, named)| match named {
                Named::File(inode) if path.starts_with(PARTIAL) => Some(*inode),
                _ => None,
            });
        let with_octets = unfinished.filter(|inode| !self.inodes[*inode].octets.is_empty());
        let with_octets: Vec<usize> = with_octets.collect();
        if with_octets.is_empty() {
            return false;
        }
        let inode = with_octets[chance.next() as usize % with_octets.len()];
        self.inodes[inode].gets_spoiled(&mut chance);
        true
    }

    /// Whoever did something there is dead; another begins.
    pub(super) fn begins_anew(&mut self, life: Option<u64>) {
        self.taken.clear();
        self.fate.is_dead = false;
        self.fate.operations = 0;
        self.fate.life = life;
    }

    /// Why a power failure might take the file at `path` away, or something of it; none: it would
    /// not.
    pub(super) fn is_unsafe(&self, path: &str) -> Option<&'static str> {
        let Some(Named::File(inode)) = self.naming.now.get(path) else {
            return Some("it is not there");
        };
        if let Some(why) = self.naming.is_unsafe(path) {
            return Some(why);
        }
        self.inodes[*inode].is_unsafe()
    }

    /// Names in use, those of unfinished files too.
    pub(super) fn names(&self) -> &BTreeMap<String, Named> {
        &self.naming.now
    }
}
