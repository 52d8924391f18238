//! `cellgate demo` as a program meets it: keys, rules, exit codes. What the machine was too busy to
//! show is void, and no failure: after three void runs a test says that it skipped.

use std::process::{Command, Output};

use crate::daemon::alone;
use serde_json::Value;

/// Of each phase of the demo itself.
const SECONDS: f64 = if cfg!(feature = "live") { 1.0 } else { 0.25 };

/// Runs with these arguments until a run is not void; none if three were.
fn demo(name: &str, arguments: &[&str]) -> Option<(Output, Value)> {
    let _alone = alone();
    let mut verdict = String::new();
    for _ in 0..3 {
        let output = cellgate(arguments);
        let printed: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        verdict = printed["verdict"].as_str().expect("a verdict").to_owned();
        if !verdict.starts_with("VOID") {
            println!("ran {name}");
            return Some((output, printed));
        }
        assert_eq!(
            output.status.code(),
            Some(1),
            "a run that says nothing has not passed"
        );
    }
    println!("skipped {name}: void: {verdict}");
    None
}

fn cellgate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cellgate"))
        .arg("demo")
        .args(arguments)
        .output()
        .expect("cellgate starts")
}

fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().expect("an object");
    let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no count"))
}

fn sum(counts: &Value) -> u64 {
    counts
        .as_object()
        .expect("counts by reason")
        .values()
        .map(number)
        .sum()
}

#[test]
fn keeps_two_connections_intact_and_prints_one_object() {
    let seconds = SECONDS.to_string();
    let Some((output, printed)) = demo("demo", &["--seconds", &seconds, "--json"]) else {
        return;
    };
    let verdict = printed["verdict"].as_str().expect("a verdict");
    assert!(verdict.starts_with("PASS: "), "{verdict}");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(keys(&printed), ["phases", "verdict"]);
    let phases = printed["phases"].as_array().expect("phases");
    let names: Vec<&str> = phases
        .iter()
        .filter_map(|phase| phase["name"].as_str())
        .collect();
    assert_eq!(names, ["quiet", "contract", "flood", "strangers"]);
    for phase in phases {
        has_its_keys(phase);
        keeps_the_rules(phase);
    }
    let (flood, strangers) = (&phases[2], &phases[3]);
    assert!(
        sum(&flood["connections"][2]["discarded"]) > 0,
        "the flood was none"
    );
    let discarded = &strangers["adapter"]["cells_discarded"];
    assert_eq!(keys(discarded), ["unknown_vc"]);
    //  One cell of 52 octets in 10 us: far below what any machine does.
    let cell_s = number(&discarded["unknown_vc"]) as f64 / SECONDS;
    assert!(cell_s > 100_000.0, "{discarded}");
}

fn has_its_keys(phase: &Value) {
    let expected = [
        "adapter",
        "connections",
        "gaps",
        "host",
        "link",
        "name",
        "seconds",
        "tries",
        "void_reason",
    ];
    assert_eq!(keys(phase), expected);
    assert!(phase["void_reason"].is_null());
    assert!((1..=3).contains(&number(&phase["tries"])));
    assert_eq!(phase["seconds"].as_f64(), Some(SECONDS));
    assert_eq!(keys(&phase["host"]), ["cpu_ns", "events", "wakeups"]);
    assert_eq!(
        keys(&phase["adapter"]),
        ["cells_discarded", "cells_received"]
    );
    assert_eq!(keys(&phase["link"]), ["dropped", "queued_max"]);
    assert_eq!(keys(&phase["gaps"]), ["count", "max_ns", "total_ns"]);
    let expected = [
        "contract_bit_s",
        "corrupt_pdus",
        "delivered_bit_s",
        "delivered_pdus",
        "discarded",
        "latency_ns",
        "offered_bit_s",
        "sent_pdus",
        "vci",
        "vpi",
    ];
    for connection in phase["connections"].as_array().expect("connections") {
        assert_eq!(keys(connection), expected);
        assert_eq!(keys(&connection["latency_ns"]), ["max", "p50", "p99"]);
    }
}

