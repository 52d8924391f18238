//! How a failure is told, and what the command's exit says of it.

use anyhow::anyhow;
use cellgate_lab::world::{Failure, Kind};

use crate::output::Exit;

/// The exit that tells what kind of wrong it is. A scenario that makes no world is an error.
pub(super) fn exit(failure: &Failure) -> anyhow::Result<Exit> {
    match failure {
        Failure::Scenario(error) => Err(anyhow!("{error}")),
        Failure::Violation(violation) => Ok(match violation.kind {
            Kind::Crash => Exit::Crash,
            Kind::Liveness => Exit::Liveness,
            Kind::Correctness => Exit::Correctness,
            Kind::NonDeterminism => Exit::NonDeterminism,
        }),
    }
}

/// One line that says what failed and how to see it again; `source` names the scenario.
pub(super) fn line(failure: &Failure, source: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match failure {
        Failure::Scenario(error) => format!("FAIL {source} version={version}: {error}"),
        Failure::Violation(violation) => format!(
            "FAIL {} {source} version={version} t={}: {}; reproduce: cellgate sim run {source}",
            violation.invariant,
            violation.at_ns,
            violation.text.replace('\n', " "),
        ),
    }
}
