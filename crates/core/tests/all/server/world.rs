//! A server, an adapter that keeps books, and the applications between.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cellgate_core::Time;
use cellgate_core::adapter::{Interleaving, Marks, VcId};
use cellgate_core::contract::CellRate;
use cellgate_core::queue::AttachmentSizes;
use cellgate_core::server::{
    AdapterAsk, AdapterBooks, AdapterIndex, AdapterRefusal, Address, AdmissionConfig, ClientId,
    Confirm, ConnectionInfo, Cost, Costs, CpuLaw, Enclosed, FromClient, FromServer, HeaderForm,
    Idle, Indication, InterfaceSpec, Limits, Link, Open, Output, Peer, Priority, Quota, Refused,
    Request, ResourceInfo, Response, Server, ServerAdapter, ServerAssumptions, ServerConfig,
    Shortage, TakenInterface, TakenUp, TakenVc, Ticket, VERSION,
};

use super::fake_adapter::FakeAdapter;

pub(crate) const ROOT: Peer = Peer { uid: 0, pid: 1 };
pub(crate) const SERVER_UID: u32 = 900;

pub(crate) fn user(uid: u32) -> Peer {
    Peer {
        uid,
        pid: 1_000 + uid,
    }
}

/// The adapter of a server that has one.
pub(crate) const FIRST: AdapterIndex = AdapterIndex::FIRST;

pub(crate) fn config() -> ServerConfig {
    let cost = |cell_ps, pdu_ps| Cost { cell_ps, pdu_ps };
    let law = CpuLaw {
        reserve: Costs {
            transmit: cost(200_000, 900_000),
            receive: cost(150_000, 700_000),
        },
        expected: Costs {
            transmit: cost(100_000, 500_000),
            receive: cost(90_000, 400_000),
        },
        headroom_percent: 10,
    };
    ServerConfig {
        server: "cellgate test".to_owned(),
        pid: 77,
        uid: SERVER_UID,
        notes: Vec::new(),
        counters_len: Some(4096),
        adapters: vec![ServerAdapter {
            name: None,
            ports: 4,
            blocks: 8,
            gap_max_ns: 30_000_000,
            clump_cells: 28,
            idle: Idle::Spin,
            late_ns: 0,
        }],
        attachment: AttachmentSizes {
            event_slots: 64,
            doorbell_slots: 64,
        },
        assumptions: ServerAssumptions {
            cdvt_ns: 1_000_000,
            interleaving: Interleaving {
                mids: 2,
                reassembly_timeout_ns: 1_000_000_000,
            },
            wake_up_ns: 1_000_000,
        },
        admission: AdmissionConfig {
            adapter_law: law,
            adapters: vec![AdapterBooks {
                cpu_ppm: 1_000_000,
                memory: 1 << 28,
                connections: 64,
            }],
            worker_law: law,
            worker_ppm: 1_000_000,
            best_effort_percent: 2,
            sdu_floor: None,
            quota: Quota {
                connections: 40,
                memory: 1 << 27,
                cell_s: 300_000,
                adapter_ppm: u32::MAX,
            },
            quotas: BTreeMap::new(),
        },
        limits: Limits {
            clients: 24,
            clients_per_user: 12,
            waiting: 4,
            monitors: 8,
            interfaces: 4,
            hello_ns: 1_000_000_000,
            outlived_ns: 750_000_000,
            ..Limits::default()
        },
        reserves: Vec::new(),
    }
}

