use rustix::fs::{FallocateFlags, fallocate, ftruncate, futimens, syncfs};
use rustix::io::Errno;

use super::digest::Digest;
use super::entry::Entry;
use super::error::{DiskError, refused};
use super::journal::write_at;
use super::partial_directory::{Part, PartialDirectory, PartialName};
use super::path::PathBelow;
use super::root::Root;
use super::settle::{set_owner_and_mode, times};
use crate::sys::LockedFile;

/// Small files that are written whole and synced together. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct Group {
    root: Root,
    members: Vec<Member>,
    /// There as long as there are members: it is not empty.
    directory: Option<PartialDirectory>,
}

#[derive(Debug)]
struct Member {
    path: PathBelow,
    name: PartialName,
    _file: LockedFile,
    overwrite: bool,
}

impl Group {
    /// Files of a group: each takes a descriptor.
    pub const MAX: usize = 128;

    pub const fn new(root: Root) -> Self {
        Self {
            root,
            members: Vec::new(),
            directory: None,
        }
    }

    /// Files that are in it.
    pub const fn len(&self) -> usize {
        self.members.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether it takes no more.
    pub const fn is_full(&self) -> bool {
        self.members.len() >= Self::MAX
    }

    /// Writes a file that is to be at `path`, with permissions, owner and time of `entry`; its
    /// root. A file that was unfinished is replaced.
    ///
    /// # Errors
    /// The group is full; there is no room; somebody receives the file; the path leads through a
    /// link.
    pub fn add(
        &mut self,
        path: &PathBelow,
        entry: &Entry,
        octets: &[u8],
        overwrite: bool,
    ) -> Result<Digest, DiskError> {
        if self.is_full() {
            return Err(refused("writing too many files at a time:", path)(
                Errno::MFILE,
            ));
        }
        self.root.make_parents(path)?;
        let name = PartialName::of(path);
        let (directory, file) = PartialDirectory::take(&self.root, name)?;
        let written = write_whole(&file, path, entry, octets);
        let member = Member {
            path: path.clone(),
            name,
            _file: file,
            overwrite,
        };
        match written {
            Ok(()) => {
                self.members.push(member);
                self.directory.get_or_insert(directory);
                Ok(Digest::of_file(octets))
            }
            Err(error) => {
                member.remove(&directory);
                directory.leave();
                Err(error)
            }
        }
    }

    /// Syncs the file system once and gives each file its name. Which ones could not have theirs,
    /// and why: they are removed.
    ///
    /// # Errors
    /// The disk failed or is full: no file has its name, and all are removed.
    pub fn finish(&mut self) -> Result<Vec<(PathBelow, DiskError)>, DiskError> {
        let Some(directory) = self.directory.take() else {
            return Ok(Vec::new());
        };
        let members = std::mem::take(&mut self.members);
        let synced = syncfs(&directory);
        let mut failed = Vec::new();
        let mut named: Option<PathBelow> = None;
        for member in members {
            let part = member.name.with(Part::File);
            let path = &member.path;
            if synced.is_ok() {
                let overwrite = member.overwrite;
                match self.root.publish(&directory, &part, path, overwrite) {
                    Ok(()) => {
                        // Files of one directory come together.
                        let before = named.replace(path.clone());
                        let other = before.filter(|before| before.split().0 != path.split().0);
                        failed.extend(other.and_then(|other| self.sync_names(other)));
                    }
                    Err(error) => failed.push((path.clone(), error)),
                }
            }
            member.remove(&directory);
        }
        directory.leave();
        failed.extend(named.and_then(|named| self.sync_names(named)));
        let shown = self.root.path().display();
        synced.map_err(refused("syncing the file system of", shown))?;
        Ok(failed)
    }

    fn sync_names(&self, path: PathBelow) -> Option<(PathBelow, DiskError)> {
        let synced = self.root.sync_parent(&path);
        synced.err().map(|error| (path, error))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(directory) = self.directory.take() {
            for member in self.members.drain(..) {
                member.remove(&directory);
            }
            directory.leave();
        }
    }
}

impl Member {
    /// Removes what is left of it.
    fn remove(self, directory: &PartialDirectory) {
        for part in [Part::Journal, Part::File] {
            // Whoever lists what is left finds it.
            let _ = directory.remove(&self.name.with(part));
        }
    }
}

fn write_whole(
    file: &LockedFile,
    path: &PathBelow,
    entry: &Entry,
    octets: &[u8],
) -> Result<(), DiskError> {
    let writing = || refused("writing", path);
    ftruncate(file, 0).map_err(writing())?;
    let len = octets.len() as u64;
    let written = match fallocate(file, FallocateFlags::empty(), 0, len.max(1)) {
        Err(Errno::NOSPC) => Err(Errno::NOSPC),
        _ => write_at(file, octets, 0),
    };
    written.map_err(|error| match error {
        Errno::NOSPC | Errno::DQUOT => DiskError::Full {
            missing: len.max(1),
        },
        error => writing()(error),
    })?;
    ftruncate(file, len).map_err(writing())?;
    set_owner_and_mode(file, entry).map_err(refused("giving away", path))?;
    futimens(file, &times(entry.mtime)).map_err(refused("setting the time of", path))
}
