//! ABR at the adapter (TM 4.0): RM cells in and out of the VCs that have it, and the rate that they
//! allow.
//!
//! ```text
//!  receive   RM cells -> budget -> source: ACR ----> schedule
//!                               -> destination: waits
//!            data -------------> destination: EFCI of the last
//!  transmit  schedule -> source: which cell? -> data, forward RM, backward RM of the destination
//! ```
//!
//! The VC's user cells have a framing of their own, so that nothing is asked on the way of others.

use cellgate_simd::Fold;
use serde::{Deserialize, Serialize};

use super::oam::{self, Replies};
use super::reassembly::{Arrival, Reception, known};
use super::receive::Batch;
use super::schedule::Schedule;
use super::transmit::Turn;
use super::vc::Cold;
use super::{
    Aal, Adapter, Attachment, Board, Discard, OpenRequest, Planted, Region, VcIndex, Work,
};
use crate::Time;
use crate::aal::aal5;
use crate::contract::{
    AbrParameters, AbrPlanted, AbrRate, CellRate, Destination, FrameGcra, Gcra, NextCell,
    RateReason, Source, aal5_cells,
};
use crate::wire::{CellFormat, Checked, Header, PAYLOAD_LEN, Pti, Rm, VpiVci};

/// What a contract of ABR says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AbrTerms {
    /// Of what is sent.
    pub transmit: AbrParameters,
    /// RM cells a second that a peer which keeps its own parameters sends at most.
    pub rm: CellRate,
    /// MCR of what is received, which keeps the adapter's time under overload; none: it is 0.
    pub kept: Option<CellRate>,
}

/// How a VC of ABR has fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AbrStats {
    /// ACR, the rate that the network allows now, in cells/s, rounded down.
    pub allowed_cell_s: u32,
    /// MCR, below which it never falls, in cells/s.
    pub floor_cell_s: u32,
    /// Why it changed the last time.
    pub reason: RateReason,
    /// When, nanoseconds of the adapter's clock.
    pub changed_ns: u64,
    /// Forward RM cells sent.
    pub forward_sent: u64,
    /// Backward RM cells sent: what was turned round, and notices.
    pub backward_sent: u64,
    /// Forward RM cells taken.
    pub forward_received: u64,
    /// Backward RM cells taken.
    pub backward_received: u64,
    /// Forward RM cells that were taken and replaced by the next before they went back.
    pub replaced: u64,
    /// RM cells thrown away: the CRC-10 was wrong.
    pub crc_error: u64,
    /// RM cells thrown away: of another protocol than ABR.
    pub wrong_protocol: u64,
    /// RM cells thrown away: beyond what a peer that keeps the rules can send.
    pub too_many: u64,
    /// Backward RM cells taken that answered nothing: forged, or come twice. They raise no rate.
    pub unasked: u64,
    /// Backward RM cells taken whose ER was below MCR: it counted as MCR.
    pub below_floor: u64,
}

/// State of ABR on a VC.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Abr {
    source: Source,
    destination: Destination,
    /// The budget of RM cells that come.
    police: Gcra,
    kept: Option<Kept>,
    stats: AbrStats,
    /// The last forward RM cell came out of rate: its source sends nothing.
    is_probed: bool,
    /// It is in the list of those with something to settle.
    is_touched: bool,
    /// It is in the list of those that are slow.
    is_slow: bool,
}

/// VCs of ABR that want something done: each at most once in each list.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Wanting {
    /// Their rate has changed, or a backward RM cell waits.
    touched: Vec<VcIndex>,
    /// Their rate is so low that RM cells leave out of rate.
    slow: Vec<VcIndex>,
}

impl Wanting {
    pub(super) fn new(vcs: usize) -> Self {
        Self {
            touched: Vec::with_capacity(vcs),
            slow: Vec::with_capacity(vcs),
        }
    }

    /// A VC is closed, or has ABR no more.
    pub(super) fn forget(&mut self, vc: VcIndex) {
        self.touched.retain(|other| *other != vc);
        self.slow.retain(|other| *other != vc);
    }
}

/// The adapter's time that a VC keeps under overload: that of PDUs at MCR.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    bucket: FrameGcra,
    max_cells: u32,
    /// A PDU that was let in and not charged yet: when it came, and the cells that the VC had
    /// received before.
    owes: Option<(Time, u64)>,
}

