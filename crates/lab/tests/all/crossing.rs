//! PDUs that cross a memory link as a whole: nothing but the time that it takes tells an adapter
//! that lets them from one that makes cells of them.

use std::collections::BTreeMap;

use crate::contracts;
use cellgate_core::Time;
use cellgate_core::adapter::{
    Aal, Adapter, AdapterStats, Attachment, AttachmentIndex, ClpScope, Command, Config, Discard,
    Event, EventKind, Excess, Notification, OpenRequest, Outcome, PortConfig, PortIndex, Receive,
    Region, Sustained, Transmit, VcId, VcIndex, VcInfo,
};
use cellgate_core::contract::{CellRate, aal5_cells};
use cellgate_core::queue::layout::{self, attachment, connection};
use cellgate_core::queue::{Doorbell, ReceiveDescriptor, SduOptions, TransmitQueue, Words};
use cellgate_core::wire::{CellFormat, HeaderForm, VpiVci};
use cellgate_lab::memory::{LabAttachment, LabRegion, RegionSizes, TRANSMIT_BUFFER_AT};
use cellgate_lab::{LabBoard, LabCommand, Trace};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

/// From the first port to the second, and from the third to itself.
const JOINED: [(u8, u8); 2] = [(0, 1), (2, 2)];
const MAX_SDU: u16 = 4_000;
const RECEIVE_BUFFER: u32 = 16_384;
const TRANSMIT_BUFFER: u32 = 32_768;
const RECEIVE_SLOTS: u32 = 16;
const TRANSMIT_SLOTS: u32 = 16;
const DOORBELLS: u32 = 64;
/// What a port sends and receives in a step.
const BUDGET: u32 = 256;

/// What a VC is open for.
struct Plan {
    port: u8,
    vci: u16,
    aal: Aal,
    /// The largest SDU in each direction: received, sent.
    max_sdus: [Option<u16>; 2],
}

const fn plan(port: u8, vci: u16, receive: Option<u16>, transmit: Option<u16>) -> Plan {
    Plan {
        port,
        vci,
        aal: Aal::Aal5,
        max_sdus: [receive, transmit],
    }
}

const PLANS: [Plan; 9] = [
    // In the first slot: nobody sends to it.
    plan(1, 99, Some(MAX_SDU), None),
    plan(0, 100, None, Some(MAX_SDU)),
    // Receives what it sends.
    plan(2, 101, Some(MAX_SDU), Some(MAX_SDU)),
    // Nobody receives.
    plan(0, 102, None, Some(MAX_SDU)),
    // Receives less than is sent.
    plan(0, 103, None, Some(MAX_SDU)),
    // Receives cells.
    plan(0, 104, None, Some(MAX_SDU)),
    plan(1, 100, Some(MAX_SDU), None),
    plan(1, 103, Some(300), None),
    Plan {
        aal: Aal::Aal0,
        ..plan(1, 104, Some(52), None)
    },
];
/// Of PLANS, as often as they are to send.
const SENDERS: [usize; 8] = [1, 1, 1, 2, 2, 3, 4, 5];

/// What worlds differ in beside their contracts.
#[derive(Clone, Copy)]
struct Shape {
    whole: bool,
    port: PortConfig,
    /// Nobody else can write the receive buffers.
    stable: bool,
    /// SDUs and buffers are so many times as long.
    scale: u16,
}

impl Shape {
    fn new(whole: bool) -> Self {
        let port = PortConfig {
            form: HeaderForm::Uni,
            format: CellFormat::NoHec,
            budget: BUDGET as u16,
            discard_unread: false,
            real_time: false,
            line_rate: fast(),
        };
        Self {
            whole,
            port,
            stable: true,
            scale: 1,
        }
    }
}

struct World {
    stable: bool,
    scale: u16,
    adapter: Adapter<LabRegion, LabAttachment>,
    board: LabBoard,
    client: LabAttachment,
    vcs: Vec<(VcId, LabRegion, TransmitQueue)>,
    doorbells: u64,
    /// PDUs that each client has seen.
    seen: Vec<u64>,
    trace: Vec<Trace>,
}

