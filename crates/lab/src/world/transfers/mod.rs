//! Files between two terminals in virtual time, over a line that loses and damages, to a disk that
//! forgets what was not synced; terminals die at any event.
//!
//! ```text
//!   Giving <- files            Taking -> Receiving, Finishing -> losing disk
//!   Exchange ---- cells of a line, both ways ---- Exchange
//! ```
//!
//! Everything named with a capital is the core's, as it ships. The world's own are the session
//! ([`terminal`]), the line's ends, the disk, and the oracle: it sees what names show, what was
//! said to be safe, and what is asked for again.

mod bug;
mod content;
mod disk;
mod held;
mod line;
mod oracle;
mod place;
mod run;
pub(super) mod scenario;
mod terminal;

use serde::{Deserialize, Serialize};

use super::scenario::Scenario;
use super::{Failure, Options, Outcome, checked};
pub use bug::FileBug;
pub(crate) use run::Counts;
use run::Run;

/// The counts of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferOutcome {
    /// Entries that are there, and that have failed by a reason.
    pub there: u64,
    pub failed: u64,
    /// Octets of PDUs that the giver has sent, of all its lives, and of them not for the first time
    /// in a life.
    pub sent_octets: u64,
    pub sent_again_octets: u64,
    /// Deaths of the giver, of the taker, and of its machine.
    pub deaths: [u64; 3],
    /// Unfinished files that were gone on with.
    pub resumed: u64,
}

impl TransferOutcome {
    fn of(counts: &Counts) -> Self {
        Self {
            there: counts.there,
            failed: counts.failed,
            sent_octets: counts.sent.octets,
            sent_again_octets: counts.sent.octets_again,
            deaths: [
                counts.giver_deaths,
                counts.taker_deaths,
                counts.power_losses,
            ],
            resumed: counts.resumed,
        }
    }
}

/// Runs the transfers of a scenario, one after the other: the outcome, and what they have counted.
pub(super) fn play(
    scenario: &Scenario,
    options: Options,
) -> Result<(Outcome, Vec<Counts>), Failure> {
    checked(scenario)?;
    let mut outcome = Outcome::default();
    let mut all = Vec::new();
    for spec in &scenario.transfers {
        let link = scenario.links.first();
        let line = link.and_then(|link| link.line).unwrap_or_default();
        let (bit_s, delay_ns) = link.map_or((1 << 20, 0), |link| (link.bit_s, link.delay_ns));
        let mut run = Run::new(spec, (line, bit_s, delay_ns), options.file_bug);
        run.run()?;
        let counts = run.counts.clone();
        outcome.ended_ns = outcome.ended_ns.max(counts.ended);
        outcome.events += counts.turns;
        outcome.cells += counts.cells;
        outcome.trace_hash = outcome.trace_hash.rotate_left(7)
            ^ counts.hash
            ^ counts.cells.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ counts.ended;
        outcome.transfers.push(TransferOutcome::of(&counts));
        all.push(counts);
    }
    Ok((outcome, all))
}
