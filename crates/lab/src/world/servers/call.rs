//! What applications ask, hear, and hand over.

use cellgate_core::Time;
use cellgate_core::adapter::{Marks, VcId};
use cellgate_core::application::{self, Cause, Failure, Output};
use cellgate_core::contract::{TrafficContract, TrafficDescriptor};
use cellgate_core::server::{
    ClientId, Confirm, FromClient, FromServer, Indication, Open, Opened, Refused, Request,
    Response, Shortage, VERSION,
};

use super::application::{Asked, Came, Gate};
use super::daemon::{Parcel, to_server};
use super::scenario::Call;
use super::setup::address_at;
use super::{ServerBug, ServerTurn};
use crate::world::Ps;
use crate::world::host::{End, Host};
use crate::world::log::Fact;
use crate::world::net::Net;
use crate::world::oracle::is_what_was_asked;
use crate::world::source::Source;

/// From one try of an application to connect, or to see that everything has been sent, to the next.
const RETRY: Ps = Ps::from_ns(200_000);
/// From a connection to the first Request.
pub(super) const HELLO: Ps = Ps::from_ns(2_000_000);

/// By how much cells can come closer together on their way: a queue of 256 cells takes 0.73 ms.
const SWITCHES_NS: u64 = 1_000_000;

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

impl Host {
    /// A call of an application is due.
    pub(super) fn call(&mut self, n: usize, at: usize, net: &mut Net) {
        let call = self.applications[n].spec.calls[at].call.clone();
        if call == Call::Crash {
            return self.application_dies(n, net);
        }
        if self.applications[n].program.is_asking() {
            return self.applications[n].later.push_back(at);
        }
        let is_connected = self.applications[n].client.is_some();
        let served = self.served.as_ref();
        let is_there = served.is_some_and(|served| served.server.is_some());
        if !is_connected && !is_there {
            let event = ServerTurn::Call(n as u32, at as u32);
            return self.turn_at(net.now.plus(RETRY), event, net);
        }
        if !is_connected {
            let greets = call != Call::Mute;
            if greets {
                self.applications[n].later.push_front(at);
            }
            return self.connect(n, greets, net);
        }
        let application = &self.applications[n];
        let (port, sends) = (application.port, application.sends);
        let connection = application.connection as usize;
        let address = address_at(port, application.address);
        let notification = application.notification;
        let own = net.plan.connections[connection].contract.to_string();
        let open = |text: &str| Open {
            marks: Marks::None,
            address: address.clone(),
            contract: one_way(text, sends),
            notification: Some(notification),
            transmit_pdus: None,
            receive_pdus: Some(4),
            queue_threshold: None,
            completions: false,
            receive_into: None,
        };
        let mut capability = None;
        let request = match call {
            Call::Open => Request::Open(open(&own)),
            Call::OpenWith(text) => Request::Open(open(&text)),
            Call::Modify(text) => {
                return self.asks_to_modify(n, one_way(&text, sends), false, net);
            }
            Call::Close => {
                self.stops_using(n, net);
                self.lets_go(n, net);
                Request::Close
            }
            Call::Lend { pdus, for_ns } => Request::Lease {
                pdus,
                expires_in_ns: for_ns,
            },
            Call::Add => Request::Add(open(&own)),
            Call::Take => Request::Take { address },
            Call::Reattach => {
                capability = self.hands_on(n, net);
                Request::Reattach { address }
            }
            Call::Delete => Request::Delete { address },
            Call::Crash | Call::Mute => return self.goes_on(n, net),
        };
        self.request(n, request, capability, net);
    }

    /// The next call, if none is under way: a program waits for each Confirm.
    fn goes_on(&mut self, n: usize, net: &mut Net) {
        let application = &mut self.applications[n];
        if application.program.is_asking() {
            return;
        }
        if let Some(next) = application.later.pop_front() {
            self.call(n, next, net);
        }
    }

