//! A tree that is given, and a place where it is taken to.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use cellgate_core::Time;
use cellgate_core::terminal::{
    CONTENT_MAX, Destination, Digest, DiskHeader, DiskPdu, Entry, EntryKind, Found, Offered,
    Origin, Partial, Source, Store,
};

pub(super) const DISK_LEN: u64 = 1 << 16;

/// By path and offset of a disk-PDU, how often its digest will be wrong.
pub(super) type Wrong = Rc<RefCell<BTreeMap<(Vec<u8>, u64), u8>>>;

pub(super) fn digest(octets: &[u8]) -> Digest {
    let mut digest = [octets.len() as u8; DiskHeader::TAIL];
    for (at, octet) in octets.iter().enumerate() {
        let to = &mut digest[at % DiskHeader::TAIL];
        *to = to.wrapping_mul(31).wrapping_add(*octet);
    }
    digest
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File(Vec<u8>),
    Directory,
    Link(Vec<u8>),
    /// A file whose length nobody knows before.
    Stream(Vec<u8>),
}

pub(super) type Files = BTreeMap<Vec<u8>, Node>;

/// A tree to be given; some of it changes, or lies about its digests.
#[derive(Clone)]
pub(super) struct Given0 {
    pub(super) files: Files,
    /// What a walk still comes by, the next last.
    pub(super) walk: Vec<Option<Vec<u8>>>,
    /// How often a file is another when it was sent.
    pub(super) changes: BTreeMap<Vec<u8>, u8>,
    /// Disk-PDUs that will be sent with a wrong digest.
    pub(super) wrong: Wrong,
    pub(super) compared: VecDeque<(u32, Result<bool, String>)>,
}

pub(super) struct File {
    pub(super) path: Vec<u8>,
    pub(super) octets: Vec<u8>,
    pub(super) wrong: Wrong,
    /// Of a stream, how much of it has come.
    pub(super) come: Option<usize>,
}

impl File {
    /// Up to where it can be seen: disk-PDUs of which it is known whether they are the last.
    fn shown(&mut self) -> Option<u64> {
        let come = self.come.as_mut()?;
        *come = (*come + 30_000).min(self.octets.len());
        let is_end = *come == self.octets.len();
        let whole = (*come as u64).saturating_sub(1) / DISK_LEN * DISK_LEN;
        Some(if is_end { *come as u64 } else { whole })
    }
}

impl Source for File {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.octets[at as usize..][..into.len()]);
    }

    /// Runs of 4,096 zeros are holes.
    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        if let Some(shown) = self.shown() {
            return at..shown.min(end).max(at);
        }
        let is_data = |block: u64| {
            let from = (block * 4_096) as usize;
            let to = (from + 4_096).min(self.octets.len());
            self.octets[from..to].iter().any(|octet| *octet != 0)
        };
        let blocks = end.div_ceil(4_096);
        let Some(first) = (at / 4_096..blocks).find(|block| is_data(*block)) else {
            return end..end;
        };
        let last = (first..blocks).find(|block| !is_data(*block));
        let stop = last.map_or(end, |block| block * 4_096).min(end);
        at.max(first * 4_096)..stop
    }

    fn end(&mut self) -> Option<u64> {
        let len = self.octets.len();
        self.come.filter(|come| *come == len).map(|_| len as u64)
    }

    fn tail(&mut self, end: u64, tail: &mut [u8]) {
        let start = (end - 1) / DISK_LEN * DISK_LEN;
        let stop = (start + DISK_LEN).min(self.octets.len() as u64);
        tail.copy_from_slice(&digest(&self.octets[start as usize..stop as usize]));
        if let Some(times) = self.wrong.borrow_mut().get_mut(&(self.path.clone(), start))
            && *times > 0
        {
            *times -= 1;
            tail[0] ^= 1;
        }
    }
}

impl Given0 {
    pub(super) fn new(files: Files) -> Self {
        let mut walk = Vec::new();
        let mut open: Vec<&Vec<u8>> = Vec::new();
        for (path, node) in &files {
            while let Some(directory) = open.last()
                && !path.starts_with(&[&directory[..], b"/"].concat())
            {
                walk.push(None);
                open.pop();
            }
            walk.push(Some(path.clone()));
            if *node == Node::Directory {
                open.push(path);
            }
        }
        walk.extend(open.iter().map(|_| None));
        walk.reverse();
        Self {
            files,
            walk,
            changes: BTreeMap::new(),
            wrong: Rc::default(),
            compared: VecDeque::new(),
        }
    }

