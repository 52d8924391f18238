use serde::{Deserialize, Serialize};

use super::Discard;

/// PDUs start on multiples of this many octets.
const ALIGN: u64 = 64;
const NONE: u32 = u32::MAX;

/// Who has which octets of the receive buffer: PDUs in progress and PDUs that the client has not
/// given back, in the order of their allocation.
///
/// ```text
///   given back |<-------------------- buffer_len ---------------------->|
/// -------------+--------+------+-----------+------+--------+------------+-----
///              | oldest | hole | delivered | open | newest |    free    |
/// -------------+--------+------+-----------+------+--------+------------+-----
///                                                          head       limit
/// ```
///
/// A hole, left by a PDU that failed, was given back early or reserved more than it needed, is free
/// as soon as all before it is, or if nothing is behind it but the head.
/// A PDU in progress also has a descriptor kept for it, so that a complete one finds a place in
/// the receive queue. Positions are octets of buffer ever passed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Space {
    /// One for each descriptor of the receive queue.
    extents: Box<[Extent]>,
    /// Extents by the descriptor that tells of them, modulo their number.
    delivered: Box<[u32]>,
    /// End of what was ever delivered. The head does not go back behind it: a client that reads
    /// late can tell by the position that others have its PDU's octets.
    delivered_to: u64,
    /// Descriptors ever filled.
    deliveries: u64,
    /// Descriptors ever given back.
    releases: u64,
    buffer_len: u32,
    oldest: u32,
    newest: u32,
    /// First of the extents that nobody uses, chained by `newer`.
    unused: u32,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Extent {
    start: u64,
    end: u64,
    older: u32,
    newer: u32,
}

impl Space {
    /// Allocates; nothing later does.
    pub(super) fn new(buffer_len: u32, descriptors: u32) -> Self {
        let extent = |i| Extent {
            start: 0,
            end: 0,
            older: NONE,
            newer: if i + 1 < descriptors { i + 1 } else { NONE },
        };
        Self {
            extents: (0..descriptors).map(extent).collect(),
            delivered: vec![NONE; descriptors as usize].into_boxed_slice(),
            delivered_to: 0,
            deliveries: 0,
            releases: 0,
            buffer_len,
            oldest: NONE,
            newest: NONE,
            unused: if descriptors == 0 { NONE } else { 0 },
        }
    }

    /// Octets that [`Space::new`] allocates.
    pub(super) const fn memory_len(descriptors: u32) -> usize {
        descriptors as usize * (size_of::<Extent>() + size_of::<u32>())
    }

    /// Where the next PDU begins.
    fn head(&self) -> u64 {
        let newest = self.extents.get(self.newest as usize);
        newest.map_or(0, |newest| newest.end).max(self.delivered_to)
    }

    /// Whether nothing was ever delivered and nothing is in progress.
    pub(super) fn is_fresh(&self) -> bool {
        self.oldest == NONE && self.deliveries == 0
    }

    /// Whether `octets` and a descriptor are free.
    pub(super) fn check(&self, octets: u32) -> Result<(), Discard> {
        if self.unused == NONE {
            return Err(Discard::QueueFull);
        }
        if u64::from(octets).next_multiple_of(ALIGN) > self.free() {
            return Err(Discard::BufferFull);
        }
        Ok(())
    }

    /// Whether a descriptor is free, and `reserve` octets would be left beside `octets`.
    pub(super) fn has_room(&self, octets: u32, reserve: u32) -> bool {
        let octets = u64::from(octets).next_multiple_of(ALIGN) + u64::from(reserve);
        self.unused != NONE && octets <= self.free()
    }

    /// Octets of the buffer that nobody uses.
    fn free(&self) -> u64 {
        let used_from = match self.extents.get(self.oldest as usize) {
            Some(oldest) => oldest.start,
            None => self.head(),
        };
        u64::from(self.buffer_len).saturating_sub(self.head() - used_from)
    }

