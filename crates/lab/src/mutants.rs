//! Are the judge's eyes open? Every bug that can be planted must be found.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cellgate_core::Time;
use cellgate_core::adapter::{Adapter, Planted};

use crate::board::LabBoard;
use crate::generate::plan;
use crate::judge::{Failure, Firmware, Report, run};
use crate::memory::{LabAttachment, LabRegion};
use crate::plan::Plan;

/// The adapter on the lab's memory.
pub type LabAdapter = Adapter<LabRegion, LabAttachment>;

impl Firmware for LabAdapter {
    fn step(&mut self, now: Time, board: &mut LabBoard) {
        Self::step(self, now, board);
    }
}

/// Runs a plan on a fresh adapter, with a bug or without.
pub fn run_adapter(plan: &Plan, planted: Option<Planted>) -> Result<Report, Box<Failure>> {
    match LabAdapter::new(plan.config.clone(), Time::ZERO) {
        Ok(mut adapter) => run(plan, planted, &mut adapter),
        Err(refusal) => Err(Box::new(Failure {
            seed: plan.seed,
            step: 0,
            now: Time::ZERO,
            text: format!("no adapter: {refusal}"),
        })),
    }
}

/// A bug, and the first seed that found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The bug.
    pub bug: String,
    /// None: it survived all seeds.
    pub seed: Option<u64>,
    /// How many of the seeds were tried.
    pub tried: u64,
    /// What the judge said.
    pub text: String,
}

/// Plants each bug in turn and runs `seeds` until one finds it. A panic finds it too.
pub fn kill_table(seeds: impl IntoIterator<Item = u64>) -> Vec<Kill> {
    let mut seeds = seeds.into_iter();
    let mut plans = Vec::new();
    let bugs = Planted::ALL.iter();
    bugs.map(|&bug| kill(bug, &mut plans, &mut seeds)).collect()
}

/// The plans that were made for bugs before this one come first, then those of `seeds`.
fn kill(planted: Planted, plans: &mut Vec<Plan>, seeds: &mut impl Iterator<Item = u64>) -> Kill {
    let bug = format!("{planted:?}");
    for tried in 1.. {
        if (plans.len() as u64) < tried {
            match seeds.next() {
                Some(seed) => plans.push(plan(seed)),
                None => break,
            }
        }
        let plan = &plans[tried as usize - 1];
        // What a panic leaves behind is thrown away with the run.
        let result = catch_unwind(AssertUnwindSafe(|| run_adapter(plan, Some(planted))));
        let text = match result {
            Ok(Ok(_)) => continue,
            Ok(Err(failure)) => failure.text,
            Err(_) => "panic".into(),
        };
        return Kill {
            bug,
            seed: Some(plan.seed),
            tried,
            text,
        };
    }
    Kill {
        bug,
        seed: None,
        tried: plans.len() as u64,
        text: String::new(),
    }
}

/// The table as people read it.
pub fn print_table(kills: &[Kill]) -> String {
    let mut text = format!("{:<28} {:>6}  found because\n", "planted bug", "seeds");
    for kill in kills {
        let name = &kill.bug;
        let why = kill.text.lines().next().unwrap_or("");
        let tried = kill.seed.map_or("never".into(), |_| kill.tried.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<28} {tried:>6}  {why:.100}");
    }
    let killed = kills.iter().filter(|kill| kill.seed.is_some()).count();
    let _ = writeln!(text, "{killed} of {} found", kills.len());
    text
}
