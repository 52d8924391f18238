//! `cellgate demo`: two guaranteed connections beside a flood, on this machine.

mod live;
mod plot;
#[cfg(feature = "page")]
mod steered;
mod terminal;
mod text;
mod verdict;

use std::io::IsTerminal;
use std::net::IpAddr;
use std::path::PathBuf;

use cellgate_core::server::Idle;
use cellgate_report::output::{self, Exit};

use crate::flood::plan::{Hazard, Phase};
use crate::flood::report::{PhaseReport, Report};
use crate::flood::stage::{Stage, Watch};
use crate::flood::trial::Trial;
use crate::flood::wire::{Link, Network};
use crate::flood::{control, plan, transmit};
use crate::live::verdict::Voice;
use crate::live::weather::{TRIES_MAX, until_sound};

use live::Screen;

/// Watch a host keep two guaranteed connections while others flood it
///
/// Starts an adapter, a host and four senders as processes. C1 and C2 keep their contracts; C3 does
/// not, and a stranger sends cells of connections that nobody opened. Every PDU that arrives is
/// checked octet by octet. Exits with 0 if every rule held, with 1 if one was broken or the machine
/// was too busy to tell.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate demo
  $ cellgate demo --sweep --plot flood.svg
  $ cellgate demo --terminal")]
pub struct Args {
    /// How long each phase lasts, in seconds [default: 3; with --sweep 1]
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<f64>,
    /// How fast C3 sends in the flood: bit/s of SDU such as 400M, or max
    #[arg(long, value_name = "BITRATE", default_value = "max", value_parser = Hazard::parse,
          conflicts_with_all = ["sweep", "plot", "control_pairs", "transmit"])]
    hazard: Hazard,
    /// All senders on one port, as in Policing Offloaded
    #[arg(long)]
    shared_port: bool,
    /// Step the hazard's rate from 0 to max instead of the four phases
    #[arg(long)]
    sweep: bool,
    /// Draw host CPU, events and delivered rates over the hazard's rate; implies --sweep
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Instead of the phases: N pairs of a flood of C3 and the same flood to an address that nobody
    /// opened, and the ratio of host CPU time per delivered PDU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000),
          conflicts_with_all = ["sweep", "plot", "shared_port", "transmit"])]
    control_pairs: Option<u32>,
    /// Instead of the phases: N pairs of a quiet and a flooded window while the adapter transmits
    /// at its line's rate, counted at its output
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "5",
          value_parser = clap::value_parser!(u32).range(1..=1_000),
          conflicts_with_all = ["sweep", "plot", "shared_port"])]
    transmit: Option<u32>,
    /// Instead of the phases: a file and a video over one line with bit errors; the file's receiver
    /// is killed on the way
    #[arg(long, conflicts_with_all = ["seconds", "sweep", "plot", "shared_port", "control_pairs",
          "transmit", "hazard", "idle", "link"])]
    terminal: bool,
    /// Instead of the phases: all of it in a browser, as long as you like, and you send the flood;
    /// with --terminal, the file and the video, again and again. At IP:PORT of this machine
    #[cfg(feature = "page")]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:8080",
          conflicts_with_all = ["seconds", "sweep", "plot", "shared_port", "control_pairs",
          "transmit", "hazard", "link"])]
    page: Option<std::net::SocketAddr>,
    /// The adapter's idle mode: spin, adaptive or sleep
    #[arg(long, value_name = "HOW", default_value_t = Idle::Spin)]
    idle: Idle,
    /// What the senders' cells travel over
    #[arg(long, value_enum, default_value_t = Link::Memory,
          conflicts_with_all = ["shared_port", "control_pairs", "transmit"])]
    link: Link,
    /// With --link udp, where the adapter is [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", requires = "link")]
    adapter_address: Option<IpAddr>,
    /// With --link udp, where the senders are [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", requires = "link")]
    sender_address: Option<IpAddr>,
    /// With --link udp, the network namespace of the senders
    #[arg(long, value_name = "NAME", requires = "link")]
    sender_netns: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3_600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected 0.1 to 3600 seconds".to_owned()),
    }
}

