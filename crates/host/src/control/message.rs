use std::net::SocketAddr;

use cellgate_core::FaultCounts;
use cellgate_core::adapter::{
    AdapterState, AttachmentIndex, Config, OpenRequest, PortConfig, PortIndex, PortStats, Refusal,
    VcId, VcIndex, VcInfo,
};
use cellgate_core::queue::{AttachmentSizes, ConnectionSizes, PortSizes};
use cellgate_core::wire::{OamFlow, VpiVci};
use serde::{Deserialize, Serialize};

use crate::gap::GapReport;
use crate::link::fault::FaultRates;
use crate::link::udp::{UdpOptions, UdpReport};
use crate::sys::Scheduling;

/// The version of the control protocol.
pub const VERSION: u32 = 5;

/// The longest record of a VC in octets.
pub const RECORD_MAX: usize = 4_096;

/// Ports of one answer to [`Ask::Ports`].
pub const PORTS_MAX: usize = 16;

/// Descriptors that one attachment keeps at most.
pub const KEPT_MAX: usize = 2;

/// VCs that one reply to [`Ask::Enumerate`] lists: with every counter at its longest, they fit a
/// message.
pub const ENUMERATE_MAX: usize = 24;

/// One message to the adapter's service thread. The first on a connection is [`Ask::Hello`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Repeated by the reply; replies may come in another order than the requests.
    pub id: u64,
    pub ask: Ask,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    Pseudowire {
        port: PortIndex,
        options: UdpOptions,
    },
    /// Takes off a port whatever its cells travel over; not for connections that [`Ask::Connect`]
    /// made. Answered by [`Answer::Done`].
    Unlink { port: PortIndex },
    /// What the pseudowire of a port counted. Answered by [`Answer::PseudowireReport`].
    PseudowireReport { port: PortIndex },
    /// Has what a port receives be lost, damaged and so on from its next cell on, or has an end of
    /// that; not for connections that [`Ask::Connect`] made. Answered by [`Answer::Done`].
    Faults {
        port: PortIndex,
        /// How often what happens.
        rates: Option<FaultRates>,
    },
    /// What the faults of a port did. Answered by [`Answer::FaultReport`].
    FaultReport { port: PortIndex },
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

/// One message from the adapter's service thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The request's; 0 if the request could not be read.
    pub id: u64,
    /// What came of it.
    pub result: Result<Answer, ControlError>,
}

/// What is answered.
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
    /// To [`Ask::FaultReport`].
    FaultReport(FaultCounts),
    /// To [`Ask::Ports`], in order; fewer than [`PORTS_MAX`] are the last.
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

/// One port's two directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortReport {
    /// What is sent to the adapter.
    pub receive: QueueReport,
    /// What the adapter sends.
    pub transmit: QueueReport,
    /// Cells of no VC that it has received, since the adapter began.
    pub strays: PortStats,
    /// Of a pseudowire, if that is its link.
    pub pseudowire: Option<UdpReport>,
}

/// A queue of cells between two processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReport {
    /// Cells put in.
    pub sent: u64,
    /// Cells that found it full.
    pub dropped: u64,
    /// Cells taken out.
    pub received: u64,
    /// The most cells that its receiver found waiting.
    pub queued_max: u64,
    /// Times that the other party's index could not be.
    pub faults: u64,
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
    /// The list of faults would be too long.
    #[error("a list of faults has 1,048,576 entries at most")]
    TooManyFaults,
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

#[cfg(test)]
mod tests {
    use cellgate_core::Time;
    use cellgate_core::adapter::{
        Aal, AdapterStats, AttachmentIndex, ClpScope, Discard, DiscardCounts, Excess, Interleaving,
        Notification, OpenRequest, PortIndex, Receive, Sustained, Transmit, VcInfo, VcStats,
    };
    use cellgate_core::contract::CellRate;
    use cellgate_core::wire::VpiVci;

    use super::*;
    use crate::control::MESSAGE_MAX;

