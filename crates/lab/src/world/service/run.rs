//! Servers in a run: they are told and tell.

use cellgate_core::Time;
use cellgate_core::adapter::{AdapterState, AttachmentIndex, PortIndex, Refusal, VcId, VcInfo};
use cellgate_core::keeper::Output;
use cellgate_core::server::{
    AdapterAsk, AdapterIndex, AdapterRefusal, ClientId, Enclosed, FromClient, FromServer, Health,
    Output as ServerOutput, Peer, PortHealth, Request, Ticket, VERSION,
};

use super::daemon::{
    Again, FROM_ADAPTER, OPERATOR, Parcel, Reader, Served, Serving, TO_ADAPTER, client_of,
    reader_of, to_client,
};
use super::marks;
use super::process::{Heard, News, can_be_refused, region_sizes};
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
            events.push((opened, ServiceEvent::Begins(host)));
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
                self.application_hears(host, client_of(channel), *message, enclosure);
            }
            Parcel::HungUp => self.application_is_hung_up(host, client_of(channel)),
            Parcel::Ask {
                adapter,
                asker,
                ticket,
                ask,
            } => self.process_hears(host, adapter, asker, ticket, *ask),
            Parcel::Keep(adapter, asker, client, attachment, reopens) => {
                self.keep(host, (adapter, asker), attachment, (client, reopens));
            }
            Parcel::Gone(adapter, asker) => self.keeper_loses(host, adapter, asker),
            Parcel::Answer(heard) => self.server_is_answered(host, *heard),
            Parcel::Lost(adapter) if self.adapter_life(host) == adapter => {
                if let Some(served) = self.service.hosts.get_mut(&host) {
                    served.asked.clear();
                }
                self.serve_any(host, |server, now| {
                    server.handle_adapter_lost(now, AdapterIndex::FIRST)
                });
            }
            Parcel::Ready(adapter) if self.adapter_life(host) < adapter => {
                self.server_finds_adapter(host, adapter);
            }
            // Whoever began since has found the next.
            Parcel::Lost(_) | Parcel::Ready(_) => {}
        }
    }

    /// A server has the descriptors of no other adapter than the present one.
    fn server_finds_adapter(&mut self, host: usize, adapter: u32) {
        let served = self.service.hosts.get_mut(&host);
        let Some(served) = served.filter(|served| served.server.is_some()) else {
            return;
        };
        served.known_adapter = adapter;
        served.again = Again {
            since: self.now,
            ..Again::default()
        };
        served.vcs.clear();
        served.attachments.clear();
        // It can have died since.
        if served.is_adapter_up && served.adapter_life == adapter {
            let config = self.hosts[host].config();
            served.process.connects(served.life, config, false);
        }
        if !self.service.has(ServerBug::NothingReopened) {
            self.serve_any(host, |server, now| {
                server.handle_adapter_ready(now, AdapterIndex::FIRST)
            });
            self.operator_adds(host);
        }
    }

    /// The process of the adapter is to keep a socket.
    fn keep(
        &mut self,
        host: usize,
        (adapter, asker): (u32, u32),
        at: AttachmentIndex,
        kept: (ClientId, bool),
    ) {
        if let Some(served) = self.with_keeper(host, adapter) {
            served.process.keeps(asker, at, kept);
            self.keeper_goes_on(host);
        }
    }

    /// The control connection of a server that has died has ended.
    fn keeper_loses(&mut self, host: usize, adapter: u32, asker: u32) {
        if let Some(served) = self.with_keeper(host, adapter) {
            served.process.hangs_up(asker);
            self.keeper_goes_on(host);
        }
    }

    /// The server of a host whose adapter of this life is there.
    fn with_keeper(&mut self, host: usize, adapter: u32) -> Option<&mut Served> {
        let served = self.service.hosts.get_mut(&host)?;
        (served.is_adapter_up && served.adapter_life == adapter).then_some(served)
    }

    /// Does what the keeper of a host wants, until it wants nothing.
    pub(super) fn keeper_goes_on(&mut self, host: usize) {
        while let Some(output) = self
            .service
            .hosts
            .get_mut(&host)
            .and_then(|served| served.process.poll())
        {
            let Some(served) = self.service.hosts.get_mut(&host) else {
                return;
            };
            match output {
                Output::Release(handle) => served.process.release(handle),
                Output::Reply { to, reply, .. } => {
                    let node = &self.hosts[host];
                    if let Some(heard) = served.process.heard(to, reply, |vc| node.info(vc)) {
                        self.is_heard(host, heard);
                    }
                }
                Output::Order(order) => {
                    let node = &mut self.hosts[host];
                    node.catch_up(self.now, &mut self.lines, &mut self.woken);
                    match node.ask(&order.ask, region_sizes) {
                        Some((command, brought)) => {
                            served.process.is_ordered(command, order, brought);
                        }
                        None => served.process.is_done(&order),
                    }
                    self.after_step(host);
                }
            }
        }
        if let Some(served) = self.service.hosts.get_mut(&host) {
            let node = &self.hosts[host];
            served.process.look(|vc| node.info(vc));
        }
    }

    /// A server is to hear of what it has asked.
    fn is_heard(&mut self, host: usize, heard: Heard) {
        let is_open = self.service.hosts[&host].is_opening(&heard);
        if let (News::Vc(_, _, request), true) = (&heard.news, is_open) {
            self.has_opened(host, request.address);
        }
        self.post(host, FROM_ADAPTER, Parcel::Answer(Box::new(heard)));
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
    fn operator_adds(&mut self, host: usize) {
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
                let Some(served) = self.service.hosts.get(&host) else {
                    return;
                };
                let (adapter, asker) = (served.known_adapter, served.life);
                let keep = Parcel::Keep(adapter, asker, client, attachment.id, reopens);
                self.post(host, TO_ADAPTER, keep);
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
            let heard = Heard {
                life: served.life,
                ticket,
                answer: Ok(answer),
                news: News::None,
            };
            return self.post(host, FROM_ADAPTER, Parcel::Answer(Box::new(heard)));
        }
        let stage = marks::stage(&ask);
        served.asked.insert(ticket, stage);
        self.service.seen.note("asked", stage);
        let parcel = Parcel::Ask {
            adapter: served.known_adapter,
            asker: served.life,
            ticket,
            ask: Box::new(ask),
        };
        self.post(host, TO_ADAPTER, parcel);
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
        adapter: u32,
        asker: u32,
        ticket: Ticket,
        ask: AdapterAsk,
    ) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        if !served.is_adapter_up || served.adapter_life != adapter {
            return;
        }
        if let Some(refusal) = self.has_no_memory(host, &ask) {
            let heard = Heard {
                life: asker,
                ticket,
                answer: Err(refusal),
                news: News::None,
            };
            return self.post(host, FROM_ADAPTER, Parcel::Answer(Box::new(heard)));
        }
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let ordinal = served.refusable;
        served.refusable += u64::from(can_be_refused(&ask));
        let is_refused = can_be_refused(&ask) && served.spec.refused.contains(&ordinal);
        let answered = |answer| Heard {
            life: asker,
            ticket,
            answer,
            news: News::None,
        };
        if is_refused {
            let heard = answered(Err(AdapterRefusal::Refused(Refusal::Busy)));
            return self.post(host, FROM_ADAPTER, Parcel::Answer(Box::new(heard)));
        }
        if let Some(answer) = served.process.links(&ask) {
            let heard = answered(Ok(answer));
            return self.post(host, FROM_ADAPTER, Parcel::Answer(Box::new(heard)));
        }
        served.process.asks_keeper(asker, ticket, ask);
        self.keeper_goes_on(host);
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

    fn server_is_answered(&mut self, host: usize, heard: Heard) {
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        if served.life != heard.life || served.server.is_none() {
            return;
        }
        let for_memory = matches!(heard.answer, Err(AdapterRefusal::Memory { .. }));
        served.again.is_excused |= heard.answer.is_err() && !for_memory;
        let stage = served.asked.remove(&heard.ticket);
        if let (Some(stage), Err(_)) = (stage, &heard.answer) {
            self.service.seen.note("adapter_refused", stage);
        }
        match heard.news {
            News::Attachment(attachment, client) => {
                served.attachments.insert(attachment, client);
            }
            News::NoAttachment(attachment) => {
                served.attachments.remove(&attachment);
            }
            News::Vc(vc, files, request) => {
                served.vcs.insert(vc.index, (vc, files, request));
            }
            News::None => {}
        }
        if self.service.bug == Some(ServerBug::FileBelieved) {
            served.places.note(&served.process);
        }
        let Heard { ticket, answer, .. } = heard;
        self.serve_any(host, |server, now| {
            server.handle_answer(now, ticket, answer)
        });
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

    /// The counters of VCs, and how the adapter does.
    fn server_looks(&mut self, host: usize) {
        let Some(served) = self.service.hosts.get(&host) else {
            return;
        };
        if !served.is_adapter_up {
            return;
        }
        let node = &self.hosts[host];
        let vcs = served.process.vcs.keys();
        let vcs: Vec<VcInfo> = vcs.filter_map(|vc| node.info(*vc)).collect();
        let state = AdapterState {
            time: node.time(self.now),
            stats: *node.adapter.stats(),
            vcs,
            next: None,
        };
        let ports = 0..served.interfaces.len() as u8;
        let ports = ports
            .map(|port| PortHealth::well(PortIndex(port)))
            .collect();
        let Some(served) = self.service.hosts.get_mut(&host) else {
            return;
        };
        let health = Health {
            ports,
            ..served.health.clone()
        };
        served.health.gap_ns = 0;
        self.serve_any(host, |server, now| {
            server.handle_report(now, AdapterIndex::FIRST, &state);
            server.handle_health(now, AdapterIndex::FIRST, &health);
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
        let under_way = std::mem::take(&mut served.asked);
        let seen = &mut self.service.seen;
        seen.died("adapter_died_in", under_way.values());
        seen.add(
            "adapter_died_in",
            "no_server",
            served.server.is_none().into(),
        );
        served.health = Health::default();
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
