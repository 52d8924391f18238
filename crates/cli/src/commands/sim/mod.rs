//! `cellgate sim`: the deterministic world, faults by the million.

mod det;
mod file;
mod mutants;
mod recorded;
mod rings;
mod run;
mod seeds;
mod shrink;
mod slots;
mod sweep;
mod verdict;

use cellgate_report::output::Exit;
use clap::Subcommand;

/// Run hosts, switches and lines, or rings, on a virtual clock, with faults, and judge them
///
/// Exit codes: 10 something panicked, 11 something never happened, 12 something wrong happened,
/// 13 two runs of one scenario differ.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run one scenario and print what it brought
    Run(run::Args),
    /// Run the scenarios of many seeds; stop at the first that goes wrong
    Sweep(sweep::Args),
    /// Make the failing scenario of a seed as small as it goes, and write it to a file
    Shrink(shrink::Args),
    /// Plant bugs in adapter, queues, server and world, and see that they are found
    Mutants(mutants::Args),
    /// Run the scenarios of many seeds twice each: nothing may differ
    Det(det::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Shrink(args) => shrink::run(args),
        Command::Mutants(args) => mutants::run(args),
        Command::Det(args) => det::run(args),
    }
}
