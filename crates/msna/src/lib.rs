//! The Multi-Service Network Architecture of Cambridge, live: blocks over associations that one
//! host asks for and another admits.
//!
//! ```text
//!  application      cellgate-msna (this crate)           cellgate       other host
//!               connect: Connect on circuit 32
//!  Node --------------------------------------------------------------> admission there
//!    |                                                  Accept, Refuse with an offer
//!  Liaison           send, recv: MSSAR in cells
//!    +----------------------------------------------> AAL0 connection --> its reader
//! ```
//!
//! - [`Node`]: a host of an interface, which calls others and is called.
//! - [`Liaison`]: one end of an association. A block that is lost is lost; a block that comes is
//!   whole.
//! - [`Exchanger`]: calls and their replies over associations, at most once.
//! - `rpc`, with the feature `tarpc`: these carry calls of that crate.
//! - [`Relay`]: a bridge between two lines, by cell or by block.
//! - [`Access`]: a block is cut into cells here, or by the adapter, or is a packet of its own.
//!
//! ```no_run
//! use cellgate_msna::{Access, Call, Node, NodeConfig};
//!
//! let mut node = Node::open(NodeConfig::new("10.0.0.1".parse()?, Access::Cells).on("a"))?;
//! let mut liaison = node.connect("10.0.0.2:7".parse()?, &Call::default())?;
//! liaison.send(b"a block")?;
//! let mut block = Vec::new();
//! liaison.recv(&mut block, None)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The machines are those of `cellgate_core::upper::msna`, which the lab's ring runs, too. The
//! crate starts no thread. A node and its liaisons belong to one thread.
//!
//! **Not here:** encryption, retransmission of blocks, and a ring in real time.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod call;
mod cells;
mod circuits;
mod config;
mod error;
mod exchanger;
mod liaison;
mod node;
mod path;
mod relay;
#[cfg(feature = "tarpc")]
pub mod rpc;

pub use call::{Access, Call};
pub use config::NodeConfig;
pub use error::Error;
pub use exchanger::Exchanger;
pub use liaison::{Liaison, LiaisonCounters};
pub use node::{Event, Node, PORT};
pub use relay::{By, Relay, RelayCounts};

pub use cellgate_core::upper::msna::rex;
pub use cellgate_core::upper::msna::{Address, AddressError, Notify, Refusal, Sap};

use cellgate::Time;

fn now() -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let ns = u64::try_from(now.tv_nsec).unwrap_or_default();
    Time::from_ns(seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}