    pub(super) fn entry(&self, path: &[u8]) -> Entry {
        let kind = match &self.files[path] {
            Node::File(octets) => EntryKind::File {
                len: octets.len() as u64,
                holes: true,
            },
            Node::Directory => EntryKind::Directory,
            Node::Link(to) => EntryKind::Link { to: to.clone() },
            Node::Stream(_) => EntryKind::Stream,
        };
        Entry {
            path: path.to_vec(),
            kind,
            mode: 0o644,
            user: 1,
            group: 2,
            modified_ns: -3,
            mark: [4; 16],
        }
    }
}

impl Origin for Given0 {
    type File = File;

    fn next(&mut self) -> Option<Found> {
        Some(match self.walk.pop()? {
            None => Found::Left,
            Some(path) => Found::Entry(self.entry(&path)),
        })
    }

    fn open(&mut self, entry: &Entry, _: (u64, u64)) -> Result<File, String> {
        let (Node::File(octets) | Node::Stream(octets)) = &self.files[&entry.path] else {
            return Err("no file".to_owned());
        };
        Ok(File {
            come: (entry.kind == EntryKind::Stream).then_some(0),
            path: entry.path.clone(),
            octets: octets.clone(),
            wrong: self.wrong.clone(),
        })
    }

    fn is_unchanged(&mut self, entry: &Entry) -> bool {
        match self.changes.get_mut(&entry.path) {
            Some(times) if *times > 0 => {
                *times -= 1;
                false
            }
            _ => true,
        }
    }

    fn content(&mut self, entry: &Entry) -> Result<(Vec<u8>, Digest), String> {
        match &self.files[&entry.path] {
            Node::File(octets) => Ok((octets.clone(), digest(octets))),
            _ => Err("no file".to_owned()),
        }
    }

    fn compare(&mut self, id: u32, entry: &Entry, expected: &Digest) {
        let found = self.content(entry).map(|(_, digest)| digest == *expected);
        self.compared.push_back((id, found));
    }

    fn compared(&mut self) -> Option<(u32, Result<bool, String>)> {
        self.compared.pop_front()
    }

    fn again(&mut self, entry: &Entry) -> Result<Entry, String> {
        Ok(self.entry(&entry.path))
    }
}

/// What is taken.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) files: Files,
    /// Files that are not whole: their octets, and which disk-PDUs are right.
    pub(super) partials: BTreeMap<Vec<u8>, Half>,
    pub(super) settled: VecDeque<(u32, Entry, Result<Digest, String>)>,
    pub(super) left: Vec<Vec<u8>>,
    /// Paths of which nothing may become.
    pub(super) refused: Vec<Vec<u8>>,
    /// Paths that somebody else has, and how often they will be tried in vain.
    pub(super) in_use: BTreeMap<Vec<u8>, u8>,
    /// What is there already is compared.
    pub(super) compares: bool,
    pub(super) digested: VecDeque<(u32, Result<Digest, String>)>,
    /// Files that are being received, and the most that were at a time.
    pub(super) open: usize,
    pub(super) most_open: usize,
}

#[derive(Clone)]
pub(super) struct Half {
    pub(super) octets: Vec<u8>,
    pub(super) right: Vec<bool>,
}

impl Store for Half {
    fn write(&mut self, at: u64, octets: &[u8]) {
        let end = at as usize + octets.len();
        if self.octets.len() < end {
            self.octets.resize(end, 0);
            self.right.resize(end.div_ceil(DISK_LEN as usize), false);
        }
        self.octets[at as usize..][..octets.len()].copy_from_slice(octets);
    }
}

impl Partial for Half {
    fn make_room(&mut self, _: u64, to: u64) -> Result<u64, String> {
        Ok(to)
    }

    fn hole(&mut self, start: u64, end: u64) {
        let disk_pdus = (start / DISK_LEN) as usize..(end / DISK_LEN) as usize;
        self.right[disk_pdus].fill(true);
    }

    fn check(&mut self, disk_pdu: &DiskPdu) -> bool {
        let start = disk_pdu.header.offset as usize;
        let part = start..start + disk_pdu.header.length as usize;
        let right = digest(&self.octets[part.clone()]) == disk_pdu.digest;
        if !right {
            self.octets[part].fill(0);
        }
        self.right[start / DISK_LEN as usize] = right;
        right
    }