impl World {
    fn new(shape: Shape, receive: Receive) -> Self {
        let config = Config {
            vcs: PLANS.len() as u16,
            leaves: 4,
            attachments: 1,
            ports: vec![shape.port; 3],
            gap_max_ns: 15_000,
            clump_cells: 4,
            overload_cells: 0,
        };
        let client = LabAttachment::new(256, DOORBELLS);
        let mut board = LabBoard::new(3, None);
        for (from, to) in JOINED {
            board.join(PortIndex(from), PortIndex(to), shape.whole);
        }
        let mut world = Self {
            stable: shape.stable,
            scale: shape.scale,
            adapter: Adapter::new(config, Time::from_ns(1_000)).expect("a sane configuration"),
            board,
            client: client.clone(),
            vcs: Vec::new(),
            doorbells: 0,
            seen: vec![0; PLANS.len()],
            trace: Vec::new(),
        };
        world.order(Command::Attach {
            ticket: 0,
            attachment: client,
        });
        for plan in PLANS {
            world.open(&plan, receive);
        }
        world
    }

    fn open(&mut self, plan: &Plan, receive: Receive) {
        let scale = match plan.aal {
            Aal::Aal5 => self.scale,
            _ => 1,
        };
        let [received, sent] = plan.max_sdus.map(|max_sdu| max_sdu.map(|max| max * scale));
        let [receive_buffer, transmit_len] =
            [RECEIVE_BUFFER, TRANSMIT_BUFFER].map(|len| len * u32::from(scale));
        let region = LabRegion::new(RegionSizes {
            receive_buffer: received.map_or(0, |_| receive_buffer),
            receive_slots: RECEIVE_SLOTS,
            transmit_slots: TRANSMIT_SLOTS,
            transmit_len: sent.map_or(0, |_| transmit_len),
            stable: self.stable,
        });
        let request = OpenRequest {
            address: VpiVci::new(0, plan.vci).expect("an address"),
            port: PortIndex(plan.port),
            aal: plan.aal,
            attachment: AttachmentIndex(0),
            receive: received.map(|max_sdu| Receive { max_sdu, ..receive }),
            transmit: sent.map(|max_sdu| Transmit {
                rate: None,
                cdvt_ns: 0,
                weight: 1,
                abr: None,
                peak: None,
                max_sdu,
                burst: 1,
                sustained: None,
                interrupt_on_completion: false,
            }),
        };
        let opened = self.order(Command::Open {
            ticket: 0,
            request,
            region: region.clone(),
        });
        let Outcome::Vc(vc) = opened else {
            panic!("opening a VC gives {opened:?}")
        };
        let queue = TransmitQueue::new(TRANSMIT_SLOTS, transmit_len, vc.generation);
        self.vcs.push((vc, region, queue));
    }

    fn order(&mut self, command: LabCommand) -> Outcome {
        self.order_at(Time::from_ns(1_000), command)
    }

    fn order_at(&mut self, now: Time, command: LabCommand) -> Outcome {
        self.board.order(0, command);
        self.step(now);
        let mut trace = self.trace.drain(..);
        trace
            .find_map(|trace| match trace {
                Trace::Completed(completion) => Some(completion.result.expect("no refusal")),
                _ => None,
            })
            .expect("every command ends")
    }

    fn step(&mut self, now: Time) {
        self.step_with_space(now, 1_024);
    }

    fn step_with_space(&mut self, now: Time, space: usize) {
        self.board.poll(now, space);
        self.adapter.step(now, &mut self.board);
        self.trace.append(&mut self.board.trace);
        assert!(self.adapter.stats().is_conserved());
    }

    /// Puts an SDU into the transmit queue of the `sender`-th VC.
    fn submit(&mut self, sender: usize, sdu: &[u8], options: SduOptions) {
        let (vc, region, queue) = &mut self.vcs[sender];
        let Some(space) = queue.reserve(region.from_adapter(), sdu.len() as u32) else {
            return;
        };
        let words = region.from_client();
        words.copy_in(TRANSMIT_BUFFER_AT + space.offset(), sdu);
        assert!(queue.submit(words, space, options));
        let bell = Doorbell {
            vc: vc.index.0.into(),
            generation: vc.generation,
        };
        let slot = (self.doorbells % u64::from(DOORBELLS)) as usize;
        let words = self.client.from_client();
        words.copy_in(layout::SLOTS + slot * layout::DOORBELL_LEN, &bell.emit());
        self.doorbells += 1;
        words.store(attachment::DOORBELL_HEAD, self.doorbells);
    }

