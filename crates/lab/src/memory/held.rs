//! Memory that adapter and client hold together: vectors that grow as they are used, known on
//! their thread by numbers, so that a snapshot can name them.

use std::any::Any;
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::{Rc, Weak};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Octets that memory grows by at least.
const GROWTH: usize = 512;

thread_local! {
    static NEXT: Cell<u64> = const { Cell::new(0) };
    static KNOWN: RefCell<BTreeMap<u64, Weak<dyn Any>>> = const { RefCell::new(BTreeMap::new()) };
}

/// A memory of this thread. Clones are the same memory; serialised, it is its number.
pub(super) struct Held<T: 'static>(Rc<Numbered<T>>);

struct Numbered<T> {
    memory: T,
    number: u64,
}

impl<T> Drop for Numbered<T> {
    fn drop(&mut self) {
        // At the end of the thread the list may be gone already.
        let _ = KNOWN.try_with(|known| known.borrow_mut().remove(&self.number));
    }
}

impl<T> Held<T> {
    pub(super) fn new(memory: T) -> Self {
        let number = NEXT.replace(NEXT.get() + 1);
        let held = Rc::new(Numbered { memory, number });
        let known: Weak<Numbered<T>> = Rc::downgrade(&held);
        KNOWN.with_borrow_mut(|all| all.insert(number, known));
        Self(held)
    }

    /// No other memory of the thread has it.
    pub(super) fn number(&self) -> u64 {
        self.0.number
    }
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0.memory
    }
}

impl<T> Serialize for Held<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.number().serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for Held<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        KNOWN
            .with_borrow(|all| all.get(&number).and_then(Weak::upgrade))
            .and_then(|known| known.downcast().ok())
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("nobody holds the memory any more"))
    }
}

/// So many octets. Those that were used, and those before them, lie in a vector; behind them all
/// are 0.
pub(super) struct Growing {
    used: RefCell<Vec<u8>>,
    len: u32,
}

impl Growing {
    pub(super) fn new(len: usize) -> Self {
        Self {
            used: RefCell::default(),
            len: u32::try_from(len).expect("a memory is below 4 GiB"),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Those that were used.
    #[inline]
    pub(super) fn used(&self) -> Ref<'_, Vec<u8>> {
        self.used.borrow()
    }

    /// The same, and all up to `end` at least.
    #[inline]
    pub(super) fn used_to(&self, end: usize) -> RefMut<'_, Vec<u8>> {
        let mut used = self.used.borrow_mut();
        if used.len() < end {
            self.grow(&mut used, end);
        }
        used
    }

    #[cold]
    fn grow(&self, used: &mut Vec<u8>, end: usize) {
        assert!(end <= self.len(), "inside the memory");
        used.resize(end.next_multiple_of(GROWTH).min(self.len()), 0);
    }
}
