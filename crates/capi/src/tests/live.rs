//! Calls over a server.

#[path = "../../../client/tests/common/mod.rs"]
mod common;

use core::ffi::{CStr, c_char, c_int};
use core::mem::{size_of, zeroed};
use core::ptr;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use client::{EndReason, Error, Indication, Notification};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::value;
use crate::*;
use common::{Daemon, PATIENCE, eventually};

const CONTRACT: &CStr = c"cbr,aal5:pcr=100000,max_sdu=1000";
const PATIENCE_MS: c_int = 60_000;

/// A handle that is closed.
struct Handle(*mut cg_connection);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: nobody uses it from here on.
        unsafe { cg_close(self.0, 0) };
    }
}

/// What is to be opened, with the text that it points to.
struct How(
    cg_open_t,
    #[expect(dead_code, reason = "it is pointed to")] CString,
);

fn how(daemon: &Daemon, address: &'static CStr) -> How {
    let socket = CString::new(daemon.path().to_str().unwrap()).unwrap();
    let how = cg_open_t {
        size: size_of::<cg_open_t>(),
        socket: socket.as_ptr(),
        address: address.as_ptr(),
        contract: CONTRACT.as_ptr(),
        receive_pdus: 64,
        // SAFETY: all 0 is a value of it, as C programs make it.
        ..unsafe { zeroed() }
    };
    How(how, socket)
}

fn open_with(how: &cg_open_t) -> Result<Handle, c_int> {
    let mut handle = ptr::null_mut();
    // SAFETY: a place of this test, and texts that stay.
    match unsafe { cg_open_with(&mut handle, how) } {
        0 => Ok(Handle(handle)),
        code => Err(code),
    }
}

fn open(daemon: &Daemon, address: &'static CStr) -> Handle {
    open_with(&how(daemon, address).0).unwrap()
}

fn send(handle: &Handle, sdu: &[u8]) {
    let (octets, with) = (sdu.as_ptr().cast(), ptr::null());
    // SAFETY: a handle, and octets of this test.
    let code = unsafe { cg_send(handle.0, octets, sdu.len(), with, PATIENCE_MS) };
    assert_eq!(code, 0);
}

/// The next indication and its text, or a code.
fn next(handle: &Handle, timeout_ms: c_int) -> Result<(cg_indication_t, String), c_int> {
    let mut told = cg_indication_t::default();
    let mut text = [c_char::MAX; 400];
    // SAFETY: a handle, and places of this test.
    let len = unsafe {
        cg_indication(
            handle.0,
            &mut told,
            text.as_mut_ptr(),
            text.len(),
            timeout_ms,
        )
    };
    if len < 0 {
        return Err(len);
    }
    // SAFETY: it was closed by a 0.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().unwrap();
    assert_eq!(text.len(), len as usize);
    Ok((told, text.to_owned()))
}

#[test]
fn every_option_reaches_the_server() {
    let daemon = Daemon::start();
    let mut admin = daemon.admin();
    let mut listed = |how: &cg_open_t| {
        let open = open_with(how).unwrap();
        let listed = admin.list().unwrap().remove(0);
        drop(open);
        eventually("it is not closed", || {
            admin.list().unwrap().is_empty().then_some(())
        });
        listed
    };
    let mut how = how(&daemon, c"a.0.100");
    how.0.receive_pdus = 0;
    let usual = listed(&how.0);
    assert_eq!((usual.transmit_pdus, usual.receive_pdus), (None, None));
    assert!(usual.completions && usual.notification.is_none());

    how.0.transmit_pdus = 3;
    how.0.receive_pdus = 5;
    how.0.no_completions = 1;
    how.0.silent_threshold = 7;
    how.0.silent_delay_ns = 9_000;
    let silent = Notification::Silent {
        threshold: 7,
        longest_delay_ns: 9_000,
    };
    for (name, notification) in [
        ("EVERY_CELL", Notification::EveryCell),
        ("FIRST_CELL", Notification::FirstCell),
        ("LAST_CELL", Notification::LastCell),
        ("FIRST_AND_LAST_CELL", Notification::FirstAndLastCell),
        ("SILENT", silent),
        ("POLLED", Notification::Polled),
    ] {
        how.0.notification = value(&format!("CG_NOTIFY_{name}"));
        let asked = listed(&how.0);
        assert_eq!(asked.notification, Some(notification));
        assert_eq!(
            (asked.transmit_pdus, asked.receive_pdus),
            (Some(3), Some(5))
        );
        assert!(!asked.completions);
    }
    assert_eq!(value("CG_NOTIFY_USUAL"), 0);
    how.0.notification = 7;
    assert_eq!(open_with(&how.0).err(), Some(value("CG_BAD_ARGUMENT")));
    how.0.notification = 0;
    how.0.contract = ptr::null();
    assert_eq!(listed(&how.0).contract, "ubr,aal5");
}

