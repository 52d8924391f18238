//! The keeper among clients and governors that come, ask, go and are told no, in random order: what
//! each is answered, and that nothing of them is left.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::adapter::{
    Aal, AttachmentIndex, Config, Marks, Notification, OpenRequest, Outcome, PortConfig, PortIndex,
    Receive, Refusal, VcId, VcIndex, VcInfo, VcStats,
};
use cellgate_core::contract::CellRate;
use cellgate_core::keeper::{
    Answer, Ask, ConnectionId, ControlError, Done, Handle, Hello, Keeper, KeeperConfig, NewRegion,
    Order, Output, ReceiveInto, Request, Scheduling, TakenUp, VERSION,
};
use cellgate_core::queue::{AttachmentSizes, ConnectionSizes};
use cellgate_core::wire::{CellFormat, HeaderForm, VpiVci};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const MEMORY: u64 = 3 << 20;
const SMALL: ConnectionSizes = ConnectionSizes {
    receive_slots: 16,
    receive_len: 1 << 16,
    receive_elsewhere: false,
    transmit_slots: 16,
    transmit_len: 1 << 16,
};
const ATTACHED: AttachmentSizes = AttachmentSizes {
    event_slots: 16,
    doorbell_slots: 16,
};

/// The firmware, as far as a keeper can see it.
#[derive(Default)]
struct Firmware {
    attachments: BTreeSet<AttachmentIndex>,
    vcs: BTreeMap<VcId, OpenRequest>,
    made: u16,
}

impl Firmware {
    fn carries_out(&mut self, ask: &Ask) -> Result<Outcome, Refusal> {
        self.made += 1;
        match ask {
            Ask::Attach { .. } => {
                let index = AttachmentIndex(self.made);
                self.attachments.insert(index);
                Ok(Outcome::Attached(index))
            }
            Ask::Detach { attachment } => {
                let mut vcs = self.vcs.values();
                if vcs.any(|request| request.attachment == *attachment) {
                    return Err(Refusal::Busy);
                }
                assert!(self.attachments.remove(attachment), "detached twice");
                Ok(Outcome::Done)
            }
            Ask::Open { request, .. } => {
                let vc = VcId {
                    index: VcIndex(self.made),
                    generation: 1,
                };
                self.vcs.insert(vc, *request);
                Ok(Outcome::Vc(vc))
            }
            Ask::Modify {
                vc,
                request,
                region,
                ..
            } => {
                self.vcs.remove(vc).ok_or(Refusal::StaleVc)?;
                let vc = VcId {
                    generation: vc.generation + u32::from(region.is_some()),
                    ..*vc
                };
                self.vcs.insert(vc, *request);
                Ok(Outcome::Vc(vc))
            }
            Ask::Reattach { vc, attachment, .. } => {
                let request = self.vcs.get_mut(vc).ok_or(Refusal::StaleVc)?;
                if !self.attachments.contains(attachment) {
                    return Err(Refusal::NoAttachment);
                }
                request.attachment = *attachment;
                Ok(Outcome::Done)
            }
            Ask::Close { vc } => {
                let request = self.vcs.remove(vc).ok_or(Refusal::StaleVc)?;
                Ok(Outcome::Closed(VcInfo {
                    vc: *vc,
                    request,
                    stats: VcStats::default(),
                }))
            }
            _ => Ok(Outcome::Done),
        }
    }
}

/// Who has a control connection, and what it may believe to have.
#[derive(Default)]
struct Client {
    governs: bool,
    attachments: Vec<AttachmentIndex>,
    vcs: Vec<(VcId, AttachmentIndex)>,
    waiting: BTreeMap<u64, Ask>,
}

struct World {
    keeper: Keeper,
    firmware: Firmware,
    clients: BTreeMap<ConnectionId, Client>,
    orders: Vec<Order>,
    /// Handles that stand for something.
    held: BTreeSet<Handle>,
    /// What is being made.
    making: BTreeSet<Handle>,
    /// Whoever took up last was told so.
    nothing_left: bool,
    /// Requests that a descriptor proved the right to.
    proven: BTreeSet<u64>,
    last_id: u64,
    rng: Pcg64Mcg,
    seed: u64,
    /// What has happened, so that a run that shows nothing is noticed.
    seen: BTreeSet<&'static str>,
}

