//! `cellgate demo --link udp`: the verdict of the memory link, on one machine and between two
//! network namespaces. What the machine lacks or was too busy to show is skipped, and said.

use std::process::Command;

use crate::daemon::alone;
use crate::netns::{Namespace, joined};
use serde_json::Value;

const ARGUMENTS: [&str; 6] = ["demo", "--link", "udp", "--seconds", "1", "--json"];

fn cellgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellgate"));
    command.args(ARGUMENTS);
    command
}

/// Runs until a run is not void; none if three were.
fn demo(name: &str, mut command: impl FnMut() -> Command) -> Option<Value> {
    let _alone = alone();
    let mut verdict = String::new();
    for _ in 0..3 {
        let output = command().output().expect("it starts");
        let printed: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        verdict = printed["verdict"].as_str().expect("a verdict").to_owned();
        if !verdict.starts_with("VOID") {
            println!("ran {name}");
            return Some(printed);
        }
    }
    println!("skipped {name}: void: {verdict}");
    None
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no count"))
}

/// The verdict, and what it says of, from the printed numbers.
fn protects(printed: &Value) {
    let verdict = printed["verdict"].as_str().expect("a verdict");
    assert!(verdict.starts_with("PASS: two guaranteed"), "{verdict}");
    let phases = printed["phases"].as_array().expect("phases");
    assert_eq!(phases.len(), 4);
    for phase in phases {
        let connections = phase["connections"].as_array().expect("connections");
        for connection in &connections[..2] {
            assert_eq!(connection["delivered_pdus"], connection["sent_pdus"]);
            assert!((302..=306).contains(&number(&connection["sent_pdus"])));
            assert_eq!(number(&connection["corrupt_pdus"]), 0);
        }
    }
    let discarded = &phases[2]["connections"][2]["discarded"]["non_conforming"];
    assert!(number(discarded) > 0, "the flood was none");
    let strange = &phases[3]["adapter"]["cells_discarded"]["unknown_vc"];
    assert!(number(strange) > 100_000, "{strange}");
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn pseudowires_on_one_machine_keep_two_connections_intact() {
    if let Some(printed) = demo("demo_udp", cellgate) {
        protects(&printed);
    }
}

const ADDRESSES: [&str; 2] = ["10.166.35.1", "10.166.35.2"];

/// The demo in the adapter's namespace, its senders in the other.
fn between([senders, adapter]: &[Namespace; 2]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &adapter.0, env!("CARGO_BIN_EXE_cellgate")]);
    command.args(ARGUMENTS);
    command.args([
        "--sender-netns",
        &senders.0,
        "--sender-address",
        ADDRESSES[0],
    ]);
    command.args(["--adapter-address", ADDRESSES[1]]);
    command
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn pseudowires_between_two_network_namespaces_keep_two_connections_intact() {
    let namespaces = match joined(["senders", "adapter"], ADDRESSES) {
        Ok(namespaces) => namespaces,
        Err(reason) => {
            println!("skipped demo_udp_netns: {reason}");
            return;
        }
    };
    if let Some(printed) = demo("demo_udp_netns", || between(&namespaces)) {
        protects(&printed);
    }
}

#[test]
fn wrong_calls_exit_with_2() {
    for arguments in [
        &["demo", "--link", "token-ring"][..],
        &["demo", "--link", "udp", "--shared-port"],
        &["demo", "--link", "udp", "--transmit"],
        &["demo", "--sender-netns", "x"],
        &["demo", "--link", "udp", "--adapter-address", "here"],
    ] {
        let status = Command::new(env!("CARGO_BIN_EXE_cellgate"))
            .args(arguments)
            .output()
            .expect("cellgate starts")
            .status;
        assert_eq!(status.code(), Some(2), "of {arguments:?}");
    }
}
