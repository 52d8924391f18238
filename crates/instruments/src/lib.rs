//! Live trials and benchmarks: the adapter and the daemon as processes of this machine, under load
//! and beside their peers. The command `cellgate` runs them.
//!
//! ```text
//! demo -> flood     guarantee     bench        what is measured and judged
//!             \         |          /
//!              +------ live -----+            processes, adapters, SDUs, when a run is void
//! ```
//! `role` is the other end of `live`: what a process does that an instrument has started.
#![forbid(unsafe_code)]

pub mod bench;
pub mod demo;
mod flood;
pub mod guarantee;
mod live;
pub mod role;
