//! Scenarios without servers: senders, what does harm, and readers.

use std::collections::BTreeSet;

use cellgate_core::adapter::{
    Aal, AttachmentIndex, Excess, Interleaving, Marks, Notification, OpenRequest, PortIndex,
    Receive,
};
use cellgate_core::contract::CellRate;
use cellgate_core::wire::VpiVci;

use super::contracts::{Clause, beyond};
use super::{CDVT, LINE, clock, faults, link, names, pick};
use crate::generate::{Draw, recording};
use crate::world::QueueDiscard;
use crate::world::incident::SETTLED;
use crate::world::scenario::{
    ConnectionSpec, FaultSpec, HostSpec, LinkSpec, Scenario, SourceSpec, SwitchSpec, TimedCell,
    Traffic,
};

/// Draws one.
pub(super) fn scenario(draw: &mut Draw) -> Scenario {
    let mut scenario = network(draw);
    scenario.heal_ns = draw.between(4_000_000, 10_000_000);
    let after_ns = draw.between(2_000_000, 6_000_000);
    scenario.duration_ns = scenario.heal_ns + SETTLED.ns() + after_ns;
    let mut clauses = traffic(draw, &mut scenario);
    hazards(draw, &mut scenario, &mut clauses);
    faults::of_plain(draw, &mut scenario, &clauses);
    bursts(draw, &mut scenario);
    scenario
}

/// Some of those who send VBR by their adapter have more than a burst to send, where nothing but
/// their shaper's contract holds them to it: it is not changed.
fn bursts(draw: &mut Draw, scenario: &mut Scenario) {
    let changes = scenario.faults.iter().filter_map(|fault| match fault {
        FaultSpec::Modify {
            connection,
            sender: true,
            ..
        } => Some(connection),
        _ => None,
    });
    let changed: BTreeSet<&String> = changes.collect();
    for source in scenario.sources.iter_mut().filter(|one| one.by_adapter) {
        let mut all = scenario.connections.iter();
        let connection = all.find(|spec| spec.name == source.connection);
        let is_vbr = connection.is_some_and(|spec| spec.contract.starts_with("vbr"));
        let is_changed = changed.contains(&source.connection);
        if source.hazard || !is_vbr || is_changed || !draw.percent(60) {
            continue;
        }
        if let Traffic::Paced { cell_s } | Traffic::OnOff { cell_s, .. } = &mut source.traffic {
            *cell_s *= 4;
        }
    }
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
    let step_ns = draw.pick(&[5_000, 10_000, 10_000, 20_000, 50_000]);
    // What a line brings in a step, and little more: then a crowd lasts.
    let line = (step_ns * LINE).div_ceil(1_000_000_000) as u16;
    let overload_cells = draw.pick(&[0, 0, 40, 150, 600]);
    let host = HostSpec {
        step_ns,
        budget: match overload_cells {
            0 => draw.pick(&[64, 128, 256]),
            _ => line + draw.pick(&[1, 4, 60]),
        },
        event_slots: draw.pick(&[4, 64, 256, 256]),
        wake_up_ns: draw.pick(&[0, 5_000, 20_000, 100_000]),
        gap_max_ns: draw.pick(&[200_000, 200_000, 2_000_000]),
        clump_cells: draw.pick(&[1, 1, 4, 28]),
        overload_cells,
        reassembly_timeout_ns: draw.pick(&[0, 0, 0, 0, 0, 0, 1_000_000, 8_000_000]),
        spare_vcs: draw.pick(&[0, 2, 8]),
        clock_ns: clock(draw),
        ..HostSpec::named(name)
    };
    link(draw, scenario, host, switch);
}

/// Lengths of SDUs of an AAL, the longest first.
fn sdus(draw: &mut Draw, aal: &str) -> Vec<u16> {
    if aal == "aal0" {
        return vec![48];
    }
    let longest = draw.pick(&[40, 41, 88, 200, 500, 1_500]);
    (0..draw.between(1, 3))
        .map(|n| match n {
            0 => longest,
            _ => draw.between(SourceSpec::SDU_MIN.into(), longest.into()) as u16,
        })
        .collect()
}

