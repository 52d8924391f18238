//! The V1S station of the Cambridge Backbone Network, and the host behind it (Greaves, Zielinski
//! 1991): cells wait in one RAM, which ring and host share, word by word.
//!
//! ```text
//!   ring --> access chip --> +-----------------+ --> port --> host: 68030, 20 MHz
//!                            | RAM, 32 bits:   |              interrupt, processes,
//!   ring <-- access chip <-- | a receive FIFO, | <-- port <-- MSDL
//!            a cell for each | four transmit   |   two words
//!            channel         | FIFOs           |
//!                            +-----------------+
//!                  one access a cycle: ring receive, then ring transmit, then host
//! ```

mod access;
mod charges;
mod circuits;
mod costs;
mod deed;
mod host;
mod network;
mod script;
mod spec;
mod station;

pub(super) use access::{Below, Destinations, MSDL, terms};
pub use charges::{Charge, Charges};
pub use circuits::Circuits;
pub use costs::{HostCosts, Instructions, Stage};
pub use deed::{Accessed, Deed};
pub use host::{Application, Dma, Host, HostCounts, HostSpec, Onward, Order, Outgoing};
pub use network::{Network, Seat};
pub use script::{Destination, Script};
pub use spec::{FalseTraffic, V1sSpec};
pub use station::{Counts, Station, Word};
