//! The stack on a virtual clock: a reference model of the adapter, and bugs planted to prove
//! that it judges.
//!
//! ```text
//!  seed -> Plan (pure data) -> run -> Verdict
//!                               |
//!                 +-------------+--------------+
//!                 v                            v
//!        core's Adapter on LabBoard    Reference: one cell at a time, unoptimised
//!                 |                            |
//!                 +--------> compared <--------+
//!        outcome of every cell, events, interrupts, descriptors and octets,
//!        counters, completions, conservation, cells and OAM replies sent
//! ```
//!
//! A run draws nothing: the same plan gives the same log. It never sees the host: no clock, no
//! thread, no system call.
#![forbid(unsafe_code)]

mod board;
pub mod cbn;
mod client;
pub mod disk;
pub mod experiments;
mod generate;
mod judge;
pub mod machine;
pub mod memory;
mod mutants;
pub mod plan;
mod progress;
mod reference;
mod shrink;
pub mod world;

pub use board::{LabBoard, LabCommand, LabCompletion, Trace};
pub use generate::plan as plan_of;
pub use judge::{Failure, Firmware, Report, Rested, run, run_attacked, run_resting};
pub use mutants::{
    Kill, LabAdapter, OF_ABR, OF_RESTS, kill_table, kill_table_of_rests, print_table, run_adapter,
    run_adapter_resting,
};
pub use progress::{Progress, Silent};
pub use shrink::{Shrink, shrink};
