//! Two hosts: a daemon in each of two network namespaces joined by a pair of virtual Ethernet
//! devices, a pseudowire over UDP between them. What the machine lacks is skipped, and said.
//!
//! The long form: `CELLGATE_FILES=20` transfers so many files, each of which must arrive as it is.
//! A run in which an adapter stood still for longer than it admits may lose PDUs: it says so, and
//! counts as none.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::daemon::{Daemon, alone, octets};
use crate::gaps::{TRIES, Watch, excuse, or_void};
use crate::iperf3;
use crate::netns::{Namespace, joined};
use cellgate::Admin;
use serde_json::Value;

pub(crate) const ADDRESSES: [&str; 2] = ["10.166.36.1", "10.166.36.2"];

/// Octets of the SDUs; 171 cells each.
const SDU: u64 = 8_192;

/// A daemon in each, started by these words, with the interface `wan` to the other.
pub(crate) fn daemons(namespaces: &[Namespace; 2], by: &[&str]) -> [Daemon; 2] {
    [0, 1].map(|side| {
        let words = [&["ip", "netns", "exec", &namespaces[side].0], by].concat();
        let contents = format!(
            "[adapter]\nmemory_max = 268435456\n\
             [[interface]]\nname = \"wan\"\n[interface.link.udp]\n\
             local = \"{}:6635\"\npeer = \"{}:6635\"\n\
             label_out = {}\nlabel_in = {}\nmtu = 1500\n",
            ADDRESSES[side],
            ADDRESSES[1 - side],
            100 + side,
            101 - side,
        );
        Daemon::start_by(&words, &contents, None)
    })
}

/// Why something is missing; it is a failure that neither adapter stood still.
fn explained(missing: &str, watches: [Watch; 2]) -> String {
    let excuse = excuse(watches).unwrap_or_else(|| panic!("{missing}, and both adapters ran"));
    format!("{missing}: {excuse}")
}

/// A run; why, if it was void: an adapter stood still so long that PDUs were lost, or the source
/// missed its rate.
fn perf(daemons: &[Daemon; 2], contract: &str, bit_s: u64) -> Result<Value, String> {
    let [left, right] = daemons;
    let watches = daemons.each_ref().map(Watch::begin);
    let serve = ["perf", "-s", "-1", "--contract", contract, "--json"];
    let server = right.begin(&serve, "serving on wan.0.100");
    let (rate, sdu) = (bit_s.to_string(), SDU.to_string());
    let client = [
        "perf",
        "-c",
        "wan.0.100",
        "-t",
        "2",
        "--json",
        "-b",
        &rate,
        "-l",
        &sdu,
    ];
    let output = left.run(&[&client[..], &["--contract", contract]].concat());
    server.stdout();
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let kept = json["contract"]["kept"]
        .as_bool()
        .expect("a rate is promised");
    assert_eq!(output.status.code(), Some(i32::from(!kept)), "{json}");
    let rate = |end: &str| {
        let rate = &json["end"][end]["sdu_bit_s"];
        rate.as_u64().expect("a rate")
    };
    let (sent, received) = (rate("sum_sent"), rate("sum_received"));
    println!("{contract}: {received} bit/s, {}", json["atm"]);
    let count = |key: &str| json["atm"][key].as_u64().expect("a count");
    let lost = count("pdus_lost");
    assert_eq!(count("pdus_received") + lost, count("pdus_sent"));
    assert_eq!(count("pdus_reordered"), 0);
    // Both ends read one clock.
    assert!(json["atm"]["delay_ns"]["p50"].is_u64());
    if lost > 0 {
        return Err(explained(&format!("{lost} PDUs lost"), watches));
    }
    if sent * 100 < bit_s * 98 {
        let slow = format!("{sent} of {bit_s} bit/s were sent");
        // A process that sleeps most of the time can be late, but not by half of it.
        return Err(match sent * 2 < bit_s {
            true => explained(&slow, watches),
            false => slow,
        });
    }
    if received * 10 < sent * 9 {
        let slow = format!("{received} of {sent} bit/s came");
        return Err(explained(&slow, watches));
    }
    if !kept {
        return Err(format!("the contract was missed: {}", json["contract"]));
    }
    Ok(json)
}