#[test]
fn a_longer_structure_is_read_if_it_asks_for_nothing_unknown() {
    #[repr(C)]
    struct Newer(cg_open_t, [u8; 16]);
    let daemon = Daemon::start();
    let how = how(&daemon, c"a.0.100");
    let bad = Some(value("CG_BAD_ARGUMENT"));
    for size in [0, size_of::<cg_open_t>() - 1, usize::MAX] {
        let other = cg_open_t { size, ..how.0 };
        assert_eq!(open_with(&other).err(), bad, "{size}");
    }
    let mut newer = Newer(how.0, [0; 16]);
    newer.0.size = size_of::<Newer>();
    let read = |newer: &Newer| {
        let mut handle = ptr::null_mut();
        // SAFETY: it is as long as it says.
        let code = unsafe { cg_open_with(&mut handle, ptr::from_ref(newer).cast()) };
        drop(Handle(handle));
        code
    };
    assert_eq!(read(&newer), 0);
    newer.1[15] = 1;
    assert_eq!(Some(read(&newer)), bad);
}

#[test]
fn a_server_that_says_nothing_is_waited_for_as_long_as_was_asked() {
    let (flags, family) = (SocketFlags::CLOEXEC, AddressFamily::UNIX);
    let (here, _there) = socketpair(family, SocketType::SEQPACKET, flags, None).unwrap();
    let daemon = Daemon::start();
    let mut how = how(&daemon, c"a.0.100");
    how.0.connected = here.as_raw_fd();
    how.0.socket = c"/nonexistent/socket".as_ptr();
    how.0.patience_ns = 1_000_000;
    // The default would be 30 s.
    let began = std::time::Instant::now();
    assert_eq!(open_with(&how.0).err(), Some(value("CG_TIMED_OUT")));
    assert!(began.elapsed().as_secs() < 20);
    how.0.connected = -1;
    assert_eq!(open_with(&how.0).err(), Some(value("CG_BAD_ARGUMENT")));
}

#[test]
fn a_permanent_connection_is_taken() {
    let daemon = Daemon::start();
    let mut admin = daemon.admin();
    admin.add(&daemon.builder("a.0.100", "ubr,aal5")).unwrap();
    for (address, taken) in [(c"a.0.100", 0), (c"a.0.101", value("CG_REFUSED"))] {
        let how = how(&daemon, address);
        let mut handle = ptr::dangling_mut();
        // SAFETY: a place of this test, and texts that stay.
        let code = unsafe { cg_take_with(&mut handle, &how.0) };
        assert_eq!((code, handle.is_null()), (taken, taken != 0));
        drop(Handle(handle));
    }
}

/// The next indication of this kind and its text, leaving others aside.
fn hears(handle: &Handle, kind: &str) -> (cg_indication_t, String) {
    loop {
        let told = next(handle, PATIENCE_MS).unwrap();
        if told.0.kind == value(&format!("CG_TOLD_{kind}")) {
            return told;
        }
    }
}

