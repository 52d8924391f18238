//! `cellgate sim det`.

use cellgate_lab::Silent;
use cellgate_lab::world::{check_determinism, scenario_of};
use cellgate_report::output::{Exit, print, print_json};
use serde::Serialize;

use super::seeds::{Many, quiet_panics};
use super::verdict::{exit, line};

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate sim det --seeds 0..100")]
pub(crate) struct Args {
    #[command(flatten)]
    many: Many,
}

#[derive(Serialize)]
struct Report {
    seeds: u64,
    /// Whether those were all.
    complete: bool,
    /// Of all trace hashes: equal on every machine and in every build.
    sum: String,
    pass: bool,
    failure: Option<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    quiet_panics();
    let many = &args.many;
    let options = many.bug.options(false);
    let swept = many.sweep("sim det", |seed| {
        // Half of the hash: the sum of a million stays below 2^64.
        Ok(check_determinism(&scenario_of(seed), options, &mut Silent)?.trace_hash >> 32)
    })?;
    let failed = swept.failed.as_ref();
    let how = many.bug.words(false) + " --det";
    let told = failed.map(|(seed, failure)| line(failure, &format!("--seed {seed}"), &how));
    let sum = format!("{:016x}", swept.cells);
    if many.json {
        print_json(&Report {
            seeds: swept.seeds,
            complete: swept.complete,
            sum,
            pass: failed.is_none(),
            failure: told,
        })?;
    } else {
        let told = told.map(|line| line + "\n").unwrap_or_default();
        let (seeds, verdict) = (swept.seeds, swept.verdict());
        print(&format!(
            "{told}{seeds} seeds, two runs each; sum of traces {sum}: {verdict}\n"
        ))?;
    }
    failed.map_or(Ok(Exit::Ok), |(_, failure)| exit(failure))
}
