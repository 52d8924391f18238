//! The command `cellgate`: one binary, one file or folder below `commands` per command.
//!
//! Exit codes: 0 all went well, 1 something failed, 2 the command was called wrongly.
#![forbid(unsafe_code)]

mod commands;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{bench, contract, decode, demo, replay};
use output::Exit;

/// A real-time ATM host in user space.
#[derive(Parser)]
#[command(name = "cellgate", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(bench::Command),
    Contract(contract::Args),
    Decode(decode::Args),
    Demo(demo::Args),
    Replay(replay::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Bench(command) => bench::run(&command),
        Command::Contract(args) => contract::run(&args),
        Command::Decode(args) => decode::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Replay(args) => replay::run(&args),
    };
    let exit = outcome.unwrap_or_else(|error| {
        eprintln!("cellgate: {error:#}");
        Exit::Failed
    });
    exit.into()
}
