//! Does a flood of received cells cost the adapter's transmit side anything? (The question that
//! *Policing Offloaded* leaves open.) The adapter transmits at its line's rate from queues that are
//! never empty, so that every cell time of the line is an eligible cell, while quiet and flooded
//! windows alternate; what it sent is read at its output.

mod actors;

use std::time::Duration;

use anyhow::Context;
use cellgate_core::adapter::AdapterState;
use cellgate_core::contract::CellRate;
use cellgate_core::server::Idle;
use cellgate_host::gap::GapReport;
use cellgate_report::grouped;
use cellgate_report::output::Exit;
use serde::Serialize;

use super::plan::{BUDGET, Hazard, PORTS, Phase, STRANGER_PORT, Strange, TRANSMIT_PORT_CELLS};
use super::report::{million, per_second};
use super::sender::Task;
use super::stage::{Stage, Watch};
use super::trial::Trial;
use crate::live::actor::{Actor, Role};
use crate::live::spread::Spread;
use crate::live::verdict::Verdict;
use crate::live::weather::until_sound;

use actors::Counted;

pub(crate) use actors::{count, feed};

/// How far sent may be from eligible.
const TOLERANCE: f64 = 0.001;

#[derive(Clone, Debug, Serialize)]
struct Window {
    name: String,
    seconds: f64,
    /// Cells that the line's rate allows in this time.
    eligible_cells: u64,
    /// Cells that the adapter sent.
    sent_cells: u64,
    /// Sent over eligible, without the time of recorded gaps.
    ratio: f64,
    gaps_ns: u64,
    discarded_cell_s: u64,
    /// The longest step that was not interrupted.
    step_max_ns: u64,
    void_reason: Option<String>,
}

#[derive(Serialize)]
struct Report {
    windows: Vec<Window>,
    /// Of the sound windows' ratios.
    quiet: Option<Spread>,
    flood: Option<Spread>,
    verdict: String,
}

/// Reads the adapter's output at the begin and the end of a window.
#[derive(Default)]
struct Gauge {
    run: u32,
    first: Option<(GapReport, AdapterState)>,
    last: Option<(GapReport, AdapterState)>,
}

impl Watch for Gauge {
    fn every(&self) -> Duration {
        Duration::from_millis(50)
    }

    fn look(&mut self, stage: &mut Stage, _: &Phase, task: &Task) -> anyhow::Result<()> {
        if self.run != task.run {
            (self.run, self.first, self.last) = (task.run, None, None);
        }
        //  A gap is in the difference if it was over before the second reading of gaps: before the
        //  first reading of cells, after the last one.
        if self.first.is_none() {
            let gaps = stage.control.gaps(false)?;
            self.first = Some((gaps, stage.control.enumerate()?));
        } else {
            let state = stage.control.enumerate()?;
            self.last = Some((stage.control.gaps(false)?, state));
        }
        Ok(())
    }
}

impl Gauge {
    fn window(&self, name: &str, void_reason: Option<String>) -> Option<Window> {
        let ((gaps_before, before), (gaps, now)) = (self.first.as_ref()?, self.last.as_ref()?);
        let ns = now.time.since_ns(before.time);
        let gaps = gaps.since(gaps_before);
        let cells =
            |ns: u64| (u128::from(CellRate::OC3.cell_s()) * u128::from(ns) / 1_000_000_000) as u64;
        let sent_cells = now.stats.cells_transmitted - before.stats.cells_transmitted;
        let eligible_cells = cells(ns);
        //  Of a gap, the shaper may catch up all, a part, or nothing: each is right.
        let outside = cells(ns.saturating_sub(gaps.total_ns));
        let expected = sent_cells.clamp(outside, eligible_cells.max(outside));
        let discarded = now.stats.cells_discarded.total() - before.stats.cells_discarded.total();
        Some(Window {
            name: name.to_owned(),
            seconds: ns as f64 / 1e9,
            eligible_cells,
            sent_cells,
            ratio: sent_cells as f64 / expected.max(1) as f64,
            gaps_ns: gaps.total_ns,
            discarded_cell_s: per_second(discarded, ns),
            step_max_ns: gaps.step_max_ns,
            void_reason,
        })
    }
}

