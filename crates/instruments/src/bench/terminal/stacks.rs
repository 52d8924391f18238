//! AAL3/4, AAL5, and packets, under the same disk layer (section 8).

use cellgate_core::terminal::Stack;
use cellgate_report::Panel;

use super::pair::{Pair, Spec};
use super::{MEMORIES, plot};
use crate::bench::measure::{Contestant, Sizes, Times};
use crate::bench::report::Report;

pub(super) fn run(report: &mut Report, sizes: Sizes) -> anyhow::Result<Panel> {
    let octets = 48 * sizes.cells as u64;
    let mut all: Vec<Times> = Vec::new();
    for (place, len) in MEMORIES {
        let mut pairs = Vec::new();
        for stack in Stack::ALL {
            let spec = Spec {
                stack,
                ..Spec::default()
            };
            pairs.push(Pair::of_memory(spec, len)?);
        }
        let contestants = Stack::ALL.iter().zip(&mut pairs).map(|(stack, pair)| {
            let name = format!("{}, {place}", stack.name());
            Contestant::whole(name, sizes.cells, || {
                // `ensure` tells of one that stands still.
                let _moved = pair.run_octets(octets);
            })
        });
        let contestants: Vec<_> = contestants.collect();
        let times = report.take_turns(contestants, sizes.repeats);
        for slow in 0..2 {
            let ratio = report.ratio(&times[slow], &times[slow + 1]).median;
            let name = format!(
                "{} over {}, {place}",
                Stack::ALL[slow].name(),
                Stack::ALL[slow + 1].name()
            );
            report.value(name, "times", ratio);
        }
        for pair in &mut pairs {
            pair.ensure()?;
        }
        all.extend(times);
    }
    report
        .note("stacks: a cell is 48 octets of the file that are acknowledged, whatever the stack");
    Ok(plot::repeats(&all, report.ns_per_tick()))
}
