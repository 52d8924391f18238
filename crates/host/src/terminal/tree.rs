//! What is given: files and directories by name, each with all that is below it.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use cellgate_core::terminal::{Digest, Entry, EntryKind, Found, Origin, SendingFile};
use rustix::process::{getegid, geteuid};

use super::digests::Digests;
use super::disk::{self, DiskError, DiskLen, Kind, Listing, Moment, PathBelow, Root, Walk, Walked};
use super::pipe::Pipe;
use super::sending::Sending;

/// What is given.
#[derive(Debug)]
pub struct Tree {
    disk_len: DiskLen,
    /// By the first step of their paths, where entries are.
    roots: BTreeMap<Vec<u8>, Root>,
    /// Where all others are.
    root: Option<Root>,
    /// Not walked yet, the last first.
    names: Vec<(Root, PathBelow)>,
    walk: Option<(Root, Walk)>,
    listing: Option<(Option<PathBelow>, Listing)>,
    /// Directories that are found and not left.
    stack: Vec<PathBelow>,
    /// Found, and to be told of when what is before it is left.
    next: Option<Found>,
    /// Whether what is in directories is given.
    is_recursive: bool,
    /// What is given instead of files that are there, until it is sent.
    pipe: Option<Pipe>,
    piped: Option<Entry>,
    digests: Digests,
    /// Those that files have at the other end.
    expected: BTreeMap<u32, Digest>,
}

impl Tree {
    fn empty(disk_len: DiskLen) -> Self {
        Self {
            disk_len,
            roots: BTreeMap::new(),
            root: None,
            names: Vec::new(),
            walk: None,
            listing: None,
            stack: Vec::new(),
            next: None,
            is_recursive: true,
            pipe: None,
            piped: None,
            digests: Digests::default(),
            expected: BTreeMap::new(),
        }
    }

    /// Gives what comes out of a pipe as the file `name`.
    pub fn piped(pipe: Pipe, name: PathBelow, disk_len: DiskLen, mark: [u8; 16]) -> Self {
        let kind = match pipe.content() {
            Some(content) => EntryKind::File {
                len: content.len() as u64,
                holes: false,
            },
            None => EntryKind::Stream,
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let entry = Entry {
            path: name.octets().to_vec(),
            kind,
            mode: 0o644,
            user: geteuid().as_raw(),
            group: getegid().as_raw(),
            modified_ns: since.map_or(0, |since| since.as_nanos() as i64),
            mark,
        };
        Self {
            next: Some(Found::Entry(entry.clone())),
            pipe: Some(pipe),
            piped: Some(entry),
            ..Self::empty(disk_len)
        }
    }

    /// Gives what is called so below these directories, by its last step and what is below that;
    /// if not `is_recursive`, of directories nothing.
    ///
    /// # Errors
    /// Two have one name: they would be one at the other end. A directory cannot be read.
    pub fn new(
        names: Vec<(Root, PathBelow)>,
        disk_len: DiskLen,
        is_recursive: bool,
    ) -> Result<Self, String> {
        let mut tree = Self {
            is_recursive,
            ..Self::empty(disk_len)
        };
        for (root, path) in names.into_iter().rev() {
            let (above, name) = path.split();
            let root = match above {
                None => root,
                Some(above) => root.below(&above).map_err(|error| error.to_string())?,
            };
            if tree.roots.insert(name.to_vec(), root.clone()).is_some() {
                return Err(format!("two of what is to be sent are called {path}"));
            }
            let name = PathBelow::new(name).map_err(|fault| fault.to_string())?;
            tree.names.push((root, name));
        }
        Ok(tree)
    }

    /// Gives all that is in a directory.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn whole(root: &Root, disk_len: DiskLen) -> Result<Self, DiskError> {
        let walk = Walk::new(root, None)?;
        Ok(Self {
            walk: Some((root.clone(), walk)),
            root: Some(root.clone()),
            ..Self::empty(disk_len)
        })
    }

