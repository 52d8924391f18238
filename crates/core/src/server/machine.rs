use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::adapters::Adapter;
use super::awaiting::Awaiting;
use super::connection::{Asker, Connection};
use super::cpu_time::Reserved;
use super::interfaces::Interface;
use super::joint::Joint;
use super::pages::Taken;
use super::{
    AdapterAnswer, AdapterAsk, AdapterIndex, AdapterRefusal, Address, Admission, Book, Bound, Bugs,
    ClientId, Confirm, Crowd, Enclosed, FromClient, Health, Limits, On, Output, Peer, Planted,
    Refused, Reopens, Request, Response, ServerConfig, SharedCpu, Sound, TakenInterface, TakenUp,
    Ticket, VERSION,
};
use crate::Time;
use crate::adapter::{AdapterState, AttachmentIndex, PortIndex, VcId};
use crate::contract::TrafficContract;
use crate::wire::VpiVci;

/// The protocol server (paper 003), without I/O.
///
/// After every `handle_*`, [`poll_output`](Self::poll_output) is called until it gives none,
/// **before the next input**. The adapters of a new server are away: [`handle_adapter_ready`], or
/// [`take_up`] where one outlived the server before, comes first.
///
/// A client is confirmed each of its Requests exactly once, unless it hangs up. Requests that
/// concern connections and interfaces are carried out one after the other; the others at once.
///
/// Work: a call looks at each connection a few times at most; a refusal that offers a contract
/// plans some 64 of them. Nothing here is on the data path.
///
/// [`handle_adapter_ready`]: Self::handle_adapter_ready
/// [`take_up`]: Self::take_up
#[derive(Debug)]
pub struct Server<B = Sound> {
    pub(super) config: ServerConfig,
    pub(super) admission: Admission<B>,
    pub(super) bugs: B,
    pub(super) clients: BTreeMap<ClientId, Client>,
    pub(super) connections: BTreeMap<u32, Connection>,
    /// Numbers of connections.
    pub(super) addresses: BTreeMap<(On<PortIndex>, VpiVci), u32>,
    pub(super) interfaces: BTreeMap<String, Interface>,
    /// As many as the configuration has.
    pub(super) adapters: Vec<Adapter>,
    pub(super) tickets: BTreeMap<Ticket, (AdapterIndex, Pending)>,
    outputs: VecDeque<Output>,
    /// The last given.
    last_ticket: u64,
    pub(super) last_number: u32,
    pub(super) last_indication: u64,
    pub(super) work: Work,
    /// In the order in which they came.
    pub(super) awaiting: Vec<Awaiting>,
    /// Times that an adapter has let go of something.
    pub(super) returned: u64,
    /// By user: what its programs took away of their connections' pages.
    pub(super) taken: BTreeMap<u32, Taken>,
    /// Of the input that is being handled.
    pub(super) now: Time,
}

/// What an answer of the adapter is to.
#[derive(Clone, Debug)]
pub(super) enum Pending {
    /// The stage of a connection.
    Connection(u32),
    /// The server's own attachment.
    Home,
    /// The end of an attachment that no connection has.
    Leftover,
    /// The end of a VC that no connection has; after the last of an attachment, of that.
    Orphan(AttachmentIndex),
    /// The link of an interface, or its end.
    Interface(String),
    Request(Asker),
    /// A lease of idle time for a connection.
    Lending(u32),
    /// A loopback cell of this user, who may have hung up.
    Loopback(Asker, u32),
}

/// What is left to do before the next input.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Ports whose best effort is to be divided anew.
    pub(super) divide: BTreeSet<On<PortIndex>>,
    /// Connections whose next step may be due.
    pub(super) settle: BTreeSet<u32>,
    /// Clients whose next request may have its turn.
    pub(super) turn: BTreeSet<ClientId>,
    /// Something was given back.
    pub(super) freed: bool,
}

