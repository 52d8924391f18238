//! `cellgate sim sweep`.

use std::time::Duration;

use cellgate_lab::world::{Options, check, check_isolation, scenario_of};
use serde::Serialize;

use super::seeds::{Seeds, quiet_panics, span, sweep};
use super::verdict::{exit, line};
use crate::output::{Exit, print, print_json};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seeds: A..B, or N for 0..N
    #[arg(long, value_name = "A..B")]
    seeds: Seeds,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Stop after so long: 90s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = span)]
    budget: Option<Duration>,
    /// Let no reference run beside the adapters
    #[arg(long)]
    fast: bool,
    /// Run each once more without its hazards, and compare
    #[arg(long)]
    isolation: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    seeds: u64,
    cells: u64,
    pass: bool,
    failed_seed: Option<u64>,
    failure: Option<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    quiet_panics();
    let options = Options {
        reference: !args.fast,
        ..Options::default()
    };
    let swept = sweep("sim sweep", &args.seeds.0, args.jobs, args.budget, |seed| {
        let scenario = scenario_of(seed);
        let outcome = check(&scenario, options)?;
        if args.isolation {
            check_isolation(&scenario, options)?;
        }
        Ok(outcome.cells)
    });
    let failed = swept.failed.as_ref();
    let told = failed.map(|(seed, failure)| line(failure, &format!("--seed {seed}")));
    if args.json {
        print_json(&Report {
            seeds: swept.seeds,
            cells: swept.cells,
            pass: failed.is_none(),
            failed_seed: failed.map(|(seed, _)| *seed),
            failure: told,
        })?;
    } else {
        let (seeds, cells) = (swept.seeds, swept.cells);
        let told = told.map(|line| line + "\n").unwrap_or_default();
        let verdict = if failed.is_none() {
            "all right"
        } else {
            "stopped"
        };
        print(&format!("{told}{seeds} seeds, {cells} cells: {verdict}\n"))?;
    }
    failed.map_or(Ok(Exit::Ok), |(_, failure)| exit(failure))
}
