//! Files at both ends of a transfer: what is read, and what is written once, at its place.
//!
//! ```text
//!  Walk -> Entry            Partial <- Store::write        .cellgate-partial/HASH.part
//!  SourceFile -> octets       | check: digest, hole          mapped, window by window
//!                             | SyncJob: data, then what the journal says of it
//!                             v finish                     .cellgate-partial/HASH.journal
//!                           the file under its name
//! ```
//!
//! The core decides in which order an unfinished file is written, synced and named
//! ([`cellgate_core::terminal::unfinished`]): here are the system calls.
//!
//! - [`Root`]: a directory below which every path of a peer stays.
//! - [`Walk`], [`SourceFile`]: what a sender has.
//! - [`open`], [`Partial`], [`Group`]: what a receiver has not finished; one file, or many small
//!   ones.
//! - [`leftovers`], [`discard`]: what others have not finished.
//!
//! A peer's path is any octets. It is resolved by the kernel, below the root and through no link,
//! each time it is used.

mod entry;
mod error;
mod held;
mod leftover;
mod opening;
mod partial_directory;
mod path;
mod payload;
mod root;
mod settle;
mod source_file;
mod walk;

pub use cellgate_core::terminal::unfinished::{
    Digest, Digesting, DiskLen, Former, Identity, Moment, Refusal, Subtrees,
};

pub use entry::{Entry, Kind};
pub use error::DiskError;
pub use held::HeldFile;
pub use leftover::{Leftover, Leftovers, discard, leftovers};
pub use opening::open;
pub use partial_directory::PartialName;
pub use path::{PathBelow, PathFault};
pub use root::{Listing, Root};
pub use source_file::SourceFile;
pub use walk::{Skip, Walk, Walked};

/// A file that is received, in the directory of unfinished files.
pub type Partial = cellgate_core::terminal::unfinished::Unfinished<HeldFile>;

/// One that was opened.
pub type Opened = cellgate_core::terminal::unfinished::Opened<HeldFile>;

/// Small files that are written whole and synced together.
pub type Group = cellgate_core::terminal::unfinished::Group<Root>;
