//! A host's turns: its adapter steps, its clients read, its writers hand SDUs over.

use cellgate_core::Time;
use cellgate_core::adapter::VcId;

use super::Host;
use super::streams::reads;
use crate::world::Ps;
use crate::world::canary::Canary;
use crate::world::endpoint::{Sdu, tells_of_pdus};
use crate::world::log::{Fact, Read};
use crate::world::net::{Net, Node, NodeId, Turn};
use crate::world::run::asked_before;
use crate::world::servers::Gate;
use crate::world::source::Source;

/// Of [`Canary::WakeUpLate`].
const WAKE_UP_LATE_NS: u64 = 300_000;

impl Node for Host {
    fn expects(&mut self, _: u32, at: Ps, net: &mut Net) {
        self.wakes(at, net);
    }

    fn acts(&mut self, turn: Turn, net: &mut Net) -> Option<Ps> {
        match turn {
            Turn::Incident(incident) => {
                self.suffers(incident, net);
                self.readers_tell(net);
            }
            Turn::Server(turn) => self.serves_turn(turn, net),
            Turn::Source(source) => self.submits(source, net),
            Turn::Film(stream) => self.films(stream, net),
            Turn::Player(connection) => self.plays(connection, net),
            Turn::Client(client) => self.is_woken(client, net),
            Turn::Step => self.is_due(net),
            Turn::Arrival(_) => {}
        }
        None
    }
}

impl Host {
    pub(crate) fn id(&self) -> NodeId {
        NodeId::Host(self.number)
    }

    /// Its adapter has something to do at `at`.
    pub(crate) fn wakes(&mut self, at: Ps, net: &mut Net) {
        // Steps lie on a grid: less than one later it is the same.
        let step = Ps::from_ns(self.spec.step_ns);
        if self.steps.due.is_some_and(|due| due < at.plus(step)) {
            return;
        }
        // Steps that were made up for lie in the past, and so can what they sent.
        let at = self.steps.from(at.max(net.now));
        self.steps_at(at, net);
    }

    /// Its adapter takes a step at `at`, if it takes none before.
    fn steps_at(&mut self, at: Ps, net: &mut Net) {
        if self.steps.due.is_none_or(|due| at < due) {
            self.steps.due = Some(at);
            net.later(at, Turn::Step, self.id());
        }
    }

    /// Its adapter takes a step, if it is due.
    fn is_due(&mut self, net: &mut Net) {
        let now = net.now;
        if self.steps.due != Some(now) {
            // It was put forward.
            return;
        }
        self.steps.due = None;
        net.reached = net.reached.max(now);
        if self.is_down {
            return;
        }
        let at = self.steps.from(now);
        if at > now {
            return self.wakes(at, net);
        }
        if !self.steps.keep_up(now) {
            self.catch_up(net);
        }
        self.step(now, net);
        self.after_step(net);
    }

    /// What follows from steps: cells on lines, clients to be run, the next step.
    pub(crate) fn after_step(&mut self, net: &mut Net) {
        if !self.answered.is_empty() {
            self.adapter_has_answered(net);
        }
        let next = self.next_step(net.now, &net.lines);
        let stats = self.adapter.stats();
        let seen = stats.cells_received ^ stats.events << 24 ^ stats.cells_transmitted << 44;
        let discarded = stats.cells_discarded.total();
        let who = u64::from(self.number) << 56;
        net.mix(net.now, who ^ seen);
        net.mix(net.now, who ^ discarded << 1 ^ 1);
        match self.options.canary {
            Some(Canary::RunRemembers) => net.mix(net.now, asked_before()),
            Some(Canary::RunPanics) => panic!("a planted panic"),
            Some(Canary::WakeUpInvented) => self.woken.push(0),
            _ => {}
        }
        if !self.woken.is_empty() {
            self.wake_clients(net);
        }
        for vc in std::mem::take(&mut self.left) {
            // The reader looks into replaced memory for the last time.
            self.read(vc, net);
            self.endpoints.remove(&vc);
        }
        for wires in &self.ports {
            net.fills(wires.output);
        }
        if let Some(at) = next {
            self.steps_at(at, net);
        }
    }

    /// Clients that were interrupted will run.
    #[inline(never)]
    fn wake_clients(&mut self, net: &mut Net) {
        let late_ns = match self.options.canary {
            Some(Canary::WakeUpLate) => WAKE_UP_LATE_NS,
            _ => 0,
        };
        let wake_up = Ps::from_ns(self.spec.wake_up_ns + late_ns);
        let mut woken = std::mem::take(&mut self.woken);
        for client in woken.drain(..) {
            if !net.loses(Canary::WakeUpLost) {
                self.wake_client(client, net.now.plus(wake_up), net);
            }
        }
        self.woken = woken;
    }

    /// A client runs at `at`, or when its host lets it.
    pub(crate) fn wake_client(&mut self, client: usize, at: Ps, net: &mut Net) {
        let at = at.max(self.idle_until);
        let woken = &mut self.clients[client];
        if !std::mem::replace(&mut woken.is_woken, true) {
            self.wake_at(client as u32, at, net);
        }
    }

