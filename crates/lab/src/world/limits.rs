//! What a scenario may ask for, so that a file of somebody else's neither hangs a run nor takes all
//! memory.

use std::collections::BTreeMap;

use cellgate_core::Effect;
use cellgate_core::adapter::Config;

use super::ScenarioError;
use super::fault::FaultSpec;
use super::scenario::{CrashSpec, HostSpec, LinkSpec, Scenario, SourceSpec, SwitchSpec, Traffic};

/// Hosts, and switches, at most.
pub const NODES_MAX: usize = 1_024;
pub const LINKS_MAX: usize = 4_096;
/// Connections, and sources: as many as one adapter has VCs.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Applications of servers.
pub const APPLICATIONS_MAX: usize = 4_096;
/// Faults; calls of applications and crashes of servers, too.
pub const FAULTS_MAX: usize = 1 << 16;
pub const DURATION_MAX_NS: u64 = 86_400_000_000_000;
/// Octets of memory of connections, clients and switches, in all.
pub const MEMORY_MAX: u64 = 1 << 30;
/// Cells on their way along a line, or waiting before it.
pub const CELLS_MAX: u64 = 1 << 22;
/// Cells that sources send, once for each line on their way.
pub const WORK_MAX: u64 = 1 << 32;
/// Steps that adapters could take.
pub const STEPS_MAX: u64 = 1 << 36;
/// Steps of an adapter until all has left that its writers can have left with it.
pub const STEPS_AFTER_MAX: u64 = 1 << 22;
/// VCs that one fault asks for.
pub const GUESTS_MAX: u16 = 4_096;

const STEP_MAX_NS: u64 = 1_000_000_000;
const LATE_MAX_NS: u64 = 10_000_000_000;
const FIFO_CELLS_MAX: u32 = 1 << 20;
const EVENT_SLOTS_MAX: u32 = 1 << 16;
const CLIENTS_MAX: u16 = 256;
const BIT_S_MIN: u64 = 424;
const BIT_S_MAX: u64 = 100_000_000_000;
const CLOCK_STEP_MAX_NS: u64 = 1 << 40;
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
const CELL_BITS: u64 = 424;

type Checked = Result<(), ScenarioError>;

/// `Err` unless the quantities of a scenario are within their bounds.
pub(super) fn check(scenario: &Scenario) -> Checked {
    let applications = scenario.applications.iter();
    let calls: usize = applications.map(|one| one.calls.len()).sum();
    let servers = scenario.servers.iter();
    let crashes: usize = servers.map(|one| one.crashes.len()).sum();
    let counts = [
        ("hosts", scenario.hosts.len(), NODES_MAX),
        ("switches", scenario.switches.len(), NODES_MAX),
        ("links", scenario.links.len(), LINKS_MAX),
        ("connections", scenario.connections.len(), CONNECTIONS_MAX),
        ("sources", scenario.sources.len(), CONNECTIONS_MAX),
        ("faults", scenario.faults.len(), FAULTS_MAX),
        ("servers", scenario.servers.len(), NODES_MAX),
        (
            "applications",
            scenario.applications.len(),
            APPLICATIONS_MAX,
        ),
        ("calls and crashes", calls + crashes, FAULTS_MAX),
    ];
    for (what, count, most) in counts {
        if count > most {
            return Err(ScenarioError::TooMany(what, count, most));
        }
    }
    let whole = |ok: bool, what| bound(ok, "the scenario", what);
    let duration_ns = scenario.duration_ns;
    let days = 1..=DURATION_MAX_NS;
    whole(
        days.contains(&duration_ns),
        "duration_ns is at least 1, and at most a day",
    )?;
    let heals = scenario.heal_ns <= duration_ns;
    whole(heals, "heal_ns lies within duration_ns")?;
    scenario.hosts.iter().try_for_each(host)?;
    let steps = scenario.hosts.iter().map(|host| duration_ns / host.step_ns);
    let few = steps.sum::<u64>() <= STEPS_MAX;
    whole(
        few,
        "within duration_ns adapters could take 2^36 steps at most",
    )?;
    scenario.switches.iter().try_for_each(switch)?;
    scenario.links.iter().try_for_each(link)?;
    for connection in &scenario.connections {
        let few = connection.client < CLIENTS_MAX;
        bound(few, &connection.name, "client is below 256")?;
    }
    let mut sources = scenario.sources.iter();
    sources.try_for_each(|one| source(one, duration_ns))?;
    let until_ns = match scenario.heal_ns {
        0 => duration_ns,
        heal_ns => heal_ns,
    };
    let mut faults = scenario.faults.iter();
    faults.try_for_each(|one| fault(one, until_ns))?;
    for server in &scenario.servers {
        let ends = |crash: &CrashSpec| crash.at_ns.saturating_add(crash.for_ns);
        let inside = server.crashes.iter().all(|one| ends(one) <= duration_ns);
        bound(inside, &server.host, "a crash ends within duration_ns")?;
    }
    for application in &scenario.applications {
        let inside = application.calls.iter().all(|one| one.at_ns <= duration_ns);
        bound(inside, &application.name, "a call lies within duration_ns")?;
    }
    Ok(())
}

