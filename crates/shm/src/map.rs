use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use cellgate_core::queue::Words;
use cellgate_core::queue::layout::PAGE_LEN;
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap, mmap_anonymous, munmap};

use crate::ShmError;

/// Who may write through a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nobody: the memory is mapped read-only.
    ReadOnly,
    ReadWrite,
}

impl Access {
    fn prot(self) -> ProtFlags {
        match self {
            Self::ReadOnly => ProtFlags::READ,
            Self::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

/// Mapped memory as [`Words`]. It borrows from the [`Map`] it was made for, whose owner hands it
/// out only by reference.
#[derive(Debug)]
pub struct SharedWords {
    base: NonNull<u8>,
    len: u32,
    writable: bool,
    /// A receive buffer that nobody but the adapter can write.
    pub(crate) sole_writer: bool,
}

// SAFETY: the memory belongs to no thread. Not `Sync`: two threads with one writable handle could
// race their copies; each side of a queue has a map of its own.
unsafe impl Send for SharedWords {}

impl SharedWords {
    /// Octets of the memory.
    #[inline(always)]
    #[expect(clippy::len_without_is_empty, reason = "no map is empty")]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// # Panics
    /// If `offset` is not a word of the memory.
    #[inline(always)]
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset < self.len(),
            "no word at {offset}"
        );
        // SAFETY: base is page-aligned and the length whole pages, so a multiple of 8 below the
        // length is an aligned word of the live mapping. Others access it atomically or not at
        // all. A read-only mapping is only loaded from.
        unsafe { AtomicU64::from_ptr(self.base.add(offset).cast().as_ptr()) }
    }

    /// The address of `len` octets at `offset`.
    ///
    /// # Panics
    /// If they are not all in the memory.
    #[inline(always)]
    pub(crate) fn range(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(
            len <= self.len() && offset <= self.len() - len,
            "no {len} octets at {offset}"
        );
        // SAFETY: offset <= len of the live mapping.
        unsafe { self.base.add(offset).as_ptr() }
    }

    #[inline(always)]
    fn check_writable(&self) {
        assert!(self.writable, "the memory is mapped read-only");
    }

    pub(crate) fn none() -> Self {
        Self {
            base: NonNull::dangling(),
            len: 0,
            writable: false,
            sole_writer: false,
        }
    }

    /// The same memory again, for a struct that also keeps the map alive.
    pub(crate) fn alias(&self) -> Self {
        Self {
            base: self.base,
            len: self.len,
            writable: self.writable,
            sole_writer: self.sole_writer,
        }
    }
}

impl Words for SharedWords {
    #[inline(always)]
    fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    #[inline(always)]
    fn store(&self, offset: usize, value: u64) {
        self.check_writable();
        self.word(offset).store(value, Ordering::Release);
    }

    #[inline(always)]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    /// Offsets outside the memory are hints about something else, and do nothing worse.
    #[inline(always)]
    fn prefetch(&self, offset: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let at = self.base.as_ptr().wrapping_add(offset);
            // SAFETY: SSE is part of x86-64; the hint touches nothing, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = offset;
    }

    #[inline(always)]
    fn copy_in(&self, offset: usize, octets: &[u8]) {
        self.check_writable();
        let to = self.range(offset, octets.len());
        // SAFETY: `range` checked the destination; the source is private memory, so they do not
        // overlap. The queue protocol gives these octets to this side alone until it publishes.
        unsafe { core::ptr::copy_nonoverlapping(octets.as_ptr(), to, octets.len()) }
    }

    #[inline(always)]
    fn copy_out(&self, offset: usize, octets: &mut [u8]) {
        let from = self.range(offset, octets.len());
        // SAFETY: `range` checked the source; the destination is private memory. A party that
        // breaks the protocol can change octets while they are copied: each lands as some value it
        // had, and everything after works on the copy.
        unsafe { core::ptr::copy_nonoverlapping(from, octets.as_mut_ptr(), octets.len()) }
    }
}

/// A mapping, or heap memory in its place where no system calls are to be had.
#[derive(Debug)]
pub struct Map {
    words: SharedWords,
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    /// Unmapped on drop: `len` octets from the base.
    Mapped { len: usize },
    /// Freed with its last user.
    Heap(#[expect(dead_code, reason = "held to keep the memory alive")] Arc<Heap>),
}

impl Map {
    /// Maps the first `len` octets of `file` (whole pages), whose length the caller has verified.
    pub(crate) fn file(file: BorrowedFd<'_>, len: usize, access: Access) -> Result<Self, ShmError> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            mmap(
                core::ptr::null_mut(),
                len,
                access.prot(),
                MapFlags::SHARED | MapFlags::POPULATE,
                file,
                0,
            )
        };
        let base = base.map_err(ShmError::system("mmap"))?;
        Ok(Self::over(base, len, len, access))
    }