impl Kept {
    fn new(request: &OpenRequest, terms: &AbrTerms) -> Option<Self> {
        let receive = request.receive?;
        let max_cells = aal5_cells(receive.max_sdu.into());
        Some(Self {
            bucket: FrameGcra::new(terms.kept?, receive.cdvt_ns, max_cells, 1),
            max_cells,
            owes: None,
        })
    }

    /// Whether a PDU is let in that comes behind `received` cells of the VC.
    fn lets_in(&mut self, arrival: Arrival, received: u64) -> bool {
        if let Some((since, before)) = self.owes.take() {
            // Cells behind that PDU, while there was no overload, are not charged.
            let cells = (received - before).min(self.max_cells.into());
            self.bucket.catch_up(since);
            self.bucket.charge(cells as u32);
        }
        let conforms = self.bucket.conforms(arrival.now);
        self.owes = conforms.then_some((arrival.earliest, received));
        conforms
    }
}

/// Which bugs machines have on purpose.
type Bug = fn(AbrPlanted) -> bool;

/// The budget of RM cells: what a peer that keeps the rules sends, 64 of them at once.
fn police(terms: &AbrTerms) -> Gcra {
    const AT_ONCE: u64 = 64;
    let apart = crate::contract::Increment::of(terms.rm);
    Gcra::new(terms.rm, apart.times_ns(AT_ONCE - 1).max(50_000_000))
}

impl Abr {
    /// That of a VC to open; none: it has no ABR.
    pub(super) fn new(request: &OpenRequest) -> Option<Self> {
        let terms = request.transmit?.abr?;
        Some(Self {
            source: Source::new(terms.transmit, |_| false),
            destination: Destination::default(),
            police: police(&terms),
            kept: Kept::new(request, &terms),
            stats: AbrStats::default(),
            is_touched: false,
            is_probed: false,
            is_slow: false,
        })
    }

    /// Another contract.
    fn modify(&mut self, now: Time, request: &OpenRequest, terms: &AbrTerms) {
        self.source.modify(now, terms.transmit);
        self.police = police(terms);
        self.kept = Kept::new(request, terms);
    }

    /// What is told of it.
    pub(super) fn stats(&self) -> AbrStats {
        let (reason, changed) = self.source.last_change();
        AbrStats {
            allowed_cell_s: self.source.rate().cell_s(),
            floor_cell_s: self.source.parameters().floor().cell_s(),
            reason,
            changed_ns: changed.ns(),
            ..self.stats
        }
    }

    /// Tells the schedule its rate.
    pub(super) fn allow(
        &mut self,
        now: Time,
        vc: VcIndex,
        schedule: &mut Schedule,
        wanting: &mut Wanting,
    ) {
        schedule.allow(now, vc, self.source.rate().whole());
        if self.source.is_slow() && !self.is_slow {
            self.is_slow = true;
            wanting.slow.push(vc);
        }
    }

    /// Takes an RM cell that has come.
    fn take(&mut self, now: Time, earliest: Time, cell: &[u8], board: &impl Board) -> Taken {
        let payload = cell.last_chunk::<PAYLOAD_LEN>();
        let Some(Checked { value, crc_valid }) = payload.map(Rm::parse) else {
            return Err(Discard::NotUserData);
        };
        if !crc_valid && !board.planted(Planted::RmCrcNotChecked) {
            self.stats.crc_error += 1;
            return Err(Discard::CrcError);
        }
        if value.protocol != Rm::ABR && !board.planted(Planted::RmProtocolNotChecked) {
            self.stats.wrong_protocol += 1;
            return Err(Discard::NotUserData);
        }
        if !self.police.police(now, earliest) && !board.planted(Planted::RmUnpoliced) {
            self.stats.too_many += 1;
            return Err(Discard::NonConforming);
        }
        let planted = board.abr_planted();
        if !value.backward {
            let clp = cell.get(3).is_some_and(|octet| octet & 1 == 1);
            self.is_probed = clp && !board.planted(Planted::ProbeBraked);
            self.stats.forward_received += 1;
            self.stats.replaced += u64::from(self.destination.forward(value, planted));
            return Ok(());
        }
        self.stats.backward_received += 1;
        let answers = self.source.backward(now, &value, planted);
        self.stats.unasked += u64::from(!answers);
        let floor = self.source.parameters().floor().to_rm();
        let below = value.er.cell_s_512ths() < floor.cell_s_512ths();
        self.stats.below_floor += u64::from(below);
        Ok(())
    }

