//! Memories that somebody on this thread holds, by their numbers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

thread_local! {
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// A number that no other memory of this thread has.
pub(super) fn number() -> u64 {
    NEXT.with(|next| next.replace(next.get() + 1))
}

/// Those of one kind.
pub(super) struct Known<T>(RefCell<BTreeMap<u64, Weak<T>>>);

impl<T> Known<T> {
    pub(super) const fn new() -> Self {
        Self(RefCell::new(BTreeMap::new()))
    }

    pub(super) fn add(&self, number: u64, memory: &Rc<T>) {
        self.0.borrow_mut().insert(number, Rc::downgrade(memory));
    }

    /// None: nobody holds it any more.
    pub(super) fn find(&self, number: u64) -> Option<Rc<T>> {
        self.0.borrow().get(&number).and_then(Weak::upgrade)
    }

    pub(super) fn forget(&self, number: u64) {
        self.0.borrow_mut().remove(&number);
    }
}
