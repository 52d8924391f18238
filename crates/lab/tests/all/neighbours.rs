//! What a client does with its own VCs does not show on another's, and costs a step little.

use cellgate_core::Time;
use cellgate_core::adapter::{
    Aal, Adapter, AdapterState, Attachment, AttachmentIndex, ClpScope, Command, Config, Discard,
    Excess, Marks, Notification, OpenRequest, Outcome, PortConfig, PortIndex, Receive, Region,
    Sustained, Transmit, VcId, VcIndex,
};
use cellgate_core::contract::CellRate;
use cellgate_core::queue::layout::{SLOTS, attachment, connection};
use cellgate_core::queue::{Doorbell, TransmitDescriptor, Words};
use cellgate_core::wire::{CellFormat, Header, HeaderForm, Pti, VpiVci};
use cellgate_lab::memory::{LabAttachment, LabRegion, RegionSizes};
use cellgate_lab::{LabBoard, LabCommand, Trace};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const PORT: PortIndex = PortIndex(0);
const TRANSMIT_SLOTS: u32 = 64;
const STEP_NS: u64 = 10_000;

struct World {
    adapter: Adapter<LabRegion, LabAttachment>,
    board: LabBoard,
    now: Time,
    clients: Vec<LabAttachment>,
}

impl World {
    /// An adapter of one port and 1,024 VCs, with two clients.
    fn new() -> Self {
        Self::starting_at(1_000_000_000, 0, 1)
    }

    fn starting_at(now_ns: u64, gap_max_ns: u64, clump_cells: u16) -> Self {
        let config = Config {
            vcs: 1_024,
            leaves: 2,
            attachments: 2,
            ports: vec![PortConfig {
                form: HeaderForm::Nni,
                format: CellFormat::NoHec,
                budget: 64,
                discard_unread: false,
                real_time: false,
                line_rate: CellRate::OC3,
            }],
            gap_max_ns,
            clump_cells,
            overload_cells: 0,
        };
        let now = Time::from_ns(now_ns);
        let mut world = Self {
            adapter: Adapter::new(config, now).unwrap(),
            board: LabBoard::new(1, None),
            now,
            clients: Vec::new(),
        };
        for _ in 0..2 {
            let attachment = LabAttachment::new(64, 16);
            world.clients.push(attachment.clone());
            let outcome = world.ask(Command::Attach {
                ticket: 0,
                attachment,
            });
            assert!(matches!(outcome, Outcome::Attached(_)));
        }
        world
    }

    fn step(&mut self) {
        self.now = self.now.plus_ns(STEP_NS);
        self.board.trace.clear();
        self.board.poll(self.now, 64);
        self.adapter.step(self.now, &mut self.board);
    }

    fn ask(&mut self, command: LabCommand) -> Outcome {
        self.board.order(0, command);
        self.step();
        let ended = self.board.trace.drain(..).find_map(|trace| match trace {
            Trace::Completed(completion) => Some(completion.result),
            _ => None,
        });
        ended.expect("ended at once").expect("not refused")
    }

    fn open(
        &mut self,
        vci: u16,
        client: u16,
        receive: Option<Receive>,
        transmit: Option<Transmit>,
    ) -> (VcId, LabRegion) {
        let region = LabRegion::new(RegionSizes {
            receive_buffer: 4_096,
            receive_slots: 16,
            transmit_slots: TRANSMIT_SLOTS,
            transmit_len: 4_096,
            stable: true,
        });
        let request = OpenRequest {
            address: VpiVci::new(0, vci).unwrap(),
            port: PORT,
            aal: Aal::Aal5,
            attachment: AttachmentIndex(client),
            receive,
            transmit,
        };
        let outcome = self.ask(Command::Open {
            ticket: 0,
            request,
            region: region.clone(),
        });
        let Outcome::Vc(vc) = outcome else {
            panic!("{outcome:?}");
        };
        (vc, region)
    }

