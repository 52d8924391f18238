//! `cellgate serve`: the daemon.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use cellgate_host::adapter::run_as_child;
use cellgate_host::events::{Event, Field, Form, Kind, Log};
use cellgate_host::server::{Config, ServerOptions, serve};
use cellgate_report::output::Exit;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::config::read;
use super::server::exit_of;

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
    /// How events are told: text for people, json for programs, journal with fields; auto is the
    /// journal where standard error leads there, and text elsewhere
    #[arg(long, value_name = "FORM", default_value_t, value_parser = forms())]
    log: Form,
    /// Be the adapter's process
    #[arg(long, hide = true, conflicts_with = "config")]
    as_adapter: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let log = Log::new(args.log).context("the journal does not answer; --log text needs none")?;
    let (kind, ended) = match args.as_adapter {
        true => (Kind::AdapterFailed, run_as_child().map_err(Into::into)),
        false => (Kind::ServeFailed, be_daemon(args, &log)),
    };
    match ended {
        Ok(()) => Ok(Exit::Ok),
        // The command tells people as it tells them any error.
        Err(error) if log.form() == Form::Text => Err(error),
        Err(error) => {
            let why = crate::told(&error);
            log.tell(&Event::of(kind, &*why).with(Field::Reason, &*why));
            Ok(exit_of(&error))
        }
    }
}

fn be_daemon(args: &Args, log: &Log) -> anyhow::Result<()> {
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
        adapter: |form| {
            // This very program, wherever it lies: the way there may lead through directories that
            // a daemon without privileges cannot pass, and another version be there by now.
            let mut program = Command::new("/proc/self/exe");
            program.arg0("cellgate").args(["serve", AS_ADAPTER]);
            program.args(["--log", form.word()]);
            Ok(program)
        },
        log: log.clone(),
    })
    .context("serve")
}

fn forms() -> impl TypedValueParser<Value = Form> {
    let words = Form::ALL.map(Form::word);
    PossibleValuesParser::new(words).try_map(|word| word.parse::<Form>())
}
