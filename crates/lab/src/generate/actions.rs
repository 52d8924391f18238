//! What the host and its clients do.

use cellgate_core::adapter::{
    Aal, AttachmentIndex, Command, Config, Excess, OpenRequest, PortIndex, SustainedRate, VcId,
    VcIndex,
};
use cellgate_core::contract::CellRate;
use cellgate_core::wire::VpiVci;

use super::draw::Draw;
use super::{Line, OPENED_NS, QUIET_NS, contract, is_uni, receive, sizes};
use crate::memory::RegionSizes;
use crate::plan::{Action, Order, Planned, VcName};

/// Collects actions and hands out tickets.
pub(super) struct Actions {
    all: Vec<Planned>,
    tickets: u64,
    /// Memories that clients read from.
    memories: Vec<u64>,
}

impl Actions {
    pub(super) fn new(_config: &Config) -> Self {
        Self {
            all: Vec::new(),
            tickets: 0,
            memories: Vec::new(),
        }
    }

    fn at(&mut self, at_ns: u64, action: Action) {
        self.all.push(Planned { at_ns, action });
    }

    pub(super) fn order(&mut self, at_ns: u64, order: Order) -> u64 {
        self.tickets += 1;
        let ticket = self.tickets;
        self.at(at_ns, Action::Order(ticket, order));
        ticket
    }

    /// Fills all client slots; the tickets.
    pub(super) fn attach_all(&mut self, draw: &mut Draw, config: &Config) -> Vec<u64> {
        (0..config.attachments)
            .map(|_| {
                let ticket = self.order(0, Order::Attach(draw.pick(&[4, 16, 64, 128]), 64));
                let (every_ns, events) = draw.pick(&[
                    (150_000, 1000),
                    (150_000, 1000),
                    (1_000_000, 1000),
                    (1_000_000, 2),
                    (9_000_000, 1000),
                ]);
                let mut at_ns = OPENED_NS + draw.below(every_ns);
                while at_ns < QUIET_NS {
                    self.at(
                        at_ns,
                        Action::TakeEvents {
                            client: ticket,
                            events,
                        },
                    );
                    at_ns += every_ns;
                }
                ticket
            })
            .collect()
    }

    pub(super) fn open(&mut self, request: &OpenRequest, sizes: RegionSizes, client: u64) -> Line {
        let ticket = self.order(1, Order::Open(*request, sizes));
        self.memories.push(ticket);
        Line {
            ticket,
            memory: ticket,
            client,
            request: *request,
            sizes,
            from_ns: OPENED_NS,
            until_ns: QUIET_NS,
        }
    }

    /// What the VC's client and its host do with it; lines that follow on it.
    pub(super) fn life_of(
        &mut self,
        draw: &mut Draw,
        config: &Config,
        line: &Line,
        clients: &[u64],
    ) -> Vec<Line> {
        self.reader(draw, line.memory);
        self.sender(draw, line, clients);
        self.lender(draw, line);
        let at_ns = draw.between(3_000_000, 18_000_000);
        match draw.below(8) {
            0 => self.close_and_open_again(draw, line, at_ns),
            1 | 2 => self.modify(draw, line, at_ns),
            3 => self.replace_region(draw, config, line, at_ns),
            4 => {
                let to = AttachmentIndex(draw.below(u64::from(config.attachments)) as u16);
                self.order(at_ns, Order::Reattach(VcName::Of(line.ticket), to));
            }
            _ => {}
        }
        Vec::new()
    }

