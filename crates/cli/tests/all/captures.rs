//! `cellgate decode` and `replay` on what people's captures have: marks of the capturing card,
//! snapped records, control channels, packets of AAL2, numbers, ports. Each file is made here.

use cellgate_core::wire::{Aal1Header, CpsPacketHeader, StartField};
use serde_json::{Value, json};

use crate::fed::fed;

/// What each line says behind the time and the direction.
fn decode(args: &[&str], input: &[u8]) -> Vec<String> {
    let output = fed(&[&["decode", "-"], args].concat(), input);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let words = |line: &str| {
        line.split_whitespace()
            .skip(2)
            .collect::<Vec<_>>()
            .join(" ")
    };
    text.lines().skip(1).map(words).collect()
}

fn objects(args: &[&str], input: &[u8]) -> Vec<Value> {
    let output = fed(&[&["decode", "-", "--json"], args].concat(), input);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn replay(args: &[&str], input: &[u8]) -> Value {
    let output = fed(&[&["replay", "-", "--json"], args].concat(), input);
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // A replay of nothing has failed.
    let code = i32::from(told["cells_received"] == 0);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    told
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect()
}

/// An ERF record of a type, with flags, lost records and a length on the wire.
fn erf(kind: u8, flags: u8, lost: u16, payload: &[u8], wire_len: u16) -> Vec<u8> {
    let mut record = hex("00000000 00f15365");
    record.extend([kind, flags]);
    for field in [16 + payload.len() as u16, lost, wire_len] {
        record.extend(field.to_be_bytes());
    }
    record.extend(payload);
    record
}

/// A cell of 0.100 with the end of a PDU or not.
fn cell(last: bool, payload: &[u8]) -> Vec<u8> {
    let mut cell = vec![0, 0, 0x06, 0x40 | u8::from(last) << 1];
    cell.extend(payload);
    cell.resize(52, 0);
    cell
}

/// A PDU of one cell: the example of I.363, and its octets as SDU.
fn one_cell_pdu() -> Vec<u8> {
    let mut pdu: Vec<u8> = (1..=40).collect();
    pdu.extend([0, 0, 0, 40, 0xbf, 0x67, 0x1e, 0xd0]);
    cell(true, &pdu)
}

/// A little-endian pcap file of packets, a millisecond apart.
fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = hex("d4c3b2a1 0200 0400 00000000 00000000 00000400");
    file.extend(link.to_le_bytes());
    for (ms, packet) in (0..).zip(packets) {
        let len = packet.len() as u32;
        for field in [1_700_000_000, 1_000 * ms, len, len] {
            file.extend(u32::to_le_bytes(field));
        }
        file.extend(packet);
    }
    file
}

/// MPLS over Ethernet.
fn labelled(stack: &str, packet: &[u8]) -> Vec<u8> {
    [
        hex("020000000001 020000000002 8847"),
        hex(stack),
        packet.to_vec(),
    ]
    .concat()
}

fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let total = (28 + payload.len() as u16).to_be_bytes();
    let mut packet = [
        &hex("4500")[..],
        &total,
        &hex("00010000 4011 0000 c0000201 c0000202"),
    ]
    .concat();
    for field in [source, destination, 8 + payload.len() as u16, 0] {
        packet.extend(field.to_be_bytes());
    }
    [packet, payload.to_vec()].concat()
}

const PDU: &str = "0.100 pdu 48 sdu 40, crc-32 ok, data 0102030405060708...";

