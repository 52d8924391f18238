//! The papers' machines, in cycles and bus words: what runs there is the same code as here.
//!
//! ```text
//!  Stream --> receive FIFOs --> i960: core's Adapter --> transmit FIFOs, tokens --> line
//!                                |    Costs: its work in cycles
//!                                v
//!                               Host: interrupts, PDUs given back, an idler
//! ```

pub mod abr;
mod cost;
mod esp;
pub mod ethernet;
mod host;
pub mod lookup;
pub mod p90;
pub mod pc386;
mod pca200e;
mod stream;
mod transmitter;
pub mod v1s;
mod workstation;

pub use cost::{BURST_CYCLES, Costs, Cycles, FIFOS, I960_CYCLE_S};
pub use esp::Esp;
pub use host::{Host, HostCosts};
pub use pca200e::{BoardCommand, BoardCompletion, BoardConfig, BoardCounts, Pca200e};
pub use stream::{Stream, pdu_cells};
pub use transmitter::{Departed, Transmitter};
pub use workstation::{Arrivals, Pacing, Quiet, ReceiveSpec, SendSpec, Workstation};