    /// A client that reads its receive queue: always, seldom, or only for a while.
    fn reader(&mut self, draw: &mut Draw, memory: u64) {
        let (every_ns, pdus) = draw.pick(&[
            (100_000, 1000),
            (100_000, 1000),
            (400_000, 2),
            (2_000_000, 1000),
            (6_000_000, 1),
        ]);
        let until_ns = draw.pick(&[QUIET_NS, QUIET_NS, QUIET_NS / 2]);
        let mut at_ns = OPENED_NS + draw.below(every_ns);
        while at_ns < until_ns {
            self.at(at_ns, Action::Take { memory, pdus });
            at_ns += every_ns;
        }
        if draw.percent(25) {
            for _ in 0..draw.between(1, 4) {
                let off_by = draw.pick(&[-1, -5, 1, 3, 64, 1 << 33, i64::MIN, 1000]);
                let at_ns = draw.between(OPENED_NS, QUIET_NS - 1);
                self.at(at_ns, Action::WrongTail { memory, off_by });
            }
        }
    }

    fn sender(&mut self, draw: &mut Draw, line: &Line, clients: &[u64]) {
        let Some(transmit) = line.request.transmit else {
            return;
        };
        let vc = VcName::Of(line.ticket);
        let faulty = draw.pick(&[0, 0, 20]);
        for _ in 0..draw.pick(&[3, 20, 40]) {
            let len = match line.request.aal {
                Aal::Aal0 => 52,
                Aal::Aal5 | Aal::Aal34(_) => draw.between(1, u64::from(transmit.max_sdu)) as usize,
            };
            let forged = draw.percent(faulty).then(|| {
                let max_sdu = u32::from(transmit.max_sdu);
                draw.pick(&[
                    (0, 0),
                    (0, max_sdu + 1),
                    (line.sizes.transmit_len - 1, 52),
                    (u32::MAX, 52),
                    (52, u32::MAX),
                    (line.sizes.transmit_len, 1),
                ])
            });
            let submit = Action::Submit {
                vc,
                memory: line.memory,
                sdu: draw.octets(len),
                forged,
                uu: draw.octet(),
                cpi: draw.octet(),
                clp: draw.percent(30),
            };
            self.at(draw.between(OPENED_NS, QUIET_NS - 1), submit);
        }
        for _ in 0..draw.pick(&[0, 4, 12]) {
            let client = draw.pick(clients);
            let vc = draw.pick(&[
                vc,
                vc,
                VcName::Stale(line.ticket),
                VcName::Raw(VcId {
                    index: VcIndex(3),
                    generation: 77,
                }),
                VcName::Raw(VcName::NOBODY),
            ]);
            let at_ns = draw.between(OPENED_NS, QUIET_NS - 1);
            self.at(at_ns, Action::Ring { client, vc });
        }
    }

    /// A host with time to spare.
    fn lender(&mut self, draw: &mut Draw, line: &Line) {
        let excess = line.request.receive.map(|receive| receive.excess);
        if !matches!(excess, Some(Excess::WhenIdle { .. })) {
            return;
        }
        let vc = VcName::Of(line.ticket);
        if draw.percent(40) {
            // It renews its lease in time, and so lends all the time.
            for i in 0..(QUIET_NS - OPENED_NS) / 2_000_000 {
                self.order(
                    OPENED_NS + i * 2_000_000,
                    Order::Lease(vc, 1000, 10_000_000),
                );
            }
            return;
        }
        for _ in 0..draw.between(5, 15) {
            let pdus = draw.pick(&[0, 1, 2, 5, 100]);
            // Multiples of all regular steps: leases end on a step.
            let expires_in_ns = draw.pick(&[300_000, 900_000, 9_000_000, 10_000_000]);
            let at_ns = draw.between(OPENED_NS, QUIET_NS - 1);
            self.order(at_ns, Order::Lease(vc, pdus, expires_in_ns));
        }
    }

    fn close_and_open_again(&mut self, draw: &mut Draw, line: &Line, at_ns: u64) {
        self.order(at_ns, Order::Close(VcName::Of(line.ticket)));
        self.order(at_ns + 1, Order::Close(VcName::Of(line.ticket)));
        if draw.percent(70) {
            let ticket = self.order(at_ns + 500_000, Order::Open(line.request, line.sizes));
            self.memories.push(ticket);
            self.reader(draw, ticket);
        }
    }