fn bound(ok: bool, whose: &str, what: &'static str) -> Checked {
    if ok {
        return Ok(());
    }
    Err(ScenarioError::Quantity(whose.into(), what))
}

fn host(spec: &HostSpec) -> Checked {
    let bound = |ok, what| bound(ok, &spec.name, what);
    let steps = 1..=STEP_MAX_NS;
    bound(steps.contains(&spec.step_ns), "step_ns is 1 to 10^9")?;
    let budgets = 1..=Config::BUDGET_MAX;
    bound(budgets.contains(&spec.budget), "budget is 1 to 1,024")?;
    bound(spec.clump_cells >= 1, "clump_cells is at least 1")?;
    let slots = spec.event_slots;
    let whole = slots.is_power_of_two() && slots <= EVENT_SLOTS_MAX;
    bound(whole, "event_slots is a power of two, at most 65,536")?;
    let cells = 1..=FIFO_CELLS_MAX;
    bound(cells.contains(&spec.fifo_cells), "fifo_cells is 1 to 2^20")?;
    let prompt = spec.wake_up_ns <= LATE_MAX_NS && spec.gap_max_ns <= LATE_MAX_NS;
    bound(prompt, "wake_up_ns and gap_max_ns are at most 10^10")?;
    let patient = spec.reassembly_timeout_ns <= LATE_MAX_NS;
    bound(patient, "reassembly_timeout_ns is at most 10^10")?;
    let early = spec.clock_ns <= HostSpec::CLOCK_MAX_NS;
    bound(early, "clock_ns is at most 2^62")
}

fn switch(spec: &SwitchSpec) -> Checked {
    let cells = 1..=FIFO_CELLS_MAX;
    let fits = cells.contains(&spec.queue_cells);
    bound(fits, &spec.name, "queue_cells is 1 to 2^20")
}

