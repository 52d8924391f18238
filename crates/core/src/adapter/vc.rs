use core::mem::offset_of;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::abr::Abr;
use super::table::Slot;
use super::{
    Aal, ClpScope, Delays, Notification, OpenRequest, Receive, Transmit, VcId, VcInfo, VcStats, oam,
};
use crate::Time;
use crate::aal::{aal5, aal34};
use crate::contract::{CellRate, FrameGcra, Gcra, aal5_cells};
use crate::queue::{Consumer, Producer, queue};
use crate::wire::PAYLOAD_LEN;

/// Where PDUs start in a receive buffer: on a cache line.
pub(super) const PDU_ALIGN: u64 = 64;

/// The end of a PDU that holds `octets` from `position` on, rounded up to where the next may start.
#[inline(always)]
pub(super) const fn align_pdu(position: u64) -> u64 {
    position.next_multiple_of(PDU_ALIGN)
}

/// A VC as the data path sees it. What reception touches comes first, on whole cache lines.
#[derive(Debug, Serialize, Deserialize)]
#[repr(C, align(64))]
pub(super) struct Vc<R> {
    pub(super) receiver: Receiver,
    pub(super) region: R,
    pub(super) sender: Sender,
}

/// What policing tolerates beside CDVT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    /// Cells that the link may deliver at once.
    pub(super) clump_cells: u16,
    /// The time of one PDU, which its sender may send at line rate.
    pub(super) pdu_time: bool,
}

impl Tolerance {
    /// A bucket of `rate` that tolerates `cdvt_ns` beside.
    pub(super) fn bucket(
        self,
        aal: Aal,
        rate: CellRate,
        cdvt_ns: u64,
        max_cells: u16,
    ) -> FrameGcra {
        // A cell of AAL0 is judged alone: its frame needs no time to arrive.
        let frame_cells = match aal {
            Aal::Aal5 | Aal::Aal34(_) if self.pdu_time => max_cells,
            Aal::Aal0 | Aal::Aal5 | Aal::Aal34(_) => 0,
        };
        FrameGcra::new(rate, cdvt_ns, frame_cells.into(), self.clump_cells.into())
    }
}

/// A bucket in place of another: what was charged stays charged.
fn replace(now: Time, old: Option<FrameGcra>, mut fresh: Option<FrameGcra>) -> Option<FrameGcra> {
    if let (Some(old), Some(fresh)) = (old, &mut fresh) {
        fresh.carry_over(now, &old);
    }
    fresh
}

/// State of reception, touched by every cell: with the region's handle at most 200 octets
/// (*Policing Offloaded*, section 6.1: 200 KB for 1,024 VCs).
#[derive(Debug, Serialize, Deserialize)]
#[repr(C)]
pub(super) struct Receiver {
    // Touched where a PDU begins and ends.
    pub(super) queue: Producer<queue::Receive>,
    /// None: the buffer is the bound.
    pub(super) police: Option<FrameGcra>,
    /// Octets of the receive buffer, at most 2^30.
    pub(super) buffer_len: u32,
    /// Bounds of PDUs to come.
    pub(super) bounds: Bounds,
    // Touched by every cell: this cache line and the next, with the region's receive buffer.
    pub(super) reassembler: aal5::Reassembler,
    /// Free-running octet position where the PDU in progress starts, or the next will.
    pub(super) position: u64,
    /// Free-running octet position that must not be written: the client still holds what is there.
    pub(super) limit: u64,
    /// The position modulo the buffer's length.
    pub(super) offset: u32,
    /// Bounds of the PDU in progress.
    pub(super) pdu_bounds: Bounds,
    /// Cells of it with low priority (CLP 1).
    pub(super) cells_clp1: u16,
    pub(super) flags: Flags,
    pub(super) open: Open,
}

/// That a VC is there. Of all fields it leaves the most values unused, so the compiler tells an
/// open VC from none by this one, which lies among those that reception touches anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub(super) enum Open {
    Open = 1,
}

/// The largest SDU and the cells it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bounds {
    pub(super) max_sdu: u16,
    pub(super) max_cells: u16,
}

