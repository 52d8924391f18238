//! Links: where an adapter's cells come from and go to.

mod end;
mod line;
mod memory;
mod shown;
pub mod udp;

pub(crate) use end::{CellSink, CellSource, ReceiveEnd, TransmitEnd};
pub(crate) use line::PortLine;
pub use memory::{CellReceiver, CellSender, QueueCounters};
pub(crate) use memory::{MemorySink, MemorySource};
pub(crate) use shown::Shown;