    /// Connects, and says hello or nothing.
    fn connect(&mut self, n: usize, greets: bool, net: &mut Net) {
        let application = &mut self.applications[n];
        application.is_run();
        application.is_mute = !greets;
        let Some(served) = &mut self.served else {
            return;
        };
        served.last_client += 1;
        let client = ClientId(served.last_client);
        served.clients.insert(client, n);
        self.applications[n].client = Some(client);
        self.post(to_server(client), Parcel::Connect, net);
        if greets {
            return self.request(n, Request::Hello { version: VERSION }, None, net);
        }
        self.goes_on(n, net);
    }

    pub(super) fn request(
        &mut self,
        n: usize,
        request: Request,
        capability: Option<VcId>,
        net: &mut Net,
    ) {
        let asked = Asked {
            capability,
            ..Asked::new(Some(request.clone()))
        };
        self.begins_to_ask(net, n, asked, |program, now| program.ask(now, request));
    }

    /// Changes the contract as soon as everything has been sent.
    fn asks_to_modify(&mut self, n: usize, contract: String, takes_offer: bool, net: &mut Net) {
        let held = self.applications[n].held.as_ref();
        if held.is_some_and(|held| !held.in_use) {
            // It has handed its descriptor on and does not know what is still to be sent.
            return self.goes_on(n, net);
        }
        let request = Request::Modify {
            contract: contract.clone(),
        };
        let asked = Asked {
            takes_offer,
            ..Asked::new(Some(request))
        };
        self.begins_to_ask(net, n, asked, |program, now| program.modify(now, contract));
        self.flush(n, net);
    }

    /// The program begins to ask for something.
    fn begins_to_ask(
        &mut self,
        net: &mut Net,
        n: usize,
        asked: Asked,
        ask: impl FnOnce(&mut application::Application<Came>, Time),
    ) {
        let application = &mut self.applications[n];
        if application.client.is_none() {
            return;
        }
        application.asked = Some(asked);
        let now = self.time(net.now);
        ask(&mut self.applications[n].program, now);
        self.carries_out(n, net);
    }

    /// Whether everything has been sent, for a program that waits for that.
    pub(super) fn flush(&mut self, n: usize, net: &mut Net) {
        let application = &self.applications[n];
        let connection = application.connection;
        if !application.program.is_changing() {
            return;
        }
        let holds = self.holders.get(&connection) == Some(&n);
        if holds && application.sends && !self.has_sent_all(connection) {
            let event = ServerTurn::Flush(n as u32);
            return self.turn_at(net.now.plus(RETRY), event, net);
        }
        let now = self.time(net.now);
        self.applications[n].program.has_sent_all(now);
        self.carries_out(n, net);
    }

    /// The process does what its program wants.
    fn carries_out(&mut self, n: usize, net: &mut Net) {
        while let Some(output) = self.applications[n].program.poll() {
            match output {
                Output::Say(message) => self.says(n, message, net),
                Output::Memory {
                    opened,
                    came,
                    cause,
                } => self.has_memory(n, &opened, came, cause, net),
                Output::Answer(answer) => self.is_answered(n, answer.result, net),
                Output::Senseless(text) => {
                    let name = &self.applications[n].spec.name;
                    let text = format!("application {name}: {text}");
                    net.violate("I19", text);
                }
            }
        }
    }

    fn says(&mut self, n: usize, message: FromClient, net: &mut Net) {
        let application = &mut self.applications[n];
        let Some(client) = application.client else {
            return;
        };
        let id = match &message {
            FromClient::Request { id, .. } => Some(*id),
            FromClient::Response { id, response, .. } => {
                (*response == Response::Accept).then_some(*id)
            }
        };
        let mut capability = None;
        if let (Some(id), Some(asked)) = (id, &mut application.asked) {
            capability = asked.capability;
            if asked.id == Some(id) {
                net.log.seen.asked_again(asked);
            } else {
                asked.id = Some(id);
                application.counts.requests += u64::from(asked.request.is_some());
                let changes = matches!(asked.request, Some(Request::Modify { .. }));
                net.log.seen.add("offer", "taken", asked.takes_offer.into());
                if changes && !application.sends {
                    let connection = application.connection;
                    self.disturbs(connection, net.now, net);
                }
            }
        }
        self.post(to_server(client), Parcel::Said(message, capability), net);
    }

