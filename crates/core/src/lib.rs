//! The ATM stack and the queue protocol: no I/O, no clock, no threads, no `unsafe`.
//!
//! ```text
//!            cells                          PDUs                           octets
//!        +-----------+  receive()   +----------------+  indication  +--------------+
//! link ->|  adapter  | -----------> |     server     | -----------> | application  |
//!        |  police   |   events     |   connection   |              |              |
//!        | reassemble|              | admit, credit  |              |              |
//! link <-|  segment  | <----------- |                | <----------- |              |
//!        |  shape    |   commands   |                |   request    |              |
//!        +-----------+  transmit()  +----------------+   confirm    +--------------+
//! ```
//!
//! Rooms, in flow order; a room may use those before it, never those after:
//!
//! - [`wire`]: octets to values and back. Does not know connections.
//! - [`contract`]: what was promised, and the arithmetic that checks it. Does not know cells'
//!   contents.
//! - [`mod@line`]: a line that is impaired on purpose. Does not know links.
//! - [`aal`]: cells to PDUs and back. Does not police.
//! - [`queue`]: queues between two parties that do not trust each other. Does not know what is in
//!   them.
//! - [`adapter`]: the firmware: receive, police, reassemble; segment, shape, transmit.
//! - [`keeper`]: who has what of an adapter, and what outlives them. Does not make memory.
//! - [`server`]: connections for applications: admission, shares. Does not see cells.
//! - [`application`]: a program's end of all that: what it asks, hears, may send and take. Does not
//!   see the queues.
//! - [`upper`]: what is in PDUs: IP and Ethernet over a connection. Does not know whose it is.
//! - [`terminal`]: files in cells: each octet to its one place; video in time. Does not open files
//!   or connections.
//!
//! Time is an argument everywhere: [`Time`], nanoseconds of a monotonic clock that the caller
//! reads. So is chance: a [`FaultyLine`] does to the cells what a list says, an impaired
//! [`mod@line`] what follows from its seed.
#![forbid(unsafe_code)]

pub mod aal;
pub mod adapter;
pub mod application;
pub mod contract;
mod fault;
pub mod keeper;
pub mod line;
mod planted;
pub mod queue;
pub mod server;
pub mod terminal;
mod time;
pub mod upper;
pub mod wire;

pub use fault::{Effect, Fault, FaultCounts, FaultyLine};
pub use time::{Time, TimeWord, TimeWordError};
