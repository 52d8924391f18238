//! Who is at the other end.

use crate::Time;

/// A hello is said again so long after the first, and twice as long each time.
const HELLO_NS: u64 = 100_000_000;
const HELLO_MAX_NS: u64 = 2_000_000_000;

/// The other terminal, as far as it is known.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    run: Option<u32>,
    /// When the next hello is due.
    hello_at: Option<Time>,
    pause_ns: u64,
    /// A stranger gets a hello no sooner.
    strangers_at: Time,
}

impl Peer {
    pub(super) fn new(now: Time, begins: bool) -> Self {
        Self {
            run: None,
            hello_at: begins.then_some(now),
            pause_ns: HELLO_NS,
            strangers_at: now,
        }
    }

    pub(super) const fn run(&self) -> Option<u32> {
        self.run
    }

    pub(super) const fn next_deadline(&self) -> Option<Time> {
        self.hello_at
    }

    /// A hello of `run`, which knows this terminal's run rightly, wrongly or not. Whether another
    /// terminal than the one that was known has begun.
    pub(super) fn handle_hello(&mut self, now: Time, run: u32, knows: Option<bool>) -> bool {
        if self.run.is_some_and(|known| known != run) {
            return true;
        }
        self.run = Some(run);
        self.hello_at = (knows != Some(true)).then_some(now);
        false
    }

    /// A PDU of an unknown run: whoever sent it takes this terminal for another.
    pub(super) fn handle_stranger(&mut self, now: Time) {
        if self.hello_at.is_none() && now >= self.strangers_at {
            self.hello_at = Some(now);
            self.strangers_at = now.plus_ns(HELLO_NS);
        }
    }

    /// The hello that is due: whose run it tells.
    pub(super) fn poll(&mut self, now: Time) -> Option<Option<u32>> {
        if self.hello_at.is_none_or(|at| now < at) {
            return None;
        }
        // Once the other is known, it asks again if the answer was lost.
        self.hello_at = if self.run.is_none() {
            let at = now.plus_ns(self.pause_ns);
            self.pause_ns = (2 * self.pause_ns).min(HELLO_MAX_NS);
            Some(at)
        } else {
            None
        };
        Some(self.run)
    }
}
