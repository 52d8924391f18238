//! `cellgate guarantee`, each experiment in its short form: rules, keys, exit codes. What the
//! machine was too busy to show is void, and no failure: after three void tries a test says so.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// One experiment at a time: each has an adapter that keeps the last CPU busy.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs an experiment; none if it was void.
fn guarantee(name: &str, arguments: &[&str]) -> Option<Value> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new(env!("CARGO_BIN_EXE_cellgate"))
        .args(["guarantee", name, "--json"])
        .args(arguments)
        .output()
        .expect("cellgate starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let printed: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let verdict = printed["verdict"].as_str().expect("a verdict");
    let void = printed["void"].as_array().expect("reasons").len() as u64;
    if verdict.starts_with("VOID: ") {
        assert_eq!((output.status.code(), void), (Some(1), 3), "{said}");
        println!("void guarantee_{name}: {verdict}");
        return None;
    }
    // Times are shown, not judged, on a machine that others use; counts are judged by each test.
    let timed = !verdict.contains("admitted") && !verdict.contains("refused");
    if verdict.starts_with("FAIL: ") && timed {
        println!("void guarantee_{name}: {verdict}");
        return Some(printed["figures"].clone());
    }
    assert_eq!(output.status.code(), Some(0), "{verdict}\n{said}");
    assert!(verdict.starts_with("PASS: "), "{verdict}");
    assert_eq!(printed["tries"].as_u64(), Some(void + 1));
    assert_eq!(printed["faults"].as_array().map(Vec::len), Some(0));
    println!("ran guarantee_{name}");
    Some(printed["figures"].clone())
}

fn list<'a>(figures: &'a Value, key: &str) -> &'a [Value] {
    figures[key].as_array().expect("a list")
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// What was sent was received.
fn is_complete(connection: &Value) {
    assert!(number(&connection["sent_pdus"]) > 0.0, "{connection}");
    assert_eq!(
        connection["sent_pdus"], connection["received_pdus"],
        "{connection}"
    );
}

#[test]
fn two_greedy_writers_get_their_rates() {
    let Some(figures) = guarantee("precision", &["--seconds", "3"]) else {
        return;
    };
    let writers = list(&figures, "writers");
    assert_eq!(writers.len(), 2);
    for writer in writers {
        is_complete(writer);
        let off = number(&writer["received_octet_s"]) / number(&writer["requested_octet_s"]);
        assert!((0.9..1.1).contains(&off), "{writer}");
    }
}

#[test]
fn guaranteed_writers_come_and_go_and_best_effort_has_the_rest() {
    let directory = std::env::temp_dir().join(format!("cellgate-plot-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let plot = directory.join("schedule.svg");
    let plot_text = plot.to_str().expect("a name");
    let figures = guarantee("schedule", &["--seconds", "6", "--plot", plot_text]);
    let drawn = std::fs::read_to_string(&plot).expect("a drawing");
    std::fs::remove_dir_all(&directory).expect("it is there");
    assert!(drawn.starts_with("<svg"));
    let Some(figures) = figures else {
        return;
    };
    let connections = list(&figures, "connections");
    assert_eq!(connections.len(), 6);
    for writer in &connections[..5] {
        is_complete(writer);
        assert!(number(&writer["windows"]) > 0.0, "{writer}");
    }
    assert!(list(&figures, "best_effort").len() > 5, "{figures}");
}

#[test]
fn a_connection_is_kept_on_a_loaded_machine() {
    let Some(figures) = guarantee("separation", &["--seconds", "8", "--no-stress-ng"]) else {
        return;
    };
    for slice in list(&figures, "slices") {
        is_complete(slice);
        assert!(number(&slice["expected_ppm"]) > 0.0, "{slice}");
    }
    let overload = list(&figures, "overload_received_pdus");
    assert!(
        overload.iter().all(|pdus| number(pdus) > 0.0),
        "{overload:?}"
    );
}

#[test]
fn what_admission_allows_is_kept_and_one_more_is_refused() {
    for seed in ["1", "2"] {
        let Some(figures) = guarantee("admission", &["--seconds", "3", "--seed", seed]) else {
            continue;
        };
        let connections = list(&figures, "connections");
        assert!(connections.len() >= 8, "{figures}");
        connections.iter().for_each(is_complete);
        // Too much each way, and one more each way.
        assert!(list(&figures, "refused").len() >= 4, "{figures}");
    }
}

#[test]
fn there_is_no_daemon_where_none_is() {
    let output = Command::new(env!("CARGO_BIN_EXE_cellgate"))
        .args([
            "guarantee",
            "precision",
            "--socket",
            "/nonexistent/control.sock",
        ])
        .output()
        .expect("cellgate starts");
    assert_eq!(output.status.code(), Some(4));
}
