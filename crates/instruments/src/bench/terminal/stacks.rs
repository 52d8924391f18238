//! AAL3/4, AAL5, and packets, under the same disk layer (section 8).

use cellgate_core::terminal::Stack;
use cellgate_report::Panel;

use super::pair::Spec;
use super::variants::take_turns;
use super::{MEMORIES, plot};
use crate::bench::measure::{Sizes, Times};
use crate::bench::report::Report;

pub(super) fn run(report: &mut Report, sizes: Sizes) -> anyhow::Result<Panel> {
    let octets = 48 * sizes.cells as u64;
    let variants = Stack::ALL.map(|stack| {
        let spec = Spec {
            stack,
            ..Spec::default()
        };
        (stack.name(), spec)
    });
    let mut all: Vec<Times> = Vec::new();
    for (place, len) in MEMORIES {
        let times = take_turns(report, sizes, len, place, &variants, |pair| {
            // Whoever takes turns tells of one that stands still.
            let _moved = pair.run_octets(octets);
        })?;
        for slow in 0..2 {
            let ratio = report.ratio(&times[slow], &times[slow + 1]).median;
            let name = format!(
                "{} over {}, {place}",
                Stack::ALL[slow].name(),
                Stack::ALL[slow + 1].name()
            );
            report.value(name, "times", ratio);
        }
        all.extend(times);
    }
    report
        .note("stacks: a cell is 48 octets of the file that are acknowledged, whatever the stack");
    Ok(plot::repeats(&all, report.ns_per_tick()))
}
