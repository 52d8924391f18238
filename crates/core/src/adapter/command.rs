use serde::{Deserialize, Serialize};

use super::{Aal, AbrStats, AbrTerms, Delays, Discard, DiscardCounts, Marks, PortIndex};
use crate::Time;
use crate::aal::aal34;
use crate::contract::CellRate;
use crate::wire::{CellFormat, HeaderForm, OamFlow, VpiVci};

/// Slot of a VC in the adapter's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VcIndex(pub u16);

/// A client of the adapter: an event queue and a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttachmentIndex(pub u16);

/// A VC as its client names it. The generation tells a reused slot or a replaced region apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VcId {
    /// Slot in the adapter's table.
    pub index: VcIndex,
    /// Counts the opens and region changes of the slot.
    pub generation: u32,
}

/// One port of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortConfig {
    /// UNI or NNI. It stays while VCs are open on the port.
    pub form: HeaderForm,
    /// 52 or 53 octets a cell. It stays while VCs are open on the port.
    pub format: CellFormat,
    /// Cells taken from the port in one step, at most [`Config::BUDGET_MAX`].
    pub budget: u16,
    /// Throw every cell away without looking at it: what a host behind an unread port costs.
    pub discard_unread: bool,
    /// Its cells are taken before those of ports without this.
    #[serde(default)]
    pub real_time: bool,
    /// Cells/s that the port transmits, best effort included.
    pub line_rate: CellRate,
}

/// What an adapter is built for. All memory it will ever need follows from this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// VCs that can be open at once, at most [`Config::VCS_MAX`].
    pub vcs: u16,
    /// Blocks of 16,384 addresses in which VCs can be open at once, those of all ports together.
    pub leaves: u16,
    /// Clients at once.
    pub attachments: u16,
    /// The ports, receive and transmit.
    pub ports: Vec<PortConfig>,
    /// The longest stall of the adapter that must not cost a conforming sender anything.
    pub gap_max_ns: u64,
    /// Cells that the link may deliver at once though they were sent one by one
    /// (1: none; 28: a full pseudowire packet).
    pub clump_cells: u16,
    /// Cells taken from a port, step after step, without finding it empty, after which the adapter
    /// is overloaded: until every port was found empty since, PDUs of best-effort VCs are refused
    /// at their first cell, on all ports. Each time that as many cells have been taken under
    /// overload, best effort is let in for an eighth as many, 4,096 at most, so that its readers
    /// progress. 0: never.
    #[serde(default)]
    pub overload_cells: u32,
}

impl Config {
    /// The most cells a step takes from one port.
    pub const BUDGET_MAX: u16 = 1024;
    /// The most VCs of one adapter.
    pub const VCS_MAX: u16 = 16_384;
    /// Addresses of one block have all but these low bits in common.
    pub const BLOCK_BITS: u32 = 14;
    /// The most ports of one adapter.
    pub const PORTS_MAX: usize = 64;
}

/// When an event tells the client of received cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notification {
    /// At every cell (paper 001).
    EveryCell,
    /// At the first cell of a PDU.
    FirstCell,
    /// At the last cell of a PDU: the PDU is complete.
    LastCell,
    FirstAndLastCell,
    /// At the last cell, silently: the interrupt comes when `threshold` silent events wait in the
    /// event queue, or one has waited `longest_delay_ns`.
    Silent {
        threshold: u32,
        /// Nanoseconds.
        longest_delay_ns: u64,
    },
    /// Never: the client looks at its receive queue.
    Polled,
}

impl Notification {
    /// The longest delay that it adds on purpose, in nanoseconds.
    pub const fn longest_delay_ns(self) -> u64 {
        match self {
            Self::Silent {
                longest_delay_ns, ..
            } => longest_delay_ns,
            _ => 0,
        }
    }
}

