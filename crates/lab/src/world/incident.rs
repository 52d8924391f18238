//! What happens at a time: stalls, crashes, changes, hostile writes; and the healing.

use cellgate_core::adapter::Attachment;
use cellgate_core::queue::Words;

use super::canary::Canary;
use super::fault::{FaultSpec, Whom, Whose};
use super::host::Opening;
use super::names::Names;
use super::run::{Connection, Event, World};
use super::scenario::Scenario;
use super::{Ps, Violation};

/// So long after the healing everything that conforms arrives.
pub(crate) const SETTLED: Ps = Ps::from_ns(5_000_000);

/// Of [`Canary::StallLasts`].
const STALL_LASTS: Ps = Ps::from_ns(3_000_000);

/// Something that happens to hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Incident {
    /// An adapter stands still.
    AdapterStall(u32, Ps),
    /// A host's clients are not run.
    HostStall(u32, Ps),
    /// A host's clients are not interrupted.
    InterruptsLost(u32, Ps),
    /// A host's clients run.
    Awake(u32),
    /// A host's clock goes forward.
    ClockStep(u32, Ps),
    /// The reader of a connection dies.
    ReaderDies(u32),
    /// Another opens it.
    ReaderOpens(u32),
    /// A host's adapter dies.
    AdapterDies(u32),
    AdapterBegins(u32),
    /// The command queue of a host's adapter is full for so long.
    QueueFills(u32, Ps),
    /// It has room again.
    QueueEmpties(u32),
    /// A host's timers fire before their time.
    EarlyTimers(u32),
    /// Somebody opens so many VCs at a host.
    GuestsCome(u32, u16),
    /// They are closed.
    GuestsGo(u32),
    /// A connection gets the contract of a fault.
    Modify(u32),
    /// A connection is lent so many PDUs.
    Lend(u32, u32, Ps),
    /// A host has so much memory for its adapter, by a fault.
    MemoryShrinks(u32, u32, u64),
    /// That is over.
    MemoryGrows(u32, u32),
    /// Something becomes of a host's state directory, by a fault.
    Harm(u32, u32),
    /// It is over.
    HarmEnds(u32, u32),
    /// A client of a connection writes a word of its own memory.
    Write(u32, Whose, u64, u64),
    /// From here on nothing goes wrong.
    Heal,
    /// From here on everything has to be right again.
    Settled,
    /// What was sent has arrived: a run ends here.
    End,
}

/// What a connection is changed to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) host: usize,
    pub(crate) opening: Opening,
    /// It gets new memory.
    pub(crate) memory: bool,
}

impl Change {
    /// From then on its reader is promised nothing.
    pub(crate) fn is_best_effort(&self) -> bool {
        let receive = self.opening.request.receive;
        receive.is_some_and(|receive| !receive.guaranteed)
    }
}

impl World {
    pub(super) fn schedule_incidents(&mut self, scenario: &Scenario) {
        let names = Names::of(scenario);
        for (n, fault) in (0..).zip(&scenario.faults) {
            let Some((at_ns, for_ns)) = fault.span() else {
                continue;
            };
            let (at, span) = (self.opened.plus(Ps::from_ns(at_ns)), Ps::from_ns(for_ns));
            let Some((begin, end)) = incidents(&names, n, fault, span) else {
                continue;
            };
            self.plan(at, begin);
            if let Some(end) = end {
                self.plan(at.plus(span), end);
            }
        }
        let end = self.opened.plus(Ps::from_ns(scenario.duration_ns));
        let end = end.plus(SETTLED);
        self.plan(end, Incident::End);
        if scenario.heal_ns > 0 {
            let heal = self.opened.plus(Ps::from_ns(scenario.heal_ns));
            self.plan(heal, Incident::Heal);
            let settled = heal.plus(SETTLED);
            self.plan(settled, Incident::Settled);
        }
    }

    fn plan(&mut self, at: Ps, incident: Incident) {
        self.queue.push(at, Event::Incident(incident));
    }