/// The rules again, from the printed numbers alone.
fn keeps_the_rules(phase: &Value) {
    let connections = phase["connections"].as_array().expect("connections");
    let mut delivered = 0;
    for (connection, contract) in connections.iter().zip([20_000_000, 20_000_000, 40_000_000]) {
        assert_eq!(number(&connection["contract_bit_s"]), contract);
        assert_eq!(number(&connection["corrupt_pdus"]), 0);
        delivered += number(&connection["delivered_pdus"]);
        let latency = &connection["latency_ns"];
        assert!(number(&latency["p50"]) <= number(&latency["p99"]));
        assert!(number(&latency["p99"]) <= number(&latency["max"]));
    }
    for connection in &connections[..2] {
        assert_eq!(connection["delivered_pdus"], connection["sent_pdus"]);
        //  20 Mbit/s in PDUs of 65,536 bit: 305.2 in a second, of which 1 % may be missed.
        let pdus = SECONDS * 20e6 / 65_536.0;
        let sent = number(&connection["sent_pdus"]) as f64;
        assert!((pdus * 0.99 - 1.0..pdus + 1.0).contains(&sent), "{sent}");
    }
    assert_eq!(number(&phase["host"]["events"]), delivered);
    assert!(number(&phase["host"]["wakeups"]) <= delivered);
    assert!(number(&phase["host"]["cpu_ns"]) > 0);
    let received = number(&phase["adapter"]["cells_received"]);
    assert_eq!(
        received,
        delivered * 171 + sum(&phase["adapter"]["cells_discarded"])
    );
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn one_port_for_all_loses_only_what_the_port_lost() {
    let arguments = [
        "--seconds",
        "0.5",
        "--shared-port",
        "--hazard",
        "100M",
        "--json",
    ];
    let Some((output, printed)) = demo("demo_shared_port", &arguments) else {
        return;
    };
    let verdict = printed["verdict"].as_str().expect("a verdict");
    assert!(verdict.starts_with("PASS: on one port"), "{verdict}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_sweep_is_drawn() {
    let path = std::env::temp_dir().join(format!("cellgate-demo-{}.svg", std::process::id()));
    let path_text = path.to_str().expect("UTF-8");
    let ran = demo(
        "demo_sweep",
        &["--seconds", "0.2", "--plot", path_text, "--json"],
    );
    let drawn = std::fs::read_to_string(&path);
    //  Removed before anything can fail.
    let _ = std::fs::remove_file(&path);
    let Some((_, printed)) = ran else {
        return;
    };
    let verdict = printed["verdict"].as_str().expect("a verdict");
    assert!(verdict.starts_with("PASS: "), "{verdict}");
    assert_eq!(printed["phases"].as_array().map(Vec::len), Some(15));
    let drawn = drawn.expect("a drawing");
    assert!(drawn.contains("host CPU") && drawn.trim_end().ends_with("</svg>"));
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn transmits_as_much_under_attack() {
    let arguments = ["--transmit", "1", "--seconds", "0.5", "--json"];
    let Some((output, printed)) = demo("demo_transmit", &arguments) else {
        return;
    };
    let verdict = printed["verdict"].as_str().expect("a verdict");
    assert!(verdict.starts_with("PASS: "), "{verdict}");
    assert_eq!(output.status.code(), Some(0));
    let windows = printed["windows"].as_array().expect("windows");
    let names: Vec<&str> = windows
        .iter()
        .filter_map(|window| window["name"].as_str())
        .collect();
    assert_eq!(names, ["quiet", "flood"]);
    for window in windows {
        assert!(number(&window["sent_cells"]) > 0);
        let ratio = window["ratio"].as_f64().expect("a ratio");
        assert!((ratio - 1.0).abs() <= 0.001, "{window}");
    }
    assert_eq!(number(&windows[0]["discarded_cell_s"]), 0);
    assert!(number(&windows[1]["discarded_cell_s"]) > 0);
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn compares_a_flood_with_the_same_flood_unread() {
    let arguments = ["--control-pairs", "1", "--seconds", "0.5", "--json"];
    let Some((output, printed)) = demo("demo_control_pairs", &arguments) else {
        return;
    };
    let pairs = printed["pairs"].as_array().expect("pairs");
    assert_eq!(pairs.len(), 1);
    let cpu_ns = |key: &str| number(&pairs[0][key]) as f64;
    let ratio = cpu_ns("flood_cpu_ns_per_pdu") / cpu_ns("control_cpu_ns_per_pdu");
    let median = printed["ratio"]["median"].as_f64().expect("a ratio");
    assert!((median - ratio).abs() < 1e-9, "{printed}");
    //  One pair of half a second is no measurement: the ratio may be anything, the verdict follows.
    let passed = median <= printed["ratio_max"].as_f64().expect("the goal");
    let verdict = printed["verdict"].as_str().expect("a verdict");
    assert!(verdict.contains("median ratio"), "{verdict}");
    assert_eq!(verdict.starts_with("PASS"), passed, "{verdict}");
    assert_eq!(output.status.code(), Some(if passed { 0 } else { 1 }));
}

#[test]
fn wrong_calls_exit_with_2() {
    for arguments in [
        &["--hazard", "fast"][..],
        &["--seconds", "0"],
        &["--seconds", "-1"],
        &["--transmit", "--sweep"],
        &["--hazard", "40M", "--sweep"],
        &["--control-pairs", "0"],
    ] {
        assert_eq!(
            cellgate(arguments).status.code(),
            Some(2),
            "of {arguments:?}"
        );
    }
}

#[test]
fn a_process_of_an_instrument_started_by_hand_ends() {
    for role in [
        "adapter", "host", "sender", "feeder", "counter", "writer", "reader", "spinner", "partner",
    ] {
        let child = Command::new(env!("CARGO_BIN_EXE_cellgate"))
            .args(["actor", role])
            .stdin(std::process::Stdio::null())
            .output()
            .expect("cellgate starts");
        assert_eq!(child.status.code(), Some(1), "as {role}");
    }
}

#[test]
fn a_file_and_a_video_share_a_line_with_bit_errors_and_the_files_receiver_dies() {
    let Some((output, printed)) = demo("demo_terminal", &["--terminal", "--json"]) else {
        return;
    };
    let verdict = printed["verdict"].as_str().expect("a verdict");
    assert!(verdict.starts_with("PASS: "), "{printed}");
    assert_eq!(output.status.code(), Some(0));
    let number = |key: &str| printed[key].as_f64().expect(key);
    let (lost, law) = (number("pdus_lost"), number("pdus_lost_by_law"));
    assert!((lost - law).abs() < 5.0 * law.sqrt(), "{printed}");
    // The sender repeats lost PDUs, and a part of those before the kill.
    let again = number("sent_again") / 1_984.0;
    assert!((0.8..1.2).contains(&(again / lost)), "{printed}");
    assert!(number("sent_twice") > 0.0, "{printed}");
    assert_eq!(printed["blake3_sent"], printed["blake3_there"]);
    loses_what_the_line_has_damaged(&printed["video"]);
}

/// The video's rules again, from the printed numbers alone.
fn loses_what_the_line_has_damaged(video: &Value) {
    let of = |key: &str| number(&video[key]);
    assert_eq!(of("frames_late") + of("packets_late"), 0, "{video}");
    assert_eq!(
        of("frames_on_time") + of("frames_missing"),
        of("frames"),
        "{video}"
    );
    let (cells, line) = (&video["cells"], &video["line"]);
    // Two packets in eight cells.
    assert_eq!(number(&cells["sent"]), 4 * of("packets_sent"), "{video}");
    let lost = number(&cells["sent"]) - number(&cells["delivered"]);
    assert_eq!(lost, 4 * of("packets_lost"), "{video}");
    let differences = cells["differences"].as_array().expect("a list");
    let named: u64 = differences.iter().map(|one| number(&one["cells"])).sum();
    let missing = number(&cells["missing"]);
    assert_eq!(named + missing, lost, "{video}");
    assert!(missing <= number(&line["header_errors"]), "{video}");
    // Some 25 of 20,000 PDUs.
    assert!((4..60).contains(&(of("packets_lost") / 2)), "{video}");
    let ppb = video["clock_ppb"].as_i64().expect("a number");
    assert!((10_000..300_000).contains(&ppb), "{video}");
}
