//! What applications ask, hear, and hand over.

use cellgate_core::Time;
use cellgate_core::adapter::VcId;
use cellgate_core::application::{self, Cause, Failure, Output};
use cellgate_core::contract::{TrafficContract, TrafficDescriptor};
use cellgate_core::server::{
    ClientId, Confirm, FromClient, FromServer, Indication, Open, Opened, Refused, Request,
    Response, Shortage, VERSION,
};

use super::ServiceEvent;
use super::application::{Asked, Came, Gate};
use super::daemon::{Parcel, to_server};
use super::scenario::Call;
use super::setup::address_at;
use crate::world::host::End;
use crate::world::run::{Event, World};
use crate::world::{Ps, Violation};

/// From one try of an application to connect, or to see that everything has been sent, to the next.
const RETRY: Ps = Ps::from_ns(200_000);
/// From a connection to the first Request.
pub(super) const HELLO: Ps = Ps::from_ns(2_000_000);

/// By how much cells can come closer together on their way: a queue of 256 cells takes 0.73 ms.
const SWITCHES_NS: u64 = 1_000_000;

/// What is promised of an SDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It must arrive; `timely`: in time, too; `policed`: of a reader that has a rate of its own.
    Promised {
        timely: bool,
        policed: bool,
    },
    /// Its sender sends more than its reader is promised.
    Exceeds,
    Unpromised,
}

/// The direction of a contract that an application needs; what is none stays as it is. A reader
/// tolerates what its sender may do and what switches add to it.
fn one_way(text: &str, sends: bool) -> String {
    match text.parse::<TrafficContract>() {
        Ok(contract) => {
            let tolerant = |descriptor: TrafficDescriptor| TrafficDescriptor {
                cdvt_ns: descriptor.cdvt_ns.map(|ns| ns + SWITCHES_NS),
                ..descriptor
            };
            let one = TrafficContract {
                transmit: contract.transmit.filter(|_| sends),
                receive: contract.receive.filter(|_| !sends).map(tolerant),
                ..contract
            };
            one.to_string()
        }
        Err(_) => text.into(),
    }
}

impl World {
    /// A call of an application is due.
    pub(super) fn call(&mut self, n: usize, at: usize) {
        let host = self.service.applications[n].host;
        let call = self.service.applications[n].spec.calls[at].call.clone();
        if call == Call::Crash {
            return self.application_dies(n);
        }
        if self.service.applications[n].program.is_asking() {
            return self.service.applications[n].later.push_back(at);
        }
        let is_connected = self.service.applications[n].client.is_some();
        let served = self.service.hosts.get(&host);
        let is_there = served.is_some_and(|served| served.server.is_some());
        if !is_connected && !is_there {
            let event = ServiceEvent::Call(n as u32, at as u32);
            return self.queue.push(self.now.plus(RETRY), Event::Service(event));
        }
        if !is_connected {
            let greets = call != Call::Mute;
            if greets {
                self.service.applications[n].later.push_front(at);
            }
            return self.connect(n, greets);
        }
        let application = &self.service.applications[n];
        let (port, sends) = (application.port, application.sends);
        let connection = application.connection as usize;
        let address = address_at(port, application.address);
        let notification = application.notification;
        let own = self.connections[connection].contract.to_string();
        let open = |text: &str| Open {
            address: address.clone(),
            contract: one_way(text, sends),
            notification: Some(notification),
            transmit_pdus: None,
            receive_pdus: Some(4),
            completions: false,
        };
        let mut capability = None;
        let request = match call {
            Call::Open => Request::Open(open(&own)),
            Call::OpenWith(text) => Request::Open(open(&text)),
            Call::Modify(text) => {
                return self.modify(n, one_way(&text, sends), false);
            }
            Call::Close => {
                self.stops_using(n);
                self.lets_go(n);
                Request::Close
            }
            Call::Lend { pdus, for_ns } => Request::Lease {
                pdus,
                expires_in_ns: for_ns,
            },
            Call::Add => Request::Add(open(&own)),
            Call::Take => Request::Take { address },
            Call::Reattach => {
                capability = self.hands_on(n);
                Request::Reattach { address }
            }
            Call::Delete => Request::Delete { address },
            Call::Crash | Call::Mute => return self.goes_on(n),
        };
        self.request(n, request, capability);
    }

