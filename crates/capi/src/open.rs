//! Opening with options.

use core::ffi::{c_char, c_int};
use core::mem::size_of;
use core::num::NonZeroU32;
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::time::Duration;

use client::{Builder, Connection, Error, Notification, QueueThreshold};

use crate::connection::{cg_connection, hand_over};
use crate::error::{Code, guarded};
use crate::text::text;

/// `struct cg_open`. No padding: what is added to it must not lie in what nobody cleared.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct cg_open_t {
    /// Octets of this structure as the caller knows it.
    pub size: usize,
    /// The control socket; NULL: the usual one.
    pub socket: *const c_char,
    /// Where.
    pub address: *const c_char,
    /// NULL: `ubr,aal5`.
    pub contract: *const c_char,
    /// How long a request may take; 0: 30 s.
    pub patience_ns: u64,
    /// Of silent notification.
    pub silent_delay_ns: u64,
    /// Of silent notification.
    pub silent_threshold: u32,
    /// When events tell of cells.
    pub notification: c_int,
    /// SDUs that may wait; 0: by the contract.
    pub transmit_pdus: u32,
    /// PDUs that may wait beyond those of the contract.
    pub receive_pdus: u32,
    /// Not 0: a PDU that has left wakes nobody.
    pub no_completions: c_int,
    /// A socket that is connected already; 0: none.
    pub connected: c_int,
    /// Fill of the receive queue at which an event tells, in PDUs; 0: none.
    pub queue_threshold: u32,
    /// Events that are kept; 0: none.
    pub events: u32,
}

impl cg_open_t {
    /// What a caller wrote. Members that are unknown here are 0.
    ///
    /// # Safety
    /// `how` is NULL or has a size, and as many octets can be read.
    unsafe fn read(how: *const Self) -> Result<Self, Code> {
        if how.is_null() {
            return Err(Code::BadArgument);
        }
        // SAFETY: not NULL, and the size is the first member.
        let size = unsafe { how.cast::<usize>().read() };
        let beyond = size.checked_sub(size_of::<Self>());
        let beyond = beyond.ok_or(Code::BadArgument)?;
        if size > SIZE_MAX {
            return Err(Code::BadArgument);
        }
        // SAFETY: `size` octets can be read.
        let beyond = unsafe { core::slice::from_raw_parts(how.add(1).cast::<u8>(), beyond) };
        if beyond.iter().any(|octet| *octet != 0) {
            return Err(Code::BadArgument);
        }
        // SAFETY: not NULL, and it is not shorter.
        Ok(unsafe { how.read() })
    }

    fn notification(&self) -> Result<Option<Notification>, Code> {
        let silent = Notification::Silent {
            threshold: self.silent_threshold,
            longest_delay_ns: self.silent_delay_ns,
        };
        Ok(Some(match self.notification {
            0 => return Ok(None),
            1 => Notification::EveryCell,
            2 => Notification::FirstCell,
            3 => Notification::LastCell,
            4 => Notification::FirstAndLastCell,
            5 => silent,
            6 => Notification::Polled,
            _ => return Err(Code::BadArgument),
        }))
    }

    /// # Safety
    /// The texts are NULL or closed by a 0; `connected` stays open during the call.
    unsafe fn builder(&self) -> Result<Builder, Code> {
        // SAFETY: the caller's promise.
        let address = unsafe { text(self.address)? };
        let mut builder = Connection::builder().address(address);
        if !self.socket.is_null() {
            // SAFETY: the caller's promise.
            builder = builder.socket(unsafe { text(self.socket)? });
        }
        if !self.contract.is_null() {
            // SAFETY: the caller's promise.
            builder = builder.contract(unsafe { text(self.contract)? });
        }
        if let Some(notification) = self.notification()? {
            builder = builder.notification(notification);
        }
        if self.transmit_pdus != 0 {
            builder = builder.transmit_pdus(self.transmit_pdus);
        }
        if self.receive_pdus != 0 {
            builder = builder.receive_pdus(self.receive_pdus);
        }
        if let Some(pdus) = NonZeroU32::new(self.queue_threshold) {
            builder = builder.queue_threshold(QueueThreshold::Pdus(pdus));
        }
        if self.patience_ns != 0 {
            builder = builder.patience(Duration::from_nanos(self.patience_ns));
        }
        if self.connected != 0 {
            // SAFETY: the caller's promise.
            let socket = unsafe { descriptor(self.connected)? };
            let socket = socket.try_clone_to_owned().map_err(Error::from)?;
            builder = builder.connected(socket);
        }
        let events = usize::try_from(self.events).map_err(|_| Code::BadArgument)?;
        Ok(builder.events(events).completions(self.no_completions == 0))
    }
}

/// More than any version of the structure will have: a larger size is none.
const SIZE_MAX: usize = 4_096;

/// # Safety
/// As for [`cg_open_with`].
unsafe fn builder(how: *const cg_open_t) -> Result<Builder, Code> {
    // SAFETY: the caller's promise.
    unsafe { cg_open_t::read(how)?.builder() }
}

/// # Safety
/// `fd` is open, or negative, while the result lives.
unsafe fn descriptor<'a>(fd: c_int) -> Result<BorrowedFd<'a>, Code> {
    if fd < 0 {
        return Err(Code::BadArgument);
    }
    // SAFETY: not -1; the rest is the caller's promise.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Opens a connection.
///
/// # Safety
/// `connection` is NULL or can be written; `how` is NULL or as long as it says, its texts are NULL
/// or closed by a 0, and its descriptor stays open during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_open_with(
    connection: *mut *mut cg_connection,
    how: *const cg_open_t,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let open = || Ok(unsafe { builder(how)? }.open()?);
        // SAFETY: the caller's promise.
        unsafe { hand_over(connection, open) }
    })
}

/// Takes the use of a permanent connection.
///
/// # Safety
/// As for [`cg_open_with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_take_with(
    connection: *mut *mut cg_connection,
    how: *const cg_open_t,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let take = || Ok(unsafe { builder(how)? }.take()?);
        // SAFETY: the caller's promise.
        unsafe { hand_over(connection, take) }
    })
}

/// Takes a connection over from another process, by right of its `cg_capability`.
///
/// # Safety
/// As for [`cg_open_with`]; `capability` stays open during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_reattach(
    connection: *mut *mut cg_connection,
    how: *const cg_open_t,
    capability: c_int,
) -> c_int {
    guarded(|| {
        let reattach = || {
            // SAFETY: the caller's promise.
            let (builder, capability) = unsafe { (builder(how)?, descriptor(capability)?) };
            Ok(builder.reattach(capability)?)
        };
        // SAFETY: the caller's promise.
        unsafe { hand_over(connection, reattach) }
    })
}

/// A new descriptor by which another process may take the connection over.
///
/// # Safety
/// `connection` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_capability(connection: *const cg_connection) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { cg_connection::looked_at(connection)? };
        Ok(handle.connection().capability()?.into_raw_fd())
    })
}
