//! What a scenario asks for in all: memory, cells and steps. What is wrong by itself is left out: a
//! sum that is too large is so without it, too.

use std::collections::BTreeMap;

use cellgate_core::Effect;
use cellgate_core::adapter::Config;

use super::limits::{CELLS_MAX, MEMORY_MAX, STEPS_AFTER_MAX, STEPS_MAX, WORK_MAX};
use super::refusal::{At, Found};
use super::{Network, Room};
use crate::world::fault::FaultSpec;
use crate::world::scenario::{Scenario, Traffic};
use crate::world::time::{Interval, Ps};

/// Octets of a cell on a line, and of its time.
const CELL_LEN: u64 = 64;
/// Octets of an event in its queue.
const EVENT_LEN: u64 = 32;
/// Octets of a client or of a region besides its queues and buffers.
const FIXED_LEN: u64 = 64 * 1024;
/// Octets that a switch's output remembers of a connection.
const FLOW_LEN: u64 = 16;
/// Octets that it remembers of a cell that waits, beside the cell.
const WAITING_LEN: u64 = 16;
/// Octets of a VC of an adapter, and of the reference beside it.
const VC_LEN: u64 = 2_048;
/// More cells than a frame has by its own.
const FRAME_CELLS: u64 = 1 << 16;
/// Bits of a cell on a line.
pub(super) const CELL_BITS: u64 = 424;

/// What is added up.
#[derive(Debug, Default)]
pub(super) struct Sums {
    memory: u64,
    /// Octets that writers can leave with an adapter, by the line that it sends them along.
    unsent: BTreeMap<usize, u64>,
}

impl Sums {
    /// So many octets of memory more, for the sake of this.
    pub(super) fn take(&mut self, found: &mut Found<'_>, at: At, octets: u64) {
        let before = self.memory;
        self.memory = before.saturating_add(octets);
        // Once is enough.
        let fits = self.memory <= MEMORY_MAX || before > MEMORY_MAX;
        found.due(at, fits, "with it, more than 2^30 octets are needed");
    }

    /// A region, which a lab holds several times over.
    pub(super) fn take_region(
        &mut self,
        found: &mut Found<'_>,
        at: At,
        (receive, transmit): (u32, u32),
    ) {
        let octets = 4 * u64::from(receive) + 2 * u64::from(transmit);
        self.take(found, at, octets + FIXED_LEN);
    }

    /// A writer can leave so many octets with the adapter before a line.
    pub(super) fn leave(&mut self, line: usize, octets: u32) {
        *self.unsent.entry(line).or_default() += u64::from(octets);
    }

    /// What does not follow from the connections' contracts; the room that each host has.
    pub(super) fn take_network(
        &mut self,
        network: &Network<'_>,
        found: &mut Found<'_>,
    ) -> Vec<Room> {
        let scenario = network.scenario;
        let ends = scenario.links.iter().flat_map(|link| &link.ends);
        let mut ports: BTreeMap<&str, u64> = BTreeMap::new();
        ends.for_each(|end| *ports.entry(end).or_default() += 1);
        let ports = |name: &str| ports.get(name).copied().unwrap_or(0);
        let hosts = scenario.hosts.iter().enumerate();
        let rooms = hosts.map(|(n, host)| {
            let (at, room) = (At::Host(n), network.room(n, found));
            if found.is_right(at) {
                let what = format!("a host has 1 to {} links", Config::PORTS_MAX);
                let linked = (1..=Config::PORTS_MAX as u64).contains(&ports(&host.name));
                found.due(at, linked || !network.topology.is_whole(scenario), &what);
                let (vcs, most) = (room.vcs_with(host), Config::VCS_MAX);
                let what = format!(
                    "its connections, applications and spare_vcs need {vcs} VCs: at most {most}"
                );
                found.due(at, vcs <= most.into(), &what);
                let events = u64::from(host.event_slots) * EVENT_LEN;
                let clients = room.clients as u64 * (events + FIXED_LEN);
                let cells = ports(&host.name) * u64::from(host.fifo_cells);
                let octets = cells * CELL_LEN + clients + u64::from(vcs) * VC_LEN;
                self.take(found, at, octets);
            }
            room
        });
        let rooms = rooms.collect();
        for (n, switch) in scenario.switches.iter().enumerate() {
            if found.is_right(At::Switch(n)) {
                let cells = u64::from(switch.queue_cells) * (CELL_LEN + WAITING_LEN);
                let flows = scenario.connections.len() as u64 * FLOW_LEN;
                self.take(found, At::Switch(n), ports(&switch.name) * (cells + flows));
            }
        }
        for (line, stay_ns) in stays_ns(scenario, found).into_iter().enumerate() {
            let (at, link) = (At::Link(line / 2), &scenario.links[line / 2]);
            if !found.is_right(at) {
                continue;
            }
            let cells = u128::from(link.bit_s) * u128::from(stay_ns);
            let cells = cells / (u128::from(CELL_BITS) * 1_000_000_000);
            let cells = u64::try_from(cells).unwrap_or(u64::MAX);
            let what = "at most 2^22 cells are on their way along a line, while it is held and \
                        while the adapter at its end stands still, too";
            found.due(at, cells <= CELLS_MAX, what);
            self.take(found, at, cells.min(CELLS_MAX) * CELL_LEN);
        }
        for (n, fault) in scenario.faults.iter().enumerate() {
            if let FaultSpec::Guests { vcs, .. } = fault {
                self.take(found, At::Fault(n), u64::from(*vcs) * FIXED_LEN);
            }
        }
        rooms
    }

