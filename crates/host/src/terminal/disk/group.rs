use std::os::fd::OwnedFd;

use rustix::fs::{FallocateFlags, fallocate, ftruncate, futimens, syncfs};
use rustix::io::Errno;

use super::digest::Digest;
use super::entry::Entry;
use super::error::{DiskError, refused};
use super::journal::write_at;
use super::partial_directory::{Part, PartialDirectory, PartialName};
use super::path::PathBelow;
use super::root::{Root, set_owner_and_mode, times};

/// Small files that are written whole and synced together. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct Group {
    root: Root,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    path: PathBelow,
    name: PartialName,
    directory: PartialDirectory,
    /// Open, it is locked.
    _file: OwnedFd,
    overwrite: bool,
}

impl Group {
    /// Files of a group: each takes two descriptors.
    pub const MAX: usize = 128;

    pub const fn new(root: Root) -> Self {
        let members = Vec::new();
        Self { root, members }
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
            directory,
            _file: file,
            overwrite,
        };
        match written {
            Ok(()) => {
                self.members.push(member);
                Ok(Digest::of_file(octets))
            }
            Err(error) => {
                member.remove();
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
        let Some(first) = self.members.first() else {
            return Ok(Vec::new());
        };
        if let Err(error) = syncfs(&first.directory) {
            let path = first.path.to_string();
            self.remove_all();
            return Err(refused("syncing the file system of", path)(error));
        }
        let mut failed = Vec::new();
        let mut names_of = None;
        for member in self.members.drain(..) {
            let part = member.name.with(Part::File);
            let published =
                self.root
                    .publish(&member.directory, &part, &member.path, member.overwrite);
            match published {
                Ok(()) => {
                    // Files of one directory come together.
                    let parent = Some(member.path.split().0);
                    if let Some(before) =
                        names_of.take_if(|before: &mut PathBelow| Some(before.split().0) != parent)
                    {
                        self.root.sync_parent(&before)?;
                    }
                    names_of = Some(member.path.clone());
                }
                Err(error) => failed.push((member.path.clone(), error)),
            }
            member.remove();
        }
        if let Some(last) = names_of {
            self.root.sync_parent(&last)?;
        }
        Ok(failed)
    }

    fn remove_all(&mut self) {
        for member in self.members.drain(..) {
            member.remove();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.remove_all();
    }
}

impl Member {
    /// Removes what is left of it.
    fn remove(self) {
        for part in [Part::Journal, Part::File] {
            // Whoever lists what is left finds it.
            let _ = self.directory.remove(&self.name.with(part));
        }
        self.directory.leave();
    }
}

fn write_whole(
    file: &OwnedFd,
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
