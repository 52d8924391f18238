//! A hostile peer in its own memory, beside somebody who must not notice.

use cellgate_core::Time;
use cellgate_core::adapter::{
    Aal, Adapter, Attachment, AttachmentIndex, Command, Config, Excess, Marks, Notification,
    OpenRequest, Outcome, PortConfig, PortIndex, Receive, Region, Transmit, VcId,
};
use cellgate_core::contract::CellRate;
use cellgate_core::queue::layout::{SLOTS, attachment, connection};
use cellgate_core::queue::{Doorbell, EventQueue, ReceiveQueue, SduOptions, TransmitQueue, Words};
use cellgate_core::wire::{CELL_LEN_NO_HEC, CellFormat, Header, HeaderForm, Pti, VpiVci};
use cellgate_lab::memory::{LabAttachment, LabRegion, LabWords, RegionSizes, TRANSMIT_BUFFER_AT};
use cellgate_lab::{LabBoard, LabCommand, Trace};
use std::cell::RefCell;
use std::rc::Rc;

use crate::check;
use crate::take::Take;

const PORT: PortIndex = PortIndex(0);
const STEP_NS: u64 = 10_000;
const SLOTS_OF_QUEUE: u32 = 16;
const BUFFER_LEN: u32 = 4_096;
const VICTIM: u16 = 100;
const ATTACKER: u16 = 200;
const STEPS_MAX: u32 = 200;
/// Steps in which the victim's SDUs must have left: 16 of them at 100,000 cells/s.
const PATIENCE: u32 = 60;

struct World {
    adapter: Adapter<LabRegion, LabAttachment>,
    board: LabBoard,
    now: Time,
    steps: u32,
    /// The attacker's files and what the adapter writes for it: its connection, its attachment.
    words: [(LabWords, LabWords); 2],
    /// Writes to be done before loads.
    strikes: Rc<RefCell<Vec<(u16, u64)>>>,
    attacker: VcId,
    victim: Victim,
}

/// Somebody who keeps every rule, and what must come of it.
struct Victim {
    vc: VcId,
    region: LabRegion,
    client: LabAttachment,
    receive: ReceiveQueue,
    transmit: TransmitQueue,
    events: EventQueue,
    arrived: Vec<[u8; 40]>,
    taken: usize,
    submitted: u32,
    sent: Vec<u8>,
    doorbells: u64,
}

/// Words into every place that the attacker may write, between the steps and between any two
/// loads of the adapter; cells for both, SDUs of both. The victim gets and sends all that is its
/// own, nothing leaves under another name, cells are conserved.
pub fn region(data: &[u8]) {
    let mut take = Take::new(data);
    let mut world = World::new(take.flag());
    while !take.is_empty() && world.steps < STEPS_MAX {
        match take.u8() & 15 {
            0..=3 => world.attack(&mut take),
            4 | 5 => world.strike(&mut take),
            6 => world.ring_for_anything(&mut take),
            7 => world.attackers_cell(&mut take),
            8 => world.descriptor(&mut take),
            9 | 10 => world.victims_cell(take.u8()),
            11 => world.victims_sdu(take.u8()),
            12 => world.victim_takes(),
            13 => world.modify(take.u8()),
            _ => world.step(),
        }
    }
    world.end();
}

fn request(vci: u16, client: u16) -> OpenRequest {
    OpenRequest {
        address: VpiVci::new(0, vci).unwrap_or_default(),
        port: PORT,
        aal: Aal::Aal5,
        attachment: AttachmentIndex(client),
        receive: Some(Receive {
            rate: None,
            sustained: None,
            cdvt_ns: 0,
            max_sdu: 40,
            fixed_sdu: false,
            excess: Excess::Discard,
            notification: Notification::EveryCell,
            marks: Marks::None,
            queue_threshold: 3,
            guaranteed: true,
        }),
        transmit: Some(Transmit {
            rate: CellRate::new(100_000),
            cdvt_ns: 1_000_000,
            weight: 1,
            abr: None,
            peak: None,
            max_sdu: 40,
            burst: 1,
            sustained: None,
            interrupt_on_completion: true,
        }),
    }
}

