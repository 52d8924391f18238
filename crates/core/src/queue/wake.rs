//! Sleeping without a lost wake-up.
//!
//! ```text
//!  sleeper                          waker
//!  asleep := n                      publish in the queue
//!  fence                            fence
//!  look at the queue again          asleep /= 0 and not yet woken for it?
//!  empty: block                     wake
//! ```
//!
//! With both fences either the sleeper sees what was published or the waker sees that it sleeps.

use super::Words;

/// The sleeper's side; its file holds the word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sleep {
    sleeps: u64,
}

impl Sleep {
    /// Says that the party is about to sleep. It must look at its queues once more after this, and
    /// block only if they are empty.
    #[inline]
    pub fn announce<W: Words>(&mut self, mine: &W, asleep_at: usize) {
        self.sleeps += 1;
        mine.store(asleep_at, self.sleeps);
        mine.fence();
    }

    /// Says that the party is awake.
    #[inline]
    pub fn end<W: Words>(&mut self, mine: &W, asleep_at: usize) {
        mine.store(asleep_at, 0);
    }

    /// How often the party announced a sleep.
    pub fn sleeps(&self) -> u64 {
        self.sleeps
    }
}

/// The waker's side. It remembers for which sleep it has woken, so that one sleep costs at most
/// one wake-up however much is published during it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    woken: u64,
}

impl Wake {
    /// Whether the peer must be woken, now that something was published for it.
    #[inline]
    #[must_use = "the peer sleeps until somebody wakes it"]
    pub fn is_due<W: Words>(&mut self, peer: &W, asleep_at: usize) -> bool {
        peer.fence();
        let sleep = peer.load(asleep_at);
        let due = sleep != 0 && sleep != self.woken;
        if due {
            self.woken = sleep;
        }
        due
    }
}