    /// The next call, if none is under way: a program waits for each Confirm.
    fn goes_on(&mut self, n: usize) {
        let application = &mut self.service.applications[n];
        if application.program.is_asking() {
            return;
        }
        if let Some(next) = application.later.pop_front() {
            self.call(n, next);
        }
    }

    /// Connects, and says hello or nothing.
    fn connect(&mut self, n: usize, greets: bool) {
        let application = &mut self.service.applications[n];
        let host = application.host;
        application.is_run();
        application.is_mute = !greets;
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        served.last_client += 1;
        let client = ClientId(served.last_client);
        served.clients.insert(client, n);
        self.service.applications[n].client = Some(client);
        self.post(host, to_server(client), Parcel::Connect);
        if greets {
            return self.request(n, Request::Hello { version: VERSION }, None);
        }
        self.goes_on(n);
    }

    pub(super) fn request(&mut self, n: usize, request: Request, capability: Option<VcId>) {
        let asked = Asked {
            capability,
            ..Asked::new(Some(request.clone()))
        };
        self.begins(n, asked, |program, now| program.ask(now, request));
    }

    /// Changes the contract as soon as everything has been sent.
    fn modify(&mut self, n: usize, contract: String, takes_offer: bool) {
        let held = self.service.applications[n].held.as_ref();
        if held.is_some_and(|held| !held.in_use) {
            // It has handed its descriptor on and does not know what is still to be sent.
            return self.goes_on(n);
        }
        let request = Request::Modify {
            contract: contract.clone(),
        };
        let asked = Asked {
            takes_offer,
            ..Asked::new(Some(request))
        };
        self.begins(n, asked, |program, now| program.modify(now, contract));
        self.flush(n);
    }

    /// The program begins to ask for something.
    fn begins(
        &mut self,
        n: usize,
        asked: Asked,
        ask: impl FnOnce(&mut application::Application<Came>, Time),
    ) {
        let application = &mut self.service.applications[n];
        if application.client.is_none() {
            return;
        }
        application.asked = Some(asked);
        let now = self.time_at(self.service.applications[n].host);
        ask(&mut self.service.applications[n].program, now);
        self.carries_out(n);
    }

    /// Whether everything has been sent, for a program that waits for that.
    pub(super) fn flush(&mut self, n: usize) {
        let application = &self.service.applications[n];
        let (host, connection) = (application.host, application.connection);
        if !application.program.is_changing() {
            return;
        }
        let holds = self.service.holders.get(&(host, connection)) == Some(&n);
        if holds && application.sends && !self.hosts[host].has_sent_all(connection) {
            let event = ServiceEvent::Flush(n as u32);
            return self.queue.push(self.now.plus(RETRY), Event::Service(event));
        }
        let now = self.time_at(host);
        self.service.applications[n].program.has_sent_all(now);
        self.carries_out(n);
    }

    /// The process does what its program wants.
    fn carries_out(&mut self, n: usize) {
        while let Some(output) = self.service.applications[n].program.poll() {
            match output {
                Output::Say(message) => self.says(n, message),
                Output::Memory {
                    opened,
                    came,
                    cause,
                } => self.has_memory(n, &opened, came, cause),
                Output::Answer(answer) => self.is_answered(n, answer.result),
                Output::Senseless(text) => {
                    let name = &self.service.applications[n].spec.name;
                    let text = format!("application {name}: {text}");
                    self.violate(Violation::new("I19", self.now, text));
                }
            }
        }
    }

    fn says(&mut self, n: usize, message: FromClient) {
        let application = &mut self.service.applications[n];
        let (Some(client), host) = (application.client, application.host) else {
            return;
        };
        let id = match &message {
            FromClient::Request { id, .. } => Some(*id),
            FromClient::Response { id, response } => (*response == Response::Accept).then_some(*id),
        };
        let mut capability = None;
        if let (Some(id), Some(asked)) = (id, &mut application.asked) {
            capability = asked.capability;
            if asked.id == Some(id) {
                self.service.seen.asked_again(asked);
            } else {
                asked.id = Some(id);
                application.counts.requests += u64::from(asked.request.is_some());
                let changes = matches!(asked.request, Some(Request::Modify { .. }));
                self.service
                    .seen
                    .add("offer", "taken", asked.takes_offer.into());
                if changes && !application.sends {
                    let connection = application.connection;
                    self.is_disturbed(connection, self.now);
                }
            }
        }
        self.post(host, to_server(client), Parcel::Said(message, capability));
    }