#[test]
fn whatever_the_server_tells_is_told() {
    let mut daemon = Daemon::start();
    let a = open(&daemon, c"a.0.100");
    let told = |name| cg_indication_t {
        kind: value(&format!("CG_TOLD_{name}")),
        ..cg_indication_t::default()
    };
    assert_eq!(next(&a, 0), Err(value("CG_WOULD_BLOCK")));
    assert_eq!(next(&a, 1), Err(value("CG_TIMED_OUT")));

    daemon.kill();
    daemon.restart();
    let restarted = (told("RESTARTED"), String::new());
    assert_eq!(next(&a, -1), Ok(restarted));

    daemon.kill_adapter();
    let contract = CONTRACT.to_str().unwrap().to_owned();
    assert_eq!(hears(&a, "REOPENED"), (told("REOPENED"), contract));

    daemon.admin().remove_interface("b").unwrap();
    let reason = "the link of its interface is down".to_owned();
    assert_eq!(hears(&a, "AT_RISK"), (told("AT_RISK"), reason));

    daemon.end();
    let ended = cg_indication_t {
        reason: value("CG_END_SHUTTING_DOWN"),
        ..told("ENDED")
    };
    let text = Error::Ended(EndReason::ShuttingDown).to_string();
    assert_eq!(hears(&a, "ENDED"), (ended, text));
    assert_eq!(next(&a, 0), Err(value("CG_ENDED")));
    assert_eq!(value("CG_TOLD_OTHER"), 0);
}

#[test]
fn a_share_is_told_with_its_pace() {
    let daemon = Daemon::start();
    let mut how = how(&daemon, c"a.0.100");
    how.0.contract = c"ubr,aal5:tx:max_sdu=100,rx:max_sdu=100".as_ptr();
    let a = open_with(&how.0).unwrap();
    // What one hears the other does: both have the same contract.
    let contract = "ubr,aal5:tx:max_sdu=100,rx:max_sdu=100";
    let same = daemon.open("a.0.101", contract);
    let _others = ["a.0.102", "a.0.103"].map(|address| daemon.open(address, contract));
    let is_quarter = |rate: u32| rate == common::LINE / 4;
    let Indication::Share {
        transmit: Some(transmit),
        transmit_credit: Some(credit),
        receive: Some(receive),
    } = common::hears(&same, |told| {
        let Indication::Share { transmit, .. } = told else {
            return false;
        };
        transmit.is_some_and(|rate| is_quarter(rate.cell_s()))
    })
    else {
        panic!("a share lacks something");
    };
    let share = cg_indication_t {
        transmit_cell_s: transmit.cell_s(),
        receive_cell_s: receive.cell_s(),
        credit_octets: credit.octets(),
        interval_ns: credit.interval_ns(),
        kind: value("CG_TOLD_SHARE"),
        ..cg_indication_t::default()
    };
    let (told, text) = loop {
        let (told, text) = hears(&a, "SHARE");
        if is_quarter(told.transmit_cell_s) {
            break (told, text);
        }
    };
    assert_eq!((told, text), (share, String::new()));
}

#[test]
fn losses_and_events_are_told() {
    let daemon = Daemon::start();
    let best = c"ubr,aal5:max_sdu=1000";
    let mut how = how(&daemon, c"b.0.100");
    how.0.contract = best.as_ptr();
    (how.0.events, how.0.queue_threshold) = (8, 2);
    how.0.notification = value("CG_NOTIFY_POLLED");
    let b = open_with(&how.0).unwrap();
    let a = daemon.open("a.0.100", best.to_str().unwrap());
    for _ in 0..4_000 {
        a.send(&[1; 1_000]).unwrap();
    }
    let mut event = cg_event_t::default();
    for kind in ["QUEUE_OVER_THRESHOLD", "QUEUE_FULL"] {
        // SAFETY: a handle, and a place of this test.
        let code = unsafe { cg_event(b.0, &mut event, PATIENCE_MS) };
        let kind = value(&format!("CG_EVENT_{kind}"));
        assert_eq!((code, event.kind, event.interruptive), (0, kind, 1));
        assert!(event.value >= 2 && event.time_ns > 0, "{event:?}");
    }
    // SAFETY: as above.
    let code = unsafe { cg_event(b.0, &mut event, 0) };
    assert_eq!(code, value("CG_WOULD_BLOCK"));
    let (told, text) = hears(&b, "LOSING");
    let full = ["CG_DISCARD_BUFFER_FULL", "CG_DISCARD_QUEUE_FULL"].map(value);
    assert!(full.contains(&told.reason) && told.pdus > 0, "{told:?}");
    assert!(text.ends_with("_full"), "{text}");
}

