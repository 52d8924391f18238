//! What an application and the server say to each other: the four primitives of a service access
//! point. JSON over a Unix socket of sequenced packets; descriptors go along with some of them.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Address, ConnectionSlots, CpuTime, DelayBounds, Demand, DeviceInfo, DeviceSpec, Histograms,
    Idle, InterfaceInfo, InterfaceSpec, QueueThreshold, Refused, Settings,
};
use crate::adapter::{AttachmentIndex, Discard, Marks, Notification, VcId, VcStats};
use crate::contract::{CellRate, Credit, RateReason};
use crate::line::LineSpec;
use crate::queue::{AttachmentSizes, ConnectionSizes};
use crate::wire::OamFlow;

/// The version of the protocol.
pub const VERSION: u32 = 11;

/// Connections that one control socket has at most.
pub const CONNECTIONS_PER_SOCKET: u32 = 256;

/// A field that is left out where it is 0: who has one connection does not name it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(super) fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Connections that one [`Confirm::Connections`] lists at most, devices that one
/// [`Confirm::Devices`] does, and users that one [`Confirm::Settings`] does.
pub const LIST_MAX: usize = 16;

/// From an application to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromClient {
    /// Asks for something.
    Request {
        /// Repeated by its Confirm, and used once on a socket. An application that hears
        /// [`Indication::Restarted`] before a Confirm says that it has heard, and sends the Request
        /// again under the same number: the new server leaves unread what was said before, and
        /// carries out nothing that the server before it has.
        id: u64,
        /// The application's own number for the connection that it is about, given with the
        /// Request that opens, takes or reattaches it; a Request about none leaves it at 0.
        #[serde(default, skip_serializing_if = "is_zero")]
        connection: u32,
        request: Request,
    },
    /// Answers an Indication.
    Response {
        id: u64,
        /// The Indication's.
        #[serde(default, skip_serializing_if = "is_zero")]
        connection: u32,
        response: Response,
    },
}

/// From the server to an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromServer {
    /// Ends a Request.
    Confirm {
        /// The Request's; 0 if no Request could be read.
        id: u64,
        /// The Request's, or the Response's.
        #[serde(default, skip_serializing_if = "is_zero")]
        connection: u32,
        /// What came of it.
        result: Result<Confirm, Refused>,
    },
    /// Tells something of the server's own accord.
    Indication {
        /// For a Response; 0 if there is none to this one.
        id: u64,
        /// The application's own number for the connection that it is about; 0 where it is about
        /// none, or about all ([`EndReason::ShuttingDown`], [`Indication::Restarted`]).
        #[serde(default, skip_serializing_if = "is_zero")]
        connection: u32,
        indication: Indication,
    },
}

