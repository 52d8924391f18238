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
//! - [`DiskLen`], [`Digesting`], [`Subtrees`]: disk-PDUs, and the digest of a file from theirs.
//! - [`Root`]: a directory below which every path of a peer stays.
//! - [`Walk`], [`SourceFile`]: what a sender has.
//! - [`Partial`], [`Group`]: what a receiver has not finished; one file, or many small ones.
//! - [`leftovers`], [`discard`]: what others have not finished.
//!
//! A peer's path is any octets. It is resolved by the kernel, below the root and through no link,
//! each time it is used.

mod digest;
mod entry;
mod error;
mod finish;
mod group;
mod journal;
mod leftover;
mod opening;
mod partial;
mod partial_directory;
mod path;
mod payload;
mod root;
mod runs;
mod settle;
mod source_file;
mod sync;
mod walk;

pub use digest::{Digest, Digesting, DiskLen, Subtrees};
pub use entry::{Entry, Identity, Kind, Moment};
pub use error::DiskError;
pub use group::Group;
pub use journal::Refusal;
pub use leftover::{Leftover, Leftovers, discard, leftovers};
pub use partial::{Former, Opened, Partial};
pub use partial_directory::PartialName;
pub use path::{PathBelow, PathFault};
pub use root::{Listing, Root};
pub use source_file::SourceFile;
pub use sync::{SYNC_EVERY, SyncJob};
pub use walk::{Skip, Walk, Walked};
