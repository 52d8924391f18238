//! The terminal on a host: files to and from the other end of a connection.
//!
//! ```text
//!   Session ---- Giving <- Tree ---- SendingFile <- files, each octet read once
//!      |
//!      |-------- Taking -> Place --- Receiving ---> partial files, each octet written once
//!      |
//!   Exchange <-> Port: packets or cells of a connection, or cells of a line
//!   or OctetStream <-> Stream: TCP, or QUIC
//! ```
//!
//! All that is decided is decided in the core ([`cellgate_core::terminal`]); here are connections
//! and disks.

mod cells;
mod digests;
pub mod disk;
pub mod over;
mod packets;
mod pipe;
mod place;
mod port;
mod sending;
mod served;
mod session;
mod terms;
mod tree;

pub use cells::{CellConnection, OwnedLine};
pub use packets::OVERHEAD;
pub use pipe::Pipe;
pub use place::Place;
pub use port::{Looked, Port};
pub use served::Served;
pub use session::{Next, Over, Report, Session};
pub use terms::Terms;
pub use tree::Tree;
