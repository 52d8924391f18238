//! The one queue algorithm: free-running 64-bit indices, one producer, one consumer, neither
//! trusting the other.
//!
//! The producer owns the head, the consumer the tail; each keeps its own index, and the last sane
//! value it has read of the other's, in private memory. A word of the other party that goes
//! backwards, or farther than slots exist, is ignored and counted as a fault: the queue goes on
//! with what was known before.

use core::marker::PhantomData;

use serde::{Deserialize, Serialize};

use super::layout::Queue;
use super::{Planted, Words};

/// The side that fills a queue. Its file holds head and slots, its peer's the tail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Producer<Q> {
    head: u64,
    tail: u64,
    mask: u32,
    faults: u32,
    queue: PhantomData<Q>,
}

/// The side that empties a queue. Its file holds the tail, its peer's head and slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Consumer<Q> {
    tail: u64,
    head: u64,
    mask: u32,
    faults: u32,
    queue: PhantomData<Q>,
}

const _: () = assert!(size_of::<Producer<super::queue::Receive>>() <= 32);
const _: () = assert!(size_of::<Consumer<super::queue::Receive>>() <= 32);

/// # Panics
/// If `slots` is no power of two: sizes come from a checked geometry.
fn mask(slots: u32) -> u32 {
    assert!(slots.is_power_of_two(), "slots of a queue: {slots}");
    slots - 1
}

impl<Q: Queue> Producer<Q> {
    /// The producer of a fresh queue of `slots` slots (a power of two) in zeroed memory.
    pub fn new(slots: u32) -> Self {
        Self::starting_at(slots, 0)
    }

    /// The producer of an empty queue whose both indices stand at `index`.
    pub fn starting_at(slots: u32, index: u64) -> Self {
        Self {
            head: index,
            tail: index,
            mask: mask(slots),
            faults: 0,
            queue: PhantomData,
        }
    }

    /// The producer of a queue that another has left, as its words tell: what was published is.
    /// Words that cannot be make an empty queue. A fresh queue is as from [`Producer::new`].
    pub fn resumed<W: Words, P: Words>(slots: u32, mine: &W, peer: &P) -> Self {
        let (head, tail) = (mine.load(Q::HEAD), peer.load(Q::TAIL));
        let published = head.wrapping_sub(tail) <= u64::from(slots);
        Self {
            head: if published { head } else { tail },
            ..Self::starting_at(slots, tail)
        }
    }

    /// Slots of the queue.
    #[inline(always)]
    pub fn slots(&self) -> u32 {
        self.mask + 1
    }

    /// Slots ever published.
    #[inline(always)]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Slots that the consumer has released, as last seen.
    #[inline(always)]
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Times that the consumer's tail could not be what it said.
    #[inline(always)]
    pub fn faults(&self) -> u32 {
        self.faults
    }

    /// Free slots as last seen: at least so many are free.
    #[inline(always)]
    pub fn free_seen(&self) -> u32 {
        // The difference is at most `slots` by `refresh` and `publish`.
        self.slots() - self.head.wrapping_sub(self.tail) as u32
    }

    /// Reads the consumer's tail; free slots.
    #[inline(always)]
    pub fn refresh<W: Words>(&mut self, peer: &W) -> u32 {
        let tail = peer.load(Q::TAIL);
        if tail.wrapping_sub(self.tail) <= self.head.wrapping_sub(self.tail) {
            self.tail = tail;
        } else {
            self.faults = self.faults.saturating_add(1);
        }
        self.free_seen()
    }

    /// Free slots; reads the consumer's tail only if fewer than `wanted` were seen.
    #[inline(always)]
    pub fn free<W: Words>(&mut self, peer: &W, wanted: u32) -> u32 {
        let seen = self.free_seen();
        if seen >= wanted {
            seen
        } else {
            self.refresh(peer)
        }
    }

    /// Number of the `i`-th slot not yet published.
    #[inline(always)]
    pub fn slot(&self, i: u32) -> usize {
        (self.head as u32).wrapping_add(i) as usize & self.mask as usize
    }

