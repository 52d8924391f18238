use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, RenameFlags, ResolveFlags, Stat, fsync, linkat, mkdirat, openat2,
    readlinkat, renameat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::entry::Entry;
use super::error::{DiskError, refused};
use super::partial_directory::{Part, PartialDirectory, PartialName};
use super::path::{PathBelow, shown_octets};
use super::source_file::SourceFile;
use crate::place::Directory;

/// No step of a path leads out of the root, or through a link.
const BELOW: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);
/// How often a path is resolved that others rename meanwhile.
const TRIES: usize = 100;
/// Octets that a link may have.
const TARGET_MAX: usize = 4_095;

/// A directory, opened once, below which every path of a peer stays, whatever others put there.
#[derive(Clone, Debug)]
pub struct Root(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    directory: Directory,
    /// That of unfinished files, while one of them keeps it open.
    partial: Mutex<Weak<PartialDirectory>>,
}

impl Root {
    /// The directory at `path`, which the user has named. The way there leads through no link that
    /// somebody else than root or this user has made.
    ///
    /// # Errors
    /// There is none, or the way there is somebody else's.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let opened = Directory::open(path).map_err(|error| DiskError::Io {
            doing: "opening",
            path: shown_octets(path.as_os_str().as_bytes()),
            error,
        })?;
        Ok(Self::of(opened))
    }

    fn of(directory: Directory) -> Self {
        let partial = Mutex::default();
        Self(Arc::new(Opened { directory, partial }))
    }

    pub(super) fn partial_directory(&self) -> MutexGuard<'_, Weak<PartialDirectory>> {
        let partial = self.0.partial.lock();
        partial.unwrap_or_else(PoisonError::into_inner)
    }

    /// As it was named.
    pub fn path(&self) -> &Path {
        self.0.directory.path()
    }

    /// What is at `path`; none: the root itself.
    pub(super) fn resolve(
        &self,
        path: Option<&PathBelow>,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let name = path.map_or(OsStr::new("."), PathBelow::os);
        let flags = flags | OFlags::CLOEXEC;
        for _ in 0..TRIES {
            match openat2(self, name, flags, Mode::empty(), BELOW) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }

    /// The directory of a path, to do something to its name in it.
    pub(super) fn parent<'a>(
        &self,
        path: &'a PathBelow,
    ) -> Result<(OwnedFd, &'a OsStr), DiskError> {
        let (parent, name) = path.split();
        let fd = self.resolve(parent.as_ref(), OFlags::PATH | OFlags::DIRECTORY);
        Ok((
            fd.map_err(refused("opening", path))?,
            OsStr::from_bytes(name),
        ))
    }

    /// A directory below, as a root of its own.
    ///
    /// # Errors
    /// There is no directory.
    pub fn below(&self, path: &PathBelow) -> Result<Self, DiskError> {
        let opened = self.resolve(Some(path), OFlags::RDONLY | OFlags::DIRECTORY);
        let fd = opened.map_err(refused("opening", path))?;
        let path = self.path().join(path.os());
        Ok(Self::of(Directory::of(fd, path)))
    }

    /// What is at `path`, a link as such; none: nothing.
    ///
    /// # Errors
    /// The way there is none, or something else than a file, directory or link is there.
    pub fn stat(&self, path: &PathBelow) -> Result<Option<Entry>, DiskError> {
        let Some(found) = self.find(path)? else {
            return Ok(None);
        };
        let entry = Entry::of(path.clone(), &found);
        let path = path.to_string();
        entry.map(Some).ok_or(DiskError::NoFile { path })
    }

    pub(super) fn find(&self, path: &PathBelow) -> Result<Option<Stat>, DiskError> {
        let (parent, name) = match self.parent(path) {
            Err(DiskError::Missing { .. }) => return Ok(None),
            other => other?,
        };
        match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(refused("looking at", path)(error)),
        }
    }

    /// The names in a directory (none: in the root), in no order, none held beyond a buffer.
    ///
    /// # Errors
    /// There is no directory, or it may not be read.
    pub fn list(&self, path: Option<&PathBelow>) -> Result<Listing, DiskError> {
        let shown = || path.map_or(".".to_owned(), PathBelow::to_string);
        let directory = self.directory(path).map_err(refused("reading", shown()))?;
        let path = shown();
        Ok(Listing { directory, path })
    }

    pub(super) fn directory(&self, path: Option<&PathBelow>) -> Result<Dir, Errno> {
        Dir::new(self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK)?)
    }

    /// Opens the file at `path` to be read.
    ///
    /// # Errors
    /// There is no file, or it may not be read.
    pub fn open_file(&self, path: &PathBelow) -> Result<SourceFile, DiskError> {
        SourceFile::open(self, path)
    }

    /// Where the link at `path` leads, any octets.
    ///
    /// # Errors
    /// There is no link.
    pub fn target(&self, path: &PathBelow) -> Result<Vec<u8>, DiskError> {
        let (parent, name) = self.parent(path)?;
        let target = readlinkat(&parent, name, Vec::new());
        Ok(target.map_err(refused("reading", path))?.into_bytes())
    }

    /// Has a directory be at `path`, and those that it is in.
    ///
    /// # Errors
    /// Something else is there or on the way.
    pub fn make_directory(&self, path: &PathBelow) -> Result<(), DiskError> {
        let mut at: Option<OwnedFd> = None;
        for step in path.steps() {
            let above = at.as_ref().map_or(self.as_fd(), OwnedFd::as_fd);
            let mode = Mode::RWXU | Mode::RWXG | Mode::RWXO;
            match mkdirat(above, step, mode) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(refused("making", path)(error)),
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let next = openat2(above, step, flags, Mode::empty(), BELOW);
            at = Some(next.map_err(refused("opening", path))?);
        }
        Ok(())
    }

    /// As [`Self::make_directory`], of what `path` is in.
    pub(super) fn make_parents(&self, path: &PathBelow) -> Result<(), DiskError> {
        match path.split().0 {
            Some(parent) if self.parent(path).is_err() => self.make_directory(&parent),
            _ => Ok(()),
        }
    }

    /// Makes a link that leads to `target`, whatever that is: nobody here follows it. A file or
    /// link that is there before is replaced at once, if it may be.
    ///
    /// # Errors
    /// `target` is none, something is there, or the way there is none.
    pub fn make_link(
        &self,
        path: &PathBelow,
        target: &[u8],
        overwrite: bool,
    ) -> Result<(), DiskError> {
        if target.is_empty() || target.len() > TARGET_MAX || target.contains(&0) {
            let target = shown_octets(target);
            return Err(DiskError::Target { target });
        }
        self.make_parents(path)?;
        let name = PartialName::of(path).with(Part::Link);
        let (directory, ()) = PartialDirectory::with(self, |directory| {
            let make = || symlinkat(OsStr::from_bytes(target), directory, &*name);
            match make() {
                // Whoever died before it was renamed has left it.
                Err(Errno::EXIST) => {
                    let _ = unlinkat(directory, &*name, AtFlags::empty());
                    make()
                }
                other => other,
            }
        })?;
        let done = self.publish(&directory, &name, path, overwrite);
        let _ = unlinkat(&directory, &*name, AtFlags::empty());
        directory.leave();
        done
    }

    /// Gives what is `name` in the directory of unfinished files its place, at once.
    pub(super) fn publish(
        &self,
        directory: &PartialDirectory,
        name: &str,
        path: &PathBelow,
        overwrite: bool,
    ) -> Result<(), DiskError> {
        let (parent, last) = self.parent(path)?;
        let renamed = match overwrite {
            true => renameat(directory, name, &parent, last),
            false => {
                let stays = RenameFlags::NOREPLACE;
                match renameat_with(directory, name, &parent, last, stays) {
                    // A file system that cannot has hard links.
                    Err(Errno::INVAL | Errno::NOSYS) => {
                        let linked = linkat(directory, name, &parent, last, AtFlags::empty());
                        linked.and_then(|()| unlinkat(directory, name, AtFlags::empty()))
                    }
                    other => other,
                }
            }
        };
        renamed.map_err(refused("renaming to", path))
    }

    /// Has the names in a directory (none: in the root) outlive a power failure.
    pub(super) fn sync_directory(&self, directory: Option<&PathBelow>) -> Result<(), DiskError> {
        let synced = self
            .resolve(directory, OFlags::RDONLY | OFlags::DIRECTORY)
            .and_then(fsync);
        match synced {
            // A directory that may be written and not read, or a file system without.
            Err(Errno::ACCESS | Errno::INVAL) => Ok(()),
            other => {
                let shown = directory.map_or(".".to_owned(), PathBelow::to_string);
                other.map_err(refused("syncing the directory", shown))
            }
        }
    }

    /// Removes the file or link at `path`. False: nothing is there.
    ///
    /// # Errors
    /// It is a directory, or may not be removed.
    pub fn unlink(&self, path: &PathBelow) -> Result<bool, DiskError> {
        self.unlink_with(path, AtFlags::empty())
    }

    /// Removes the empty directory at `path`. False: nothing is there.
    ///
    /// # Errors
    /// It is no directory, or not empty.
    pub fn remove_directory(&self, path: &PathBelow) -> Result<bool, DiskError> {
        self.unlink_with(path, AtFlags::REMOVEDIR)
    }

    fn unlink_with(&self, path: &PathBelow, flags: AtFlags) -> Result<bool, DiskError> {
        let (parent, name) = match self.parent(path) {
            Err(DiskError::Missing { .. }) => return Ok(false),
            other => other?,
        };
        match unlinkat(&parent, name, flags) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(refused("removing", path)(error)),
        }
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.directory.as_fd()
    }
}

/// The names in a directory.
#[derive(Debug)]
pub struct Listing {
    directory: Dir,
    path: String,
}

impl Iterator for Listing {
    type Item = Result<Box<[u8]>, DiskError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.directory.read()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(refused("reading", &self.path)(error))),
            };
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                return Some(Ok(name.into()));
            }
        }
    }
}
