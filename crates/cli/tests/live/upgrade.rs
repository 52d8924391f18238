//! `cellgate upgrade-check` before daemons and adapters of this version, of others, and none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use cellgate_core::server::{FromClient, FromServer, Refused};
use cellgate_host::control::{ControlError, Reply, Request};
use cellgate_shm::socket::{self, MESSAGE_MAX};
use rustix::process::Signal;
use serde_json::Value;

use crate::daemon::{Daemon, stdout};

/// Answers the first message of each caller at `path`.
fn answers(path: &Path, answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) {
    let listener = socket::listen(path, 0o600).expect("a socket");
    rustix::io::ioctl_fionbio(&listener, false).expect("it can wait");
    std::thread::spawn(move || {
        while let Ok(caller) = rustix::net::accept(&listener) {
            let mut buffer = vec![0; MESSAGE_MAX];
            if let Ok(socket::Received::Message(len, _)) =
                socket::receive(&caller, &mut buffer, true)
            {
                let told = answer(&buffer[..len]);
                socket::send(&caller, &told, &[], true).expect("somebody listens");
            }
        }
    });
}

/// A daemon whose applications speak another version.
pub(crate) fn foreign_daemon(path: &Path) {
    answers(path, |asked| {
        let hello: FromClient = serde_json::from_slice(asked).expect("a message");
        let FromClient::Request { id, .. } = hello else {
            panic!("{hello:?}");
        };
        let confirm = FromServer::Confirm {
            connection: 0,
            id,
            result: Err(Refused::Version { speaks: 999 }),
        };
        serde_json::to_vec(&confirm).expect("JSON")
    });
}

/// An adapter of another version.
fn foreign_adapter(path: &Path) {
    answers(path, |asked| {
        let Request { id, .. } = serde_json::from_slice(asked).expect("a request");
        let result = Err(ControlError::Version { speaks: 999 });
        serde_json::to_vec(&Reply { id, result }).expect("JSON")
    });
}

/// A directory with a configuration, which go with their test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = format!("cellgate-upgrade-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let state = directory.join("state");
        fs::create_dir_all(&state).expect("a directory");
        let config = format!("[server]\nstate_dir = {state:?}\n");
        fs::write(directory.join("cellgate.toml"), config).expect("a file");
        Self(directory)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn called(config: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellgate"));
    command.args(["upgrade-check", "-c"]).arg(config).args(more);
    command
        .env_remove("CELLGATE_SOCKET")
        .output()
        .expect("it starts")
}

/// The answer as JSON, which agrees with the exit code.
fn found(config: &Path) -> Value {
    let output = called(config, &["--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let code = if found["takes_up"] == true { 0 } else { 1 };
    assert_eq!(output.status.code(), Some(code), "{found}");
    found
}

/// A hindrance says this, and the doctor warns of it, too, if `told_by_doctor`.
fn hinders(config: &Path, text: &str, told_by_doctor: bool) {
    let found = found(config);
    assert_eq!(found["takes_up"], false, "{found}");
    assert!(found["hindrances"].to_string().contains(text), "{found}");
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_cellgate"));
    doctor.args(["doctor", "-c"]).arg(config);
    let doctor = doctor.env_remove("CELLGATE_SOCKET").output();
    let told = stdout(&doctor.expect("it starts"));
    assert_eq!(told.contains(text), told_by_doctor, "{told}");
}

#[test]
fn an_adapter_can_be_taken_up_with_its_daemon_and_without() {
    let mut daemon = Daemon::start_told("[[interface]]\nname = \"x\"\nlink.memory.peer = \"x\"\n");
    let config = daemon.path("cellgate.toml");
    let with = found(&config);
    assert_eq!(with["takes_up"], true, "{with}");
    assert!(
        with["daemon"].is_u64() && with["adapters"][0].is_u64(),
        "{with}"
    );
    let told = stdout(&called(&config, &[]));
    assert!(
        told.contains(&format!("kill -USR1 {}", with["daemon"])),
        "{told}"
    );
    daemon.signal(Signal::USR1);
    daemon.await_end();
    let without = found(&config);
    assert_eq!(without["takes_up"], true, "{without}");
    assert_eq!(without["daemon"], Value::Null);
    assert_eq!(without["adapters"], with["adapters"]);
    daemon.succeed();
    // One that is ended before it has the adapter would leave that.
    while found(&config)["daemon"] == Value::Null {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn where_nothing_runs_nothing_hinders() {
    let place = Place::new("nothing");
    let config = place.0.join("cellgate.toml");
    assert_eq!(found(&config)["takes_up"], true);
    let told = stdout(&called(&config, &[]));
    assert_eq!(told, "nothing runs that could be taken up\n");
    // The socket of a dead adapter.
    drop(socket::listen(&place.0.join("state/adapter.sock"), 0o600));
    assert_eq!(found(&config)["takes_up"], true);
}

#[test]
fn other_versions_hinder_and_the_doctor_says_so() {
    let place = Place::new("versions");
    let config = place.0.join("cellgate.toml");
    let adapter = place.0.join("state/adapter.sock");
    foreign_adapter(&adapter);
    hinders(&config, "speaks version 999 of its protocol", true);
    foreign_adapter(&place.0.join("state/adapter-west.sock"));
    fs::remove_file(adapter).expect("it is there");
    hinders(&config, "adapter-west.sock speaks version 999", false);
    foreign_daemon(&place.0.join("state/control.sock"));
    hinders(&config, "speak version 999 of the protocol", false);
}

#[test]
fn a_daemon_tells_where_its_adapter_is() {
    let daemon = Daemon::start_told("[[interface]]\nname = \"x\"\nlink.memory.peer = \"x\"\n");
    let place = Place::new("elsewhere");
    let other = place.0.join("cellgate.toml");
    assert_eq!(found(&other)["daemon"], Value::Null);
    let socket = daemon.path("state/control.sock").display().to_string();
    let output = called(&other, &["--json", "--socket", &socket]);
    let asked: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let named = found(&daemon.path("cellgate.toml"));
    assert_eq!(asked["adapters"], named["adapters"], "{asked}");
    assert!(named["adapters"][0].is_u64(), "{named}");
}
