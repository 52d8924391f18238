//! The header says what the library does.

mod live;

use core::ffi::{CStr, c_char};
use core::mem::{offset_of, size_of};
use core::ptr;
use std::process::Command;

use crate::error::CODES;
use crate::held::HELD_MAX;
use crate::stats::{DISCARDS, DISCARDS_MAX};
use crate::wait::{EVENT, RECEIVE, SEND, SENT};
use crate::*;
use client::{Discard, EndReason, EventKind, Resource, StreamReader};

const HEADER: &str = include_str!("../include/cellgate.h");

const SOURCES: [&str; 10] = [
    include_str!("connection.rs"),
    include_str!("data.rs"),
    include_str!("error.rs"),
    include_str!("event.rs"),
    include_str!("indication.rs"),
    include_str!("open.rs"),
    include_str!("shortage.rs"),
    include_str!("stats.rs"),
    include_str!("stream.rs"),
    include_str!("wait.rs"),
];

/// What the header says that a name is.
fn value(name: &str) -> i32 {
    let words = HEADER.split(['{', ',', '}', '\n', '/']);
    let mut said = words.filter_map(|words| words.trim().strip_prefix(name)?.strip_prefix(" = "));
    let said = said.next();
    let said = said.unwrap_or_else(|| panic!("{name} is not in the header"));
    said.trim().parse().unwrap()
}

