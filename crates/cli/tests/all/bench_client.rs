//! `cellgate bench client`: what it counts, with a daemon and another process of its own.

use std::process::Command;

use serde_json::Value;

use crate::daemon::alone;

fn named<'a>(found: &'a Value, list: &str, name: &str) -> &'a Value {
    let mut list = found[list].as_array().unwrap().iter();
    let item = list.find(|item| item["name"] == name);
    item.unwrap_or_else(|| panic!("{name:?} is missing: {found}"))
}

#[test]
fn copies_are_those_of_the_path_and_every_sdu_arrives_as_it_was_sent() {
    // Its daemon and its clients look for work without a rest: beside another test's daemon, each
    // would have a CPU by turns of the kernel, and take a hundred times as long.
    let _alone = alone();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_cellgate"));
    let output = bench.args(["bench", "client", "--quick", "--json"]);
    let output = output.output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (path, copies) in [("sockets", 1.0), ("zero-copy", 0.0)] {
        for way in ["sent", "received"] {
            let goal = named(&found, "goals", &format!("copies per PDU, {path}, {way}"));
            assert_eq!(goal["value"], copies, "{goal}");
        }
    }
    // Each PDU is alone on its way, and crosses as a whole.
    for (way, copies) in [
        ("taken into its own memory before they are sent", 0.0),
        ("written where they are read", 1.0),
    ] {
        let name = format!("SDUs of those sent, {way}");
        assert_eq!(named(&found, "goals", &name)["value"], copies);
    }
    for what in [
        "SDUs with other octets than were sent",
        "SDUs lost on ways that lose none",
        "SDUs not sent, or not back",
    ] {
        assert_eq!(named(&found, "goals", what)["value"], 0.0, "{what}");
    }
    assert!(named(&found, "values", "SDUs sent")["value"].as_f64() > Some(1_000.0));
}
