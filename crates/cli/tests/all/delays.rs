//! What `cellgate contract` says before a connection is opened, and what the daemon says of it
//! then: one arithmetic, and PDUs that keep it.

use std::time::{Duration, Instant};

use cellgate::{Connection, Error};
use serde_json::{Value, json};

use crate::daemon::Daemon;

const CONTRACTS: [&str; 9] = [
    "cbr,aal5:pcr=48Mbps,max_sdu=8192",
    "cbr,aal5:pcr=1000,max_sdu=40,cdvt=5ms,jitter=high",
    "cbr,aal5:tx:pcr=3000,max_sdu=1500,burst=6,rx:pcr=100,max_sdu=9180",
    "vbr,aal5:pcr=30000,scr=10000,mbs=200,max_sdu=1500",
    "nrt-vbr,aal5:scr=2000,mbs=1000,max_sdu=9180,excess=tag",
    "ubr,aal5:max_sdu=1500",
    "ubr,aal5:pcr=9000,max_sdu=1500,jitter=low",
    "cbr,aal34:pcr=5000,max_sdu=9188",
    "cbr,aal0:pcr=1000,cdvt=250us",
];

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What `vc show` tells of one.
fn shown(daemon: &Daemon, address: &str) -> Value {
    json_of(&daemon.ok(&["vc", "show", address, "--json"]))["connections"][0].take()
}

/// What of a contract both tell, as `contract` prints it.
fn said(contract: &Value) -> Value {
    let (transmit, receive) = (&contract["transmit"], &contract["receive"]);
    json!({
        "buffers": {
            "receive_pdus": receive["buffer_pdus"],
            "receive_octets": receive["buffer_octets"],
            "transmit_pdus": transmit["buffer_pdus"],
            "transmit_octets": transmit["buffer_octets"],
        },
        "bound": { "transmit": transmit["bound"], "receive": receive["bound"] },
        "delay_ns": receive["delay_ns"],
    })
}

#[test]
fn contract_says_of_a_connection_what_the_daemon_makes_of_it() {
    let daemon = Daemon::start_told(
        "[adapter]\ngap_max_ns = 20000000\nclump_cells = 11\n\
         [admission]\ncdvt_ns = 2000000\nwake_up_ns = 7000000\n\
         [[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\nline_rate.cell_s = 200000\n\
         [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n",
    );
    // It may send before others.
    daemon.ok(&[
        "vc",
        "add",
        "a.0.99",
        "contract",
        "cbr,aal5:pcr=1000,max_sdu=40,burst=5",
    ]);
    for text in CONTRACTS {
        let before = json_of(&daemon.ok(&["contract", text, "on", "a", "--json"]));
        assert_eq!(before["assumed"]["interface"], "a");
        assert_eq!(before["assumed"]["others"]["cells"], 5);
        assert_eq!(before["line_cell_s"], 200_000);
        daemon.ok(&["vc", "add", "a.0.40", "contract", text]);
        let after = shown(&daemon, "a.0.40");
        daemon.ok(&["vc", "del", "a.0.40"]);
        let kept = json!({
            "buffers": after["buffers"],
            "bound": after["bound"],
            "delay_ns": after["delay_ns"],
        });
        assert_eq!(said(&before), kept, "{text}");
        assert!(
            kept["buffers"]["receive_pdus"].as_u64() > Some(1),
            "{text}: {kept}"
        );
        assert_eq!(
            kept["bound"]["transmit"].is_null(),
            text.starts_with("ubr"),
            "{text}"
        );
    }
    // Of a line that is not said, a server with two says nothing.
    let any = json_of(&daemon.ok(&["contract", CONTRACTS[0], "--json"]));
    assert!(
        any["assumed"]["server"]
            .as_str()
            .unwrap()
            .starts_with("cellgate "),
        "{any}"
    );
    assert_eq!(
        (&any["assumed"]["interface"], &any["line_cell_s"]),
        (&Value::Null, &json!(353_207))
    );
    assert_eq!(any["assumed"]["wake_up_ns"], 7_000_000);
    let error = daemon.fails(1, &["contract", CONTRACTS[0], "on", "c"]);
    assert!(error.contains("no interface c; it has: a, b"), "{error}");
    daemon.fails(2, &["contract", CONTRACTS[0], "at", "a"]);
}

#[test]
fn the_documented_defaults_are_those_of_a_daemon_without_a_configuration() {
    let daemon = Daemon::start_told("[[interface]]\nname = \"a\"\nlink.memory.peer = \"a\"\n");
    for text in CONTRACTS {
        let with = json_of(&daemon.ok(&["contract", text, "--json"]));
        assert_eq!(with["assumed"]["interface"], "a", "its only one");
        let alone = super::contract::contract(&[text, "--json"]);
        let alone: Value = serde_json::from_slice(&alone.stdout).unwrap();
        assert_eq!(alone["assumed"]["server"], Value::Null);
        assert_eq!(said(&with)["buffers"], said(&alone)["buffers"], "{text}");
        for (key, value) in alone["assumed"].as_object().unwrap() {
            if !["server", "interface", "late_ns"].contains(&key.as_str()) {
                assert_eq!(with["assumed"][key], *value, "{key}");
            }
        }
        // A wake-up is measured there, and never longer.
        let late = |told: &Value| told["assumed"]["late_ns"].as_u64().unwrap();
        assert!(late(&with) <= late(&alone));
    }
}

