//! Coverage marks: what random scenarios are to have reached, each counted from what a run has left
//! behind. The adapter knows nothing of them.

mod abr;
mod met;
mod rings;
mod servers;
mod streams;
mod transfers;

use cellgate_core::adapter::{AdapterStats, Discard, EventKind, Excess, Notification, VcStats};
use cellgate_core::contract::{Aal, Excess as Beyond, Police, TrafficContract};
use serde::Serialize;

use super::LineCounts;
use super::fault::{FaultSpec, Whose};
use super::host::{HostCounts, RestCounts};
use super::oracle::Oracle;
use super::plan::Connection;
use super::scenario::Scenario;

pub(crate) use servers::{Seen, stage};

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

/// All marks of a run, those never reached too: of streams, of ABR or of servers if it has any,
/// else of a world without.
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

    /// The marks of a run that is over.
    pub(crate) fn of(run: &Oracle<'_>) -> Self {
        let mut marks = Self::default();
        if !run.scenario.streams.is_empty() {
            marks.streams(run);
        } else if run.plan.connections.iter().any(Connection::is_abr) {
            marks.available(run);
        } else if run.scenario.servers.is_empty() {
            marks.discards(run);
            marks.faults(run);
            marks.states(run);
            marks.wraps(run);
            marks.traffic(run);
        } else {
            marks.servers(run);
            marks.beside(run);
        }
        marks.rests(run);
        marks
    }

    /// What servers, their applications and their adapters have reached.
    fn servers(&mut self, run: &Oracle<'_>) {
        let mut seen = run.log.seen.clone();
        for reason in Discard::ALL {
            let count = |stats: &AdapterStats| stats.cells_discarded.of(reason);
            seen.add("discarded_beside", reason.name(), adapters(run, count));
        }
        for (group, name, count) in seen.marks() {
            self.push(group, name, count);
        }
    }

    /// Where adapters rest, how often, and what has ended that.
    fn rests(&mut self, run: &Oracle<'_>) {
        if !run.scenario.hosts.iter().any(|host| host.rests) {
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
            let hosts = run.log.report.hosts.iter();
            let reached = hosts.map(|host| count(&host.rests)).sum();
            self.push("rest", name, reached);
        }
    }

    fn discards(&mut self, run: &Oracle<'_>) {
        for reason in Discard::ALL {
            let count = |stats: &AdapterStats| stats.cells_discarded.of(reason);
            self.push("discarded", reason.name(), adapters(run, count));
        }
        let overflowed = hosts(run, |counts| counts.overflowed);
        self.push("discarded", "receive_fifo", overflowed);
        let switches = run.log.report.switches.iter();
        let full = switches.clone().flat_map(|switch| &switch.outputs);
        self.push(
            "discarded",
            "switch",
            full.map(|counts| counts.discarded).sum(),
        );
        let unrouted = switches.map(|switch| switch.unrouted_cells).sum();
        self.push("discarded", "no_route", unrouted);
    }

    /// What happens beside servers, of which these know nothing.
    fn beside(&mut self, run: &Oracle<'_>) {
        self.strangers("beside", run);
        self.push("beside", "lent", vcs(run, |stats| stats.pdus_lent));
        self.push("beside", "tagged", vcs(run, |stats| stats.pdus_tagged));
        let told = |name: &str| ["spurious_wake_up", "clock_step"].contains(&name);
        self.planned("beside", run.scenario, told);
        self.kept(run);
    }

    /// PDUs that servers at both ends have promised, and that have come.
    fn kept(&mut self, run: &Oracle<'_>) {
        let count = |is: &dyn Fn(&Connection) -> bool| -> u64 {
            let all = run.plan.connections.iter().enumerate();
            let of = all.filter(|(_, connection)| is(connection));
            of.map(|(n, _)| run.log.promises.kept(n as u32)).sum()
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
            let sender = connection.sender.map(|n| &run.plan.sources[n]);
            sender.is_some_and(|sender| sender.steady().is_none())
        };
        self.push("kept", "bursts", count(&bursts));
        let best_effort = run.log.promises.kept_as_best_effort();
        self.push("kept", "best_effort", best_effort);
    }

    fn faults(&mut self, run: &Oracle<'_>) {
        let of_lines: [Count<LineCounts>; 4] = [
            ("lost", |counts| counts.faults.lost),
            ("duplicated", |counts| counts.faults.duplicated),
            ("header_error", |counts| counts.faults.header_errors),
            ("payload_error", |counts| counts.faults.payload_errors),
        ];
        for (name, count) in of_lines {
            self.push("fault", name, lines(run, count));
        }
        self.strangers("fault", run);
        let of_hosts: [Count<HostCounts>; 2] = [
            ("died_while_changing", |counts| counts.put_off),
            ("command_waited", |counts| counts.waited),
        ];
        for (name, count) in of_hosts {
            self.push("fault", name, hosts(run, count));
        }
        self.planned("fault", run.scenario, |_| true);
    }

    /// What is nobody's, or not where or when it belongs.
    fn strangers(&mut self, group: &'static str, run: &Oracle<'_>) {
        let of_lines: [Count<LineCounts>; 3] = [
            ("inserted", |counts| counts.faults.inserted),
            ("held", |counts| counts.held),
            ("overtaken", |counts| counts.swapped),
        ];
        for (name, count) in of_lines {
            self.push(group, name, lines(run, count));
        }
        let of_hosts: [Count<HostCounts>; 3] = [
            ("interrupt_lost", |counts| counts.unheard),
            ("guest", |counts| counts.guests),
            ("no_room_for_guest", |counts| counts.turned_away),
        ];
        for (name, count) in of_hosts {
            self.push(group, name, hosts(run, count));
        }
        let doorbells = adapters(run, |stats| stats.doorbell_faults);
        self.push(group, "bad_doorbell", doorbells);
        let faults = vcs(run, |stats| stats.client_faults);
        self.push(group, "bad_index_or_sdu", faults);
    }

    /// Faults of the kinds that a scenario names.
    fn planned(&mut self, group: &'static str, scenario: &Scenario, of: fn(&str) -> bool) {
        for (name, kind) in KINDS.iter().filter(|(name, _)| of(name)) {
            let of_kind = scenario.faults.iter().filter(|fault| kind(fault));
            self.push(group, name, of_kind.count() as u64);
        }
    }

    fn states(&mut self, run: &Oracle<'_>) {
        self.push("state", "lent", vcs(run, |stats| stats.pdus_lent));
        self.push("state", "tagged", vcs(run, |stats| stats.pdus_tagged));
        self.push(
            "state",
            "answered",
            adapters(run, |stats| stats.cells_answered),
        );
        self.push("state", "modified", hosts(run, |counts| counts.modified));
        self.push(
            "state",
            "memory_replaced",
            hosts(run, |counts| counts.replaced),
        );
        let lost = adapters(run, |stats| stats.events_lost);
        self.push("event", "queue_full", lost);
        for (name, kind) in [
            ("pdu_received", EventKind::PduReceived),
            ("receive_queue_full", EventKind::ReceiveQueueFull),
            ("transmit_completed", EventKind::TransmitCompleted),
        ] {
            let hosts = run.log.report.hosts.iter();
            let seen = hosts.map(|host| host.seen[kind as usize]).sum();
            self.push("event", name, seen);
        }
    }

    fn wraps(&mut self, run: &Oracle<'_>) {
        self.push(
            "wrap",
            "receive_queue",
            hosts(run, |counts| counts.receive_wraps),
        );
        self.push("wrap", "receive_buffer", hosts(run, |counts| counts.across));
        self.push(
            "wrap",
            "transmit_queue",
            hosts(run, |counts| counts.transmit_wraps),
        );
        let rounds = |n: usize| {
            let hosts = run.log.report.hosts.iter();
            hosts.map(|host| host.rounds[n]).sum()
        };
        self.push("wrap", "event_queue", rounds(0));
        self.push("wrap", "doorbells", rounds(1));
        for (name, bits) in [("clock_2_32", 32), ("clock_2_48", 48)] {
            let hosts = run.scenario.hosts.iter().zip(&run.log.report.hosts);
            let passed = hosts.filter(|(spec, host)| {
                let at = 1_u64 << bits;
                spec.clock_ns < at && host.clock_ns >= at
            });
            self.push("wrap", name, passed.count() as u64);
        }
    }

    fn traffic(&mut self, run: &Oracle<'_>) {
        for (name, aal) in [
            ("aal0", Aal::Aal0),
            ("aal34", Aal::Aal34),
            ("aal5", Aal::Aal5),
        ] {
            let of_aal = run.plan.connections.iter().zip(&run.log.connections);
            let of_aal = of_aal.filter(|(one, _)| one.contract.aal == Some(aal));
            let read = of_aal.map(|(_, tally)| tally.pdus.delivered).sum();
            self.push("read", name, read);
        }
        for (name, is) in NOTIFICATIONS {
            let pairs = run.scenario.connections.iter().zip(&run.log.connections);
            let told = pairs.filter(|(spec, _)| is(&spec.notification));
            let read = told.map(|(_, tally)| tally.pdus.delivered).sum();
            self.push("told_by", name, read);
        }
        for (name, is) in EXCESSES {
            let hosts = run.log.report.hosts.iter();
            let receives = hosts.flat_map(|host| host.receives.values());
            let count = receives.filter(|receive| is(&receive.excess)).count();
            self.push("excess", name, count as u64);
        }
        let sent = adapters(run, |stats| stats.cells_transmitted);
        self.push("sent_by", "adapter", sent);
        let sources = run.log.report.sources.iter();
        let waited = sources.map(|source| source.waited).sum();
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

fn adapters(run: &Oracle<'_>, count: impl Fn(&AdapterStats) -> u64) -> u64 {
    let hosts = run.log.report.hosts.iter();
    hosts.flat_map(|host| &host.stats).map(count).sum()
}

fn lines(run: &Oracle<'_>, count: fn(&LineCounts) -> u64) -> u64 {
    let lines = run.log.report.lines.iter();
    lines.map(|line| count(&line.counts)).sum()
}

fn hosts(run: &Oracle<'_>, count: fn(&HostCounts) -> u64) -> u64 {
    let hosts = run.log.report.hosts.iter();
    hosts.map(|host| count(&host.counts)).sum()
}

/// Of VCs that were closed: at the end all are.
fn vcs(run: &Oracle<'_>, count: fn(&VcStats) -> u64) -> u64 {
    let closed = run.log.report.hosts.iter().flat_map(|host| &host.closed);
    closed.map(|(_, info)| count(&info.stats)).sum()
}
