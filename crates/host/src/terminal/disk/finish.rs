use rustix::fs::{Mode, fchmod, fsync, ftruncate, futimens};

use super::digest::Digest;
use super::entry::Entry;
use super::error::{DiskError, refused};
use super::partial::Partial;
use super::partial_directory::Part;
use super::settle::{set_owner_and_mode, times};

impl Partial {
    /// Gives the file that is complete permissions, owner and time of `entry`, and its name, at
    /// once and so that both outlive a power failure. Its root: the digest that `b3sum` prints.
    ///
    /// Only root gives files away; the bits for another user or group to run as go with those
    /// alone.
    ///
    /// # Errors
    /// It is not complete; something is at its path, which may not be overwritten; the disk failed.
    /// It stays unfinished, then.
    pub fn finish(mut self, entry: &Entry, overwrite: bool) -> Result<Digest, DiskError> {
        self.sync()?;
        let digest = self.root(entry.size)?;
        self.directory.root().make_parents(&self.path)?;
        self.payload.unmap_all();
        self.is_sound()?;
        let file = &self.shared.file;
        let path = &self.path;
        ftruncate(file, entry.size).map_err(refused("setting the size of", path))?;
        set_owner_and_mode(file, entry).map_err(refused("giving away", path))?;
        futimens(file, &times(entry.mtime)).map_err(refused("setting the time of", path))?;
        fsync(file).map_err(refused("syncing", path))?;
        let name = self.name.with(Part::File);
        let root = self.directory.root();
        if let Err(error) = root.publish(&self.directory, &name, path, overwrite) {
            // As it was, so that somebody can take it up.
            let _ = fchmod(file, Mode::RUSR | Mode::WUSR);
            return Err(error);
        }
        root.sync_parent(path)?;
        self.directory.remove(&self.name.with(Part::Journal))?;
        self.directory.leave();
        Ok(digest)
    }

    /// The root of the file, if all of its `size` octets are there.
    fn root(&self, size: u64) -> Result<Digest, DiskError> {
        let count = self.disk_len.count(size);
        let is_last_short = self.short.is_none_or(|short| short + 1 == count);
        let missing = count.saturating_sub(self.subtrees.present());
        let is_whole = self.end == size && is_last_short && missing == 0;
        let root = match count {
            0 => Some(Digest::of_file(&[])),
            1 => self.only_root(size)?,
            _ => self.subtrees.root(count),
        };
        root.filter(|_| is_whole).ok_or(DiskError::Incomplete {
            path: self.path.to_string(),
            missing: missing.max(1),
        })
    }

    /// Of a file of one disk-PDU, whose digest is not its root.
    fn only_root(&self, size: u64) -> Result<Option<Digest>, DiskError> {
        let mut digesting = super::Digesting::new(0);
        let read = self.payload.read(0..size, |octets| {
            digesting.octets(octets);
        });
        read.map_err(refused("reading", &self.path))?;
        Ok(digesting.root())
    }
}
