//! Counters of a link for other threads.

use std::sync::{Mutex, PoisonError};

/// Counters for other threads. Their thread writes them if nobody is just reading, and never
/// waits; what it could not show, it shows the next time.
#[derive(Debug, Default)]
pub(crate) struct Shown<T>(Mutex<T>);

impl<T: Copy> Shown<T> {
    pub(crate) fn publish(&self, counts: T) {
        if let Ok(mut shown) = self.0.try_lock() {
            *shown = counts;
        }
    }

    pub(crate) fn read(&self) -> T {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
