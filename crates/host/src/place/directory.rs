use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, chownat, fstat, mkdirat, open, openat,
    readlinkat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};

use super::identity::{Actor, acting_as};

/// Links on one way, as the kernel has it.
const LINKS_MAX: usize = 40;

const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Which file: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    pub(crate) fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::from(&fstat(file)?))
    }
}

impl From<&Stat> for Identity {
    fn from(stat: &Stat) -> Self {
        Self(stat.st_dev, stat.st_ino)
    }
}

/// A directory that stays the same whatever becomes of its name.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// One that is open, and what it is called.
    pub(crate) const fn of(fd: OwnedFd, path: PathBuf) -> Self {
        Self { fd, path }
    }

    /// The directory at `path`. The way there leads through no link that somebody else than root or
    /// this user has made.
    ///
    /// # Errors
    /// There is none, or the way there is somebody else's.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let fd = walk(path)?;
        let path = path.to_owned();
        Ok(Self { fd, path })
    }

    /// The directory at `path` that nobody but its owner can write, made if there is none: this
    /// user's, or that of the user that the server becomes.
    ///
    /// # Errors
    /// It cannot be made, or something else is there.
    pub(crate) fn make(path: &Path, owner: Option<(u32, u32)>) -> io::Result<Self> {
        let (parent, name) = split(path)?;
        let parent = match Self::open(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make(parent, None)?,
            other => other?,
        };
        let above = fstat(&parent.fd)?;
        let owners = owner.filter(|(uid, _)| above.st_uid == *uid);
        let actor = owners.map(|(uid, gid)| Actor {
            uid,
            gid,
            anywhere: false,
        });
        let (fd, found) = acting_as(actor, || parent.make_child(name))?;
        let me = geteuid().as_raw();
        let known = found.st_uid == me || owner.is_some_and(|(uid, _)| found.st_uid == uid);
        // What lies in a directory that others write may be what they have moved there.
        let is_safe = above.st_mode & OTHERS_WRITE == 0 || above.st_mode & STICKY != 0;
        let becomes = owner.filter(|(uid, _)| found.st_uid != *uid);
        let movable = becomes.is_some() && (owners.is_some() || !is_safe);
        if !known || movable || found.st_mode & OTHERS_WRITE != 0 {
            return Err(not_ours(path));
        }
        if let Some((uid, gid)) = becomes {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            chownat(&fd, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
        }
        let path = path.to_owned();
        Ok(Self { fd, path })
    }

    fn make_child(&self, name: &OsStr) -> io::Result<(OwnedFd, Stat)> {
        match mkdirat(&self.fd, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let fd = openat(&self.fd, name, WAY | OFlags::DIRECTORY, Mode::empty());
        let fd = fd.map_err(|error| match error {
            Errno::LOOP | Errno::NOTDIR => not_ours(&self.path.join(name)),
            other => other.into(),
        })?;
        let found = fstat(&fd)?;
        Ok((fd, found))
    }

    /// As it was named.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its name still leads to it.
    pub(crate) fn is_there(&self) -> bool {
        let named = Self::open(&self.path).and_then(|named| Identity::of(&named));
        named.is_ok_and(|named| Identity::of(self).is_ok_and(|own| own == named))
    }

    /// What is at a name in it; a link is told, not followed.
    pub(crate) fn find(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A way to a name in it that leads through its descriptor: for sockets, which the kernel binds
    /// and connects by path only.
    pub(crate) fn by_descriptor(&self, name: &OsStr) -> PathBuf {
        Path::new("/proc/self/fd")
            .join(self.fd.as_raw_fd().to_string())
            .join(name)
    }

    /// Opens a file in it, never through a link.
    pub(crate) fn open_file(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(openat(&self.fd, name, flags, Mode::from_raw_mode(mode))?)
    }

    /// Whether another name fits: none does on a full disk.
    pub(crate) fn has_room(&self) -> bool {
        let name = OsString::from(format!(".room.{}", std::process::id()));
        let made = self.open_file(&name, OFlags::CREATE | OFlags::WRONLY, 0o600);
        // A file that stays takes no room but its name's.
        let _ = unlinkat(&self.fd, &name, AtFlags::empty());
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        made.map_or_else(|error| !full.contains(&error.kind()), |_| true)
    }

    /// Removes what is at a name if it is what is to go: it is looked at once more under a name
    /// that nobody expects, and put back if it is something else.
    pub(crate) fn remove_if(
        &self,
        name: &OsStr,
        goes: impl FnOnce(&OsStr, &Stat) -> bool,
    ) -> io::Result<bool> {
        let mut aside = OsString::from(".");
        aside.push(name);
        aside.push(format!(".{}", std::process::id()));
        let stays = RenameFlags::NOREPLACE;
        renameat_with(&self.fd, name, &self.fd, &aside, stays)?;
        let found = self.find(&aside)?;
        if found.is_some_and(|found| goes(&aside, &found)) {
            unlinkat(&self.fd, &aside, AtFlags::empty())?;
            return Ok(true);
        }
        renameat_with(&self.fd, &aside, &self.fd, name, stays)?;
        Ok(false)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A directory on the way, or a link as such.
const WAY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn not_ours(path: &Path) -> io::Error {
    io::Error::other(format!(
        "{} must be a directory of this user that no other can write",
        path.display()
    ))
}

/// A path's directory and the name in it.
pub(super) fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let parent = path.parent().unwrap_or(Path::new("."));
    let here = parent.as_os_str().is_empty();
    Ok((if here { Path::new(".") } else { parent }, name))
}

/// Goes to a directory step by step, so that each link can be looked at.
fn walk(path: &Path) -> io::Result<OwnedFd> {
    let root = || open("/", WAY | OFlags::DIRECTORY, Mode::empty());
    let mut at = match path.is_absolute() {
        true => root()?,
        false => open(".", WAY | OFlags::DIRECTORY, Mode::empty())?,
    };
    let mut ahead: VecDeque<OsString> = steps(path).collect();
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        let next = openat(&at, &name, WAY, Mode::empty())?;
        let found = fstat(&next)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => at = next,
            FileType::Symlink => {
                let trusted = [0, geteuid().as_raw()];
                let above = fstat(&at)?;
                links += 1;
                if ![found.st_uid, above.st_uid]
                    .iter()
                    .all(|uid| trusted.contains(uid))
                {
                    let name = Path::new(&name).display().to_string();
                    let why = format!("{}: {name} is another user's link", path.display());
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
                }
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                let target = readlinkat(&next, "", Vec::new())?.into_bytes();
                let target = PathBuf::from(OsString::from_vec(target));
                if target.is_absolute() {
                    at = root()?;
                }
                for step in steps(&target).collect::<Vec<_>>().into_iter().rev() {
                    ahead.push_front(step);
                }
            }
            _ => return Err(Errno::NOTDIR.into()),
        }
    }
    Ok(at)
}

fn steps(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|step| match step {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::from_bytes(b"..").to_owned()),
        _ => None,
    })
}