/// Cells/s of each interface here.
pub(crate) const LINE: u32 = 353_207;

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) config: ServerConfig,
    /// The first adapter.
    pub(crate) adapter: FakeAdapter,
    /// All but the first.
    pub(crate) others: BTreeMap<AdapterIndex, FakeAdapter>,
    /// Which of them was asked.
    pub(crate) asked: BTreeMap<Ticket, AdapterIndex>,
    pub(crate) now: Time,
    /// Asked and not answered.
    pub(crate) asks: VecDeque<(Ticket, AdapterAsk)>,
    /// Sockets that the server serves, and who is there.
    pub(crate) clients: BTreeMap<ClientId, Peer>,
    /// What each has heard and the test has not looked at.
    pub(crate) heard: BTreeMap<ClientId, VecDeque<(FromServer, Enclosed)>>,
    /// Requests without a Confirm, in order.
    pub(crate) unconfirmed: BTreeMap<ClientId, Vec<(u64, Request, Option<VcId>)>>,
    /// The connection that each Request has named, by its number.
    about: BTreeMap<u64, u32>,
    /// The same of Responses, by their Indications' numbers.
    answered: BTreeMap<u64, u32>,
    /// The connection that what is said next names.
    pub(crate) naming: u32,
    pub(crate) hung_up: BTreeSet<ClientId>,
    /// Permanent connections that are gone though nobody deleted them.
    pub(crate) lost: Vec<(Address, u32, Refused)>,
    /// What the server has said there was not enough of.
    pub(crate) shortages: Vec<Shortage>,
    next_client: u32,
    next_id: u64,
    /// The next answer to be a refusal.
    pub(crate) refuse_next: Option<AdapterRefusal>,
    /// Who has yet to say that it has heard of a new server; applications are slow to.
    unheard: Vec<(ClientId, u64)>,
    pub(crate) is_slow: bool,
}

impl World {
    pub(crate) fn new(config: ServerConfig) -> Self {
        Self {
            server: Server::new(config.clone()),
            config,
            adapter: FakeAdapter::default(),
            now: Time::ZERO,
            others: BTreeMap::new(),
            asked: BTreeMap::new(),
            asks: VecDeque::new(),
            clients: BTreeMap::new(),
            heard: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            about: BTreeMap::new(),
            answered: BTreeMap::new(),
            naming: 0,
            hung_up: BTreeSet::new(),
            lost: Vec::new(),
            shortages: Vec::new(),
            next_client: 0,
            next_id: 0,
            refuse_next: None,
            unheard: Vec::new(),
            is_slow: false,
        }
    }

    /// With an adapter, the interface `wan`, and the client that added it.
    pub(crate) fn with_wan(config: ServerConfig) -> (Self, ClientId) {
        let mut world = Self::new(config);
        world.server.handle_adapter_ready(world.now, FIRST);
        let root = world.hello(ROOT);
        let added = world.done(root, Request::AddInterface(wan("wan")));
        assert_eq!(added, Ok(Confirm::Done));
        (world, root)
    }

    pub(crate) fn new_id(&mut self) -> ClientId {
        self.next_client += 1;
        ClientId(self.next_client)
    }

    pub(crate) fn connect(&mut self, peer: Peer) -> ClientId {
        let client = self.new_id();
        self.clients.insert(client, peer);
        self.server.handle_connect(self.now, client, peer);
        self.drain();
        client
    }

    pub(crate) fn hello(&mut self, peer: Peer) -> ClientId {
        let client = self.connect(peer);
        let confirm = self.done(client, Request::Hello { version: VERSION });
        assert!(matches!(confirm, Ok(Confirm::Hello { .. })), "{confirm:?}");
        client
    }

    pub(crate) fn hang_up(&mut self, client: ClientId) {
        self.clients.remove(&client);
        self.unconfirmed.remove(&client);
        self.heard.remove(&client);
        for adapter in self.others.values_mut().chain([&mut self.adapter]) {
            adapter.kept.retain(|_, kept| *kept != client);
        }
        self.server.handle_hang_up(self.now, client);
        self.drain();
    }

    pub(crate) fn send(&mut self, client: ClientId, request: Request) -> u64 {
        self.send_with(client, request, None)
    }

    pub(crate) fn send_with(
        &mut self,
        client: ClientId,
        request: Request,
        capability: Option<VcId>,
    ) -> u64 {
        self.next_id += 1;
        self.send_as(client, self.next_id, request, capability);
        self.next_id
    }

    pub(crate) fn send_as(
        &mut self,
        client: ClientId,
        id: u64,
        request: Request,
        capability: Option<VcId>,
    ) {
        let waiting = self.unconfirmed.entry(client).or_default();
        waiting.push((id, request.clone(), capability));
        let connection = *self.about.entry(id).or_insert(self.naming);
        let message = FromClient::Request {
            id,
            connection,
            request,
        };
        self.server
            .handle_message(self.now, client, message, capability.map(|vc| FIRST.on(vc)));
        self.drain();
    }

