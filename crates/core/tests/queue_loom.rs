//! The queue protocol under loom: every interleaving and every stale value that the memory model
//! allows, up to a bound of preemptions. And the proof that each ordering is needed: with one of
//! them weakened, loom must find a failure.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p cellgate-core --test queue_loom --release`
#![cfg(loom)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use cellgate_core::Time;
use cellgate_core::queue::layout::{SLOTS, adapter, attachment, connection};
use cellgate_core::queue::{
    Consumer, Doorbell, EventQueue, Producer, Queue, ReceiveDescriptor, ReceiveQueue, SduOptions,
    Sleep, TransmitDescriptor, TransmitQueue, Wake, Words, queue,
};
use loom::cell::Cell;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// Where the buffers of the models begin.
const BUFFER: usize = 8192;

/// A file: words by offset, and octets whose accesses loom checks for races.
struct File {
    words: BTreeMap<usize, AtomicU64>,
    octets: BTreeMap<usize, Cell<u64>>,
}

impl File {
    /// Words at `words`, `slots` octets of slots, `buffer` octets of buffer.
    fn new(words: &[usize], slots: usize, buffer: usize) -> Rc<Self> {
        let octets = (SLOTS..SLOTS + slots).chain(BUFFER..BUFFER + buffer);
        Rc::new(Self {
            words: words.iter().map(|&at| (at, AtomicU64::new(0))).collect(),
            octets: octets.step_by(8).map(|at| (at, Cell::new(0))).collect(),
        })
    }
}

/// What a party's access to a file lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Weak {
    #[default]
    Nothing,
    Load,
    Store,
    Fence,
}

/// A party's access to a file.
struct Handle {
    file: Rc<File>,
    weak: Weak,
}

impl Handle {
    fn new(file: &Rc<File>, weak: Weak) -> Self {
        Self {
            file: Rc::clone(file),
            weak,
        }
    }
}

impl Words for Handle {
    fn load(&self, offset: usize) -> u64 {
        let order = match self.weak {
            Weak::Load => Ordering::Relaxed,
            _ => Ordering::Acquire,
        };
        self.file.words[&offset].load(order)
    }

    fn store(&self, offset: usize, value: u64) {
        let order = match self.weak {
            Weak::Store => Ordering::Relaxed,
            _ => Ordering::Release,
        };
        self.file.words[&offset].store(value, order);
    }

    fn fence(&self) {
        if self.weak != Weak::Fence {
            fence(Ordering::SeqCst);
        }
    }

    fn copy_in(&self, offset: usize, octets: &[u8]) {
        for (i, octets) in octets.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..octets.len()].copy_from_slice(octets);
            self.file.octets[&(offset + 8 * i)].set(u64::from_le_bytes(word));
        }
    }

    fn copy_out(&self, offset: usize, octets: &mut [u8]) {
        for (i, octets) in octets.chunks_mut(8).enumerate() {
            let word = self.file.octets[&(offset + 8 * i)].get().to_le_bytes();
            octets.copy_from_slice(&word[..octets.len()]);
        }
    }
}

/// The four handles of a pair of files.
#[derive(Clone, Copy, Debug, Default)]
struct Weaknesses {
    /// The producer's of its own file.
    publish: Weak,
    /// The consumer's of the producer's file.
    look: Weak,
    /// The consumer's of its own file.
    release: Weak,
    /// The producer's of the consumer's file.
    reuse: Weak,
}