    /// It does not write and read any more.
    pub(super) fn stops_using(&mut self, n: usize, net: &mut Net) {
        let application = &self.applications[n];
        let connection = application.connection;
        if self.holders.get(&connection) != Some(&n) {
            return;
        }
        self.holders.remove(&connection);
        let faults = self.abandon(connection);
        if faults > 0 {
            let name = &self.applications[n].spec.name;
            let text = format!("application {name}: {faults} descriptors that cannot be");
            net.violate("I19", text);
        }
        self.disturbs(connection, net.now, net);
    }

    /// It has no connection any more.
    pub(super) fn lets_go(&mut self, n: usize, net: &mut Net) {
        let now = self.time(net.now);
        let let_go = self.applications[n].lets_go(now);
        self.is_paced(n, let_go, net);
    }

    /// I14: what was found wrong with an application's pace.
    fn is_paced(&mut self, n: usize, paced: Result<(), String>, net: &mut Net) {
        if let Err(text) = paced {
            let text = format!("application {}: {text}", self.applications[n].spec.name);
            net.violate("I14", text);
        }
    }

    fn application_dies(&mut self, n: usize, net: &mut Net) {
        self.stops_using(n, net);
        self.lets_go(n, net);
        let application = &mut self.applications[n];
        application.later.clear();
        let client = application.client;
        application.forgets();
        application.program = application::Application::new(0);
        if let Some(client) = client {
            self.post(to_server(client), Parcel::HangUp, net);
        }
    }

    /// Whoever has the connection hands its descriptor on, and uses it no more.
    fn hands_on(&mut self, n: usize, net: &mut Net) -> Option<VcId> {
        let application = &self.applications[n];
        let before = *self.holders.get(&application.connection)?;
        self.stops_using(before, net);
        let held = self.applications[before].held.as_mut()?;
        held.in_use = false;
        Some(held.vc)
    }

    /// An application's socket is closed at the other end.
    pub(super) fn application_is_hung_up(&mut self, client: ClientId, net: &mut Net) {
        let Some(n) = self.application_at(client) else {
            return;
        };
        self.stops_using(n, net);
        self.lets_go(n, net);
        self.applications[n].program.hung_up();
        self.carries_out(n, net);
        self.applications[n].forgets();
        self.goes_on(n, net);
    }

    fn application_at(&self, client: ClientId) -> Option<usize> {
        let mut all = self.applications.iter();
        all.position(|one| one.client == Some(client))
    }

    /// An application hears something.
    pub(super) fn application_hears(
        &mut self,
        client: ClientId,
        message: FromServer,
        came: Came,
        net: &mut Net,
    ) {
        let Some(n) = self.application_at(client) else {
            return;
        };
        net.log.seen.told(&message);
        let now = self.time(net.now);
        let application = &mut self.applications[n];
        if let FromServer::Confirm { id, .. } = &message
            && application.asked.as_ref().and_then(|asked| asked.id) != Some(*id)
        {
            // It was sent twice, and confirmed before.
            net.log.seen.note("asked_again", "confirmed_twice");
        }
        application.program.handle(now, message, came);
        self.carries_out(n, net);
        while let Some(indication) = self.applications[n].program.next_indication() {
            self.is_indicated(n, indication, net);
        }
    }

    fn is_answered(&mut self, n: usize, result: Result<Confirm, Failure>, net: &mut Net) {
        let application = &mut self.applications[n];
        let Some(asked) = application.asked.take() else {
            return;
        };
        let (counts, seen) = (&mut application.counts, &mut net.log.seen);
        match result {
            Ok(confirm) => {
                counts.confirmed += 1;
                seen.confirmed(&asked);
                self.is_confirmed(n, confirm, net);
            }
            Err(Failure::Refused(refused)) => {
                counts.refused += 1;
                seen.refused(&asked, &refused);
                self.is_refused(n, &asked, refused, net);
            }
            Err(Failure::TimedOut | Failure::Ended(_)) => {}
            Err(Failure::Senseless(text)) => {
                let name = &application.spec.name;
                let text = format!("application {name}: {text}");
                net.violate("I19", text);
            }
        }
        self.goes_on(n, net);
    }

