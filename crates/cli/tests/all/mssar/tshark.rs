//! The dissector `docs/wireshark/cbn.lua` and `cellgate decode --json`, field for field.

use std::collections::BTreeMap;
use std::process::Command;

use cellgate_capture::Link;
use cellgate_core::upper::msna::SIGNALLING_VCI;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

use super::captures::{
    BAD, MAX_BLOCK, Net, VCI, bad, blocks, file, interleaved, link_file, messages, odd_packets,
    packets, ring_file, texts,
};
use super::objects;

const SCRIPT: &str = concat!(
    "lua_script:",
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/wireshark/cbn.lua"
);
const PROTOCOLS: [&str; 5] = ["cbn", "mssar", "msnl", "rex", "msdl"];
/// Fields that only the dissector has.
const OF_TSHARK: [&str; 9] = [
    "cbn_direction",
    "mssar_data",
    "mssar_discarded",
    "msnl_version",
    "msnl_crc",
    "msnl_none",
    "rex_version",
    "rex_crc",
    "msdl_octets",
];

/// The fields of one record by the names that `decode` has for them.
type Fields = BTreeMap<String, String>;

/// What tshark says of each record of a capture, none of which is malformed.
fn tshark(octets: &[u8], max_block: usize) -> Vec<Fields> {
    let path = std::env::temp_dir().join(format!("cellgate-mssar-{}", std::process::id()));
    std::fs::write(&path, octets).expect("a temporary file");
    let circuits = format!("mssar.circuits:1.{VCI} 1.{SIGNALLING_VCI}");
    let output = Command::new("tshark")
        .args(["-X", SCRIPT, "-o", &circuits])
        .args(["-o", &format!("mssar.max_block:{max_block}")])
        .args(["-T", "json", "--no-duplicate-keys", "-r"])
        .arg(&path)
        .output();
    let _ = std::fs::remove_file(&path);
    let output = output.expect("tshark");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("Lua"), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("_ws.malformed"), "{text}");
    assert!(!text.contains("_ws.lua.error"), "{text}");
    let all: Vec<Value> = serde_json::from_str(&text).expect("JSON of tshark");
    let fields = all.iter().map(|packet| {
        let mut fields = Fields::new();
        collect(&packet["_source"]["layers"], &mut fields);
        fields
    });
    fields.collect()
}

/// The fields in a tree of tshark's.
fn collect(tree: &Value, fields: &mut Fields) {
    let Value::Object(tree) = tree else { return };
    for (name, value) in tree {
        collect(value, fields);
        let Some((proto, field)) = name.split_once('.') else {
            continue;
        };
        if !PROTOCOLS.contains(&proto) {
            continue;
        }
        let value = value.as_str().unwrap_or_default();
        let value = match field {
            "block_octets" | "beyond" => value.replace(':', ""),
            _ => value.to_owned(),
        };
        let twice = fields.insert(format!("{proto}_{field}"), value);
        assert_eq!(twice, None, "{name}");
    }
}

/// Those that `decode` has of each record.
fn decoded(octets: &[u8], max_block: usize) -> Vec<Fields> {
    let max_block = max_block.to_string();
    let mut records = Vec::new();
    for object in objects(octets, &["--aal", "mssar", "--max-block", &max_block]) {
        let record = object["record"].as_u64().unwrap() as usize;
        // Record 0 stands for what never ended.
        let Some(at) = record.checked_sub(1) else {
            continue;
        };
        records.resize(records.len().max(record), Fields::new());
        let of_ours = object.as_object().unwrap().iter().filter(|(name, value)| {
            let proto = name.split_once('_').map(|(proto, _)| proto);
            proto.is_some_and(|proto| PROTOCOLS.contains(&proto)) && !value.is_null()
        });
        for (name, value) in of_ours {
            let twice = records[at].insert(name.clone(), word(value));
            assert_eq!(twice, None, "{object}");
        }
    }
    records
}

