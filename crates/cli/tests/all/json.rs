//! Every verb that talks to a daemon with `--json`: each line of its standard output is an object.

use std::process::Output;
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, octets, stderr, stdout};
use serde_json::Value;

const CONTRACT: &str = "cbr,aal5:pcr=8Mbps,max_sdu=1000";
/// What `config show` and `save` tell.
const SECTIONS: &[&str] = &[
    "server",
    "adapter",
    "admission",
    "quota",
    "interface",
    "connection",
];

/// What is called in this order, its exit code, and keys of each object that it prints.
const VERBS: &[(i32, &str, &[&str])] = &[
    (
        0,
        "vc add a.0.40 contract ubr,aal5:max_sdu=9",
        &["address", "contract"],
    ),
    (
        1,
        "vc add a.0.40 contract ubr,aal5:max_sdu=9",
        &["error", "refused"],
    ),
    (2, "vc add a.0.41", &["error"]),
    (2, "vc add a.0.41 contract ubr,aal6", &["error", "refused"]),
    (
        3,
        "vc add a.0.41 contract cbr,aal5:pcr=90000000,max_sdu=9180",
        &["error", "refused"],
    ),
    (
        0,
        "vc add a.0.41 contract cbr,aal5:pcr=90,max_sdu=9180 --dry-run",
        &["address", "contract", "demand", "bound", "waits"],
    ),
    (
        3,
        "vc add a.0.41 contract cbr,aal5:pcr=90000000,max_sdu=9180 --dry-run",
        &["error", "refused"],
    ),
    (
        0,
        "vc set a.0.40 contract ubr,aal5:max_sdu=8",
        &["address", "contract"],
    ),
    (
        1,
        "vc set a.0.41 contract ubr,aal5:max_sdu=8",
        &["error", "refused"],
    ),
    (0, "vc show", &["connections"]),
    (0, "vc show a.0.40", &["connections"]),
    (1, "vc show a.0.41", &["error"]),
    (0, "vc del a.0.40", &["address"]),
    (1, "vc del a.0.40", &["error", "refused"]),
    (
        0,
        "itf add loop type memory peer loop",
        &["name", "link", "line_rate"],
    ),
    (2, "itf add loop type tin", &["error"]),
    (0, "itf show", &["interfaces"]),
    (1, "itf show none", &["error"]),
    (
        0,
        "vc add loop.0.40 contract ubr,aal5",
        &["address", "contract"],
    ),
    (
        0,
        "ping loop.0.40 -c 2 -i 0.01 -W 10",
        &["address", "cells_sent", "round_trip_ns"],
    ),
    (1, "ping loop.0.41 -c 1", &["error", "refused"]),
    (0, "top --once -i 0.05", &["interval_ns", "connections"]),
    (0, "top -n 3 -i 0.05", &["interval_ns", "connections"]),
    (
        0,
        "stats",
        &[
            "server",
            "adapter",
            "resources",
            "interfaces",
            "connections",
        ],
    ),
    (0, "vc del loop.0.40", &["address"]),
    (0, "itf del loop", &["name"]),
    (1, "itf del loop", &["error", "refused"]),
    (0, "tun show", &["devices"]),
    (1, "tun show cg-none", &["error"]),
    (1, "tun del cg-none", &["error", "refused"]),
    (2, "tun add cg-none vc a.0.40 encap none", &["error"]),
    (0, "config show", SECTIONS),
    (0, "config show FILE", SECTIONS),
    (1, "config show /nonexistent", &["error"]),
    (0, "config check FILE", &["file"]),
    (1, "config check /nonexistent", &["error"]),
    (0, "save", SECTIONS),
    (0, "save COPY", &["file"]),
    (0, "config check COPY", &["file"]),
    (1, "save /nonexistent/file", &["error"]),
    (
        0,
        "send --vc a.0.50 --block 7 FILE",
        &["address", "contract", "sdus", "octets"],
    ),
    (2, "send --vc a.0.50 --block 0 FILE", &["error"]),
    (2, "recv --vc b.0.50", &["error"]),
    (
        0,
        "recv --vc b.0.50 --timeout 0.01 -o COPY",
        &["address", "file", "sdus", "verified", "discarded"],
    ),
    (
        1,
        "recv --vc b.0.50 --verify --timeout 0.01 -o COPY",
        &["error"],
    ),
    (
        0,
        "relay b.0.50 a.0.51 cbr,aal5:pcr=2000,max_sdu=1000 --timeout 0.01",
        &[
            "from",
            "to",
            "pdus",
            "octets",
            "copies",
            "unsendable",
            "discarded",
            "dismissed",
        ],
    ),
    (1, "relay b.0.50 b.0.50", &["error"]),
    (2, "perf -c a.0.50 -l 5", &["error"]),
];

