//! What goes wrong, and what is done meanwhile: each class in some of the scenarios, few or many of
//! a kind, all before the healing.

use cellgate_core::Effect;
use cellgate_core::wire::VpiVci;

use super::contracts::{Clause, beyond};
use super::{LINE, names, pick, spans};
use crate::generate::Draw;
use crate::world::scenario::{FaultSpec, Scenario, SourceSpec, Whose};

/// Cells of a line among which faults strike where there are servers.
const CELLS: u64 = 2_000;

/// So soon after a change its reader may die, and another opens.
const DYING_NS: u64 = 400_000;

/// What happens to something with a name, when, for how long.
type Make = fn(String, u64, u64) -> FaultSpec;

/// In how many percent of the scenarios, how often at most, for how long.
struct Class(u64, u64, (u64, u64), Make);

const OF_HOSTS: [Class; 3] = [
    Class(40, 4, (10_000, 1_500_000), stall),
    Class(40, 3, (100_000, 6_000_000), host_stall),
    Class(15, 1, (50_000, 1_000_000), crash),
];

const OF_SERVED_HOSTS: [Class; 3] = [
    Class(25, 3, (10_000, 1_500_000), stall),
    Class(20, 2, (100_000, 3_000_000), host_stall),
    Class(40, 2, (50_000, 1_000_000), crash),
];

/// So long that what is due has not come.
const OF_STREAMS: [Class; 2] = [
    Class(15, 1, (20_000_000, 300_000_000), host_stall),
    Class(15, 1, (20_000_000, 100_000_000), crash),
];

const OF_ABR: [Class; 2] = [
    Class(15, 3, (10_000, 1_500_000), stall),
    Class(5, 1, (1_000_000, 10_000_000), crash),
];

/// Interrupts that are lost, wake-ups for no reason, steps of clocks.
const WAKING: [Class; 3] = [
    Class(15, 2, (50_000, 2_000_000), interrupts_lost),
    Class(25, 8, (1, 2), wake_up),
    Class(20, 2, (1_000, 2_000_000), clock_step),
];

const OF_CONNECTIONS: [Class; 2] = [
    Class(20, 2, (50_000, 2_000_000), reader_crash),
    // Storms: nothing is done with what was opened.
    Class(8, 12, (1, 60_000), reader_crash),
];

/// One of a kind that has a name, a time and a length.
macro_rules! lasting {
    ($($make:ident: $kind:ident { $whose:ident },)+) => {
        $(fn $make($whose: String, at_ns: u64, for_ns: u64) -> FaultSpec {
            FaultSpec::$kind { $whose, at_ns, for_ns }
        })+
    };
}

lasting! {
    stall: AdapterStall { host },
    host_stall: HostStall { host },
    crash: AdapterCrash { host },
    interrupts_lost: InterruptsLost { host },
    reader_crash: ReaderCrash { connection },
}

fn wake_up(host: String, at_ns: u64, _: u64) -> FaultSpec {
    FaultSpec::SpuriousWakeUp { host, at_ns }
}

/// Now and then by as much as 32 bits hold.
fn clock_step(host: String, at_ns: u64, by_ns: u64) -> FaultSpec {
    let by_ns = by_ns << if by_ns.is_multiple_of(4) { 12 } else { 0 };
    FaultSpec::ClockStep { host, at_ns, by_ns }
}

/// Draws all those of a scenario without servers.
pub(super) fn of_plain(draw: &mut Draw, scenario: &mut Scenario, clauses: &[Clause]) {
    let cells = scenario.heal_ns * LINE / 2 / 1_000_000_000;
    cell_faults(draw, scenario, [50, 6, 30], cells);
    let hosts = names(scenario, "");
    let open = scenario.connections.iter().filter(|spec| spec.open);
    let open: Vec<String> = open.map(|spec| spec.name.clone()).collect();
    some_of(draw, scenario, &OF_HOSTS, &hosts);
    some_of(draw, scenario, &WAKING, &hosts);
    some_of(draw, scenario, &OF_CONNECTIONS, &open);
    guests(draw, scenario, &hosts, 12);
    changes(draw, scenario, clauses);
    leases(draw, scenario);
    writes(draw, scenario, &open);
    full_queues(draw, scenario, &hosts);
    early_timers(draw, scenario, &hosts);
}