#[test]
fn what_the_card_says_of_a_record_is_told_and_not_trusted() {
    let whole = one_cell_pdu();
    let file = [
        erf(3, 0x04, 7, &whole, 52),
        erf(3, 0x14, 0, &cell(false, &[9; 48]), 52),
        erf(3, 0x24, 0, &cell(false, &[9; 48]), 52),
        erf(3, 0x0c, 1, &whole, 52),
    ]
    .concat();
    assert_eq!(
        decode(&[], &file),
        [
            "0.100 cell 52 user, last, 7 records LOST before",
            PDU,
            "0.100 cell 52 user, RX ERROR",
            "0.100 cell 52 user, RECORD DAMAGED by the card",
            "0.100 cell 52 user, last, 1 record LOST before, truncated",
            PDU,
        ]
    );
    let told = objects(&[], &file);
    assert_eq!(
        (&told[0]["lost_before"], &told[2]["receive_error"]),
        (&json!(7), &json!(true))
    );
    let outcome = replay(&[], &file);
    assert_eq!(outcome["records_skipped"]["damaged"], 2);
    assert_eq!(outcome["lost"], json!({ "records": 8, "packets": 0 }));
    assert_eq!(
        (&outcome["pdus_delivered"], &outcome["cells_received"]),
        (&json!(2), &json!(2))
    );
    // A colour stands where others have a loss.
    let frame = labelled("003e9140", &whole);
    let colored = [&[0, 0][..], &frame].concat();
    let lines = decode(&[], &erf(11, 0x04, 9, &colored, frame.len() as u16));
    assert!(!lines[0].contains("LOST"), "{lines:?}");
    assert!(lines[0].contains("mpls 1001"), "{lines:?}");
}

#[test]
fn what_was_snapped_is_read_as_far_as_it_goes() {
    let ping = hex("4500 0054 0001 0000 4001 f6a4 c0000201 c0000202 0800 eeb7");
    let llc = [hex("00000642 aaaa030000000800"), ping.clone()].concat();
    let mux = [hex("00000642"), ping.clone()].concat();
    let whole = one_cell_pdu();
    for (record, wanted) in [
        (
            erf(4, 4, 0, &llc, 148),
            "0.100 pdu 32 no trailer, ipoa-llcsnap, 192.0.2.1>192.0.2.2 icmp, \
             112 octets not captured",
        ),
        (
            erf(4, 4, 0, &mux, 100),
            "0.100 pdu 24 no trailer, ipoa-vcmux?, 192.0.2.1>192.0.2.2 icmp, \
             72 octets not captured",
        ),
        (
            erf(3, 4, 0, &whole[..20], 52),
            "0.100 cell 20 user, last, 32 octets not captured",
        ),
        (
            erf(
                12,
                4,
                0,
                &[hex("00000000 00100420"), hex("082464 0102")].concat(),
                17,
            ),
            "1.66 packet 5 aal2 cid 8 uui 3 of 10 octets, hec-5 ok, 8 octets not captured",
        ),
    ] {
        assert_eq!(decode(&[], &record), [wanted]);
        assert_eq!(replay(&[], &record)["records_skipped"]["not_whole"], 1);
    }
    // A frame of which one cell was kept, and a piece of the next.
    let frame = labelled("003e9140", &[whole.clone(), whole].concat());
    let mut file = pcap(1, &[frame[..18 + 60].to_vec()]);
    let original = (frame.len() as u32).to_le_bytes();
    file[24 + 12..24 + 16].copy_from_slice(&original);
    let lines = decode(&[], &file);
    assert_eq!(
        lines[0],
        "- frame 78 mpls 1001 n1?, 1 cell, 44 octets not captured"
    );
    assert_eq!(lines[1..], ["0.100 cell 52 user, last", PDU]);
}

