//! A client's memory, taken apart by direction: each half can be used while the other is.

use std::ops::Deref;
use std::sync::Arc;

use cellgate_core::aal::Memory;
use cellgate_core::queue::{ReceiveQueue, ReceivedPdu, SduOptions, Space, TransmitQueue, Words};

use crate::map::{Map, SharedWords};
use crate::receive::ReceiveMemory;

/// The mappings, until the last half and the last PDU of them is gone.
#[derive(Debug)]
struct Shared {
    receive: ReceiveMemory,
    _maps: [Option<Map>; 3],
}

// SAFETY: it owns mappings and reads the receive buffer, which a client maps read-only; it hands
// out nothing that writes.
unsafe impl Sync for Shared {}

/// What both halves have.
#[derive(Debug)]
struct Half {
    from_adapter: SharedWords,
    from_client: SharedWords,
    shared: Arc<Shared>,
}

/// The transmit half of a [`ClientMemory`](crate::ClientMemory).
#[derive(Debug)]
pub struct ClientTransmit {
    half: Half,
    queue: TransmitQueue,
    at: usize,
    /// Where SDUs are written first while others could change them in the transmit buffer.
    private: Option<Vec<u8>>,
}

/// The receive half of a [`ClientMemory`](crate::ClientMemory).
#[derive(Debug)]
pub struct ClientReceive {
    half: Half,
    queue: ReceiveQueue,
    own: bool,
}

/// A PDU as octets: those of its SDU. They stay as they are until it is released, in the receive
/// buffer, which stays mapped as long as this value lives; or, where others can have that changed,
/// in a copy.
#[derive(Debug)]
#[must_use = "the adapter gets the space back only by `ClientReceive::release_held`"]
pub struct HeldPdu {
    pdu: ReceivedPdu,
    octets: Octets,
}

#[derive(Debug)]
enum Octets {
    InPlace(Arc<Shared>),
    Copied(Box<[u8]>),
}

/// What a client's memory consists of.
pub(crate) struct Parts {
    pub(crate) from_adapter: Map,
    pub(crate) from_client: Map,
    pub(crate) buffer: Option<Map>,
    pub(crate) receive: ReceiveMemory,
    pub(crate) receive_queue: ReceiveQueue,
    pub(crate) transmit_queue: TransmitQueue,
    pub(crate) transmit_at: usize,
    pub(crate) own: bool,
}

impl Parts {
    pub(crate) fn into_halves(self) -> (ClientTransmit, ClientReceive) {
        // Two handles of the same words, which the halves keep to themselves: the transmit half
        // writes its queue, its buffer and its head, the receive half its tail.
        let views = || {
            let (theirs, ours) = (self.from_adapter.words(), self.from_client.words());
            (theirs.alias(), ours.alias())
        };
        let (mine, yours) = (views(), views());
        let shared = Arc::new(Shared {
            receive: self.receive,
            _maps: [Some(self.from_adapter), Some(self.from_client), self.buffer],
        });
        let half = |(from_adapter, from_client)| Half {
            from_adapter,
            from_client,
            shared: Arc::clone(&shared),
        };
        let transmit = ClientTransmit {
            half: half(mine),
            queue: self.transmit_queue,
            at: self.transmit_at,
            private: None,
        };
        let receive = ClientReceive {
            half: half(yours),
            queue: self.receive_queue,
            own: self.own,
        };
        (transmit, receive)
    }
}

impl ClientTransmit {
    /// Other processes may write the transmit buffer from now on: SDUs are written into private
    /// memory, and copied when they are submitted. A [`Space`] that is borrowed is lost.
    pub fn share(&mut self) {
        self.private.get_or_insert_default();
    }

    /// As [`ClientMemory::reserve`](crate::ClientMemory::reserve).
    #[inline]
    pub fn reserve(&mut self, len: u32) -> Option<Space> {
        let space = self.queue.reserve(&self.half.from_adapter, len)?;
        if let Some(private) = &mut self.private {
            private.resize(space.len(), 0);
        }
        Some(space)
    }

    /// As [`ClientMemory::space_mut`](crate::ClientMemory::space_mut).
    #[inline]
    pub fn space_mut(&mut self, space: &mut Space) -> &mut [u8] {
        let start = self.range(space);
        if let Some(private) = &mut self.private {
            private.resize(space.len(), 0);
            return private;
        }
        // SAFETY: `range` checked that they are mapped, writable by the memory's making; the
        // adapter only reads them, and not before they are submitted; no other process has been
        // given the file; the borrow of `self`, the only transmit half of this mapping, keeps
        // another slice of them away.
        unsafe { core::slice::from_raw_parts_mut(start, space.len()) }
    }

