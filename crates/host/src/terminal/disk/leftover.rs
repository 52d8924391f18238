use std::sync::Arc;

use cellgate_core::terminal::unfinished::Header;
use rustix::fs::{AtFlags, Dir, OFlags, Stat, statat};

use super::error::{DiskError, refused};
use super::held::HeldJournal;
use super::partial_directory::{Part, PartialDirectory, PartialName};
use super::path::PathBelow;
use super::root::Root;
use crate::sys::is_locked;

/// A file that is not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    pub name: PartialName,
    /// Where it is to be; none: it has no journal that can be read.
    pub path: Option<PathBelow>,
    /// How long it will be; none: that is not known.
    pub size: Option<u64>,
    /// Octets that it takes on the disk.
    pub allocated: u64,
    /// Whether somebody receives it.
    pub is_in_use: bool,
}

/// What lies in the directory of unfinished files, in no order, none of it held.
#[derive(Debug)]
pub struct Leftovers {
    /// None: there is none.
    directory: Option<(PartialDirectory, Dir)>,
}

/// The files below a root that are not finished.
///
/// # Errors
/// The directory of unfinished files cannot be read, or is somebody else's.
pub fn leftovers(root: &Root) -> Result<Leftovers, DiskError> {
    let directory = PartialDirectory::find(root)?;
    let opened = directory.map(|directory| {
        let names = Dir::read_from(&directory);
        let names = names.map_err(refused("reading", "the unfinished files"))?;
        Ok((directory, names))
    });
    let directory = opened.transpose()?;
    Ok(Leftovers { directory })
}

impl Iterator for Leftovers {
    type Item = Result<Leftover, DiskError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (directory, names) = self.directory.as_mut()?;
        loop {
            let entry = match names.read()? {
                Ok(entry) => entry,
                Err(error) => {
                    let read = refused("reading", "the unfinished files");
                    return Some(Err(read(error)));
                }
            };
            let Some((name, part)) = PartialName::parse(entry.file_name().to_bytes()) else {
                continue;
            };
            // Each file once, by the first of its parts that is there.
            let mut before = Part::ALL.into_iter().take_while(|before| *before != part);
            if !before.any(|before| find(directory, name, before).is_some()) {
                return Some(Ok(look(directory, name)));
            }
        }
    }
}

fn find(directory: &PartialDirectory, name: PartialName, part: Part) -> Option<Stat> {
    statat(directory, name.with(part), AtFlags::SYMLINK_NOFOLLOW).ok()
}

fn look(directory: &PartialDirectory, name: PartialName) -> Leftover {
    let open = |part| directory.open_file(&name.with(part), OFlags::RDONLY).ok();
    let journal = open(Part::Journal).map(|fd| HeldJournal::new(fd, name.with(Part::Journal)));
    let header = journal.and_then(|journal| Header::read(&journal).ok()?.ok());
    let blocks = find(directory, name, Part::File).map_or(0, |found| found.st_blocks);
    let file = open(Part::File);
    Leftover {
        name,
        size: header.as_ref().and_then(|header| header.size),
        path: header.and_then(|header| PathBelow::new(&header.path).ok()),
        allocated: u64::try_from(blocks).unwrap_or(0).saturating_mul(512),
        is_in_use: file.is_some_and(|file| is_locked(&file).unwrap_or(false)),
    }
}

/// Whether anything is there of an unfinished file.
pub(super) fn is_begun(root: &Root, name: PartialName) -> bool {
    let found = PartialDirectory::find(root).ok().flatten();
    found.is_some_and(|found| is_in(&found, name))
}

fn is_in(directory: &PartialDirectory, name: PartialName) -> bool {
    let is_there = |part| find(directory, name, part).is_some();
    Part::ALL.into_iter().any(is_there)
}

/// Removes an unfinished file. False: there is none.
///
/// # Errors
/// Somebody receives it, or it may not be removed.
pub fn discard(root: &Root, name: PartialName) -> Result<bool, DiskError> {
    let Some(found) = PartialDirectory::find(root)? else {
        return Ok(false);
    };
    if !is_in(&found, name) {
        found.leave();
        return Ok(false);
    }
    // With the lock nobody begins it meanwhile.
    let (directory, _locked) = match PartialDirectory::take(root, name) {
        // One that cannot be opened cannot be in use.
        Err(DiskError::Denied { .. } | DiskError::NoFile { .. }) => (Arc::new(found), None),
        other => other.map(|(directory, file)| (directory, Some(file)))?,
    };
    for part in [Part::Link, Part::Journal, Part::File] {
        directory.remove(&name.with(part))?;
    }
    directory.leave();
    Ok(true)
}
