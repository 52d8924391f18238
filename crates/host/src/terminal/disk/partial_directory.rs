use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::Digest;
use super::error::{DiskError, refused};
use super::path::{PARTIAL_DIRECTORY, PathBelow};
use super::root::Root;
use crate::sys::LockedFile;

const OTHERS_WRITE: u32 = 0o022;
/// Looks at a directory that others remove whenever it is empty.
const TRIES: usize = 100;

/// What stands for a path in the directory of unfinished files: a hash of it, so that no name gets
/// too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartialName(Digest);

/// What lies under a name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The octets.
    File,
    /// What of them is known to be right.
    Journal,
    /// A link that takes another's place next.
    Link,
}

impl Part {
    pub(super) const ALL: [Self; 3] = [Self::File, Self::Journal, Self::Link];

    const fn ending(self) -> &'static str {
        match self {
            Self::File => "part",
            Self::Journal => "journal",
            Self::Link => "link",
        }
    }
}

impl PartialName {
    /// The name of the unfinished file that is to be at `path`.
    pub fn of(path: &PathBelow) -> Self {
        Self(Digest::of_file(path.octets()))
    }

    pub(super) fn with(self, part: Part) -> String {
        format!("{self}.{}", part.ending())
    }

    /// What a name in the directory stands for; none: nothing of this module's.
    pub(super) fn parse(name: &[u8]) -> Option<(Self, Part)> {
        let (hash, ending) = std::str::from_utf8(name).ok()?.split_once('.')?;
        let part = Part::ALL.into_iter().find(|part| part.ending() == ending)?;
        let mut octets = [0; 32];
        if hash.len() != 64 {
            return None;
        }
        for (octet, digits) in octets.iter_mut().zip(hash.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).ok()?;
            *octet = u8::from_str_radix(digits, 16).ok()?;
        }
        let name_of = Self(Digest(octets));
        (name_of.with(part).as_bytes() == name).then_some((name_of, part))
    }
}

impl fmt::Display for PartialName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The directory of unfinished files, which is there as long as there are any.
#[derive(Debug)]
pub(super) struct PartialDirectory {
    fd: OwnedFd,
    root: Root,
}

impl PartialDirectory {
    /// None: there is none.
    pub(super) fn find(root: &Root) -> Result<Option<Self>, DiskError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(root, PARTIAL_DIRECTORY, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR | Errno::ACCESS) => return Err(DiskError::NotOurs),
            Err(error) => return Err(refused("opening", PARTIAL_DIRECTORY)(error)),
        };
        let found = fstat(&fd).map_err(refused("looking at", PARTIAL_DIRECTORY))?;
        // Whoever else writes it could put anything in a file's place before that gets its name.
        if found.st_uid != geteuid().as_raw() || found.st_mode & OTHERS_WRITE != 0 {
            return Err(DiskError::NotOurs);
        }
        let root = root.clone();
        Ok(Some(Self { fd, root }))
    }

    /// Does something that makes a file in it: once more as often as somebody else removes the
    /// directory, which is empty, meanwhile. One that an unfinished file keeps open is not looked
    /// for again.
    pub(super) fn with<T>(
        root: &Root,
        make: impl Fn(&Self) -> Result<T, Errno>,
    ) -> Result<(Arc<Self>, T), DiskError> {
        let mut known = root.partial_directory().upgrade();
        for _ in 0..TRIES {
            let found = match known.take() {
                Some(known) => known,
                None => Self::find_or_make(root)?,
            };
            match make(&found) {
                Ok(made) => return Ok((found, made)),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(refused("writing to", PARTIAL_DIRECTORY)(error)),
            }
        }
        let path = PARTIAL_DIRECTORY.to_owned();
        Err(DiskError::Missing { path })
    }

    fn find_or_make(root: &Root) -> Result<Arc<Self>, DiskError> {
        for _ in 0..TRIES {
            if let Some(found) = Self::find(root)? {
                let found = Arc::new(found);
                *root.partial_directory() = Arc::downgrade(&found);
                return Ok(found);
            }
            match mkdirat(root, PARTIAL_DIRECTORY, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(refused("making", PARTIAL_DIRECTORY)(error)),
            }
        }
        let path = PARTIAL_DIRECTORY.to_owned();
        Err(DiskError::Missing { path })
    }

    /// The unfinished file `name`, for this receiver alone; it may be new.
    pub(super) fn take(
        root: &Root,
        name: PartialName,
    ) -> Result<(Arc<Self>, LockedFile), DiskError> {
        let path = name.with(Part::File);
        for _ in 0..TRIES {
            let flags = OFlags::RDWR | OFlags::CREATE;
            let (directory, file) = Self::with(root, |to| to.open_file(&path, flags))?;
            let file = match LockedFile::new(file) {
                Ok(Some(file)) => file,
                Ok(None) => break,
                Err(error) => {
                    let doing = "locking";
                    return Err(DiskError::Io { doing, path, error });
                }
            };
            // Whoever had it may have given it its name, or removed it, before the lock was free.
            let opened = fstat(&file).map_err(refused("looking at", &path))?;
            match statat(&directory, &*path, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) if (found.st_dev, found.st_ino) != (opened.st_dev, opened.st_ino) => {}
                Ok(_) if FileType::from_raw_mode(opened.st_mode) == FileType::RegularFile => {
                    return Ok((directory, file));
                }
                Ok(_) => return Err(DiskError::NoFile { path }),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(refused("looking at", &path)(error)),
            }
        }
        Err(DiskError::InUse { path })
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// Opens a file in it, never through a link.
    pub(super) fn open_file(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)
    }

    /// Removes a file in it, if it is there.
    pub(super) fn remove(&self, name: &str) -> Result<bool, DiskError> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(refused("removing", name)(error)),
        }
    }

    /// Removes it if there is nothing in it.
    pub(super) fn leave(&self) {
        // Whoever else has something in it removes it later.
        let _ = unlinkat(&self.root, PARTIAL_DIRECTORY, AtFlags::REMOVEDIR);
    }
}

impl AsFd for PartialDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
