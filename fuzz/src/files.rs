//! What terminals say of files, before who gives and who takes.

use std::collections::VecDeque;
use std::ops::Range;

use cellgate_core::Time;
use cellgate_core::terminal::{
    Carrier, Destination, Digest, DiskPdu, Entry, EntryKind, Event, Found, Giving, Message,
    OctetStream, Offered, Origin, Partial, Source, Split, Store, Taking,
};

use crate::take::Take;

const JOBS: usize = 3;
/// Files that are open in a place at most: those under way, and those that are being settled.
const OPEN_MAX: usize = JOBS + 256;
const FILE: u64 = 100_000;
const DISK: u32 = 1 << 16;

/// A file of zeros with a hole.
struct Zeros(u64);

impl Source for Zeros {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        assert!(at + into.len() as u64 <= self.0);
        into.fill(0);
    }

    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        at.max(1_000).min(end)..end
    }
}

/// A file that is received, and is nowhere.
struct Nowhere(u64);

impl Store for Nowhere {
    fn write(&mut self, at: u64, octets: &[u8]) {
        assert!(at + octets.len() as u64 <= self.0, "beyond the file");
    }
}

impl Partial for Nowhere {
    fn make_room(&mut self, _: u64, to: u64) -> Result<u64, String> {
        Ok(to.min(self.0))
    }

    fn hole(&mut self, start: u64, end: u64) {
        assert!(start <= end && end <= self.0);
    }

    fn check(&mut self, disk_pdu: &DiskPdu) -> bool {
        disk_pdu.digest[0] == 0
    }

    fn handle_deadline(&mut self, _: Time) -> Result<(), String> {
        Ok(())
    }
}

/// A place, and a tree: what either is asked follows from an entry's mode.
#[derive(Default)]
struct Both {
    open: usize,
    settled: VecDeque<(u32, Entry, Result<Digest, String>)>,
    digests: VecDeque<(u32, Result<Digest, String>)>,
    compared: VecDeque<(u32, Result<bool, String>)>,
    found: VecDeque<Found>,
}

fn len(entry: &Entry) -> u64 {
    match entry.kind {
        EntryKind::File { len, .. } => len,
        EntryKind::Stream => u64::MAX,
        EntryKind::Directory | EntryKind::Link { .. } => 0,
    }
}

impl Destination for Both {
    type File = Nowhere;

    fn offer(&mut self, entry: &Entry, is_same: Option<bool>) -> Result<Offered<Nowhere>, String> {
        let is_file = !matches!(entry.kind, EntryKind::Directory | EntryKind::Link { .. });
        match entry.mode & 7 {
            0 if is_same.is_none() && is_file => return Ok(Offered::Compare),
            0 if is_same == Some(true) => return Ok(Offered::Have),
            1 => return Ok(Offered::Have),
            2 => return Err("no".to_owned()),
            3 if is_file => return Ok(Offered::Later),
            _ if !is_file => return Ok(Offered::Have),
            4 if len(entry) <= 1_000 => return Ok(Offered::Take),
            _ => {}
        }
        self.open += 1;
        assert!(self.open <= OPEN_MAX, "{} files are open", self.open);
        let len = len(entry);
        let first = (0, len.min(DISK.into()));
        let extents = match entry.mode & 8 {
            0 => vec![(0, len)],
            _ if len > first.1 => vec![first, (first.1, len)],
            _ => Vec::new(),
        };
        Ok(Offered::Want(Nowhere(len), extents))
    }

    fn digest(&mut self, id: u32, _: &Entry) {
        self.digests.push_back((id, Ok([id as u8; 32])));
    }

    fn digested(&mut self) -> Option<(u32, Result<Digest, String>)> {
        self.digests.pop_front()
    }

    fn content(&mut self, id: u32, entry: Entry, octets: Vec<u8>, digest: Digest) {
        assert_eq!(octets.len() as u64, len(&entry));
        self.settled.push_back((id, entry, Ok(digest)));
    }

    fn finish(&mut self, id: u32, entry: Entry, _: Nowhere) {
        self.open -= 1;
        self.settled.push_back((id, entry, Err("no".to_owned())));
    }

    fn leave(&mut self, _: &Entry, _: Nowhere, _: bool) {
        self.open -= 1;
    }

    fn left(&mut self, _: &Entry) -> Result<(), String> {
        Ok(())
    }

    fn settled(&mut self) -> Option<(u32, Entry, Result<Digest, String>)> {
        self.settled.pop_front()
    }
}

impl Origin for Both {
    type File = Zeros;

    fn next(&mut self) -> Option<Found> {
        self.found.pop_front()
    }

    fn open(&mut self, entry: &Entry, (start, end): (u64, u64)) -> Result<Zeros, String> {
        assert!(start <= end && end <= len(entry), "{start} {end}");
        Ok(Zeros(len(entry)))
    }

    fn is_unchanged(&mut self, entry: &Entry) -> bool {
        entry.mode & 1 == 0
    }

    fn content(&mut self, entry: &Entry) -> Result<(Vec<u8>, Digest), String> {
        Ok((vec![0; len(entry) as usize], [0; 32]))
    }

