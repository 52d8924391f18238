//! Counters of the library and of the adapter.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;

use client::DiscardCounts;

use crate::connection::cg_connection;
use crate::error::{Code, guarded};

/// `struct cg_counters`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct cg_counters_t {
    /// SDUs handed to the adapter.
    pub sent: u64,
    /// Of these, copied.
    pub send_copies: u64,
    /// Times that a writer waited for credit.
    pub suspended: u64,
    /// PDUs handed to the caller.
    pub received: u64,
    /// Copies: of what was received, and of what streams read.
    pub receive_copies: u64,
    /// PDUs beyond credit and tolerance.
    pub dismissed: u64,
    /// Events that found no room.
    pub events_lost: u64,
}

/// What the library counted.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses; `counters` is NULL or can be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_counters(
    connection: *const cg_connection,
    counters: *mut cg_counters_t,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::looked_at(connection)? };
        if counters.is_null() {
            return Err(Code::BadArgument);
        }
        let counted = handle.connection().counters();
        let counted = cg_counters_t {
            sent: counted.sent,
            send_copies: counted.send_copies,
            suspended: counted.suspended,
            received: counted.received,
            receive_copies: counted.receive_copies,
            dismissed: counted.dismissed,
            events_lost: handle.connection().events_lost(),
        };
        // SAFETY: not NULL, so it can be written.
        unsafe { counters.write(counted) };
        Ok(0)
    })
}

/// Places for reasons of discards, with room for more: `CG_DISCARDS_MAX`.
pub(crate) const DISCARDS_MAX: usize = 32;

/// Names of reasons by number, as `Discard::name` has them.
pub(crate) const DISCARDS: [&CStr; 17] = [
    c"unknown_vc",
    c"hec_error",
    c"idle",
    c"not_user_data",
    c"non_conforming",
    c"buffer_full",
    c"queue_full",
    c"oversized",
    c"crc_error",
    c"length_error",
    c"aborted",
    c"closed",
    c"lost_cell",
    c"tag_mismatch",
    c"too_many_mids",
    c"reassembly_timeout",
    c"overload",
];

/// `struct cg_stats`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct cg_stats_t {
    /// Cells that arrived.
    pub cells_received: u64,
    /// Cells in delivered PDUs.
    pub cells_delivered: u64,
    /// Of these, with low priority (CLP 1).
    pub cells_delivered_clp1: u64,
    /// Cells of the PDU in progress.
    pub cells_held: u64,
    /// OAM loopback cells.
    pub cells_answered: u64,
    /// Cells sent.
    pub cells_transmitted: u64,
    /// Of these, with low priority (CLP 1).
    pub cells_transmitted_clp1: u64,
    /// PDUs delivered.
    pub pdus_delivered: u64,
    /// Of these, on a lease.
    pub pdus_lent: u64,
    /// Of these, with low priority for being beyond the contract.
    pub pdus_tagged: u64,
    /// PDUs sent.
    pub pdus_transmitted: u64,
    /// Of these, handed over as a whole.
    pub pdus_crossed: u64,
    /// Descriptors that named no SDU.
    pub client_faults: u64,
    /// Cells by reason.
    pub cells_discarded: [u64; DISCARDS_MAX],
    /// PDUs by reason.
    pub pdus_discarded: [u64; DISCARDS_MAX],
}

fn by_reason(counts: &DiscardCounts) -> [u64; DISCARDS_MAX] {
    let mut all = [0; DISCARDS_MAX];
    for (place, (_, count)) in all.iter_mut().zip(counts.iter()) {
        *place = count;
    }
    all
}

/// What the adapter counted.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses; `stats` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_stats(connection: *mut cg_connection, stats: *mut cg_stats_t) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        if stats.is_null() {
            return Err(Code::BadArgument);
        }
        let counted = handle.connection().stats()?;
        let counted = cg_stats_t {
            cells_received: counted.cells_received,
            cells_delivered: counted.cells_delivered,
            cells_delivered_clp1: counted.cells_delivered_clp1,
            cells_held: counted.cells_held,
            cells_answered: counted.cells_answered,
            cells_transmitted: counted.cells_transmitted,
            cells_transmitted_clp1: counted.cells_transmitted_clp1,
            pdus_delivered: counted.pdus_delivered,
            pdus_lent: counted.pdus_lent,
            pdus_tagged: counted.pdus_tagged,
            pdus_transmitted: counted.pdus_transmitted,
            pdus_crossed: counted.pdus_crossed,
            client_faults: counted.client_faults,
            cells_discarded: by_reason(&counted.cells_discarded),
            pdus_discarded: by_reason(&counted.pdus_discarded),
        };
        // SAFETY: not NULL, so it can be written.
        unsafe { stats.write(counted) };
        Ok(0)
    })
}

/// The name of a reason of discards, in a text that stays; NULL: there is no such reason.
#[unsafe(no_mangle)]
pub extern "C" fn cg_discard_name(reason: c_int) -> *const c_char {
    let name = usize::try_from(reason).ok().and_then(|i| DISCARDS.get(i));
    name.map_or(ptr::null(), |name| name.as_ptr())
}
