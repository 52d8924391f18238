//! What goes wrong, and what is done meanwhile: each class in some of the scenarios, few or many of
//! a kind, all before the healing.

use cellgate_core::Effect;
use cellgate_core::wire::VpiVci;

use super::{Clause, LINE, pick, spans};
use crate::generate::Draw;
use crate::world::scenario::{FaultSpec, Scenario, SourceSpec, Whose};

/// So soon after a change its reader may die, and another opens.
const DYING_NS: u64 = 400_000;

/// What happens to something with a name, when, for how long.
type Make = fn(String, u64, u64) -> FaultSpec;

/// In how many percent of the scenarios, how often at most, for how long.
struct Class {
    percent: u64,
    most: u64,
    for_ns: (u64, u64),
    make: Make,
}

const OF_HOSTS: [Class; 6] = [
    Class {
        percent: 40,
        most: 4,
        for_ns: (10_000, 1_500_000),
        make: |host, at_ns, for_ns| FaultSpec::AdapterStall {
            host,
            at_ns,
            for_ns,
        },
    },
    Class {
        percent: 40,
        most: 3,
        for_ns: (100_000, 6_000_000),
        make: |host, at_ns, for_ns| FaultSpec::HostStall {
            host,
            at_ns,
            for_ns,
        },
    },
    Class {
        percent: 15,
        most: 1,
        for_ns: (50_000, 1_000_000),
        make: |host, at_ns, for_ns| FaultSpec::AdapterCrash {
            host,
            at_ns,
            for_ns,
        },
    },
    Class {
        percent: 15,
        most: 2,
        for_ns: (50_000, 2_000_000),
        make: |host, at_ns, for_ns| FaultSpec::InterruptsLost {
            host,
            at_ns,
            for_ns,
        },
    },
    Class {
        percent: 25,
        most: 8,
        for_ns: (1, 2),
        make: |host, at_ns, _| FaultSpec::SpuriousWakeUp { host, at_ns },
    },
    Class {
        percent: 20,
        most: 2,
        for_ns: (1_000, 2_000_000),
        // Now and then by as much as 32 bits hold.
        make: |host, at_ns, by_ns| FaultSpec::ClockStep {
            host,
            at_ns,
            by_ns: if by_ns % 4 == 0 { by_ns << 12 } else { by_ns },
        },
    },
];

const OF_CONNECTIONS: [Class; 2] = [
    Class {
        percent: 20,
        most: 2,
        for_ns: (50_000, 2_000_000),
        make: |connection, at_ns, for_ns| FaultSpec::ReaderCrash {
            connection,
            at_ns,
            for_ns,
        },
    },
    // Storms: nothing is done with what was opened.
    Class {
        percent: 8,
        most: 12,
        for_ns: (1, 60_000),
        make: |connection, at_ns, for_ns| FaultSpec::ReaderCrash {
            connection,
            at_ns,
            for_ns,
        },
    },
];

/// Draws them all.
pub(super) fn draw(draw: &mut Draw, scenario: &mut Scenario, clauses: &[Clause]) {
    cell_faults(draw, scenario);
    let hosts = scenario.hosts.iter();
    let hosts: Vec<String> = hosts.map(|host| host.name.clone()).collect();
    let open = scenario.connections.iter().filter(|spec| spec.open);
    let open: Vec<String> = open.map(|spec| spec.name.clone()).collect();
    some_of(draw, scenario, &OF_HOSTS, &hosts);
    some_of(draw, scenario, &OF_CONNECTIONS, &open);
    guests(draw, scenario, &hosts, 12);
    changes(draw, scenario, clauses);
    leases(draw, scenario);
    writes(draw, scenario, &open);
    full_queues(draw, scenario, &hosts);
    early_timers(draw, scenario, &hosts);
}

/// Some of these classes, each at one of the names.
fn some_of(draw: &mut Draw, scenario: &mut Scenario, classes: &[Class], names: &[String]) {
    for class in classes.iter().filter(|_| !names.is_empty()) {
        let times = spans(
            draw,
            class.percent,
            class.most,
            class.for_ns,
            scenario.heal_ns,
        );
        for (at_ns, for_ns) in times {
            let name = pick(draw, names);
            scenario.faults.push((class.make)(name, at_ns, for_ns));
        }
    }
}

/// Interrupts that are lost, wake-ups for no reason, steps of clocks.
pub(in crate::world) fn waking(draw: &mut Draw, scenario: &mut Scenario, hosts: &[String]) {
    some_of(draw, scenario, &OF_HOSTS[3..], hosts);
}

/// Commands find no room: mostly when one is given.
pub(in crate::world) fn full_queues(draw: &mut Draw, scenario: &mut Scenario, hosts: &[String]) {
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
    let end = |name: &str, sender: bool| {
        let mut connections = scenario.connections.iter();
        let spec = connections.find(|spec| spec.name == name)?;
        Some(if sender { &spec.from } else { &spec.to })
    };
    let of_faults = scenario.faults.iter().filter_map(|fault| match fault {
        FaultSpec::ReaderCrash {
            connection, at_ns, ..
        } => Some((end(connection, false)?, *at_ns)),
        FaultSpec::Modify {
            connection,
            at_ns,
            sender,
            ..
        } => Some((end(connection, *sender)?, *at_ns)),
        FaultSpec::Guests { host, at_ns, .. } => Some((host, *at_ns)),
        _ => None,
    });
    let of_applications = scenario.applications.iter().flat_map(|one| {
        let calls = one.calls.iter().map(|call| (&one.host, call.at_ns));
        calls.collect::<Vec<_>>()
    });
    let all = of_faults.chain(of_applications);
    all.map(|(host, at_ns)| (host.clone(), at_ns)).collect()
}

/// Timers that fire early, several in a row.
pub(in crate::world) fn early_timers(draw: &mut Draw, scenario: &mut Scenario, hosts: &[String]) {
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
pub(in crate::world) fn guests(
    draw: &mut Draw,
    scenario: &mut Scenario,
    hosts: &[String],
    most: u64,
) {
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
        clause.beyond = super::beyond(draw, clause.aal);
        clause.category = draw.pick(&["cbr", "cbr", "vbr", "ubr"]);
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
pub(in crate::world) fn writes(draw: &mut Draw, scenario: &mut Scenario, open: &[String]) {
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

fn cell_faults(draw: &mut Draw, scenario: &mut Scenario) {
    let cells = scenario.heal_ns * LINE / 2 / 1_000_000_000;
    for class in 0..6 {
        if !draw.percent(50) {
            continue;
        }
        let most = 1 << draw.below(6);
        for _ in 0..draw.between(1, most) {
            cell_fault(draw, scenario, class, 30, cells);
        }
    }
}

/// Classes of [`cell_fault`] that put a cell there, hold the line, or let a cell overtake.
pub(in crate::world) const MOVED: [u64; 3] = [3, 4, 5];

/// One of the first `cells` of a line meets it, on the way back in so many percent.
pub(in crate::world) fn cell_fault(
    draw: &mut Draw,
    scenario: &mut Scenario,
    class: u64,
    back_percent: u64,
    cells: u64,
) {
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
