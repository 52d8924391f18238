//! `cellgate contract` as a user meets it: exact output, exit codes.

use std::process::{Command, Output, Stdio};

const SHOWN_TEXT: &str = "cbr,aal5:pcr=48Mbps,max_sdu=8192";
const SHOWN_OUTPUT: &str = "\
cbr,aal5:pcr=125000,max_sdu=8192

                                    transmit   receive
peak rate, cells/s                    125000    125000
sustained rate, cells/s               125000    125000
largest SDU, octets                     8192      8192
cells of its PDU                         171       171
peak rate, bit/s of such SDUs       47906432  47906432
sustained rate, bit/s of such SDUs  47906432  47906432
T of a cell, ns                         8000      8000
T of the PDU, ns                     1368000   1368000
interval at jitter=low, ns           2736000         -
credit at jitter=low, octets           16384         -
interval at jitter=default, ns      13680000         -
credit at jitter=default, octets       81920         -
interval at jitter=high, ns         68400000         -
credit at jitter=high, octets         409600         -
PDUs of its interval                      10         -
policing limit, ns                         -   2592000
buffer, PDUs                              11        33
buffer, octets                         98304    364544
delay at most, ns                   32965606  40250000
of it: its cells at their rate       1368000         -
of it: cells of others                  3856         -
of it: the adapter's rest             718750    250000
of it: the adapter's stall          30875000  30000000
of it: the reader's wake-up                -  10000000
jitter at most, ns                  32480606  40250000
behind a full buffer, ns more       15048000         -

share of the line     35.40 % (125000 cells/s, 48.0 Mbit/s) each way
way of the largest    1.368 ms: 171 cells
delay at the adapter  at most 0.723 ms to send, a stall 30.875 ms more; 10.250
                      ms to its reader, a stall 30.000 ms more
memory                876576 octets
CPU time              a server that runs tells it
fits now              no server was asked
commands
  cellgate recv --vc ITF.VPI.VCI --contract cbr,aal5:pcr=125000,max_sdu=8192
  cellgate send --vc ITF.VPI.VCI --contract cbr,aal5:pcr=125000,max_sdu=8192 \\
    FILE
  cellgate vc add ITF.VPI.VCI contract cbr,aal5:pcr=125000,max_sdu=8192 \\
    --dry-run

assumed: the documented defaults, as no server runs
  CDVT where none is said 1000000 ns, line of 353207 cells/s, 29 cells at once
  a reader is up after 10000000 ns; the adapter stands still for 30000000 ns
  the adapter rests, and is up 250000 ns after that
  0 cells of other guaranteed connections go first, 0 more after a stall
";

#[test]
fn prints_the_canonical_form_and_a_table() {
    assert_prints(&[SHOWN_TEXT], SHOWN_OUTPUT);
}

#[test]
fn prints_what_the_document_shows() {
    let document = include_str!("../../../../docs/contract.md");
    let shown = format!("contract \"{SHOWN_TEXT}\"\n```\n\n```text\n{SHOWN_OUTPUT}```\n");
    assert!(
        document.contains(&shown),
        "docs/contract.md does not show:\n{shown}"
    );
}

#[test]
fn canonical_forms_come_first_and_are_their_own() {
    // From the oracle: libatm's own printing of the same texts.
    for (text, canonical) in [
        ("UBR", "ubr"),
        ("ubr:pcr=100kbps", "ubr:pcr=260"),
        ("cbr,aal0:pcr=64kbps", "cbr,aal0:pcr=166"),
        (
            "cbr:max_pcr=11Mbps,min_pcr=10mbps,sdu=8192",
            "cbr:max_pcr=28645,min_pcr=26042,max_sdu=8192",
        ),
        ("aal5,ubr:tx:none", "ubr,aal5:tx:none"),
        ("cbr:pcr=10,tx:pcr=20,rx:pcr=30", "cbr:tx:pcr=20,rx:pcr=30"),
        ("cbr:pcr=0.5Gbps", "cbr:pcr=1302083"),
    ] {
        assert_eq!(first_line(&[text]), canonical, "of {text}");
        assert_eq!(first_line(&[text, "--strict"]), canonical, "of {text}");
        assert_eq!(first_line(&[canonical]), canonical);
    }
    let ours = "vbr,aal5:pcr=3000,scr=1000,mbs=20,cdvt=250us,jitter=low";
    assert_eq!(first_line(&[ours]), ours);
}

