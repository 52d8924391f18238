//! Calls over a server.

#[path = "../../../client/tests/common/mod.rs"]
mod common;

use core::ffi::{CStr, c_char, c_int};
use core::mem::{size_of, zeroed};
use core::ptr;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use cellgate_core::contract::Jitter;
use client::{Admin, CellRate, Credit, EndReason, Indication, Notification};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::value;
use crate::*;
use common::{Fake, answers::OFFER};

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

fn how(fake: &Fake, address: &'static CStr) -> How {
    let socket = CString::new(fake.path().to_str().unwrap()).unwrap();
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

fn open(fake: &Fake, address: &'static CStr) -> Handle {
    open_with(&how(fake, address).0).unwrap()
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
    let fake = Fake::start();
    let listed = |how: &cg_open_t| {
        let _open = open_with(how).unwrap();
        Admin::at(fake.path()).unwrap().list().unwrap().remove(0)
    };
    let mut how = how(&fake, c"a.0.100");
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
    let fake = Fake::start();
    let how = how(&fake, c"a.0.100");
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
    let fake = Fake::start();
    let mut how = how(&fake, c"a.0.100");
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
    let fake = Fake::start();
    let mut admin = Admin::at(fake.path()).unwrap();
    admin.add(&fake.builder("a.0.100", "ubr,aal5")).unwrap();
    for (address, taken) in [(c"a.0.100", 0), (c"a.0.101", value("CG_REFUSED"))] {
        let how = how(&fake, address);
        let mut handle = ptr::dangling_mut();
        // SAFETY: a place of this test, and texts that stay.
        let code = unsafe { cg_take_with(&mut handle, &how.0) };
        assert_eq!((code, handle.is_null()), (taken, taken != 0));
        drop(Handle(handle));
    }
}

#[test]
fn whatever_the_server_tells_is_told() {
    let fake = Fake::start();
    let a = open(&fake, c"a.0.100");
    let told = |name| cg_indication_t {
        kind: value(&format!("CG_TOLD_{name}")),
        ..cg_indication_t::default()
    };
    assert_eq!(next(&a, 0), Err(value("CG_WOULD_BLOCK")));
    assert_eq!(next(&a, 1), Err(value("CG_TIMED_OUT")));

    let rate = CellRate::new;
    let credit = Credit::for_sdu_rate(8_000, 100, Jitter::Low);
    let credit = credit.unwrap();
    fake.tell(Indication::Share {
        transmit: rate(300),
        transmit_credit: Some(credit),
        receive: rate(200),
    });
    let share = cg_indication_t {
        transmit_cell_s: 300,
        receive_cell_s: 200,
        credit_octets: credit.octets(),
        interval_ns: credit.interval_ns(),
        ..told("SHARE")
    };
    assert_eq!(next(&a, PATIENCE_MS), Ok((share, String::new())));

    let reason = "a drift".to_owned();
    fake.tell(Indication::AtRisk { reason });
    let at_risk = (told("AT_RISK"), "a drift".to_owned());
    assert_eq!(next(&a, PATIENCE_MS), Ok(at_risk));

    fake.tell(Indication::Restarted);
    let restarted = (told("RESTARTED"), String::new());
    assert_eq!(next(&a, -1), Ok(restarted));

    fake.restart_adapter();
    let contract = CONTRACT.to_str().unwrap().to_owned();
    assert_eq!(next(&a, PATIENCE_MS), Ok((told("REOPENED"), contract)));

    fake.tell(Indication::Ended(EndReason::NotReopened));
    let ended = cg_indication_t {
        reason: value("CG_END_NOT_REOPENED"),
        ..told("ENDED")
    };
    let (said, text) = next(&a, PATIENCE_MS).unwrap();
    assert_eq!(said, ended);
    assert!(text.contains("could not go on"), "{text}");
    assert_eq!(next(&a, 0), Err(value("CG_ENDED")));
    assert_eq!(value("CG_TOLD_OTHER"), 0);
}

#[test]
fn an_offer_is_taken_or_left() {
    let fake = Fake::start();
    let a = open(&fake, c"a.0.100");
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
    for (yes, contract) in [(false, CONTRACT.to_str().unwrap()), (true, OFFER)] {
        fake.tell(Indication::CanGrow {
            contract: OFFER.to_owned(),
        });
        let (told, offer) = next(&a, PATIENCE_MS).unwrap();
        assert_eq!(
            (told.kind, offer.as_str()),
            (value("CG_TOLD_CAN_GROW"), OFFER)
        );
        assert_eq!(answer(yes), 0);
        let mut text = [0; 100];
        // SAFETY: a handle, and room for as many octets; it is closed by a 0.
        let text = unsafe {
            cg_contract(a.0, text.as_mut_ptr(), text.len());
            CStr::from_ptr(text.as_ptr())
        };
        assert_eq!(text.to_str(), Ok(contract));
    }
}

#[test]
fn a_connection_is_taken_over_by_its_capability() {
    let fake = Fake::start();
    let a = open(&fake, c"a.0.100");
    // SAFETY: a handle; the descriptor is this test's.
    let capability = unsafe { OwnedFd::from_raw_fd(cg_capability(a.0)) };
    let how = how(&fake, c"a.0.100");
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
    let fake = Fake::start();
    let a = open(&fake, c"a.0.100");
    let mut small = how(&fake, c"b.0.100");
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
    let fake = Fake::start();
    let mut how = how(&fake, c"a.0.100");
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
    let fake = Fake::start();
    let (a, b) = (open(&fake, c"a.0.100"), open(&fake, c"b.0.100"));
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
    let fake = Fake::start();
    let a = open(&fake, c"a.0.100");
    // SAFETY: a handle.
    unsafe {
        assert_eq!(cg_lease(a.0, 1, 1_000_000), 0);
        assert_eq!(cg_lease(a.0, 0, 1_000_000), value("CG_REFUSED"));
    }
}

#[test]
fn admission_says_what_there_is_not_enough_of() {
    let fake = Fake::start();
    let mut how = how(&fake, c"a.0.100");
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
    let fake = Fake::start();
    let (a, b) = (open(&fake, c"a.0.100"), open(&fake, c"b.0.100"));
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
