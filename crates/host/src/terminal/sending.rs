//! What is on its way out: a file, or a pipe.

use std::ops::Range;

use cellgate_core::terminal::{SendingFile, Source};

use super::disk::SourceFile;
use super::pipe::Pipe;

/// What is sent.
#[derive(Debug)]
pub enum Sending {
    File(Box<SendingFile<SourceFile>>),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::disk::{Digest, Digesting, DiskLen, PathBelow, Root};

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