/// All that is needed, and each without which it must fail.
const EACH: [Weaknesses; 4] = {
    const N: Weaknesses = Weaknesses {
        publish: Weak::Nothing,
        look: Weak::Nothing,
        release: Weak::Nothing,
        reuse: Weak::Nothing,
    };
    [
        Weaknesses {
            publish: Weak::Store,
            ..N
        },
        Weaknesses {
            look: Weak::Load,
            ..N
        },
        Weaknesses {
            release: Weak::Store,
            ..N
        },
        Weaknesses {
            reuse: Weak::Load,
            ..N
        },
    ]
};

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Fails unless loom finds a failure of the kind that a missing ordering causes: a race on octets,
/// a party asleep for ever, or a model's own assertion. (That it ran out of branches is none.)
fn must_fail(what: &str, preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    const KINDS: [&str; 4] = ["ausality violation", "oncurrent", "deadlock", "for nothing"];
    let failure = catch_unwind(AssertUnwindSafe(|| check(preemptions, model)))
        .expect_err(&format!("loom found no failure with {what}"));
    let message = failure
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| failure.downcast_ref::<&str>().copied())
        .unwrap_or_default();
    assert!(
        KINDS.iter().any(|kind| message.contains(kind)),
        "with {what}, loom failed otherwise: {message}"
    );
}

/// A queue of 8-octet slots.
enum Longs {}

impl Queue for Longs {
    const HEAD: usize = 128;
    const TAIL: usize = 128;
    const SLOT_LEN: usize = 8;
}

fn long_files(slots: usize) -> (Rc<File>, Rc<File>) {
    (
        File::new(&[Longs::HEAD], 8 * slots, 0),
        File::new(&[Longs::TAIL], 0, 0),
    )
}

/// Five values one by one through a queue of two: full, empty, and around its end twice.
fn transfer(weak: Weaknesses) {
    const SENT: u64 = 5;
    let (theirs, ours) = long_files(2);
    let mine = Handle::new(&theirs, weak.publish);
    let peer = Handle::new(&ours, weak.reuse);
    let sender = thread::spawn(move || {
        let mut producer = Producer::<Longs>::new(2);
        for value in 0..SENT {
            while !producer.push(&mine, &peer, &value.to_le_bytes()) {
                thread::yield_now();
            }
        }
        assert_eq!(producer.faults(), 0);
    });
    let (mine, peer) = (
        Handle::new(&ours, weak.release),
        Handle::new(&theirs, weak.look),
    );
    let mut consumer = Consumer::<Longs>::new(2);
    for value in 0..SENT {
        let mut slot = [0; 8];
        while !consumer.pop(&mine, &peer, &mut slot) {
            thread::yield_now();
        }
        assert_eq!(u64::from_le_bytes(slot), value);
    }
    assert_eq!(consumer.faults(), 0);
    sender.join().unwrap();
}

#[test]
fn a_queue_hands_every_slot_over_in_order() {
    check(3, || transfer(Weaknesses::default()));
}

#[test]
fn a_queue_needs_each_of_its_four_orderings() {
    for weak in EACH {
        must_fail(&format!("{weak:?}"), 3, move || transfer(weak));
    }
}

/// Batches of up to two through a queue of two, published at once, across the end.
fn batches(weak: Weaknesses) {
    const SENT: u64 = 4;
    let (theirs, ours) = long_files(2);
    let mine = Handle::new(&theirs, weak.publish);
    let peer = Handle::new(&ours, weak.reuse);
    let sender = thread::spawn(move || {
        // An odd start, so that batches wrap.
        let mut producer = Producer::<Longs>::new(2);
        let octets: Vec<u8> = (0..SENT).flat_map(u64::to_le_bytes).collect();
        let mut sent = producer.push_batch(&mine, &peer, &octets[..8]) as usize;
        while sent < SENT as usize {
            let n = producer.push_batch(&mine, &peer, &octets[8 * sent..]);
            sent += n as usize;
            if n == 0 {
                thread::yield_now();
            }
        }
    });
    let (mine, peer) = (
        Handle::new(&ours, weak.release),
        Handle::new(&theirs, weak.look),
    );
    let mut consumer = Consumer::<Longs>::new(2);
    let mut taken = 0;
    while taken < SENT {
        let mut slots = [0; 16];
        if consumer.refresh(&peer) == 0 {
            thread::yield_now();
        }
        let n = consumer.pop_seen(&mine, &peer, &mut slots);
        for slot in slots.chunks_exact(8).take(n as usize) {
            assert_eq!(slot, taken.to_le_bytes());
            taken += 1;
        }
    }
    sender.join().unwrap();
}