/// What an application can ask. A control socket has up to [`CONNECTIONS_PER_SOCKET`] connections,
/// which the application numbers as it likes; they end with it. Each socket has numbers of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The first on a socket. Confirmed by [`Confirm::Hello`].
    Hello {
        /// [`VERSION`].
        version: u32,
    },
    /// What can be said, by both. Confirmed by [`Confirm::Description`].
    Describe,
    /// Opens a connection. Confirmed by [`Confirm::Opened`]. With [`Open::receive_into`] the
    /// capability of that connection comes along: the descriptor of the file that its client
    /// writes.
    Open(Open),
    /// Whether [`Request::Open`] would open such a connection by what is promised so far, and what
    /// would be reserved for it. The adapter is not asked, and nothing changes. Confirmed by
    /// [`Confirm::Tried`], or refused as that Open would be, with the same offers. What comes along
    /// with an Open comes along with it.
    Try(Open),
    /// Takes the use of a permanent connection ([`Request::Add`]) that nobody uses. Confirmed by
    /// [`Confirm::Opened`].
    Take { address: Address },
    /// Takes this user's connection over from another socket; its capability comes along: the
    /// descriptor of the file that its client writes. Confirmed by [`Confirm::Opened`].
    Reattach { address: Address },
    /// Changes the contract of a connection of this socket. Confirmed by [`Confirm::Modified`],
    /// with descriptors if it got new memory.
    Modify {
        /// The new one.
        contract: String,
    },
    /// Closes a connection of this socket; a permanent one is given back. Confirmed by
    /// [`Confirm::Closed`].
    Close,
    /// Lends host time to a connection of this socket (`excess=when-idle`). Confirmed by
    /// [`Confirm::Done`].
    Lease {
        /// PDUs.
        pdus: u32,
        /// Nanoseconds from now, at most 10,000,000.
        expires_in_ns: u64,
    },
    /// Opens a permanent connection: it stays until it is deleted. Confirmed by
    /// [`Confirm::Added`].
    Add(Open),
    /// Changes a permanent connection that nobody uses. Confirmed by [`Confirm::Done`].
    Set {
        address: Address,
        /// The new contract.
        contract: String,
    },
    /// Closes a permanent connection, whoever uses it. Confirmed by [`Confirm::Done`].
    Delete { address: Address },
    /// Connections, those of all users. Confirmed by [`Confirm::Connections`].
    List {
        /// The first to list, by number.
        from: u32,
    },
    /// What is reserved and what is free. Confirmed by [`Confirm::Resources`].
    Resources,
    /// How the adapters have run. Confirmed by [`Confirm::Adapters`].
    Adapters,
    /// The interfaces. Confirmed by [`Confirm::Interfaces`].
    Interfaces,
    /// Adds an interface; for the server's own user and root. Confirmed by [`Confirm::Done`].
    AddInterface(InterfaceSpec),
    /// Has the line on which an interface's cells arrive be impaired, or clean; for the server's
    /// own user and root. Cells on their way are lost. Confirmed by [`Confirm::Done`].
    SetLine {
        /// The interface's.
        name: String,
        line: LineSpec,
    },
    /// Removes an interface without connections; for the server's own user and root. Confirmed by
    /// [`Confirm::Done`].
    RemoveInterface { name: String },
    /// Sends one OAM loopback cell and waits for its return. Confirmed by [`Confirm::Returned`].
    Ping {
        /// The user VC of an F5 flow, which must be open; of an F4 flow the VPI counts.
        address: Address,
        flow: OamFlow,
        /// Nanoseconds, at most 10^10.
        timeout_ns: u64,
    },
    /// Changes of connections and interfaces from now on, as Indications. Confirmed by
    /// [`Confirm::Done`].
    Monitor,
    /// The memory that the counters are shown in. Confirmed by [`Confirm::Counters`].
    Counters,
    /// Has a worker of the server carry a network device over a connection of this user. Two
    /// descriptors come along: the device's and any socket of its network namespace. Confirmed by
    /// [`Confirm::Device`] as soon as the connection is open.
    AddDevice(DeviceSpec),
    /// Ends a worker with its connection and its hold on the device. Confirmed by
    /// [`Confirm::Done`].
    RemoveDevice {
        /// The device's name.
        name: String,
    },
    /// The network devices, those of all users. Confirmed by [`Confirm::Devices`].
    Devices {
        /// The first to list, by number.
        from: u32,
    },
    /// Reserves CPU time for a thread, in place of what this socket has reserved before; the thread
    /// is real-time as long as it is within its budget. Ends with the connection, or with the
    /// socket. Confirmed by [`Confirm::CpuReserved`].
    ReserveCpu(CpuTime),
    /// What the server runs with; users see their own quota alone, and not where the server has
    /// what. Confirmed by [`Confirm::Settings`].
    Settings {
        /// The first user to list, by number.
        from: u32,
    },
}

/// A connection to open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    pub address: Address,
    /// The traffic contract, as text.
    pub contract: String,
    /// When events tell of received cells; none: at the last cell of each PDU.
    #[serde(default)]
    pub notification: Option<Notification>,
    /// The marks of AAL0 cells that notification is about.
    #[serde(default)]
    pub marks: Marks,
    /// SDUs of the largest size that may wait to be sent; none: as many as its credit interval has,
    /// at least 2.
    #[serde(default)]
    pub transmit_pdus: Option<u32>,
    /// PDUs that may wait to be read beyond those that the contract needs room for.
    #[serde(default)]
    pub receive_pdus: Option<u32>,
    /// The fill of the receive queue at which it is told; none: at none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_threshold: Option<QueueThreshold>,
    /// Whether a PDU that has left interrupts: a sender that waits for room needs it.
    #[serde(default)]
    pub completions: bool,
    /// Another connection of this user, in whose transmit buffer PDUs are put together; none: in a
    /// receive buffer of its own. This one ends with it, and before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_into: Option<Address>,
}