    /// Tells of what is in a directory, below which it goes no further.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn listing(
        root: &Root,
        path: Option<PathBelow>,
        disk_len: DiskLen,
    ) -> Result<Self, DiskError> {
        let listing = root.list(path.as_ref())?;
        Ok(Self {
            listing: Some((path, listing)),
            root: Some(root.clone()),
            ..Self::empty(disk_len)
        })
    }

    /// Where an entry is.
    fn place(&self, entry: &Entry) -> Result<(&Root, PathBelow), String> {
        let first = entry.path.split(|octet| *octet == b'/').next();
        let root = self.roots.get(first.unwrap_or_default());
        let root = root.or(self.root.as_ref());
        let path = PathBelow::new(&entry.path).map_err(|fault| fault.to_string())?;
        root.map(|root| (root, path))
            .ok_or_else(|| "it was never offered".to_owned())
    }

    fn stat(&self, entry: &Entry) -> Result<Entry, String> {
        let (root, path) = self.place(entry)?;
        let found = root.stat(&path).map_err(|error| error.to_string())?;
        let found = found.ok_or_else(|| format!("{path} is not there any more"))?;
        said(root, &found).map_err(|error| error.to_string())
    }

    /// The next entry of a directory that is listed.
    fn list(&mut self) -> Option<Found> {
        loop {
            let (directory, listing) = self.listing.as_mut()?;
            let name = listing.next()?.ok()?;
            let path = match directory {
                Some(directory) => directory.join(&name),
                None => PathBelow::new(&name),
            };
            let root = self.root.as_ref()?;
            // What is no file, directory or link is not listed, nor what is gone by now.
            if let Ok(path) = path
                && let Ok(Some(entry)) = root.stat(&path)
            {
                return Some(found(root, &entry));
            }
        }
    }

    /// The next that is found.
    fn walk(&mut self) -> Option<Found> {
        if let Some((root, walk)) = &mut self.walk {
            match walk.next() {
                Some(Ok(Walked::Entry(entry))) => return Some(found(root, &entry)),
                Some(Ok(Walked::Skipped { path, why })) => {
                    return Some(Found::Skipped {
                        path: path.into_bytes(),
                        reason: why.to_string(),
                    });
                }
                Some(Err(error)) => {
                    return Some(Found::Skipped {
                        path: b".".to_vec(),
                        reason: error.to_string(),
                    });
                }
                None => self.walk = None,
            }
        }
        if let Some(found) = self.list() {
            return Some(found);
        }
        let (root, path) = self.names.pop()?;
        let skipped = |reason: String| Found::Skipped {
            path: path.octets().to_vec(),
            reason,
        };
        Some(match root.stat(&path) {
            Ok(None) => skipped("it is not there, or is a device, a socket or a FIFO".to_owned()),
            Err(error) => skipped(error.to_string()),
            Ok(Some(entry)) if entry.kind != Kind::Directory => found(&root, &entry),
            Ok(Some(_)) if !self.is_recursive => {
                skipped("a directory: -r gives what is in it".to_owned())
            }
            Ok(Some(entry)) => match Walk::new(&root, Some(&path)) {
                Ok(walk) => {
                    let first = found(&root, &entry);
                    self.walk = Some((root, walk));
                    first
                }
                Err(error) => skipped(error.to_string()),
            },
        })
    }
}

impl Origin for Tree {
    type File = Sending;

    fn next(&mut self) -> Option<Found> {
        let next = self.next.take().or_else(|| self.walk());
        let is_inside = |directory: &PathBelow, path: &[u8]| {
            let below = path.strip_prefix(directory.octets());
            below.is_some_and(|below| below.starts_with(b"/"))
        };
        // What is skipped may be in any directory.
        if let Some(top) = self.stack.last()
            && match &next {
                Some(Found::Entry(entry)) => !is_inside(top, &entry.path),
                Some(_) => false,
                None => true,
            }
        {
            self.stack.pop();
            self.next = next;
            return Some(Found::Left);
        }
        if let Some(Found::Entry(entry)) = &next
            && entry.kind == EntryKind::Directory
            && let Ok(path) = PathBelow::new(&entry.path)
        {
            self.stack.push(path);
        }
        next
    }