    pub(super) fn incident(&mut self, incident: Incident) {
        match incident {
            Incident::AdapterStall(host, span) => {
                let node = &mut self.hosts[host as usize];
                let in_all = node.stall(self.now, span);
                let is_covered = in_all <= Ps::from_ns(node.spec.gap_max_ns);
                self.adapter_is_stalled(host as usize, span, is_covered);
            }
            Incident::HostStall(host, span) => {
                let until = &mut self.host_stalls[host as usize];
                *until = (*until).max(self.now.plus(span));
                let told = *until;
                if self.options.canary == Some(Canary::StallLasts) {
                    *until = until.plus(STALL_LASTS);
                }
                self.host_is_disturbed(host as usize, told);
            }
            Incident::InterruptsLost(host, span) => {
                let until = self.now.plus(span);
                self.hosts[host as usize].deafen(until);
                self.host_is_deaf(host as usize, until);
            }
            Incident::Awake(host) => self.awake(host as usize),
            Incident::ClockStep(host, by) => self.step_clock(host as usize, by),
            Incident::ReaderDies(connection) => {
                let host = self.connections[connection as usize].to;
                self.hosts[host].close(connection);
                self.wake_host(host, self.now);
            }
            Incident::ReaderOpens(connection) => {
                let host = self.connections[connection as usize].to;
                self.hosts[host].reopen(connection);
                self.wake_host(host, self.now);
            }
            Incident::AdapterDies(host) => {
                self.adapter_dies_of_something_else(host as usize);
                self.adapter_dies(host as usize);
            }
            Incident::AdapterBegins(host) => self.adapter_begins(host as usize),
            Incident::QueueFills(host, span) => {
                self.hosts[host as usize].fill_queue(self.now.plus(span));
            }
            Incident::QueueEmpties(host) => {
                self.hosts[host as usize].empty_queue(self.now);
                self.wake_host(host as usize, self.now);
            }
            Incident::EarlyTimers(host) => self.timers_fire(host as usize),
            Incident::GuestsCome(host, vcs) => {
                self.hosts[host as usize].invite(vcs);
                self.wake_host(host as usize, self.now);
            }
            Incident::GuestsGo(host) => {
                self.hosts[host as usize].show_out();
                self.wake_host(host as usize, self.now);
            }
            Incident::Modify(fault) => {
                if let Some(Change {
                    host,
                    opening,
                    memory,
                }) = self.changes.get(&fault).copied()
                {
                    self.hosts[host].modify(self.now, opening, memory);
                    self.wake_host(host, self.now);
                }
            }
            Incident::Lend(connection, pdus, span) => {
                let host = self.connections[connection as usize].to;
                self.hosts[host].lend(connection, pdus, span.ns());
                self.wake_host(host, self.now);
            }
            Incident::MemoryShrinks(host, fault, octets) => {
                self.memory_shrinks(host as usize, fault, octets);
            }
            Incident::MemoryGrows(host, fault) => self.memory_grows(host as usize, fault),
            Incident::Harm(host, fault) => self.places_are_harmed(host as usize, fault, true),
            Incident::HarmEnds(host, fault) => self.places_are_harmed(host as usize, fault, false),
            Incident::Write(connection, whose, word, value) => {
                self.write(connection, whose, word, value);
            }
            Incident::Heal => {
                if self.options.canary != Some(Canary::HealForgotten) {
                    self.lines.iter_mut().for_each(super::Line::heal);
                }
            }
            Incident::End => {}
            Incident::Settled => self.settled(),
        }
    }

    fn settled(&mut self) {
        for n in 0..self.connections.len() {
            let sender = self.connections[n].sender;
            let begun = sender.map_or(0, |sender| self.sources[sender].begun);
            let no_room = self.found_no_room(&self.connections[n]);
            self.connections[n].pdus.settle(begun, no_room);
        }
    }

    pub(super) fn adapter_dies(&mut self, host: usize) {
        if !self.hosts[host].is_down {
            self.hosts[host].crash();
            self.service_loses_adapter(host);
        }
    }

    /// Another begins, if there is none.
    pub(super) fn adapter_begins(&mut self, host: usize) {
        if !self.hosts[host].is_down {
            return;
        }
        if let Err(refusal) = self.hosts[host].restart(self.now, &mut self.lines) {
            let text = format!("an adapter does not begin again: {refusal}");
            self.violate(Violation::new("I19", self.now, text));
        }
        self.hosts[host].due = None;
        self.wake_host(host, self.now.plus(Ps::new(1)));
        self.service_finds_adapter(host);
    }

    /// All clients of a host run, for no reason.
    fn awake(&mut self, host: usize) {
        for client in 0..self.hosts[host].clients.len() {
            self.hosts[host].unasked += 1;
            self.wake_client(host, client, self.now);
        }
    }