#[test]
fn an_offer_is_taken_or_left() {
    const OFFER: &CStr = c"cbr,aal5:pcr=900000,max_sdu=2000";
    let daemon = Daemon::start();
    let a = open(&daemon, c"a.0.100");
    // SAFETY: a handle.
    let answer = |yes| unsafe {
        match yes {
            true => cg_accept_offer(a.0),
            false => cg_decline_offer(a.0),
        }
    };
    assert_eq!(
        (answer(true), answer(false)),
        (value("CG_WOULD_BLOCK"), value("CG_WOULD_BLOCK"))
    );
    for (yes, contract) in [(false, CONTRACT), (true, OFFER)] {
        let other = daemon.open("a.0.101", "cbr,aal5:pcr=200000");
        // SAFETY: a handle, and a text that stays.
        let refused = unsafe { cg_set_contract(a.0, OFFER.as_ptr()) };
        assert_eq!(refused, value("CG_REFUSED"));
        other.close(PATIENCE).unwrap();
        let (_, offer) = hears(&a, "CAN_GROW");
        assert_eq!(offer.as_str(), OFFER.to_str().unwrap());
        assert_eq!(answer(yes), 0);
        let mut text = [0; 100];
        // SAFETY: a handle, and room for as many octets; it is closed by a 0.
        let text = unsafe {
            cg_contract(a.0, text.as_mut_ptr(), text.len());
            CStr::from_ptr(text.as_ptr())
        };
        assert_eq!(text, contract);
    }
}

#[test]
fn a_connection_is_taken_over_by_its_capability() {
    let daemon = Daemon::start();
    let a = open(&daemon, c"a.0.100");
    // SAFETY: a handle; the descriptor is this test's.
    let capability = unsafe { OwnedFd::from_raw_fd(cg_capability(a.0)) };
    let how = how(&daemon, c"a.0.100");
    let mut other = ptr::null_mut();
    // SAFETY: a place of this test, texts that stay, open descriptors.
    unsafe {
        let code = cg_reattach(&mut other, &how.0, -1);
        assert_eq!((code, other.is_null()), (value("CG_BAD_ARGUMENT"), true));
        assert_eq!(cg_reattach(&mut other, &how.0, capability.as_raw_fd()), 0);
    }
    let taken = Handle(other);
    let (told, _) = next(&a, PATIENCE_MS).unwrap();
    assert_eq!(told.reason, value("CG_END_TAKEN_OVER"));
    send(&taken, b"by the other");
}

#[test]
fn what_the_adapter_counted_is_told_by_reason() {
    let daemon = Daemon::start();
    let a = open(&daemon, c"a.0.100");
    let mut small = how(&daemon, c"b.0.100");
    small.0.contract = c"cbr,aal5:pcr=100000,max_sdu=40".as_ptr();
    let b = open_with(&small.0).unwrap();
    send(&a, &[1; 1_000]);
    send(&a, &[2; 40]);
    let stats = |handle: &Handle| {
        // SAFETY: all 0 is a value of it; a handle, and a place of this test.
        unsafe {
            let mut stats = zeroed();
            assert_eq!(cg_stats(handle.0, &mut stats), 0);
            stats
        }
    };
    while stats(&b).pdus_delivered < 1 {}
    let (sent, got) = (stats(&a), stats(&b));
    assert_eq!((sent.pdus_transmitted, sent.cells_transmitted), (2, 22));
    assert_eq!((got.cells_received, got.cells_delivered), (22, 1));
    let oversized = value("CG_DISCARD_OVERSIZED") as usize;
    assert_eq!(
        (
            got.pdus_discarded[oversized],
            got.cells_discarded[oversized]
        ),
        (1, 21)
    );
    assert_eq!(got.pdus_discarded.iter().sum::<u64>(), 1);
    assert_eq!(got.cells_discarded.iter().sum::<u64>(), 21);
}

