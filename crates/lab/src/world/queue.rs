//! What happens next: a monotone radix heap. What happens at one time has an order of its own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Ps;

/// One bucket for each highest bit in which a time can differ from the last one taken, and one for
/// those that do not differ.
const BUCKETS: usize = 65;

/// Events by time, and at one time by their own order: when they were put in does not matter.
/// Nothing may be put in earlier than the last that was taken.
#[derive(Debug)]
pub struct EventQueue<T> {
    last: u64,
    due: BinaryHeap<Reverse<T>>,
    later: [Vec<(u64, T)>; BUCKETS],
    /// The earliest time in each bucket.
    first: [u64; BUCKETS],
    /// A bit for each bucket that is not empty.
    filled: u128,
    len: usize,
}

impl<T: Ord> Default for EventQueue<T> {
    fn default() -> Self {
        Self {
            last: 0,
            due: BinaryHeap::new(),
            later: std::array::from_fn(|_| Vec::new()),
            first: [u64::MAX; BUCKETS],
            filled: 0,
            len: 0,
        }
    }
}

impl<T: Ord> EventQueue<T> {
    /// Events waiting.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing will happen.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `event` happens at `at`, or at once if that is past.
    pub fn push(&mut self, at: Ps, event: T) {
        self.len += 1;
        self.put(at.ps().max(self.last), event);
    }

    fn put(&mut self, at: u64, event: T) {
        if at == self.last {
            self.due.push(Reverse(event));
            return;
        }
        let bucket = (u64::BITS - (at ^ self.last).leading_zeros()) as usize;
        self.later[bucket].push((at, event));
        self.first[bucket] = self.first[bucket].min(at);
        self.filled |= 1 << bucket;
    }

    /// When the next event happens.
    pub fn next_time(&self) -> Option<Ps> {
        if !self.due.is_empty() {
            return Some(Ps::new(self.last));
        }
        let first = self.first.get(self.filled.trailing_zeros() as usize)?;
        Some(Ps::new(*first))
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(Ps, T)> {
        if self.due.is_empty() {
            let at = self.next_time()?.ps();
            let bucket = self.filled.trailing_zeros() as usize;
            self.filled &= !(1 << bucket);
            self.first[bucket] = u64::MAX;
            self.last = at;
            if let [_] = self.later[bucket][..] {
                self.len -= 1;
                return self.later[bucket]
                    .pop()
                    .map(|(at, event)| (Ps::new(at), event));
            }
            // All of them go to earlier buckets, and its room stays.
            let mut moved = std::mem::take(&mut self.later[bucket]);
            for (at, event) in moved.drain(..) {
                self.put(at, event);
            }
            self.later[bucket] = moved;
        }
        let Reverse(event) = self.due.pop()?;
        self.len -= 1;
        Some((Ps::new(self.last), event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_in_order_of_time_and_equal_times_in_their_own_order() {
        let mut queue = EventQueue::default();
        let mut expected = Vec::new();
        let mut state = 1_u64;
        let mut now = 0;
        let mut taken = Vec::new();
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // Many equal ones, some far away.
            let ahead = (state >> 60) << if state >> 33 & 15 == 0 { 40 } else { 2 };
            let event = state >> 20;
            queue.push(Ps::new(now + ahead), event);
            expected.push((now + ahead, event));
            if state >> 40 & 1 == 0 {
                let before = queue.next_time();
                let (at, event) = queue.pop().expect("one was put in");
                assert_eq!(before, Some(at));
                now = at.ps();
                taken.push((now, event));
            }
        }
        while let Some((at, event)) = queue.pop() {
            taken.push((at.ps(), event));
        }
        // What was put in for a time that had come already was taken after what was there.
        assert!(taken.is_sorted_by_key(|(at, _)| *at));
        let mut left = queue;
        expected.sort_unstable();
        for (at, event) in &expected {
            left.push(Ps::new(*at + (1 << 50)), *event);
        }
        let again = std::iter::from_fn(|| left.pop());
        let again = again.map(|(at, event)| (at.ps() - (1 << 50), event));
        assert!(again.eq(expected.iter().copied()));
        taken.sort_unstable();
        assert_eq!(taken, expected);
        assert!(left.is_empty() && left.next_time().is_none());
    }

    #[test]
    fn the_past_is_the_present() {
        let mut queue = EventQueue::default();
        queue.push(Ps::new(10), 'a');
        assert_eq!(queue.pop(), Some((Ps::new(10), 'a')));
        queue.push(Ps::new(3), 'b');
        assert_eq!((queue.len(), queue.pop()), (1, Some((Ps::new(10), 'b'))));
    }
}