/// A control socket.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) peer: Peer,
    pub(super) worker: bool,
    /// Groups of its process, as far as anything depends on them.
    groups: Vec<u32>,
    /// When it is hung up; none: it has said hello.
    greeting_until: Option<Time>,
    /// By what it calls them: the numbers of its connections.
    pub(super) connections: BTreeMap<u32, u32>,
    /// Its own at each adapter, which all its connections there have in common.
    pub(super) attachments: BTreeMap<AdapterIndex, Joint>,
    /// A request in turn waits for its Confirm.
    in_turn: bool,
    queue: VecDeque<(Asker, Request, Option<On<VcId>>)>,
    /// Requests without a Confirm, those of the queue included.
    unconfirmed: u32,
    pub(super) monitors: bool,
    /// It has the counters.
    pub(super) counts: bool,
    /// CPU time of a thread of its own.
    pub(super) cpu: Option<Reserved>,
    /// It was taken up without a VC: a Close may have been carried out and not confirmed.
    pub(super) may_have_closed: bool,
    /// What was refused to it, and where.
    pub(super) wanted: Option<(Address, TrafficContract)>,
    /// How long its request in turn waits for what is on its way back, once it does.
    pub(super) patience: Option<Time>,
    /// It was taken up, and has not said yet that it has heard so: the Indication's number. What it
    /// has said to servers before is left unread: one may have confirmed it.
    unheard: Option<u64>,
}

impl Client {
    /// That has said hello.
    fn new(peer: Peer) -> Self {
        Self {
            peer,
            worker: false,
            groups: Vec::new(),
            greeting_until: None,
            connections: BTreeMap::new(),
            attachments: BTreeMap::new(),
            in_turn: false,
            queue: VecDeque::new(),
            unconfirmed: 0,
            monitors: false,
            counts: false,
            cpu: None,
            may_have_closed: false,
            wanted: None,
            patience: None,
            unheard: None,
        }
    }

    /// `restarted`: the number of the Indication that it is told so by.
    pub(super) fn taken_up(peer: Peer, restarted: u64) -> Self {
        Self {
            unheard: Some(restarted),
            ..Self::new(peer)
        }
    }
}

impl Server {
    /// A server without interfaces and connections, whose adapters are away.
    pub fn new(config: ServerConfig) -> Self {
        Self::with_bugs(config, Sound)
    }
}

impl<B: Bugs> Server<B> {
    /// The same, with bugs on purpose.
    pub fn with_bugs(config: ServerConfig, bugs: B) -> Self {
        Self {
            admission: Admission::with_bugs(config.admission.clone(), config.uid, bugs),
            bugs,
            adapters: config.adapters.iter().map(|_| Adapter::away()).collect(),
            config,
            clients: BTreeMap::new(),
            connections: BTreeMap::new(),
            addresses: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            tickets: BTreeMap::new(),
            outputs: VecDeque::new(),
            last_ticket: 0,
            last_number: 0,
            last_indication: 0,
            work: Work::default(),
            awaiting: Vec::new(),
            returned: 0,
            taken: BTreeMap::new(),
            now: Time::ZERO,
        }
    }

    /// What is taken: what is promised, and what is on its way back.
    pub const fn admission(&self) -> &Admission<B> {
        &self.admission
    }

    /// A control socket was accepted, under a new [`ClientId`]. One too many is told so and hung
    /// up.
    pub fn handle_connect(&mut self, now: Time, client: ClientId, peer: Peer) {
        self.connect(now, client, peer, false);
    }

    /// As [`handle_connect`](Self::handle_connect), for a worker of the server itself (a network
    /// device): its connection takes CPU time of the workers.
    pub fn handle_connect_worker(&mut self, now: Time, client: ClientId, peer: Peer) {
        self.connect(now, client, peer, true);
    }

    fn connect(&mut self, now: Time, client: ClientId, peer: Peer, worker: bool) {
        self.now = now;
        let limits = self.config.limits;
        if let Err(refused) = self.check_crowd(peer.uid) {
            self.refuse_unread(client, refused);
            self.outputs.push_back(Output::HangUp { client });
        } else {
            let client_state = Client {
                worker,
                greeting_until: Some(now.plus_ns(limits.hello_ns)),
                ..Client::new(peer)
            };
            self.clients.insert(client, client_state);
        }
        self.run(now);
    }