/// What came of a Request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Confirm {
    /// Who is there.
    Hello {
        /// [`VERSION`] of the server.
        version: u32,
        /// Its program's name and version.
        server: String,
        pid: u32,
        /// What it could not have (real-time classes, a CPU of its own, ...), for people.
        notes: Vec<String>,
    },
    /// Nothing to tell.
    Done,
    /// Each message, with an example of its JSON and the descriptors that go along with it.
    Description(Vec<Description>),
    /// A connection is open. Five descriptors: of the connection, the file the adapter writes and
    /// the file the client writes; of its attachment the same two, and what becomes readable when
    /// the adapter wakes the client.
    Opened(Opened),
    /// An Open would be confirmed.
    Tried(Box<Tried>),
    /// The contract has changed. Two descriptors of the connection's new memory, if `memory`.
    Modified {
        /// As from now on.
        opened: Opened,
        /// It has new memory; what the old one holds can be read until it is empty.
        memory: bool,
    },
    /// The connection is closed.
    Closed {
        /// Its last counters.
        stats: Box<VcStats>,
    },
    /// A permanent connection is open.
    Added {
        /// Its contract in canonical form.
        contract: String,
    },
    /// A part of the list.
    Connections {
        connections: Vec<ConnectionInfo>,
        /// Where the next part begins, if there is one.
        next: Option<u32>,
    },
    /// What is reserved and free.
    Resources(Vec<ResourceInfo>),
    /// How each has run, in the order of the configuration.
    Adapters(Vec<AdapterInfo>),
    Interfaces(Vec<InterfaceInfo>),
    /// A loopback cell came back.
    Returned {
        /// Nanoseconds from the cell's departure to its return, by the adapter's clock.
        round_trip_ns: u64,
    },
    /// One descriptor: a file of `len` octets that the server writes counters into
    /// (docs/shared-memory.md).
    Counters {
        /// Octets.
        len: u64,
    },
    /// A network device is carried.
    Device(DeviceInfo),
    /// CPU time is reserved, or given back.
    CpuReserved {
        /// How the thread is scheduled while it is within its budget, for people.
        scheduling: String,
    },
    /// A part of the list.
    Devices {
        devices: Vec<DeviceInfo>,
        /// Where the next part begins, if there is one.
        next: Option<u32>,
    },
    /// A part of what the server runs with.
    Settings(Box<Settings>),
}

/// One message of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// What kind of message it is; a server that does not say describes Requests alone.
    #[serde(default)]
    pub kind: MessageKind,
    /// Its name, once among its kind.
    pub name: String,
    /// An example, as it travels.
    pub example: String,
    /// The descriptors that go along with the example, in their order: what each is, for people.
    #[serde(default)]
    pub descriptors: Vec<String>,
}

/// Who says a message, and on what occasion.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// [`Request`].
    #[default]
    Request,
    /// [`Confirm`]: the Request was carried out.
    Confirm,
    /// [`Refused`]: it was not.
    Refusal,
    /// [`Indication`].
    Indication,
    /// [`Response`].
    Response,
}

/// An open connection, as its application needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    pub address: Address,
    /// The contract in canonical form.
    pub contract: String,
    /// Its name at the adapter.
    pub vc: VcId,
    pub sizes: ConnectionSizes,
    /// That its files' headers carry.
    pub files_generation: u32,
    /// Its client at the adapter.
    pub attachment: AttachmentIndex,
    /// That client's memory.
    pub attachment_sizes: AttachmentSizes,
    /// That the attachment's files' headers carry.
    pub attachment_generation: u32,
    /// When events tell of received cells; none: at the last cell of each PDU.
    pub notification: Option<Notification>,
    /// The marks of AAL0 cells that notification is about.
    pub marks: Marks,
    /// Whether a PDU that has left interrupts.
    pub completions: bool,
    /// The largest SDU to send; none: it does not send.
    pub transmit_max_sdu: Option<u16>,
    /// The largest SDU to receive; none: it does not receive.
    pub receive_max_sdu: Option<u16>,
    /// The pace of what is sent; none: best effort without a share yet.
    pub transmit_credit: Option<Credit>,
    /// The pace of what is received; none: it is not paced.
    pub receive_credit: Option<Credit>,
    /// What may come early beyond that pace, in nanoseconds: the CDVT, given or assumed, and the
    /// longest stall of the adapter that costs nothing.
    pub receive_early_ns: u64,
}

