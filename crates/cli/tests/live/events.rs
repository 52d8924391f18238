//! The events of a daemon and its adapter: as JSON, to a journal, as text where there is none.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::linux::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cellgate_host::client::Control;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Long enough for anything on a busy machine; reached only by a failing test.
const PATIENCE: Duration = Duration::from_secs(60);

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = format!("cellgate-events-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("run/systemd/journal")).unwrap();
        Self(path)
    }

    fn configuration(&self) -> String {
        let path = self.0.join("cellgate.toml");
        let text = format!(
            "[server]\nstate_dir = {:?}\n[adapter]\npin = false\nnice = 0\n\
             lock_memory = false\nidle = \"sleep\"\nports = 2\n",
            self.0.join("state")
        );
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Kills the adapter, once it answers.
    fn kill_adapter(&self) -> u32 {
        let control = Control::at(&self.0.join("state/adapter.sock")).expect("it listens");
        let pid = control.hello().pid;
        let process = Pid::from_raw(pid.cast_signed()).expect("a process");
        kill_process(process, Signal::KILL).unwrap();
        pid
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A daemon that ends with its test, and its adapter with it.
struct Daemon(Child);

impl Daemon {
    fn end(&mut self) {
        let pid = Pid::from_raw(self.0.id().cast_signed()).unwrap();
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.0.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

fn cellgate(args: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_cellgate"));
    program.args(args).stdin(Stdio::null());
    program
}

/// The objects of lines, up to the first of this name.
fn until(name: &str, lines: &mut impl Iterator<Item = String>) -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    for line in lines {
        objects.push(serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}")));
        if objects.last().is_some_and(|object| object["event"] == name) {
            return objects;
        }
    }
    panic!("no {name}: {objects:#?}");
}

#[test]
fn each_line_of_json_is_an_event_of_the_list() {
    let place = Place::new("json");
    let config = place.configuration();
    let mut program = cellgate(&["serve", "-c", &config, "--log", "json"]);
    let mut daemon = Daemon(program.stderr(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(daemon.0.stderr.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let mut all = until("ready", &mut lines);
    let listening = all.iter().find(|object| object["event"] == "listening");
    let socket = place.0.join("state/control.sock");
    assert_eq!(listening.unwrap()["path"], socket.to_str().unwrap());
    let pid = place.kill_adapter();
    let ready = all.iter().find(|object| object["event"] == "adapter_ready");
    assert_eq!(ready.unwrap()["process"], pid);
    all.extend(until("adapter_ready", &mut lines));
    let lost = all.iter().find(|object| object["event"] == "adapter_lost");
    assert_eq!(lost.unwrap()["level"], "ERROR");
    for object in &all {
        let kinds = cellgate_host::events::Kind::ALL.iter();
        let known = { kinds }.any(|kind| object["event"] == kind.name());
        assert!(known && object["message"].is_string(), "{object}");
    }
    daemon.end();
    assert_eq!(lines.next(), None, "all was told");
}

#[test]
fn whoever_does_not_start_says_so_in_the_same_form() {
    let place = Place::new("fails");
    fs::write(place.0.join("bad.toml"), "[server]\nsokcet = 1\n").unwrap();
    let bad = place.0.join("bad.toml");
    let bad = bad.to_str().unwrap();
    for (args, name) in [
        (&["serve", "--log=json", "-c", bad][..], "serve_failed"),
        (&["serve", "--log=json", "--as-adapter"], "adapter_failed"),
    ] {
        let out = cellgate(args).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{name}");
        let text = String::from_utf8(out.stderr).unwrap();
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&object["event"], &object["level"]),
            (&name.into(), &"ERROR".into())
        );
        assert_eq!(object["reason"], object["message"]);
    }
    let text = cellgate(&["serve", "-c", bad]).output().unwrap().stderr;
    assert!(String::from_utf8(text).unwrap().starts_with("cellgate: "));
}

/// The fields of an entry, in the form in which the journal takes them.
fn fields(mut octets: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    while let Some(end) = octets.iter().position(|octet| *octet == b'\n') {
        let line = String::from_utf8(octets[..end].to_vec()).unwrap();
        octets = &octets[end + 1..];
        if let Some((name, value)) = line.split_once('=') {
            fields.insert(name.to_owned(), value.to_owned());
            continue;
        }
        let (len, rest) = octets.split_first_chunk::<8>().expect("a length");
        let (value, rest) = rest.split_at(usize::try_from(u64::from_le_bytes(*len)).unwrap());
        fields.insert(line, String::from_utf8(value.to_vec()).unwrap());
        octets = &rest[1..];
    }
    fields
}

/// `cellgate serve` in a mount namespace whose /run is `run`.
fn in_place_of_run(run: &Path, config: &str) -> Command {
    let mut program = Command::new("unshare");
    let script = "mount --bind \"$0\" /run && exec \"$@\"";
    program.args(["--mount", "sh", "-c", script]).arg(run);
    program.args([env!("CARGO_BIN_EXE_cellgate"), "serve", "-c", config]);
    program.stdin(Stdio::null());
    program
}

#[test]
fn a_service_whose_standard_error_is_the_journal_tells_the_journal() {
    const NAME: &str = "journal";
    let place = Place::new(NAME);
    let run = place.0.join("run");
    let mut probe = Command::new("unshare");
    probe
        .args(["--mount", "mount", "--bind"])
        .arg(&run)
        .arg("/run");
    if !probe.output().is_ok_and(|out| out.status.success()) {
        return println!("skipped {NAME}: no mount namespace");
    }
    let journal = UnixDatagram::bind(run.join("systemd/journal/socket")).unwrap();
    journal.set_read_timeout(Some(PATIENCE)).unwrap();
    let stderr = File::create(place.0.join("stderr")).unwrap();
    let found = stderr.metadata().unwrap();
    let stream = format!("{}:{}", found.st_dev(), found.st_ino());
    let config = place.configuration();
    let mut program = in_place_of_run(&run, &config);
    program.env("JOURNAL_STREAM", &stream).stderr(stderr);
    let mut daemon = Daemon(program.spawn().unwrap());
    let next = |name: &str| loop {
        let mut octets = vec![0; 1 << 16];
        let len = journal.recv(&mut octets).expect("the journal hears of it");
        let entry = fields(&octets[..len]);
        if entry
            .get("CELLGATE_EVENT")
            .is_some_and(|event| event == name)
        {
            break entry;
        }
    };
    let first = next("adapter_ready");
    assert_eq!(
        (&*first["PRIORITY"], &*first["SYSLOG_IDENTIFIER"]),
        ("6", "cellgate")
    );
    assert_eq!(next("ready")["MESSAGE"], "ready");
    let pid = place.kill_adapter();
    assert_eq!(first["CELLGATE_PROCESS"], pid.to_string());
    let lost = next("adapter_lost");
    assert_eq!(
        (&*lost["PRIORITY"], &*lost["MESSAGE"]),
        ("3", "the adapter has gone")
    );
    next("adapter_ready");
    daemon.end();
    assert_eq!(fs::read_to_string(place.0.join("stderr")).unwrap(), "");

    // Of another stream it is text.
    let text = File::create(place.0.join("text")).unwrap();
    let mut program = in_place_of_run(&run, "/nowhere.toml");
    let ended = program
        .env("JOURNAL_STREAM", &stream)
        .stderr(text)
        .status()
        .unwrap();
    assert_eq!(ended.code(), Some(1));
    let text = fs::read_to_string(place.0.join("text")).unwrap();
    assert!(text.starts_with("cellgate: /nowhere.toml"), "{text}");
    println!("ran {NAME}");
}
