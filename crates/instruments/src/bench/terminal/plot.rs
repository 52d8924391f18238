//! Panels of the figure.

use cellgate_report::{Axis, Look, Panel, Series};

use crate::bench::measure::Times;

/// How curves beside each other look.
pub(super) const LOOKS: [Look; 5] = [
    Look::Dotted,
    Look::Dashed,
    Look::Line,
    Look::Wide,
    Look::Expected,
];

/// Times of each contestant, repeat by repeat.
pub(super) fn repeats(times: &[Times], ns_per_tick: f64) -> Panel {
    let series = times.iter().zip(LOOKS.iter().cycle()).map(|(times, look)| {
        let ns = times.ticks.iter().map(|ticks| ticks * ns_per_tick);
        let points = (1..).map(f64::from).zip(ns);
        Series::new(&times.name, *look, points.collect())
    });
    Panel {
        x: Axis::linear("repeat"),
        y: Axis::linear("ns/cell"),
        series: series.collect(),
        marks: Vec::new(),
    }
}