/// A connection as it would be opened ([`Request::Try`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// With its interface's name.
    pub address: Address,
    /// The contract in canonical form.
    pub contract: String,
    /// What would be taken of each resource.
    pub demand: Demand,
    /// Cells/s that it could send: guaranteed, or its share beside what is there.
    pub transmit: Option<CellRate>,
    /// Cells/s that it could receive: likewise.
    pub receive: Option<CellRate>,
    /// The memory for its PDUs.
    pub buffers: Buffers,
    /// How long its PDUs would take at most, beside what its interface has guaranteed.
    pub bound: DelayBounds,
    /// The adapter would not rest while it is open.
    pub keeps_awake: bool,
    /// An Open would be confirmed once the adapter has let go of what nobody has any more, and
    /// refused if it does not within 10 s.
    pub waits: bool,
}

/// Why a connection has ended though its application did not close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// It was deleted.
    Deleted,
    /// Its interface was removed.
    InterfaceRemoved,
    /// Another socket took it over.
    TakenOver,
    /// The adapter was restarted and it could not be opened again, or a new server could not make
    /// out what the one before had kept of it.
    NotReopened,
    /// The server ends.
    ShuttingDown,
    /// Its application took pages of its memory away, again and again.
    PagesTaken,
    /// The connection in whose transmit buffer it received has ended, or its adapter has.
    BufferGone,
}

/// What the server tells of its own accord.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Indication {
    /// A connection of this socket has ended.
    Ended(EndReason),
    /// A connection of this socket was opened again after a restart of the adapter; the seven
    /// descriptors of [`Confirm::Opened`] come along. What waited in the old memory is lost. A new
    /// server tells it once more, in case that the one before could not: who has these files
    /// already has heard it.
    Reopened(Opened),
    /// The pace of this best-effort connection, its share of what nobody has reserved.
    Share {
        /// Cells/s that it may send.
        transmit: Option<CellRate>,
        /// Its credit, likewise.
        transmit_credit: Option<Credit>,
        /// Cells/s that the others leave it of what arrives. No PDU is refused for exceeding it.
        receive: Option<CellRate>,
    },
    /// The guarantee of this connection cannot be kept for the time being.
    AtRisk {
        /// Why, for people.
        reason: String,
    },
    /// There is room for more than this connection has asked for the last time it was refused. A
    /// Response takes it or leaves it.
    CanGrow {
        /// The contract that would fit.
        contract: String,
    },
    /// The adapter has thrown PDUs of this connection away. It is told once a second at most, one
    /// reason at a time: the one that has grown most since it was told.
    Losing {
        reason: Discard,
        /// PDUs thrown away for this reason since the adapter has the connection.
        pdus: u64,
    },
    /// The network allows this connection of ABR another rate. It is told four times a second at
    /// most.
    Rate {
        /// ACR in cells/s: what it may send now.
        allowed_cell_s: u32,
        /// MCR in cells/s: what it may always send.
        floor_cell_s: u32,
        /// Why it changed the last time.
        reason: RateReason,
    },
    /// The server is a new one; connections go on. It leaves unread whatever is said before
    /// [`Response::Heard`]; then a Request that waits for its Confirm is to be sent again.
    Restarted,
    /// For monitors: a connection was opened, changed or closed.
    Connection {
        /// Which of the three.
        change: Change,
        /// The connection, with its last counters if it was closed.
        info: Box<ConnectionInfo>,
    },
    /// For monitors: an interface was added or removed.
    Interface {
        /// Which of the two.
        change: Change,
        info: Box<InterfaceInfo>,
    },
}

/// What happened to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is new.
    Added,
    /// It is different.
    Changed,
    /// It is gone.
    Removed,
}

/// An application's answer to an Indication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Response {
    /// Yes: the contract is changed to what [`Indication::CanGrow`] offered, as by
    /// [`Request::Modify`]; the Confirm has the Indication's number.
    Accept,
    Decline,
    /// It has heard [`Indication::Restarted`].
    Heard,
}

