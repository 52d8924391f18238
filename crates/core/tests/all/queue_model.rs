//! The queues against a plain `VecDeque`, with seeded random operations, and against a peer that
//! writes anything at any time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use cellgate_core::Time;
use cellgate_core::queue::layout::{SLOTS, connection};
use cellgate_core::queue::{
    CellReceiver, CellSender, ConnectionGeometry, ConnectionSizes, Consumer, Doorbell, EventQueue,
    FileKind, GeometryError, Header, HeaderError, PortGeometry, PortSizes, Producer, Queue,
    ReceiveDescriptor, ReceiveQueue, SduOptions, TransmitDescriptor, TransmitQueue, Words, layout,
    queue,
};
use cellgate_core::wire::CellFormat;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// A file in private memory. A hostile one has its words overwritten before every load, and its
/// octets before every copy.
#[derive(Clone)]
struct File {
    octets: Rc<RefCell<Vec<u8>>>,
    hostile: Option<Rc<RefCell<Pcg64Mcg>>>,
    loads: Rc<Cell<u64>>,
}

impl File {
    fn new(len: usize) -> Self {
        Self {
            octets: Rc::new(RefCell::new(vec![0; len])),
            hostile: None,
            loads: Rc::default(),
        }
    }

    fn hostile(len: usize, seed: u64) -> Self {
        Self {
            hostile: Some(Rc::new(RefCell::new(rng(seed)))),
            ..Self::new(len)
        }
    }

    fn scribble(&self, offset: usize) {
        let Some(rng) = &self.hostile else { return };
        let mut rng = rng.borrow_mut();
        let mut word = [0; 8];
        word.copy_from_slice(&self.octets.borrow()[offset..offset + 8]);
        let honest = u64::from_le_bytes(word);
        let forged = match rng.next_u64() % 8 {
            0 => rng.next_u64(),
            1 => u64::MAX - rng.next_u64() % 4,
            2 => honest.wrapping_add(rng.next_u64() % 16),
            3 => honest.wrapping_sub(rng.next_u64() % 16),
            4 => 1 << (rng.next_u64() % 64),
            5 => 0,
            _ => honest,
        };
        self.octets.borrow_mut()[offset..offset + 8].copy_from_slice(&forged.to_le_bytes());
    }
}