    /// It does not write and read any more.
    pub(super) fn stops_using(&mut self, n: usize) {
        let application = &self.service.applications[n];
        let key = (application.host, application.connection);
        if self.service.holders.get(&key) != Some(&n) {
            return;
        }
        self.service.holders.remove(&key);
        let faults = self.hosts[key.0].abandon(key.1);
        if faults > 0 {
            let name = &self.service.applications[n].spec.name;
            let text = format!("application {name}: {faults} descriptors that cannot be");
            self.violate(Violation::new("I19", self.now, text));
        }
        self.is_disturbed(key.1, self.now);
    }

    /// It has no connection any more.
    pub(super) fn lets_go(&mut self, n: usize) {
        let now = self.time_at(self.service.applications[n].host);
        let let_go = self.service.applications[n].lets_go(now);
        self.is_paced(n, let_go);
    }

    /// I14: what was found wrong with an application's pace.
    fn is_paced(&mut self, n: usize, paced: Result<(), String>) {
        if let Err(text) = paced {
            let text = format!(
                "application {}: {text}",
                self.service.applications[n].spec.name
            );
            self.violate(Violation::new("I14", self.now, text));
        }
    }

    fn application_dies(&mut self, n: usize) {
        self.stops_using(n);
        self.lets_go(n);
        let application = &mut self.service.applications[n];
        application.later.clear();
        let (host, client) = (application.host, application.client);
        application.forgets();
        application.program = application::Application::new(0);
        if let Some(client) = client {
            self.post(host, to_server(client), Parcel::HangUp);
        }
    }

    /// Whoever has the connection hands its descriptor on, and uses it no more.
    fn hands_on(&mut self, n: usize) -> Option<VcId> {
        let application = &self.service.applications[n];
        let key = (application.host, application.connection);
        let before = *self.service.holders.get(&key)?;
        self.stops_using(before);
        let held = self.service.applications[before].held.as_mut()?;
        held.in_use = false;
        Some(held.vc)
    }

    /// An application's socket is closed at the other end.
    pub(super) fn application_is_hung_up(&mut self, host: usize, client: ClientId) {
        let Some(n) = self.application_at(host, client) else {
            return;
        };
        self.stops_using(n);
        self.lets_go(n);
        self.service.applications[n].program.hung_up();
        self.carries_out(n);
        self.service.applications[n].forgets();
        self.goes_on(n);
    }

    fn application_at(&self, host: usize, client: ClientId) -> Option<usize> {
        let mut all = self.service.applications.iter();
        all.position(|one| one.host == host && one.client == Some(client))
    }

    /// An application hears something.
    pub(super) fn application_hears(
        &mut self,
        host: usize,
        client: ClientId,
        message: FromServer,
        came: Came,
    ) {
        let Some(n) = self.application_at(host, client) else {
            return;
        };
        self.service.seen.told(&message);
        let now = self.time_at(host);
        let application = &mut self.service.applications[n];
        if let FromServer::Confirm { id, .. } = &message
            && application.asked.as_ref().and_then(|asked| asked.id) != Some(*id)
        {
            // It was sent twice, and confirmed before.
            self.service.seen.note("asked_again", "confirmed_twice");
        }
        application.program.handle(now, message, came);
        self.carries_out(n);
        while let Some(indication) = self.service.applications[n].program.next_indication() {
            self.is_indicated(n, indication);
        }
    }