impl Bounds {
    pub(super) fn new(aal: Aal, max_sdu: u16) -> Self {
        let max_cells = match aal {
            Aal::Aal0 => 1,
            Aal::Aal5 => aal5_cells(max_sdu.into()) as u16,
            Aal::Aal34(_) => aal34::cells(max_sdu),
        };
        Self { max_sdu, max_cells }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Flags {
    pub(super) framing: Framing,
    pub(super) fixed_sdu: bool,
    /// A second bucket polices beside the first.
    pub(super) dual: bool,
    /// How the PDU in progress stands to the contract, if there is one.
    pub(super) standing: Standing,
    /// Which of its cells are told before the last.
    pub(super) tell: Tell,
}

/// How cells make up PDUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Framing {
    #[default]
    Aal5,
    Aal0,
    /// Held and laid out by the reassembler in the region.
    Aal34,
    /// As of AAL5, but for what ABR wants to know of each cell.
    Abr,
}

impl Framing {
    pub(super) const fn of(aal: Aal, available: bool) -> Self {
        match aal {
            Aal::Aal5 if available => Self::Abr,
            Aal::Aal0 => Self::Aal0,
            Aal::Aal5 => Self::Aal5,
            Aal::Aal34(_) => Self::Aal34,
        }
    }
}

impl Flags {
    #[inline(always)]
    pub(super) fn is_aal0(self) -> bool {
        self.framing == Framing::Aal0
    }

    #[inline(always)]
    pub(super) fn is_aal34(self) -> bool {
        self.framing == Framing::Aal34
    }
}

/// How a PDU stands to its contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Standing {
    /// No PDU is in progress.
    #[default]
    None,
    /// Conforming; the sustained rate, if there is one, does not judge it.
    Peak,
    /// Conforming to both rates.
    Both,
    /// Beyond the contract, on a lease.
    Lent,
    /// Beyond the peak rate, tagged.
    Tagged,
    /// Beyond the sustained rate, tagged.
    TaggedSustained,
}

impl Standing {
    /// Whether its cells are charged to the peak rate.
    #[inline(always)]
    pub(super) const fn charges_peak(self) -> bool {
        matches!(self, Self::Peak | Self::Both | Self::TaggedSustained)
    }

    /// As a mark of a PDU among several in progress.
    pub(super) const fn mark(self) -> u8 {
        self as u8
    }

    /// That of a PDU with this mark.
    pub(super) fn of_mark(mark: u8) -> Self {
        let all = [
            Self::Peak,
            Self::Both,
            Self::Lent,
            Self::Tagged,
            Self::TaggedSustained,
        ];
        let found = all.into_iter().find(|standing| standing.mark() == mark);
        found.unwrap_or(Self::None)
    }

    #[inline(always)]
    pub(super) const fn is_tagged(self) -> bool {
        matches!(self, Self::Tagged | Self::TaggedSustained)
    }
}

/// Which cells of a PDU are told before its last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Tell {
    #[default]
    Nothing,
    First,
    Every,
}

/// State of transmission.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sender {
    pub(super) queue: Consumer<queue::Transmit>,
    /// The PDU in staging.
    pub(super) outgoing: Outgoing,
    /// Open for sending.
    pub(super) enabled: bool,
    /// No PDU is begun: a modification waits for the one in staging to leave.
    pub(super) hold: bool,
    pub(super) max_sdu: u16,
    pub(super) interrupt: bool,
    /// Of the AAL3/4 PDU before.
    pub(super) btag: u8,
    /// The PDU in staging has low priority (CLP 1).
    pub(super) clp: bool,
    /// Where in the transmit buffer the next SDU begins, if its client goes on behind the last.
    pub(super) next_offset: u32,
}

/// A PDU that leaves cell by cell.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) enum Outgoing {
    #[default]
    None,
    /// One cell; whether it has yet to leave.
    Aal0(bool),
    Aal5(aal5::Segmenter),
    /// With RM cells between.
    Abr(aal5::Segmenter),
    Aal34(aal34::Segmenter),
}

impl Outgoing {
    /// Cells that have not left.
    pub(super) fn left(&self) -> u32 {
        match self {
            Self::None => 0,
            Self::Aal0(left) => u32::from(*left),
            Self::Aal5(segmenter) | Self::Abr(segmenter) => segmenter.left().into(),
            Self::Aal34(segmenter) => segmenter.left().into(),
        }
    }

    /// Cells of the whole PDU.
    pub(super) fn cells(&self) -> u32 {
        match self {
            Self::None => 0,
            Self::Aal0(_) => 1,
            Self::Aal5(segmenter) | Self::Abr(segmenter) => segmenter.cells().into(),
            Self::Aal34(segmenter) => segmenter.cells().into(),
        }
    }
}

impl Sender {
    pub(super) fn new(transmit: Option<&Transmit>, slots: u32) -> Self {
        let mut sender = Self {
            queue: Consumer::new(slots),
            outgoing: Outgoing::None,
            enabled: false,
            hold: false,
            max_sdu: 0,
            interrupt: false,
            btag: 0,
            clp: false,
            next_offset: 0,
        };
        if let Some(transmit) = transmit {
            sender.configure(transmit);
        }
        sender
    }

