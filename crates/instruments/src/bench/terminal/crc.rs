//! The CRC of AAL5 folded into the move of a cell, and in a pass of its own (section 6.3).

use cellgate_report::Panel;

use super::pair::{Crc, Pair, Spec};
use super::{MEMORIES, plot};
use crate::bench::measure::{Contestant, Sizes, Times};
use crate::bench::report::Report;

const ALL: [(&str, Crc); 3] = [
    ("no CRC", Crc::None),
    ("CRC folded into the move", Crc::Folded),
    ("CRC in a pass of its own", Crc::Pass),
];

pub(super) fn run(report: &mut Report, sizes: Sizes) -> anyhow::Result<Panel> {
    let mut all: Vec<Times> = Vec::new();
    for (place, len) in MEMORIES {
        let mut pairs = Vec::new();
        for (_, crc) in ALL {
            let spec = Spec {
                crc,
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
        let own = report.ratio(&times[2], &times[1]).median;
        let folded = report.ratio(&times[1], &times[0]).median;
        for (what, ratio) in [
            ("a pass of its own over folded", own),
            ("folded over no CRC", folded),
        ] {
            report.value(format!("{what}, {place}"), "times", ratio);
        }
        for pair in &mut pairs {
            pair.ensure()?;
        }
        all.extend(times);
    }
    report.note(
        "crc: in a pass of its own a receiver goes over the cells of a PDU that has come as a \
         whole, and then moves them; its sender folds the CRC in as the other does",
    );
    Ok(plot::repeats(&all, report.ns_per_tick()))
}