#[test]
fn best_effort_has_no_credit_no_policing_limit_and_no_bound() {
    assert_prints(
        &["ubr:tx:none,rx:max_sdu=40"],
        "\
ubr:tx:none,rx:max_sdu=40

                                    transmit    receive
peak rate, cells/s                         -     353207
sustained rate, cells/s                    -     353207
largest SDU, octets                        -         40
cells of its PDU                           -          1
peak rate, bit/s of such SDUs              -  113026240
sustained rate, bit/s of such SDUs         -  113026240
T of a cell, ns                            -       2832
T of the PDU, ns                           -       2832
buffer, PDUs                               -      14512
buffer, octets                             -     929792

share of the line     what nobody has reserved
way of the largest    nothing is promised: 1 cell
delay at the adapter  nothing is promised
memory                1511424 octets
CPU time              a server that runs tells it
fits now              no server was asked
commands
  cellgate recv --vc ITF.VPI.VCI --contract ubr:tx:none,rx:max_sdu=40
  cellgate vc add ITF.VPI.VCI contract ubr:tx:none,rx:max_sdu=40 --dry-run

assumed: the documented defaults, as no server runs
  CDVT where none is said 1000000 ns, line of 353207 cells/s, 29 cells at once
  a reader is up after 10000000 ns; the adapter stands still for 30000000 ns
  the adapter rests, and is up 250000 ns after that
  0 cells of other guaranteed connections go first, 0 more after a stall
",
    );
}

#[test]
fn cells_of_aal34_carry_44_octets() {
    assert_prints(
        &["cbr,aal34:tx:pcr=100000,max_sdu=8192,rx:none"],
        "\
cbr,aal34:tx:pcr=100000,max_sdu=8192,rx:none

                                    transmit  receive
peak rate, cells/s                    100000        -
sustained rate, cells/s               100000        -
largest SDU, octets                     8192        -
cells of its PDU                         187        -
peak rate, bit/s of such SDUs       35045989        -
sustained rate, bit/s of such SDUs  35045989        -
T of a cell, ns                        10000        -
T of the PDU, ns                     1870000        -
interval at jitter=low, ns           3740000        -
credit at jitter=low, octets           16384        -
interval at jitter=default, ns      18700000        -
credit at jitter=default, octets       81920        -
interval at jitter=high, ns         93500000        -
credit at jitter=high, octets         409600        -
PDUs of its interval                      10        -
buffer, PDUs                              11        -
buffer, octets                         98304        -
delay at most, ns                   33467606        -
of it: its cells at their rate       1870000        -
of it: cells of others                  3856        -
of it: the adapter's rest             718750        -
of it: the adapter's stall          30875000        -
jitter at most, ns                  32482606        -
behind a full buffer, ns more       20570000        -

share of the line     28.32 % (100000 cells/s, 38.4 Mbit/s) to send
way of the largest    1.870 ms: 187 cells
delay at the adapter  at most 0.723 ms to send, a stall 30.875 ms more
memory                259936 octets
CPU time              a server that runs tells it
fits now              no server was asked
commands
  cellgate send --vc ITF.VPI.VCI --contract \\
    cbr,aal34:tx:pcr=100000,max_sdu=8192,rx:none FILE
  cellgate vc add ITF.VPI.VCI contract \\
    cbr,aal34:tx:pcr=100000,max_sdu=8192,rx:none --dry-run

assumed: the documented defaults, as no server runs
  CDVT where none is said 1000000 ns, line of 353207 cells/s, 29 cells at once
  a reader is up after 10000000 ns; the adapter stands still for 30000000 ns
  the adapter rests, and is up 250000 ns after that
  0 cells of other guaranteed connections go first, 0 more after a stall
",
    );
}