    /// Offset in the producer's file of the `i`-th slot not yet published.
    #[inline(always)]
    pub fn slot_at(&self, i: u32) -> usize {
        Q::SLOTS + self.slot(i) * Q::SLOT_LEN
    }

    /// Offset in the producer's file of the slot that was released last.
    #[inline(always)]
    pub fn released_at(&self) -> usize {
        Q::SLOTS + ((self.tail as u32).wrapping_sub(1) & self.mask) as usize * Q::SLOT_LEN
    }

    /// Shows `n` more slots, written before, to the consumer. The caller has seen them free.
    #[inline(always)]
    pub fn publish<W: Words>(&mut self, mine: &W, n: u32) {
        debug_assert!(n <= self.free_seen());
        self.head = self.head.wrapping_add(u64::from(n));
        let mut head = self.head;
        if mine.planted(Planted::HeadLate) && self.slot(0) == 0 {
            head = head.wrapping_sub(1);
        }
        if mine.planted(Planted::HeadEarly) && self.slot(0) == 0 {
            head = head.wrapping_add(1);
        }
        mine.store(Q::HEAD, head);
    }

    /// Puts one slot in; `false` if the queue is full, which the caller counts.
    #[inline(always)]
    #[must_use = "a full queue drops, and its caller counts"]
    pub fn push<W: Words, P: Words>(&mut self, mine: &W, peer: &P, slot: &[u8]) -> bool {
        debug_assert_eq!(slot.len(), Q::SLOT_LEN);
        if self.free(peer, 1) == 0 && !mine.planted(Planted::FullByOne) {
            return false;
        }
        mine.copy_in(self.slot_at(0), slot);
        self.publish(mine, 1);
        true
    }

    /// Puts in as many of the slots that lie one after the other in `slots` as are free; how many.
    /// One copy, or two where the queue wraps.
    #[inline(always)]
    #[must_use = "a full queue drops, and its caller counts"]
    pub fn push_batch<W: Words, P: Words>(&mut self, mine: &W, peer: &P, slots: &[u8]) -> u32 {
        let wanted = (slots.len() / Q::SLOT_LEN).min(self.slots() as usize) as u32;
        let n = self.free(peer, wanted).min(wanted);
        let first = n.min(self.slots() - self.slot(0) as u32) as usize * Q::SLOT_LEN;
        let (before, behind) = slots[..n as usize * Q::SLOT_LEN].split_at(first);
        mine.copy_in(self.slot_at(0), before);
        if !behind.is_empty() {
            mine.copy_in(Q::SLOTS, behind);
        }
        if n > 0 {
            self.publish(mine, n);
        }
        n
    }
}

impl<Q: Queue> Consumer<Q> {
    /// The consumer of a fresh queue of `slots` slots (a power of two) in zeroed memory.
    pub fn new(slots: u32) -> Self {
        Self::starting_at(slots, 0)
    }

    /// The consumer of an empty queue whose both indices stand at `index`.
    pub fn starting_at(slots: u32, index: u64) -> Self {
        Self {
            tail: index,
            head: index,
            mask: mask(slots),
            faults: 0,
            queue: PhantomData,
        }
    }

    /// The consumer of a queue that another has left, as its word tells: what was released is. A
    /// tail that cannot be gives back all that was published, so that there is room for more. A
    /// fresh queue is as from [`Consumer::new`].
    pub fn resumed<W: Words, P: Words>(slots: u32, mine: &W, peer: &P) -> Self {
        if mine.planted(Planted::ResumedFromStart) {
            return Self::new(slots);
        }
        let (tail, head) = (mine.load(Q::TAIL), peer.load(Q::HEAD));
        if head.wrapping_sub(tail) <= u64::from(slots) {
            return Self::starting_at(slots, tail);
        }
        mine.store(Q::TAIL, head);
        Self::starting_at(slots, head)
    }

    /// Slots of the queue.
    #[inline(always)]
    pub fn slots(&self) -> u32 {
        self.mask + 1
    }

