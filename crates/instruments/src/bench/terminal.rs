//! `cellgate bench terminal`: the terminal that makes its own cells, against variants of itself
//! (*High Performance ATM Terminals*, section 6).
//!
//! Each thing that is measured is a file: contestants that take turns, their ratios, and a panel of
//! the figure.

mod cellburst;
mod copies;
mod crc;
mod disk;
mod fold;
mod pair;
mod pdu_size;
mod plot;
mod polling;
mod scheduler;
mod stacks;
mod variants;

use std::path::PathBuf;

use cellgate_report::output::{Exit, has_folder, write_svg};
use cellgate_report::{Figure, Panel};

use super::measure::Sizes;
use super::report::Report;

/// Measure the terminal that makes its own cells, against variants of itself
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    shared: super::Args,
    /// The measurements
    #[arg(value_enum, default_values_t = What::ALL)]
    what: Vec<What>,
    /// Draw what was measured, a panel each
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Where `disk` writes its file [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// A copy between SAR and CPCS, between all layers, and none (Figure 8)
    Copies,
    /// The CRC folded into the move of a cell, and in a pass of its own (section 6.3)
    Crc,
    /// Flags that are polled, and messages in queues (section 6.4)
    Polling,
    /// One kernel, and a thread and a channel for each layer (section 4)
    Scheduler,
    /// Throughput by PDU size, with and without bit errors (Figures 10 and 11)
    PduSize,
    /// Several cells at a tick, cellburst x tick constant (Figure 9)
    Cellburst,
    /// One buffer B(4) and two before a disk (section 3.2)
    Disk,
    /// AAL3/4, AAL5 and packets under the same disk layer (section 8)
    Stacks,
}

impl What {
    const ALL: [Self; 8] = [
        Self::Copies,
        Self::Crc,
        Self::Polling,
        Self::Scheduler,
        Self::PduSize,
        Self::Cellburst,
        Self::Disk,
        Self::Stacks,
    ];
}

/// Octets of the file that are written again and again: inside the second-level cache, and beyond
/// the third.
const MEMORIES: [(&str, usize); 2] = [("in the cache", 256 << 10), ("beyond it", 512 << 20)];

/// Cells of a pass.
const CELLS: usize = 200_000;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(path) = &args.plot {
        has_folder(path)?;
    }
    let mut report = Report::new("terminal", args.shared.quick);
    let sizes = Sizes::of(args.shared.quick, CELLS, 21);
    let mut panels: Vec<Panel> = Vec::new();
    for what in &args.what {
        let report = &mut report;
        panels.push(match what {
            What::Copies => copies::run(report, sizes)?,
            What::Crc => crc::run(report, sizes)?,
            What::Polling => polling::run(report, sizes)?,
            What::Scheduler => scheduler::run(report, sizes)?,
            What::PduSize => pdu_size::run(report, sizes)?,
            What::Cellburst => cellburst::run(report, sizes)?,
            What::Disk => disk::run(report, sizes, args.directory.as_deref())?,
            What::Stacks => stacks::run(report, sizes)?,
        });
    }
    report.note(
        "where nothing else is said, one thread runs both ends: the kernel of who sends, 64 cells \
         at most, and that of who receives, until so many cells have come; AAL5, PDUs of 170 \
         cells, no pacing; ours are nanoseconds for a cell sent and received",
    );
    if let Some(path) = &args.plot {
        let title = "The terminal against variants of itself";
        write_svg(path, &Figure::stacked("terminal", title, panels))?;
    }
    report.finish(args.shared.json)
}