/// The words between `before` and the next `(`.
fn functions(text: &str, before: &str) -> Vec<String> {
    let found = text.split(before).skip(1);
    let mut names: Vec<_> = found
        .filter_map(|rest| rest.split('(').next())
        .map(|name| format!("cg_{name}"))
        .filter(|name| name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_'))
        .collect();
    names.sort();
    names
}

#[test]
fn the_header_declares_what_the_library_has() {
    let mut declared = Vec::new();
    for before in ["\nint cg_", "\nconst char *cg_", "\nsize_t cg_"] {
        declared.extend(functions(HEADER, before));
    }
    declared.sort();
    let mut defined: Vec<_> = SOURCES
        .iter()
        .flat_map(|source| functions(source, "extern \"C\" fn cg_"))
        .collect();
    defined.sort();
    assert!(defined.len() > 15, "{defined:?}");
    assert_eq!(declared, defined);
}

#[test]
fn the_header_has_every_code() {
    for (name, code, text) in CODES {
        assert_eq!(value(name), code as i32, "{name}");
        // SAFETY: a text that stays.
        let said = unsafe { CStr::from_ptr(cg_error_string(code as i32)) };
        assert_eq!(said, text);
    }
    for (name, value) in [
        ("CG_RECEIVE", RECEIVE),
        ("CG_SEND", SEND),
        ("CG_SENT", SENT),
        ("CG_EVENT", EVENT),
        ("CG_HELD_MAX", HELD_MAX as i32),
        ("CG_STREAM_MAX", StreamReader::HELD_MAX as i32),
        ("CG_DISCARDS_MAX", DISCARDS_MAX as i32),
        (
            "CG_TRANSMIT_BANDWIDTH",
            shortage::number(Resource::TransmitBandwidth),
        ),
        (
            "CG_RECEIVE_BANDWIDTH",
            shortage::number(Resource::ReceiveBandwidth),
        ),
        ("CG_ADAPTER_CPU", shortage::number(Resource::AdapterCpu)),
        ("CG_WORKER_CPU", shortage::number(Resource::WorkerCpu)),
        ("CG_MEMORY", shortage::number(Resource::Memory)),
        ("CG_CONNECTIONS", shortage::number(Resource::Connections)),
        ("CG_END_DELETED", indication::number(EndReason::Deleted)),
        (
            "CG_END_INTERFACE_REMOVED",
            indication::number(EndReason::InterfaceRemoved),
        ),
        (
            "CG_END_TAKEN_OVER",
            indication::number(EndReason::TakenOver),
        ),
        (
            "CG_END_NOT_REOPENED",
            indication::number(EndReason::NotReopened),
        ),
        (
            "CG_END_SHUTTING_DOWN",
            indication::number(EndReason::ShuttingDown),
        ),
        (
            "CG_END_PAGES_TAKEN",
            indication::number(EndReason::PagesTaken),
        ),
        (
            "CG_END_BUFFER_GONE",
            indication::number(EndReason::BufferGone),
        ),
        (
            "CG_EVENT_TRANSMIT_COMPLETED",
            event::kind(EventKind::TransmitCompleted),
        ),
        ("CG_EVENT_PDU_RECEIVED", event::kind(EventKind::PduReceived)),
        (
            "CG_EVENT_QUEUE_FULL",
            event::kind(EventKind::ReceiveQueueFull),
        ),
        (
            "CG_EVENT_QUEUE_OVER_THRESHOLD",
            event::kind(EventKind::ReceiveQueueOverThreshold),
        ),
    ] {
        assert_eq!(self::value(name), value, "{name}");
    }
}

#[test]
fn the_header_has_every_reason_of_a_discard() {
    assert!(Discard::ALL.len() == DISCARDS.len() && DISCARDS.len() <= DISCARDS_MAX);
    for (number, reason) in (0..).zip(Discard::ALL) {
        // SAFETY: a text that stays.
        let name = unsafe { CStr::from_ptr(cg_discard_name(number)) };
        assert_eq!(name.to_str(), Ok(reason.name()));
        let in_header = format!("CG_DISCARD_{}", reason.name().to_ascii_uppercase());
        assert_eq!(value(&in_header), number);
    }
    assert!(cg_discard_name(-1).is_null());
    assert!(cg_discard_name(DISCARDS.len() as i32).is_null());
}

#[test]
fn the_header_lays_structs_out_as_the_library_does() {
    macro_rules! fields {
        ($($name:literal $kind:ident: $($field:ident)+;)+) => {
            [$($(($name, stringify!($field), size_of::<$kind>(), offset_of!($kind, $field)),)+)+]
        };
    }
    let fields = fields! {
        "cg_open" cg_open_t: size socket address contract patience_ns silent_delay_ns
            silent_threshold notification transmit_pdus receive_pdus no_completions connected
            queue_threshold events;
        "cg_sdu" cg_sdu: mid uu cpi clp;
        "cg_received" cg_received: len sdu_len time_ns mid uu cpi clp congestion lent;
        "cg_indication" cg_indication_t: transmit_cell_s receive_cell_s credit_octets interval_ns
            pdus kind reason;
        "cg_event" cg_event_t: value time_ns cells kind interruptive reserved;
        "cg_stream" cg_stream: oldest end released_unread;
        "cg_shortage" cg_shortage_t: needed free quota resource;
        "cg_counters" cg_counters_t: sent send_copies suspended received receive_copies dismissed
            events_lost;
        "cg_stats" cg_stats_t: cells_received cells_delivered cells_held cells_answered
            cells_transmitted pdus_delivered pdus_lent pdus_tagged pdus_transmitted pdus_crossed
            client_faults cells_discarded pdus_discarded;
    };
    let members = 4 * size_of::<usize>() + 2 * size_of::<u64>() + size_of::<[u32; 8]>();
    assert_eq!(
        size_of::<cg_open_t>(),
        members,
        "padding is nobody's to clear"
    );
    let mut program = String::from("#include <cellgate.h>\n");
    for (kind, field, size, offset) in fields {
        program += &format!(
            "_Static_assert(sizeof(struct {kind}) == {size} \
             && offsetof(struct {kind}, {field}) == {offset}, \"{kind}.{field}\");\n"
        );
    }
    let path = std::env::temp_dir().join(format!("cellgate-layout-{}.c", std::process::id()));
    std::fs::write(&path, program).unwrap();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-fsyntax-only", include])
        .arg(&path)
        .output();
    std::fs::remove_file(&path).unwrap();
    match compiled {
        Err(_) => println!("skipped capi_layout: there is no cc"),
        Ok(compiled) => {
            let said = String::from_utf8_lossy(&compiled.stderr);
            assert!(compiled.status.success(), "{said}");
            println!("ran capi_layout");
        }
    }
}

#[test]
fn null_is_an_error_and_no_crash() {
    let bad = error::Code::BadArgument as i32;
    let handle = ptr::null_mut::<cg_connection>();
    let null = ptr::null_mut::<core::ffi::c_void>();
    let mut out = ptr::dangling_mut();
    let (mut octets, mut pdu) = (ptr::null(), 0);
    // SAFETY: NULL is allowed for every pointer, and the others are of this test.
    unsafe {
        assert_eq!(
            cg_open(
                ptr::null_mut(),
                null.cast(),
                c"0.5".as_ptr(),
                c"ubr".as_ptr()
            ),
            bad
        );
        assert_eq!(
            cg_open(&mut out, ptr::null(), ptr::null(), c"ubr".as_ptr()),
            bad
        );
        assert!(out.is_null());
        assert_eq!(
            cg_open(&mut out, ptr::null(), c"\xff".as_ptr(), c"ubr".as_ptr()),
            bad
        );
        assert_eq!(cg_take(&mut out, ptr::null(), ptr::null()), bad);
        assert_eq!(cg_set_contract(handle, c"ubr".as_ptr()), bad);
        assert_eq!(cg_contract(handle, null.cast(), 0), bad);
        assert_eq!(
            cg_send(handle, c"x".as_ptr().cast(), 1, ptr::null(), 0),
            bad
        );
        assert_eq!(cg_recv(handle, null, 0, ptr::null_mut(), 0), bad);
        assert_eq!(cg_flush(handle, 0), bad);
        assert_eq!(cg_reserve(handle, 1, ptr::null_mut(), 0), bad);
        assert_eq!(cg_submit(handle, ptr::null()), bad);
        assert_eq!(cg_abandon(handle), bad);
        assert_eq!(
            cg_next(handle, &mut pdu, &mut octets, ptr::null_mut(), 0),
            bad
        );
        assert_eq!(cg_release(handle, 0), bad);
        assert_eq!(
            (cg_fd(handle), cg_arm(handle, 1, 0), cg_disarm(handle)),
            (bad, bad, bad)
        );
        assert_eq!(cg_counters(handle, ptr::null_mut()), bad);
        assert_eq!(cg_stats(handle, ptr::null_mut()), bad);
        assert_eq!(cg_max_sdu(handle, SEND), bad);
        assert_eq!(cg_truncate(handle, 1), bad);
        assert_eq!(cg_lease(handle, 1, 1), bad);
        assert_eq!(cg_capability(handle), bad);
        assert_eq!(cg_open_with(&mut out, ptr::null()), bad);
        assert_eq!(cg_take_with(&mut out, ptr::null()), bad);
        assert_eq!(cg_reattach(&mut out, ptr::null(), 0), bad);
        let told = ptr::null_mut();
        assert_eq!(cg_indication(handle, told, null.cast(), 0, 0), bad);
        assert_eq!(cg_event(handle, ptr::null_mut(), 0), bad);
        assert_eq!(
            (cg_accept_offer(handle), cg_decline_offer(handle)),
            (bad, bad)
        );
        assert_eq!(cg_stream_open(handle, 0, 0), bad);
        assert_eq!(cg_stream_read(handle, null, 0, 0), bad);
        assert_eq!(cg_stream_read_at(handle, 0, null, 0), bad);
        assert_eq!(cg_stream_state(handle, ptr::null_mut()), bad);
        assert_eq!(cg_stream_close(handle), bad);
        assert_eq!(cg_shortage(ptr::null_mut(), null.cast(), 0), bad);
        assert_eq!(cg_close(handle, 0), 0);
    }
}

#[test]
fn errors_say_more_than_their_code_and_are_cut_off_to_fit() {
    let mut out = ptr::null_mut();
    let nowhere = c"/nonexistent/socket".as_ptr();
    // SAFETY: texts closed by a 0, and a place of this test.
    let code = unsafe { cg_open(&mut out, nowhere, c"0.5".as_ptr(), c"ubr".as_ptr()) };
    assert_eq!(code, error::Code::NoServer as i32);
    assert!(out.is_null());
    let mut text = [c_char::MAX; 400];
    // SAFETY: there is room for as many octets.
    let len = unsafe { cg_last_error(text.as_mut_ptr(), text.len()) };
    // SAFETY: it was closed by a 0.
    let all = unsafe { CStr::from_ptr(text.as_ptr()) }
        .to_str()
        .unwrap()
        .to_owned();
    assert!(
        all.contains("/nonexistent/socket") && all.len() == len,
        "{all}"
    );
    // SAFETY: as above; with no room nothing is written.
    unsafe {
        assert_eq!(cg_last_error(text.as_mut_ptr(), 6), len);
        assert_eq!(
            CStr::from_ptr(text.as_ptr()).to_bytes(),
            &all.as_bytes()[..5]
        );
        assert_eq!(cg_last_error(text.as_mut_ptr(), 0), len);
        assert_eq!(cg_last_error(ptr::null_mut(), 10), len);
    }
}

#[test]
fn a_panic_ends_at_the_edge() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let code = error::guarded(|| panic!("a test"));
    std::panic::set_hook(hook);
    assert_eq!(code, error::Code::Panic as i32);
}

#[test]
fn every_call_and_every_code_has_a_manual_page() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/man");
    let mut names = String::new();
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let page = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let name = page.split(".SH NAME\n").nth(1);
        names += name
            .and_then(|rest| rest.lines().next())
            .unwrap_or_default();
        names += "\n";
        all += &page;
    }
    for shown in all.split(".EX\nstruct ").skip(1) {
        let shown = shown.split(".EE").next().unwrap();
        assert!(HEADER.contains(&format!("struct {shown}")), "{shown}");
    }
    for source in SOURCES {
        for function in functions(source, "extern \"C\" fn cg_") {
            let named = names.split([',', ' ', '\n']).any(|word| word == function);
            assert!(named, "no page of docs/man is about {function}");
        }
    }
    let told_by_name_alone = ["CG_KERNEL", "CG_BAD_MESSAGE", "CG_PANIC"];
    for (name, ..) in CODES {
        let told = all.contains(name) || told_by_name_alone.contains(&name);
        assert!(told, "no page of docs/man tells of {name}");
    }
}
