use std::os::fd::AsFd;

use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, chownat, fchmod, fchown, fstat,
    futimens, openat, utimensat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};

use super::Moment;
use super::entry::{Entry, Kind};
use super::error::{DiskError, refused};
use super::root::Root;

const SPECIAL_BITS: u32 = 0o7000;

impl Root {
    /// Gives a directory or link permissions, owner and time of `entry`: of a directory once all is
    /// in it. Only root gives things away; of others the owner is not asked for. A file has it from
    /// [`Partial`](super::Partial).
    ///
    /// # Errors
    /// Nothing of this kind is there, or it is somebody else's.
    pub fn settle(&self, entry: &Entry) -> Result<(), DiskError> {
        let path = &entry.path;
        let (parent, name) = self.parent(path)?;
        let doing = "setting owner, permissions and time of";
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        let times = times(entry.mtime);
        if entry.kind != Kind::Directory {
            if geteuid().is_root() {
                let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
                let owned = chownat(&parent, name, Some(uid), Some(gid), nofollow);
                owned.map_err(refused(doing, path))?;
            }
            return utimensat(&parent, name, &times, nofollow).map_err(refused(doing, path));
        }
        // Opened, it is a directory and stays that one.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&parent, name, flags, Mode::empty()).map_err(refused("opening", path))?;
        set_owner_and_mode(&fd, entry).map_err(refused(doing, path))?;
        futimens(&fd, &times).map_err(refused(doing, path))
    }
}

pub(super) fn times(mtime: Moment) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: mtime.seconds,
            tv_nsec: mtime.ns.min(999_999_999).into(),
        },
    }
}

/// The owner first: giving a file away takes its special bits. They are not for a file that is
/// somebody else's than at the sender.
pub(super) fn set_owner_and_mode(file: impl AsFd, entry: &Entry) -> Result<(), Errno> {
    let mut mode = entry.mode & 0o7777;
    match geteuid().is_root() {
        true => {
            let found = fstat(&file)?;
            if (found.st_uid, found.st_gid) != (entry.uid, entry.gid) {
                let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
                fchown(&file, Some(uid), Some(gid))?;
            }
        }
        false => mode &= !SPECIAL_BITS,
    }
    fchmod(file, Mode::from_raw_mode(mode))
}
