use super::layout::PDU_ALIGN;
use super::{Planted, Producer, TransmitDescriptor, Words, queue};

/// The client's side of a transmit queue: borrows space of the transmit buffer, submits SDUs, and
/// gets the space back in order as the adapter has sent them.
#[derive(Clone, Debug)]
pub struct TransmitQueue {
    queue: Producer<queue::Transmit>,
    /// For each slot, the position behind its SDU.
    ends: Box<[u64]>,
    buffer_len: u32,
    generation: u32,
    /// Free-running position behind the last SDU submitted.
    write: u64,
    /// Free-running position before which all space is the client's again.
    read: u64,
}

/// Octets of the transmit buffer, borrowed for one SDU.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "nothing is sent before `TransmitQueue::submit`"]
pub struct Space {
    start: u64,
    offset: u32,
    len: u32,
    /// Octets that were asked for, which decided where it begins.
    reserved: u32,
}

impl Space {
    /// Where it begins in the transmit buffer.
    pub fn offset(&self) -> usize {
        self.offset as usize
    }

    /// Octets.
    #[expect(clippy::len_without_is_empty, reason = "an SDU has at least one octet")]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Leaves the first `len` octets to be sent, at most those that there are. With none left it
    /// cannot be submitted.
    pub fn truncate(&mut self, len: u32) {
        self.len = self.len.min(len);
    }
}

/// What goes along with an SDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SduOptions {
    /// User-to-user octet (I.363.5).
    pub uu: u8,
    /// Common part indicator (I.363.5).
    pub cpi: u8,
    /// Send its cells with low priority (CLP 1).
    pub clp: bool,
    /// Multiplexing identification (AAL3/4, I.363.3), ten bits.
    pub mid: u16,
}

impl TransmitQueue {
    /// The client's side of a fresh queue of `slots` descriptors (a power of two) over a transmit
    /// buffer of `buffer_len` octets. Allocates; nothing later does.
    pub fn new(slots: u32, buffer_len: u32, generation: u32) -> Self {
        Self {
            queue: Producer::new(slots),
            ends: vec![0; slots as usize].into_boxed_slice(),
            buffer_len,
            generation,
            write: 0,
            read: 0,
        }
    }

    /// The client's side of a queue that another client has left. Where its SDUs lie is not known
    /// any more: as long as the adapter has one of them, none is taken.
    pub fn resumed<C: Words, A: Words>(
        slots: u32,
        buffer_len: u32,
        generation: u32,
        (from_client, from_adapter): (&C, &A),
    ) -> Self {
        Self {
            queue: Producer::resumed(slots, from_client, from_adapter),
            // A buffer's length before `read`: nothing fits.
            write: u64::from(buffer_len),
            ..Self::new(slots, buffer_len, generation)
        }
    }

    /// Borrows `len` octets for the next SDU; none if queue or buffer have no room (or never will:
    /// `len` 0 or above the buffer's length). A later call lends the same octets again unless the
    /// space was submitted.
    pub fn reserve<A: Words>(&mut self, from_adapter: &A, len: u32) -> Option<Space> {
        if len == 0 || len > self.buffer_len {
            return None;
        }
        self.fit(len).or_else(|| {
            self.reclaim(from_adapter);
            self.fit(len)
        })
    }

    /// Whether [`submit`](Self::submit) would hand `space` over.
    pub fn takes(&self, space: &Space) -> bool {
        let is_stale = self.start_of(space.reserved) != space.start;
        !is_stale && space.len > 0 && self.queue.free_seen() > 0
    }

    /// Hands the SDU that was written into `space` to the adapter; the doorbell is the caller's to
    /// ring. `false` if another SDU was submitted since the space was borrowed, or no octet is left
    /// of it.
    #[must_use = "an SDU that is refused is not sent"]
    pub fn submit<C: Words>(&mut self, from_client: &C, space: Space, options: SduOptions) -> bool {
        if !self.takes(&space) {
            return false;
        }
        let descriptor = TransmitDescriptor {
            offset: space.offset,
            len: space.len,
            uu: options.uu,
            cpi: options.cpi,
            clp: options.clp,
            mid: options.mid,
            generation: self.generation,
        };
        if self.all_sent() {
            self.read = space.start;
        }
        self.write = space.start + u64::from(space.len);
        self.ends[self.queue.slot(0)] = self.write;
        if from_client.planted(Planted::DescriptorLate) {
            self.queue.publish(from_client, 1);
            from_client.copy_in(self.queue.slot_at(0), &descriptor.emit());
            return true;
        }
        from_client.copy_in(self.queue.slot_at(0), &descriptor.emit());
        self.queue.publish(from_client, 1);
        true
    }

    /// Hands `len` octets at `offset` of the transmit buffer to the adapter as they are: somebody
    /// else wrote them there, and whose they are is not kept track of. `false` if they are not all
    /// in the buffer or the queue is full.
    #[must_use = "an SDU that is refused is not sent"]
    pub fn submit_at<C: Words, A: Words>(
        &mut self,
        from_client: &C,
        from_adapter: &A,
        offset: u32,
        len: u32,
        options: SduOptions,
    ) -> bool {
        let descriptor = TransmitDescriptor {
            offset,
            len,
            uu: options.uu,
            cpi: options.cpi,
            clp: options.clp,
            mid: options.mid,
            generation: self.generation,
        };
        if !descriptor.is_within(self.buffer_len) {
            return false;
        }
        if self.queue.free_seen() == 0 {
            self.reclaim(from_adapter);
            if self.queue.free_seen() == 0 {
                return false;
            }
        }
        self.ends[self.queue.slot(0)] = self.write;
        from_client.copy_in(self.queue.slot_at(0), &descriptor.emit());
        self.queue.publish(from_client, 1);
        true
    }

    /// Takes back what the adapter has sent; SDUs that are still with it.
    pub fn reclaim<A: Words>(&mut self, from_adapter: &A) -> u32 {
        let before = self.queue.tail();
        let free = self.queue.refresh(from_adapter);
        if self.queue.tail() != before {
            let last = self.queue.tail().wrapping_sub(1) as usize & (self.ends.len() - 1);
            self.read = self.ends[last];
            if from_adapter.planted(Planted::SpaceTakenEarly) {
                self.read = self.write;
            }
        }
        self.queue.slots() - free
    }

    /// SDUs ever submitted.
    pub fn submitted(&self) -> u64 {
        self.queue.head()
    }

    /// SDUs ever sent, as last seen.
    pub fn completed(&self) -> u64 {
        self.queue.tail()
    }

    /// Times that the adapter's tail could not be what it said.
    pub fn faults(&self) -> u32 {
        self.queue.faults()
    }

    /// Where an SDU of `len` octets goes: aligned, and behind the wrap if it would straddle it.
    fn start_of(&self, len: u32) -> u64 {
        let start = self.write.next_multiple_of(PDU_ALIGN as u64);
        let offset = start % u64::from(self.buffer_len);
        let rest = u64::from(self.buffer_len) - offset;
        start + if u64::from(len) > rest { rest } else { 0 }
    }

    fn all_sent(&self) -> bool {
        self.queue.free_seen() == self.queue.slots()
    }

    fn fit(&self, len: u32) -> Option<Space> {
        let start = self.start_of(len);
        let end = start + u64::from(len);
        // With nothing at the adapter the whole buffer is free, wherever the next SDU starts.
        let fits = self.all_sent() || end - self.read <= u64::from(self.buffer_len);
        (fits && self.queue.free_seen() > 0).then(|| Space {
            start,
            offset: (start % u64::from(self.buffer_len)) as u32,
            len,
            reserved: len,
        })
    }
}