    /// The borrowed octets, to be read.
    #[inline]
    pub fn space(&self, space: &Space) -> &[u8] {
        if let Some(private) = &self.private {
            // A space from before it was shared is lost.
            return &private[..space.len().min(private.len())];
        }
        let start = self.range(space);
        // SAFETY: as for `space_mut`, but shared.
        unsafe { core::slice::from_raw_parts(start, space.len()) }
    }

    #[inline]
    fn range(&self, space: &Space) -> *mut u8 {
        let at = self.at + space.offset();
        self.half.from_client.range(at, space.len())
    }

    /// As [`ClientMemory::submit`](crate::ClientMemory::submit).
    #[inline]
    #[must_use = "an SDU that is refused is not sent"]
    pub fn submit(&mut self, space: Space, options: SduOptions) -> bool {
        if let Some(private) = &mut self.private
            && self.queue.takes(&space)
        {
            private.resize(space.len(), 0);
            let at = self.at + space.offset();
            self.half.from_client.copy_in(at, private);
        }
        self.queue.submit(&self.half.from_client, space, options)
    }

    /// As [`ClientMemory::submit_at`](crate::ClientMemory::submit_at).
    #[must_use = "an SDU that is refused is not sent"]
    pub fn submit_at(&mut self, offset: u32, len: u32, options: SduOptions) -> bool {
        let (mine, peer) = (&self.half.from_client, &self.half.from_adapter);
        self.queue.submit_at(mine, peer, offset, len, options)
    }

    /// Copies a PDU that `from` has received into this transmit buffer to `offset`, behind all that
    /// is received: one that wraps, for the adapter takes an SDU from one piece. `false`: it is not
    /// a PDU of `from`, or there is no such room.
    #[must_use = "a PDU that has no room there is not copied"]
    pub fn unwrap_pdu(&mut self, from: &ClientReceive, pdu: &ReceivedPdu, offset: u32) -> bool {
        let receive = &from.half.shared.receive;
        let (at, len) = (offset as usize, pdu.len());
        let room = (self.half.from_client.len() - self.at).saturating_sub(at);
        if !from.queue.owns(pdu) || at < receive.len() || room < len {
            return false;
        }
        // SAFETY: both ranges are checked by `range`. The PDU lies in the first
        // octets of a transmit buffer, seen by the mapping of `from`, and `at` is behind these
        // even if that is this one. Others may write the source meanwhile: each octet lands as
        // some value it had.
        unsafe {
            let to = self.half.from_client.range(self.at + at, len);
            receive.copy_to(pdu.offset(), to, len);
        }
        true
    }

    /// Takes back what the adapter has sent; SDUs that are still with it.
    pub fn reclaim(&mut self) -> u32 {
        self.queue.reclaim(&self.half.from_adapter)
    }

    /// The queue's bookkeeping.
    pub fn queue(&self) -> &TransmitQueue {
        &self.queue
    }

    pub(crate) fn resume(&mut self, queue: TransmitQueue) {
        self.queue = queue;
    }

    /// The file that this side writes, and that of the adapter.
    pub(crate) fn words(&self) -> (&SharedWords, &SharedWords) {
        (&self.half.from_client, &self.half.from_adapter)
    }
}

impl ClientReceive {
    /// Other processes may give PDUs back from now on, and have the adapter use their space again:
    /// those that are taken are copied. None may be held.
    pub fn share(&mut self) {
        self.own = false;
    }

    /// As [`ClientMemory::sdu`](crate::ClientMemory::sdu).
    pub fn sdu(&self, pdu: &ReceivedPdu) -> Option<&[u8]> {
        let receive = &self.half.shared.receive;
        // SAFETY: the adapter, the only writer, leaves the octets of a descriptor of this queue
        // alone until it is released, which takes `&mut self` and the PDU: no other process has
        // been given the right to do it.
        (self.own && self.queue.owns(pdu))
            .then(|| unsafe { receive.slice(pdu.offset(), pdu.len()) })
    }

    /// The next PDU, if one waits.
    #[inline]
    pub fn next_pdu(&mut self) -> Option<ReceivedPdu> {
        let half = &self.half;
        half.shared.receive.prefetch(self.queue.next_offset());
        self.queue.next(&half.from_client, &half.from_adapter)
    }

