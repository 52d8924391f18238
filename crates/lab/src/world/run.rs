//! The run: events in the order of time, until there are none.

use std::collections::BTreeMap;

use cellgate_core::adapter::VcId;
use cellgate_core::contract::TrafficContract;
use cellgate_core::wire::{CELL_LEN, VpiVci};

use super::build::Options;
use super::canary::Canary;
use super::content::Content;
use super::endpoint::tells_of_pdus;
use super::host::Host;
use super::incident::{Change, Incident};
use super::pdu_counts::PduCounts;
use super::scenario::Scenario;
use super::service::{Gate, Service, ServiceEvent};
use super::source::Source;
use super::switch::Switch;
use super::topology::Place;
use super::trace::Watch;
use super::{CellRef, EventQueue, Line, Ps, Violation};
use crate::Silent;
use crate::memory::RingBug;

/// Of [`Canary::WakeUpLate`].
const WAKE_UP_LATE_NS: u64 = 300_000;

/// Events that nobody is told of.
const EVENTS_UNTOLD: u64 = 1_024;

/// What can happen. At one time in this order, and by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// Something goes wrong, or right again.
    Incident(Incident),
    /// Something happens to servers or applications.
    Service(ServiceEvent),
    /// A cell or an SDU of a source is due.
    Source(u32),
    /// A cell reaches the switch at the end of a line.
    Arrival(u32),
    /// A client of a host runs.
    Client(u32, u32),
    /// A host's adapter takes a step.
    Step(u32),
}