/// Faults beside the servers of `hosts`.
pub(super) fn of_served(draw: &mut Draw, scenario: &mut Scenario, hosts: &[String]) {
    some_of(draw, scenario, &OF_SERVED_HOSTS, hosts);
    if draw.percent(25) {
        for _ in 0..draw.between(1, 8) {
            scenario.faults.push(FaultSpec::Cell {
                link: draw.below(scenario.links.len() as u64) as usize,
                back: draw.percent(50),
                cell: draw.below(CELLS),
                effect: match draw.below(3) {
                    0 => Effect::Lose,
                    1 => Effect::Duplicate,
                    _ => Effect::Flip {
                        bit: draw.below(424) as u16,
                    },
                },
            });
        }
    }
}

/// Beside streams, among the first `cells` of a line, and whenever.
pub(super) fn of_streams(draw: &mut Draw, scenario: &mut Scenario, cells: u64) {
    // They begin and end before that.
    scenario.heal_ns = scenario.duration_ns;
    let hosts = names(scenario, "");
    cell_faults(draw, scenario, [35, 6, 10], cells);
    some_of(draw, scenario, &OF_HOSTS, &hosts);
    some_of(draw, scenario, &OF_STREAMS, &hosts);
    some_of(draw, scenario, &WAKING, &hosts);
    early_timers(draw, scenario, &hosts);
    scenario.heal_ns = 0;
}

/// Beside sources of ABR, among the first `cells` of a line: mostly on the way of RM cells back.
pub(super) fn of_abr(draw: &mut Draw, scenario: &mut Scenario, cells: u64) {
    scenario.heal_ns = scenario.duration_ns;
    let hosts = names(scenario, "");
    cell_faults(draw, scenario, [35, 7, 50], cells);
    // The HEC of a damaged header says what becomes of it, and then no reference follows.
    let is_header = |fault: &FaultSpec| match fault {
        FaultSpec::Cell {
            effect: Effect::Flip { bit },
            ..
        } => *bit < 40,
        _ => false,
    };
    if draw.percent(90) {
        scenario.faults.retain(|fault| !is_header(fault));
    }
    some_of(draw, scenario, &OF_STREAMS[..1], &hosts);
    some_of(draw, scenario, &OF_ABR, &hosts);
    some_of(draw, scenario, &WAKING, &hosts);
    early_timers(draw, scenario, &hosts);
    scenario.heal_ns = 0;
}

/// What happens to lines, clocks and wake-ups, and guests, whom no server asks for.
pub(super) fn beside(draw: &mut Draw, scenario: &mut Scenario, hosts: &[String]) {
    // A cell is put there, the line is held, or a cell overtakes.
    for class in 3..6 {
        if draw.percent(15) {
            for _ in 0..draw.between(1, 8) {
                cell_fault(draw, scenario, class, 50, CELLS);
            }
        }
    }
    some_of(draw, scenario, &WAKING, hosts);
    guests(draw, scenario, hosts, 40);
}

/// Some of these classes, each at one of the names.
fn some_of(draw: &mut Draw, scenario: &mut Scenario, classes: &[Class], names: &[String]) {
    for Class(percent, most, for_ns, make) in classes.iter().filter(|_| !names.is_empty()) {
        for (at_ns, for_ns) in spans(draw, *percent, *most, *for_ns, scenario.heal_ns) {
            scenario.faults.push(make(pick(draw, names), at_ns, for_ns));
        }
    }
}

