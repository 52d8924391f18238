//! A trial of a scenario: one run, or several that must agree, and what is wrong then.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cellgate_core::contract::{ServiceCategory, TrafficContract};

use super::fault::Whom;
use super::oracle::Fate;
use super::scenario::{Call, FaultSpec, Load, Scenario};
use super::trace::{CellTrace, Watch};
use super::{Line, Marks, Options, Outcome, Ps, Refusals, Violation, World};
use super::{rings, transfers};
use crate::shrink::Shrink;
use crate::{Progress, Silent};

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The scenario makes no world.
    Scenario(Refusals),
    /// An invariant does not hold.
    Violation(Box<Violation>),
}

impl From<Refusals> for Failure {
    fn from(refusals: Refusals) -> Self {
        Self::Scenario(refusals)
    }
}

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation.into())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scenario(refusals) => refusals.fmt(f),
            Self::Violation(violation) => violation.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

/// Runs a scenario and looks whether all was right.
pub fn check(scenario: &Scenario, options: Options) -> Result<Outcome, Failure> {
    check_shown(scenario, options, &mut Silent)
}

/// As [`check`], and tells how many milliseconds of virtual time have passed.
pub fn check_shown(
    scenario: &Scenario,
    options: Options,
    progress: &mut dyn Progress,
) -> Result<Outcome, Failure> {
    if !scenario.transfers.is_empty() {
        return caught(|| Ok(transfers::play(scenario, options)?.0));
    }
    if !scenario.rings.is_empty() {
        return caught(|| Ok(rings::play(scenario, options, None)?.0));
    }
    judged(scenario, options, progress, |world| {
        world.outcome(scenario.duration_ns)
    })
}

/// As [`check`], and what the run has reached.
pub fn check_marked(scenario: &Scenario, options: Options) -> Result<(Outcome, Marks), Failure> {
    if !scenario.transfers.is_empty() {
        return caught(|| {
            let (outcome, counts) = transfers::play(scenario, options)?;
            Ok((outcome, Marks::of_transfers(&counts)))
        });
    }
    if !scenario.rings.is_empty() {
        return caught(|| {
            let (outcome, counts) = rings::play(scenario, options, None)?;
            Ok((outcome, Marks::of_rings(&counts)))
        });
    }
    judged(scenario, options, &mut Silent, |world| {
        let outcome = world.outcome(scenario.duration_ns);
        (outcome, Marks::of(&world.oracle(scenario)))
    })
}

/// As [`check_shown`], and tells what lines and slots carry: up to a panic, if there is one. What
/// lines of transfers carry it does not tell.
pub fn check_recorded(
    scenario: &Scenario,
    options: Options,
    progress: &mut dyn Progress,
    trace: &mut dyn CellTrace,
) -> Result<Outcome, Failure> {
    if !scenario.transfers.is_empty() {
        return check_shown(scenario, options, progress);
    }
    if !scenario.rings.is_empty() {
        return caught(|| Ok(rings::play(scenario, options, Some(trace))?.0));
    }
    caught(|| {
        let mut world = World::new(scenario, options)?;
        world.net.lines.iter_mut().for_each(Line::record);
        let mut watch = Watch::of(progress);
        watch.trace = Some(trace);
        let judged = world.judge(scenario, &mut watch);
        world.play(Ps::MAX, trace);
        judged?;
        Ok(world.outcome(scenario.duration_ns))
    })
}

/// Runs a scenario in which nothing is wrong; what `told` makes of its world.
fn judged<T>(
    scenario: &Scenario,
    options: Options,
    progress: &mut dyn Progress,
    told: impl FnOnce(&mut World) -> T,
) -> Result<T, Failure> {
    caught(|| {
        let mut world = World::new(scenario, options)?;
        world.judge(scenario, &mut Watch::of(progress))?;
        Ok(told(&mut world))
    })
}

fn caught<T>(run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // What a panic leaves behind goes with the world.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        let text = text.unwrap_or_else(|| "something panicked".into());
        Err(Violation::new("panic", Ps::ZERO, text).into())
    })
}

/// I20: runs it twice: nothing may differ.
pub fn check_determinism(
    scenario: &Scenario,
    options: Options,
    progress: &mut dyn Progress,
) -> Result<Outcome, Failure> {
    let first = check_shown(scenario, options, progress)?;
    let other = check_shown(scenario, options, progress)?;
    if other != first {
        let (one, two) = (first.trace_hash, other.trace_hash);
        let text = format!("again: trace {two:016x}, before {one:016x}");
        return Err(Violation::new("I20", Ps::from_ns(first.ended_ns), text).into());
    }
    Ok(first)
}

