//! What happens at a time: stalls, crashes, changes, hostile writes; and the healing.

use cellgate_core::adapter::Attachment;
use cellgate_core::queue::Words;

use super::Ps;
use super::canary::Canary;
use super::fault::{FaultSpec, Whom, Whose};
use super::host::{Host, Opening};
use super::log::Fact;
use super::names::Names;
use super::net::{Net, NodeId, Turn};
use super::plan::Plan;
use super::run::World;
use super::scenario::Scenario;

/// So long after the healing everything that conforms arrives.
pub(crate) const SETTLED: Ps = Ps::from_ns(5_000_000);

/// Of [`Canary::StallLasts`].
const STALL_LASTS: Ps = Ps::from_ns(3_000_000);

/// Something that happens to a host, or to all that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Incident {
    /// Its adapter stands still.
    AdapterStall(Ps),
    /// Its clients are not run.
    HostStall(Ps),
    /// Its clients are not interrupted.
    InterruptsLost(Ps),
    /// Its clients run.
    Awake,
    /// Its clock goes forward.
    ClockStep(Ps),
    /// The reader of a connection dies.
    ReaderDies(u32),
    /// Another opens it.
    ReaderOpens(u32),
    /// Its adapter dies.
    AdapterDies,
    AdapterBegins,
    /// The command queue of its adapter is full for so long.
    QueueFills(Ps),
    /// It has room again.
    QueueEmpties,
    /// Its timers fire before their time.
    EarlyTimers,
    /// Somebody opens so many VCs.
    GuestsCome(u16),
    /// They are closed.
    GuestsGo,
    /// A connection gets the contract of a fault.
    Modify(u32),
    /// A connection is lent so many PDUs.
    Lend(u32, u32, Ps),
    /// It has so much memory for its adapter, by a fault.
    MemoryShrinks(u32, u64),
    /// That is over.
    MemoryGrows(u32),
    /// Something becomes of its state directory, by a fault.
    Harm(u32),
    /// It is over.
    HarmEnds(u32),
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
    pub(super) fn plan_incidents(&mut self, scenario: &Scenario) {
        let names = Names::of(scenario);
        let opened = self.net.plan.opened;
        for (n, fault) in (0..).zip(&scenario.faults) {
            let Some((at_ns, for_ns)) = fault.span() else {
                continue;
            };
            let (at, span) = (opened.plus(Ps::from_ns(at_ns)), Ps::from_ns(for_ns));
            let incidents = incidents(&self.net.plan, &names, n, fault, span);
            let Some((host, begin, end)) = incidents else {
                continue;
            };
            self.will_happen(at, begin, host);
            if let Some(end) = end {
                self.will_happen(at.plus(span), end, host);
            }
        }
        let end = opened.plus(Ps::from_ns(scenario.duration_ns));
        self.will_happen(end.plus(SETTLED), Incident::End, NodeId::World);
        if scenario.heal_ns > 0 {
            let heal = opened.plus(Ps::from_ns(scenario.heal_ns));
            self.will_happen(heal, Incident::Heal, NodeId::World);
            self.will_happen(heal.plus(SETTLED), Incident::Settled, NodeId::World);
        }
    }

    fn will_happen(&mut self, at: Ps, incident: Incident, to: NodeId) {
        self.net.later(at, Turn::Incident(incident), to);
    }
}

