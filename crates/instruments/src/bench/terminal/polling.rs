//! Flags that are polled, and interrupts that put messages into queues (section 6.4).

use cellgate_core::terminal::{Events, Variant};
use cellgate_report::Panel;

use super::pair::{Pair, Spec};
use super::{MEMORIES, plot};
use crate::bench::measure::{Contestant, Sizes, Times};
use crate::bench::report::Report;

const ALL: [(&str, Events); 2] = [("flags", Events::Flags), ("queue messages", Events::Queue)];

pub(super) fn run(report: &mut Report, sizes: Sizes) -> anyhow::Result<Panel> {
    let mut all: Vec<Times> = Vec::new();
    for (place, len) in MEMORIES {
        let mut pairs = Vec::new();
        for (_, events) in ALL {
            let variant = Variant {
                events,
                ..Variant::default()
            };
            let spec = Spec {
                variant,
                ..Spec::default()
            };
            pairs.push(Pair::of_memory(spec, len)?);
        }
        let contestants = ALL.iter().zip(&mut pairs).map(|((name, _), pair)| {
            let name = format!("{name}, {place}");
            Contestant::whole(name, sizes.cells, || pair.run(sizes.cells))
        });
        let contestants: Vec<_> = contestants.collect();
        let times = report.take_turns(contestants, sizes.repeats);
        let ratio = report.ratio(&times[1], &times[0]).median;
        report.value(
            format!("queue messages over flags, {place}"),
            "times",
            ratio,
        );
        for pair in &mut pairs {
            pair.ensure()?;
        }
        all.extend(times);
    }
    Ok(plot::repeats(&all, report.ns_per_tick()))
}
