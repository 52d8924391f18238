use std::io;

use rustix::io::Errno;

use super::path::{PathFault, shown_octets};
use crate::sys::plain;

/// Why something on the disk cannot be had or done.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error("{path} is no path below the root: {fault}")]
    Path { path: String, fault: PathFault },
    #[error("{path} leads through a link: remove the link, or name what it leads to")]
    Link { path: String },
    #[error("no room on the disk: {missing} octets are missing")]
    Full { missing: u64 },
    #[error("another transfer writes {path}: wait for it, or end it")]
    InUse { path: String },
    #[error("{path} is there already: remove it, or allow that it is overwritten")]
    Exists { path: String },
    #[error("{path} is a directory: remove it, or name another file")]
    IsDirectory { path: String },
    #[error("{path} is no directory: remove it, or name another place")]
    NoDirectory { path: String },
    #[error("{path} is no file that can be read")]
    NoFile { path: String },
    #[error("{path} is not there")]
    Missing { path: String },
    #[error("{path} may not be read or written: give this user the right, or run it as another")]
    Denied { path: String },
    #[error("{path} is on another file system than the root: name a root on that file system")]
    OtherFileSystem { path: String },
    #[error(
        ".cellgate-partial is not this user's alone: remove it, or take it from others with \
         chown and chmod 700"
    )]
    NotOurs,
    #[error(
        "{path} was shortened while it was written, or its disk failed: look after the disk, and \
         send it again"
    )]
    Lost { path: String },
    #[error("{path} is not complete: {missing} disk-PDUs are missing")]
    Incomplete { path: String, missing: u64 },
    #[error("a link cannot lead to \"{target}\"")]
    Target { target: String },
    #[error("{doing} {path}: {}", plain(.error))]
    Io {
        /// What was tried.
        doing: &'static str,
        path: String,
        error: io::Error,
    },
}

impl DiskError {
    /// What a peer has named is no path.
    pub fn path(octets: &[u8], fault: PathFault) -> Self {
        let path = shown_octets(octets);
        Self::Path { path, fault }
    }
}

/// For `map_err`: what the kernel refused, in words.
pub(super) fn refused(doing: &'static str, path: impl ToString) -> impl FnOnce(Errno) -> DiskError {
    move |error| {
        let path = path.to_string();
        match error {
            Errno::LOOP => DiskError::Link { path },
            Errno::NOENT => DiskError::Missing { path },
            Errno::NOTDIR => DiskError::NoDirectory { path },
            Errno::ISDIR => DiskError::IsDirectory { path },
            Errno::EXIST => DiskError::Exists { path },
            Errno::ACCESS | Errno::PERM | Errno::ROFS => DiskError::Denied { path },
            Errno::XDEV => DiskError::OtherFileSystem { path },
            // How much is missing is known where octets are written; a name takes a block at most.
            Errno::NOSPC | Errno::DQUOT => DiskError::Full { missing: 1 },
            error => DiskError::Io {
                doing,
                path,
                error: error.into(),
            },
        }
    }
}
