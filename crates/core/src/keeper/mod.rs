//! What stands between an adapter's firmware and those who ask for its services: whose request this
//! is, what each control connection has, what stays when one ends, and who takes it up.
//!
//! ```text
//!  control connection               Order
//!  ------ Ask ------> [ Keeper ] ---------> process makes memory, tells the firmware
//!  <---- Answer -----     |      <--------- process
//!                         |          Done
//!                         +-- attachments, VCs, ports: owners, records, octets
//! ```
//!
//! The keeper knows no socket, no memory and no thread: what the process around it has made stands
//! for itself by a [`Handle`].

mod answer;
mod ask;
mod conclude;
mod link;
mod machine;
mod meeting;
mod memory;
mod records;
mod report;
mod requests;
mod scheduling;
mod take_up;

pub use answer::{Answer, ControlError, Hello, Reply, TakenUp};
pub use ask::{
    Ask, ENUMERATE_MAX, KEPT_MAX, NewRegion, PORTS_MAX, RECORD_MAX, ReceiveInto, Request, VERSION,
};
pub use link::{Link, LinkError, MemoryLink, UdpLink, UdpLinkError};
pub use machine::{
    ConnectionId, Done, Handle, Keeper, KeeperConfig, KeptVc, Making, Order, Output,
};
pub use meeting::{
    HAIL_DESCRIPTORS, Hail, MEETING_VERSION, Meeting, Misfit, TROUBLE_LEN_MAX, Word,
};
pub use memory::PrivateMemory;
pub use report::{
    GapReport, MeetingReport, PortReport, QueueReport, Refusals, RestReport, UdpDiscards, UdpReport,
};
pub use requests::LOOPBACKS_MAX;
pub use scheduling::{Idle, Scheduling, WakeUp};