    /// Cells of CLP 1 that have left of the PDU in staging.
    pub(super) fn clp1_sent(&self) -> u64 {
        let sent = self.outgoing.cells() - self.outgoing.left();
        u64::from(self.clp) * u64::from(sent)
    }

    pub(super) fn configure(&mut self, transmit: &Transmit) {
        self.enabled = true;
        self.max_sdu = transmit.max_sdu;
        self.interrupt = transmit.interrupt_on_completion;
    }
}

/// What the data path touches once per PDU or less.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Cold {
    pub(super) vc: VcId,
    pub(super) request: OpenRequest,
    /// Its `cells_held` are those of AAL3/4.
    pub(super) stats: VcStats,
    /// Since when its next PDU, or the one in staging, is the first to leave.
    pub(super) turn: Time,
    pub(super) lease: Lease,
    /// "Queue full" was told and not acknowledged.
    pub(super) full_told: bool,
    /// Its entry in the table.
    pub(super) slot: Slot,
    /// The bucket of the sustained rate.
    pub(super) sustained: Option<FrameGcra>,
    /// The bucket of the OAM cells.
    pub(super) oam: Gcra,
    /// Of a VC of ABR.
    pub(super) abr: Option<Abr>,
}

/// Host time lent to excess PDUs.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Lease {
    pub(super) pdus: u32,
    pub(super) expires: Time,
}

impl Receiver {
    pub(super) fn new(
        request: &OpenRequest,
        slots: u32,
        buffer_len: u64,
        tolerance: Tolerance,
    ) -> Self {
        let mut receiver = Self {
            reassembler: aal5::Reassembler::default(),
            position: 0,
            offset: 0,
            buffer_len: buffer_len as u32,
            limit: buffer_len,
            queue: Producer::new(slots),
            police: None,
            bounds: Bounds {
                max_sdu: 0,
                max_cells: 0,
            },
            pdu_bounds: Bounds {
                max_sdu: 0,
                max_cells: 0,
            },
            cells_clp1: 0,
            flags: Flags::default(),
            open: Open::Open,
        };
        if let Some(receive) = &request.receive {
            receiver.flags.framing = Framing::of(request.aal, request.is_available());
            receiver.configure(Time::ZERO, request.aal, receive, tolerance);
        }
        receiver
    }

    /// Takes a contract over; what was charged stays charged.
    pub(super) fn configure(
        &mut self,
        now: Time,
        aal: Aal,
        receive: &Receive,
        tolerance: Tolerance,
    ) {
        self.bounds = Bounds::new(aal, receive.max_sdu);
        let available = self.flags.framing == Framing::Abr;
        self.flags.framing = Framing::of(aal, available);
        self.flags.fixed_sdu = receive.fixed_sdu;
        self.flags.tell = match receive.notification {
            Notification::EveryCell => Tell::Every,
            Notification::FirstCell | Notification::FirstAndLastCell => Tell::First,
            Notification::LastCell | Notification::Silent { .. } | Notification::Polled => {
                Tell::Nothing
            }
        };
        self.flags.dual = receive.sustained.is_some();
        let fresh = receive
            .rate
            .map(|rate| tolerance.bucket(aal, rate, receive.cdvt_ns, self.bounds.max_cells));
        self.police = replace(now, self.police, fresh);
    }

    /// Charges `cells` of an accepted PDU.
    #[inline(always)]
    pub(super) fn charge(&mut self, cells: u32) {
        if let Some(frame) = &mut self.police {
            frame.charge(cells);
        }
    }

    /// Moves the theoretical arrival time up to `arrival` if it lies behind.
    #[inline(always)]
    pub(super) fn catch_up(&mut self, arrival: Time) {
        if let Some(frame) = &mut self.police {
            frame.catch_up(arrival);
        }
    }

    /// Offset in the receive buffer of the next payload of the PDU in progress.
    #[inline(always)]
    pub(super) fn next_payload(&self) -> usize {
        self.offset as usize + self.held() as usize * PAYLOAD_LEN
    }

    /// Moves the write head.
    #[inline(always)]
    pub(super) fn move_to(&mut self, position: u64) {
        let moved = u64::from(self.offset) + position.wrapping_sub(self.position);
        // One PDU further, so once round the buffer at the most.
        let wrapped = moved.checked_sub(self.buffer_len.into()).unwrap_or(moved);
        self.offset = wrapped as u32;
        self.position = position;
    }

    /// Whether a PDU is in progress.
    #[inline(always)]
    pub(super) fn receiving(&self) -> bool {
        self.flags.standing != Standing::None
    }