    /// Rings, if the queue has room.
    fn ring(&mut self, client: u16, vc: VcId) {
        let client = &self.clients[usize::from(client)];
        let words = client.from_client();
        let head = words.load(attachment::DOORBELL_HEAD);
        if head - client.from_adapter().load(attachment::DOORBELL_TAIL) >= 16 {
            return;
        }
        let bell = Doorbell {
            vc: vc.index.0.into(),
            generation: vc.generation,
        };
        words.copy_in(SLOTS + (head % 16) as usize * 8, &bell.emit());
        words.store(attachment::DOORBELL_HEAD, head + 1);
    }

    /// A cell arrives and is handled.
    fn cell(&mut self, vci: u16, last: bool) {
        let pti = Pti::User {
            congested: false,
            last,
        };
        let header = Header::new(VpiVci::new(0, vci).unwrap(), pti, false);
        let mut cell = header.emit().to_vec();
        cell.resize(52, 7);
        self.board.arrive(self.now, PORT, cell);
        self.step();
    }
}

fn guaranteed(cell_s: u32, cdvt_ns: u64) -> Transmit {
    Transmit {
        rate: CellRate::new(cell_s),
        cdvt_ns,
        weight: 1,
        abr: None,
        peak: None,
        max_sdu: 40,
        burst: 1,
        sustained: None,
        interrupt_on_completion: false,
    }
}

/// Three cells of the largest PDU, of which two PDUs are let in at once and then none for long.
fn policed() -> Receive {
    Receive {
        marks: Marks::None,
        sustained: None,
        rate: CellRate::new(1),
        cdvt_ns: 0,
        max_sdu: 100,
        fixed_sdu: false,
        excess: Excess::Discard,
        notification: Notification::Polled,
        queue_threshold: 0,
        guaranteed: true,
    }
}

/// The transmit queue is full again, with whatever lies in its slots.
fn refill(region: &LabRegion) {
    let tail = region.from_adapter().load(connection::TRANSMIT_TAIL);
    let head = tail + u64::from(TRANSMIT_SLOTS);
    region.from_client().store(connection::TRANSMIT_HEAD, head);
}

/// A VC at the edges of what its parameters can say.
fn extreme(draw: &mut Pcg64Mcg) -> (Receive, Transmit) {
    let mut pick = |values: &[u64]| values[draw.next_u32() as usize % values.len()];
    let rates = [0, 1, 2, 353_207, u64::from(u32::MAX)];
    let times = [0, 1, 1_000_000_000, u64::MAX / 2, u64::MAX];
    let rate = CellRate::new(pick(&rates) as u32);
    let sustained = CellRate::new(pick(&rates) as u32).map(|rate| Sustained {
        rate,
        burst_tolerance_ns: pick(&times),
        clp: [ClpScope::AllCells, ClpScope::HighPriority { reserve: 512 }][pick(&[0, 1]) as usize],
    });
    let receive = Receive {
        marks: Marks::None,
        sustained: sustained.filter(|_| rate.is_some()),
        rate,
        cdvt_ns: pick(&times),
        max_sdu: pick(&[1, 40, 41, 3_000]) as u16,
        fixed_sdu: pick(&[0, 1]) == 1,
        excess: match (pick(&[0, 1, 2]), pick(&[0, u32::MAX.into()]) as u32) {
            (0, _) => Excess::Discard,
            (1, reserve) => Excess::Tag { reserve },
            (_, reserve) => Excess::WhenIdle { reserve },
        },
        notification: match pick(&[0, 1, 2]) {
            0 => Notification::EveryCell,
            1 => Notification::Silent {
                threshold: pick(&[0, 1, u32::MAX.into()]) as u32,
                longest_delay_ns: pick(&times),
            },
            _ => Notification::FirstAndLastCell,
        },
        queue_threshold: pick(&[0, 1, u32::MAX.into()]) as u32,
        guaranteed: pick(&[0, 1]) == 1,
    };
    let transmit = Transmit {
        rate: CellRate::new(pick(&[0, 1, 2, 10_000]) as u32),
        cdvt_ns: pick(&times),
        weight: pick(&[1, u32::MAX.into()]) as u32,
        abr: None,
        peak: None,
        max_sdu: receive.max_sdu,
        burst: 1,
        sustained: None,
        interrupt_on_completion: true,
    };
    (receive, transmit)
}

