//! `cellgate bench`: what the adapter costs, beside what it could cost.

mod adapters;
mod client;
mod cpus;
mod discard;
mod files;
mod filters;
mod instructions;
mod lab;
mod measure;
mod msna;
mod notify;
mod pace;
#[cfg(feature = "page")]
mod page;
mod peers;
mod police;
mod process;
mod queue;
mod receive;
mod report;
mod rest;
mod rig;
mod shape;
mod site;
mod terminal;
mod train;
mod transmit;
mod udp;
mod video;

use cellgate_report::output::Exit;
use clap::Subcommand;

pub(crate) use client::partner;

/// Measure the data path against its peers, in one run.
///
/// Goals that are ratios are judged always, those in cycles only while the calibration loop shows
/// a quiet host. A goal that is missed ends in exit code 1.
#[derive(clap::Args)]
pub struct Command {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Cells in, PDUs out
    #[command(after_long_help = "\
Examples:
  $ cellgate bench receive --quick")]
    Receive(Args),
    /// Cells that nobody is to get
    #[command(after_long_help = "\
Examples:
  $ cellgate bench discard --quick")]
    Discard(Args),
    #[command(after_long_help = "\
Examples:
  $ cellgate bench police --quick")]
    Police(police::Args),
    /// PDUs in, cells out, by SDU size (Figure 5)
    #[command(after_long_help = "\
Examples:
  $ cellgate bench transmit --quick")]
    Transmit(Args),
    /// Rates at the output (Figure 6), and thousands of shaped VCs
    #[command(after_long_help = "\
Examples:
  $ cellgate bench shape --quick")]
    Shape(Args),
    #[command(after_long_help = "\
Examples:
  $ cellgate bench msna --quick")]
    Msna(msna::Args),
    /// Host CPU and wake-ups by SDU size and notification (Figure 8)
    #[command(after_long_help = "\
Examples:
  $ cellgate bench notify --quick")]
    Notify(Args),
    /// The udp link beside plain system calls
    #[command(after_long_help = "\
Examples:
  $ cellgate bench udp --quick")]
    Udp(Args),
    /// A connection's round trips, flows, copies and overhead, beside sockets
    #[command(after_long_help = "\
Examples:
  $ cellgate bench client --quick")]
    Client(client::Args),
    #[command(after_long_help = "\
Examples:
  $ cellgate bench queue --quick")]
    Queue(queue::Args),
    /// What looking at a daemon costs: 1,000 VCs, 32 viewers
    #[cfg(feature = "page")]
    #[command(after_long_help = "\
Examples:
  $ cellgate bench page --quick")]
    Page(Args),
    /// How late what is paced leaves, beside a thread that sleeps
    #[command(after_long_help = "\
Examples:
  $ cellgate bench pace --quick")]
    Pace(Args),
    /// Throughput of two adapters together, beside that of one
    #[command(after_long_help = "\
Examples:
  $ cellgate bench adapters --quick")]
    Adapters(Args),
    #[command(after_long_help = "\
Examples:
  $ cellgate bench rest --quick")]
    Rest(rest::Args),
    #[command(after_long_help = "\
Examples:
  $ cellgate bench lab --quick")]
    Lab(lab::Args),
    #[command(after_long_help = "\
Examples:
  $ cellgate bench terminal --quick")]
    Terminal(terminal::Args),
    #[command(after_long_help = "\
Examples:
  $ cellgate bench files --quick")]
    Files(files::Args),
    /// What a datagram that nobody wants costs, by who throws it away
    ///
    /// Needs root, for network namespaces; nftables is left out where there is no nft.
    #[command(after_long_help = "\
Examples:
  $ cellgate bench filters --quick")]
    Filters(Args),
    #[command(after_long_help = "\
Examples:
  $ cellgate bench video --quick")]
    Video(video::Args),
    #[command(after_long_help = "\
Examples:
  $ cellgate bench instructions")]
    Instructions(instructions::Args),
}

#[derive(clap::Args)]
struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Run short, to see that it runs; times are not judged
    #[arg(long)]
    quick: bool,
}

pub fn run(command: &Command) -> anyhow::Result<Exit> {
    match &command.bench {
        Bench::Receive(args) => receive::run(args),
        Bench::Discard(args) => discard::run(args),
        Bench::Police(args) => police::run(args),
        Bench::Transmit(args) => transmit::run(args),
        Bench::Shape(args) => shape::run(args),
        Bench::Msna(args) => msna::run(args),
        Bench::Notify(args) => notify::run(args),
        Bench::Udp(args) => udp::run(args),
        Bench::Client(args) => client::run(args),
        Bench::Queue(args) => queue::run(args),
        #[cfg(feature = "page")]
        Bench::Page(args) => page::run(args),
        Bench::Pace(args) => pace::run(args),
        Bench::Adapters(args) => adapters::run(args),
        Bench::Rest(args) => rest::run(args),
        Bench::Lab(args) => lab::run(args),
        Bench::Terminal(args) => terminal::run(args),
        Bench::Files(args) => files::run(args),
        Bench::Filters(args) => filters::run(args),
        Bench::Video(args) => video::run(args),
        Bench::Instructions(args) => instructions::run(args),
    }
}
