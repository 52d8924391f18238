//! Texts of C.

use core::ffi::{CStr, c_char};

use crate::error::Code;

/// A text of the caller's.
///
/// # Safety
/// `text` is NULL or a text closed by a 0 that stays as it is while the result lives.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Code> {
    if text.is_null() {
        return Err(Code::BadArgument);
    }
    // SAFETY: not NULL; the rest is the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Code::BadArgument)
}

/// Copies a text, cut off to fit and closed by a 0.
///
/// # Safety
/// `to` is NULL or has room for `size` octets.
pub(crate) unsafe fn copy_out(text: &str, to: *mut c_char, size: usize) {
    let Some(room) = size.checked_sub(1).filter(|_| !to.is_null()) else {
        return;
    };
    let len = text.floor_char_boundary(room.min(text.len()));
    // SAFETY: `len` < `size`, which there is room for; the source is private memory.
    unsafe {
        core::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, len);
        to.add(len).write(0);
    }
}
