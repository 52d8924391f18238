//! `cellgate msna rpc`: one service of the crate tarpc, over REX and over TCP.
#![cfg_attr(
    not(feature = "rpc"),
    allow(
        dead_code,
        reason = "arguments that a build without calls reads in vain"
    )
)]

#[cfg(feature = "rpc")]
mod over;
#[cfg(feature = "rpc")]
mod service;

use std::time::Duration;

use cellgate_report::output::Exit;
use clap::{Subcommand, ValueEnum};

use super::super::Server;
use super::super::recv::seconds;
use super::Place;

#[derive(clap::Args)]
pub(super) struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Answers calls: `echo` returns its octets, `sink` nothing
    #[command(after_long_help = "\
Examples:
  $ cellgate msna rpc serve --itf b 10.0.0.2:9")]
    Serve(Serve),
    /// Calls with octets that the reply returns, and times it
    #[command(after_long_help = "\
Examples:
  $ cellgate msna rpc echo --itf a 10.0.0.2:9")]
    Echo(Ask),
    /// Calls with octets that the reply does not return, and times it
    #[command(after_long_help = "\
Examples:
  $ cellgate msna rpc sink --itf a 10.0.0.2:9")]
    Sink(Ask),
}

#[derive(clap::Args)]
struct Serve {
    #[command(flatten)]
    place: Place,
    /// The protocol of calls
    #[arg(long, default_value = "msna")]
    over: Over,
    /// HOST:SAP of MSNA, or HOST:PORT of TCP
    at: String,
}

#[derive(clap::Args)]
struct Ask {
    #[command(flatten)]
    place: Place,
    /// The protocol of calls
    #[arg(long, default_value = "msna")]
    over: Over,
    /// HOST:SAP of MSNA, or HOST:PORT of TCP
    to: String,
    /// Calls, one after another
    #[arg(short, value_name = "N", default_value = "10")]
    count: u64,
    /// Octets of a call
    #[arg(short, value_name = "OCTETS", default_value = "64")]
    size: usize,
    /// Time for a reply
    #[arg(short = 'W', value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    wait: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Over {
    Msna,
    Tcp,
}

#[cfg(feature = "rpc")]
pub(super) fn run(server: &Server, command: &Command) -> anyhow::Result<Exit> {
    match &command.verb {
        Verb::Serve(args) => service::serve(server, args),
        Verb::Echo(args) => service::ask(server, args, service::Kind::Echo),
        Verb::Sink(args) => service::ask(server, args, service::Kind::Sink),
    }
}

#[cfg(not(feature = "rpc"))]
pub(super) fn run(_: &Server, _: &Command) -> anyhow::Result<Exit> {
    let why = "this build is without calls: the feature `rpc` has them";
    Err(super::super::Misuse(why.to_owned()).into())
}
