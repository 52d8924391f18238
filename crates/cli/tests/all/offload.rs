//! Datagrams of a pseudowire that Linux hands to a device as one, as a capture on the sending
//! machine has them: `decode` and `replay` take them apart.

use cellgate_core::wire::pseudowire::{CellMode, Sequence};
use cellgate_core::wire::{Addresses, Cell, Header, Label, LabelEntry, MplsInUdp, Pti, VpiVci};
use serde_json::Value;

use crate::fed::fed;

const ENTRY: fn() -> LabelEntry = || LabelEntry::new(Label::new(1000).unwrap(), true, 255);

/// A capture of one frame of UDP from port 6635: what stands behind its first label.
fn capture(behind: &[u8]) -> Vec<u8> {
    let headers = MplsInUdp {
        ethernet_source: [2, 0, 0, 0, 0, 2],
        ethernet_destination: [2, 0, 0, 0, 0, 1],
        addresses: Addresses::V4 {
            source: [10, 9, 0, 1].into(),
            destination: [10, 9, 0, 2].into(),
        },
        identification: 1,
        ttl: 64,
        source_port: 49_152,
        checksum: false,
        entry: ENTRY(),
    };
    let frame = [&*headers.emit(behind), behind].concat();
    let len = u32::try_from(frame.len()).unwrap().to_le_bytes();
    let file = [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 65_535, 1].map(u32::to_le_bytes);
    [file.as_flattened(), &[0; 8], &len, &len, &frame].concat()
}

/// A packet of so many cells of VC 1.100.
fn packet(mode: CellMode, number: u16, cells: u8) -> Vec<u8> {
    let mut packet = mode.emit_header(Sequence::from_bits(number)).to_vec();
    for cell in 0..cells {
        let address = VpiVci::new(1, 100).unwrap();
        let pti = Pti::User {
            congested: false,
            last: cell + 1 == cells,
        };
        let header = Header::new(address, pti, false);
        let payload = [cell; 48];
        packet.extend(&*mode.emit_cell(&Cell { header, payload }));
    }
    packet
}

/// What `decode --json` says of the frames: number, of how many, cells.
fn frames(capture: &[u8], args: &[&str]) -> Vec<[Option<u64>; 3]> {
    let output = fed(&[&["decode", "-", "--json"], args].concat(), capture);
    let lines = String::from_utf8(output.stdout).unwrap();
    let objects = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let frames = objects.filter(|object: &Value| object["kind"] == "frame");
    frames
        .map(|frame| ["packet", "packets", "cells"].map(|key| frame[key].as_u64()))
        .collect()
}

fn received(capture: &[u8], args: &[&str]) -> u64 {
    let output = fed(&[&["replay", "-", "--json"], args].concat(), capture);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    told["cells_received"].as_u64().unwrap()
}

#[test]
fn packets_that_a_device_was_to_take_apart_are_all_read() {
    let bare = CellMode::NToOne {
        control_word: false,
    };
    let numbered = CellMode::NToOne { control_word: true };
    let label = ENTRY().emit();
    for (mode, args) in [
        (bare, &[][..]),
        (numbered, &[]),
        (CellMode::OneToOneVcc, &["--pw", "1000=vcc@1.100"]),
    ] {
        for (counts, last) in [(1u8, 1), (3, 3), (3, 2), (28, 1)] {
            // Of 14 bare packets the labels between them are as long as a cell.
            for of in [2, 3, 14] {
                let mut behind = packet(mode, 1, counts);
                for number in 2..=of {
                    let cells = if number == of { last } else { counts };
                    behind.extend(label);
                    behind.extend(packet(mode, number, cells));
                }
                let capture = capture(&behind);
                let all = u64::from(counts) * u64::from(of - 1) + u64::from(last);
                let told = frames(&capture, args);
                let wanted = (1..=of).map(|number| {
                    let cells = if number == of { last } else { counts };
                    [number.into(), of.into(), cells.into()].map(Some)
                });
                assert_eq!(told, wanted.collect::<Vec<_>>(), "{mode:?} {counts} {last}");
                assert_eq!(received(&capture, args), all);
            }
        }
    }
}

#[test]
fn a_packet_that_came_before_costs_none_of_those_behind_it() {
    let numbered = CellMode::NToOne { control_word: true };
    let packets = [1, 1, 2].map(|number| packet(numbered, number, 3));
    let capture = capture(&packets.join(&ENTRY().emit()[..]));
    assert_eq!(frames(&capture, &[]).len(), 3);
    assert_eq!(received(&capture, &[]), 6);
}

#[test]
fn octets_that_look_like_a_label_take_no_packet_apart() {
    let bare = CellMode::NToOne {
        control_word: false,
    };
    let mut octets = packet(bare, 0, 4);
    // In a payload, where no packet could end.
    octets[60..64].copy_from_slice(&ENTRY().emit());
    assert_eq!(frames(&capture(&octets), &[]), [[None, None, Some(4)]]);
    // In the place of a header, and not where the next packet would have one.
    octets.extend(packet(bare, 0, 4));
    octets[104..108].copy_from_slice(&ENTRY().emit());
    assert_eq!(frames(&capture(&octets), &[]), [[None, None, Some(8)]]);
}
