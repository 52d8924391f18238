//! Rates over time, as figures 8 and 10 of paper 003.

use cellgate_report::{Axis, Figure, Look, Panel, Series};

use super::pair::Acted;

/// Points of a curve, about.
const POINTS: u64 = 300;

/// What each of these readers received.
pub(super) fn received(title: &str, readers: &[Acted]) -> Figure {
    let panel = Panel {
        x: Axis::linear("seconds"),
        y: Axis::linear("received, 10^6 bit/s of SDU"),
        series: readers.iter().map(curve).collect(),
        marks: Vec::new(),
    };
    Figure::single("received", title, panel)
}

fn curve(acted: &Acted) -> Series {
    let task = &acted.task;
    let step_ns = task.end.since_ns(task.origin) / POINTS;
    let step_ns = step_ns.max(100_000_000);
    let points = acted.received.bins.curve(step_ns);
    Series::new(&acted.cast.name, Look::Line, points)
}
