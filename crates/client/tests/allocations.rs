//! After open, nothing on the data path allocates.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use cellgate::Interest;
use common::{Daemon, PATIENCE};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all of it is the system's, and counting touches no memory but a thread's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn sending_and_receiving_allocate_and_free_nothing() {
    let daemon = Daemon::start();
    let (a, b) = daemon.pair("cbr,aal5:pcr=400000,max_sdu=1000");
    let mut buffer = [0; 1_000];
    let before = ALLOCATIONS.get();
    for i in 0..500 {
        a.send(&[1; 1_000]).unwrap();
        a.reserve(1 + i).unwrap().submit().unwrap();
        assert_eq!(b.recv_timeout(&mut buffer, PATIENCE).unwrap().len, 1_000);
        assert_eq!(b.next_pdu_timeout(PATIENCE).unwrap().len(), 1 + i);
        assert!(b.try_recv(&mut buffer).unwrap_err().is_would_block());
        assert!(b.arm(Interest::RECEIVE).unwrap());
    }
    assert_eq!(ALLOCATIONS.get(), before);
    // The counter counts.
    drop(vec![1]);
    assert!(ALLOCATIONS.get() > before);
}
