//! SDUs and PDUs.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use std::time::Duration;

use client::{Error, Received, SduOptions};

use crate::connection::cg_connection;
use crate::error::{Code, guarded};

/// What goes along with an SDU.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct cg_sdu {
    /// Multiplexing identification (AAL3/4).
    pub mid: u16,
    /// User-to-user octet (AAL5).
    pub uu: u8,
    /// Common part indicator (AAL5).
    pub cpi: u8,
    /// 1: low priority.
    pub clp: u8,
}

/// What came along with an SDU.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct cg_received {
    /// Octets in the caller's hands.
    pub len: usize,
    /// Octets of the SDU.
    pub sdu_len: usize,
    /// When its last cell was handled.
    pub time_ns: u64,
    /// Multiplexing identification (AAL3/4).
    pub mid: u16,
    /// User-to-user octet (AAL5).
    pub uu: u8,
    /// Common part indicator (AAL5).
    pub cpi: u8,
    /// 1: some cell had low priority.
    pub clp: u8,
    /// 1: its last cell met congestion.
    pub congestion: u8,
    /// 1: delivered beyond the contract.
    pub lent: u8,
}

impl From<&Received> for cg_received {
    fn from(received: &Received) -> Self {
        Self {
            len: received.len,
            sdu_len: received.sdu_len,
            time_ns: received.time.ns(),
            mid: received.mid,
            uu: received.uu,
            cpi: received.cpi,
            clp: received.clp.into(),
            congestion: received.congestion.into(),
            lent: received.lent.into(),
        }
    }
}

/// # Safety
/// `with` is NULL or can be read.
unsafe fn options(with: *const cg_sdu) -> SduOptions {
    // SAFETY: the caller's promise.
    unsafe { with.as_ref() }.map_or_else(SduOptions::default, |with| SduOptions {
        uu: with.uu,
        cpi: with.cpi,
        clp: with.clp != 0,
        mid: with.mid,
    })
}

/// # Safety
/// `received` is NULL or can be written.
unsafe fn tell(received: *mut cg_received, told: &Received) {
    if !received.is_null() {
        // SAFETY: not NULL, so it can be written.
        unsafe { received.write(told.into()) };
    }
}

/// A caller's buffer, in which nothing may have been written yet.
///
/// # Safety
/// `buffer` is NULL or has room for `size` octets, which nobody else looks at while the result
/// lives.
pub(crate) unsafe fn room<'a>(
    buffer: *mut c_void,
    size: usize,
) -> Result<&'a mut [MaybeUninit<u8>], Code> {
    if buffer.is_null() || size > isize::MAX as usize {
        return Err(Code::BadArgument);
    }
    // SAFETY: not NULL; the rest is the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts_mut(buffer.cast(), size) })
}

/// Runs the variant of a call that `timeout_ms` asks for.
pub(crate) fn timed<T>(
    timeout_ms: c_int,
    at_once: impl FnOnce() -> Result<T, Error>,
    within: impl FnOnce(Duration) -> Result<T, Error>,
    for_ever: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Code> {
    let done = match u64::try_from(timeout_ms) {
        Ok(0) => at_once(),
        Ok(timeout_ms) => within(Duration::from_millis(timeout_ms)),
        Err(_) => for_ever(),
    };
    Ok(done?)
}

/// Copies an SDU into the transmit buffer and sends it.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses; `sdu` is NULL or `len` octets can be
/// read there; `with` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_send(
    connection: *mut cg_connection,
    sdu: *const c_void,
    len: usize,
    with: *const cg_sdu,
    timeout_ms: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        if sdu.is_null() || len > isize::MAX as usize {
            return Err(Code::BadArgument);
        }
        // SAFETY: not NULL, so there are `len` octets, and nobody writes them during the call.
        let sdu = unsafe { core::slice::from_raw_parts(sdu.cast::<u8>(), len) };
        // SAFETY: the caller's promise.
        let options = unsafe { options(with) };
        let connection = handle.connection();
        timed(
            timeout_ms,
            || connection.try_send_with(sdu, options),
            |timeout| connection.send_with_timeout(sdu, options, timeout),
            || connection.send_with(sdu, options),
        )?;
        Ok(0)
    })
}

