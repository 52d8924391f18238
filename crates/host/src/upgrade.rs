//! The question before an upgrade: could a daemon of this program go on with what runs?

use std::fs;
use std::path::{Path, PathBuf};

use cellgate_core::server::VERSION;
use serde::Serialize;

use crate::control::VERSION as ADAPTER_VERSION;
use crate::doctor::ask::{self, Daemon, Left};
use crate::server::{Config, is_adapter_socket, state_dir_default};

/// A daemon and adapters that run, and hindrances to a daemon of this program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Upgrade {
    /// There is no hindrance.
    pub takes_up: bool,
    /// The daemon's process; none: no daemon answers.
    pub daemon: Option<u32>,
    /// The processes of the adapters that it could take up, as far as can be seen.
    pub adapters: Vec<u32>,
    /// Each hindrance, for people.
    pub hindrances: Vec<String>,
}

impl Upgrade {
    /// Asks the daemon at `socket`, and all adapters of its state directory; without a daemon those
    /// of the directory that `config` names. Changes nothing.
    pub fn check(config: &Config, socket: &Path) -> Self {
        let daemon = ask::daemon(socket);
        let section = daemon.said().and_then(|said| said.section.as_ref());
        let directory = section.unwrap_or(&config.server).state_dir.clone();
        let directory = directory.map_or_else(state_dir_default, PathBuf::from);
        let mut found = Self::default();
        found.hear_daemon(&daemon, socket);
        let sockets = adapter_sockets(&directory);
        let is_served = !matches!(daemon, Daemon::None);
        if is_served && sockets.is_empty() {
            let text = format!("no adapter listens in {}", directory.display());
            found.hindrances.push(text);
        }
        for path in sockets {
            found.hear_adapter(&ask::left(&path), &path, is_served);
        }
        found.takes_up = found.hindrances.is_empty();
        found
    }

    /// Nothing is there that could be taken up.
    pub fn is_of_nothing(&self) -> bool {
        self.takes_up && self.daemon.is_none() && self.adapters.is_empty()
    }

    fn hear_daemon(&mut self, daemon: &Daemon, socket: &Path) {
        let at = socket.display();
        let hindrance = match daemon {
            Daemon::None => return,
            Daemon::There(said) => {
                self.daemon = Some(said.pid);
                return;
            }
            Daemon::Silent => format!("the daemon at {at} does not answer"),
            Daemon::Closed => format!("the daemon at {at} does not let this user in: ask as root"),
            Daemon::Version(speaks) => format!(
                "applications of the daemon at {at} speak version {speaks} of the protocol, this \
                 program {VERSION}"
            ),
        };
        self.hindrances.push(hindrance);
    }

    fn hear_adapter(&mut self, left: &Left, path: &Path, is_served: bool) {
        let at = path.display();
        match left {
            Left::There(hello) => self.adapters.push(hello.pid),
            Left::Version(speaks) => self.hindrances.push(format!(
                "the adapter at {at} speaks version {speaks} of its protocol, this program \
                 {ADAPTER_VERSION}"
            )),
            // A name that a dead adapter has left keeps nobody.
            Left::None if !is_served => {}
            Left::None => {
                let text = format!("the adapter at {at} does not answer");
                self.hindrances.push(text);
            }
        }
    }
}

/// Where adapters listen, in order of their names.
fn adapter_sockets(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_adapter_socket));
    let mut all: Vec<_> = named.map(|entry| entry.path()).collect();
    all.sort();
    all
}
