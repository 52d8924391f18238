//! Each port has an address space of its own. Names of VCs stay apart when their generation wraps.

use cellgate_core::Time;
use cellgate_core::adapter::{
    Aal, Adapter, Attachment, AttachmentIndex, Command, Config, Discard, Excess, Marks,
    Notification, OpenRequest, Outcome, PortConfig, PortIndex, Receive, Refusal, Region, Transmit,
    VcId,
};
use cellgate_core::contract::CellRate;
use cellgate_core::queue::layout::{RECEIVE_DESCRIPTOR_LEN, SLOTS, attachment, connection};
use cellgate_core::queue::{Doorbell, ReceiveDescriptor, TransmitDescriptor, Words};
use cellgate_core::wire::{CELL_LEN_NO_HEC, CellFormat, HeaderForm, VpiVci};
use cellgate_lab::memory::{LabAttachment, LabRegion, RegionSizes, TRANSMIT_BUFFER_AT};
use cellgate_lab::{LabAdapter, LabBoard, LabCommand, Trace};

const PORTS: [PortIndex; 2] = [PortIndex(0), PortIndex(1)];
const SDU_LEN: u16 = 88;
/// Two VCs on each port.
const VCS: u16 = 4;

/// An adapter whose two ports are linked: what one transmits the other receives.
struct World {
    adapter: LabAdapter,
    board: LabBoard,
    now: Time,
    client: LabAttachment,
    rung: u64,
}

impl World {
    fn new(leaves: u16) -> Self {
        let port = PortConfig {
            form: HeaderForm::Nni,
            format: CellFormat::NoHec,
            budget: 64,
            discard_unread: false,
            real_time: false,
            line_rate: CellRate::OC3,
        };
        let config = Config {
            vcs: VCS,
            leaves,
            attachments: 1,
            ports: vec![port; PORTS.len()],
            gap_max_ns: 0,
            clump_cells: 1,
            overload_cells: 0,
        };
        let client = LabAttachment::new(64, 16);
        let mut world = Self {
            adapter: Adapter::new(config, Time::ZERO).expect("a sane configuration"),
            board: LabBoard::new(PORTS.len(), None),
            now: Time::ZERO,
            client: client.clone(),
            rung: 0,
        };
        let attach = Command::Attach {
            ticket: 0,
            attachment: client,
        };
        world.ask(attach).expect("attached");
        world
    }

    /// A step; what it transmits is there on the other port at the next.
    fn step(&mut self) -> Option<Result<Outcome, Refusal>> {
        self.now = self.now.plus_ns(100_000);
        self.board.poll(self.now, 64);
        self.adapter.step(self.now, &mut self.board);
        let mut ended = None;
        for trace in std::mem::take(&mut self.board.trace) {
            match trace {
                Trace::Completed(completion) => ended = Some(completion.result),
                Trace::Transmitted { port, cells, .. } => {
                    for cell in cells.chunks(CELL_LEN_NO_HEC) {
                        let peer = PORTS[1 - usize::from(port.0)];
                        self.board.arrive(self.now, peer, cell);
                    }
                }
                _ => {}
            }
        }
        ended
    }

    fn ask(&mut self, command: LabCommand) -> Result<Outcome, Refusal> {
        self.board.order(0, command);
        self.step().expect("ended at once")
    }

