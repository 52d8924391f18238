//! The firmware of *Policing Offloaded*: `transmit(); receive(); handle_commands();`.
//!
//! ```text
//!  ports      FIFO      lookup     police     reassemble       receive queue   event queue
//! ------> Board::receive -> table -> F-GCRA -> Region buffer -> descriptor ---> Board::post
//!                            |         |
//!                            v         v
//!                         UnknownVc  NonConforming ...          (counted, nothing else)
//!
//! <------ Board::transmit <- shaper <- segment <- transmit queue <- doorbell
//! ```
//!
//! The adapter owns its state and the regions of its VCs; a [`Board`] is the hinge to the world:
//! FIFOs, events, commands, and the charge for named work.

mod aal;
mod aal0;
mod aal34;
mod abr;
mod board;
mod class;
mod clients;
mod command;
mod commands;
mod contract;
mod crossing;
mod delays;
mod discard;
mod ended;
mod event;
mod firmware;
mod loopback;
mod oam;
mod paths;
mod planted;
mod reassembly;
mod receive;
mod rest;
mod schedule;
mod singles;
mod table;
mod timeouts;
mod transmit;
mod unreceived;
mod vc;

pub use aal::{Aal, Interleaving};
pub use aal0::Marks;
pub use abr::{AbrStats, AbrTerms};
pub use board::{Attachment, Board, PortIndex, Region, Work};
pub use command::{
    AdapterState, AdapterStats, AttachmentIndex, ClpScope, Command, Completion, Config, Excess,
    Notification, OpenRequest, Outcome, PortConfig, PortStats, Receive, Refusal, Room, Sustained,
    SustainedRate, Transmit, VcId, VcIndex, VcInfo, VcStats,
};
pub(crate) use contract::pdu_octets;
pub use contract::{Assumptions, Terms, Unserved, Waiting};
pub use delays::Delays;
pub use discard::{CellOutcome, Discard, DiscardCounts};
pub use ended::PduEnd;
pub use event::{EVENT_LEN, Event, EventKind};
pub use firmware::Adapter;
pub use planted::Planted;
pub use rest::Rest;
pub use schedule::{Class, Grant, PeakRate, Schedule};
pub use transmit::PDUS_PER_STEP;
pub use vc::{RECEIVE_STATE_LEN, REGION_HANDLE_MAX, VC_COLD_LEN, VC_LEN};
