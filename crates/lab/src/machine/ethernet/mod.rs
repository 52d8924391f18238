//! Ethernet of 10 Mbit/s under the MSDL of the [ring](super::v1s)'s hosts: a block goes whole, in a
//! packet of its own, when all of it is in the sender's interface, and comes when all of it is in
//! the receiver's.
//!
//! ```text
//!   host: MSDL, words --> interface, starts --> | one wire | --> interface --> interrupt, words
//! ```
//!
//! **Not here:** collisions. Who finds the wire busy waits until it is free.

mod host;
mod segment;
mod spec;

pub use host::EtherHost;
pub use segment::{Attachment, Segment};
pub use spec::EtherSpec;