    /// Accepts or declines an Indication.
    pub(crate) fn respond(&mut self, client: ClientId, id: u64, response: Response) {
        if response == Response::Accept {
            let contract = String::new();
            let waiting = self.unconfirmed.entry(client).or_default();
            waiting.push((id, Request::Modify { contract }, None));
        }
        let connection = self.naming;
        self.answered.insert(id, connection);
        let message = FromClient::Response {
            id,
            connection,
            response,
        };
        self.server.handle_message(self.now, client, message, None);
        self.drain();
    }

    /// Takes what the server put out.
    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.server.poll_output() {
            match output {
                Output::Adapter {
                    adapter,
                    ticket,
                    ask,
                } => {
                    self.asked.insert(ticket, adapter);
                    self.asks.push_back((ticket, ask));
                }
                Output::Client {
                    client,
                    message,
                    enclosed,
                } => self.hear(client, message, enclosed),
                Output::Keep {
                    client,
                    attachment,
                    reopens,
                } => {
                    let at = attachment.id;
                    let adapter = self.at(attachment.adapter);
                    assert!(adapter.attachments.contains_key(&at));
                    adapter.kept.insert(at, client);
                    adapter.reopens.insert(at, reopens);
                }
                Output::HangUp { client } => {
                    self.clients.remove(&client);
                    self.unconfirmed.remove(&client);
                    self.hung_up.insert(client);
                }
                Output::LeftOut { .. } | Output::PagesTaken { .. } => {}
                Output::Lost {
                    address,
                    uid,
                    refused,
                } => self.lost.push((address, uid, refused)),
            }
        }
        if !self.is_slow {
            self.hear_of_restarts();
        }
    }

    /// Applications say that they have heard of a new server.
    pub(crate) fn hear_of_restarts(&mut self) {
        for (client, id) in core::mem::take(&mut self.unheard) {
            self.respond(client, id, Response::Heard);
        }
    }

    fn hear(&mut self, client: ClientId, message: FromServer, enclosed: Enclosed) {
        if let FromServer::Confirm { id, connection, .. } = &message
            && *id != 0
        {
            // Requests and Indications are numbered apart.
            let named = [self.about.get(id), self.answered.get(id)];
            assert!(named.contains(&Some(connection)), "{named:?}: {message:?}");
            let waiting = self.unconfirmed.get_mut(&client);
            let waiting = waiting.expect("only who asked is confirmed");
            let at = waiting.iter().position(|(asked, ..)| asked == id);
            waiting.remove(at.unwrap_or_else(|| panic!("{id} is confirmed twice: {message:?}")));
        }
        super::describe::check(&message, enclosed);
        if let FromServer::Confirm {
            result: Err(Refused::Admission(shortage)),
            ..
        } = &message
        {
            self.shortages.push(shortage.clone());
        }
        match enclosed {
            Enclosed::Connection {
                adapter,
                vc,
                attachment,
            } => assert_eq!(self.at(adapter).vcs[&vc].request.attachment, attachment),
            Enclosed::Memory { adapter, vc } => assert!(self.at(adapter).vcs.contains_key(&vc)),
            Enclosed::Nothing | Enclosed::Counters => {}
        }
        if let FromServer::Indication {
            id,
            indication: Indication::Restarted,
            ..
        } = &message
        {
            self.unheard.push((client, *id));
        }
        let json = serde_json::to_string(&message).expect("a message is JSON");
        let again: FromServer = serde_json::from_str(&json).expect("a message reads itself");
        assert_eq!(again, message);
        self.heard
            .entry(client)
            .or_default()
            .push_back((message, enclosed));
    }

    /// Answers everything, and lets the time pass that the server waits for.
    pub(crate) fn outlive(&mut self) {
        self.finish();
        while let Some(next) = self.server.next_deadline() {
            self.now = next;
            self.server.handle_deadline(next);
            self.drain();
            self.finish();
        }
    }

    /// What the server says of itself to who comes now.
    pub(crate) fn notes(&mut self) -> Vec<String> {
        let client = self.connect(ROOT);
        match self.done(client, Request::Hello { version: VERSION }) {
            Ok(Confirm::Hello { notes, .. }) => notes,
            other => panic!("{other:?}"),
        }
    }

    /// Answers the `at`th of what was asked.
    pub(crate) fn answer(&mut self, at: usize) {
        let (ticket, ask) = self.asks.remove(at).expect("asked");
        let answer = match self.refuse_next.take() {
            Some(refusal) => Err(refusal),
            None => {
                let adapter = self.asked[&ticket];
                self.at(adapter).carry_out(ask)
            }
        };
        self.server.handle_answer(self.now, ticket, answer);
        self.drain();
    }

    pub(crate) fn finish(&mut self) {
        while !self.asks.is_empty() {
            self.answer(0);
        }
    }

    pub(crate) fn at(&mut self, adapter: AdapterIndex) -> &mut FakeAdapter {
        match adapter {
            FIRST => &mut self.adapter,
            _ => self.others.entry(adapter).or_default(),
        }
    }

    pub(crate) fn lose_adapter(&mut self) {
        self.lose(FIRST);
    }

    pub(crate) fn find_adapter(&mut self) {
        self.find(FIRST);
    }

    /// An adapter dies.
    pub(crate) fn lose(&mut self, adapter: AdapterIndex) {
        let dead = self.at(adapter);
        *dead = FakeAdapter {
            made: dead.made,
            ..FakeAdapter::default()
        };
        let asked = &self.asked;
        self.asks.retain(|(ticket, _)| asked[ticket] != adapter);
        self.server.handle_adapter_lost(self.now, adapter);
        self.drain();
    }

    /// Its successor is there.
    pub(crate) fn find(&mut self, adapter: AdapterIndex) {
        self.server.handle_adapter_ready(self.now, adapter);
        self.drain();
    }

    /// What an adapter was asked and has not answered.
    pub(crate) fn asked_of(&self, adapter: AdapterIndex) -> Vec<Ticket> {
        let tickets = self.asks.iter().map(|(ticket, _)| *ticket);
        tickets
            .filter(|ticket| self.asked[ticket] == adapter)
            .collect()
    }

    /// The server is killed; another takes up what the adapter keeps. Of what was asked last,
    /// `carried_out` was carried out.
    pub(crate) fn restart(&mut self, carried_out: usize) {
        for (_, ask) in self.asks.drain(..).take(carried_out) {
            // Nobody hears the answer.
            let _ = self.adapter.carry_out(ask);
        }
        let kept: BTreeSet<ClientId> = self.adapter.kept.values().copied().collect();
        self.clients.retain(|client, _| kept.contains(client));
        self.unconfirmed.retain(|client, _| kept.contains(client));
        self.server = Server::new(self.config.clone());
        let links = self.adapter.links.iter();
        let interfaces = links.map(|(port, spec)| TakenInterface {
            spec: spec.clone(),
            port: *port,
            up: true,
        });
        let mut taken = Vec::new();
        for (attachment, (sizes, generation)) in &self.adapter.attachments {
            let client = self.adapter.kept.get(attachment);
            let client = client.and_then(|id| self.clients.get(id).map(|peer| (*id, *peer)));
            let one = |vc| TakenUp {
                client,
                reopens: self
                    .adapter
                    .reopens
                    .get(attachment)
                    .cloned()
                    .unwrap_or_default(),
                attachment: *attachment,
                attachment_sizes: *sizes,
                attachment_generation: *generation,
                vc,
            };
            let here = self.adapter.vcs.iter();
            let here = here.filter(|(_, kept)| kept.request.attachment == *attachment);
            let vcs: Vec<_> = here
                .map(|(vc, kept)| {
                    one(Some(TakenVc {
                        vc: *vc,
                        request: kept.request,
                        sizes: kept.sizes,
                        files_generation: kept.files_generation,
                        record: kept.record.clone(),
                    }))
                })
                .collect();
            if vcs.is_empty() {
                taken.push(one(None));
            }
            taken.extend(vcs);
        }
        self.server
            .take_up(self.now, FIRST, interfaces.collect(), taken);
        self.drain();
    }

    /// Applications send again what was not confirmed, under the same numbers.
    pub(crate) fn send_again(&mut self) {
        for (client, requests) in core::mem::take(&mut self.unconfirmed) {
            for (id, request, capability) in requests {
                self.send_as(client, id, request, capability);
            }
        }
    }

    /// Sends a request, has everything answered, and gives its Confirm.
    pub(crate) fn done(&mut self, client: ClientId, request: Request) -> Result<Confirm, Refused> {
        let id = self.send(client, request);
        self.finish();
        self.confirmed(client, id)
    }

    pub(crate) fn confirmed(&mut self, client: ClientId, id: u64) -> Result<Confirm, Refused> {
        self.confirmed_with(client, id).0
    }

    pub(crate) fn confirmed_with(
        &mut self,
        client: ClientId,
        id: u64,
    ) -> (Result<Confirm, Refused>, Enclosed) {
        let heard = self.heard.entry(client).or_default();
        let is_it = |message: &FromServer| match message {
            FromServer::Confirm { id: confirmed, .. } => *confirmed == id,
            FromServer::Indication { .. } => false,
        };
        let at = heard.iter().position(|(message, _)| is_it(message));
        let at = at.unwrap_or_else(|| panic!("{client:?}: no Confirm of {id}: {heard:?}"));
        match heard.remove(at) {
            Some((FromServer::Confirm { result, .. }, enclosed)) => (result, enclosed),
            _ => unreachable!("it is one"),
        }
    }

    /// The first offer that a client has heard and not taken off: its number, and its connection.
    pub(crate) fn offer(&self, client: ClientId) -> Option<(u64, u32)> {
        let heard = self.heard.get(&client)?;
        heard.iter().find_map(|(message, _)| match message {
            FromServer::Indication {
                id,
                connection,
                indication: Indication::CanGrow { .. },
            } => Some((*id, *connection)),
            _ => None,
        })
    }

    /// The Indications that a client has heard.
    pub(crate) fn indications(&mut self, client: ClientId) -> Vec<(u64, Indication)> {
        let heard = self.heard.entry(client).or_default();
        let all = heard.drain(..).filter_map(|(message, _)| match message {
            // It has its own number each time.
            FromServer::Indication {
                indication: Indication::Restarted,
                ..
            } => Some((0, Indication::Restarted)),
            FromServer::Indication { id, indication, .. } => Some((id, indication)),
            FromServer::Confirm { .. } => None,
        });
        all.collect()
    }

    pub(crate) fn open(
        &mut self,
        client: ClientId,
        vci: u16,
        contract: &str,
    ) -> Result<Confirm, Refused> {
        self.done(client, Request::Open(open(vci, contract)))
    }

    /// A connection of a new application.
    pub(crate) fn opened(&mut self, peer: Peer, vci: u16, contract: &str) -> ClientId {
        let client = self.hello(peer);
        let confirm = self.open(client, vci, contract);
        assert!(matches!(confirm, Ok(Confirm::Opened(_))), "{confirm:?}");
        client
    }

    /// The list, page by page, as `client` hears it.
    pub(crate) fn list(&mut self, client: ClientId) -> Vec<ConnectionInfo> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(next) = from {
            let id = self.send(client, Request::List { from: next });
            let Ok(Confirm::Connections { connections, next }) = self.confirmed(client, id) else {
                panic!("no list");
            };
            all.extend(connections);
            from = next;
        }
        all
    }

    pub(crate) fn resources(&mut self, client: ClientId) -> Vec<ResourceInfo> {
        let id = self.send(client, Request::Resources);
        match self.confirmed(client, id) {
            Ok(Confirm::Resources(resources)) => resources,
            other => panic!("{other:?}"),
        }
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, ns: u64) {
        self.now = self.now.plus_ns(ns);
        self.server.handle_deadline(self.now);
        self.drain();
    }

    /// What is promised, as text.
    pub(crate) fn promised(&self) -> String {
        serde_json::to_string(self.server.admission()).expect("it is JSON")
    }
}

pub(crate) fn wan(name: &str) -> InterfaceSpec {
    InterfaceSpec {
        adapter: None,
        name: name.to_owned(),
        link: Link::peer(name),
        form: HeaderForm::Nni,
        priority: Priority::Normal,
        line_rate: CellRate::new(LINE),
        line: None,
    }
}

pub(crate) fn address(vci: u16) -> cellgate_core::server::Address {
    format!("wan.0.{vci}").parse().expect("an address")
}

pub(crate) fn open(vci: u16, contract: &str) -> Open {
    Open {
        marks: Marks::None,
        address: address(vci),
        contract: contract.to_owned(),
        notification: None,
        transmit_pdus: None,
        receive_pdus: None,
        queue_threshold: None,
        completions: false,
        receive_into: None,
    }
}