    fn wake_at(&mut self, client: u32, at: Ps, net: &mut Net) {
        self.waking.push((at, client));
        net.later(at, Turn::Client(client), self.id());
    }

    /// A client that was woken runs, unless it has run already.
    fn is_woken(&mut self, client: u32, net: &mut Net) {
        let waking = &mut self.waking;
        if let Some(n) = waking.iter().position(|one| *one == (net.now, client)) {
            waking.swap_remove(n);
            net.reached = net.reached.max(net.now);
            self.client(client as usize, net);
        }
    }

    /// A client reads what its events tell of.
    fn client(&mut self, client: usize, net: &mut Net) {
        if net.now < self.idle_until {
            return self.wake_at(client as u32, self.idle_until, net);
        }
        if self.clients[client].index.is_none() {
            // It has gone, or has died with its adapter.
            self.clients[client].is_woken = false;
            return;
        }
        self.runs += 1;
        self.takes_events(client, net);
        let reader = &mut self.clients[client];
        reader.is_woken = false;
        let lost = reader.has_lost();
        let mut told: Vec<VcId> = Vec::new();
        while let Some(event) = reader.next_event() {
            if tells_of_pdus(&event) && told.last() != Some(&event.vc) {
                told.push(event.vc);
            }
        }
        if lost {
            let own = self.endpoints.values();
            let own = own.filter(|endpoint| endpoint.client == client);
            told = own.map(|endpoint| endpoint.vc).collect();
        }
        for vc in told {
            if self.options.canary != Some(Canary::ReaderDozes) || self.is_of_source(vc, net) {
                self.read(vc, net);
            }
        }
    }

    /// Whether a source sends PDUs on a VC.
    fn is_of_source(&self, vc: VcId, net: &Net) -> bool {
        let endpoint = self.endpoints.get(&vc);
        let connection = endpoint.map(|endpoint| endpoint.connection as usize);
        connection.is_some_and(|connection| net.plan.connections[connection].sender.is_some())
    }

    /// Reads all that one VC has.
    pub(crate) fn read(&mut self, vc: VcId, net: &mut Net) {
        let Some(endpoint) = self.endpoints.get_mut(&vc) else {
            return;
        };
        let connection = endpoint.connection;
        let time = Time::from_ns(net.now.ns().saturating_add(self.clock_ns));
        let reader = self.holders.get(&connection).copied();
        let mut has_given_back = false;
        while let Some(found) = endpoint.next(&net.content) {
            self.counts.across += u64::from(found.across);
            self.counts.receive_wraps += u64::from(endpoint.came_round());
            let player = self.players.get_mut(&connection);
            let number = match player {
                Some(player) => reads(player, endpoint, &found, (time, &mut *net)),
                None => found.number,
            };
            // A PDU that the library dismisses is as good as lost.
            let is_dismissed =
                number.is_some() && reader.is_some_and(|n| !self.applications[n].takes(&found.pdu));
            net.tell(Fact::Read(Read {
                connection,
                number,
                cells: found.cells,
                len: found.len,
                tagged: found.tagged,
                is_dismissed,
            }));
            if let Some(pdu) = number {
                net.mix(net.now, u64::from(connection) << 40 ^ pdu);
            }
            if self.options.canary == Some(Canary::ReaderKeeps) {
                continue;
            }
            if let Err(text) = endpoint.is_judged_by(&mut self.judge) {
                net.violate("I5", text);
            }
            endpoint.release(found);
            has_given_back = true;
        }
        if has_given_back {
            self.gives_back(vc);
            self.player_looks(connection, Ps::ZERO, net);
        }
    }

    /// A writer hands an SDU over, if one is due.
    fn submits(&mut self, n: u32, net: &mut Net) {
        let due = self.writers.get(&n).and_then(Source::due);
        if due.is_none_or(|due| due > net.now) {
            // Its timer has fired before, and it has another.
            return;
        }
        let Some(mut source) = self.writers.remove(&n) else {
            return;
        };
        let connection = source.connection;
        self.catch_up(net);
        let number = source.begun;
        let len = source.sdu_len(number);
        match self.gate(n, &source, net) {
            Gate::SuspendedUntil(until) => {
                net.log.seen.add("writer", "suspended", 1);
                source.suspend(self.instant(until));
            }
            Gate::Open if self.submit(connection, Sdu::Numbered(&net.content, number, len)) => {
                self.has_sent(connection, number, len, net);
                source.submitted();
                if net.plan.connections[connection as usize].is_open || self.serves(connection) {
                    net.tell(Fact::Sent {
                        connection,
                        pdu: number,
                    });
                }
            }
            Gate::Open | Gate::Shut => source.postpone(),
        }
        if let Some(due) = source.due() {
            net.later(due, Turn::Source(n), self.id());
        }
        self.writers.insert(n, source);
        self.after_step(net);
    }

    /// A source whose SDUs its adapter sends.
    pub(crate) fn writer(&self, n: u32) -> Option<&Source> {
        self.writers.get(&n)
    }
}
