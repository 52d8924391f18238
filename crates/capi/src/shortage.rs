//! What admission said in a refusal.

use core::ffi::{c_char, c_int};

use client::Resource;

use crate::error::{Code, guarded, last_shortage};
use crate::text;

/// `struct cg_shortage`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct cg_shortage_t {
    /// What the request needs, in the resource's unit.
    pub needed: u64,
    /// What is free.
    pub free: u64,
    /// The user whose quota is the bound; -1: the machine is.
    pub quota: i64,
    /// What there is not enough of.
    pub resource: c_int,
}

/// A resource's number in the header.
pub(crate) const fn number(resource: Resource) -> c_int {
    match resource {
        Resource::TransmitBandwidth => 1,
        Resource::ReceiveBandwidth => 2,
        Resource::AdapterCpu => 3,
        Resource::WorkerCpu => 4,
        Resource::Memory => 5,
        Resource::Connections => 6,
    }
}

/// What there was not enough of when the last error of this thread came, and a copy of the contract
/// that would fit, cut off to fit and closed by a 0; how many octets that has without the 0.
///
/// # Safety
/// `shortage` is NULL or can be written; `offer` is NULL or has room for `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_shortage(
    shortage: *mut cg_shortage_t,
    offer: *mut c_char,
    size: usize,
) -> c_int {
    guarded(|| {
        if shortage.is_null() {
            return Err(Code::BadArgument);
        }
        let last = last_shortage()?;
        let told = cg_shortage_t {
            needed: last.needed,
            free: last.free,
            quota: last.quota.map_or(-1, i64::from),
            resource: number(last.resource),
        };
        let fits = last.offer.unwrap_or_default();
        // SAFETY: not NULL, so it can be written; the rest is the caller's promise.
        unsafe {
            shortage.write(told);
            text::copy_out(&fits, offer, size);
        }
        Ok(c_int::try_from(fits.len()).unwrap_or(c_int::MAX))
    })
}