/// Runs it.
///
/// # Errors
/// A process that cannot be started, or that has ended too early.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.terminal {
        let voice = Voice { json: args.json };
        #[cfg(feature = "page")]
        if let Some(address) = args.page {
            return terminal::shown(voice, address);
        }
        return terminal::run(voice);
    }
    #[cfg(feature = "page")]
    if let Some(address) = args.page {
        return steered::run(Voice { json: args.json }, address, args.idle);
    }
    let seconds = args.seconds.unwrap_or(1.0);
    let mut show = Show::new(args);
    match (args.control_pairs, args.transmit) {
        (Some(pairs), _) => control::run(show.trial, pairs, seconds, args.idle),
        (_, Some(pairs)) => transmit::run(show.trial, pairs, seconds, args.idle),
        _ => demo(args, &mut show),
    }
}

fn demo(args: &Args, show: &mut Show) -> anyhow::Result<Exit> {
    let sweep = args.sweep || args.plot.is_some();
    let phases = match sweep {
        true => plan::sweep(args.shared_port),
        false => plan::phases(args.hazard),
    };
    let default_seconds = if sweep { 1.0 } else { 3.0 };
    let network = (args.link == Link::Udp).then(|| {
        let (adapter, senders) = (args.adapter_address, args.sender_address);
        Network::new(adapter, senders, args.sender_netns.clone())
    });
    let port_cells = plan::port_cells(args.shared_port);
    let mut stage = Stage::new(args.shared_port, port_cells, network, args.idle)?;
    show.trial.voice.say(&output::wrapped(
        "adapter  ",
        &stage.scheduling().to_string(),
    ))?;
    let mut reports = Vec::new();
    for phase in &phases {
        let seconds = args.seconds.unwrap_or(default_seconds);
        reports.push(show.phase(&mut stage, phase, seconds)?);
    }
    if let Some(path) = &args.plot {
        output::write_svg(path, &plot::figure(&reports))?;
    }
    let verdict = verdict::of(&reports, args.shared_port);
    let report = Report {
        phases: reports,
        verdict: verdict.text(),
    };
    show.trial.voice.end(&report, &verdict)
}

/// What is shown of phases: their results, and a live table on a terminal.
struct Show {
    trial: Trial,
    /// A line for each phase, not a table.
    lines: bool,
    screen: Option<Screen>,
}

impl Show {
    fn new(args: &Args) -> Self {
        Self {
            trial: Trial {
                voice: Voice { json: args.json },
                shared_port: args.shared_port,
            },
            lines: args.sweep || args.plot.is_some() || args.json,
            screen: std::io::stderr().is_terminal().then(Screen::default),
        }
    }

    /// Tries a phase until a try is not void, and shows each try.
    fn phase(
        &mut self,
        stage: &mut Stage,
        phase: &Phase,
        seconds: f64,
    ) -> anyhow::Result<PhaseReport> {
        let try_once = |tries| {
            let screen = self.screen.as_mut().map(|screen| screen as &mut dyn Watch);
            let report = self.trial.watched(stage, phase, seconds, screen, tries)?;
            self.screen.iter_mut().for_each(Screen::clear);
            self.trial
                .voice
                .say(&match (&report.void_reason, self.lines) {
                    (Some(reason), _) => {
                        let name = &phase.name;
                        let why = format!("void, try {tries} of {TRIES_MAX}: {reason}");
                        output::wrapped(&format!("{name}: "), &why)
                    }
                    (None, true) => text::line(&report),
                    (None, false) => format!("\n{}", text::phase(&report, &stage.connections)),
                })?;
            Ok(report)
        };
        until_sound(try_once, |report| report.void_reason.is_some())
    }
}
