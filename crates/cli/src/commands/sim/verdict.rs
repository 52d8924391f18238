//! How a failure is told, and what the command's exit says of it.

use anyhow::anyhow;
use cellgate_lab::Progress;
use cellgate_lab::world::scenario::Scenario;
use cellgate_lab::world::{
    Failure, GENERATOR, Kind, Options, Outcome, check_determinism, check_isolation, check_shown,
};
use cellgate_report::output::Exit;

/// The exit that tells what kind of wrong it is. A scenario that makes no world is an error.
pub(super) fn exit(failure: &Failure) -> anyhow::Result<Exit> {
    match failure {
        Failure::Scenario(refusals) => Err(anyhow!("{refusals}")),
        Failure::Violation(violation) => Ok(match violation.kind {
            Kind::Crash => Exit::Crash,
            Kind::Liveness => Exit::Liveness,
            Kind::Correctness => Exit::Correctness,
            Kind::NonDeterminism => Exit::NonDeterminism,
        }),
    }
}

/// Runs that are compared with a scenario's first one.
#[derive(clap::Args)]
pub(super) struct Compared {
    /// Run it twice: nothing may differ
    #[arg(long)]
    det: bool,
    /// Run it without its faults, with and without its hazards, and what hostile clients write, and
    /// compare
    #[arg(long)]
    isolation: bool,
}

impl Compared {
    /// Runs a scenario as often as that takes.
    pub(super) fn check(
        &self,
        scenario: &Scenario,
        options: Options,
        progress: &mut dyn Progress,
    ) -> Result<Outcome, Failure> {
        let outcome = match self.det {
            true => check_determinism(scenario, options, progress)?,
            false => check_shown(scenario, options, progress)?,
        };
        if self.isolation {
            check_isolation(scenario, options, progress)?;
        }
        Ok(outcome)
    }

    /// The options that say so, each with a space before it.
    pub(super) fn words(&self) -> String {
        let words = [(self.det, " --det"), (self.isolation, " --isolation")];
        let said = words.into_iter().filter(|(said, _)| *said);
        said.map(|(_, word)| word).collect()
    }
}

/// One line that says what failed and how to see it again: `source` names the scenario, `how` the
/// other options of `sim run`, each with a space before it.
pub(super) fn line(failure: &Failure, source: &str, how: &str) -> String {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("CELLGATE_COMMIT"));
    let made = format!("version={version} commit={commit} generator={GENERATOR}");
    match failure {
        Failure::Scenario(refusals) => {
            let told = refusals.to_string().replace('\n', "; ");
            format!("FAIL {source} {made}: {told}")
        }
        Failure::Violation(violation) => format!(
            "FAIL {} {source} {made} t={}: {}; \
             reproduce: cellgate sim run {source}{how}",
            violation.invariant,
            violation.at_ns,
            violation.text.replace('\n', " "),
        ),
    }
}