impl World {
    fn new(stable: bool) -> Self {
        let config = Config {
            vcs: 4,
            leaves: 1,
            attachments: 2,
            ports: vec![PortConfig {
                form: HeaderForm::Nni,
                format: CellFormat::NoHec,
                budget: 64,
                discard_unread: false,
                real_time: false,
                line_rate: CellRate::OC3,
            }],
            gap_max_ns: 100_000,
            clump_cells: 4,
            overload_cells: 0,
        };
        let now = Time::from_ns(1_000_000_000);
        let mut adapter = Adapter::new(config, now).expect("a sane configuration");
        let mut board = LabBoard::new(1, None);
        let clients = [0, 1].map(|_| LabAttachment::new(16, 16));
        let regions = [0, 1].map(|_| {
            LabRegion::new(RegionSizes {
                receive_buffer: BUFFER_LEN,
                receive_slots: SLOTS_OF_QUEUE,
                transmit_slots: SLOTS_OF_QUEUE,
                transmit_len: BUFFER_LEN,
                stable,
            })
        });
        for attachment in clients.clone() {
            let ticket = 0;
            board.order(0, Command::Attach { ticket, attachment });
        }
        for (vci, client) in [(VICTIM, 0), (ATTACKER, 1)] {
            let region = regions[usize::from(client)].clone();
            let request = request(vci, client);
            board.order(
                0,
                Command::Open {
                    ticket: 0,
                    request,
                    region,
                },
            );
        }
        let mut vcs = Vec::new();
        for step in 1..=4 {
            adapter.step(now.plus_ns(step), &mut board);
            for trace in board.trace.drain(..) {
                if let Trace::Completed(completion) = trace
                    && let Outcome::Vc(vc) = completion.result.expect("room for everybody")
                {
                    vcs.push(vc);
                }
            }
        }
        let [victim, attacker] = vcs[..] else {
            panic!("not open: {vcs:?}");
        };
        let [client, hostile] = clients;
        let [region, hostile_region] = regions;
        let strikes = Rc::new(RefCell::new(Vec::new()));
        let (connection, attachment) = (&hostile_region, &hostile);
        let words = [
            (
                connection.from_client().clone(),
                connection.from_adapter().clone(),
            ),
            (
                attachment.from_client().clone(),
                attachment.from_adapter().clone(),
            ),
        ];
        for (words, _) in &words {
            words.set_adversary(Some(striker(Rc::clone(&strikes))));
        }
        let generation = victim.generation;
        Self {
            adapter,
            board,
            now,
            steps: 0,
            words,
            strikes,
            attacker,
            victim: Victim {
                vc: victim,
                region,
                client,
                receive: ReceiveQueue::new(SLOTS_OF_QUEUE, BUFFER_LEN, generation),
                transmit: TransmitQueue::new(SLOTS_OF_QUEUE, BUFFER_LEN, generation),
                events: EventQueue::new(16),
                arrived: Vec::new(),
                taken: 0,
                submitted: 0,
                sent: Vec::new(),
                doorbells: 0,
            },
        }
    }

    /// A word of the attacker's files: near the adapter's own, small, or anything.
    fn attack(&mut self, take: &mut Take<'_>) {
        let op = take.u8();
        let (words, from_adapter) = &self.words[usize::from(op & 1)];
        let (at, peer) = match op >> 1 & 7 {
            0 | 1 => (connection::RECEIVE_TAIL, connection::RECEIVE_HEAD),
            2 | 3 => (connection::TRANSMIT_HEAD, connection::TRANSMIT_TAIL),
            4 => (attachment::DOORBELL_HEAD, attachment::DOORBELL_TAIL),
            5 => (SLOTS + usize::from(take.u8()) % 64 * 8, 0),
            _ => (usize::from(take.u16()) * 8 % words.len(), 0),
        };
        let near = from_adapter.load(peer);
        let new = match op >> 4 & 3 {
            0 => near.wrapping_add(u64::from(take.u8())),
            1 => near.wrapping_sub(u64::from(take.u8())),
            2 => u64::from(take.u8()),
            _ => take.u64(),
        };
        words.store(at, new);
    }

