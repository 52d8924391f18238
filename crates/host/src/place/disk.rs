//! What lies on disk is written whole or not at all, and tried again.
//!
//! [`Disk`] stands between that and the file system, as `Board` stands between the firmware and the
//! world: the real one is a [`Directory`], a simulated one is full, torn, and full of what somebody
//! has planted.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};

use cellgate_core::Time;
use rustix::fs::{AtFlags, OFlags, fsync, renameat, unlinkat};

use super::directory::Directory;

/// From one attempt to write to the next, in nanoseconds.
const AGAIN_NS: u64 = 10_000_000_000;

/// The files of a directory. No operation follows a link.
pub(crate) trait Disk {
    /// A file's first octets, `max` at most.
    fn read(&mut self, name: &str, max: u64) -> io::Result<Vec<u8>>;
    /// Makes a file where nothing is, for this user's eyes only; when this comes back with success
    /// all of it is on the disk.
    fn create(&mut self, name: &str, octets: &[u8]) -> io::Result<()>;
    /// Puts a file in place of whatever file has the other name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

impl Disk for Directory {
    fn read(&mut self, name: &str, max: u64) -> io::Result<Vec<u8>> {
        let file = self.open_file(OsStr::new(name), OFlags::RDONLY, 0)?;
        let mut octets = Vec::new();
        File::from(file).take(max).read_to_end(&mut octets)?;
        Ok(octets)
    }

    fn create(&mut self, name: &str, octets: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = self.open_file(OsStr::new(name), flags, 0o600)?;
        let mut file = File::from(file);
        file.write_all(octets)?;
        file.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        renameat(&*self, from, &*self, to)?;
        // The file is whole without it; after a power failure it may be the former one.
        let _ = self
            .open_file(OsStr::new("."), OFlags::RDONLY | OFlags::DIRECTORY, 0)
            .map(fsync);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&*self, name, AtFlags::empty())?)
    }
}

/// Puts `octets` in place of whatever file is at `name`, whole or not at all.
///
/// # Errors
/// What was there is there still, and nothing beside it.
pub(crate) fn replace(disk: &mut impl Disk, name: &str, octets: &[u8]) -> io::Result<()> {
    let new = format!(".{name}.new");
    // A rest of an interrupted attempt.
    let _ = disk.remove(&new);
    let written = disk.create(&new, octets);
    let replaced = written.and_then(|()| disk.rename(&new, name));
    if replaced.is_err() {
        let _ = disk.remove(&new);
    }
    replaced
}

/// A file that is to be on the disk, and is tried again until it is.
#[derive(Debug)]
pub(crate) struct Keeping {
    name: &'static str,
    /// What is not there yet, and when to try.
    missing: Option<(Vec<u8>, Time)>,
    problem: Option<String>,
}

impl Keeping {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            missing: None,
            problem: None,
        }
    }

    /// Has it be there, in place of what was.
    pub(crate) fn keep(&mut self, now: Time, octets: Vec<u8>) {
        self.missing = Some((octets, now));
    }

    /// Tries, if it is time.
    pub(crate) fn look(&mut self, now: Time, disk: &mut impl Disk) {
        let Some((octets, due)) = self.missing.as_mut().filter(|(_, due)| *due <= now) else {
            return;
        };
        match replace(disk, self.name, octets) {
            Ok(()) => (self.missing, self.problem) = (None, None),
            Err(error) => {
                *due = now.plus_ns(AGAIN_NS);
                self.problem = Some(format!("{} cannot be written: {error}", self.name));
            }
        }
    }

    /// Why it is not there.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}
