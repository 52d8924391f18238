//! What a flood costs the host beyond what its machine pays anyhow.
//!
//! Pairs of runs with the same PDUs for the host, from the same processes, which sleep and which do
//! not: in one, C3 floods its own VC and gets its contract; in the other, C3 keeps its contract and
//! sends the rest of the flood, on the same port, to an address that nobody opened. Their ratio of
//! host CPU time per delivered PDU is what the flood of an open VC costs the host, without what the
//! same cells do to the machine's caches, clock and scheduler.

use cellgate_core::server::Idle;
use cellgate_report::grouped;
use cellgate_report::output::Exit;
use serde::Serialize;

use super::plan::{self, AT_CONTRACT, Hazard, Phase, Strange};
use super::report::PhaseReport;
use super::stage::Stage;
use super::trial::Trial;
use crate::live::spread::Spread;
use crate::live::verdict::Verdict;
use crate::live::weather::until_sound;

/// The most that the median ratio may be.
const RATIO_MAX: f64 = 1.10;

#[derive(Serialize)]
struct Report {
    pairs: Vec<Pair>,
    void_pairs: u32,
    /// Of the pairs' ratios.
    ratio: Option<Spread>,
    ratio_max: f64,
    verdict: String,
}

#[derive(Clone, Copy, Serialize)]
struct Pair {
    flood_cpu_ns_per_pdu: u64,
    control_cpu_ns_per_pdu: u64,
    flood_discarded_cell_s: u64,
    ratio: f64,
}

/// Runs `pairs` pairs, `seconds` each run.
pub(crate) fn run(trial: Trial, pairs: u32, seconds: f64, idle: Idle) -> anyhow::Result<Exit> {
    let mut stage = Stage::new(false, plan::port_cells(false), None, idle)?;
    trial
        .voice
        .say(&format!("adapter {}\n", stage.scheduling()))?;
    let (mut good, mut void, mut faults) = (Vec::new(), 0, Vec::new());
    for number in 0..pairs {
        let try_once = |_| {
            let both = pair(trial, &mut stage, number, seconds)?;
            void += u32::from(is_void(&both));
            Ok(both)
        };
        let both = until_sound(try_once, is_void)?;
        if is_void(&both) {
            continue;
        }
        let (flood, control) = both;
        let found = measure(&flood, &control);
        faults.extend(
            [flood, control]
                .into_iter()
                .flat_map(|report| report.more.faults),
        );
        if let Some(pair) = found {
            trial.voice.say(&line(number, &pair))?;
            good.push(pair);
        }
    }
    let ratios: Vec<f64> = good.iter().map(|pair: &Pair| pair.ratio).collect();
    let ratio = (!ratios.is_empty()).then(|| Spread::of(ratios));
    let verdict = verdict(ratio, good.len(), pairs as usize, &faults);
    let report = Report {
        pairs: good,
        void_pairs: void,
        ratio,
        ratio_max: RATIO_MAX,
        verdict: verdict.text(),
    };
    trial.voice.end(&report, &verdict)
}

/// One pair; which comes first changes from pair to pair, so that a drift of the machine cancels.
fn pair(
    trial: Trial,
    stage: &mut Stage,
    number: u32,
    seconds: f64,
) -> anyhow::Result<(PhaseReport, PhaseReport)> {
    let flood = Phase::new("flood", Hazard::Max, Strange::Nothing);
    let control = Phase::new("control", AT_CONTRACT, Strange::Beside);
    if number.is_multiple_of(2) {
        let first = trial.once(stage, &flood, seconds)?;
        Ok((first, trial.once(stage, &control, seconds)?))
    } else {
        let first = trial.once(stage, &control, seconds)?;
        Ok((trial.once(stage, &flood, seconds)?, first))
    }
}

fn is_void((flood, control): &(PhaseReport, PhaseReport)) -> bool {
    flood.void_reason.is_some() || control.void_reason.is_some()
}

fn measure(flood: &PhaseReport, control: &PhaseReport) -> Option<Pair> {
    let (of_flood, of_control) = (flood.cpu_ns_per_pdu()?, control.cpu_ns_per_pdu()?);
    Some(Pair {
        flood_cpu_ns_per_pdu: of_flood,
        control_cpu_ns_per_pdu: of_control,
        flood_discarded_cell_s: flood.more.discarded_cell_s,
        ratio: of_flood as f64 / of_control.max(1) as f64,
    })
}

fn line(number: u32, pair: &Pair) -> String {
    format!(
        "pair {:>3}: host CPU per PDU {:>6} ns in the flood, {:>6} ns beside it, ratio {:.3}\n",
        number + 1,
        grouped(pair.flood_cpu_ns_per_pdu),
        grouped(pair.control_cpu_ns_per_pdu),
        pair.ratio,
    )
}

fn verdict(ratio: Option<Spread>, good: usize, pairs: usize, faults: &[String]) -> Verdict {
    if !faults.is_empty() {
        return Verdict::Fail(faults.join("; "));
    }
    let Some(ratio) = ratio.filter(|_| good == pairs) else {
        return Verdict::Void(format!("only {good} of {pairs} pairs were not void"));
    };
    let text = format!(
        "host CPU per delivered PDU, flooded against the same flood for nobody: median ratio {:.3} \
         (quartiles {:.3} and {:.3}) of {good} pairs, at most {RATIO_MAX:.2} is the goal",
        ratio.median, ratio.q1, ratio.q3
    );
    // A quarter of the pairs within the goal: the median may be beyond it by chance.
    match (ratio.median <= RATIO_MAX, ratio.q1 <= RATIO_MAX) {
        (true, _) => Verdict::Pass(text),
        (false, true) => Verdict::Void(format!("the pairs lie too far apart: {text}")),
        (false, false) => Verdict::Fail(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_that_costs_fails_and_pairs_that_lie_apart_say_nothing() {
        let of = |ratios: &[f64]| {
            let (spread, count) = (Spread::of(ratios.to_vec()), ratios.len());
            verdict(Some(spread), count, count, &[])
        };
        assert!(matches!(of(&[0.9, 1.0, 1.1, 1.3, 1.4]), Verdict::Pass(_)));
        assert!(matches!(of(&[0.8, 1.0, 1.2, 1.3, 1.4]), Verdict::Void(_)));
        assert!(matches!(of(&[1.0, 1.2, 1.2, 1.3, 1.4]), Verdict::Fail(_)));
        let few = verdict(Some(Spread::of(vec![1.0])), 1, 2, &[]);
        assert!(matches!(few, Verdict::Void(_)));
        let fault = ["octets differ".to_owned()];
        assert!(matches!(verdict(None, 0, 1, &fault), Verdict::Fail(_)));
    }
}
