//! What is shown while a phase runs.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::adapter::AdapterState;
use cellgate_host::clock::MonotonicClock;
use cellgate_report::grouped;
use cellgate_report::output;

use super::text::mbit;
use crate::flood::host::Glance;
use crate::flood::plan::{Phase, SDU};
use crate::flood::report::{million, per_second};
use crate::flood::sender::Task;
use crate::flood::stage::{Stage, Watch};

/// What stands on a terminal for as long as nothing else does, drawn over and over.
#[derive(Default)]
pub(super) struct Canvas {
    lines: usize,
}

/// A table of a phase.
#[derive(Default)]
pub(super) struct Screen {
    last: Option<Reading>,
    canvas: Canvas,
}

struct Reading {
    run: u32,
    at: Time,
    adapter: AdapterState,
    host: Glance,
    adapter_cpu_ns: u64,
}

impl Watch for Screen {
    fn every(&self) -> Duration {
        Duration::from_millis(250)
    }

    fn look(&mut self, stage: &mut Stage, phase: &Phase, task: &Task) -> anyhow::Result<()> {
        let now = Reading {
            run: task.run,
            at: MonotonicClock.now(),
            adapter: stage.control.enumerate()?,
            host: stage.glance()?,
            adapter_cpu_ns: stage.adapter_cpu_ns()?,
        };
        if let Some(last) = self.last.as_ref().filter(|last| last.run == now.run) {
            let text = table(stage, phase, task, last, &now);
            self.canvas.draw(&text);
        }
        self.last = Some(now);
        Ok(())
    }
}

impl Screen {
    /// Takes the table away.
    pub(super) fn clear(&mut self) {
        self.canvas.clear();
    }
}

impl Canvas {
    /// None where nobody sees it, who misses nothing.
    pub(super) fn on_terminal() -> Option<Self> {
        std::io::stderr().is_terminal().then(Self::default)
    }

    /// Draws over what was drawn last.
    pub(super) fn draw(&mut self, text: &str) {
        self.clear();
        let mut err = std::io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
        self.lines = text.lines().count();
    }

    /// Takes it away.
    pub(super) fn clear(&mut self) {
        if self.lines > 0 {
            //  ECMA-48: cursor up, to the first column, erase to the end of the screen.
            eprint!("\x1b[{}A\r\x1b[J", self.lines);
            self.lines = 0;
        }
    }
}

fn table(stage: &Stage, phase: &Phase, task: &Task, last: &Reading, now: &Reading) -> String {
    let ns = now.at.since_ns(last.at);
    let mut rows = vec![
        ["", "contract", "delivered", "delivered", "discarded"].map(str::to_owned),
        ["", "Mbit/s", "Mbit/s", "PDUs", "PDUs/s"].map(str::to_owned),
    ];
    for connection in &stage.connections {
        let index = connection.index;
        let pdus = |host: &Glance| host.delivered.get(index).copied().unwrap_or(0);
        let refused = |state: &AdapterState| -> u64 {
            let vcs = state
                .vcs
                .iter()
                .filter(|vc| vc.request.address == connection.address());
            vcs.map(|vc| vc.stats.pdus_discarded.total()).sum()
        };
        let rate = per_second(pdus(&now.host) - pdus(&last.host), ns);
        rows.push([
            format!("{} {}", connection.name(), connection.address()),
            mbit(connection.contract_bit_s),
            mbit(rate * 8 * u64::from(SDU)),
            grouped(pdus(&now.host)),
            grouped(per_second(
                refused(&now.adapter) - refused(&last.adapter),
                ns,
            )),
        ]);
    }
    let percent = |cpu_ns: u64| 100.0 * cpu_ns as f64 / ns as f64;
    let (stats, before) = (&now.adapter.stats, &last.adapter.stats);
    let cells = |of: u64| million(per_second(of, ns));
    let run_s = task.end.since_ns(task.begin) as f64 / 1e9;
    format!(
        "{}: {:.1} of {run_s:.1} s\n{}\
         adapter {} cells/s in, {} cells/s discarded; CPU: adapter {:.0} %, host {:.1} %\n",
        phase.name,
        now.at.since_ns(task.begin) as f64 / 1e9,
        output::columns(&rows),
        cells(stats.cells_received - before.cells_received),
        cells(stats.cells_discarded.total() - before.cells_discarded.total()),
        percent(now.adapter_cpu_ns - last.adapter_cpu_ns),
        percent(now.host.cpu_ns - last.host.cpu_ns),
    )
}