    /// Opens VPI 0, VCI `vci` in both directions.
    fn open(&mut self, port: PortIndex, vci: u16) -> Result<(VcId, LabRegion), Refusal> {
        let region = LabRegion::new(RegionSizes {
            receive_buffer: 4_096,
            receive_slots: 16,
            transmit_slots: 16,
            transmit_len: 4_096,
            stable: true,
        });
        let request = OpenRequest {
            address: VpiVci::new(0, vci).expect("an address"),
            port,
            aal: Aal::Aal5,
            attachment: AttachmentIndex(0),
            receive: Some(Receive {
                marks: Marks::None,
                rate: None,
                sustained: None,
                guaranteed: false,
                cdvt_ns: 0,
                max_sdu: SDU_LEN,
                fixed_sdu: false,
                excess: Excess::Discard,
                notification: Notification::Polled,
                queue_threshold: 0,
            }),
            transmit: Some(Transmit {
                rate: None,
                cdvt_ns: 0,
                weight: 1,
                abr: None,
                peak: None,
                max_sdu: SDU_LEN,
                burst: 1,
                sustained: None,
                interrupt_on_completion: false,
            }),
        };
        let command = Command::Open {
            ticket: 0,
            request,
            region: region.clone(),
        };
        match self.ask(command)? {
            Outcome::Vc(vc) => Ok((vc, region)),
            other => panic!("{other:?}"),
        }
    }

    /// Sends an SDU of nothing but `octet`.
    fn send(&mut self, (vc, region): &(VcId, LabRegion), octet: u8) {
        let words = region.from_client();
        let head = words.load(connection::TRANSMIT_HEAD);
        let descriptor = TransmitDescriptor {
            offset: 0,
            len: SDU_LEN.into(),
            uu: 0,
            cpi: 0,
            clp: false,
            mid: 0,
            generation: vc.generation,
        };
        words.copy_in(TRANSMIT_BUFFER_AT, &[octet; SDU_LEN as usize]);
        words.copy_in(SLOTS + (head % 16) as usize * 16, &descriptor.emit());
        words.store(connection::TRANSMIT_HEAD, head + 1);
        let bell = Doorbell {
            vc: vc.index.0.into(),
            generation: vc.generation,
        };
        let words = self.client.from_client();
        words.copy_in(SLOTS + (self.rung % 16) as usize * 8, &bell.emit());
        self.rung += 1;
        words.store(attachment::DOORBELL_HEAD, self.rung);
        for _ in 0..3 {
            self.step();
        }
    }
}

/// PDUs received so far, and the SDU that the first of them holds.
fn received(region: &LabRegion) -> (u64, [u8; SDU_LEN as usize]) {
    let mut sdu = [0; SDU_LEN as usize];
    region.view().copy_out(0, &mut sdu);
    let head = region.from_adapter().load(connection::RECEIVE_HEAD);
    (head, sdu)
}

#[test]
fn one_address_is_open_on_two_ports_in_both_directions() {
    let mut world = World::new(2);
    let ends = PORTS.map(|port| world.open(port, 100).expect("an address of its own"));
    for port in PORTS {
        let taken = world.open(port, 100).err();
        assert_eq!(taken, Some(Refusal::AddressInUse));
    }
    world.send(&ends[0], 0xa0);
    assert_eq!(received(&ends[0].1), (0, [0; 88]));
    assert_eq!(received(&ends[1].1), (1, [0xa0; 88]));
    world.send(&ends[1], 0xb1);
    assert_eq!(received(&ends[0].1), (1, [0xb1; 88]));
    assert_eq!(received(&ends[1].1), (1, [0xa0; 88]));

    // One goes, the other stays.
    let close = Command::Close {
        ticket: 0,
        vc: ends[0].0,
    };
    world.ask(close).expect("closed");
    world.send(&ends[1], 0xb2);
    let stats = world.adapter.stats();
    assert_eq!(stats.cells_discarded.of(Discard::UnknownVc), 2);
    assert_eq!(received(&ends[0].1), (1, [0xb1; 88]));
    // Each port tells what came to it for nobody, and for which address last.
    let strays = PORTS.map(|port| world.adapter.port_stats(port).expect("a port"));
    assert_eq!(strays.map(|strays| strays.unknown_vc), [2, 0]);
    let last = VpiVci::new(0, 100);
    assert_eq!(strays.map(|strays| strays.last_unknown), [last, None]);
    let again = world.open(PORTS[0], 100).expect("free again");
    world.send(&again, 0xa3);
    assert_eq!(received(&ends[1].1).0, 2);
    world.send(&ends[1], 0xb3);
    assert_eq!(received(&again.1), (1, [0xb3; 88]));
}

