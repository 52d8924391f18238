//! Opening and closing.

use core::ffi::{c_char, c_int};
use std::time::Duration;

use client::{Builder, Connection, Space, StreamReader};

use crate::error::{Code, guarded};
use crate::held::Held;
use crate::text;
use crate::wait::{RECEIVE, SEND};

/// A handle: the connection and what the caller has borrowed from it.
pub struct cg_connection {
    /// Borrows from `connection`, as `held` and `stream` do. It is the last that is dropped.
    pub(crate) space: Option<Space<'static>>,
    pub(crate) held: Held,
    pub(crate) stream: Option<StreamReader<'static>>,
    connection: Owned,
}

/// From a box, and freed with this value.
struct Owned(*mut Connection);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, and what was borrowed is dropped.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl cg_connection {
    fn new(connection: Connection) -> Self {
        Self {
            space: None,
            held: Held::new(),
            stream: None,
            connection: Owned(Box::into_raw(Box::new(connection))),
        }
    }

    /// The connection, for as long as whatever is borrowed from it is kept in this value.
    pub(crate) fn connection(&self) -> &'static Connection {
        // SAFETY: it is freed by the drop of this value only, which drops first what is borrowed;
        // nothing else that outlives an entry point gets this reference.
        unsafe { &*self.connection.0 }
    }

    /// The handle that a caller names.
    ///
    /// # Safety
    /// `handle` is NULL, or a call that opens made it, no `cg_close` has taken it, and no
    /// other thread uses it.
    pub(crate) unsafe fn named<'a>(handle: *mut Self) -> Result<&'a mut Self, Code> {
        // SAFETY: the caller's promise.
        unsafe { handle.as_mut() }.ok_or(Code::BadArgument)
    }

    /// The same for calls that change nothing.
    ///
    /// # Safety
    /// As for `named`.
    pub(crate) unsafe fn looked_at<'a>(handle: *const Self) -> Result<&'a Self, Code> {
        // SAFETY: the caller's promise.
        unsafe { handle.as_ref() }.ok_or(Code::BadArgument)
    }

    fn give_back(&mut self) {
        self.space = None;
        self.held = Held::new();
        self.stream = None;
    }
}

/// Opens a connection.
///
/// # Safety
/// `connection` is NULL or can be written; the texts are NULL or closed by a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_open(
    connection: *mut *mut cg_connection,
    socket: *const c_char,
    address: *const c_char,
    contract: *const c_char,
) -> c_int {
    guarded(|| {
        let open = || {
            // SAFETY: the caller's promise.
            let (address, contract) = unsafe { (text::text(address)?, text::text(contract)?) };
            // SAFETY: the caller's promise.
            let builder = unsafe { at(socket)? };
            Ok(builder.address(address).contract(contract).open()?)
        };
        // SAFETY: the caller's promise.
        unsafe { hand_over(connection, open) }
    })
}

/// Takes the use of a permanent connection.
///
/// # Safety
/// As for [`cg_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_take(
    connection: *mut *mut cg_connection,
    socket: *const c_char,
    address: *const c_char,
) -> c_int {
    guarded(|| {
        let take = || {
            // SAFETY: the caller's promise.
            let address = unsafe { text::text(address)? };
            // SAFETY: the caller's promise.
            let builder = unsafe { at(socket)? };
            Ok(builder.address(address).take()?)
        };
        // SAFETY: the caller's promise.
        unsafe { hand_over(connection, take) }
    })
}

/// # Safety
/// `socket` is NULL or a text closed by a 0.
unsafe fn at(socket: *const c_char) -> Result<Builder, Code> {
    if socket.is_null() {
        return Ok(Connection::builder());
    }
    // SAFETY: the caller's promise.
    Ok(Connection::builder().socket(unsafe { text::text(socket)? }))
}

/// Opens, and gives the caller the handle.
///
/// # Safety
/// `to` is NULL or can be written.
pub(crate) unsafe fn hand_over(
    to: *mut *mut cg_connection,
    open: impl FnOnce() -> Result<Connection, Code>,
) -> Result<c_int, Code> {
    // SAFETY: the caller's promise.
    let to = unsafe { to.as_mut() }.ok_or(Code::BadArgument)?;
    *to = core::ptr::null_mut();
    *to = Box::into_raw(Box::new(cg_connection::new(open()?)));
    Ok(0)
}

/// Changes the contract.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses; the text is NULL or closed by a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_set_contract(
    connection: *mut cg_connection,
    contract: *const c_char,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (handle, contract) =
            unsafe { (cg_connection::named(connection)?, text::text(contract)?) };
        handle.connection().set_contract(contract)?;
        Ok(0)
    })
}

/// Copies the contract's canonical text, cut off to fit and closed by a 0; how many octets it has
/// without that.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses; `text` is NULL or has room for
/// `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_contract(
    connection: *const cg_connection,
    text: *mut c_char,
    size: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let contract = unsafe { cg_connection::looked_at(connection)? };
        let contract = contract.connection().contract();
        // SAFETY: the caller's promise.
        unsafe { text::copy_out(&contract, text, size) };
        Ok(c_int::try_from(contract.len()).unwrap_or(c_int::MAX))
    })
}

/// Waits `linger_ms` at most until what was handed over is sent, closes the connection and frees
/// the handle, whatever is returned. NULL is no error.
///
/// # Safety
/// `connection` is NULL or a handle that nobody uses from here on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_close(connection: *mut cg_connection, linger_ms: c_int) -> c_int {
    if connection.is_null() {
        return 0;
    }
    guarded(|| {
        // SAFETY: a handle that `hand_over` made, and nobody else's from here on.
        let mut handle = unsafe { Box::from_raw(connection) };
        handle.give_back();
        let linger = match u64::try_from(linger_ms) {
            Ok(0) => return Ok(0),
            Ok(linger_ms) => Duration::from_millis(linger_ms),
            Err(_) => Duration::MAX,
        };
        handle.connection().flush(linger)?;
        Ok(0)
    })
}

/// The largest SDU of a direction, in octets.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_max_sdu(connection: *const cg_connection, direction: c_int) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let connection = unsafe { cg_connection::looked_at(connection)? }.connection();
        let max_sdu = match direction {
            SEND => connection.transmit_max_sdu(),
            RECEIVE => connection.receive_max_sdu(),
            _ => return Err(Code::BadArgument),
        };
        Ok(max_sdu.ok_or(Code::WrongDirection)?.into())
    })
}

/// Lends host time for PDUs beyond the contract.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_lease(
    connection: *mut cg_connection,
    pdus: u32,
    expires_in_ns: u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::named(connection)? };
        let expires_in = Duration::from_nanos(expires_in_ns);
        handle.connection().lease(pdus, expires_in)?;
        Ok(0)
    })
}
