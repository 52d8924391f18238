//! `cellgate contract for`: what is to be sent becomes contracts, their costs, and whether there is
//! room; `vc add --dry-run`, which asks the same.

use serde_json::{Value, json};

use crate::contract::contract;
use crate::daemon::Daemon;

const PAIR: &str = "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
                    [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n";

fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_need_becomes_contracts_within_eighty_columns() {
    let need = "for video 8Mbit/s 25fps peak 4x latency 100ms ts";
    let output = contract(&words(need));
    let shown = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{shown}");
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let heads: Vec<_> = shown
        .lines()
        .filter(|line| !line.starts_with(' '))
        .collect();
    let whose = "assumed: the documented defaults, as no server runs";
    assert_eq!(
        heads,
        ["steady", "", "bursty", "", "best effort", "", whose]
    );
    let quoted = contract(&["for", "video 8 Mbps 25 fps", "4x ts latency 100ms"]);
    assert_eq!(String::from_utf8(quoted.stdout).expect("text"), shown);
    // The time of the adapters and of the reader is part of the latency.
    let output = contract(&words(&format!("{need} --json")));
    let answer = json_of(&String::from_utf8(output.stdout).expect("text"));
    let steady = &answer["contracts"][0];
    let ns = |path: &str| steady.pointer(path).and_then(Value::as_u64).expect(path);
    let all = ns("/way_ns")
        + ns("/bound/transmit/others_ns")
        + ns("/bound/transmit/rest_ns")
        + ns("/bound/receive/delay_ns")
        - ns("/bound/receive/stall_ns");
    assert!((99_900_000..=100_000_000).contains(&all), "{all}");
    assert_eq!(steady["ends"][0]["fits"], Value::Null);
}

#[test]
fn a_need_that_cannot_be_read_or_kept_says_what_is_missing() {
    for (need, says) in [
        ("for", "expected what is to be sent: video"),
        ("for video 25fps", "a rate is missing, as 8Mbit/s"),
        ("for video 8Mbit/s 25fps 9Mbit/s", "a rate was said before"),
        ("for voice 64kbit/s 20ms latency 5ms", "take 10.96"),
        ("for vidoe 8Mbit/s 25fps", "did you mean video?"),
        ("for voice 64kbit/s 20ms on", "followed by an interface"),
        ("ubr here", "`on INTERFACE` alone is known"),
    ] {
        let output = contract(&words(need));
        let said = String::from_utf8(output.stderr).expect("text");
        let says = says.replace("take 10.96", "take 10972606ns of it");
        assert!(said.contains(&says), "{need}: {said}");
        assert_eq!(output.status.code(), Some(2), "{need}");
        assert_eq!(output.stdout, b"", "{need}");
    }
    let output = contract(&["video 8Mbps 25fps"]);
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(
        said.contains("`cellgate contract for video 8Mbps 25fps`?"),
        "{said}"
    );
    let output = contract(&["for", "video", "25fps", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let error = &json_of(&String::from_utf8(output.stdout).expect("text"))["error"];
    assert_eq!(error["at_octet"], 11);
}

#[test]
fn on_an_interface_the_daemon_says_whether_there_is_room() {
    let daemon = Daemon::start_told(PAIR);
    let before = daemon.ok(&["stats", "--json"]);
    let ask = |need: &str| {
        let shown = daemon.ok(&words(&format!("contract for {need} on a --json")));
        json_of(&shown)["contracts"]
            .as_array()
            .expect("contracts")
            .clone()
    };
    let all = ask("video 2Mbit/s 25fps peak 4x");
    let manners: Vec<_> = all.iter().map(|one| one["manner"].clone()).collect();
    assert_eq!(manners, ["steady", "bursty", "best_effort"]);
    for one in &all {
        let ends = one["ends"].as_array().expect("ends");
        assert_eq!(ends.len(), 2, "one sends, one receives: {one}");
        for end in ends {
            assert_eq!(end["fits"], true, "{end}");
            assert!(end["memory_octets"].as_u64() > Some(0), "{end}");
            // It is opened under it, at once and as was said.
            let contract = end["contract"].as_str().expect("a contract");
            let added = ["vc", "add", "a.0.100", "contract", contract];
            daemon.ok(&added);
            let listed = json_of(&daemon.ok(&["vc", "show", "a.0.100", "--json"]));
            let info = &listed["connections"][0];
            assert_eq!(info["memory"], end["memory_octets"], "{contract}");
            assert_eq!(
                info["cpu_reserved_ppm"], end["cpu_reserved_ppm"],
                "{contract}"
            );
            daemon.ok(&["vc", "del", "a.0.100"]);
        }
        let commands = one["commands"].as_array().expect("commands");
        let says = |word: &str| {
            commands
                .iter()
                .any(|one| one.as_str().is_some_and(|one| one.contains(word)))
        };
        assert!(
            says("send --vc a.0.100 ") && says("recv --vc b.0.100 "),
            "{commands:?}"
        );
    }
    let too_much = ask("ip 300Mbit/s mtu 1500");
    let [end] = &too_much[0]["ends"].as_array().expect("ends")[..] else {
        panic!("a device has one connection: {}", too_much[0]);
    };
    assert_eq!(end["fits"], false);
    let refused = end["refused"].as_str().expect("why");
    assert!(
        refused.contains("800000 cells/s (307.2 Mbit/s) needed"),
        "{refused}"
    );
    assert!(
        end["offer"]
            .as_str()
            .is_some_and(|offer| offer.starts_with("cbr,aal5:pcr="))
    );
    // Of any contract the same is said.
    let one = daemon.ok(&words(
        "contract cbr,aal5:pcr=8Mbit/s,max_sdu=1496 on a --json",
    ));
    assert_eq!(json_of(&one)["ends"][0]["fits"], true);
    let after = daemon.ok(&["stats", "--json"]);
    let reserved = |text: &str| -> Vec<Value> {
        let json = json_of(text);
        let resources = json["resources"].as_array().expect("resources");
        resources
            .iter()
            .map(|one| one["reserved"].clone())
            .collect()
    };
    assert_eq!(reserved(&before), reserved(&after));
}

#[test]
fn a_dry_run_reserves_nothing_and_is_refused_as_the_real_one() {
    let daemon = Daemon::start_told(PAIR);
    let fits = words("vc add a.0.40 contract cbr,aal5:pcr=8Mbit/s,max_sdu=1496 --dry-run");
    let shown = daemon.ok(&fits);
    assert!(
        shown.contains("it would be opened; nothing was reserved"),
        "{shown}"
    );
    daemon.fails(1, &["vc", "show", "a.0.40"]);
    let tried = json_of(&daemon.ok(&[&fits[..], &["--json"]].concat()));
    let guaranteed = json!({ "guaranteed": 20_833, "best_effort": 0 });
    assert_eq!(tried["demand"]["transmit"], guaranteed);
    let too_much = words("vc add a.0.40 contract cbr,aal5:pcr=1000000,max_sdu=1496");
    let refused = daemon.fails(3, &too_much);
    assert_eq!(
        daemon.fails(3, &[&too_much[..], &["--dry-run"]].concat()),
        refused
    );
    assert!(
        refused.contains("Mbit/s)") && refused.contains("tells who has it"),
        "{refused}"
    );
    daemon.ok(&fits[..fits.len() - 1]);
    let refused = daemon.fails(1, &fits);
    assert!(refused.contains("the address is in use"), "{refused}");
}
