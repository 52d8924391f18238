//! Sources of ABR that share a link: the core's sources and destinations, and a switch between them
//! whose buffer, marks and explicit rates are ours.
//!
//! ```text
//!   source 1 --delay--.                         .--delay--> destination 1
//!   source 2 --delay---> switch: queue, link ---+--delay--> destination 2
//!   ...               '  <-- backward RM cells <'
//! ```
//!
//! Beside TM 4.0's sources, those of PRCA, the scheme before it.

mod erica;
mod network;

pub use erica::Erica;
pub use network::{AbrConfig, AbrCounts, Mark, Network, Scheme};