    fn is_answered(&mut self, n: usize, result: Result<Confirm, Failure>) {
        let application = &mut self.service.applications[n];
        let Some(asked) = application.asked.take() else {
            return;
        };
        let (counts, seen) = (&mut application.counts, &mut self.service.seen);
        match result {
            Ok(confirm) => {
                counts.confirmed += 1;
                seen.confirmed(&asked);
                self.is_confirmed(n, confirm);
            }
            Err(Failure::Refused(refused)) => {
                counts.refused += 1;
                seen.refused(&asked, &refused);
                self.is_refused(n, &asked, refused);
            }
            Err(Failure::TimedOut | Failure::Ended(_)) => {}
            Err(Failure::Senseless(text)) => {
                let name = &application.spec.name;
                let text = format!("application {name}: {text}");
                self.violate(Violation::new("I19", self.now, text));
            }
        }
        self.goes_on(n);
    }

    fn is_confirmed(&mut self, n: usize, confirm: Confirm) {
        match confirm {
            Confirm::Modified {
                opened,
                memory: false,
            } => {
                let application = &mut self.service.applications[n];
                // None: it was closed in the meantime.
                let Some(held) = &mut application.held else {
                    return;
                };
                if !held.in_use {
                    // It was handed on, and is not another's yet.
                    held.vc = opened.vc;
                    return;
                }
                let (host, connection) = (application.host, application.connection);
                if !application.sends {
                    self.is_disturbed(connection, self.now);
                }
                let now = self.time_at(host);
                let renewed = self.service.applications[n].renews(now, &opened);
                self.is_paced(n, renewed);
            }
            Confirm::Closed { .. } => {
                self.stops_using(n);
                self.lets_go(n);
            }
            _ => {}
        }
    }

    /// The connection has this memory from now on.
    fn has_memory(&mut self, n: usize, opened: &Opened, came: Came, cause: Cause) {
        let application = &mut self.service.applications[n];
        match (cause, &mut application.held) {
            (Cause::Opened, _) => {
                let Some(asked) = application.asked.clone() else {
                    return;
                };
                application.is_paced = false;
                self.lets_go(n);
                self.is_what_was_asked(n, &asked, opened);
                let is_used = !matches!(asked.request, Some(Request::Open(_)));
                self.uses(n, opened, came, is_used);
                let is_paced = opened.transmit_credit.is_some();
                self.service.applications[n].is_paced = is_paced;
            }
            (Cause::Reopened, _) => {
                self.uses(n, opened, came, false);
                self.goes_on(n);
            }
            // It was closed in the meantime.
            (Cause::Modified, None) => {}
            // It was handed on, and is not another's yet.
            (Cause::Modified, Some(held)) if !held.in_use => held.vc = opened.vc,
            (Cause::Modified, Some(_)) => self.uses(n, opened, came, false),
        }
    }

    /// A connection is there, or has other memory: it is used from now on.
    fn uses(&mut self, n: usize, opened: &Opened, came: Came, used: bool) {
        let application = &self.service.applications[n];
        let (host, connection, sends) =
            (application.host, application.connection, application.sends);
        let Some(enclosure) = came.0 else { return };
        let Some(served) = self.service.hosts.get(&host) else {
            return;
        };
        if enclosure.adapter_life != served.adapter_life {
            // The adapter has died since; of the next it will be told.
            return;
        }
        self.is_fresh(n, opened, enclosure.vc);
        self.catch_up(host);
        self.after_step(host);
        // What the memory before still holds comes first.
        let before = self.hosts[host].by_connection.get(&connection).copied();
        if let (Some(vc), false) = (before, sends) {
            self.read(host, vc);
        }
        let is_change = before.is_some();
        if is_change {
            self.replaces(n);
        }
        let end = End {
            connection,
            client: enclosure.client,
            vc: enclosure.vc,
            request: enclosure.request,
            memory: enclosure.files.memory,
            handles: enclosure.files.handles,
            used,
        };
        self.hosts[host].adopt(&end);
        self.service.holders.insert((host, connection), n);
        let now = self.time_at(host);
        if sends
            && !is_change
            && let Some(promise) = self.service.promises.get_mut(&connection)
        {
            promise.is_sent_anew();
        }
        if !sends {
            self.is_disturbed(connection, self.now);
            if let Some(promise) = self
                .service
                .promises
                .get_mut(&connection)
                .filter(|_| !used && !is_change)
            {
                promise.begins_anew(self.now);
            }
        }
        let holds = match is_change {
            true => self.service.applications[n].renews(now, opened),
            false => {
                self.is_disturbed(connection, self.now);
                self.service.applications[n].holds(now, opened)
            }
        };
        let served = self.service.hosts.get(&host);
        let kept = served.and_then(|served| served.process.vcs.get(&end.vc));
        let mapped = kept.map(|kept| (enclosure.adapter_life, kept.record.demand.memory));
        self.service.applications[n].mapped = mapped;
        self.is_paced(n, holds);
        if !sends {
            self.read(host, end.vc);
        }
    }

