//! Memory shared between cellgate's processes: maps, seals, wake-ups.
//!
//! The byte maps and the queue protocol are `cellgate_core::queue`'s; this crate puts them into
//! memory files and does nothing else.
//!
//! ```text
//!      adapter                                                        client
//! ConnectionMemory --- from-adapter: descriptors, receive buffer ---> ClientMemory
//!                  <-- from-client: descriptors, transmit buffer ----
//! AttachmentMemory --- from-adapter: events ------------------------> ClientAttachment
//!                  <-- from-client: doorbells, asleep ---------------
//! Waker ------------------------ eventfd ---------------------------> Sleeper
//! AdapterPage ------------------ asleep ----------------------------> Rouser
//!                  <------------ eventfd ----------------------------
//! PortReceiver     <-- cells ---------------------------------------- PortSender
//! socket           <-- messages, and the descriptors of all of these -> socket
//! ```
//!
//! The adapter's process makes every file and seals it: from-adapter so that nobody else can write
//! or resize it, from-client so that nobody can resize it. A descriptor that comes from elsewhere
//! is judged, seals and length, before anything of it is mapped; a file that its owner could
//! shorten is refused, so no reader of shared memory can be sent a SIGBUS.

mod attached;
mod attachment;
mod connection;
mod counters;
mod error;
mod halves;
mod map;
mod memfd;
mod port;
mod presence;
mod receive;
mod rouse;
pub mod socket;
#[cfg(test)]
mod tests;
mod wake;

pub use attached::{Attached, ClientCounters};
pub use attachment::{AttachmentMemory, ClientAttachment};
pub use connection::{ClientMemory, ConnectionMemory};
pub use counters::{CountersMemory, CountersView};
pub use error::ShmError;
pub use halves::{ClientReceive, ClientTransmit, HeldPdu};
pub use map::{Access, Map, SharedWords};
pub use memfd::{Files, is_same_file, name_of};
pub use port::{PortReceiver, PortSender};
pub use presence::Presence;
pub use receive::{ReceiveBuffer, ReceiveMemory};
pub use rouse::{AdapterPage, RouseFiles, Rouser};
pub use wake::{Sleeper, Waker, Woken, wake_descriptor, wake_descriptors};
