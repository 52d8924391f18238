//! `relay`: from `a.0.60`, where `b.0.60` arrives, to `a.0.70`, which arrives at `b.0.70`.

use std::fs;

use crate::daemon::{Daemon, Running, octets};
use serde_json::Value;

const SENDS: &str = "cbr,aal5:pcr=20Mbps,max_sdu=8192";
const RELAYS: &str = "cbr,aal5:pcr=40Mbps,max_sdu=8192";
const RECEIVES: &str = "ubr,aal5:max_sdu=8192";
const RELAY: [&str; 4] = ["relay", "a.0.60", "a.0.70", RELAYS];

fn daemon() -> Daemon {
    Daemon::start_told(
        "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
         [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n",
    )
}

fn receiver(daemon: &Daemon, copy: &str) -> Running {
    let copy = daemon.path(copy);
    let recv = ["recv", "--vc", "b.0.70", "--verify", "--contract", RECEIVES];
    let recv = [
        &recv[..],
        &["--timeout", "20", "-o", copy.to_str().unwrap()],
    ]
    .concat();
    daemon.begin(&recv, "receiving on b.0.70")
}

const SEND: [&str; 6] = ["send", "--vc", "b.0.60", "--verify", "--contract", SENDS];

/// Sends octets from one end to the other; they arrive as they were.
fn crosses(daemon: &Daemon, len: usize) {
    let receiver = receiver(daemon, "copy");
    let sent = octets(len);
    daemon.feed(&SEND, &sent);
    receiver.stdout();
    assert!(
        fs::read(daemon.path("copy")).unwrap() == sent,
        "other octets"
    );
}

#[test]
fn what_is_relayed_arrives_and_the_end_tells_of_it() {
    let daemon = daemon();
    let relay = daemon.begin(
        &[&RELAY[..], &["--json", "--strict"]].concat(),
        "relaying from",
    );
    crosses(&daemon, 2_000_000);
    let told: Value = serde_json::from_slice(&relay.interrupt()).expect("JSON");
    let number = |name: &str| told[name].as_u64().unwrap();
    assert!(number("pdus") >= 2_000_000 / 8_192, "{told}");
    assert!(number("octets") > 2_000_000, "{told}");
    assert!(
        (1..=number("pdus") / 4).contains(&number("copies")),
        "{told}"
    );
    assert_eq!(
        (number("unsendable"), number("dismissed")),
        (0, 0),
        "{told}"
    );
    assert_eq!(
        (&told["from"], &told["to"]),
        (&"a.0.60".into(), &"a.0.70".into())
    );
}

#[test]
fn a_relay_that_is_killed_leaves_nothing_in_the_way_of_the_next() {
    let daemon = daemon();
    for _ in 0..3 {
        let relay = daemon.begin(&RELAY, "relaying from");
        crosses(&daemon, 50_000);
        relay.kill();
    }
    let relay = daemon.begin(&RELAY, "relaying from");
    crosses(&daemon, 50_000);
    relay.interrupt();
}

#[test]
fn a_relay_outlives_both_its_neighbours_and_the_daemon() {
    let mut daemon = daemon();
    let relay = daemon.begin(&RELAY, "relaying from");
    let reader = receiver(&daemon, "never");
    let long = daemon.path("long");
    fs::write(&long, octets(20_000_000)).unwrap();
    let writer = [&SEND[..], &[long.to_str().unwrap(), "--grow"]].concat();
    let mut writer = daemon.command(&writer).spawn().expect("it starts");
    std::thread::sleep(std::time::Duration::from_millis(300));
    reader.kill();
    writer.kill().expect("it runs");
    writer.wait().expect("it ends");
    // Killed in the middle of a PDU, it spoils the next on its line: AAL5 tells PDUs apart by
    // their last cells alone.
    daemon.feed(&SEND[..3], b"spoiled");
    std::thread::sleep(std::time::Duration::from_millis(300));
    crosses(&daemon, 200_000);
    daemon.kill();
    daemon.succeed();
    let mut left = 200;
    while !daemon.run(&["vc", "show"]).status.success() && left > 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        left -= 1;
    }
    crosses(&daemon, 200_000);
    relay.interrupt();
}

#[test]
fn what_cannot_be_relayed_is_refused() {
    let daemon = daemon();
    let fails = |code, words: &[&str], what: &str| {
        let said = daemon.fails(code, &[&["relay"], words].concat());
        assert!(said.contains(what), "{said}");
    };
    fails(1, &["a.0.60", "a.0.60", RELAYS], "address");
    fails(
        2,
        &["a.0.60", "a.0.70", "cbr,aal5:pcr=10,rx:none"],
        "receives nothing",
    );
    fails(2, &["a.0.60", "a"], "expected [interface.]vpi.vci");
    fails(1, &["a.0.60", "z.0.70", RELAYS], "z");
    fails(
        4,
        &["a.0.60", "a.0.70", "--socket", "/nonexistent"],
        "/nonexistent",
    );
    // Nothing of these is left.
    let relay = daemon.begin(&RELAY, "relaying from");
    fails(1, &["a.0.60", "a.0.71", RELAYS], "a.0.60");
    relay.interrupt();
}

#[test]
fn strict_fails_where_pdus_are_thrown_away() {
    let daemon = daemon();
    let slow = [
        "relay",
        "a.0.60",
        "a.0.70",
        "cbr,aal5:pcr=2100,max_sdu=1000",
        "--strict",
    ];
    let relay = daemon.begin(&[&slow[..], &["--timeout", "1"]].concat(), "relaying from");
    let send = ["send", "--vc", "b.0.60", "--block", "1000"];
    daemon.feed(
        &[&send[..], &["--contract", "ubr,aal5:max_sdu=1000"]].concat(),
        &[7; 100_000],
    );
    let (code, said) = relay.end();
    assert!(
        code == 1 && said.contains("PDUs were thrown away"),
        "{code}: {said}"
    );
}