    fn is_confirmed(&mut self, n: usize, confirm: Confirm, net: &mut Net) {
        match confirm {
            Confirm::Modified {
                opened,
                memory: false,
            } => {
                let application = &mut self.applications[n];
                // None: it was closed in the meantime.
                let Some(held) = &mut application.held else {
                    return;
                };
                if !held.in_use {
                    // It was handed on, and is not another's yet.
                    held.vc = opened.vc;
                    return;
                }
                let connection = application.connection;
                if !application.sends {
                    self.disturbs(connection, net.now, net);
                }
                let now = self.time(net.now);
                let renewed = self.applications[n].renews(now, &opened);
                self.is_paced(n, renewed, net);
            }
            Confirm::Closed { .. } => {
                self.stops_using(n, net);
                self.lets_go(n, net);
            }
            _ => {}
        }
    }

    /// The connection has this memory from now on.
    fn has_memory(&mut self, n: usize, opened: &Opened, came: Came, cause: Cause, net: &mut Net) {
        let application = &mut self.applications[n];
        match (cause, &mut application.held) {
            (Cause::Opened, _) => {
                let Some(asked) = application.asked.clone() else {
                    return;
                };
                application.is_paced = false;
                self.lets_go(n, net);
                if let Some(Request::Open(open)) = &asked.request {
                    self.is_judged(net, |_, _| is_what_was_asked(open, opened));
                }
                let is_used = !matches!(asked.request, Some(Request::Open(_)));
                self.uses(n, opened, came, is_used, net);
                let is_paced = opened.transmit_credit.is_some();
                self.applications[n].is_paced = is_paced;
            }
            (Cause::Reopened, _) => {
                self.uses(n, opened, came, false, net);
                self.goes_on(n, net);
            }
            // It was closed in the meantime.
            (Cause::Modified, None) => {}
            // It was handed on, and is not another's yet.
            (Cause::Modified, Some(held)) if !held.in_use => held.vc = opened.vc,
            (Cause::Modified, Some(_)) => self.uses(n, opened, came, false, net),
        }
    }

