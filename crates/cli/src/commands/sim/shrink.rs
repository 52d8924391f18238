//! `cellgate sim shrink`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cellgate_lab::world::{Failure, Options};
use cellgate_lab::{Progress, Silent};
use cellgate_report::output::{Exit, has_folder, print};

use super::file::{Source, word, write};
use super::seeds::{Bug, quiet_panics, span};
use super::verdict::{Compared, exit, line};
use crate::progress::Shown;

/// Runs that a scenario is given.
const RUNS: usize = 20_000;

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate sim shrink --seed 7 -o small.toml")]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    compared: Compared,
    #[command(flatten)]
    bug: Bug,
    /// Take the smallest after so long: 90s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = span)]
    budget: Option<Duration>,
    /// Write the scenario into this file (TOML, or JSON if its name ends so), over an old one that
    /// is not read
    #[arg(short, value_name = "FILE")]
    out: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    quiet_panics();
    let scenario = args.source.scenario(&[&args.out])?;
    let options = args.bug.options(true);
    let plain = Options {
        reference: true,
        ..Options::default()
    };
    has_folder(&args.out)?;
    let mut shown = Shown::new("sim shrink, virtual ms of the first run");
    let first = args.compared.check(&scenario, options, &mut shown);
    shown.clear();
    let first = match first {
        Ok(_) => {
            let hint = match args.compared.words().is_empty() {
                true => " in one run; --det and --isolation compare several",
                false => "",
            };
            print(&format!("nothing is wrong with it{hint}\n"))?;
            return Ok(Exit::Failed);
        }
        Err(failure) => failure,
    };
    let Some(why) = invariant(&first) else {
        return exit(&first);
    };
    let check = |scenario: &_, options| args.compared.check(scenario, options, &mut Silent);
    let mut shown = Shown::new("sim shrink");
    let mut runs = 0;
    let began = Instant::now();
    let late = || args.budget.is_some_and(|budget| began.elapsed() > budget);
    let small = cellgate_lab::shrink(&scenario, RUNS, |candidate| {
        if late() {
            return false;
        }
        runs += 1;
        shown.step(runs, RUNS as u64);
        let result = check(candidate, options);
        // With a bug on purpose, by nothing else.
        result.is_err_and(|failure| invariant(&failure) == Some(why))
            && (options == plain || check(candidate, plain).is_ok())
    });
    shown.clear();
    write(&args.out, &small)?;
    let last = check(&small, options).err().unwrap_or(first);
    let source = format!("--plan {}", word(&args.out));
    let how = args.bug.words(true) + &args.compared.words();
    let cut = if late() {
        ": stopped by the budget"
    } else {
        ""
    };
    print(&format!(
        "{}\n{} faults of {}, {} sources of {}, {runs} runs{cut}\n",
        line(&last, &source, &how),
        small.faults.len(),
        scenario.faults.len(),
        small.sources.len(),
        scenario.sources.len(),
    ))?;
    exit(&last)
}

/// What a smaller scenario must fail by, too; one that makes no world fails by nothing.
fn invariant(failure: &Failure) -> Option<&str> {
    match failure {
        Failure::Scenario(_) => None,
        Failure::Violation(violation) => Some(&violation.invariant),
    }
}
