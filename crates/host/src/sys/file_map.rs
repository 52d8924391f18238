use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::param::page_size;

use super::bus_error::Watched;

/// A shared writable mapping of a part of a file. A fault in it (the file was shortened, its disk
/// is full or broken) does not end the process: the map has failed from then on, and what is
/// written to it is lost.
#[derive(Debug)]
pub(crate) struct FileMap {
    base: NonNull<u8>,
    len: usize,
    /// None once it is to be unmapped.
    watched: Option<Watched>,
}

// SAFETY: the memory belongs to no thread. Writing takes the map mutably.
unsafe impl Send for FileMap {}

impl FileMap {
    /// Maps `len` octets of `file` from `at`, a multiple of the page. The file may be shorter;
    /// what is behind its end must not be touched.
    ///
    /// # Errors
    /// The file cannot be mapped writable, or there are too many maps.
    pub(crate) fn new(file: impl AsFd, at: u64, len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                access,
                MapFlags::SHARED,
                file,
                at,
            )
        }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut map = Self {
            base,
            len,
            watched: None,
        };
        let from = base.as_ptr() as usize;
        let whole = from..from + len.next_multiple_of(page_size());
        map.watched = Watched::new(whole);
        match map.watched {
            Some(_) => Ok(map),
            None => Err(io::ErrorKind::QuotaExceeded.into()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of `len` octets at `at`.
    ///
    /// # Panics
    /// If they are not all in the map.
    #[inline(always)]
    fn range(&self, at: usize, len: usize) -> *mut u8 {
        assert!(
            len <= self.len && at <= self.len - len,
            "no {len} octets at {at}"
        );
        // SAFETY: at <= len of the live mapping.
        unsafe { self.base.add(at).as_ptr() }
    }

    /// Writes octets at `at` of the map.
    ///
    /// # Panics
    /// If they are not all in the map.
    #[inline(always)]
    pub(crate) fn write(&mut self, at: usize, octets: &[u8]) {
        let to = self.range(at, octets.len());
        // SAFETY: `range` checked the destination; the source is private memory, so they do not
        // overlap. A fault is mended by the handler of SIGBUS.
        unsafe { std::ptr::copy_nonoverlapping(octets.as_ptr(), to, octets.len()) }
    }

    /// Reads octets at `at` of the map. There is no slice of them: others can change the file.
    ///
    /// # Panics
    /// If they are not all in the map.
    pub(crate) fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.range(at, into.len());
        // SAFETY: `range` checked the source; the destination is private memory. Whoever changes
        // the file meanwhile has each octet land as some value that it had.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    /// Has the pages of a range be there and writable, blocks of the disk with them. False: the
    /// kernel cannot (before Linux 5.14), and nothing was done.
    ///
    /// # Errors
    /// A page cannot be had (EFAULT): the file is shorter, or the disk full or broken.
    ///
    /// # Panics
    /// If the range is not in the map.
    pub(crate) fn populate(&mut self, range: Range<usize>) -> io::Result<bool> {
        let start = range.start & !(page_size() - 1);
        let len = range.end - start;
        let at = self.range(start, len).cast();
        loop {
            // SAFETY: the range lies in the mapping; populating changes no octet of it.
            match unsafe { madvise(at, len, Advice::LinuxPopulateWrite) } {
                Ok(()) => return Ok(true),
                Err(Errno::INVAL) => return Ok(false),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether there was a fault: what was written is not in the file.
    pub(crate) fn has_failed(&self) -> bool {
        self.watched.as_ref().is_some_and(Watched::has_failed)
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // Another map may lie there as soon as this one is gone.
        self.watched = None;
        // SAFETY: the mapping is this map's, and nobody has a reference into it.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::io::pread;
    use std::os::fd::OwnedFd;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    fn file(len: u64) -> OwnedFd {
        let file = memfd_create("cellgate-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, len).unwrap();
        file
    }

    fn octets(file: &OwnedFd, at: u64, len: usize) -> Vec<u8> {
        let mut octets = vec![0; len];
        let read = pread(file, &mut octets, at).unwrap();
        octets.truncate(read);
        octets
    }

    #[test]
    fn what_is_written_to_a_map_is_in_the_file() {
        let page = page_size() as u64;
        let file = file(4 * page + 10);
        let mut map = FileMap::new(&file, page, 3 * page as usize + 10).unwrap();
        assert!(map.populate(5..20).unwrap());
        map.write(7, b"cells");
        map.write(map.len() - 4, b"last");
        assert_eq!(octets(&file, page + 7, 5), b"cells");
        assert_eq!(octets(&file, 4 * page + 6, 10), b"last");
        let mut read = [0; 7];
        map.read(6, &mut read);
        assert_eq!(&read, b"\0cells\0");
        assert!(!map.has_failed());
    }

    #[test]
    fn a_file_that_is_shortened_fails_its_own_map_alone() {
        let page = page_size();
        let (short, other) = (file(8 * page as u64), file(8 * page as u64));
        let mut map = FileMap::new(&short, 0, 8 * page).unwrap();
        let mut beside = FileMap::new(&other, 0, 8 * page).unwrap();
        map.write(0, b"kept");
        ftruncate(&short, page as u64).unwrap();
        assert!(map.populate(0..8 * page).is_err());
        assert!(!map.has_failed(), "nothing was lost so far");
        for at in [5 * page + 3, 2 * page, 7 * page, page, 8 * page - 4] {
            map.write(at, b"lost");
            beside.write(at, b"here");
        }
        let mut read = [0; 4];
        map.read(0, &mut read);
        assert_eq!(&read, b"kept", "what the file still has stays mapped");
        assert!(map.has_failed());
        assert!(!beside.has_failed());
        assert_eq!(octets(&other, 2 * page as u64, 4), b"here");
        // A place that is given back has no past.
        drop(map);
        assert!(!FileMap::new(&short, 0, page).unwrap().has_failed());
    }

    /// What a process of its own tries.
    const ROLE: &str = "CELLGATE_TEST_BUS_ERROR";

    /// No test by itself: a process that faults.
    #[test]
    fn plays_its_role() {
        extern "C" fn leaves(_: libc::c_int) {
            // SAFETY: `_exit` may be called in a handler.
            unsafe { libc::_exit(42) }
        }
        let Ok(role) = std::env::var(ROLE) else {
            return;
        };
        if role == "handled" {
            let handler = leaves as extern "C" fn(libc::c_int);
            // SAFETY: the handler does nothing but leave.
            unsafe { libc::signal(libc::SIGBUS, handler as libc::sighandler_t) };
        }
        let page = page_size();
        let watched = file(page as u64);
        if role == "many" {
            let all: Vec<_> = (0..600)
                .map_while(|_| FileMap::new(&watched, 0, page).ok())
                .collect();
            assert!((500..600).contains(&all.len()), "{}", all.len());
            drop(all);
            assert!(FileMap::new(&watched, 0, page).is_ok());
            std::process::exit(43);
        }
        let mut map = FileMap::new(&watched, 0, page).unwrap();
        ftruncate(&watched, 0).unwrap();
        map.write(0, b"lost");
        assert!(map.has_failed());
        if role == "sent" {
            // SAFETY: a signal to this thread.
            unsafe { libc::raise(libc::SIGBUS) };
        }
        let unwatched = file(0);
        let flags = MapFlags::SHARED;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, which nobody else has. The access faults: that is what is tried.
        unsafe {
            let at = mmap(std::ptr::null_mut(), page, access, flags, &unwatched, 0).unwrap();
            at.cast::<u8>().write_volatile(1);
        }
    }

    fn in_role(role: &str) -> (Option<i32>, Option<i32>) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "sys::file_map::tests::plays_its_role"]);
        let run = command.env(ROLE, role).output().unwrap();
        (run.status.code(), run.status.signal())
    }

    #[test]
    fn whoever_comes_too_late_gets_no_map() {
        assert_eq!(in_role("many"), (Some(43), None));
    }

    #[test]
    fn a_fault_that_is_nobodys_does_what_it_did_before() {
        assert_eq!(in_role("default"), (None, Some(libc::SIGBUS)));
        assert_eq!(in_role("sent"), (None, Some(libc::SIGBUS)));
        assert_eq!(in_role("handled"), (Some(42), None));
    }
}
