//! What is rough about the machines of scenarios with servers: disks that fill up, and state
//! directories in which somebody has been.

use crate::generate::Draw;
use crate::world::fault::{FaultSpec, Harm, Plant, Spot};
use crate::world::scenario::Scenario;

/// Draws it all.
pub(super) fn draw(draw: &mut Draw, scenario: &mut Scenario) {
    killers(draw, scenario);
    for n in 0..scenario.servers.len() {
        if draw.percent(35) {
            for _ in 0..draw.between(1, 4) {
                state_directory(draw, scenario, n);
            }
        }
    }
}

/// Connections of which adapters die.
fn killers(draw: &mut Draw, scenario: &mut Scenario) {
    if !draw.percent(15) {
        return;
    }
    for _ in 0..draw.pick(&[1, 1, 1, 2]) {
        let n = draw.below(scenario.applications.len() as u64) as usize;
        let application = &scenario.applications[n];
        let for_ns = draw.between(scenario.heal_ns / 2, scenario.heal_ns);
        scenario.faults.push(FaultSpec::Kills {
            connection: application.connection.clone(),
            host: application.host.clone(),
            at_ns: draw.below(scenario.heal_ns - for_ns + 1),
            for_ns,
            after_ns: draw.between(1, 500_000),
            down_ns: draw.between(10_000, 200_000),
        });
    }
}

/// Mostly when a server begins, for then it looks there.
fn state_directory(draw: &mut Draw, scenario: &mut Scenario, server: usize) {
    let server = &scenario.servers[server];
    let for_ns = draw.between(50_000, 4_000_000);
    let latest_ns = scenario.heal_ns - for_ns;
    let begins: Vec<u64> = server
        .crashes
        .iter()
        .map(|one| one.at_ns + one.for_ns)
        .collect();
    let at_ns = match draw.below(3) {
        0 => 0,
        1 if !begins.is_empty() => draw.pick(&begins).saturating_sub(draw.below(for_ns)),
        _ => draw.below(latest_ns),
    };
    let harm = match draw.below(20) {
        0..6 => Harm::Full,
        6..11 => Harm::Vanished,
        11 => Harm::Stale,
        12 | 13 => Harm::Halved,
        14..17 => Harm::Killed {
            operation: draw.between(1, 6) as u32,
            octets: draw.below(200) as u32,
        },
        _ => Harm::Planted {
            at: draw.pick(&[Spot::Lock, Spot::Kept, Spot::New, Spot::Adapter]),
            plant: draw.pick(&[Plant::File, Plant::Directory, Plant::Link]),
        },
    };
    scenario.faults.push(FaultSpec::StateDirectory {
        host: server.host.clone(),
        at_ns: at_ns.min(latest_ns),
        for_ns,
        harm,
    });
}