    fn handle_deadline(&mut self, _: Time) -> Result<(), String> {
        Ok(())
    }
}

impl Kept {
    fn opened(&mut self, half: Half, missing: Vec<(u64, u64)>) -> Offered<Half> {
        self.open += 1;
        self.most_open = self.most_open.max(self.open);
        Offered::Want(half, missing)
    }
}

impl Destination for Kept {
    type File = Half;

    fn offer(&mut self, entry: &Entry, is_same: Option<bool>) -> Result<Offered<Half>, String> {
        if self.refused.contains(&entry.path) {
            return Err("not here".to_owned());
        }
        if let Some(times) = self.in_use.get_mut(&entry.path)
            && *times > 0
        {
            *times -= 1;
            return Ok(Offered::Later);
        }
        let directory = entry.path.iter().rposition(|octet| *octet == b'/');
        let above = directory.map(|at| self.files.get(&entry.path[..at]));
        assert!(above.is_none_or(|above| above == Some(&Node::Directory)));
        if is_same == Some(true) {
            return Ok(Offered::Have);
        }
        if self.compares
            && is_same.is_none()
            && let Some(Node::File(octets)) = self.files.get(&entry.path)
            && octets.len() as u64 == entry.octets()
        {
            return Ok(Offered::Compare);
        }
        let node = match &entry.kind {
            EntryKind::Stream => {
                let half = Half {
                    octets: Vec::new(),
                    right: Vec::new(),
                };
                return Ok(self.opened(half, vec![(0, u64::MAX)]));
            }
            EntryKind::Directory => Node::Directory,
            EntryKind::Link { to } => Node::Link(to.clone()),
            EntryKind::File { len, .. } if *len <= CONTENT_MAX => return Ok(Offered::Take),
            EntryKind::File { len, .. } => {
                let fresh = Half {
                    octets: vec![0; *len as usize],
                    right: vec![false; len.div_ceil(DISK_LEN) as usize],
                };
                let half = self.partials.remove(&entry.path).unwrap_or(fresh);
                let missing = half
                    .right
                    .iter()
                    .enumerate()
                    .filter(|(_, right)| !**right)
                    .map(|(at, _)| {
                        let start = at as u64 * DISK_LEN;
                        (start, (start + DISK_LEN).min(*len))
                    });
                // What follows without a gap is one.
                let mut extents: Vec<(u64, u64)> = Vec::new();
                for (start, end) in missing {
                    match extents.last_mut() {
                        Some(last) if last.1 == start => last.1 = end,
                        _ => extents.push((start, end)),
                    }
                }
                return Ok(self.opened(half, extents));
            }
        };
        self.files.insert(entry.path.clone(), node);
        Ok(Offered::Have)
    }

    fn digest(&mut self, id: u32, entry: &Entry) {
        let Node::File(octets) = &self.files[&entry.path] else {
            panic!("{entry:?}");
        };
        self.digested.push_back((id, Ok(digest(octets))));
    }

    fn digested(&mut self) -> Option<(u32, Result<Digest, String>)> {
        self.digested.pop_front()
    }

    fn content(&mut self, id: u32, entry: Entry, octets: Vec<u8>, expected: Digest) {
        assert_eq!(digest(&octets), expected);
        self.files.insert(entry.path.clone(), Node::File(octets));
        self.settled.push_back((id, entry, Ok(expected)));
    }

    fn finish(&mut self, id: u32, entry: Entry, file: Half) {
        assert!(file.right.iter().all(|right| *right));
        let digest = digest(&file.octets);
        self.open -= 1;
        self.files
            .insert(entry.path.clone(), Node::File(file.octets));
        self.settled.push_back((id, entry, Ok(digest)));
    }

    fn leave(&mut self, entry: &Entry, file: Half, is_stale: bool) {
        self.open -= 1;
        if !is_stale {
            self.partials.insert(entry.path.clone(), file);
        }
    }

    fn left(&mut self, entry: &Entry) -> Result<(), String> {
        self.left.push(entry.path.clone());
        Ok(())
    }

    fn settled(&mut self) -> Option<(u32, Entry, Result<Digest, String>)> {
        self.settled.pop_front()
    }
}
