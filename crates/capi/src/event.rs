//! Events of the adapter.

use core::ffi::c_int;
use std::time::Duration;

use client::{Error, EventKind, Wait};

use crate::connection::cg_connection;
use crate::data::timed;
use crate::error::{Code, guarded};

/// `struct cg_event`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct cg_event_t {
    /// As the kind says.
    pub value: u64,
    /// The adapter's clock.
    pub time_ns: u64,
    /// Cells of the PDU.
    pub cells: u32,
    /// Its number in the header.
    pub kind: c_int,
    /// Not 0: it wakes who waits.
    pub interruptive: c_int,
    /// Keeps the structure without padding.
    pub reserved: c_int,
}

/// An event's number in the header.
pub(crate) const fn kind(kind: EventKind) -> c_int {
    match kind {
        EventKind::TransmitCompleted => 1,
        EventKind::PduReceived => 3,
        EventKind::ReceiveQueueFull => 4,
        EventKind::ReceiveQueueOverThreshold => 5,
    }
}

/// The next event that is kept (`events` of `struct cg_open`).
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses; `event` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_event(
    connection: *mut cg_connection,
    event: *mut cg_event_t,
    timeout_ms: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        if event.is_null() {
            return Err(Code::BadArgument);
        }
        let connection = handle.connection();
        let next = timed(
            timeout_ms,
            || {
                let next = connection.next_event();
                next.ok_or(Error::WouldBlock(Wait::Event))
            },
            |timeout| connection.next_event_timeout(timeout),
            || connection.next_event_timeout(Duration::MAX),
        )?;
        let told = cg_event_t {
            value: next.value,
            time_ns: next.time.ns(),
            cells: next.cells,
            kind: kind(next.kind),
            interruptive: next.interruptive.into(),
            reserved: 0,
        };
        // SAFETY: not NULL, so it can be written.
        unsafe { event.write(told) };
        Ok(0)
    })
}
