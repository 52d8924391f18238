//! Queues between two parties that do not trust each other, over memory split by writer.
//!
//! Each party writes one memory and reads the other's. An index read from the other party is
//! checked before it is used; a word is read once.
//!
//! [`layout`] is the byte map, [`Producer`] and [`Consumer`] are the one algorithm, [`Sleep`] and
//! [`Wake`] the hand-shake of a party that does not want to poll. Nothing here knows what a slot
//! means, allocates after a queue was made, or blocks.

mod cells;
mod descriptor;
mod event_queue;
mod geometry;
mod header;
pub mod layout;
mod planted;
mod receive_queue;
mod spsc;
mod transmit_queue;
mod wake;
mod words;

pub use cells::{CellReceiver, CellSender, cells_dropped};
pub use descriptor::{Doorbell, ReceiveDescriptor, TransmitDescriptor};
pub use event_queue::EventQueue;
pub use geometry::{
    AttachmentGeometry, AttachmentSizes, ConnectionGeometry, ConnectionSizes, GeometryError,
    PortGeometry, PortSizes,
};
pub use header::{FileKind, GEOMETRY_WORDS, HEADER_LEN, Header, HeaderError, MAGIC, VERSION};
pub use layout::{Queue, queue};
pub use planted::Planted;
pub use receive_queue::{ReceiveQueue, ReceivedPdu};
pub use spsc::{Consumer, Producer};
pub use transmit_queue::{SduOptions, Space, TransmitQueue};
pub use wake::{Sleep, Wake};
pub use words::Words;
