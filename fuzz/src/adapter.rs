//! The adapter against its reference model, on plans made from octets.

use cellgate_core::Time;
use cellgate_core::adapter::{
    Aal, AttachmentIndex, ClpScope, Config, Excess, Interleaving, Marks, Notification, OpenRequest,
    PortConfig, PortIndex, Receive, Sustained, Transmit, VcId, VcIndex,
};
use cellgate_core::contract::CellRate;
use cellgate_core::wire::{CellFormat, HeaderForm, VpiVci};
use cellgate_lab::memory::RegionSizes;
use cellgate_lab::plan::{Action, Arrival, Order, Plan, Planned, Step, VcName};
use cellgate_lab::{Failure, LabAdapter, run_adapter, run_adapter_resting, run_attacked};

use crate::aal34::{Sender, sar_payload};
use crate::check;
use crate::take::Take;

/// VCs that a plan names, open or not.
const LINES: u8 = 6;
/// Plans are short, so that there are many of them.
const CELLS_MAX: usize = 600;
const STEPS_MAX: usize = 120;
const ACTIONS_MAX: usize = 80;
/// Steps at the end: commands end and SDUs leave. Longer in all than a modification waits.
const LAST_STEPS: u64 = 64;
const LAST_STEP_NS: u64 = 4_000_000;

/// What the octets of [`adapter`] say.
pub fn plan(data: &[u8]) -> Plan {
    Planner::plan(data)
}

/// Cells and commands as the octets say: adapter and reference must agree on every cell, event,
/// descriptor, octet, counter and completion, and conserve cells. Every fourth input is tried with
/// an adapter that rests, too: it misses nothing.
pub fn adapter(data: &[u8]) {
    let plan = plan(data);
    if let Err(failure) = run_adapter(&plan, None) {
        report(&plan, &failure);
    }
    if data.len() % 4 == 0
        && let Err(failure) = run_adapter_resting(&plan, None)
    {
        report(&plan, &failure);
    }
}

/// The same plans; but the client of the first VC writes into its memory before every load of the
/// adapter. Nobody else may notice.
pub fn attacked(data: &[u8]) {
    let plan = plan(data);
    let first = plan
        .actions
        .iter()
        .find_map(|planned| match planned.action {
            Action::Order(ticket, Order::Open(..)) => Some(ticket),
            _ => None,
        });
    let Some(memory) = first else { return };
    let Ok(mut firmware) = LabAdapter::new(plan.config.clone(), Time::ZERO) else {
        return;
    };
    if let Err(failure) = run_attacked(&plan, memory, &mut firmware) {
        report(&plan, &failure);
    }
}

/// The plan says more than the octets.
fn report(plan: &Plan, failure: &Failure) -> ! {
    let text = serde_json::to_string(plan).expect("a plan is plain data");
    panic!("{failure}\n{text}");
}

struct Line {
    request: OpenRequest,
    sizes: RegionSizes,
    /// Of the command that opened it last, and of the one that brought its memory.
    ticket: u64,
    memory: u64,
    /// Payloads of the PDU that is on its way.
    pdu: Vec<u8>,
    /// Of AAL3/4.
    senders: [Sender; 4],
}

struct Planner<'a> {
    take: Take<'a>,
    now_ns: u64,
    tickets: u64,
    plan: Plan,
    lines: Vec<Line>,
    /// Somebody rang in vain, and somebody went. Not both: the judge counts a doorbell when it is
    /// rung, and one whose client goes before its turn is never answered.
    rung: bool,
    gone: bool,
}