    /// Descriptors in the receive queue, as last seen.
    #[inline(always)]
    pub(super) fn fill(&self) -> u32 {
        self.queue.slots() - self.queue.free_seen()
    }

    /// Cells held of the PDU in progress.
    #[inline(always)]
    pub(super) fn held(&self) -> u32 {
        if self.receiving() {
            self.reassembler.cells().into()
        } else {
            0
        }
    }
}

impl Cold {
    pub(super) fn new(vc: VcId, request: OpenRequest, slot: Slot, tolerance: Tolerance) -> Self {
        let mut cold = Self {
            vc,
            request,
            stats: VcStats::default(),
            turn: Time::ZERO,
            lease: Lease::default(),
            full_told: false,
            slot,
            sustained: None,
            oam: oam::police(),
            abr: Abr::new(&request),
        };
        cold.configure(Time::ZERO, tolerance);
        cold
    }

    /// Takes the sustained rate of its request over; what was charged stays charged. Delays are
    /// counted from now on.
    pub(super) fn configure(&mut self, now: Time, tolerance: Tolerance) {
        (self.stats.delays, self.turn) = (Delays::default(), now);
        let Some(receive) = &self.request.receive else {
            return;
        };
        let aal = self.request.aal;
        let max_cells = Bounds::new(aal, receive.max_sdu).max_cells;
        let fresh = receive.sustained.map(|sustained| {
            let tolerated_ns = receive.cdvt_ns.saturating_add(sustained.burst_tolerance_ns);
            tolerance.bucket(aal, sustained.rate, tolerated_ns, max_cells)
        });
        self.sustained = replace(now, self.sustained, fresh);
    }

    /// A PDU has left at `now`; the next is the first.
    #[inline(always)]
    pub(super) fn count_left(&mut self, now: Time) {
        self.stats.pdus_transmitted += 1;
        self.stats.delays.note(now.since_ns(self.turn));
        self.turn = now;
    }

    /// Whether a PDU whose first cell has this loss priority conforms to the sustained rate;
    /// none if that does not judge it.
    pub(super) fn conforms_sustained(&self, clp: bool, now: Time) -> Option<bool> {
        let judged = self.low_priority_reserve(clp).is_none();
        self.sustained
            .filter(|_| judged)
            .map(|frame| frame.conforms(now))
    }

    /// Octets that a PDU whose first cell has this loss priority leaves to those of high priority;
    /// none if it is as good as any.
    pub(super) fn low_priority_reserve(&self, clp: bool) -> Option<u32> {
        match self.request.receive?.sustained?.clp {
            ClpScope::HighPriority { reserve } if clp => Some(reserve),
            _ => None,
        }
    }

    /// What the VC looks like from outside. `held` cells are in an AAL5 PDU in progress.
    pub(super) fn info(&self, held: u32, sender: &Sender) -> VcInfo {
        let mut stats = self.stats;
        stats.cells_held += u64::from(held);
        stats.cells_transmitted_clp1 += sender.clp1_sent();
        stats.abr = self.abr.as_ref().map(Abr::stats);
        stats.cells_received =
            stats.cells_delivered + stats.cells_discarded.total() + stats.cells_held;
        stats.cells_received += stats.cells_answered;
        VcInfo {
            vc: self.vc,
            request: self.request,
            stats,
        }
    }
}
/// Octets of state that reception on a VC touches, beside the handle of its region.
pub const RECEIVE_STATE_LEN: usize = size_of::<Receiver>();
/// Octets that the handle of a VC's region may have.
pub const REGION_HANDLE_MAX: usize = 40;
/// Octets of a VC as the data path sees it: what receives, such a handle, what sends.
pub const VC_LEN: usize = size_of::<Vc<[u64; REGION_HANDLE_MAX / 8]>>();
/// Octets of what is kept of a VC beside that: its request, counters, lease, sustained rate.
pub const VC_COLD_LEN: usize = size_of::<Cold>();

// *Policing Offloaded*, section 6.1: 200 KB for 1,024 VCs.
const _: () = assert!(RECEIVE_STATE_LEN + REGION_HANDLE_MAX <= 200);

/// Where a VC's state begins that every cell touches: a cache line of its own.
const EVERY_CELL: usize = offset_of!(Receiver, reassembler);
/// Octets of a region's handle with which its receive buffer and queue are found.
const REGION_LEN: usize = 32;

const _: () = assert!(EVERY_CELL == 64);

/// The part of a VC that a cell touches, which perhaps is the last of its PDU.
#[inline(always)]
pub(super) const fn touched(last: bool) -> Range<usize> {
    (if last { 0 } else { EVERY_CELL })..RECEIVE_STATE_LEN + REGION_LEN
}