    /// The clients give back all but `keep` of their PDUs, and read their events.
    fn release(&mut self, keep: u64) {
        for (_, region, _) in &self.vcs {
            let head = region.from_adapter().load(connection::RECEIVE_HEAD);
            let tail = region.from_client().load(connection::RECEIVE_TAIL);
            let tail = tail.max(head.saturating_sub(keep));
            region.from_client().store(connection::RECEIVE_TAIL, tail);
        }
        let head = self.client.from_adapter().load(attachment::EVENT_HEAD);
        let words = self.client.from_client();
        words.store(attachment::EVENT_TAIL, head);
    }

    /// PDUs delivered since the last look, as their clients read them.
    fn received(&mut self) -> Vec<(usize, ReceiveDescriptor, Vec<u8>)> {
        let mut received = Vec::new();
        for (at, (_, region, _)) in self.vcs.iter().enumerate() {
            let head = region.from_adapter().load(connection::RECEIVE_HEAD);
            for pdu in self.seen[at]..head {
                let slot = (pdu % u64::from(RECEIVE_SLOTS)) as usize;
                let mut octets = [0; layout::RECEIVE_DESCRIPTOR_LEN];
                let offset = layout::SLOTS + slot * layout::RECEIVE_DESCRIPTOR_LEN;
                region.from_adapter().copy_out(offset, &mut octets);
                let descriptor = ReceiveDescriptor::parse(&octets);
                let view = region.view().to_vec();
                let start = descriptor.position as usize;
                let octet = |i| view[(start + i) % view.len()];
                let sdu = (0..descriptor.len as usize).map(octet).collect();
                received.push((at, descriptor, sdu));
            }
            self.seen[at] = head;
        }
        received
    }

    fn look(&mut self) -> Seen {
        let mut told = BTreeMap::<_, Vec<Event>>::new();
        let mut interrupts = 0;
        let mut outcomes = BTreeMap::new();
        for trace in self.trace.drain(..) {
            match trace {
                Trace::Posted(_, event) => {
                    let key = (event.vc.index, event.kind as u8);
                    told.entry(key).or_default().push(event);
                }
                Trace::Interrupted(..) => interrupts += 1,
                Trace::Judged(outcome, cells) => {
                    *outcomes.entry(format!("{outcome:?}")).or_insert(0) += cells;
                }
                _ => {}
            }
        }
        Seen {
            outcomes,
            stats: *self.adapter.stats(),
            infos: (0..PLANS.len() as u16)
                .filter_map(|vc| self.adapter.info(VcIndex(vc)))
                .map(|mut info| {
                    let of = (info.request.port, info.request.address);
                    let ended = self.board.ended.get(&of).cloned().unwrap_or_default();
                    let stats = &info.stats;
                    assert_eq!(ended, (stats.pdus_delivered, stats.pdus_discarded));
                    info.stats.pdus_crossed = 0;
                    info
                })
                .collect(),
            received: self.received(),
            told,
            interrupts,
            charges: self
                .board
                .charges()
                // Looks at headers are as many as there are runs.
                .filter(|(name, _)| *name != "lookup")
                .collect(),
        }
    }

    /// The adapter's state but for what may differ: the names of memory, what is left of PDUs that
    /// are gone, when it last looked at what clients have given back, and what crossed.
    fn state(&self) -> Value {
        // By way of text, which has numbers of any length.
        let state = serde_json::to_string(&self.adapter).expect("state can be written");
        let mut state = serde_json::from_str(&state).expect("what was written can be read");
        forget(&mut state);
        state
    }
}

fn forget(value: &mut Value) {
    const NAMES: [&str; 11] = [
        "pdus_crossed",
        "from_adapter",
        "from_client",
        "view",
        "staging",
        "fold",
        "folded",
        "trailer",
        "deferred",
        "limit",
        "tail",
    ];
    match value {
        Value::Object(fields) => {
            for name in NAMES {
                fields.remove(name);
            }
            fields.values_mut().for_each(forget);
        }
        Value::Array(values) => values.iter_mut().for_each(forget),
        _ => {}
    }
}

#[derive(Debug, PartialEq)]
struct Seen {
    stats: AdapterStats,
    infos: Vec<VcInfo>,
    received: Vec<(usize, ReceiveDescriptor, Vec<u8>)>,
    /// Of each VC and kind, in order.
    told: BTreeMap<(VcIndex, u8), Vec<Event>>,
    outcomes: BTreeMap<String, u32>,
    interrupts: usize,
    charges: BTreeMap<&'static str, u64>,
}

