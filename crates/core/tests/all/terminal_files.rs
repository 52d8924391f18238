//! Trees between two terminals over a line that loses and damages: each file is there once, whole,
//! with its name, or has failed by a reason that both ends tell.

mod hostile;
mod streams;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use cellgate_core::Time;
use cellgate_core::aal::tree::Tree;
use cellgate_core::contract::Aal;
use cellgate_core::terminal::{
    Arq, CONTENT_MAX, Destination, Digest, DiskHeader, DiskPdu, Entry, EntryKind, Event, Exchange,
    ExchangeTerms, Existing, Found, Given, Giving, Manner, Message, Offered, Origin, Partial,
    Settled, Source, Split, Store, Taking,
};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::terminal_stack::{below, random};

const DISK_LEN: u64 = 1 << 16;

/// By path and offset of a disk-PDU, how often its digest will be wrong.
type Wrong = Rc<RefCell<BTreeMap<(Vec<u8>, u64), u8>>>;

fn digest(octets: &[u8]) -> Digest {
    let mut digest = [octets.len() as u8; DiskHeader::TAIL];
    for (at, octet) in octets.iter().enumerate() {
        let to = &mut digest[at % DiskHeader::TAIL];
        *to = to.wrapping_mul(31).wrapping_add(*octet);
    }
    digest
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    File(Vec<u8>),
    Directory,
    Link(Vec<u8>),
    /// A file whose length nobody knows before.
    Stream(Vec<u8>),
}

type Files = BTreeMap<Vec<u8>, Node>;

/// A tree to be given; some of it changes, or lies about its digests.
#[derive(Clone)]
struct Given0 {
    files: Files,
    /// What a walk still comes by, the next last.
    walk: Vec<Option<Vec<u8>>>,
    /// How often a file is another when it was sent.
    changes: BTreeMap<Vec<u8>, u8>,
    /// Disk-PDUs that will be sent with a wrong digest.
    wrong: Wrong,
    compared: VecDeque<(u32, Result<bool, String>)>,
}