/// Commands find no room: mostly when one is given.
pub(super) fn full_queues(draw: &mut Draw, scenario: &mut Scenario, hosts: &[String]) {
    if !draw.percent(25) {
        return;
    }
    let commands = commands(scenario);
    for _ in 0..draw.between(1, 3) {
        let for_ns = draw.between(20_000, 1_000_000);
        let latest_ns = scenario.heal_ns - for_ns;
        let (host, at_ns) = if commands.is_empty() || draw.percent(30) {
            (pick(draw, hosts), draw.below(latest_ns))
        } else {
            let n = draw.below(commands.len() as u64) as usize;
            let (host, at_ns) = commands[n].clone();
            (host, at_ns.saturating_sub(draw.below(for_ns)))
        };
        scenario.faults.push(FaultSpec::CommandQueueFull {
            host,
            at_ns: at_ns.min(latest_ns),
            for_ns,
        });
    }
}

/// Where and when adapters are given commands.
fn commands(scenario: &Scenario) -> Vec<(String, u64)> {
    let end = |name: &str, sends: bool| {
        let mut connections = scenario.connections.iter();
        let spec = connections.find(|spec| spec.name == name)?;
        Some(if sends { &spec.from } else { &spec.to })
    };
    let of_faults = scenario.faults.iter().filter_map(|fault| {
        let host = match fault {
            FaultSpec::ReaderCrash { connection, .. } => end(connection, false)?,
            FaultSpec::Modify {
                connection, sender, ..
            } => end(connection, *sender)?,
            FaultSpec::Guests { host, .. } => host,
            _ => return None,
        };
        Some((host, fault.span()?.0))
    });
    let of_applications = scenario.applications.iter();
    let of_applications =
        of_applications.flat_map(|one| one.calls.iter().map(|call| (&one.host, call.at_ns)));
    let all = of_faults.chain(of_applications);
    all.map(|(host, at_ns)| (host.clone(), at_ns)).collect()
}

/// Timers that fire early, several in a row.
pub(super) fn early_timers(draw: &mut Draw, scenario: &mut Scenario, hosts: &[String]) {
    for (at_ns, _) in spans(draw, 25, 3, (1, 2), scenario.heal_ns) {
        let host = pick(draw, hosts);
        let gap_ns = draw.pick(&[1_000, 20_000, 200_000]);
        for n in 0..draw.between(1, 12) {
            scenario.faults.push(FaultSpec::EarlyTimers {
                host: host.clone(),
                at_ns: (at_ns + n * gap_ns).min(scenario.heal_ns),
            });
        }
    }
}

/// VCs that take up what room there is.
fn guests(draw: &mut Draw, scenario: &mut Scenario, hosts: &[String], most: u64) {
    if !draw.percent(20) {
        return;
    }
    for _ in 0..draw.between(1, 3) {
        let for_ns = draw.between(100_000, 3_000_000);
        scenario.faults.push(FaultSpec::Guests {
            host: pick(draw, hosts),
            at_ns: draw.below(scenario.heal_ns - for_ns),
            for_ns,
            vcs: draw.between(1, most) as u16,
        });
    }
}

/// Other contracts, under which those who conform still do.
fn changes(draw: &mut Draw, scenario: &mut Scenario, clauses: &[Clause]) {
    if !draw.percent(35) {
        return;
    }
    for _ in 0..draw.between(1, 5) {
        let n = draw.below(clauses.len() as u64) as usize;
        let conforms = scenario.sources.get(n).is_some_and(|source| !source.hazard);
        let mut clause = clauses[n].clone();
        let sender = draw.percent(25);
        let memory = clause.aal == "aal34" || draw.percent(50);
        // What all senders have together fits a line twice.
        let most = if sender { 2 } else { 4 };
        clause.cell_s = (clause.cell_s * draw.between(1, most)).min(LINE);
        if !conforms && draw.percent(50) {
            clause.cell_s = (clause.cell_s / 5).max(100);
        }
        if !conforms && draw.percent(50) {
            let shortest = SourceSpec::SDU_MIN.into();
            clause.max_sdu = draw.between(shortest, clause.max_sdu.into()) as u16;
        }
        clause.beyond = beyond(draw, clause.aal);
        let category = draw.pick(&["cbr", "cbr", "vbr", "ubr"]);
        // A burst that the sender still sends is beyond a constant rate.
        let bursts = conforms && !sender && clause.category == "vbr" && category == "cbr";
        clause.category = if bursts { "vbr" } else { category };
        if memory && clause.aal != "aal0" && draw.percent(50) {
            clause.max_sdu += draw.between(1, 500) as u16;
        }
        let name = scenario.connections[n].name.clone();
        let at_ns = draw.below(scenario.heal_ns - DYING_NS);
        if memory && !sender && draw.percent(20) {
            // Its reader dies before the change has ended.
            scenario.faults.push(FaultSpec::ReaderCrash {
                connection: name.clone(),
                at_ns: at_ns + draw.below(DYING_NS / 2),
                for_ns: draw.below(DYING_NS / 2),
            });
        }
        scenario.faults.push(FaultSpec::Modify {
            connection: name,
            at_ns,
            contract: clause.text(),
            sender,
            memory,
        });
    }
}

