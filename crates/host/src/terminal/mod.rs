//! The terminal on a host: files to and from the other end of a connection.
//!
//! ```text
//!   Session ---- Giving <- Tree ---- SendingFile <- files, each octet read once
//!      |
//!      |-------- Taking -> Place --- Receiving ---> partial files, each octet written once
//!      |
//!   Exchange <-> packets <-> a connection
//! ```
//!
//! All that is decided is decided in the core ([`cellgate_core::terminal`]); here are connections
//! and disks.

pub mod disk;
mod packets;
mod place;
mod sending;
mod served;
mod session;
mod terms;
mod tree;

pub use packets::{OVERHEAD, wait};
pub use place::Place;
pub use served::Served;
pub use session::{Next, Over, Report, Session};
pub use terms::Terms;
pub use tree::Tree;
