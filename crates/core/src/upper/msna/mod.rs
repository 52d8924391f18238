//! The Multi-Service Network Architecture of Cambridge (Greaves, Zielinski 1991, section 3), above
//! cells: blocks between two ends of an association.
//!
//! - [`Msdl`]: associations, whose blocks go in cells of the network's own size.
//! - [`Access`]: the network below, and who pays for the work.
//!
//! **Not here:** how associations are set up, and exchanges over them.

mod access;
mod msdl;

pub use access::{Access, Work};
pub use msdl::{
    Association, Leaving, Msdl, MsdlConfig, MsdlCounts, Received, SendError, Terms, To,
};
