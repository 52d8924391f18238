//! Links: where an adapter's cells come from and go to.

mod end;
mod memory;
pub mod udp;

pub(crate) use end::{PortLine, ReceiveEnd, Rousing, Shown, TransmitEnd};
pub use memory::{CellReceiver, CellSender, QueueCounters};