    /// The backward RM cell that leaves now, if one waits. A VC that throws the rest of a PDU away
    /// is `congested` as long as more of it comes: a source that probes sends none of it, and would
    /// never hear that there is room again.
    fn turn(&mut self, congested: bool, planted: Bug) -> Option<Rm> {
        let congested = congested && !self.is_probed;
        let rm = self.destination.turn(congested, planted);
        self.stats.backward_sent += u64::from(rm.is_some());
        rm
    }

    /// The RM cell of the source, or of the destination, that leaves before data.
    fn next(&mut self, now: Time, data: bool, congested: bool, planted: Bug) -> Next {
        let waits = self.destination.waits();
        match self.source.next(now, data, waits, planted) {
            NextCell::Data => Next::Data,
            NextCell::Nothing => Next::Nothing,
            NextCell::Forward(rm, clp) => {
                self.stats.forward_sent += 1;
                Next::Rm(rm, clp)
            }
            NextCell::Backward => match self.turn(congested, planted) {
                Some(rm) => Next::Rm(rm, Destination::loss_priority(true, planted)),
                None => Next::Nothing,
            },
        }
    }
}

impl Cold {
    /// Its contract has changed to that of `request`.
    pub(super) fn follow_abr(&mut self, now: Time, request: &OpenRequest) {
        let terms = request.transmit.and_then(|transmit| transmit.abr);
        match (terms, &mut self.abr) {
            (Some(terms), Some(abr)) => abr.modify(now, request, &terms),
            (Some(_), None) => self.abr = Abr::new(request),
            (None, _) => self.abr = None,
        }
    }
}

/// Whether an adapter serves the ABR of a request, if it has any.
pub(super) fn abr_is_served(request: &OpenRequest) -> bool {
    let abr = request.transmit.and_then(|transmit| transmit.abr);
    abr.is_none_or(|AbrTerms { transmit, .. }| {
        let within = transmit.floor() <= AbrRate::of(transmit.icr) && transmit.icr <= transmit.pcr;
        let best_effort = request.transmit.is_some_and(|way| way.rate.is_none());
        request.aal == Aal::Aal5 && request.receive.is_some() && best_effort && within
    })
}

type Taken = Result<(), Discard>;

/// What leaves a VC of ABR.
enum Next {
    Data,
    Rm(Rm, bool),
    Nothing,
}

fn rm_header(address: VpiVci, clp: bool) -> [u8; 4] {
    Header::new(address, Pti::ResourceManagement, clp).emit()
}

/// Room for cells that leave.
pub(super) struct Out<'a> {
    pub(super) octets: &'a mut [u8],
    pub(super) format: CellFormat,
}

/// Writes up to `cells` cells of a VC of ABR: of the PDU in staging, and RM cells in their places;
/// how many. It ends where the rate changes, so that what follows keeps the new one.
#[cold]
#[inline(never)]
pub(super) fn emit(
    segmenter: &mut aal5::Segmenter,
    staging: &[u8],
    cold: &mut Cold,
    cells: u32,
    out: &mut Out<'_>,
    pace: &mut Pace<'_>,
) -> u32 {
    let address = cold.request.address;
    let stride = out.format.stride();
    let Some(abr) = &mut cold.abr else {
        // Its contract was another when the PDU began.
        return segmenter.emit_cells(staging, out.format, out.octets).into();
    };
    let before = abr.source.rate();
    let places = out.octets.chunks_exact_mut(stride).take(cells as usize);
    let mut sent = 0;
    for place in places {
        match abr.next(pace.now, segmenter.left() > 0, pace.congested, pace.planted) {
            Next::Data => {
                segmenter.emit_cells(staging, out.format, place);
            }
            Next::Rm(rm, clp) => oam::emit(rm_header(address, clp), &rm.emit(), out.format, place),
            Next::Nothing => break,
        }
        sent += 1;
        if abr.source.rate() != before {
            abr.allow(pace.now, pace.vc, pace.schedule, pace.wanting);
            break;
        }
    }
    sent
}

/// What paces a VC of ABR that sends.
pub(super) struct Pace<'a> {
    pub(super) now: Time,
    pub(super) vc: VcIndex,
    /// Its destination throws PDUs away.
    pub(super) congested: bool,
    pub(super) planted: Bug,
    pub(super) schedule: &'a mut Schedule,
    pub(super) wanting: &'a mut Wanting,
}