    fn open(&mut self, entry: &Entry, _extent: (u64, u64)) -> Result<Sending, String> {
        if entry.kind == EntryKind::Stream {
            let pipe = self.pipe.take();
            return pipe
                .map(Sending::Pipe)
                .ok_or_else(|| "a pipe cannot be read again".to_owned());
        }
        let (root, path) = self.place(entry)?;
        let file = root.open_file(&path).map_err(|error| error.to_string())?;
        let file = SendingFile::new(file, entry.octets(), self.disk_len);
        Ok(Sending::File(Box::new(file)))
    }

    fn is_unchanged(&mut self, entry: &Entry) -> bool {
        self.piped.is_some() || self.stat(entry).is_ok_and(|now| now == *entry)
    }

    fn content(&mut self, entry: &Entry) -> Result<(Vec<u8>, Digest), String> {
        if let Some(octets) = self.pipe.as_ref().and_then(Pipe::content) {
            let digest = disk::Digest::of_file(&octets).0;
            return Ok((octets, digest));
        }
        let (root, path) = self.place(entry)?;
        let file = root.open_file(&path).map_err(|error| error.to_string())?;
        let mut octets = vec![0; entry.octets() as usize];
        let read = file
            .read_at(0, &mut octets)
            .map_err(|error| error.to_string())?;
        octets.truncate(read);
        let digest = disk::Digest::of_file(&octets).0;
        Ok((octets, digest))
    }

    fn compare(&mut self, id: u32, entry: &Entry, digest: &Digest) {
        if self.expected.insert(id, *digest).is_none() {
            let file = self.place(entry).map(|(root, path)| (root.clone(), path));
            self.digests.ask(id, file);
        }
    }

    fn compared(&mut self) -> Option<(u32, Result<bool, String>)> {
        let (id, made) = self.digests.made()?;
        let expected = self.expected.remove(&id);
        Some((id, made.map(|digest| Some(digest) == expected)))
    }

    fn again(&mut self, entry: &Entry) -> Result<Entry, String> {
        self.stat(entry)
    }
}

fn found(root: &Root, entry: &disk::Entry) -> Found {
    said(root, entry).map_or_else(
        |error| Found::Skipped {
            path: entry.path.octets().to_vec(),
            reason: error.to_string(),
        },
        Found::Entry,
    )
}

/// An entry as it is told of.
pub(super) fn said(root: &Root, entry: &disk::Entry) -> Result<Entry, DiskError> {
    let kind = match entry.kind {
        Kind::File => EntryKind::File {
            len: entry.size,
            holes: entry.is_sparse(),
        },
        Kind::Directory => EntryKind::Directory,
        Kind::Link => EntryKind::Link {
            to: root.target(&entry.path)?,
        },
    };
    Ok(Entry {
        path: entry.path.octets().to_vec(),
        kind,
        mode: (entry.mode & 0o7777) as u16,
        user: entry.uid,
        group: entry.gid,
        modified_ns: ns(entry.mtime),
        mark: mark(&entry.identity),
    })
}

/// Nanoseconds since 1970; years beyond 1677 and 2262 are those.
pub(super) fn ns(moment: Moment) -> i64 {
    moment
        .seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(moment.ns.into())
}

/// Octets that are others if the file is another, or was changed.
fn mark(identity: &disk::Identity) -> [u8; 16] {
    let mut octets = Vec::new();
    for number in [identity.size, identity.inode, identity.device] {
        octets.extend(number.to_be_bytes());
    }
    for moment in [identity.mtime, identity.ctime] {
        octets.extend(ns(moment).to_be_bytes());
    }
    let mut mark = [0; 16];
    let digest = disk::Digest::of_file(&octets).0;
    mark.copy_from_slice(&digest[..16]);
    mark
}
