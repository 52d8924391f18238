//! Rings as scenarios have them: stations, their hosts, what is sent and what goes wrong.
//!
//! ```text
//!   Scenario -> build -> Networks (ring, stations, hosts), faults by time
//!                           |
//!             deeds of ring and stations, blocks sent and read
//!                |                       |
//!                v                       v
//!     laws: R1, R2, R6 to R9     literal: R5, slot by slot, cycle by cycle
//! ```
//!
//! The ring is a world of its own beside that of adapters: its stations have no ports and no lines,
//! and what they share is the slots.

mod application;
mod block;
mod build;
mod figures;
mod laws;
mod literal;
mod node;
mod outcome;
mod promises;
mod run;
pub(super) mod scenario;

pub use build::ring_spec;
pub use outcome::{AssociationOutcome, Percentiles, RingOutcome, StationOutcome};
pub(super) use run::Counts;

use super::fnv::{START, fnv1a};
use super::scenario::Scenario;
use super::{CellTrace, Failure, Options, Outcome, checked};

/// Runs the rings of a scenario, and tells somebody of its slots: the outcome, and what the run has
/// counted.
pub(super) fn play<'a>(
    scenario: &'a Scenario,
    options: Options,
    trace: Option<&'a mut dyn CellTrace>,
) -> Result<(Outcome, Counts), Failure> {
    checked(scenario)?;
    let mut run = run::Run::new(scenario, options, trace);
    run.run()?;
    run.judge()?;
    Ok((run.outcome(), run.counts()))
}

fn digest(octets: &[u8]) -> u64 {
    fnv1a(START, octets)
}
