//! Scenarios of ABR: sources that follow what switches and readers tell them, on lines that take RM
//! cells away, double, damage and hold them.

use cellgate_core::wire::VpiVci;

use super::{LINE, clock, faults, link, names, pick};
use crate::generate::Draw;
use crate::world::QueueMark;
use crate::world::scenario::{
    ConnectionSpec, HostSpec, LinkSpec, Scenario, SourceSpec, SwitchSpec, Traffic,
};

const MS: u64 = 1_000_000;
/// Cells of a connection, at most.
const CELLS: u64 = 4_000;
/// Tolerance that covers what lines make cells wait.
const CDVT: &str = "10ms";

pub(super) fn scenario(draw: &mut Draw) -> Scenario {
    let mut scenario = network(draw);
    scenario.duration_ns = draw.pick(&[60, 200, 600, 1_500]) * MS + draw.below(40 * MS);
    let cell_s = (CELLS * 1_000_000_000 / scenario.duration_ns).min(LINE / 4);
    for n in 0..draw.between(1, 4) {
        connection(draw, &mut scenario, n, cell_s);
    }
    if draw.percent(40) {
        beside(draw, &mut scenario, cell_s);
    }
    if draw.percent(70) {
        faults::of_abr(draw, &mut scenario, CELLS);
    }
    scenario
}

/// One to three who send, none to two switches, one who receives by a line that may be slow.
fn network(draw: &mut Draw) -> Scenario {
    let mut scenario = Scenario::default();
    let switches = draw.below(3);
    for n in 0..switches {
        let cells = draw.pick(&[2, 8, 20, 60]);
        scenario.switches.push(SwitchSpec {
            queue_cells: draw.pick(&[30, 100, 256, 1_000]),
            mark: match draw.below(5) {
                0 => None,
                1 => Some(QueueMark::Ci(cells)),
                2 => Some(QueueMark::Er {
                    target_percent: draw.pick(&[50, 80, 95]),
                }),
                _ => Some(QueueMark::Efci(cells)),
            },
            ..SwitchSpec::named(&format!("s{n}"))
        });
    }
    let overload_cells = draw.pick(&[0, 0, 0, 40]);
    let host = |draw: &mut Draw, name: &str| HostSpec {
        step_ns: draw.pick(&[10_000, 20_000, 50_000, 100_000]),
        wake_up_ns: draw.pick(&[0, 20_000, 100_000]),
        gap_max_ns: draw.pick(&[200_000, 2_000_000]),
        clock_ns: clock(draw),
        ..HostSpec::named(name)
    };
    let reader = HostSpec {
        overload_cells,
        ..host(draw, "reader")
    };
    if switches == 0 {
        scenario.hosts = vec![host(draw, "sender0"), reader];
        scenario.links = vec![LinkSpec::between("sender0", "reader")];
        return scenario;
    }
    if switches == 2 {
        scenario.links.push(LinkSpec::between("s0", "s1"));
    }
    for n in 0..draw.between(1, 3) {
        let sender = host(draw, &format!("sender{n}"));
        link(draw, &mut scenario, sender, "s0");
    }
    link(draw, &mut scenario, reader, &format!("s{}", switches - 1));
    let last = scenario.links.len() - 1;
    scenario.links[last].bit_s = draw.pick(&[2_000_000, 10_000_000, 25_000_000, 149_760_000]);
    scenario
}

/// One that may send so many cells/s, or more.
fn connection(draw: &mut Draw, scenario: &mut Scenario, n: u64, cell_s: u64) {
    let name = format!("abr{n}");
    let pcr = (cell_s * draw.pick(&[1, 2, 4])).min(LINE);
    let line = scenario.links[scenario.links.len() - 1].bit_s / 424;
    // All floors together leave room on the line; the first may be more than an even share of it.
    let most = if n == 0 { line / 3 } else { line / 10 };
    let mcr = match draw.below(3) {
        0 => 0,
        _ => (pcr / draw.pick(&[1, 4, 10, 50])).min(most),
    };
    let icr = match draw.below(3) {
        0 => pcr,
        _ => (pcr / draw.pick(&[2, 10, 40])).max(mcr),
    };
    let sdu = draw.pick(&[40, 88, 400, 1_500]);
    let mut contract = format!("abr,aal5:pcr={pcr}cps,icr={},max_sdu={sdu}", icr.max(1));
    if mcr > 0 {
        contract += &format!(",min_pcr={mcr}cps");
    }
    let cdvt = draw.pick(&["500us", "1ms", CDVT]);
    contract += &format!(",cdvt={cdvt}");
    let words: [(&str, &[&str]); 6] = [
        ("rif", &["1", "1/4", "1/16", "1/256"]),
        ("rdf", &["1", "1/2", "1/16", "1/256"]),
        ("cdf", &["0", "1", "1/2", "1/16"]),
        ("nrm", &["4", "4", "8", "32", "256"]),
        ("trm", &["1ms", "5ms", "30ms", "100ms"]),
        ("adtf", &["10ms", "50ms", "500ms"]),
    ];
    for (word, values) in words {
        if draw.percent(60) {
            contract += &format!(",{word}={}", draw.pick(values));
        }
    }
    if draw.percent(50) {
        contract += &format!(",tbe={}", draw.pick(&[0, 16, 64, 1_000]));
    }
    let address = VpiVci::new(0, 60 + n as u16).unwrap_or_default();
    let from = pick(draw, &names(scenario, "sender"));
    let connection = ConnectionSpec::between(&name, [&from, "reader"], address, &contract);
    scenario.connections.push(connection);
    let sent = (pcr * draw.pick(&[1, 2, 4, 6]) / 4).max(1) as u32;
    let traffic = match draw.below(3) {
        0 => Traffic::OnOff {
            cell_s: sent,
            on_ns: draw.between(2, 60) * MS,
            off_ns: draw.between(2, 120) * MS,
        },
        _ => Traffic::Paced { cell_s: sent },
    };
    scenario.sources.push(SourceSpec {
        by_adapter: true,
        start_ns: draw.below(20 * MS),
        ..SourceSpec::on(&name, traffic, &[sdu as u16, 40])
    });
}

/// Who sends beside them by an adapter: best effort that takes what is left, or a constant rate.
fn beside(draw: &mut Draw, scenario: &mut Scenario, cell_s: u64) {
    let is_best_effort = draw.percent(50);
    let sent = match is_best_effort {
        true => cell_s * draw.pick(&[1, 4]),
        false => (cell_s / 4).max(1),
    };
    let contract = match is_best_effort {
        true => "ubr,aal5:max_sdu=400".to_owned(),
        // Queues of a thousand cells before a slow line are for it to cover.
        false => format!("cbr,aal5:pcr={sent}cps,max_sdu=400,cdvt=600ms"),
    };
    let address = VpiVci::new(1, 40).unwrap_or_default();
    let from = pick(draw, &names(scenario, "sender"));
    let connection = ConnectionSpec::between("beside", [&from, "reader"], address, &contract);
    scenario.connections.push(connection);
    let traffic = Traffic::Paced {
        cell_s: sent.min(LINE) as u32,
    };
    scenario.sources.push(SourceSpec {
        by_adapter: true,
        ..SourceSpec::on("beside", traffic, &[400, 40])
    });
}