impl Planner<'_> {
    fn plan(data: &[u8]) -> Plan {
        let mut take = Take::new(data);
        let config = config(&mut take);
        let mut planner = Planner {
            take,
            now_ns: 1,
            tickets: 0,
            plan: Plan {
                seed: 0,
                config,
                cells: Vec::new(),
                actions: Vec::new(),
                steps: Vec::new(),
            },
            lines: Vec::new(),
            rung: false,
            gone: false,
        };
        planner.open_all();
        while !planner.take.is_empty() && planner.is_short() {
            planner.act();
        }
        planner.end()
    }

    fn is_short(&self) -> bool {
        self.plan.cells.len() < CELLS_MAX
            && self.plan.steps.len() < STEPS_MAX
            && self.plan.actions.len() < ACTIONS_MAX
    }

    fn open_all(&mut self) {
        for _ in 0..self.plan.config.attachments {
            let slots = self.take.pick(&[1, 2, 16, 64]);
            self.order(Order::Attach(slots, 64));
        }
        for _ in 0..1 + self.take.below(LINES) {
            let (request, sizes) = self.contract();
            let ticket = self.order(Order::Open(request, sizes));
            self.lines.push(Line {
                request,
                sizes,
                ticket,
                memory: ticket,
                pdu: Vec::new(),
                senders: Default::default(),
            });
        }
        for _ in 0..self.tickets {
            self.step(10_000, 64);
        }
    }

    fn act(&mut self) {
        let op = self.take.u8();
        let line = usize::from(op >> 4) % self.lines.len();
        match op & 15 {
            0..=4 if self.lines[line].request.aal.interleaving().is_some() => self.cells34(line),
            0..=4 => self.cells(line),
            5 => self.stranger(line),
            6 => self.command(line),
            7 | 8 => self.submit(line),
            9 => {
                let pdus = u32::from(self.take.u8());
                let memory = self.lines[line].memory;
                self.at_once(Action::Take { memory, pdus });
            }
            10 => {
                let client = 1 + u64::from(op >> 4) % u64::from(self.plan.config.attachments);
                let events = u32::from(self.take.u8());
                self.at_once(Action::TakeEvents { client, events });
            }
            11 => self.mischief(line),
            _ => {
                let ns = match self.take.u8() {
                    0 => u64::from(self.take.u32()),
                    n => u64::from(n) * 2_000,
                };
                let space = self.take.pick(&[64, 64, 64, 8, 1, 0]);
                self.step(ns.max(1), space);
            }
        }
    }

    fn at_once(&mut self, action: Action) {
        let at_ns = self.now_ns;
        self.plan.actions.push(Planned { at_ns, action });
    }

    fn order(&mut self, order: Order) -> u64 {
        self.tickets += 1;
        self.at_once(Action::Order(self.tickets, order));
        self.tickets
    }

    fn step(&mut self, ns: u64, transmit_space: u32) {
        let poll_ns = self.now_ns + ns;
        self.now_ns = poll_ns + ns % 1_000;
        self.plan.steps.push(Step {
            poll_ns,
            now_ns: self.now_ns,
            transmit_space,
        });
    }

    fn contract(&mut self) -> (OpenRequest, RegionSizes) {
        let take = &mut self.take;
        let op = take.u8();
        let aal = match op & 7 {
            7 => Aal::Aal0,
            6 => Aal::Aal34(interleaving(take)),
            _ => Aal::Aal5,
        };
        let max_sdu = match aal {
            Aal::Aal0 => 52,
            Aal::Aal5 | Aal::Aal34(_) => take.pick(&[40, 41, 88, 200, 424, 1]),
        };
        let vci = 32 + u16::from(take.below(4)) + take.pick(&[0, 0, 0x4000]);
        let clients = self.plan.config.attachments as u8;
        let request = OpenRequest {
            address: VpiVci::new(take.pick(&[0, 1, 255, 256]), vci).unwrap_or_default(),
            port: PortIndex(take.below(self.plan.config.ports.len() as u8)),
            aal,
            attachment: AttachmentIndex(take.below(clients).into()),
            receive: (op & 0x18 != 0).then(|| receive(take, max_sdu)),
            transmit: (op & 0x18 != 0x18).then(|| transmit(take, max_sdu)),
        };
        let slots = take.pick(&[2, 4, 8]);
        let sizes = RegionSizes {
            receive_buffer: take.pick(&[512, 1_024, 2_048, 4_096]),
            receive_slots: take.pick(&[1, 2, 4, 16, 64]),
            transmit_slots: slots,
            transmit_len: 4_096,
            stable: op & 0x80 != 0,
        };
        (request, sizes)
    }

    /// Cells of a PDU: any number of them, any damage, and an end that may well be right.
    fn cells(&mut self, line: usize) {
        let op = self.take.u8();
        let raw = op & 0x40 != 0;
        let Line { request, pdu, .. } = &mut self.lines[line];
        let before = pdu.len();
        let n = match op & 7 {
            7 => 1 + usize::from(self.take.u8() & 15),
            n => 1 + usize::from(n) / 3,
        };
        let own = self.take.slice(if raw { 48 * n } else { 1 });
        pdu.extend_from_slice(own);
        pdu.resize(before + 48 * n, own.first().copied().unwrap_or(0));
        let ends = op & 8 != 0;
        if ends {
            let len = pdu.len();
            let length = match self.take.u8() {
                0 => 0,
                1 => self.take.u16(),
                pad => (len - 8).saturating_sub(usize::from(pad) % 52) as u16,
            };
            pdu[len - 6..len - 4].copy_from_slice(&length.to_be_bytes());
            let crc = check::crc32(&pdu[..len - 4]) ^ u32::from(op & 0x30 == 0x30);
            pdu[len - 4..].copy_from_slice(&crc.to_be_bytes());
        }
        let payloads = pdu[before..].to_vec();
        if ends || pdu.len() > 4_096 {
            pdu.clear();
        }
        let (address, port) = (request.address.bits() << 4, request.port);
        let marks = if op & 0x80 != 0 { self.take.u8() } else { 0 };
        for (i, payload) in payloads.chunks_exact(48).enumerate() {
            let last = ends && i + 1 == n;
            let word = address | u32::from(marks & 5) | u32::from(last) << 1;
            self.arrive(port, word, payload, marks >> 4);
        }
    }

    /// Cells of interleaved PDUs, in which anything may be wrong.
    fn cells34(&mut self, line: usize) {
        let op = self.take.u8();
        let marks = if op & 0x80 != 0 { self.take.u8() } else { 0 };
        for _ in 0..1 + (op & 15) {
            let Line {
                request, senders, ..
            } = &mut self.lines[line];
            let max_sdu = request.receive.map_or(0, |receive| receive.max_sdu);
            let payload = sar_payload(&mut self.take, senders, max_sdu);
            // The bit that ends an AAL5 PDU means nothing here.
            let word = request.address.bits() << 4 | u32::from(marks & 7);
            let port = request.port;
            self.arrive(port, word, &payload, marks >> 4);
        }
    }

    /// A cell of nobody, or one that is no user data.
    fn stranger(&mut self, line: usize) {
        let op = self.take.u8();
        let request = &self.lines[line].request;
        let own = request.address.bits() << 4;
        let word = match op & 3 {
            0 => own | u32::from(op >> 4),
            1 => own ^ 1 << (4 + self.take.below(28)),
            2 => u32::from(op >> 4) | u32::from(op & 4) << 26,
            _ => self.take.u32(),
        };
        let port = match op & 8 {
            0 => request.port,
            _ => PortIndex(self.take.below(self.plan.config.ports.len() as u8)),
        };
        let mut payload: [u8; 48] = self.take.octets();
        if op & 4 != 0 {
            check::repair_crc10(&mut payload);
        }
        self.arrive(port, word, &payload, 0);
    }

    /// `damage` is how many bits of the header are inverted, at most 2, and which.
    fn arrive(&mut self, port: PortIndex, word: u32, payload: &[u8], damage: u8) {
        let Some(config) = self.plan.config.ports.get(usize::from(port.0)) else {
            return;
        };
        let header = word.to_be_bytes();
        let mut octets = header.to_vec();
        if config.format == CellFormat::WithHec {
            octets.push(check::hec(header));
            for bit in 0..(damage & 3).min(2) {
                let bit = usize::from(damage >> 2) * 9 + usize::from(bit) * 2;
                octets[bit / 8] ^= 0x80 >> (bit % 8);
            }
        }
        octets.extend_from_slice(payload);
        let at_ns = self.now_ns;
        self.plan.cells.push(Arrival {
            at_ns,
            port,
            octets,
        });
    }

    fn submit(&mut self, line: usize) {
        let op = self.take.u8();
        let Line {
            request,
            ticket,
            memory,
            ..
        } = &self.lines[line];
        let Some(transmit) = request.transmit else {
            return;
        };
        let len = match request.aal {
            Aal::Aal0 => 52,
            Aal::Aal5 | Aal::Aal34(_) => 1 + u16::from(op) % transmit.max_sdu.min(200),
        };
        let action = Action::Submit {
            vc: VcName::Of(*ticket),
            memory: *memory,
            sdu: vec![op; len.into()],
            forged: None,
            uu: op,
            cpi: !op,
            clp: op & 1 != 0,
        };
        self.at_once(action);
    }

    /// What a client should not do.
    fn mischief(&mut self, line: usize) {
        let op = self.take.u8();
        let Line {
            request,
            sizes,
            ticket,
            memory,
            ..
        } = self.lines[line];
        let vc = match op >> 2 & 3 {
            0 => VcName::Of(ticket),
            1 => VcName::Stale(ticket),
            2 => VcName::Raw(VcName::NOBODY),
            _ => VcName::Raw(VcId {
                index: VcIndex(self.take.u16()),
                generation: self.take.u32(),
            }),
        };
        let action = match op & 3 {
            0 => Action::WrongTail {
                memory,
                off_by: self.take.u64() as i64,
            },
            1 => Action::WrongTail {
                memory,
                off_by: i64::from(self.take.u8() as i8),
            },
            2 if self.gone => return,
            2 => Action::Ring {
                client: 1 + u64::from(op >> 4) % u64::from(self.plan.config.attachments),
                vc,
            },
            _ => {
                let Some(transmit) = request.transmit else {
                    return;
                };
                let (offset, len) = (self.take.u32(), self.take.u32());
                // No descriptor that might be meant: the judge expects a refusal.
                let forged = match op >> 4 & 3 {
                    0 => (offset, 0),
                    1 => (offset, len.max(u32::from(transmit.max_sdu) + 1)),
                    _ => (offset.max(sizes.transmit_len), len),
                };
                Action::Submit {
                    vc: VcName::Of(ticket),
                    memory,
                    sdu: vec![op; 1 + usize::from(op)],
                    forged: Some(forged),
                    uu: op,
                    cpi: op,
                    clp: false,
                }
            }
        };
        self.rung |= matches!(action, Action::Ring { .. });
        self.at_once(action);
    }

    fn command(&mut self, line: usize) {
        let op = self.take.u8();
        let Line {
            request,
            sizes,
            ticket,
            ..
        } = self.lines[line];
        let name = match op >> 4 {
            0 => VcName::Stale(ticket),
            1 => VcName::Raw(VcName::NOBODY),
            _ => VcName::Of(ticket),
        };
        let attachment = AttachmentIndex(self.take.below(4).into());
        match op & 15 {
            0 => self.order(Order::Close(name)),
            1 => {
                let ticket = self.order(Order::Open(request, sizes));
                self.renamed(line, ticket, ticket)
            }
            2 => {
                let (request, sizes) = self.contract();
                let ticket = self.order(Order::Open(request, sizes));
                (self.lines[line].request, self.lines[line].sizes) = (request, sizes);
                self.renamed(line, ticket, ticket)
            }
            3 | 4 => {
                let mut wanted = request;
                if let Some(old) = &mut wanted.receive {
                    let max_sdu = old.max_sdu;
                    let notification = old.notification;
                    *old = receive(&mut self.take, max_sdu);
                    old.notification = notification;
                }
                self.order(Order::Modify(name, wanted, None))
            }
            5 => {
                let (_, other) = self.contract();
                let memory = self.order(Order::Modify(name, request, Some(other)));
                self.renamed(line, ticket, memory)
            }
            6 => {
                let (wanted, other) = self.contract();
                self.order(Order::Modify(name, wanted, Some(other)))
            }
            7 => self.order(Order::Reattach(name, attachment)),
            8 | 9 => {
                let pdus = u32::from(self.take.u8());
                let ns = u64::from(self.take.u16()) * 160;
                self.order(Order::Lease(name, pdus, ns))
            }
            10 if !self.rung => {
                self.gone = true;
                self.order(Order::Detach(attachment))
            }
            11 => self.order(Order::Attach(self.plan.config.attachments.into(), 4)),
            12 => {
                let port = self.take.below(3);
                // A plan has one port at least, and all have one form.
                let config = port_config(&mut self.take, self.plan.config.ports[0].form);
                let format = self.plan.config.ports.get(usize::from(port));
                let format = format.map_or(config.format, |port| port.format);
                let config = PortConfig { format, ..config };
                self.order(Order::Configure(PortIndex(port), config))
            }
            _ => {
                let from = VcIndex(self.take.u8().into());
                self.order(Order::Enumerate(from, 1 + u32::from(op)))
            }
        };
    }

    fn renamed(&mut self, line: usize, ticket: u64, memory: u64) -> u64 {
        (self.lines[line].ticket, self.lines[line].memory) = (ticket, memory);
        ticket
    }

    /// Everybody reads what is left, and all counters are compared.
    fn end(mut self) -> Plan {
        for i in 0..LAST_STEPS + self.tickets {
            if i % 8 == 0 || i + 2 == LAST_STEPS + self.tickets {
                self.take_all();
            }
            if i + 2 == LAST_STEPS + self.tickets {
                self.order(Order::Enumerate(VcIndex(0), 64));
                self.step(LAST_STEP_NS, 64);
            }
            self.step(LAST_STEP_NS, 64);
        }
        self.plan
    }

    fn take_all(&mut self) {
        let all = u32::MAX;
        for client in 1..=u64::from(self.plan.config.attachments) {
            self.at_once(Action::TakeEvents {
                client,
                events: all,
            });
        }
        let memories: Vec<u64> = self.lines.iter().map(|line| line.memory).collect();
        for memory in memories {
            self.at_once(Action::Take { memory, pdus: all });
        }
    }
}

