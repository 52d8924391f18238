//! Files and whole trees between two terminals: who gives offers each entry, who takes says what
//! it wants of it, and in the end each is there under its name or has failed by a reason.
//!
//! Files of up to [`CONTENT_MAX`] octets go as messages, so that many share the disk-PDUs and the
//! cells of the conversation; longer ones go as transfers, an extent after the other, which is how
//! one goes on that was begun before.

mod existing;
mod giving;
mod message;
mod sending;
mod short;
mod taking;

pub use existing::{Lying, Standing};
pub use giving::{Found, Given, Giving, Offers, Origin};
pub use message::{Digest, Entry, EntryKind, Existing, Manner, Message, MessageError};
pub use sending::SendingFile;
pub use taking::{Destination, Offered, Partial, Settled, Taken, Taking};

/// Octets of a file that goes as a message, at most.
pub const CONTENT_MAX: u64 = 1 << 16;

/// Entries that are offered and not settled, at most; a directory is until all in it are.
const OFFERED_MAX: usize = 4_096;

/// Times that a file, or a disk-PDU, is sent, at most.
const TRIES: u8 = 3;
