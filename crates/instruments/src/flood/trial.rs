//! Who runs phases and says what came of them.

use cellgate_report::output::{self, Exit};
use serde::Serialize;

use super::judge;
use super::plan::Phase;
use super::report::PhaseReport;
use super::stage::{Stage, Watch};
use super::verdict::Verdict;

/// Results go to standard output, or with `--json` the object alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) json: bool,
    /// All senders on one port.
    pub(crate) shared_port: bool,
}

impl Trial {
    /// Shows what is no result of its own.
    pub(crate) fn say(&self, text: &str) -> anyhow::Result<()> {
        if self.json {
            eprint!("{text}");
            return Ok(());
        }
        output::print(text)
    }

    /// Prints the object, or the verdict: how the command ends.
    pub(crate) fn end(&self, report: &impl Serialize, verdict: &Verdict) -> anyhow::Result<Exit> {
        match self.json {
            true => output::print_json(report)?,
            false => output::print(&format!("\n{}\n", verdict.text()))?,
        }
        Ok(verdict.exit())
    }

    /// Tries a phase once, while `watch` looks.
    pub(crate) fn watched(
        &self,
        stage: &mut Stage,
        phase: &Phase,
        seconds: f64,
        watch: Option<&mut dyn Watch>,
        tries: u32,
    ) -> anyhow::Result<PhaseReport> {
        let tried = stage.run(phase, seconds, watch)?;
        Ok(judge::report(
            phase,
            &stage.connections,
            self.shared_port,
            &tried,
            tries,
        ))
    }

    /// Tries a phase once and tells why, if it is void.
    pub(crate) fn once(
        &self,
        stage: &mut Stage,
        phase: &Phase,
        seconds: f64,
    ) -> anyhow::Result<PhaseReport> {
        let report = self.watched(stage, phase, seconds, None, 1)?;
        if let Some(reason) = &report.void_reason {
            self.say(&format!("{}: void: {reason}\n", phase.name))?;
        }
        Ok(report)
    }
}
