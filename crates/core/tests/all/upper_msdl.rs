//! Associations of MSDL: blocks from end to end, ends that nobody was asked of, and what it costs.

use std::collections::BTreeMap;

use cellgate_core::Time;
use cellgate_core::adapter::Discard;
use cellgate_core::upper::msna::{
    Access, Association, Msdl, MsdlConfig, SendError, Terms, To, Work,
};

#[derive(Default)]
struct Ring {
    done: BTreeMap<Work, u64>,
}

impl Access for Ring {
    fn data_len(&self) -> Option<u8> {
        Some(32)
    }

    fn channels(&self) -> u8 {
        4
    }

    fn work(&mut self, work: Work) {
        *self.done.entry(work).or_default() += 1;
    }
}

const HOLD_NS: u64 = 1_000;
/// Behind all holds.
const LATE: Time = Time::from_ns(2 * HOLD_NS);

const fn config() -> MsdlConfig {
    MsdlConfig {
        first_vci: 100,
        circuits: 4,
        hold_ns: HOLD_NS,
        timeout_ns: 1_000_000,
        queue_max: 10_000,
    }
}

const TERMS: Terms = Terms {
    receives: 101,
    sends: 102,
    to: To::Channel(2),
    max_block: 8_160,
    senders: 1,
};

fn begin(msdl: &mut Msdl, receives: u16, sends: u16) -> Association {
    let terms = Terms {
        receives,
        sends,
        ..TERMS
    };
    msdl.begin(LATE, &Ring::default(), terms).unwrap()
}

/// All cells that wait, with circuit and channel.
fn leaving(msdl: &mut Msdl) -> Vec<(u16, u8, Vec<u8>)> {
    let mut cells = Vec::new();
    let mut out = [0; 34];
    while let Some(cell) = msdl.poll_cell(&mut Ring::default(), &mut out) {
        cells.push((cell.vci, cell.channel, out.to_vec()));
    }
    cells
}

fn send(msdl: &mut Msdl, association: Association, block: &[u8]) {
    msdl.send(&mut Ring::default(), association, block.to_vec())
        .unwrap();
}

fn discarded(msdl: &Msdl, reason: Discard) -> u64 {
    msdl.counts().discarded.of(reason)
}

fn handle(msdl: &mut Msdl, vci: u16, cell: &[u8]) {
    msdl.handle_cell(Time::ZERO, &mut Ring::default(), vci, cell);
}

#[test]
fn blocks_go_from_end_to_end_in_order_on_the_channel_of_their_destination() {
    let [mut one, mut other] = [(); 2].map(|()| Msdl::new(config()));
    let there = begin(&mut one, 101, 102);
    let back = begin(&mut other, 102, 101);
    let blocks: Vec<Vec<u8>> = (0..70).map(|n| vec![n; usize::from(n) * 13]).collect();
    for block in &blocks {
        send(&mut one, there, block);
        for (vci, channel, cell) in leaving(&mut one) {
            assert_eq!((vci, channel), (102, 2));
            handle(&mut other, vci, &cell);
        }
    }
    for block in &blocks {
        let received = other.poll_received().unwrap();
        assert_eq!(received.association, back);
        assert_eq!(received.block, *block);
        other.recycle(received);
    }
    assert_eq!(other.poll_received(), None);
    let counts = other.counts();
    assert_eq!(counts.discarded.total(), 0);
}

/// A network whose packets have room for a block.
struct Packets;

impl Access for Packets {
    fn data_len(&self) -> Option<u8> {
        None
    }
}

