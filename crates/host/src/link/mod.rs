//! Links: where an adapter's cells come from and go to, and [`fault`]s on the way.

mod end;
pub mod fault;
mod memory;
pub mod udp;

pub(crate) use end::{PortFaults, ReceiveEnd, Rousing, Shown, TransmitEnd};
pub use memory::{CellReceiver, CellSender, QueueCounters};
