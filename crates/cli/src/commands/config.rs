//! `cellgate config`: the daemon's configuration.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use cellgate_host::server::{Config, ConfigError, annotated, foresee, new_config};
use cellgate_report::output::{Exit, print, print_json_line};
use clap::Subcommand;
use serde_json::json;

use super::server::{Running, Server};
use crate::input::{read_all, read_text};

/// Check a configuration, begin one, or show what a running daemon has
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Say whether a file can be used, with all that it names: exit code 0, or 1 with the place of
    /// the mistake; notes tell what a daemon would meet at the places that it names, and which CPU
    /// this machine lacks
    #[command(after_long_help = "\
Examples:
  $ cellgate config check /etc/cellgate.toml")]
    Check {
        /// The file (TOML); -: standard input
        file: PathBuf,
        /// Print JSON: one object with `file` and perhaps `notes`, or with `error`
        #[arg(short = 'J', long)]
        json: bool,
    },
    /// Print a configuration to begin with: every key with what it means
    ///
    /// It has a loop and two interfaces that are joined. All other keys are comments with their
    /// defaults.
    #[command(after_long_help = "\
Examples:
  $ cellgate config new > cellgate.toml")]
    New,
    /// Print what the running daemon runs with as TOML, as `cellgate save` does; of a file, every
    /// key with what it means
    ///
    /// A key that FILE leaves out is a comment with its default.
    #[command(visible_alias = "sh")]
    #[command(after_long_help = "\
Examples:
  $ cellgate config show
  $ cellgate config show /etc/cellgate.toml")]
    Show {
        /// The file (TOML); -: standard input
        #[arg(conflicts_with = "socket")]
        file: Option<PathBuf>,
        #[command(flatten)]
        server: Server,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Check { file, json } => {
            let config = read_as(file, Config::parse_whole)?;
            let name = name(file);
            let notes = foresee(&config);
            match (json, notes.is_empty()) {
                (true, true) => print_json_line(&json!({ "file": name }))?,
                (true, false) => print_json_line(&json!({ "file": name, "notes": notes }))?,
                (false, _) => {
                    let notes = notes.iter().map(|note| format!("note: {note}\n"));
                    print(&format!("{name}: ok\n{}", notes.collect::<String>()))?;
                }
            }
        }
        Command::New => print(&new_config())?,
        Command::Show {
            file: Some(file),
            server,
        } => {
            let (name, text) = text(file)?;
            let config = parsed(&name, &text, Config::parse)?;
            match server.json() {
                true => print_json_line(&config)?,
                false => print(&annotated(&text.parse::<toml::Table>().context(name)?))?,
            }
        }
        Command::Show { file: None, server } => return Running::ask(server)?.show(server),
    }
    Ok(Exit::Ok)
}

fn name(path: &Path) -> String {
    match path.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// Reads and checks a configuration file as a daemon does.
pub(crate) fn read(path: &Path) -> anyhow::Result<Config> {
    read_as(path, Config::parse)
}

fn read_as(path: &Path, parse: fn(&str) -> Result<Config, ConfigError>) -> anyhow::Result<Config> {
    let (name, text) = text(path)?;
    parsed(&name, &text, parse)
}

/// How a file is called, and what it has.
fn text(path: &Path) -> anyhow::Result<(String, String)> {
    let name = name(path);
    let text = match path.as_os_str() == "-" {
        true => read_all(io::stdin().lock(), &name, Config::LEN_MAX)?,
        false => read_text(path, Config::LEN_MAX)?,
    };
    Ok((name, text))
}

fn parsed(
    name: &str,
    text: &str,
    parse: fn(&str) -> Result<Config, ConfigError>,
) -> anyhow::Result<Config> {
    parse(text).map_err(|error| anyhow!("{name}: {error}"))
}