/// Of those that take any, most are lent something.
fn leases(draw: &mut Draw, scenario: &mut Scenario) {
    let mut leases = Vec::new();
    for spec in &scenario.connections {
        if !spec.contract.contains("when-idle") || draw.percent(20) {
            continue;
        }
        for _ in 0..draw.between(1, 8) {
            leases.push(FaultSpec::Lend {
                connection: spec.name.clone(),
                at_ns: draw.below(scenario.heal_ns),
                for_ns: draw.pick(&[100_000, 1_000_000, 5_000_000]),
                pdus: draw.pick(&[0, 1, 5, 1_000]),
            });
        }
    }
    scenario.faults.extend(leases);
}

/// One client that writes where it should not: its region, or its events and doorbells.
pub(super) fn writes(draw: &mut Draw, scenario: &mut Scenario, open: &[String]) {
    if open.is_empty() || !draw.percent(25) {
        return;
    }
    let connection = pick(draw, open);
    let whose = draw.pick(&Whose::ALL);
    for _ in 0..draw.between(1, 40) {
        scenario.faults.push(FaultSpec::Write {
            connection: connection.clone(),
            at_ns: draw.below(scenario.heal_ns),
            whose,
            // The tails and heads, or anywhere.
            word: draw.pick(&[16, 16, 32, 32, 48, 512, 513]) + draw.pick(&[0, 0, 0, 1, 700]),
            value: draw.pick(&[0, 1, 2, 3, 100, u64::MAX, 1 << 63, 1 << 32]),
        });
    }
}

/// Among the first `cells` of lines: each class in so many percent of scenarios, less than 2^`bits`
/// of it, and of these so many percent on the way back.
fn cell_faults(
    draw: &mut Draw,
    scenario: &mut Scenario,
    [percent, bits, back_percent]: [u64; 3],
    cells: u64,
) {
    for class in 0..6 {
        if draw.percent(percent) {
            let most = 1 << draw.below(bits);
            for _ in 0..draw.between(1, most) {
                cell_fault(draw, scenario, class, back_percent, cells);
            }
        }
    }
}

/// One of the first `cells` of a line meets it, on the way back in so many percent.
fn cell_fault(draw: &mut Draw, scenario: &mut Scenario, class: u64, back_percent: u64, cells: u64) {
    let link = draw.below(scenario.links.len() as u64) as usize;
    let back = draw.percent(back_percent);
    let cell = draw.below(cells);
    scenario.faults.push(match effect(draw, class) {
        Some(effect) => FaultSpec::Cell {
            link,
            back,
            cell,
            effect,
        },
        None => FaultSpec::Swap { link, back, cell },
    });
}

/// None: it overtakes the one before.
fn effect(draw: &mut Draw, class: u64) -> Option<Effect> {
    let other = draw.pick(&[32, 33, 34, 100, 101, 999]);
    let address = VpiVci::new(0, other).unwrap_or_default();
    Some(match class {
        0 => Effect::Lose,
        1 => {
            let bits = draw.pick(&[40, 424]);
            Effect::Flip {
                bit: draw.below(bits) as u16,
            }
        }
        2 => Effect::Duplicate,
        3 => Effect::Insert {
            address,
            last: draw.percent(50),
        },
        4 => Effect::Hold {
            ns: draw.between(1_000, 500_000),
        },
        _ => return None,
    })
}
