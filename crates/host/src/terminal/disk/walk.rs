use std::fmt;

use rustix::fs::{Access, AtFlags, Dir, FileType, Stat, accessat, statat};
use rustix::io::Errno;

use super::entry::{Entry, Kind};
use super::error::{DiskError, refused};
use super::path::{PathBelow, PathFault, shown_octets};
use super::root::Root;

/// Directories that are open at a time. One further up is opened again when the walk comes back.
const OPEN_MAX: usize = 32;

/// Why something in a tree is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    Device,
    Socket,
    Fifo,
    /// This user may not read it.
    Unreadable,
    /// Its path, or the link's target, is too long.
    Long,
    /// The directory of unfinished files of somebody who receives here.
    Partial,
    /// It was removed, or became something else, while the walk was there.
    Gone,
    /// The kernel knows what it is, and nobody else.
    Unknown,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device => "a device",
            Self::Socket => "a socket",
            Self::Fifo => "a FIFO",
            Self::Unreadable => "this user may not read it",
            Self::Long => "its path is too long",
            Self::Partial => "files that are not finished",
            Self::Gone => "it was removed meanwhile",
            Self::Unknown => "neither a file, a directory nor a link",
        })
    }
}

/// What a walk comes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Walked {
    Entry(Entry),
    /// Something that is left out: its path, as people read it, and why.
    Skipped {
        path: String,
        why: Skip,
    },
}

/// All below a directory, depth first, a directory before what is in it; names in no order. Takes
/// the memory of the open directories alone, and follows no link.
#[derive(Debug)]
pub struct Walk {
    root: Root,
    /// Where the walk is: the path of the last level. Empty: the root.
    path: Vec<u8>,
    levels: Vec<Level>,
    /// The directory that was yielded last: the walk goes there next.
    next: Option<PathBelow>,
}

#[derive(Debug)]
struct Level {
    /// None: closed, to be opened again.
    directory: Option<Dir>,
    /// How far it was read.
    offset: i64,
    /// Octets of its path.
    path_len: usize,
}

impl Walk {
    /// What is below the directory `path`; none: the root.
    ///
    /// # Errors
    /// There is no directory, or it may not be read.
    pub fn new(root: &Root, path: Option<&PathBelow>) -> Result<Self, DiskError> {
        let shown = || path.map_or(".".to_owned(), PathBelow::to_string);
        let directory = root.directory(path).map_err(refused("reading", shown()))?;
        let path = path.map_or(Vec::new(), |path| path.octets().to_vec());
        let level = Level {
            directory: Some(directory),
            offset: 0,
            path_len: path.len(),
        };
        Ok(Self {
            root: root.clone(),
            path,
            levels: vec![level],
            next: None,
        })
    }

    /// Goes into the directory that was yielded last; if it cannot, says why.
    fn enter(&mut self, path: PathBelow) -> Option<Result<Walked, DiskError>> {
        let directory = match self.root.directory(Some(&path)) {
            Ok(directory) => directory,
            Err(error) => return Some(skipped_by(path.octets(), error)),
        };
        self.path = path.octets().to_vec();
        self.levels.push(Level {
            directory: Some(directory),
            offset: 0,
            path_len: self.path.len(),
        });
        if let Some(far) = self.levels.len().checked_sub(OPEN_MAX + 1) {
            self.levels[far].directory = None;
        }
        None
    }

    /// The next name of the last level; none: there is no other.
    fn name(&mut self) -> Result<Option<Box<[u8]>>, Errno> {
        let Some(level) = self.levels.last_mut() else {
            return Ok(None);
        };
        self.path.truncate(level.path_len);
        if level.directory.is_none() {
            let path = PathBelow::new(&self.path).ok();
            let mut directory = self.root.directory(path.as_ref())?;
            directory.seek(level.offset)?;
            level.directory = Some(directory);
        }
        while let Some(entry) = level.directory.as_mut().and_then(Dir::read) {
            let entry = entry?;
            level.offset = entry.offset();
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                return Ok(Some(name.into()));
            }
        }
        Ok(None)
    }

    fn look(&mut self, name: &[u8]) -> Result<Walked, DiskError> {
        let path = match self.path.is_empty() {
            true => name.to_vec(),
            false => [&self.path, &b"/"[..], name].concat(),
        };
        let below = match PathBelow::new(&path) {
            Ok(below) => below,
            Err(PathFault::Partial) => return Ok(skipped(&path, Skip::Partial)),
            Err(_) => return Ok(skipped(&path, Skip::Long)),
        };
        let directory = self
            .levels
            .last()
            .and_then(|level| level.directory.as_ref());
        let Some(Ok(directory)) = directory.map(Dir::fd) else {
            return Ok(skipped(&path, Skip::Gone));
        };
        let found = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(error) => return skipped_by(&path, error),
        };
        let Some(entry) = Entry::of(below, &found) else {
            return Ok(skipped(&path, special(&found)));
        };
        if entry.kind != Kind::Link {
            let needed = match entry.kind {
                Kind::Directory => Access::READ_OK | Access::EXEC_OK,
                _ => Access::READ_OK,
            };
            // Whoever opens it hears it, too; this way it is not announced first.
            if let Err(error) = accessat(directory, name, needed, AtFlags::EACCESS) {
                return skipped_by(&path, error);
            }
        }
        if entry.kind == Kind::Directory {
            self.next = Some(entry.path.clone());
        }
        Ok(Walked::Entry(entry))
    }
}

impl Iterator for Walk {
    type Item = Result<Walked, DiskError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(next) = self.next.take()
            && let Some(skipped) = self.enter(next)
        {
            return Some(skipped);
        }
        while !self.levels.is_empty() {
            match self.name() {
                Ok(Some(name)) => return Some(self.look(&name)),
                Ok(None) => {
                    self.levels.pop();
                }
                Err(error) => {
                    self.levels.pop();
                    let path = shown_octets(&self.path);
                    return Some(Err(refused("reading", path)(error)));
                }
            }
        }
        None
    }
}

fn skipped(path: &[u8], why: Skip) -> Walked {
    let path = shown_octets(path);
    Walked::Skipped { path, why }
}

fn skipped_by(path: &[u8], error: Errno) -> Result<Walked, DiskError> {
    let why = match error {
        Errno::ACCESS | Errno::PERM => Skip::Unreadable,
        Errno::NAMETOOLONG => Skip::Long,
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Skip::Gone,
        error => return Err(refused("reading", shown_octets(path))(error)),
    };
    Ok(skipped(path, why))
}

fn special(found: &Stat) -> Skip {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::BlockDevice | FileType::CharacterDevice => Skip::Device,
        FileType::Socket => Skip::Socket,
        FileType::Fifo => Skip::Fifo,
        _ => Skip::Unknown,
    }
}
