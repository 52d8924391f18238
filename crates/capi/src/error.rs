//! Codes, and the words behind the last one.

use core::ffi::{CStr, c_char, c_int};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use client::{Error, Refused, Shortage};

use crate::text;

/// The codes of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    NoServer = -1,
    Refused = -2,
    Address = -3,
    Ended = -4,
    Closed = -5,
    WouldBlock = -6,
    TimedOut = -7,
    TooLong = -8,
    Empty = -9,
    WrongDirection = -10,
    SpaceBorrowed = -11,
    SpaceLost = -12,
    NoSpace = -13,
    NotHeld = -14,
    TooManyHeld = -15,
    BadArgument = -16,
    Kernel = -17,
    BadMessage = -18,
    Panic = -19,
    Late = -20,
    NoStream = -21,
    NoShortage = -22,
    NotACell = -23,
    PdusHeld = -24,
    NotFixed = -25,
}

/// Name in the header, code, and what it means.
pub(crate) const CODES: [(&str, Code, &CStr); 25] = [
    (
        "CG_NO_SERVER",
        Code::NoServer,
        c"no cellgate server answers at the control socket",
    ),
    ("CG_REFUSED", Code::Refused, c"the server said no"),
    (
        "CG_ADDRESS",
        Code::Address,
        c"the text is no address: [interface.]vpi.vci",
    ),
    ("CG_ENDED", Code::Ended, c"the connection has ended"),
    ("CG_CLOSED", Code::Closed, c"the server has hung up"),
    (
        "CG_WOULD_BLOCK",
        Code::WouldBlock,
        c"it cannot be done at once",
    ),
    (
        "CG_TIMED_OUT",
        Code::TimedOut,
        c"it could not be done in the time given",
    ),
    (
        "CG_TOO_LONG",
        Code::TooLong,
        c"the SDU is longer than the contract allows",
    ),
    (
        "CG_EMPTY",
        Code::Empty,
        c"an SDU of 0 octets cannot be sent",
    ),
    (
        "CG_WRONG_DIRECTION",
        Code::WrongDirection,
        c"the contract has no such direction",
    ),
    (
        "CG_SPACE_BORROWED",
        Code::SpaceBorrowed,
        c"another space is borrowed",
    ),
    (
        "CG_SPACE_LOST",
        Code::SpaceLost,
        c"the connection got new memory: nothing was sent",
    ),
    ("CG_NO_SPACE", Code::NoSpace, c"no space is borrowed"),
    (
        "CG_NOT_HELD",
        Code::NotHeld,
        c"no PDU of this number is held",
    ),
    (
        "CG_TOO_MANY_HELD",
        Code::TooManyHeld,
        c"as many PDUs as can be are held",
    ),
    (
        "CG_BAD_ARGUMENT",
        Code::BadArgument,
        c"a pointer is NULL, or a text is not UTF-8",
    ),
    ("CG_KERNEL", Code::Kernel, c"the kernel said no"),
    (
        "CG_BAD_MESSAGE",
        Code::BadMessage,
        c"what came from the server makes no sense",
    ),
    ("CG_PANIC", Code::Panic, c"a bug in the library"),
    (
        "CG_LATE",
        Code::Late,
        c"PDUs of the stream were released before they were read",
    ),
    ("CG_NO_STREAM", Code::NoStream, c"no stream is open"),
    (
        "CG_NO_SHORTAGE",
        Code::NoShortage,
        c"the last error was no shortage that admission found",
    ),
    (
        "CG_NOT_A_CELL",
        Code::NotACell,
        c"an SDU of AAL0 is a cell of 52 octets",
    ),
    (
        "CG_PDUS_HELD",
        Code::PdusHeld,
        c"PDUs are held: release them first",
    ),
    (
        "CG_NOT_FIXED",
        Code::NotFixed,
        c"the contract commits to another size",
    ),
];

impl From<Error> for Code {
    fn from(error: Error) -> Self {
        let code = match &error {
            // Frequent and without more to say.
            Error::WouldBlock(_) => return Self::WouldBlock,
            Error::TimedOut => return Self::TimedOut,
            Error::NoServer { .. } => Self::NoServer,
            Error::Silent { .. } => Self::TimedOut,
            Error::Refused(_) => Self::Refused,
            Error::Address(_) => Self::Address,
            Error::Ended(_) => Self::Ended,
            Error::Closed => Self::Closed,
            Error::TooLong { .. } => Self::TooLong,
            Error::NotACell { .. } => Self::NotACell,
            Error::NotFixed { .. } => Self::NotFixed,
            Error::Empty => Self::Empty,
            Error::DoesNotSend | Error::DoesNotReceive | Error::Fed | Error::NoChain => {
                Self::WrongDirection
            }
            Error::SpaceBorrowed => Self::SpaceBorrowed,
            Error::SpaceLost => Self::SpaceLost,
            Error::PdusHeld => Self::PdusHeld,
            Error::Kernel(_) => Self::Kernel,
            Error::Late { .. } => Self::Late,
            Error::BadMessage(_) | Error::Memory(_) => Self::BadMessage,
        };
        let said = error.to_string();
        let shortage = match error {
            Error::Refused(Refused::Admission(shortage)) => Some(shortage),
            _ => None,
        };
        LAST.set(Last { said, shortage });
        code
    }
}

struct Last {
    said: String,
    shortage: Option<Shortage>,
}

thread_local! {
    static LAST: RefCell<Last> = const {
        RefCell::new(Last {
            said: String::new(),
            shortage: None,
        })
    };
}

/// What there was not enough of when the last error of this thread came, if it was that.
pub(crate) fn last_shortage() -> Result<Shortage, Code> {
    LAST.with_borrow(|last| last.shortage.clone())
        .ok_or(Code::NoShortage)
}

/// Runs what an entry point is for; a panic ends here.
pub(crate) fn guarded(call: impl FnOnce() -> Result<c_int, Code>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(done)) => done,
        Ok(Err(code)) => code as c_int,
        Err(_) => Code::Panic as c_int,
    }
}

/// What a code means, in a text that stays.
#[unsafe(no_mangle)]
pub extern "C" fn cg_error_string(code: c_int) -> *const c_char {
    let known = CODES.iter().find(|(_, known, _)| *known as c_int == code);
    let text = match known {
        Some((_, _, text)) => text,
        None if code >= 0 => c"no error",
        None => c"no code of this library",
    };
    text.as_ptr()
}

/// Copies what the last error of this thread said, cut off to fit and closed by a 0; how many
/// octets it has without that.
///
/// # Safety
/// `text` is NULL or has room for `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cg_last_error(text: *mut c_char, size: usize) -> usize {
    let copied = catch_unwind(|| {
        LAST.with_borrow(|last| {
            // SAFETY: the caller's promise.
            unsafe { text::copy_out(&last.said, text, size) };
            last.said.len()
        })
    });
    copied.unwrap_or(0)
}