/// What becomes of PDUs beyond the contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Excess {
    #[default]
    Discard,
    /// Delivered with low priority (CLP 1) while the buffer has room beyond the reserve: what TM
    /// 4.0 does with excess of the sustained rate in VBR.3; on the peak rate an extension.
    Tag {
        /// Octets of buffer kept for conforming PDUs.
        reserve: u32,
    },
    /// Delivered while the host lends time for it ([`Command::Lease`]) and the buffer has room
    /// beyond the reserve.
    WhenIdle {
        /// Octets of buffer kept for conforming PDUs.
        reserve: u32,
    },
}

/// Cells that a bucket judges, by their loss priority (TM 4.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClpScope {
    /// CLP 0+1: VBR.1.
    AllCells,
    /// CLP 0: VBR.2 and VBR.3. A PDU belongs to it by its first cell. One of CLP 1 gives way: it
    /// is taken while the buffer has room beyond the reserve and the adapter is not overloaded.
    HighPriority {
        /// Octets of buffer kept for PDUs of CLP 0.
        reserve: u32,
    },
}

/// The second bucket of a VBR contract (TM 4.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sustained {
    /// Sustainable cell rate.
    pub rate: CellRate,
    /// (MBS - 1) (1 / SCR - 1 / PCR).
    pub burst_tolerance_ns: u64,
    /// Cells that it judges.
    pub clp: ClpScope,
}

/// The second bucket of a VBR contract that transmits (TM 4.0), beside its peak rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SustainedRate {
    /// Sustainable cell rate: what is guaranteed. At most the peak.
    pub rate: CellRate,
    /// (MBS - 1) (1 / SCR - 1 / PCR).
    pub burst_tolerance_ns: u64,
}

/// The receive direction of a VC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receive {
    /// The contract's rate; none: not policed (best effort is bounded by its buffer).
    pub rate: Option<CellRate>,
    /// The sustained rate of a VBR contract, beside the peak rate above.
    pub sustained: Option<Sustained>,
    /// Cell delay variation tolerance.
    pub cdvt_ns: u64,
    /// It keeps the adapter's time under overload ([`Config::overload_cells`]): cbr and vbr. The
    /// others are best effort, whether they are policed or not.
    #[serde(default)]
    pub guaranteed: bool,
    /// The largest SDU in octets.
    pub max_sdu: u16,
    /// Every SDU has `max_sdu` octets: a PDU is refused at its first cell if it cannot fit whole.
    pub fixed_sdu: bool,
    pub excess: Excess,
    pub notification: Notification,
    /// Which cells of an AAL0 VC notification is about.
    #[serde(default)]
    pub marks: Marks,
    /// Fill of the receive queue at which its client is told.
    pub queue_threshold: u32,
}

impl Receive {
    /// Whether PDUs are let in beside those that its rates count.
    pub(super) fn takes_more(&self) -> bool {
        let scope = self.sustained.map(|sustained| sustained.clp);
        self.excess != Excess::Discard || matches!(scope, Some(ClpScope::HighPriority { .. }))
    }
}

/// The transmit direction of a VC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transmit {
    /// A guaranteed rate, shaped cell by cell; none: best effort, a share of the rest.
    pub rate: Option<CellRate>,
    /// VBR: `rate` is the peak, and this is guaranteed. Its bursts leave at the peak rate, in slots
    /// for which no guaranteed cell is due.
    #[serde(default)]
    pub sustained: Option<SustainedRate>,
    /// How far the shaper may catch up after a stall.
    pub cdvt_ns: u64,
    /// Guaranteed: cells back to back, a burst every so many cell times.
    #[serde(default = "one")]
    pub burst: u16,
    /// Best effort: weight of the share (the contract's MCR in cells/s, at least 1).
    pub weight: u32,
    /// Best effort: the most that it may send, shaped cell by cell; none: whatever the line has
    /// left.
    #[serde(default)]
    pub peak: Option<CellRate>,
    /// ABR: best effort as far as the network lets it, `peak` at most, and no less than MCR. The VC
    /// is of AAL5 and receives, too.
    #[serde(default)]
    pub abr: Option<AbrTerms>,
    /// The largest SDU in octets.
    pub max_sdu: u16,
    /// Whether a completed PDU interrupts its client.
    pub interrupt_on_completion: bool,
}

