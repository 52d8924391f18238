//! `cellgate sim det`.

use cellgate_lab::world::{Options, check_determinism, scenario_of};
use serde::Serialize;

use super::seeds::{Seeds, quiet_panics, sweep};
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
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    seeds: u64,
    /// Of all trace hashes: equal on every machine and in every build.
    sum: String,
    pass: bool,
    failure: Option<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    quiet_panics();
    let options = Options {
        reference: false,
        ..Options::default()
    };
    let swept = sweep("sim det", &args.seeds.0, args.jobs, None, |seed| {
        // Half of the hash: the sum of a million stays below 2^64.
        Ok(check_determinism(&scenario_of(seed), options)?.trace_hash >> 32)
    });
    let failed = swept.failed.as_ref();
    let told = failed.map(|(seed, failure)| line(failure, &format!("--seed {seed}")));
    let sum = format!("{:016x}", swept.cells);
    if args.json {
        print_json(&Report {
            seeds: swept.seeds,
            sum,
            pass: failed.is_none(),
            failure: told,
        })?;
    } else {
        let told = told.map(|line| line + "\n").unwrap_or_default();
        let seeds = swept.seeds;
        print(&format!(
            "{told}{seeds} seeds, three runs each; sum of traces {sum}\n"
        ))?;
    }
    failed.map_or(Ok(Exit::Ok), |(_, failure)| exit(failure))
}
