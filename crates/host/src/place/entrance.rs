use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cellgate_shm::socket;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{AtFlags, FileType, Stat, chownat, fstat};
use rustix::io::Errno;
use rustix::process::{Gid, getegid, geteuid};

use super::directory::{Directory, Identity, split};
use super::identity::{Actor, acting_as};

/// A listening socket at a path, which others may take away.
#[derive(Debug)]
pub(crate) struct Entrance {
    path: PathBuf,
    mode: u32,
    owner: (Option<u32>, Option<u32>),
    /// Nothing that anybody comes by, while there is no identity.
    socket: OwnedFd,
    identity: Option<Identity>,
}

/// What a look at an entrance has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is where it was.
    Same,
    /// It was gone, and is there again.
    Again,
}

impl Entrance {
    /// Listens at `path`, for those whom the permissions `mode` let in, in place of a socket that
    /// nobody has any more; it becomes this user's and group's, where they are given.
    ///
    /// # Errors
    /// Another program's socket, or no socket, is at `path`; or this user may not write there.
    pub(crate) fn make(
        path: &Path,
        mode: u32,
        owner: (Option<u32>, Option<u32>),
    ) -> io::Result<Self> {
        let (parent, name) = split(path)?;
        let directory = Directory::open(parent)?;
        let actor = actor(&directory, owner)?;
        let (socket, found) = acting_as(actor, || {
            clear(&directory, path)?;
            let socket = socket::listen(&directory.by_descriptor(name), mode)?;
            Ok((socket, directory.find(name)?))
        })?;
        let found = found.ok_or(io::ErrorKind::NotFound)?;
        if let Some(gid) = owner.1.filter(|gid| *gid != found.st_gid) {
            // Without privilege a member gives it to the group, in a directory of its own.
            let group = Some(Gid::from_raw(gid));
            chownat(&directory, name, None, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(Self {
            path: path.to_owned(),
            mode,
            owner,
            socket,
            identity: Some(Identity::from(&found)),
        })
    }

    /// One that is to be made by a later look.
    ///
    /// # Errors
    /// There are no descriptors.
    pub(crate) fn later(
        path: &Path,
        mode: u32,
        owner: (Option<u32>, Option<u32>),
    ) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            mode,
            owner,
            socket: eventfd(0, EventfdFlags::CLOEXEC)?,
            identity: None,
        })
    }

    /// Makes it again if it is gone, its directory with it.
    ///
    /// # Errors
    /// As of [`Self::make`]: it is not where it was, and does not come back for now.
    pub(crate) fn look(&mut self) -> io::Result<Look> {
        let (parent, name) = split(&self.path)?;
        let directory = match Directory::open(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Directory::make(parent, None),
            other => other,
        }?;
        let found = directory.find(name)?;
        if found.is_some_and(|found| self.is(&found)) {
            return Ok(Look::Same);
        }
        *self = Self::make(&self.path, self.mode, self.owner)?;
        Ok(Look::Again)
    }

    fn is(&self, found: &Stat) -> bool {
        self.identity == Some(Identity::from(found))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, unless something else is in its place.
    pub(crate) fn remove(self) {
        let removed = split(&self.path).and_then(|(parent, name)| {
            let own = |found: &Stat| self.is(found);
            let directory = Directory::open(parent)?;
            match directory.find(name)?.is_some_and(|found| own(&found)) {
                true => directory.remove_if(name, |_, found| own(found)),
                false => Ok(false),
            }
        });
        // If somebody has removed it meanwhile, so much the better.
        let _ = removed;
    }
}

/// Connects to whoever listens at `path`; none: nobody does. It waits for `patience` at most.
///
/// # Errors
/// The way there is somebody else's, or who listens lets nobody in.
pub(crate) fn call(path: &Path, patience: Duration) -> io::Result<Option<OwnedFd>> {
    let (parent, name) = split(path)?;
    let directory = Directory::open(parent)?;
    match socket::dial(&directory.by_descriptor(name), patience) {
        Ok(socket) => Ok(Some(socket)),
        Err(Errno::NOENT | Errno::CONNREFUSED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl AsFd for Entrance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// As whom the socket is made: as its owner, so that it never was somebody else's.
fn actor(
    directory: &Directory,
    (user, group): (Option<u32>, Option<u32>),
) -> io::Result<Option<Actor>> {
    if user.or(group).is_none() {
        return Ok(None);
    }
    let uid = user.unwrap_or(geteuid().as_raw());
    Ok(Some(Actor {
        uid,
        gid: group.unwrap_or(getegid().as_raw()),
        anywhere: fstat(directory)?.st_uid != uid,
    }))
}

/// Has nothing be at `path`; what nobody has is removed.
fn clear(directory: &Directory, path: &Path) -> io::Result<()> {
    let (_, name) = split(path)?;
    let shown = path.display();
    let in_use = || {
        let why = format!("{shown} is another program's socket: end it, or name another socket");
        io::Error::new(io::ErrorKind::AddrInUse, why)
    };
    let Some(found) = directory.find(name)? else {
        return Ok(());
    };
    if !is_socket(&found) {
        let why = format!("{shown} is there and is no socket: remove it, or name another socket");
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    if socket::is_alive(&directory.by_descriptor(name))? {
        return Err(in_use());
    }
    // Another program may have done the same meanwhile.
    let is_dead = |aside: &OsStr, found: &Stat| {
        let alive = socket::is_alive(&directory.by_descriptor(aside));
        is_socket(found) && alive.is_ok_and(|alive| !alive)
    };
    match directory.remove_if(name, is_dead)? {
        true => Ok(()),
        false => Err(in_use()),
    }
}

fn is_socket(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Socket
}