/// A value as tshark has it.
fn word(value: &Value) -> String {
    match value {
        Value::Bool(is_set) => u8::from(*is_set).to_string(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// The fields of every record, which both have.
fn agree(what: &str, octets: &[u8], max_block: usize) -> Vec<Fields> {
    let decoded = decoded(octets, max_block);
    let mut found = tshark(octets, max_block);
    for fields in &mut found {
        fields.retain(|name, _| !OF_TSHARK.contains(&name.as_str()));
    }
    assert_eq!(found.len(), decoded.len(), "{what}");
    for (number, (found, decoded)) in (1..).zip(found.iter().zip(&decoded)) {
        assert_eq!(found, decoded, "{what}, record {number}");
    }
    decoded
}

fn of<'a>(records: &'a [Fields], name: &str) -> Vec<&'a str> {
    let found = records.iter().filter_map(|record| record.get(name));
    found.map(String::as_str).collect()
}

const ANY: usize = u16::MAX as usize;

fn good_captures() {
    for net in Net::BOTH {
        let blocks = blocks(net);
        for (vci, at_once) in [(VCI, 1), (SIGNALLING_VCI, 1), (SIGNALLING_VCI, 64)] {
            let what = format!("{net:?}, circuit {vci}, {at_once} at once");
            let capture = file(net, &interleaved(net, vci, &blocks, at_once));
            let records = agree(&what, &capture, ANY);
            let delivered = of(&records, "mssar_block_length");
            assert_eq!(delivered.len(), blocks.len(), "{what}");
        }
        let cells = interleaved(net, SIGNALLING_VCI, &messages(), 1);
        let records = agree("messages", &file(net, &cells), ANY);
        assert_eq!(of(&records, "msnl_message").len(), 6);
        assert_eq!(of(&records, "msnl_error").len(), 5);
        let cells = interleaved(net, VCI, &packets(), 1);
        let records = agree("packets", &file(net, &cells), ANY);
        assert_eq!(of(&records, "rex_packet").len(), 12);
        let cells = interleaved(net, SIGNALLING_VCI, &texts(), 1);
        let records = agree("texts", &file(net, &cells), ANY);
        assert_eq!(of(&records, "msnl_contract").len(), 6);
        let cells = interleaved(net, VCI, &odd_packets(), 1);
        let records = agree("odd packets", &file(net, &cells), ANY);
        assert_eq!(of(&records, "rex_packet").len(), 2);
    }
    let octets = (0..=u8::MAX).map(|octet| vec![octet; 37]);
    agree("any octets", &ring_file(&octets.collect::<Vec<_>>()), ANY);
}

/// One kind of bad cell after the other, each with a whole block behind it.
fn bad_captures() {
    for net in Net::BOTH {
        let mut cells = Vec::new();
        let mut wanted = Vec::new();
        for kind in BAD {
            let bad = bad(net, kind);
            wanted.push((kind, cells.len() + bad.at as usize, bad.reason));
            cells.extend(bad.cells);
        }
        let records = agree("bad cells", &file(net, &cells), MAX_BLOCK);
        for (kind, number, reason) in wanted {
            let verdict = &records[number - 1]["mssar_verdict"];
            assert_eq!(verdict, reason, "{net:?}, {kind}");
        }
    }
}

/// Cells that are lost, come twice, change places and have bits changed in their headers.
fn disturbed_captures() {
    for (net, seed) in Net::BOTH.into_iter().zip(0..) {
        let mut random = Pcg64Mcg::new(seed);
        for vci in [VCI, SIGNALLING_VCI] {
            let lens = (0..60_usize).map(|n| n * 13 % MAX_BLOCK);
            let blocks: Vec<_> = lens.map(|len| vec![len as u8; len]).collect();
            let mut cells = interleaved(net, vci, &blocks, 3);
            for at in (1..cells.len()).rev() {
                match random.next_u32() % 40 {
                    0 => _ = cells.remove(at),
                    1 => cells.insert(at, cells[at].clone()),
                    2 => cells.swap(at, at - 1),
                    3 => {
                        let bit = random.next_u32() % 16;
                        cells[at].1[bit as usize / 8] ^= 1 << (bit % 8);
                    }
                    _ => {}
                }
            }
            let records = agree("disturbed", &file(net, &cells), MAX_BLOCK);
            let reasons = of(&records, "mssar_failed_reason");
            assert!(reasons.len() > 10, "{net:?} {vci}: {reasons:?}");
        }
    }
}

/// Messages of blocks that are UDP datagrams, and what follows MSDL's types on Ethernet.
fn other_links() {
    let messages = messages();
    let frames: Vec<_> = messages.iter().map(|message| udp_frame(message)).collect();
    let found = tshark(&link_file(Link::ETHERNET, &frames), ANY);
    let cells = interleaved(Net::Ring, SIGNALLING_VCI, &messages, 1);
    let mut wanted = decoded(&file(Net::Ring, &cells), ANY);
    wanted.retain(|fields| fields.contains_key("mssar_block_rid"));
    assert_eq!((found.len(), wanted.len()), (11, 11));
    for (mut found, mut wanted) in found.into_iter().zip(wanted) {
        found.retain(|name, _| !OF_TSHARK.contains(&name.as_str()));
        wanted.retain(|name, _| !name.starts_with("cbn_") && !name.starts_with("mssar_"));
        assert_eq!(found, wanted);
    }
    for kind in [[0x66, 0x60], [0x66, 0x61]] {
        let frame = [&[2; 12][..], &kind, &[7; 46]].concat();
        let [fields] = &*tshark(&link_file(Link::ETHERNET, &[frame]), ANY) else {
            panic!("one record");
        };
        assert_eq!(fields["msdl_octets"], ["07"; 46].join(":"));
    }
}

/// An Ethernet frame with a message that goes to MSNL's port.
fn udp_frame(message: &[u8]) -> Vec<u8> {
    let len = message.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend((28 + len).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend([0xc0, 0, 0x66, 0x60]);
    packet.extend((8 + len).to_be_bytes());
    packet.extend([0, 0]);
    [&[2; 12][..], &[8, 0], &packet, message].concat()
}

#[test]
fn tshark_agrees_on_mssar() {
    let version = Command::new("tshark").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        println!("skipped tshark_agrees_on_mssar: tshark is not installed");
        return;
    }
    good_captures();
    bad_captures();
    disturbed_captures();
    other_links();
    println!("ran tshark_agrees_on_mssar");
}
