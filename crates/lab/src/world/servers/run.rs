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
    Asked, FROM_ADAPTER, OPERATOR, Parcel, Reader, Served, Serving, client_of, reader_of, to_client,
};
use super::memory::made_by;
use super::process::{Heard, Held, can_be_refused};
use super::sabotage::{is_lost, sabotage, sabotage_message};
use super::{ServerBug, ServerTurn};
use crate::world::Ps;
use crate::world::host::Host;
use crate::world::log::Fact;
use crate::world::marks::stage;
use crate::world::net::{Net, Turn};

/// From one look of a server at its adapter to the next.
const LOOK: Ps = Ps::from_ns(4_000_000);

impl Host {
    /// Puts the first turns of its server and applications in.
    pub(crate) fn begins(&mut self, duration_ns: u64, net: &mut Net) {
        self.wakes(Ps::ZERO, net);
        for (n, writer) in &self.writers {
            if let Some(at) = writer.due() {
                net.later(at, Turn::Source(*n), self.id());
            }
        }
        for stream in self.films.keys().copied().collect::<Vec<_>>() {
            self.film_waits(stream, net);
        }
        let Some(served) = &mut self.served else {
            return;
        };
        let opened = net.plan.opened;
        served.looks_until = opened.plus(Ps::from_ns(duration_ns));
        let crashes = served.spec.crashes.clone();
        self.turn_at(net.plan.hosts_opened, ServerTurn::Begins, net);
        for crash in crashes {
            let at = opened.plus(Ps::from_ns(crash.at_ns));
            self.turn_at(at, ServerTurn::Dies, net);
            self.turn_at(at.plus(Ps::from_ns(crash.for_ns)), ServerTurn::Begins, net);
        }
        for (n, application) in (0..).zip(&self.applications) {
            for (call, spec) in (0..).zip(&application.spec.calls) {
                let at = opened.plus(Ps::from_ns(spec.at_ns));
                self.turn_at(at, ServerTurn::Call(n, call), net);
            }
        }
        self.next_look(opened, net);
    }

    /// Its server or an application has this turn at `at`.
    pub(super) fn turn_at(&self, at: Ps, turn: ServerTurn, net: &mut Net) {
        net.later(at, Turn::Server(turn), self.id());
    }

    /// A server looks next when it has looked at `now`: an idle one keeps no more in the queue.
    fn next_look(&mut self, now: Ps, net: &mut Net) {
        let at = now.plus(LOOK);
        let looks = |served: &Served| at < served.looks_until;
        if self.served.as_deref().is_some_and(looks) {
            self.turn_at(at, ServerTurn::Looks, net);
        }
    }

    /// Its server or an application has a turn.
    pub(crate) fn serves_turn(&mut self, turn: ServerTurn, net: &mut Net) {
        match turn {
            ServerTurn::Dies => self.server_dies(net),
            ServerTurn::Begins | ServerTurn::TakesUp => self.server_begins(net),
            ServerTurn::Looks => {
                self.next_look(net.now, net);
                self.server_looks(net);
            }
            ServerTurn::Parcel(_, channel) => self.parcel(channel, net),
            ServerTurn::Call(application, call) => {
                self.call(application as usize, call as usize, net);
            }
            ServerTurn::Flush(application) => self.flush(application as usize, net),
            ServerTurn::Deadline => self.deadline_comes(net),
            ServerTurn::Upkeep => self.upkeep(net),
            ServerTurn::Strikes(life) => self.adapter_is_killed(life, net),
            ServerTurn::AdapterBegins => self.adapter_begins(net),
        }
        self.readers_tell(net);
    }

    /// What its readers have is written down, if that has changed.
    pub(crate) fn readers_tell(&mut self, net: &mut Net) {
        for (n, one) in self.applications.iter_mut().enumerate() {
            if one.sends {
                continue;
            }
            let connection = one.connection;
            let holds = self.holders.get(&connection) == Some(&n);
            let terms = one.terms().filter(|_| holds);
            if one.told != terms && (holds || one.told.is_some()) {
                one.told = terms;
                net.tell(Fact::Uses { connection, terms });
            }
        }
    }

