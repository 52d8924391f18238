//! What is rough about the machines of scenarios with servers: disks that fill up, and state
//! directories in which somebody has been.

use crate::generate::Draw;
use crate::world::scenario::{Call, CallSpec, FaultSpec, Harm, Plant, Scenario, Spot};

/// Draws it all.
pub(super) fn draw(draw: &mut Draw, scenario: &mut Scenario) {
    killers(draw, scenario);
    memory(draw, scenario);
    hand_overs(draw, scenario);
    for n in 0..scenario.servers.len() {
        if draw.percent(35) {
            for _ in 0..draw.between(1, 4) {
                state_directory(draw, scenario, n);
            }
        }
    }
}

/// Connections of which adapters die, one or several of a host.
fn killers(draw: &mut Draw, scenario: &mut Scenario) {
    if !draw.percent(20) {
        return;
    }
    let n = draw.below(scenario.applications.len() as u64) as usize;
    let host = scenario.applications[n].host.clone();
    let here = scenario.applications.iter().filter(|one| one.host == host);
    let mut here: Vec<String> = here.map(|one| one.connection.clone()).collect();
    here.dedup();
    for _ in 0..draw.pick(&[1, 1, 2, 3]) {
        if here.is_empty() {
            return;
        }
        let connection = here.remove(draw.below(here.len() as u64) as usize);
        let for_ns = draw.between(scenario.heal_ns / 2, scenario.heal_ns);
        scenario.faults.push(FaultSpec::Kills {
            connection,
            host: host.clone(),
            at_ns: draw.below(scenario.heal_ns - for_ns + 1),
            for_ns,
            after_ns: draw.between(1, 500_000),
            down_ns: draw.between(10_000, 200_000),
        });
    }
}

/// Machines have less memory for an adapter for a while; in some of these whiles it dies.
fn memory(draw: &mut Draw, scenario: &mut Scenario) {
    if !draw.percent(20) {
        return;
    }
    let n = draw.below(scenario.servers.len() as u64) as usize;
    let host = scenario.servers[n].host.clone();
    let for_ns = draw.between(300_000, scenario.heal_ns);
    let at_ns = draw.below(scenario.heal_ns - for_ns + 1);
    if draw.percent(60) {
        let down_ns = for_ns / 4;
        scenario.faults.push(FaultSpec::AdapterCrash {
            host: host.clone(),
            at_ns: at_ns + draw.below(for_ns - down_ns),
            for_ns: down_ns.min(draw.between(10_000, 200_000)),
        });
    }
    scenario.faults.push(FaultSpec::MemoryLimit {
        host,
        at_ns,
        for_ns,
        octets: draw.pick(&[30_000, 60_000, 100_000, 200_000, 400_000]),
    });
}

/// Somebody opens what another closes at that time, or what that one has left no room for.
fn hand_overs(draw: &mut Draw, scenario: &mut Scenario) {
    if !draw.percent(30) {
        return;
    }
    for _ in 0..draw.between(1, 4) {
        let n = draw.below(scenario.applications.len() as u64) as usize;
        let host = scenario.applications[n].host.clone();
        let close_ns = draw.between(1_000_000, scenario.heal_ns);
        let mut here = scenario.applications.iter_mut();
        let here = here.by_ref().filter(|one| one.host == host);
        for (k, application) in here.enumerate() {
            let at_ns = close_ns + draw.below(200_000);
            let call = |at_ns, call| CallSpec { at_ns, call };
            // All but one have closed theirs before.
            if k == n % 2 {
                application.calls.push(call(at_ns, Call::Close));
            } else {
                application
                    .calls
                    .push(call(close_ns - 900_000, Call::Close));
                application.calls.push(call(at_ns, Call::Open));
            }
            application.calls.sort_by_key(|call| call.at_ns);
        }
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
