//! Each line of the document on probes, typed at a daemon that works, tells of it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::daemon::Daemon;
use crate::kills::adapter_pid;

/// A machine need not do what these tell of.
const NOT_SURE: [&str; 1] = ["step"];

/// A probe, and bpftrace at it.
struct Tracer {
    probe: String,
    child: Child,
    printed: BufReader<std::process::ChildStdout>,
}

impl Tracer {
    /// By a line of the document, at the command under test; none: there is no bpftrace.
    fn begin(line: &str) -> Option<Self> {
        let program = line.strip_prefix("bpftrace -e '")?.strip_suffix('\'')?;
        let program = program.replace("/usr/bin/cellgate", env!("CARGO_BIN_EXE_cellgate"));
        let (place, _) = program.split_once(" {")?;
        let probe = place.rsplit(':').next()?.to_owned();
        let mut command = Command::new("bpftrace");
        let command = command.args(["-e", &program]).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().ok()?;
        let mut printed = BufReader::new(child.stdout.take()?);
        let mut first = String::new();
        printed.read_line(&mut first).expect("a pipe is read");
        assert!(first.starts_with("Attaching"), "{probe}: {first}");
        Some(Self {
            probe,
            child,
            printed,
        })
    }

    /// The lines of the tracer until now.
    fn end(mut self) -> String {
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let mut told = String::new();
        self.printed.read_to_string(&mut told).expect("text");
        self.child.wait().expect("it ends");
        told
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // One that has ended is not killed again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn each_line_of_the_document_tells_of_a_daemon_that_works() {
    if !geteuid().is_root() {
        return println!("skipped probes_bpftrace: it takes root");
    }
    let daemon = Daemon::start("");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/probes.md");
    let text = fs::read_to_string(path).expect("a document");
    let lines = text.lines().filter(|line| line.starts_with("bpftrace"));
    let tracers: Option<Vec<_>> = lines.map(Tracer::begin).collect();
    let Some(tracers) = tracers else {
        return println!("skipped probes_bpftrace: there is no bpftrace");
    };
    assert_eq!(tracers.len(), 7);
    // Less is received than comes.
    let few = "cbr,aal5:pcr=10,max_sdu=1500";
    daemon.ok(&["vc", "add", "b.0.60", "contract", few]);
    for _ in 0..20 {
        daemon.feed(&["send", "--vc", "a.0.60", "-"], &[0x55; 1_000]);
    }
    let pid = i32::try_from(adapter_pid(&daemon)).expect("a process");
    let pid = Pid::from_raw(pid).expect("a process");
    kill_process(pid, Signal::KILL).expect("it runs");
    // The daemon has another adapter when it answers.
    daemon.ok(&["vc", "show"]);
    std::thread::sleep(std::time::Duration::from_secs(3));
    for tracer in tracers {
        let probe = tracer.probe.clone();
        let told = tracer.end();
        println!("{probe}: {}", told.trim());
        let is_told = !told.trim().is_empty();
        assert!(is_told || NOT_SURE.contains(&&*probe), "{probe}");
    }
    println!("ran probes_bpftrace");
}
