use std::ops::Range;
use std::os::fd::OwnedFd;

use cellgate_core::terminal::Source;
use rustix::fs::{Advice, OFlags, SeekFrom, fadvise, fstat, seek};
use rustix::io::{Errno, pread};

use super::Digest;

use super::entry::{Entry, Kind, identity_of};
use super::error::{DiskError, refused};
use super::path::PathBelow;
use super::root::Root;

const PIECE: usize = 1 << 20;

/// A file that is sent.
#[derive(Debug)]
pub struct SourceFile {
    file: OwnedFd,
    entry: Entry,
    /// What [`Source::read`] could not read.
    fault: Option<DiskError>,
}

impl SourceFile {
    pub(super) fn open(root: &Root, path: &PathBelow) -> Result<Self, DiskError> {
        // Opening a FIFO waits for nobody, and opening a terminal does not make it this process's.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = root.resolve(Some(path), flags);
        let file = file.map_err(|error| match error {
            Errno::NXIO => DiskError::NoFile {
                path: path.to_string(),
            },
            error => refused("opening", path)(error),
        })?;
        let found = fstat(&file).map_err(refused("looking at", path))?;
        let entry = Entry::of(path.clone(), &found);
        let Some(entry) = entry.filter(|entry| entry.kind == Kind::File) else {
            let path = path.to_string();
            return Err(DiskError::NoFile { path });
        };
        // Only a hint.
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        Ok(Self {
            file,
            entry,
            fault: None,
        })
    }

    /// What it was when it was opened.
    pub const fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Reads octets from `at`: as many as `into` has, fewer at the end of the file alone.
    ///
    /// # Errors
    /// The disk failed.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        read_at(&self.file, into, at).map_err(refused("reading", &self.entry.path))
    }

    /// The digest of all of it, as `b3sum` prints it; of what was read until it `stops`.
    ///
    /// # Errors
    /// The disk failed.
    pub fn digest(&self, stops: impl Fn() -> bool) -> Result<Digest, DiskError> {
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        loop {
            let read = self.read_at(at, &mut piece)?;
            if read == 0 || stops() {
                return Ok(Digest(*hasher.finalize().as_bytes()));
            }
            hasher.update(&piece[..read]);
            at += read as u64;
        }
    }

    /// The first stretch of data at or after `at`; empty, at the end of the file: only a hole
    /// follows. Where the file system does not tell holes all is data.
    pub fn data(&self, at: u64) -> Range<u64> {
        let size = self.entry.size;
        if at >= size {
            return size..size;
        }
        let start = match seek(&self.file, SeekFrom::Data(at)) {
            Ok(start) => start.clamp(at, size),
            // Nothing but a hole; or the file is shorter by now.
            Err(Errno::NXIO) => return size..size,
            Err(_) => return at..size,
        };
        let end = seek(&self.file, SeekFrom::Hole(start)).unwrap_or(size);
        start..end.clamp(start, size)
    }

    /// Whether it is what it was when it was opened: nobody has written to it, or shortened it.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn is_unchanged(&self) -> Result<bool, DiskError> {
        let found = fstat(&self.file).map_err(refused("looking at", &self.entry.path))?;
        Ok(identity_of(&found) == self.entry.identity)
    }
}

/// What is behind the end of the file, or cannot be read, is zeros.
impl Source for SourceFile {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        let read = match self.read_at(at, into) {
            Ok(read) => read,
            Err(fault) => {
                self.fault = Some(fault);
                0
            }
        };
        into[read..].fill(0);
    }

    /// Of a file that takes the blocks of its size, what its file system calls a hole is data.
    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        if !self.entry.is_sparse() {
            return at.min(end)..end;
        }
        let data = Self::data(self, at);
        data.start.min(end)..data.end.min(end)
    }

    /// What could not be read, once: zeros were sent for it.
    fn fault(&mut self) -> Option<String> {
        self.fault.take().map(|fault| fault.to_string())
    }
}

/// Octets that were read from `at` on: as many as `into` has, fewer at the end of the file alone.
pub(super) fn read_at(file: &OwnedFd, into: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut read = 0;
    while read < into.len() {
        match pread(file, &mut into[read..], at + read as u64) {
            Ok(0) => break,
            Ok(octets) => read += octets,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
