//! The CRC of AAL5 folded into the move of a cell, and in a pass of its own (section 6.3).

use cellgate_report::Panel;

use super::pair::{Crc, Spec};
use super::variants::take_turns;
use super::{MEMORIES, plot};
use crate::bench::measure::{Sizes, Times};
use crate::bench::report::Report;

const ALL: [(&str, Crc); 3] = [
    ("no CRC", Crc::None),
    ("CRC folded into the move", Crc::Folded),
    ("CRC in a pass of its own", Crc::Pass),
];

pub(super) fn run(report: &mut Report, sizes: Sizes) -> anyhow::Result<Panel> {
    let variants = ALL.map(|(name, crc)| {
        let spec = Spec {
            crc,
            ..Spec::default()
        };
        (name, spec)
    });
    let mut all: Vec<Times> = Vec::new();
    for (place, len) in MEMORIES {
        let cells = sizes.cells;
        let times = take_turns(report, sizes, len, place, &variants, |pair| pair.run(cells))?;
        let own = report.ratio(&times[2], &times[1]).median;
        let folded = report.ratio(&times[1], &times[0]).median;
        for (what, ratio) in [
            ("a pass of its own over folded", own),
            ("folded over no CRC", folded),
        ] {
            report.value(format!("{what}, {place}"), "times", ratio);
        }
        all.extend(times);
    }
    report.note(
        "crc: in a pass of its own a receiver goes over the cells of a PDU that has come as a \
         whole, and then moves them; its sender folds the CRC in as the other does",
    );
    Ok(plot::repeats(&all, report.ns_per_tick()))
}
