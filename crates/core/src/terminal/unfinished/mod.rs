//! Files that are received and not finished: what of them outlives a death or a power failure, and
//! what of that is believed when they are taken up again.
//!
//! ```text
//!   one file   octets -> checked against their digest -> octets synced
//!                     -> journal says so, synced
//!              all there -> owner, permissions, time -> file synced -> renamed
//!                     -> directories synced -> journal removed
//!   many       written whole -> all synced at once -> each renamed -> directories synced
//!   taken up   what the journal says, as far as the octets still have the digests;
//!              the rest is zeros
//! ```
//!
//! A step is never before the one that it relies on. Here is the order alone, over a [`Volume`] and
//! what is [`Held`] of it: a host has system calls for them, the lab a disk that loses what was not
//! synced.
//!
//! - [`Unfinished`]: one file; [`Group`]: many small ones.
//! - [`Finishing`]: what waits for the disk, so that who receives does not.
//! - [`Receiving`]: a file that disk-PDUs come into.
//! - [`DiskLen`], [`Digesting`], [`Subtrees`]: disk-PDUs, and the digest of a file from theirs.

mod digest;
mod file;
mod finish;
mod finishing;
mod group;
mod journal;
mod receiving;
mod runs;
mod sync;
mod volume;

pub use digest::{Digest, Digesting, DiskLen, Subtrees};
pub use file::{Former, Opened, Unfinished};
pub use finish::finish_named;
pub use finishing::{Content, Finish, Finishing, IN_USE_NS, Job, Settled, TRY_EVERY_NS};
pub use group::{Group, Nameless};
pub use journal::{Header, Identity, Moment, Refusal};
pub use receiving::Receiving;
pub use runs::Runs;
pub use sync::{SYNC_EVERY_NS, SyncJob};
pub use volume::{Held, JournalFile, Octets, Volume};

use super::Planted;

/// A step, which who has the bug forgets.
fn unless<H: Held>(
    held: &H,
    bug: Planted,
    step: impl FnOnce(&H) -> Result<(), H::Error>,
) -> Result<(), H::Error> {
    if held.has(bug) { Ok(()) } else { step(held) }
}