    /// Reserves `octets`, rounded up to 64, and a descriptor: the extent and its position.
    pub(super) fn allocate(&mut self, octets: u32) -> Result<(u32, u64), Discard> {
        self.check(octets)?;
        let at = self.unused;
        let start = self.head();
        let extent = &mut self.extents[at as usize];
        self.unused = extent.newer;
        *extent = Extent {
            start,
            end: start + u64::from(octets).next_multiple_of(ALIGN),
            older: self.newest,
            newer: NONE,
        };
        match self.extents.get_mut(self.newest as usize) {
            Some(newest) => newest.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        Ok((at, start))
    }

    /// Offset in the buffer of a position.
    pub(super) fn offset(&self, position: u64) -> u32 {
        (position % u64::from(self.buffer_len.max(1))) as u32
    }

    /// The PDU at `at` is complete with `octets`; the rest of what it reserved becomes a hole. Its
    /// position.
    pub(super) fn deliver(&mut self, at: u32, octets: u32) -> u64 {
        let extent = &mut self.extents[at as usize];
        extent.end = extent.start + u64::from(octets).next_multiple_of(ALIGN);
        let start = extent.start;
        self.delivered_to = self.delivered_to.max(extent.end);
        let descriptor = self.deliveries % self.delivered.len() as u64;
        self.delivered[descriptor as usize] = at;
        self.deliveries += 1;
        start
    }

    /// The PDU at `at` failed.
    pub(super) fn abandon(&mut self, at: u32) {
        self.remove(at);
    }

    /// The client has given back every descriptor before `tail`. A tail before the last one, or
    /// beyond what was delivered, changes nothing.
    pub(super) fn release(&mut self, tail: u64) {
        if tail > self.deliveries {
            return;
        }
        while self.releases < tail {
            let descriptor = self.releases % self.delivered.len() as u64;
            self.remove(self.delivered[descriptor as usize]);
            self.releases += 1;
        }
    }

    fn remove(&mut self, at: u32) {
        let Extent { older, newer, .. } = self.extents[at as usize];
        match self.extents.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.extents.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        self.extents[at as usize].newer = self.unused;
        self.unused = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_comes_back_in_the_order_of_allocation() {
        let mut space = Space::new(256, 4);
        let (a, at_a) = space.allocate(64).unwrap();
        let (b, at_b) = space.allocate(65).unwrap();
        let (c, at_c) = space.allocate(1).unwrap();
        assert_eq!((at_a, at_b, at_c), (0, 64, 192));
        assert_eq!(space.check(1), Err(Discard::BufferFull));
        // b and c are complete before a: their descriptors come first, their space does not.
        space.deliver(b, 65);
        space.deliver(c, 1);
        space.release(2);
        assert_eq!(space.check(1), Err(Discard::BufferFull));
        space.deliver(a, 64);
        space.release(3);
        assert_eq!(space.check(256), Ok(()));
        assert_eq!(space.check(257), Err(Discard::BufferFull));
        assert_eq!(space.allocate(256).unwrap().1, 256);
    }

    #[test]
    fn a_failed_pdu_at_the_head_leaves_the_head_where_it_was() {
        let mut space = Space::new(1024, 4);
        let (a, _) = space.allocate(100).unwrap();
        let (b, _) = space.allocate(100).unwrap();
        let (c, _) = space.allocate(100).unwrap();
        space.abandon(b);
        space.abandon(c);
        assert_eq!(space.allocate(1).unwrap().1, 128);
        space.abandon(a);
        assert_eq!(space.allocate(1).unwrap().1, 192);
    }

    #[test]
    fn a_pdu_in_progress_keeps_a_descriptor() {
        let mut space = Space::new(1024, 2);
        let (a, _) = space.allocate(1).unwrap();
        let (b, _) = space.allocate(1).unwrap();
        assert_eq!(space.check(1), Err(Discard::QueueFull));
        space.deliver(b, 1);
        assert_eq!(space.check(1), Err(Discard::QueueFull));
        space.release(2);
        assert_eq!(space.check(1), Err(Discard::QueueFull), "no such delivery");
        space.release(1);
        assert_eq!(space.check(1), Ok(()));
        space.abandon(a);
        assert_eq!(space.check(1), Ok(()));
    }

    #[test]
    fn what_was_reserved_in_vain_is_free_at_once() {
        let mut space = Space::new(1024, 4);
        let (a, _) = space.allocate(1000).unwrap();
        assert_eq!(space.check(1), Err(Discard::BufferFull));
        space.deliver(a, 10);
        assert_eq!(space.allocate(1).unwrap().1, 64);
    }
}
