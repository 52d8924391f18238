mod room;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use cellgate_core::terminal::Store;
use cellgate_core::terminal::unfinished::Runs;
use rustix::fs::{fstat, ftruncate};
use rustix::io::{Errno, pread, pwrite};

use super::error::{DiskError, refused};
use crate::sys::{FileMap, LockedFile};

/// Windows of 64 MiB: their octets as a power of two.
pub(super) const WINDOW_BITS: u32 = 26;
/// Windows at a time. A window has the place of its number, so that the next ones replace the
/// first.
const WINDOWS: usize = 4;
/// Windows that room is made in by one call.
const AHEAD: u64 = 2;
const PIECE: usize = 32 << 10;

/// The octets of an unfinished file: mapped, window by window, or written, where they cannot be
/// mapped or the place has no window.
#[derive(Debug)]
pub struct Payload {
    file: Arc<LockedFile>,
    /// For people.
    path: String,
    size: Option<u64>,
    /// Octets of the file: nothing is touched behind them.
    len: u64,
    window_bits: u32,
    windows: [Option<Window>; WINDOWS],
    is_mapped: bool,
    /// Blocks of the disk are there for these.
    reserved: Range<u64>,
    /// Pages were there for these.
    populated: Range<u64>,
    /// Holes that room is not made for.
    holes: Runs,
    /// The file system sets blocks aside.
    reserves: bool,
    /// A window has failed that is gone.
    is_lost: bool,
    /// What writing failed with.
    fault: Option<Errno>,
}

#[derive(Debug)]
struct Window {
    number: u64,
    map: FileMap,
}

impl Window {
    #[inline]
    fn has(&self, number: u64, offset: u64, len: usize) -> bool {
        self.number == number && offset as usize + len <= self.map.len()
    }
}

impl Payload {
    /// Of a file that is to have `size` octets; none: that is not known yet. It gets them at once,
    /// as a hole.
    pub(super) fn new(
        file: Arc<LockedFile>,
        path: String,
        size: Option<u64>,
        window_bits: u32,
    ) -> Result<Self, DiskError> {
        let found = fstat(&file).map_err(refused("looking at", &path))?;
        let mut payload = Self {
            file,
            path,
            size,
            len: u64::try_from(found.st_size).unwrap_or(0),
            window_bits,
            windows: [const { None }; WINDOWS],
            is_mapped: true,
            reserved: 0..0,
            populated: 0..0,
            holes: Runs::default(),
            reserves: true,
            is_lost: false,
            fault: None,
        };
        match size {
            Some(size) if size != payload.len => payload.set_len(size)?,
            _ => {}
        }
        Ok(payload)
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    const fn window_len(&self) -> u64 {
        1 << self.window_bits
    }

    /// The window that an offset is in, and where in it.
    #[inline]
    const fn place(&self, at: u64) -> (u64, u64) {
        (at >> self.window_bits, at & (self.window_len() - 1))
    }

    fn set_len(&mut self, len: u64) -> Result<(), DiskError> {
        ftruncate(&self.file, len).map_err(refused("setting the size of", &self.path))?;
        self.len = len;
        Ok(())
    }

    #[cold]
    fn write_file(&mut self, mut at: u64, mut octets: &[u8]) {
        while !octets.is_empty() {
            match pwrite(&self.file, octets, at) {
                Ok(written) => {
                    at += written as u64;
                    octets = &octets[written..];
                    self.len = self.len.max(at);
                }
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.fault.get_or_insert(error);
                    return;
                }
            }
        }
    }

    /// Hands the octets of a range on, piece by piece, as they are in the file. What is behind its
    /// end is not handed on.
    pub(super) fn read(
        &self,
        range: Range<u64>,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), DiskError> {
        let mut buffer = [0; PIECE];
        let mut at = range.start;
        let end = range.end.min(self.len);
        while at < end {
            let (number, offset) = self.place(at);
            let piece = (self.window_len() - offset).min(end - at).min(PIECE as u64) as usize;
            let into = &mut buffer[..piece];
            let read = match &self.windows[(number % WINDOWS as u64) as usize] {
                Some(window) if window.has(number, offset, piece) => {
                    window.map.read(offset as usize, into);
                    piece
                }
                _ => match pread(&self.file, &mut *into, at) {
                    Ok(0) => return Ok(()),
                    Err(Errno::INTR) => 0,
                    other => other.map_err(refused("reading", &self.path))?,
                },
            };
            take(&into[..read]);
            at += read as u64;
        }
        Ok(())
    }

    /// Maps a window, unless it is.
    fn map(&mut self, number: u64) {
        let place = (number % WINDOWS as u64) as usize;
        let at = number << self.window_bits;
        let len = self.window_len().min(self.size.unwrap_or(u64::MAX) - at);
        let is_there = self.windows[place]
            .as_ref()
            .is_some_and(|window| window.number == number);
        if is_there || !self.is_mapped {
            return;
        }
        self.unmap(place);
        // A window fits in memory: that is what its bits are for.
        match FileMap::new(&self.file, at, len as usize) {
            Ok(map) => self.windows[place] = Some(Window { number, map }),
            Err(_) => self.write_from_now_on(),
        }
    }

    fn unmap(&mut self, place: usize) {
        let window = self.windows[place].take();
        self.is_lost |= window.is_some_and(|window| window.map.has_failed());
    }

    fn write_from_now_on(&mut self) {
        self.is_mapped = false;
        self.unmap_all();
    }

    /// Gives the maps up. What was written stays.
    pub(super) fn unmap_all(&mut self) {
        (0..WINDOWS).for_each(|place| self.unmap(place));
    }

    fn lost(&self) -> DiskError {
        let path = self.path.clone();
        DiskError::Lost { path }
    }

    /// Whether all that was written is in the file.
    pub(super) fn check(&self) -> Result<(), DiskError> {
        let mut windows = self.windows.iter().flatten();
        if self.is_lost || windows.any(|window| window.map.has_failed()) {
            return Err(self.lost());
        }
        match self.fault {
            None => Ok(()),
            Some(error) => Err(refused("writing", &self.path)(error)),
        }
    }
}

/// What fails is told by [`Payload::check`].
impl Store for Payload {
    #[inline]
    fn write(&mut self, mut at: u64, mut octets: &[u8]) {
        while !octets.is_empty() {
            let (number, offset) = self.place(at);
            let piece = (self.window_len() - offset).min(octets.len() as u64) as usize;
            let (now, rest) = octets.split_at(piece);
            let end = at + piece as u64;
            match &mut self.windows[(number % WINDOWS as u64) as usize] {
                Some(window) if window.has(number, offset, piece) && end <= self.len => {
                    window.map.write(offset as usize, now);
                }
                _ => self.write_file(at, now),
            }
            (at, octets) = (end, rest);
        }
    }
}

impl AsFd for Payload {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
