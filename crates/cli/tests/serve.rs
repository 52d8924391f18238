//! `cellgate serve` and `cellgate config` as a user runs them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(60);

fn cellgate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cellgate"))
        .args(args)
        .output()
        .unwrap()
}

/// A directory that goes with its test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("cellgate-cli-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A daemon that ends with its test, and its adapter with it.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.0.id().cast_signed()).unwrap();
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.0.wait();
    }
}

fn configuration(directory: &Path) -> String {
    format!(
        "[server]\nstate_dir = {directory:?}\n[adapter]\npin = false\nnice = 0\n\
         lock_memory = false\nyield_when_idle = true\nports = 2\n\
         [[interface]]\nname = \"x\"\nlink.memory.peer = \"x\"\n\
         [[connection]]\naddress = \"0.40\"\ncontract = \"aal5,cbr:pcr=1000,max_sdu=100\"\n"
    )
}

#[test]
fn a_configuration_is_checked_without_a_daemon() {
    let directory = Directory::new("check");
    let good = directory.write("good.toml", &configuration(&directory.0));
    assert_eq!(cellgate(&["config", "check", &good]).status.code(), Some(0));
    let bad = directory.write("bad.toml", "[server]\nsokcet = 1\n");
    for args in [["config", "check", &bad], ["serve", "-c", &bad]] {
        let told = cellgate(&args);
        assert_eq!(told.status.code(), Some(1), "{args:?}");
        let text = String::from_utf8(told.stderr).unwrap();
        for part in ["bad.toml", "line 2, column 1", "sokcet", "`socket`"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn a_running_daemon_shows_what_makes_it_again() {
    let directory = Directory::new("show");
    let socket = directory.path("control.sock");
    let show = || cellgate(&["config", "show", "--socket", &socket]);
    assert_eq!(show().status.code(), Some(4), "there is no daemon");
    let config = directory.write("config.toml", &configuration(&directory.0));
    let mut program = Command::new(env!("CARGO_BIN_EXE_cellgate"));
    program.args(["serve", "-c", &config]).stderr(Stdio::null());
    let mut daemon = Daemon(program.spawn().unwrap());
    let deadline = Instant::now() + PATIENCE;
    let shown = loop {
        let told = show();
        if told.status.success() {
            break String::from_utf8(told.stdout).unwrap();
        }
        assert!(daemon.0.try_wait().unwrap().is_none(), "it has ended");
        assert!(Instant::now() < deadline, "{told:?}");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(shown.contains("x.0.40"), "{shown}");
    let again = directory.write("again.toml", &shown);
    assert_eq!(
        cellgate(&["config", "check", &again]).status.code(),
        Some(0)
    );
    let second = cellgate(&["serve", "-c", &config]);
    assert_eq!(second.status.code(), Some(1));
    let text = String::from_utf8(second.stderr).unwrap();
    assert!(text.contains("another server has"), "{text}");
    let pid = Pid::from_raw(daemon.0.id().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(daemon.0.wait().unwrap().success());
    assert!(!Path::new(&socket).exists());
    assert_eq!(show().status.code(), Some(4));
}
