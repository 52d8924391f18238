//! The ATM terminal of files: whose each octet of a cell is, and where it goes (*High Performance
//! ATM Terminals*, sections 2.2 and 3).
//!
//! - [`Pci`]: the header of each CPCS-SDU, which answers for itself.
//! - [`ReceiveBuffer`], [`TransmitBuffer`]: the common buffer of all layers.
//! - [`Demultiplexer`], [`Multiplexer`]: the data controller, which moves the pieces between cells
//!   and buffers as the composition tree ([`crate::aal::tree`]) says. A payload octet is written
//!   once, at its place in the file.
//!
//! **Not here:** the protocol between terminals: the controller hands control PDUs on.

mod buffers;
mod controller;
mod discard;
mod pci;

pub use buffers::{
    Acknowledged, Arq, Extent, Pointers, ReceiveBuffer, Source, Store, Terms, Ticket,
    TransmitBuffer,
};
pub use controller::{Demultiplexer, Multiplexer, Outcome, Transfers};
pub use discard::{Counts, Discard};
pub use pci::{Kind, Pci, PciError};