    /// Whether no PDU waits.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        self.queue.is_empty(&self.half.from_adapter)
    }

    /// Copies the first octets of the SDU; how many.
    #[inline]
    pub fn copy_sdu(&self, pdu: &ReceivedPdu, octets: &mut [u8]) -> usize {
        let len = pdu.len().min(octets.len());
        let receive = &self.half.shared.receive;
        receive.copy_out(pdu.offset(), &mut octets[..len]);
        len
    }

    /// Gives a PDU back, in any order; `false` if it is another connection's.
    #[inline]
    pub fn release(&mut self, pdu: ReceivedPdu) -> bool {
        self.queue.release(&self.half.from_client, pdu)
    }

    /// Holds a PDU: in place, if nobody else can have its octets changed.
    ///
    /// # Errors
    /// The PDU again: it is another connection's.
    #[inline]
    pub fn hold(&self, pdu: ReceivedPdu) -> Result<HeldPdu, ReceivedPdu> {
        if !self.queue.owns(&pdu) {
            return Err(pdu);
        }
        let octets = match self.own {
            true => Octets::InPlace(Arc::clone(&self.half.shared)),
            false => {
                let mut copy = vec![0; pdu.len()];
                self.copy_sdu(&pdu, &mut copy);
                Octets::Copied(copy.into())
            }
        };
        Ok(HeldPdu { pdu, octets })
    }

    /// As [`ClientReceive::release`].
    #[inline]
    pub fn release_held(&mut self, held: HeldPdu) -> bool {
        self.release(held.pdu)
    }

    /// Whether the PDU is this connection's, and not given back.
    pub fn owns(&self, held: &HeldPdu) -> bool {
        self.queue.owns(&held.pdu)
    }

    /// The queue's bookkeeping.
    pub fn queue(&self) -> &ReceiveQueue {
        &self.queue
    }

    pub(crate) fn resume(&mut self, queue: ReceiveQueue) {
        self.queue = queue;
    }
}

impl HeldPdu {
    /// What the adapter said of it.
    pub fn pdu(&self) -> &ReceivedPdu {
        &self.pdu
    }
}

impl Deref for HeldPdu {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.octets {
            // SAFETY: `hold` checked that the adapter is the only writer, that the PDU is of this
            // mapping, and that no other process was given the right to release it. The adapter
            // leaves its octets alone until it is released, which takes the PDU, and that only
            // this value has.
            Octets::InPlace(shared) => unsafe {
                shared.receive.slice(self.pdu.offset(), self.pdu.len())
            },
            Octets::Copied(octets) => octets,
        }
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::Time;
    use cellgate_core::aal::Memory;
    use cellgate_core::adapter::Region;
    use cellgate_core::queue::{
        ConnectionGeometry, ConnectionSizes, Producer, ReceiveDescriptor, SduOptions, queue,
    };

    use super::*;
    use crate::ConnectionMemory;

    const GENERATION: u32 = 3;

    fn memory() -> (ConnectionMemory, ClientTransmit, ClientReceive) {
        let sizes = ConnectionSizes {
            receive_slots: 4,
            receive_len: 4096,
            receive_elsewhere: false,
            transmit_slots: 4,
            transmit_len: 4096,
        };
        let geometry = ConnectionGeometry::new(sizes).unwrap();
        let (region, client) = ConnectionMemory::heap(&geometry, GENERATION, 4096);
        let (transmit, receive) = client.into_halves();
        (region, transmit, receive)
    }

    /// Shows the client a PDU of 48 octets.
    fn deliver(region: &mut ConnectionMemory, head: &mut Producer<queue::Receive>, octet: u8) {
        let position = head.head() * 64;
        let buffer = region.receive_buffer();
        buffer.write((position % 4096) as usize, &[octet; 48]);
        let descriptor = ReceiveDescriptor {
            position,
            time: Time::ZERO,
            len: 48,
            cells: 1,
            generation: GENERATION,
            uu: 0,
            cpi: 0,
            clp: false,
            congestion: false,
            lent: false,
            mid: 0,
        };
        let (mine, peer) = (region.from_adapter(), region.from_client());
        assert!(head.push(mine, peer, &descriptor.emit()));
    }