/// What a run shows: PDUs took no longer than is promised, or the machine was too busy.
#[derive(Debug, PartialEq)]
enum Verdict {
    Kept,
    Void(String),
    Broken(String),
}

fn judge(shown: &Value, adapter: &Value) -> Verdict {
    let ns = |value: &Value| value.as_u64().expect("nanoseconds");
    let (longest, admitted) = (&adapter["gap_longest_ns"], &adapter["gap_admitted_ns"]);
    if ns(longest) > ns(admitted) {
        return Verdict::Void(format!(
            "the adapter stood still for {longest} of {admitted} ns"
        ));
    }
    let rests = &adapter["rests"];
    if rests.is_object() && ns(&rests["late_longest_ns"]) > ns(&rests["late_allowed_ns"]) {
        return Verdict::Void(format!("the adapter was late: {rests}"));
    }
    let (bound, seen) = (
        &shown["bound"]["transmit"]["delay_ns"],
        &shown["seen"]["transmit"],
    );
    match ns(&seen["delay_max_ns"]) <= ns(bound) {
        true => Verdict::Kept,
        false => Verdict::Broken(format!("{seen} of {bound} ns")),
    }
}

#[test]
fn a_bound_that_is_too_small_is_found_out() {
    let shown = |bound_ns: u64| {
        json!({
            "bound": { "transmit": { "delay_ns": bound_ns } },
            "seen": { "transmit": { "pdus": 9, "delay_max_ns": 1_000, "delay_p99_ns": 900 } },
        })
    };
    let adapter = |longest_ns: u64| json!({ "gap_longest_ns": longest_ns, "gap_admitted_ns": 30 });
    assert_eq!(judge(&shown(1_000), &adapter(30)), Verdict::Kept);
    assert!(matches!(
        judge(&shown(999), &adapter(30)),
        Verdict::Broken(_)
    ));
    assert!(matches!(judge(&shown(999), &adapter(31)), Verdict::Void(_)));
}

/// 1,500 octets are 32 cells: a PDU each 4 ms.
const SENT: &str = "cbr,aal5:tx:pcr=8000,max_sdu=1500,rx:none";
const RECEIVED: &str = "cbr,aal5:tx:none,rx:pcr=8000,max_sdu=1500";
const PDUS: u64 = 250;

/// Sends at the contract's rate; what is shown of it then, and of the adapter.
fn run() -> (Value, Value) {
    let daemon = Daemon::start_told(
        "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
         [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n",
    );
    let open = |address: &str, contract: &str| {
        let builder = Connection::builder().socket(daemon.socket());
        builder.address(address).contract(contract).open().unwrap()
    };
    let (near, far) = (open("a.0.40", SENT), open("b.0.40", RECEIVED));
    let (mut sent, mut buffer) = (0, [0; 1_500]);
    let begun = Instant::now();
    while sent < PDUS {
        let due = begun + Duration::from_millis(4 * sent);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        match near.try_send(&[0x55; 1_500]) {
            Ok(()) => sent += 1,
            Err(Error::WouldBlock(_)) => {}
            Err(error) => panic!("{error}"),
        }
        while far.try_recv(&mut buffer).is_ok() {}
    }
    let told = |pdus: u64| {
        let shown = shown(&daemon, "a.0.40");
        (shown["seen"]["transmit"]["pdus"].as_u64() >= Some(pdus)).then_some(shown)
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    let shown = loop {
        match told(PDUS) {
            Some(shown) => break shown,
            None if Instant::now() > deadline => panic!("not {PDUS} PDUs: {:?}", told(0)),
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    };
    let text = daemon.ok(&["vc", "show", "a.0.40"]);
    assert!(text.contains("us at most from a PDU's turn"), "{text}");
    assert!(text.contains(&format!("of {PDUS} PDUs")), "{text}");
    let stats = json_of(&daemon.ok(&["stats", "--json"]));
    (shown, stats["adapters"][0].clone())
}

#[test]
fn no_pdu_takes_longer_to_leave_than_is_promised() {
    let mut voids = Vec::new();
    for _ in 0..3 {
        let (shown, adapter) = run();
        let seen = &shown["seen"]["transmit"];
        let at_most = seen["delay_max_ns"].as_u64().unwrap();
        assert!(seen["delay_p99_ns"].as_u64().unwrap() <= at_most, "{seen}");
        // 31 cell times lie between the first cell and the last, less what is made good.
        assert!(at_most >= 31 * 125_000 - 875_000, "{seen}");
        match judge(&shown, &adapter) {
            Verdict::Kept => return println!("{seen} of {}", shown["bound"]["transmit"]),
            Verdict::Broken(why) => panic!("{why}: {adapter}"),
            Verdict::Void(why) => voids.push(why),
        }
    }
    println!("void: {}", voids.join("; "));
}
