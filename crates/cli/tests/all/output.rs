//! What commands of a daemon leave behind: on standard output, after an interrupt, as an exit code.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::daemon;
use crate::daemon::{Daemon, stdout};
use rustix::process::Signal;
use serde_json::Value;

/// What `a` sends and `b` receives under it. An address receives on one of an adapter's interfaces.
const CONTRACT: &str = "cbr,aal5:pcr=80Mbps,max_sdu=8192";

fn daemon() -> Daemon {
    Daemon::start_told(
        "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
         [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n",
    )
}

#[test]
fn a_dash_is_standard_output_and_makes_no_file() {
    let daemon = daemon();
    let here = daemon.path("here");
    fs::create_dir(&here).unwrap();
    let saved = daemon.command(&["save", "-"]).current_dir(&here).output();
    let saved = stdout(&saved.unwrap());
    assert_eq!(saved, daemon.ok(&["save"]));
    let receive = ["recv", "--vc", "b.0.60", "-o", "-", "--count", "1"];
    let mut receiver = daemon.command(&receive);
    let receiver = receiver.current_dir(&here).stdout(Stdio::piped());
    let mut receiver = receiver.stderr(Stdio::piped()).spawn().unwrap();
    let said = daemon::await_line(receiver.stderr.take().unwrap(), "receiving on");
    daemon.feed(&["send", "--vc", "a.0.60", "-"], b"hello");
    assert_eq!(receiver.wait_with_output().unwrap().stdout, b"hello");
    said.join().unwrap();
    assert_eq!(fs::read_dir(&here).unwrap().count(), 0);
}

#[test]
fn fewer_than_were_asked_for_is_a_failure() {
    let daemon = daemon();
    let asked = ["recv", "--vc", "b.0.60", "--count", "3", "--timeout", "0.1"];
    let said = daemon.fails(1, &asked);
    assert!(said.contains("3 of the SDUs that were asked for"), "{said}");
}

/// A sender of best effort, a receiver that is promised a PDU in ten milliseconds.
#[test]
fn what_is_thrown_away_is_told_and_strict_fails() {
    let daemon = daemon();
    let file = daemon.path("file");
    fs::write(&file, [7; 100_000]).unwrap();
    let copy = daemon.path("copy");
    let mut words = vec!["recv", "--vc", "b.0.60", "--timeout", "3", "--json"];
    words.extend(["--strict", "--contract", "cbr,aal5:pcr=2100,max_sdu=1000"]);
    words.extend(["-o", copy.to_str().unwrap()]);
    let mut receiver = daemon.command(&words);
    let receiver = receiver.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut receiver = receiver.spawn().unwrap();
    let said = daemon::await_line(receiver.stderr.take().unwrap(), "receiving on");
    let mut send = vec!["send", "--vc", "a.0.60", "--block", "1000"];
    send.extend([
        "--contract",
        "ubr,aal5:max_sdu=1000",
        file.to_str().unwrap(),
    ]);
    daemon.ok(&send);
    let ended = receiver.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let lost = number(&told["discarded"]["non_conforming"]) + number(&told["dismissed"]);
    assert!(lost > 0, "{told}");
    assert_eq!(number(&told["sdus"]) + lost, 100, "{told}");
    let said = said.join().unwrap();
    assert!(
        said.contains(&format!("{lost} PDUs were thrown away")),
        "{said}"
    );
    assert_eq!(ended.status.code(), Some(1));
}

/// A sender that best effort lets send more than its receiver's contract has.
#[test]
fn perf_tells_why_pdus_were_lost() {
    let daemon = daemon();
    let receives = "cbr,aal5:pcr=2100,max_sdu=8192";
    let serve = ["perf", "-s", "-1", "--vc", "b.0.40", "--contract", receives];
    let server = daemon.begin(&serve, "serving on b.0.40");
    let sends = "ubr,aal5:max_sdu=8192";
    let mut words = vec!["perf", "-c", "a.0.40", "--contract", sends, "-t", "1"];
    words.extend(["-b", "10M", "-l", "1000", "--json"]);
    let ended = daemon.command(&words).output().unwrap();
    let told: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let thrown = &told["atm"]["thrown_away"];
    let lost = number(&thrown["discarded"]["non_conforming"]) + number(&thrown["dismissed"]);
    assert!(lost > 0, "{told}");
    // What asks for the report can be lost, too.
    assert!(lost >= number(&told["atm"]["pdus_lost"]), "{told}");
    assert_eq!(ended.status.code(), Some(1), "{told}");
    let said = String::from_utf8(server.stdout()).unwrap();
    assert!(said.contains("PDUs were thrown away: "), "{said}");
}

#[test]
fn who_interrupts_sees_what_was_measured_until_then() {
    let daemon = daemon();
    let ends = |words: &[&str], wait: &str, has_begun: &dyn Fn() -> bool| {
        let mut child = daemon.command(words);
        let child = child.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let said = match wait {
            "" => None,
            word => Some(daemon::await_line(child.stderr.take().unwrap(), word)),
        };
        let begun = Instant::now();
        while !has_begun() {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{words:?} does nothing"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        said.map(|said| said.join().unwrap());
        (
            output.status.code(),
            serde_json::from_slice::<Value>(&output.stdout).unwrap(),
        )
    };
    let null = ["recv", "--vc", "b.0.90", "-o", "/dev/null", "--json"];
    for _ in 0..10 {
        let (code, told) = ends(&null, "receiving on", &|| true);
        assert_eq!((code, &told["sdus"]), (Some(0), &Value::from(0)));
    }
    let serve = ["perf", "-s", "-1", "--vc", "b.0.40", "--contract", CONTRACT];
    let server = daemon.begin(&serve, "serving on b.0.40");
    let words = [
        "perf", "-c", "a.0.40", "-t", "60", "-b", "10M", "-l", "1000", "--json",
    ];
    // The first ones ask whether the server is ready.
    let sends = || {
        let shown = daemon.ok(&["vc", "show", "--json"]);
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        let mut all = shown["connections"].as_array().into_iter().flatten();
        let sent = |one: &Value| one["stats"]["pdus_transmitted"].as_u64() > Some(100);
        all.any(|one| one["address"] == "a.0.40" && sent(one))
    };
    let (_, told) = ends(
        &[&words[..], &["--contract", CONTRACT]].concat(),
        "",
        &sends,
    );
    assert!(
        told["end"]["sum_sent"]["packets"].as_u64() > Some(0),
        "{told}"
    );
    server.stdout();
}

#[test]
fn who_interrupts_a_client_that_waits_for_its_server_is_told() {
    let daemon = daemon();
    let mut child = daemon.command(&["perf", "-c", "a.0.45", "--contract", CONTRACT]);
    let child = child.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    let begun = Instant::now();
    while !daemon.ok(&["vc", "show", "--json"]).contains("a.0.45") {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("interrupted while"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}

#[test]
fn a_pipe_gets_no_escape_sequences() {
    let daemon = daemon();
    let shown = daemon.ok(&["top", "-n", "2", "-i", "0.05"]);
    assert!(
        shown.contains("connections over") && !shown.contains('\u{1b}'),
        "{shown:?}"
    );
}

/// A reader that does not read for a while goes on with what is new, and hears what it has missed.
#[test]
fn a_stream_skips_what_nobody_has_read_in_time() {
    let daemon = daemon();
    let words = [
        "recv",
        "--vc",
        "b.0.60",
        "--stream",
        "--hold",
        "20ms",
        "--timeout",
        "2",
    ];
    let strict = ["--strict", "--contract", CONTRACT];
    let mut receiver = daemon.command(&[&words[..], &strict].concat());
    let receiver = receiver.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut receiver = receiver.spawn().unwrap();
    let said = daemon::await_line(receiver.stderr.take().unwrap(), "receiving on");
    // Many times what a pipe takes.
    let sdus = 512;
    let sent: Vec<u8> = (0..sdus)
        .flat_map(|n: u32| n.to_be_bytes().repeat(2_048))
        .collect();
    daemon.feed(&["send", "--vc", "a.0.60", "--contract", CONTRACT], &sent);
    std::thread::sleep(Duration::from_millis(200));
    let output = receiver.wait_with_output().unwrap();
    let got: Vec<_> = output
        .stdout
        .chunks(8_192)
        .map(|sdu| sdu[..4].to_vec())
        .collect();
    assert!(
        got.is_sorted() && got.len() < sdus as usize,
        "{}",
        got.len()
    );
    assert_eq!(output.status.code(), Some(1));
    let told = said.join().unwrap();
    let skipped = sdus as usize - got.len();
    assert!(
        told.contains(&format!("{skipped} SDUs were skipped")),
        "{skipped}: {told}"
    );
}

#[test]
fn a_source_in_real_time_drops_what_finds_no_room() {
    let daemon = daemon();
    let begun = Instant::now();
    let words = [
        "send",
        "--vc",
        "a.0.60",
        "--contract",
        "cbr,aal5:pcr=100,max_sdu=40",
    ];
    let sent = daemon.fed(
        &[&words[..], &["--stream", "--json"]].concat(),
        &[7; 40_000],
    );
    let told: Value = serde_json::from_slice(&sent.stdout).unwrap();
    let [sdus, dropped] = ["sdus", "dropped"].map(|key| told[key].as_u64().unwrap());
    assert!(sdus > 0 && dropped > 0 && sdus + dropped == 1_000, "{told}");
    // With flow control a thousand cells take ten seconds.
    assert!(begun.elapsed() < Duration::from_secs(9));
}
