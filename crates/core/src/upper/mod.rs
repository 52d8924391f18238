//! What is in PDUs.
//!
//! - [`Encapsulation`]: IP packets and Ethernet frames in PDUs of AAL5, and what does not fit.
//! - [`InAtmArp`]: who is at the other end of a connection, asked and answered over it.
//! - [`Inquiry`]: when to ask.
//! - [`msna`]: blocks on circuits of the Cambridge networks.
//!
//! **Not here:** ATMARP over an ATMARP server, LANE, PPP, and who may say what: whatever fits is
//! handed on.

mod encapsulation;
mod inatmarp;
mod inquiry;
pub mod msna;

pub use encapsulation::{Encapsulation, Misfit, MisfitCounts, Payload, UnknownEncapsulation};
pub use inatmarp::{AtmNumber, InAtmArp, InAtmArpError, Operation, Station};
pub use inquiry::Inquiry;