fn aal(draw: &mut Draw) -> &'static str {
    draw.pick(&["aal5", "aal5", "aal5", "aal34", "aal34", "aal0"])
}

/// Connections whose senders keep their contracts: together less than half a line.
fn traffic(draw: &mut Draw, scenario: &mut Scenario) -> Vec<Clause> {
    let (senders, readers) = (names(scenario, "sender"), names(scenario, "reader"));
    let count = draw.between(1, 6);
    let mut clauses = Vec::new();
    for n in 0..count {
        let cell_s = draw.between(1_000, LINE / 2 / count);
        let aal = aal(draw);
        let sdus = sdus(draw, aal);
        let clause = Clause {
            aal,
            category: draw.pick(&["ubr", "vbr", "cbr", "cbr", "cbr", "cbr"]),
            cell_s,
            max_sdu: sdus[0],
            cdvt: CDVT,
            beyond: beyond(draw, aal),
        };
        let name = format!("c{n}");
        let (from, to) = (pick(draw, &senders), pick(draw, &readers));
        let vpi = draw.pick(&[0, 0, 1, 255]);
        let address = VpiVci::new(vpi, 32 + n as u16).unwrap_or_default();
        scenario.connections.push(ConnectionSpec {
            notification: notification(draw),
            client: draw.below(2) as u16,
            ..ConnectionSpec::between(&name, [&from, &to], address, &clause.text())
        });
        clauses.push(clause);
        let is_bursty = draw.percent(15);
        let traffic = if is_bursty {
            Traffic::OnOff {
                cell_s: cell_s as u32,
                on_ns: draw.between(100_000, 3_000_000),
                off_ns: draw.between(100_000, 3_000_000),
            }
        } else {
            Traffic::Paced {
                cell_s: cell_s as u32,
            }
        };
        scenario.sources.push(SourceSpec {
            start_ns: draw.below(1_000_000),
            by_adapter: draw.percent(35),
            mids: draw.below(5) as u16,
            ..SourceSpec::on(&name, traffic, &sdus)
        });
    }
    clauses
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
fn hazards(draw: &mut Draw, scenario: &mut Scenario, clauses: &mut Vec<Clause>) {
    let readers = names(scenario, "reader");
    let mut room = if draw.percent(80) { LINE / 2 } else { LINE };
    for n in 0..draw.below(4) {
        let name = format!("h{n}");
        let cell_s = draw.between(1_000, (room / 2).max(1_001));
        room = room.saturating_sub(cell_s);
        let aal = aal(draw);
        let sdus = sdus(draw, aal);
        let rate = (cell_s / draw.between(2, 20)).max(100);
        let clause = Clause {
            aal,
            category: draw.pick(&["vbr", "vbr", "cbr", "cbr", "cbr", "cbr", "ubr"]),
            cell_s: rate,
            max_sdu: sdus[0],
            cdvt: draw.pick(&["0us", "100us", CDVT]),
            beyond: beyond(draw, aal),
        };
        let to = pick(draw, &readers);
        let address = VpiVci::new(0, 100 + n as u16).unwrap_or_default();
        let connection = ConnectionSpec {
            notification: notification(draw),
            open: draw.percent(70),
            ..ConnectionSpec::between(&name, ["hazard", &to], address, &clause.text())
        };
        let traffic = harm(draw, scenario, &connection, (cell_s, rate), &clause);
        clauses.push(clause);
        scenario.connections.push(connection);
        scenario.sources.push(SourceSpec {
            start_ns: draw.below(1_000_000),
            hazard: true,
            mids: draw.below(5) as u16,
            ..SourceSpec::on(&name, traffic, &sdus)
        });
    }
}

fn harm(
    draw: &mut Draw,
    scenario: &Scenario,
    connection: &ConnectionSpec,
    (cell_s, rate): (u64, u64),
    clause: &Clause,
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
                aal: match clause.aal {
                    "aal0" => Aal::Aal0,
                    "aal34" => Aal::Aal34(Interleaving {
                        mids: SourceSpec::MIDS_MAX,
                        reassembly_timeout_ns: 0,
                    }),
                    _ => Aal::Aal5,
                },
                attachment: AttachmentIndex(0),
                receive: Some(receive(rate, clause.max_sdu)),
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
        marks: Marks::None,
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
