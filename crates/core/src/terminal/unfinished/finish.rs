use super::digest::{Digest, Digesting};
use super::file::Unfinished;
use super::{Held, Octets, Volume, unless};
use crate::terminal::Planted;

/// Has the name of a file outlive a power failure, and removes its journal.
fn has_its_name<H: Held>(held: &H) -> Result<(), H::Error> {
    unless(held, Planted::NameNotSynced, H::sync_name)?;
    unless(held, Planted::ParentsNotSynced, H::sync_parents)?;
    unless(held, Planted::JournalStays, H::remove_journal)?;
    if !held.has(Planted::DirectoryStays) {
        held.leave();
    }
    Ok(())
}

/// Finishes a file that has its name already, if its receiver has died behind that. A receiver
/// that has it still does so itself.
///
/// # Errors
/// The disk failed.
pub fn finish_named<V: Volume>(volume: &V, path: &V::Path) -> Result<(), V::Error> {
    if volume.has(Planted::NamedForgotten) {
        return Ok(());
    }
    if !volume.is_begun(path) {
        volume.leave();
        return Ok(());
    }
    let held = match volume.take(path) {
        Err(error) if V::is_in_use(&error) => return Ok(()),
        taken => taken?,
    };
    held.remove()?;
    has_its_name(&held)
}

impl<H: Held> Unfinished<H> {
    /// Gives the file that is complete permissions, owner and time, and its name, at once and so
    /// that both outlive a power failure. Its root: the digest that `b3sum` prints.
    ///
    /// # Errors
    /// It has not `size` octets; something is at its path, which may not be overwritten; the disk
    /// failed. It stays unfinished, then.
    pub fn finish(
        self,
        size: u64,
        traits: &H::Traits,
        overwrite: bool,
    ) -> Result<Digest, H::Error> {
        self.finish_unless(size, traits, overwrite, &|_| false)
    }

    /// The same where an error of its publication may mean that another receiver has put the very
    /// file there meanwhile: nothing is left of this one, then.
    pub(super) fn finish_unless(
        mut self,
        size: u64,
        traits: &H::Traits,
        overwrite: bool,
        is_there: &dyn Fn(&H::Error) -> bool,
    ) -> Result<Digest, H::Error> {
        self.sync()?;
        let digest = self.root(size)?;
        self.shared.held.make_parents()?;
        self.octets.close();
        self.is_sound()?;
        let held = &self.shared.held;
        held.set_len(size)?;
        let is_late = held.has(Planted::TraitsAfterName);
        if !is_late {
            held.give(traits)?;
        }
        let is_unsynced = held.has(Planted::RenamedBeforeSync);
        if !is_unsynced {
            unless(held, Planted::FileNotSynced, H::sync)?;
        }
        match held.publish(overwrite) {
            Ok(()) => {}
            Err(error) if is_there(&error) => held.remove()?,
            Err(error) => {
                held.take_back();
                return Err(error);
            }
        }
        if is_late {
            held.give(traits)?;
        }
        if is_unsynced {
            held.sync()?;
        }
        has_its_name(held)?;
        Ok(digest)
    }

    /// The root of the file, if all of its `size` octets are there.
    fn root(&self, size: u64) -> Result<Digest, H::Error> {
        let count = self.disk_len.count(size);
        let is_last_short = self.short.is_none_or(|short| short + 1 == count);
        let missing = count.saturating_sub(self.subtrees.present());
        let is_whole = self.end == size && is_last_short && missing == 0;
        let root = match count {
            0 => Some(Digest::of_file(&[])),
            1 => self.only_root(size)?,
            _ => self.subtrees.root(count),
        };
        let incomplete = || self.shared.held.incomplete(missing.max(1));
        root.filter(|_| is_whole).ok_or_else(incomplete)
    }

    /// Of a file of one disk-PDU, whose digest is not its root.
    fn only_root(&self, size: u64) -> Result<Option<Digest>, H::Error> {
        let mut digesting = Digesting::new(0);
        self.octets.read(0..size, &mut |octets| {
            digesting.octets(octets);
        })?;
        Ok(digesting.root())
    }
}
