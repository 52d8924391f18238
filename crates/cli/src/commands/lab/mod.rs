//! `cellgate lab`: the papers' tables and figures, on the lab's machines.

mod choice;
mod list;
mod page;
mod run;

use cellgate_report::output::Exit;
use clap::Subcommand;

/// Run the papers' experiments on a virtual clock
#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the experiments and what can be set
    List(list::Args),
    /// Run one experiment, or all: exit code 1 if a check fails, the failing ones named last
    Run(run::Args),
    /// Run all and write one HTML page with every figure
    Report(page::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::List(args) => list::run(args),
        Command::Run(args) => run::run(args),
        Command::Report(args) => page::run(args),
    }
}