/// I8: connections that keep their contracts get these, and what they get without hazards, but for
/// a PDU; unless the network has no room for them, with the hazards or without. So without faults,
/// and with those of hosts, but for those to whom these may cost something by themselves; faults of
/// cells are left out, for hazards change which cells they meet.
///
/// I11: with no fault but hostile writes they get exactly what they get without, but for those
/// whose memory it is.
pub fn check_isolation(
    scenario: &Scenario,
    options: Options,
    progress: &mut dyn Progress,
) -> Result<Outcome, Failure> {
    if !scenario.transfers.is_empty() || !scenario.rings.is_empty() {
        return check_shown(scenario, options, progress);
    }
    let calm = Scenario {
        faults: Vec::new(),
        ..scenario.clone()
    };
    check_hostile(scenario, &calm, options, progress)?;
    let outcome = check_hazards(&calm, options, progress)?;
    let faults = scenario.faults.iter().filter(|fault| is_of_hosts(fault));
    let harmed = Scenario {
        faults: faults.cloned().collect(),
        ..calm
    };
    if !harmed.faults.is_empty() {
        check_hazards(&harmed, options, progress)?;
    }
    Ok(outcome)
}

fn check_hazards(
    scenario: &Scenario,
    options: Options,
    progress: &mut dyn Progress,
) -> Result<Outcome, Failure> {
    let harmless = scenario.sources.iter().filter(|source| !source.hazard);
    let alone = Scenario {
        sources: harmless.cloned().collect(),
        ..scenario.clone()
    };
    let mut run = |scenario: &Scenario| {
        judged(scenario, options, progress, |world| {
            let goodput = world.oracle(scenario).goodput();
            (goodput, world.outcome(scenario.duration_ns))
        })
    };
    let (with, outcome) = run(scenario)?;
    let (without, _) = run(&alone)?;
    for (name, here) in &with {
        let Some(there) = without.get(name).filter(|_| !shares_a_line(scenario, name)) else {
            continue;
        };
        let wrong = |text: String| {
            let text = format!("connection {name}: {text}");
            Err(Violation::new("I8", Ps::from_ns(outcome.ended_ns), text).into())
        };
        // Whose cells find no room is chance, too, with hazards and without.
        let is_chancy = there.is_chancy || here.no_room.max(there.no_room) > 0;
        if here.disturbed || is_chancy {
            continue;
        }
        if here.pdus.abs_diff(there.pdus) > 1 {
            let (here, there) = (here.pdus, there.pdus);
            return wrong(format!("{here} PDUs with hazards, {there} without"));
        }
        if here.cells < here.due {
            let (cells, due) = (here.cells, here.due);
            return wrong(format!(
                "{cells} cells with hazards, its contract has {due}"
            ));
        }
    }
    Ok(outcome)
}

/// Whether a fault happens to the same, at the same time, whatever hazards send.
fn is_of_hosts(fault: &FaultSpec) -> bool {
    matches!(
        fault,
        FaultSpec::AdapterStall { .. }
            | FaultSpec::HostStall { .. }
            | FaultSpec::InterruptsLost { .. }
            | FaultSpec::SpuriousWakeUp { .. }
            | FaultSpec::ReaderCrash { .. }
            | FaultSpec::AdapterCrash { .. }
            | FaultSpec::StateDirectory { .. }
    )
}

fn check_hostile(
    scenario: &Scenario,
    calm: &Scenario,
    options: Options,
    progress: &mut dyn Progress,
) -> Result<(), Failure> {
    let writes = scenario.faults.iter();
    let writes = writes.filter(|fault| matches!(fault, FaultSpec::Write { .. }));
    let hostile = Scenario {
        faults: writes.cloned().collect(),
        ..calm.clone()
    };
    if hostile.faults.is_empty() {
        return Ok(());
    }
    let mut others = |scenario: &Scenario| {
        judged(scenario, options, progress, |world| {
            let oracle = world.oracle(scenario);
            (oracle.fates(), oracle.lawless())
        })
    };
    let (without, _) = others(calm)?;
    let (with, lawless) = others(&hostile).map_err(|failure| match failure {
        // Without the writes nothing is wrong.
        Failure::Violation(violation) => {
            let at = Ps::from_ns(violation.at_ns);
            Violation::new("I11", at, format!("with hostile writes: {violation}")).into()
        }
        failure @ Failure::Scenario(_) => failure,
    })?;
    let sources = hostile.sources.iter().filter(|source| !source.hazard);
    let names = sources.map(|source| &source.connection);
    for name in names.filter(|name| !lawless.contains(*name)) {
        let Some((with, without)) = with.get(name).zip(without.get(name)) else {
            continue;
        };
        let beside = lawless.iter().any(|other| same_host(scenario, other, name));
        let from = match beside && takes_the_rest(scenario, name) {
            true => Fate::WRONG,
            false => 0,
        };
        let is_chancy = without.is_chancy;
        let (with, without) = (&with.counts[from..], &without.counts[from..]);
        if !is_chancy && with != without {
            let text = format!("connection {name}: with hostile writes {with:?}, else {without:?}");
            let at = Ps::from_ns(hostile.duration_ns);
            return Err(Violation::new("I11", at, text).into());
        }
    }
    Ok(())
}