/// Runs `pairs` pairs of a quiet and a flooded window, `seconds` each.
pub(crate) fn run(trial: Trial, pairs: u32, seconds: f64, idle: Idle) -> anyhow::Result<Exit> {
    let mut stage = Stage::new(false, TRANSMIT_PORT_CELLS, None, idle)?;
    let mut counter = Actor::start(Role::Counter, stage.control.connect()?, &())?;
    let () = counter.hear()?;
    let mut feeder = Actor::start(Role::Feeder, stage.control.connect()?, &())?;
    let () = feeder.hear()?;
    trial
        .voice
        .say(&format!("adapter {}\n", stage.scheduling()))?;
    let (mut windows, mut faults) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        for (name, hazard) in [("quiet", Hazard::BitS(0)), ("flood", Hazard::Max)] {
            let phase = Phase::new(name, hazard, Strange::Nothing);
            let (window, broken) = window(trial, &mut stage, &phase, seconds)?;
            windows.push(window);
            faults.extend(broken);
        }
    }
    drop(feeder);
    counter.say(&())?;
    let counted: Counted = counter.hear()?;
    faults.extend(at_the_end(&mut stage, &counted)?);
    let ratios = |name: &str| {
        let sound = windows
            .iter()
            .filter(|w| w.name == name && w.void_reason.is_none());
        let ratios: Vec<f64> = sound.map(|w| w.ratio).collect();
        (!ratios.is_empty()).then(|| Spread::of(ratios))
    };
    let (quiet, flood) = (ratios("quiet"), ratios("flood"));
    let verdict = verdict(&windows, &faults);
    let report = Report {
        windows,
        quiet,
        flood,
        verdict: verdict.text(),
    };
    trial.voice.end(&report, &verdict)
}

/// One window: its last try, and the rules that it broke.
fn window(
    trial: Trial,
    stage: &mut Stage,
    phase: &Phase,
    seconds: f64,
) -> anyhow::Result<(Window, Vec<String>)> {
    let try_once = |tries| {
        let mut gauge = Gauge::default();
        let report = trial.watched(stage, phase, seconds, Some(&mut gauge), tries)?;
        let window = gauge.window(&phase.name, report.void_reason.clone());
        let window = window.context("the window is too short to be read twice")?;
        trial.voice.say(&line(&window))?;
        Ok((window, report))
    };
    let (window, report) = until_sound(try_once, |(window, _)| window.void_reason.is_some())?;
    let faults = match window.void_reason {
        None => report.more.faults,
        Some(_) => Vec::new(),
    };
    Ok((window, faults))
}

/// What must hold over all windows: the line carried what the adapter says it sent.
fn at_the_end(stage: &mut Stage, counted: &Counted) -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    if counted.foreign > 0 {
        faults.push(format!(
            "{} cells of no VC of ours on the line",
            counted.foreign
        ));
    }
    let line = stage.control.ports()?[usize::from(STRANGER_PORT.0)].transmit;
    let sent = stage.control.stats()?.cells_transmitted;
    //  What still was on the line when its counter ended is in neither.
    let waiting = sent.saturating_sub(counted.cells + line.dropped);
    if counted.cells > sent || waiting > u64::from(TRANSMIT_PORT_CELLS) {
        faults.push(format!(
            "{} cells counted on the line, {sent} sent",
            counted.cells
        ));
    }
    if line.dropped > 0 {
        faults.push(format!("{} cells found the line full", line.dropped));
    }
    Ok(faults)
}

fn line(window: &Window) -> String {
    format!(
        "{:<6} {:.2} s: sent {} of {} eligible cells, ratio outside gaps {:.5}; gaps {:.2} ms; \
         {} cells/s discarded; longest step {:.1} us{}\n",
        window.name,
        window.seconds,
        grouped(window.sent_cells),
        grouped(window.eligible_cells),
        window.ratio,
        window.gaps_ns as f64 / 1e6,
        million(window.discarded_cell_s),
        window.step_max_ns as f64 / 1e3,
        match &window.void_reason {
            Some(reason) => format!("; void: {reason}"),
            None => String::new(),
        },
    )
}

fn verdict(windows: &[Window], faults: &[String]) -> Verdict {
    let sound = || windows.iter().filter(|window| window.void_reason.is_none());
    let off = |window: &&Window| (window.ratio - 1.0).abs() > TOLERANCE;
    let mut faults = faults.to_vec();
    faults.extend(sound().filter(off).map(|window| {
        format!(
            "{}: sent is {:.5} of eligible outside gaps, {TOLERANCE} off is admitted",
            window.name, window.ratio
        )
    }));
    if !faults.is_empty() {
        return Verdict::Fail(faults.join("; "));
    }
    let (all, good) = (windows.len(), sound().count());
    if good < all {
        return Verdict::Void(format!("only {good} of {all} windows were not void"));
    }
    let step_ns = sound().map(|window| window.step_max_ns).max().unwrap_or(0);
    let flood = sound()
        .map(|window| window.discarded_cell_s)
        .max()
        .unwrap_or(0);
    Verdict::Pass(format!(
        "in {good} windows, quiet and flooded in turn, the adapter sent its line's cells within \
         0.1 % outside recorded gaps, while it discarded up to {} cells/s. A step takes in at most \
         {} cells; the longest one that was not interrupted took {:.1} us.",
        million(flood),
        grouped(u64::from(BUDGET) * u64::from(PORTS)),
        step_ns as f64 / 1e3,
    ))
}
