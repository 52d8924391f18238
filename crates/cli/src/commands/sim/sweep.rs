//! `cellgate sim sweep`.

use std::collections::BTreeMap;
use std::sync::Mutex;

use cellgate_lab::Silent;
use cellgate_lab::world::{Mark, Marks, check_isolation, check_marked, scenario_of};
use serde::Serialize;

use super::seeds::{Many, quiet_panics};
use super::verdict::{exit, line};
use crate::output::{Exit, print, print_json, table};

#[derive(clap::Args)]
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
    let swept = many.sweep("sim sweep", |seed| {
        let scenario = scenario_of(seed);
        let (outcome, reached) = check_marked(&scenario, options)?;
        if args.isolation {
            check_isolation(&scenario, options, &mut Silent)?;
        }
        if let Ok(mut marks) = marks.lock() {
            marks.add(&reached);
        }
        Ok(outcome.cells)
    })?;
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
            "{table}{told}{seeds} seeds, {cells} cells: {verdict}\n{never}"
        ))?;
    }
    match failed {
        Some((_, failure)) => exit(failure),
        None if !missing.is_empty() => Ok(Exit::Failed),
        None => Ok(Exit::Ok),
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
    table(&rows)
}
