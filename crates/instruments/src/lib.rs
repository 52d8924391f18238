//! Live trials and benchmarks: the adapter and the daemon as processes of this machine, under load
//! and beside their peers. The command `cellgate` runs them.
#![forbid(unsafe_code)]

pub mod bench;
pub mod demo;
mod flood;
pub mod guarantee;
mod live;
pub mod role;