fn receive(notification: Notification) -> Receive {
    contracts::receive(MAX_SDU, notification)
}

/// Each way to be told, and each way to be refused.
fn contracts() -> Vec<Receive> {
    let polled = receive(Notification::Polled);
    let policed = Receive {
        rate: CellRate::new(2_000_003),
        ..polled
    };
    let sustained = Some(Sustained {
        rate: CellRate::new(1_000_007).expect("a rate"),
        burst_tolerance_ns: 10_000,
        clp: ClpScope::HighPriority { reserve: 64 },
    });
    let polled = [
        polled,
        policed,
        Receive {
            fixed_sdu: true,
            ..polled
        },
        Receive {
            queue_threshold: 7,
            ..polled
        },
        Receive {
            sustained,
            excess: Excess::Tag { reserve: 2_000 },
            ..policed
        },
    ];
    polled.into_iter().chain(contracts::told(MAX_SDU)).collect()
}

fn fast() -> CellRate {
    CellRate::new(100_000_000).expect("a rate")
}

/// SDUs of one VC, or of more, whose cells fit into a step.
fn draw_burst(draw: &mut Pcg64Mcg) -> Vec<(usize, Vec<u8>, SduOptions)> {
    let mut burst = Vec::new();
    let mut pick = |n: u32| draw.next_u32() % n;
    let mut left = BUDGET;
    let senders: Vec<_> = (0..=pick(8) / 6)
        .map(|_| SENDERS[pick(8) as usize])
        .collect();
    for pdu in 0..1 + pick(6) {
        if left == 0 {
            break;
        }
        let sender = senders[pdu as usize % senders.len()];
        let len = match pick(8) {
            0 | 1 => 1 + pick(40),
            2 => 1 + pick(120),
            // All that a step has left.
            3 => (left * 48 - 8).min(MAX_SDU.into()),
            // About the most that the fifth may receive.
            _ if sender == 4 => 280 + pick(60),
            _ => 1 + pick(MAX_SDU.into()),
        };
        let cells = aal5_cells(len);
        if cells > left {
            break;
        }
        left -= cells;
        let octet = pick(256) as u8;
        let sdu = (0..len).map(|i| octet.wrapping_add(i as u8)).collect();
        let options = SduOptions {
            uu: pick(256) as u8,
            cpi: pick(256) as u8,
            clp: pick(4) == 0,
            mid: 0,
        };
        burst.push((sender, sdu, options));
    }
    burst
}

#[test]
fn what_crosses_is_judged_counted_and_told_as_its_cells_would_be() {
    let mut reasons = BTreeMap::<Discard, u64>::new();
    let seeds = if cfg!(debug_assertions) { 2 } else { 4 };
    for (at, receive) in contracts().into_iter().enumerate() {
        let (mut crossed, mut sent, mut delivered, mut low) = (0, 0, 0, 0);
        for seed in 0..seeds {
            let format = [CellFormat::NoHec, CellFormat::WithHec][seed as usize % 2];
            let mut worlds = [true, false].map(|whole| {
                let mut shape = Shape::new(whole);
                shape.port.format = format;
                World::new(shape, receive)
            });
            let mut draw = Pcg64Mcg::seed_from_u64(seed);
            let mut now = Time::from_ns(1_000_000);
            for burst in 0..60 {
                // The line owes nothing to the burst before: what crosses it would lend.
                now = now.plus_ns(u64::from(3_000 + draw.next_u32() % 60_000));
                let what = format!("contract {at}, seed {seed}, burst {burst}");
                let sdus = draw_burst(&mut draw);
                let [whole, cells] = worlds.each_mut().map(|world| {
                    for (sender, sdu, options) in &sdus {
                        world.submit(*sender, sdu, *options);
                    }
                    for _ in 0..1 + burst % 3 {
                        world.step(now);
                    }
                    world.look()
                });
                assert_eq!(whole, cells, "{what}");
                delivered += whole.received.len();
                low += whole.received.iter().filter(|(_, pdu, _)| pdu.clp).count();
                let keep = u64::from(draw.next_u32() % RECEIVE_SLOTS);
                if draw.next_u32() % 3 > 0 {
                    worlds.iter_mut().for_each(|world| world.release(keep));
                }
            }
            let [whole, cells] = &worlds;
            assert!(whole.state() == cells.state(), "contract {at}, seed {seed}");
            assert_eq!(cells.board.crossed(), 0);
            crossed += whole.board.crossed();
            sent += whole.adapter.stats().cells_transmitted;
            let discarded = whole.adapter.stats().cells_discarded;
            for reason in Discard::ALL.iter().copied() {
                *reasons.entry(reason).or_default() += discarded.of(reason);
            }
        }
        // A comparison of nothing would hold as well.
        assert!(crossed > sent / 3, "contract {at}: {crossed} of {sent}");
        assert!(
            delivered > 100 && low > 10,
            "contract {at}: {delivered}, {low}"
        );
    }
    for reason in [
        Discard::NonConforming,
        Discard::BufferFull,
        Discard::QueueFull,
        Discard::Oversized,
        Discard::UnknownVc,
    ] {
        assert!(reasons[&reason] > 0, "no {reason:?}");
    }
}

