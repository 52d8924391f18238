//! Flags that are polled, and interrupts that put messages into queues (section 6.4).

use cellgate_core::terminal::{Events, Variant};
use cellgate_report::Panel;

use super::pair::Spec;
use super::variants::take_turns;
use super::{MEMORIES, plot};
use crate::bench::measure::{Sizes, Times};
use crate::bench::report::Report;

pub(super) fn run(report: &mut Report, sizes: Sizes) -> anyhow::Result<Panel> {
    let all = [("flags", Events::Flags), ("queue messages", Events::Queue)];
    let all = all.map(|(name, events)| {
        let variant = Variant {
            events,
            ..Variant::default()
        };
        let spec = Spec {
            variant,
            ..Spec::default()
        };
        (name, spec)
    });
    let mut taken: Vec<Times> = Vec::new();
    for (place, len) in MEMORIES {
        let cells = sizes.cells;
        let times = take_turns(report, sizes, len, place, &all, |pair| pair.run(cells))?;
        let ratio = report.ratio(&times[1], &times[0]).median;
        let name = format!("queue messages over flags, {place}");
        report.value(name, "times", ratio);
        taken.extend(times);
    }
    Ok(plot::repeats(&taken, report.ns_per_tick()))
}
