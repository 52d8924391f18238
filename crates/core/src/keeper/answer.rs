//! The control protocol of an adapter's process: what is answered.

use core::net::SocketAddr;

use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::{Ask, VERSION};
use super::{GapReport, PortReport, ReceiveInto, Scheduling, UdpReport};
use crate::adapter::{AdapterState, AttachmentIndex, Config, Refusal, VcId, VcInfo};
use crate::queue::{AttachmentSizes, ConnectionSizes, PortSizes};

/// One message from the adapter's service thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The request's; 0 if the request could not be read.
    pub id: u64,
    /// The answer, or why there is none.
    pub result: Result<Answer, ControlError>,
}

/// An answer of the adapter's process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Ask::Hello`].
    Hello(Hello),
    /// Nothing to tell.
    Done,
    /// To [`Ask::Attach`].
    Attached {
        attachment: AttachmentIndex,
        sizes: AttachmentSizes,
        /// That the files' headers carry.
        files_generation: u32,
    },
    /// To [`Ask::Open`], [`Ask::Modify`] and [`Ask::Reattach`].
    Opened {
        /// The VC's name from now on.
        vc: VcId,
        /// Its memory as it was made.
        sizes: ConnectionSizes,
        /// Where its PDUs go.
        receive_into: ReceiveInto,
        /// That the files' headers carry. Descriptors carry the VC's generation.
        files_generation: u32,
    },
    /// To [`Ask::TakeUp`].
    TakenUp(TakenUp),
    /// To [`Ask::PortRecord`].
    PortRecord(Option<String>),
    /// To [`Ask::Close`]: the last counters.
    Closed(Box<VcInfo>),
    /// To [`Ask::Enumerate`].
    State(Box<AdapterState>),
    /// To [`Ask::Loopback`].
    Returned {
        /// Nanoseconds from the cell's departure to its return, by the adapter's clock.
        round_trip_ns: u64,
    },
    /// To [`Ask::ReceivePort`] and [`Ask::TransmitPort`].
    Port {
        sizes: PortSizes,
        /// That the files' headers carry.
        files_generation: u32,
    },
    /// To [`Ask::Pseudowire`].
    Pseudowire {
        /// Where its datagrams arrive.
        receives_at: SocketAddr,
        /// From where they are sent.
        sends_from: SocketAddr,
    },
    /// To [`Ask::PseudowireReport`], both directions.
    PseudowireReport(UdpReport),
    /// To [`Ask::Ports`], in order; fewer than [`PORTS_MAX`](super::PORTS_MAX) are the last.
    Ports(Vec<PortReport>),
    /// To [`Ask::Gaps`].
    Gaps(GapReport),
}

/// What was taken up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakenUp {
    /// An attachment. The five descriptors of [`Answer::Attached`] come along, and those that
    /// were kept with it.
    Attachment {
        attachment: AttachmentIndex,
        sizes: AttachmentSizes,
        /// That the files' headers carry.
        files_generation: u32,
        /// What was kept with the descriptors.
        #[serde(default)]
        record: Option<String>,
    },
    /// A VC, of an attachment that this connection has. The two descriptors of
    /// [`Answer::Opened`] come along.
    Vc {
        vc: VcId,
        attachment: AttachmentIndex,
        sizes: ConnectionSizes,
        /// Where its PDUs go.
        receive_into: ReceiveInto,
        /// That the files' headers carry.
        files_generation: u32,
        /// What was kept with it.
        record: Option<String>,
    },
    /// Nothing is left behind.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`] of the adapter.
    pub version: u32,
    pub pid: u32,
    /// What it was built for.
    pub config: Config,
    /// How its firmware thread is scheduled.
    pub scheduling: Scheduling,
    /// Octets that connections and clients may have together.
    pub memory_max: u64,
    /// The process of another server that governs it; 0 if the adapter does not see its PID
    /// namespace.
    pub governor: Option<u32>,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum ControlError {
    /// The adapter refused.
    #[error("refused by the adapter: {0}")]
    Refused(#[from] Refusal),
    /// No request could be read from the message.
    #[error("not a request: {0}")]
    BadMessage(String),
    /// The message was longer than 65,536 octets.
    #[error("the message is longer than 65,536 octets")]
    TooLong,
    /// The first request was not hello.
    #[error("the first request on a connection is hello")]
    HelloFirst,
    /// The adapter speaks another version.
    #[error("the adapter speaks version {speaks} of the control protocol")]
    Version { speaks: u32 },
    /// Not one of this connection's.
    #[error("no such VC, attachment or port belongs to this control connection")]
    NotYours,
    /// Not for a connection that [`Ask::Connect`] made.
    #[error("what concerns every client is not for a connection made for one of them")]
    NotGoverning,
    /// Another server governs the adapter.
    #[error("another server, process {pid}, governs the adapter: end it first")]
    Governed {
        /// Its process; 0 if it is in a PID namespace that the adapter does not see.
        pid: u32,
    },
    /// The geometry cannot be built.
    #[error("the geometry cannot be built: {0}")]
    BadGeometry(String),
    /// The record is too long.
    #[error("a record has 4,096 octets at most")]
    RecordTooLong,
    /// The memory of the adapter's clients is used up.
    #[error("{needed} octets are needed, {free} are free")]
    MemoryExhausted {
        /// Octets.
        needed: u64,
        /// Octets.
        free: u64,
    },
    /// The kernel refused memory or a descriptor.
    #[error("the kernel refused: {0}")]
    Kernel(String),
    /// Descriptors are missing, or too many came.
    #[error("expected {expected} descriptors with the request, got {got}")]
    Descriptors {
        /// How many belong to the request.
        expected: u32,
        /// How many came.
        got: u32,
    },
    /// The descriptor is not what the request needs.
    #[error("the descriptor is not usable: {0}")]
    BadDescriptor(String),
    /// The pseudowire cannot be had.
    #[error("no such pseudowire: {0}")]
    Pseudowire(String),
    /// No other server's adapter can be met at the socket.
    #[error("{0}")]
    Meeting(String),
    /// Somebody else has the port's other end.
    #[error("the port's other end is taken")]
    PortTaken,
    /// As many control connections as there may be.
    #[error("no further control connection is possible")]
    ConnectionsInUse,
    /// The adapter ends.
    #[error("the adapter is shutting down")]
    ShuttingDown,
}
