//! A file on its way out: each octet is read once, and its digest is made of it then; or a pipe.

use std::collections::BTreeMap;
use std::ops::Range;

use cellgate_core::terminal::Source;

use super::disk::{Digest, Digesting, DiskLen, SourceFile};
use super::pipe::Pipe;

/// What is sent.
#[derive(Debug)]
pub enum Sending {
    File(Box<SendingFile>),
    Pipe(Pipe),
}

impl Source for Sending {
    #[inline]
    fn read(&mut self, at: u64, into: &mut [u8]) {
        match self {
            Self::File(file) => file.read(at, into),
            Self::Pipe(pipe) => pipe.read(at, into),
        }
    }

    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        match self {
            Self::File(file) => file.data(at, end),
            Self::Pipe(pipe) => pipe.data(at, end),
        }
    }

    fn end(&mut self) -> Option<u64> {
        match self {
            Self::File(_) => None,
            Self::Pipe(pipe) => pipe.end(),
        }
    }

    fn fault(&mut self) -> Option<String> {
        match self {
            Self::File(file) => file.fault(),
            Self::Pipe(pipe) => pipe.fault(),
        }
    }

    fn tail(&mut self, end: u64, tail: &mut [u8]) {
        match self {
            Self::File(file) => file.tail(end, tail),
            Self::Pipe(pipe) => pipe.tail(end, tail),
        }
    }

    fn release(&mut self, at: u64) {
        match self {
            Self::File(file) => file.release(at),
            Self::Pipe(pipe) => pipe.release(at),
        }
    }
}

/// A file of which an extent is sent.
#[derive(Debug)]
pub struct SendingFile {
    file: SourceFile,
    /// Otherwise what its file system calls a hole has blocks, and is sent.
    has_holes: bool,
    /// Octets that were offered: it may be longer by now.
    len: u64,
    disk_len: u64,
    /// The disk-PDU that is being read for the first time: its number, and up to where it was.
    reading: Option<(u64, u64, Digesting)>,
    /// Digests of disk-PDUs that are not acknowledged as a whole.
    digests: BTreeMap<u64, Digest>,
}

impl SendingFile {
    /// Sends of `file`, which was offered with `len` octets, what is asked for, in disk-PDUs of
    /// `disk_len`.
    pub fn new(file: SourceFile, len: u64, disk_len: DiskLen) -> Self {
        Self {
            has_holes: file.entry().is_sparse(),
            file,
            len,
            disk_len: disk_len.octets().into(),
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

impl Source for SendingFile {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        Source::read(&mut self.file, at, into);
        if into.is_empty() {
            return;
        }
        // What is sent again was read before.
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
        if !self.has_holes {
            return at.min(end)..end;
        }
        let data = self.file.data(at);
        data.start.min(end)..data.end.min(end)
    }

    fn fault(&mut self) -> Option<String> {
        self.file.take_fault().map(|fault| fault.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::disk::{PathBelow, Root};

    #[test]
    fn of_a_file_that_has_grown_what_was_offered_is_sent_and_digested() {
        let directory = std::env::temp_dir();
        let name = format!("cellgate-sending-{}", std::process::id());
        let octets: Vec<u8> = (0..200_000_u32).map(|at| (at / 7) as u8).collect();
        std::fs::write(directory.join(&name), &octets).unwrap();
        let path = PathBelow::new(name.as_bytes()).unwrap();
        let file = Root::open(&directory).unwrap().open_file(&path).unwrap();
        let mut sending = SendingFile::new(file, 100_000, DiskLen::MIN);
        let start = u64::from(DiskLen::MIN.octets());
        let mut into = vec![0; 100_000 - start as usize];
        sending.read(start, &mut into);
        let mut tail = [0; 32];
        sending.tail(100_000, &mut tail);
        let expected = Digesting::new(start).octets(&into).digest();
        assert_eq!(expected, Some(Digest(tail)));
        assert!(into == octets[start as usize..100_000]);
        std::fs::remove_file(directory.join(&name)).unwrap();
    }
}