impl Host {
    /// Something happens to it.
    pub(crate) fn suffers(&mut self, incident: Incident, net: &mut Net) {
        let now = net.now;
        let host = self.number as usize;
        match incident {
            Incident::AdapterStall(span) => {
                let in_all = self.steps.stall(now, span);
                let is_covered = in_all <= Ps::from_ns(self.spec.gap_max_ns);
                if let Some(served) = &mut self.served {
                    served.stood_still(span);
                }
                let until = now.plus(span);
                net.tell(Fact::Stalled {
                    host,
                    until,
                    is_covered,
                });
            }
            Incident::HostStall(span) => {
                let until = self.idle_until.max(now.plus(span));
                self.idle_until = match self.options.canary {
                    Some(Canary::StallLasts) => until.plus(STALL_LASTS),
                    _ => until,
                };
                self.is_disturbed(until, net);
            }
            Incident::InterruptsLost(span) => {
                let until = now.plus(span);
                self.deafen(until);
                net.tell(Fact::HostDisturbed {
                    host,
                    until,
                    sends_too: false,
                });
            }
            Incident::Awake => {
                for client in 0..self.clients.len() {
                    self.unasked += 1;
                    self.wake_client(client, now, net);
                }
            }
            Incident::ClockStep(by) => self.steps_clock(by, net),
            Incident::ReaderDies(connection) => self.close(connection),
            Incident::ReaderOpens(connection) => self.reopen(connection),
            Incident::AdapterDies => {
                self.adapter_dies_of_something_else(net);
                return self.adapter_dies(net);
            }
            Incident::AdapterBegins => return self.adapter_begins(net),
            Incident::QueueFills(span) => return self.fill_queue(now.plus(span)),
            Incident::QueueEmpties => self.empty_queue(now),
            Incident::EarlyTimers => return self.timers_fire(net),
            Incident::GuestsCome(vcs) => self.invite(vcs),
            Incident::GuestsGo => self.show_out(),
            Incident::Modify(fault) => {
                if let Some(change) = self.changes.get(&fault).copied() {
                    self.modify(now, change.opening, change.memory);
                }
            }
            Incident::Lend(connection, pdus, span) => self.lend(connection, pdus, span.ns()),
            Incident::MemoryShrinks(fault, octets) => self.memory_shrinks(fault, octets, net),
            Incident::MemoryGrows(fault) => self.memory_grows(fault, net),
            Incident::Harm(fault) => self.places_are_harmed(fault, true, net),
            Incident::HarmEnds(fault) => self.places_are_harmed(fault, false, net),
            Incident::Write(connection, whose, word, value) => {
                if !self.write(connection, whose, word, value) {
                    return;
                }
            }
            Incident::Heal | Incident::Settled | Incident::End => {}
        }
        let is_told = matches!(
            incident,
            Incident::ReaderDies(_)
                | Incident::ReaderOpens(_)
                | Incident::QueueEmpties
                | Incident::GuestsCome(_)
                | Incident::GuestsGo
                | Incident::Modify(_)
                | Incident::Lend(..)
                | Incident::Write(..)
        );
        if is_told {
            self.wakes(now, net);
        }
    }

    /// Until then something can cost PDUs that it sends or receives.
    pub(crate) fn is_disturbed(&self, until: Ps, net: &mut Net) {
        net.tell(Fact::HostDisturbed {
            host: self.number as usize,
            until,
            sends_too: true,
        });
    }

    pub(crate) fn adapter_dies(&mut self, net: &mut Net) {
        if !self.is_down {
            self.crash();
            self.keeper_is_lost(net);
        }
    }

    /// Another begins, if there is none.
    pub(crate) fn adapter_begins(&mut self, net: &mut Net) {
        if !self.is_down {
            return;
        }
        if let Err(refusal) = self.restart(net) {
            net.violate("I19", format!("an adapter does not begin again: {refusal}"));
        }
        self.wakes(net.now.plus(Ps::new(1)), net);
        self.keeper_is_there(net);
    }

    /// Its timers fire, and nothing is due: whoever waits looks, and waits on.
    fn timers_fire(&mut self, net: &mut Net) {
        self.wakes(net.now, net);
        self.server_timer_fires(net);
        for (n, source) in &mut self.writers {
            let Some(until) = source.suspended().filter(|until| *until > net.now) else {
                continue;
            };
            self.early.insert(*n, until);
            source.wakes(net.now);
            net.later(net.now, Turn::Source(*n), NodeId::Host(self.number));
        }
    }

    /// Its clock goes forward; what its adapter did until then it did by the old one.
    fn steps_clock(&mut self, by: Ps, net: &mut Net) {
        self.catch_up(net);
        self.step_clock(by.ns());
        net.log.audit(self.number).clock_has_stepped();
        let host = self.number as usize;
        net.tell(Fact::ClockStepped { host });
        self.after_step(net);
        self.wakes(net.now, net);
        self.streams_look(net);
    }