#[test]
fn a_connection_tells_its_largest_sdus() {
    let daemon = Daemon::start();
    let mut how = how(&daemon, c"a.0.100");
    how.0.contract = c"cbr,aal5:tx:pcr=1000,max_sdu=100,rx:pcr=1000,max_sdu=200".as_ptr();
    let both = open_with(&how.0).unwrap();
    how.0.contract = c"cbr,aal5:tx:pcr=1000,max_sdu=100,rx:none".as_ptr();
    how.0.address = c"a.0.101".as_ptr();
    let one = open_with(&how.0).unwrap();
    let (send, receive) = (value("CG_SEND"), value("CG_RECEIVE"));
    for (handle, direction, max_sdu) in [
        (&both, send, 100),
        (&both, receive, 200),
        (&one, send, 100),
        (&one, receive, value("CG_WRONG_DIRECTION")),
        (&one, send | receive, value("CG_BAD_ARGUMENT")),
    ] {
        // SAFETY: a handle.
        assert_eq!(unsafe { cg_max_sdu(handle.0, direction) }, max_sdu);
    }
}

#[test]
fn less_than_was_reserved_is_sent() {
    let daemon = Daemon::start();
    let (a, b) = (open(&daemon, c"a.0.100"), open(&daemon, c"b.0.100"));
    let mut space = ptr::null_mut();
    let mut buffer = [0_u8; 10];
    // SAFETY: handles and places of this test; there is room for what is written.
    unsafe {
        assert_eq!(cg_truncate(a.0, 2), value("CG_NO_SPACE"));
        assert_eq!(cg_reserve(a.0, 10, &mut space, PATIENCE_MS), 0);
        space.cast::<[u8; 2]>().write([7; 2]);
        assert_eq!(cg_truncate(a.0, 2), 0);
        assert_eq!(cg_submit(a.0, ptr::null()), 0);
        assert_eq!(cg_stream_open(b.0, u64::MAX, 1), 0);
        let octets = buffer.as_mut_ptr().cast();
        assert_eq!(cg_stream_read(b.0, octets, buffer.len(), PATIENCE_MS), 2);
    }
    assert_eq!(buffer[..3], [7, 7, 0]);
}

#[test]
fn host_time_is_lent() {
    let daemon = Daemon::start();
    let mut how = how(&daemon, c"a.0.100");
    how.0.contract = c"cbr,aal5:excess=when-idle,pcr=1000,max_sdu=100".as_ptr();
    let a = open_with(&how.0).unwrap();
    let other = open(&daemon, c"a.0.101");
    // SAFETY: handles.
    unsafe {
        assert_eq!(cg_lease(a.0, 1, 1_000_000), 0);
        assert_eq!(cg_lease(a.0, 1, 10_000_001), value("CG_REFUSED"));
        // Its excess is discarded.
        assert_eq!(cg_lease(other.0, 1, 1_000_000), value("CG_REFUSED"));
    }
}

