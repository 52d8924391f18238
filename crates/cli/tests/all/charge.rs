//! `charge`: slots by CLP and unoccupied ones, kept across a daemon's death; what they cost; and a
//! reason for each cell in which two ends differ.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, octets};
use serde_json::Value;

const SENDS: &str = "cbr,aal5:tx:pcr=20000cps,max_sdu=400,rx:none";
const CELL_S: u64 = 20_000;
const RECEIVES: &str = "ubr,aal5:max_sdu=400";

fn daemon() -> Daemon {
    let daemon = Daemon::start_told(
        "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
         [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n",
    );
    daemon.ok(&["vc", "add", "a.0.60", "contract", SENDS]);
    daemon.ok(&["vc", "add", "b.0.60", "contract", RECEIVES]);
    daemon
}

fn crosses(daemon: &Daemon, len: usize) {
    let receiver = daemon.begin(
        &[
            "recv",
            "--vc",
            "b.0.60",
            "--take",
            "--timeout",
            "3",
            "-o",
            "/dev/null",
        ],
        "receiving on b.0.60",
    );
    daemon.feed(&["send", "--vc", "a.0.60", "--take"], &octets(len));
    receiver.end();
}

/// What `charge` tells of one connection.
fn told(daemon: &Daemon, address: &str) -> Value {
    let text = daemon.ok(&["charge", address, "--json"]);
    serde_json::from_str(&text).unwrap()
}

fn slots(told: &Value, way: &str) -> [u64; 4] {
    counted(&told["connections"][0]["slots"][way])
}

fn counted(slots: &Value) -> [u64; 4] {
    ["reserved", "clp0", "clp1", "unoccupied"].map(|name| slots[name].as_u64().unwrap())
}

/// Ends a connection: the slots that a monitor hears of then.
fn last_account(daemon: &Daemon, address: &str) -> Value {
    let mut monitor = daemon.command(&["vc", "monitor", "--json"]);
    let mut monitor = monitor.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(monitor.stdout.take().unwrap()).lines();
    let (tell, heard) = mpsc::channel();
    std::thread::spawn(move || {
        lines
            .map_while(Result::ok)
            .try_for_each(|line| tell.send(line))
    });
    // It hears nothing of what was before it listens.
    while heard.try_recv().is_err() {
        daemon.ok(&["vc", "add", "a.0.61", "contract", "ubr,aal5"]);
        daemon.ok(&["vc", "del", "a.0.61"]);
    }
    daemon.ok(&["vc", "del", address]);
    let last = std::iter::from_fn(|| heard.recv_timeout(Duration::from_secs(60)).ok())
        .map(|line| serde_json::from_str::<Value>(&line).unwrap()["connection"].clone())
        .find(|told| told["change"] == "removed" && told["info"]["address"] == address);
    monitor.kill().unwrap();
    monitor.wait().unwrap();
    last.expect("the monitor hears of it")["info"]["slots"].clone()
}

#[test]
fn each_cell_that_a_line_took_has_a_reason() {
    let daemon = daemon();
    let line = "itf set b line ber 1e-5 loss 0.5% duplicate 0.2% seed 7";
    daemon.ok(&line.split(' ').collect::<Vec<_>>());
    crosses(&daemon, 1_600_000);
    let ends = ["a.0.60", "b.0.60"].map(|address| {
        let told = told(&daemon, address);
        let path = daemon.path(&format!("{}.json", &address[..1]));
        fs::write(&path, told.to_string()).unwrap();
        (told, path)
    });
    let [(a, a_path), (b, b_path)] = &ends;
    let [_, sent, _, _] = slots(a, "transmit");
    // 4,000 PDUs of 9 cells.
    assert_eq!(sent, 36_000);
    let line = &b["interfaces"][0]["line"];
    for reason in ["lost", "duplicated", "payload_errors"] {
        assert!(line[reason].as_u64().unwrap() > 0, "{reason}: {line}");
    }
    let paths = [a_path, b_path].map(|path| path.to_str().unwrap());
    let compare = ["charge", "--compare", paths[0], paths[1]];
    let ways = daemon.ok(&[&compare[..], &["--json"]].concat());
    let ways: Value = serde_json::from_str(&ways).unwrap();
    let way = &ways[0];
    assert_eq!((&way["from"], &way["to"]), (&"a".into(), &"b".into()));
    assert_eq!(way["unexplained"], 0, "{way}");
    let vc = &way["vcs"][0];
    let differences = vc["differences"].as_array().unwrap();
    let lost: u64 = differences
        .iter()
        .map(|one| one["cells"].as_u64().unwrap())
        .sum();
    let received = b["connections"][0]["cells_received"].as_u64().unwrap();
    assert_eq!(vc["delivered"].as_u64().unwrap() + lost, received);
    assert!(
        differences.iter().any(|one| one["reason"] == "crc_error"),
        "{way}"
    );
    let text = daemon.ok(&compare);
    assert!(text.contains("every cell is accounted for"), "{text}");
    // An end that has sent more than the other can have heard of.
    let forged = fs::read_to_string(a_path)
        .unwrap()
        .replace("36000", "36001");
    fs::write(a_path, forged).unwrap();
    let output = daemon.run(&compare);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("between): 1"), "{text}");
}

