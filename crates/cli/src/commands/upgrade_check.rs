//! `cellgate upgrade-check`: whether this program could go on with what runs.

use std::path::PathBuf;

use cellgate_host::server::Config;
use cellgate_host::upgrade::Upgrade;
use cellgate_report::output::{Exit, print, print_json_line};

use super::config::read;
use super::doctor::socket_of;
use super::server::Server;

/// Say whether a daemon of this program can take up the adapters that run, with their connections
///
/// Packages ask it before they end an older daemon (SIGUSR1). It asks the daemon and its adapters
/// for the versions of their protocols, and changes nothing. Exit code 0: it can, or nothing runs;
/// 1: it cannot, and all that runs is better left running.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate upgrade-check
  $ cellgate upgrade-check -c /etc/cellgate.toml --json")]
pub(crate) struct Args {
    /// The configuration of the daemon (TOML), as `cellgate serve` takes it
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let config = match &args.config {
        Some(path) => read(path)?,
        None => Config::default(),
    };
    let socket = socket_of(&config, args.config.is_some(), &args.server);
    let found = Upgrade::check(&config, &socket);
    match args.server.json() {
        true => print_json_line(&found)?,
        false => print(&people(&found))?,
    }
    Ok(match found.takes_up {
        true => Exit::Ok,
        false => Exit::Failed,
    })
}

fn people(found: &Upgrade) -> String {
    if found.is_of_nothing() {
        return "nothing runs that could be taken up\n".to_owned();
    }
    if !found.takes_up {
        let hindrances = found.hindrances.iter().map(|text| format!("{text}\n"));
        let hindrances: String = hindrances.collect();
        return format!("{hindrances}a daemon of this program would end all connections\n");
    }
    let adapters: Vec<_> = found.adapters.iter().map(u32::to_string).collect();
    let adapters = adapters.join(" ");
    let ending = match found.daemon {
        Some(pid) => format!("; kill -USR1 {pid} ends the daemon that runs, and nothing else"),
        None => String::new(),
    };
    format!("a daemon of this program can take up adapter {adapters}{ending}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_told_with_what_follows() {
        let mut found = Upgrade {
            takes_up: true,
            ..Upgrade::default()
        };
        assert_eq!(people(&found), "nothing runs that could be taken up\n");
        found.daemon = Some(7);
        found.adapters = vec![8, 9];
        let told = people(&found);
        assert!(told.contains("take up adapter 8 9; kill -USR1 7"), "{told}");
        found.takes_up = false;
        found.hindrances = vec!["it speaks version 1".to_owned()];
        let told = people(&found);
        assert!(told.starts_with("it speaks version 1\na daemon"), "{told}");
    }
}
