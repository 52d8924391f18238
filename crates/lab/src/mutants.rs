//! Are the judge's eyes open? Every bug that can be planted must be found.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cellgate_core::Time;
use cellgate_core::adapter::{Adapter, AdapterStats, Planted, Refusal, Rest};

use crate::board::LabBoard;
use crate::generate::plan;
use crate::judge::{Failure, Firmware, Report, Rested, crowded, cut_short, run, run_resting};
use crate::memory::{LabAttachment, LabRegion};
use crate::plan::Plan;

/// The adapter on the lab's memory.
pub type LabAdapter = Adapter<LabRegion, LabAttachment>;

impl Firmware for LabAdapter {
    fn step(&mut self, now: Time, board: &mut LabBoard) {
        Self::step(self, now, board);
    }

    fn rest(&self, now: Time, board: &LabBoard) -> Option<Rest> {
        Some(Self::rest(self, now, board))
    }

    fn counted(&self) -> Option<AdapterStats> {
        Some(*self.stats())
    }
}

/// Bugs of an adapter that rests: steps of a plan do not show them.
pub const OF_RESTS: &[Planted] = &[
    Planted::RestLooksAtSixteen,
    Planted::RestForgetsAPort,
    Planted::RestForgetsReplies,
    Planted::RestForgetsLoopbacks,
    Planted::RestForgetsNoReturn,
    Planted::RestForgetsSilent,
    Planted::RestForgetsReassembly,
    Planted::RestForgetsPending,
    Planted::RestForgetsTheBoard,
    Planted::RestForgetsWhatWaits,
    Planted::RestShapesLate,
    Planted::RestShapesWithoutEnd,
    Planted::RestSpinsOnHeld,
];

/// Bugs of VCs of ABR: no plan has one. Tests of their own find them.
pub const OF_ABR: &[Planted] = &[
    Planted::RmCrcNotChecked,
    Planted::RmProtocolNotChecked,
    Planted::RmUnpoliced,
    Planted::AllowedRateNotKept,
    Planted::FloorNotKept,
    Planted::TurnedAfterDataOnly,
    Planted::MarkForgotten,
    Planted::LossNotNoticed,
    Planted::NoRmCells,
    Planted::ProbeBraked,
    Planted::SlowNotProbed,
    Planted::RestForgetsProbes,
    Planted::FloorGivesWay,
    Planted::FloorNotCharged,
];

/// Runs a plan on a fresh adapter, with a bug or without, and tries what it says of its rests:
/// every second plan with more clients than a step looks at, every fourth with fewer cells.
pub fn run_adapter_resting(
    plan: &Plan,
    planted: Option<Planted>,
) -> Result<(Report, Rested), Box<Failure>> {
    let other = match plan.seed % 4 {
        1 | 3 => Some(crowded(plan)),
        2 => Some(cut_short(plan)),
        _ => None,
    };
    let plan = other.as_ref().unwrap_or(plan);
    let mut adapter =
        LabAdapter::new(plan.config.clone(), Time::ZERO).map_err(|refusal| none(plan, &refusal))?;
    run_resting(plan, planted, &mut adapter)
}

fn none(plan: &Plan, refusal: &Refusal) -> Box<Failure> {
    Box::new(Failure {
        seed: plan.seed,
        step: 0,
        now: Time::ZERO,
        text: format!("no adapter: {refusal}"),
    })
}

/// Runs a plan on a fresh adapter, with a bug or without.
pub fn run_adapter(plan: &Plan, planted: Option<Planted>) -> Result<Report, Box<Failure>> {
    match LabAdapter::new(plan.config.clone(), Time::ZERO) {
        Ok(mut adapter) => run(plan, planted, &mut adapter),
        Err(refusal) => Err(none(plan, &refusal)),
    }
}

/// A bug, and the first seed that found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
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
    let of_steps = |bug: &&Planted| !OF_RESTS.contains(bug) && !OF_ABR.contains(bug);
    kills(Planted::ALL.iter().filter(of_steps), seeds)
}

/// The same for the bugs of an adapter that rests, which is tried by [`run_adapter_resting`].
pub fn kill_table_of_rests(seeds: impl IntoIterator<Item = u64>) -> Vec<Kill> {
    kills(OF_RESTS, seeds)
}

fn kills<'a>(
    bugs: impl IntoIterator<Item = &'a Planted>,
    seeds: impl IntoIterator<Item = u64>,
) -> Vec<Kill> {
    let (mut seeds, mut plans) = (seeds.into_iter(), Vec::new());
    let bugs = bugs.into_iter();
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
        let result = catch_unwind(AssertUnwindSafe(|| match OF_RESTS.contains(&planted) {
            true => run_adapter_resting(plan, Some(planted)).map(drop),
            false => run_adapter(plan, Some(planted)).map(drop),
        }));
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
