//! The commands that talk to a daemon, before a daemon: `cellgate serve` with two interfaces that
//! are each other's peer, in a directory of its own, by whichever user runs the tests.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, ends, octets, stderr, stdout};
use cellgate_host::client::Control;
use rustix::fs::Mode;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

/// What `a` sends and `b` receives under it. An address receives on one of an adapter's interfaces.
const CONTRACT: &str = "cbr,aal5:pcr=80Mbps,max_sdu=8192";

fn daemon() -> Daemon {
    Daemon::start_told(
        "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
         [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n",
    )
}

#[test]
fn connections_are_added_shown_changed_and_deleted() {
    let daemon = daemon();
    let contract = "cbr,aal5:pcr=1000,max_sdu=100";
    let added = daemon.ok(&[
        "vc",
        "add",
        "a.0.40",
        "contract",
        "cbr,aal5:max_sdu=100,pcr=1000",
    ]);
    assert_eq!(added, format!("a.0.40 contract {contract}\n"));
    let words = ["contract", "ubr,aal5:max_sdu=9", "--json"];
    let added: Value =
        serde_json::from_str(&daemon.ok(&[&["vc", "add", "a.0.41"], &words[..]].concat())).unwrap();
    assert_eq!(added["contract"], "ubr,aal5:max_sdu=9");
    daemon.ok(&["vc", "del", "a.0.41"]);
    // More than there is, told to a program.
    let words = ["contract", "cbr,aal5:pcr=90000000,max_sdu=9180", "--json"];
    let refused = daemon.run(&[&["vc", "add", "a.0.41"], &words[..]].concat());
    assert_eq!(refused.status.code(), Some(3));
    let told: Value = serde_json::from_slice(&refused.stdout).unwrap();
    let shortage = &told["refused"]["admission"];
    assert!(
        shortage["needed"].as_u64() > shortage["free"].as_u64(),
        "{told}"
    );
    let listed = daemon.ok(&["vc", "show"]);
    assert!(
        listed
            .lines()
            .any(|line| line.contains("a.0.40") && line.ends_with(contract))
    );
    assert!(daemon.ok(&["vc", "show", "a.0.40"]).contains("guaranteed"));
    let contract = "cbr,aal5:pcr=2000,max_sdu=100";
    daemon.ok(&["vc", "set", "a.0.40", "contract", contract]);
    let shown: Value = serde_json::from_str(&daemon.ok(&["vc", "show", "--json"])).unwrap();
    assert_eq!(shown["connections"][0]["transmit"]["cell_s"], 2_000);
    assert_eq!(shown["connections"].as_array().unwrap().len(), 1);
    daemon.ok(&["vc", "del", "a.0.40"]);
    assert_eq!(daemon.ok(&["vc", "show"]).lines().count(), 1);
}

#[test]
fn interfaces_are_added_shown_and_deleted() {
    let daemon = daemon();
    daemon.ok(&[
        "itf", "add", "loop", "type", "memory", "peer", "loop", "rate", "1000",
    ]);
    let text = "type udp local 127.77.1.1:6635 peer 127.0.0.1:9 label 100:101";
    let words: Vec<&str> = text.split(' ').collect();
    daemon.ok(&[&["itf", "add", "wan"], &words[..]].concat());
    let shown: Value = serde_json::from_str(&daemon.ok(&["itf", "show", "--json"])).unwrap();
    let names = shown["interfaces"].as_array().unwrap().iter();
    let names: Vec<_> = names
        .map(|info| info["spec"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(daemon.ok(&["itf", "show", "wan"]).contains("label 100:101"));
    let text = "type udp local 127.77.1.2:6635 peer 127.0.0.1:9 label 102 mode vcc@0.41";
    let words: Vec<&str> = text.split(' ').collect();
    daemon.ok(&[&["itf", "add", "one"], &words[..]].concat());
    assert!(daemon.ok(&["itf", "show", "one"]).contains("mode vcc@0.41"));
    let other = daemon.fails(1, &["vc", "add", "one.0.40", "contract", "ubr,aal5"]);
    assert!(other.contains("carries vcc@0.41 alone"), "{other}");
    daemon.ok(&["vc", "add", "one.0.41", "contract", "ubr,aal5"]);
    daemon.ok(&["vc", "del", "one.0.41"]);
    daemon.ok(&["itf", "del", "one"]);
    daemon.ok(&["vc", "add", "loop.0.40", "contract", "ubr,aal5"]);
    let held = daemon.fails(1, &["itf", "del", "loop"]);
    assert!(!held.is_empty());
    daemon.ok(&["vc", "del", "loop.0.40"]);
    daemon.ok(&["itf", "del", "loop"]);
    daemon.fails(1, &["itf", "show", "loop"]);
}

#[test]
fn exit_codes_tell_kinds_of_failure_apart() {
    let daemon = daemon();
    let tell = |exit: i32, arguments: &str, says: &str| {
        let mut words: Vec<&str> = arguments.split(' ').collect();
        if words[0] == "send" && !words.contains(&"--vc") {
            words.extend(["--vc", "a.0.40"]);
        }
        let error = daemon.fails(exit, &words);
        assert!(error.contains(says), "{arguments:?}: {error}");
    };
    let cases = [
        (2, "vc add 0.40", "not provided:\n  contract <TEXT>"),
        (2, "vc add a.0.40 contract cbr,aal5:pcr", "at octet 9"),
        (
            2,
            "vc add a.0.40 contract ubr pcr 5",
            "unexpected argument 'pcr'",
        ),
        (2, "vc add a.40 contract ubr", "no address"),
        (2, "vc add", "Usage"),
        (2, "itf add x type tin", "memory, udp"),
        (
            2,
            "itf add x type udp local ::1 peer ::1 label 16 pack 0",
            "`pack 0`: expected 1 to 65535",
        ),
        (2, "send --block 0", "0 octets"),
        (2, "send --contract cbr,aal5:pcr", "cellgate contract"),
        (2, "send --contract ubr,aal5:tx:none", "sends nothing"),
        (2, "recv --timeout 0", "seconds"),
        (2, "perf -c a.0.65535", "--report-vc"),
        (2, "perf", "--server"),
        (2, "ping here", "expected [interface.]"),
        (
            3,
            "vc add a.0.40 contract cbr,aal5:pcr=1000000,max_sdu=100",
            "this would fit: cbr",
        ),
        (1, "vc add c.0.40 contract ubr", "itf show"),
        (2, "vc add 0.40 contract ubr", "name one of: a, b"),
        (1, "vc del a.0.40", "vc show"),
        (1, "vc show a.0.40", "no connection has"),
        (1, "itf del c", "itf show"),
        (1, "send /nonexistent", "/nonexistent"),
        (1, "config check /nonexistent", "/nonexistent"),
    ];
    std::thread::scope(|scope| {
        // It asks for a while, at an address that no other has.
        scope.spawn(|| tell(1, "perf -c a.0.50 -t 1", "cellgate perf -s"));
        for (exit, arguments, says) in cases {
            tell(exit, arguments, says);
        }
    });
    let nowhere = ["vc", "show", "--socket", "/nonexistent"];
    let error = daemon.fails(4, &nowhere);
    assert!(error.contains("cellgate serve"), "{error}");
}

#[test]
fn a_file_arrives_as_it_was_sent() {
    let daemon = daemon();
    let (file, copy) = (daemon.path("file"), daemon.path("copy"));
    // Twice what may wait at the reader.
    let sent = octets(8_000_000);
    fs::write(&file, &sent).unwrap();
    // A reader that this machine stops for longer than its buffer lasts loses PDUs, and says so.
    for _ in 0..3 {
        let mut recv = ["recv", "--vc", "b.0.40", "--verify", "--contract", CONTRACT].to_vec();
        recv.extend(["--timeout", "5", "-o", copy.to_str().unwrap()]);
        let receiver = daemon.begin(&recv, "receiving on b.0.40");
        let mut send = ["send", "--vc", "a.0.40", "--verify", "--contract", CONTRACT].to_vec();
        send.push(file.to_str().unwrap());
        daemon.ok(&send);
        let (code, said) = receiver.end();
        if code == 0 {
            assert!(fs::read(&copy).unwrap() == sent, "other octets");
            return;
        }
        assert!(code == 1 && said.contains("missing"), "{said}");
        println!("void: {said}");
    }
    panic!("three times, PDUs were missing");
}

#[test]
fn what_standard_input_has_arrives_on_standard_output() {
    let daemon = daemon();
    let sent = octets(100_000);
    for block in [&[][..], &["--block", "333"]] {
        let recv = ["recv", "--vc", "b.0.40", "--verify", "--contract", CONTRACT];
        let receiver = daemon.begin(&recv, "receiving");
        let send = ["send", "--vc", "a.0.40", "--verify", "--contract", CONTRACT];
        daemon.feed(&[&send[..], block].concat(), &sent);
        assert_eq!(receiver.stdout(), sent);
    }
}

#[test]
fn a_file_without_a_size_is_sent_to_its_end() {
    let daemon = daemon();
    // Linux says that it has 0 octets.
    let file = "/proc/sys/kernel/ostype";
    let sent = fs::read(file).unwrap();
    assert_eq!(fs::metadata(file).unwrap().len(), 0);
    let all = sent.len().to_string();
    for block in ["4", &all, "8000"] {
        let recv = ["recv", "--vc", "b.0.40", "--verify", "--contract", CONTRACT];
        let receiver = daemon.begin(&recv, "receiving");
        let send = ["send", "--vc", "a.0.40", "--verify", "--contract", CONTRACT];
        daemon.ok(&[&send[..], &["--block", block, file]].concat());
        assert_eq!(receiver.stdout(), sent, "blocks of {block}");
    }
}

#[test]
fn lines_arrive_as_lines() {
    let daemon = daemon();
    let text = "one\n\n  three\nthe last has no end";
    let recv = [
        "recv",
        "--vc",
        "b.0.40",
        "--count",
        "4",
        "--contract",
        CONTRACT,
    ];
    let receiver = daemon.begin(&recv, "receiving");
    let send = ["send", "--vc", "a.0.40", "--line", "--contract", CONTRACT];
    daemon.feed(&send, text.as_bytes());
    assert_eq!(receiver.stdout(), text.as_bytes());
    let receiver = daemon.begin(&[&recv[..], &["--line"]].concat(), "receiving");
    daemon.feed(&send, text.as_bytes());
    assert_eq!(receiver.stdout(), format!("{text}\n").as_bytes());
    let long = "x".repeat(8_193);
    let said = daemon.feed_fails(&send, format!("short\n{long}").as_bytes());
    assert!(said.contains("line 2 does not fit"), "{said}");
}

#[test]
fn on_aal0_cells_are_sent_and_nothing_else() {
    let daemon = daemon();
    let contract = "ubr,aal0";
    let recv = [
        "recv",
        "--vc",
        "b.0.41",
        "--count",
        "2",
        "--contract",
        contract,
    ];
    let receiver = daemon.begin(&recv, "receiving");
    let send = ["send", "--vc", "a.0.41", "--contract", contract];
    let cells: Vec<u8> = (0..104).collect();
    daemon.feed(&send, &cells);
    let received = receiver.stdout();
    assert_eq!(received.len(), 104);
    assert_eq!(&received[4..52], &cells[4..52], "a header, and the payload");
    assert_eq!(&received[56..], &cells[56..]);
    let said = daemon.feed_fails(&send, &cells[..100]);
    assert!(said.contains("a cell of 52 octets"), "{said}");
    let said = daemon.fails(2, &[&send[..], &["--verify"]].concat());
    assert!(said.contains("--verify"), "{said}");
}

#[test]
fn pdus_that_are_missing_are_named() {
    let daemon = daemon();
    let slow = "cbr,aal5:pcr=4Mbps,max_sdu=8192";
    let recv = [
        "recv",
        "--vc",
        "b.0.40",
        "--verify",
        "--contract",
        slow,
        "--timeout",
        "1",
    ];
    let receiver = daemon.begin(&recv, "receiving");
    let send = ["send", "--vc", "a.0.40", "--verify", "--contract", CONTRACT];
    daemon.feed(&send, &octets(2_000_000));
    let (code, said) = receiver.end();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("PDUs are missing: "), "{said}");
}

/// Permanent connections from `a` to `b`.
fn permanent(daemon: &Daemon) {
    let parameters = "pcr=200000,max_sdu=8192";
    for (address, directions) in [
        ("a.0.40", format!("tx:{parameters},rx:none")),
        ("b.0.40", format!("tx:none,rx:{parameters}")),
    ] {
        let contract = format!("cbr,aal5:{directions}");
        daemon.ok(&["vc", "add", address, "contract", &contract]);
    }
}

#[test]
fn a_permanent_connection_is_taken_and_given_back() {
    let daemon = daemon();
    permanent(&daemon);
    for _ in 0..2 {
        let recv = ["recv", "--vc", "b.0.40", "--take", "--count", "1"];
        let receiver = daemon.begin(&recv, "receiving");
        daemon.feed(&["send", "--vc", "a.0.40", "--take"], b"an SDU");
        assert_eq!(receiver.stdout(), b"an SDU");
    }
    assert_eq!(daemon.ok(&["vc", "show"]).matches("permanent").count(), 2);
}

#[test]
fn perf_prints_what_was_sent_and_what_became_of_it() {
    let daemon = daemon();
    let serve = ["perf", "-s", "-1", "--vc", "b.0.40", "--contract", CONTRACT];
    let server = daemon.begin(&serve, "serving on b.0.40");
    let client = [
        "perf", "-c", "a.0.40", "-t", "1", "-b", "10M", "-l", "1000", "-i", "0.5",
    ];
    let printed = daemon.ok(&[&client[..], &["--json", "--contract", CONTRACT]].concat());
    let json: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(json["start"]["connecting_to"]["address"], "a.0.40");
    assert_eq!(json["start"]["test_start"]["blksize"], 1_000);
    let sums = |end: &str, key: &str| json["end"][end][key].as_u64().unwrap();
    let intervals = json["intervals"].as_array().unwrap().iter();
    let bytes: u64 = intervals
        .map(|part| part["sum"]["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(bytes, sums("sum_sent", "bytes"));
    let (sent, received) = (sums("sum_sent", "packets"), sums("sum_received", "packets"));
    assert_eq!(json["atm"]["pdus_lost"], sent - received);
    assert!(sent > 0 && sent <= 1_251, "{sent}");
    assert!(sums("sum_sent", "sdu_bit_s") <= 10_010_000);
    let delay = &json["atm"]["delay_ns"];
    let [p50, p99, max] = ["p50", "p99", "max"].map(|key| delay[key].as_u64().unwrap());
    assert!(0 < p50 && p50 <= p99 && p99 <= max, "{delay}");
    let jitter = &json["atm"]["jitter_ns"];
    let [p50, p99, max] = ["p50", "p99", "max"].map(|key| jitter[key].as_u64().unwrap());
    assert!(0 < p50 && p50 <= p99 && p99 <= max, "{jitter}");
    assert!(jitter["rfc3550"].as_u64().unwrap() <= max, "{jitter}");
    let said = String::from_utf8(server.stdout()).unwrap();
    assert!(
        said.contains(&format!("received  {received} PDUs")),
        "{said}"
    );
}

/// An adapter that is stopped for so long cannot keep a contract.
#[test]
fn perf_fails_where_a_contract_was_missed_and_says_how_the_adapters_ran() {
    let daemon = daemon();
    let contract = "cbr,aal5:pcr=8Mbps,max_sdu=1000";
    let mut control = Control::at(&daemon.path("state/adapter.sock")).expect("it listens");
    let adapter = Pid::from_raw(control.hello().pid.cast_signed()).expect("a process");
    // Two at once, of two addresses each: people and programs are told of the same pause.
    let begin = |vci: &str, json: &[&str]| {
        let [from, to] = ["a", "b"].map(|interface| format!("{interface}.0.{vci}"));
        let serve = ["perf", "-s", "-1", "--vc", &to, "--contract", contract];
        let server = daemon.begin(&serve, &format!("serving on {to}"));
        let words = ["perf", "-c", &from, "-t", "2.5", "--contract", contract];
        let mut client = daemon.command(&[&words[..], json].concat());
        let client = client.stdout(Stdio::piped()).spawn().expect("it starts");
        (client, server)
    };
    let pairs = [begin("40", &[]), begin("42", &["--json"])];
    // Both are under way.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut carried = |vci: u16| {
        let state = control.enumerate().expect("it answers");
        let of = state
            .vcs
            .iter()
            .filter(|vc| vc.request.address.vci() == vci);
        of.map(|vc| vc.stats.pdus_delivered).sum::<u64>()
    };
    while [40, 42].iter().any(|&vci| carried(vci) < 100) {
        assert!(Instant::now() < deadline, "nothing is sent");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(adapter, Signal::STOP).expect("it runs");
    std::thread::sleep(Duration::from_millis(1_500));
    kill_process(adapter, Signal::CONT).expect("it is there");
    let [text, json] = pairs.map(|(client, server)| {
        let output = client.wait_with_output().expect("it ends");
        let told = String::from_utf8(output.stdout).expect("text");
        assert_eq!(output.status.code(), Some(1), "{told}");
        server.stdout();
        told
    });
    for part in [
        "contract  missed: ",
        "at this end the adapter stood still ",
        "at the other end the adapter stood still ",
        "(30.0 ms at a time are allowed for)",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let told: Value = serde_json::from_str(&json).expect("JSON");
    let told = &told["contract"];
    assert_eq!(told["kept"], false);
    let stood_ns = |end: &str| told["adapters"][end]["gaps_total_ns"].as_u64();
    assert!(stood_ns("here") >= Some(1_400_000_000), "{told}");
    assert!(stood_ns("there") >= Some(1_000_000_000), "{told}");
}

#[test]
fn who_may_make_no_network_device_hears_what_it_takes() {
    const NAME: &str = "tun_refused";
    if !Path::new("/dev/net/tun").exists() {
        return println!("skipped {NAME}: there is no /dev/net/tun");
    }
    let daemon = daemon();
    let binary = env!("CARGO_BIN_EXE_cellgate");
    // Root keeps what its bounding set has.
    let mut command = match geteuid().is_root() {
        true => Command::new("setpriv"),
        false => Command::new(binary),
    };
    if geteuid().is_root() {
        command.args(["--bounding-set=-net_admin", binary]);
    }
    let words = "tun add cg0 vc a.0.40 encap ipoa-llcsnap";
    command
        .args(words.split(' '))
        .env("CELLGATE_SOCKET", daemon.socket());
    let refused = match command.output() {
        Ok(refused) => refused,
        Err(error) => return println!("skipped {NAME}: {error}"),
    };
    let said = stderr(&refused);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    for part in [
        "CAP_NET_ADMIN",
        "ip tuntap add cg0 mode tun user",
        "(os error ",
    ] {
        assert!(said.contains(part), "{said}");
    }
    println!("ran {NAME}");
}

/// What `itf show NAME --json` says when `is_there` says so of it.
fn shown_of(daemon: &Daemon, name: &str, is_there: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let text = daemon.ok(&["itf", "show", name, "--json"]);
        let shown: Value = serde_json::from_str(&text).unwrap();
        let of = &shown["interfaces"][0];
        if is_there(of) {
            return of.clone();
        }
        assert!(Instant::now() < deadline, "{of}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_nobody_receives_and_nobody_takes_is_counted_by_interface() {
    let daemon = daemon();
    let sdu = daemon.path("sdu");
    fs::write(&sdu, [7; 1_000]).unwrap();
    let sdu = sdu.to_str().unwrap();
    // Nobody receives 0.60 at `b`.
    daemon.ok(&["send", "--vc", "a.0.60", sdu]);
    let is_seen = |of: &Value| of["counts"]["cells"]["unknown_vc"].as_u64() > Some(20);
    let shown = shown_of(&daemon, "b", is_seen);
    assert_eq!(shown["counts"]["cells"]["last_unknown"], "0.60");
    assert!(daemon.ok(&["itf", "show", "b"]).contains("unknown_vc: 2"));
    let scraped = daemon.ok(&["stats", "--openmetrics"]);
    let line = "cellgate_interface_discarded_cells_total{interface=\"b\",reason=\"unknown_vc\"} 2";
    assert!(scraped.contains(line), "{scraped}");
    // A way out that the kernel refuses.
    let words = "type udp local 127.77.2.1:6635 peer 203.0.113.9:6635 label 100:101 mtu 1500";
    let words: Vec<&str> = words.split(' ').collect();
    daemon.ok(&[&["itf", "add", "wan"], &words[..]].concat());
    let no_peer = shown_of(&daemon, "wan", |of| of["state"]["no_peer"].is_object());
    assert_eq!(no_peer["state"]["no_peer"]["silent_ns"], Value::Null);
    daemon.ok(&["send", "--vc", "wan.0.60", sdu]);
    let cannot = shown_of(&daemon, "wan", |of| of["state"]["cannot_send"].is_object());
    assert!(
        !cannot["counts"]["datagrams"]["refused"]
            .as_object()
            .unwrap()
            .is_empty()
    );
    assert!(daemon.ok(&["itf", "show", "wan"]).contains("cannot send: "));
    // What cannot be is not made.
    for at in ["127.77.2.1:0", "127.77.2.1:6635"] {
        let words = format!("type udp local {at} peer 127.0.0.1:9 label 102:103");
        let words: Vec<&str> = words.split(' ').collect();
        daemon.fails(1, &[&["itf", "add", "other"], &words[..]].concat());
    }
}

#[test]
fn busy_interfaces_and_addresses_are_told_with_what_to_do() {
    let daemon = daemon();
    daemon.ok(&["vc", "add", "a.0.40", "contract", "ubr,aal5"]);
    let said = daemon.fails(1, &["itf", "del", "a"]);
    assert!(
        said.contains("has connections, 1:") && said.contains("vc show"),
        "{said}"
    );
    let said = daemon.fails(1, &["vc", "add", "a.0.40", "contract", "ubr,aal5"]);
    assert!(said.contains("joined, as a.0.100 and b.0.100"), "{said}");
}

#[test]
fn ping_tells_what_comes_back() {
    let daemon = daemon();
    daemon.ok(&["itf", "add", "loop", "type", "memory", "peer", "loop"]);
    for address in ["loop.0.40", "a.0.41"] {
        daemon.ok(&["vc", "add", address, "contract", "ubr,aal5"]);
    }
    for flow in [
        &["--flow", "f5"][..],
        &["--flow", "f5", "--seg"],
        &["--flow", "f4"],
        &["--flow", "f4", "--seg"],
    ] {
        let ping = ["ping", "loop.0.40", "-c", "2", "-i", "0.01", "-W", "5"];
        let printed = daemon.ok(&[&ping[..], flow].concat());
        assert!(
            printed.contains("2 cells sent, 2 returned, 0.0 % lost"),
            "{printed}"
        );
        assert_eq!(
            printed.matches(" back from loop.0.40 in ").count(),
            2,
            "{printed}"
        );
    }
    let printed = daemon.run(&["ping", "a.0.41", "-c", "1", "-W", "0.2", "--json"]);
    assert_eq!(printed.status.code(), Some(1));
    let json: Value = serde_json::from_str(&stdout(&printed)).unwrap();
    assert_eq!(
        (&json["cells_sent"], &json["cells_returned"]),
        (&1.into(), &0.into())
    );
    for (exit, address, says) in [
        (1, "a.0.42", "vc show"),
        (2, "0.40", "name one of: a, b, loop"),
    ] {
        let refused = daemon.run(&["ping", address, "-c", "1"]);
        assert_eq!(refused.status.code(), Some(exit), "{address}");
        assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
        assert_eq!(stdout(&refused), "");
    }
}

#[test]
fn counters_are_shown_to_people_and_scrapers() {
    let daemon = daemon();
    permanent(&daemon);
    daemon.feed(
        &["send", "--vc", "a.0.40", "--take", "--block", "100"],
        &octets(700),
    );
    let sample = "cellgate_connection_transmitted_pdus_total{number=\"1\",address=\"a.0.40\",";
    let sent = |text: &str| {
        let line = text.lines().find(|line| line.starts_with(sample));
        let line = line.unwrap_or_else(|| panic!("{text}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    // The daemon looks at the adapter's counters now and then.
    let text = (0..100)
        .map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            daemon.ok(&["stats", "--openmetrics"])
        })
        .find(|text| sent(text) == 7.0)
        .expect("seven PDUs sent within five seconds");
    assert!(text.ends_with("\n# EOF\n"));
    assert!(daemon.ok(&["stats"]).contains("transmit bandwidth"));
    let json: Value = serde_json::from_str(&daemon.ok(&["stats", "--json"])).unwrap();
    assert_eq!(json["connections"][0]["stats"]["pdus_transmitted"], 7);
    assert_eq!(json["interfaces"].as_array().unwrap().len(), 2);
    assert!(json["adapters"][0]["cpu_ns"].as_u64() > Some(0), "{json}");
}

#[test]
fn top_reads_what_the_server_shows() {
    let daemon = daemon();
    permanent(&daemon);
    daemon.feed(
        &["send", "--vc", "a.0.40", "--take", "--block", "100"],
        &octets(700),
    );
    let shown = (0..100).find_map(|_| {
        let text = daemon.ok(&["top", "--once", "--json", "-i", "0.05"]);
        let json: Value = serde_json::from_str(&text).unwrap();
        let connections = json["connections"].as_array().unwrap();
        let found = connections.iter().find(|row| row["address"] == "a.0.40")?;
        (found["stats"]["pdus_transmitted"] == 7).then(|| found.clone())
    });
    let shown = shown.expect("seven PDUs sent, sooner or later");
    assert_eq!(
        (&shown["permanent"], &shown["guaranteed"]),
        (&true.into(), &true.into())
    );
    assert_eq!(shown["transmit_cell_s"], 200_000);
    let text = daemon.ok(&["top", "--once", "-i", "0.05"]);
    assert!(text.starts_with("2 connections over "), "{text}");
}

#[test]
fn what_is_saved_is_what_another_daemon_begins_with() {
    let mut daemon = daemon();
    daemon.ok(&[
        "itf", "add", "loop", "type", "memory", "peer", "loop", "rate", "1000",
    ]);
    daemon.ok(&["vc", "add", "loop.1.40", "contract", "ubr,aal5:max_sdu=100"]);
    daemon.ok(&[
        "vc",
        "add",
        "a.0.41",
        "contract",
        "cbr,aal5:pcr=1000,max_sdu=100",
    ]);
    let saved = daemon.ok(&["save"]);
    daemon.begin_again(&saved);
    assert_eq!(daemon.ok(&["save"]), saved);
    assert_eq!(daemon.ok(&["vc", "show"]).lines().count(), 3);
    // Without interfaces it is a configuration, too.
    for words in [["vc", "del", "loop.1.40"], ["vc", "del", "a.0.41"]] {
        daemon.ok(&words);
    }
    let _: [String; 3] = ["a", "b", "loop"].map(|name| daemon.ok(&["itf", "del", name]));
    let saved = daemon.ok(&["save"]);
    daemon.begin_again(&saved);
    assert_eq!(daemon.ok(&["save"]), saved);
    assert_eq!(daemon.ok(&["itf", "show"]).lines().count(), 1);
}

#[test]
fn what_is_shown_is_as_it_is_after_a_change() {
    let mut daemon = daemon();
    let path = daemon.path("cellgate.toml");
    let text = fs::read_to_string(&path).unwrap();
    let changed = "[quota]\nconnections = 77\n[adapter]\nports = 5\n";
    fs::write(&path, text + changed).unwrap();
    daemon.signal(Signal::HUP);
    let shown = daemon.ok(&["config", "show"]);
    assert!(shown.contains("\nconnections = 77\n"), "{shown}");
    assert!(
        shown.contains("\nports = 16\n"),
        "that takes a restart: {shown}"
    );
    // A successor has the adapter that there is.
    daemon.kill();
    daemon.succeed();
    let until = Instant::now() + Duration::from_secs(60);
    let shown = loop {
        let output = daemon.run(&["config", "show"]);
        if output.status.success() {
            break stdout(&output);
        }
        assert!(Instant::now() < until, "{}", stderr(&output));
    };
    assert!(shown.contains("\nports = 16\n"), "{shown}");
}

#[test]
fn a_configuration_without_an_end_is_not_waited_for() {
    let daemon = daemon();
    let path = daemon.path("cellgate.toml");
    let fifo = |path: &Path| {
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, Mode::RUSR | Mode::WUSR, 0).unwrap();
    };
    let endless = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    for make in [&fifo as &dyn Fn(&Path), &endless] {
        fs::remove_file(&path).unwrap();
        make(&path);
        daemon.signal(Signal::HUP);
        assert_eq!(daemon.ok(&["itf", "show"]).lines().count(), 3);
    }
}

#[test]
fn a_monitor_hears_of_what_comes_and_goes() {
    let mut daemon = daemon();
    let monitor = |words: &[&str]| {
        let mut monitor = daemon.command(words);
        let mut monitor = monitor.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(monitor.stdout.take().unwrap()).lines();
        // The reader stays: a monitor without one ends.
        let heard = std::thread::spawn(move || {
            let heard: Vec<_> = lines.by_ref().take(3).map(Result::unwrap).collect();
            (heard, lines)
        });
        (monitor, heard)
    };
    let (text, in_words) = monitor(&["vc", "monitor"]);
    let (json, in_json) = monitor(&["vc", "monitor", "--json"]);
    // They hear nothing of what was before they listen.
    for _ in 0..1_000 {
        daemon.ok(&["vc", "add", "a.0.40", "contract", "ubr,aal5"]);
        daemon.ok(&["vc", "del", "a.0.40"]);
        if in_words.is_finished() && in_json.is_finished() {
            break;
        }
    }
    let (in_words, _words) = in_words.join().unwrap();
    let (in_json, _json) = in_json.join().unwrap();
    let in_json: Vec<_> = in_json
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|told| told["connection"].clone())
        .collect();
    let account = "slots to send: 0 with cells of CLP 0, 0 of CLP 1, 0 unoccupied; to receive: 0 ";
    for (verb, more) in [("added", "its share to send "), ("removed", account)] {
        let line = format!("vc {verb} a.0.40 contract ubr,aal5, {more}");
        assert!(
            in_words.iter().any(|told| told.starts_with(&line)),
            "{line}: {in_words:?}"
        );
        let told = in_json.iter().find(|told| told["change"] == verb);
        let info = &told.unwrap_or_else(|| panic!("{in_json:?}"))["info"];
        assert_eq!(
            (&info["address"], &info["permanent"]),
            (&"a.0.40".into(), &true.into())
        );
    }
    daemon.end();
    for mut monitor in [text, json] {
        assert_eq!(ends(&mut monitor).unwrap().code(), Some(1));
    }
}

#[test]
fn top_shows_table_after_table_until_it_ends() {
    let mut daemon = daemon();
    let quick = ["top", "-i", "0.01"];
    let tables = daemon.ok(&[&quick[..], &["--json", "-n", "3"]].concat());
    assert_eq!(tables.lines().count(), 3, "{tables}");
    for line in tables.lines() {
        let table: Value = serde_json::from_str(line).unwrap();
        assert!(table["connections"].is_array(), "{line}");
    }
    let tables = daemon.ok(&[&quick[..], &["-n", "2"]].concat());
    assert_eq!(tables.matches(" connections over ").count(), 2, "{tables}");
    let begin = || {
        let mut top = daemon.command(&quick);
        let mut top = top
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().contains("connections over"));
        (top, lines)
    };
    let (mut unread, lines) = begin();
    drop(lines);
    let code = ends(&mut unread).expect("nobody reads it").code();
    assert_eq!(code, Some(0));
    let (mut last, lines) = begin();
    // What it prints must not wait for somebody who does not read.
    let read = std::thread::spawn(|| lines.count());
    daemon.end();
    ends(&mut last).expect("the daemon has ended");
    let last = last.wait_with_output().unwrap();
    assert_eq!(last.status.code(), Some(1));
    assert!(stderr(&last).contains("the server has hung up"), "{last:?}");
    read.join().unwrap();
}

#[test]
fn a_server_that_is_not_there_is_told_by_every_command() {
    let daemon = daemon();
    let gone = daemon.path("none");
    let socket = ["--socket", gone.to_str().unwrap()];
    for command in [
        &["vc", "show"][..],
        &["itf", "show"],
        &["stats"],
        &["save"],
        &["top", "--once"],
        &["send"],
        &["recv"],
        &["perf", "-s"],
        &["ping", "0.40"],
        &["config", "show"],
    ] {
        let output = daemon.run(&[command, &socket[..]].concat());
        assert_eq!(
            output.status.code(),
            Some(4),
            "{command:?}: {}",
            stderr(&output)
        );
    }
}
