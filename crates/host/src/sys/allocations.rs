//! Counts what watched threads allocate and free, in this crate's own tests.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static COUNT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// Counts the calling thread's allocations until what it returns is dropped.
pub(crate) fn watch_this_thread() -> Watched {
    WATCHED.set(true);
    Watched
}

pub(crate) struct Watched;

impl Drop for Watched {
    fn drop(&mut self) {
        WATCHED.set(false);
    }
}

/// Allocations, and memory freed, by all threads while they were watched.
pub(crate) fn of_watched_threads() -> u64 {
    COUNT.load(Relaxed)
}

struct Counting;

fn count() {
    if WATCHED.get() {
        COUNT.fetch_add(1, Relaxed);
    }
}

// SAFETY: everything is left to the system's allocator; counting does not allocate (the flag is
// initialised at compile time and has no destructor).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller keeps `dealloc`'s contract; the memory is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn only_watched_threads_count() {
    std::thread::spawn(|| {
        // Not `COUNT`: another test asserts that it stays 0.
        assert!(!WATCHED.get());
        let watched = watch_this_thread();
        assert!(WATCHED.get());
        drop(watched);
        assert!(!WATCHED.get());
    })
    .join()
    .unwrap();
}