impl Transmit {
    /// The rate that its line reserves.
    pub fn guaranteed(&self) -> Option<CellRate> {
        let floor = self.abr.and_then(|abr| abr.transmit.mcr);
        let rate = self.sustained.map(|sustained| sustained.rate);
        rate.or(self.rate).or(floor)
    }
}

const fn one() -> u16 {
    1
}

/// A VC to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// Its address, among those of its port.
    pub address: VpiVci,
    /// The port it lives on. Under the same address of another port there can be another VC.
    pub port: PortIndex,
    /// How its cells make up PDUs.
    pub aal: Aal,
    /// Who is told.
    pub attachment: AttachmentIndex,
    /// The receive direction, if it receives.
    pub receive: Option<Receive>,
    /// The transmit direction, if it transmits.
    pub transmit: Option<Transmit>,
}

impl OpenRequest {
    /// Whether the network sets its rate.
    pub(super) fn is_available(&self) -> bool {
        self.transmit.is_some_and(|transmit| transmit.abr.is_some())
    }

    /// Whether either direction is promised a rate.
    pub(super) fn is_guaranteed(&self) -> bool {
        self.receive.is_some_and(|receive| receive.guaranteed)
            || self
                .transmit
                .is_some_and(|transmit| transmit.rate.is_some())
    }

    /// What the reassembler in the region of an AAL3/4 VC that receives must be made for
    /// ([`super::Region::aal34`]): a buffer of `receive_len` octets and `receive_slots`
    /// descriptors. None: the region needs no reassembler.
    pub fn aal34_limits(&self, receive_len: u32, receive_slots: u32) -> Option<aal34::Limits> {
        let (Aal::Aal34(interleaving), Some(receive)) = (self.aal, &self.receive) else {
            return None;
        };
        Some(aal34::Limits {
            mids: interleaving.mids,
            max_sdu: receive.max_sdu,
            timeout_ns: interleaving.reassembly_timeout_ns,
            buffer_len: receive_len,
            descriptors: receive_slots,
        })
    }
}

/// What the adapter knows of a VC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcInfo {
    pub vc: VcId,
    /// How it was opened, or modified since.
    pub request: OpenRequest,
    /// What happened on it.
    pub stats: VcStats,
}

/// What an adapter has left to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Slots of VCs.
    pub vcs: usize,
    /// Blocks of 16,384 addresses in which VCs can be open.
    pub blocks: usize,
    pub paths: usize,
}

/// Counters of one VC since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcStats {
    /// Cells that arrived, whatever became of them.
    pub cells_received: u64,
    /// Cells in delivered PDUs.
    pub cells_delivered: u64,
    /// Of these, cells that came with low priority (CLP 1).
    #[serde(default)]
    pub cells_delivered_clp1: u64,
    /// Cells of the PDU in progress.
    pub cells_held: u64,
    /// Cells discarded.
    pub cells_discarded: DiscardCounts,
    /// PDUs delivered.
    pub pdus_delivered: u64,
    /// PDUs delivered on a lease, beyond the contract.
    pub pdus_lent: u64,
    /// PDUs delivered with low priority because they were beyond the contract.
    pub pdus_tagged: u64,
    /// OAM loopback cells: requests answered, and the adapter's own that came back. RM cells of
    /// ABR: those to turn round, and those that came back.
    pub cells_answered: u64,
    /// PDUs discarded, each under the reason that ended it.
    pub pdus_discarded: DiscardCounts,
    /// Cells sent.
    pub cells_transmitted: u64,
    /// Of these, cells with low priority (CLP 1).
    #[serde(default)]
    pub cells_transmitted_clp1: u64,
    /// PDUs sent.
    pub pdus_transmitted: u64,
    /// Of these, handed to another port of this adapter as a whole: copied once, from buffer to
    /// buffer.
    #[serde(default)]
    pub pdus_crossed: u64,
    /// How long these took, since the VC's contract changed last.
    #[serde(default)]
    pub delays: Delays,
    /// How the rate of a VC of ABR has fared; none: it has another contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abr: Option<AbrStats>,
    /// Transmit descriptors that named no valid SDU, and indices that could not be.
    pub client_faults: u64,
}

