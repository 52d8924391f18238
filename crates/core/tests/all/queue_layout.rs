//! docs/shared-memory.md against the code.
#![cfg(not(any(miri, loom)))]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use cellgate_core::Time;
use cellgate_core::queue::{
    Doorbell, FileKind, GEOMETRY_WORDS, HEADER_LEN, MAGIC, ReceiveDescriptor, TransmitDescriptor,
    VERSION,
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document() -> String {
    fs::read_to_string(root().join("docs/shared-memory.md")).expect("the document")
}

/// The cells of each table row.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|row| row.split(" | ").collect())
        .collect()
}

/// The word in backticks that a cell begins with.
fn code(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.split('`').next()
}

#[test]
fn the_document_tells_the_constants() {
    use cellgate_core::queue::layout::{
        adapter::*, attachment::*, connection::*, counters::*, port::*, *,
    };
    macro_rules! constants {
        ($($name:ident)*) => { BTreeMap::from([$((stringify!($name), $name as u64)),*]) };
    }
    let constants = constants! {
        PAGE_LEN SLOTS LINE_LEN PDU_ALIGN QUEUE_SLOTS_MAX CELLS_MAX BUFFER_LEN_MAX
        RECEIVE_DESCRIPTOR_LEN TRANSMIT_DESCRIPTOR_LEN EVENT_SLOT_LEN DOORBELL_LEN
        RECEIVE_HEAD TRANSMIT_TAIL RECEIVE_TAIL TRANSMIT_HEAD
        EVENT_HEAD EVENTS_LOST DOORBELL_TAIL EVENT_TAIL ASLEEP DOORBELL_HEAD
        CELL_HEAD CELLS_DROPPED CELL_TAIL
        FIRMWARE_ASLEEP SEQUENCE TIME RECORDS RECORD_LEN
        ADAPTERS INTERFACES RESOURCES ADAPTER_LEN INTERFACE_LEN RESOURCE_LEN
    };
    let document = document();
    let told: BTreeMap<&str, u64> = rows(&document)
        .iter()
        .filter_map(|row| match row[..] {
            [value, name, _] => Some((code(name)?, value.parse().ok()?)),
            _ => None,
        })
        .collect();
    assert_eq!(told, constants);
    // A constant that is added to the code must be added above, or this fails.
    let source = fs::read_to_string(root().join("crates/core/src/queue/layout.rs")).unwrap();
    let of_layout: BTreeSet<&str> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub const ")?.split(':').next())
        .filter(|&name| name != "FILE_LEN_MAX")
        .collect();
    assert_eq!(of_layout, constants.keys().copied().collect());
}

#[test]
fn the_document_tells_the_header_and_the_kinds() {
    let document = document();
    let rows = rows(&document);
    let has = |row: [&str; 3]| rows.iter().any(|r| r[..] == row);
    assert_eq!(&MAGIC.to_le_bytes(), b"cellgate");
    assert!(has(["0", "8", "magic: `cellgate` in ASCII"]));
    assert!(has(["8", "4", &format!("version: {VERSION}")]));
    let geometry = (8 * GEOMETRY_WORDS).to_string();
    assert_eq!(HEADER_LEN, 24 + 8 * GEOMETRY_WORDS);
    assert!(rows.iter().any(|row| row[0] == "24" && row[1] == geometry));
    for (kind, file) in [
        (FileKind::ConnectionFromAdapter, "connection, from-adapter"),
        (FileKind::ConnectionFromClient, "connection, from-client"),
        (FileKind::AttachmentFromAdapter, "attachment, from-adapter"),
        (FileKind::AttachmentFromClient, "attachment, from-client"),
        (
            FileKind::PortFromSender,
            "port of a memory link, from-sender",
        ),
        (
            FileKind::PortFromReceiver,
            "port of a memory link, from-receiver",
        ),
        (FileKind::Counters, "counters"),
        (FileKind::Adapter, "adapter"),
    ] {
        let kind = (kind as u32).to_string();
        assert!(
            rows.iter().any(|row| row[0] == kind && row[1] == file),
            "{file}"
        );
    }
}

/// Where two forms of a slot differ.
fn differs(one: &[u8], other: &[u8]) -> BTreeSet<usize> {
    (0..one.len()).filter(|&i| one[i] != other[i]).collect()
}

/// For each field of a slot, the octets that change with it.
fn fields() -> BTreeMap<(&'static str, &'static str), BTreeSet<usize>> {
    let r = ReceiveDescriptor::parse(&[0; 32]);
    let t = TransmitDescriptor::parse(&[0; 16]);
    let d = Doorbell::parse(&[0; 8]);
    let mut fields = BTreeMap::new();
    macro_rules! field {
        ($slot:literal, $zero:ident, $name:literal, { $($field:ident: $value:expr),* }) => {
            let mut set = $zero;
            $(set.$field = $value;)*
            fields.insert(($slot, $name), differs(&$zero.emit(), &set.emit()));
        };
    }
    field!("receive", r, "position", { position: u64::MAX });
    field!("receive", r, "time", { time: Time::from_ns(u64::MAX) });
    field!("receive", r, "len", { len: u32::MAX });
    field!("receive", r, "cells", { cells: u32::MAX });
    field!("receive", r, "generation", { generation: u32::MAX });
    field!("receive", r, "uu", { uu: u8::MAX });
    field!("receive", r, "cpi", { cpi: u8::MAX });
    field!("receive", r, "flags", { clp: true, congestion: true, lent: true });
    field!("transmit", t, "offset", { offset: u32::MAX });
    field!("transmit", t, "len", { len: u32::MAX });
    field!("transmit", t, "uu", { uu: u8::MAX });
    field!("transmit", t, "cpi", { cpi: u8::MAX });
    field!("transmit", t, "flags", { clp: true });
    field!("transmit", t, "generation", { generation: u32::MAX });
    field!("doorbell", d, "vc", { vc: u32::MAX });
    field!("doorbell", d, "generation", { generation: u32::MAX });
    fields
}

#[test]
fn the_document_tells_the_slots() {
    let document = document();
    let mut told = BTreeMap::new();
    for row in rows(&document) {
        if let [
            slot @ ("receive" | "transmit" | "doorbell"),
            offset,
            octets,
            field,
        ] = row[..]
        {
            let offset: usize = offset.parse().expect("an offset");
            let octets: usize = octets.parse().expect("a length");
            // Of the flags' two octets only the first has flags yet.
            let name = code(field).expect("a name");
            let octets = if name == "flags" { octets - 1 } else { octets };
            told.insert((slot, name), (offset..offset + octets).collect());
        }
    }
    assert_eq!(told, fields());
}

#[test]
fn the_documents_tests_exist() {
    let document = document();
    let mut named = 0;
    for name in document.split('`').skip(1).step_by(2) {
        let Some((file, test)) = name.split_once("::") else {
            continue;
        };
        let path = match file {
            "queue_loom" => format!("crates/core/tests/{file}.rs"),
            "queue_model" | "queue_layout" => format!("crates/core/tests/all/{file}.rs"),
            "processes" | "refusals" => format!("crates/shm/tests/all/{file}.rs"),
            "tests" => "crates/shm/src/tests.rs".to_string(),
            _ => continue,
        };
        let source = fs::read_to_string(root().join(&path)).expect(&path);
        assert!(
            source.contains(&format!("fn {test}()")),
            "no test {test} in {path}"
        );
        named += 1;
    }
    assert!(named > 30, "only {named} tests named");
}
