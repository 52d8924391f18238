//! The journal of an unfinished file, and the file, edited by somebody.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use cellgate_core::terminal::Store;
use cellgate_core::terminal::unfinished::{
    Digesting, DiskLen, Former, Header, Held, Identity, JournalFile, Octets, Unfinished,
};

use crate::take::Take;

/// The shortest disk-PDU, of which the file has three and a part.
const DISK: u32 = 1 << 16;
const FILE: usize = 3 * (1 << 16) + 1_000;

type File = Rc<RefCell<Vec<u8>>>;

/// An unfinished file and its journal, in memory.
#[derive(Clone, Default)]
struct Memory {
    octets: File,
    journal: Rc<RefCell<Option<File>>>,
}

/// Either of its files.
struct Open(File);

fn read_at(file: &File, into: &mut [u8], at: u64) -> usize {
    let file = file.borrow();
    let from = file.get(at as usize..).unwrap_or(&[]);
    let len = from.len().min(into.len());
    into[..len].copy_from_slice(&from[..len]);
    len
}

fn write_at(file: &File, octets: &[u8], at: u64) {
    let mut file = file.borrow_mut();
    let end = at as usize + octets.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[at as usize..end].copy_from_slice(octets);
}

impl JournalFile for Open {
    type Error = String;

    fn len(&self) -> Result<u64, String> {
        Ok(self.0.borrow().len() as u64)
    }

