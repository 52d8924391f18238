//! `cellgate bench terminal`: what the terminal spares by copying nothing between layers, and by
//! flags in place of queue messages (*High Performance ATM Terminals*, sections 6.1 and 6.4).

mod fold;
mod pair;

use cellgate_core::terminal::{Copies, Events, Variant};
use cellgate_report::output::Exit;

use super::measure::{Contestant, Sizes, Times};
use super::report::Report;
use fold::NoCrc;
use pair::Pair;

/// Measure the terminal that makes its own cells, against variants of itself
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    shared: super::Args,
    /// What to measure
    #[arg(value_enum, default_values_t = What::ALL)]
    what: Vec<What>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// A copy between SAR and CPCS, between all layers, and none (Figure 8)
    Copies,
    /// Flags that are polled, and messages in queues (section 6.4)
    Polling,
}

impl What {
    const ALL: [Self; 2] = [Self::Copies, Self::Polling];
}

/// Octets of the file that are written again and again: inside the second-level cache, and beyond
/// the third.
const MEMORIES: [(&str, usize); 2] = [("in the cache", 256 << 10), ("beyond it", 512 << 20)];

/// Cells of a pass.
const CELLS: usize = 200_000;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new("terminal", args.shared.quick);
    let sizes = Sizes::of(args.shared.quick, CELLS, 21);
    for what in &args.what {
        match what {
            What::Copies => copies(&mut report, sizes)?,
            What::Polling => polling(&mut report, sizes)?,
        }
    }
    report.note(
        "one thread runs both ends: the kernel of who sends, 64 cells at most, and that of who \
         receives, until so many cells have come; AAL5, PDUs of 170 cells, no pacing; ours are \
         nanoseconds for a cell sent and received",
    );
    report.finish(args.shared.json)
}

/// One variant in turn with others.
fn contestant<'a>(name: String, pair: &'a mut Pair, crc: bool, cells: usize) -> Contestant<'a> {
    Contestant::whole(name, cells, move || {
        if crc {
            pair.run(cells);
        } else {
            pair.run_with(NoCrc, cells);
        }
    })
}

fn copies(report: &mut Report, sizes: Sizes) -> anyhow::Result<()> {
    for (place, len) in MEMORIES {
        for (with, crc) in [("no CRC", false), ("CRC in software", true)] {
            let variant = |copies| Variant {
                copies,
                ..Variant::default()
            };
            let names = [
                "no copy",
                "a copy, SAR to CPCS",
                "a copy at all three boundaries",
            ];
            let all = [Copies::None, Copies::Sar, Copies::All];
            let mut pairs = Vec::new();
            for copies in all {
                pairs.push(Pair::new(variant(copies), len)?);
            }
            let contestants = names.iter().zip(&mut pairs).map(|(name, pair)| {
                contestant(format!("{name}, {place}, {with}"), pair, crc, sizes.cells)
            });
            let contestants: Vec<_> = contestants.collect();
            let times: Vec<Times> = report.take_turns(contestants, sizes.repeats);
            let one = report.ratio(&times[1], &times[0]).median;
            let three = report.ratio(&times[2], &times[0]).median;
            report.value(format!("a copy over none, {place}, {with}"), "times", one);
            if crc {
                report.value(
                    format!("three copies over none, {place}, {with}"),
                    "times",
                    three,
                );
            } else {
                report.ratio_at_least(format!("three copies over none, {place}"), three, 1.7);
            }
            for pair in &mut pairs {
                pair.ensure()?;
            }
        }
    }
    Ok(())
}

fn polling(report: &mut Report, sizes: Sizes) -> anyhow::Result<()> {
    let variant = |events| Variant {
        events,
        ..Variant::default()
    };
    let len = MEMORIES[0].1;
    let mut flags = Pair::new(variant(Events::Flags), len)?;
    let mut queue = Pair::new(variant(Events::Queue), len)?;
    let contestants = vec![
        contestant("flags".to_owned(), &mut flags, true, sizes.cells),
        contestant("queue messages".to_owned(), &mut queue, true, sizes.cells),
    ];
    let times = report.take_turns(contestants, sizes.repeats);
    let ratio = report.ratio(&times[1], &times[0]).median;
    report.value("queue messages over flags", "times", ratio);
    flags.ensure()?;
    queue.ensure()
}
