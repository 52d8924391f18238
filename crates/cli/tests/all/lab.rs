//! `cellgate lab`: list, run, report, and their exit codes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn lab(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellgate"));
    command
        .arg("lab")
        .args(args)
        .output()
        .expect("cellgate runs")
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).expect("UTF-8")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("cellgate-{name}-{}", std::process::id()));
    fs::create_dir_all(&path).expect("a directory");
    path
}

#[test]
fn list_names_experiments_and_what_can_be_set() {
    let output = lab(&["list"]);
    assert_eq!(output.status.code(), Some(0));
    let listed = text(&output.stdout);
    assert!(listed.contains("policing-figure-9") && listed.contains("c_cell=42.5"));
    let listed = json(&lab(&["list", "--json"]));
    let experiments = listed["experiments"].as_array().expect("a list");
    let named = |one: &&Value| one["name"] == "policing-figure-9";
    let figure_9 = experiments.iter().find(named).expect("figure 9");
    let discard = figure_9["parameters"].as_array().expect("parameters");
    let discard = discard.iter().find(|one| one["key"] == "discard");
    assert_eq!(discard.expect("discard")["range"], "shared|per-vc|ppd|epd");
}

#[test]
fn run_writes_every_form_and_passes() {
    let out = directory("lab-run");
    let output = lab(&[
        "run",
        "l4atm-figure-5",
        "--out",
        out.to_str().expect("UTF-8"),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.contains("dismissed: due at [6]") && !printed.contains("failed:"));
    let file = |name: &str| fs::read_to_string(out.join(name)).expect(name);
    assert_eq!(file("l4atm-figure-5.txt"), printed);
    let whole: Value = serde_json::from_str(&file("l4atm-figure-5.json")).expect("JSON");
    assert_eq!(whole["pass"], true);
    let table = |ending: &str| file(&format!("l4atm-figure-5-l4atm-figure-5{ending}"));
    assert!(table(".csv").starts_with("scenario,due,came,"));
    assert!(table(".svg").starts_with("<svg"));
    assert!(table("-figure.csv").starts_with("panel,series,x,y"));
    fs::remove_dir_all(out).expect("the directory goes");
}

#[test]
fn a_failed_check_is_exit_code_1_and_named_last() {
    let broken = ["run", "policing-table-1", "--set", "c_cell=12"];
    let output = lab(&broken);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stdout);
    let last = printed.lines().last().expect("a line");
    assert!(
        last.starts_with("failed: policing-table-1 (P0.11"),
        "{last}"
    );
    let output = lab(&[&broken[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json(&output)["failed"][0]["name"], "policing-table-1");
}

#[test]
fn what_makes_no_sense_is_exit_code_2() {
    for (args, told) in [
        (&["run", "figure-0"][..], "no experiment figure-0"),
        (
            &["run", "policing-figure-4", "--set", "c_cell=1"],
            "the experiment has none",
        ),
        (
            &["run", "policing-figure-5", "--set", "c_cell=0"],
            "it takes 1..=10000",
        ),
        (&["run", "all", "--set", "c_cell"], "expected key=value"),
        (&["report", "figure-0"], "no experiment figure-0"),
    ] {
        let output = lab(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(told), "{args:?}: {stderr}");
    }
}

#[test]
fn report_is_one_page() {
    let out = directory("lab-report");
    let path = out.join("page.html");
    let output = lab(&[
        "report",
        "l4atm-figure-5",
        "--out",
        path.to_str().expect("UTF-8"),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = fs::read_to_string(&path).expect("a page");
    assert!(page.contains("<svg") && page.contains("due at [6]") && page.contains("viewport"));
    assert!(!page.contains("src=") && !page.contains("<link"));
    fs::remove_dir_all(out).expect("the directory goes");
}
