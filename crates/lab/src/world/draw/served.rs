//! Scenarios with servers, and applications that ask these for connections.

use cellgate_core::adapter::Notification;
use cellgate_core::wire::VpiVci;

use super::contracts::{bad_contract, contract, other_contracts, rare_contracts};
use super::{CDVT, LINE, clock, faults, link, pick, rough, spans};
use crate::generate::Draw;
use crate::world::incident::SETTLED;
use crate::world::scenario::{
    ApplicationSpec, Call, CallSpec, ConnectionSpec, CrashSpec, FaultSpec, HostSpec, Scenario,
    ServerSpec, SourceSpec, SwitchSpec, Traffic,
};

/// Draws one, with what is rare or without.
pub(super) fn scenario(draw: &mut Draw, with_rarities: bool) -> Scenario {
    let (mut scenario, hosts) = network(draw);
    scenario.heal_ns = draw.between(8_000_000, 20_000_000);
    let after_ns = draw.between(4_000_000, 10_000_000);
    scenario.duration_ns = scenario.heal_ns + 2 * SETTLED.ns() + after_ns;
    let hosts = &hosts[..];
    servers(draw, &mut scenario, hosts);
    connections(draw, &mut scenario, hosts);
    hazard(draw, &mut scenario, hosts);
    faults::of_served(draw, &mut scenario, hosts);
    deaths_together(draw, &mut scenario);
    if with_rarities {
        rarities(draw, &mut scenario);
    }
    faults::full_queues(draw, &mut scenario, hosts);
    faults::early_timers(draw, &mut scenario, hosts);
    for host in &mut scenario.hosts {
        host.clock_ns = clock(draw);
        host.clump_cells = draw.pick(&[1, 1, 4, 28]);
        host.spare_vcs = draw.pick(&[0, 0, 2, 8]);
        host.reassembly_timeout_ns = draw.pick(&[0, 0, 0, 1_000_000, 8_000_000]);
    }
    faults::beside(draw, &mut scenario, hosts);
    other_contracts(draw, &mut scenario);
    let connections = scenario.connections.iter().map(|spec| spec.name.clone());
    let connections: Vec<String> = connections.collect();
    faults::writes(draw, &mut scenario, &connections);
    rare_contracts(draw, &mut scenario);
    rough::draw(draw, &mut scenario);
    scenario
}

/// Two or three hosts around a switch, and one that does harm; the names of the former.
fn network(draw: &mut Draw) -> (Scenario, Vec<String>) {
    let mut scenario = Scenario {
        switches: vec![SwitchSpec::named("s")],
        ..Scenario::default()
    };
    let hosts = 0..draw.between(2, 3);
    let hosts: Vec<String> = hosts.map(|n| format!("h{n}")).collect();
    for name in &hosts {
        host(draw, &mut scenario, name);
    }
    host(draw, &mut scenario, "hazard");
    (scenario, hosts)
}

fn host(draw: &mut Draw, scenario: &mut Scenario, name: &str) {
    let host = HostSpec {
        step_ns: draw.pick(&[5_000, 10_000, 10_000, 20_000]),
        budget: draw.pick(&[64, 128, 256]),
        event_slots: draw.pick(&[4, 64, 256]),
        wake_up_ns: draw.pick(&[0, 5_000, 20_000, 100_000]),
        gap_max_ns: draw.pick(&[200_000, 2_000_000]),
        ..HostSpec::named(name)
    };
    link(draw, scenario, host, "s");
}

fn servers(draw: &mut Draw, scenario: &mut Scenario, hosts: &[String]) {
    for name in hosts {
        scenario.servers.push(ServerSpec {
            control_ns: draw.pick(&[1_000, 20_000, 20_000, 200_000]),
            memory: draw.pick(&[200_000, 1 << 20, 64 << 20, 64 << 20]),
            connections: draw.pick(&[2, 4, 64, 64]),
            adapter_ppm: draw.pick(&[60_000, 1_000_000, 1_000_000]),
            best_effort_percent: draw.pick(&[0, 2, 2, 50]),
            quota_cell_s: draw.pick(&[0, 0, 60_000]),
            order: draw.below(1 << 32),
            crashes: spans(draw, 50, 3, (100_000, 3_000_000), scenario.heal_ns)
                .into_iter()
                .map(|(at_ns, for_ns)| CrashSpec { at_ns, for_ns })
                .collect(),
            refused: match draw.percent(25) {
                true => (0..draw.between(1, 4)).map(|_| draw.below(24)).collect(),
                false => Vec::new(),
            },
            ..ServerSpec::on(name)
        });
    }
}