#[test]
fn a_queue_hands_batches_over_in_order() {
    check(3, || batches(Weaknesses::default()));
}

#[test]
fn batches_need_each_of_the_four_orderings() {
    for weak in EACH {
        must_fail(&format!("{weak:?}"), 3, move || batches(weak));
    }
}

#[derive(Clone)]
struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(false), Condvar::new())))
    }

    fn write(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_one();
    }

    fn is_rung(&self) -> bool {
        *self.0.0.lock().unwrap()
    }

    fn wait(&self) {
        let mut rung = self.0.0.lock().unwrap();
        while !*rung {
            rung = self.0.1.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// Two events to a client that sleeps whenever it finds nothing. A lost wake-up is a deadlock,
/// which loom reports.
fn wake(sleeper: Weak, waker: Weak) {
    const SENT: u64 = 2;
    const ASLEEP: usize = 256;
    let theirs = File::new(&[Longs::HEAD], 16, 0);
    let ours = File::new(&[Longs::TAIL, ASLEEP], 0, 0);
    let bell = Bell::new();
    let (mine, peer) = (
        Handle::new(&theirs, Weak::Nothing),
        Handle::new(&ours, waker),
    );
    let ring = bell.clone();
    let adapter = thread::spawn(move || {
        let (mut producer, mut wake) = (Producer::<Longs>::new(2), Wake::default());
        let mut wakes = 0;
        for value in 0..SENT {
            assert!(producer.push(&mine, &peer, &value.to_le_bytes()));
            if wake.is_due(&peer, ASLEEP) {
                ring.write();
                wakes += 1;
            }
        }
        wakes
    });
    let (mine, peer) = (
        Handle::new(&ours, sleeper),
        Handle::new(&theirs, Weak::Nothing),
    );
    let (mut consumer, mut sleep) = (Consumer::<Longs>::new(2), Sleep::default());
    for value in 0..SENT {
        let mut slot = [0; 8];
        while !consumer.pop(&mine, &peer, &mut slot) {
            sleep.announce(&mine, ASLEEP);
            if consumer.available(&peer, 1) == 0 {
                bell.wait();
            }
            sleep.end(&mine, ASLEEP);
        }
        assert_eq!(u64::from_le_bytes(slot), value);
    }
    let wakes: u64 = adapter.join().unwrap();
    assert!(wakes <= sleep.sleeps(), "one wake-up a sleep");
}

#[test]
fn no_wake_up_is_lost() {
    check(3, || wake(Weak::Nothing, Weak::Nothing));
}

#[test]
fn a_sleeper_needs_its_fence() {
    must_fail("no fence", 3, || wake(Weak::Fence, Weak::Nothing));
}

#[test]
fn a_waker_needs_its_fence() {
    must_fail("no fence", 3, || wake(Weak::Nothing, Weak::Fence));
}

/// Two clients that ring a doorbell each and a service thread that posts a command, to a firmware
/// that looks once, and rests if it finds nothing. Each party has a `Wake` of its own over the
/// adapter's one word, and they ring one bell, as the epoll over theirs is. Whatever the firmware
/// has not seen when it rests must have rung.
fn rest(firmware: Weak, client: Weak, service: Weak) {
    const POSTED: usize = 8;
    let page = File::new(&[adapter::FIRMWARE_ASLEEP], 0, 0);
    let posted = File::new(&[POSTED], 0, 0);
    let bell = Bell::new();
    let rings: Vec<_> = (0..2)
        .map(|_| {
            let theirs = File::new(&[attachment::DOORBELL_HEAD], 8, 0);
            let ours = File::new(&[attachment::DOORBELL_TAIL], 0, 0);
            (theirs, ours)
        })
        .collect();
    let clients: Vec<_> = rings
        .iter()
        .map(|(theirs, ours)| {
            let (mine, peer) = (
                Handle::new(theirs, Weak::Nothing),
                Handle::new(ours, Weak::Nothing),
            );
            let (page, bell) = (Handle::new(&page, client), bell.clone());
            thread::spawn(move || {
                let mut bells = Producer::<queue::Doorbells>::new(1);
                assert!(bells.push(&mine, &peer, &[7; 8]));
                if Wake::default().is_due(&page, adapter::FIRMWARE_ASLEEP) {
                    bell.write();
                }
            })
        })
        .collect();
    let service = {
        let (mine, page) = (
            Handle::new(&posted, Weak::Nothing),
            Handle::new(&page, service),
        );
        let bell = bell.clone();
        thread::spawn(move || {
            mine.store(POSTED, 1);
            if Wake::default().is_due(&page, adapter::FIRMWARE_ASLEEP) {
                bell.write();
            }
        })
    };
    let page = Handle::new(&page, firmware);
    let posted = Handle::new(&posted, Weak::Nothing);
    let mut bells: Vec<_> = rings
        .iter()
        .map(|(theirs, ours)| {
            let (mine, peer) = (
                Handle::new(ours, Weak::Nothing),
                Handle::new(theirs, Weak::Nothing),
            );
            (Consumer::<queue::Doorbells>::new(1), mine, peer)
        })
        .collect();
    let mut slot = [0; 8];
    let mut answered = 0;
    for (bells, mine, peer) in &mut bells {
        answered += usize::from(bells.pop(mine, peer, &mut slot));
    }
    let taken = posted.load(POSTED);
    let mut sleep = Sleep::default();
    sleep.announce(&page, adapter::FIRMWARE_ASLEEP);
    let rung = bells.iter().any(|(bells, _, peer)| bells.has_any(peer));
    let rests = !rung && posted.load(POSTED) == taken;
    for party in clients.into_iter().chain([service]) {
        party.join().unwrap();
    }
    let all_seen = answered == 2 && taken == 1;
    assert!(!rests || all_seen || bell.is_rung(), "it rests for nothing");
}

#[test]
fn no_call_to_an_adapter_that_rests_is_lost() {
    check(2, || rest(Weak::Nothing, Weak::Nothing, Weak::Nothing));
}

#[test]
fn an_adapter_that_rests_needs_its_fence() {
    must_fail("no fence", 2, || {
        rest(Weak::Fence, Weak::Nothing, Weak::Nothing)
    });
}

#[test]
fn who_wakes_an_adapter_needs_a_fence() {
    must_fail("a client without", 2, || {
        rest(Weak::Nothing, Weak::Fence, Weak::Nothing)
    });
    must_fail("a service thread without", 2, || {
        rest(Weak::Nothing, Weak::Nothing, Weak::Fence)
    });
}

/// PDUs through a receive buffer of two places, given back in the wrong order: no place is
/// written before it was given back, none is read before it was written.
fn receive(weak: Weaknesses) {
    const PDUS: u64 = 4;
    const LEN: u32 = 128;
    let theirs = File::new(&[connection::RECEIVE_HEAD], 2 * 32, LEN as usize);
    let ours = File::new(&[connection::RECEIVE_TAIL], 0, 0);
    let mine = Handle::new(&theirs, weak.publish);
    let peer = Handle::new(&ours, weak.reuse);
    let adapter = thread::spawn(move || {
        let mut queue = Producer::<queue::Receive>::new(2);
        for pdu in 0..PDUS {
            while queue.free(&peer, 1) == 0 {
                thread::yield_now();
            }
            let position = 64 * pdu;
            let at = BUFFER + (position % u64::from(LEN)) as usize;
            mine.copy_in(at, &pdu.to_le_bytes());
            let descriptor = ReceiveDescriptor {
                position,
                time: Time::ZERO,
                len: 8,
                cells: 1,
                generation: 1,
                uu: 0,
                cpi: 0,
                clp: false,
                congestion: false,
                lent: false,
                mid: 0,
            };
            assert!(queue.push(&mine, &peer, &descriptor.emit()));
        }
    });
    let (mine, peer) = (
        Handle::new(&ours, weak.release),
        Handle::new(&theirs, weak.look),
    );
    let mut queue = ReceiveQueue::new(2, LEN, 1);
    for pair in 0..PDUS / 2 {
        let [first, second] = [0, 1].map(|i| {
            let pdu = loop {
                match queue.next(&mine, &peer) {
                    Some(pdu) => break pdu,
                    None => thread::yield_now(),
                }
            };
            let mut octets = [0; 8];
            peer.copy_out(BUFFER + pdu.offset(), &mut octets);
            assert_eq!(u64::from_le_bytes(octets), 2 * pair + i);
            pdu
        });
        assert!(queue.release(&mine, second));
        assert_eq!(queue.outstanding(), 2);
        assert!(queue.release(&mine, first));
        assert_eq!(queue.outstanding(), 0);
    }
    assert_eq!((queue.bad_descriptors(), queue.faults()), (0, 0));
    adapter.join().unwrap();
}

#[test]
fn received_pdus_stay_until_they_are_given_back() {
    check(2, || receive(Weaknesses::default()));
}

#[test]
fn a_receive_queue_needs_each_of_its_four_orderings() {
    for weak in EACH {
        must_fail(&format!("{weak:?}"), 2, move || receive(weak));
    }
}

/// SDUs through a transmit buffer of two places; client and adapter change roles.
fn transmit(weak: Weaknesses) {
    const SDUS: u64 = 3;
    const LEN: u32 = 128;
    let ours = File::new(&[connection::TRANSMIT_HEAD], 2 * 16, LEN as usize);
    let theirs = File::new(&[connection::TRANSMIT_TAIL], 0, 0);
    let mine = Handle::new(&ours, weak.publish);
    let peer = Handle::new(&theirs, weak.reuse);
    let client = thread::spawn(move || {
        let mut queue = TransmitQueue::new(2, LEN, 1);
        for sdu in 0..SDUS {
            let space = loop {
                match queue.reserve(&peer, 64) {
                    Some(space) => break space,
                    None => thread::yield_now(),
                }
            };
            mine.copy_in(BUFFER + space.offset(), &sdu.to_le_bytes());
            assert!(queue.submit(&mine, space, SduOptions::default()));
        }
    });
    let (mine, peer) = (
        Handle::new(&theirs, weak.release),
        Handle::new(&ours, weak.look),
    );
    let mut queue = Consumer::<queue::Transmit>::new(2);
    for sdu in 0..SDUS {
        while queue.available(&peer, 1) == 0 {
            thread::yield_now();
        }
        let mut octets = [0; 16];
        peer.copy_out(queue.slot_at(0), &mut octets);
        let descriptor = TransmitDescriptor::parse(&octets);
        assert!(descriptor.is_within(LEN) && descriptor.len == 64);
        let mut octets = [0; 8];
        peer.copy_out(BUFFER + descriptor.offset as usize, &mut octets);
        assert_eq!(u64::from_le_bytes(octets), sdu);
        queue.release(&mine, 1);
    }
    client.join().unwrap();
}

#[test]
fn submitted_sdus_stay_until_they_are_sent() {
    check(2, || transmit(Weaknesses::default()));
}

#[test]
fn a_transmit_queue_needs_each_of_its_four_orderings() {
    for weak in EACH {
        must_fail(&format!("{weak:?}"), 2, move || transmit(weak));
    }
}

/// Whoever hears a doorbell sees the transmit head that it was rung for.
fn doorbell(publish: Weak, look: Weak) {
    let bells = File::new(&[attachment::DOORBELL_HEAD], 8, 0);
    let answers = File::new(&[attachment::DOORBELL_TAIL], 0, 0);
    let sdus = File::new(&[connection::TRANSMIT_HEAD], 16, 64);
    let sent = File::new(&[connection::TRANSMIT_TAIL], 0, 0);
    let handle = |file, weak| Handle::new(file, weak);
    let (mine, peer) = (handle(&bells, publish), handle(&answers, Weak::Nothing));
    let (my_sdus, their_sent) = (handle(&sdus, Weak::Nothing), handle(&sent, Weak::Nothing));
    let client = thread::spawn(move || {
        let mut queue = TransmitQueue::new(1, 64, 1);
        let space = queue.reserve(&their_sent, 8).expect("an empty buffer");
        assert!(queue.submit(&my_sdus, space, SduOptions::default()));
        let bell = Doorbell {
            vc: 7,
            generation: 1,
        };
        let mut bells = Producer::<queue::Doorbells>::new(1);
        assert!(bells.push(&mine, &peer, &bell.emit()));
    });
    let (mine, peer) = (handle(&answers, Weak::Nothing), handle(&bells, look));
    let mut bells = Consumer::<queue::Doorbells>::new(1);
    let mut slot = [0; 8];
    if bells.pop(&mine, &peer, &mut slot) {
        assert_eq!(Doorbell::parse(&slot).vc, 7);
        let sdus = handle(&sdus, Weak::Nothing);
        let mut queue = Consumer::<queue::Transmit>::new(1);
        assert_eq!(queue.available(&sdus, 1), 1, "a doorbell for nothing");
    }
    client.join().unwrap();
}

#[test]
fn a_doorbell_is_heard_after_its_sdu_is_there() {
    check(3, || doorbell(Weak::Nothing, Weak::Nothing));
}

#[test]
fn a_doorbell_needs_its_release() {
    must_fail("a relaxed store", 3, || {
        doorbell(Weak::Store, Weak::Nothing)
    });
}

#[test]
fn a_doorbell_needs_its_acquire() {
    must_fail("a relaxed load", 3, || doorbell(Weak::Nothing, Weak::Load));
}

/// Whoever reads that an event was lost sees the PDU that it was to tell of.
fn lost_event(publish: Weak, look: Weak) {
    let events = File::new(&[attachment::EVENT_HEAD, attachment::EVENTS_LOST], 32, 0);
    let pdus = File::new(&[connection::RECEIVE_HEAD], 32, 0);
    let (mine, my_pdus) = (
        Handle::new(&events, publish),
        Handle::new(&pdus, Weak::Nothing),
    );
    let adapter = thread::spawn(move || {
        let mut queue = Producer::<queue::Receive>::new(1);
        my_pdus.copy_in(queue.slot_at(0), &[0; 32]);
        queue.publish(&my_pdus, 1);
        mine.store(attachment::EVENTS_LOST, 1);
    });
    let peer = Handle::new(&events, look);
    let mut events = EventQueue::new(1);
    if events.lost(&peer) > 0 {
        let pdus = Handle::new(&pdus, Weak::Nothing);
        let mut queue = Consumer::<queue::Receive>::new(1);
        assert_eq!(queue.refresh(&pdus), 1, "an event lost for nothing");
        assert_eq!(events.lost(&peer), 0);
    }
    adapter.join().unwrap();
}

#[test]
fn a_lost_event_is_told_after_its_pdu_is_there() {
    check(3, || lost_event(Weak::Nothing, Weak::Nothing));
}

#[test]
fn a_lost_event_needs_its_release() {
    must_fail("a relaxed store", 3, || {
        lost_event(Weak::Store, Weak::Nothing)
    });
}

#[test]
fn a_lost_event_needs_its_acquire() {
    must_fail("a relaxed load", 3, || {
        lost_event(Weak::Nothing, Weak::Load)
    });
}