    /// More events than there can be: each line always busy, each host always stepping, each cell
    /// on its way by itself, many times.
    pub(super) fn events_max(&self, network: &Network<'_>, found: &mut Found<'_>) -> u64 {
        let scenario = network.scenario;
        let duration_ns = scenario.duration_ns;
        if !found.is_right(At::Whole) {
            return 0;
        }
        let hosts = scenario.hosts.iter().enumerate();
        let hosts = hosts.filter(|(n, _)| found.is_right(At::Host(*n)));
        let steps: u64 = hosts.map(|(_, host)| duration_ns / host.step_ns).sum();
        let links = scenario.links.iter();
        let cells = links.map(|link| {
            let cell = Interval::of_line(link.bit_s);
            let cells = Ps::from_ns(duration_ns).ps() / cell.ps().max(1);
            cells.saturating_mul(2)
        });
        let cells = cells.fold(0, u64::saturating_add);
        let work = offered(network, found);
        let after = self.steps_after(network, found);
        let what = "within duration_ns adapters could take 2^36 steps at most";
        found.due(At::Whole, steps <= STEPS_MAX, what);
        let sources = scenario.sources.len() as u64 + 1;
        let more = work.saturating_add(after).saturating_mul(16);
        let most = cells.saturating_add(steps).saturating_mul(16 * sources);
        most.saturating_add(more).saturating_add(1_000_000)
    }

    /// Steps of adapters until all has left that their writers can have left with them.
    fn steps_after(&self, network: &Network<'_>, found: &mut Found<'_>) -> u64 {
        let what = "it is so slow that what writers leave with an adapter takes more than 2^22 of \
                    its steps";
        let lines = self.unsent.iter().filter_map(|(line, octets)| {
            let step = Ps::from_ns(network.step_ns_before(*line)?);
            // An SDU takes 64 octets at least, which can be two cells.
            let sent = network.cell(*line).times(octets / 32);
            let steps = sent.ps() / step.ps().max(1);
            found.due(At::Link(line / 2), steps <= STEPS_AFTER_MAX, what);
            Some(steps)
        });
        lines.fold(0, u64::saturating_add)
    }
}

/// For how long no adapter takes cells: of pauses, when they begin and end, the longest that a step
/// does not part.
fn longest(pauses: &mut [(u64, u64)], step_ns: u64) -> u64 {
    pauses.sort_unstable();
    let (mut from, mut until, mut most) = (0, 0, 0);
    for (begin, end) in pauses {
        if *begin > until + step_ns {
            from = *begin;
        }
        until = until.max(*end);
        most = most.max(until - from);
    }
    most + step_ns
}