#[test]
fn an_sdu_of_aal0_is_a_cell() {
    assert_prints(
        &[
            "cbr,aal0:tx:none,rx:pcr=1000,cdvt=3ms",
            "--wake-up",
            "1500000",
        ],
        "\
cbr,aal0:tx:none,rx:pcr=1000,cdvt=3ms

                                    transmit   receive
peak rate, cells/s                         -      1000
sustained rate, cells/s                    -      1000
largest SDU, octets                        -        52
cells of its PDU                           -         1
peak rate, bit/s of such SDUs              -    416000
sustained rate, bit/s of such SDUs         -    416000
T of a cell, ns                            -   1000000
T of the PDU, ns                           -   1000000
policing limit, ns                         -  31000000
buffer, PDUs                               -        65
buffer, octets                             -      8192
delay at most, ns                          -  31750000
of it: the adapter's rest                  -    250000
of it: the adapter's stall                 -  30000000
of it: the reader's wake-up                -   1500000
jitter at most, ns                         -  31750000

share of the line     0.29 % (1000 cells/s, 0.384 Mbit/s) to receive
way of the largest    1.000 ms: 1 cell
delay at the adapter  at most 1.750 ms to its reader, a stall 30.000 ms more
memory                69632 octets
CPU time              a server that runs tells it
fits now              no server was asked
commands
  cellgate recv --vc ITF.VPI.VCI --contract \\
    cbr,aal0:tx:none,rx:pcr=1000,cdvt=3ms
  cellgate vc add ITF.VPI.VCI contract cbr,aal0:tx:none,rx:pcr=1000,cdvt=3ms \\
    --dry-run

assumed: the documented defaults, as no server runs
  CDVT where none is said 1000000 ns, line of 353207 cells/s, 29 cells at once
  a reader is up after 1500000 ns; the adapter stands still for 30000000 ns
  the adapter rests, and is up 250000 ns after that
  0 cells of other guaranteed connections go first, 0 more after a stall
",
    );
}

#[test]
fn who_sends_bursts_has_credits_of_the_peak_rate() {
    for (text, interval_ns) in [
        (
            "vbr,aal5:pcr=3000,scr=1000,mbs=21,sdu=40,rx:none",
            3_333_334,
        ),
        // A burst of one cell is none.
        (
            "vbr,aal5:pcr=3000,scr=1000,mbs=1,sdu=40,rx:none",
            10_000_000,
        ),
        ("cbr,aal5:pcr=3000,sdu=40,rx:none", 3_333_334),
    ] {
        let output = contract(&[text, "--json"]);
        let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let credit = &printed["transmit"]["credits"][1];
        assert_eq!(credit["interval_ns"], interval_ns, "{text}: {credit}");
    }
}

