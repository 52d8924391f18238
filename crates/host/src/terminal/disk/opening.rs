//! What is there before a file is received.

use cellgate_core::terminal::unfinished::{DiskLen, Header, Volume};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;

use super::entry::Entry;
use super::error::{DiskError, refused};
use super::path::PathBelow;
use super::root::Root;
use super::{Opened, Partial};

/// What would only be found at the end is found first: a link on the way, a directory in the
/// file's place, another file system.
fn check_place(root: &Root, path: &PathBelow) -> Result<(), DiskError> {
    let looking = || refused("looking at", path);
    let own = fstat(root).map_err(looking())?.st_dev;
    let mut at = path.split().0;
    loop {
        match root.resolve(at.as_ref(), OFlags::PATH | OFlags::DIRECTORY) {
            Ok(fd) if fstat(&fd).map_err(looking())?.st_dev == own => break,
            Ok(_) => {
                let path = path.to_string();
                return Err(DiskError::OtherFileSystem { path });
            }
            Err(Errno::NOENT) if at.is_some() => at = at.and_then(|at| at.split().0),
            Err(error) => return Err(looking()(error)),
        }
    }
    let is_directory = |mode| FileType::from_raw_mode(mode) == FileType::Directory;
    match root.find(path)? {
        Some(found) if is_directory(found.st_mode) => {
            let path = path.to_string();
            Err(DiskError::IsDirectory { path })
        }
        _ => Ok(()),
    }
}

/// Opens what is there of the file that is to be at `path`, or begins it. `source` is the file at
/// the sender, `size` how long it will be, none: that is not known.
///
/// # Errors
/// There is no room; somebody else receives it; the path leads through a link, or to a directory.
pub fn open(
    root: &Root,
    path: &PathBelow,
    source: &Entry,
    size: Option<u64>,
    disk_len: DiskLen,
) -> Result<Opened, DiskError> {
    check_place(root, path)?;
    let held = root.take(path)?;
    let header = Header {
        disk_len,
        size,
        source: source.identity,
        path: path.octets().into(),
    };
    Partial::open(
        held,
        &header,
        source.is_sparse().then_some(source.allocated),
    )
}
