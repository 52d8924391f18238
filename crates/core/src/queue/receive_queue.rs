use super::layout::{PDU_ALIGN, Queue, RECEIVE_DESCRIPTOR_LEN};
use super::{Consumer, Planted, ReceiveDescriptor, Words, queue};
use crate::wire::PAYLOAD_LEN;

/// The client's side of a receive queue: PDUs in the order of their completion, given back in any
/// order, reclaimed in theirs.
#[derive(Clone, Debug)]
pub struct ReceiveQueue {
    queue: Consumer<queue::Receive>,
    /// Slots handed out and not reclaimed, from the tail on.
    outstanding: u32,
    /// A bit per slot: given back, but not reclaimed because an earlier one is still out.
    returned: Box<[u64]>,
    buffer_len: u32,
    generation: u32,
    identity: u64,
    bad_descriptors: u64,
    /// Where in the receive buffer the next PDU is likely to begin.
    next_offset: usize,
}

/// A PDU in the receive buffer. It stays there until it is given back.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the adapter gets the space back only by `ReceiveQueue::release`"]
pub struct ReceivedPdu {
    queue: u64,
    index: u64,
    offset: usize,
    descriptor: ReceiveDescriptor,
}

impl ReceivedPdu {
    /// Where the SDU begins in the receive buffer; `offset + len` is below twice its length.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Octets of the SDU.
    #[expect(clippy::len_without_is_empty, reason = "an SDU has at least one octet")]
    pub fn len(&self) -> usize {
        self.descriptor.len as usize
    }

    /// Multiplexing identification (AAL3/4, I.363.3), ten bits; 0 with other AALs.
    pub fn mid(&self) -> u16 {
        self.descriptor.mid
    }

    /// What the adapter said of it.
    pub fn descriptor(&self) -> &ReceiveDescriptor {
        &self.descriptor
    }
}

impl ReceiveQueue {
    /// The client's side of a fresh queue of `slots` descriptors (a power of two) over a receive
    /// buffer of `buffer_len` octets. Allocates; nothing later does.
    pub fn new(slots: u32, buffer_len: u32, generation: u32) -> Self {
        Self {
            queue: Consumer::new(slots),
            outstanding: 0,
            returned: vec![0; slots.div_ceil(64) as usize].into_boxed_slice(),
            buffer_len,
            generation,
            identity: 0,
            bad_descriptors: 0,
            next_offset: 0,
        }
    }

    /// The client's side of a queue that another client has left: what it did not give back comes
    /// again.
    pub fn resumed<C: Words, A: Words>(
        slots: u32,
        buffer_len: u32,
        generation: u32,
        (from_client, from_adapter): (&C, &A),
    ) -> Self {
        Self {
            queue: Consumer::resumed(slots, from_client, from_adapter),
            ..Self::new(slots, buffer_len, generation)
        }
    }

    /// The same queue under a name of its own: PDUs of queues with other names are not its own.
    pub fn identified(self, identity: u64) -> Self {
        Self { identity, ..self }
    }

    /// Whether `pdu` came from this queue. Then it is not given back yet, for that takes it.
    pub fn owns(&self, pdu: &ReceivedPdu) -> bool {
        pdu.queue == self.identity
    }

    /// Whether a PDU waits; looks at the adapter's head.
    pub fn is_empty<A: Words>(&mut self, from_adapter: &A) -> bool {
        let filled = self.queue.available(from_adapter, self.outstanding + 1);
        filled == self.outstanding
            || from_adapter.planted(Planted::LastUnseen) && filled == self.outstanding + 1
    }

    /// The next PDU, if one waits. Descriptors that name no octets of this buffer, or are of
    /// another generation, are counted and given back; at most a queue of them in one call.
    pub fn next<C: Words, A: Words>(
        &mut self,
        from_client: &C,
        from_adapter: &A,
    ) -> Option<ReceivedPdu> {
        for _ in 0..self.queue.slots() {
            // On its way while the head is looked at, which tells whether it is wanted.
            from_adapter.prefetch(self.queue.slot_at(self.outstanding));
            if self.is_empty(from_adapter) {
                return None;
            }
            let mut octets = [0; RECEIVE_DESCRIPTOR_LEN];
            from_adapter.copy_out(self.queue.slot_at(self.outstanding), &mut octets);
            let index = self.queue.tail().wrapping_add(u64::from(self.outstanding));
            self.outstanding += 1;
            let descriptor = ReceiveDescriptor::parse(&octets);
            if let Some(offset) = self.offset(&descriptor) {
                let octets = descriptor.cells as usize * PAYLOAD_LEN;
                let end = (offset + octets).next_multiple_of(PDU_ALIGN);
                self.next_offset = end % self.buffer_len as usize;
                return Some(ReceivedPdu {
                    queue: self.identity,
                    index,
                    offset,
                    descriptor,
                });
            }
            self.bad_descriptors += 1;
            self.give_back(from_client, index);
        }
        None
    }

    /// Where in the receive buffer the next PDU is likely to begin.
    #[inline(always)]
    pub fn next_offset(&self) -> usize {
        self.next_offset
    }

    /// Gives a PDU back. Its space is the adapter's again as soon as all PDUs before it are given
    /// back too. `false` if it is not one of this queue's.
    pub fn release<C: Words>(&mut self, from_client: &C, pdu: ReceivedPdu) -> bool {
        self.owns(&pdu) && self.give_back(from_client, pdu.index)
    }

    /// PDUs handed out or given back early, not yet the adapter's again.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Descriptors that named no octets of the buffer.
    pub fn bad_descriptors(&self) -> u64 {
        self.bad_descriptors
    }

    /// Times that the adapter's head could not be what it said.
    pub fn faults(&self) -> u32 {
        self.queue.faults()
    }

    fn offset(&self, descriptor: &ReceiveDescriptor) -> Option<usize> {
        let sane = descriptor.len >= 1
            && descriptor.len <= self.buffer_len
            && descriptor.generation == self.generation;
        sane.then(|| (descriptor.position % u64::from(self.buffer_len)) as usize)
    }

    fn give_back<C: Words>(&mut self, from_client: &C, index: u64) -> bool {
        let ahead = index.wrapping_sub(self.queue.tail());
        if ahead >= u64::from(self.outstanding) {
            return false;
        }
        // Of one alone there is nothing to keep in mind.
        let mut n = 1;
        if self.outstanding > 1 {
            if self.flip(index, true) {
                return false;
            }
            n = self.reclaimable();
        }
        if from_client.planted(Planted::GivenBackShort) {
            n = n.saturating_sub(1);
        }
        if n > 0 {
            self.outstanding -= n;
            self.queue.release(from_client, n);
        }
        true
    }

    /// How many were given back one after the other from the tail on: their bits are cleared.
    fn reclaimable(&mut self) -> u32 {
        let mut n = 0;
        while n < self.outstanding && self.flip(self.queue.tail().wrapping_add(u64::from(n)), false)
        {
            n += 1;
        }
        n
    }

    /// Sets the bit of a slot; what it was.
    fn flip(&mut self, index: u64, to: bool) -> bool {
        let slot = index as usize & (self.queue.slots() as usize - 1);
        let bit = 1 << (slot % 64);
        let word = &mut self.returned[slot / 64];
        let was = *word & bit != 0;
        *word = if to { *word | bit } else { *word & !bit };
        was
    }
}

const _: () = assert!(queue::Receive::SLOT_LEN == RECEIVE_DESCRIPTOR_LEN);
