//! Servers in a run: they are told and tell.

use cellgate_core::Time;
use cellgate_core::adapter::{Refusal, VcId};
use cellgate_core::keeper::{self, ControlError, GapReport};
use cellgate_core::server::{
    AdapterAnswer, AdapterAsk, AdapterIndex, AdapterRefusal, ClientId, Enclosed, FromClient,
    FromServer, Output as ServerOutput, Peer, Request, Ticket, VERSION,
};

use super::application::Came;
use super::daemon::{
    Asked, FROM_ADAPTER, OPERATOR, Parcel, Reader, Serving, client_of, reader_of, to_client,
};
use super::marks;
use super::memory::made_by;
use super::process::{Heard, Held, REOPENS, can_be_refused};
use super::sabotage::{is_lost, sabotage, sabotage_message};
use super::{ServerBug, ServiceEvent};
use crate::world::Ps;
use crate::world::run::{Event, World};

/// From one look of a server at its adapter to the next.
const LOOK: Ps = Ps::from_ns(4_000_000);

impl World {
    /// Puts the first events in.
    pub(in crate::world) fn begin_service(&mut self, duration_ns: u64) {
        let opened = self.opened;
        self.service.looks_until = opened.plus(Ps::from_ns(duration_ns));
        let mut events = Vec::new();
        for (host, served) in &self.service.hosts {
            let host = *host as u32;
            events.push((self.hosts_opened, ServiceEvent::Begins(host)));
            for crash in &served.spec.crashes {
                let at = opened.plus(Ps::from_ns(crash.at_ns));
                events.push((at, ServiceEvent::Dies(host)));
                let at = at.plus(Ps::from_ns(crash.for_ns));
                events.push((at, ServiceEvent::Begins(host)));
            }
        }
        for (n, application) in (0..).zip(&self.service.applications) {
            for (call, spec) in (0..).zip(&application.spec.calls) {
                let at = opened.plus(Ps::from_ns(spec.at_ns));
                events.push((at, ServiceEvent::Call(n, call)));
            }
        }
        for (at, event) in events {
            self.queue.push(at, Event::Service(event));
        }
        let hosts: Vec<usize> = self.service.hosts.keys().copied().collect();
        for host in hosts {
            self.next_look(host, opened);
        }
    }

    /// A server looks next when it has looked at `now`: an idle one keeps no more in the queue.
    fn next_look(&mut self, host: usize, now: Ps) {
        let at = now.plus(LOOK);
        if at < self.service.looks_until {
            let looks = ServiceEvent::Looks(host as u32);
            self.queue.push(at, Event::Service(looks));
        }
    }

    pub(in crate::world) fn service_event(&mut self, event: ServiceEvent) {
        match event {
            ServiceEvent::Dies(host) => self.server_dies(host as usize),
            ServiceEvent::Begins(host) | ServiceEvent::TakesUp(host) => {
                self.server_begins(host as usize);
            }
            ServiceEvent::Looks(host) => {
                self.next_look(host as usize, self.now);
                self.server_looks(host as usize);
            }
            ServiceEvent::Parcel(host, _, channel) => self.parcel(host as usize, channel),
            ServiceEvent::Call(application, call) => {
                self.call(application as usize, call as usize);
            }
            ServiceEvent::Flush(application) => self.flush(application as usize),
            ServiceEvent::Deadline(host) => self.deadline_comes(host as usize),
            ServiceEvent::Upkeep(host) => self.upkeep(host as usize),
            ServiceEvent::Strikes(host, life) => self.adapter_is_killed(host as usize, life),
            ServiceEvent::AdapterBegins(host) => self.adapter_begins(host as usize),
        }
    }