/// Whether octets that were sent are those that arrived; an error says what was missing, and why.
fn transfer(daemons: &[Daemon; 2], contract: &str) -> Result<(), String> {
    let [left, right] = daemons;
    let watches = daemons.each_ref().map(Watch::begin);
    let (file, copy) = (left.path("file"), right.path("copy"));
    let sent = octets(5_000_000);
    fs::write(&file, &sent).expect("a file");
    let copied = copy.to_str().expect("UTF-8");
    let recv = [
        "recv",
        "--verify",
        "--timeout",
        "5",
        "--contract",
        contract,
        "-o",
        copied,
    ];
    let receiver = right.begin(&recv, "receiving on wan.0.100");
    let send = [
        "send",
        "--verify",
        "--contract",
        contract,
        file.to_str().expect("UTF-8"),
    ];
    left.ok(&send);
    match receiver.end() {
        (0, _) => {
            assert!(fs::read(&copy).expect("a file") == sent, "other octets");
            Ok(())
        }
        (code, said) => {
            assert!(code == 1 && said.contains("missing"), "{said}");
            Err(explained(said.trim(), watches))
        }
    }
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn two_hosts_keep_their_contracts_over_udp() {
    let _alone = alone();
    let namespaces = match joined(["left", "right"], ADDRESSES) {
        Ok(namespaces) => namespaces,
        Err(reason) => {
            println!("skipped two_hosts: {reason}");
            println!("skipped two_hosts_iperf3: {reason}");
            return;
        }
    };
    let daemons = daemons(&namespaces, &[]);
    rates_and_files(&daemons);
    tcp(&daemons, &namespaces);
}

/// Blocks of a cell that `msna ping` reports lost are the cells that the line has lost.
#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn two_hosts_of_msna_lose_what_their_line_loses() {
    let _alone = alone();
    let namespaces = match joined(["msna-left", "msna-right"], ADDRESSES) {
        Ok(namespaces) => namespaces,
        Err(reason) => return println!("skipped two_hosts_msna: {reason}"),
    };
    let daemons = daemons(&namespaces, &[]);
    or_void(|| blocks_lost(&daemons)).expect("a run that is not void");
    println!("ran two_hosts_msna");
}