#[test]
fn json_names_its_units() {
    let canonical = "vbr,aal5:tx:none,rx:pcr=3000,max_sdu=40,scr=1000,mbs=21";
    let output = contract(&["vbr,aal5:pcr=3000,scr=1000,mbs=21,sdu=40,tx:none", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let facts = serde_json::json!({
        "commands": [
            format!("cellgate recv --vc ITF.VPI.VCI --contract {canonical}"),
            format!("cellgate vc add ITF.VPI.VCI contract {canonical} --dry-run"),
        ],
        "ends": [{
            "contract": canonical,
            "memory_octets": 69_632,
            "cpu_reserved_ppm": null,
            "cpu_expected_ppm": null,
            "fits": null,
            "refused": null,
            "offer": null,
        }],
        "largest_cells": 21,
        "transmit_cell_s": null,
        "receive_cell_s": 1_000,
        "transmit_share_ppm": null,
        "receive_share_ppm": 2_832,
        "way_ns": 7_000_000,
        "way_most_ns": 21_000_000,
    });
    let mut expected = serde_json::json!({
        "contract": "vbr,aal5:tx:none,rx:pcr=3000,max_sdu=40,scr=1000,mbs=21",
        "libatm": null,
        "category": "rt-vbr",
        "aal": "aal5",
        "police": "frame",
        "excess": "discard",
        "line_cell_s": 353207,
        "wake_up_ns": 10000000,
        "transmit": null,
        "receive": {
            "peak_cell_s": 3000,
            "sustained_cell_s": 1000,
            "minimum_cell_s": null,
            "max_sdu_octets": 40,
            "pdu_cells": 1,
            "peak_sdu_bit_s": 960000,
            "sustained_sdu_bit_s": 320000,
            "cell_time_ns": 1000000,
            "pdu_time_ns": 1000000,
            // 20 cells, each 2/3 of 1/1000 s early.
            "burst_tolerance_ns": 13333334,
            // A PDU and 28 of a clump, and the CDVT of 1 ms.
            "policing_limit_ns": 10666667,
            "policing_sustained_limit_ns": 43333334,
            "buffer_pdus": 85,
            "buffer_octets": 8192,
            "delay_ns": 10250000,
            "bound": {
                "delay_ns": 40250000,
                "jitter_ns": 40250000,
                "rest_ns": 250000,
                "silent_ns": 0,
                "wake_up_ns": 10000000,
                "stall_ns": 30000000,
            },
        },
        "refused": null,
        "assumed": {
            "server": null,
            "interface": null,
            "cdvt_ns": 1000000,
            "wake_up_ns": 10000000,
            "gap_max_ns": 30000000,
            "clump_cells": 29,
            "idle": "adaptive",
            "late_ns": 250000,
            "others": { "cells": 0, "made_good": 0 },
        },
    });
    let all = expected.as_object_mut().expect("an object");
    all.extend(facts.as_object().expect("an object").clone());
    assert_eq!(printed, expected);
}

#[test]
fn says_what_no_server_opens() {
    for (text, why) in [
        ("cbr", "states its rate"),
        ("abr:pcr=1000,tx:none", "abr needs both directions"),
        ("vbr:pcr=1000,scr=100", "needs scr= and mbs="),
        ("cbr:pcr=353208", "transmit bandwidth"),
        ("cbr,aal5:police=cell,pcr=100", "police=cell is for aal0"),
    ] {
        let output = contract(&[text]);
        let shown = String::from_utf8(output.stdout).expect("UTF-8");
        let last = shown.lines().last().expect("a line");
        assert!(last.starts_with("a server refuses it: "), "{shown}");
        assert!(last.contains(why), "{shown}");
        let output = contract(&[text, "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(json["refused"].as_str().expect("why").contains(why));
        assert_eq!(output.status.code(), Some(0), "{text} is a contract");
    }
}

#[test]
fn json_lists_a_credit_for_each_sensitivity_to_jitter() {
    let output = contract(&["cbr,aal5:pcr=1000,sdu=40,rx:none", "--json"]);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed["libatm"], "cbr,aal5:tx:pcr=1000,max_sdu=40,rx:none");
    let credit = |jitter, pdus: u64| {
        serde_json::json!({
            "jitter": jitter,
            "pdus": pdus,
            "interval_ns": pdus * 1_000_000,
            "octets": pdus * 40,
        })
    };
    assert_eq!(
        printed["transmit"]["credits"],
        serde_json::json!([credit("low", 2), credit("default", 10), credit("high", 50)])
    );
    assert_eq!(printed["transmit"]["jitter"], "default");
}

#[test]
fn a_tolerance_chooses_the_interval_of_its_direction() {
    for (words, jitter) in [
        ("", "default"),
        // A PDU takes a millisecond.
        (",dvt=49ms", "default"),
        (",dvt=50ms", "high"),
        (",dvt=9ms", "low"),
        (",dvt=10ms", "default"),
        (",dvt=0s", "low"),
        (",dvt=50ms,jitter=low", "low"),
        (",tx:dvt=50ms", "high"),
        (",rx:dvt=50ms", "default"),
        (",jitter=high,tx:jitter=low", "low"),
        (",jitter=low,tx:dvt=50ms,rx:jitter=high", "low"),
    ] {
        let output = contract(&[&format!("cbr,aal5:pcr=1000,sdu=40{words}"), "--json"]);
        let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(printed["transmit"]["jitter"], jitter, "{words}");
    }
}

#[test]
fn a_caret_stands_under_a_mistake() {
    for (arguments, shown) in [
        (
            &["cbr:pcr=1.5k"][..],
            "a multiplier needs a unit: cps or bps; did you mean kbit/s?\n\
             \x20 cbr:pcr=1.5k\n              ^\n",
        ),
        (
            &["vbr", "--strict"],
            "vbr is not part of libatm's contracts\n  vbr\n  ^\n",
        ),
        (
            &["cbr:sdu=8192,rx:sdu=70000"],
            "an SDU has at most 65535 octets with this AAL\n  cbr:sdu=8192,rx:sdu=70000\n\
             \x20                     ^\n",
        ),
    ] {
        let output = contract(arguments);
        assert_eq!(output.status.code(), Some(2), "of {arguments:?}");
        assert_eq!(text(&output.stderr), format!("cellgate: contract: {shown}"));
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn strict_says_where_numbers_wrap() {
    for (contract_text, printed, told) in [
        (
            "cbr:pcr=4.3Gbps",
            "cbr:pcr=13106",
            "else cbr:pcr=11197916\n",
        ),
        ("cbr:sdu=4294967297", "cbr:max_sdu=1", "at octet 8)\n"),
        ("cbr:pcr=7", "cbr:pcr=7", ""),
    ] {
        let output = contract(&[contract_text, "--strict"]);
        assert_eq!(output.status.code(), Some(0), "of {contract_text}");
        assert_eq!(text(&output.stdout).lines().next(), Some(printed));
        let errors = text(&output.stderr);
        assert!(errors.ends_with(told), "{contract_text}: {errors}");
        assert_eq!(errors.is_empty(), told.is_empty(), "{errors}");
    }
}

#[test]
fn json_tells_the_place_of_a_mistake() {
    let output = contract(&["ubr,", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed["error"]["at_octet"], 4);
    assert!(printed["error"]["message"].is_string());
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn wrong_calls_exit_with_2() {
    for arguments in [&[][..], &["ubr", "cbr"], &["ubr", "--line", "0"]] {
        assert_eq!(
            contract(arguments).status.code(),
            Some(2),
            "of {arguments:?}"
        );
    }
    let none = Command::new(env!("CARGO_BIN_EXE_cellgate")).output();
    assert_eq!(none.expect("cellgate starts").status.code(), Some(2));
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cellgate"))
        .args(["contract", SHOWN_TEXT])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cellgate starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("cellgate ends");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

/// What it says where no server runs.
pub(crate) fn contract(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cellgate"))
        .env("CELLGATE_SOCKET", "/nonexistent/control.sock")
        .arg("contract")
        .args(arguments)
        .output()
        .expect("cellgate starts")
}

#[track_caller]
fn assert_prints(arguments: &[&str], expected: &str) {
    let output = contract(arguments);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout), expected);
    assert_eq!(output.status.code(), Some(0));
}

#[track_caller]
fn first_line(arguments: &[&str]) -> String {
    let output = contract(arguments);
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
        .lines()
        .next()
        .unwrap_or_default()
        .to_string()
}

fn text(octets: &[u8]) -> &str {
    std::str::from_utf8(octets).expect("UTF-8")
}