#[test]
fn admission_says_what_there_is_not_enough_of() {
    let daemon = Daemon::start();
    let mut how = how(&daemon, c"a.0.100");
    let mut offer = [c_char::MAX; 100];
    let mut shortage = cg_shortage_t {
        needed: 0,
        free: 0,
        quota: 0,
        resource: 0,
    };
    how.0.contract = c"nonsense".as_ptr();
    assert_eq!(open_with(&how.0).err(), Some(value("CG_REFUSED")));
    // SAFETY: places of this test.
    let code = unsafe { cg_shortage(&mut shortage, offer.as_mut_ptr(), offer.len()) };
    assert_eq!(code, value("CG_NO_SHORTAGE"));

    how.0.contract = c"cbr,aal5:pcr=2000000".as_ptr();
    assert_eq!(open_with(&how.0).err(), Some(value("CG_REFUSED")));
    // SAFETY: as above.
    let len = unsafe { cg_shortage(&mut shortage, offer.as_mut_ptr(), 4) };
    // SAFETY: it was closed by a 0.
    let cut_off = unsafe { CStr::from_ptr(offer.as_ptr()) };
    assert_eq!(
        (cut_off, len as usize),
        (c"cbr", "cbr,aal5:pcr=1000000".len())
    );
    assert_eq!((shortage.needed, shortage.free), (2_000_000, 1_000_000));
    assert_eq!(shortage.quota, -1);
    assert_eq!(shortage.resource, value("CG_TRANSMIT_BANDWIDTH"));
}

#[test]
fn a_stream_is_released_by_time() {
    let daemon = Daemon::start();
    let (a, b) = (open(&daemon, c"a.0.100"), open(&daemon, c"b.0.100"));
    let mut buffer = [0_u8; 4];
    let mut read = |number: Option<u64>, timeout_ms| {
        let octets = buffer.as_mut_ptr().cast();
        // SAFETY: a handle, and room for as many octets.
        let len = unsafe {
            match number {
                Some(number) => cg_stream_read_at(b.0, number, octets, buffer.len()),
                None => cg_stream_read(b.0, octets, buffer.len(), timeout_ms),
            }
        };
        (len, buffer[0])
    };
    let none = value("CG_NO_STREAM");
    let mut state = cg_stream {
        oldest: 0,
        end: 0,
        released_unread: 0,
    };
    assert_eq!((read(None, -1).0, read(Some(0), 0).0), (none, none));
    // SAFETY: handles, and a place of this test.
    unsafe {
        assert_eq!(cg_stream_state(b.0, &mut state), none);
        assert_eq!(cg_stream_close(b.0), none);
        assert_eq!(cg_stream_open(b.0, u64::MAX, 2), 0);
    }
    assert_eq!(read(None, 0).0, value("CG_WOULD_BLOCK"));
    assert_eq!(read(None, 1).0, value("CG_TIMED_OUT"));
    for first in 1..=3 {
        send(&a, &[first; 10]);
        assert_eq!(
            read(None, if first == 1 { -1 } else { PATIENCE_MS }),
            (10, first)
        );
    }
    // Two are held at once.
    assert_eq!(read(Some(1), 0), (10, 2));
    assert_eq!(read(Some(0), 0).0, value("CG_LATE"));
    assert_eq!(read(Some(3), 0).0, value("CG_WOULD_BLOCK"));
    // SAFETY: as above.
    unsafe { assert_eq!(cg_stream_state(b.0, &mut state), 0) };
    assert_eq!((state.oldest, state.end, state.released_unread), (1, 3, 0));

    // Nothing is held for any time: what arrives is late.
    // SAFETY: as above.
    unsafe { assert_eq!(cg_stream_open(b.0, 0, 2), 0) };
    send(&a, b"old");
    assert_eq!(read(None, PATIENCE_MS).0, value("CG_LATE"));
    // SAFETY: as above.
    unsafe {
        assert_eq!(cg_stream_state(b.0, &mut state), 0);
        assert_eq!((state.oldest, state.released_unread), (1, 1));
        assert_eq!(cg_stream_close(b.0), 0);
    }
    assert_eq!(read(None, 0).0, none);

    // One that is open, and holds, goes with the connection.
    send(&a, &[4; 10]);
    // SAFETY: as above.
    unsafe { assert_eq!(cg_stream_open(b.0, u64::MAX, 2), 0) };
    assert_eq!(read(None, PATIENCE_MS), (10, 4));
}