    /// Its memory is given up for other memory.
    fn replaces(&mut self, n: usize) {
        let application = &self.service.applications[n];
        let (host, connection) = (application.host, application.connection);
        let faults = self.hosts[host].abandon(connection);
        if faults > 0 {
            let name = &application.spec.name;
            let text = format!("application {name}: {faults} descriptors that cannot be");
            self.violate(Violation::new("I19", self.now, text));
        }
    }

    fn is_refused(&mut self, n: usize, asked: &Asked, refused: Refused) {
        let application = &self.service.applications[n];
        let Refused::Admission(Shortage {
            offer: Some(offer), ..
        }) = refused
        else {
            return;
        };
        if !application.spec.accepts || asked.takes_offer {
            return;
        }
        match &asked.request {
            Some(Request::Open(open)) => {
                let open = Open {
                    contract: offer,
                    ..open.clone()
                };
                let asked = Asked {
                    takes_offer: true,
                    ..Asked::new(Some(Request::Open(open.clone())))
                };
                let request = Request::Open(open);
                self.begins(n, asked, |program, now| program.ask(now, request));
            }
            Some(Request::Modify { .. }) if application.held.is_some() => {
                self.modify(n, offer, true);
            }
            _ => {}
        }
    }

    fn is_indicated(&mut self, n: usize, indication: Indication) {
        match indication {
            Indication::Ended(_) => {
                self.stops_using(n);
                self.lets_go(n);
                self.goes_on(n);
            }
            Indication::Share {
                transmit,
                transmit_credit,
                receive,
            } => {
                let share = [transmit, receive];
                let before = std::mem::replace(&mut self.service.applications[n].share, share);
                self.service.seen.share(before, share);
                let now = self.time_at(self.service.applications[n].host);
                let paced = self.service.applications[n].paces(now, transmit_credit);
                self.is_paced(n, paced);
            }
            Indication::CanGrow { .. } => {
                let application = &self.service.applications[n];
                let accepts = application.spec.accepts;
                if accepts && application.held.is_some() && !application.program.is_asking() {
                    self.service.seen.note("growth", "accepted");
                    self.begins(n, Asked::new(None), |program, now| {
                        program.accept_offer(now);
                    });
                    self.flush(n);
                } else {
                    self.service.seen.note("growth", "declined");
                    self.service.applications[n].program.decline_offer();
                    self.carries_out(n);
                }
            }
            _ => {}
        }
    }

    /// Whether the SDU that is due at a source may be handed over.
    pub(in crate::world) fn gate(&mut self, source: usize) -> Gate {
        if self.service.is_empty() {
            return Gate::Open;
        }
        let from = &self.sources[source];
        let (connection, number) = (from.connection, from.begun);
        let len = from.sdu_len(number);
        let host = self.connections[connection as usize].from;
        if !self.service.serves(host, connection) {
            return Gate::Open;
        }
        let Some(&n) = self.service.holders.get(&(host, connection)) else {
            return Gate::Shut;
        };
        if !self.hosts[host].has_room(connection, len) {
            return Gate::Shut;
        }
        let early = self.service.early.remove(&source);
        let trusted = early.filter(|_| self.service.has(super::ServerBug::EarlyWakeTrusted));
        let now = self.hosts[host].time(trusted.unwrap_or(self.now));
        let gate = self.service.applications[n].gate(now, len);
        match gate {
            Gate::SuspendedUntil(_) if self.service.has(super::ServerBug::CreditIgnored) => {
                Gate::Open
            }
            gate => gate,
        }
    }

    /// A source is woken that would have waited for credit until then.
    pub(in crate::world) fn writer_wakes_early(&mut self, source: usize, until: Ps) {
        self.service.early.insert(source, until);
    }

