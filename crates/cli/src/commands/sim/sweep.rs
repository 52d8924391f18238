//! `cellgate sim sweep`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use cellgate_core::contract::CellRate;
use cellgate_lab::Silent;
use cellgate_lab::world::{Mark, Marks, check_isolation, check_marked, scenario_of};
use cellgate_report::output::{Exit, columns, print, print_json};
use serde::Serialize;

use super::seeds::{Many, quiet_panics};
use super::verdict::{exit, line};

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate sim sweep --seeds 1000 --jobs 2 --marks")]
pub(crate) struct Args {
    #[command(flatten)]
    many: Many,
    /// Let no reference run beside the adapters
    #[arg(long)]
    fast: bool,
    /// Run each without its hazards, and without what hostile clients write, and compare
    #[arg(long)]
    isolation: bool,
    /// Print how often each coverage mark was reached; fail if one was not
    #[arg(long)]
    marks: bool,
}

#[derive(Serialize)]
struct Report {
    seeds: u64,
    /// Whether those were all.
    complete: bool,
    cells: u64,
    /// Planned, in the scenarios of those seeds.
    faults: u64,
    /// How long a link takes for so many cells.
    link_time_ms: u64,
    pass: bool,
    failed_seed: Option<u64>,
    failure: Option<String>,
    /// Marks that were to be reached and were not.
    missing: Vec<String>,
    marks: BTreeMap<String, u64>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    quiet_panics();
    let many = &args.many;
    let options = many.bug.options(!args.fast);
    let marks = Mutex::new(Marks::default());
    let faults = AtomicU64::new(0);
    let swept = many.sweep("sim sweep", |seed| {
        let scenario = scenario_of(seed);
        let (outcome, reached) = check_marked(&scenario, options)?;
        if args.isolation {
            check_isolation(&scenario, options, &mut Silent)?;
        }
        if let Ok(mut marks) = marks.lock() {
            marks.add(&reached);
        }
        faults.fetch_add(scenario.faults_planned(), Ordering::Relaxed);
        Ok(outcome.cells)
    })?;
    let faults = faults.into_inner();
    let link_time_ms =
        (u128::from(swept.cells) * 1_000 / u128::from(CellRate::OC3.cell_s())) as u64;
    let marks = marks.into_inner().unwrap_or_default();
    let failed = swept.failed.as_ref();
    let compared = if args.isolation { " --isolation" } else { "" };
    let how = many.bug.words(!args.fast) + compared;
    let told = failed.map(|(seed, failure)| line(failure, &format!("--seed {seed}"), &how));
    let missing: Vec<String> = match args.marks {
        true => marks.missing().map(name).collect(),
        false => Vec::new(),
    };
    if many.json {
        print_json(&Report {
            seeds: swept.seeds,
            complete: swept.complete,
            cells: swept.cells,
            faults,
            link_time_ms,
            pass: failed.is_none() && missing.is_empty(),
            failed_seed: failed.map(|(seed, _)| *seed),
            failure: told,
            missing: missing.clone(),
            marks: marks.iter().map(|mark| (name(mark), mark.count)).collect(),
        })?;
    } else {
        let (seeds, cells) = (swept.seeds, swept.cells);
        let told = told.map(|line| line + "\n").unwrap_or_default();
        let verdict = swept.verdict();
        let (table, never) = if args.marks {
            (text(&marks), never(&missing))
        } else {
            (String::new(), String::new())
        };
        print(&format!(
            "{table}{told}{seeds} seeds, {cells} cells: {verdict}\n\
             {faults} faults planned; the cells take a link {}\n{never}",
            span_text(link_time_ms)
        ))?;
    }
    match failed {
        Some((_, failure)) => exit(failure),
        None if !missing.is_empty() => Ok(Exit::Failed),
        None => Ok(Exit::Ok),
    }
}

/// Hours, or seconds of less than one.
fn span_text(ms: u64) -> String {
    match ms / 3_600_000 {
        0 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        hours => format!("{hours}.{} h", ms % 3_600_000 / 360_000),
    }
}

fn never(missing: &[String]) -> String {
    match missing.len() {
        0 => "every mark was reached\n".into(),
        _ => format!("never reached: {}\n", missing.join(", ")),
    }
}

fn name(mark: &Mark) -> String {
    format!("{}:{}", mark.group, mark.name)
}

fn text(marks: &Marks) -> String {
    let rows: Vec<[String; 2]> = (marks.iter())
        .map(|mark| [name(mark), mark.count.to_string()])
        .collect();
    columns(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_hours_or_seconds() {
        for (ms, told) in [
            (0, "0.0 s"),
            (12_399, "12.3 s"),
            (3_599_999, "3599.9 s"),
            (3_600_000, "1.0 h"),
            (36_359_999, "10.0 h"),
            (36_360_000, "10.1 h"),
        ] {
            assert_eq!(span_text(ms), told, "{ms}");
        }
    }
}
