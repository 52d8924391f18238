//! From a seed to a scenario. Only here is anything drawn.

use cellgate_core::Effect;
use cellgate_core::adapter::{
    Aal, AttachmentIndex, Excess, Notification, OpenRequest, PortIndex, Receive,
};
use cellgate_core::contract::CellRate;
use cellgate_core::wire::VpiVci;

use super::QueueDiscard;
use super::incident::SETTLED;
use super::scenario::{
    ConnectionSpec, FaultSpec, HostSpec, LinkSpec, Scenario, SourceSpec, SwitchSpec, TimedCell,
    Traffic,
};
use crate::generate::{Draw, recording};

/// Cells per second of the links.
const LINE: u64 = 353_207;
/// Tolerance that covers the queues of two switches.
const CDVT: &str = "2ms";

/// The scenario of a seed: equal seeds, equal scenarios.
pub fn scenario_of(seed: u64) -> Scenario {
    if let Some(scenario) = super::service::scenario_of(seed) {
        return scenario;
    }
    let mut draw = Draw::new(seed);
    let mut scenario = network(&mut draw);
    scenario.seed = seed;
    let heal_ns = draw.between(4_000_000, 10_000_000);
    scenario.heal_ns = heal_ns;
    scenario.duration_ns = heal_ns + SETTLED.ns() + draw.between(2_000_000, 6_000_000);
    traffic(&mut draw, &mut scenario);
    hazards(&mut draw, &mut scenario);
    faults(&mut draw, &mut scenario);
    scenario
}

/// Senders and hazards to the left, one or two switches, readers to the right.
fn network(draw: &mut Draw) -> Scenario {
    let switches = draw.between(1, 2);
    let mut scenario = Scenario::default();
    for n in 0..switches {
        scenario.switches.push(SwitchSpec {
            queue_cells: draw.pick(&[64, 128, 256]),
            discard: match draw.below(5) {
                0 | 1 => QueueDiscard::Shared,
                2 => QueueDiscard::PerVc { quota: 40 },
                3 => QueueDiscard::Ppd,
                _ => QueueDiscard::Epd { threshold: 50 },
            },
            ..SwitchSpec::named(&format!("s{n}"))
        });
    }
    if switches == 2 {
        scenario.links.push(LinkSpec::between("s0", "s1"));
    }
    let last = format!("s{}", switches - 1);
    for n in 0..draw.between(1, 3) {
        host(draw, &mut scenario, &format!("sender{n}"), "s0");
    }
    host(draw, &mut scenario, "hazard", "s0");
    for n in 0..draw.between(1, 2) {
        host(draw, &mut scenario, &format!("reader{n}"), &last);
    }
    if draw.percent(40) {
        // A port of its own, so that any address reaches the adapter.
        let link = LinkSpec::between("hazard", "reader0");
        scenario.links.push(link);
    }
    scenario
}

fn host(draw: &mut Draw, scenario: &mut Scenario, name: &str, switch: &str) {
    scenario.hosts.push(HostSpec {
        step_ns: draw.pick(&[5_000, 10_000, 10_000, 20_000, 50_000]),
        budget: draw.pick(&[64, 128, 256]),
        event_slots: draw.pick(&[4, 64, 256, 256]),
        wake_up_ns: draw.pick(&[0, 5_000, 20_000, 100_000]),
        gap_max_ns: draw.pick(&[200_000, 2_000_000, 2_000_000]),
        clump_cells: draw.pick(&[1, 1, 4, 28]),
        ..HostSpec::named(name)
    });
    scenario.links.push(LinkSpec {
        delay_ns: draw.pick(&[100, 5_000, 50_000]),
        ..LinkSpec::between(name, switch)
    });
}

fn names(scenario: &Scenario, begin: &str) -> Vec<String> {
    let names = scenario.hosts.iter().map(|host| host.name.clone());
    names.filter(|name| name.starts_with(begin)).collect()
}

fn sdus(draw: &mut Draw) -> Vec<u16> {
    let longest = draw.pick(&[40, 41, 88, 200, 500, 1_500]);
    (0..draw.between(1, 3))
        .map(|n| match n {
            0 => longest,
            _ => draw.between(SourceSpec::SDU_MIN.into(), longest.into()) as u16,
        })
        .collect()
}