/// Counters of the adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterStats {
    /// Cells taken from the receive FIFOs.
    pub cells_received: u64,
    /// Cells in delivered PDUs.
    pub cells_delivered: u64,
    /// Cells discarded.
    pub cells_discarded: DiscardCounts,
    /// Cells thrown away unread.
    pub cells_unread: u64,
    /// OAM loopback cells: requests answered, and the adapter's own that came back. RM cells of
    /// ABR: those to turn round, and those that came back.
    pub cells_answered: u64,
    /// Cells of PDUs in progress.
    pub cells_held: u64,
    /// Cells sent.
    pub cells_transmitted: u64,
    pub events: u64,
    /// Events that found their queue full; the client is told to look at all its queues.
    pub events_lost: u64,
    /// Interrupts asked for.
    pub interrupts: u64,
    /// Doorbell entries that named no VC of their client.
    pub doorbell_faults: u64,
}

impl AdapterStats {
    /// Whether every cell received is accounted for: delivered, discarded by reason, answered,
    /// thrown away unread, or held.
    pub fn is_conserved(&self) -> bool {
        let gone = self.cells_delivered + self.cells_discarded.total() + self.cells_unread;
        let gone = gone + self.cells_answered;
        self.cells_received == gone + self.cells_held
    }
}

/// Cells of a port that belong to no VC, and are in no VC's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortStats {
    /// No VC was open for their address on this port.
    pub unknown_vc: u64,
    /// Their header was damaged beyond correction.
    pub hec_error: u64,
    /// Idle and unassigned cells.
    pub idle: u64,
    /// The last address that no VC was open for.
    #[serde(default)]
    pub last_unknown: Option<VpiVci>,
}

impl PortStats {
    /// What the adapter has counted of these.
    #[inline]
    pub(super) fn counted(counts: &DiscardCounts) -> [u64; 3] {
        [Discard::UnknownVc, Discard::HecError, Discard::Idle].map(|reason| counts.of(reason))
    }

    /// Adds what it has counted while it took this port's cells.
    #[inline]
    pub(super) fn add(&mut self, before: [u64; 3], after: [u64; 3]) {
        self.unknown_vc += after[0] - before[0];
        self.hec_error += after[1] - before[1];
        self.idle += after[2] - before[2];
    }
}

/// Why a command was refused. It left no trace, but [`Refusal::NoReturn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The VPI does not exist on a UNI.
    #[error("the VPI is larger than the interface's header form can name")]
    VpiTooLarge,
    /// Another VC of the port has the address.
    #[error("the address is open already")]
    AddressInUse,
    /// All VC slots are taken.
    #[error("all VCs of the adapter are in use")]
    NoVc,
    /// All address blocks are taken.
    #[error("no lookup block is free for the address")]
    NoLeaf,
    /// No such port.
    #[error("the adapter has no such port")]
    NoPort,
    /// No such client.
    #[error("no such attachment")]
    NoAttachment,
    /// All client slots are taken.
    #[error("all attachments of the adapter are in use")]
    AttachmentsInUse,
    /// No open VC has this name.
    #[error("no open VC has this index and generation")]
    StaleVc,
    /// A parameter is out of its range.
    #[error("a parameter is out of its range")]
    BadParameter,
    /// The memory does not fit what was asked.
    #[error("the region is too small for the largest PDU, or not a power of two where one is due")]
    BadRegion,
    /// Guaranteed rates exceed the port's line rate.
    #[error("the guaranteed rates of the port would exceed its line rate")]
    LineRate,
    /// A client with open VCs cannot go.
    #[error("the attachment still has open VCs")]
    Busy,
    /// No VC is open at the address on this port, or its OAM cells are user data.
    #[error("no VC at this address and port has this OAM flow")]
    NoFlow,
    /// 16 loopback cells are out.
    #[error("as many loopback cells are out as there may be")]
    LoopbacksInUse,
    /// A loopback cell, sent or not for want of room on the line, did not return in time.
    #[error("no loopback cell came back in time")]
    NoReturn,
}

