//! What the server tells of its own accord, and answers to it.

use core::ffi::{c_char, c_int};
use std::time::Duration;

use client::{Credit, EndReason, Error, Indication};

use crate::connection::cg_connection;
use crate::data::timed;
use crate::error::{Code, guarded};
use crate::text;

/// `struct cg_indication`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct cg_indication_t {
    /// Cells/s that it may send.
    pub transmit_cell_s: u32,
    /// Cells/s that it may receive.
    pub receive_cell_s: u32,
    /// Octets that it may send in a credit interval.
    pub credit_octets: u64,
    /// Length of a credit interval.
    pub interval_ns: u64,
    /// PDUs thrown away.
    pub pdus: u64,
    /// What it is.
    pub kind: c_int,
    /// Why the connection has ended, or PDUs were thrown away.
    pub reason: c_int,
}

/// An end's number in the header.
pub(crate) const fn number(reason: EndReason) -> c_int {
    match reason {
        EndReason::Deleted => 1,
        EndReason::InterfaceRemoved => 2,
        EndReason::TakenOver => 3,
        EndReason::NotReopened => 4,
        EndReason::ShuttingDown => 5,
        EndReason::PagesTaken => 6,
        EndReason::BufferGone => 7,
    }
}

/// An indication's number in the header.
pub(crate) const fn kind(indication: &Indication) -> c_int {
    match indication {
        // For monitors, which a connection is not.
        Indication::Connection { .. } | Indication::Interface { .. } => 0,
        Indication::Ended(_) => 1,
        Indication::Reopened(_) => 2,
        Indication::Share { .. } => 3,
        Indication::AtRisk { .. } => 4,
        Indication::CanGrow { .. } => 5,
        Indication::Restarted => 6,
        Indication::Losing { .. } => 7,
        Indication::Rate { .. } => 8,
    }
}

/// An indication with its text.
fn told(indication: Indication) -> (cg_indication_t, String) {
    let mut told = cg_indication_t {
        kind: kind(&indication),
        ..cg_indication_t::default()
    };
    let text = match indication {
        Indication::Ended(reason) => {
            told.reason = number(reason);
            Error::Ended(reason).to_string()
        }
        Indication::Share {
            transmit,
            transmit_credit,
            receive,
        } => {
            told.transmit_cell_s = transmit.map_or(0, |rate| rate.cell_s());
            told.receive_cell_s = receive.map_or(0, |rate| rate.cell_s());
            let credit = transmit_credit.as_ref();
            told.credit_octets = credit.map_or(0, Credit::octets);
            told.interval_ns = credit.map_or(0, Credit::interval_ns);
            String::new()
        }
        Indication::Losing { reason, pdus } => {
            told.reason = reason as c_int;
            told.pdus = pdus;
            reason.name().to_owned()
        }
        Indication::Rate {
            allowed_cell_s,
            reason,
            ..
        } => {
            told.transmit_cell_s = allowed_cell_s;
            reason.name().to_owned()
        }
        Indication::Reopened(opened) => opened.contract,
        Indication::AtRisk { reason } => reason,
        Indication::CanGrow { contract } => contract,
        Indication::Restarted | Indication::Connection { .. } | Indication::Interface { .. } => {
            String::new()
        }
    };
    (told, text)
}

/// The next thing that the server told, and a copy of its text, cut off to fit and closed by a 0;
/// how many octets that has without the 0.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses; `indication` is NULL or can be
/// written; `text` is NULL or has room for `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_indication(
    connection: *mut cg_connection,
    indication: *mut cg_indication_t,
    text: *mut c_char,
    size: usize,
    timeout_ms: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        if indication.is_null() {
            return Err(Code::BadArgument);
        }
        let within = |timeout| handle.connection().next_indication_timeout(timeout);
        let next = timed(
            timeout_ms,
            || within(Duration::ZERO),
            within,
            || within(Duration::MAX),
        );
        let (next, said) = match next {
            Err(Code::TimedOut) if timeout_ms == 0 => return Err(Code::WouldBlock),
            next => told(next?),
        };
        // SAFETY: not NULL, so it can be written; the rest is the caller's promise.
        unsafe {
            indication.write(next);
            text::copy_out(&said, text, size);
        }
        Ok(c_int::try_from(said.len()).unwrap_or(c_int::MAX))
    })
}

/// Takes what `CG_TOLD_CAN_GROW` offered.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_accept_offer(connection: *mut cg_connection) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        handle.connection().accept_offer()?;
        Ok(0)
    })
}

/// Leaves what `CG_TOLD_CAN_GROW` offered.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_decline_offer(connection: *mut cg_connection) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        handle.connection().decline_offer()?;
        Ok(0)
    })
}