    fn modify(&mut self, draw: &mut Draw, line: &Line, at_ns: u64) {
        let mut request = line.request;
        for i in 0..draw.between(1, 3) {
            if let Some(old) = &mut request.receive {
                let max_sdu = match request.aal {
                    Aal::Aal34(_) if draw.percent(10) => old.max_sdu - 1,
                    Aal::Aal0 | Aal::Aal34(_) => old.max_sdu,
                    Aal::Aal5 => draw.between(40, u64::from(old.max_sdu)) as u16,
                };
                let fresh = receive(draw, max_sdu);
                old.rate = fresh.rate.or(old.rate);
                // One bucket, or two, or one again.
                old.sustained = fresh.sustained;
                if draw.percent(30) {
                    old.excess = fresh.excess;
                }
                old.cdvt_ns = fresh.cdvt_ns;
                old.max_sdu = fresh.max_sdu;
                old.fixed_sdu = fresh.fixed_sdu;
            }
            let at_ns = at_ns + i * 3_000_000;
            self.order(at_ns, Order::Modify(VcName::Of(line.ticket), request, None));
            self.order(at_ns, Order::Enumerate(VcIndex(0), 8));
        }
    }

    fn replace_region(&mut self, draw: &mut Draw, config: &Config, line: &Line, at_ns: u64) {
        let mut request = line.request;
        if let Aal::Aal34(interleaving) = &mut request.aal
            && draw.percent(40)
        {
            interleaving.mids = draw.between(1, 4) as u16;
            interleaving.reassembly_timeout_ns /= 2;
        }
        let sizes = sizes(draw, &request);
        let vc = VcName::Of(line.ticket);
        let ticket = self.order(at_ns, Order::Modify(vc, request, Some(sizes)));
        self.memories.push(ticket);
        self.reader(draw, ticket);
        // While it waits for the end of a PDU.
        let at_ns = at_ns + draw.below(200_000);
        match draw.below(6) {
            0 => {
                self.order(at_ns, Order::Close(vc));
            }
            1 => {
                self.order(at_ns, Order::Modify(vc, line.request, None));
            }
            2 => {
                let clients = u64::from(config.attachments);
                let to = AttachmentIndex(draw.below(clients) as u16);
                self.order(at_ns, Order::Reattach(vc, to));
            }
            _ => {}
        }
    }

    /// Commands that are no VC's own: lists, ports, and mistakes.
    pub(super) fn host(&mut self, draw: &mut Draw, config: &Config, lines: &[Line]) {
        let clients: Vec<u64> = lines.iter().map(|line| line.client).collect();
        let mut at_ns = OPENED_NS;
        while at_ns < QUIET_NS {
            let from = VcIndex(draw.below(3) as u16);
            self.order(at_ns, Order::Enumerate(from, draw.between(1, 10) as u32));
            at_ns += draw.between(1_000_000, 6_000_000);
        }
        for _ in 0..draw.below(8) {
            let order = self.mistake(draw, config, lines, &clients);
            let at_ns = draw.between(OPENED_NS, QUIET_NS - 1);
            self.order(at_ns, order);
        }
        if draw.percent(30) {
            let port = draw.below(config.ports.len() as u64) as usize;
            let mut changed = config.ports[port];
            changed.budget = draw.between(8, 200) as u16;
            changed.discard_unread ^= draw.percent(15);
            changed.real_time = super::is_real_time(changed.budget);
            let at_ns = draw.between(OPENED_NS, QUIET_NS - 1);
            self.order(at_ns, Order::Configure(PortIndex(port as u8), changed));
        }
    }

