//! What each Request does.

use super::awaiting::Lacking;
use super::connection::{Asker, Change, Connection, Owed, OwedConfirm, Stage};
use super::lending::LEASE_MAX_NS;
use super::machine::{Pending, Server};
use super::plan::{Circumstances, Plan};
use super::{
    AdapterAsk, Address, Bugs, ClientId, Confirm, ConnectionInfo, CounterRecord, Crowd, Enclosed,
    EndReason, Grant, LIST_MAX, On, Open, PingFlow, Refused, Request, ResourceInfo, Shown,
    descriptions,
};
use crate::adapter::{PortIndex, VcId};
use crate::contract::TrafficContract;
use crate::keeper::Ask;

/// The longest wait for a loopback cell in nanoseconds.
const PING_MAX_NS: u64 = 10_000_000_000;
/// Loopback cells of one user on their way at once: a quarter of those that an adapter lets one
/// control connection await.
pub const LOOPBACKS_PER_USER: usize = 2;

/// A Request that is carried out gives its Confirm, or none if that comes later.
pub(super) type Outcome = Result<Option<Confirm>, Refused>;

/// The connection that a Request is about.
enum Target {
    /// None that exists.
    None,
    Number(u32),
}

impl<B: Bugs> Server<B> {
    pub(super) fn dispatch(
        &mut self,
        asker: Asker,
        request: Request,
        capability: Option<On<VcId>>,
    ) {
        let outcome = match self.target(asker, &request) {
            Err(refused) => Err(refused),
            Ok(Target::Number(number)) => {
                return self.dispatch_to(asker, number, request, capability);
            }
            Ok(Target::None) => self.carry_out(asker, request, capability),
        };
        self.end(asker, outcome);
    }

    fn end(&mut self, asker: Asker, outcome: Outcome) {
        match outcome {
            Ok(None) => {}
            Ok(Some(confirm)) => {
                let enclosed = match confirm {
                    Confirm::Counters { .. } => Enclosed::Counters,
                    _ => Enclosed::Nothing,
                };
                self.confirm_with(asker, Ok(confirm), enclosed);
            }
            Err(refused) => self.confirm(asker, Err(refused)),
        }
    }

    /// The number of this client's user's connection at an address; a governor's are all.
    pub(super) fn number_of(&self, client: ClientId, address: &Address) -> Result<u32, Refused> {
        let uid = self.clients.get(&client).map(|client| client.peer.uid);
        let governs = uid.is_some_and(|uid| self.is_governor(uid));
        let found = self
            .find_interface(address)
            .map_err(|_| Refused::NotFound)?;
        let number = self.addresses.get(&(found.port, found.address.vc));
        let connection = number.and_then(|number| self.connections.get(number));
        let mine = |connection: &&Connection| governs || Some(connection.uid) == uid;
        let connection = connection.filter(mine).ok_or(Refused::NotFound)?;
        Ok(connection.number)
    }

    /// The connection that a request is about, if it is about one.
    fn target(&self, asker: Asker, request: &Request) -> Result<Target, Refused> {
        let client = self.clients.get(&asker.client);
        let own = client.and_then(|client| client.connections.get(&asker.connection));
        let own = own.copied();
        let uid = client.map(|client| client.peer.uid);
        let at = |address: &Address| self.number_of(asker.client, address).map(Target::Number);
        let begins = matches!(
            request,
            Request::Open(_) | Request::Try(_) | Request::Take { .. } | Request::Reattach { .. }
        );
        if let Some(uid) = uid.filter(|_| begins) {
            self.check_pages(uid)?;
        }
        match request {
            // Its own, where it asks for what it has: it may not have heard the Confirm.
            Request::Open(_) => Ok(own.map_or(Target::None, Target::Number)),
            Request::Take { address } | Request::Reattach { address } => match own {
                Some(number) => Ok(Target::Number(number)),
                None => at(address),
            },
            Request::Close if client.is_some_and(|client| client.may_have_closed) => {
                Ok(own.map_or(Target::None, Target::Number))
            }
            Request::Modify { .. } | Request::Close | Request::Lease { .. } => {
                own.map(Target::Number).ok_or(Refused::NoConnection)
            }
            Request::Set { address, .. } | Request::Delete { address } => at(address),
            _ => Ok(Target::None),
        }
    }