thread_local! {
    /// What no run should know: of [`Canary::RunRemembers`] and [`Canary::RunCounts`].
    static RUNS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Adds something that happened to a hash: what happens at one time to several has no order.
fn mixed(hash: u64, now: Ps, what: u64) -> u64 {
    let mixed = (what ^ now.ps().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash.wrapping_add(mixed ^ mixed >> 32)
}

/// A cell goes onto a line.
fn send(line: &mut Line, ready: Ps, cell: CellRef<'_>, bug: Option<Canary>) {
    let Some(bug) = bug else {
        line.send(ready, cell);
        return;
    };
    let mut cell = cell.octets();
    let strikes = line.counts().sent % 300 == 299;
    match bug {
        Canary::LineLoses if strikes => return line.lose(),
        Canary::LineDamages if strikes => cell[20] ^= 4,
        _ => {}
    }
    line.send(ready, &cell);
    if bug == Canary::LineRepeats && strikes {
        line.repeat();
    }
}

/// A connection in a run.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) name: String,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Its lines, in travel order.
    pub(crate) path: Vec<usize>,
    pub(crate) address: VpiVci,
    pub(crate) contract: TrafficContract,
    pub(crate) is_open: bool,
    /// The source of its PDUs.
    pub(crate) sender: Option<usize>,
    /// Cells that switches have discarded.
    pub(crate) discarded: u64,
    pub(crate) pdus: PduCounts,
}

/// A scenario that runs.
#[derive(Debug)]
pub struct World {
    pub(super) queue: EventQueue<Event>,
    pub(super) now: Ps,
    /// From here on what hosts open themselves is open; servers begin.
    pub(super) hosts_opened: Ps,
    /// From here on everything is open, and the scenario's time counts.
    pub(super) opened: Ps,
    pub(super) lines: Vec<Line>,
    pub(super) places: Vec<Place>,
    pub(super) ports: Vec<Vec<(usize, usize)>>,
    /// Lines to switches whose next arrival is in the queue.
    pub(super) scheduled: Vec<bool>,
    pub(super) switches: Vec<Switch>,
    pub(super) hosts: Vec<Host>,
    pub(super) connections: Vec<Connection>,
    /// What connections are changed to, by the number of the fault.
    pub(super) changes: BTreeMap<u32, Change>,
    pub(super) sources: Vec<Source>,
    /// The latest that has happened.
    pub(super) reached: Ps,
    pub(super) content: Content,
    pub(super) options: Options,
    pub(super) events: u64,
    /// More than can happen.
    pub(super) events_max: u64,
    pub(super) woken: Vec<usize>,
    pub(super) violation: Option<Violation>,
    /// Cells offered to switches, for the canaries.
    pub(super) offered: u64,
    /// Of all that was done, and when.
    pub(super) hash: u64,
    /// When each host's clients run again.
    pub(super) host_stalls: Vec<Ps>,
    /// Servers and applications.
    pub(super) service: Service,
}

impl World {
    /// Puts the first events in.
    pub(super) fn begin(&mut self, scenario: &Scenario) {
        for host in 0..self.hosts.len() {
            self.wake_host(host, Ps::ZERO);
        }
        for n in 0..self.sources.len() {
            if let Some(at) = self.sources[n].due() {
                self.queue.push(at, Event::Source(n as u32));
            }
        }
        self.begin_service(scenario.duration_ns);
        self.schedule_incidents(scenario);
    }

    /// Runs until nothing is left to happen, or more has happened than can.
    pub fn run(&mut self) {
        self.run_watched(0, &mut Watch::of(&mut Silent));
    }

    /// [`World::run`]; tells how many milliseconds of a scenario that is so long have passed, and
    /// what lines have carried.
    pub(super) fn run_watched(&mut self, duration_ns: u64, watch: &mut Watch<'_>) {
        let _ring_bug = RingBug::plant(self.options.ring_bug);
        if self.options.canary == Some(Canary::RunCounts) {
            self.events += RUNS.with(|runs| runs.replace(runs.get() + 1));
        }
        while let Some((at, event)) = self.queue.pop() {
            self.now = at;
            self.events += 1;
            if self.events.is_multiple_of(EVENTS_UNTOLD) {
                let past_ns = at.since(self.opened).ns().min(duration_ns);
                let progress = &mut watch.progress;
                progress.step(past_ns / 1_000_000, duration_ns / 1_000_000);
                if let Some(trace) = &mut watch.trace {
                    self.play(self.has_all_before(at), &mut **trace);
                }
            }
            if self.events > self.events_max {
                let text = format!("{} events, and no end", self.events);
                return self.violate(Violation::new("I18", at, text));
            }
            if !matches!(event, Event::Step(_) | Event::Client(..)) {
                self.reached = self.reached.max(at);
            }
            match event {
                Event::Source(source) => self.source(source as usize),
                Event::Arrival(line) => self.arrivals(line as usize),
                Event::Step(host) => self.step(host as usize),
                Event::Client(host, client) => self.woken(host as usize, client),
                Event::Incident(incident) => self.incident(incident),
                Event::Service(event) => self.service_event(event),
            }
        }
        // Steps that were put forward may have been the last in the queue: they are nothing.
        self.now = self.reached;
        self.queue = EventQueue::default();
    }

    /// Keeps the first thing that is wrong.
    pub(super) fn violate(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// Closes whatever is open.
    pub(super) fn close(&mut self) {
        for host in 0..self.hosts.len() {
            let here = self.hosts[host].by_connection.keys().copied();
            let own = here.filter(|connection| !self.service.serves(host, *connection));
            let mut open: Vec<u32> = own.collect();
            if self.options.canary == Some(Canary::CloseForgotten) {
                open.pop();
            }
            for connection in open {
                self.hosts[host].close(connection);
            }
            self.wake_host(host, self.now);
        }
        self.close_service();
    }

    /// Takes note of something that happened, for the hash.
    pub(super) fn note(&mut self, what: u64) {
        self.hash = mixed(self.hash, self.now, what);
    }

    /// Whether nothing happens before `at`.
    fn is_quiet_until(&self, at: Ps) -> bool {
        self.queue.next_time().is_none_or(|next| at < next)
    }

    /// A source's cells, as long as nothing else happens before.
    fn source(&mut self, n: usize) {
        if self.sources[n].is_by_adapter() {
            return self.submit(n);
        }
        let line = self.sources[n].line;
        let mut now = self.now;
        loop {
            if self.take_cell(n, now) {
                self.announce(line);
            }
            let Some(due) = self.sources[n].due() else {
                return;
            };
            if !self.is_quiet_until(due) {
                self.queue.push(due, Event::Source(n as u32));
                return;
            }
            now = due;
        }
    }

    /// The cell that a source has to send at `at` goes onto its line; whether that was empty.
    #[inline]
    fn take_cell(&mut self, n: usize, at: Ps) -> bool {
        let source = &mut self.sources[n];
        let line = source.line;
        if source.take_cell(&mut self.content) {
            let connection = &mut self.connections[source.connection as usize];
            if connection.is_open {
                connection.pdus.sent(source.sent - 1, at);
            }
        }
        let mut room = [0; CELL_LEN];
        let cell = source.cell(&self.content, &mut room);
        let line = &mut self.lines[line];
        let was_empty = line.in_flight() == 0;
        send(line, at, cell, self.options.canary);
        was_empty
    }

    /// Cells were put on a line: whoever waits at its end is told.
    pub(super) fn announce(&mut self, line: usize) {
        let Some(at) = self.lines[line].next_arrival() else {
            return;
        };
        let place = self.places[line];
        match place {
            Place::Switch { .. } if self.scheduled[line] => {}
            Place::Switch { .. } => {
                self.scheduled[line] = true;
                self.queue.push(at, Event::Arrival(line as u32));
            }
            Place::Host { .. } if self.is_lost(Canary::StepLost) => {}
            Place::Host { host } => self.wake_host(host, at),
        }
    }

    /// Whether this time something is lost that should not be.
    fn is_lost(&mut self, bug: Canary) -> bool {
        if self.options.canary != Some(bug) {
            return false;
        }
        self.offered += 1;
        self.offered % 200 > 100
    }

    /// A host's adapter has something to do at `at`.
    pub(super) fn wake_host(&mut self, host: usize, at: Ps) {
        let node = &mut self.hosts[host];
        // Steps lie on a grid: less than one later it is the same.
        let step = Ps::from_ns(node.spec.step_ns);
        if node.due.is_some_and(|due| due < at.plus(step)) {
            return;
        }
        // Steps that were made up for lie in the past, and so can what they sent.
        let at = node.step_at(at.max(self.now));
        self.step_at(host, at);
    }

    /// A host's adapter takes a step at `at`, if it takes none before.
    fn step_at(&mut self, host: usize, at: Ps) {
        let node = &mut self.hosts[host];
        if node.due.is_none_or(|due| at < due) {
            node.due = Some(at);
            self.queue.push(at, Event::Step(host as u32));
        }
    }

    /// Cells reach a switch, as long as nothing else happens before.
    fn arrivals(&mut self, line: usize) {
        let Place::Switch { switch, input } = self.places[line] else {
            return;
        };
        self.scheduled[line] = false;
        while let Some(at) = self.lines[line].next_arrival() {
            if at > self.now && !self.is_quiet_until(at) {
                self.scheduled[line] = true;
                self.queue.push(at, Event::Arrival(line as u32));
                return;
            }
            let Some(mut flying) = self.lines[line].take(at) else {
                return;
            };
            match self.options.canary {
                Some(Canary::SwitchConfuses) if flying.at.ps() % 97 == 0 => flying.octets[2] ^= 1,
                Some(Canary::SwitchReorders) if flying.at.ps() % 7 == 0 => {
                    self.lines[line].exchange(&mut flying);
                }
                _ => {}
            }
            self.cross((switch, input), flying.at, (&flying.octets).into());
        }
    }

    /// A cell goes through a switch.
    #[inline(always)]
    fn cross(&mut self, (switch, input): (usize, usize), at: Ps, cell: CellRef<'_>) {
        let switch = &mut self.switches[switch];
        let Some(route) = switch.route(input, cell) else {
            return;
        };
        let next = &mut self.lines[route.line as usize];
        let was_empty = next.in_flight() == 0;
        let output = switch.output(route.output);
        if !output.offer(at, route.flow, cell, next) {
            self.connections[route.flow as usize].discarded += 1;
            // Of a train, each at its own time.
            self.hash = mixed(self.hash, at, u64::from(route.flow));
        } else if was_empty {
            self.announce(route.line as usize);
        }
    }

    /// A step of a host's adapter, if it is due.
    fn step(&mut self, host: usize) {
        let now = self.now;
        let node = &mut self.hosts[host];
        if node.due != Some(now) {
            // It was put forward.
            return;
        }
        node.due = None;
        self.reached = self.reached.max(now);
        if node.is_down {
            return;
        }
        let at = node.step_at(now);
        if at > now {
            return self.wake_host(host, at);
        }
        if !node.keeps_up(now) {
            node.catch_up(now, &mut self.lines, &mut self.woken);
        }
        node.step(now, &mut self.lines, &mut self.woken);
        self.after_step(host);
    }

    /// The steps of a host that were left out and made a difference.
    pub(super) fn catch_up(&mut self, host: usize) {
        self.hosts[host].catch_up(self.now, &mut self.lines, &mut self.woken);
    }

    /// What follows from steps of a host: cells on its lines, clients to be run, the next step.
    pub(super) fn after_step(&mut self, host: usize) {
        if !self.hosts[host].answered.is_empty() {
            self.adapter_has_answered(host);
        }
        let next = self.hosts[host].next_step(self.now, &self.lines);
        let node = &self.hosts[host];
        let stats = node.adapter.stats();
        let seen = stats.cells_received ^ stats.events << 24 ^ stats.cells_transmitted << 44;
        let discarded = stats.cells_discarded.total();
        let who = (host as u64) << 56;
        self.note(who ^ seen);
        self.note(who ^ discarded << 1 ^ 1);
        if self.options.canary == Some(Canary::RunRemembers) {
            self.note(RUNS.with(|runs| runs.replace(runs.get() + 1)));
        }
        let panics = self.options.canary == Some(Canary::RunPanics);
        assert!(!panics, "a planted panic");
        if self.options.canary == Some(Canary::WakeUpInvented) {
            self.woken.push(0);
        }
        if !self.woken.is_empty() {
            self.wake_clients(host);
        }
        if !self.hosts[host].left.is_empty() {
            self.read_left(host);
        }
        for port in 0..self.ports[host].len() {
            self.announce(self.ports[host][port].1);
        }
        if let Some(at) = next {
            self.step_at(host, at);
        }
    }

    /// Clients that were interrupted will run.
    #[inline(never)]
    fn wake_clients(&mut self, host: usize) {
        let late_ns = match self.options.canary {
            Some(Canary::WakeUpLate) => WAKE_UP_LATE_NS,
            _ => 0,
        };
        let wake_up = Ps::from_ns(self.hosts[host].spec.wake_up_ns + late_ns);
        let mut woken = std::mem::take(&mut self.woken);
        for client in woken.drain(..) {
            if !self.is_lost(Canary::WakeUpLost) {
                self.wake_client(host, client, self.now.plus(wake_up));
            }
        }
        self.woken = woken;
    }

    /// What is in memory that was replaced is read for the last time.
    fn read_left(&mut self, host: usize) {
        for vc in std::mem::take(&mut self.hosts[host].left) {
            self.read(host, vc);
            self.hosts[host].endpoints.remove(&vc);
        }
    }

    /// A client runs at `at`, or when its host lets it.
    pub(super) fn wake_client(&mut self, host: usize, client: usize, at: Ps) {
        let at = at.max(self.host_stalls[host]);
        let woken = &mut self.hosts[host].clients[client];
        if !std::mem::replace(&mut woken.is_woken, true) {
            self.wake_at(host, client as u32, at);
        }
    }

    fn wake_at(&mut self, host: usize, client: u32, at: Ps) {
        self.hosts[host].waking.push((at, client));
        self.queue.push(at, Event::Client(host as u32, client));
    }

    /// A client that was woken runs, unless it has run already.
    fn woken(&mut self, host: usize, client: u32) {
        let waking = &mut self.hosts[host].waking;
        if let Some(n) = waking.iter().position(|one| *one == (self.now, client)) {
            waking.swap_remove(n);
            self.reached = self.reached.max(self.now);
            self.client(host, client as usize);
        }
    }

    /// A client reads what its events tell of.
    fn client(&mut self, host: usize, client: usize) {
        if self.now < self.host_stalls[host] {
            return self.wake_at(host, client as u32, self.host_stalls[host]);
        }
        let node = &mut self.hosts[host];
        if node.clients[client].index.is_none() {
            // It has gone, or has died with its adapter.
            node.clients[client].is_woken = false;
            return;
        }
        node.runs += 1;
        node.takes_events(self.now, client);
        let reader = &mut node.clients[client];
        reader.is_woken = false;
        let lost = reader.has_lost();
        let mut told: Vec<VcId> = Vec::new();
        while let Some(event) = reader.next_event() {
            if tells_of_pdus(&event) && told.last() != Some(&event.vc) {
                told.push(event.vc);
            }
        }
        if lost {
            let own = node.endpoints.values();
            let own = own.filter(|endpoint| endpoint.client == client);
            told = own.map(|endpoint| endpoint.vc).collect();
        }
        for vc in told {
            if self.options.canary != Some(Canary::ReaderDozes) || self.is_of_source(host, vc) {
                self.read(host, vc);
            }
        }
    }

    /// Whether a source sends PDUs on a VC.
    fn is_of_source(&self, host: usize, vc: VcId) -> bool {
        let endpoint = self.hosts[host].endpoints.get(&vc);
        let connection = endpoint.map(|endpoint| endpoint.connection as usize);
        connection.is_some_and(|connection| self.connections[connection].sender.is_some())
    }

    /// Reads all that one VC has.
    pub(super) fn read(&mut self, host: usize, vc: VcId) {
        let now = self.now;
        let node = &mut self.hosts[host];
        let Some(endpoint) = node.endpoints.get_mut(&vc) else {
            return;
        };
        let number = endpoint.connection;
        let Connection { sender, pdus, .. } = &mut self.connections[number as usize];
        let sender = sender.map(|sender| &self.sources[sender]);
        let mut has_given_back = false;
        while let Some(found) = endpoint.next(&self.content) {
            node.counts.across += u64::from(found.across);
            node.counts.receive_wraps += u64::from(endpoint.came_round());
            pdus.cells += u64::from(found.cells);
            pdus.octets += found.len as u64;
            pdus.tagged += u64::from(found.tagged);
            if let Some(pdu) = found.number {
                if self.service.takes(host, number, &found.pdu) {
                    self.service.has_read(now, number, pdu);
                }
                let len = sender.map(|sender| usize::from(sender.sdu_len(pdu)));
                pdus.misfits += u64::from(len != Some(found.len));
                pdus.found(pdu, now);
                self.hash = mixed(self.hash, now, u64::from(number) << 40 ^ pdu);
            } else {
                pdus.strangers += 1;
            }
            if self.options.canary == Some(Canary::ReaderKeeps) {
                continue;
            }
            let taken = endpoint.is_judged_by(&mut node.judge);
            if let (Err(text), None) = (taken, &node.violation) {
                node.violation = Some(Violation::new("I5", now, text));
            }
            endpoint.release(found);
            has_given_back = true;
        }
        if has_given_back {
            node.gives_back(vc);
        }
    }

    /// A writer hands an SDU over.
    fn submit(&mut self, n: usize) {
        if self.sources[n].due().is_none_or(|due| due > self.now) {
            // Its timer has fired before, and it has another.
            return;
        }
        let connection = self.sources[n].connection;
        let host = self.connections[connection as usize].from;
        self.catch_up(host);
        let number = self.sources[n].begun;
        let len = self.sources[n].sdu_len(number);
        let gate = self.gate(n);
        if let Gate::SuspendedUntil(until) = gate {
            self.sources[n].suspend(self.hosts[host].instant(until));
        } else if gate == Gate::Open
            && self.hosts[host].submit(&self.content, connection, number, len)
        {
            self.has_sent(n, number);
            self.sources[n].submitted();
            let is_served = self.service.serves(host, connection);
            let to = &mut self.connections[connection as usize];
            if to.is_open || is_served {
                to.pdus.sent(number, self.now);
            }
        } else {
            self.sources[n].postpone();
        }
        if let Some(due) = self.sources[n].due() {
            self.queue.push(due, Event::Source(n as u32));
        }
        self.after_step(host);
    }
}