    fn compare(&mut self, id: u32, _: &Entry, digest: &Digest) {
        self.compared.push_back((id, Ok(digest[0] == 0)));
    }

    fn compared(&mut self) -> Option<(u32, Result<bool, String>)> {
        self.compared.pop_front()
    }

    fn again(&mut self, entry: &Entry) -> Result<Entry, String> {
        Ok(entry.clone())
    }
}

fn entry(take: &mut Take<'_>) -> Entry {
    let path = usize::from(take.below(4));
    Entry {
        path: vec![b'a'; path],
        kind: match take.below(6) {
            0 => EntryKind::Directory,
            1 => EntryKind::Link { to: b"a".to_vec() },
            2 => EntryKind::Stream,
            3 => EntryKind::File {
                len: take.u16().into(),
                holes: take.flag(),
            },
            _ => EntryKind::File {
                len: u64::from(take.u16()) * 8 % FILE,
                holes: take.flag(),
            },
        },
        mode: take.u8().into(),
        user: 0,
        group: 0,
        modified_ns: 0,
        mark: [0; 16],
    }
}

/// A message: of any octets, or one of those that make sense together.
fn message(take: &mut Take<'_>) -> Option<Message> {
    let id = u32::from(take.below(8));
    let transfer = u16::from(take.below(6));
    Some(match take.below(16) {
        0 => {
            let len = take.u8().into();
            let octets = take.slice(len);
            let message = Message::parse(octets).ok()?;
            let again = message.emit();
            assert_eq!(Message::parse(&again).as_ref(), Ok(&message));
            message
        }
        1 | 2 => Message::Offer {
            id,
            entry: entry(take),
        },
        3 => Message::Left { id },
        4 => Message::End,
        5 => Message::Want {
            id,
            transfer,
            start: u64::from(take.u8()) << 12,
            end: match take.below(3) {
                0 => u64::MAX,
                1 => take.u64(),
                _ => u64::from(take.u16()) * 4,
            },
            edge: u64::from(take.u8()) << 12,
        },
        6 => Message::Take { id },
        7 => Message::Have {
            id,
            digest: take.flag().then(|| [take.u8(); 32]),
        },
        8 => Message::Got { id },
        9 => Message::Changed { id },
        10 => Message::Done,
        11 => {
            let len = take.u8().into();
            Message::Content {
                id,
                digest: [take.u8(); 32],
                octets: take.slice(len).to_vec(),
            }
        }
        12 => Message::Failed {
            id,
            reason: "no".to_owned(),
        },
        13 => Message::Whole { id },
        14 => Message::Compare {
            id,
            digest: [take.u8(); 32],
        },
        _ => Message::Compared {
            id,
            is_same: take.flag(),
        },
    })
}

/// Messages and frames in any order before who gives and who takes: no more files are open than
/// may be, nothing is asked of a place beyond its file, and what is said stays bounded.
pub fn files(data: &[u8]) {
    let mut take = Take::new(data);
    let split = Split {
        pdu_len: 1_000,
        disk_len: Some(DISK),
        file_len: None,
    };
    let mut tree = Both::default();
    for _ in 0..take.below(6) {
        let found = match take.flag() {
            true => Found::Entry(entry(&mut take)),
            false => Found::Left,
        };
        tree.found.push_back(found);
    }
    let mut giving = Giving::new(tree, split);
    let mut taking = Taking::new(Both::default(), JOBS);
    let mut stream: OctetStream<Zeros, Nowhere> = OctetStream::new(Time::ZERO, 1 << 18);
    let mut now = Time::ZERO;
    let _ = stream.handle_octets(now, b"cellgat\x01");
    let mut out = vec![0; cellgate_core::terminal::FRAME_MAX];
    let (mut given, mut settled) = (Vec::new(), Vec::new());
    while !take.is_empty() {
        match take.below(8) {
            0 => {
                let len = take.u8().into();
                if stream.handle_octets(now, take.slice(len)).is_err() {
                    return;
                }
            }
            1 | 2 => {
                if let Some(message) = message(&mut take) {
                    giving.handle(&mut stream, message, &mut given);
                }
            }
            3..=5 => {
                if let Some(message) = message(&mut take) {
                    taking.handle(now, &mut stream, message, &mut settled);
                }
            }
            6 => {
                giving.step(&mut stream, &mut given);
                taking.step(now, &mut stream, &mut settled);
            }
            _ => {
                now = now.plus_ns(u64::from(take.u8()) * 10_000_000);
                stream.poll_octets(now, &mut out);
            }
        }
        while let Some(event) = stream.poll_event() {
            if let Event::DiskPdu { transfer, disk_pdu } = event {
                taking.handle_disk_pdu(now, &mut stream, transfer, &disk_pdu, &mut settled);
            }
        }
        if taking.fault().is_some() {
            taking.abandon(&mut stream);
            assert_eq!(taking.destination_mut().open, 0);
            return;
        }
    }
    taking.abandon(&mut stream);
    assert_eq!(taking.destination_mut().open, 0);
}