fn link(spec: &LinkSpec) -> Checked {
    let name = spec.ends.join(" - ");
    let bound = |ok, what| bound(ok, &name, what);
    bound(spec.ends[0] != spec.ends[1], "a link joins two nodes")?;
    let rates = BIT_S_MIN..=BIT_S_MAX;
    bound(rates.contains(&spec.bit_s), "bit_s is 424 to 10^11")?;
    Ok(())
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
fn stays_ns(scenario: &Scenario) -> Vec<u64> {
    let mut pauses: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    let links = scenario.links.iter();
    let mut stays: Vec<u64> = links.flat_map(|link| [link.delay_ns; 2]).collect();
    for fault in &scenario.faults {
        match fault {
            FaultSpec::AdapterStall {
                host,
                at_ns,
                for_ns,
            }
            | FaultSpec::AdapterCrash {
                host,
                at_ns,
                for_ns,
            }
            | FaultSpec::Kills {
                host,
                at_ns,
                for_ns,
                ..
            }
            | FaultSpec::MemoryLimit {
                host,
                at_ns,
                for_ns,
                ..
            } => {
                let pause = (*at_ns, at_ns.saturating_add(*for_ns));
                pauses.entry(host).or_default().push(pause);
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
    for host in &scenario.hosts {
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

fn source(spec: &SourceSpec, duration_ns: u64) -> Checked {
    let bound = |ok, what| bound(ok, &spec.connection, what);
    let begins = spec.start_ns < duration_ns;
    bound(begins, "a source begins (start_ns) before duration_ns")?;
    let ends = spec.stop_ns == 0 || spec.start_ns < spec.stop_ns;
    bound(ends, "a source begins (start_ns) before it ends (stop_ns)")?;
    let few = spec.mids <= SourceSpec::MIDS_MAX;
    bound(few, "a source sends at most 4 PDUs at once")?;
    let made = matches!(spec.traffic, Traffic::Scan { .. } | Traffic::Cells(_));
    let what = "by_adapter is for paced, greedy and on_off: an adapter sends SDUs, and not the \
                cells of scan, cells and capture";
    bound(!(spec.by_adapter && made), what)?;
    match spec.traffic {
        Traffic::Paced { cell_s } | Traffic::Scan { cell_s } => {
            bound(cell_s > 0, "cell_s is not 0")
        }
        Traffic::OnOff { cell_s, on_ns, .. } => {
            bound(cell_s > 0 && on_ns > 0, "cell_s and on_ns are not 0")
        }
        Traffic::Greedy | Traffic::Cells(_) => Ok(()),
    }
}

fn fault(spec: &FaultSpec, until_ns: u64) -> Checked {
    let (at_ns, for_ns) = match *spec {
        FaultSpec::Cell {
            effect: Effect::Flip { bit },
            ..
        } => {
            let inside = u64::from(bit) < CELL_BITS;
            return bound(inside, "a fault", "flip.bit is below 424");
        }
        FaultSpec::Cell { .. } | FaultSpec::Swap { .. } => return Ok(()),
        FaultSpec::AdapterStall { at_ns, for_ns, .. }
        | FaultSpec::HostStall { at_ns, for_ns, .. }
        | FaultSpec::InterruptsLost { at_ns, for_ns, .. }
        | FaultSpec::ReaderCrash { at_ns, for_ns, .. }
        | FaultSpec::AdapterCrash { at_ns, for_ns, .. }
        | FaultSpec::CommandQueueFull { at_ns, for_ns, .. }
        | FaultSpec::StateDirectory { at_ns, for_ns, .. }
        | FaultSpec::Kills { at_ns, for_ns, .. }
        | FaultSpec::MemoryLimit { at_ns, for_ns, .. }
        | FaultSpec::Guests { at_ns, for_ns, .. } => (at_ns, for_ns),
        FaultSpec::SpuriousWakeUp { at_ns, .. }
        | FaultSpec::EarlyTimers { at_ns, .. }
        | FaultSpec::ClockStep { at_ns, .. }
        | FaultSpec::Modify { at_ns, .. }
        | FaultSpec::Lend { at_ns, .. }
        | FaultSpec::Write { at_ns, .. } => (at_ns, 0),
    };
    let inside = at_ns.saturating_add(for_ns) <= until_ns;
    let what = "it ends within heal_ns, or without one within duration_ns";
    bound(inside, "a fault", what)?;
    match *spec {
        FaultSpec::ClockStep { by_ns, .. } => {
            let small = by_ns <= CLOCK_STEP_MAX_NS;
            bound(small, "a fault", "a clock goes forward by at most 2^40 ns")
        }
        FaultSpec::Guests { vcs, .. } => {
            let few = vcs <= GUESTS_MAX;
            bound(few, "a fault", "at most 4,096 guests come at once")
        }
        FaultSpec::Lend { for_ns, .. } => {
            let short = for_ns <= LATE_MAX_NS;
            bound(short, "a fault", "a lease lasts at most 10 s")
        }
        _ => Ok(()),
    }
}

/// Memory that a scenario asks for, added up before it is taken.
#[derive(Debug, Default)]
pub(super) struct Memory(u64);

impl Memory {
    /// So many octets more, for `whose` sake.
    pub(super) fn take(&mut self, whose: &str, octets: u64) -> Checked {
        self.0 = self.0.saturating_add(octets);
        let fits = self.0 <= MEMORY_MAX;
        bound(fits, whose, "with it, more than 2^30 octets are needed")
    }

    /// A client with its queues.
    pub(super) fn take_client(&mut self, host: &HostSpec) -> Checked {
        let events = u64::from(host.event_slots) * EVENT_LEN;
        self.take(&host.name, events + FIXED_LEN)
    }

    /// An adapter with its table of VCs.
    pub(super) fn take_adapter(&mut self, host: &HostSpec, vcs: u16) -> Checked {
        self.take(&host.name, u64::from(vcs) * VC_LEN)
    }

    /// A region, which a lab holds several times over.
    pub(super) fn take_region(&mut self, whose: &str, receive: u32, transmit: u32) -> Checked {
        let octets = 4 * u64::from(receive) + 2 * u64::from(transmit);
        self.take(whose, octets + FIXED_LEN)
    }

    /// What does not follow from the connections' contracts.
    pub(super) fn take_rest(&mut self, scenario: &Scenario) -> Checked {
        let outputs = 2 * scenario.links.len() as u64;
        let flows = scenario.connections.len() as u64;
        self.take("switches", outputs * flows * FLOW_LEN)?;
        let ends = scenario.links.iter().flat_map(|link| &link.ends);
        let mut ports: BTreeMap<&str, u64> = BTreeMap::new();
        ends.for_each(|end| *ports.entry(end).or_default() += 1);
        let ports = |name: &str| ports.get(name).copied().unwrap_or(0);
        for host in &scenario.hosts {
            let cells = ports(&host.name) * u64::from(host.fifo_cells);
            self.take(&host.name, cells * CELL_LEN)?;
        }
        for switch in &scenario.switches {
            let cells = ports(&switch.name) * u64::from(switch.queue_cells);
            self.take(&switch.name, cells * (CELL_LEN + WAITING_LEN))?;
        }
        for (line, stay_ns) in stays_ns(scenario).into_iter().enumerate() {
            let link = &scenario.links[line / 2];
            let cells = u128::from(link.bit_s) * u128::from(stay_ns);
            let cells = cells / (u128::from(CELL_BITS) * 1_000_000_000);
            let cells = u64::try_from(cells).unwrap_or(u64::MAX);
            let what = "at most 2^22 cells are on their way along a line, while it is held and \
                        while the adapter at its end stands still, too";
            let name = link.ends.join(" - ");
            bound(cells <= CELLS_MAX, &name, what)?;
            self.take(&name, cells * CELL_LEN)?;
        }
        scenario.faults.iter().try_for_each(|fault| match fault {
            FaultSpec::Guests { host, vcs, .. } => self.take(host, u64::from(*vcs) * FIXED_LEN),
            _ => Ok(()),
        })
    }
}

/// Cells that sources send, once for each line on their way. `Err` if they bring a line so much
/// more than it carries that more than [`CELLS_MAX`] would wait before it, or more than
/// [`WORK_MAX`] would cross lines: `paths` has the lines of each source's connection, `cell_s` the
/// rate of each line.
pub(super) fn check_offered(
    scenario: &Scenario,
    paths: &[&[usize]],
    cell_s: impl Fn(usize) -> u64,
) -> Result<u64, ScenarioError> {
    let sent = |cell_s: u64| cells_in(cell_s, scenario.duration_ns);
    let mut offered: BTreeMap<usize, u128> = BTreeMap::new();
    let mut work = 0;
    for (spec, path) in scenario.sources.iter().zip(paths) {
        let line = path[0];
        let carried = sent(cell_s(line));
        let cells = match &spec.traffic {
            Traffic::Greedy => carried,
            Traffic::Paced { cell_s } | Traffic::Scan { cell_s } => sent((*cell_s).into()),
            Traffic::OnOff {
                cell_s,
                on_ns,
                off_ns,
            } => {
                let period_ns = u128::from(*on_ns) + u128::from(*off_ns);
                let bursts = u128::from(scenario.duration_ns) / period_ns + 1;
                let burst = cells_in((*cell_s).into(), *on_ns) + 1;
                sent((*cell_s).into()).min(bursts * burst)
            }
            Traffic::Cells(cells) => cells.len() as u128,
        };
        // What an adapter sends waits in the memory of each writer.
        let offered = match spec.by_adapter {
            true => cells,
            false => {
                let offered = offered.entry(line).or_default();
                *offered += cells;
                *offered
            }
        };
        let fits = offered <= carried + u128::from(CELLS_MAX);
        let what = "with it, more than 2^22 cells would wait before its line";
        bound(fits, &spec.connection, what)?;
        work += cells * path.len() as u128;
        let what = "with it, more than 2^32 cells would cross lines";
        bound(work <= WORK_MAX.into(), &spec.connection, what)?;
    }
    Ok(work as u64)
}

/// `Err` if an adapter takes too many steps until all has left along a line that its writers can
/// have left with it; else how many.
pub(super) fn check_unsent(line: &str, steps: u64) -> Result<u64, ScenarioError> {
    let what = "it is so slow that what writers leave with an adapter takes more than 2^22 of its \
                steps";
    bound(steps <= STEPS_AFTER_MAX, line, what)?;
    Ok(steps)
}

/// Cells at a rate in so many nanoseconds.
fn cells_in(cell_s: u64, ns: u64) -> u128 {
    u128::from(cell_s) * u128::from(ns) / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Options, WITH_SERVERS, World, scenario_of};

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

    #[test]
    fn what_is_drawn_is_within_the_bounds() {
        for first in [0, WITH_SERVERS] {
            for seed in first..first + 3_000 {
                assert_eq!(check(&scenario_of(seed)), Ok(()), "seed {seed}");
            }
            for seed in first..first + 30 {
                let world = World::new(&scenario_of(seed), Options::default());
                assert!(world.is_ok(), "seed {seed}: {:?}", world.err());
            }
        }
    }
}