/// Receives an SDU by copying its first octets.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses; `buffer` is NULL or has room for
/// `size` octets; `received` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_recv(
    connection: *mut cg_connection,
    buffer: *mut c_void,
    size: usize,
    received: *mut cg_received,
    timeout_ms: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (handle, buffer) = unsafe { (cg_connection::named(connection)?, room(buffer, size)?) };
        let connection = handle.connection();
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let told = connection.recv_uninit(buffer, timeout)?;
        // SAFETY: the caller's promise.
        unsafe { tell(received, &told) };
        Ok(0)
    })
}

/// Waits until the adapter has sent what was handed to it.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_flush(connection: *mut cg_connection, timeout_ms: c_int) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        let connection = handle.connection();
        timed(
            timeout_ms,
            || connection.flush(Duration::ZERO),
            |timeout| connection.flush(timeout),
            || connection.flush(Duration::MAX),
        )?;
        Ok(0)
    })
}

/// Borrows room of the transmit buffer for an SDU.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses; `octets` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_reserve(
    connection: *mut cg_connection,
    len: usize,
    octets: *mut *mut c_void,
    timeout_ms: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (handle, octets) = unsafe { (cg_connection::named(connection)?, octets.as_mut()) };
        let octets = octets.ok_or(Code::BadArgument)?;
        let connection = handle.connection();
        let mut space = timed(
            timeout_ms,
            || connection.try_reserve(len),
            |timeout| connection.reserve_timeout(len, timeout),
            || connection.reserve(len),
        )?;
        *octets = space.as_mut_ptr().cast();
        handle.space = Some(space);
        Ok(0)
    })
}

/// Leaves the first octets of the borrowed room to be sent.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_truncate(connection: *mut cg_connection, len: usize) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        handle.space.as_mut().ok_or(Code::NoSpace)?.truncate(len);
        Ok(0)
    })
}

/// Sends what was written into the borrowed room.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses; `with` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_submit(connection: *mut cg_connection, with: *const cg_sdu) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (handle, options) = unsafe { (cg_connection::named(connection)?, options(with)) };
        let space = handle.space.take().ok_or(Code::NoSpace)?;
        space.submit_with(options)?;
        Ok(0)
    })
}

/// Gives the borrowed room back without sending.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_abandon(connection: *mut cg_connection) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        drop(handle.space.take().ok_or(Code::NoSpace)?);
        Ok(0)
    })
}

/// Holds the next PDU in place.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses; `pdu` and `octets` are NULL or can
/// be written, `received` as well.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_next(
    connection: *mut cg_connection,
    pdu: *mut u32,
    octets: *mut *const c_void,
    received: *mut cg_received,
    timeout_ms: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        // SAFETY: the caller's promise.
        let (Some(number), Some(octets)) = (unsafe { pdu.as_mut() }, unsafe { octets.as_mut() })
        else {
            return Err(Code::BadArgument);
        };
        if handle.held.is_full() {
            return Err(Code::TooManyHeld);
        }
        let connection = handle.connection();
        let next = timed(
            timeout_ms,
            || connection.try_next_pdu(),
            |timeout| connection.next_pdu_timeout(timeout),
            || connection.next_pdu(),
        )?;
        *octets = next.as_ptr().cast();
        // SAFETY: the caller's promise.
        unsafe { tell(received, next.received()) };
        *number = handle.held.keep(next).ok_or(Code::TooManyHeld)?;
        Ok(0)
    })
}

/// Gives a held PDU back.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_release(connection: *mut cg_connection, pdu: u32) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        handle.held.give_up(pdu).ok_or(Code::NotHeld)?;
        Ok(0)
    })
}