    fn mistake(&self, draw: &mut Draw, config: &Config, lines: &[Line], clients: &[u64]) -> Order {
        let line = &lines[draw.below(lines.len() as u64) as usize];
        let name = draw.pick(&[VcName::Stale(line.ticket), VcName::Raw(VcName::NOBODY)]);
        let mut wrong = contract(draw, config, clients);
        let sizes = sizes(draw, &wrong);
        match draw.below(17) {
            0 => return Order::Close(name),
            1 => return Order::Modify(name, line.request, None),
            2 => return Order::Lease(name, 1, 1000),
            3 => {
                let vc = VcName::Of(line.ticket);
                return Order::Lease(vc, 1, Command::<(), ()>::LEASE_MAX_NS + 1);
            }
            4 => return Order::Reattach(VcName::Of(line.ticket), AttachmentIndex(99)),
            5 => return Order::Detach(draw.pick(&[AttachmentIndex(0), AttachmentIndex(50)])),
            6 => wrong.address = line.request.address,
            7 => wrong.port = PortIndex(60),
            8 => wrong.attachment = AttachmentIndex(77),
            9 if is_uni(config, PortIndex(0)) => {
                wrong.address = VpiVci::new(256, 40).unwrap_or_default();
            }
            10 => (wrong.receive, wrong.transmit) = (None, None),
            11 => return Order::Attach(draw.pick(&[16, 16, 12]), 16),
            12 => {
                if let Some(transmit) = &mut wrong.transmit {
                    if transmit.weight.is_multiple_of(3)
                        && let Some(rate) = CellRate::new(5_001)
                    {
                        // More than the peak.
                        (transmit.rate, transmit.peak) = (CellRate::new(5_000), None);
                        let burst_tolerance_ns = 0;
                        transmit.sustained = Some(SustainedRate {
                            rate,
                            burst_tolerance_ns,
                        });
                        return Order::Open(wrong, sizes);
                    }
                    match transmit.weight.is_multiple_of(2) {
                        true => (transmit.rate, transmit.weight) = (None, 0),
                        false => {
                            (transmit.rate, transmit.peak) =
                                (CellRate::new(5_000), CellRate::new(5_000));
                        }
                    }
                }
            }
            13 => {
                if let Some(receive) = &mut wrong.receive {
                    receive.max_sdu = 0;
                }
            }
            14 => {
                if let Some(transmit) = &mut wrong.transmit {
                    (transmit.rate, transmit.peak) = (CellRate::new(340_000), None);
                    transmit.sustained = None;
                }
            }
            16 => {
                if let Some(receive) = &mut wrong.receive {
                    let peak = receive.rate.take().unwrap_or(CellRate::OC3);
                    receive.sustained = super::sustained(draw, peak, receive.max_sdu, 512);
                }
            }
            15 => {
                let small = RegionSizes {
                    receive_buffer: 64,
                    ..line.sizes
                };
                return Order::Modify(VcName::Of(line.ticket), line.request, Some(small));
            }
            _ => wrong.address = VpiVci::new(9, draw.below(1 << 16) as u16).unwrap_or_default(),
        }
        Order::Open(wrong, sizes)
    }

    /// The quiet time: everybody reads what is left, and all counters are compared.
    pub(super) fn finish(mut self, clients: &[u64], _lines: &[Line]) -> Vec<Planned> {
        for memory in std::mem::take(&mut self.memories) {
            self.at(
                QUIET_NS + 60_000_000,
                Action::Take {
                    memory,
                    pdus: u32::MAX,
                },
            );
        }
        for &client in clients {
            self.at(
                QUIET_NS + 60_000_000,
                Action::TakeEvents {
                    client,
                    events: u32::MAX,
                },
            );
            self.at(
                QUIET_NS + 190_000_000,
                Action::TakeEvents {
                    client,
                    events: u32::MAX,
                },
            );
        }
        self.order(QUIET_NS + 70_000_000, Order::Enumerate(VcIndex(0), 2));
        self.order(QUIET_NS + 190_000_000, Order::Enumerate(VcIndex(0), 64));
        self.all
    }
}