    fn set_len(&self, len: u64) -> Result<(), String> {
        self.0.borrow_mut().resize(len as usize, 0);
        Ok(())
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize, String> {
        Ok(read_at(&self.0, into, at))
    }

    fn write_at(&self, octets: &[u8], at: u64) -> Result<(), String> {
        write_at(&self.0, octets, at);
        Ok(())
    }

    fn sync(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Store for Open {
    fn write(&mut self, at: u64, octets: &[u8]) {
        write_at(&self.0, octets, at);
    }
}

impl Octets for Open {
    type Error = String;

    fn len(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn read(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), String> {
        let file = self.0.borrow();
        let end = (range.end as usize).min(file.len());
        let start = (range.start as usize).min(end);
        take(&file[start..end]);
        Ok(())
    }

    fn make_room(&mut self, range: Range<u64>) -> Result<u64, String> {
        Ok(range.end)
    }

    fn reserve(&mut self, _: Range<u64>) -> Result<(), String> {
        Ok(())
    }

    fn check_free(&self, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn punch(&mut self, range: Range<u64>) -> Result<(), String> {
        self.clear(range)
    }

    fn clear(&mut self, range: Range<u64>) -> Result<(), String> {
        self.0.borrow_mut()[range.start as usize..range.end as usize].fill(0);
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn close(&mut self) {}
}

impl Held for Memory {
    type Error = String;
    type Traits = ();
    type Octets = Open;
    type Journal = Open;

    fn len(&self) -> Result<u64, String> {
        Ok(self.octets.borrow().len() as u64)
    }

    fn set_len(&self, len: u64) -> Result<(), String> {
        self.octets.borrow_mut().resize(len as usize, 0);
        Ok(())
    }

    fn octets(&self, size: Option<u64>) -> Result<Open, String> {
        let size = size.map_or(FILE, |size| size as usize);
        self.octets.borrow_mut().resize(size, 0);
        Ok(Open(Rc::clone(&self.octets)))
    }

    fn write_whole(&self, octets: &[u8]) -> Result<(), String> {
        *self.octets.borrow_mut() = octets.to_vec();
        Ok(())
    }

    fn sync_octets(&self) -> Result<(), String> {
        Ok(())
    }

    fn sync(&self) -> Result<(), String> {
        Ok(())
    }

    fn sync_disk(&self) -> Result<(), String> {
        Ok(())
    }

    fn journal(&self) -> Result<Option<Result<Open, ()>>, String> {
        let journal = self.journal.borrow();
        Ok(journal.as_ref().map(|file| Ok(Open(Rc::clone(file)))))
    }

    fn new_journal(&self) -> Result<Open, String> {
        let file = File::default();
        *self.journal.borrow_mut() = Some(Rc::clone(&file));
        Ok(Open(file))
    }

    fn sync_names(&self) -> Result<(), String> {
        Ok(())
    }

    fn sync_place_of_names(&self) -> Result<(), String> {
        Ok(())
    }

    fn give(&self, (): &()) -> Result<(), String> {
        Ok(())
    }

    fn take_back(&self) {}

    fn make_parents(&self) -> Result<(), String> {
        Ok(())
    }

    fn publish(&self, _: bool) -> Result<(), String> {
        Ok(())
    }

    fn is_beside(&self, _: &Self) -> bool {
        true
    }

    fn sync_name(&self) -> Result<(), String> {
        Ok(())
    }

    fn sync_parents(&self) -> Result<(), String> {
        Ok(())
    }

    fn remove(&self) -> Result<(), String> {
        self.octets.borrow_mut().clear();
        Ok(())
    }

    fn remove_journal(&self) -> Result<(), String> {
        *self.journal.borrow_mut() = None;
        Ok(())
    }

    fn leave(&self) {}

    fn incomplete(&self, missing: u64) -> String {
        format!("{missing} are missing")
    }

    fn lost(&self) -> String {
        "lost".to_owned()
    }

    fn is_full(_: &String) -> bool {
        false
    }
}

fn header(path: &[u8]) -> Header {
    Header {
        disk_len: DiskLen::new(DISK).expect("a power of two"),
        size: Some(FILE as u64),
        source: Identity {
            size: FILE as u64,
            ..Identity::default()
        },
        path: path.into(),
    }
}

fn octet(at: usize) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8 | 1
}

/// The octets of a disk-PDU.
fn part(index: usize) -> Range<usize> {
    let start = index * DISK as usize;
    start..(start + DISK as usize).min(FILE)
}

/// Some disk-PDUs are received, then somebody edits the journal and the file: what is believed of
/// them was received, and is as it was; all else is zeros, or the whole is thrown away.
pub fn journal(data: &[u8]) {
    let mut take = Take::new(data);
    let memory = Memory::default();
    let received = take.u8() & 15;
    let opened = Unfinished::open(memory.clone(), &header(b"a/file"), None);
    let mut file = opened.expect("memory has room").file;
    for index in (0..4).filter(|index| received >> index & 1 == 1) {
        let range = part(index);
        let octets: Vec<u8> = range.clone().map(octet).collect();
        write_at(&memory.octets, &octets, range.start as u64);
        let mut digesting = Digesting::new(range.start as u64);
        let digest = digesting.octets(&octets).digest().expect("it is whole");
        let (start, len) = (range.start as u64, octets.len() as u32);
        let is_right = file.check(index as u64, start, len, &digest);
        assert_eq!(is_right, Ok(true));
        file.sync().expect("memory is safe");
    }
    drop(file);
    let mut touched = 0_u8;
    while !take.is_empty() {
        let op = take.u8();
        let at = usize::from(take.u16());
        let by = take.u8();
        let journal = memory.journal.borrow().clone();
        match op % 5 {
            0 => {
                let index = at % 4;
                let range = part(index);
                let at = range.start + at * 7 % range.len();
                if let Some(octet) = memory.octets.borrow_mut().get_mut(at)
                    && by != 0
                {
                    *octet ^= by;
                    touched |= 1 << index;
                }
            }
            1 => memory.octets.borrow_mut().truncate(at * 4),
            2 => {
                let Some(journal) = journal else { continue };
                let len = journal.borrow().len().max(1);
                if let Some(octet) = journal.borrow_mut().get_mut(at % len) {
                    *octet ^= by;
                }
            }
            3 => {
                let Some(journal) = journal else { continue };
                let len = journal.borrow().len() + 1;
                journal.borrow_mut().truncate(at % len);
            }
            _ => {
                let Some(journal) = journal else { continue };
                // A piece of it, or anything, once more at its end.
                let again = journal
                    .borrow()
                    .iter()
                    .skip(at)
                    .take(by.into())
                    .copied()
                    .collect();
                let more: Vec<u8> = if op & 0x80 == 0 {
                    again
                } else {
                    take.slice(by.into()).to_vec()
                };
                journal.borrow_mut().extend(more);
            }
        }
    }
    let opened = Unfinished::open(memory.clone(), &header(b"a/file"), None);
    let opened = opened.expect("memory has room");
    let octets = memory.octets.borrow();
    assert_eq!(octets.len(), FILE);
    for index in 0..4 {
        let there = opened.there.iter().any(|run| run.contains(&(index as u64)));
        let range = part(index);
        if there {
            assert_eq!(opened.former, Former::Kept);
            assert!(received >> index & 1 == 1, "{index} was never received");
            let is_right = range.clone().all(|at| octets[at] == octet(at));
            assert!(is_right, "{index} is not as it was");
        } else {
            assert!(octets[range].iter().all(|octet| *octet == 0), "{index}");
        }
    }
    // One that nobody touched is not lost for another's sake.
    let is_all = data.len() < 2 && touched == 0;
    let there: u64 = opened.there.iter().map(|run| run.end - run.start).sum();
    assert!(!is_all || there == u64::from(received.count_ones()));
}
