//! `cellgate contract for`: contracts for what somebody wants to send.

use cellgate_core::contract::{Manner, Need, Proposal};
use cellgate_core::server::DelayBounds;
use serde::Serialize;

use super::Mistake;
use super::assumed::{Assumed, Told};
use super::facts::{Facts, Use, Way};
use super::trial::Trial;

/// A need, and contracts that carry it. The names of the fields are those of the JSON.
#[derive(Serialize)]
pub(super) struct Answer {
    need: String,
    line_cell_s: u32,
    wake_up_ns: u64,
    contracts: Vec<Carried>,
    assumed: Told,
    #[serde(skip)]
    whose: String,
}

#[derive(Serialize)]
struct Carried {
    manner: Manner,
    contract: String,
    /// How long PDUs take at the adapters at most.
    bound: DelayBounds,
    #[serde(flatten)]
    facts: Facts,
}

/// Why there is none.
pub(super) enum Failure {
    Mistake(Mistake),
    Other(anyhow::Error),
}

/// What cells and their reader wait for beside their own rate, stalls apart.
fn waits_ns(bound: &DelayBounds) -> u64 {
    let sends = bound
        .transmit
        .map_or(0, |one| one.others_ns.saturating_add(one.rest_ns));
    let reads = bound.receive.map_or(0, |one| one.without_stall_ns());
    sends.saturating_add(reads)
}

impl Answer {
    pub(super) fn to(
        text: &str,
        assumed: &Assumed,
        mut trial: Option<Trial>,
    ) -> Result<Self, Failure> {
        let mistaken = |error: cellgate_core::contract::NeedError| {
            let at = error.at.min(text.len());
            Failure::Mistake(Mistake::at(at, error.reason))
        };
        let need: Need = text.parse().map_err(mistaken)?;
        // The adapters take the same of a latency at every rate.
        let any = need.ignoring_latency().proposals(0).map_err(mistaken)?;
        let any = any
            .first()
            .and_then(|one| assumed.prospect(&one.contract).ok());
        let spent_ns = any.map_or(assumed.wake_up_ns(), |one| waits_ns(&one.bound));
        let proposals = need.proposals(spent_ns).map_err(mistaken)?;
        let cells = need.largest_cells().map_err(mistaken)?;
        let usage = match (need.is_packets(), need.is_two_way()) {
            (true, _) => Use::Device,
            (false, true) => Use::AsItIs,
            (false, false) => Use::OneWay,
        };
        let carried = |one: Proposal| {
            let way = Way {
                cells,
                ns: one.way_ns,
                most_ns: one.way_most_ns,
            };
            let facts = Facts::of(&one.contract, usage, way, assumed, trial.as_mut());
            let facts = facts.map_err(Failure::Other)?;
            Ok(Carried {
                manner: one.manner,
                contract: one.contract.to_string(),
                bound: facts.bound,
                facts,
            })
        };
        let contracts = proposals.into_iter().map(carried);
        Ok(Self {
            need: text.to_owned(),
            line_cell_s: assumed.line().cell_s(),
            wake_up_ns: assumed.wake_up_ns(),
            contracts: contracts.collect::<Result<_, _>>()?,
            assumed: assumed.told(),
            whose: assumed.whose(),
        })
    }

    /// A paragraph for each contract, and whose assumptions these are.
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        for one in &self.contracts {
            text += &format!("{}\n  {}\n", one.manner.name(), one.contract);
            text += &one.facts.to_text("  ", "largest");
            text.push('\n');
        }
        text + &format!("assumed: {}\n", self.whose)
    }
}