#[test]
fn nothing_overflows_at_the_edges_of_rates_and_times() {
    for seed in 0..40 {
        let mut draw = Pcg64Mcg::seed_from_u64(seed);
        let start = [0, 1_000_000_000, u64::MAX - 3_000_000][seed as usize % 3];
        let mut world = World::starting_at(start, u64::MAX, u16::MAX);
        let mut vcs = Vec::new();
        for vci in 100..116 {
            let (receive, transmit) = extreme(&mut draw);
            vcs.push(world.open(vci, 0, Some(receive), Some(transmit)));
        }
        for _ in 0..400 {
            let at = draw.next_u32() as usize % vcs.len();
            let (vc, region) = &vcs[at];
            let descriptor = TransmitDescriptor {
                offset: draw.next_u32() % 64,
                len: 1 + draw.next_u32() % 64,
                uu: 0,
                cpi: 0,
                clp: false,
                mid: 0,
                generation: vc.generation,
            };
            let slot = draw.next_u32() % TRANSMIT_SLOTS;
            let octets = descriptor.emit();
            region
                .from_client()
                .copy_in(SLOTS + slot as usize * 16, &octets);
            refill(region);
            world.ring(0, *vc);
            match draw.next_u32() % 8 {
                0 => {
                    let (receive, transmit) = extreme(&mut draw);
                    let mut request = world.adapter.info(vc.index).unwrap().request;
                    request.receive = Some(receive);
                    request.transmit = Some(transmit);
                    let (vc, region) = (*vc, None);
                    world.ask(Command::Modify {
                        ticket: 0,
                        vc,
                        request,
                        region,
                    });
                }
                // A jump of the clock: never, a little, by years.
                1 => {
                    let jump = [0, 1_000_000, 1 << 55][draw.next_u32() as usize % 3];
                    world.now = world.now.plus_ns(jump);
                }
                _ => world.cell(100 + at as u16, draw.next_u32().is_multiple_of(3)),
            }
        }
        let mut sent = 0;
        for (vc, _) in vcs {
            sent += world.adapter.info(vc.index).unwrap().stats.pdus_transmitted;
            world.ask(Command::Close { ticket: 0, vc });
        }
        assert!(sent > 0 && world.adapter.stats().cells_delivered == 0);
    }
}

/// PDUs that a VC of 100,000 cells/s sends in 10 ms while another client does `mischief` in every
/// step with VCs that are due before it.
fn sent_beside(mischief: fn(&mut World, &[(VcId, LabRegion)])) -> u64 {
    let mut world = World::new();
    let bad: Vec<_> = (0..16)
        .map(|i| world.open(200 + i, 1, None, Some(guaranteed(1, u64::MAX))))
        .collect();
    let (vc, region) = world.open(100, 0, None, Some(guaranteed(100_000, 1_000_000)));
    for slot in 0..TRANSMIT_SLOTS {
        let descriptor = TransmitDescriptor {
            offset: 0,
            len: 40,
            uu: 0,
            cpi: 0,
            clp: false,
            mid: 0,
            generation: vc.generation,
        };
        let at = SLOTS + slot as usize * 16;
        region.from_client().copy_in(at, &descriptor.emit());
    }
    refill(&region);
    world.ring(0, vc);
    for _ in 0..1_000 {
        mischief(&mut world, &bad);
        world.step();
        refill(&region);
    }
    world.adapter.info(vc.index).unwrap().stats.pdus_transmitted
}

/// What a VC has sent and refused after one step, 64 descriptors of which say that they are of
/// `of` generations later, and lines and clients have had all the time that they want.
fn one_step(of: u32) -> (u64, u64, u64) {
    let mut world = World::starting_at(1_000_000_000, 30_000_000, 1);
    let best_effort = Transmit {
        rate: None,
        ..guaranteed(1, 0)
    };
    let (vc, region) = world.open(100, 0, None, Some(best_effort));
    for slot in 0..TRANSMIT_SLOTS {
        let descriptor = TransmitDescriptor {
            offset: 0,
            len: 40,
            uu: 0,
            cpi: 0,
            clp: false,
            mid: 0,
            generation: vc.generation.wrapping_add(of),
        };
        let at = SLOTS + slot as usize * 16;
        region.from_client().copy_in(at, &descriptor.emit());
    }
    refill(&region);
    world.ring(0, vc);
    world.now = world.now.plus_ns(10_000_000);
    world.step();
    let stats = world.adapter.info(vc.index).unwrap().stats;
    let taken = region.from_adapter().load(connection::TRANSMIT_TAIL);
    (stats.pdus_transmitted, stats.client_faults, taken)
}

