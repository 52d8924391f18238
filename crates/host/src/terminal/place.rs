//! Where files are put: under their names when they are whole, and until then among the unfinished
//! ones.

mod finisher;
mod openings;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cellgate_core::terminal::unfinished::{
    self, Content, IN_USE_NS, Job, TRY_EVERY_NS, finish_named,
};
use cellgate_core::terminal::{
    CONTENT_MAX, Destination, Digest, Entry, EntryKind, Existing, Lying, Manner, Offered, Standing,
};

use super::digests::Digests;
use super::disk::{self, DiskError, DiskLen, HeldFile, Kind, Moment, PartialName, PathBelow, Root};
use super::tree::ns;
use finisher::Finisher;
use openings::Openings;

/// A file that is received.
pub(super) type Receiving = unfinished::Receiving<HeldFile>;

/// A place below a directory.
pub struct Place {
    root: Root,
    /// The directory that entries are put in; none: the root.
    base: Option<PathBelow>,
    /// The name of what is put, instead of its own.
    name: Option<Vec<u8>>,
    manner: Manner,
    disk_len: DiskLen,
    finisher: Finisher,
    openings: Openings<Result<disk::Opened, DiskError>>,
    /// Files that others have.
    in_use: BTreeMap<PathBelow, InUse>,
    digests: Digests,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.finisher.leave();
    }
}

/// A file that somebody else writes.
struct InUse {
    found: Instant,
    tried: Instant,
}

impl Place {
    /// `path` below `root`: a directory that is there, or a path that ends with a slash, or an
    /// empty one, is what entries are put in; any other is what one entry will be called.
    ///
    /// # Errors
    /// It is no path, or the way there is none.
    pub fn new(
        root: &Root,
        path: &[u8],
        manner: Manner,
        disk_len: DiskLen,
    ) -> Result<Self, String> {
        let (base, name) = match path.strip_suffix(b"/").unwrap_or(path) {
            [] => (None, None),
            trimmed => {
                let named = PathBelow::new(trimmed).map_err(|fault| fault.to_string())?;
                let found = root.stat(&named).map_err(|error| error.to_string())?;
                let is_directory = found.is_some_and(|found| found.kind == Kind::Directory);
                if is_directory || trimmed.len() < path.len() {
                    (Some(named), None)
                } else {
                    let (base, name) = named.split();
                    (base, Some(name.to_vec()))
                }
            }
        };
        Ok(Self {
            root: root.clone(),
            base,
            name,
            manner,
            disk_len,
            finisher: Finisher::start(root.clone())?,
            openings: Openings::default(),
            in_use: BTreeMap::new(),
            digests: Digests::default(),
        })
    }

    /// Where an entry is put.
    fn path(&self, entry: &Entry) -> Result<PathBelow, String> {
        let mut path = entry.path.clone();
        if let Some(name) = &self.name {
            let first = path.iter().position(|octet| *octet == b'/');
            path.splice(..first.unwrap_or(path.len()), name.iter().copied());
        }
        let path = match &self.base {
            Some(base) => base.join(&path),
            None => PathBelow::new(&path),
        };
        path.map_err(|fault| fault.to_string())
    }

    fn place(&self, entry: &Entry) -> Result<disk::Entry, String> {
        Ok(placed(self.path(entry)?, entry))
    }

    fn overwrites(&self) -> bool {
        self.manner.existing == Existing::Replace
    }

    /// The fate of a file or a link, by what is in its place.
    fn standing(
        &self,
        entry: &Entry,
        wanted: &disk::Entry,
        is_same: Option<bool>,
    ) -> Result<Standing, String> {
        let Some(found) = self.root.stat(&wanted.path).map_err(said)? else {
            return Ok(Standing::Want);
        };
        let lying = match found.kind {
            Kind::File => Lying::File {
                len: found.size,
                modified_ns: ns(found.mtime),
            },
            Kind::Directory => Lying::Directory,
            Kind::Link => Lying::Link {
                to: self.root.target(&wanted.path).map_err(said)?,
            },
        };
        Ok(self.manner.standing(entry, &lying, is_same))
    }

    /// Opens what is there of a file; none while the disk takes its time.
    fn opened(
        &mut self,
        wanted: &disk::Entry,
        len: Option<u64>,
    ) -> Result<Option<Result<disk::Opened, DiskError>>, String> {
        let (root, disk_len) = (self.root.clone(), self.disk_len);
        let (anew, wanted) = (self.manner.anew, wanted.clone());
        let path = wanted.path.clone();
        self.openings.open(&path, move || {
            if anew {
                disk::discard(&root, PartialName::of(&wanted.path))?;
            }
            disk::open(&root, &wanted.path, &wanted, len, disk_len)
        })
    }