#[test]
fn a_control_channel_is_no_fault() {
    let ip = udp(49_152, 3_503, &[0; 24]);
    let channel = [hex("10000021"), ip.clone()].concat();
    let bfd = [hex("10000007"), vec![0; 24]].concat();
    // As long as a cell, and no cell.
    let as_long = [hex("10000007"), vec![0; 48]].concat();
    let cells = one_cell_pdu();
    let file = pcap(
        1,
        &[
            labelled("003ea140", &channel),
            labelled("003ea040 0000d140", &channel),
            labelled("00001040 003ea140", &ip),
            labelled("003ea140", &bfd),
            labelled("003ea140", &as_long),
            labelled("003ea140", &[hex("1000 7fff"), vec![0; 9]].concat()),
            labelled("003ea140", &cells),
        ],
    );
    let lines = decode(&[], &file);
    assert_eq!(
        lines[..6],
        [
            "- frame 74 mpls 1002 control channel, ipv4",
            "- frame 78 mpls 1002 control channel, by its labels, ipv4",
            "- frame 74 mpls 1002 control channel, by its labels, ipv4",
            "- frame 46 mpls 1002 control channel, bfd",
            "- frame 70 mpls 1002 control channel, bfd",
            "- frame 31 mpls 1002 control channel, type 0x7fff",
        ]
    );
    assert_eq!(lines[6], "- frame 70 mpls 1002 n1?, 1 cell");
    let told = objects(&[], &file);
    assert!(
        told.iter()
            .all(|line| line.get("pseudowire_error").is_none()),
        "{told:?}"
    );
    let outcome = replay(&[], &file);
    let skipped = &outcome["records_skipped"];
    assert_eq!(
        (&skipped["control_channel"], &skipped["no_pseudowire"]),
        (&json!(6), &json!(0))
    );
    assert_eq!(outcome["pdus_delivered"], 1);
    // A pseudowire without control word has VPIs of 256 and more.
    let far = [hex("10000640"), vec![5; 48]].concat();
    let cell = pcap(1, &[labelled("003ea140", &far)]);
    assert_eq!(decode(&[], &cell)[1], "256.100 cell 52 user");
    let said = decode(
        &["--pw", "1002=n1"],
        &pcap(1, &[labelled("003ea140", &as_long)]),
    );
    assert_eq!(said[1], "256.0 cell 52 user, last, efci, clp 1");
}

#[test]
fn numbers_of_a_pseudowire_are_judged_as_a_receiver_does() {
    let numbered = |number: u16| {
        let word = [[0, 0], number.to_be_bytes()].concat();
        labelled("003ea140", &[word, one_cell_pdu()].concat())
    };
    let numbers = [1, 2, 2, 6, 4, 0, 7];
    let file = pcap(1, &numbers.map(numbered));
    let args = ["--pw", "1002=n1-cw"];
    let lines = decode(&args, &file);
    let frames: Vec<_> = lines
        .iter()
        .filter_map(|line| line.split_once("n1-cw, "))
        .collect();
    let wanted = [
        "seq 1, 1 cell",
        "seq 2, 1 cell",
        "seq 2, DUPLICATE, 1 cell",
        "seq 6, 3 packets LOST before, 1 cell",
        "seq 4, OUT OF ORDER, 1 cell",
        "1 cell",
        "seq 7, 1 cell",
    ];
    assert_eq!(
        frames.iter().map(|(_, rest)| *rest).collect::<Vec<_>>(),
        wanted
    );
    let pdus = lines.iter().filter(|line| line.contains(" pdu ")).count();
    assert_eq!(pdus, 5, "what came twice or late makes none");
    let verdicts = objects(&args, &file);
    let verdicts = verdicts.iter().filter(|line| line["kind"] == "frame");
    let verdicts: Vec<_> = verdicts
        .filter_map(|line| line["sequence_verdict"].as_str())
        .collect();
    let wanted = [
        "in_order",
        "in_order",
        "duplicate",
        "gap",
        "out_of_order",
        "in_order",
    ];
    assert_eq!(verdicts, wanted);
    let outcome = replay(&args, &file);
    assert_eq!(outcome["records_skipped"]["out_of_order"], 2);
    assert_eq!(outcome["lost"], json!({ "records": 0, "packets": 3 }));
    assert_eq!(outcome["pdus_delivered"], 5);
}

