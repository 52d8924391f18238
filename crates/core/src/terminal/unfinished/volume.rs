use core::fmt;
use core::ops::Range;

use crate::terminal::{Planted, Store};

/// A directory on a disk, below which files are received.
///
/// What is done to it others see at once. What was not synced a power failure may undo, all of it
/// or some, in any order; only a name changes as a whole.
pub trait Volume {
    type Error: fmt::Display;
    /// Where a file is to be.
    type Path: Clone + Ord;
    /// Owner, permissions and time that a file is to have.
    type Traits;
    type Held: Held<Error = Self::Error, Traits = Self::Traits>;

    /// The unfinished file that is to be at `path`, for this receiver alone; it may be new, or what
    /// another has left.
    ///
    /// # Errors
    /// Somebody else has it; it cannot be made.
    fn take(&self, path: &Self::Path) -> Result<Self::Held, Self::Error>;

    /// Whether anything is there of an unfinished file.
    fn is_begun(&self, path: &Self::Path) -> bool;

    /// Removes what unfinished files are in, if there are none.
    fn leave(&self);

    /// Whether it is not taken because somebody else has it.
    fn is_in_use(error: &Self::Error) -> bool;

    /// Whether it has not got its name because something else has.
    fn is_there_already(error: &Self::Error) -> bool;

    /// Whether what is at `path` is what is asked for, as far as its length and time tell.
    fn is_there(&self, path: &Self::Path, traits: &Self::Traits) -> bool;

    /// The error of who puts too many files at a time.
    fn too_many(&self, path: &Self::Path) -> Self::Error;

    /// Whether it has a bug on purpose.
    #[inline(always)]
    fn has(&self, _bug: Planted) -> bool {
        false
    }
}

/// An unfinished file, which one receiver has: its octets, its journal, and the name that it gets.
/// All errors are the disk's.
#[allow(clippy::missing_errors_doc)]
pub trait Held {
    type Error: fmt::Display;
    type Traits;
    type Octets: Octets<Error = Self::Error>;
    type Journal: JournalFile<Error = Self::Error>;

    /// Octets of the file.
    fn len(&self) -> Result<u64, Self::Error>;

    /// Whether it has none.
    fn is_empty(&self) -> Result<bool, Self::Error> {
        Ok(self.len()? == 0)
    }

    /// Shortens it, or has zeros behind its end.
    fn set_len(&self, len: u64) -> Result<(), Self::Error>;

    /// Its octets, to be read and written: it will have `size`; none: that is not known. It has
    /// them at once, as a hole.
    fn octets(&self, size: Option<u64>) -> Result<Self::Octets, Self::Error>;

    /// Writes all of a small file.
    fn write_whole(&self, octets: &[u8]) -> Result<(), Self::Error>;

    /// Has the octets, however they were written, outlive a power failure.
    fn sync_octets(&self) -> Result<(), Self::Error>;

    /// Has all that is known of the file do so, too.
    fn sync(&self) -> Result<(), Self::Error>;

    /// Has all that was written to its disk do so, of this file and of others.
    fn sync_disk(&self) -> Result<(), Self::Error>;

    /// The journal, if there is one; an error of the inside: something else has its name.
    fn journal(&self) -> Result<Option<Result<Self::Journal, ()>>, Self::Error>;

    /// An empty journal, in the place of whatever has its name.
    fn new_journal(&self) -> Result<Self::Journal, Self::Error>;

    /// Has the names of file and journal outlive a power failure.
    fn sync_names(&self) -> Result<(), Self::Error>;

    /// Has that of the directory that they are in do so.
    fn sync_place_of_names(&self) -> Result<(), Self::Error>;

    /// Gives the file owner, permissions and time.
    fn give(&self, traits: &Self::Traits) -> Result<(), Self::Error>;

    /// Takes the permissions back, so that somebody can take it up.
    fn take_back(&self);

    /// Has the directories be there that the file is to be in.
    fn make_parents(&self) -> Result<(), Self::Error>;

    /// Gives the file its name, at once. What has it is replaced, if it may be.
    fn publish(&self, overwrite: bool) -> Result<(), Self::Error>;

    /// Whether it is to be in the directory that another is to be in.
    fn is_beside(&self, other: &Self) -> bool;

    /// Has that name outlive a power failure.
    fn sync_name(&self) -> Result<(), Self::Error>;

    /// Has those of the directories that it is in do so, from the last to the first.
    fn sync_parents(&self) -> Result<(), Self::Error>;

    /// Removes the unfinished file, if it is there.
    fn remove(&self) -> Result<(), Self::Error>;

    /// Removes its journal, if there is one.
    fn remove_journal(&self) -> Result<(), Self::Error>;

    /// Nothing of it is there any more: what it was in goes, too, if nothing else is in that.
    fn leave(&self);

    /// The error of a file of which `missing` disk-PDUs have not come.
    fn incomplete(&self, missing: u64) -> Self::Error;

    /// The error of a file whose disk has not taken what it was given.
    fn lost(&self) -> Self::Error;

    /// Whether there is no room on the disk.
    fn is_full(error: &Self::Error) -> bool;

    /// Whether it has a bug on purpose.
    #[inline(always)]
    fn has(&self, _bug: Planted) -> bool {
        false
    }
}

/// The octets of an unfinished file.
#[allow(clippy::missing_errors_doc)]
pub trait Octets: Store {
    type Error;

    /// Of the file: nothing is touched behind them.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands the octets of a range on, piece by piece, as they are in the file. What is behind its
    /// end is not handed on.
    fn read(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), Self::Error>;

    /// Has octets of `range` find room when they are written. Where that ends.
    fn make_room(&mut self, range: Range<u64>) -> Result<u64, Self::Error>;

    /// Sets blocks of the disk aside for a range, but for the holes in it.
    fn reserve(&mut self, range: Range<u64>) -> Result<(), Self::Error>;

    /// Whether the disk has room for a file that takes this much of it.
    fn check_free(&self, allocated: u64) -> Result<(), Self::Error>;

    /// Makes a range zeros that take no blocks of the disk. Room is not made for it again.
    fn punch(&mut self, range: Range<u64>) -> Result<(), Self::Error>;

    /// Makes a range zeros that can be written once more.
    fn clear(&mut self, range: Range<u64>) -> Result<(), Self::Error>;

    /// Whether all that was written is in the file.
    fn check(&self) -> Result<(), Self::Error>;

    /// No more is written. What was written stays.
    fn close(&mut self);
}

/// The file of a journal.
#[allow(clippy::missing_errors_doc, clippy::len_without_is_empty)]
pub trait JournalFile {
    type Error;

    fn len(&self) -> Result<u64, Self::Error>;

    /// Shortens it.
    fn set_len(&self, len: u64) -> Result<(), Self::Error>;

    /// Octets that were read; fewer than there is room for: it ends there.
    fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize, Self::Error>;

    fn write_at(&self, octets: &[u8], at: u64) -> Result<(), Self::Error>;

    /// Has its octets outlive a power failure.
    fn sync(&self) -> Result<(), Self::Error>;
}
