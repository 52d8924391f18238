//! What a scenario may ask for, so that a file of somebody else's neither hangs a run nor takes all
//! memory: the bounds of each entry by itself.

use cellgate_core::Effect;
use cellgate_core::adapter::Config;

use super::refusal::{At, Found};
use super::rings;
use super::streams;
use super::sums::CELL_BITS;
use super::transfers;
use crate::world::QueueMark;
use crate::world::fault::FaultSpec;
use crate::world::scenario::{CrashSpec, HostSpec, LinkSpec, Scenario, SourceSpec, Traffic};

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
/// The longest that a message may take.
const CONTROL_MAX_NS: u64 = 1_000_000_000;
/// The largest VPI of a UNI.
const VPI_MAX: u16 = 255;

/// Finds whether there are too many of a kind.
pub(super) fn counts(scenario: &Scenario, found: &mut Found<'_>) {
    let applications = scenario.applications.iter();
    let calls: usize = applications.map(|one| one.calls.len()).sum();
    let servers = scenario.servers.iter();
    let crashes: usize = servers.map(|one| one.crashes.len()).sum();
    let of_transfers = || scenario.transfers.iter();
    let files: usize = of_transfers().map(|one| one.files.len()).sum();
    let deaths =
        of_transfers().map(|one| one.deaths.len() + one.repeats.len() + one.failing_syncs.len());
    let deaths: usize = deaths.sum();
    for (what, count, most) in [
        ("hosts", scenario.hosts.len(), NODES_MAX),
        ("switches", scenario.switches.len(), NODES_MAX),
        ("links", scenario.links.len(), LINKS_MAX),
        ("connections", scenario.connections.len(), CONNECTIONS_MAX),
        ("sources", scenario.sources.len(), CONNECTIONS_MAX),
        ("streams", scenario.streams.len(), streams::STREAMS_MAX),
        ("faults", scenario.faults.len(), FAULTS_MAX),
        ("servers", scenario.servers.len(), NODES_MAX),
        (
            "applications",
            scenario.applications.len(),
            APPLICATIONS_MAX,
        ),
        ("calls and crashes", calls + crashes, FAULTS_MAX),
        ("files", files, transfers::FILES_MAX),
        ("rings", scenario.rings.len(), rings::RINGS_MAX),
        ("stations", scenario.stations.len(), rings::STATIONS_MAX),
        (
            "associations",
            scenario.associations.len(),
            rings::ASSOCIATIONS_MAX,
        ),
        (
            "entries of traffic",
            scenario.traffic.len(),
            rings::ASSOCIATIONS_MAX,
        ),
        ("bridges", scenario.bridges.len(), rings::ASSOCIATIONS_MAX),
        ("deaths, repeats and failing syncs", deaths, FAULTS_MAX),
    ] {
        if count > most {
            found.wrong(At::Whole, format!("{count} {what}: at most {most}"));
        }
    }
}

/// Finds quantities that are beyond their bounds.
pub(super) fn quantities(scenario: &Scenario, found: &mut Found<'_>) {
    let duration_ns = scenario.duration_ns;
    let what = "duration_ns is at least 1, and at most a day";
    found.due(
        At::Whole,
        (1..=DURATION_MAX_NS).contains(&duration_ns),
        what,
    );
    let heals = scenario.heal_ns <= duration_ns;
    found.due(At::Whole, heals, "heal_ns lies within duration_ns");
    // Keys with mistakes bound nothing.
    let is_known = found.is_right(At::Whole);
    let within = |ns| if is_known { ns } else { u64::MAX };
    let until_ns = within(match scenario.heal_ns {
        0 => duration_ns,
        heal_ns => heal_ns,
    });
    let duration_ns = within(duration_ns);
    for (n, one) in scenario.hosts.iter().enumerate() {
        host(one, |is_so, what| found.due(At::Host(n), is_so, what));
    }
    for (n, one) in scenario.switches.iter().enumerate() {
        let fits = (1..=FIFO_CELLS_MAX).contains(&one.queue_cells);
        found.due(At::Switch(n), fits, "queue_cells is 1 to 2^20");
        let percent = match one.mark {
            Some(QueueMark::Er { target_percent }) => target_percent,
            _ => 100,
        };
        let fits = (1..=100).contains(&percent);
        found.due(At::Switch(n), fits, "mark: target_percent is 1 to 100");
    }
    for (n, one) in scenario.links.iter().enumerate() {
        link(one, |is_so, what| found.due(At::Link(n), is_so, what));
    }
    for (n, one) in scenario.connections.iter().enumerate() {
        let (at, address) = (At::Connection(n), one.address);
        let exists = address.vpi() <= VPI_MAX && address.bits() != 0;
        found.due(at, exists, "an address is 0.1 to 255.65535");
        found.due(at, one.client < CLIENTS_MAX, "client is below 256");
    }
    for (n, one) in scenario.sources.iter().enumerate() {
        let due = |is_so, what| found.due(At::Source(n), is_so, what);
        source(one, duration_ns, due);
    }
    for (n, one) in scenario.streams.iter().enumerate() {
        let due = |is_so, what| found.due(At::Stream(n), is_so, what);
        streams::quantities(one, duration_ns, due);
    }
    for (n, one) in scenario.faults.iter().enumerate() {
        let due = |is_so, what| found.due(At::Fault(n), is_so, what);
        fault(one, until_ns, due);
    }
    for (n, one) in scenario.servers.iter().enumerate() {
        let mut due = |is_so, what| found.due(At::Server(n), is_so, what);
        let prompt = (1..=CONTROL_MAX_NS).contains(&one.control_ns);
        let what = "control_ns is 1 to 10^9, best_effort_percent at most 100";
        due(prompt && one.best_effort_percent <= 100, what);
        let ends = |crash: &CrashSpec| crash.at_ns.saturating_add(crash.for_ns);
        let inside = one.crashes.iter().all(|crash| ends(crash) <= duration_ns);
        due(inside, "a crash ends within duration_ns");
    }
    for (n, one) in scenario.applications.iter().enumerate() {
        let inside = one.calls.iter().all(|call| call.at_ns <= duration_ns);
        let what = "a call lies within duration_ns";
        found.due(At::Application(n), inside, what);
    }
}

