//! The slots of rings in files: a picture, and a capture that `decode` reads.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn cellgate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellgate"));
    command.args(args).output().expect("it runs")
}

fn place(name: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    path.to_str().expect("UTF-8").into()
}

const PLAN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/ring-duplex.toml"
);

/// A block of each way is put together from what its receiver's station has taken.
#[test]
fn slots_are_drawn_and_what_stations_take_is_decoded() {
    let (svg, tape, saved) = (
        place("slots.svg"),
        place("slots.pcapng"),
        place("slots.json"),
    );
    let args = [
        "sim", "run", "--plan", PLAN, "--fast", "--json", "--slots", &svg,
    ];
    let out = cellgate(&[&args[..], &["--trace", &tape, "--save", &saved]].concat());
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let outcome: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let picture = fs::read_to_string(&svg).expect("a picture");
    // The other way begins later.
    for words in ["channel 1", "west", "empty", "time, us"] {
        assert!(picture.contains(words), "{words}");
    }
    assert!(picture.matches("<polygon").count() > 50);

    let decoded = cellgate(&["decode", "--json", &tape]);
    assert!(decoded.status.success(), "{decoded:?}");
    let text = String::from_utf8(decoded.stdout).expect("UTF-8");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let lines: Vec<Value> = lines.collect();
    let blocks = |vci: u64| {
        let is_it = |line: &&Value| {
            line["kind"] == "block" && line["vci"] == vci && line["direction"] == "receive"
        };
        lines.iter().filter(is_it).count() as u64
    };
    let read = |name: &str| outcome["associations"][name]["received_blocks"].as_u64();
    assert_eq!(Some(blocks(1)), read("eastward"));
    assert_eq!(Some(blocks(2)), read("westward"));
    let again = cellgate(&["sim", "run", "--plan", &saved, "--fast", "--json"]);
    assert_eq!(out.stdout, again.stdout);
}

/// Another station sends blocks as long as those of a capture, at their distances.
#[test]
fn blocks_of_a_capture_are_sent_again() {
    let (tape, plan) = (place("captured.pcapng"), place("captured.toml"));
    let args = [
        "sim", "run", "--plan", PLAN, "--fast", "--json", "--trace", &tape,
    ];
    let first: Value = serde_json::from_slice(&cellgate(&args).stdout).expect("JSON");
    let again = |load: &str| {
        let scenario = format!(
            "duration_ns = 600_000_000\n\
             rings = [{{ name = 'ring' }}]\n\
             stations = [{{ name = 'a', ring = 'ring', at = 3 }}, \
             {{ name = 'b', ring = 'ring', at = 9, channel = 1 }}]\n\
             associations = [{{ name = 'x', from = 'a', to = 'b', vci = 7 }}]\n\
             traffic = [{{ on = 'x', load = {load} }}]\n"
        );
        fs::write(&plan, scenario).expect("a file");
        cellgate(&["sim", "run", "--plan", &plan, "--json"])
    };
    let out = again("{ capture = 'captured.pcapng', vci = 1, interface = 0 }");
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let second: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let blocks = |told: &Value, of: &str, key: &str| {
        let number = told["associations"][of][key].as_u64();
        number.expect("a number")
    };
    // One may be under way when the first run ends.
    let sent = blocks(&first, "eastward", "sent_blocks");
    let again_sent = blocks(&second, "x", "sent_blocks");
    assert!(
        sent > 3 && (sent - 1..=sent).contains(&again_sent),
        "{sent} {again_sent}"
    );
    assert_eq!(again_sent, blocks(&second, "x", "received_blocks"));

    for (load, told) in [
        (
            "{ capture = 'captured.pcapng', vci = 1 }",
            "interfaces 0 and 1",
        ),
        (
            "{ capture = 'captured.pcapng', interface = 0 }",
            "no whole blocks on circuit 7",
        ),
        (
            "{ capture = 'captured.pcapng', vci = -1 }",
            "traffic.0.load: other keys",
        ),
        (
            "{ blocks = [{ at_ns = 0, octets = 11 }] }",
            "blocks have 12 to 8160 octets",
        ),
        (
            "{ blocks = [{ at_ns = 2, octets = 99 }, { at_ns = 1, octets = 99 }] }",
            "order",
        ),
    ] {
        let out = again(load);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(said.contains(told), "{load}: {said}");
        assert_eq!(out.status.code(), Some(1), "{load}: {said}");
    }
}

#[test]
fn files_that_are_written_are_told_apart_and_other_worlds_have_no_slots() {
    let svg = place("one.svg");
    let twice = cellgate(&[
        "sim", "run", "--plan", PLAN, "--slots", &svg, "--trace", &svg,
    ]);
    let told = String::from_utf8_lossy(&twice.stderr).into_owned();
    assert!(told.contains("--trace and --slots lead to it"), "{told}");
    let none = cellgate(&["sim", "run", "--seed", "1", "--slots", &svg]);
    let told = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(told.contains("no rings"), "{told}");
    assert!(!Path::new(&svg).exists());
}
