//! The Multi-Service Network Architecture of Cambridge (Greaves, Zielinski 1991, section 3), above
//! cells: blocks between two ends of an association.
//!
//! - [`Msdl`]: associations, whose blocks go in cells of the network's own size.
//! - [`Access`]: the network below, which hears of all work.
//! - [`Msnl`]: associations are asked for, admitted and released by [`Message`]s out of band.
//! - [`rex`]: calls and their replies, at most once each, in blocks of either.

mod access;
mod message;
mod msdl;
mod msnl;
pub mod rex;

pub use access::{Access, Work};
pub use message::{
    Address, AddressError, Body, Connect, Message, MessageError, Notify, Refusal, Sap, TEXT_MAX,
};
pub use msdl::{
    Association, Leaving, Msdl, MsdlConfig, MsdlCounts, Received, SendError, Terms, To,
};
pub use msnl::{Asked, Call, Event, Msnl, MsnlConfig, MsnlCounts};

/// The circuit of [`Message`]s.
pub const SIGNALLING_VCI: u16 = 32;
