//! Coverage marks: what random scenarios are to have reached, each counted from what a run has left
//! behind. The adapter knows nothing of them.

use cellgate_core::adapter::{
    AdapterStats, Attachment, Discard, EventKind, Excess, Notification, VcStats,
};
use cellgate_core::contract::{Aal, Excess as Beyond, Police, TrafficContract};
use cellgate_core::queue::{Words, layout::attachment};
use serde::Serialize;

use super::LineCounts;
use super::endpoint::DOORBELL_SLOTS;
use super::fault::{FaultSpec, Whose};
use super::host::{Host, HostCounts, RestCounts};
use super::run::{Connection, World};
use super::scenario::Scenario;

/// One thing that a run may reach, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// What kind of thing.
    pub group: &'static str,
    pub name: &'static str,
    /// How often it was reached.
    pub count: u64,
}

/// Contracts of a kind.
type Kind = (&'static str, fn(&TrafficContract) -> bool);

/// All marks of a run, those never reached too: of servers if it has any, else of a world without.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Marks(Vec<Mark>);

impl Marks {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Mark> {
        self.0.iter()
    }

    /// Those that were never reached.
    pub fn missing(&self) -> impl Iterator<Item = &Mark> {
        self.0.iter().filter(|mark| mark.count == 0)
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        for (n, more) in other.0.iter().enumerate() {
            let is_it = |mark: &Mark| (mark.group, mark.name) == (more.group, more.name);
            // Runs of one kind have the same ones, mostly in the same places.
            let at = match self.0.get(n) {
                Some(mark) if is_it(mark) => Some(n),
                _ => self.0.iter().position(is_it),
            };
            match at {
                Some(at) => self.0[at].count += more.count,
                None => self.0.push(*more),
            }
        }
    }

    fn push(&mut self, group: &'static str, name: &'static str, count: u64) {
        self.0.push(Mark { group, name, count });
    }

    /// The marks of a world that has run to its end.
    pub(crate) fn of(world: &World, scenario: &Scenario) -> Self {
        let mut marks = Self::default();
        if !world.service.is_empty() {
            let discarded = |reason: Discard| {
                let count = |stats: &AdapterStats| stats.cells_discarded.of(reason);
                (reason, adapters(world, count))
            };
            let reached = world.service.reached(Discard::ALL.map(discarded));
            for (group, name, count) in reached {
                marks.push(group, name, count);
            }
            marks.beside(world, scenario);
            marks.rests(world);
            return marks;
        }
        marks.discards(world);
        marks.faults(world, scenario);
        marks.states(world);
        marks.wraps(world, scenario);
        marks.traffic(world, scenario);
        marks.rests(world);
        marks
    }

    /// Where adapters rest, how often, and what has ended that.
    fn rests(&mut self, world: &World) {
        if !world.hosts.iter().any(|node| node.spec.rests) {
            return;
        }
        let kinds: [Count<RestCounts>; 7] = [
            ("rested", |counts| counts.rests),
            ("ended_by_cell", |counts| counts.cell),
            ("ended_by_doorbell", |counts| counts.doorbell),
            ("ended_by_command", |counts| counts.command),
            ("ended_when_due", |counts| counts.due),
            ("ended_by_shaping", |counts| counts.shaped),
            ("looked_while_held", |counts| counts.held),
        ];
        for (name, count) in kinds {
            let hosts = world.hosts.iter();
            let reached = hosts.map(|node| count(&node.rests())).sum();
            self.push("rest", name, reached);
        }
    }

    fn discards(&mut self, world: &World) {
        for reason in Discard::ALL {
            let count = |stats: &AdapterStats| stats.cells_discarded.of(reason);
            self.push("discarded", reason.name(), adapters(world, count));
        }
        let overflowed = hosts(world, |counts| counts.overflowed);
        self.push("discarded", "receive_fifo", overflowed);
        let switches = world.switches.iter();
        let full = switches.clone().flat_map(super::Switch::counts);
        self.push(
            "discarded",
            "switch",
            full.map(|counts| counts.discarded).sum(),
        );
        let unrouted = switches.map(super::Switch::unrouted).sum();
        self.push("discarded", "no_route", unrouted);
    }

    /// What happens beside servers, of which these know nothing.
    fn beside(&mut self, world: &World, scenario: &Scenario) {
        self.strangers("beside", world);
        self.push("beside", "lent", vcs(world, |stats| stats.pdus_lent));
        self.push("beside", "tagged", vcs(world, |stats| stats.pdus_tagged));
        let told = |name: &str| ["spurious_wake_up", "clock_step"].contains(&name);
        self.planned("beside", scenario, told);
        self.kept(world);
    }

    /// PDUs that servers at both ends have promised, and that have come.
    fn kept(&mut self, world: &World) {
        let count = |is: &dyn Fn(&Connection) -> bool| -> u64 {
            let all = world.connections.iter().enumerate();
            let of = all.filter(|(_, connection)| is(connection));
            of.map(|(n, _)| world.service.kept(n as u32)).sum()
        };
        let of_contracts: [Kind; 6] = [
            ("aal0", |contract| contract.aal == Some(Aal::Aal0)),
            ("aal34", |contract| contract.aal == Some(Aal::Aal34)),
            ("tag", |contract| contract.excess == Beyond::Tag),
            ("when_idle", |contract| contract.excess == Beyond::WhenIdle),
            ("police_buffer", |contract| {
                contract.police == Some(Police::Buffer)
            }),
            ("police_cell", |contract| {
                contract.police == Some(Police::Cell)
            }),
        ];
        for (name, is) in of_contracts {
            self.push("kept", name, count(&|connection| is(&connection.contract)));
        }
        let bursts = |connection: &Connection| {
            let sender = connection.sender.and_then(|n| world.sources.get(n));
            sender.is_some_and(|sender| sender.steady().is_none())
        };
        self.push("kept", "bursts", count(&bursts));
        let best_effort = world.service.kept_as_best_effort();
        self.push("kept", "best_effort", best_effort);
    }

    fn faults(&mut self, world: &World, scenario: &Scenario) {
        let of_lines: [Count<LineCounts>; 4] = [
            ("lost", |counts| counts.faults.lost),
            ("duplicated", |counts| counts.faults.duplicated),
            ("header_error", |counts| counts.faults.header_errors),
            ("payload_error", |counts| counts.faults.payload_errors),
        ];
        for (name, count) in of_lines {
            self.push("fault", name, lines(world, count));
        }
        self.strangers("fault", world);
        let of_hosts: [Count<HostCounts>; 2] = [
            ("died_while_changing", |counts| counts.put_off),
            ("command_waited", |counts| counts.waited),
        ];
        for (name, count) in of_hosts {
            self.push("fault", name, hosts(world, count));
        }
        self.planned("fault", scenario, |_| true);
    }

    /// What is nobody's, or not where or when it belongs.
    fn strangers(&mut self, group: &'static str, world: &World) {
        let of_lines: [Count<LineCounts>; 3] = [
            ("inserted", |counts| counts.faults.inserted),
            ("held", |counts| counts.held),
            ("overtaken", |counts| counts.swapped),
        ];
        for (name, count) in of_lines {
            self.push(group, name, lines(world, count));
        }
        let of_hosts: [Count<HostCounts>; 3] = [
            ("interrupt_lost", |counts| counts.unheard),
            ("guest", |counts| counts.guests),
            ("no_room_for_guest", |counts| counts.turned_away),
        ];
        for (name, count) in of_hosts {
            self.push(group, name, hosts(world, count));
        }
        let doorbells = adapters(world, |stats| stats.doorbell_faults);
        self.push(group, "bad_doorbell", doorbells);
        let faults = vcs(world, |stats| stats.client_faults);
        self.push(group, "bad_index_or_sdu", faults);
    }

    /// Faults of the kinds that a scenario names.
    fn planned(&mut self, group: &'static str, scenario: &Scenario, of: fn(&str) -> bool) {
        for (name, kind) in KINDS.iter().filter(|(name, _)| of(name)) {
            let of_kind = scenario.faults.iter().filter(|fault| kind(fault));
            self.push(group, name, of_kind.count() as u64);
        }
    }

    fn states(&mut self, world: &World) {
        self.push("state", "lent", vcs(world, |stats| stats.pdus_lent));
        self.push("state", "tagged", vcs(world, |stats| stats.pdus_tagged));
        self.push(
            "state",
            "answered",
            adapters(world, |stats| stats.cells_answered),
        );
        self.push("state", "modified", hosts(world, |counts| counts.modified));
        self.push(
            "state",
            "memory_replaced",
            hosts(world, |counts| counts.replaced),
        );
        let lost = adapters(world, |stats| stats.events_lost);
        self.push("event", "queue_full", lost);
        for (name, kind) in [
            ("pdu_received", EventKind::PduReceived),
            ("receive_queue_full", EventKind::ReceiveQueueFull),
            ("transmit_completed", EventKind::TransmitCompleted),
        ] {
            let clients = world.hosts.iter().flat_map(|node| &node.clients);
            let seen = clients.map(|client| client.seen[kind as usize]).sum();
            self.push("event", name, seen);
        }
    }

    fn wraps(&mut self, world: &World, scenario: &Scenario) {
        self.push(
            "wrap",
            "receive_queue",
            hosts(world, |counts| counts.receive_wraps),
        );
        self.push(
            "wrap",
            "receive_buffer",
            hosts(world, |counts| counts.across),
        );
        self.push(
            "wrap",
            "transmit_queue",
            hosts(world, |counts| counts.transmit_wraps),
        );
        let clients = world.hosts.iter().flat_map(|node| {
            let slots = node.spec.event_slots;
            node.clients.iter().map(move |client| (client, slots))
        });
        let (mut events, mut doorbells) = (0, 0);
        for (client, slots) in clients {
            let words = client.memory.from_adapter();
            events += u64::from(words.load(attachment::EVENT_HEAD) > slots.into());
            doorbells += u64::from(words.load(attachment::DOORBELL_TAIL) > DOORBELL_SLOTS.into());
        }
        self.push("wrap", "event_queue", events);
        self.push("wrap", "doorbells", doorbells);
        for (name, bits) in [("clock_2_32", 32), ("clock_2_48", 48)] {
            let hosts = scenario.hosts.iter().zip(&world.hosts);
            let passed = hosts.filter(|(spec, node)| {
                let at = 1_u64 << bits;
                spec.clock_ns < at && node.time(world.now).ns() >= at
            });
            self.push("wrap", name, passed.count() as u64);
        }
    }

    fn traffic(&mut self, world: &World, scenario: &Scenario) {
        for (name, aal) in [
            ("aal0", Aal::Aal0),
            ("aal34", Aal::Aal34),
            ("aal5", Aal::Aal5),
        ] {
            let of_aal = world.connections.iter();
            let of_aal = of_aal.filter(|connection| connection.contract.aal == Some(aal));
            let read = of_aal.map(|connection| connection.pdus.delivered).sum();
            self.push("read", name, read);
        }
        for (name, is) in NOTIFICATIONS {
            let pairs = scenario.connections.iter().zip(&world.connections);
            let told = pairs.filter(|(spec, _)| is(&spec.notification));
            let read = told.map(|(_, connection)| connection.pdus.delivered).sum();
            self.push("told_by", name, read);
        }
        for (name, is) in EXCESSES {
            let openings = world.hosts.iter().flat_map(Host::openings);
            let count = openings.filter(|opening| {
                let excess = opening.request.receive.map(|receive| receive.excess);
                excess.is_some_and(|excess| is(&excess))
            });
            self.push("excess", name, count.count() as u64);
        }
        let sent = adapters(world, |stats| stats.cells_transmitted);
        self.push("sent_by", "adapter", sent);
        let waited = world.sources.iter().map(|source| source.waited).sum();
        self.push("sent_by", "adapter_after_waiting", waited);
    }
}

type Count<T> = (&'static str, fn(&T) -> u64);
type Is<T> = (&'static str, fn(&T) -> bool);

const KINDS: [Is<FaultSpec>; 12] = [
    ("adapter_stall", |fault| {
        matches!(fault, FaultSpec::AdapterStall { .. })
    }),
    ("host_stall", |fault| {
        matches!(fault, FaultSpec::HostStall { .. })
    }),
    ("spurious_wake_up", |fault| {
        matches!(fault, FaultSpec::SpuriousWakeUp { .. })
    }),
    ("early_timers", |fault| {
        matches!(fault, FaultSpec::EarlyTimers { .. })
    }),
    ("clock_step", |fault| {
        matches!(fault, FaultSpec::ClockStep { .. })
    }),
    ("reader_crash", |fault| {
        matches!(fault, FaultSpec::ReaderCrash { .. })
    }),
    ("adapter_crash", |fault| {
        matches!(fault, FaultSpec::AdapterCrash { .. })
    }),
    ("lend", |fault| matches!(fault, FaultSpec::Lend { .. })),
    ("write_reader", |fault| writes(fault, Whose::Reader)),
    ("write_sender", |fault| writes(fault, Whose::Sender)),
    ("write_readers_client", |fault| {
        writes(fault, Whose::ReadersClient)
    }),
    ("write_senders_client", |fault| {
        writes(fault, Whose::SendersClient)
    }),
];

fn writes(fault: &FaultSpec, into: Whose) -> bool {
    matches!(fault, FaultSpec::Write { whose, .. } if *whose == into)
}

const NOTIFICATIONS: [Is<Notification>; 4] = [
    ("every_cell", |n| matches!(n, Notification::EveryCell)),
    ("first_and_last_cell", |n| {
        matches!(n, Notification::FirstAndLastCell)
    }),
    ("last_cell", |n| matches!(n, Notification::LastCell)),
    ("silent", |n| matches!(n, Notification::Silent { .. })),
];

const EXCESSES: [Is<Excess>; 3] = [
    ("discard", |excess| matches!(excess, Excess::Discard)),
    ("tag", |excess| matches!(excess, Excess::Tag { .. })),
    ("when_idle", |excess| {
        matches!(excess, Excess::WhenIdle { .. })
    }),
];

fn adapters(world: &World, count: impl Fn(&AdapterStats) -> u64) -> u64 {
    let stats = world.hosts.iter().flat_map(Host::stats);
    stats.map(count).sum()
}

fn lines(world: &World, count: fn(&LineCounts) -> u64) -> u64 {
    world.lines.iter().map(|line| count(&line.counts())).sum()
}

fn hosts(world: &World, count: fn(&HostCounts) -> u64) -> u64 {
    let hosts = world.hosts.iter();
    hosts.map(|node| count(&node.counts)).sum()
}

/// Of VCs that were closed: at the end all are.
fn vcs(world: &World, count: fn(&VcStats) -> u64) -> u64 {
    let closed = world.hosts.iter().flat_map(|node| &node.closed);
    closed.map(|(_, info)| count(&info.stats)).sum()
}