    /// A word to be written before one of the next loads.
    fn strike(&mut self, take: &mut Take<'_>) {
        let strike = (take.u16(), take.u64());
        self.strikes.borrow_mut().push(strike);
    }

    fn ring_for_anything(&mut self, take: &mut Take<'_>) {
        let op = take.u8();
        let bell = match op & 3 {
            0 => Doorbell {
                vc: self.attacker.index.0.into(),
                generation: self.attacker.generation,
            },
            1 => Doorbell {
                vc: self.victim.vc.index.0.into(),
                generation: self.victim.vc.generation,
            },
            _ => Doorbell {
                vc: take.u32(),
                generation: take.u32(),
            },
        };
        let slot = usize::from(op >> 4);
        let (words, from_adapter) = &self.words[1];
        words.copy_in(SLOTS + slot * 8, &bell.emit());
        let answered = from_adapter.load(attachment::DOORBELL_TAIL);
        let head = answered + u64::from(op >> 2 & 3);
        words.store(attachment::DOORBELL_HEAD, head);
    }

    /// A transmit descriptor that may well be right, in every slot.
    fn descriptor(&mut self, take: &mut Take<'_>) {
        let op = take.u8();
        let mut octets: [u8; 16] = [0; 16];
        octets[..4].copy_from_slice(&u32::from(take.u16()).to_le_bytes());
        octets[4..8].copy_from_slice(&u32::from(op).to_le_bytes());
        octets[12..].copy_from_slice(&self.attacker.generation.to_le_bytes());
        for slot in 0..SLOTS_OF_QUEUE as usize {
            self.words[0].0.copy_in(SLOTS + slot * 16, &octets);
        }
    }

    fn attackers_cell(&mut self, take: &mut Take<'_>) {
        let op = take.u8();
        let sdu = [op; 40];
        self.arrive(ATTACKER, op & 1 != 0, &sdu);
    }

    fn victims_cell(&mut self, octet: u8) {
        // As many as its buffer holds.
        if self.victim.arrived.len() - self.victim.taken >= 16 {
            return;
        }
        let mut sdu = [octet; 40];
        sdu[0] = self.victim.arrived.len() as u8;
        self.arrive(VICTIM, true, &sdu);
        self.victim.arrived.push(sdu);
    }

    fn arrive(&mut self, vci: u16, last: bool, sdu: &[u8; 40]) {
        let pti = Pti::User {
            congested: false,
            last,
        };
        let address = VpiVci::new(0, vci).unwrap_or_default();
        let mut cell = Header::new(address, pti, false).emit().to_vec();
        cell.extend_from_slice(sdu);
        cell.extend_from_slice(&[0, 0, 0, 40]);
        let crc = check::crc32(&cell[4..]);
        cell.extend_from_slice(&crc.to_be_bytes());
        self.board.arrive(self.now, PORT, cell);
    }

    fn victims_sdu(&mut self, octet: u8) {
        let victim = &mut self.victim;
        let from_adapter = victim.region.from_adapter();
        let Some(space) = victim.transmit.reserve(from_adapter, 40) else {
            return;
        };
        let at = TRANSMIT_BUFFER_AT + space.offset();
        let mut sdu = [octet; 40];
        sdu[0] = victim.submitted as u8;
        let from_client = victim.region.from_client();
        from_client.copy_in(at, &sdu);
        let options = SduOptions::default();
        assert!(victim.transmit.submit(from_client, space, options));
        victim.submitted += 1;
        victim.ring();
    }