fn connections(draw: &mut Draw, scenario: &mut Scenario, hosts: &[String]) {
    // Calls that come at the same times race.
    let grid = draw.pick(&[1, 1, 50_000, 1_000_000]);
    for n in 0..draw.between(1, 6) {
        let from = draw.below(hosts.len() as u64) as usize;
        let to = (from + 1 + draw.below(hosts.len() as u64 - 1) as usize) % hosts.len();
        let max_sdu = draw.pick(&[40, 88, 200, 500, 1_500]);
        let name = format!("c{n}");
        let address = VpiVci::new(0, 32 + n as u16).unwrap_or_default();
        let contract = contract(draw, max_sdu);
        scenario.connections.push(ConnectionSpec {
            notification: match draw.below(4) {
                0 => Notification::EveryCell,
                1 => Notification::Silent {
                    threshold: draw.pick(&[1, 3, 8]),
                    longest_delay_ns: draw.pick(&[100_000, 500_000]),
                },
                _ => Notification::LastCell,
            },
            ..ConnectionSpec::between(&name, [&hosts[from], &hosts[to]], address, &contract)
        });
        for host in [from, to] {
            applications(draw, scenario, &hosts[host], (&name, max_sdu), grid);
        }
        let traffic = match draw.percent(60) {
            true => Traffic::Greedy,
            false => Traffic::Paced {
                cell_s: draw.between(1_000, LINE / 4) as u32,
            },
        };
        let sdus = match draw.percent(50) {
            true => vec![max_sdu],
            false => vec![max_sdu, 12 + max_sdu / 2 - 6, 12],
        };
        scenario.sources.push(SourceSpec {
            start_ns: draw.below(1_000_000),
            by_adapter: true,
            ..SourceSpec::on(&name, traffic, &sdus)
        });
    }
}

/// Who asks for one end of a connection: mostly one program, at times one that goes for the same.
fn applications(
    draw: &mut Draw,
    scenario: &mut Scenario,
    host: &str,
    (connection, max_sdu): (&str, u16),
    grid: u64,
) {
    let heal_ns = scenario.heal_ns;
    let at = |draw: &mut Draw, most: u64| draw.below(most / grid + 1) * grid;
    let uid = draw.pick(&[1_000, 1_000, 1_001, 0]);
    let mut application = ApplicationSpec {
        name: format!("{connection}@{host}"),
        host: host.into(),
        connection: connection.into(),
        uid,
        accepts: draw.percent(50),
        calls: vec![CallSpec {
            at_ns: at(draw, 1_000_000),
            call: Call::Open,
        }],
    };
    let is_permanent = draw.percent(12);
    if is_permanent {
        let add = CallSpec {
            at_ns: 0,
            call: Call::Add,
        };
        application.calls[0].call = Call::Take;
        application.calls.insert(0, add);
    }
    if draw.percent(60) {
        for _ in 0..draw.between(1, 5) {
            let at_ns = at(draw, heal_ns);
            let calls = some_calls(draw, is_permanent, max_sdu);
            let calls = calls.into_iter().map(|call| CallSpec { at_ns, call });
            application.calls.extend(calls);
        }
    }
    application.calls.sort_by_key(|call| call.at_ns);
    if draw.percent(25) {
        let call = match draw.below(3) {
            0 => Call::Open,
            1 => Call::Take,
            _ => Call::Reattach,
        };
        let rival = ApplicationSpec {
            name: format!("rival:{connection}@{host}"),
            uid: draw.pick(&[uid, uid, 0, 1_002]),
            calls: (0..draw.between(1, 3))
                .map(|_| CallSpec {
                    at_ns: at(draw, heal_ns),
                    call: call.clone(),
                })
                .collect(),
            ..application.clone()
        };
        scenario.applications.push(rival);
    }
    scenario.applications.push(application);
}