fn config(take: &mut Take<'_>) -> Config {
    let form = take.pick(&[HeaderForm::Uni, HeaderForm::Nni]);
    Config {
        vcs: 1 + u16::from(take.below(6)),
        leaves: 1 + u16::from(take.below(3)),
        attachments: 1 + u16::from(take.below(3)),
        ports: (0..1 + take.below(2))
            .map(|_| port_config(take, form))
            .collect(),
        gap_max_ns: take.pick(&[100_000, 500_000, 2_000_000]),
        clump_cells: take.pick(&[1, 1, 4, 28]),
        overload_cells: 0,
    }
}

fn port_config(take: &mut Take<'_>, form: HeaderForm) -> PortConfig {
    let format = take.pick(&[CellFormat::WithHec, CellFormat::NoHec]);
    let budget = take.pick(&[64, 5, 16, 100]);
    let kind = take.u8();
    PortConfig {
        form,
        format,
        budget,
        discard_unread: kind == 0xff,
        real_time: kind & 1 == 1,
        line_rate: CellRate::OC3,
    }
}

fn receive(take: &mut Take<'_>, max_sdu: u16) -> Receive {
    let op = take.u8();
    let reserve = take.pick(&[0, 512, 1_024]);
    let excess = match op & 0x81 {
        0x81 => Excess::Tag { reserve },
        0x01 => Excess::WhenIdle { reserve },
        _ => Excess::Discard,
    };
    let sustained = CellRate::new(take.pick(&[0, 0, 1_000, 5_000]));
    let sustained = sustained.map(|rate| Sustained {
        rate,
        burst_tolerance_ns: u64::from(take.u8()) * 100_000,
        clp: take.pick(&[ClpScope::AllCells, ClpScope::HighPriority { reserve }]),
    });
    let notification = match op >> 1 & 7 {
        0 => Notification::EveryCell,
        1 => Notification::FirstCell,
        2 => Notification::FirstAndLastCell,
        3 => Notification::Polled,
        4 => Notification::Silent {
            threshold: take.u8().max(1).into(),
            longest_delay_ns: take.pick(&[100_000, 1_000_000, u64::MAX]),
        },
        _ => Notification::LastCell,
    };
    Receive {
        rate: CellRate::new(take.pick(&[0, 2_000, 10_000, 33_333, 70_001])),
        sustained,
        cdvt_ns: take.pick(&[0, 10_000, 100_000, 1_000_000]),
        max_sdu,
        fixed_sdu: op & 0x10 != 0,
        excess,
        notification,
        // Of AAL0, whose SDUs have 52 octets.
        marks: if max_sdu == 52 && op & 0x40 != 0 {
            Marks::Mssar
        } else {
            Marks::None
        },
        queue_threshold: take.below(5).into(),
        guaranteed: op & 0x20 != 0,
    }
}

fn interleaving(take: &mut Take<'_>) -> Interleaving {
    Interleaving {
        mids: take.pick(&[2, 1, 3, 4, 64, 0]),
        reassembly_timeout_ns: take.pick(&[0, 200_000, 1_000_000, 3_000_000]),
    }
}

fn transmit(take: &mut Take<'_>, max_sdu: u16) -> Transmit {
    let op = take.u8();
    let rate = CellRate::new(take.pick(&[0, 5_000, 20_000, 50_000]));
    // Of some best effort, by its weight.
    let peak = CellRate::new(33_333).filter(|_| rate.is_none() && op & 6 == 6);
    Transmit {
        rate,
        cdvt_ns: take.pick(&[0, 50_000, 300_000]),
        weight: 1 + u32::from(op >> 1),
        abr: None,
        peak,
        max_sdu,
        burst: 1,
        sustained: None,
        interrupt_on_completion: op & 1 != 0,
    }
}