/// Counts blocks and cells that are lost, out and back; why, if an adapter stood still.
fn blocks_lost([left, right]: &[Daemon; 2]) -> Result<(), String> {
    let watches = [left, right].map(Watch::begin);
    let lost_cells = |daemon: &Daemon| {
        let all = Admin::at(daemon.socket()).and_then(|mut admin| admin.interfaces());
        let all = all.expect("the daemon is there");
        let lines = all.iter().filter_map(|itf| itf.counts.line);
        lines.map(|line| line.lost).sum::<u64>()
    };
    let serve = ["msna", "serve", "--host", "10.0.0.2"];
    let server = right.begin(&serve, "serving");
    left.ok(&["itf", "set", "wan", "line", "loss", "5%", "seed", "11"]);
    let ping = [
        "msna",
        "ping",
        "10.0.0.2:7",
        "-s",
        "46",
        "-c",
        "400",
        "-W",
        "0.2",
        "-J",
    ];
    let told: Value = serde_json::from_str(&left.ok(&ping)).expect("JSON");
    server.interrupt();
    let count = |key: &str| told[key].as_u64().expect("a count");
    assert_eq!(count("wrong"), 0, "{told}");
    assert_eq!(count("returned") + count("lost"), count("sent"), "{told}");
    assert!(count("lost") > 5, "{told}");
    let mut lost = 0;
    // The daemon asks its adapter now and then. This seed loses no cell of the call's answer.
    for _ in 0..100 {
        lost = lost_cells(left);
        if lost >= count("lost") {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    left.ok(&["itf", "set", "wan", "line", "clean"]);
    match lost == count("lost") {
        true => Ok(()),
        false => Err(explained(&format!("{lost} cells, {told}"), watches)),
    }
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn two_hosts_without_privilege_carry_a_rate_and_a_file_and_say_what_is_missing() {
    const NOBODY: [&str; 4] = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let _alone = alone();
    let namespaces = match joined(["plain-left", "plain-right"], ADDRESSES) {
        Ok(namespaces) => namespaces,
        Err(reason) => return println!("skipped two_hosts_plain: {reason}"),
    };
    let probe = Command::new(NOBODY[0])
        .args(&NOBODY[1..])
        .args([env!("CARGO_BIN_EXE_cellgate"), "--version"])
        .output();
    if !probe.as_ref().is_ok_and(|probe| probe.status.success()) {
        return println!("skipped two_hosts_plain: {probe:?}");
    }
    let daemons = daemons(&namespaces, &NOBODY);
    for daemon in &daemons {
        let admin = Admin::at(daemon.socket()).expect("the daemon is there");
        let notes = admin.server().notes.join("; ");
        for part in ["service: not nice -10", "not nice -20: ", "LimitNICE="] {
            assert!(notes.contains(part), "{notes}");
        }
        assert!(!notes.contains("os error"), "{notes}");
    }
    // So little that 30 ms of it wait in a socket's usual memory; twice as much is promised, for
    // nobody runs them before others.
    let bit_s = 10_000_000;
    let contract = format!("cbr,aal5:pcr={}cps,max_sdu={SDU}", cell_s(2 * bit_s));
    let carried = or_void(|| perf(&daemons, &contract, bit_s).map(|_| ()))
        .and_then(|()| or_void(|| transfer(&daemons, &contract)));
    match carried {
        Ok(()) => println!("ran two_hosts_plain"),
        Err(reason) => println!("void two_hosts_plain: {reason}"),
    }
}

/// Cells/s that carry so many SDU bit/s.
fn cell_s(bit_s: u64) -> u64 {
    let cells = SDU.div_ceil(48) + 1;
    (bit_s * cells).div_ceil(8 * SDU)
}

fn rates_and_files(daemons: &[Daemon; 2]) {
    for bit_s in [20_000_000_u64, 40_000_000, 80_000_000] {
        let pcr = cell_s(bit_s);
        let double = 2 * pcr;
        for contract in [
            format!("cbr,aal5:pcr={pcr}cps,max_sdu={SDU}"),
            format!("nrt-vbr,aal5:pcr={double}cps,scr={pcr}cps,mbs=1000,max_sdu={SDU}"),
        ] {
            let json = match or_void(|| perf(daemons, &contract, bit_s)) {
                Ok(json) => json,
                Err(reason) => return println!("void two_hosts: {contract}: {reason}"),
            };
            // No more than was asked for, and a PDU.
            let sent = json["end"]["sum_sent"]["bytes"].as_u64().expect("octets");
            assert!(sent <= bit_s / 8 * 2 + SDU, "{sent}");
        }
    }
    let contract = format!("cbr,aal5:pcr=100000cps,max_sdu={SDU}");
    let files = std::env::var("CELLGATE_FILES").map_or(1, |text| text.parse().expect("a number"));
    let (mut whole, mut void) = (0, 0);
    while whole < files {
        let Err(missing) = transfer(daemons, &contract) else {
            whole += 1;
            continue;
        };
        void += 1;
        println!("void run: {missing}");
        if void > files.max(TRIES) / 2 {
            println!(
                "void two_hosts: {void} of {} files were not whole",
                whole + void
            );
            return;
        }
    }
    println!("{whole} files arrived octet for octet, {void} runs were void");
    println!("ran two_hosts");
}

/// What TCP gets through network devices of the two hosts, in two seconds.
fn tcp(daemons: &[Daemon; 2], namespaces: &[Namespace; 2]) {
    const CELL_S: u64 = 100_000;
    const INSIDE: [&str; 2] = ["10.166.37.1", "10.166.37.2"];
    if Command::new("iperf3").arg("--version").output().is_err() {
        return println!("skipped two_hosts_iperf3: iperf3 is not installed");
    }
    let within = |side: usize, words: &[&str]| {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &namespaces[side].0])
            .args(words);
        command.stdout(Stdio::piped());
        command
    };
    let contract = format!("cbr,aal5:pcr={CELL_S}cps,max_sdu=1508");
    for side in [0, 1] {
        let (socket, address) = (daemons[side].socket(), format!("{}/24", INSIDE[side]));
        let mut add = within(side, &[env!("CARGO_BIN_EXE_cellgate"), "tun", "--socket"]);
        add.arg(socket).args(["add", "inner0", "vc", "wan.0.200"]);
        add.args(["encap", "ipoa-llcsnap", "contract", &contract]);
        let added = add.args(["address", &address]).output().expect("ip starts");
        assert!(added.status.success(), "{added:?}");
    }
    let told = or_void(|| {
        let serve = ["timeout", "20", "iperf3", "-s", "-1"];
        let mut server = within(1, &serve).spawn().expect("ip starts");
        std::thread::sleep(Duration::from_millis(500));
        let before = iperf3::missing(daemons);
        let watches = daemons.each_ref().map(Watch::begin);
        let call = ["timeout", "20", "iperf3", "-c", INSIDE[1], "-J", "-t", "2"];
        let output = within(0, &call).output().expect("ip starts");
        let _ = server.kill();
        server.wait().expect("a server");
        if !output.status.success() {
            return Err("no answer".to_owned());
        }
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let lost = iperf3::missing(daemons).saturating_sub(before);
        iperf3::judge(&told, CELL_S, u64::MAX, excuse(watches), lost)
    });
    match told {
        Ok(()) => println!("ran two_hosts_iperf3"),
        Err(reason) => println!("void two_hosts_iperf3: {reason}"),
    }
}
