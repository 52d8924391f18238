use std::os::fd::AsFd;

use rustix::fs::fstat;
use rustix::mm::{Advice, madvise};

use crate::ShmError;
use crate::map::{Access, Map};
use crate::memfd::{FOREIGN, Length, verify};

/// A memory file of a connection, looked at for pages that somebody takes away.
///
/// It is a map of its own: a hole that somebody punches into a file, or a huge page put in place of
/// small ones, takes pages out of all maps of it.
#[derive(Debug)]
pub struct Presence {
    map: Map,
}

impl Presence {
    /// Looks at a file as it is now, all of its pages present.
    ///
    /// # Errors
    /// It is no memory file, could be shortened, or cannot be mapped.
    pub fn of(file: impl AsFd) -> Result<Self, ShmError> {
        let file = file.as_fd();
        let len = fstat(file).map_err(ShmError::system("fstat"))?.st_size;
        let len = usize::try_from(len).unwrap_or(0);
        verify(file, FOREIGN, Length::Exactly(len))?;
        let map = Map::file(file, len, Access::ReadOnly)?;
        Ok(Self { map })
    }

    /// Has the kernel find all pages that are gone from the map; how many page faults that took:
    /// one for each page, or one for some neighbours together. It waits as long as whoever took
    /// them makes it. Where the kernel has to read some from a disk, it had written them there
    /// itself: then it is none.
    ///
    /// # Errors
    /// The kernel is older than Linux 5.14, or out of memory.
    pub fn restore(&self) -> Result<u32, ShmError> {
        let words = self.map.words();
        let (start, len) = (words.range(0, words.len()), words.len());
        let (minor, major) = page_faults();
        // SAFETY: the range is this map's; the advice changes nothing that is in it.
        unsafe { madvise(start.cast(), len, Advice::LinuxPopulateRead) }
            .map_err(ShmError::system("madvise(MADV_POPULATE_READ)"))?;
        let (minor_after, major_after) = page_faults();
        match major_after == major {
            true => Ok(u32::try_from(minor_after - minor).unwrap_or(u32::MAX)),
            false => Ok(0),
        }
    }
}

/// Page faults of the calling thread: those that the kernel ended with what it had, and those for
/// which it read from a disk.
fn page_faults() -> (i64, i64) {
    // SAFETY: all zero is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: `usage` is a valid place for the one struct that the call writes. It fails only for
    // another `who` or a bad address.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (usage.ru_minflt, usage.ru_majflt)
}