    /// A request about a connection; it waits until nothing is under way there.
    pub(super) fn dispatch_to(
        &mut self,
        asker: Asker,
        number: u32,
        request: Request,
        capability: Option<On<VcId>>,
    ) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return self.end(asker, Err(Refused::NotFound));
        };
        // What opened it is confirmed again when it is open again.
        let is_away = connection.vc.is_none() && connection.is_opened_by(asker);
        let under_way = !connection.is_resting() || connection.opener.is_some() || is_away;
        if under_way || self.work.settle.contains(&number) {
            return self.wait_for(number, (asker, request, capability));
        }
        if self.repeat(asker, number, &request) {
            return;
        }
        let outcome = match request {
            Request::Open(_) => Err(Refused::Occupied),
            Request::Take { .. } => self.take(asker, number, request),
            Request::Reattach { .. } => self.reattach(asker, number, request, capability),
            Request::Modify { contract } => self.modify(asker, number, &contract, false),
            Request::Set { contract, .. } => self.modify(asker, number, &contract, true),
            Request::Close => self.close(asker, number),
            Request::Delete { .. } => self.delete(asker, number),
            Request::Lease {
                pdus,
                expires_in_ns,
            } => self.lease(asker, number, pdus, expires_in_ns),
            _ => Err(Refused::NotFound),
        };
        self.end(asker, outcome);
    }

    /// Carries a request out again when nothing is under way at the connection, or it is gone.
    pub(super) fn wait_for(&mut self, number: u32, request: (Asker, Request, Option<On<VcId>>)) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.waiting.push(request);
        }
    }

    /// Whether the request was carried out already: then it is confirmed once more.
    fn repeat(&mut self, asker: Asker, number: u32, request: &Request) -> bool {
        let Some(connection) = self.connections.get_mut(&number) else {
            return false;
        };
        if !connection.is_used_by(asker) {
            return false;
        }
        // What opened it stays confirmed whatever has become of its adapter since; a change does
        // not, for a connection that was opened again has its memory already.
        let again = core::mem::take(&mut connection.repeatable) || connection.is_opened_by(asker);
        let done = connection.done.filter(|done| again && done.id == asker.id);
        let (Some(done), Some(opened), Some(open)) = (done, connection.opened(), connection.vc)
        else {
            return false;
        };
        let adapter = connection.port.adapter;
        let opens = matches!(
            request,
            Request::Open(_) | Request::Take { .. } | Request::Reattach { .. }
        );
        match (done.modified, request) {
            (None, _) if opens => {
                let enclosed = Enclosed::connection(adapter, &opened);
                self.confirm_with(asker, Ok(Confirm::Opened(opened)), enclosed);
            }
            (Some(memory), Request::Modify { .. }) => {
                let enclosed = match memory {
                    true => Enclosed::Memory {
                        adapter,
                        vc: open.vc,
                    },
                    false => Enclosed::Nothing,
                };
                let confirm = Confirm::Modified { opened, memory };
                self.confirm_with(asker, Ok(confirm), enclosed);
            }
            _ => return false,
        }
        true
    }

    /// A request that is about no connection that exists.
    fn carry_out(
        &mut self,
        asker: Asker,
        request: Request,
        capability: Option<On<VcId>>,
    ) -> Outcome {
        let client = self
            .clients
            .get_mut(&asker.client)
            .ok_or(Refused::NotFound)?;
        let governs = client.peer.uid == 0 || client.peer.uid == self.config.uid;
        match request {
            Request::Open(open) => self.open(asker, open, false, capability),
            Request::Add(open) => self.open(asker, open, true, None),
            Request::Try(open) => self.try_open(asker, open, capability),
            Request::Close => {
                let stats = Box::default();
                Ok(Some(Confirm::Closed { stats }))
            }
            Request::Describe => Ok(Some(Confirm::Description(descriptions()))),
            Request::List { from } => Ok(Some(self.list(from))),
            Request::Resources => Ok(Some(Confirm::Resources(self.resource_infos()))),
            Request::Adapters => Ok(Some(Confirm::Adapters(self.adapter_infos()))),
            Request::Interfaces => Ok(Some(Confirm::Interfaces(self.interface_infos()))),
            Request::AddInterface(_)
            | Request::SetLine { .. }
            | Request::RemoveInterface { .. }
                if !governs =>
            {
                Err(Refused::NotPermitted)
            }
            Request::AddInterface(spec) => self.add_interface(asker, spec).map(|()| None),
            Request::SetLine { name, line } => self.set_line(asker, &name, line).map(|()| None),
            Request::RemoveInterface { name } => self.remove_interface(asker, &name),
            Request::Ping {
                address,
                flow,
                timeout_ns,
            } => self.ping(asker, &address, flow, timeout_ns),
            Request::Monitor => self.monitor(asker),
            Request::Counters => {
                let len = self.config.counters_len;
                let none = || Refused::Unsupported("this server shows no counters".to_owned());
                let len = len.ok_or_else(none)?;
                if let Some(client) = self.clients.get_mut(&asker.client) {
                    client.counts = true;
                }
                Ok(Some(Confirm::Counters { len }))
            }
            _ => Err(Refused::NotFound),
        }
    }

    fn monitor(&mut self, asker: Asker) -> Outcome {
        let uid = self.clients.get(&asker.client).map(|one| one.peer.uid);
        let of_all = u64::from(self.config.limits.monitors);
        let of_user = match uid.is_some_and(|uid| self.is_governor(uid)) {
            true => of_all,
            false => of_all.div_ceil(4),
        };
        let others = self.clients.iter();
        let others = others.filter(|(id, one)| one.monitors && **id != asker.client);
        let mine = others.clone().filter(|(_, one)| Some(one.peer.uid) == uid);
        let most = |most: u64| u32::try_from(most).unwrap_or(u32::MAX);
        if let Some(uid) = uid.filter(|uid| !self.is_governor(*uid))
            && mine.count() as u64 >= of_user
        {
            return Err(Refused::full_of_user(Crowd::Monitors, most(of_user), uid));
        }
        if others.clone().count() as u64 >= of_all {
            let users = others.map(|(_, one)| one.peer.uid);
            return Err(Refused::full(Crowd::Monitors, most(of_all), users));
        }
        if let Some(client) = self.clients.get_mut(&asker.client) {
            client.monitors = true;
        }
        Ok(Some(Confirm::Done))
    }

    /// The connections as the list shows them, by number.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionInfo> {
        self.announced().map(Connection::info)
    }

    fn announced(&self) -> impl Iterator<Item = &Connection> {
        let all = self.connections.values();
        all.filter(|connection| connection.announced)
    }

    /// What the counters show.
    pub fn shown(&self) -> Shown<impl Iterator<Item = CounterRecord>> {
        Shown {
            adapters: self.adapter_infos(),
            interfaces: self.interface_infos(),
            resources: self.resource_infos(),
            connections: self.announced().map(Connection::counters),
        }
    }

    fn resource_infos(&self) -> Vec<ResourceInfo> {
        self.admission.resources(
            |port| self.interface_name(port),
            |adapter| self.adapter_name(adapter),
        )
    }

    fn list(&self, from: u32) -> Confirm {
        let shown = self.connections.range(from..);
        let mut shown = shown.filter(|(_, connection)| connection.announced);
        let connections: Vec<ConnectionInfo> = shown
            .by_ref()
            .take(LIST_MAX)
            .map(|(_, connection)| connection.info())
            .collect();
        Confirm::Connections {
            connections,
            next: shown.next().map(|(number, _)| *number),
        }
    }

    /// What a plan depends on.
    pub(super) fn circumstances<'a>(
        &'a self,
        open: &'a Open,
        port: On<PortIndex>,
        worker: bool,
    ) -> Circumstances<'a> {
        let mut interfaces = self.interfaces.values();
        let interface = interfaces.find(|interface| interface.port == port);
        let line = interface.map(super::interfaces::Interface::line);
        Circumstances {
            config: &self.config,
            adapter: self.config.adapter(port.adapter),
            admission: self.admission.config(),
            open,
            line: line.unwrap_or(crate::contract::CellRate::OC3),
            worker,
            room: self.room_of(open),
        }
    }

    pub(super) fn insert(&mut self, connection: Connection) {
        let (number, port) = (connection.number, connection.port);
        self.addresses.insert((port, connection.address.vc), number);
        self.connections.insert(number, connection);
        self.work.divide.insert(port);
        self.work.settle.insert(number);
    }

    /// The connection and its VC. None: the adapter is away, or is to open it yet.
    fn open_vc(&mut self, number: u32) -> Result<(&mut Connection, VcId), Refused> {
        let connection = self.connections.get_mut(&number).ok_or(Refused::NotFound)?;
        let vc = connection.vc.ok_or(Refused::AdapterAway)?.vc;
        Ok((connection, vc))
    }

    fn take(&mut self, asker: Asker, number: u32, request: Request) -> Outcome {
        let (connection, _) = self.open_vc(number)?;
        if connection.is_used_by(asker) {
            return Err(Refused::Occupied);
        }
        if !connection.permanent {
            return Err(Refused::NotPermanent);
        }
        if connection.user.is_some() {
            return Err(Refused::InUse);
        }
        self.join(asker, number, (request, None))
    }

    fn reattach(
        &mut self,
        asker: Asker,
        number: u32,
        request: Request,
        capability: Option<On<VcId>>,
    ) -> Outcome {
        let (connection, vc) = self.open_vc(number)?;
        if let Some(refused) = connection.keeps_buffer("another program does not take it over") {
            return Err(refused);
        }
        if connection.is_used_by(asker) {
            return Err(Refused::Occupied);
        }
        match capability {
            Some(capability) if capability == connection.port.adapter.on(vc) => {
                self.join(asker, number, (request, Some(capability)))
            }
            Some(_) => Err(Refused::Descriptors(
                "they are another connection's".to_owned(),
            )),
            None => Err(Refused::Descriptors(
                "the connection's is missing".to_owned(),
            )),
        }
    }

    fn modify(&mut self, asker: Asker, number: u32, text: &str, set: bool) -> Outcome {
        let contract: TrafficContract = text.parse()?;
        let connection = self.connections.get(&number).ok_or(Refused::NotFound)?;
        let open = connection.vc.ok_or(Refused::AdapterAway)?;
        let held = connection.grant.as_ref().ok_or(Refused::NotFound)?;
        if set && !connection.permanent {
            return Err(Refused::NotPermanent);
        }
        if set && connection.user.is_some() {
            return Err(Refused::InUse);
        }
        check_same_shape(&connection.plan.contract, &contract)?;
        let port = connection.port;
        let circumstances = self.circumstances(&connection.open, port, connection.worker);
        let plan = |contract: &TrafficContract| {
            let plan = circumstances.plan(contract)?;
            circumstances.keep_memory(plan, open.sizes)
        };
        let plan = plan(&contract)?;
        if plan.sizes != open.sizes {
            self.check_memory_is_its_own(number)?;
        }
        let promised = self.promised();
        if let Err(shortage) = promised.check_change(held, &plan.demand) {
            let fits = |plan: Plan| {
                let plan = circumstances.keep_memory(plan, open.sizes);
                plan.is_ok_and(|plan| promised.check_change(held, &plan.demand).is_ok())
            };
            let offers = circumstances.offers(&contract, &shortage, fits);
            if let (Some(connection), false) = (self.connections.get_mut(&number), set) {
                connection.wanted = Some(contract);
            }
            return Err(offers.refuse(shortage));
        }
        if let Err(shortage) = self.admission.check_change(held, &plan.demand) {
            let lacking = Lacking {
                capability: None,
                uid: connection.uid,
                port,
                demand: plan.demand.beyond(held.demand()),
                opens: None,
                refused: false,
            };
            let request = change_request(connection, text, set);
            return match self.awaits(asker, request, lacking, None) {
                true => Ok(None),
                false => Err(Refused::Admission(shortage)),
            };
        }
        let more = self.admission.take_more(held, &plan.demand);
        self.ask_modify(asker, number, plan, more, set);
        Ok(None)
    }

    fn ask_modify(&mut self, asker: Asker, number: u32, plan: Plan, more: Grant, set: bool) {
        let adapter = self.connections.get(&number).map(|one| one.port.adapter);
        let home = adapter.and_then(|adapter| self.home_attachment(adapter));
        let Some((connection, open)) = self
            .connections
            .get_mut(&number)
            .and_then(|connection| connection.vc.map(|open| (connection, open)))
        else {
            return self.admission.release(more);
        };
        let memory = plan.sizes != open.sizes;
        let done = (!set).then_some(super::Done {
            id: asker.id,
            modified: Some(memory),
        });
        let at = connection
            .attachment
            .map(|attached| attached.index)
            .or(home);
        let at = at.unwrap_or(crate::adapter::AttachmentIndex(0));
        let ask = Ask::Modify {
            vc: open.vc,
            request: plan.request(connection.address.vc, connection.port.id, at),
            region: memory.then(|| plan.region()),
            record: None,
        };
        let slots = connection.clocks.changed(self.now, &plan.demand);
        let record = connection.record(&plan, slots, connection.user, done);
        let ask = AdapterAsk::Keeper(ask, Some(record));
        connection.stage = Stage::Modifying(Box::new(Change {
            asker,
            plan,
            more,
            memory,
            set,
            slots,
        }));
        self.work.divide.insert(connection.port);
        self.ask_for(number, ask);
    }

    fn close(&mut self, asker: Asker, number: u32) -> Outcome {
        let connection = self.connections.get_mut(&number).ok_or(Refused::NotFound)?;
        connection.user = None;
        connection.gone.connection = asker.connection;
        connection.owed.push(Owed {
            asker,
            result: Ok(OwedConfirm::Closed),
        });
        if let Some(client) = self.clients.get_mut(&asker.client) {
            client.connections.remove(&asker.connection);
        }
        self.work.settle.insert(number);
        Ok(None)
    }

    fn delete(&mut self, asker: Asker, number: u32) -> Outcome {
        let connection = self.connections.get_mut(&number).ok_or(Refused::NotFound)?;
        if !connection.permanent {
            return Err(Refused::NotPermanent);
        }
        connection.ending = Some(EndReason::Deleted);
        connection.owed.push(Owed {
            asker,
            result: Ok(OwedConfirm::Done),
        });
        self.work.settle.insert(number);
        Ok(None)
    }

    fn lease(&mut self, asker: Asker, number: u32, pdus: u32, expires_in_ns: u64) -> Outcome {
        if expires_in_ns > LEASE_MAX_NS {
            let reason = "a lease has 10,000,000 ns at most";
            return Err(Refused::BadMessage(reason.to_owned()));
        }
        let now = self.now;
        let (connection, vc) = self.open_vc(number)?;
        connection.lent_by_hand_until = now.plus_ns(LEASE_MAX_NS);
        let adapter = connection.port.adapter;
        let ask = Ask::Lease {
            vc,
            pdus,
            expires_in_ns,
        };
        self.ask(adapter, Pending::Request(asker), ask);
        Ok(None)
    }

    fn ping(
        &mut self,
        asker: Asker,
        address: &Address,
        flow: PingFlow,
        timeout_ns: u64,
    ) -> Outcome {
        if timeout_ns > PING_MAX_NS {
            let reason = "a loopback cell is waited for 10^10 ns at most";
            return Err(Refused::BadMessage(reason.to_owned()));
        }
        let client = self.clients.get(&asker.client).ok_or(Refused::NotFound)?;
        let uid = client.peer.uid;
        let found = self.find_interface(address)?;
        let On { adapter, id: port } = found.port;
        if self.is_away(adapter) {
            return Err(Refused::AdapterAway);
        }
        match flow {
            PingFlow::F4Segment | PingFlow::F4EndToEnd => {
                if !self.is_governor(uid) {
                    return Err(Refused::NotPermitted);
                }
            }
            PingFlow::F5Segment | PingFlow::F5EndToEnd => {
                let number = self.addresses.get(&(found.port, address.vc));
                let connection = number.and_then(|number| self.connections.get(number));
                let open = connection.filter(|connection| {
                    let mine = connection.uid == uid || self.is_governor(uid);
                    mine && connection.vc.is_some()
                });
                open.ok_or(Refused::NotFound)?;
            }
        }
        let pending = self.tickets.values().map(|(_, pending)| pending);
        let mine = |one: &&Pending| matches!(one, Pending::Loopback(_, of) if *of == uid);
        let out = pending.filter(mine).count();
        if out >= LOOPBACKS_PER_USER && !self.is_governor(uid) {
            let most = LOOPBACKS_PER_USER as u32;
            return Err(Refused::full_of_user(Crowd::LoopbackCells, most, uid));
        }
        let ask = Ask::Loopback {
            port,
            address: address.vc,
            flow,
            timeout_ns,
        };
        self.ask(adapter, Pending::Loopback(asker, uid), ask);
        Ok(None)
    }
}

/// What asks for a change of contract.
pub(super) fn change_request(connection: &Connection, contract: &str, set: bool) -> Request {
    let contract = contract.to_owned();
    match set {
        true => Request::Set {
            address: connection.address.clone(),
            contract,
        },
        false => Request::Modify { contract },
    }
}

/// A change of contract keeps the AAL and the directions.
fn check_same_shape(old: &TrafficContract, new: &TrafficContract) -> Result<(), Refused> {
    let shape = |contract: &TrafficContract| {
        let aal = contract.aal.unwrap_or(crate::contract::Aal::Aal5);
        (aal, contract.transmit.is_some(), contract.receive.is_some())
    };
    if shape(old) == shape(new) {
        Ok(())
    } else {
        let reason = "a connection keeps its AAL and its directions";
        Err(Refused::Unsupported(reason.to_owned()))
    }
}
