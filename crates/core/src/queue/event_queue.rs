use super::layout::{EVENT_SLOT_LEN, attachment};
use super::{Consumer, Planted, Words, queue};

/// The client's side of an event queue. What an event means is for the adapter's room to say.
#[derive(Clone, Debug)]
pub struct EventQueue {
    queue: Consumer<queue::Events>,
    lost: u64,
}

impl EventQueue {
    /// The client's side of a fresh queue of `slots` events (a power of two).
    pub fn new(slots: u32) -> Self {
        Self {
            queue: Consumer::new(slots),
            lost: 0,
        }
    }

    /// Whether no event waits; looks at the adapter's head.
    pub fn is_empty<A: Words>(&mut self, from_adapter: &A) -> bool {
        self.queue.available(from_adapter, 1) == 0
    }

    /// The octets of the next event, if one waits.
    pub fn next<C: Words, A: Words>(
        &mut self,
        from_client: &C,
        from_adapter: &A,
    ) -> Option<[u8; EVENT_SLOT_LEN]> {
        let mut slot = [0; EVENT_SLOT_LEN];
        self.queue
            .pop(from_client, from_adapter, &mut slot)
            .then_some(slot)
    }

    /// Events lost since the last call because the queue was full. If any: look at the queues of
    /// all VCs, and only after this call.
    pub fn lost<A: Words>(&mut self, from_adapter: &A) -> u64 {
        let lost = from_adapter.load(attachment::EVENTS_LOST);
        let since = lost.saturating_sub(self.lost);
        self.lost += since;
        if from_adapter.planted(Planted::LostEventsIgnored) {
            return 0;
        }
        since
    }

    /// Events ever taken.
    pub fn taken(&self) -> u64 {
        self.queue.tail()
    }

    /// Times that the adapter's head could not be what it said.
    pub fn faults(&self) -> u32 {
        self.queue.faults()
    }
}