struct File {
    path: Vec<u8>,
    octets: Vec<u8>,
    wrong: Wrong,
    /// Of a stream, how much of it has come.
    come: Option<usize>,
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
    fn new(files: Files) -> Self {
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

    fn entry(&self, path: &[u8]) -> Entry {
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
struct Kept {
    files: Files,
    /// Files that are not whole: their octets, and which disk-PDUs are right.
    partials: BTreeMap<Vec<u8>, Half>,
    settled: VecDeque<(u32, Entry, Result<Digest, String>)>,
    left: Vec<Vec<u8>>,
    /// Paths of which nothing may become.
    refused: Vec<Vec<u8>>,
    /// What is there already is compared.
    compares: bool,
    digested: VecDeque<(u32, Result<Digest, String>)>,
}

#[derive(Clone)]
struct Half {
    octets: Vec<u8>,
    right: Vec<bool>,
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
    fn make_room(&mut self, _: u64, _: u64) -> Result<u64, String> {
        Ok(u64::MAX)
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

impl Destination for Kept {
    type File = Half;

    fn offer(&mut self, entry: &Entry, differs: bool) -> Result<Offered<Half>, String> {
        if self.refused.contains(&entry.path) {
            return Err("not here".to_owned());
        }
        let directory = entry.path.iter().rposition(|octet| *octet == b'/');
        let above = directory.map(|at| self.files.get(&entry.path[..at]));
        assert!(above.is_none_or(|above| above == Some(&Node::Directory)));
        if self.compares
            && !differs
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
                return Ok(Offered::Want(half, vec![(0, u64::MAX)]));
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
                return Ok(Offered::Want(half, extents));
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
        self.files
            .insert(entry.path.clone(), Node::File(file.octets));
        self.settled.push_back((id, entry, Ok(digest)));
    }

    fn leave(&mut self, entry: &Entry, file: Half, is_stale: bool) {
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

fn terms(run: u32, begins: bool) -> ExchangeTerms {
    ExchangeTerms {
        run,
        arq: Arq::Selective,
        window_pdus: 128,
        window: 200_000,
        pdu_len: 1_984,
        begins,
    }
}

const SPLIT: Split = Split {
    pdu_len: 1_984,
    disk_len: Some(DISK_LEN as u32),
    file_len: None,
};

/// Both ends, and what they have told.
struct Trial {
    rng: Pcg64Mcg,
    now: Time,
    /// PDUs of a thousand that are lost.
    lost: u64,
    ends: (Exchange<File, Half>, Exchange<File, Half>),
    giving: Giving<Given0>,
    taking: Taking<Kept>,
    given: Vec<Given>,
    settled: Vec<Settled>,
    octets: u64,
}

impl Trial {
    fn new(giving: Given0, kept: Kept, run: u32, lost: u64) -> Self {
        let tree = Arc::new(Tree::new(Aal::Aal5, DiskHeader::LENGTHS).unwrap());
        let end = |begins| {
            let terms = terms(2 * run + u32::from(begins), begins);
            Exchange::new(Time::ZERO, terms, &tree).unwrap()
        };
        Self {
            rng: Pcg64Mcg::new(u128::from(run) << 1 | 1),
            now: Time::ZERO,
            lost,
            ends: (end(true), end(false)),
            giving: Giving::new(giving, SPLIT),
            taking: Taking::new(kept, 3),
            given: Vec::new(),
            settled: Vec::new(),
            octets: 0,
        }
    }

    /// A turn of both ends; the line is as fast as one is.
    fn turn(&mut self) {
        self.now = self.now.plus_ns(200_000);
        let (now, mut message) = (self.now, Vec::new());
        let (giver, taker) = (&mut self.ends.0, &mut self.ends.1);
        if giver.is_established() {
            for _ in 0..16 {
                self.giving.step(giver, &mut self.given);
            }
        }
        self.taking.step(now, taker, &mut self.settled);
        for _ in 0..16 {
            let mut sdu = [0; 2_100];
            giver.handle_deadline(now);
            if let Some(len) = giver.poll_sdu(now, &mut sdu)
                && below(&mut self.rng, 1_000) >= self.lost
            {
                self.octets += u64::from(len);
                taker.handle_sdu(now, &sdu[..len.into()]);
            }
            while let Some(event) = taker.poll_event() {
                let Event::DiskPdu { transfer, disk_pdu } = event else {
                    panic!("{event:?}");
                };
                let settled = &mut self.settled;
                self.taking
                    .handle_disk_pdu(now, taker, transfer, &disk_pdu, settled);
            }
            taker.handle_deadline(now);
            if let Some(len) = taker.poll_sdu(now, &mut sdu)
                && below(&mut self.rng, 1_000) >= self.lost
            {
                giver.handle_sdu(now, &sdu[..len.into()]);
            }
            while giver.hear(now, &mut message).unwrap() {
                let message = Message::parse(&message).unwrap();
                self.giving.handle(giver, message, &mut self.given);
            }
            while taker.hear(now, &mut message).unwrap() {
                let message = Message::parse(&message).unwrap();
                self.taking.handle(now, taker, message, &mut self.settled);
            }
        }
    }

    fn run(&mut self, seed: u64) {
        for _ in 0..100_000 {
            if self.giving.is_done() && self.taking.is_done() {
                return;
            }
            self.turn();
        }
        panic!(
            "seed {seed}: it never ends: {:?} {:?}",
            self.given, self.settled
        );
    }

    fn kept(&mut self) -> &mut Kept {
        self.taking.destination_mut()
    }
}

/// A tree of a few directories, links, small files and long ones.
fn files(rng: &mut Pcg64Mcg) -> Files {
    let mut files = Files::new();
    let mut directories = vec![Vec::new()];
    for n in 0..2 + below(rng, 30) {
        let above = directories[below(rng, directories.len() as u64) as usize].clone();
        let mut path: Vec<u8> = above;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend(format!("{n}").bytes());
        path.push(0x80 | rng.next_u32() as u8);
        let node = match below(rng, 6) {
            0 => {
                directories.push(path.clone());
                Node::Directory
            }
            1 => Node::Link(random(rng, 9)),
            2 => {
                let len = CONTENT_MAX + 1 + below(rng, 400_000);
                let mut octets = random(rng, len as usize);
                let hole = below(rng, len);
                let end = (hole + below(rng, 200_000)).min(len);
                octets[hole as usize..end as usize].fill(0);
                Node::File(octets)
            }
            _ => {
                let len = below(rng, 3) * below(rng, 3_000);
                Node::File(random(rng, len as usize))
            }
        };
        files.insert(path, node);
    }
    files
}

fn rng(seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::new(u128::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) << 1 | 1)
}

#[test]
fn a_tree_arrives_as_it_is_whatever_is_lost() {
    for seed in 0..40 {
        let rng = &mut rng(seed);
        let files = files(rng);
        let lost = [0, 20, 200][seed as usize % 3];
        let mut trial = Trial::new(Given0::new(files.clone()), Kept::default(), 1, lost);
        trial.run(seed);
        assert!(trial.kept().files == files, "seed {seed}");
        // Each directory is left once, behind all that is in it.
        let left = trial.kept().left.clone();
        let directories = files.iter().filter(|(_, node)| **node == Node::Directory);
        assert_eq!(left.len(), directories.count(), "seed {seed}");
        for (at, path) in left.iter().enumerate() {
            let inside = [&path[..], b"/"].concat();
            assert!(left[at..].iter().all(|other| !other.starts_with(&inside)));
        }
        // Both ends tell of each that is no directory.
        let told = files.values().filter(|node| **node != Node::Directory);
        let told = told.count();
        let there = |given: &&Given| matches!(given, Given::There { .. });
        assert_eq!(
            trial.given.iter().filter(there).count(),
            told,
            "seed {seed}"
        );
        let there = |settled: &&Settled| matches!(settled, Settled::There { .. });
        assert_eq!(
            trial.settled.iter().filter(there).count(),
            told,
            "seed {seed}"
        );
    }
}

#[test]
fn what_was_interrupted_goes_on_where_it_was() {
    for seed in 0..20 {
        let rng = &mut rng(seed);
        let mut files = Files::new();
        files.insert(b"long".to_vec(), Node::File(random(rng, 1_500_000)));
        let mut kept = Kept::default();
        let (mut octets, mut deaths) = (0, 0);
        for run in 1.. {
            let mut trial = Trial::new(Given0::new(files.clone()), kept, run, 10);
            for _ in 0..8 + below(rng, 12) {
                trial.turn();
            }
            let is_done = trial.giving.is_done() && trial.taking.is_done();
            if deaths == 3 && !is_done {
                trial.run(seed);
            }
            octets += trial.octets;
            if deaths == 3 || is_done {
                assert!(trial.kept().files == files, "seed {seed}");
                break;
            }
            // Both die; what was checked is on the disk.
            deaths += 1;
            trial.taking.abandon(&mut trial.ends.1);
            kept = std::mem::take(trial.taking.destination_mut());
        }
        assert!(deaths > 1, "seed {seed}");
        // A window and a disk-PDU again for each death, and what was lost.
        let again = deaths * (200_000 + DISK_LEN);
        assert!(octets < 1_600_000 + again, "seed {seed}: {octets}");
    }
}

#[test]
fn a_disk_pdu_with_a_wrong_digest_is_sent_again_twice_and_then_its_file_fails() {
    let octets = random(&mut rng(1), 300_000);
    for times in 0..5 {
        let files: Files = [
            (b"bad".to_vec(), Node::File(octets.clone())),
            (b"good".to_vec(), Node::File(octets.clone())),
        ]
        .into();
        let given = Given0::new(files.clone());
        let wrong = (b"bad".to_vec(), DISK_LEN);
        given.wrong.borrow_mut().insert(wrong, times);
        let mut trial = Trial::new(given, Kept::default(), 1, 0);
        trial.run(0);
        assert_eq!(trial.taking.taken().wrong, u64::from(times.min(3)));
        let is_there = trial.kept().files.contains_key(&b"bad"[..]);
        assert_eq!(is_there, times < 3, "{times}");
        assert_eq!(trial.kept().files[&b"good"[..]], files[&b"good"[..]]);
        let failed = |given: &&Given| matches!(given, Given::Failed { .. });
        assert_eq!(
            trial.given.iter().filter(failed).count(),
            usize::from(times >= 3)
        );
    }
}

#[test]
fn a_file_that_changes_while_it_is_sent_is_sent_anew_and_fails_the_third_time() {
    for len in [100, 200_000] {
        for times in 0..5 {
            let octets = random(&mut rng(1), len);
            let files: Files = [(b"a".to_vec(), Node::File(octets))].into();
            let mut given = Given0::new(files.clone());
            given.changes.insert(b"a".to_vec(), times);
            let mut trial = Trial::new(given, Kept::default(), 1, 0);
            trial.run(0);
            assert_eq!(trial.kept().files == files, times < 3, "{len} {times}");
            let failed = |given: &&Given| matches!(given, Given::Failed { .. });
            assert_eq!(
                trial.given.iter().filter(failed).count(),
                usize::from(times >= 3)
            );
        }
    }
}

#[test]
fn the_failure_of_one_is_told_at_both_ends_and_fails_no_other() {
    for seed in 0..10 {
        let rng = &mut rng(seed);
        let files = files(rng);
        let refused: Vec<_> = files
            .iter()
            .filter(|(_, node)| matches!(node, Node::File(_)) && below(rng, 3) == 0)
            .map(|(path, _)| path.clone())
            .collect();
        let kept = Kept {
            refused: refused.clone(),
            ..Kept::default()
        };
        let mut trial = Trial::new(Given0::new(files.clone()), kept, 1, 50);
        trial.run(seed);
        let mut expected = files.clone();
        expected.retain(|path, _| !refused.contains(path));
        assert!(trial.kept().files == expected, "seed {seed}");
        let mut given: Vec<_> = trial
            .given
            .iter()
            .filter_map(|given| match given {
                Given::Failed { path, reason } if reason == "not here" => Some(path.clone()),
                _ => None,
            })
            .collect();
        given.sort();
        assert_eq!(given, refused, "seed {seed}");
    }
}

#[test]
fn messages_come_back_and_octets_that_are_none_are_refused() {
    let entry = Given0::new([(b"a/\xff".to_vec(), Node::Link(b"b".to_vec()))].into());
    let messages = [
        Message::Put {
            manner: Manner {
                existing: Existing::Skip,
                by_digest: true,
                anew: true,
            },
            path: b"x".to_vec(),
        },
        Message::Get { path: Vec::new() },
        Message::List {
            path: b"y/z".to_vec(),
        },
        Message::Accepted,
        Message::Refused {
            reason: "no".to_owned(),
        },
        Message::Offer {
            id: 7,
            entry: entry.entry(b"a/\xff"),
        },
        Message::Left { id: 8 },
        Message::End,
        Message::Want {
            id: 9,
            transfer: 1,
            start: 2,
            end: 3,
            edge: 4,
        },
        Message::Take { id: 10 },
        Message::Content {
            id: 11,
            digest: [12; 32],
            octets: b"content".to_vec(),
        },
        Message::Have {
            id: 13,
            digest: None,
        },
        Message::Have {
            id: 13,
            digest: Some([14; 32]),
        },
        Message::Got { id: 15 },
        Message::Whole { id: 16 },
        Message::Changed { id: 17 },
        Message::Failed {
            id: 18,
            reason: "why".to_owned(),
        },
        Message::Done,
        Message::Stop {
            reason: "enough".to_owned(),
        },
        Message::Compare {
            id: 19,
            digest: [20; 32],
        },
        Message::Compared {
            id: 21,
            is_same: true,
        },
    ];
    let mut kinds: Vec<_> = messages.iter().map(|message| message.emit()[0]).collect();
    kinds.dedup();
    assert_eq!(kinds, (1..=20).collect::<Vec<_>>());
    for message in &messages {
        let octets = message.emit();
        assert_eq!(Message::parse(&octets).as_ref(), Ok(message));
        // Whatever is cut off or changed is refused or another message, and never a panic.
        for len in 0..octets.len() {
            let _ = Message::parse(&octets[..len]);
        }
        let mut rng = rng(1);
        for _ in 0..200 {
            let mut octets = octets.clone();
            let at = below(&mut rng, octets.len() as u64) as usize;
            octets[at] = rng.next_u32() as u8;
            let _ = Message::parse(&octets);
        }
    }
    assert!(Message::parse(&[]).is_err());
    assert!(Message::parse(&[0]).is_err());
    assert!(Message::parse(&[21]).is_err());
    assert!(Message::parse(&[4, 0]).is_err());
}