    /// Whether there is room for another control socket of this user. A sixteenth is kept for those
    /// who govern: they must be able to end what others have.
    fn check_crowd(&self, uid: u32) -> Result<(), Refused> {
        let Limits {
            clients,
            clients_per_user,
            ..
        } = self.config.limits;
        let governs = self.is_governor(uid);
        let users = self.clients.values().map(|client| client.peer.uid);
        let of_user = users.clone().filter(|other| *other == uid).count() as u64;
        if !governs && of_user >= clients_per_user.into() {
            let most = clients_per_user;
            return Err(Refused::full_of_user(Crowd::ControlSockets, most, uid));
        }
        let most = match governs {
            true => clients,
            false => clients - clients / 16,
        };
        match self.clients.len() as u64 >= most.into() {
            true => Err(Refused::full(Crowd::ControlSockets, most, users)),
            false => Ok(()),
        }
    }

    /// A message came. `capability` is the VC that the descriptor which came along belongs to: the
    /// file that its client writes.
    pub fn handle_message(
        &mut self,
        now: Time,
        client: ClientId,
        message: FromClient,
        capability: Option<On<VcId>>,
    ) {
        self.now = now;
        let state = self.clients.get_mut(&client);
        match (message, state.map(|state| &mut state.unheard)) {
            (
                FromClient::Response {
                    id,
                    response: Response::Heard,
                    ..
                },
                Some(unheard),
            ) => *unheard = unheard.filter(|restarted| *restarted != id),
            (_, Some(Some(_))) => {}
            (
                FromClient::Request {
                    id,
                    connection,
                    request,
                },
                _,
            ) => {
                let asker = Asker::new(client, id, connection);
                self.request(asker, request, capability);
            }
            (
                FromClient::Response {
                    id,
                    connection,
                    response,
                },
                _,
            ) => self.response(Asker::new(client, id, connection), response),
        }
        self.run(now);
    }

    /// A message came that no Request could be read from; why, for people.
    pub fn handle_bad_message(&mut self, now: Time, client: ClientId, reason: String) {
        self.now = now;
        let state = self.clients.get(&client);
        if state.is_some_and(|client| client.unheard.is_none()) {
            self.refuse_unread(client, Refused::BadMessage(reason));
        }
        self.run(now);
    }

    /// A control socket was closed by the application.
    pub fn handle_hang_up(&mut self, now: Time, client: ClientId) {
        self.now = now;
        self.forget_client(client);
        self.run(now);
    }

    /// An adapter answered what was asked under `ticket`. Answers to what it was asked before it
    /// was lost, and answers that nobody asked for, are ignored.
    pub fn handle_answer(
        &mut self,
        now: Time,
        ticket: Ticket,
        answer: Result<AdapterAnswer, AdapterRefusal>,
    ) {
        self.now = now;
        if let Some((adapter, pending)) = self.tickets.remove(&ticket) {
            self.answered(adapter, pending, answer);
        }
        self.run(now);
    }

    /// Part of an adapter's state, as it enumerates: counters of connections.
    pub fn handle_report(&mut self, now: Time, adapter: AdapterIndex, state: &AdapterState) {
        self.now = now;
        self.report(adapter, state);
        self.run(now);
    }

    /// How an adapter and its links have done since the last call: guarantees at risk are told.
    pub fn handle_health(&mut self, now: Time, adapter: AdapterIndex, health: &Health) {
        self.now = now;
        self.assess(adapter, health);
        if self.links_are_due(adapter) {
            self.find_links(adapter);
        }
        self.run(now);
    }

    /// An adapter has gone, and with it all its VCs, attachments, kept sockets and links.
    pub fn handle_adapter_lost(&mut self, now: Time, adapter: AdapterIndex) {
        self.now = now;
        self.judge_death(adapter);
        self.lose_adapter(adapter);
        self.run(now);
    }

    /// An adapter is there, without VCs, attachments and links: all that was there before the loss
    /// is asked for again.
    pub fn handle_adapter_ready(&mut self, now: Time, adapter: AdapterIndex) {
        if self.is_away(adapter) {
            self.now = now;
            self.find_adapter(adapter);
        }
        self.run(now);
    }

    /// An adapter is there that outlived the server before: its interfaces' links, VCs and
    /// attachments are taken up, or closed where they belong to nobody. Applications are let in
    /// once this was said of all that have.
    pub fn take_up(
        &mut self,
        now: Time,
        adapter: AdapterIndex,
        interfaces: Vec<TakenInterface>,
        taken: Vec<TakenUp>,
    ) {
        if self.is_away(adapter) {
            self.take_up_all(now, adapter, interfaces, taken);
        }
        self.run(now);
    }