/// A connection as the list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionInfo {
    /// Its number, never used twice.
    pub number: u32,
    pub address: Address,
    /// The contract in canonical form.
    pub contract: String,
    /// As it was asked for ([`Open`]).
    pub notification: Option<Notification>,
    pub marks: Marks,
    pub transmit_pdus: Option<u32>,
    pub receive_pdus: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_threshold: Option<QueueThreshold>,
    pub completions: bool,
    /// Whether its rate is guaranteed.
    pub guaranteed: bool,
    /// Whether it stays without an application.
    pub permanent: bool,
    /// The user it belongs to.
    pub uid: u32,
    /// The process that uses it; none: nobody does.
    pub pid: Option<u32>,
    /// Cells/s that it may send: guaranteed, or its share.
    pub transmit: Option<CellRate>,
    /// Cells/s that it may receive: guaranteed, or its share.
    pub receive: Option<CellRate>,
    /// Octets of memory charged to it.
    pub memory: u64,
    /// Of the adapter's core, in millionths: what is reserved for it.
    pub cpu_reserved_ppm: u32,
    /// Of the same, what it is expected to use.
    pub cpu_expected_ppm: u32,
    /// It allows less lateness than a rest of the adapter brings about: the adapter does not rest
    /// while it is open.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub keeps_awake: bool,
    /// Nanoseconds from the last cell of a PDU to its reader at most: the adapter's wake-up, if it
    /// rests, the longest delay of silent events, and how late an application may be
    /// ([`ServerAssumptions::wake_up_ns`](super::ServerAssumptions::wake_up_ns)). A stall of the
    /// adapter, which [`AdapterInfo`] counts, comes on top. None: what it receives is not
    /// guaranteed.
    pub delay_ns: Option<u64>,
    /// Why its guarantee cannot be kept, or could not; none: it could since it was opened, or since
    /// there is this server.
    pub risk: Option<RiskInfo>,
    /// The contract that it was offered ([`Indication::CanGrow`]) and has not answered.
    pub offer: Option<String>,
    /// The memory for its PDUs.
    pub buffers: Buffers,
    /// How long its PDUs take at most, beside all that its interface has guaranteed at once since
    /// it was opened, or since there is this server.
    pub bound: DelayBounds,
    /// What happened on it, as of the last report.
    pub stats: VcStats,
    /// The slots of its contract, as of the same.
    pub slots: ConnectionSlots,
}

impl ConnectionInfo {
    /// One of root that nobody uses and that has carried nothing, without a guarantee.
    pub fn new(number: u32, address: Address, contract: impl Into<String>) -> Self {
        Self {
            number,
            address,
            contract: contract.into(),
            notification: None,
            marks: Marks::None,
            transmit_pdus: None,
            receive_pdus: None,
            queue_threshold: None,
            completions: false,
            guaranteed: false,
            permanent: false,
            uid: 0,
            pid: None,
            transmit: None,
            receive: None,
            memory: 0,
            cpu_reserved_ppm: 0,
            cpu_expected_ppm: 0,
            keeps_awake: false,
            delay_ns: None,
            risk: None,
            offer: None,
            buffers: Buffers::default(),
            bound: DelayBounds::default(),
            stats: VcStats::default(),
            slots: ConnectionSlots::default(),
        }
    }

    /// Whether its guarantee cannot be kept for the time being.
    pub fn at_risk(&self) -> bool {
        self.risk.as_ref().is_some_and(|risk| risk.now)
    }
}

/// A guarantee that is, or was, at risk ([`Indication::AtRisk`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskInfo {
    /// Why, for people.
    pub reason: String,
    /// When the server saw it last, nanoseconds of `CLOCK_MONOTONIC`.
    pub seen_ns: u64,
    /// Whether it is so as of the server's last look.
    pub now: bool,
}

/// A connection's memory for PDUs; 0: it has none of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffers {
    /// PDUs of the largest size that conform and are not given back yet.
    pub receive_pdus: u64,
    /// Octets of the receive buffer.
    pub receive_octets: u64,
    /// PDUs of the largest size that wait to be sent.
    pub transmit_pdus: u64,
    /// Octets of the transmit buffer.
    pub transmit_octets: u64,
}