    #[test]
    fn held_pdus_stay_while_the_other_half_writes_and_outlive_both() {
        let (mut region, mut transmit, mut receive) = memory();
        let mut head = Producer::new(4);
        deliver(&mut region, &mut head, 1);
        deliver(&mut region, &mut head, 2);
        let first = receive.next_pdu().unwrap();
        let first = receive.hold(first).unwrap();
        let second = receive.next_pdu().unwrap();
        let second = receive.hold(second).unwrap();
        let mut space = transmit.reserve(48).unwrap();
        transmit.space_mut(&mut space).copy_from_slice(&first);
        assert_eq!(transmit.space(&space), [1; 48]);
        assert!(transmit.submit(space, SduOptions::default()));
        assert_eq!(region.stage(0, 48)[..48], [1; 48]);
        assert_eq!((transmit.reclaim(), transmit.queue().submitted()), (1, 1));

        // Released out of order: the adapter gets both with the first.
        assert!(receive.owns(&second) && receive.release_held(second));
        assert_eq!(receive.queue().outstanding(), 2);
        deliver(&mut region, &mut head, 3);
        let third = receive.next_pdu().unwrap();
        let mut octets = [0; 50];
        assert_eq!(receive.copy_sdu(&third, &mut octets), 48);
        assert_eq!(octets[..48], [3; 48]);
        let third = receive.hold(third).unwrap();
        drop((transmit, receive));
        assert_eq!(*first, [1; 48]);
        assert_eq!(*third, [3; 48]);
    }

    #[test]
    fn what_is_shared_is_copied_and_another_hand_changes_nothing_of_it() {
        let (mut region, mut transmit, mut receive) = memory();
        let mut head = Producer::new(4);
        deliver(&mut region, &mut head, 1);
        transmit.share();
        receive.share();
        let pdu = receive.next_pdu().unwrap();
        assert_eq!(receive.sdu(&pdu), None);
        let held = receive.hold(pdu).unwrap();
        // Another process gives it back, and the adapter writes there again.
        region.receive_buffer().write(0, &[2; 48]);
        assert_eq!(*held, [1; 48]);
        assert!(receive.release_held(held));

        let mut space = transmit.reserve(48).unwrap();
        transmit.space_mut(&mut space).fill(3);
        assert_eq!(region.stage(0, 48)[..48], [0; 48], "nobody sees it before");
        assert_eq!(transmit.space(&space), [3; 48]);
        space.truncate(40);
        assert_eq!(transmit.space(&space), [3; 40]);
        assert!(transmit.submit(space, SduOptions::default()));
        assert_eq!(region.stage(0, 40)[..40], [3; 40]);
        // One that comes too late writes over nothing.
        let (mut late, next) = (transmit.reserve(8).unwrap(), transmit.reserve(8).unwrap());
        transmit.space_mut(&mut late).fill(4);
        assert!(transmit.submit(next, SduOptions::default()));
        transmit.space_mut(&mut late).fill(5);
        assert!(!transmit.submit(late, SduOptions::default()));
        assert_eq!(region.stage(64, 8)[..8], [4; 8]);
    }

    #[test]
    fn a_pdu_of_another_connection_is_neither_held_nor_released() {
        let (mut region, _, mut receive) = memory();
        let (_, _, mut other) = memory();
        deliver(&mut region, &mut Producer::new(4), 1);
        let pdu = receive.next_pdu().unwrap();
        let pdu = other.hold(pdu).unwrap_err();
        let held = receive.hold(pdu).unwrap();
        assert!(!other.owns(&held));
        assert!(!other.release_held(held));
        assert_eq!(receive.queue().outstanding(), 1);
    }

    #[test]
    fn halves_go_to_threads_of_their_own() {
        let (mut region, mut transmit, mut receive) = memory();
        deliver(&mut region, &mut Producer::new(4), 7);
        let sender = std::thread::spawn(move || {
            let mut space = transmit.reserve(64).unwrap();
            transmit.space_mut(&mut space).fill(9);
            assert!(transmit.submit(space, SduOptions::default()));
        });
        let pdu = receive.next_pdu().unwrap();
        let held = receive.hold(pdu).unwrap();
        // The octets may be read elsewhere, too.
        let reader = std::thread::spawn(move || {
            assert_eq!(*held, [7; 48]);
            held
        });
        assert!(receive.release_held(reader.join().unwrap()));
        sender.join().unwrap();
        assert_eq!(region.stage(0, 64)[..64], [9; 64]);
    }
}