    /// Other limits, quotas, capacities and notes. What is promised stays promised; adapters and
    /// their ports, user and memory of a running server stay.
    pub fn handle_config(&mut self, now: Time, config: ServerConfig) {
        self.now = now;
        self.admission.configure(config.admission.clone());
        self.config = ServerConfig {
            pid: self.config.pid,
            uid: self.config.uid,
            adapters: self.config.adapters_changed_to(config.adapters),
            attachment: self.config.attachment,
            counters_len: self.config.counters_len,
            ..config
        };
        self.has_come_back();
        self.run(now);
    }

    /// What people are to know of the server, from the next hello on.
    pub fn handle_notes(&mut self, notes: Vec<String>) {
        self.config.notes = notes;
    }

    /// Whether connections wait for their turn to be opened again.
    pub fn is_reopening(&self) -> bool {
        let mut adapters = self.adapters.iter();
        adapters.any(|adapter| adapter.reopening.is_holding())
    }

    /// Octets of memory that an adapter has made for connections.
    pub fn memory_held(&self, adapter: AdapterIndex) -> u64 {
        let of_adapter = |one: &&Connection| one.vc.is_some() && one.port.adapter == adapter;
        let open = self.connections.values().filter(of_adapter);
        let grants = open.filter_map(|one| one.grant.as_ref());
        grants.map(|grant| grant.demand().memory).sum()
    }

    /// Other limits of the machine, below what the configuration says. What is promised stays
    /// promised; no more is beyond them.
    pub fn handle_bounds(&mut self, now: Time, bounds: BTreeMap<Book, Bound>) {
        self.now = now;
        self.admission.bound(bounds);
        self.has_come_back();
        self.run(now);
    }

    /// Who shares an adapter's CPU. What that leaves to promise is a bound of
    /// [`handle_bounds`](Self::handle_bounds).
    pub fn handle_shared_cpu(&mut self, adapter: AdapterIndex, shared: Option<SharedCpu>) {
        if let Some(adapter) = self.adapters.get_mut(adapter.place()) {
            adapter.shared = shared;
        }
    }

    /// The time of [`next_deadline`](Self::next_deadline) has come.
    pub fn handle_deadline(&mut self, now: Time) {
        self.run(now);
    }

    /// When [`handle_deadline`](Self::handle_deadline) is due: a socket has not said hello, a
    /// request has waited long enough, or more can be opened again.
    pub fn next_deadline(&self) -> Option<Time> {
        let greetings = self.clients.values().filter_map(|c| c.greeting_until);
        let waits = greetings.chain(self.patience_ends());
        let adapters = self.adapters.iter();
        let reopening = adapters.filter_map(|adapter| adapter.reopening.next_deadline());
        waits.chain(reopening).min()
    }