/// How the adapter has run: what its gap detector saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterInfo {
    /// Its name; none: it is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When the server looked last, nanoseconds of `CLOCK_MONOTONIC`; none: not since it has this
    /// adapter.
    pub seen_ns: Option<u64>,
    /// Its process; 0: not seen.
    pub pid: u32,
    /// CPU time of all its threads, in nanoseconds.
    pub cpu_ns: u64,
    /// How many adapters have gone before this one, since there is this server.
    pub replaced: u64,
    /// How often the adapter's thread stood still for longer than its threshold, since it began.
    pub gaps: u64,
    /// All that time, in nanoseconds.
    pub gaps_total_ns: u64,
    /// The longest, in nanoseconds, since this server has this adapter.
    pub gap_longest_ns: u64,
    /// Up to which length a gap costs nobody who conforms, in nanoseconds.
    pub gap_admitted_ns: u64,
    /// How it has rested; none: it never does, or has not been asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rests: Option<RestInfo>,
    /// Who else is pinned to its CPU; none: nobody that the server sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedCpu>,
    /// How long gaps, wake-ups and steps took; none: it has not been asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histograms: Option<Box<Histograms>>,
}

/// How an adapter has rested since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestInfo {
    /// What it does while there is nothing to do.
    pub idle: Idle,
    /// How late it may be for what is due, in nanoseconds.
    pub late_allowed_ns: u64,
    /// The most that it was, in nanoseconds, since this server has this adapter.
    pub late_longest_ns: u64,
    /// How long it looks on before it rests, in nanoseconds.
    pub linger_ns: u64,
    pub rests: u64,
    /// All of them, in nanoseconds.
    pub rests_total_ns: u64,
    /// Rests that somebody ended for nothing.
    pub for_nothing: u64,
    /// Whose connections did, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<Caller>,
}

/// A connection that ended rests of the adapter for nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    pub address: Address,
    /// The user it belongs to.
    pub uid: u32,
    pub for_nothing: u64,
}

/// An adapter's CPU that adapters of other servers are pinned to as well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedCpu {
    pub cpu: u32,
    /// How many others are there. The server promises of the CPU its adapter's part alone, as if
    /// all had the same.
    pub others: u32,
    /// The processes of the first of them.
    pub pids: Vec<u32>,
}

impl SharedCpu {
    /// Processes that [`pids`](Self::pids) has, at most.
    pub const PIDS_MAX: usize = 8;

    /// Of `whole`, what is this adapter's.
    pub const fn part(&self, whole: u64) -> u64 {
        whole / (self.others as u64 + 1)
    }

    /// Who is there, and what follows from it, for people.
    pub fn note(&self) -> String {
        let parts = u64::from(self.others) + 1;
        format!("{self}: 1/{parts} of what the CPU has is promised")
    }
}

impl fmt::Display for SharedCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, others, pids } = self;
        match others {
            1 => write!(f, "another adapter uses CPU {cpu}, too")?,
            _ => write!(f, "{others} other adapters use CPU {cpu}, too")?,
        }
        let shown: Vec<_> = pids.iter().map(u32::to_string).collect();
        let more = if pids.len() < *others as usize {
            ", ..."
        } else {
            ""
        };
        match shown.len() {
            0 => {}
            1 if more.is_empty() => write!(f, " (process {})", shown[0])?,
            _ => write!(f, " (processes {}{more})", shown.join(", "))?,
        }
        f.write_str(", as far as can be seen")
    }
}

/// A resource that admission hands out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceInfo {
    pub resource: super::Resource,
    /// Of which interface; none: of an adapter, or of the machine.
    pub interface: Option<String>,
    /// Of which adapter; none: of an interface, of all workers, or of the only adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// All of it, in the resource's unit.
    pub capacity: u64,
    /// What is promised.
    pub reserved: u64,
    /// What the promises are expected to use; for bandwidth and memory all of it.
    pub expected: u64,
    /// The least that was ever free of it, since there is this server: of the present capacity,
    /// what was not promised when most was.
    pub least_free: u64,
    /// The limit of the machine that leaves no more; none: the configuration does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}
