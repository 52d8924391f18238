//! `cellgate bench msna`: blocks and calls of MSNA on this machine, as the figures of *CBN
//! half-duplex stations* have them. Each figure is a file.

mod figure_4;
mod figure_6;
mod figure_7;
mod figure_8;
mod figure_9;
mod sockperf;
mod station;
mod way;

use std::io::sink;
use std::path::PathBuf;
use std::time::Duration;

use cellgate_report::output::{Exit, has_folder, write_svg};
use cellgate_report::{Axis, Figure, Look, Panel, Series};

use super::report::Report;
use crate::live::daemon::Daemon;

/// Measure blocks and calls of MSNA, beside UDP and TCP, as the figures of its paper have them
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    shared: super::Args,
    /// The figure of the paper whose twin is measured
    #[arg(long, value_enum, default_value = "6")]
    figure: Number,
    /// Draw what was measured
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Number {
    /// The rate of blocks in a row, by their cells
    #[value(name = "4")]
    Rate,
    /// A block there and back, by way and length, beside UDP and TCP
    #[value(name = "6")]
    Ways,
    /// A block there and back, by the cells that wake its reader
    #[value(name = "7")]
    Wakes,
    /// A block through relays, by cell and by block
    #[value(name = "8")]
    Relays,
    /// Calls, echo and sink, beside TCP
    #[value(name = "9")]
    Calls,
}

/// Measures a figure and draws it; true: a short run.
type Run = fn(&mut Report, bool) -> anyhow::Result<Vec<Panel>>;

/// A block or a reply that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(path) = &args.plot {
        has_folder(path)?;
    }
    let mut report = Report::new("msna", args.shared.quick);
    let (run, title): (Run, &str) = match args.figure {
        Number::Rate => (figure_4::run, "Blocks in a row"),
        Number::Ways => (figure_6::run, "A block there and back"),
        Number::Wakes => (
            figure_7::run,
            "A block there and back, by the cells that wake",
        ),
        Number::Relays => (figure_8::run, "A block through relays"),
        Number::Calls => (figure_9::run, "Calls"),
    };
    let panels = run(&mut report, args.shared.quick)?;
    if let Some(path) = &args.plot {
        write_svg(path, &Figure::stacked("msna", title, panels))?;
    }
    report.finish(args.shared.json)
}

/// A daemon of pairs of interfaces, each the other's peer, that bring so many cells a second
/// (none: an OC-3).
fn daemon(pairs: &[(String, String, Option<u32>)]) -> anyhow::Result<Daemon> {
    let interface = |name: &str, peer: &str, rate: Option<u32>| {
        let rate = rate.map_or(String::new(), |rate| format!("line_rate.cell_s = {rate}\n"));
        format!("[[interface]]\nname = \"{name}\"\n{rate}link.memory.peer = \"{peer}\"\n")
    };
    let both = |(one, other, rate): &(String, String, Option<u32>)| {
        interface(one, other, *rate) + &interface(other, one, *rate)
    };
    // A rest of the adapter is no part of a figure.
    let ports = format!("[adapter]\nidle = \"spin\"\nports = {}\n", 2 * pairs.len());
    let interfaces: String = pairs.iter().map(both).collect();
    Daemon::start(&(ports + &interfaces), sink())
}

/// The slope of values by cells: least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let over: f64 = points
        .iter()
        .map(|point| (point.0 - x) * (point.1 - y))
        .sum();
    over / points
        .iter()
        .map(|point| (point.0 - x).powi(2))
        .sum::<f64>()
}

/// Curves beside each other.
fn panel(x: &str, y: &str, curves: &[(String, Vec<(f64, f64)>)]) -> Panel {
    const LOOKS: [Look; 5] = [
        Look::Wide,
        Look::Dotted,
        Look::Dashed,
        Look::Line,
        Look::Expected,
    ];
    let series = curves.iter().zip(LOOKS.iter().cycle());
    let series = series.map(|((name, points), look)| Series::new(name, *look, points.clone()));
    Panel {
        x: Axis::linear(x),
        y: Axis::linear(y),
        series: series.collect(),
        marks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::slope;

    #[test]
    fn a_line_has_its_slope() {
        let points = [(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)];
        assert!((slope(&points) - 2.0).abs() < 1e-9);
    }
}