/// What a program does in a row, without waiting.
fn some_calls(draw: &mut Draw, is_permanent: bool, max_sdu: u16) -> Vec<Call> {
    let again = if is_permanent { Call::Take } else { Call::Open };
    match draw.below(8) {
        0 => vec![Call::Close, again],
        1 => vec![Call::Crash, again],
        2 => vec![Call::OpenWith(bad_contract(draw)), again],
        3 => vec![again],
        4 if is_permanent => vec![Call::Delete, Call::Add, Call::Take],
        5 => vec![Call::Modify(bad_contract(draw)), again],
        _ => vec![Call::Modify(contract(draw, max_sdu))],
    }
}

/// Cells of strangers, and too many of a connection that is received.
fn hazard(draw: &mut Draw, scenario: &mut Scenario, hosts: &[String]) {
    if !draw.percent(40) {
        return;
    }
    let to = pick(draw, hosts);
    let cell_s = draw.between(1_000, LINE / 4);
    let contract = format!("cbr,aal5:pcr={}cps,max_sdu=200,cdvt={CDVT}", cell_s / 3);
    let address = VpiVci::new(0, 100).unwrap_or_default();
    let flood = ConnectionSpec::between("flood", ["hazard", &to], address, &contract);
    scenario.connections.push(flood);
    scenario.applications.push(ApplicationSpec {
        name: "flooded".into(),
        host: to,
        connection: "flood".into(),
        uid: 1_000,
        accepts: false,
        calls: vec![CallSpec {
            at_ns: draw.below(1_000_000),
            call: Call::Open,
        }],
    });
    let cell_s = cell_s as u32;
    let traffic = match draw.percent(30) {
        true => Traffic::Scan { cell_s },
        false => Traffic::Paced { cell_s },
    };
    scenario.sources.push(SourceSpec {
        start_ns: draw.below(1_000_000),
        hazard: true,
        ..SourceSpec::on("flood", traffic, &[200, 40])
    });
}

/// Events too rare otherwise, for every fourth scenario: adapters under overload, programs that do
/// not say hello, servers and adapters that die while a call is carried out.
fn rarities(draw: &mut Draw, scenario: &mut Scenario) {
    for host in &mut scenario.hosts {
        host.overload_cells = draw.pick(&[0, 40, 150]);
    }
    for application in &mut scenario.applications {
        if draw.percent(15) {
            let mute = CallSpec {
                at_ns: draw.below(1_000_000),
                call: Call::Mute,
            };
            application.calls.insert(0, mute);
        }
    }
    for _ in 0..draw.between(1, 3) {
        let n = draw.below(scenario.applications.len() as u64) as usize;
        // What is permanent and is given back goes through most stages.
        let gives_back = |one: &&ApplicationSpec| one.calls.iter().any(|c| c.call == Call::Add);
        let permanent = scenario.applications.iter().find(gives_back);
        let application = match permanent.filter(|_| draw.percent(60)) {
            Some(permanent) => permanent,
            None => &scenario.applications[n],
        };
        let at = draw.below(application.calls.len() as u64) as usize;
        let (host, called_ns) = (application.host.clone(), application.calls[at].at_ns);
        let Some(server) = scenario.servers.iter_mut().find(|one| one.host == host) else {
            continue;
        };
        let for_ns = draw.between(50_000, 1_000_000);
        let latest_ns = scenario.heal_ns - for_ns;
        let at_ns = (called_ns + draw.below(16 * server.control_ns)).min(latest_ns);
        if draw.percent(50) {
            server.crashes.push(CrashSpec { at_ns, for_ns });
        } else {
            scenario.faults.push(FaultSpec::AdapterCrash {
                host,
                at_ns,
                for_ns,
            });
        }
    }
}

/// A server dies while another adapter is being found, or all is opened again there.
fn deaths_together(draw: &mut Draw, scenario: &mut Scenario) {
    for fault in &scenario.faults {
        let FaultSpec::AdapterCrash {
            host,
            at_ns,
            for_ns,
        } = fault
        else {
            continue;
        };
        let mut servers = scenario.servers.iter_mut();
        if let Some(server) = servers.find(|one| one.host == *host)
            && draw.percent(60)
        {
            server.crashes.push(CrashSpec {
                at_ns: at_ns + for_ns / 2 + draw.below(for_ns / 2 + 8 * server.control_ns),
                for_ns: draw.between(50_000, 1_000_000),
            });
        }
    }
}
