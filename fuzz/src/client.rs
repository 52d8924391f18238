//! The client's side of shared memory with a hostile adapter.

use std::collections::VecDeque;

use cellgate_core::adapter::Event;
use cellgate_core::queue::layout::{SLOTS, attachment, connection};
use cellgate_core::queue::{
    Doorbell, EventQueue, ReceiveDescriptor, ReceiveQueue, ReceivedPdu, SduOptions, Sleep, Space,
    TransmitDescriptor, TransmitQueue, Wake, Words,
};
use cellgate_lab::memory::LabWords;

use crate::take::Take;

const GENERATION: u32 = 7;
/// Octets of words and slots: no queue here has more than 64 slots of 32 octets.
const FILE_LEN: usize = SLOTS + 64 * 32;

struct Client {
    from_adapter: LabWords,
    from_client: LabWords,
    /// The client's file of its attachment.
    awake: LabWords,
    receive: ReceiveQueue,
    transmit: TransmitQueue,
    events: EventQueue,
    sleep: Sleep,
    pdus: VecDeque<ReceivedPdu>,
    spaces: Vec<Space>,
    slots: u32,
    buffer_len: u32,
}

/// The client takes, releases, reserves and submits, while the adapter's file gets whatever words
/// the octets say. No PDU and no space lies outside the client's buffers, nothing is handed out
/// beyond the queue, and what the client gives back is taken.
pub fn client(data: &[u8]) {
    let mut take = Take::new(data);
    let slots = 1 << take.below(7);
    let buffer_len = 4_096 << take.below(3);
    let mut client = Client {
        from_adapter: LabWords::new(FILE_LEN),
        from_client: LabWords::new(FILE_LEN),
        awake: LabWords::new(FILE_LEN),
        receive: ReceiveQueue::new(slots, buffer_len, GENERATION),
        transmit: TransmitQueue::new(slots, buffer_len, GENERATION),
        events: EventQueue::new(slots),
        sleep: Sleep::default(),
        pdus: VecDeque::new(),
        spaces: Vec::new(),
        slots,
        buffer_len,
    };
    while !take.is_empty() {
        match take.u8() & 7 {
            0 | 1 => client.attack(&mut take),
            2 => client.descriptor(&mut take),
            3 => client.receive(),
            4 => client.give_back(&mut take),
            5 => client.reserve(&mut take),
            6 => client.submit(&mut take),
            _ => client.events(),
        }
    }
}

impl Client {
    /// A word of the adapter's file: near what it was, small, or anything.
    fn attack(&mut self, take: &mut Take<'_>) {
        let op = take.u8();
        let at = match op & 7 {
            0 | 1 => connection::RECEIVE_HEAD,
            2 | 3 => connection::TRANSMIT_TAIL,
            4 => attachment::EVENT_HEAD,
            5 => attachment::EVENTS_LOST,
            _ => usize::from(take.u16()) % (FILE_LEN / 8) * 8,
        };
        let old = self.from_adapter.load(at);
        let new = match op >> 3 & 3 {
            0 => old.wrapping_add(u64::from(take.u8())),
            1 => old.wrapping_sub(u64::from(take.u8())),
            2 => u64::from(take.u16()),
            _ => take.u64(),
        };
        self.from_adapter.store(at, new);
    }

    /// A descriptor that may well be right, in any slot.
    fn descriptor(&mut self, take: &mut Take<'_>) {
        let op = take.u8();
        let descriptor = ReceiveDescriptor {
            position: take.u64(),
            len: if op & 1 == 0 {
                u32::from(take.u16())
            } else {
                take.u32()
            },
            generation: if op & 2 == 0 { GENERATION } else { take.u32() },
            ..ReceiveDescriptor::parse(&take.octets())
        };
        let octets = descriptor.emit();
        assert_eq!(ReceiveDescriptor::parse(&octets), descriptor);
        let slot = u32::from(op >> 2) % self.slots;
        self.from_adapter
            .copy_in(SLOTS + slot as usize * 32, &octets);
    }

