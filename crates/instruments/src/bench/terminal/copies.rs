//! A copy at layers' boundaries, and none (Figure 8).

use cellgate_core::terminal::{Copies, Variant};
use cellgate_report::Panel;

use super::pair::{Crc, Pair, Spec};
use super::{MEMORIES, plot};
use crate::bench::measure::{Contestant, Sizes, Times};
use crate::bench::report::Report;

const NAMES: [&str; 3] = [
    "no copy",
    "a copy, SAR to CPCS",
    "a copy at all three boundaries",
];

pub(super) fn run(report: &mut Report, sizes: Sizes) -> anyhow::Result<Panel> {
    let mut all: Vec<Times> = Vec::new();
    for (place, len) in MEMORIES {
        for (with, crc) in [("no CRC", Crc::None), ("CRC in software", Crc::Folded)] {
            let mut pairs = Vec::new();
            for copies in [Copies::None, Copies::Sar, Copies::All] {
                let variant = Variant {
                    copies,
                    ..Variant::default()
                };
                let spec = Spec {
                    variant,
                    crc,
                    ..Spec::default()
                };
                pairs.push(Pair::of_memory(spec, len)?);
            }
            let contestants = NAMES.iter().zip(&mut pairs).map(|(name, pair)| {
                let name = format!("{name}, {place}, {with}");
                Contestant::whole(name, sizes.cells, || pair.run(sizes.cells))
            });
            let contestants: Vec<_> = contestants.collect();
            let times = report.take_turns(contestants, sizes.repeats);
            let one = report.ratio(&times[1], &times[0]).median;
            let three = report.ratio(&times[2], &times[0]).median;
            report.value(format!("a copy over none, {place}, {with}"), "times", one);
            let name = format!("three copies over none, {place}, {with}");
            match crc {
                Crc::None => report.ratio_at_least(name, three, 1.7),
                Crc::Folded | Crc::Pass => report.value(name, "times", three),
            }
            for pair in &mut pairs {
                pair.ensure()?;
            }
            all.extend(times);
        }
    }
    Ok(plot::repeats(&all, report.ns_per_tick()))
}
