//! The control protocol of an adapter's process: what is asked.

use serde::{Deserialize, Serialize};

use super::UdpLink;
#[cfg(doc)]
use super::{Answer, ControlError};
#[cfg(doc)]
use crate::adapter::Refusal;
use crate::adapter::{AttachmentIndex, OpenRequest, PortConfig, PortIndex, VcId, VcIndex};
use crate::line::LineSpec;
use crate::queue::{AttachmentSizes, ConnectionSizes, PortSizes};
use crate::wire::{OamFlow, VpiVci};

/// The version of the control protocol.
pub const VERSION: u32 = 10;

/// The longest record of a VC in octets.
pub const RECORD_MAX: usize = 4_096;

/// Ports of one answer to [`Ask::Ports`].
pub const PORTS_MAX: usize = 16;

/// Descriptors that one attachment keeps at most.
pub const KEPT_MAX: usize = 2;

/// VCs that one reply to [`Ask::Enumerate`] lists: with every counter at its longest, they fit a
/// message.
pub const ENUMERATE_MAX: usize = 16;

/// One message to the adapter's service thread. The first on a connection is [`Ask::Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Repeated by the reply; replies may come in another order than the requests.
    pub id: u64,
    pub ask: Ask,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// Who is there? Answered by [`Answer::Hello`].
    Hello {
        /// [`VERSION`].
        version: u32,
    },
    /// Another control connection, for a client that need not be trusted: it can neither configure
    /// ports nor end the adapter. Answered by [`Answer::Done`] with its descriptor.
    Connect,
    /// A client's event queue and doorbell. Answered by [`Answer::Attached`] with five descriptors:
    /// the file the adapter writes, the file the client writes, an epoll descriptor that becomes
    /// readable when the adapter wakes the client, the adapter's page, and an eventfd by which the
    /// client wakes an adapter that rests.
    Attach {
        sizes: AttachmentSizes,
        /// Whose it is: clients of one user are woken by one thread.
        user: u32,
        /// When this connection ends, the VCs of the attachment stay open.
        keep: bool,
    },
    /// Removes an attachment without VCs. Answered by [`Answer::Done`].
    Detach {
        /// Which; one of this connection's.
        attachment: AttachmentIndex,
    },
    /// Opens a VC. With [`ReceiveInto::File`], a descriptor comes along. Answered by
    /// [`Answer::Opened`] with two descriptors: the file the adapter writes, the file the client
    /// writes.
    Open {
        /// What; its attachment is one of this connection's.
        request: OpenRequest,
        /// Its memory; `receive_into` decides whether the receive buffer is elsewhere.
        sizes: ConnectionSizes,
        /// Where its PDUs go.
        receive_into: ReceiveInto,
        /// What is kept with the VC for whoever [takes it up](Ask::TakeUp); [`RECORD_MAX`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        record: Option<String>,
    },
    /// Changes a VC. Answered by [`Answer::Opened`], with descriptors if it got a new region.
    Modify {
        /// Which; one of this connection's.
        vc: VcId,
        /// The new contract.
        request: OpenRequest,
        /// A new region.
        region: Option<NewRegion>,
        /// As of [`Ask::Open`]; none: the record stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        record: Option<String>,
    },
    /// Closes a VC. Answered by [`Answer::Closed`].
    Close {
        /// Which; one of this connection's.
        vc: VcId,
    },
    /// Counters and VCs, everybody's. Answered by [`Answer::State`].
    Enumerate {
        /// The first slot to list.
        from: VcIndex,
    },
    /// Takes a VC over. It is this connection's already, or its capability comes along: the
    /// descriptor of the file that its client writes. Answered by [`Answer::Opened`] with the
    /// region's descriptors.
    Reattach {
        vc: VcId,
        /// To which of this connection's attachments.
        attachment: AttachmentIndex,
        /// As of [`Ask::Open`]; none: the record stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        record: Option<String>,
    },
    /// Keeps the descriptors that come along, at most [`KEPT_MAX`], with an attachment that is
    /// itself kept, in place of those before. They go with the attachment. Answered by
    /// [`Answer::Done`].
    Keep {
        /// Which; one of this connection's, attached with `keep`.
        attachment: AttachmentIndex,
        /// What they are, for whoever [takes them up](Ask::TakeUp); [`RECORD_MAX`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        record: Option<String>,
    },
    /// Makes this connection the owner of one attachment or VC that its owner has left behind, the
    /// attachments first; not for connections that [`Ask::Connect`] made. Answered by
    /// [`Answer::TakenUp`]; refused as [busy](Refusal::Busy) while something that the former owner
    /// asked is under way, and as [governed](ControlError::Governed) while another connection that
    /// has taken up, or the one that started the adapter, is there.
    TakeUp,
    /// Keeps its owner's words with a port, in place of those before, or none; not for connections
    /// that [`Ask::Connect`] made. Answered by [`Answer::Done`].
    KeepPort {
        port: PortIndex,
        /// What whoever takes the adapter up needs to know of it; [`RECORD_MAX`].
        record: Option<String>,
    },
    /// What was kept with a port. Answered by [`Answer::PortRecord`].
    PortRecord { port: PortIndex },
    /// Lends host time to a VC. Answered by [`Answer::Done`].
    Lease {
        /// Which; one of this connection's.
        vc: VcId,
        /// PDUs.
        pdus: u32,
        /// Nanoseconds from now.
        expires_in_ns: u64,
    },
    /// Sends an OAM loopback cell (I.610) and awaits its return; not for connections that
    /// [`Ask::Connect`] made. Of 8 of a connection, and 16 of all, the next is refused. Answered
    /// by [`Answer::Returned`], or refused with [`Refusal::NoReturn`].
    Loopback {
        /// On which port.
        port: PortIndex,
        /// The VC; in F4 only its VPI counts.
        address: VpiVci,
        /// In which flow.
        flow: OamFlow,
        /// Nanoseconds from now, at most 10^10.
        timeout_ns: u64,
    },
    /// Changes a port; not for connections that [`Ask::Connect`] made. Answered by
    /// [`Answer::Done`].
    Configure { port: PortIndex, config: PortConfig },
    /// The sender's end of a port that the adapter receives from, a fresh queue. Answered by
    /// [`Answer::Port`] with four descriptors: the file the receiver writes, the file the sender
    /// writes, the adapter's page, and an eventfd by which the sender wakes an adapter that rests.
    /// It is this connection's until the connection ends.
    ReceivePort { port: PortIndex },
    /// The receiver's end of a port that the adapter transmits into. Answered like
    /// [`Ask::ReceivePort`], with the two files alone. Until somebody asks, what the port transmits
    /// is dropped.
    TransmitPort { port: PortIndex },
    /// Has a port transmit into the receive port of another adapter; the four descriptors of
    /// [`Ask::ReceivePort`] come along. Answered by [`Answer::Done`].
    Join {
        port: PortIndex,
        /// As the other adapter answered.
        sizes: PortSizes,
        /// As the other adapter answered.
        files_generation: u32,
    },
    /// Has a port receive from and transmit into a pseudowire over UDP; not for connections that
    /// [`Ask::Connect`] made. Its cells must be of 52 octets. It stays, also when the connection
    /// ends, until the port gets something else. Answered by [`Answer::Pseudowire`].
    Pseudowire { port: PortIndex, options: UdpLink },
    /// Has a port receive from and transmit into the port of another server's adapter, which does
    /// the same at this path of a socket: whoever finds nobody there listens. It stays, also when
    /// the connection ends, until the port gets something else, and joins again whenever the other
    /// end is back; [`PortReport::meeting`](super::PortReport::meeting) tells. Not for connections
    /// that [`Ask::Connect`] made. Answered by [`Answer::Done`].
    Meet { port: PortIndex, path: String },
    /// Takes off a port whatever its cells travel over; not for connections that [`Ask::Connect`]
    /// made. Answered by [`Answer::Done`].
    Unlink { port: PortIndex },
    /// What the pseudowire of a port counted. Answered by [`Answer::PseudowireReport`].
    PseudowireReport { port: PortIndex },
    /// Has the line on which a port receives be impaired so from its next cell on; cells on their
    /// way are lost. Not for connections that [`Ask::Connect`] made. Answered by [`Answer::Done`].
    Line { port: PortIndex, line: LineSpec },
    /// What ports have counted, from one on: of [`PORTS_MAX`] at most. Answered by
    /// [`Answer::Ports`].
    Ports { from: PortIndex },
    /// What the gap detector saw. Answered by [`Answer::Gaps`].
    Gaps {
        /// Begin the maxima anew after reading them.
        restart_maxima: bool,
    },
    /// Ends the adapter; not for connections that [`Ask::Connect`] made. Answered by
    /// [`Answer::Done`] before it does.
    Shutdown,
}

/// Where the PDUs of a VC are reassembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ReceiveInto {
    /// A buffer of its own.
    Own,
    /// The transmit buffer of another VC of this connection: what is received can be sent on
    /// without a copy.
    TransmitBufferOf(VcId),
    /// The file whose descriptor comes along: in memory, sealed against shrinking, and at least
    /// as long as the receive buffer.
    File,
}

/// A new region for a VC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRegion {
    /// Its memory; `receive_into` decides whether the receive buffer is elsewhere.
    pub sizes: ConnectionSizes,
    /// Where its PDUs go.
    pub receive_into: ReceiveInto,
}

impl Ask {
    /// What comes along to be kept for whoever takes it up, where this brings such a thing.
    pub fn record(&mut self) -> Option<&mut Option<String>> {
        match self {
            Self::Open { record, .. }
            | Self::Modify { record, .. }
            | Self::Reattach { record, .. }
            | Self::Keep { record, .. }
            | Self::KeepPort { record, .. } => Some(record),
            _ => None,
        }
    }
}
