//! Who runs phases and says what came of them.

use super::judge;
use super::plan::Phase;
use super::report::PhaseReport;
use super::stage::{Stage, Watch};
use crate::live::verdict::Voice;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) voice: Voice,
    /// All senders on one port.
    pub(crate) shared_port: bool,
}

impl Trial {
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
            self.voice
                .say(&format!("{}: void: {reason}\n", phase.name))?;
        }
        Ok(report)
    }
}
