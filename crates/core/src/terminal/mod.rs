//! The ATM terminal of files: whose each octet of a cell is, and where it goes (*High Performance
//! ATM Terminals*, sections 2.2 and 3).
//!
//! - [`Pci`]: the header of each CPCS-SDU, which answers for itself.
//! - [`ReceiveBuffer`], [`TransmitBuffer`]: the common buffer of all layers.
//! - [`Demultiplexer`], [`Multiplexer`]: the data controller, which moves the pieces between cells
//!   and buffers as the composition tree ([`crate::aal::tree`]) says. A payload octet is written
//!   once, at its place in the file.
//!
//! - [`Sender`], [`Receiver`]: the window of a transfer, and the disk layer in it.
//! - [`Kernel`]: what a terminal that makes its own cells does, and in which order.
//! - [`Stack`]: the layers of a VC, as text.
//! - [`Exchange`]: all that two terminals exchange on a VC: a conversation and transfers.
//! - [`OctetStream`]: the same on a stream of octets, whose transport loses nothing.
//! - [`Carrier`]: what either is to [`Giving`] and [`Taking`], who move files.
//! - [`unfinished`]: what is received, on a disk, until it has its name.
//! - [`video`]: transport streams in time, from a camera to a display.

mod buffers;
mod carrier;
mod controller;
mod conversation;
mod cutter;
mod discard;
mod disk;
mod exchange;
mod files;
mod kernel;
mod pci;
mod planted;
mod rate;
mod stack;
mod status;
mod stream;
pub mod unfinished;
pub mod video;
mod window;

pub use buffers::{
    Acknowledged, Arq, Extent, Pointers, ReceiveBuffer, Source, Store, Terms, Ticket,
    TransmitBuffer,
};
pub use carrier::{Carrier, Ended};
pub use controller::{Demultiplexer, Multiplexer, Outcome, Transfers};
pub use conversation::{MESSAGE_MAX, Outbox, TooLong};
pub use cutter::Split;
pub use discard::{Counts, Discard};
pub use disk::DiskHeader;
pub use exchange::{Event, Exchange, ExchangeTerms};
pub use files::{
    CONTENT_MAX, Destination, Digest, Entry, EntryKind, Existing, Found, Given, Giving, Lying,
    Manner, Message, MessageError, Offered, Offers, Origin, Partial, SendingFile, Settled,
    Standing, Taken, Taking,
};
pub use kernel::{
    Board, CellPayload, Copies, Crc, Events, Kernel, STEP_CELLS, STEP_MESSAGES, Stepped, TickCells,
    Variant, Work,
};
pub use pci::{Kind, Pci, PciError};
pub use planted::Planted;
pub use rate::RateTimer;
pub use stack::{Level, Stack};
pub use status::{Control, ControlError, Status};
pub use stream::{FRAME_MAX, OctetStream, StreamFault};
pub use window::{DiskPdu, Receiver, Sender, SenderCounts, StatusFault};