/// Connections whose senders keep their contracts: together less than half a line.
fn traffic(draw: &mut Draw, scenario: &mut Scenario) {
    let (senders, readers) = (names(scenario, "sender"), names(scenario, "reader"));
    let count = draw.between(1, 6);
    for n in 0..count {
        let cell_s = draw.between(1_000, LINE / 2 / count);
        let sdus = sdus(draw);
        let max_sdu = sdus[0];
        let contract = match draw.below(6) {
            0 => format!("ubr,aal5:max_sdu={max_sdu}"),
            1 => format!(
                "vbr,aal5:pcr={}cps,scr={cell_s}cps,mbs={},max_sdu={max_sdu},cdvt={CDVT}",
                2 * cell_s,
                40 + u64::from(max_sdu) / 24,
            ),
            _ => format!("cbr,aal5:pcr={cell_s}cps,max_sdu={max_sdu},cdvt={CDVT}"),
        };
        let name = format!("c{n}");
        scenario.connections.push(ConnectionSpec {
            name: name.clone(),
            from: pick(draw, &senders),
            to: pick(draw, &readers),
            address: VpiVci::new(draw.pick(&[0, 0, 1, 255]), 32 + n as u16).unwrap_or_default(),
            contract,
            notification: notification(draw),
            client: draw.below(2) as u16,
            open: true,
        });
        let is_bursty = draw.percent(15);
        scenario.sources.push(SourceSpec {
            connection: name,
            traffic: if is_bursty {
                Traffic::OnOff {
                    cell_s: cell_s as u32,
                    on_ns: draw.between(100_000, 3_000_000),
                    off_ns: draw.between(100_000, 3_000_000),
                }
            } else {
                Traffic::Paced {
                    cell_s: cell_s as u32,
                }
            },
            sdus,
            start_ns: draw.below(1_000_000),
            stop_ns: 0,
            by_adapter: draw.percent(35),
            hazard: false,
        });
    }
}

fn pick(draw: &mut Draw, names: &[String]) -> String {
    names[draw.below(names.len() as u64) as usize].clone()
}

fn notification(draw: &mut Draw) -> Notification {
    match draw.below(6) {
        0 => Notification::EveryCell,
        1 => Notification::FirstAndLastCell,
        2 | 3 => Notification::Silent {
            threshold: draw.pick(&[1, 3, 8, 64]),
            longest_delay_ns: draw.pick(&[100_000, 500_000, 1_000_000]),
        },
        _ => Notification::LastCell,
    }
}

/// Sources that do harm, from a host of their own: floods beyond a contract, floods of strangers,
/// damaged PDUs. Mostly the network has room for them, so that only adapters are tried.
fn hazards(draw: &mut Draw, scenario: &mut Scenario) {
    let readers = names(scenario, "reader");
    let mut room = if draw.percent(80) { LINE / 2 } else { LINE };
    for n in 0..draw.below(4) {
        let name = format!("h{n}");
        let cell_s = draw.between(1_000, (room / 2).max(1_001));
        room = room.saturating_sub(cell_s);
        let sdus = sdus(draw);
        let rate = (cell_s / draw.between(2, 20)).max(100);
        let excess = draw.pick(&["", "", "excess=tag,"]);
        let category = if draw.percent(30) {
            format!("vbr,aal5:{excess}pcr={}cps,scr={rate}cps,mbs=70", 3 * rate)
        } else {
            format!("cbr,aal5:{excess}pcr={rate}cps")
        };
        let cdvt = draw.pick(&["0us", "100us", CDVT]);
        let connection = ConnectionSpec {
            name: name.clone(),
            from: "hazard".into(),
            to: pick(draw, &readers),
            address: VpiVci::new(0, 100 + n as u16).unwrap_or_default(),
            contract: format!("{category},max_sdu={},cdvt={cdvt}", sdus[0]),
            notification: notification(draw),
            client: 0,
            open: draw.percent(70),
        };
        let traffic = harm(draw, scenario, &connection, (cell_s, rate), sdus[0]);
        scenario.connections.push(connection);
        scenario.sources.push(SourceSpec {
            connection: name,
            traffic,
            sdus,
            start_ns: draw.below(1_000_000),
            stop_ns: 0,
            by_adapter: false,
            hazard: true,
        });
    }
}

fn harm(
    draw: &mut Draw,
    scenario: &Scenario,
    connection: &ConnectionSpec,
    (cell_s, rate): (u64, u64),
    max_sdu: u16,
) -> Traffic {
    let cell_s = cell_s as u32;
    match draw.below(7) {
        0 => Traffic::Scan { cell_s },
        1 => Traffic::OnOff {
            cell_s,
            on_ns: draw.between(10_000, 1_000_000),
            off_ns: draw.between(10_000, 1_000_000),
        },
        2 | 3 => {
            let reaches_all = connection.to == "reader0"
                && scenario
                    .links
                    .iter()
                    .any(|link| link.ends[0] == "hazard" && link.ends[1] == "reader0");
            let request = OpenRequest {
                address: connection.address,
                port: PortIndex(0),
                aal: Aal::Aal5,
                attachment: AttachmentIndex(0),
                receive: Some(receive(rate, max_sdu)),
                transmit: None,
            };
            let until_ns = scenario.duration_ns.saturating_sub(1_000_000);
            let cells = recording(draw, &request, until_ns, reaches_all);
            let timed = cells.into_iter().map(|arrival| TimedCell {
                at_ns: arrival.at_ns,
                octets: arrival.octets,
            });
            Traffic::Cells(timed.collect())
        }
        _ => Traffic::Paced { cell_s },
    }
}