/// After 2^32 uses a name comes again: until then nothing takes it for another.
#[test]
fn a_name_that_wraps_is_another_than_the_one_before() {
    let mut world = World::new(2);
    let mut state = serde_json::to_value(&world.adapter).expect("state can be written");
    for generation in state["generations"].as_array_mut().expect("of each VC") {
        *generation = (u32::MAX - 1).into();
    }
    world.adapter = serde_json::from_value(state).expect("state can be read");
    let peer = world.open(PORTS[1], 100).expect("room");
    let mut former: Option<(VcId, LabRegion)> = None;
    for (nth, generation) in [u32::MAX, 0, 1].into_iter().enumerate() {
        let own = world.open(PORTS[0], 100).expect("free again");
        assert_eq!(own.0.generation, generation);
        // What the former name is good for: nothing.
        if let Some(former) = &former {
            assert_eq!(own.0.index, former.0.index);
            let faults = world.adapter.stats().doorbell_faults;
            world.send(former, 0xee);
            assert_eq!(world.adapter.stats().doorbell_faults, faults + 1);
            assert_eq!(received(&peer.1).0, nth as u64);
            let vc = former.0;
            let closed = world.ask(Command::Close { ticket: 0, vc });
            assert_eq!(closed.err(), Some(Refusal::StaleVc));
        }
        world.send(&own, 0xa0);
        assert_eq!(received(&peer.1).0, nth as u64 + 1);
        world.send(&peer, 0xb0 + nth as u8);
        assert_eq!(received(&own.1), (1, [0xb0 + nth as u8; 88]));
        let mut descriptor = [0; RECEIVE_DESCRIPTOR_LEN];
        own.1.from_adapter().copy_out(SLOTS, &mut descriptor);
        let descriptor = ReceiveDescriptor::parse(&descriptor);
        assert_eq!(descriptor.generation, generation);
        let vc = own.0;
        world.ask(Command::Close { ticket: 0, vc }).expect("closed");
        former = Some(own);
    }
}

#[test]
fn blocks_of_addresses_are_counted_port_by_port() {
    let mut world = World::new(1);
    let (vc, _) = world.open(PORTS[0], 100).expect("the only block");
    world.open(PORTS[0], 101).expect("the same block");
    assert_eq!(world.open(PORTS[1], 100).err(), Some(Refusal::NoLeaf));
    let close = |vc| Command::Close { ticket: 0, vc };
    world.ask(close(vc)).expect("closed");
    assert_eq!(world.open(PORTS[1], 100).err(), Some(Refusal::NoLeaf));
}

/// What a step takes from each port, in order, when a real-time one and a flooded one have more
/// than their budgets.
#[test]
fn a_real_time_port_waits_for_no_flood_and_starves_nobody() {
    for first in PORTS {
        let mut world = World::new(1);
        let config = PortConfig {
            form: HeaderForm::Nni,
            format: CellFormat::NoHec,
            budget: 64,
            discard_unread: false,
            real_time: true,
            line_rate: CellRate::OC3,
        };
        let command = Command::Configure {
            ticket: 0,
            port: first,
            config,
        };
        assert_eq!(world.ask(command), Ok(Outcome::Done));
        for _ in 0..3 {
            for port in PORTS {
                for _ in 0..200 {
                    world.board.arrive(world.now, port, [0; CELL_LEN_NO_HEC]);
                }
            }
            world.now = world.now.plus_ns(100_000);
            world.board.poll(world.now, 64);
            world.adapter.step(world.now, &mut world.board);
            let trace = std::mem::take(&mut world.board.trace);
            let taken = trace.iter().filter_map(|did| match did {
                Trace::Received { port, cells, .. } => Some((*port, cells.len())),
                _ => None,
            });
            let second = PORTS[1 - usize::from(first.0)];
            let whole = 64 * CELL_LEN_NO_HEC;
            assert_eq!(taken.collect::<Vec<_>>(), [(first, whole), (second, whole)]);
        }
    }
}