/// One world, one sender; so many SDUs of `len` octets at once.
fn send(shape: Shape, pdus: usize, len: usize) -> World {
    let mut world = World::new(shape, receive(Notification::Polled));
    for _ in 0..pdus {
        world.submit(1, &vec![7; len], SduOptions::default());
    }
    world
}

#[test]
fn a_pdu_that_does_not_fit_behind_another_crosses_in_the_next_step() {
    // 84 cells each: three in a step.
    let mut world = send(Shape::new(true), 4, 4_000);
    let mut now = Time::from_ns(1_000_000);
    world.step(now);
    assert_eq!(world.received().len(), 3);
    assert_eq!(world.board.crossed(), 252);
    now = now.plus_ns(1_000);
    world.step(now);
    assert_eq!(world.received().len(), 1);
    assert_eq!(world.board.crossed(), 336);
}

/// SDUs can be so long that a step sends a fifth of their cells.
fn long(whole: bool) -> Shape {
    let mut shape = Shape::new(whole);
    shape.scale = 16;
    shape.port.line_rate = CellRate::new(2_000_000_000).expect("a rate");
    shape
}

#[test]
fn a_pdu_longer_than_a_step_sends_has_a_step_for_itself() {
    let mut world = World::new(long(true), receive(Notification::Polled));
    for (octet, len) in [(1, 200), (2, 64_000), (3, 64_000), (4, 200)] {
        world.submit(1, &vec![octet; len], SduOptions::default());
    }
    for (us, octets) in [(0, 1), (1, 2), (2, 3), (3, 4)] {
        world.step(Time::from_ns(1_000_000 + us * 1_000));
        let received = world.received();
        let sdus: Vec<_> = received.iter().map(|(.., sdu)| sdu[0]).collect();
        assert_eq!(sdus, [octets]);
        if us == 2 {
            // Nothing waits: nobody has to give way.
            assert_eq!(world.state()["ports"][1]["crowd"], 0);
        }
    }
    assert_eq!(world.board.crossed(), 2 * (5 + 1_334));
}

#[test]
fn long_pdus_cross_as_their_cells_would() {
    let [whole, cells] = [true, false].map(|whole| {
        let mut world = World::new(long(whole), receive(Notification::Polled));
        let mut draw = Pcg64Mcg::seed_from_u64(11);
        let mut sdus = Vec::new();
        for pdu in 0..40 {
            let len = 1 + draw.next_u32() % 64_000;
            let octets: Vec<_> = (0..len).map(|i| (pdu + i / 48) as u8).collect();
            // To another port, and to the port itself.
            let sender = 1 + (pdu % 2) as usize;
            world.submit(sender, &octets, SduOptions::default());
            for us in 0..8 {
                world.step(Time::from_ns(1_000_000 * u64::from(1 + pdu) + us * 30_000));
            }
            let received = world.received();
            assert_eq!(received.len(), 1, "PDU {pdu}");
            assert!(received[0].2 == octets, "PDU {pdu}");
            sdus.extend(
                received
                    .into_iter()
                    .map(|(at, sdu, _)| (at, sdu.position, sdu.len)),
            );
            world.release(0);
        }
        let stats = *world.adapter.stats();
        (sdus, stats, world.board.crossed())
    });
    assert_eq!((whole.0, whole.1), (cells.0, cells.1));
    assert_eq!((whole.2, cells.2), (whole.1.cells_transmitted, 0));
}

