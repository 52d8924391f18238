//! What is there before a file is received.

use rustix::fs::{FileType, OFlags, fstat, ftruncate};
use rustix::io::Errno;

use super::error::{DiskError, refused};
use super::journal::{Header, Journal, Refusal};
use super::partial::Former;
use super::partial_directory::{Part, PartialDirectory, PartialName};
use super::path::PathBelow;
use super::root::Root;
use crate::sys::LockedFile;

/// What would only be found at the end is found first: a link on the way, a directory in the
/// file's place, another file system.
pub(super) fn check_place(root: &Root, path: &PathBelow) -> Result<(), DiskError> {
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

/// The journal of an unfinished file; without one that fits, a new one, and nothing in the file.
pub(super) fn open_journal(
    directory: &PartialDirectory,
    name: PartialName,
    file: &LockedFile,
    header: &Header,
) -> Result<(Journal, Former), DiskError> {
    let path = &header.path;
    let journal = name.with(Part::Journal);
    let refusal = match directory.open_file(&journal, OFlags::RDWR) {
        Ok(found) => {
            let resumed = Journal::resume(found, header);
            match resumed.map_err(refused("reading the journal of", path))? {
                Ok(journal) => return Ok((journal, Former::Kept)),
                Err(refusal) => Some(refusal),
            }
        }
        Err(Errno::NOENT) => {
            let found = fstat(file).map_err(refused("looking at", path))?;
            (found.st_size > 0).then_some(Refusal::Damaged)
        }
        // Something else than a file, which nobody resumes.
        Err(_) => Some(Refusal::Damaged),
    };
    directory.remove(&journal)?;
    ftruncate(file, 0).map_err(refused("emptying", path))?;
    let new = directory.open_file(&journal, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL);
    let begun = new.and_then(|new| Journal::begin(new, header));
    let begun = begun.map_err(refused("writing the journal of", path))?;
    Ok((begun, refusal.map_or(Former::Nothing, Former::Refused)))
}
