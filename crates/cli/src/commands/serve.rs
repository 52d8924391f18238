//! `cellgate serve`: the daemon.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use cellgate_host::adapter::run_as_child;
use cellgate_host::server::{Config, ServerOptions, serve};
use cellgate_report::output::Exit;

use super::config::read;

/// The option that makes this program the adapter's process.
const AS_ADAPTER: &str = "--as-adapter";

/// Run the daemon that applications talk to
///
/// SIGHUP reads the configuration again, SIGTERM and SIGINT end the daemon and all connections,
/// SIGUSR1 ends the daemon alone: connections go on, and the next daemon takes them up.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate serve
  $ cellgate serve -c /etc/cellgate.toml")]
pub(crate) struct Args {
    /// The configuration (TOML); without, the interface lo, which receives what it sends, and a and
    /// b, which are joined
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show what happens in a browser, at this address: as `cellgate page --listen` does, from a
    /// process without privileges that ends with the daemon
    #[cfg(feature = "page")]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "as_adapter")]
    page: Option<super::page::Place>,
    /// Be the adapter's process
    #[arg(long, hide = true, conflicts_with = "config")]
    as_adapter: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.as_adapter {
        run_as_child()?;
        return Ok(Exit::Ok);
    }
    let config = match &args.config {
        Some(path) => read(path)?,
        None => Config::default(),
    };
    #[cfg(feature = "page")]
    if let Some(place) = &args.page {
        super::page::start(place, &config.control_socket())?;
    }
    serve(ServerOptions {
        config,
        path: args.config.clone(),
        adapter: || {
            // This very program, wherever it lies: the way there may lead through directories that
            // a daemon without privileges cannot pass, and another version be there by now.
            let mut program = Command::new("/proc/self/exe");
            program.arg0("cellgate").args(["serve", AS_ADAPTER]);
            Ok(program)
        },
        // Nobody may be listening any more.
        say: |text| drop(writeln!(std::io::stderr(), "cellgate: {text}")),
    })
    .context("serve")?;
    Ok(Exit::Ok)
}
