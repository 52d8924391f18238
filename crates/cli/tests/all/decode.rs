//! `cellgate decode` as a user meets it: exact output, JSON, broken files, exit codes.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::fed::fed;

const CELLS: &str = "\
\x20    seconds    vpi.vci   kind     len what
 0.000000000 tx 1.100     cell      53 user, hec ok
 0.000010000 tx 1.100     cell      53 user, last, hec ok
 0.000010000 tx 1.100     pdu       96 sdu 68, crc-32 ok, ipoa-llcsnap, 10.0.0.1>10.0.0.2 icmp
 0.000020000 tx 1.100     cell      53 user, hec WRONG in bit 0, corrected
 0.000030000 tx 1.100     cell      53 user, hec WRONG in bit 17, corrected
 0.000040000 tx 1.100     cell      53 user, hec WRONG in bit 39, corrected
 0.000050000 tx 1.228     cell      53 user, gfc 1, hec WRONG, uncorrectable
 0.000060000 tx 1.100     cell      53 oam f5 e2e loopback request tag 0000002a, crc-10 ok, hec ok
 0.000070000 tx 1.100     cell      53 oam f5 seg ais, crc-10 ok, hec ok
 0.000080000 tx 2.3       cell      53 oam f4 seg rdi, crc-10 ok, hec ok
 0.000090000 tx 2.4       cell      53 oam f4 e2e forward monitoring, crc-10 ok, hec ok
 0.000100000 tx 1.100     cell      53 oam f5 e2e loopback reply tag 6a6a6a6a, crc-10 WRONG, hec ok
 0.000110000 tx 1.100     cell      53 oam f5 seg pm activation, crc-10 ok, hec ok
 0.000120000 tx 1.100     cell      53 rm forward er 0 ccr 0 mcr 0 cells/s, crc-10 ok, hec ok
 0.000130000 tx 0.0       cell      53 idle, hec ok
           - tx 1.100     part     144 3 cells of a pdu without its last
";

const SUNATM: &str = "\
\x20    seconds    vpi.vci   kind     len what
 0.000000000 rx 0.100     sdu       68 ipoa-llcsnap, 10.0.0.1>10.0.0.2 icmp
 0.001000000 rx 0.35      sdu       84 bridged-llcsnap, 10.0.0.1>10.0.0.2 icmp
 0.002000000 rx 0.100     sdu       68 ipoa-llcsnap, atmarp
 0.003000000 rx 0.5       sdu        8 signalling
 0.004000000 rx 0.5       sdu      115 signalling
 0.005000000 rx 0.16      sdu       43 ilmi
 0.006000000 rx 0.36      sdu       76 bridged-vcmux?, 10.0.0.1>10.0.0.2 icmp
 0.007000000 rx 0.38      sdu       60 ipoa-vcmux?, 10.0.0.1>10.0.0.2 icmp
 0.008000000 rx 0.40      sdu       12 pppoa-vcmux?, ppp lcp
 0.009000000 rx 0.41      sdu       16 pppoa-llc, ppp lcp
 0.010000000 rx 0.42      sdu       14 data 68656c6c6f2c6365...
";

const ERF: &str = "\
\x20    seconds    vpi.vci   kind     len what
 0.000000000 tx 0.100     pdu       96 sdu 68, uu 7, crc-32 ok, ipoa-llcsnap, 10.0.0.1>10.0.0.2 icmp
 0.000244141 tx 0.100     pdu       96 sdu 68, crc-32 WRONG, ipoa-llcsnap, 10.0.0.1>10.0.0.2 icmp
 0.000488281 tx 0.36      pdu       96 sdu 76, crc-32 ok, bridged-vcmux?, 10.0.0.1>10.0.0.2 icmp
 0.000732422 tx 0.5       pdu      144 sdu 115, crc-32 ok, signalling
 0.000976563 tx 0.16      pdu       96 sdu 43, crc-32 ok, ilmi
 0.001220703 tx 1.100     cell      52 user
 0.001464844 tx 1.100     cell      52 user, last
 0.001464844 tx 1.100     pdu       96 sdu 68, crc-32 ok, ipoa-llcsnap, 10.0.0.1>10.0.0.2 icmp
 0.001708984 tx 1.100     cell      52 oam f5 e2e loopback request tag 0000002a, crc-10 ok
 0.001953125 tx 1.4       cell      52 oam f4 e2e ais, crc-10 ok
 0.002197266 tx 1.100     cell      52 user
 0.002441406 tx 1.101     pdu       96 sdu 68, crc-32 ok, ipoa-llcsnap, 10.0.0.1>10.0.0.2 icmp
 0.002685547 tx 1.200     packet    12 aal2 cid 8 uui 0 of 8 octets, hec-5 WRONG
           - tx 1.100     part      48 1 cell of a pdu without its last