/// What a damaged source aims at.
fn receive(rate: u64, max_sdu: u16) -> Receive {
    Receive {
        rate: CellRate::new(rate as u32),
        sustained: None,
        guaranteed: false,
        cdvt_ns: 0,
        max_sdu,
        fixed_sdu: false,
        excess: Excess::Discard,
        notification: Notification::LastCell,
        queue_threshold: 0,
    }
}

/// Times before the healing, in `percent` of the scenarios.
pub(super) fn spans(
    draw: &mut Draw,
    percent: u64,
    most: u64,
    (least_ns, longest_ns): (u64, u64),
    heal_ns: u64,
) -> Vec<(u64, u64)> {
    if !draw.percent(percent) {
        return Vec::new();
    }
    let count = draw.between(1, most);
    let span = |_| {
        let for_ns = draw.between(least_ns, longest_ns);
        (draw.below(heal_ns.saturating_sub(for_ns).max(1)), for_ns)
    };
    (0..count).map(span).collect()
}

/// Each class in half of the scenarios, few or many of a kind, all before the healing.
fn faults(draw: &mut Draw, scenario: &mut Scenario) {
    let heal_ns = scenario.heal_ns;
    cell_faults(draw, scenario);
    let hosts: Vec<String> = scenario
        .hosts
        .iter()
        .map(|host| host.name.clone())
        .collect();
    let connections = names_of_connections(scenario);
    for (at_ns, for_ns) in spans(draw, 40, 4, (10_000, 1_500_000), heal_ns) {
        let host = pick(draw, &hosts);
        scenario.faults.push(FaultSpec::AdapterStall {
            host,
            at_ns,
            for_ns,
        });
    }
    for (at_ns, for_ns) in spans(draw, 30, 3, (100_000, 3_500_000), heal_ns) {
        let host = pick(draw, &hosts);
        scenario.faults.push(FaultSpec::HostStall {
            host,
            at_ns,
            for_ns,
        });
    }
    for (at_ns, for_ns) in spans(draw, 25, 2, (50_000, 2_000_000), heal_ns) {
        let connection = pick(draw, &connections);
        scenario.faults.push(FaultSpec::ReaderCrash {
            connection,
            at_ns,
            for_ns,
        });
    }
    for (at_ns, for_ns) in spans(draw, 15, 1, (50_000, 1_000_000), heal_ns) {
        let host = pick(draw, &hosts);
        scenario.faults.push(FaultSpec::AdapterCrash {
            host,
            at_ns,
            for_ns,
        });
    }
    if draw.percent(20) {
        let connection = pick(draw, &connections);
        for (at_ns, _) in spans(draw, 100, 40, (1, 2), heal_ns) {
            scenario.faults.push(FaultSpec::Write {
                connection: connection.clone(),
                at_ns,
                // The tails and heads, or anywhere.
                word: draw.pick(&[16, 16, 32, 32, 512, 513]) + draw.pick(&[0, 0, 0, 1, 700]),
                value: draw.pick(&[0, 1, 2, 3, 100, u64::MAX, 1 << 63, 1 << 32]),
            });
        }
    }
}

fn names_of_connections(scenario: &Scenario) -> Vec<String> {
    let open = scenario
        .connections
        .iter()
        .filter(|connection| connection.open);
    open.map(|connection| connection.name.clone()).collect()
}

fn cell_faults(draw: &mut Draw, scenario: &mut Scenario) {
    let cells = scenario.heal_ns * LINE / 2 / 1_000_000_000;
    for class in 0..5 {
        if !draw.percent(50) {
            continue;
        }
        let most = 1 << draw.below(6);
        for _ in 0..draw.between(1, most) {
            let other = draw.pick(&[32, 33, 34, 100, 101, 999]);
            let address = VpiVci::new(0, other).unwrap_or_default();
            let effect = match class {
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
                _ => Effect::Hold {
                    ns: draw.between(1_000, 500_000),
                },
            };
            scenario.faults.push(FaultSpec::Cell {
                link: draw.below(scenario.links.len() as u64) as usize,
                back: draw.percent(30),
                cell: draw.below(cells),
                effect,
            });
        }
    }
}