    fn receive(&mut self) {
        let Some(pdu) = self.receive.next(&self.from_client, &self.from_adapter) else {
            return;
        };
        assert!(self.receive.owns(&pdu));
        assert!(pdu.offset() < self.buffer_len as usize);
        assert!(pdu.len() >= 1 && pdu.len() <= self.buffer_len as usize);
        assert_eq!(pdu.descriptor().generation, GENERATION);
        self.pdus.push_back(pdu);
        assert!(self.pdus.len() <= self.receive.outstanding() as usize);
        assert!(self.receive.outstanding() <= self.slots);
    }

    /// In any order.
    fn give_back(&mut self, take: &mut Take<'_>) {
        let at = usize::from(take.u8()) % self.pdus.len().max(1);
        if let Some(pdu) = self.pdus.remove(at) {
            assert!(self.receive.release(&self.from_client, pdu));
        }
        let outstanding = u64::from(self.receive.outstanding());
        assert!(outstanding >= self.pdus.len() as u64 && outstanding <= self.slots.into());
    }

    fn reserve(&mut self, take: &mut Take<'_>) {
        let op = take.u8();
        let len = if op == 0 {
            take.u32()
        } else {
            u32::from(op) * 16
        };
        if let Some(space) = self.transmit.reserve(&self.from_adapter, len) {
            assert_eq!(space.len(), len as usize);
            assert!(space.offset() + space.len() <= self.buffer_len as usize);
            self.spaces.push(space);
        }
        assert!(self.transmit.reclaim(&self.from_adapter) <= self.slots);
    }

    fn submit(&mut self, take: &mut Take<'_>) {
        let op = take.u8();
        let options = SduOptions {
            uu: op,
            cpi: take.u8(),
            clp: op & 1 != 0,
            mid: 0,
        };
        let before = self.transmit.submitted();
        let sent = if op & 2 == 0 {
            let at = usize::from(op >> 2) % self.spaces.len().max(1);
            if at >= self.spaces.len() {
                return;
            }
            let space = self.spaces.swap_remove(at);
            self.transmit.submit(&self.from_client, space, options)
        } else {
            let (offset, len) = (take.u32(), take.u32());
            let (mine, peer) = (&self.from_client, &self.from_adapter);
            self.transmit.submit_at(mine, peer, offset, len, options)
        };
        assert_eq!(self.transmit.submitted(), before + u64::from(sent));
        assert!(self.transmit.submitted() - self.transmit.completed() <= self.slots.into());
        assert_eq!(
            self.from_client.load(connection::TRANSMIT_HEAD),
            before + u64::from(sent)
        );
        if sent {
            let slot = (before % u64::from(self.slots)) as usize;
            let mut octets = [0; 16];
            self.from_client.copy_out(SLOTS + slot * 16, &mut octets);
            let descriptor = TransmitDescriptor::parse(&octets);
            assert!(descriptor.is_within(self.buffer_len));
            assert_eq!(descriptor.emit(), octets);
        }
    }

    fn events(&mut self) {
        let taken = self.events.taken();
        if let Some(octets) = self.events.next(&self.awake, &self.from_adapter) {
            assert_eq!(self.events.taken(), taken + 1);
            if let Some(event) = Event::parse(&octets) {
                assert_eq!(Event::parse(&event.emit()), Some(event));
            }
            let bell = Doorbell::parse(octets.first_chunk().expect("longer than a doorbell"));
            assert_eq!(Doorbell::parse(&bell.emit()), bell);
        }
        let _ = self.events.lost(&self.from_adapter);
        self.sleep.announce(&self.awake, attachment::ASLEEP);
        let mut wake = Wake::default();
        assert!(wake.is_due(&self.awake, attachment::ASLEEP));
        assert!(!wake.is_due(&self.awake, attachment::ASLEEP));
        self.sleep.end(&self.awake, attachment::ASLEEP);
        assert!(!wake.is_due(&self.awake, attachment::ASLEEP));
    }
}