";

const AAL34: &str = "\
\x200.000030000 tx 1.60      pdu       28 aal3/4 mid 0, sdu 20, tags 9, basize 20, crc-10 ok
 0.000040000 tx 1.60      pdu       48 aal3/4 mid 1023, sdu 40, tags 8, basize 40, crc-10 ok
 0.000050000 tx 1.60      pdu      108 aal3/4 mid 5, sdu 100, tags 7, basize 100, crc-10 ok
 0.000080000 tx 1.60      pdu      108 aal3/4 mid 5, sdu 100, tags 10, basize 100, crc-10 WRONG
 0.000100000 tx 1.60      pdu       60 aal3/4 mid 6, sdu 50, tags 11 and 12 WRONG, basize 50, \
crc-10 ok
 0.000120000 tx 1.60      pdu       60 aal3/4 mid 6, sdu 50, tags 13, basize 40 WRONG, crc-10 ok
 0.000130000 tx 1.60      pdu       28 aal3/4 mid 6, sdu 28, tags 14, basize 20 WRONG, \
length WRONG, crc-10 ok
 0.000150000 tx 1.60      pdu       64 aal3/4 mid 7, sdu 100, tags 15, basize 100, length WRONG, \
crc-10 ok, cells LOST
 0.000160000 tx 1.60      part      20 aal3/4 mid 8, 1 cell of a pdu without its first, crc-10 ok
 0.000180000 tx 1.60      part      44 aal3/4 mid 9, 1 cell, then aborted, crc-10 ok
 0.000200000 tx 1.100     pdu       48 sdu 40, crc-32 ok, data 61616c3561616c35...
           - tx 1.60      part      44 aal3/4 mid 7, 1 cell of a pdu without its last, crc-10 ok
";

/// The vectors of the capture crate.
fn data(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../capture/tests/data", name]
        .iter()
        .collect()
}

fn decode(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellgate"));
    command.arg("decode").args(args).output().expect("cellgate")
}

fn decode_file(name: &str, args: &[&str]) -> Output {
    let path = data(name);
    decode(&[&[path.to_str().unwrap()], args].concat())
}

/// Decodes `octets` from standard input.
fn decode_octets(octets: &[u8], args: &[&str]) -> Output {
    fed(&[&["decode", "-"], args].concat(), octets)
}

fn text(octets: &[u8]) -> &str {
    std::str::from_utf8(octets).expect("UTF-8")
}

