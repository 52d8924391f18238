//! `cellgate config`: the daemon's configuration.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use cellgate_host::server::Config;
use clap::Subcommand;

use super::server::{Server, running};
use crate::input::read_text;
use crate::output::{Exit, print};

/// Octets of a configuration.
const CONFIG_LEN_MAX: u64 = 16 << 20;

/// Check a configuration, or show what a running daemon has
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Say whether a file can be used: exit code 0, or 1 with the place of the mistake
    Check {
        /// The file (TOML)
        file: PathBuf,
    },
    /// Print interfaces and permanent connections of the running daemon as TOML; of a file, every
    /// key with its value
    Show {
        /// The file (TOML)
        #[arg(conflicts_with = "socket")]
        file: Option<PathBuf>,
        /// Its control socket
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Check { file } => {
            read(file)?;
            print(&format!("{}: ok\n", file.display()))?;
        }
        Command::Show {
            file: Some(file), ..
        } => print(&read(file)?.print())?,
        Command::Show { socket, .. } => print(&running(&Server::at(socket.clone()))?)?,
    }
    Ok(Exit::Ok)
}

/// Reads and checks a configuration file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Config> {
    let name = path.display();
    let text = read_text(path, CONFIG_LEN_MAX)?;
    Config::parse(&text).map_err(|error| anyhow!("{name}: {error}"))
}
