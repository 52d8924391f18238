use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate, fstat, fstatvfs, ftruncate};
use rustix::io::{Errno, pread, pwrite};

use super::error::{DiskError, refused};
use super::runs::Runs;
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
pub(super) struct Payload {
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

    /// Writes octets at their place. What fails is told by [`Self::check`].
    #[inline]
    pub(super) fn write(&mut self, mut at: u64, mut octets: &[u8]) {
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
    pub(super) fn read(&self, range: Range<u64>, mut take: impl FnMut(&[u8])) -> Result<(), Errno> {
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
                    other => other?,
                },
            };
            take(&into[..read]);
            at += read as u64;
        }
        Ok(())
    }

    /// Has what is written to a range be there: blocks of the disk, and pages of memory. Up to
    /// where it is; not far beyond the start of the range.
    pub(super) fn make_room(&mut self, range: Range<u64>) -> Result<u64, DiskError> {
        let (first, _) = self.place(range.start);
        let far = (first + AHEAD).saturating_mul(self.window_len());
        let end = range.end.min(far).min(self.size.unwrap_or(u64::MAX));
        let range = range.start.min(end)..end;
        self.holes.remove(0..range.start);
        self.reserve(range.clone())?;
        if self.len < end {
            self.set_len(end)?;
        }
        for number in self.place(range.start).0..end.div_ceil(self.window_len()) {
            self.map(number);
        }
        for gap in self.holes.gaps(beyond(&self.populated, &range)) {
            self.populate(gap)?;
        }
        extend(&mut self.populated, range);
        Ok(end)
    }

    /// Sets blocks of the disk aside for a range, but for the holes in it.
    pub(super) fn reserve(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        for gap in self.holes.gaps(beyond(&self.reserved, &range)) {
            self.allocate(gap)?;
        }
        extend(&mut self.reserved, range);
        Ok(())
    }

    fn allocate(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        let len = range.end - range.start;
        while self.reserves && len > 0 {
            match fallocate(&self.file, FallocateFlags::empty(), range.start, len) {
                Ok(()) => {
                    self.len = self.len.max(range.end);
                    break;
                }
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.reserves = false,
                Err(Errno::NOSPC | Errno::DQUOT) => return Err(self.full(range)),
                Err(error) => return Err(refused("setting blocks aside for", &self.path)(error)),
            }
        }
        Ok(())
    }

    /// Whether the disk has room for a file that takes this much of it.
    pub(super) fn check_free(&self, allocated: u64) -> Result<(), DiskError> {
        let needed = allocated.min(self.len).saturating_sub(self.allocated());
        match needed.saturating_sub(self.free().unwrap_or(needed)) {
            0 => Ok(()),
            missing => Err(DiskError::Full { missing }),
        }
    }

    /// Octets that it takes on the disk.
    fn allocated(&self) -> u64 {
        let blocks = fstat(&self.file).map_or(0, |found| found.st_blocks);
        u64::try_from(blocks).unwrap_or(0).saturating_mul(512)
    }

    /// Octets that the disk has for this user; none: it does not say.
    fn free(&self) -> Option<u64> {
        let disk = fstatvfs(&self.file).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// How much is missing for a range.
    fn full(&self, range: Range<u64>) -> DiskError {
        let needed = range.end.saturating_sub(self.allocated());
        let needed = needed.min(range.end - range.start);
        // The file system takes some for itself, or the quota is smaller than the disk.
        let missing = needed.saturating_sub(self.free().unwrap_or(0)).max(1);
        DiskError::Full { missing }
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

    /// Has pages be there, so that a full disk is an error here and no fault later.
    fn populate(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        let mut at = range.start;
        while at < range.end && self.is_mapped {
            let (number, offset) = self.place(at);
            let base = at - offset;
            let end = range.end.min(base + self.window_len());
            let window = self.windows[(number % WINDOWS as u64) as usize].as_mut();
            let within = offset as usize..(end - base) as usize;
            let Some(window) = window.filter(|window| window.number == number) else {
                return Ok(());
            };
            match window.map.populate(within) {
                Ok(true) => {}
                // With blocks set aside no fault fails; without, writing tells what does.
                Ok(false) if self.reserves => return Ok(()),
                Ok(false) => self.write_from_now_on(),
                Err(_) => return Err(self.unpopulated(at..end)),
            }
            at = end;
        }
        Ok(())
    }

    fn unpopulated(&self, range: Range<u64>) -> DiskError {
        match self.free().unwrap_or(u64::MAX) < range.end - range.start {
            true => self.full(range),
            false => self.lost(),
        }
    }

    fn lost(&self) -> DiskError {
        let path = self.path.clone();
        DiskError::Lost { path }
    }

    /// Makes a range zeros that take no blocks of the disk, where the file system can.
    pub(super) fn punch(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        if range.is_empty() {
            return Ok(());
        }
        self.holes.insert(range.clone());
        if self.size.is_none() && self.len < range.end {
            self.set_len(range.end)?;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        loop {
            match fallocate(&self.file, flags, range.start, range.end - range.start) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => break,
                Err(error) => return Err(refused("making a hole in", &self.path)(error)),
            }
        }
        let mut at = range.start;
        while at < range.end.min(self.len) {
            let piece = (range.end.min(self.len) - at).min(PIECE as u64);
            self.write_file(at, &[0; PIECE][..piece as usize]);
            self.check()?;
            at += piece;
        }
        Ok(())
    }

    /// Makes a range zeros that can be written once more.
    pub(super) fn clear(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        let had_room = self.reserved.start <= range.start && range.end <= self.reserved.end;
        self.punch(range.clone())?;
        self.holes.remove(range.clone());
        if had_room {
            self.allocate(range.clone())?;
            self.populate(range)?;
        }
        Ok(())
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

impl AsFd for Payload {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What of a range is behind what a mark covers.
fn beyond(mark: &Range<u64>, range: &Range<u64>) -> Range<u64> {
    match mark.start <= range.start && range.start <= mark.end {
        true => mark.end.min(range.end).max(range.start)..range.end,
        false => range.clone(),
    }
}

fn extend(mark: &mut Range<u64>, range: Range<u64>) {
    match mark.start <= range.start && range.start <= mark.end {
        true => mark.end = mark.end.max(range.end),
        false => *mark = range,
    }
}

#[cfg(test)]
mod tests;
