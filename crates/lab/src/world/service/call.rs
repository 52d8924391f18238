//! What applications ask, hear, and hand over.

use cellgate_core::adapter::VcId;
use cellgate_core::contract::{TrafficContract, TrafficDescriptor};
use cellgate_core::server::{
    ClientId, Confirm, FromClient, FromServer, Indication, Open, Opened, Refused, Request,
    Response, Shortage, VERSION,
};

use super::ServiceEvent;
use super::application::{Flush, Gate, Waiting};
use super::daemon::{Enclosure, Parcel, to_server};
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
        if self.service.applications[n].is_busy() {
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
                return self.flush_first(n, Flush::Modify(one_way(&text, sends)));
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
        if application.is_busy() {
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
        application.lives += 1;
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
        let application = &mut self.service.applications[n];
        let (Some(client), host) = (application.client, application.host) else {
            return;
        };
        let id = application.number();
        application.waiting.push_back(Waiting {
            id,
            request: Some(request.clone()),
            capability,
            takes_offer: false,
        });
        let said = Parcel::Said(FromClient::Request { id, request }, capability);
        self.post(host, to_server(client), said);
    }

    /// Asks as soon as everything has been sent: nothing more is until it is confirmed.
    fn flush_first(&mut self, n: usize, flush: Flush) {
        self.service.applications[n].flushing = Some(flush);
        self.flush(n);
    }

    pub(super) fn flush(&mut self, n: usize) {
        let application = &self.service.applications[n];
        let (host, connection) = (application.host, application.connection);
        let Some(flush) = application.flushing.clone() else {
            return;
        };
        let holds = self.service.holders.get(&(host, connection)) == Some(&n);
        if holds && application.sends && !self.hosts[host].has_sent_all(connection) {
            let event = ServiceEvent::Flush(n as u32);
            return self.queue.push(self.now.plus(RETRY), Event::Service(event));
        }
        self.service.applications[n].flushing = None;
        let held = self.service.applications[n].held.as_ref();
        if held.is_some_and(|held| !held.in_use) {
            // It has handed its descriptor on and does not know what is still to be sent.
            return self.goes_on(n);
        }
        match flush {
            Flush::Modify(ref contract) | Flush::Take(ref contract) => {
                let contract = contract.clone();
                let receives = !self.service.applications[n].sends;
                if receives {
                    self.is_disturbed(connection, self.now);
                }
                self.request(n, Request::Modify { contract }, None);
                if let Flush::Take(_) = flush {
                    self.takes_offer(n);
                }
            }
            Flush::Accept(id) => self.respond(n, id, Response::Accept),
        }
    }

    fn respond(&mut self, n: usize, id: u64, response: Response) {
        let application = &mut self.service.applications[n];
        let (Some(client), host) = (application.client, application.host) else {
            return;
        };
        if response == Response::Accept {
            application.waiting.push_back(Waiting {
                id,
                request: None,
                capability: None,
                takes_offer: false,
            });
        }
        let said = Parcel::Said(FromClient::Response { id, response }, None);
        self.post(host, to_server(client), said);
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
        application.waiting.clear();
        application.later.clear();
        application.flushing = None;
        let host = application.host;
        if let Some(client) = application.client.take() {
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
        let application = &mut self.service.applications[n];
        application.client = None;
        application.waiting.clear();
        application.flushing = None;
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
        enclosure: Option<Box<Enclosure>>,
    ) {
        let Some(n) = self.application_at(host, client) else {
            return;
        };
        self.service.seen.told(&message);
        match message {
            FromServer::Confirm { id, result } => {
                let Some(waiting) = self.service.applications[n].ended(id) else {
                    // It was sent twice, and confirmed before.
                    return self.service.seen.note("asked_again", "confirmed_twice");
                };
                let counts = &mut self.service.applications[n].counts;
                let seen = &mut self.service.seen;
                match &result {
                    Ok(_) => {
                        counts.confirmed += 1;
                        seen.confirmed(&waiting);
                    }
                    Err(refused) => {
                        counts.refused += 1;
                        seen.refused(&waiting, refused);
                    }
                }
                match result {
                    Ok(confirm) => self.is_confirmed(n, &waiting, confirm, enclosure),
                    Err(refused) => self.is_refused(n, &waiting, refused),
                }
                self.goes_on(n);
            }
            FromServer::Indication { id, indication } => {
                self.is_indicated(n, id, indication, enclosure);
            }
        }
    }

    fn is_confirmed(
        &mut self,
        n: usize,
        waiting: &Waiting,
        confirm: Confirm,
        enclosure: Option<Box<Enclosure>>,
    ) {
        match confirm {
            Confirm::Opened(opened) => {
                self.is_what_was_asked(n, waiting, &opened);
                let used = !matches!(waiting.request, Some(Request::Open(_)));
                // A server that was asked again can have told that it opened this again before.
                if used || !self.has_memory(n, enclosure.as_deref()) {
                    self.uses(n, &opened, enclosure, used);
                }
            }
            Confirm::Modified { opened, memory } => {
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
                if memory {
                    return self.uses(n, &opened, enclosure, false);
                }
                let (host, connection) = (application.host, application.connection);
                if !application.sends {
                    self.is_disturbed(connection, self.now);
                }
                let now = self.time_at(host);
                let renewed = self.service.applications[n].renews(now, &opened, None);
                self.is_paced(n, renewed);
            }
            Confirm::Closed { .. } => {
                self.stops_using(n);
                self.lets_go(n);
            }
            _ => {}
        }
    }

    /// A connection is there, or has other memory: it is used from now on.
    fn uses(&mut self, n: usize, opened: &Opened, enclosure: Option<Box<Enclosure>>, used: bool) {
        let application = &self.service.applications[n];
        let (host, connection, sends) =
            (application.host, application.connection, application.sends);
        let Some(enclosure) = enclosure else { return };
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
            true => self.service.applications[n].renews(now, opened, Some(end.memory)),
            false => {
                self.is_disturbed(connection, self.now);
                self.service.applications[n].holds(now, opened, end.memory)
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

    fn is_refused(&mut self, n: usize, waiting: &Waiting, refused: Refused) {
        let application = &self.service.applications[n];
        let Refused::Admission(Shortage {
            offer: Some(offer), ..
        }) = refused
        else {
            return;
        };
        if !application.spec.accepts || waiting.takes_offer {
            return;
        }
        match &waiting.request {
            Some(Request::Open(open)) => {
                let open = Open {
                    contract: offer,
                    ..open.clone()
                };
                self.request(n, Request::Open(open), None);
                self.takes_offer(n);
            }
            Some(Request::Modify { .. }) if application.held.is_some() => {
                self.flush_first(n, Flush::Take(offer));
            }
            _ => {}
        }
    }

    /// The Request that was sent last is what a refusal has offered.
    fn takes_offer(&mut self, n: usize) {
        self.service.seen.note("offer", "taken");
        if let Some(waiting) = self.service.applications[n].waiting.back_mut() {
            waiting.takes_offer = true;
        }
    }

    /// Whether an application has the memory that comes along.
    fn has_memory(&self, n: usize, enclosure: Option<&Enclosure>) -> bool {
        let held = self.service.applications[n].held.as_ref();
        let came = enclosure.map(|enclosure| enclosure.files.memory);
        came.is_some() && held.map(|held| held.memory) == came
    }

    fn is_indicated(
        &mut self,
        n: usize,
        id: u64,
        indication: Indication,
        enclosure: Option<Box<Enclosure>>,
    ) {
        match indication {
            Indication::Ended(_) => {
                self.stops_using(n);
                self.lets_go(n);
                self.service.applications[n].flushing = None;
                self.goes_on(n);
            }
            // A new server cannot know whether the one before it has told this already.
            Indication::Reopened(_) if self.has_memory(n, enclosure.as_deref()) => {}
            Indication::Reopened(_) if self.service.applications[n].is_closing() => {}
            Indication::Reopened(opened) => {
                self.uses(n, &opened, enclosure, false);
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
                if accepts && application.held.is_some() && !application.is_busy() {
                    self.service.seen.note("growth", "accepted");
                    self.flush_first(n, Flush::Accept(id));
                } else {
                    self.service.seen.note("growth", "declined");
                    self.respond(n, id, Response::Decline);
                }
            }
            Indication::Restarted => self.asks_again(n, id),
            _ => {}
        }
    }

    /// There is a new server: what was not confirmed is asked once more.
    fn asks_again(&mut self, n: usize, id: u64) {
        self.respond(n, id, Response::Heard);
        let application = &self.service.applications[n];
        let (Some(client), host) = (application.client, application.host) else {
            return;
        };
        for waiting in application.waiting.clone() {
            self.service.seen.asked_again(&waiting);
            let id = waiting.id;
            let message = match waiting.request {
                Some(request) => FromClient::Request { id, request },
                None => FromClient::Response {
                    id,
                    response: Response::Accept,
                },
            };
            let said = Parcel::Said(message, waiting.capability);
            self.post(host, to_server(client), said);
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
        let Some((reader, held)) = reader.and_then(|one| Some((one, one.held.as_ref()?))) else {
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
        match reader.is_changing() {
            _ if !passes || len > held.max_sdu => Standing::Exceeds,
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