    /// A connection is there, or has other memory: it is used from now on.
    fn uses(&mut self, n: usize, opened: &Opened, came: Came, used: bool, net: &mut Net) {
        let application = &self.applications[n];
        let (connection, sends) = (application.connection, application.sends);
        let Some(enclosure) = came.0 else { return };
        let Some(served) = &self.served else {
            return;
        };
        if enclosure.adapter_life != served.adapter_life {
            // The adapter has died since; of the next it will be told.
            return;
        }
        if opened.vc != enclosure.vc {
            let (said, vc) = (opened.vc, enclosure.vc);
            self.breaks(
                "I19",
                &format!("it speaks of {said:?}, its files are of {vc:?}"),
                net,
            );
        }
        self.catch_up(net);
        self.after_step(net);
        // What the memory before still holds comes first.
        let before = self.by_connection.get(&connection).copied();
        if let (Some(vc), false) = (before, sends) {
            self.read(vc, net);
        }
        let is_change = before.is_some();
        if is_change {
            self.replaces(n, net);
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
        self.adopt(&end);
        self.holders.insert(connection, n);
        let now = self.time(net.now);
        if sends && !is_change {
            net.tell(Fact::SenderBegins { connection });
        }
        if !sends {
            self.disturbs(connection, net.now, net);
            if !used && !is_change {
                net.tell(Fact::ReaderBegins { connection });
            }
        }
        let holds = match is_change {
            true => self.applications[n].renews(now, opened),
            false => {
                self.disturbs(connection, net.now, net);
                self.applications[n].holds(now, opened)
            }
        };
        let served = self.served.as_ref();
        let kept = served.and_then(|served| served.process.vcs.get(&end.vc));
        let mapped = kept.map(|kept| (enclosure.adapter_life, kept.record.demand.memory));
        self.applications[n].mapped = mapped;
        self.is_paced(n, holds, net);
        if !sends {
            self.read(end.vc, net);
        }
    }

    /// Its memory is given up for other memory.
    fn replaces(&mut self, n: usize, net: &mut Net) {
        let connection = self.applications[n].connection;
        let faults = self.abandon(connection);
        if faults > 0 {
            let name = &self.applications[n].spec.name;
            let text = format!("application {name}: {faults} descriptors that cannot be");
            net.violate("I19", text);
        }
    }

    fn is_refused(&mut self, n: usize, asked: &Asked, refused: Refused, net: &mut Net) {
        let application = &self.applications[n];
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
                self.begins_to_ask(net, n, asked, |program, now| program.ask(now, request));
            }
            Some(Request::Modify { .. }) if application.held.is_some() => {
                self.asks_to_modify(n, offer, true, net);
            }
            _ => {}
        }
    }

    fn is_indicated(&mut self, n: usize, indication: Indication, net: &mut Net) {
        match indication {
            Indication::Ended(_) => {
                self.stops_using(n, net);
                self.lets_go(n, net);
                self.goes_on(n, net);
            }
            Indication::Share {
                transmit,
                transmit_credit,
                receive,
            } => {
                let share = [transmit, receive];
                let before = std::mem::replace(&mut self.applications[n].share, share);
                net.log.seen.share(before, share);
                let now = self.time(net.now);
                let paced = self.applications[n].paces(now, transmit_credit);
                self.is_paced(n, paced, net);
            }
            Indication::CanGrow { .. } => {
                let application = &self.applications[n];
                let accepts = application.spec.accepts;
                if accepts && application.held.is_some() && !application.program.is_asking() {
                    net.log.seen.note("growth", "accepted");
                    self.begins_to_ask(net, n, Asked::new(None), |program, now| {
                        program.accept_offer(now);
                    });
                    self.flush(n, net);
                } else {
                    net.log.seen.note("growth", "declined");
                    self.applications[n].program.decline_offer();
                    self.carries_out(n, net);
                }
            }
            _ => {}
        }
    }

    /// Whether the SDU that is due at a source may be handed over.
    pub(crate) fn gate(&mut self, n: u32, source: &Source, net: &Net) -> Gate {
        let connection = source.connection;
        if !self.serves(connection) {
            return Gate::Open;
        }
        let len = source.sdu_len(source.begun);
        let Some(&holder) = self.holders.get(&connection) else {
            return Gate::Shut;
        };
        if !self.has_room(connection, len) {
            return Gate::Shut;
        }
        let early = self.early.remove(&n);
        let trusted = early.filter(|_| net.has(ServerBug::EarlyWakeTrusted));
        let now = self.time(trusted.unwrap_or(net.now));
        match self.applications[holder].gate(now, len) {
            Gate::SuspendedUntil(_) if net.has(ServerBug::CreditIgnored) => Gate::Open,
            gate => gate,
        }
    }

    /// Whether an application uses a connection's end here.
    pub(crate) fn serves(&self, connection: u32) -> bool {
        let mut all = self.applications.iter();
        all.any(|one| one.connection == connection)
    }

    /// An SDU was handed over.
    pub(crate) fn has_sent(&mut self, connection: u32, pdu: u64, len: u16, net: &mut Net) {
        let Some(&n) = self.holders.get(&connection) else {
            return;
        };
        let now = self.time(net.now);
        let sender = &mut self.applications[n];
        sender.sent(now, len);
        let leaves = sender.leaves(net.now, len);
        if let Some(sender) = sender.terms() {
            net.tell(Fact::HandedOver {
                connection,
                pdu,
                len,
                sender,
                leaves,
            });
        }
    }

    /// Until then something can cost a connection PDUs.
    pub(super) fn disturbs(&mut self, connection: u32, until: Ps, net: &mut Net) {
        net.tell(Fact::Disturbed { connection, until });
    }
}
