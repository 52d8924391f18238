//! Waiting elsewhere.

use core::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};

use client::Interest;

use crate::connection::cg_connection;
use crate::error::{Code, guarded};

/// `CG_RECEIVE`.
pub(crate) const RECEIVE: c_int = 1;
/// `CG_SEND`.
pub(crate) const SEND: c_int = 2;
/// `CG_SENT`.
pub(crate) const SENT: c_int = 4;
/// `CG_EVENT`.
pub(crate) const EVENT: c_int = 8;

/// The connection's descriptor; it stays the connection's.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_fd(connection: *const cg_connection) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::looked_at(connection)? };
        Ok(handle.connection().as_fd().as_raw_fd())
    })
}

/// 1: wait for the descriptor; 0: try at once.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_arm(
    connection: *mut cg_connection,
    interest: c_int,
    len: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        if interest & !(RECEIVE | SEND | SENT | EVENT) != 0 {
            return Err(Code::BadArgument);
        }
        let named = [
            (RECEIVE, Interest::RECEIVE),
            (SEND, Interest::send(len)),
            (SENT, Interest::SENT),
            (EVENT, Interest::EVENT),
        ];
        let asked = named.into_iter().filter(|(bit, _)| interest & bit != 0);
        let all = asked.fold(Interest::INDICATION, |all, (_, one)| all.or(one));
        Ok(handle.connection().arm(all)?.into())
    })
}

/// Takes `cg_arm` back.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_disarm(connection: *mut cg_connection) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        handle.connection().disarm()?;
        Ok(0)
    })
}