#[test]
fn each_end_of_a_pseudowire_has_numbers_and_pdus_of_its_own() {
    let cells = one_cell_pdu();
    let from = |end: u8, number: u16, cells: &[u8]| {
        let word = [[0, 0], number.to_be_bytes()].concat();
        let mut frame = labelled("003ea140", &[&word[..], cells].concat());
        frame[11] = end;
        frame
    };
    // A PDU of two cells from one end, around one of the other's.
    let first = cell(false, &[7; 48]);
    let file = pcap(
        1,
        &[from(1, 1, &first), from(2, 900, &cells), from(1, 2, &cells)],
    );
    let lines = decode(&["--pw", "1002=n1-cw"], &file);
    assert!(!lines.iter().any(|line| line.contains("LOST")), "{lines:?}");
    assert!(lines.contains(&PDU.to_string()), "{lines:?}");
    assert!(
        lines.last().unwrap().starts_with("0.100 pdu 96"),
        "{lines:?}"
    );
}

#[test]
fn a_frame_that_linux_saw_twice_is_no_loss_and_no_duplicate() {
    let word = |number: u16| [[0, 0], number.to_be_bytes()].concat();
    let seen = |interface: u8, number: u16, cell: &[u8]| {
        let mut frame = hex("8847 0000 00000002 0001 00 06 0200000000010000 003ea140");
        frame[7] = interface;
        [frame, word(number), cell.to_vec()].concat()
    };
    let (first, last) = (cell(false, &[7; 48]), one_cell_pdu());
    let file = pcap(
        276,
        &[
            seen(2, 1, &first),
            seen(3, 1, &first),
            seen(2, 2, &last),
            seen(3, 2, &last),
        ],
    );
    let lines = decode(&["--pw", "1002=n1-cw"], &file);
    assert!(
        !lines.iter().any(|line| line.contains("DUPLICATE")),
        "{lines:?}"
    );
    let pdus = lines.iter().filter(|line| line.starts_with("0.100 pdu 96"));
    assert_eq!(pdus.count(), 2, "{lines:?}");
}

#[test]
fn any_port_is_read_where_the_user_names_it() {
    let packet = [hex("003e9140"), one_cell_pdu()].concat();
    let file = pcap(
        101,
        &[udp(50_000, 7_001, &packet), udp(7_001, 50_000, &packet)],
    );
    let refused = decode(&[], &file);
    assert_eq!(
        refused[0],
        "- frame 84 no pseudowire: UDP from port 50000 to 7001, neither of which is 6635 \
         (--udp-port 7001 reads it)"
    );
    let args = ["--udp-port", "9", "--udp-port", "7001"];
    let lines = decode(&args, &file);
    assert_eq!(lines[0], "- frame 84 mpls/udp 1001 n1?, 1 cell");
    assert_eq!(lines.iter().filter(|line| **line == PDU).count(), 2);
    assert_eq!(replay(&args, &file)["pdus_delivered"], 2);
    assert_eq!(replay(&[], &file)["records_skipped"]["no_pseudowire"], 2);
}

#[test]
fn every_packet_of_aal2_is_told_wherever_cells_end() {
    let packet = |cid: u8, len: u8| {
        let header = CpsPacketHeader {
            cid,
            li: len - 1,
            uui: 1,
        };
        [header.emit().to_vec(), vec![cid; len.into()]].concat()
    };
    let of = |osf: u8, sn: bool, octets: &[u8]| {
        let mut cell = hex("00100420");
        cell.push(StartField { osf, sn }.emit());
        cell.extend(octets);
        cell.resize(52, 0);
        erf(3, 4, 0, &cell, 52)
    };
    let stream = [packet(8, 10), packet(9, 44), packet(10, 1)].concat();
    let (one, two) = stream.split_at(47);
    let file = [
        of(0, false, one),
        of(13, true, two),
        of(47, false, &[]),
        of(3, false, &[1; 3]),
    ];
    let lines = decode(&["--aal", "1.66=aal2"], &file.concat());
    assert_eq!(
        lines,
        [
            "1.66 cell 52 user, osf 0 sn 0, start field ok, 34 octets of a packet that goes on",
            "1.66 packet 13 aal2 cid 8 uui 1 of 10 octets, hec-5 ok",
            "1.66 cell 52 user, osf 13 sn 1, start field ok, 30 octets of padding",
            "1.66 packet 47 aal2 cid 9 uui 1 of 44 octets, hec-5 ok",
            "1.66 packet 4 aal2 cid 10 uui 1 of 1 octets, hec-5 ok",
            "1.66 cell 52 user, osf 47 sn 0, start field ok, 47 octets of padding",
            "1.66 cell 52 user, osf 3 sn 0, start field ok, \
             3 octets of a packet without its beginning, 44 octets of padding, cells LOST before",
        ]
    );
}