fn daemon() -> Daemon {
    Daemon::start_told(
        "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
         [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n",
    )
}

/// Each line of a text, an object.
fn objects(text: &str) -> Vec<Value> {
    let object = |line: &str| match serde_json::from_str(line) {
        Ok(Value::Object(object)) => Value::Object(object),
        other => panic!("{other:?}: {line} of {text}"),
    };
    text.lines().map(object).collect()
}

/// The only line.
fn object(text: &str) -> Value {
    let mut all = objects(text);
    assert_eq!(all.len(), 1, "{text}");
    all.remove(0)
}

#[test]
fn each_line_of_each_verb_is_an_object() {
    let daemon = daemon();
    let names = ["cellgate.toml", "copy"].map(|name| daemon.path(name));
    let [file, copy] = names.each_ref().map(|path| path.to_str().unwrap());
    let tell = |exit: i32, words: &str, keys: &[&str]| {
        let words: Vec<&str> = words
            .split(' ')
            .map(|word| match word {
                "FILE" => file,
                "COPY" => copy,
                word => word,
            })
            .collect();
        for option in ["--json", "-J"] {
            // What was added or deleted cannot be once more.
            if option == "-J" && !["show", "stats", "check"].iter().any(|w| words.contains(w)) {
                continue;
            }
            let output: Output = daemon.run(&[&words[..], &[option]].concat());
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(exit), "{words:?}: {said}");
            let told = objects(&stdout(&output));
            let wanted = if words.contains(&"-n") { 3 } else { 1 };
            assert_eq!(told.len(), wanted, "{words:?}");
            for object in told {
                assert_eq!(
                    object.get("error").is_some(),
                    exit != 0,
                    "{words:?}: {object}"
                );
                for key in keys {
                    assert!(object.get(key).is_some(), "{words:?}: no {key}: {object}");
                }
            }
        }
        let verbs = words
            .iter()
            .take_while(|word| word.bytes().all(|c| c.is_ascii_lowercase()));
        let depth = if ["vc", "itf", "tun", "config"].contains(&words[0]) {
            2
        } else {
            1
        };
        let verbs: Vec<&str> = verbs.take(depth).copied().collect();
        let help = daemon.ok(&[&verbs[..], &["--help"]].concat());
        assert!(help.contains("-J, --json"), "{verbs:?}: {help}");
    };
    std::thread::scope(|scope| {
        // It asks for a while, at an address that no other has.
        scope.spawn(|| tell(1, "perf -c a.0.60 -t 1", &["error"]));
        for (exit, words, keys) in VERBS {
            tell(*exit, words, keys);
        }
    });
    let gone = daemon.run(&["stats", "--json", "--socket", "/nonexistent"]);
    assert_eq!(gone.status.code(), Some(4));
    assert!(
        object(&stdout(&gone))["error"]
            .as_str()
            .unwrap()
            .contains("cellgate serve")
    );
}

#[test]
fn what_is_sent_and_received_is_told() {
    let daemon = daemon();
    let (file, copy) = (daemon.path("file"), daemon.path("copy"));
    std::fs::write(&file, octets(25_000)).unwrap();
    let vc = |address| {
        [
            "--vc",
            address,
            "--contract",
            CONTRACT,
            "--verify",
            "--json",
        ]
    };
    let copy = ["-o", copy.to_str().unwrap()];
    let receiver = daemon.begin(&[&["recv"], &vc("b.0.40")[..], &copy].concat(), "receiving");
    let sent = daemon.ok(&[&["send"], &vc("a.0.40")[..], &[file.to_str().unwrap()]].concat());
    let sent = object(&sent);
    let received = object(&String::from_utf8(receiver.stdout()).unwrap());
    assert_eq!(
        (&sent["address"], &received["address"]),
        (&"a.0.40".into(), &"b.0.40".into())
    );
    assert_eq!(received["verified"], true);
    for told in [sent, received] {
        // 1,000 octets less the header of a verified transfer.
        assert_eq!(
            (&told["octets"], &told["sdus"]),
            (&25_000.into(), &26.into())
        );
    }
}

#[test]
fn discards_are_told_by_reason() {
    let daemon = daemon();
    for address in ["a.0.60", "b.0.60"] {
        daemon.ok(&["vc", "add", address, "contract", "ubr,aal5:max_sdu=40"]);
    }
    let counts = |reason: &str| {
        let shown = object(&daemon.ok(&["vc", "show", "b.0.60", "-J"]));
        let stats = &shown["connections"][0]["stats"];
        ["cells", "pdus"].map(|what| stats[format!("{what}_discarded")][reason].as_u64())
    };
    assert_eq!(counts("oversized"), [None, None]);
    daemon.ok(&["vc", "del", "a.0.60"]);
    let send = [
        "send",
        "--vc",
        "a.0.60",
        "--contract",
        "ubr,aal5:max_sdu=1000",
    ];
    daemon.feed(&[&send[..], &["-"]].concat(), &octets(1_000));
    let deadline = Instant::now() + Duration::from_secs(60);
    while counts("oversized")[1] != Some(1) {
        assert!(Instant::now() < deadline, "{:?}", counts("oversized"));
    }
    // Those beyond the PDU's first two cells, 1,008 octets with the trailer being 21.
    assert!(counts("oversized")[0].is_some_and(|cells| cells > 1));
}

#[test]
fn both_ends_of_perf_tell_a_run_each() {
    let daemon = daemon();
    // Whether a guarantee was kept in so short a time depends on what else the machine does.
    let contract = ["--contract", "ubr,aal5:max_sdu=1000"];
    let vc = |words: [&'static str; 3]| [&["perf"], &words[..], &contract].concat();
    let serve = [&vc(["-s", "--vc", "b.0.40"])[..], &["-1", "--json"]].concat();
    let server = daemon.begin(&serve, "serving on b.0.40");
    let client = [&vc(["-c", "a.0.40", "-J"])[..], &["-t", "0.2"]].concat();
    let output = daemon.run(&client);
    let sent = object(&stdout(&output));
    let received = object(&String::from_utf8(server.stdout()).unwrap());
    // A reader without a CPU loses best effort, and the sender's exit code says so.
    let is_whole = sent["atm"]["pdus_received"] == sent["atm"]["pdus_sent"];
    assert_eq!(output.status.success(), is_whole, "{sent}");
    assert!(received["pdus"].as_u64().unwrap() > 0, "{received}");
    assert_eq!(sent["atm"]["pdus_received"], received["pdus"]);
}