    /// Something is on its way.
    pub(super) fn post(&mut self, channel: u32, parcel: Parcel, net: &mut Net) {
        let Some(served) = &mut self.served else {
            return;
        };
        let at = net.now.plus(Ps::from_ns(served.spec.control_ns));
        let rank = served.rank(channel);
        let to = served.channels.entry(channel).or_default();
        to.parcels.push_back(parcel);
        let event = ServerTurn::Parcel(rank, channel);
        self.turn_at(at, event, net);
    }

    /// The first on a channel has come.
    fn parcel(&mut self, channel: u32, net: &mut Net) {
        let reader = reader_of(channel);
        let Some(served) = &mut self.served else {
            return;
        };
        let Some(to) = served.channels.get_mut(&channel) else {
            return;
        };
        match reader {
            // A program that is not run hears nothing yet.
            Reader::Application if net.now < self.idle_until => {
                let event = ServerTurn::Parcel(0, channel);
                return self.turn_at(self.idle_until, event, net);
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
        self.hears(channel, parcel, net);
        net.mix(
            net.now,
            u64::from(self.number) << 48 ^ u64::from(channel) << 8 ^ 2,
        );
        self.is_audited(net);
    }

    fn hears(&mut self, channel: u32, parcel: Parcel, net: &mut Net) {
        match parcel {
            Parcel::Connect | Parcel::Said(..) | Parcel::HangUp => {
                self.server_hears(client_of(channel), parcel, net);
            }
            Parcel::Told(message, enclosure) => {
                self.application_hears(client_of(channel), *message, Came(enclosure), net);
            }
            Parcel::HungUp => self.application_is_hung_up(client_of(channel), net),
            Parcel::Ask {
                adapter,
                asker,
                request,
                sent,
            } => self.process_hears((adapter, asker), *request, sent, net),
            Parcel::Gone(adapter, asker) => self.keeper_loses(adapter, asker, net),
            Parcel::Reply(heard) => self.governors_hear(*heard, net),
            Parcel::Lie(life, ticket, answer) => {
                self.server_is_lied_to(life, ticket, *answer, net);
            }
            Parcel::Lost(adapter) if self.adapter_life() == adapter => {
                self.with_governors(net, |governors| governors.handle_lost(AdapterIndex::FIRST));
            }
            Parcel::Ready(adapter) if self.adapter_life() < adapter => {
                self.server_finds_adapter(adapter, net);
            }
            // Whoever began since has found the next.
            Parcel::Lost(_) | Parcel::Ready(_) => {}
        }
    }

    /// Has the server of this life do something, and carries out what it wants.
    pub(super) fn serve(
        &mut self,
        net: &mut Net,
        life: u32,
        input: impl FnOnce(&mut Serving, Time),
    ) {
        let now = self.time(net.now);
        let Some(served) = &mut self.served else {
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
        self.waits_for_deadline(net);
        self.books_are_judged(net);
        for output in outputs {
            self.carry_out(output, net);
        }
        self.governors_go_on(net);
    }

    /// I15: no more is promised than there is.
    fn books_are_judged(&self, net: &mut Net) {
        let server = self.served.as_ref().and_then(|one| one.server.as_ref());
        let judged = server.map(|server| net.log.audit(self.number).promises_fit(server));
        if let Some(Err((invariant, text))) = judged {
            self.breaks(invariant, &text, net);
        }
    }

    /// A server's timer is set to what is due next, if it is not set to something sooner.
    fn waits_for_deadline(&mut self, net: &mut Net) {
        let now = self.time(net.now);
        let Some(served) = &mut self.served else {
            return;
        };
        let server = served.server.as_ref();
        let Some(due) = server.and_then(|server| server.next_deadline()) else {
            return;
        };
        let ns = due.ns().saturating_sub(now.ns()).max(1);
        let at = net.now.plus(Ps::from_ns(ns));
        if served.deadline.is_none_or(|set| at < set) {
            served.deadline = Some(at);
            let event = ServerTurn::Deadline;
            self.turn_at(at, event, net);
        }
    }

    fn deadline_comes(&mut self, net: &mut Net) {
        if let Some(served) = &mut self.served {
            served.deadline = served.deadline.filter(|set| *set > net.now);
        }
        self.serve_any(net, Serving::handle_deadline);
    }

    /// The same for whichever server there is.
    pub(super) fn serve_any(&mut self, net: &mut Net, input: impl FnOnce(&mut Serving, Time)) {
        let life = self.served.as_ref().map_or(0, |served| served.life);
        self.serve(net, life, input);
    }

    fn server_hears(&mut self, client: ClientId, parcel: Parcel, net: &mut Net) {
        let Some(served) = &self.served else {
            return;
        };
        let peer = served.clients.get(&client).map(|n| {
            let application = &self.applications[*n];
            application.peer()
        });
        match parcel {
            Parcel::Connect => {
                let peer = peer.unwrap_or(Peer { uid: 0, pid: 0 });
                self.serve_any(net, |server, now| {
                    server.handle_connect(now, client, peer);
                });
            }
            Parcel::HangUp => {
                if let Some(served) = &mut self.served {
                    served.clients.remove(&client);
                }
                self.serve_any(net, |server, now| server.handle_hang_up(now, client));
            }
            Parcel::Said(message, capability) => {
                self.hears_request(client, message, capability, net);
            }
            _ => {}
        }
    }

    /// A message of an application; a refusal must leave no trace.
    fn hears_request(
        &mut self,
        client: ClientId,
        message: FromClient,
        capability: Option<VcId>,
        net: &mut Net,
    ) {
        let Some(served) = &mut self.served else {
            return;
        };
        let number = served.clients.get(&client).copied();
        if let FromClient::Request {
            request: Request::Open(_) | Request::Add(_),
            ..
        } = &message
        {
            net.log.audit(self.number).suspects_nobody();
        }
        if let FromClient::Request {
            request: Request::Delete { address },
            ..
        } = &message
        {
            net.log.audit(self.number).deletes(address.clone());
        }
        let before = self.books();
        let asked = message.clone();
        let now = self.time(net.now);
        let Some(served) = &mut self.served else {
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
                (net.options.server_bug, number, output)
            {
                sabotage_message(bug, &self.applications[number], message);
            }
        }
        let seen = &mut net.log.seen;
        seen.add("waits", "for_what_comes_back", waits.into());
        self.waits_for_deadline(net);
        self.books_are_judged(net);
        if let Some(before) = before {
            self.is_judged(net, |audit, seen| {
                audit.answers(seen, (client, &asked), &before, &outputs)
            });
        }
        for output in outputs {
            self.carry_out(output, net);
        }
        self.governors_go_on(net);
    }

    /// The operator's first words.
    pub(super) fn operator_begins(&mut self, net: &mut Net) {
        let peer = Peer { uid: 0, pid: 1 };
        self.serve_any(net, |server, now| {
            server.handle_connect(now, OPERATOR, peer);
        });
        let hello = Request::Hello { version: VERSION };
        self.operator_asks(hello, net);
        self.operator_asks(Request::Monitor, net);
        self.operator_adds(net);
    }

    /// All interfaces, those too that are there already.
    pub(super) fn operator_adds(&mut self, net: &mut Net) {
        let served = self.served.as_ref();
        let interfaces = served.map_or(Vec::new(), |served| served.interfaces.clone());
        for spec in interfaces {
            self.operator_asks(Request::AddInterface(spec), net);
        }
    }

    pub(super) fn operator_asks(&mut self, request: Request, net: &mut Net) {
        let message = FromClient::Request {
            connection: 0,
            id: 1,
            request,
        };
        self.serve_any(net, |server, now| {
            server.handle_message(now, OPERATOR, message, None);
        });
    }

    fn carry_out(&mut self, output: ServerOutput, net: &mut Net) {
        match output {
            ServerOutput::Adapter { ticket, ask, .. } => self.ask(ticket, ask, net),
            ServerOutput::Client {
                client: OPERATOR,
                message,
                ..
            } => net.log.seen.told(&message),
            ServerOutput::Client {
                client,
                message,
                enclosed,
            } => self.tell(client, message, enclosed, net),
            ServerOutput::Keep {
                client,
                attachment,
                reopens,
            } => {
                if net.has(ServerBug::SocketNotKept) {
                    return;
                }
                if let Some(served) = &mut self.served
                    && let Some(governors) = &mut served.governors
                {
                    let handle = governors.new_handle();
                    served.files.insert(handle, Held::Socket(client));
                    governors.keep(attachment, vec![handle], reopens.text());
                }
            }
            ServerOutput::HangUp { client } => {
                let served = self.served.as_mut();
                let number = served.and_then(|served| served.clients.remove(&client));
                if number.is_some_and(|n| self.applications[n].is_mute) {
                    net.log.seen.note("hung_up", "silent");
                }
                self.post(to_client(client), Parcel::HungUp, net);
            }
            ServerOutput::LeftOut { address, .. } => self.is_left_out(&address, net),
            // No configuration names any, and no application of the world does so.
            ServerOutput::Lost { .. } | ServerOutput::PagesTaken { .. } => {}
        }
    }

    /// The adapter that the server knows.
    fn adapter_life(&self) -> u32 {
        let served = self.served.as_ref();
        served.map_or(0, |served| served.known_adapter)
    }

    pub(super) fn ask(&mut self, ticket: Ticket, mut ask: AdapterAsk, net: &mut Net) {
        self.is_judged(net, |audit, seen| audit.asks(seen, &ask));
        let Some(served) = &mut self.served else {
            return;
        };
        served.counts.commands += 1;
        let bug = net.options.server_bug;
        if let Some(answer) = bug.and_then(|bug| sabotage(bug, &served.process, &mut ask)) {
            let lie = Parcel::Lie(served.life, ticket, Box::new(answer));
            return self.post(FROM_ADAPTER, lie, net);
        }
        let stage = stage(&ask);
        let octets = made_by(&ask);
        net.log.seen.note("asked", stage);
        let refusal = self.has_no_memory(&ask, net);
        let Some(served) = &mut self.served else {
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

    fn tell(
        &mut self,
        client: ClientId,
        mut message: FromServer,
        enclosed: Enclosed,
        net: &mut Net,
    ) {
        let now = net.now;
        self.is_judged(net, |audit, seen| audit.tells(now, seen, &message));
        let Some(served) = &self.served else {
            return;
        };
        let enclosure = served.enclosure(enclosed);
        if enclosure.is_none() && enclosed != Enclosed::Nothing {
            // Without it the message says nothing.
            self.carry_out(ServerOutput::HangUp { client }, net);
            return self.serve_any(net, |server, now| server.handle_hang_up(now, client));
        }
        let number = served.clients.get(&client).copied();
        if let (Some(bug), Some(number)) = (net.options.server_bug, number) {
            if is_lost(bug, &message) {
                return;
            }
            // What is an answer was spoilt before it was judged.
            sabotage_message(bug, &self.applications[number], &mut message);
        }
        let told = Parcel::Told(Box::new(message), enclosure.map(Box::new));
        self.post(to_client(client), told, net);
    }

    /// What the server of the life `asker` has asked reaches the process of the adapter.
    fn process_hears(
        &mut self,
        (adapter, asker): (u32, u32),
        request: keeper::Request,
        sent: Vec<Held>,
        net: &mut Net,
    ) {
        let Some(served) = &mut self.served else {
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
                return self.post(FROM_ADAPTER, Parcel::Reply(Box::new(heard)), net);
            }
        }
        served.process.is_asked(asker, &self.config, request, sent);
        self.keeper_goes_on(net);
        self.machine_looks(net);
    }

    /// The adapter has ended commands of a server.
    #[inline(never)]
    pub(crate) fn adapter_has_answered(&mut self, net: &mut Net) {
        let answered = std::mem::take(&mut self.answered);
        for answer in answered {
            let Some(served) = &mut self.served else {
                return;
            };
            if served.process.ended(answer) {
                self.keeper_goes_on(net);
                self.is_judged(net, |_, seen| seen.guarantees_fit());
            }
        }
    }

    /// The server has an answer of its adapter.
    pub(super) fn server_is_answered(
        &mut self,
        ticket: Ticket,
        answer: Result<AdapterAnswer, AdapterRefusal>,
        net: &mut Net,
    ) {
        let Some(served) = &mut self.served else {
            return;
        };
        let for_memory = matches!(answer, Err(AdapterRefusal::Memory { .. }));
        if answer.is_err() && !for_memory {
            net.log.audit(self.number).is_excused();
        }
        let asked = served.asked.remove(&ticket);
        if let (Some(asked), Err(_)) = (asked, &answer) {
            net.log.seen.note("adapter_refused", asked.stage);
        }
        if net.options.server_bug == Some(ServerBug::FileBelieved) {
            served.places.note(&served.process);
        }
        self.serve_any(net, |server, now| server.handle_answer(now, ticket, answer));
    }

    fn server_is_lied_to(
        &mut self,
        life: u32,
        ticket: Ticket,
        answer: AdapterAnswer,
        net: &mut Net,
    ) {
        let served = self.served.as_ref();
        if served.is_some_and(|served| served.life == life) {
            self.server_is_answered(ticket, Ok(answer), net);
        }
    }

    /// A server's timer fires, whatever it was for.
    pub(crate) fn server_timer_fires(&mut self, net: &mut Net) {
        self.serve_any(net, |server, now| server.handle_deadline(now));
    }

    /// Commands that are to find its adapter's queue full.
    pub(crate) fn refusals_planned(&self) -> usize {
        let served = self.served.as_ref();
        served.map_or(0, |served| served.spec.refused.len())
    }

    /// The server asks how its adapter does.
    pub(crate) fn server_looks(&mut self, net: &mut Net) {
        self.with_governors(net, |governors| {
            governors.look(AdapterIndex::FIRST, LOOK.ns(), 0);
        });
    }

    /// Its adapter is to die, and of no connection.
    pub(crate) fn adapter_dies_of_something_else(&mut self, net: &mut Net) {
        net.log.audit(self.number).adapter_dies_of_something_else();
    }

    /// A host's adapter has died: with it goes what its process kept.
    pub(crate) fn keeper_is_lost(&mut self, net: &mut Net) {
        let Some(served) = &mut self.served else {
            return;
        };
        let under_way = served.asked.values().map(|asked| asked.stage);
        let seen = &mut net.log.seen;
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
        self.holders.clear();
        self.is_disturbed(net.now, net);
        self.post(FROM_ADAPTER, Parcel::Lost(lost), net);
    }

    /// Another has begun.
    pub(crate) fn keeper_is_there(&mut self, net: &mut Net) {
        let Some(served) = &mut self.served else {
            return;
        };
        served.is_adapter_up = true;
        self.upkeep(net);
        let Some(served) = &mut self.served else {
            return;
        };
        let adapter = served.adapter_life;
        self.post(FROM_ADAPTER, Parcel::Ready(adapter), net);
    }
}