    /// Something is on its way.
    pub(super) fn post(&mut self, host: usize, channel: u32, parcel: Parcel) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let at = self.now.plus(Ps::from_ns(served.spec.control_ns));
        let rank = served.rank(channel);
        let to = served.channels.entry(channel).or_default();
        to.parcels.push_back(parcel);
        let event = ServiceEvent::Parcel(host as u32, rank, channel);
        self.queue.push(at, Event::Service(event));
    }

    /// The first on a channel has come.
    fn parcel(&mut self, host: usize, channel: u32) {
        let reader = reader_of(channel);
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let Some(to) = served.channels.get_mut(&channel) else {
            return;
        };
        match reader {
            // A program that is not run hears nothing yet.
            Reader::Application if self.now < self.host_stalls[host] => {
                let event = ServiceEvent::Parcel(host as u32, 0, channel);
                return self
                    .queue
                    .push(self.host_stalls[host], Event::Service(event));
            }
            Reader::Server if served.server.is_none() && channel != FROM_ADAPTER => {
                to.waiting += 1;
                return;
            }
            _ => {}
        }
        let Some(parcel) = to.parcels.pop_front() else {
            return;
        };
        self.hears(host, channel, parcel);
        self.note((host as u64) << 48 ^ u64::from(channel) << 8 ^ 2);
        self.audit_at_rest(host);
    }

    fn hears(&mut self, host: usize, channel: u32, parcel: Parcel) {
        match parcel {
            Parcel::Connect | Parcel::Said(..) | Parcel::HangUp => {
                self.server_hears(host, client_of(channel), parcel);
            }
            Parcel::Told(message, enclosure) => {
                self.application_hears(host, client_of(channel), *message, Came(enclosure));
            }
            Parcel::HungUp => self.application_is_hung_up(host, client_of(channel)),
            Parcel::Ask {
                adapter,
                asker,
                request,
                sent,
            } => self.process_hears(host, (adapter, asker), *request, sent),
            Parcel::Gone(adapter, asker) => self.keeper_loses(host, adapter, asker),
            Parcel::Reply(heard) => self.governors_hear(host, *heard),
            Parcel::Lie(life, ticket, answer) => {
                self.server_is_lied_to(host, life, ticket, *answer)
            }
            Parcel::Lost(adapter) if self.adapter_life(host) == adapter => {
                self.with_governors(host, |governors| governors.handle_lost(AdapterIndex::FIRST));
            }
            Parcel::Ready(adapter) if self.adapter_life(host) < adapter => {
                self.server_finds_adapter(host, adapter);
            }
            // Whoever began since has found the next.
            Parcel::Lost(_) | Parcel::Ready(_) => {}
        }
    }

    /// Has the server of this life do something, and carries out what it wants.
    pub(super) fn serve(&mut self, host: usize, life: u32, input: impl FnOnce(&mut Serving, Time)) {
        let now = self.time_at(host);
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let Some(server) = served.server.as_mut().filter(|_| served.life == life) else {
            return;
        };
        input(server, now);
        let mut outputs = Vec::new();
        while let Some(output) = server.poll_output() {
            outputs.push(output);
        }
        self.waits_for_deadline(host);
        self.promises_fit(host);
        for output in outputs {
            self.carry_out(host, output);
        }
        self.governors_go_on(host);
    }

    /// A server's timer is set to what is due next, if it is not set to something sooner.
    fn waits_for_deadline(&mut self, host: usize) {
        let now = self.time_at(host);
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let server = served.server.as_ref();
        let Some(due) = server.and_then(|server| server.next_deadline()) else {
            return;
        };
        let ns = due.ns().saturating_sub(now.ns()).max(1);
        let at = self.now.plus(Ps::from_ns(ns));
        if served.deadline.is_none_or(|set| at < set) {
            served.deadline = Some(at);
            let event = ServiceEvent::Deadline(host as u32);
            self.queue.push(at, Event::Service(event));
        }
    }

    fn deadline_comes(&mut self, host: usize) {
        if let Some(served) = self.service.hosts.get_mut(&host) {
            served.deadline = served.deadline.filter(|set| *set > self.now);
        }
        self.serve_any(host, Serving::handle_deadline);
    }

    /// The same for whichever server there is.
    pub(super) fn serve_any(&mut self, host: usize, input: impl FnOnce(&mut Serving, Time)) {
        let life = self
            .service
            .hosts
            .get(&host)
            .map_or(0, |served| served.life);
        self.serve(host, life, input);
    }

    fn server_hears(&mut self, host: usize, client: ClientId, parcel: Parcel) {
        let Some(served) = self.service.hosts.get(&host) else {
            return;
        };
        let peer = served.clients.get(&client).map(|n| {
            let application = &self.service.applications[*n];
            application.peer(*n)
        });
        match parcel {
            Parcel::Connect => {
                let peer = peer.unwrap_or(Peer { uid: 0, pid: 0 });
                self.serve_any(host, |server, now| {
                    server.handle_connect(now, client, peer);
                });
            }
            Parcel::HangUp => {
                if let Some(served) = self.service.hosts.get_mut(&host) {
                    served.clients.remove(&client);
                }
                self.serve_any(host, |server, now| server.handle_hang_up(now, client));
            }
            Parcel::Said(message, capability) => {
                self.hears_request(host, client, message, capability);
            }
            _ => {}
        }
    }

    /// A message of an application; a refusal must leave no trace.
    fn hears_request(
        &mut self,
        host: usize,
        client: ClientId,
        message: FromClient,
        capability: Option<VcId>,
    ) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let number = served.clients.get(&client).copied();
        if let FromClient::Request {
            request: Request::Open(_) | Request::Add(_),
            ..
        } = &message
        {
            served.killers.are_forgotten();
        }
        if let FromClient::Request {
            request: Request::Delete { .. },
            ..
        } = &message
            && let Some(number) = number
        {
            let connection = self.service.applications[number].connection;
            served.deleted.insert(connection);
        }
        let before = self.books(host);
        let asked = message.clone();
        let now = self.time_at(host);
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let Some(server) = &mut served.server else {
            return;
        };
        let waiting = server.awaiting();
        let capability = capability.map(|vc| AdapterIndex::FIRST.on(vc));
        server.handle_message(now, client, message, capability);
        let waits = server.awaiting() > waiting;
        let mut outputs = Vec::new();
        while let Some(output) = server.poll_output() {
            outputs.push(output);
        }
        for output in &mut outputs {
            if let (Some(bug), Some(number), ServerOutput::Client { message, .. }) =
                (self.service.bug, number, output)
            {
                sabotage_message(bug, &self.service.applications[number], message);
            }
        }
        let seen = &mut self.service.seen;
        seen.add("waits", "for_what_comes_back", waits.into());
        self.waits_for_deadline(host);
        self.promises_fit(host);
        if let Some(before) = before {
            self.judge_refusal(host, client, &asked, &before, &outputs);
        }
        for output in outputs {
            self.carry_out(host, output);
        }
        self.governors_go_on(host);
    }

    /// The operator's first words.
    pub(super) fn operator_begins(&mut self, host: usize) {
        let peer = Peer { uid: 0, pid: 1 };
        self.serve_any(host, |server, now| {
            server.handle_connect(now, OPERATOR, peer);
        });
        let hello = Request::Hello { version: VERSION };
        self.operator_asks(host, hello);
        self.operator_asks(host, Request::Monitor);
        self.operator_adds(host);
    }

    /// All interfaces, those too that are there already.
    pub(super) fn operator_adds(&mut self, host: usize) {
        let served = self.service.hosts.get(&host);
        let interfaces = served.map_or(Vec::new(), |served| served.interfaces.clone());
        for spec in interfaces {
            self.operator_asks(host, Request::AddInterface(spec));
        }
    }

    pub(super) fn operator_asks(&mut self, host: usize, request: Request) {
        let message = FromClient::Request { id: 1, request };
        self.serve_any(host, |server, now| {
            server.handle_message(now, OPERATOR, message, None);
        });
    }

    fn carry_out(&mut self, host: usize, output: ServerOutput) {
        match output {
            ServerOutput::Adapter { ticket, ask, .. } => self.ask(host, ticket, ask),
            ServerOutput::Client {
                client: OPERATOR,
                message,
                ..
            } => self.service.seen.told(&message),
            ServerOutput::Client {
                client,
                message,
                enclosed,
            } => self.tell(host, client, message, enclosed),
            ServerOutput::Keep {
                client,
                attachment,
                reopens,
            } => {
                if self.service.has(ServerBug::SocketNotKept) {
                    return;
                }
                let record = reopens.then(|| REOPENS.to_owned());
                if let Some(served) = self.service.hosts.get_mut(&host)
                    && let Some(governors) = &mut served.governors
                {
                    let handle = governors.new_handle();
                    served.files.insert(handle, Held::Socket(client));
                    governors.keep(attachment, vec![handle], record);
                }
            }
            ServerOutput::HangUp { client } => {
                let served = self.service.hosts.get_mut(&host);
                let number = served.and_then(|served| served.clients.remove(&client));
                if number.is_some_and(|n| self.service.applications[n].is_mute) {
                    self.service.seen.note("hung_up", "silent");
                }
                self.post(host, to_client(client), Parcel::HungUp);
            }
            ServerOutput::LeftOut { address, .. } => self.is_left_out(host, &address),
            // No configuration names any, and no application of the world does so.
            ServerOutput::Lost { .. } | ServerOutput::PagesTaken { .. } => {}
        }
    }

    /// What a host's clock says.
    pub(super) fn time_at(&self, host: usize) -> Time {
        self.hosts[host].time(self.now)
    }

    /// The adapter that the server knows.
    fn adapter_life(&self, host: usize) -> u32 {
        let served = self.service.hosts.get(&host);
        served.map_or(0, |served| served.known_adapter)
    }

    pub(super) fn ask(&mut self, host: usize, ticket: Ticket, mut ask: AdapterAsk) {
        self.is_not_in_use(host, &ask);
        self.is_in_order(host, &ask);
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        served.counts.commands += 1;
        if let Some(answer) = self
            .service
            .bug
            .and_then(|bug| sabotage(bug, &served.process, &mut ask))
        {
            let lie = Parcel::Lie(served.life, ticket, Box::new(answer));
            return self.post(host, FROM_ADAPTER, lie);
        }
        let stage = marks::stage(&ask);
        let octets = made_by(&ask);
        self.service.seen.note("asked", stage);
        let refusal = self.has_no_memory(host, &ask);
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let asked = Asked { stage, octets };
        served.asked.insert(ticket, asked);
        if let Some(governors) = &mut served.governors {
            match refusal {
                Some(refusal) => governors.refuse(AdapterIndex::FIRST, ticket, refusal),
                None => governors.ask(AdapterIndex::FIRST, ticket, ask),
            }
        }
    }

    fn tell(&mut self, host: usize, client: ClientId, mut message: FromServer, enclosed: Enclosed) {
        self.ends_in_time(host, &message);
        let Some(served) = self.service.hosts.get(&host) else {
            return;
        };
        let enclosure = served.enclosure(enclosed);
        if enclosure.is_none() && enclosed != Enclosed::Nothing {
            // Without it the message says nothing.
            self.carry_out(host, ServerOutput::HangUp { client });
            return self.serve_any(host, |server, now| server.handle_hang_up(now, client));
        }
        let number = served.clients.get(&client).copied();
        if let (Some(bug), Some(number)) = (self.service.bug, number) {
            if is_lost(bug, &message) {
                return;
            }
            // What is an answer was spoilt before it was judged.
            sabotage_message(bug, &self.service.applications[number], &mut message);
        }
        let told = Parcel::Told(Box::new(message), enclosure.map(Box::new));
        self.post(host, to_client(client), told);
    }

    /// What the server of the life `asker` has asked reaches the process of the adapter.
    fn process_hears(
        &mut self,
        host: usize,
        (adapter, asker): (u32, u32),
        request: keeper::Request,
        sent: Vec<Held>,
    ) {
        let config = self.hosts[host].config();
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        if !served.is_adapter_up || served.adapter_life != adapter {
            return;
        }
        if can_be_refused(&request.ask) {
            let ordinal = served.refusable;
            served.refusable += 1;
            if served.spec.refused.contains(&ordinal) {
                let busy = ControlError::Refused(Refusal::Busy);
                let heard = Heard::refusal(asker, request.id, busy);
                return self.post(host, FROM_ADAPTER, Parcel::Reply(Box::new(heard)));
            }
        }
        served.process.is_asked(asker, config, request, sent);
        self.keeper_goes_on(host);
        self.machine_looks(host);
    }

    /// The adapter has ended commands of a server.
    #[inline(never)]
    pub(in crate::world) fn adapter_has_answered(&mut self, host: usize) {
        let answered = std::mem::take(&mut self.hosts[host].answered);
        for answer in answered {
            let Some(served) = self.service.hosts.get_mut(&host) else {
                return;
            };
            if served.process.ended(answer) {
                self.keeper_goes_on(host);
                self.guarantees_fit(host);
            }
        }
    }

    /// The server has an answer of its adapter.
    pub(super) fn server_is_answered(
        &mut self,
        host: usize,
        ticket: Ticket,
        answer: Result<AdapterAnswer, AdapterRefusal>,
    ) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let for_memory = matches!(answer, Err(AdapterRefusal::Memory { .. }));
        served.again.is_excused |= answer.is_err() && !for_memory;
        let asked = served.asked.remove(&ticket);
        if let (Some(asked), Err(_)) = (asked, &answer) {
            self.service.seen.note("adapter_refused", asked.stage);
        }
        if self.service.bug == Some(ServerBug::FileBelieved) {
            served.places.note(&served.process);
        }
        self.serve_any(host, |server, now| {
            server.handle_answer(now, ticket, answer)
        });
    }

    fn server_is_lied_to(&mut self, host: usize, life: u32, ticket: Ticket, answer: AdapterAnswer) {
        let served = self.service.hosts.get(&host);
        if served.is_some_and(|served| served.life == life) {
            self.server_is_answered(host, ticket, Ok(answer));
        }
    }

    /// A server's timer fires, whatever it was for.
    pub(in crate::world) fn server_timer_fires(&mut self, host: usize) {
        self.serve_any(host, |server, now| server.handle_deadline(now));
    }

    /// Servers look once more when nothing happens any more: what an adapter has refused they ask
    /// again only then, and may be refused again.
    pub(in crate::world) fn servers_look_again(&mut self) {
        let hosts = self.service.hosts.iter();
        let refused: Vec<_> = hosts
            .map(|(host, served)| (*host, served.spec.refused.len()))
            .collect();
        for (host, times) in refused {
            for _ in 0..times {
                self.server_looks(host);
                self.run();
            }
        }
    }

    /// The server asks how its adapter does.
    fn server_looks(&mut self, host: usize) {
        self.with_governors(host, |governors| {
            governors.look(AdapterIndex::FIRST, LOOK.ns(), 0);
        });
    }

    /// A host's adapter is to die, and of no connection.
    pub(in crate::world) fn adapter_dies_of_something_else(&mut self, host: usize) {
        if let Some(served) = self.service.hosts.get_mut(&host) {
            served.killers.has_others = true;
            served.killers.are_forgotten();
        }
    }

    /// A host's adapter has died: with it goes what its process kept.
    pub(in crate::world) fn service_loses_adapter(&mut self, host: usize) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let under_way = served.asked.values().map(|asked| asked.stage);
        let seen = &mut self.service.seen;
        seen.died("adapter_died_in", under_way);
        seen.add(
            "adapter_died_in",
            "no_server",
            served.server.is_none().into(),
        );
        served.asked.clear();
        served.gaps = GapReport::default();
        served.process.clear();
        served.is_adapter_up = false;
        let lost = served.adapter_life;
        served.adapter_life += 1;
        self.service.holders.retain(|(at, _), _| *at != host);
        self.host_is_disturbed(host, self.now);
        self.post(host, FROM_ADAPTER, Parcel::Lost(lost));
    }

    /// Another has begun.
    pub(in crate::world) fn service_finds_adapter(&mut self, host: usize) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        served.is_adapter_up = true;
        self.upkeep(host);
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let adapter = served.adapter_life;
        self.post(host, FROM_ADAPTER, Parcel::Ready(adapter));
    }
}