#[test]
fn counts_of_aal1_are_judged() {
    let of = |sc: u8| {
        let octet = Aal1Header { csi: false, sc }.emit();
        erf(3, 4, 0, &cell(false, &[octet]), 52)
    };
    let file = [6, 7, 0, 3, 3, 4].map(of).concat();
    let lines = decode(&["--aal", "0.100=aal1"], &file);
    let told: Vec<_> = lines
        .iter()
        .map(|line| line.split_once("snp ok").unwrap().1)
        .collect();
    assert_eq!(
        told,
        ["", "", "", ", 2 cells LOST before", ", DUPLICATE", ""]
    );
}

#[test]
fn a_replay_tolerates_what_a_daemon_does_unless_it_is_told_otherwise() {
    // 48 us apart at most, and 47: as a capture in microseconds has 20,833 cells/s.
    let mut file = hex("d4c3b2a1 0200 0400 00000000 00000000 00000400 c5000000");
    for n in 0..400 {
        let record = erf(3, 4, 0, &cell(false, &[0; 48]), 52);
        let len = record.len() as u32;
        for field in [1_700_000_000, n * 48 - n % 2, len, len] {
            file.extend(u32::to_le_bytes(field));
        }
        file.extend(record);
    }
    let contract = ["--contract", "cbr,aal0:pcr=20833"];
    let of = |more: &[&str]| {
        let outcome = replay(&[&contract, more].concat(), &file);
        let told = ["cdvt_ns", "clump_cells"].map(|key| outcome[key].as_u64().unwrap());
        (
            outcome["cells_delivered"].as_u64().unwrap(),
            told[0],
            told[1],
        )
    };
    assert_eq!(of(&[]), (400, 1_000_000, 29));
    assert_eq!(of(&["--cdvt", "0ns"]).0, 400);
    let (strict, ..) = of(&["--cdvt", "0ns", "--clump", "1"]);
    assert!(strict < 400, "{strict}");
    let output = fed(&[&["replay", "-"], &contract[..]].concat(), &file);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("policed with a CDVT of 1000000 ns and clumps of 29 cells\n"),
        "{text}"
    );
    let own = ["--contract", "cbr,aal0:pcr=20833,cdvt=2us", "--clump", "1"];
    let output = fed(&[&["replay", "-"], &own[..]].concat(), &file);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("1 cells; 0.100: 2000 ns by its contract\n"),
        "{text}"
    );
    for bad in [["--cdvt", "1"], ["--cdvt", "1ms,pcr=9"], ["--clump", "0"]] {
        let output = fed(&[&["replay", "-"], &bad[..]].concat(), &file);
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
    }
}

#[test]
fn a_damaged_record_is_told_and_costs_itself_alone() {
    let records = [
        one_cell_pdu(),
        one_cell_pdu(),
        one_cell_pdu(),
        one_cell_pdu(),
    ];
    let mut file = records.map(|cell| erf(3, 4, 0, &cell, 52)).concat();
    for wrong in [0, 3, 400, 0xffff_u16] {
        file[68 + 10..68 + 12].copy_from_slice(&wrong.to_be_bytes());
        let output = fed(&["decode", "-"], &file);
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.matches("crc-32 ok").count(), 3, "{wrong}: {text}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(
            told.starts_with("cellgate: standard input: offset 68: "),
            "{told}"
        );
        assert_eq!(told.lines().count(), 1);
    }
}