#[test]
fn no_more_crosses_in_a_step_than_either_port_takes() {
    for (space, budget) in [(100, BUDGET), (BUDGET, 100)] {
        let mut shape = Shape::new(true);
        shape.port.budget = budget as u16;
        let mut world = send(shape, 3, 4_000);
        for us in 0..3 {
            world.step_with_space(Time::from_ns(1_000_000 + us * 1_000), space as usize);
            assert_eq!(world.received().len(), 1);
        }
        assert_eq!(world.board.crossed(), 252);
    }
}

#[test]
fn what_crosses_counts_for_whether_a_port_was_found_empty() {
    let [whole, cells] = [true, false].map(|whole| {
        let mut shape = Shape::new(whole);
        shape.port.budget = 84;
        let mut world = send(shape, 1, 4_000);
        world.step(Time::from_ns(1_000_000));
        assert_eq!(world.received().len(), 1);
        world.state()
    });
    assert!(whole == cells);
}

#[test]
fn nothing_crosses_into_a_buffer_that_others_can_write() {
    let shape = Shape {
        stable: false,
        ..Shape::new(true)
    };
    let mut world = send(shape, 3, 4_000);
    world.step(Time::from_ns(1_000_000));
    assert_eq!(world.received().len(), 3);
    assert_eq!(world.board.crossed(), 0);
}

#[test]
fn what_follows_a_pdu_that_stays_unfinished_goes_as_cells() {
    let receive = receive(Notification::Polled);
    let [whole, cells] = [true, false].map(|whole| {
        let mut world = World::new(paced(whole), receive);
        for _ in 0..4 {
            world.submit(1, &[7; 4_000], SduOptions::default());
        }
        // Of the fourth PDU only the first cells leave before its sender goes.
        world.step(Time::from_ns(1_000_000));
        let now = Time::from_ns(1_004_000);
        world.step(now);
        assert_eq!(world.adapter.stats().cells_held, 8);
        let (vc, ..) = world.vcs[1];
        world.order_at(now, Command::Close { ticket: 0, vc });
        let successor = world.vcs.len();
        world.open(&PLANS[1], receive);
        world.seen.push(0);
        for octet in [8, 9, 10] {
            world.submit(successor, &[octet; 200], SduOptions::default());
            world.step(now.plus_ns(1_000_000 * u64::from(octet)));
        }
        (world.look(), world.board.crossed())
    });
    assert_eq!(whole.0, cells.0);
    // Three PDUs at first, and those behind the one that the unfinished one has spoiled.
    let sdus: Vec<_> = whole.0.received.iter().map(|(.., sdu)| sdu[0]).collect();
    assert_eq!(sdus, [7, 7, 7, 9, 10]);
    assert_eq!((whole.1, cells.1), (3 * 84 + 2 * 5, 0));
}

/// 256 cells at once, then one a microsecond.
fn paced(whole: bool) -> Shape {
    let mut shape = Shape::new(whole);
    shape.port.line_rate = CellRate::new(1_000_000).expect("a rate");
    shape
}

#[test]
fn what_a_line_paces_goes_as_cells_in_order() {
    let mut world = send(paced(true), 6, 4_000);
    let mut times = Vec::new();
    for us in 0..400 {
        world.step(Time::from_ns(1_000_000 + us * 1_000));
        times.extend(world.received().iter().map(|_| us));
        world.release(0);
    }
    assert_eq!(times, [0, 0, 0, 80, 164, 248]);
    assert_eq!(world.board.crossed(), 252);
}

#[test]
fn nothing_overtakes_the_cells_of_a_pdu_in_progress() {
    // The second VC's PDUs would fit whole into what the first leaves of each step.
    let mut world = World::new(Shape::new(true), receive(Notification::Polled));
    for i in 0..8 {
        world.submit(1, &[i; 3_000], SduOptions::default());
        world.submit(4, &[i; 200], SduOptions::default());
    }
    let mut orders = [Vec::new(), Vec::new()];
    for us in 0..20 {
        world.step(Time::from_ns(1_000_000 + us * 1_000));
        for (vc, _, sdu) in world.received() {
            orders[usize::from(vc != 6)].push(sdu[0]);
        }
        world.release(0);
    }
    let expected: Vec<_> = (0..8).collect();
    assert_eq!(orders, [expected.clone(), expected]);
    assert_eq!(world.adapter.stats().cells_discarded.total(), 0);
    let kinds = world.trace.iter().filter(|trace| {
        matches!(trace, Trace::Posted(_, event) if event.kind == EventKind::TransmitCompleted)
    });
    assert_eq!(kinds.count(), 16);
}