    /// Slots ever released.
    #[inline(always)]
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Slots that the producer has published, as last seen.
    #[inline(always)]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Times that the producer's head could not be what it said.
    #[inline(always)]
    pub fn faults(&self) -> u32 {
        self.faults
    }

    /// Filled slots as last seen: at least so many are filled.
    #[inline(always)]
    pub fn available_seen(&self) -> u32 {
        // At most `slots` by `refresh`.
        self.head.wrapping_sub(self.tail) as u32
    }

    /// Reads the producer's head; filled slots.
    #[inline(always)]
    pub fn refresh<W: Words>(&mut self, peer: &W) -> u32 {
        let head = peer.load(Q::HEAD);
        let filled = head.wrapping_sub(self.tail);
        if filled >= self.head.wrapping_sub(self.tail) && filled <= u64::from(self.slots()) {
            self.head = head;
        } else {
            self.faults = self.faults.saturating_add(1);
        }
        self.available_seen()
    }

    /// Whether any slot is filled, as the producer says now; a head that cannot be fills none.
    #[inline]
    pub fn has_any<W: Words>(&self, peer: &W) -> bool {
        let filled = peer.load(Q::HEAD).wrapping_sub(self.tail);
        self.available_seen() > 0 || (1..=u64::from(self.slots())).contains(&filled)
    }

    /// Filled slots; reads the producer's head only if fewer than `wanted` were seen.
    #[inline(always)]
    pub fn available<W: Words>(&mut self, peer: &W, wanted: u32) -> u32 {
        let seen = self.available_seen();
        if seen >= wanted {
            seen
        } else {
            self.refresh(peer)
        }
    }

    /// Number of the `i`-th slot not yet released.
    #[inline(always)]
    pub fn slot(&self, i: u32) -> usize {
        (self.tail as u32).wrapping_add(i) as usize & self.mask as usize
    }

    /// Offset in the producer's file of the `i`-th slot not yet released.
    #[inline(always)]
    pub fn slot_at(&self, i: u32) -> usize {
        Q::SLOTS + self.slot(i) * Q::SLOT_LEN
    }

    /// Gives `n` slots, read before, back to the producer. The caller has seen them filled.
    #[inline(always)]
    pub fn release<W: Words>(&mut self, mine: &W, n: u32) {
        debug_assert!(n <= self.available_seen());
        self.tail = self.tail.wrapping_add(u64::from(n));
        let mut tail = self.tail;
        if mine.planted(Planted::TailEarly) && self.slot(0) == 0 {
            tail = tail.wrapping_add(1);
        }
        mine.store(Q::TAIL, tail);
    }

    /// Takes one slot out, read once; `false` if the queue is empty.
    #[inline(always)]
    pub fn pop<W: Words, P: Words>(&mut self, mine: &W, peer: &P, slot: &mut [u8]) -> bool {
        debug_assert_eq!(slot.len(), Q::SLOT_LEN);
        if self.available(peer, 1) == 0 {
            return false;
        }
        peer.copy_out(self.slot_at(0), slot);
        self.release(mine, 1);
        true
    }

    /// Takes out as many slots as were seen filled and fit into `slots`, without looking for more;
    /// how many. One copy, or two where the queue wraps. [`Consumer::refresh`] looks.
    #[inline(always)]
    pub fn pop_seen<W: Words, P: Words>(&mut self, mine: &W, peer: &P, slots: &mut [u8]) -> u32 {
        let room = (slots.len() / Q::SLOT_LEN).min(self.slots() as usize) as u32;
        let n = self.available_seen().min(room);
        let first = n.min(self.slots() - self.slot(0) as u32) as usize * Q::SLOT_LEN;
        let (before, behind) = slots[..n as usize * Q::SLOT_LEN].split_at_mut(first);
        peer.copy_out(self.slot_at(0), before);
        if !behind.is_empty() {
            peer.copy_out(Q::SLOTS, behind);
        }
        if n > 0 {
            self.release(mine, n);
        }
        n
    }
}