impl World {
    fn new(seed: u64) -> Self {
        let port = PortConfig {
            form: HeaderForm::Uni,
            format: CellFormat::NoHec,
            budget: 64,
            discard_unread: false,
            real_time: false,
            line_rate: CellRate::OC3,
        };
        let config = Config {
            vcs: 64,
            leaves: 8,
            attachments: 64,
            ports: vec![port; 2],
            gap_max_ns: 1_000_000,
            clump_cells: 32,
            overload_cells: 0,
        };
        let hello = Hello {
            version: VERSION,
            pid: 1,
            config,
            scheduling: Scheduling::default(),
            memory_max: MEMORY,
            governor: None,
        };
        Self {
            keeper: Keeper::new(KeeperConfig {
                hello,
                port_cells: 64,
            }),
            firmware: Firmware::default(),
            clients: BTreeMap::new(),
            orders: Vec::new(),
            held: BTreeSet::new(),
            making: BTreeSet::new(),
            nothing_left: false,
            proven: BTreeSet::new(),
            last_id: 0,
            rng: Pcg64Mcg::new((u128::from(seed) << 1) | 1),
            seed,
            seen: BTreeSet::new(),
        }
    }

    fn below(&mut self, n: usize) -> usize {
        (self.rng.next_u64() % n.max(1) as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let at = self.below(of.len());
        of.get(at).copied()
    }

    fn connects(&mut self, governs: bool) -> Option<ConnectionId> {
        let id = self.keeper.connect(governs, 7)?;
        let client = Client {
            governs,
            ..Client::default()
        };
        self.clients.insert(id, client);
        if self.chance(95) {
            self.asks(id, Ask::Hello { version: VERSION }, 0, false);
        }
        Some(id)
    }

    fn asks(&mut self, id: ConnectionId, ask: Ask, fds: usize, proven: bool) {
        self.last_id += 1;
        let came: Vec<Handle> = (0..fds).map(|_| self.keeper.new_handle()).collect();
        self.held.extend(&came);
        let client = self.clients.get_mut(&id).expect("who is connected");
        client.waiting.insert(self.last_id, ask.clone());
        let request = Request {
            id: self.last_id,
            ask,
        };
        if proven {
            self.proven.insert(self.last_id);
        }
        self.keeper.handle_request(id, request, came, proven);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.keeper.poll() {
            match output {
                Output::Order(order) => {
                    for handle in &order.came {
                        assert!(self.held.remove(handle), "{}: came twice", self.seed);
                    }
                    if let Some(making) = order.making {
                        assert!(self.making.insert(making.handle));
                    }
                    if let Some((into, _)) = order.into {
                        assert!(self.held.contains(&into), "{}: into nothing", self.seed);
                        self.seen.insert("into another's buffer");
                    }
                    self.orders.push(order);
                }
                Output::Release(handle) => {
                    let was = self.held.remove(&handle) || self.making.remove(&handle);
                    assert!(was, "{}: {handle:?} is released twice", self.seed);
                }
                Output::Reply {
                    to,
                    reply,
                    enclosed,
                } => {
                    let all = enclosed.iter().all(|handle| self.held.contains(handle));
                    assert!(all, "{}: {enclosed:?} is gone", self.seed);
                    self.hears(to, reply.id, reply.result, enclosed.len());
                }
            }
        }
        assert!(self.keeper.octets_used() <= MEMORY, "{}", self.seed);
    }

    fn hears(
        &mut self,
        to: ConnectionId,
        id: u64,
        result: Result<Answer, ControlError>,
        enclosed: usize,
    ) {
        let seed = self.seed;
        let client = self.clients.get_mut(&to).expect("nobody is there");
        let ask = client.waiting.remove(&id);
        let ask = ask.unwrap_or_else(|| panic!("{seed}: {id} is answered twice: {result:?}"));
        match (&ask, result) {
            (_, Ok(Answer::Attached { attachment, .. })) => {
                assert_eq!(enclosed, 1);
                client.attachments.push(attachment);
            }
            (Ask::Open { request, .. }, Ok(Answer::Opened { vc, .. })) => {
                assert_eq!(enclosed, 1);
                client.vcs.push((vc, request.attachment));
            }
            (
                Ask::Modify {
                    vc: before, region, ..
                },
                Ok(Answer::Opened { vc, .. }),
            ) => {
                assert_eq!(enclosed, usize::from(region.is_some()));
                for (own, _) in client.vcs.iter_mut().filter(|(own, _)| own == before) {
                    *own = vc;
                }
                self.seen.insert("modified");
            }
            (Ask::Reattach { vc, attachment, .. }, Ok(Answer::Opened { .. })) => {
                let owned = client.vcs.iter().any(|(own, _)| own == vc);
                assert!(
                    owned || self.proven.contains(&id),
                    "{seed}: no right to {vc:?}"
                );
                client.vcs.retain(|(own, _)| own != vc);
                client.vcs.push((*vc, *attachment));
                let others = self.clients.iter_mut().filter(|(id, _)| **id != to);
                for (_, other) in others {
                    other.vcs.retain(|(own, _)| own != vc);
                }
                self.seen.insert("reattached");
            }
            (Ask::Close { vc }, Ok(Answer::Closed(_))) => client.vcs.retain(|(own, _)| own != vc),
            (Ask::Detach { attachment }, Ok(_)) => {
                client.attachments.retain(|own| own != attachment);
            }
            (Ask::TakeUp, Ok(Answer::TakenUp(taken))) => match taken {
                TakenUp::Attachment { attachment, .. } => {
                    client.attachments.push(attachment);
                    self.seen.insert("an attachment is taken up");
                }
                TakenUp::Vc { vc, attachment, .. } => {
                    client.vcs.push((vc, attachment));
                    self.seen.insert("a VC is taken up");
                }
                TakenUp::Nothing => self.nothing_left = true,
            },
            (_, Err(ControlError::Refused(Refusal::Busy))) => {
                self.seen.insert("busy");
            }
            (_, Err(ControlError::MemoryExhausted { .. })) => {
                self.seen.insert("no memory");
            }
            (_, Err(ControlError::Governed { .. })) => {
                self.seen.insert("governed");
            }
            (_, Err(ControlError::NotYours)) => {
                self.seen.insert("not yours");
            }
            (ask, Ok(_)) => {
                let everybodys = matches!(ask, Ask::KeepPort { .. } | Ask::TakeUp);
                assert!(client.governs || !everybodys, "{seed}: a guest did {ask:?}");
            }
            (_, Err(_)) => {}
        }
    }

    /// One order is carried out, or cannot be.
    fn ends(&mut self) {
        if self.orders.is_empty() {
            return;
        }
        let at = self.below(self.orders.len());
        let order = self.orders.remove(at);
        let fails = order.from.is_some() && self.chance(15);
        self.carries_out(&order, fails);
    }

    fn carries_out(&mut self, order: &Order, fails: bool) {
        let done = match fails {
            true => Err(ControlError::Kernel("no".to_owned())),
            false => self.firmware.carries_out(&order.ask).map_err(Into::into),
        };
        if let (Some(making), Ok(_)) = (order.making, &done) {
            self.making.remove(&making.handle);
            self.held.insert(making.handle);
        }
        self.keeper
            .handle_done(order.ticket, done.map(Done::Outcome));
        self.drain();
    }

    fn hangs_up(&mut self, id: ConnectionId) {
        self.clients.remove(&id);
        self.keeper.handle_hang_up(id);
        self.drain();
    }

    fn request(&mut self, attachment: AttachmentIndex) -> OpenRequest {
        OpenRequest {
            address: VpiVci::new(0, 32 + self.below(100) as u16).expect("an address"),
            port: PortIndex(0),
            aal: Aal::Aal5,
            attachment,
            receive: Some(Receive {
                marks: Marks::None,
                rate: None,
                sustained: None,
                cdvt_ns: 0,
                guaranteed: false,
                max_sdu: 1_500,
                fixed_sdu: false,
                excess: Default::default(),
                notification: Notification::Polled,
                queue_threshold: 0,
            }),
            transmit: None,
        }
    }

    /// Something of its own, or of anybody.
    fn some_vc(&mut self, id: ConnectionId) -> Option<VcId> {
        let own: Vec<VcId> = self.clients[&id].vcs.iter().map(|(vc, _)| *vc).collect();
        let all: Vec<VcId> = self.firmware.vcs.keys().copied().collect();
        let of = if self.chance(85) { own } else { all };
        self.pick(&of)
    }

    fn some_attachment(&mut self, id: ConnectionId) -> Option<AttachmentIndex> {
        let own = self.clients[&id].attachments.clone();
        let all: Vec<_> = self.firmware.attachments.iter().copied().collect();
        let of = if self.chance(85) { own } else { all };
        self.pick(&of)
    }

    fn acts(&mut self) -> Option<()> {
        let ids: Vec<ConnectionId> = self.clients.keys().copied().collect();
        if ids.len() < 2 || self.chance(5) {
            let governs = self.chance(40);
            self.connects(governs);
            return None;
        }
        let id = self.pick(&ids)?;
        if !self.keeper.has_room() {
            self.seen.insert("full");
            self.ends();
            return None;
        }
        match self.below(16) {
            0..2 => {
                let keep = self.chance(50);
                let ask = Ask::Attach {
                    sizes: ATTACHED,
                    user: 1,
                    keep,
                };
                self.asks(id, ask, 0, false);
            }
            2..6 => {
                let attachment = self.some_attachment(id)?;
                let request = self.request(attachment);
                let other = self.some_vc(id);
                let receive_into = match (self.below(6), other) {
                    (0, Some(vc)) => ReceiveInto::TransmitBufferOf(vc),
                    (1, _) => ReceiveInto::File,
                    _ => ReceiveInto::Own,
                };
                let ask = Ask::Open {
                    request,
                    sizes: SMALL,
                    receive_into,
                    record: Some("words".to_owned()),
                };
                let fds = usize::from(receive_into == ReceiveInto::File);
                self.asks(id, ask, fds, false);
            }
            6..8 => {
                let vc = self.some_vc(id)?;
                let attachment = self.firmware.vcs.get(&vc)?.attachment;
                let request = self.request(attachment);
                let region = self.chance(50).then_some(NewRegion {
                    sizes: SMALL,
                    receive_into: ReceiveInto::Own,
                });
                let ask = Ask::Modify {
                    vc,
                    request,
                    region,
                    record: None,
                };
                self.asks(id, ask, 0, false);
            }
            8 => {
                let vc = self.some_vc(id)?;
                self.asks(id, Ask::Close { vc }, 0, false);
            }
            9 => {
                let attachment = self.some_attachment(id)?;
                self.asks(id, Ask::Detach { attachment }, 0, false);
            }
            10 => {
                let (vc, attachment) = (self.some_vc(id)?, self.some_attachment(id)?);
                let proven = self.chance(50);
                let ask = Ask::Reattach {
                    vc,
                    attachment,
                    record: None,
                };
                self.asks(id, ask, usize::from(proven), proven);
            }
            11 => {
                let attachment = self.some_attachment(id)?;
                let fds = self.below(4);
                let record = None;
                self.asks(id, Ask::Keep { attachment, record }, fds, false);
            }
            12 => self.asks(id, Ask::TakeUp, 0, false),
            13 => {
                let ask = match self.below(4) {
                    0 => Ask::ReceivePort { port: PortIndex(0) },
                    1 => Ask::TransmitPort { port: PortIndex(1) },
                    2 => Ask::Unlink { port: PortIndex(0) },
                    _ => Ask::KeepPort {
                        port: PortIndex(1),
                        record: Some("x".repeat(5_000)),
                    },
                };
                self.asks(id, ask, 0, false);
            }
            14 => self.asks(id, Ask::Connect, 3, false),
            _ => self.hangs_up(id),
        }
        Some(())
    }

    /// Everybody goes; who comes then takes up and closes what was left.
    fn all_go(&mut self) {
        self.nothing_left = false;
        let ids: Vec<ConnectionId> = self.clients.keys().copied().collect();
        for id in ids {
            self.hangs_up(id);
        }
        let heir = self.keeper.connect(true, 9).expect("room");
        let client = Client {
            governs: true,
            ..Client::default()
        };
        self.clients.insert(heir, client);
        self.asks(heir, Ask::Hello { version: VERSION }, 0, false);
        // What the dead have asked is under way: that nothing is left is not said before its end.
        while !self.nothing_left {
            self.asks(heir, Ask::TakeUp, 0, false);
            self.ends();
        }
        for (vc, _) in self.clients[&heir].vcs.clone() {
            self.asks(heir, Ask::Close { vc }, 0, false);
            self.finish();
        }
        for attachment in self.clients[&heir].attachments.clone() {
            self.asks(heir, Ask::Detach { attachment }, 0, false);
            self.finish();
        }
        self.hangs_up(heir);
        self.finish();
    }

    fn finish(&mut self) {
        while !self.orders.is_empty() {
            let order = self.orders.remove(0);
            self.carries_out(&order, false);
        }
    }
}

#[test]
fn whoever_comes_asks_and_goes_nothing_of_them_is_left() {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for seed in 0..300 {
        let mut world = World::new(seed);
        for _ in 0..200 {
            world.acts();
            if world.chance(60) {
                world.ends();
            }
        }
        world.all_go();
        let firmware = &world.firmware;
        assert!(firmware.vcs.is_empty(), "seed {seed}: {:?}", firmware.vcs);
        assert!(firmware.attachments.is_empty(), "seed {seed}");
        assert_eq!(world.keeper.octets_used(), 0, "seed {seed}");
        assert!(world.held.is_empty(), "seed {seed}: {:?}", world.held);
        assert!(world.making.is_empty(), "seed {seed}");
        assert_eq!(world.keeper.vcs().count(), 0);
        seen.extend(&world.seen);
    }
    let all = [
        "a VC is taken up",
        "an attachment is taken up",
        "busy",
        "governed",
        "into another's buffer",
        "modified",
        "no memory",
        "not yours",
        "reattached",
    ];
    for one in all {
        assert!(seen.contains(one), "no run has shown this: {one}");
    }
}

/// A server can die between the two: the socket of the application that opens must not go with it.
#[test]
fn what_is_kept_with_an_attachment_outlives_its_owner_though_no_vc_is_open() {
    let mut world = World::new(0);
    let server = world.connects(true).expect("room");
    world.asks(server, Ask::Hello { version: VERSION }, 0, false);
    let attach = |keep| Ask::Attach {
        sizes: ATTACHED,
        user: 1,
        keep,
    };
    for _ in 0..2 {
        world.asks(server, attach(true), 0, false);
        world.finish();
    }
    let [with, without] = world.clients[&server].attachments[..] else {
        panic!("two attachments");
    };
    let keep = Ask::Keep {
        attachment: with,
        record: Some("a socket".to_owned()),
    };
    world.asks(server, keep, 1, false);
    world.hangs_up(server);
    world.finish();
    assert!(world.firmware.attachments.contains(&with));
    assert!(!world.firmware.attachments.contains(&without));
    let heir = world.connects(true).expect("room");
    world.asks(heir, Ask::Hello { version: VERSION }, 0, false);
    world.asks(heir, Ask::TakeUp, 0, false);
    assert_eq!(world.clients[&heir].attachments, [with]);
    assert_eq!(world.keeper.kept(with).map(|(kept, _)| kept.len()), Some(1));
}