#[test]
fn blocks_go_whole_where_packets_have_room_for_them() {
    let [mut one, mut other] = [(); 2].map(|()| Msdl::new(config()));
    let terms = |receives, sends| Terms {
        receives,
        sends,
        max_block: 1_496,
        ..TERMS
    };
    let there = one.begin(LATE, &Packets, terms(101, 102)).unwrap();
    let back = other.begin(LATE, &Packets, terms(102, 101)).unwrap();
    for len in [0, 1, 1_496] {
        let sent = vec![len as u8; len];
        one.send(&mut Packets, there, sent.clone()).unwrap();
        assert_eq!(one.poll_cell(&mut Packets, &mut [0; 256]), None);
        let (leaving, block) = one.poll_packet(&mut Packets).unwrap();
        assert!(leaving.is_last);
        assert_eq!((leaving.vci, &block), (102, &sent));
        other.handle_packet(&mut Packets, leaving.vci, &block);
        let received = other.poll_received().unwrap();
        assert_eq!((received.association, &received.block), (back, &sent));
        other.recycle(received);
    }
    assert_eq!(one.poll_packet(&mut Packets), None);
    let (len, max) = (1_497, 1_496);
    let long = one.send(&mut Packets, there, vec![0; len]);
    assert_eq!(long, Err(SendError::TooLong { len, max }));
    other.handle_packet(&mut Packets, 102, &[0; 1_497]);
    other.handle_packet(&mut Packets, 103, &[0; 4]);
    // A cell is none of a circuit whose blocks come whole, nor a packet of one with cells.
    handle(&mut other, 102, &[1, 1, 0, 0]);
    begin(&mut other, 103, 101);
    other.handle_packet(&mut Packets, 103, &[0; 4]);
    let discarded = |reason| discarded(&other, reason);
    assert_eq!(discarded(Discard::Oversized), 1);
    assert_eq!(discarded(Discard::UnknownVc), 3);
    assert_eq!(other.counts().delivered, 3);
    assert_eq!(other.poll_received(), None);
    // A queued block is counted, and forgotten with its association.
    one.send(&mut Packets, there, vec![0; 1_000]).unwrap();
    one.end(LATE, there);
    assert_eq!(one.poll_packet(&mut Packets), None);
}

#[test]
fn a_block_to_all_goes_once_on_each_channel() {
    let mut msdl = Msdl::new(config());
    let terms = Terms {
        to: To::All,
        ..TERMS
    };
    let all = msdl.begin(Time::ZERO, &Ring::default(), terms).unwrap();
    send(&mut msdl, all, &[7; 70]);
    let cells = leaving(&mut msdl);
    assert_eq!(cells.len(), 12);
    for (channel, cells) in cells.chunks(3).enumerate() {
        let mut other = Msdl::new(config());
        begin(&mut other, 102, 101);
        for (vci, on, cell) in cells {
            assert_eq!(usize::from(*on), channel);
            handle(&mut other, *vci, cell);
        }
        assert_eq!(other.poll_received().unwrap().block, [7; 70]);
    }
}

#[test]
fn a_block_costs_what_the_paper_s_tables_say() {
    let (mut msdl, mut ring) = (Msdl::new(config()), Ring::default());
    let association = begin(&mut msdl, 102, 102);
    msdl.send(&mut ring, association, vec![0; 320]).unwrap();
    let mut out = [0; 34];
    while let Some(cell) = msdl.poll_cell(&mut ring, &mut out) {
        msdl.handle_cell(Time::ZERO, &mut ring, cell.vci, &out);
    }
    let expected = [
        (Work::TransmitCall, 1),
        (Work::CheckBroadcast, 1),
        (Work::SelectChannel, 1),
        (Work::TransmitCell, 10),
        (Work::ReceiveCall, 1),
        (Work::LookUp, 1),
        (Work::ReceiveCell, 10),
    ];
    assert_eq!(ring.done, BTreeMap::from(expected));
}