    /// Maps `len` octets of `file` from `at` (both whole pages) twice, one behind the other.
    pub(crate) fn mirrored(
        file: BorrowedFd<'_>,
        at: usize,
        len: usize,
        access: Access,
    ) -> Result<Self, ShmError> {
        // SAFETY: a new mapping at an address of the kernel's choice. It reserves the range, so
        // that what is mapped over it below replaces nothing else.
        let base = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                2 * len,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let base = base.map_err(ShmError::system("mmap"))?;
        // From here on the drop of `map` unmaps the range, whatever fails.
        let map = Self::over(base, 2 * len, 2 * len, access);
        for half in 0..2 {
            let flags = MapFlags::SHARED | MapFlags::POPULATE | MapFlags::FIXED;
            // SAFETY: the range lies in the reservation, which nobody uses yet.
            unsafe {
                let address = base.cast::<u8>().add(half * len).cast::<c_void>();
                mmap(address, len, access.prot(), flags, file, at as u64)
            }
            .map_err(ShmError::system("mmap"))?;
        }
        Ok(map)
    }

    /// Keeps its pages where they are until they are unmapped, as far as this process may
    /// (`RLIMIT_MEMLOCK`).
    pub(crate) fn lock(&self) -> Result<(), ShmError> {
        let Backing::Mapped { len } = self.backing else {
            return Ok(());
        };
        let base = self.words.base.as_ptr().cast::<c_void>();
        // SAFETY: the range is this mapping; whether it is locked changes no octet of it.
        unsafe { mlock(base, len) }.map_err(ShmError::system("mlock"))
    }

    /// Octets that are mapped.
    pub(crate) const fn mapped_len(&self) -> usize {
        match self.backing {
            Backing::Mapped { len } => len,
            Backing::Heap(_) => 0,
        }
    }

    /// Two handles of the same zeroed heap memory of `len` octets (whole pages): the first writes.
    pub fn heap(len: usize) -> (Self, Self) {
        assert!(
            len > 0 && len.is_multiple_of(PAGE_LEN),
            "whole pages: {len}"
        );
        let heap = Arc::new(Heap::new(len));
        let handle = |access: Access| Self {
            words: SharedWords {
                base: heap.base,
                len: len as u32,
                writable: access == Access::ReadWrite,
                sole_writer: false,
            },
            backing: Backing::Heap(Arc::clone(&heap)),
        };
        (handle(Access::ReadWrite), handle(Access::ReadOnly))
    }

    #[inline(always)]
    pub fn words(&self) -> &SharedWords {
        &self.words
    }

    fn over(base: *mut c_void, len: usize, mapped: usize, access: Access) -> Self {
        Self {
            words: SharedWords {
                base: NonNull::new(base.cast()).expect("the kernel maps nothing at address 0"),
                // Two buffers of BUFFER_LEN_MAX are the most that is ever mapped in one piece.
                len: u32::try_from(len).expect("a geometry limits every length to 2^31"),
                writable: access == Access::ReadWrite,
                sole_writer: false,
            },
            backing: Backing::Mapped { len: mapped },
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if let Backing::Mapped { len } = self.backing {
            // SAFETY: the range was mapped by this value and nothing borrows from it any more.
            let unmapped = unsafe { munmap(self.words.base.as_ptr().cast(), len) };
            debug_assert!(unmapped.is_ok(), "munmap of a mapped range");
        }
    }
}

#[derive(Debug)]
struct Heap {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: only an owner of memory; what is done with the memory is `SharedWords`' affair.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Heap {
    fn new(len: usize) -> Self {
        let layout = Layout::from_size_align(len, PAGE_LEN).expect("whole pages, limited");
        // SAFETY: the layout is not empty: `Map::heap` checked.
        let base = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else {
            handle_alloc_error(layout)
        };
        Self { base, layout }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and this is the last owner.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

const _: () = assert!(size_of::<SharedWords>() == 16);
const _: () = assert!(2 * (cellgate_core::queue::layout::BUFFER_LEN_MAX as u64) <= u32::MAX as u64);
const _: () = assert!(cellgate_core::queue::layout::FILE_LEN_MAX as u64 <= u32::MAX as u64);