fn host(spec: &HostSpec, mut due: impl FnMut(bool, &'static str)) {
    let steps = 1..=STEP_MAX_NS;
    due(steps.contains(&spec.step_ns), "step_ns is 1 to 10^9");
    let budgets = 1..=Config::BUDGET_MAX;
    due(budgets.contains(&spec.budget), "budget is 1 to 1,024");
    due(spec.clump_cells >= 1, "clump_cells is at least 1");
    let slots = spec.event_slots;
    let whole = slots.is_power_of_two() && slots <= EVENT_SLOTS_MAX;
    due(whole, "event_slots is a power of two, at most 65,536");
    let cells = 1..=FIFO_CELLS_MAX;
    due(cells.contains(&spec.fifo_cells), "fifo_cells is 1 to 2^20");
    let prompt = spec.wake_up_ns <= LATE_MAX_NS && spec.gap_max_ns <= LATE_MAX_NS;
    due(prompt, "wake_up_ns and gap_max_ns are at most 10^10");
    let patient = spec.reassembly_timeout_ns <= LATE_MAX_NS;
    due(patient, "reassembly_timeout_ns is at most 10^10");
    let early = spec.clock_ns <= HostSpec::CLOCK_MAX_NS;
    due(early, "clock_ns is at most 2^62");
}

fn link(spec: &LinkSpec, mut due: impl FnMut(bool, &'static str)) {
    due(spec.ends[0] != spec.ends[1], "a link joins two nodes");
    let rates = BIT_S_MIN..=BIT_S_MAX;
    due(rates.contains(&spec.bit_s), "bit_s is 424 to 10^11");
}

fn source(spec: &SourceSpec, duration_ns: u64, mut due: impl FnMut(bool, &'static str)) {
    let begins = spec.start_ns < duration_ns;
    due(begins, "a source begins (start_ns) before duration_ns");
    let ends = spec.stop_ns == 0 || spec.start_ns < spec.stop_ns;
    due(ends, "a source begins (start_ns) before it ends (stop_ns)");
    let few = spec.mids <= SourceSpec::MIDS_MAX;
    due(few, "a source sends at most 4 PDUs at once");
    let made = matches!(spec.traffic, Traffic::Scan { .. } | Traffic::Cells(_));
    let what = "by_adapter is for paced, greedy and on_off: an adapter sends SDUs, and not the \
                cells of scan, cells and capture";
    due(!(spec.by_adapter && made), what);
    match &spec.traffic {
        Traffic::Paced { cell_s } | Traffic::Scan { cell_s } => {
            due(*cell_s > 0, "cell_s is not 0");
        }
        Traffic::OnOff { cell_s, on_ns, .. } => {
            due(*cell_s > 0 && *on_ns > 0, "cell_s and on_ns are not 0");
        }
        Traffic::Cells(cells) => {
            let ordered = cells.is_sorted_by_key(|cell| cell.at_ns);
            let whole = cells.iter().all(|cell| cell.octets.len() == 52);
            let what = "cells of 52 octets in the order of time are due";
            due(ordered && whole, what);
        }
        Traffic::Greedy => {}
    }
}

fn fault(spec: &FaultSpec, until_ns: u64, mut due: impl FnMut(bool, &'static str)) {
    if let Some((at_ns, for_ns)) = spec.span() {
        let inside = at_ns.saturating_add(for_ns) <= until_ns;
        let what = "it ends within heal_ns, or without one within duration_ns";
        due(inside, what);
    }
    match *spec {
        FaultSpec::Cell {
            effect: Effect::Flip { bit },
            ..
        } => due(u64::from(bit) < CELL_BITS, "flip.bit is below 424"),
        FaultSpec::ClockStep { by_ns, .. } => {
            let small = by_ns <= CLOCK_STEP_MAX_NS;
            due(small, "a clock goes forward by at most 2^40 ns");
        }
        FaultSpec::Guests { vcs, .. } => {
            due(vcs <= GUESTS_MAX, "at most 4,096 guests come at once");
        }
        FaultSpec::Lend { for_ns, .. } => {
            due(for_ns <= LATE_MAX_NS, "a lease lasts at most 10 s");
        }
        _ => {}
    }
}
