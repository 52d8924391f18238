//! Throughput by PDU size, with and without bit errors (Figures 10 and 11).

use anyhow::Context;
use cellgate_core::line::Share;
use cellgate_report::{Axis, Panel, Series};

use super::MEMORIES;
use super::pair::{Pair, Spec};
use super::plot::LOOKS;
use crate::bench::measure::{Contestant, Sizes, Times};
use crate::bench::report::Report;

/// Octets of payload.
const PDUS: [u16; 8] = [256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768];
/// Octets that may be on their way.
const WINDOW: u64 = 128 << 10;
/// Parts of 10^12 of all bits.
const ERRORS: [(&str, u64); 3] = [("no errors", 0), ("1e-6", 1_000_000), ("1e-5", 10_000_000)];

pub(super) fn run(report: &mut Report, sizes: Sizes) -> anyhow::Result<Panel> {
    let octets = 48 * sizes.cells as u64;
    let (place, len) = MEMORIES[0];
    let mut pairs = Vec::new();
    for (name, parts) in ERRORS {
        for pdu_len in PDUS {
            let spec = Spec {
                pdu_len,
                window: WINDOW,
                line: Some(Share::new(parts).context("a share of bits")?),
                ..Spec::default()
            };
            let name = format!("PDUs of {pdu_len}, {name}, {place}");
            pairs.push((name, Pair::of_memory(spec, len)?));
        }
    }
    let contestants = pairs.iter_mut().map(|(name, pair)| {
        Contestant::whole(name.clone(), sizes.cells, || {
            // `ensure` tells of one that stands still.
            let _moved = pair.run_octets(octets);
        })
    });
    let contestants: Vec<_> = contestants.collect();
    let times = report.take_turns(contestants, sizes.repeats);
    for (_, pair) in &mut pairs {
        pair.ensure()?;
    }
    let ns_per_tick = report.ns_per_tick();
    let curves: Vec<Vec<f64>> = times
        .chunks(PDUS.len())
        .map(|times| times.iter().map(|times| mega(times, ns_per_tick)).collect())
        .collect();
    for (at, pdu_len) in PDUS.iter().enumerate() {
        let rate = |of: usize| (ERRORS[of].0, curves[of][at]);
        report.row(
            &format!("PDUs of {pdu_len}, 10^6 octets/s"),
            &[rate(0), rate(1), rate(2)],
        );
    }
    for (of, (name, _)) in ERRORS.iter().enumerate() {
        let best = (0..PDUS.len()).max_by(|a, b| curves[of][*a].total_cmp(&curves[of][*b]));
        let best = best.map_or(0, |best| PDUS[best]);
        report.value(format!("best PDU, {name}"), "octets", best.into());
    }
    let last = PDUS.len() - 1;
    for (of, (name, _)) in ERRORS.iter().enumerate().skip(1) {
        let name = format!("PDUs of {}, no errors over {name}", PDUS[last]);
        let spread = report.ratio(&times[of * PDUS.len() + last], &times[last]);
        report.ratio_at_least(name, spread.median, 1.0);
    }
    report.note(
        "pdu-size: octets that are acknowledged, by processor time alone; cells pass an impaired \
         line, also where it has no errors; retransmission is selective",
    );
    Ok(panel(&curves))
}

/// 10^6 octets per second.
fn mega(times: &Times, ns_per_tick: f64) -> f64 {
    48.0 * 1_000.0 / (times.spread().median * ns_per_tick)
}

fn panel(curves: &[Vec<f64>]) -> Panel {
    let series = ERRORS.iter().zip(curves).zip(LOOKS);
    let series = series.map(|(((name, _), rates), look)| {
        let points = PDUS
            .iter()
            .map(|pdu| f64::from(*pdu))
            .zip(rates.iter().copied());
        Series::new(&format!("bit errors: {name}"), look, points.collect())
    });
    Panel {
        x: Axis::log("PDU, octets", 128.0),
        y: Axis::linear("10^6 octets/s"),
        series: series.collect(),
        marks: Vec::new(),
    }
}
