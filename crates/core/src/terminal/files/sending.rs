//! A file on its way out: each octet is read once, and its digest is made of it then.

use core::ops::Range;
use std::collections::BTreeMap;

use crate::terminal::unfinished::{Digest, Digesting, DiskLen};
use crate::terminal::{Planted, Source};

/// A file of which an extent is sent.
#[derive(Debug)]
pub struct SendingFile<F> {
    file: F,
    /// Octets that were offered: it may be longer by now.
    len: u64,
    disk_len: u64,
    /// The disk-PDU that is being read for the first time: its number, and up to where it was.
    reading: Option<(u64, u64, Digesting)>,
    /// Digests of disk-PDUs that are not acknowledged as a whole.
    digests: BTreeMap<u64, Digest>,
}

impl<F: Source> SendingFile<F> {
    /// Sends of `file`, which was offered with `len` octets, what is asked for, in disk-PDUs of
    /// `disk_len`.
    pub const fn new(file: F, len: u64, disk_len: DiskLen) -> Self {
        Self {
            file,
            len,
            disk_len: disk_len.octets() as u64,
            reading: None,
            digests: BTreeMap::new(),
        }
    }

    /// The disk-PDU `index`, as far as it was read for the first time.
    fn reading(&mut self, index: u64) -> Option<&mut (u64, u64, Digesting)> {
        let before = self.reading.as_ref().map(|(before, ..)| *before);
        if before.is_none_or(|before| before < index) {
            let start = index * self.disk_len;
            self.reading = Some((index, start, Digesting::new(start)));
        }
        self.reading.as_mut().filter(|(of, ..)| *of == index)
    }
}

impl<F: Source> Source for SendingFile<F> {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        self.file.read(at, into);
        if into.is_empty() {
            return;
        }
        // Octets that are sent again were read before.
        let Some((_, read_to, digesting)) = self.reading(at / self.disk_len) else {
            return;
        };
        let end = at + into.len() as u64;
        if end <= *read_to {
            return;
        }
        digesting.zeros(at.saturating_sub(*read_to));
        digesting.octets(&into[read_to.saturating_sub(at) as usize..]);
        *read_to = end;
    }

    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        if self.file.has(Planted::HolesSent) {
            return at.min(end)..end;
        }
        self.file.data(at, end)
    }

    fn fault(&mut self) -> Option<String> {
        self.file.fault()
    }

    fn tail(&mut self, end: u64, tail: &mut [u8]) {
        let index = end.saturating_sub(1) / self.disk_len;
        let disk_end = ((index + 1) * self.disk_len).min(self.len);
        let digest = match self.digests.get(&index) {
            Some(digest) => Some(*digest),
            None => self.reading(index).and_then(|(_, read_to, digesting)| {
                digesting.zeros(disk_end.saturating_sub(*read_to));
                *read_to = disk_end;
                digesting.digest()
            }),
        };
        if let Some(digest) = digest {
            tail.copy_from_slice(&digest.0);
            self.digests.insert(index, digest);
        }
    }

    fn release(&mut self, at: u64) {
        self.digests = self.digests.split_off(&(at / self.disk_len));
    }
}
