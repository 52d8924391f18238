//! Scenarios of video: streams that share lines, what these do to cells, and what happens to hosts.

use cellgate_core::wire::VpiVci;

use super::{LINE, clock, faults, link, names, pick};
use crate::generate::Draw;
use crate::world::scenario::{
    ClockSpec, ConnectionSpec, HostSpec, LinkSpec, LostSpec, Scenario, SourceSpec, StreamSpec,
    SwitchSpec, Traffic,
};

const MS: u64 = 1_000_000;
/// Cells of a stream, about.
const CELLS: u64 = 6_000;
/// Tolerance that covers what lines make cells wait.
const CDVT: &str = "10ms";

pub(super) fn scenario(draw: &mut Draw) -> Scenario {
    // Clocks are recovered in seconds; what is lost is so at any rate.
    let is_long = draw.percent(25);
    let duration_ns = match is_long {
        true => draw.between(30_000, 90_000) * MS,
        false => draw.between(150, 900) * MS,
    };
    let mut scenario = network(draw);
    scenario.duration_ns = duration_ns;
    for n in 0..draw.between(1, if is_long { 2 } else { 3 }) {
        stream(draw, &mut scenario, n);
    }
    if draw.percent(30) {
        beside(draw, &mut scenario);
    }
    if draw.percent(65) {
        faults::of_streams(draw, &mut scenario, CELLS);
    }
    scenario
}

/// One or two who send, up to two switches, one who receives.
fn network(draw: &mut Draw) -> Scenario {
    let mut scenario = Scenario::default();
    let switches = draw.below(3);
    let queue_cells = draw.pick(&[4, 30, 128, 256, 256, 256]);
    for n in 0..switches {
        scenario.switches.push(SwitchSpec {
            queue_cells,
            ..SwitchSpec::named(&format!("s{n}"))
        });
    }
    let host = |draw: &mut Draw, name: &str| HostSpec {
        step_ns: draw.pick(&[10_000, 20_000, 50_000, 200_000]),
        wake_up_ns: draw.pick(&[0, 20_000, 100_000, 1_000_000]),
        clock_ns: clock(draw),
        ..HostSpec::named(name)
    };
    if switches == 0 {
        scenario.hosts = vec![host(draw, "sender0"), host(draw, "reader")];
        scenario.links = vec![LinkSpec::between("sender0", "reader")];
    } else {
        if switches == 2 {
            scenario.links.push(LinkSpec::between("s0", "s1"));
        }
        for n in 0..draw.between(1, 2) {
            let sender = host(draw, &format!("sender{n}"));
            link(draw, &mut scenario, sender, "s0");
        }
        let reader = host(draw, "reader");
        link(draw, &mut scenario, reader, &format!("s{}", switches - 1));
    }
    for at in 0..scenario.links.len() {
        if draw.percent(25) {
            let words = draw.pick(&[
                "jitter 2ms",
                "delay 3ms jitter 1ms",
                "loss 1e-3",
                "ber 1e-7",
                "duplicate 1e-3",
                "jitter 500us loss 2e-4",
            ]);
            let seed = draw.below(1 << 40);
            scenario.links[at].line = format!("{words} seed {seed}").parse().ok();
        }
    }
    scenario
}

/// A stream of so many cells, or a bit more, and a contract that carries it.
fn stream(draw: &mut Draw, scenario: &mut Scenario, n: u64) {
    let duration_ns = scenario.duration_ns;
    let name = format!("video{n}");
    let (from, address) = (names(scenario, "sender"), VpiVci::new(0, 60 + n as u16));
    let is_long = duration_ns > 10_000 * MS;
    let fps = match is_long {
        true => draw.pick(&[5, 10, 25]),
        false => draw.pick(&[50, 100, 250, 500]),
    };
    let pack = draw.pick(&[1, 2, 2, 2, 7]);
    // A frame has a whole PDU at least, which may be more than its part.
    let packets_s = CELLS * 1_000_000_000 / duration_ns / 4;
    let mut spec = StreamSpec {
        ppm: draw.pick(&[-100, -20, 0, 0, 50, 100]),
        pack,
        clock: draw.pick(&[
            ClockSpec::Pcr,
            ClockSpec::Pcr,
            ClockSpec::Occupancy,
            ClockSpec::None,
        ]),
        lost: draw.pick(&[LostSpec::Drop, LostSpec::Mark]),
        start_ns: draw.below(20 * MS),
        ..StreamSpec::on(&name, fps, packets_s * 188 * 8)
    };
    let frame_ns = 1_000_000_000 / u64::from(fps);
    spec.latency_ns = frame_ns * draw.pick(&[1, 2, 4, 8, 16, 32]) / 4 + draw.below(10 * MS);
    if draw.percent(20) {
        spec.packets_max = draw.between(u64::from(pack), 60) as u32;
    }
    let needs = spec.cell_s();
    let rate = (needs * draw.pick(&[105, 130, 200, 500]) / 100).min(LINE / 4);
    let rate = rate.max(needs);
    let sdu = u64::from(pack) * 188;
    let contract = match draw.below(5) {
        0 => format!("ubr,aal5:max_sdu={sdu}"),
        1 => format!(
            "vbr,aal5:pcr={}cps,scr={rate}cps,mbs=200,max_sdu={sdu},cdvt={CDVT}",
            2 * rate
        ),
        _ => format!("cbr,aal5:pcr={rate}cps,max_sdu={sdu},cdvt={CDVT}"),
    };
    let between = [&pick(draw, &from)[..], "reader"];
    let address = address.unwrap_or_default();
    let connection = ConnectionSpec::between(&name, between, address, &contract);
    scenario.connections.push(connection);
    scenario.streams.push(spec);
}

/// Who sends beside them, and keeps a contract.
fn beside(draw: &mut Draw, scenario: &mut Scenario) {
    let cell_s = (CELLS * 1_000_000_000 / scenario.duration_ns).max(10);
    let contract = format!("cbr,aal5:pcr={cell_s}cps,max_sdu=400,cdvt={CDVT}");
    let address = VpiVci::new(1, 40).unwrap_or_default();
    let from = pick(draw, &names(scenario, "sender"));
    let connection = ConnectionSpec::between("beside", [&from, "reader"], address, &contract);
    scenario.connections.push(connection);
    let traffic = Traffic::Paced {
        cell_s: cell_s as u32,
    };
    scenario.sources.push(SourceSpec {
        by_adapter: draw.percent(50),
        ..SourceSpec::on("beside", traffic, &[400, 40])
    });
}
