//! The run: turns in the order of time, until there are none.

use super::EventQueue;
use super::canary::Canary;
use super::host::Host;
use super::incident::Incident;
use super::log::Fact;
use super::net::{Net, Node, NodeId, Turn};
use super::scenario::Scenario;
use super::source::Source;
use super::switch::Switch;
use super::topology::Place;
use super::trace::Watch;
use crate::Silent;
use crate::board::AbrBug;
use crate::memory::RingBug;

/// Turns that nobody is told of.
const TURNS_UNTOLD: u64 = 1_024;

/// So far back a node may notice that something was wrong: a run that has gone wrong goes on for as
/// long, to tell what was so first, and ends.
const NOTICED_NS: u64 = 10_000_000;

thread_local! {
    /// What no run should know: of [`Canary::RunRemembers`] and [`Canary::RunCounts`].
    static RUNS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// What no run should know: one more each time that somebody asks.
pub(crate) fn asked_before() -> u64 {
    RUNS.with(|runs| runs.replace(runs.get() + 1))
}

/// A scenario that runs: nodes, and what is between them.
#[derive(Debug)]
pub struct World {
    /// Those that put cells on lines themselves, by their numbers in the scenario; the others are
    /// their hosts'.
    pub(super) sources: Vec<Option<Source>>,
    pub(super) switches: Vec<Switch>,
    pub(super) hosts: Vec<Host>,
    pub(super) net: Net,
    /// Turns so far.
    pub(super) events: u64,
    /// More than there can be.
    pub(super) events_max: u64,
}

impl World {
    /// Puts the first turns in.
    pub(super) fn begin(&mut self, scenario: &Scenario) {
        let net = &mut self.net;
        for (n, source) in (0..).zip(&self.sources) {
            if let Some(at) = source.as_ref().and_then(Source::due) {
                net.later(at, Turn::Source(n), NodeId::Source(n));
            }
        }
        for host in &mut self.hosts {
            host.begins(scenario.duration_ns, net);
        }
        self.plan_incidents(scenario);
    }

    /// Runs until nothing is left to happen, or more has happened than can.
    pub fn run(&mut self) {
        self.run_watched(0, &mut Watch::of(&mut Silent));
    }

    /// [`World::run`]; tells how many milliseconds of a scenario that is so long have passed, and
    /// what lines have carried.
    pub(super) fn run_watched(&mut self, duration_ns: u64, watch: &mut Watch<'_>) {
        let _ring_bug = RingBug::plant(self.net.options.ring_bug);
        let _abr_bug = AbrBug::plant(self.net.options.abr_bug);
        if self.net.options.canary == Some(Canary::RunCounts) {
            self.events += asked_before();
        }
        while let Some((at, (turn, node))) = self.net.queue.pop() {
            self.net.now = at;
            self.events += 1;
            if self.events.is_multiple_of(TURNS_UNTOLD) {
                let past_ns = at.since(self.net.plan.opened).ns().min(duration_ns);
                let progress = &mut watch.progress;
                progress.step(past_ns / 1_000_000, duration_ns / 1_000_000);
                if let Some(trace) = &mut watch.trace {
                    self.play(self.has_all_before(at), &mut **trace);
                }
            }
            if self.events > self.events_max {
                let text = format!("{} events, and no end", self.events);
                return self.net.violate("I18", text);
            }
            let wrong = self.net.log.violation.as_ref();
            if wrong.is_some_and(|wrong| wrong.at_ns + NOTICED_NS < at.ns()) {
                break;
            }
            self.acts(turn, node);
        }
        // Steps that were put forward may have been the last in the queue: they are nothing.
        self.net.now = self.net.reached;
        self.net.queue = EventQueue::default();
    }

    /// A node has its turn, and again as long as nothing else happens before.
    fn acts(&mut self, turn: Turn, node: NodeId) {
        if !matches!(turn, Turn::Step | Turn::Client(_)) {
            self.net.reached = self.net.reached.max(self.net.now);
        }
        loop {
            let again = match self.node(node) {
                Some((node, net)) => node.acts(turn, net),
                None => {
                    self.happens(turn);
                    None
                }
            };
            self.lines_are_filled();
            match again {
                Some(at) if self.net.queue.next_time().is_none_or(|next| at < next) => {
                    self.net.now = at;
                }
                Some(at) => return self.net.later(at, turn, node),
                None => return,
            }
        }
    }

    /// A node, and what is around it; none: all of them.
    #[inline]
    fn node(&mut self, node: NodeId) -> Option<(&mut dyn Node, &mut Net)> {
        let node: &mut dyn Node = match node {
            NodeId::World => return None,
            NodeId::Source(n) => self.sources[n as usize].as_mut()?,
            NodeId::Switch(n) => &mut self.switches[n as usize],
            NodeId::Host(n) => &mut self.hosts[n as usize],
        };
        Some((node, &mut self.net))
    }

    /// Tells the nodes at the ends of lines that have got their first cells.
    fn lines_are_filled(&mut self) {
        while let Some(line) = self.net.filled.pop() {
            let Some(at) = self.net.lines[line].next_arrival() else {
                continue;
            };
            let end = match self.net.plan.places[line] {
                Place::Switch { switch, .. } => NodeId::Switch(switch as u32),
                Place::Host { host } => NodeId::Host(host as u32),
            };
            if matches!(end, NodeId::Host(_)) && self.net.loses(Canary::StepLost) {
                continue;
            }
            if let Some((node, net)) = self.node(end) {
                node.expects(line as u32, at, net);
            }
        }
    }

    /// Something happens to all.
    fn happens(&mut self, turn: Turn) {
        match turn {
            Turn::Incident(Incident::Heal)
                if self.net.options.canary != Some(Canary::HealForgotten) =>
            {
                self.net.lines.iter_mut().for_each(super::Line::heal);
            }
            Turn::Incident(Incident::Settled) => self.settles(),
            _ => {}
        }
    }

    fn settles(&mut self) {
        for n in 0..self.net.plan.connections.len() {
            let to = self.net.plan.connections[n].to;
            let sender = self.net.plan.connections[n].sender;
            let begun = sender.map_or(0, |sender| self.source(sender).begun);
            let overflowed = self.hosts[to].overflowed_of(self.net.plan.connections[n].address);
            self.net.tell(Fact::Settled {
                connection: n as u32,
                begun,
                no_room: self.net.log.connections[n].discarded + overflowed,
            });
        }
    }

    /// A source, be it a node or at a host.
    pub(super) fn source(&self, n: usize) -> &Source {
        let of_host = || {
            let connection = self.net.plan.sources[n].connection as usize;
            self.hosts[self.net.plan.connections[connection].from].writer(n as u32)
        };
        let source = self.sources[n].as_ref().or_else(of_host);
        source.unwrap_or(&self.net.plan.sources[n])
    }

    /// Servers look once more when nothing happens any more: what an adapter has refused they ask
    /// again only then, and may be refused again.
    pub(super) fn servers_look_again(&mut self) {
        for host in 0..self.hosts.len() {
            for _ in 0..self.hosts[host].refusals_planned() {
                self.hosts[host].server_looks(&mut self.net);
                self.run();
            }
        }
    }

    /// Closes whatever is open.
    pub(super) fn close(&mut self) {
        for host in &mut self.hosts {
            host.closes_all(&mut self.net);
        }
        for host in &mut self.hosts {
            host.applications_end(&mut self.net);
        }
    }
}
