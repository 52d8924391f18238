//! `cellgate guarantee`, each experiment in its short form: rules, keys, exit codes. What the
//! machine was too busy to show is void, and no failure: after three void tries a test says so. A
//! rate that is missed without such an excuse is tried again: three times is a failure, of a
//! build with optimization.

use std::process::Command;

use crate::daemon::alone;
use serde_json::{Value, json};

/// What a report came to.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Held,
    /// A rate was missed. The figures are there.
    Late,
    /// The machine disturbed every try.
    Void,
}

/// A missed rate alone is no verdict on a machine that others use. Octets, order, losses and the
/// answers of admission are judged on any: an error tells what was wrong.
fn judge(report: &Value, code: Option<i32>) -> Result<Outcome, String> {
    let list = |key: &str| report[key].as_array().ok_or(format!("no list of {key}"));
    let (errors, faults, void) = (list("errors")?, list("faults")?, list("void")?);
    let verdict = report["verdict"].as_str().ok_or("no verdict")?;
    let (word, _) = verdict.split_once(": ").ok_or("no word of verdict")?;
    let mut flaws = Vec::new();
    disordered(&report["figures"], &mut flaws);
    if !errors.is_empty() || !flaws.is_empty() {
        return Err(format!("{verdict}: errors {errors:?}, counts {flaws:?}"));
    }
    match (word, code, faults.len(), void.len()) {
        ("PASS", Some(0), 0, tries) if report["tries"].as_u64() == Some(tries as u64 + 1) => {
            Ok(Outcome::Held)
        }
        ("FAIL", Some(1), 1.., _) => Ok(Outcome::Late),
        ("VOID", Some(1), _, 3) => Ok(Outcome::Void),
        _ => Err(format!("{verdict}: exit code {code:?}, {report}")),
    }
}

/// Every connection, wherever it is, that received wrong octets or another order.
fn disordered(figures: &Value, found: &mut Vec<String>) {
    match figures {
        Value::Array(values) => values.iter().for_each(|value| disordered(value, found)),
        Value::Object(values) => {
            let flaws = ["wrong_pdus", "reordered_pdus"].into_iter();
            let flaws = flaws.filter(|key| values.get(*key).and_then(Value::as_u64) != Some(0));
            if values.contains_key("received_pdus") {
                found.extend(flaws.map(|key| format!("{key} of {figures}")));
            }
            values.values().for_each(|value| disordered(value, found));
        }
        _ => {}
    }
}

/// Runs an experiment; none if it was void, or is not for this build.
fn guarantee(name: &str, arguments: &[&str]) -> Option<Value> {
    let _alone = alone();
    let shown = match arguments {
        ["--resource", resource, ..] => format!("{name}_{resource}"),
        _ => name.to_owned(),
    };
    // What loads every CPU tells less of the connections than of the compiler then.
    if cfg!(debug_assertions) && (name == "separation" || shown != name) {
        println!("skipped guarantee_{shown}: not of a build without optimization (--release)");
        return None;
    }
    let (mut outcome, mut printed) = tried(name, arguments);
    if !cfg!(debug_assertions) {
        for _ in 1..3 {
            if outcome == Outcome::Late {
                println!("late: {}", printed["verdict"]);
                (outcome, printed) = tried(name, arguments);
            }
        }
        assert_ne!(outcome, Outcome::Late, "each time: {}", printed["verdict"]);
    }
    match outcome {
        Outcome::Held => println!("ran guarantee_{shown}"),
        Outcome::Late | Outcome::Void => println!("void guarantee_{shown}: {}", printed["verdict"]),
    }
    (outcome != Outcome::Void).then(|| printed["figures"].clone())
}

