//! Files and whole trees between two terminals: who gives offers each entry, who takes says what
//! it wants of it, and in the end each is there under its name or has failed by a reason.
//!
//! Files of up to [`CONTENT_MAX`] octets go as messages, so that many share the disk-PDUs and the
//! cells of the conversation; longer ones go as transfers, an extent after the other, which is how
//! one goes on that was begun before.

mod giving;
mod message;
mod taking;

pub use giving::{Found, Given, Giving, Origin};
pub use message::{Digest, Entry, EntryKind, Existing, Message, MessageError};
pub use taking::{Destination, Offered, Partial, Settled, Taken, Taking};

/// Octets of a file that goes as a message, at most.
pub const CONTENT_MAX: u64 = 1 << 16;

/// Times that a file, or a disk-PDU, is sent, at most.
const TRIES: u8 = 3;