fn objects(output: &Output) -> Vec<Value> {
    let lines = text(&output.stdout).lines();
    lines
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

#[test]
fn prints_a_line_for_each_cell_and_pdu() {
    for (name, wanted) in [
        ("cells.trc", CELLS),
        ("sunatm.pcap", SUNATM),
        ("all.erf", ERF),
    ] {
        let output = decode_file(name, &[]);
        assert_eq!(text(&output.stdout), wanted, "{name}");
        assert!(wanted.lines().all(|line| line.len() <= 100), "{name}");
        assert_eq!(text(&output.stderr), "");
        assert_eq!(output.status.code(), Some(0));
        let piped = decode_octets(&std::fs::read(data(name)).unwrap(), &[]);
        assert_eq!(text(&piped.stdout), wanted, "{name} by standard input");
    }
}

#[test]
fn pseudowires_are_guessed_and_the_guess_is_marked() {
    let output = decode_file("mplsudp.pcap", &[]);
    let frames: Vec<_> = text(&output.stdout)
        .lines()
        .filter(|line| line.contains(" frame "))
        .map(|line| line.split_once("mpls/udp ").unwrap().1)
        .collect();
    let wanted = [
        "1001 n1?, 2 cells",
        "1002 n1-cw?, seq 1, 2 cells",
        "1001 n1?, WRONG: 103 octets are no whole number of 52-octet cells",
        "1003 vcc?, seq 5, 1 cell",
        "1003 vcc?, seq 6, 1 cell",
        "1003 vcc?, seq 7, 2 cells",
        "1004 vpc?, seq 8, 1 cell",
        "1005 aal5-sdu?, seq 9",
        "1005 aal5-sdu?, seq 10, 1 cell",
        "1006 aal5-pdu?, seq 11, 2 payloads, last by trailer",
        "1006 aal5-pdu?, seq 12, 2 payloads, last by trailer",
    ];
    assert_eq!(frames, wanted);
}

#[test]
fn pseudowires_that_are_named_give_their_cells_addresses() {
    let pw = [
        "--pw",
        "1003=vcc@1.100",
        "--pw",
        "1004=vpc@1.0",
        "--pw",
        "1005=aal5-sdu@1.105",
        "--pw",
        "1006=aal5-pdu@1.106",
        "--json",
    ];
    let objects = objects(&decode_file("mplsudp.pcap", &pw));
    let of = |record: u64| -> Vec<(String, Option<u64>, Option<u64>)> {
        let mine = objects.iter().filter(|o| o["record"] == record);
        let inner = mine.filter(|o| o["kind"] != "frame");
        inner
            .map(|o| {
                (
                    o["kind"].as_str().unwrap().into(),
                    o["vpi"].as_u64(),
                    o["vci"].as_u64(),
                )
            })
            .collect()
    };
    assert_eq!(of(4), [("cell".into(), Some(1), Some(100))]);
    assert_eq!(of(7), [("cell".into(), Some(1), Some(100))]);
    assert_eq!(of(8), [("sdu".into(), Some(1), Some(105))]);
    assert_eq!(of(10), [("pdu".into(), Some(1), Some(106))]);
    let frames: Vec<_> = objects.iter().filter(|o| o["kind"] == "frame").collect();
    assert_eq!(frames[3]["mode_guessed"], false);
    assert_eq!(frames[0]["mode_guessed"], true);
    let verdicts: Vec<_> = objects
        .iter()
        .filter(|o| o["kind"] == "pdu" && o["vci"] == 106)
        .map(|o| o["crc32_valid"].as_bool().unwrap())
        .collect();
    assert_eq!(verdicts, [true, false]);
}

#[test]
fn json_has_what_every_line_has_and_the_verdicts() {
    for name in [
        "cells.trc",
        "sunatm.pcap",
        "all.erf",
        "mplsudp.pcap",
        "rfc1483.pcap",
    ] {
        for object in objects(&decode_file(name, &["--json"])) {
            for key in [
                "kind",
                "vpi",
                "vci",
                "length",
                "record",
                "offset",
                "time_ns",
                "direction",
            ] {
                assert!(object.get(key).is_some(), "{name}: no {key} in {object}");
            }
        }
    }
    let cells = objects(&decode_file("cells.trc", &["--json"]));
    let hec: Vec<_> = cells
        .iter()
        .filter(|o| o["kind"] == "cell")
        .map(|o| o["hec_verdict"].as_str().unwrap())
        .collect();
    let mut wanted = ["valid"; 14];
    wanted[2..5].fill("corrected");
    wanted[5] = "uncorrectable";
    assert_eq!(hec, wanted);
    assert_eq!(cells[4]["hec_error_bit"], 17);
    let loopback = &cells[7];
    assert_eq!(loopback["oam_flow"], "f5_end_to_end");
    assert_eq!(loopback["oam_name"], "loopback");
    assert_eq!(loopback["correlation_tag"], 42);
    assert_eq!(loopback["crc10_valid"], true);
    assert_eq!(cells[11]["crc10_valid"], false);
    let pdu = &cells[2];
    assert_eq!(pdu["reassembled"], true);
    assert_eq!(
        (&pdu["crc32_valid"], &pdu["length_valid"]),
        (&true.into(), &true.into())
    );
    assert_eq!(
        (&pdu["sdu_length"], &pdu["encapsulation"]),
        (&68.into(), &"ipoa-llcsnap".into())
    );
}

#[test]
fn other_aals_are_read_where_the_user_names_them() {
    for (aal, wanted) in [
        ("aal1", "user, aal1 csi 1 sc 2, snp WRONG, hec ok"),
        ("aal2", "user, osf 42 sn 1, start field WRONG, hec ok"),
        (
            "aal34",
            "user, aal3/4 bom sn 10 mid 682 li 2, crc-10 WRONG, btag 0 basize 0, hec ok",
        ),
        ("aal0", "user, hec ok"),
    ] {
        let output = decode_file("cells.trc", &["--aal", &format!("1.100={aal}")]);
        let first = text(&output.stdout).lines().nth(1).unwrap();
        assert!(first.ends_with(wanted), "{first}");
        assert!(!text(&output.stdout).contains(" pdu   "), "{aal}");
    }
}

/// Cells of AAL3/4 with their faults.
fn aal34_file() -> String {
    format!("{}/tests/data/aal34.trc", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn pdus_of_aal34_are_put_together_by_their_mids() {
    let path = aal34_file();
    let output = decode(&[&path, "--aal", "1.60=aal34"]);
    assert_eq!(output.status.code(), Some(0));
    let lines = text(&output.stdout).lines();
    let cells = lines.clone().filter(|line| line.contains(" cell  "));
    assert_eq!(cells.count(), 21);
    let others = lines.skip(1).filter(|line| !line.contains(" cell  "));
    let others: Vec<_> = others.collect();
    assert_eq!(others, AAL34.lines().collect::<Vec<_>>());
}

#[test]
fn json_tells_each_verdict_on_a_pdu_of_aal34() {
    const VERDICTS: [&str; 5] = [
        "tags_valid",
        "ba_size_valid",
        "length_valid",
        "crc10_valid",
        "sequence_valid",
    ];
    let path = aal34_file();
    let objects = objects(&decode(&[&path, "--aal", "1.60=aal34", "--json"]));
    let of_kind = |kind: &str| -> Vec<&Value> {
        let mine = objects.iter().filter(|o| o["kind"] == kind);
        mine.filter(|o| o["aal"] == "aal34").collect()
    };
    let pdus: Vec<_> = of_kind("pdu")
        .iter()
        .map(|o| {
            assert_eq!((&o["vpi"], &o["vci"]), (&1.into(), &60.into()));
            let wrong = VERDICTS.into_iter().filter(|key| o[key] == false);
            let right = VERDICTS.into_iter().filter(|key| o[key] == true).count();
            let wrong: Vec<_> = wrong.collect();
            assert_eq!(right + wrong.len(), VERDICTS.len(), "{o}");
            let number = |key: &str| o[key].as_u64().unwrap();
            (number("mid"), number("length"), number("cells"), wrong)
        })
        .collect();
    let wanted = [
        (0, 28, 1, vec![]),
        (1_023, 48, 2, vec![]),
        (5, 108, 3, vec![]),
        (5, 108, 3, vec!["crc10_valid"]),
        (6, 60, 2, vec!["tags_valid"]),
        (6, 60, 2, vec!["ba_size_valid"]),
        (6, 28, 1, vec!["ba_size_valid", "length_valid"]),
        (7, 64, 2, vec!["length_valid", "sequence_valid"]),
    ];
    assert_eq!(pdus, wanted);
    let parts: Vec<_> = of_kind("part")
        .iter()
        .map(|o| (o["mid"].as_u64().unwrap(), o["aborted"].as_bool().unwrap()))
        .collect();
    assert_eq!(parts, [(8, false), (9, true), (7, false)]);
    let cell = &objects[0];
    assert_eq!((&cell["kind"], &cell["mid"]), (&"cell".into(), &5.into()));
    assert_eq!((&cell["btag"], &cell["ba_size"]), (&7.into(), &100.into()));
}

#[test]
fn what_is_no_capture_gives_one_line_and_exit_1() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let sniffer = data("aal.enc");
    for (path, wanted) in [
        (
            readme,
            "no capture file: it starts with none of pcapng, pcap, ERF and EyeSDN\n",
        ),
        (
            sniffer.to_str().unwrap(),
            concat!(
                "a Sniffer file, which is not read: ",
                "tshark -F pcapng converts it\n"
            ),
        ),
        (
            "/nonexistent/x.pcap",
            "No such file or directory (os error 2)\n",
        ),
    ] {
        let output = decode(&[path]);
        assert_eq!(text(&output.stderr), format!("cellgate: {path}: {wanted}"));
        assert_eq!(text(&output.stdout), "");
        assert_eq!(output.status.code(), Some(1));
        let output = decode(&[path, "--json"]);
        let [error] = &*objects(&output) else {
            panic!("{output:?}");
        };
        assert_eq!(error["kind"], "error");
        assert_eq!(error["message"], format!("{path}: {}", wanted.trim_end()));
        assert_eq!(output.status.code(), Some(1));
    }
    let output = decode_octets(b"", &[]);
    let wanted = "cellgate: standard input: no capture file: it is empty\n";
    assert_eq!(text(&output.stderr), wanted);
}

#[test]
fn a_broken_record_is_named_and_the_rest_is_read() {
    let mut octets = std::fs::read(data("sunatm.pcap")).unwrap();
    // The length of the second record is wrong; the last is cut.
    octets[24 + 88 + 8..24 + 88 + 12].copy_from_slice(&2_000_000_u32.to_le_bytes());
    octets.truncate(octets.len() - 1);
    let output = decode_octets(&octets, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout).lines().count(), 1 + 9);
    let errors: Vec<_> = text(&output.stderr).lines().collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    let start = "cellgate: standard input: offset 112: a record of 2000000 octets";
    assert!(errors[0].starts_with(start), "{errors:?}");
    assert!(
        errors[1].contains("the file ends inside a record"),
        "{errors:?}"
    );

    let output = decode_octets(&octets, &["--json"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""));
    let objects = objects(&output);
    let kinds: Vec<_> = objects
        .iter()
        .map(|o| o["kind"].as_str().unwrap())
        .collect();
    let mut wanted = ["sdu"; 11];
    wanted[1] = "error";
    wanted[10] = "error";
    assert_eq!(kinds, wanted);
    assert_eq!(
        (&objects[1]["record"], &objects[1]["offset"]),
        (&2.into(), &112.into())
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut octets = std::fs::read(data("sunatm.pcap")).unwrap();
    let records = octets[24..].to_vec();
    // More lines than a pipe holds.
    for _ in 0..2_000 {
        octets.extend(&records);
    }
    let path = std::env::temp_dir().join(format!("cellgate-decode-{}.pcap", std::process::id()));
    std::fs::write(&path, octets).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_cellgate"))
        .arg("decode")
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

#[test]
fn wrong_options_exit_2() {
    for option in [
        ["--pw", "1=x"],
        ["--pw", "1048576=n1"],
        ["--pw", "5=vcc@1"],
        ["--aal", "1.100=aal6"],
        ["--aal", "1=aal5"],
    ] {
        let output = decode_file("cells.trc", &option);
        assert_eq!(output.status.code(), Some(2), "{option:?}");
    }
}

#[test]
fn foreign_captures_are_read_or_give_clear_errors() {
    let name = "decode of foreign captures";
    let Some(folder) = std::env::var_os("CELLGATE_FOREIGN_CAPTURES") else {
        println!("skipped {name}: CELLGATE_FOREIGN_CAPTURES names no folder");
        return;
    };
    let path = |file: &str| {
        PathBuf::from(&folder)
            .join(file)
            .to_str()
            .unwrap()
            .to_owned()
    };
    for file in [
        "wireshark-wiki-atm_capture1.cap",
        "netzob-atm_capture1.pcap",
    ] {
        let output = decode(&[&path(file)]);
        assert_eq!(output.status.code(), Some(0));
        let pings = text(&output.stdout)
            .lines()
            .filter(|line| line.contains("ipoa-vcmux?, 192.168.70.") && line.ends_with(" icmp"));
        assert_eq!(pings.count(), 12, "{file}");
    }
    for (file, wanted) in [
        (
            "tcpdump-atm-heapoverflow.pcap",
            "an SDU of 262140 octets: AAL5 has at most 65,535",
        ),
        (
            "tcpdump-atm-oam-loopback-print-overrun.pcap",
            "a cell of 65618 octets",
        ),
    ] {
        let path = path(file);
        let output = decode(&[&path]);
        assert_eq!(
            text(&output.stderr),
            format!("cellgate: {path}: offset 24: {wanted}\n")
        );
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    }
    println!("ran {name}");
}