    /// What is to be done next, in this order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Does what an input has made due, until nothing is.
    pub(super) fn run(&mut self, now: Time) {
        self.now = now;
        self.work.freed |= self.patience_ends().is_some_and(|until| until <= now);
        let silent = |client: &Client| client.greeting_until.is_some_and(|until| until <= now);
        let silent = self.clients.iter().filter(|(_, client)| silent(client));
        for client in silent.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.hang_up(client);
        }
        for adapter in self.adapter_indices() {
            self.go_on_reopening(adapter);
        }
        loop {
            if let Some(port) = self.work.divide.pop_first() {
                self.divide_rest(port);
            } else if let Some(number) = self.work.settle.pop_first() {
                self.settle(number);
            } else if let Some(client) = self.work.turn.pop_first() {
                self.next_in_turn(client);
            } else if core::mem::take(&mut self.work.freed) {
                self.resume_awaiting();
                self.offer_growth();
            } else {
                break;
            }
        }
    }

    /// Who is at the other end of a control socket that has said hello.
    pub fn greeted(&self, client: ClientId) -> Option<Peer> {
        let client = self.clients.get(&client)?;
        client.greeting_until.is_none().then_some(client.peer)
    }

    /// The process at the other end of a control socket is in these groups, and in no other that
    /// [`ServerConfig::reserves`] names.
    pub fn handle_groups(&mut self, client: ClientId, groups: Vec<u32>) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.groups = groups;
        }
    }

    /// What [`handle_groups`](Self::handle_groups) told of a client.
    pub fn groups_of(&self, client: ClientId) -> &[u32] {
        let client = self.clients.get(&client);
        client.map_or(&[], |client| &client.groups)
    }

    /// The number of the connection of a worker, which has one.
    pub fn connection_of(&self, client: ClientId) -> Option<u32> {
        let mut all = self.clients.get(&client)?.connections.values();
        all.next().copied()
    }

    /// Whether a connection is there only until it is closed.
    pub fn is_closing(&self, number: u32) -> bool {
        let connection = self.connections.get(&number);
        connection.is_some_and(|connection| !connection.is_wanted())
    }

    /// Whether this user may do what concerns everybody.
    pub fn is_governor(&self, uid: u32) -> bool {
        uid == 0 || uid == self.config.uid
    }

    fn request(&mut self, asker: Asker, request: Request, capability: Option<On<VcId>>) {
        let limit = self.config.limits.waiting;
        let Some(state) = self.clients.get_mut(&asker.client) else {
            return;
        };
        if state.unconfirmed >= limit {
            let refused = Refused::Full {
                of: Crowd::Requests,
                most: limit,
                quota: None,
                holder: None,
            };
            return self.end_of(asker, Err(refused), Enclosed::Nothing);
        }
        state.unconfirmed += 1;
        let greeted = state.greeting_until.is_none();
        match request {
            Request::Hello { version: VERSION } => {
                state.greeting_until = None;
                let confirm = Confirm::Hello {
                    version: VERSION,
                    server: self.config.server.clone(),
                    pid: self.config.pid,
                    notes: self.notes(),
                };
                self.confirm(asker, Ok(confirm));
            }
            Request::Hello { .. } => {
                let refused = Refused::Version { speaks: VERSION };
                self.confirm(asker, Err(refused));
            }
            _ if !greeted => self.confirm(asker, Err(Refused::HelloFirst)),
            Request::Open(_)
            | Request::Take { .. }
            | Request::Reattach { .. }
            | Request::Modify { .. }
            | Request::Close
            | Request::Lease { .. }
            | Request::Add(_)
            | Request::Set { .. }
            | Request::Delete { .. }
            | Request::AddInterface(_)
            | Request::SetLine { .. }
            | Request::RemoveInterface { .. } => {
                let in_turn = Asker {
                    in_turn: true,
                    ..asker
                };
                state.queue.push_back((in_turn, request, capability));
                self.work.turn.insert(asker.client);
            }
            Request::Describe
            | Request::Try(_)
            | Request::List { .. }
            | Request::Resources
            | Request::Adapters
            | Request::Interfaces
            | Request::Ping { .. }
            | Request::Monitor
            | Request::Counters => self.dispatch(asker, request, capability),
            // They are the host's, who takes them before they come here.
            Request::ReserveCpu(_) => {
                let none = "this server schedules no threads".to_owned();
                self.confirm(asker, Err(Refused::Unsupported(none)));
            }
            Request::AddDevice(_) | Request::RemoveDevice { .. } | Request::Devices { .. } => {
                let none = "this server has no workers".to_owned();
                self.confirm(asker, Err(Refused::Unsupported(none)));
            }
            Request::Settings { .. } => {
                let none = "this server has no settings".to_owned();
                self.confirm(asker, Err(Refused::Unsupported(none)));
            }
        }
    }

    /// An answer to [`CanGrow`](super::Indication::CanGrow). One to an Indication that is not known
    /// is no request that could be carried out; declining it is nothing.
    fn response(&mut self, asker: Asker, response: Response) {
        let Asker { client, id, .. } = asker;
        let Some(state) = self.clients.get(&client) else {
            return;
        };
        let own = state.connections.get(&asker.connection).copied();
        let connection = own.and_then(|number| self.connections.get_mut(&number));
        let offered = connection.and_then(|connection| {
            let again = connection.repeatable.then_some(connection.done).flatten();
            if again.is_some_and(|done| done.id == id) {
                return Some(connection.plan.contract);
            }
            let ours = connection.offered.filter(|(offer, _)| *offer == id)?;
            connection.offered = None;
            Some(ours.1)
        });
        match (response, offered) {
            (Response::Decline, Some(_)) => {
                if let Some(number) = own {
                    self.announce(number, super::Change::Changed);
                }
            }
            (Response::Decline | Response::Heard, _) => {}
            (Response::Accept, Some(contract)) => {
                let contract = contract.to_string();
                self.request(asker, Request::Modify { contract }, None);
            }
            (Response::Accept, None) => {
                let refused = Refused::BadMessage("no such Indication".to_owned());
                self.end_of(asker, Err(refused), Enclosed::Nothing);
            }
        }
    }

    fn next_in_turn(&mut self, client: ClientId) {
        let Some(state) = self.clients.get_mut(&client) else {
            return;
        };
        if state.in_turn {
            return;
        }
        if let Some((asker, request, capability)) = state.queue.pop_front() {
            state.in_turn = true;
            self.dispatch(asker, request, capability);
        }
    }

    /// Closes a control socket after what was said to it.
    pub(super) fn hang_up(&mut self, client: ClientId) {
        self.forget_client(client);
        self.outputs.push_back(Output::HangUp { client });
    }

    fn forget_client(&mut self, client: ClientId) {
        let Some(state) = self.clients.remove(&client) else {
            return;
        };
        self.release_reserved(state.cpu);
        self.awaiting.retain(|one| !one.is_of(client));
        for number in state.connections.into_values() {
            if self.bugs.planted(Planted::HungUpStays) {
                continue;
            }
            if let Some(connection) = self.connections.get_mut(&number) {
                connection.user = None;
            }
            self.work.settle.insert(number);
        }
    }

    /// Ends a Request.
    pub(super) fn confirm(&mut self, asker: Asker, result: Result<Confirm, Refused>) {
        self.confirm_with(asker, result, Enclosed::Nothing);
    }

    pub(super) fn confirm_with(
        &mut self,
        asker: Asker,
        result: Result<Confirm, Refused>,
        enclosed: Enclosed,
    ) {
        let Asker {
            client, in_turn, ..
        } = asker;
        let Some(state) = self.clients.get_mut(&client) else {
            return;
        };
        state.unconfirmed = state.unconfirmed.saturating_sub(1);
        if in_turn {
            state.in_turn = false;
            state.patience = None;
            self.work.turn.insert(client);
        }
        self.end_of(asker, result, enclosed);
    }

    /// Whether anybody follows what happens: by a monitor, or by the counters.
    pub fn is_watched(&self) -> bool {
        let mut clients = self.clients.values();
        clients.any(|client| client.monitors || client.counts)
    }

    /// Has a client's socket, or what its worker carries, kept with the adapter.
    pub(super) fn keep(
        &mut self,
        client: ClientId,
        attachment: On<AttachmentIndex>,
        reopens: Reopens,
    ) {
        if self.clients.contains_key(&client) {
            self.outputs.push_back(Output::Keep {
                client,
                attachment,
                reopens,
            });
        }
    }

    /// Tells the host of a permanent connection that is gone.
    pub(super) fn tell_lost(&mut self, connection: &Connection, refused: Refused) {
        self.outputs.push_back(Output::Lost {
            address: connection.address.clone(),
            uid: connection.uid,
            refused,
        });
    }

    /// What people are to know of it.
    fn notes(&self) -> Vec<String> {
        let is_back = |address: &Address| {
            let mut all = self.connections.values();
            all.any(|one| one.address == *address)
        };
        let adapters = self.adapters.iter();
        let left_out = adapters.flat_map(|adapter| &adapter.reopening.left_out);
        let left_out = left_out.filter(|(address, _)| !is_back(address));
        let left_out = left_out.map(|(_, told)| told);
        self.config.notes.iter().chain(left_out).cloned().collect()
    }

    pub(super) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// Asks the adapter of a connection, for it.
    pub(super) fn ask_for(&mut self, number: u32, ask: impl Into<AdapterAsk>) {
        if let Some(connection) = self.connections.get(&number) {
            let adapter = connection.port.adapter;
            self.ask(adapter, Pending::Connection(number), ask);
        }
    }

    /// Asks an adapter.
    pub(super) fn ask(
        &mut self,
        adapter: AdapterIndex,
        pending: Pending,
        ask: impl Into<AdapterAsk>,
    ) {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.tickets.insert(ticket, (adapter, pending));
        self.outputs.push_back(Output::Adapter {
            adapter,
            ticket,
            ask: ask.into(),
        });
    }
}