/// Whether a hazard comes from the host of this connection.
fn shares_a_line(scenario: &Scenario, connection: &str) -> bool {
    let mut hazards = scenario.sources.iter().filter(|source| source.hazard);
    hazards.any(|hazard| same_host(scenario, &hazard.connection, connection))
}

/// Whether two connections are sent from one host.
fn same_host(scenario: &Scenario, one: &str, other: &str) -> bool {
    let from = |name: &str| {
        let mut connections = scenario.connections.iter();
        let found = connections.find(|connection| connection.name == name);
        found.map(|connection| &connection.from)
    };
    from(one) == from(other)
}

/// Whether a connection is best effort now and then, at least: its adapter sends of it what the
/// others of that host leave.
fn takes_the_rest(scenario: &Scenario, name: &str) -> bool {
    let connections = scenario.connections.iter();
    let named = connections.filter(|connection| connection.name == name);
    let first = named.map(|connection| &connection.contract);
    let applications = scenario.applications.iter();
    let of_it = applications.filter(|application| application.connection == name);
    let later = of_it.flat_map(|application| &application.calls);
    let later = later.filter_map(|call| match &call.call {
        Call::OpenWith(contract) | Call::Modify(contract) => Some(contract),
        _ => None,
    });
    let mut contracts = first.chain(later).map(|text| text.parse());
    contracts.any(|contract: Result<TrafficContract, _>| {
        contract.is_ok_and(|contract| contract.category == ServiceCategory::Ubr)
    })
}

/// Faults, sources, connections, applications, their calls, servers' crashes, files, terminals'
/// deaths, rings' traffic, bridges and associations, streams: without one of these, those that name
/// it go too.
impl Shrink for Scenario {
    const LISTS: usize = 12;

    fn len_of(&self, list: usize) -> usize {
        match list {
            0 => self.faults.len(),
            1 => self.sources.len(),
            2 => self.connections.len(),
            3 => self.applications.len(),
            4 => self.applications.iter().map(|one| one.calls.len()).sum(),
            5 => self.servers.iter().map(|one| one.crashes.len()).sum(),
            6 => self.transfers.iter().map(|one| one.files.len()).sum(),
            7 => self.transfers.iter().map(|one| one.deaths.len()).sum(),
            8 => self.traffic.len(),
            9 => self.bridges.len(),
            10 => self.associations.len(),
            _ => self.streams.len(),
        }
    }

    fn without(&self, list: usize, at: usize, n: usize) -> Self {
        let mut scenario = self.clone();
        let end = (at + n).min(self.len_of(list));
        match list {
            0 => drop(scenario.faults.drain(at..end)),
            1 => drop(scenario.sources.drain(at..end)),
            3 => drop(scenario.applications.drain(at..end)),
            4 => {
                let mut all = 0..;
                for application in &mut scenario.applications {
                    let stays = |_: &_| !(at..end).contains(&all.next().unwrap_or(end));
                    application.calls.retain(stays);
                }
            }
            5 => {
                let mut all = 0..;
                for server in &mut scenario.servers {
                    let stays = |_: &_| !(at..end).contains(&all.next().unwrap_or(end));
                    server.crashes.retain(stays);
                }
            }
            6 => {
                let mut all = 0..;
                for transfer in &mut scenario.transfers {
                    let stays = |_: &_| !(at..end).contains(&all.next().unwrap_or(end));
                    transfer.files.retain(stays);
                }
            }
            7 => {
                let mut all = 0..;
                for transfer in &mut scenario.transfers {
                    let stays = |_: &_| !(at..end).contains(&all.next().unwrap_or(end));
                    transfer.deaths.retain(stays);
                }
            }
            8 => drop(scenario.traffic.drain(at..end)),
            9 => drop(scenario.bridges.drain(at..end)),
            10 => {
                for gone in scenario.associations.drain(at..end) {
                    let names = |name: &str| name == gone.name;
                    scenario
                        .bridges
                        .retain(|one| !names(&one.from) && !names(&one.to));
                    scenario.traffic.retain(|one| match &one.load {
                        Load::Ping { back } | Load::Rpc { back, .. } => {
                            !names(&one.on) && !names(back)
                        }
                        _ => !names(&one.on),
                    });
                }
            }
            11 => drop(scenario.streams.drain(at..end)),
            _ => {
                for gone in scenario.connections.drain(at..end) {
                    scenario
                        .sources
                        .retain(|source| source.connection != gone.name);
                    scenario
                        .streams
                        .retain(|stream| stream.connection != gone.name);
                    scenario
                        .applications
                        .retain(|application| application.connection != gone.name);
                    scenario.faults.retain(|fault| match fault.whom() {
                        Whom::Connection(name) => name != gone.name,
                        _ => true,
                    });
                }
            }
        }
        scenario
    }
}
