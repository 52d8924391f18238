//! Connections of applications over cellgate, a real-time ATM host: rates that are kept, without
//! copies if wanted.
//!
//! ```text
//!  application         cellgate (this crate)              daemon           adapter
//!                 open, set_contract: JSON + descriptors
//!  Connection ------------------------------------------> admission
//!       |         send, recv, reserve, next_pdu: shared memory
//!       +---------------------------------------------------------------> queues -> cells
//! ```
//!
//! - [`Connection`]: one virtual channel with its contract. [`Connection::send`] and
//!   [`Connection::recv`] copy once; [`Connection::reserve`] and [`Connection::next_pdu`] lend the
//!   queues' memory and copy nothing; [`StreamReader`] reads what is released by time,
//!   [`StreamWriter`] drops what finds no room.
//! - [`Session`]: many connections over one control socket, with one descriptor to wait at and one
//!   count of silent events.
//! - [`Chain`]: two connections, of which the second sends on what the first has received, from
//!   where the adapter put it.
//! - [`Admin`]: what concerns the daemon: lists, permanent connections, interfaces, loopback.
//!
//! ```no_run
//! let connection = cellgate::Connection::open("wan.0.100", "cbr,aal5:pcr=48Mbps,max_sdu=8192")?;
//! connection.send(b"an SDU")?;
//! let mut buffer = [0; 8192];
//! let received = connection.recv(&mut buffer)?;
//! println!("{} octets", received.len);
//! # Ok::<(), cellgate::Error>(())
//! ```
//!
//! The crate starts no thread, installs no handler, and keeps no global state: it lives in other
//! people's processes. A `Connection` can move between threads; one thread uses it at a time,
//! and all of a `Session`.
//! After open, nothing on the data path allocates.
//!
//! **Not here:** encryption, retransmission, or flow control over the network. An SDU of 0 octets
//! cannot be sent.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admin;
mod builder;
mod clock;
mod connection;
mod control;
mod error;
mod hub;
mod place;
mod poller;
mod session;
mod socket;
mod stream;

pub use admin::{Admin, Counters, Monitor, ServerInfo};
pub use builder::Builder;
pub use connection::{Chain, ChainCounters, Connection, ConnectionCounters, Pdu, Received, Space};
pub use error::{Error, Wait};
pub use place::socket_path;
pub use session::Session;
pub use stream::{StreamReader, StreamWriter};

pub use cellgate_core::Time;
pub use cellgate_core::adapter::{
    AbrStats, Delays, Discard, DiscardCounts, Event, EventKind, Marks, Notification, VcStats,
};
pub use cellgate_core::application::Interest;
pub use cellgate_core::contract::{
    Aal, CellRate, Credit, Excess, Jitter, Peak, Police, RateReason, ServiceCategory, Slots,
    TrafficContract, TrafficDescriptor,
};
pub use cellgate_core::line::{Bottleneck, LineCounts, LineError, LineSpec, Share};
pub use cellgate_core::queue::SduOptions;
pub use cellgate_core::server::{
    AdapterInfo, AdapterSection, Address, AddressError, AdmissionSection, Bandwidth, Buffers,
    Caller, Change, ConnectionInfo, ConnectionSlots, CounterRecord, CounterSnapshot, Crowd,
    DatagramCounts, DelayBounds, Demand, Description, DeviceCounts, DeviceInfo, DeviceSpec,
    EndReason, Histogram, Histograms, Idle, InAtmArpCounts, Indication, InterfaceCounts,
    InterfaceInfo, InterfaceRecord, InterfaceSpec, InterfaceState, Link, Loss, MemoryLink,
    MessageKind, Open, PingFlow, Priority, QueueThreshold, Quota, ReceiveBound, Refused, Reserve,
    Resource, ResourceInfo, RestInfo, RiskInfo, ServerSection, Settings, SharedCpu, Shortage, Span,
    ThresholdError, TransmitBound, Tried, UdpLink, UserQuota, UserSettings,
};
pub use cellgate_core::wire::{CellPseudowire, HeaderForm};
pub use cellgate_shm::CountersView;
