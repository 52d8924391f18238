//! `cellgate decode` on MSSAR, in cells of the ring and in ATM cells. Each file is made here.

mod captures;
mod tshark;

use std::process::Output;

use captures::{BAD, Bad, MAX_BLOCK, Net, VCI, bad, blocks, file, interleaved, messages, packets};
use cellgate_core::upper::msna::SIGNALLING_VCI;
use serde_json::Value;

use crate::fed::fed;

/// A block of 70 octets, cut by hand.
const VECTOR: &str = "\
\x20    seconds    vpi.vci   kind     len what
 0.000000000 tx 4660      cell      36 ring channel 3, mssar seq 3 rid 5, start
 0.000001000 tx 4660      cell      36 ring channel 3, type, mssar seq 2 rid 5
 0.000002000 tx 4660      cell      36 ring channel 3, response, mssar seq 1 rid 5, part of 6 octets
 0.000002000 tx 4660      block     70 mssar rid 5, 3 cells, data 0001020304050607...
 0.000003000 -- 0         cell      36 ring channel 0, an empty slot
";

fn decode(octets: &[u8], args: &[&str]) -> Output {
    fed(&[&["decode", "-"], args].concat(), octets)
}

fn text(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

fn objects(octets: &[u8], args: &[&str]) -> Vec<Value> {
    let output = decode(octets, &[args, &["--json"]].concat());
    let lines = text(&output).lines();
    let parsed = lines.map(|line| serde_json::from_str(line).expect(line));
    parsed.collect()
}

/// The octets of each block that a capture has.
fn octets_of(objects: &[Value]) -> Vec<&str> {
    let blocks = objects.iter().filter(|object| object["kind"] == "block");
    blocks
        .map(|block| block["mssar_block_octets"].as_str().unwrap())
        .collect()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[test]
fn a_ring_capture_is_read_without_being_told_of() {
    let octets: Vec<u8> = (0..70).collect();
    let cell = |front: &[u8], data: &[u8], count: &[u8]| {
        let mut cell = [front, data].concat();
        cell.resize(37 - count.len(), 0);
        [&cell[..], count].concat()
    };
    let cells = [
        cell(&[0x83, 0x12, 0x34, 0x03, 0x15], &octets[..32], &[]),
        cell(&[0xa3, 0x12, 0x34, 0x02, 0x14], &octets[32..64], &[]),
        cell(&[0x93, 0x12, 0x34, 0x01, 0x16], &octets[64..], &[6]),
        cell(&[], &[], &[]),
    ];
    let capture = captures::ring_file(&cells);
    assert_eq!(text(&decode(&capture, &[])), VECTOR);
    let objects = objects(&capture, &[]);
    let last = &objects[2];
    assert_eq!((&last["vpi"], &last["vci"]), (&Value::Null, &VCI.into()));
    assert_eq!(
        (&last["cbn_channel"], &last["cbn_response"]),
        (&3.into(), &true.into())
    );
    assert_eq!(
        (&last["mssar_count"], &last["mssar_verdict"]),
        (&6.into(), &"delivered".into())
    );
    assert_eq!(octets_of(&objects), [hex(&octets)]);
}

#[test]
fn blocks_of_all_lengths_come_out_as_they_went_in() {
    for net in Net::BOTH {
        let sent = blocks(net);
        let capture = file(net, &interleaved(net, VCI, &sent, 1));
        for args in [["--aal", "mssar"], ["--aal", "1.4660=mssar"]] {
            let objects = objects(&capture, &args);
            let wanted: Vec<_> = sent.iter().map(|block| hex(block)).collect();
            assert_eq!(octets_of(&objects), wanted, "{net:?}");
            assert!(objects.iter().all(|object| object["kind"] != "part"));
        }
    }
}

#[test]
fn senders_have_the_circuit_of_messages_in_common_and_no_other() {
    for net in Net::BOTH {
        let sent = blocks(net);
        for (vci, delivered) in [(SIGNALLING_VCI, sent.len()), (VCI, 1)] {
            let capture = file(net, &interleaved(net, vci, &sent, sent.len()));
            let objects = objects(&capture, &["--aal", "mssar"]);
            let found = octets_of(&objects).len();
            let as_wanted = match vci {
                SIGNALLING_VCI => found == delivered,
                _ => found < sent.len(),
            };
            assert!(as_wanted, "{net:?} {vci}: {found}");
        }
    }
}

#[test]
fn a_bad_cell_is_named_and_the_next_block_is_whole() {
    for net in Net::BOTH {
        for kind in BAD {
            let Bad {
                cells,
                at,
                reason,
                lost,
            } = bad(net, kind);
            let max_block = MAX_BLOCK.to_string();
            let args = ["--aal", "mssar", "--max-block", &max_block];
            let objects = objects(&file(net, &cells), &args);
            let discarded: Vec<_> = objects
                .iter()
                .filter(|object| {
                    let verdict = object["mssar_verdict"].as_str();
                    verdict.is_some_and(|verdict| verdict != "held" && verdict != "delivered")
                })
                .map(|object| (object["record"].as_u64().unwrap(), &object["mssar_verdict"]))
                .collect();
            assert_eq!(discarded[0], (at, &reason.into()), "{net:?} {kind}");
            let failed = objects.iter().find(|object| object["kind"] == "part");
            let failed = failed.map(|failed| failed["mssar_failed_cells"].as_u64().unwrap());
            assert_eq!(failed, lost, "{net:?} {kind}");
            let last = octets_of(&objects).pop().unwrap();
            assert_eq!(last, hex(&captures::NEXT), "{net:?} {kind}");
        }
    }
}

#[test]
fn what_has_no_last_cell_is_told_at_the_end() {
    for net in Net::BOTH {
        let mut cells = interleaved(net, VCI, &[vec![7; 100]], 1);
        cells.pop();
        let objects = objects(&file(net, &cells), &["--aal", "mssar"]);
        let last = objects.last().unwrap();
        assert_eq!(
            (&last["kind"], &last["record"]),
            (&"part".into(), &0.into())
        );
        assert_eq!(last["mssar_failed_cells"], cells.len());
        assert_eq!(last["mssar_failed_reason"], Value::Null);
    }
}

#[test]
fn blocks_of_the_circuit_of_messages_are_messages() {
    let capture = file(
        Net::Ring,
        &interleaved(Net::Ring, SIGNALLING_VCI, &messages(), 1),
    );
    let output = decode(&capture, &[]);
    let blocks = text(&output)
        .lines()
        .filter(|line| line.contains(" block "));
    let said: Vec<_> = blocks
        .map(|line| line.splitn(3, ", ").nth(2).unwrap())
        .collect();
    let wanted = [
        "msnl connect 7, 10.0.0.1:5>10.0.0.2:7, vci 64, notify both, \"cbr pcr=1000\"",
        "msnl accept 7, 10.0.0.2>10.0.0.1, vci 65",
        "msnl refuse 7, 10.0.0.2>10.0.0.1, not admitted, offer \"cbr pcr=500\"",
        "msnl release 7, 10.0.0.1>10.0.0.2, vci 64",
        "msnl datagram 8, 10.0.0.1:5>10.0.0.2:7, 5 octets",
        "msnl datagram 9, 10.0.0.1:5>10.0.0.2:7, 38 octets, rex hello 11, session 0",
        "no message of msnl: the CRC does not match, data 010100000007ffff...",
        "no message of msnl: version 2, data 020100000007ffff...",
        "no message of msnl: kind 6, data 010600000007ffff...",
        "no message of msnl: a field says what cannot be, data 010100000007ffff...",
        "no message of msnl: too short, data 010224d36130",
    ];
    assert_eq!(said, wanted);
}

#[test]
fn sdus_of_aal5_are_messages_where_their_crc_says_so() {
    for (vci, wanted) in [(SIGNALLING_VCI, 6), (VCI, 0)] {
        let objects = objects(&captures::sdu_file(vci, &messages()), &[]);
        let named = objects.iter().filter(|sdu| sdu["msnl_message"].is_string());
        assert_eq!((named.count(), objects.len()), (wanted, 11));
        let none = objects.iter().all(|sdu| sdu["msnl_error"].is_null());
        assert!(none, "{objects:?}");
    }
}

#[test]
fn blocks_of_other_circuits_are_rex_where_their_crc_says_so() {
    let sent = packets();
    let capture = file(Net::Atm, &interleaved(Net::Atm, VCI, &sent, 1));
    let objects = objects(&capture, &["--aal", "mssar"]);
    let blocks = objects.iter().filter(|object| object["kind"] == "block");
    let names: Vec<_> = blocks.map(|block| block["rex_packet"].as_str()).collect();
    let wanted = [
        "hello",
        "welcome",
        "gone",
        "call",
        "announcement",
        "received",
        "working",
        "reply",
        "probe",
        "refused",
        "dropped",
        "ended",
    ];
    assert_eq!(names[..12], wanted.map(Some));
    assert_eq!(names[12..], [None]);
}

#[test]
fn other_records_of_the_link_type_are_refused_one_by_one() {
    let cells = [vec![0x80; 37], vec![0x80; 38], vec![0x80; 37]];
    let output = decode(&captures::ring_file(&cells), &[]);
    assert_eq!(output.status.code(), Some(1));
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    assert_eq!(lines.filter(|line| line.contains(" cell ")).count(), 2);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("a record of 38 octets"), "{said}");
}
