//! What is released by time.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use std::time::Duration;

use client::StreamReader;

use crate::connection::cg_connection;
use crate::data::room;
use crate::error::{Code, guarded};

/// `struct cg_stream`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct cg_stream {
    /// Number of the oldest PDU that can be read.
    pub oldest: u64,
    /// Number of the next PDU to arrive.
    pub end: u64,
    /// PDUs that were released unread.
    pub released_unread: u64,
}

/// Reads the connection as a stream from here on.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_stream_open(
    connection: *mut cg_connection,
    hold_ns: u64,
    held_max: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        handle.stream = None;
        let hold = Duration::from_nanos(hold_ns);
        let stream = StreamReader::new(handle.connection(), hold, held_max)?;
        handle.stream = Some(stream);
        Ok(0)
    })
}

/// Copies the first octets of the stream's next SDU; how many octets it has.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses; `buffer` is NULL or has room for
/// `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_stream_read(
    connection: *mut cg_connection,
    buffer: *mut c_void,
    size: usize,
    timeout_ms: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (handle, buffer) =
            unsafe { (cg_connection::named(connection)?, cleared(buffer, size)?) };
        let stream = handle.stream.as_mut().ok_or(Code::NoStream)?;
        let len = match u64::try_from(timeout_ms) {
            Ok(0) => stream.try_read(buffer),
            Ok(ms) => stream.read_timeout(buffer, Duration::from_millis(ms)),
            Err(_) => stream.read(buffer),
        }?;
        Ok(octets(len))
    })
}

/// The same for the SDU of a number, without waiting.
///
/// # Safety
/// As for [`cg_stream_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_stream_read_at(
    connection: *mut cg_connection,
    number: u64,
    buffer: *mut c_void,
    size: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (handle, buffer) =
            unsafe { (cg_connection::named(connection)?, cleared(buffer, size)?) };
        let stream = handle.stream.as_mut().ok_or(Code::NoStream)?;
        Ok(octets(stream.read_at(number, buffer)?))
    })
}

/// A caller's buffer, as much of it as an SDU can have, with nothing in it.
///
/// # Safety
/// As for [`room`].
unsafe fn cleared<'a>(buffer: *mut c_void, size: usize) -> Result<&'a mut [u8], Code> {
    // SAFETY: the caller's promise.
    let room = unsafe { room(buffer, size.min(u16::MAX.into()))? };
    room.fill(MaybeUninit::new(0));
    // SAFETY: each octet was just written.
    Ok(unsafe { room.assume_init_mut() })
}

fn octets(len: usize) -> c_int {
    // An SDU has 65,535 at most.
    c_int::try_from(len).unwrap_or(c_int::MAX)
}

/// What can be read, as of the last reading.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses; `state` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_stream_state(
    connection: *const cg_connection,
    state: *mut cg_stream,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::looked_at(connection)? };
        if state.is_null() {
            return Err(Code::BadArgument);
        }
        let stream = handle.stream.as_ref().ok_or(Code::NoStream)?;
        let told = cg_stream {
            oldest: stream.oldest(),
            end: stream.end(),
            released_unread: stream.released_unread(),
        };
        // SAFETY: not NULL, so it can be written.
        unsafe { state.write(told) };
        Ok(0)
    })
}

/// Ends the stream; what it holds is released.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_stream_close(connection: *mut cg_connection) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        drop(handle.stream.take().ok_or(Code::NoStream)?);
        Ok(0)
    })
}