impl Words for File {
    fn load(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8));
        self.scribble(offset);
        self.loads.set(self.loads.get() + 1);
        let octets = self.octets.borrow();
        u64::from_le_bytes(octets[offset..offset + 8].try_into().unwrap())
    }

    fn store(&self, offset: usize, value: u64) {
        assert!(offset.is_multiple_of(8));
        self.octets.borrow_mut()[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn fence(&self) {}

    fn copy_in(&self, offset: usize, octets: &[u8]) {
        self.octets.borrow_mut()[offset..offset + octets.len()].copy_from_slice(octets);
    }

    fn copy_out(&self, offset: usize, octets: &mut [u8]) {
        let mut at = offset;
        while at + 8 <= offset + octets.len() {
            self.scribble(at);
            at += 8;
        }
        octets.copy_from_slice(&self.octets.borrow()[offset..offset + octets.len()]);
    }
}

fn rng(seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::new(0xcafe_f00d_d15e_a5e5 ^ u128::from(seed))
}

/// Eight octets that a slot of any kind begins with.
enum Longs {}

impl Queue for Longs {
    const HEAD: usize = layout::LINE_LEN;
    const TAIL: usize = layout::LINE_LEN;
    const SLOT_LEN: usize = 8;
}

fn run_against_a_deque(seed: u64, slots: u32, start: u64) {
    let mut rng = rng(seed);
    let (theirs, ours) = (File::new(SLOTS + 8 * slots as usize), File::new(SLOTS));
    let mut producer = Producer::<Longs>::starting_at(slots, start);
    let mut consumer = Consumer::<Longs>::starting_at(slots, start);
    theirs.store(Longs::HEAD, start);
    ours.store(Longs::TAIL, start);
    let (mut model, mut next) = (VecDeque::new(), 0u64);
    for _ in 0..2_000 {
        let n = (rng.next_u64() % (u64::from(slots) + 2)) as usize;
        match rng.next_u64() % 4 {
            0 => {
                let pushed = producer.push(&theirs, &ours, &next.to_le_bytes());
                assert_eq!(pushed, model.len() < slots as usize);
                if pushed {
                    model.push_back(next);
                    next += 1;
                }
            }
            1 => {
                let octets: Vec<u8> = (next..next + n as u64).flat_map(u64::to_le_bytes).collect();
                let pushed = producer.push_batch(&theirs, &ours, &octets) as usize;
                assert_eq!(pushed, n.min(slots as usize - model.len()));
                model.extend(next..next + pushed as u64);
                next += pushed as u64;
            }
            2 => {
                let mut slot = [0; 8];
                let popped = consumer.pop(&ours, &theirs, &mut slot);
                assert_eq!(popped.then(|| u64::from_le_bytes(slot)), model.pop_front());
            }
            _ => {
                let mut slots = vec![0; 8 * n];
                assert_eq!(consumer.refresh(&theirs) as usize, model.len());
                let popped = consumer.pop_seen(&ours, &theirs, &mut slots) as usize;
                assert_eq!(popped, n.min(model.len()));
                for slot in slots.chunks_exact(8).take(popped) {
                    assert_eq!(slot, model.pop_front().unwrap().to_le_bytes());
                }
            }
        }
    }
    assert_eq!((producer.faults(), consumer.faults()), (0, 0));
    assert_eq!(producer.head(), start.wrapping_add(next));
}

#[test]
fn queues_behave_as_a_deque() {
    for seed in 0..100 {
        let slots = 1 << (seed % 7);
        // From zero, across 2^32 and across 2^64.
        for start in [0, (1 << 32) - 500, u64::MAX - 500] {
            run_against_a_deque(seed, slots, start);
        }
    }
}

#[test]
fn a_producer_looks_at_its_peer_only_when_the_queue_seems_full() {
    let (theirs, ours) = (File::new(SLOTS + 64), File::new(SLOTS));
    let mut producer = Producer::<Longs>::new(8);
    for _ in 0..8 {
        assert!(producer.push(&theirs, &ours, &[0; 8]));
    }
    assert_eq!(ours.loads.get(), 0);
    assert!(!producer.push(&theirs, &ours, &[0; 8]));
    assert_eq!(ours.loads.get(), 1);
}

#[test]
fn a_producer_ignores_and_counts_tails_that_cannot_be() {
    let (theirs, ours) = (File::new(SLOTS + 32), File::new(SLOTS));
    let mut producer = Producer::<Longs>::new(4);
    for _ in 0..4 {
        assert!(producer.push(&theirs, &ours, &[0; 8]));
    }
    ours.store(Longs::TAIL, 2);
    assert_eq!(producer.refresh(&ours), 2);
    for (i, forged) in [1, 0, 5, u64::MAX, 1 << 32, 1 << 63]
        .into_iter()
        .enumerate()
    {
        ours.store(Longs::TAIL, forged);
        assert_eq!(producer.refresh(&ours), 2, "{forged}");
        assert_eq!(producer.faults(), i as u32 + 1);
    }
    ours.store(Longs::TAIL, 4);
    assert_eq!(producer.refresh(&ours), 4);
}

#[test]
fn a_consumer_ignores_and_counts_heads_that_cannot_be() {
    let theirs = File::new(SLOTS + 32);
    let mut consumer = Consumer::<Longs>::new(4);
    theirs.store(Longs::HEAD, 3);
    assert_eq!(consumer.refresh(&theirs), 3);
    for (i, forged) in [2, 0, 5, u64::MAX, 1 << 32, 1 << 63]
        .into_iter()
        .enumerate()
    {
        theirs.store(Longs::HEAD, forged);
        assert_eq!(consumer.refresh(&theirs), 3, "{forged}");
        assert_eq!(consumer.faults(), i as u32 + 1);
    }
    theirs.store(Longs::HEAD, 4);
    assert_eq!(consumer.refresh(&theirs), 4);
}

/// The honest side keeps its bounds and overwrites no slot that its peer has not released, taking
/// the peer at the boldest word that it accepted.
#[test]
fn a_hostile_consumer_gains_nothing_but_its_own_slots() {
    for seed in 0..200 {
        let slots = 1 << (seed % 6);
        let theirs = File::new(SLOTS + 8 * slots as usize);
        let ours = File::hostile(SLOTS, seed);
        let mut producer = Producer::<Longs>::new(slots);
        let mut seen = 0;
        for value in 0..2_000u64 {
            let pushed = producer.push(&theirs, &ours, &value.to_le_bytes());
            assert!(producer.tail() >= seen, "the tail went backwards");
            assert!(producer.tail() <= producer.head());
            assert!(producer.head() - producer.tail() <= u64::from(slots));
            assert!(!pushed || producer.free_seen() < slots);
            seen = producer.tail();
        }
        assert!(producer.faults() > 0);
    }
}

#[test]
fn a_hostile_producer_makes_no_consumer_leave_its_slots() {
    for seed in 0..200 {
        let slots = 1 << (seed % 6);
        // Memory ends with the last slot: a copy behind it panics.
        let theirs = File::hostile(SLOTS + 8 * slots as usize, seed);
        let ours = File::new(SLOTS);
        let mut consumer = Consumer::<Longs>::new(slots);
        let mut octets = vec![0; 8 * slots as usize];
        for _ in 0..1_000 {
            let tail = consumer.tail();
            let n = consumer.refresh(&theirs);
            assert!(n <= slots);
            assert!(consumer.pop_seen(&ours, &theirs, &mut octets) <= n);
            consumer.pop(&ours, &theirs, &mut octets[..8]);
            assert!(consumer.tail() - tail <= 2 * u64::from(slots));
            assert_eq!(ours.load(Longs::TAIL), consumer.tail());
        }
        assert!(consumer.faults() > 0);
    }
}

fn descriptor(position: u64, len: u32) -> ReceiveDescriptor {
    ReceiveDescriptor {
        position,
        time: Time::from_ns(position),
        len,
        cells: len.div_ceil(48),
        generation: 3,
        uu: 1,
        cpi: 2,
        clp: true,
        congestion: false,
        lent: true,
        mid: 1023,
    }
}

#[test]
fn pdus_are_given_back_in_any_order_and_reclaimed_in_theirs() {
    for seed in 0..100 {
        let mut rng = rng(seed);
        let slots = 1u32 << (seed % 8);
        let (theirs, ours) = (File::new(SLOTS + 32 * slots as usize), File::new(SLOTS));
        let mut producer = Producer::<queue::Receive>::new(slots);
        let mut receive = ReceiveQueue::new(slots, 4096, 3);
        let (mut sent, mut taken) = (0u64, 0u64);
        let mut held = Vec::new();
        // By index: whether it was given back.
        let mut returned: VecDeque<bool> = VecDeque::new();
        let mut reclaimed = 0u64;
        for _ in 0..1_000 {
            match rng.next_u64() % 3 {
                0 => {
                    let pdu = descriptor(64 * sent, 1 + (sent % 64) as u32);
                    let pushed = producer.push(&theirs, &ours, &pdu.emit());
                    assert_eq!(pushed, sent - reclaimed < u64::from(slots));
                    sent += u64::from(pushed);
                }
                1 => match receive.next(&ours, &theirs) {
                    None => assert_eq!(taken, sent),
                    Some(pdu) => {
                        assert_eq!(pdu.descriptor(), &descriptor(64 * taken, pdu.len() as u32));
                        assert_eq!(pdu.offset() as u64, 64 * taken % 4096);
                        held.push((taken, pdu));
                        returned.push_back(false);
                        taken += 1;
                    }
                },
                _ if held.is_empty() => {}
                _ => {
                    let (index, pdu) = held.swap_remove(rng.next_u64() as usize % held.len());
                    assert!(receive.release(&ours, pdu));
                    returned[(index - reclaimed) as usize] = true;
                    while returned.front() == Some(&true) {
                        returned.pop_front();
                        reclaimed += 1;
                    }
                }
            }
            assert_eq!(ours.load(connection::RECEIVE_TAIL), reclaimed);
            assert_eq!(u64::from(receive.outstanding()), taken - reclaimed);
        }
        assert_eq!(receive.bad_descriptors(), 0);
    }
}

#[test]
fn a_pdu_of_another_queue_is_not_taken_back() {
    let (theirs, ours) = (File::new(SLOTS + 64), File::new(SLOTS));
    let mut producer = Producer::<queue::Receive>::new(2);
    assert!(producer.push(&theirs, &ours, &descriptor(0, 1).emit()));
    let mut receive = ReceiveQueue::new(2, 4096, 3);
    let mut other = ReceiveQueue::new(2, 4096, 3);
    let pdu = receive.next(&ours, &theirs).unwrap();
    assert!(!other.release(&ours, pdu), "it was never handed out here");
    assert_eq!(ours.load(connection::RECEIVE_TAIL), 0);
}

#[test]
fn a_client_goes_on_where_another_has_left() {
    let (from_adapter, from_client) = (File::new(16_384), File::new(16_384));
    let mut adapter = Producer::<queue::Receive>::new(8);
    let mut first = ReceiveQueue::new(8, 4_096, 3);
    for position in 0..5 {
        let octets = descriptor(position * 64, 60).emit();
        assert!(adapter.push(&from_adapter, &from_client, &octets));
    }
    for _ in 0..2 {
        let pdu = first.next(&from_client, &from_adapter).unwrap();
        assert!(first.release(&from_client, pdu));
    }
    // Handed out, and not given back.
    assert!(first.next(&from_client, &from_adapter).is_some());
    let mut second = ReceiveQueue::resumed(8, 4_096, 3, (&from_client, &from_adapter));
    for position in 2..5 {
        let pdu = second.next(&from_client, &from_adapter).unwrap();
        assert_eq!(pdu.offset(), position * 64);
        assert!(second.release(&from_client, pdu));
    }
    assert_eq!(second.next(&from_client, &from_adapter), None);
    assert_eq!(adapter.refresh(&from_client), 8);

    let mut adapter = Consumer::<queue::Transmit>::new(8);
    let mut first = TransmitQueue::new(8, 4_096, 7);
    for _ in 0..3 {
        let space = first.reserve(&from_adapter, 1_000).unwrap();
        assert!(first.submit(&from_client, space, SduOptions::default()));
    }
    let mut slot = [0; 64];
    let slot = &mut slot[..<queue::Transmit as Queue>::SLOT_LEN];
    assert!(adapter.pop(&from_adapter, &from_client, slot));
    let mut second = TransmitQueue::resumed(8, 4_096, 7, (&from_client, &from_adapter));
    for unsent in (1..=2).rev() {
        assert_eq!(second.reclaim(&from_adapter), unsent);
        assert_eq!(
            second.reserve(&from_adapter, 1),
            None,
            "it may lie in an SDU"
        );
        assert!(adapter.pop(&from_adapter, &from_client, slot));
    }
    for round in 4..20 {
        let space = second.reserve(&from_adapter, 3_000).unwrap();
        assert!(second.submit(&from_client, space, SduOptions::default()));
        assert_eq!(second.submitted(), round);
        assert!(adapter.pop(&from_adapter, &from_client, slot));
        let sent = TransmitDescriptor::parse((&*slot).try_into().unwrap());
        assert!(sent.len == 3_000 && sent.is_within(4_096), "{sent:?}");
    }
    assert_eq!((second.faults(), adapter.faults()), (0, 0));
    // Words that cannot be: nothing was published.
    from_client.store(<queue::Transmit as Queue>::HEAD, 1 << 40);
    let mut third = TransmitQueue::resumed(8, 4_096, 7, (&from_client, &from_adapter));
    assert!(third.reserve(&from_adapter, 4_096).is_some());
}

#[test]
fn who_comes_after_a_tail_that_cannot_be_hears_what_arrives_from_then_on() {
    for lie in [7, 1 << 40, u64::MAX, 5_u64.wrapping_sub(9)] {
        let (theirs, ours) = (File::new(SLOTS + 8 * 32), File::new(SLOTS));
        let mut adapter = Producer::<queue::Receive>::new(8);
        let mut put = |position| adapter.push(&theirs, &ours, &descriptor(position, 8).emit());
        let full = if lie == 7 { 5 } else { 8 };
        assert!((0..full).all(&mut put));
        ours.store(connection::RECEIVE_TAIL, lie);
        let mut second = ReceiveQueue::resumed(8, 4_096, 3, (&ours, &theirs));
        assert_eq!(second.next(&ours, &theirs), None, "{lie}");
        assert!(put(full), "{lie}: there is no room");
        let pdu = second.next(&ours, &theirs);
        assert!(pdu.is_some(), "{lie}: it is deaf");
    }
}

#[test]
fn descriptors_that_name_no_octets_of_the_buffer_are_counted_and_given_back() {
    let (theirs, ours) = (File::new(SLOTS + 8 * 32), File::new(SLOTS));
    let mut producer = Producer::<queue::Receive>::new(8);
    let mut receive = ReceiveQueue::new(8, 4096, 3);
    let stale = ReceiveDescriptor {
        generation: 2,
        ..descriptor(0, 8)
    };
    for bad in [
        descriptor(0, 0),
        descriptor(0, 4097),
        descriptor(9, u32::MAX),
        stale,
    ] {
        assert!(producer.push(&theirs, &ours, &bad.emit()));
    }
    assert!(producer.push(&theirs, &ours, &descriptor(u64::MAX, 4096).emit()));
    let pdu = receive.next(&ours, &theirs).unwrap();
    assert_eq!((pdu.offset(), pdu.len()), (4095, 4096));
    assert_eq!(receive.bad_descriptors(), 4);
    assert_eq!(ours.load(connection::RECEIVE_TAIL), 4);
}

#[test]
fn a_hostile_adapter_makes_no_client_leave_its_buffer() {
    for seed in 0..100 {
        let theirs = File::hostile(SLOTS + 16 * 32, seed);
        let ours = File::new(SLOTS);
        let mut receive = ReceiveQueue::new(16, 8192, 3);
        let mut held = VecDeque::new();
        for _ in 0..2_000 {
            if let Some(pdu) = receive.next(&ours, &theirs) {
                assert!(pdu.offset() < 8192 && pdu.offset() + pdu.len() <= 2 * 8192);
                held.push_back(pdu);
            }
            assert!(receive.outstanding() <= 16);
            if held.len() > 3 {
                assert!(receive.release(&ours, held.pop_front().unwrap()));
            }
        }
        assert!(receive.faults() > 0);
    }
}

#[test]
fn transmit_space_is_lent_once_and_comes_back_in_order() {
    for seed in 0..200 {
        let mut rng = rng(seed);
        let (len, slots) = (4096u32, 1u32 << (seed % 5));
        let (ours, theirs) = (File::new(SLOTS + 16 * slots as usize), File::new(SLOTS));
        let mut transmit = TransmitQueue::new(slots, len, 9);
        let mut adapter = Consumer::<queue::Transmit>::new(slots);
        // What is with the adapter: offset and length.
        let mut with_adapter: VecDeque<(u32, u32)> = VecDeque::new();
        let mut longest = 0;
        for _ in 0..2_000 {
            if !rng.next_u64().is_multiple_of(3) {
                let want = (1 + (rng.next_u64() % u64::from(len)) as u32) >> (rng.next_u64() % 8);
                let want = want.max(1);
                let Some(space) = transmit.reserve(&theirs, want) else {
                    assert!(
                        !with_adapter.is_empty(),
                        "an empty buffer lends {want} octets"
                    );
                    continue;
                };
                let (offset, n) = (space.offset() as u32, space.len() as u32);
                assert!(n == want && offset + n <= len && offset.is_multiple_of(64));
                for &(other, m) in &with_adapter {
                    assert!(offset + n <= other || other + m <= offset, "lent twice");
                }
                assert!(transmit.submit(&ours, space, SduOptions::default()));
                with_adapter.push_back((offset, n));
                longest = longest.max(with_adapter.len());
            } else if let Some((offset, n)) = with_adapter.pop_front() {
                let mut octets = [0; 16];
                assert!(adapter.pop(&theirs, &ours, &mut octets));
                let descriptor = TransmitDescriptor::parse(&octets);
                assert_eq!((descriptor.offset, descriptor.len), (offset, n));
                assert!(descriptor.is_within(len) && descriptor.generation == 9);
            }
        }
        assert!(longest > 1 || slots == 1);
        assert_eq!(transmit.faults(), 0);
        while adapter.pop(&theirs, &ours, &mut [0; 16]) {}
        assert_eq!(transmit.reclaim(&theirs), 0);
        assert_eq!(transmit.completed(), transmit.submitted());
    }
}

#[test]
fn space_that_was_submitted_past_is_refused() {
    let (ours, theirs) = (File::new(SLOTS + 64), File::new(SLOTS));
    let mut transmit = TransmitQueue::new(4, 4096, 0);
    let first = transmit.reserve(&theirs, 100).unwrap();
    let again = transmit.reserve(&theirs, 100).unwrap();
    assert_eq!(first, again);
    assert!(transmit.submit(&ours, first, SduOptions::default()));
    assert!(!transmit.submit(&ours, again, SduOptions::default()));
    assert!(transmit.reserve(&theirs, 0).is_none());
    assert!(transmit.reserve(&theirs, 4097).is_none());
    assert_eq!(transmit.submitted(), 1);
}

#[test]
fn octets_that_somebody_else_wrote_are_submitted_where_they_lie() {
    let (ours, theirs) = (File::new(SLOTS + 2 * 16), File::new(SLOTS));
    let mut transmit = TransmitQueue::new(2, 4096, 0);
    let mut adapter = Consumer::<queue::Transmit>::new(2);
    let options = SduOptions::default();
    for (offset, len) in [(0, 0), (4096, 1), (1, 4096), (u32::MAX, u32::MAX)] {
        assert!(!transmit.submit_at(&ours, &theirs, offset, len, options));
    }
    for round in 0..5 {
        assert!(transmit.submit_at(&ours, &theirs, 100 + round, 50, options));
        assert!(transmit.submit_at(&ours, &theirs, 4095, 1, options));
        assert!(
            !transmit.submit_at(&ours, &theirs, 0, 1, options),
            "the queue is full"
        );
        let mut octets = [0; 16];
        assert!(adapter.pop(&theirs, &ours, &mut octets));
        let descriptor = TransmitDescriptor::parse(&octets);
        assert_eq!((descriptor.offset, descriptor.len), (100 + round, 50));
        assert!(adapter.pop(&theirs, &ours, &mut octets));
    }
    assert_eq!(transmit.reclaim(&theirs), 0);
    assert!(transmit.reserve(&theirs, 4096).is_some());
}

#[test]
fn a_hostile_adapter_makes_no_client_write_outside_its_buffer() {
    for seed in 0..100 {
        let ours = File::new(SLOTS + 8 * 16);
        let theirs = File::hostile(SLOTS, seed);
        let mut transmit = TransmitQueue::new(8, 4096, 0);
        for i in 0..2_000 {
            if let Some(space) = transmit.reserve(&theirs, 1 + i % 4096) {
                assert!(space.offset() + space.len() <= 4096);
                assert!(transmit.submit(&ours, space, SduOptions::default()));
            }
            assert!(transmit.submitted() - transmit.completed() <= 8);
        }
        assert!(transmit.faults() > 0);
    }
}

#[test]
fn lost_events_are_told_once() {
    let theirs = File::new(SLOTS + 32);
    let mut events = EventQueue::new(1);
    theirs.store(layout::attachment::EVENTS_LOST, 5);
    assert_eq!(events.lost(&theirs), 5);
    assert_eq!(events.lost(&theirs), 0);
    theirs.store(layout::attachment::EVENTS_LOST, 2);
    assert_eq!(events.lost(&theirs), 0, "the count went backwards");
    theirs.store(layout::attachment::EVENTS_LOST, 6);
    assert_eq!(events.lost(&theirs), 1);
}

#[test]
fn ports_carry_cells_of_both_formats_and_take_none_that_came_after_the_poll() {
    for format in [CellFormat::NoHec, CellFormat::WithHec] {
        let geometry = PortGeometry::new(PortSizes { cells: 8, format }).unwrap();
        let stride = format.stride();
        let (sent, received) = (
            File::new(geometry.from_sender_len()),
            File::new(geometry.from_receiver_len()),
        );
        let (mut sender, mut receiver) = (CellSender::new(&geometry), CellReceiver::new(&geometry));
        let (mut next, mut expected) = (0u8, 0u8);
        let mut rng = rng(1);
        for _ in 0..5_000 {
            let n = (rng.next_u64() % 10) as u8;
            let cells: Vec<u8> = (0..n)
                .flat_map(|i| vec![next.wrapping_add(i); stride])
                .collect();
            let space = sender.space(&received, 8);
            let taken = sender.send(&sent, &received, &cells);
            assert_eq!(taken, u32::from(n).min(space));
            next = next.wrapping_add(taken as u8);
            sender.count_dropped(&sent, u64::from(n) - u64::from(taken));
            let mut fifo = vec![0; stride * (rng.next_u64() % 5) as usize];
            if rng.next_u64().is_multiple_of(2) {
                receiver.poll(&sent);
            }
            let waiting = receiver.waiting();
            let taken = receiver.take(&received, &sent, &mut fifo) as usize;
            assert_eq!(taken, (waiting as usize).min(fifo.len() / stride));
            for cell in fifo.chunks_exact(stride).take(taken) {
                assert!(cell.iter().all(|&octet| octet == expected));
                expected = expected.wrapping_add(1);
            }
        }
        assert!(sender.dropped() > 0 && sender.sent() > 1_000);
        assert_eq!(cellgate_core::queue::cells_dropped(&sent), sender.dropped());
        assert_eq!((sender.faults(), receiver.faults()), (0, 0));
    }
}

#[test]
fn descriptors_keep_every_field() {
    let mut rng = rng(7);
    for _ in 0..10_000 {
        let mut octets = [0; 32];
        rng.fill_bytes(&mut octets);
        let parsed = ReceiveDescriptor::parse(&octets);
        assert_eq!(ReceiveDescriptor::parse(&parsed.emit()), parsed);
        octets[30] &= 0b1100_0111;
        assert_eq!(parsed.emit(), octets);
        let mut octets = [0; 16];
        rng.fill_bytes(&mut octets);
        let parsed = TransmitDescriptor::parse(&octets);
        assert_eq!(TransmitDescriptor::parse(&parsed.emit()), parsed);
        octets[10] &= 0b1100_0001;
        assert_eq!(parsed.emit(), octets);
        let octets = rng.next_u64().to_le_bytes();
        assert_eq!(Doorbell::parse(&octets).emit(), octets);
    }
}

#[test]
fn transmit_descriptors_are_within_the_buffer_or_refused() {
    let at = |offset, len| TransmitDescriptor {
        offset,
        len,
        uu: 0,
        cpi: 0,
        clp: false,
        mid: 0,
        generation: 0,
    };
    assert!(at(0, 1).is_within(1) && at(0, 4096).is_within(4096) && at(4095, 1).is_within(4096));
    for (offset, len) in [(0, 0), (4096, 1), (1, 4096), (u32::MAX, 1), (1, u32::MAX)] {
        assert!(!at(offset, len).is_within(4096), "{offset} {len}");
    }
    assert!(!at(0, 1).is_within(0));
}

#[test]
fn geometries_are_checked() {
    let sizes = ConnectionSizes {
        receive_slots: 16,
        receive_len: 8192,
        receive_elsewhere: false,
        transmit_slots: 8,
        transmit_len: 4096,
    };
    let geometry = ConnectionGeometry::new(sizes).unwrap();
    assert_eq!(geometry.receive_buffer_at(), 8192);
    assert_eq!(geometry.from_adapter_len(), 16384);
    assert_eq!(geometry.from_client_len(), 12288);
    let elsewhere = ConnectionSizes {
        receive_elsewhere: true,
        ..sizes
    };
    let elsewhere = ConnectionGeometry::new(elsewhere).unwrap();
    assert_eq!(elsewhere.from_adapter_len(), 8192);
    let refused = |change: fn(&mut ConnectionSizes)| {
        let mut sizes = sizes;
        change(&mut sizes);
        ConnectionGeometry::new(sizes).unwrap_err()
    };
    assert_eq!(
        refused(|s| s.receive_slots = 0),
        GeometryError::NotPowerOfTwo(0)
    );
    assert_eq!(
        refused(|s| s.transmit_slots = 12),
        GeometryError::NotPowerOfTwo(12)
    );
    assert_eq!(
        refused(|s| s.receive_slots = 1 << 17),
        GeometryError::TooManySlots(1 << 17, 1 << 16)
    );
    assert_eq!(
        refused(|s| s.receive_len = 100),
        GeometryError::NotWholePages(100)
    );
    assert_eq!(
        refused(|s| s.transmit_len = 0xffff_f000),
        GeometryError::BufferTooLong(0xffff_f000)
    );
    let largest = ConnectionSizes {
        receive_slots: layout::QUEUE_SLOTS_MAX,
        receive_len: layout::BUFFER_LEN_MAX,
        ..sizes
    };
    let largest = ConnectionGeometry::new(largest).unwrap();
    assert_eq!(largest.from_adapter_len(), layout::FILE_LEN_MAX);
}

#[test]
fn headers_are_read_as_they_were_written() {
    let file = File::new(layout::PAGE_LEN);
    assert_eq!(Header::read(&file), Err(HeaderError::Magic));
    let header = Header {
        kind: FileKind::PortFromSender,
        generation: 77,
        geometry: [1, 2, 3, 4, 5],
    };
    header.write(&file);
    assert_eq!(Header::read(&file), Ok(header));
    file.store(8, 1 | 5 << 32);
    assert_eq!(Header::read(&file), Err(HeaderError::Version(1)));
    file.store(8, 2 | 9 << 32);
    assert_eq!(Header::read(&file), Err(HeaderError::Kind(9)));
}
