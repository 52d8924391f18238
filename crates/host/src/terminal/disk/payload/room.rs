//! Room for what is written, and holes.

use std::ops::Range;

use rustix::fs::{FallocateFlags, fallocate, fstat, fstatvfs};
use rustix::io::Errno;

use super::{AHEAD, PIECE, Payload, WINDOWS};
use crate::terminal::disk::error::{DiskError, refused};

impl Payload {
    /// Has what is written to a range be there: blocks of the disk, and pages of memory. Up to
    /// where it is; not far beyond the start of the range.
    pub(in crate::terminal::disk) fn make_room(
        &mut self,
        range: Range<u64>,
    ) -> Result<u64, DiskError> {
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
    pub(in crate::terminal::disk) fn reserve(
        &mut self,
        range: Range<u64>,
    ) -> Result<(), DiskError> {
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
    pub(in crate::terminal::disk) fn check_free(&self, allocated: u64) -> Result<(), DiskError> {
        let needed = allocated.min(self.len).saturating_sub(self.allocated());
        match needed.saturating_sub(self.free().unwrap_or(needed)) {
            0 => Ok(()),
            missing => Err(DiskError::Full { missing }),
        }
    }

    /// Octets that it takes on the disk.
    pub(super) fn allocated(&self) -> u64 {
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

    /// Makes a range zeros that take no blocks of the disk, where the file system can.
    pub(in crate::terminal::disk) fn punch(&mut self, range: Range<u64>) -> Result<(), DiskError> {
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
    pub(in crate::terminal::disk) fn clear(&mut self, range: Range<u64>) -> Result<(), DiskError> {
        let had_room = self.reserved.start <= range.start && range.end <= self.reserved.end;
        self.punch(range.clone())?;
        self.holes.remove(range.clone());
        if had_room {
            self.allocate(range.clone())?;
            self.populate(range)?;
        }
        Ok(())
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