    /// Timers of a host fire, and nothing is due: whoever waits looks, and waits on.
    fn timers_fire(&mut self, host: usize) {
        self.wake_host(host, self.now);
        self.server_timer_fires(host);
        for n in 0..self.sources.len() {
            let from = self.connections[self.sources[n].connection as usize].from;
            let Some(until) = self.sources[n].suspended().filter(|_| from == host) else {
                continue;
            };
            if until > self.now {
                self.writer_wakes_early(n, until);
                self.sources[n].wakes(self.now);
                self.queue.push(self.now, Event::Source(n as u32));
            }
        }
    }

    /// A host's clock goes forward; what its adapter did until then it did by the old one.
    fn step_clock(&mut self, host: usize, by: Ps) {
        self.catch_up(host);
        self.hosts[host].step_clock(by.ns());
        self.clock_has_stepped(host);
        self.after_step(host);
        self.wake_host(host, self.now);
    }

    fn write(&mut self, connection: u32, whose: Whose, word: u64, value: u64) {
        let Connection { from, to, .. } = self.connections[connection as usize];
        let host = if whose.sends() { from } else { to };
        let node = &mut self.hosts[host];
        let vc = node.by_connection.get(&connection);
        let Some(endpoint) = vc.and_then(|vc| node.endpoints.get(vc)) else {
            return;
        };
        let memory = if whose.is_clients() {
            node.clients[endpoint.client].is_lawless = true;
            node.clients[endpoint.client].memory.from_client()
        } else {
            &endpoint.from_client
        };
        let words = (memory.len() / 8) as u64;
        memory.store((word % words.max(1)) as usize * 8, value);
        if self.options.canary == Some(Canary::WriteSpills) {
            let mut others = node.endpoints.values();
            if let Some(other) = others.find(|other| !other.is_lawless) {
                let words = (other.from_client.len() / 8) as u64;
                let at = (word % words.max(1)) as usize * 8;
                other.from_client.store(at, value);
            }
        }
        self.wake_host(host, self.now);
    }
}

/// What the beginning and the end of fault `n` mean; none: it happens to a cell, or strikes when a
/// server opens something.
fn incidents(
    names: &Names<'_>,
    n: u32,
    fault: &FaultSpec,
    span: Ps,
) -> Option<(Incident, Option<Incident>)> {
    let who = match fault.whom() {
        Whom::Host(host) => names.host(host),
        Whom::Connection(connection) => names.connection(connection),
        Whom::Link(_) => return None,
    } as u32;
    let begin = match *fault {
        FaultSpec::Cell { .. } | FaultSpec::Swap { .. } | FaultSpec::Kills { .. } => return None,
        FaultSpec::AdapterStall { .. } => Incident::AdapterStall(who, span),
        FaultSpec::HostStall { .. } => Incident::HostStall(who, span),
        FaultSpec::InterruptsLost { .. } => Incident::InterruptsLost(who, span),
        FaultSpec::SpuriousWakeUp { .. } => Incident::Awake(who),
        FaultSpec::ClockStep { by_ns, .. } => Incident::ClockStep(who, Ps::from_ns(by_ns)),
        FaultSpec::ReaderCrash { .. } => Incident::ReaderDies(who),
        FaultSpec::AdapterCrash { .. } => Incident::AdapterDies(who),
        FaultSpec::CommandQueueFull { .. } => Incident::QueueFills(who, span),
        FaultSpec::EarlyTimers { .. } => Incident::EarlyTimers(who),
        FaultSpec::Guests { vcs, .. } => Incident::GuestsCome(who, vcs),
        FaultSpec::MemoryLimit { octets, .. } => Incident::MemoryShrinks(who, n, octets),
        FaultSpec::StateDirectory { .. } => Incident::Harm(who, n),
        FaultSpec::Modify { .. } => Incident::Modify(n),
        FaultSpec::Lend { pdus, for_ns, .. } => Incident::Lend(who, pdus, Ps::from_ns(for_ns)),
        FaultSpec::Write {
            whose, word, value, ..
        } => Incident::Write(who, whose, word, value),
    };
    let end = match begin {
        Incident::InterruptsLost(..) => Some(Incident::Awake(who)),
        Incident::ReaderDies(_) => Some(Incident::ReaderOpens(who)),
        Incident::AdapterDies(_) => Some(Incident::AdapterBegins(who)),
        Incident::QueueFills(..) => Some(Incident::QueueEmpties(who)),
        Incident::GuestsCome(..) => Some(Incident::GuestsGo(who)),
        Incident::MemoryShrinks(..) => Some(Incident::MemoryGrows(who, n)),
        Incident::Harm(..) => Some(Incident::HarmEnds(who, n)),
        _ => None,
    };
    Some((begin, end))
}