#[test]
fn a_step_begins_and_refuses_eight_pdus_and_no_more() {
    assert_eq!(one_step(0), (8, 0, 8));
    // Those of another generation of the VC are refused, each for its turn.
    assert_eq!(one_step(1), (0, 8, 8));
    assert_eq!(one_step(u32::MAX - 1), (0, 8, 8));
}

#[test]
fn descriptors_that_name_nothing_take_no_other_vcs_turn() {
    let sent = sent_beside(|world, bad| {
        for (vc, region) in bad {
            refill(region);
            if region.from_adapter().load(connection::TRANSMIT_TAIL) == 0 {
                world.ring(1, *vc);
            }
        }
    });
    assert!(sent >= 900, "{sent} of 1,000 PDUs");
}

#[test]
fn doorbells_for_nothing_take_no_other_vcs_turn() {
    let sent = sent_beside(|world, bad| {
        for (vc, _) in bad {
            world.ring(1, *vc);
        }
    });
    assert!(sent >= 990, "{sent} of 1,000 PDUs");
}

#[test]
fn closing_a_transmit_vc_leaves_reception_at_its_address_alone() {
    let mut world = World::new();
    let (receiving, _kept) = world.open(100, 0, Some(policed()), None);
    let (sending, _) = world.open(100, 1, None, Some(guaranteed(10, 0)));
    for last in [false, false, true, false, false, true, false, false] {
        world.cell(100, last);
    }
    world.ask(Command::Close {
        ticket: 0,
        vc: sending,
    });
    world.cell(100, true);
    let stats = world.adapter.info(receiving.index).unwrap().stats;
    assert_eq!(stats.cells_received, 9);
    assert_eq!(stats.cells_discarded.of(Discard::CrcError), 6);
    assert_eq!(stats.cells_discarded.of(Discard::NonConforming), 3);
}

#[test]
fn cells_of_a_flood_are_counted_beyond_32_bits() {
    let mut world = World::new();
    let (vc, _kept) = world.open(100, 0, Some(policed()), None);
    for last in [false, false, true, false, false, true, false, false] {
        world.cell(100, last);
    }
    // As after 2^32 - 2 cells of the PDU that is being discarded.
    let mut state = serde_json::to_value(&world.adapter).unwrap();
    state["skipped"][usize::from(vc.index.0)] = (u32::MAX - 1).into();
    world.adapter = serde_json::from_value(state).unwrap();
    let before = world.adapter.info(vc.index).unwrap().stats;
    for _ in 0..3 {
        world.cell(100, false);
    }
    let flood = world.adapter.info(vc.index).unwrap().stats;
    assert_eq!(flood.cells_received, before.cells_received + 3);
    world.cell(100, true);
    let after = world.adapter.info(vc.index).unwrap().stats;
    assert_eq!(after.cells_received, before.cells_received + 4);
}

#[test]
fn one_command_looks_at_a_part_of_many_slots() {
    let mut world = World::new();
    let (vc, _kept) = world.open(100, 0, Some(policed()), None);
    let mut list = |from| {
        let outcome = world.ask(Command::Enumerate {
            ticket: 0,
            from,
            into: Vec::with_capacity(8),
        });
        match outcome {
            Outcome::State(AdapterState { vcs, next, .. }) => (vcs.len(), next),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(vc.index, VcIndex(0));
    // Where all are listed there is nothing to look for.
    assert_eq!(list(VcIndex(0)), (1, None));
    assert_eq!(list(VcIndex(1)), (0, Some(VcIndex(513))));
    assert_eq!(list(VcIndex(513)), (0, None));
    assert_eq!(list(VcIndex(u16::MAX)), (0, None));
}