    /// An SDU of a source was handed over.
    pub(in crate::world) fn has_sent(&mut self, source: usize, number: u64) {
        let connection = self.sources[source].connection;
        let host = self.connections[connection as usize].from;
        let len = self.sources[source].sdu_len(number);
        let Some(&n) = self.service.holders.get(&(host, connection)) else {
            return;
        };
        let now = self.time_at(host);
        self.service.applications[n].sent(now, len);
        let leaves = self.service.applications[n].leaves(self.now, len);
        let standing = self.standing_of(n, len);
        let Some(promise) = self.service.promises.get_mut(&connection) else {
            return;
        };
        promise.is_handed_over(self.now);
        match standing {
            Standing::Promised { timely, policed } => {
                let leaves = timely.then_some(leaves);
                promise.makes(self.now, number, leaves, policed);
            }
            Standing::Exceeds => promise.is_exceeded_by_sender(self.now),
            Standing::Unpromised => {}
        }
    }

    /// Whether both ends of a connection were admitted, and the one lets pass what the other sends.
    fn standing_of(&self, sender: usize, len: u16) -> Standing {
        let sender = &self.service.applications[sender];
        let to = self.connections[sender.connection as usize].to;
        let reader = self.service.holders.get(&(to, sender.connection));
        let reader = reader.map(|n| &self.service.applications[*n]);
        let Some((reader, max_sdu)) = reader.and_then(|one| Some((one, one.max_sdu()?))) else {
            return match sender.guaranteed() {
                Some(_) => Standing::Unpromised,
                None => Standing::Exceeds,
            };
        };
        let passes = match (sender.most(), reader.most()) {
            (_, None) => true,
            (Some(rate), Some(bound)) => rate <= bound,
            (None, Some(_)) => false,
        };
        match reader.program.is_changing() {
            _ if !passes || len > max_sdu => Standing::Exceeds,
            true => Standing::Unpromised,
            false => Standing::Promised {
                timely: sender.guaranteed().is_some() && reader.guaranteed().is_some(),
                policed: reader.most().is_some(),
            },
        }
    }

    /// Something happens to a connection that can cost PDUs, until `until`.
    pub(super) fn is_disturbed(&mut self, connection: u32, until: Ps) {
        if let Some(promise) = self.service.promises.get_mut(&connection) {
            promise.is_broken(until);
        }
    }

    /// An adapter stands still: what it sends comes late, what it receives is covered for a while.
    pub(in crate::world) fn adapter_is_stalled(&mut self, host: usize, span: Ps, is_covered: bool) {
        let until = self.now.plus(span);
        if let Some(served) = self.service.hosts.get_mut(&host) {
            served.stood_still(span);
        }
        for (connection, promise) in &mut self.service.promises {
            let at = &self.connections[*connection as usize];
            if at.from == host || at.to == host && !is_covered {
                promise.is_broken(until);
            }
            if at.to == host && !is_covered {
                // Who sends at the whole rate pays for what came late in one of its next PDUs,
                // whenever that is.
                promise.is_exceeded();
            }
        }
    }

    /// The same for all connections that begin or end at a host.
    pub(in crate::world) fn host_is_disturbed(&mut self, host: usize, until: Ps) {
        for (connection, promise) in &mut self.service.promises {
            let at = &self.connections[*connection as usize];
            if at.from == host || at.to == host {
                promise.is_broken(until);
            }
        }
    }

    /// Nobody at a host is interrupted until then: what comes is not read.
    pub(in crate::world) fn host_is_deaf(&mut self, host: usize, until: Ps) {
        for (connection, promise) in &mut self.service.promises {
            if self.connections[*connection as usize].to == host {
                promise.is_broken(until);
            }
        }
    }

    /// A host's clock has gone forward: what its shapers held back they send at once, as if they
    /// had just begun. What that takes of a tolerance stays taken while the sender sends at its
    /// full rate.
    pub(in crate::world) fn clock_has_stepped(&mut self, host: usize) {
        if let Some(served) = self.service.hosts.get_mut(&host) {
            served.killers.are_forgotten();
            served.again.is_excused = true;
        }
        for (connection, promise) in &mut self.service.promises {
            if self.connections[*connection as usize].from == host {
                promise.is_broken(self.now);
                promise.is_sent_anew();
            }
        }
    }
}