    /// Opens a file that is to be received, of a length that is known if it is no stream.
    fn open(
        &mut self,
        wanted: &disk::Entry,
        len: Option<u64>,
    ) -> Result<Offered<Receiving>, String> {
        let others = self.in_use.get(&wanted.path);
        if others.is_some_and(|others| others.tried.elapsed() < Duration::from_nanos(TRY_EVERY_NS))
        {
            return Ok(Offered::Later);
        }
        let Some(opened) = self.opened(wanted, len)? else {
            return Ok(Offered::Later);
        };
        let tried = Instant::now();
        let opened = match opened {
            Err(DiskError::InUse { path }) => {
                let others = self.in_use.entry(wanted.path.clone());
                let others = others.or_insert(InUse {
                    found: tried,
                    tried,
                });
                others.tried = tried;
                if others.found.elapsed() < Duration::from_nanos(IN_USE_NS) {
                    return Ok(Offered::Later);
                }
                Err(DiskError::InUse { path })
            }
            other => other,
        };
        self.in_use.remove(&wanted.path);
        let opened = opened.map_err(said)?;
        let finisher = self.finisher.clone();
        let later = Box::new(move |job| finisher.send(Job::Sync(job)));
        let has_holes = wanted.is_sparse();
        let (receiving, missing) = Receiving::new(opened, self.disk_len, len, has_holes, later);
        Ok(Offered::Want(receiving, missing))
    }
}

impl Destination for Place {
    type File = Receiving;

    fn offer(
        &mut self,
        entry: &Entry,
        is_same: Option<bool>,
    ) -> Result<Offered<Receiving>, String> {
        let wanted = self.place(entry)?;
        if entry.kind == EntryKind::Directory {
            self.root.make_directory(&wanted.path).map_err(said)?;
            return Ok(Offered::Have);
        }
        let standing = match self.openings.is_under_way(&wanted.path) {
            true => Standing::Want,
            false => self.standing(entry, &wanted, is_same)?,
        };
        match standing {
            Standing::Have => {
                match entry.kind {
                    EntryKind::File { .. } => {
                        finish_named(&self.root, &wanted.path).map_err(said)?;
                    }
                    // A link that was to take its place is of no use.
                    _ => drop(disk::discard(&self.root, PartialName::of(&wanted.path))),
                }
                return Ok(Offered::Have);
            }
            Standing::Stays => return Ok(Offered::Have),
            Standing::Compare => return Ok(Offered::Compare),
            Standing::Want => {}
            Standing::Refused => {
                let path = wanted.path.to_string();
                return Err(said(DiskError::Exists { path }));
            }
        }
        match &entry.kind {
            EntryKind::Link { to } => {
                let made = self.root.make_link(&wanted.path, to, self.overwrites());
                made.and_then(|()| self.root.settle(&wanted))
                    .map_err(said)?;
                Ok(Offered::Have)
            }
            EntryKind::File { len, .. } if *len <= CONTENT_MAX => Ok(Offered::Take),
            EntryKind::File { len, .. } => self.open(&wanted, Some(*len)),
            EntryKind::Stream | EntryKind::Directory => self.open(&wanted, None),
        }
    }

    fn digest(&mut self, id: u32, entry: &Entry) {
        let path = self.path(entry);
        self.digests
            .ask(id, path.map(|path| (self.root.clone(), path)));
    }

    fn digested(&mut self) -> Option<(u32, Result<Digest, String>)> {
        self.digests.made()
    }

    fn content(&mut self, id: u32, entry: Entry, octets: Vec<u8>, digest: Digest) {
        let wanted = self.place(&entry);
        let overwrite = self.overwrites();
        match wanted {
            Ok(wanted) => self.finisher.send(Job::Content(Content {
                id,
                entry,
                path: wanted.path.clone(),
                traits: wanted,
                octets,
                digest,
                overwrite,
            })),
            Err(reason) => self.finisher.fails(id, entry, reason),
        }
    }

    fn finish(&mut self, id: u32, entry: Entry, file: Receiving) {
        match self.place(&entry) {
            Ok(wanted) => {
                let path = wanted.path.clone();
                let finish = file.finish(id, entry, path, wanted, self.overwrites());
                self.finisher.send(Job::Finish(Box::new(finish)));
            }
            Err(reason) => self.finisher.fails(id, entry, reason),
        }
    }

    fn leave(&mut self, _entry: &Entry, file: Receiving, is_stale: bool) {
        file.leave(is_stale);
    }

    fn left(&mut self, entry: &Entry) -> Result<(), String> {
        self.root.settle(&self.place(entry)?).map_err(said)
    }

    fn settled(&mut self) -> Option<(u32, Entry, Result<Digest, String>)> {
        self.finisher.settled()
    }
}

fn said(error: DiskError) -> String {
    error.to_string()
}

/// An entry as the disk has it.
fn placed(path: PathBelow, entry: &Entry) -> disk::Entry {
    let size = entry.octets();
    let (kind, holes) = match entry.kind {
        EntryKind::File { holes, .. } => (Kind::File, holes),
        EntryKind::Stream => (Kind::File, false),
        EntryKind::Directory => (Kind::Directory, false),
        EntryKind::Link { .. } => (Kind::Link, false),
    };
    let mtime = Moment {
        seconds: entry.modified_ns.div_euclid(1_000_000_000),
        ns: entry.modified_ns.rem_euclid(1_000_000_000) as u32,
    };
    let (inode, device) = entry.mark.split_at(8);
    let number = |octets: &[u8]| octets.iter().fold(0, |n, octet| n << 8 | u64::from(*octet));
    disk::Entry {
        path,
        kind,
        mode: entry.mode.into(),
        uid: entry.user,
        gid: entry.group,
        mtime,
        size,
        allocated: if holes { 0 } else { size },
        // Whose file it is, its mark alone tells.
        identity: disk::Identity {
            size,
            mtime,
            ctime: Moment::default(),
            inode: number(inode),
            device: number(device),
        },
    }
}