impl<R, A, B> Turn<'_, R, A, B>
where
    R: Region,
    A: Attachment,
    B: Board<Region = R, Attachment = A>,
{
    /// Sends one RM cell of a VC that has no data, behind `written` octets; how many cells.
    #[cold]
    #[inline(never)]
    pub(super) fn send_rm(&mut self, vc: VcIndex, written: usize) -> u32 {
        let stride = self.format.stride();
        let Some(Some(cold)) = self.cold.get_mut(usize::from(vc.0)) else {
            return 0;
        };
        let congested = is_congested(self.table.discarding(cold.slot));
        let address = cold.request.address;
        let (Some(abr), Some(place)) =
            (&mut cold.abr, self.cells.get_mut(written..written + stride))
        else {
            return 0;
        };
        let before = abr.source.rate();
        let Next::Rm(rm, clp) = abr.next(self.now, false, congested, self.board.abr_planted())
        else {
            return 0;
        };
        oam::emit(rm_header(address, clp), &rm.emit(), self.format, place);
        if abr.source.rate() != before {
            abr.allow(self.now, vc, self.schedule, self.wanting);
        }
        self.schedule.sent(self.now, vc, 1);
        self.space -= 1;
        cold.stats.cells_transmitted += 1;
        cold.stats.cells_transmitted_clp1 += u64::from(clp);
        self.stats.cells_transmitted += 1;
        self.board.charge(Work::TransmitCells, 1);
        1
    }
}

/// Whether a VC throws away what its reader, or the adapter, has no room for.
pub(super) fn is_congested(discarding: Option<Discard>) -> bool {
    matches!(
        discarding,
        Some(Discard::BufferFull | Discard::QueueFull | Discard::Overload)
    )
}

impl<R, A, B> Batch<'_, R, A, B>
where
    R: Region,
    A: Attachment,
    B: Board<Region = R, Attachment = A>,
{
    /// Notes that a VC of ABR may have a new rate or a backward RM cell that waits.
    pub(super) fn touch(&mut self, index: usize) {
        let abr = self.cold.get_mut(index).and_then(Option::as_mut);
        if let Some(abr) = abr.and_then(|cold| cold.abr.as_mut())
            && !core::mem::replace(&mut abr.is_touched, true)
        {
            self.wanting.touched.push(VcIndex(index as u16));
        }
    }
}

impl<R: Region, B: Board<Region = R>> Reception<'_, R, B> {
    /// Takes `count` cells of user data, with one header, of a VC of ABR; whether its destination
    /// has something to send for it.
    #[inline(never)]
    pub(super) fn available<F: Fold>(
        mut self,
        fold: F,
        header: Header,
        cells: &[u8],
        count: u32,
    ) -> bool {
        let Pti::User { congested, .. } = header.pti() else {
            return false;
        };
        let lost = self.lost_for_room();
        if let Some(abr) = &mut known(self.cold).abr {
            let forgotten = self.board.planted(Planted::MarkForgotten);
            let planted = self.board.abr_planted();
            abr.destination.data(congested && !forgotten, planted);
        }
        if header.is_last() {
            self.lasts(fold, header, cells);
        } else {
            self.middle(fold, header, cells, count);
        }
        let now = self.arrival.now;
        let loses = self.lost_for_room() > lost && !self.board.planted(Planted::LossNotNoticed);
        let abr = known(self.cold).abr.as_mut();
        loses && abr.is_some_and(|abr| abr.destination.congested(now, self.board.abr_planted()))
    }

    /// PDUs thrown away because its reader is too slow.
    fn lost_for_room(&mut self) -> u64 {
        let lost = &known(self.cold).stats.pdus_discarded;
        lost.of(Discard::BufferFull) + lost.of(Discard::QueueFull)
    }

    /// Whether a PDU of a VC of ABR keeps the adapter's time under overload.
    pub(super) fn keeps_floor(&mut self) -> bool {
        let (arrival, cold) = (self.arrival, known(self.cold));
        let stats = &cold.stats;
        let received = stats.cells_delivered + stats.cells_discarded.total();
        let kept = cold.abr.as_mut().and_then(|abr| abr.kept.as_mut());
        if self.board.planted(Planted::FloorGivesWay) {
            return false;
        }
        kept.is_some_and(|kept| {
            kept.lets_in(arrival, received) || self.board.planted(Planted::FloorNotCharged)
        })
    }

    /// Takes one RM cell; none: the VC has no ABR.
    pub(super) fn rm(&mut self, cell: &[u8]) -> Option<Taken> {
        let arrival = self.arrival;
        let abr = known(self.cold).abr.as_mut()?;
        Some(abr.take(arrival.now, arrival.earliest, cell, &*self.board))
    }
}