#[test]
fn slots_go_on_across_the_death_of_a_daemon_and_are_told_as_a_connection_ends() {
    let before = Instant::now();
    let mut daemon = daemon();
    let added = Instant::now();
    crosses(&daemon, 400_000);
    std::thread::sleep(Duration::from_secs(1));
    let first = slots(&told(&daemon, "a.0.60"), "transmit");
    daemon.kill();
    daemon.succeed();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !daemon.run(&["vc", "list"]).status.success() {
        assert!(Instant::now() < deadline, "no daemon follows");
        std::thread::sleep(Duration::from_millis(50));
    }
    // At most so long ago it was asked: a look of the daemon lies behind the answer.
    let asked = added.elapsed().saturating_sub(Duration::from_secs(2));
    let second = slots(&told(&daemon, "a.0.60"), "transmit");
    for [reserved, clp0, clp1, unoccupied] in [first, second] {
        assert_eq!((clp0, clp1), (9_000, 0));
        assert_eq!(clp0 + clp1 + unoccupied, reserved, "CBR has no others");
    }
    let slots_in = |time: Duration| (time.as_nanos() * u128::from(CELL_S) / 1_000_000_000) as u64;
    assert!(second[0] > first[0], "{second:?} after {first:?}");
    assert!(second[0] >= slots_in(asked), "{second:?} after {asked:?}");
    assert!(second[0] <= slots_in(before.elapsed()) + 1, "{second:?}");
    assert_eq!(slots(&told(&daemon, "b.0.60"), "receive"), [0, 9_000, 0, 0]);
    let last = counted(&last_account(&daemon, "a.0.60")["transmit"]);
    assert!(last[0] > second[0], "{last:?} after {second:?}");
    assert_eq!((last[1], last[2], last[1] + last[3]), (9_000, 0, last[0]));
}

#[test]
fn a_tariff_is_applied_and_a_wrong_one_is_refused() {
    let daemon = daemon();
    crosses(&daemon, 40_000);
    let path = daemon.path("tariff.toml");
    let tariff = "currency = \"EUR\"\nset_up = \"0.05\"\ncell_clp0 = \"0.001\"\n";
    fs::write(&path, tariff).unwrap();
    let path = path.to_str().unwrap();
    let text = daemon.ok(&["charge", "b.0.60", "--tariff", path]);
    assert!(
        text.contains("b.0.60: 0.95 EUR, of which 0.05 for its set-up"),
        "{text}"
    );
    for (wrong, word) in [
        ("cell_clp0 = \"-1\"", "no amount"),
        ("cell_clp0 = 0.1", "expected"),
        ("prise = \"1\"", "unknown field"),
    ] {
        fs::write(path, wrong).unwrap();
        let text = daemon.fails(2, &["charge", "--tariff", path]);
        assert!(text.contains(word), "{wrong}: {text}");
    }
    let text = daemon.fails(1, &["charge", "a.0.99"]);
    assert!(text.contains("there is no connection a.0.99"), "{text}");
    let text = daemon.fails(2, &["charge", "--compare", path, path]);
    assert!(
        text.contains("no answer of `cellgate charge --json`"),
        "{text}"
    );
}
