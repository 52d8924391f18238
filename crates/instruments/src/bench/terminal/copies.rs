//! A copy at layers' boundaries, and none (Figure 8).

use cellgate_core::terminal::{Copies, Variant};
use cellgate_report::Panel;

use super::pair::{Crc, Spec};
use super::variants::take_turns;
use super::{MEMORIES, plot};
use crate::bench::measure::{Sizes, Times};
use crate::bench::report::Report;

const ALL: [(&str, Copies); 3] = [
    ("no copy", Copies::None),
    ("a copy, SAR to CPCS", Copies::Sar),
    ("a copy at all three boundaries", Copies::All),
];

pub(super) fn run(report: &mut Report, sizes: Sizes) -> anyhow::Result<Panel> {
    let mut all: Vec<Times> = Vec::new();
    for (place, len) in MEMORIES {
        for (with, crc) in [("no CRC", Crc::None), ("CRC in software", Crc::Folded)] {
            let variants = ALL.map(|(name, copies)| {
                let variant = Variant {
                    copies,
                    ..Variant::default()
                };
                let spec = Spec {
                    variant,
                    crc,
                    ..Spec::default()
                };
                (name, spec)
            });
            let (cells, how) = (sizes.cells, format!("{place}, {with}"));
            let times = take_turns(report, sizes, len, &how, &variants, |pair| pair.run(cells))?;
            let one = report.ratio(&times[1], &times[0]).median;
            let three = report.ratio(&times[2], &times[0]).median;
            report.value(format!("a copy over none, {place}, {with}"), "times", one);
            let name = format!("three copies over none, {place}, {with}");
            match crc {
                Crc::None => report.ratio_at_least(name, three, 1.7),
                Crc::Folded | Crc::Pass => report.value(name, "times", three),
            }
            all.extend(times);
        }
    }
    Ok(plot::repeats(&all, report.ns_per_tick()))
}
