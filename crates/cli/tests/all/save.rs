//! `cellgate save`: a daemon started from what another one had shows the same.

use crate::daemon::Daemon;
use serde_json::Value;

const INTERFACES: [&str; 5] = [
    "loop type memory peer loop rate 100000",
    "half type memory peer nobody",
    "wan type udp local 127.77.0.1:6635 peer 127.0.0.1:9 label 100:101 peer-source-port 7 mtu 900 \
     mode n1-cw pack 8 timer 250us rate 50000",
    "plain type udp local 127.77.0.2:6635 peer 127.0.0.1:9 label 102:103",
    "one type udp local 127.77.0.3:6635 peer 127.0.0.1:9 label 104 mode vcc@0.40 \
     peer-source-port 7",
];

/// Of each section something that is not as it would be without. The daemon's own state directory
/// comes before.
const SETTINGS: &str = "\
socket_mode = \"0600\"

[adapter]
ports = 9
gap_max_ns = 40000000
idle = \"sleep\"

[admission]
best_effort_percent = 7
sdu_floor = 100

[quota]
connections = 300

[quota.0]
memory = 500000000

[quota.419990]

[[interface]]
name = \"lo\"

[interface.link.memory]
peer = \"lo\"
";

/// Every option of a connection, each in a state of its own.
const CONNECTIONS: [&str; 8] = [
    "loop.0.40 contract cbr,aal5:pcr=1000,max_sdu=100",
    "loop.0.41 contract vbr,aal5:pcr=1000,scr=500,mbs=9,max_sdu=100,excess=tag transmit-pdus 7",
    "loop.0.42 contract ubr,aal34:max_sdu=100,min_pcr=3 receive-pdus 9",
    "loop.0.43 contract ubr,aal5:max_sdu=100,pcr=64kbps notify polled",
    "loop.0.44 contract cbr,aal0:pcr=10 notify silent:5:3ms",
    "wan.0.40 contract cbr,aal5:tx:pcr=10,max_sdu=100,cdvt=3ms,rx:none notify every-cell",
    "wan.0.41 contract cbr,aal5:pcr=10,max_sdu=99,jitter=low notify first-and-last-cell \
     no-completions",
    "plain.0.40 contract cbr:pcr=10,max_sdu=98,police=buffer transmit-pdus 3 receive-pdus 4 \
     notify first-cell no-completions",
];

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// What `vc show` and `itf show` say, but for what differs from run to run: counters and numbers,
/// whether a peer was seen, and what a connection costs, which each daemon measures for itself.
fn shown(daemon: &Daemon) -> (Vec<Value>, Vec<Value>, Vec<String>) {
    let json = |object: &str, key: &str, passing: &[&str]| -> Vec<Value> {
        let text = daemon.ok(&[object, "show", "--json"]);
        let all: Value = serde_json::from_str(&text).expect("JSON");
        let all = all[key].as_array().expect("a list").iter().cloned();
        all.map(|mut one| {
            let fields = one.as_object_mut().expect("an object");
            for name in passing {
                assert!(fields.remove(*name).is_some(), "{name}");
            }
            one
        })
        .collect()
    };
    let connections = json(
        "vc",
        "connections",
        &["number", "stats", "cpu_reserved_ppm", "cpu_expected_ppm"],
    );
    let texts = connections.iter().map(|one| {
        let address = one["address"].as_str().expect("an address");
        let text = daemon.ok(&["vc", "show", address]);
        let lines = text.lines().filter(|line| !line.starts_with("adapter CPU"));
        // Columns are as wide as their widest entry.
        let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        words.collect::<Vec<_>>().join("\n")
    });
    let texts = texts.collect();
    let interfaces = json(
        "itf",
        "interfaces",
        &["dropped_cells", "port", "counts", "state"],
    );
    (interfaces, connections, texts)
}

#[test]
fn a_daemon_started_from_what_was_saved_shows_the_same() {
    let mut daemon = Daemon::start_told(SETTINGS);
    for interface in INTERFACES {
        daemon.ok(&[&["itf", "add"], &words(interface)[..]].concat());
    }
    for connection in CONNECTIONS {
        daemon.ok(&[&["vc", "add"], &words(connection)[..]].concat());
    }
    let before = shown(&daemon);
    let saved = daemon.ok(&["save"]);
    for line in SETTINGS.lines().filter(|line| !line.contains("interface")) {
        assert!(saved.lines().any(|told| told == line), "{line}: {saved}");
    }
    let socket = format!("socket = {:?}\n", daemon.socket());
    assert!(saved.contains(&socket), "{saved}");
    assert_eq!(daemon.ok(&["config", "show"]), saved);
    // A daemon serves half a memory link; who checks a file hears of it.
    let whole = saved.replace("\"nobody\"", "\"half\"");
    assert_ne!(whole, saved);
    daemon.feed(&["config", "check", "-"], whole.as_bytes());
    let file = daemon.path("saved.toml");
    let file = file.to_str().expect("a name");
    assert_eq!(daemon.ok(&["save", file]), "");
    assert_eq!(std::fs::read_to_string(file).expect("a file"), saved);
    assert_eq!(before.0.len(), 1 + INTERFACES.len());
    assert_eq!(before.1.len(), CONNECTIONS.len());
    let link = before.0.iter().find(|one| one["spec"]["name"] == "wan");
    let link = &link.expect("it was added")["spec"]["link"]["udp"];
    assert_eq!(
        (link["pack"].as_u64(), link["timer_ns"].as_u64()),
        (Some(8), Some(250_000))
    );
    daemon.begin_again(&saved);
    assert_eq!(shown(&daemon), before, "{saved}");
    assert_eq!(daemon.ok(&["save"]), saved);
    let listed = daemon.ok(&["itf", "show"]);
    for words in [
        "mtu 900 mode n1-cw pack 8 timer 250us",
        "peer-source-port 7",
    ] {
        assert!(listed.contains(words), "{listed}");
    }
}

#[test]
fn what_cannot_be_saved_whole_leaves_what_was_there() {
    let daemon = Daemon::start_told("");
    let directory = daemon.path("saved");
    std::fs::create_dir(&directory).unwrap();
    let file = directory.join("config.toml");
    std::fs::write(&file, "before").unwrap();
    // As on a full disk: no file may have an octet.
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$@\"";
    let output = std::process::Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_cellgate"), "save"])
        .arg(&file)
        .env("CELLGATE_SOCKET", daemon.socket())
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert_eq!(std::fs::read(&file).unwrap(), b"before");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
}