    /// A client writes into memory of its own, if it has that.
    fn write(&mut self, connection: u32, whose: Whose, word: u64, value: u64) -> bool {
        let vc = self.by_connection.get(&connection);
        let Some(endpoint) = vc.and_then(|vc| self.endpoints.get(vc)) else {
            return false;
        };
        let memory = if whose.is_clients() {
            let client = &mut self.clients[endpoint.client];
            client.is_lawless = true;
            client.memory.from_client()
        } else {
            &endpoint.from_client
        };
        let words = (memory.len() / 8) as u64;
        memory.store((word % words.max(1)) as usize * 8, value);
        if self.options.canary == Some(Canary::WriteSpills) {
            let mut others = self.endpoints.values();
            if let Some(other) = others.find(|other| !other.is_lawless) {
                let words = (other.from_client.len() / 8) as u64;
                let at = (word % words.max(1)) as usize * 8;
                other.from_client.store(at, value);
            }
        }
        true
    }
}

/// To whom fault `n` happens, and what its beginning and its end mean; none: it happens to a cell,
/// or strikes when a server opens something.
fn incidents(
    plan: &Plan,
    names: &Names<'_>,
    n: u32,
    fault: &FaultSpec,
    span: Ps,
) -> Option<(NodeId, Incident, Option<Incident>)> {
    let of = match fault.whom() {
        Whom::Host(_) | Whom::Link(_) | Whom::Ring(_) | Whom::Station(_) => 0,
        Whom::Connection(connection) => names.connection(connection) as u32,
    };
    let sends = match fault {
        FaultSpec::Modify { sender, .. } => *sender,
        FaultSpec::Write { whose, .. } => whose.sends(),
        _ => false,
    };
    let host = match fault.whom() {
        Whom::Host(host) => names.host(host),
        Whom::Connection(_) if sends => plan.connections[of as usize].from,
        Whom::Connection(_) => plan.connections[of as usize].to,
        Whom::Link(_) | Whom::Ring(_) | Whom::Station(_) => return None,
    };
    let begin = match *fault {
        FaultSpec::Cell { .. }
        | FaultSpec::Swap { .. }
        | FaultSpec::Kills { .. }
        | FaultSpec::Slot { .. }
        | FaultSpec::Ring { .. }
        | FaultSpec::Station { .. }
        | FaultSpec::Messages { .. } => return None,
        FaultSpec::AdapterStall { .. } => Incident::AdapterStall(span),
        FaultSpec::HostStall { .. } => Incident::HostStall(span),
        FaultSpec::InterruptsLost { .. } => Incident::InterruptsLost(span),
        FaultSpec::SpuriousWakeUp { .. } => Incident::Awake,
        FaultSpec::ClockStep { by_ns, .. } => Incident::ClockStep(Ps::from_ns(by_ns)),
        FaultSpec::ReaderCrash { .. } => Incident::ReaderDies(of),
        FaultSpec::AdapterCrash { .. } => Incident::AdapterDies,
        FaultSpec::CommandQueueFull { .. } => Incident::QueueFills(span),
        FaultSpec::EarlyTimers { .. } => Incident::EarlyTimers,
        FaultSpec::Guests { vcs, .. } => Incident::GuestsCome(vcs),
        FaultSpec::MemoryLimit { octets, .. } => Incident::MemoryShrinks(n, octets),
        FaultSpec::StateDirectory { .. } => Incident::Harm(n),
        FaultSpec::Modify { .. } => Incident::Modify(n),
        FaultSpec::Lend { pdus, for_ns, .. } => Incident::Lend(of, pdus, Ps::from_ns(for_ns)),
        FaultSpec::Write {
            whose, word, value, ..
        } => Incident::Write(of, whose, word, value),
    };
    let end = match begin {
        Incident::InterruptsLost(_) => Some(Incident::Awake),
        Incident::ReaderDies(_) => Some(Incident::ReaderOpens(of)),
        Incident::AdapterDies => Some(Incident::AdapterBegins),
        Incident::QueueFills(_) => Some(Incident::QueueEmpties),
        Incident::GuestsCome(_) => Some(Incident::GuestsGo),
        Incident::MemoryShrinks(..) => Some(Incident::MemoryGrows(n)),
        Incident::Harm(_) => Some(Incident::HarmEnds(n)),
        _ => None,
    };
    Some((NodeId::Host(host as u32), begin, end))
}