    fn victim_takes(&mut self) {
        let victim = &mut self.victim;
        let (mine, peer) = (victim.region.from_client(), victim.region.from_adapter());
        while let Some(pdu) = victim.receive.next(mine, peer) {
            let expected = &victim.arrived[victim.taken];
            let mut octets = [0; 40];
            let view = victim.region.view();
            assert_eq!((pdu.len(), pdu.descriptor().cells), (40, 1));
            view.copy_out(pdu.offset(), &mut octets);
            assert_eq!(octets, *expected);
            assert!(victim.receive.release(mine, pdu));
            victim.taken += 1;
        }
        let (mine, peer) = (victim.client.from_client(), victim.client.from_adapter());
        while victim.events.next(mine, peer).is_some() {}
        let faults = [
            victim.receive.faults(),
            victim.transmit.faults(),
            victim.events.faults(),
        ];
        assert_eq!((faults, victim.receive.bad_descriptors()), ([0; 3], 0));
        victim.ring();
    }

    /// The attacker's own host changes its contract in the middle of it all.
    fn modify(&mut self, op: u8) {
        let mut request = request(ATTACKER, 1);
        if let Some(transmit) = &mut request.transmit {
            transmit.rate = CellRate::new(u32::from(op) * 500);
        }
        let vc = self.attacker;
        self.order(Command::Modify {
            ticket: 0,
            vc,
            request,
            region: None,
        });
    }

    fn order(&mut self, command: LabCommand) {
        self.board.order(0, command);
        self.step();
    }

    fn step(&mut self) {
        self.steps += 1;
        self.now = self.now.plus_ns(STEP_NS);
        self.board.trace.clear();
        self.board.poll(self.now, 64);
        self.adapter.step(self.now, &mut self.board);
        assert!(self.adapter.stats().is_conserved());
        for trace in self.board.trace.drain(..) {
            match trace {
                Trace::Transmitted { cells, .. } => {
                    for cell in cells.chunks_exact(CELL_LEN_NO_HEC) {
                        let header = Header::parse([cell[0], cell[1], cell[2], cell[3]]);
                        match header.address(HeaderForm::Nni).vci() {
                            VICTIM => self.victim.sent.push(cell[4]),
                            ATTACKER => {}
                            other => panic!("a cell of VCI {other} left"),
                        }
                    }
                }
                Trace::Completed(completion) => assert!(completion.result.is_ok()),
                _ => {}
            }
        }
        let info = self.adapter.info(self.victim.vc.index).expect("open");
        assert_eq!(info.stats.client_faults, 0);
        assert_eq!(info.stats.cells_discarded.total(), 0);
    }

    fn end(mut self) {
        self.strikes.borrow_mut().clear();
        for _ in 0..PATIENCE {
            self.step();
            self.victim_takes();
        }
        let victim = &self.victim;
        assert_eq!(victim.taken, victim.arrived.len());
        let numbers: Vec<u8> = (0..victim.submitted).map(|n| n as u8).collect();
        assert_eq!(victim.sent, numbers);
    }
}

impl Victim {
    /// Rings, if it has something to send and the doorbell has room.
    fn ring(&mut self) {
        let answered = self.client.from_adapter().load(attachment::DOORBELL_TAIL);
        let waits = self.transmit.reclaim(self.region.from_adapter()) > 0;
        if !waits || self.doorbells - answered >= 16 {
            return;
        }
        let bell = Doorbell {
            vc: self.vc.index.0.into(),
            generation: self.vc.generation,
        };
        let words = self.client.from_client();
        words.copy_in(SLOTS + (self.doorbells % 16) as usize * 8, &bell.emit());
        self.doorbells += 1;
        words.store(attachment::DOORBELL_HEAD, self.doorbells);
    }
}

/// Writes the next of `strikes` before a load.
fn striker(strikes: Rc<RefCell<Vec<(u16, u64)>>>) -> cellgate_lab::memory::Adversary {
    Box::new(move |octets, offset| {
        let Some((at, word)) = strikes.borrow_mut().pop() else {
            return;
        };
        let at = match at & 3 {
            // What is just about to be read.
            0 => offset & !7,
            1 => usize::from(at) % 64 * 8,
            _ => usize::from(at) * 8,
        } % octets.len();
        octets[at..at + 8].copy_from_slice(&word.to_le_bytes());
    })
}