/// What a run came to, and its report.
fn tried(name: &str, arguments: &[&str]) -> (Outcome, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_cellgate"))
        .args(["guarantee", name, "--json"])
        .args(arguments)
        .output()
        .expect("cellgate starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let printed: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let outcome = judge(&printed, output.status.code());
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}\n{said}"));
    (outcome, printed)
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
fn a_missed_rate_is_void_and_nothing_else_is() {
    let report = |verdict: &str, key: &str, text: &str| {
        let mut report = json!({
            "tries": 1,
            "void": [],
            "figures": { "writers": [
                { "sent_pdus": 9, "received_pdus": 9, "wrong_pdus": 0, "reordered_pdus": 0 },
            ]},
            "faults": [],
            "errors": [],
            "verdict": format!("{verdict}: {text}"),
        });
        if key != "none" {
            report[key] = json!([text]);
        }
        report
    };
    let held = report("PASS", "none", "precision: 9 windows");
    assert_eq!(judge(&held, Some(0)), Ok(Outcome::Held));
    let slow = report("FAIL", "faults", "W1: 1 octets in the window at 0.10 s");
    assert_eq!(judge(&slow, Some(1)), Ok(Outcome::Late));
    let mut stalled = report("VOID", "none", "the adapter stood still for 90.0 ms");
    stalled["void"] = json!(["a", "b", "c"]);
    assert_eq!(judge(&stalled, Some(1)), Ok(Outcome::Void));

    for text in [
        "W1: 3 PDUs wrong, 0 out of order",
        "W1: 9 PDUs sent, 8 received",
    ] {
        assert!(judge(&report("FAIL", "errors", text), Some(1)).is_err());
    }
    // Counts are believed before words.
    for (verdict, code) in [("PASS", 0), ("FAIL", 1), ("VOID", 1)] {
        for key in ["wrong_pdus", "reordered_pdus"] {
            let mut report = report(verdict, "none", "x");
            report["figures"]["writers"][0][key] = json!(1);
            let error = judge(&report, Some(code)).expect_err(verdict);
            assert!(error.contains(key), "{error}");
            report["figures"]["writers"][0][key] = Value::Null;
            assert!(
                judge(&report, Some(code)).is_err(),
                "{verdict}: {key} unsaid"
            );
        }
    }
    // What says the one and does the other.
    assert!(judge(&held, Some(1)).is_err());
    assert!(judge(&slow, Some(0)).is_err());
    assert!(judge(&report("FAIL", "none", "?"), Some(1)).is_err());
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
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
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
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
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_connection_is_kept_on_a_loaded_machine() {
    // 40 x 10^6 bit/s in SDUs of 8,192 octets.
    const PDU_S: f64 = 40e6 / 8.0 / 8_192.0;
    let Some(figures) = guarantee("separation", &["--seconds", "30", "--no-stress-ng"]) else {
        return;
    };
    for slice in list(&figures, "slices") {
        is_complete(slice);
        assert!(number(&slice["expected_ppm"]) > 0.0, "{slice}");
        let kept = number(&slice["sent_pdus"]) / number(&slice["seconds"]) / PDU_S;
        assert!((0.9..1.1).contains(&kept), "{slice}");
    }
    // What others take in one slice and not in the next is no doing of the connection.
    if number(&figures["others"]) < 0.05 {
        let left = number(&figures["work_to_expected"]);
        assert!((0.75..1.25).contains(&left), "{figures}");
    }
    for reader in list(&figures, "overload") {
        assert!(number(&reader["received_pdus"]) > 0.0, "{reader}");
    }
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn what_admission_allows_is_kept_and_one_more_is_refused() {
    // A build without optimization shows no more in a second.
    let seeds = if cfg!(debug_assertions) { 1 } else { 2 };
    for seed in &["1", "2"][..seeds] {
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
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn what_the_machine_is_filled_with_is_kept_and_its_shortage_has_a_name() {
    for (what, resource) in [("cpu", "adapter_cpu"), ("memory", "memory")] {
        let arguments = ["--resource", what, "--seconds", "3"];
        let Some(figures) = guarantee("admission", &arguments) else {
            continue;
        };
        let connections = list(&figures, "connections");
        // One can be all that fits: an adapter that was disturbed while it was measured is slow.
        assert!(!connections.is_empty(), "{figures}");
        connections.iter().for_each(is_complete);
        let refused = list(&figures, "refused");
        assert!(!refused.is_empty(), "{figures}");
        for refusal in refused {
            assert_eq!(refusal["resource"], resource, "{refusal}");
        }
        let filled = list(&figures, "filled");
        let (reserved, capacity) = (number(&filled[0]), number(&filled[1]));
        assert!((0.9..=1.0).contains(&(reserved / capacity)), "{filled:?}");
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
