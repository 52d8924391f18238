//! `cellgate sim shrink`.

use std::path::PathBuf;

use cellgate_lab::experiments::Progress;
use cellgate_lab::world::{Failure, Options, check};

use super::file::{Source, word, write};
use super::seeds::{Bug, quiet_panics};
use super::verdict::{exit, line};
use crate::commands::lab::progress::Shown;
use crate::output::{Exit, print};

/// Runs that a scenario is given.
const RUNS: usize = 20_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    bug: Bug,
    /// Write the scenario into this file (TOML, or JSON if its name ends so)
    #[arg(short, value_name = "FILE")]
    out: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    quiet_panics();
    let scenario = args.source.scenario()?;
    let options = args.bug.options(true);
    let plain = Options {
        reference: true,
        ..Options::default()
    };
    let first = match check(&scenario, options) {
        Ok(_) => {
            print("nothing is wrong with it\n")?;
            return Ok(Exit::Failed);
        }
        Err(failure) => failure,
    };
    let why = invariant(&first);
    let mut shown = Shown::new("sim shrink");
    let mut runs = 0;
    let small = cellgate_lab::shrink(&scenario, RUNS, |candidate| {
        runs += 1;
        shown.step(runs, RUNS as u64);
        let result = check(candidate, options);
        // With a bug on purpose, by nothing else.
        result.is_err_and(|failure| invariant(&failure) == why)
            && (options == plain || check(candidate, plain).is_ok())
    });
    shown.clear();
    write(&args.out, &small)?;
    let last = check(&small, options).err().unwrap_or(first);
    let source = format!("--plan {}", word(&args.out));
    print(&format!(
        "{}\n{} faults of {}, {} sources of {}, {runs} runs\n",
        line(&last, &source, &args.bug.words(true)),
        small.faults.len(),
        scenario.faults.len(),
        small.sources.len(),
        scenario.sources.len(),
    ))?;
    exit(&last)
}

/// What a smaller scenario must fail by, too.
fn invariant(failure: &Failure) -> String {
    match failure {
        Failure::Scenario(error) => error.to_string(),
        Failure::Violation(violation) => violation.invariant.clone(),
    }
}