#[test]
fn an_end_asks_nobody_and_nothing_of_the_old_comes_to_the_new() {
    let [mut one, mut other] = [(); 2].map(|()| Msdl::new(config()));
    let there = begin(&mut one, 101, 102);
    let old = begin(&mut other, 102, 101);
    send(&mut one, there, &[1; 100]);
    let cells = leaving(&mut one);
    handle(&mut other, 102, &cells[0].2);
    assert_eq!(other.held_cells(), 1);
    other.end(Time::ZERO, old);
    assert_eq!(other.held_cells(), 0);
    assert_eq!(discarded(&other, Discard::Closed), 1);
    // Cells that were under way are nobody's, and the circuit waits for them.
    handle(&mut other, 102, &cells[1].2);
    assert_eq!(discarded(&other, Discard::UnknownVc), 1);
    let before = Time::from_ns(HOLD_NS - 1);
    let mut free = Vec::new();
    let ring = Ring::default();
    while let Some(vci) = other.free_vci(before) {
        free.push(vci);
        let receives = vci;
        let begun = other.begin(before, &ring, Terms { receives, ..TERMS });
        assert!(begun.is_some());
    }
    assert_eq!(free, [100, 101, 103]);
    let receives = 102;
    let early = other.begin(before, &ring, Terms { receives, ..TERMS });
    assert_eq!(early, None);
    assert_eq!(other.free_vci(Time::from_ns(HOLD_NS)), Some(102));
    let new = begin(&mut other, 102, 101);
    assert_ne!(old, new);
    assert_eq!(
        other.send(&mut Ring::default(), old, vec![1]),
        Err(SendError::Ended)
    );
    // Whoever ends it twice ends no other.
    other.end(Time::ZERO, old);
    send(&mut other, new, &[1]);
}

#[test]
fn what_waits_of_an_association_that_ends_does_not_leave() {
    let mut msdl = Msdl::new(config());
    let [one, other] = [101, 102].map(|vci| begin(&mut msdl, vci, vci));
    for n in 0..4 {
        send(&mut msdl, one, &[n; 1_000]);
        send(&mut msdl, other, &[n; 1_000]);
    }
    msdl.end(Time::ZERO, one);
    assert!(leaving(&mut msdl).iter().all(|(vci, ..)| *vci == 102));
    // Its room is free again.
    for _ in 0..10 {
        send(&mut msdl, other, &[9; 1_000]);
    }
    let full = msdl.send(&mut Ring::default(), other, vec![9]);
    assert_eq!(full, Err(SendError::Full));
}

#[test]
fn what_cannot_be_is_refused() {
    let mut msdl = Msdl::new(config());
    let ring = Ring::default();
    for receives in [0, 99, 104, u16::MAX] {
        let terms = Terms { receives, ..TERMS };
        assert_eq!(msdl.begin(Time::ZERO, &ring, terms), None);
    }
    let association = begin(&mut msdl, 101, 102);
    assert_eq!(msdl.begin(Time::ZERO, &ring, TERMS), None);
    let len = 8_161;
    let long = msdl.send(&mut Ring::default(), association, vec![0; len]);
    let max = TERMS.max_block;
    assert_eq!(long, Err(SendError::TooLong { len, max }));
    handle(&mut msdl, 99, &[0; 34]);
    handle(&mut msdl, 0, &[]);
    assert_eq!(discarded(&msdl, Discard::UnknownVc), 2);
    assert_eq!(msdl.poll_cell(&mut Ring::default(), &mut []), None);
}

#[test]
fn a_late_block_is_given_up() {
    let mut msdl = Msdl::new(config());
    let association = begin(&mut msdl, 102, 102);
    send(&mut msdl, association, &[1; 100]);
    let cells = leaving(&mut msdl);
    handle(&mut msdl, 102, &cells[0].2);
    let due = Time::from_ns(1_000_000);
    assert_eq!(msdl.next_deadline(), Some(due));
    msdl.handle_deadline(due);
    assert_eq!(msdl.held_cells(), 0);
    assert_eq!(discarded(&msdl, Discard::ReassemblyTimeout), 1);
    assert_eq!(msdl.next_deadline(), None);
}