    #[test]
    fn a_full_list_of_vcs_fits_a_message_however_much_they_have_counted() {
        const MOST: u64 = u64::MAX;
        let mut discarded = DiscardCounts::default();
        for reason in Discard::ALL {
            discarded.add(reason, MOST);
        }
        let rate = CellRate::new(u32::MAX);
        let request = OpenRequest {
            address: VpiVci::new(0xfff, u16::MAX).unwrap(),
            port: PortIndex(u8::MAX),
            aal: Aal::Aal34(Interleaving {
                mids: u16::MAX,
                reassembly_timeout_ns: MOST,
            }),
            attachment: AttachmentIndex(u16::MAX),
            receive: Some(Receive {
                rate,
                sustained: rate.map(|rate| Sustained {
                    rate,
                    burst_tolerance_ns: MOST,
                    clp: ClpScope::HighPriority,
                }),
                cdvt_ns: MOST,
                guaranteed: false,
                max_sdu: u16::MAX,
                fixed_sdu: false,
                excess: Excess::WhenIdle { reserve: u32::MAX },
                notification: Notification::Silent {
                    threshold: u32::MAX,
                    longest_delay_ns: MOST,
                },
                queue_threshold: u32::MAX,
            }),
            transmit: Some(Transmit {
                rate,
                cdvt_ns: MOST,
                weight: u32::MAX,
                peak: rate,
                max_sdu: u16::MAX,
                interrupt_on_completion: false,
            }),
        };
        let stats = VcStats {
            cells_received: MOST,
            cells_delivered: MOST,
            cells_held: MOST,
            cells_discarded: discarded,
            pdus_delivered: MOST,
            pdus_lent: MOST,
            pdus_tagged: MOST,
            cells_answered: MOST,
            pdus_discarded: discarded,
            cells_transmitted: MOST,
            pdus_transmitted: MOST,
            pdus_crossed: MOST,
            client_faults: MOST,
        };
        let vc = VcId {
            index: VcIndex(u16::MAX),
            generation: u32::MAX,
        };
        let state = AdapterState {
            time: Time::from_ns(MOST),
            stats: AdapterStats {
                cells_discarded: discarded,
                ..AdapterStats::default()
            },
            vcs: vec![VcInfo { vc, request, stats }; ENUMERATE_MAX],
            next: Some(VcIndex(u16::MAX)),
        };
        let reply = Reply {
            id: MOST,
            result: Ok(Answer::State(Box::new(state))),
        };
        let octets = serde_json::to_vec(&reply).unwrap();
        // The rest of the adapter's own counters.
        assert!(octets.len() + 12 * 20 <= MESSAGE_MAX, "{}", octets.len());
        assert_eq!(serde_json::from_slice::<Reply>(&octets).unwrap(), reply);
    }

    #[test]
    fn an_answer_of_ports_that_have_counted_all_their_lives_is_no_longer_than_a_message() {
        const MOST: u64 = u64::MAX;
        let queue = QueueReport {
            sent: MOST,
            dropped: MOST,
            received: MOST,
            queued_max: MOST,
            faults: MOST,
        };
        let strays = PortStats {
            unknown_vc: MOST,
            hec_error: MOST,
            idle: MOST,
            last_unknown: VpiVci::new(4_095, u16::MAX),
        };
        let pseudowire = UdpReport {
            received_datagrams: MOST,
            received_cells: MOST,
            missing_datagrams: MOST,
            overflows: MOST,
            receive_buffer_octets: MOST,
            receive_calls: MOST,
            receive_errors: MOST,
            sent_datagrams: MOST,
            sent_cells: MOST,
            send_calls: MOST,
            send_errors: MOST,
            dropped_cells: MOST,
            foreign_cells: MOST,
            last_refusal: Some(i32::MIN),
            heard: Some(Time::from_ns(MOST)),
            last_refused: Some(std::net::Ipv6Addr::from(u128::MAX).into()),
            ..UdpReport::default()
        };
        let port = PortReport {
            receive: queue,
            transmit: queue,
            strays,
            pseudowire: Some(pseudowire),
        };
        let reply = Reply {
            id: MOST,
            result: Ok(Answer::Ports(vec![port; PORTS_MAX])),
        };
        let octets = serde_json::to_vec(&reply).unwrap();
        // Discards and refusals of a pseudowire have 18 numbers more.
        assert!(
            octets.len() + PORTS_MAX * 18 * 20 <= MESSAGE_MAX,
            "{}",
            octets.len()
        );
        assert_eq!(serde_json::from_slice::<Reply>(&octets).unwrap(), reply);
    }
}