/// What the host may ask. Each carries a ticket that its completion repeats.
#[derive(Debug, Serialize, Deserialize)]
pub enum Command<R, A> {
    /// Changes a port's budget, line rate, or whether it is read.
    Configure {
        ticket: u64,
        port: PortIndex,
        /// The new configuration; the format stays.
        config: PortConfig,
    },
    /// Adds a client.
    Attach { ticket: u64, attachment: A },
    /// Removes a client without VCs.
    Detach { ticket: u64, index: AttachmentIndex },
    /// Opens a VC.
    Open {
        ticket: u64,
        request: OpenRequest,
        region: R,
    },
    /// Changes the contract of a VC at the next PDU boundary, and its region if one comes along.
    Modify {
        ticket: u64,
        vc: VcId,
        /// The new contract; address, port and AAL stay. What an AAL3/4 VC may hold changes only
        /// with its region.
        request: OpenRequest,
        /// A new region; the generation counts up.
        region: Option<R>,
    },
    /// Closes a VC.
    Close { ticket: u64, vc: VcId },
    /// Lists VCs and counters, as many as `into` has capacity for: the list that comes back says
    /// where to go on.
    Enumerate {
        ticket: u64,
        /// First slot to look at.
        from: VcIndex,
        /// Where to put them; brought along because the adapter does not allocate.
        into: Vec<VcInfo>,
    },
    /// Hands a VC to another client.
    Reattach {
        ticket: u64,
        vc: VcId,
        attachment: AttachmentIndex,
    },
    /// Lends `pdus` PDUs of host time to a VC opened with [`Excess::WhenIdle`].
    Lease {
        ticket: u64,
        vc: VcId,
        /// How many PDUs.
        pdus: u32,
        /// From now on, at most [`Command::LEASE_MAX_NS`].
        expires_in_ns: u64,
    },
    /// Sends one OAM loopback cell to the far end point of a flow (I.610), ahead of all PDUs, and
    /// ends when it returns, or at the timeout. At most 16 are out.
    Loopback {
        ticket: u64,
        /// On which port.
        port: PortIndex,
        /// The VC. In F5 it is open on this port and not of AAL0; in F4 only its VPI counts, and
        /// the flow's own VCI is not open there as a VC that receives.
        address: VpiVci,
        flow: OamFlow,
        /// From now on, at most [`Command::LOOPBACK_MAX_NS`].
        timeout_ns: u64,
    },
}

impl<R, A> Command<R, A> {
    /// The longest lease: a dead host lends nothing after this.
    pub const LEASE_MAX_NS: u64 = 10_000_000;
    /// The longest wait for a loopback cell.
    pub const LOOPBACK_MAX_NS: u64 = 10_000_000_000;
}

/// What became of a command.
#[derive(Debug, Serialize, Deserialize)]
pub struct Completion<R, A> {
    pub ticket: u64,
    /// What it brought.
    pub result: Result<Outcome, Refusal>,
    /// A region that the adapter has given up: a closed VC's, a replaced one, or that of a refused
    /// command.
    pub region: Option<R>,
    /// The same for clients' memory.
    pub attachment: Option<A>,
}

/// What a carried-out command brought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "the adapter makes them, and does not allocate"
)]
pub enum Outcome {
    /// Nothing to tell.
    Done,
    /// A client was added.
    Attached(AttachmentIndex),
    /// A VC was opened or modified: its name from now on.
    Vc(VcId),
    /// A VC was closed: its last counters.
    Closed(VcInfo),
    /// The adapter's state.
    State(AdapterState),
    /// A loopback cell came back.
    Returned {
        /// Nanoseconds from the step that sent it to the step that took it back.
        round_trip_ns: u64,
    },
}

/// What `Enumerate` tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterState {
    pub time: Time,
    /// Of the adapter.
    pub stats: AdapterStats,
    /// Of each open VC, by index, from the slot asked for.
    pub vcs: Vec<VcInfo>,
    /// Where the next list begins, if slots are left to look at.
    pub next: Option<VcIndex>,
}
