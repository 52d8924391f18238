use cellgate_core::terminal::unfinished::{Identity, Moment};
use rustix::fs::{FileType, Stat};

use super::path::PathBelow;

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    File,
    Directory,
    Link,
}

/// A file, directory or link, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub path: PathBelow,
    pub kind: Kind,
    /// Its permissions, 12 bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: Moment,
    /// In octets.
    pub size: u64,
    /// Octets that it takes on its disk: where they are fewer than the size, it has holes, or its
    /// file system makes files smaller.
    pub allocated: u64,
    pub identity: Identity,
}

impl Entry {
    /// None: it is neither a file, a directory nor a link.
    pub(super) fn of(path: PathBelow, stat: &Stat) -> Option<Self> {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Link,
            _ => return None,
        };
        let identity = identity_of(stat);
        Some(Self {
            path,
            kind,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            mtime: identity.mtime,
            size: identity.size,
            allocated: u64::try_from(stat.st_blocks)
                .unwrap_or(0)
                .saturating_mul(512),
            identity,
        })
    }

    /// Whether it may have holes.
    pub const fn is_sparse(&self) -> bool {
        self.allocated < self.size
    }
}

pub(super) fn identity_of(stat: &Stat) -> Identity {
    // The kernel has fewer than 10^9 of them.
    let moment = |seconds, ns| Moment {
        seconds,
        ns: ns as u32,
    };
    Identity {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime: moment(stat.st_mtime, stat.st_mtime_nsec),
        ctime: moment(stat.st_ctime, stat.st_ctime_nsec),
        inode: stat.st_ino,
        device: stat.st_dev,
    }
}