impl<R: Region, A: Attachment> Adapter<R, A> {
    /// Tells the schedule what RM cells have brought.
    pub(super) fn settle_available<B>(&mut self, now: Time, board: &B)
    where
        B: Board<Region = R, Attachment = A>,
    {
        while let Some(vc) = self.wanting.touched.pop() {
            let cold = self.cold.get_mut(usize::from(vc.0));
            let abr = cold.and_then(|cold| cold.as_mut()?.abr.as_mut());
            let Some(abr) = abr else { continue };
            abr.is_touched = false;
            if !board.planted(Planted::AllowedRateNotKept) {
                abr.allow(now, vc, &mut self.schedule, &mut self.wanting);
            }
            if abr.destination.waits() && !board.planted(Planted::TurnedAfterDataOnly) {
                self.schedule.activate(now, vc);
            }
        }
    }

    /// Out-of-rate RM cells of VCs whose rate is so low that they would wait long for one.
    pub(super) fn probe_slow<B>(&mut self, now: Time, board: &B)
    where
        B: Board<Region = R, Attachment = A>,
    {
        let mut at = 0;
        while let Some(vc) = self.wanting.slow.get(at).copied() {
            let cold = self
                .cold
                .get_mut(usize::from(vc.0))
                .and_then(Option::as_mut);
            let port = cold.as_ref().map(|cold| cold.request.port);
            let Some(abr) = cold.and_then(|cold| cold.abr.as_mut()) else {
                self.wanting.slow.swap_remove(at);
                continue;
            };
            if !abr.source.is_slow() {
                abr.is_slow = false;
                self.wanting.slow.swap_remove(at);
                continue;
            }
            at += 1;
            let port = port.and_then(|port| self.ports.get(usize::from(port.0)));
            if port.is_none_or(|port| port.rm.is_full()) || !self.schedule.is_active(vc) {
                continue;
            }
            let planted = board.abr_planted();
            if let Some((rm, clp)) = abr.source.out_of_rate(now, planted) {
                abr.stats.forward_sent += 1;
                self.push_out_of_rate(vc, &rm, clp);
            }
            self.turn_slow(vc, board);
        }
    }

    /// Turns round what has come to a slow VC, out of rate, too: two slow ends would wait for each
    /// other for ever.
    fn turn_slow<B>(&mut self, vc: VcIndex, board: &B)
    where
        B: Board<Region = R, Attachment = A>,
    {
        let Some(Some(cold)) = self.cold.get_mut(usize::from(vc.0)) else {
            return;
        };
        let port = self.ports.get(usize::from(cold.request.port.0));
        let congested = is_congested(self.table.discarding(cold.slot));
        let abr = cold.abr.as_mut();
        let abr = abr.filter(|_| port.is_some_and(|port| !port.rm.is_full()));
        let planted = board.abr_planted();
        if let Some(abr) = abr
            && let Some(rm) = abr.turn(congested, planted)
        {
            //= TM 4.0 5.10.5 rule 6
            let clp = Destination::loss_priority(false, planted);
            self.push_out_of_rate(vc, &rm, clp);
        }
    }

    /// An RM cell of a slow VC waits at its port, which has room for it.
    fn push_out_of_rate(&mut self, vc: VcIndex, rm: &Rm, clp: bool) {
        let Some(Some(cold)) = self.cold.get_mut(usize::from(vc.0)) else {
            return;
        };
        let OpenRequest { port, address, .. } = cold.request;
        if let Some(port) = self.ports.get_mut(usize::from(port.0)) {
            let header = Header::new(address, Pti::ResourceManagement, clp);
            port.rm.push(header, &rm.emit());
            cold.stats.cells_transmitted += 1;
            cold.stats.cells_transmitted_clp1 += u64::from(clp);
            self.stats.cells_transmitted += 1;
        }
    }

    /// When the next out-of-rate RM cell is due.
    pub(super) fn probe_deadline(&self) -> Option<Time> {
        let slow = self.wanting.slow.iter();
        let active = slow.filter(|vc| self.schedule.is_active(**vc));
        let due = active.filter_map(|vc| {
            let cold = self.cold.get(usize::from(vc.0))?.as_ref()?;
            let Abr {
                source,
                destination,
                ..
            } = cold.abr.as_ref()?;
            let due = source.out_of_rate_due().filter(|_| !destination.waits());
            Some(due.unwrap_or(self.now))
        });
        due.min()
    }
}

/// A port's out-of-rate RM cells.
pub(super) type OutOfRate = Replies;