/// For each line how long cells stay there at most: on their way, while a fault holds them, and
/// while nobody takes them at its end.
fn stays_ns(scenario: &Scenario, found: &Found<'_>) -> Vec<u64> {
    let mut pauses: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    let links = scenario.links.iter();
    let mut stays: Vec<u64> = links.flat_map(|link| [link.delay_ns; 2]).collect();
    // Nobody knows when faults are that no duration bounds.
    let is_known = |n| found.is_right(At::Whole) && found.is_right(At::Fault(n));
    let faults = scenario.faults.iter().enumerate();
    for (_, fault) in faults.filter(|(n, _)| is_known(*n)) {
        match fault {
            FaultSpec::AdapterStall { host, .. }
            | FaultSpec::AdapterCrash { host, .. }
            | FaultSpec::Kills { host, .. }
            | FaultSpec::MemoryLimit { host, .. } => {
                let pause = fault.span().map(|(at_ns, for_ns)| (at_ns, at_ns + for_ns));
                pauses.entry(host).or_default().extend(pause);
            }
            FaultSpec::Cell {
                link,
                back,
                effect: Effect::Hold { ns },
                ..
            } => {
                let line = link.saturating_mul(2).saturating_add(usize::from(*back));
                if let Some(stay) = stays.get_mut(line) {
                    *stay = stay.saturating_add(*ns);
                }
            }
            _ => {}
        }
    }
    let mut hosts: BTreeMap<&str, u64> = BTreeMap::new();
    let all = scenario.hosts.iter().enumerate();
    for (_, host) in all.filter(|(n, _)| found.is_right(At::Host(*n))) {
        let pauses = pauses.entry(&host.name).or_default();
        hosts.insert(&host.name, longest(pauses, host.step_ns));
    }
    let ends = scenario
        .links
        .iter()
        .flat_map(|link| [&link.ends[1], &link.ends[0]]);
    for (stay, end) in stays.iter_mut().zip(ends) {
        let pause = hosts.get(end.as_str()).copied().unwrap_or(0);
        *stay = stay.saturating_add(pause);
    }
    stays
}

/// Cells that sources send, once for each line on their way.
fn offered(network: &Network<'_>, found: &mut Found<'_>) -> u64 {
    let duration_ns = network.scenario.duration_ns;
    let sent = |cell_s: u64| cells_in(cell_s, duration_ns);
    let mut offered: BTreeMap<usize, u128> = BTreeMap::new();
    let mut work = 0;
    for (n, spec) in network.scenario.sources.iter().enumerate() {
        let at = At::Source(n);
        let Some((_, connection)) = network.find(&spec.connection) else {
            continue;
        };
        let line = connection.path[0];
        if !found.is_right(at) || !found.is_right(At::Link(line / 2)) {
            continue;
        }
        let carried = sent(1_000_000_000_000 / network.cell(line).ps().max(1));
        let cells = match &spec.traffic {
            Traffic::Greedy => carried,
            Traffic::Paced { cell_s } | Traffic::Scan { cell_s } => sent((*cell_s).into()),
            Traffic::OnOff {
                cell_s,
                on_ns,
                off_ns,
            } => {
                let period_ns = u128::from(*on_ns) + u128::from(*off_ns);
                let bursts = u128::from(duration_ns) / period_ns + 1;
                let burst = cells_in((*cell_s).into(), *on_ns) + 1;
                sent((*cell_s).into()).min(bursts * burst)
            }
            Traffic::Cells(cells) => cells.len() as u128,
        };
        let most = carried + u128::from(CELLS_MAX);
        // What an adapter sends waits in the memory of each writer.
        let before = match spec.by_adapter {
            true => 0,
            false => {
                let offered = offered.entry(line).or_default();
                *offered += cells;
                *offered - cells
            }
        };
        let fits = before + cells <= most || before > most;
        let what = "with it, more than 2^22 cells would wait before its line";
        found.due(at, fits, what);
        let before = work;
        work += cells * connection.path.len() as u128;
        let fits = work <= WORK_MAX.into() || before > WORK_MAX.into();
        found.due(at, fits, "with it, more than 2^32 cells would cross lines");
    }
    for (n, spec) in network.scenario.streams.iter().enumerate() {
        let at = At::Stream(n);
        let found_connection = network.find(&spec.connection);
        let Some((_, connection)) = found_connection.filter(|_| found.is_right(at)) else {
            continue;
        };
        // A cell, and its part of a packet that is released.
        let cells = 2 * (sent(spec.cell_s()) + u128::from(FRAME_CELLS));
        let before = work;
        work += cells * connection.path.len() as u128;
        let fits = work <= WORK_MAX.into() || before > WORK_MAX.into();
        found.due(at, fits, "with it, more than 2^32 cells would cross lines");
    }
    u64::try_from(work).unwrap_or(u64::MAX)
}

/// Cells at a rate in so many nanoseconds.
fn cells_in(cell_s: u64, ns: u64) -> u128 {
    u128::from(cell_s) * u128::from(ns) / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_that_no_step_parts_are_one() {
        for (mut pauses, most) in [
            (vec![], 10),
            (vec![(100, 150)], 60),
            (vec![(100, 150), (160, 170)], 80),
            (vec![(161, 170), (100, 150)], 60),
            (vec![(0, 5), (3, 100), (50, 60)], 110),
        ] {
            assert_eq!(longest(&mut pauses, 10), most, "{pauses:?}");
        }
    }
}
