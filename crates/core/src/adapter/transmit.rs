//! `transmit()`: PDUs from the transmit queues to cells, when the schedule says so.

use cellgate_simd::{Fold, Kernel, with_features};

use super::abr::{self, Wanting};
use super::clients::{Clients, Notice, Urgency};
use super::crossing::{Crossed, Crossing};
use super::firmware::TRANSMIT_BUDGET;
use super::schedule::Schedule;
use super::table::Table;
use super::vc::{Cold, Outgoing, Vc};
use super::{
    Aal, Adapter, AdapterStats, Attachment, Board, Event, EventKind, Planted, PortIndex, Region,
    VcIndex, Work, oam,
};
use crate::Time;
use crate::aal::{aal0, aal5, aal34};
use crate::queue::layout::PDU_ALIGN;
use crate::queue::{Queue, TransmitDescriptor, Words, queue};
use crate::wire::{CellFormat, Header, Pti, VpiVci};

/// PDUs begun on one port in one step: each costs a copy and a CRC of up to 65,535 octets.
pub const PDUS_PER_STEP: u32 = 8;

/// Transmit queues found empty on one port in one step: more than doorbells and finished PDUs can
/// bring about, so that idle queues hold nobody up for long.
const EMPTY_PER_STEP: u32 = 32;

impl<R: Region, A: Attachment> Adapter<R, A> {
    /// Answers doorbells, then sends on each port what the schedule grants.
    pub fn transmit<B: Board<Region = R, Attachment = A>>(&mut self, now: Time, board: &mut B) {
        let Self {
            clients,
            cold,
            vcs,
            schedule,
            stats,
            ..
        } = self;
        let ask_for_next = |vc: u32| {
            if let Some(Some(vc)) = vcs.get(vc as usize) {
                ask_for_next(vc);
            }
        };
        clients.answer_doorbells(ask_for_next, |client, bell| {
            let named = cold.get_mut(bell.vc as usize).and_then(Option::as_mut);
            let named = named.filter(|cold| {
                cold.vc.generation == bell.generation
                    && (cold.request.attachment == client
                        || board.planted(Planted::DoorbellUnchecked))
            });
            let vc = vcs.get(bell.vc as usize).and_then(Option::as_ref);
            match named.zip(vc) {
                Some((cold, vc)) if vc.sender.enabled => {
                    let index = VcIndex(bell.vc as u16);
                    if !schedule.is_active(index) {
                        cold.turn = now;
                    }
                    schedule.activate(now, index);
                }
                _ => stats.doorbell_faults += 1,
            }
        });
        if !board.planted(Planted::SlowNotProbed) {
            self.probe_slow(now, &*board);
        }
        for port in 0..self.used_ports(board) {
            self.transmit_port(now, board, PortIndex(port as u8));
        }
    }

    fn transmit_port<B: Board<Region = R, Attachment = A>>(
        &mut self,
        now: Time,
        board: &mut B,
        port: PortIndex,
    ) {
        let mut space = board.transmit_space(port).min(TRANSMIT_BUDGET as usize) as u32;
        let oam = self.send_oam(now, board, port, space);
        space -= oam;
        if space == 0 || self.schedule.grant(now, port, 1).is_none() {
            board.charge(Work::ParseEmptyTransmitQueues, 1);
            return;
        }
        let format = self.format(port);
        let mut crossing = match oam {
            0 => self.crossing(now, board, port),
            _ => None,
        };
        with_features(Turn {
            table: &mut self.table,
            vcs: &mut self.vcs,
            cold: &mut self.cold,
            clients: &mut self.clients,
            schedule: &mut self.schedule,
            stats: &mut self.stats,
            wanting: &mut self.wanting,
            cells: &mut self.outgoing,
            board,
            now,
            port,
            format,
            space,
            crossing: crossing.as_mut(),
        });
        if let Some(crossing) = crossing {
            self.note_crossing(&crossing);
        }
    }

    /// Sends answers to OAM cells, then loopback cells, ahead of everything else; how many. They
    /// are few, and take no slot of the schedule.
    fn send_oam<B: Board<Region = R, Attachment = A>>(
        &mut self,
        now: Time,
        board: &mut B,
        port: PortIndex,
        space: u32,
    ) -> u32 {
        let Some(state) = self.ports.get_mut(usize::from(port.0)) else {
            return 0;
        };
        if state.replies.is_empty() && state.rm.is_empty() && self.loopbacks.is_empty() {
            return 0;
        }
        let (space, format) = (space as usize, state.config.format);
        let stride = format.stride();
        let mut sent = state.replies.take(space, format, &mut self.outgoing);
        let rest = self.outgoing.get_mut(sent * stride..).unwrap_or_default();
        sent += state.rm.take(space - sent, format, rest);
        while sent < space
            && let Some(out) = self.outgoing.get_mut(sent * stride..(sent + 1) * stride)
            && let Some((route, oam)) = self.loopbacks.leave(now, port)
        {
            let header = route.flow.header(route.address).emit();
            oam::emit(header, &oam.emit(), format, out);
            sent += 1;
        }
        if sent > 0 {
            board.transmit(port, format, &self.outgoing[..sent * stride]);
        }
        sent as u32
    }
}

/// One port's turn to transmit.
pub(super) struct Turn<'a, R, A, B> {
    pub(super) table: &'a mut Table,
    pub(super) vcs: &'a mut [Option<Vc<R>>],
    pub(super) cold: &'a mut [Option<Cold>],
    pub(super) clients: &'a mut Clients<A>,
    pub(super) schedule: &'a mut Schedule,
    pub(super) stats: &'a mut AdapterStats,
    pub(super) wanting: &'a mut Wanting,
    pub(super) cells: &'a mut [u8],
    pub(super) board: &'a mut B,
    pub(super) now: Time,
    pub(super) port: PortIndex,
    pub(super) format: CellFormat,
    pub(super) space: u32,
    /// How PDUs cross to a port of this board, if they can.
    pub(super) crossing: Option<&'a mut Crossing>,
}

impl<R, A, B> Kernel for Turn<'_, R, A, B>
where
    R: Region,
    A: Attachment,
    B: Board<Region = R, Attachment = A>,
{
    type Output = ();

    #[inline(always)]
    fn run<F: Fold>(mut self, fold: F) {
        let stride = self.format.stride();
        let mut written = 0;
        let (mut begun, mut empty) = (0, 0);
        while self.space > 0 {
            // Whose turn it is; how many cells it has is asked when it is known how many are left.
            let Some(grant) = self.schedule.grant(self.now, self.port, 1) else {
                break;
            };
            let index = usize::from(grant.vc.0);
            let Some((mut vc, mut cold)) = open(self.vcs, self.cold, index) else {
                self.schedule.deactivate(grant.vc);
                continue;
            };
            if vc.sender.outgoing.left() == 0 {
                if begun == PDUS_PER_STEP || empty == EMPTY_PER_STEP {
                    break;
                }
                let sdu = match next(vc, cold, self.board) {
                    Next::Empty if cold.abr.is_some() && self.send_rm(grant.vc, written) > 0 => {
                        written += stride;
                        continue;
                    }
                    Next::Empty => {
                        empty += 1;
                        self.board.charge(Work::ParseEmptyTransmitQueues, 1);
                        self.schedule.deactivate(grant.vc);
                        continue;
                    }
                    Next::Invalid => {
                        begun += 1;
                        self.refuse(grant.vc);
                        continue;
                    }
                    Next::Sdu(sdu) => sdu,
                };
                begun += 1;
                if self.crossing.is_some() && written == 0 {
                    match self.cross(grant.vc, &sdu) {
                        Crossed::Whole => continue,
                        Crossed::Later => break,
                        Crossed::AsCells => {}
                    }
                }
                let Some(again) = open(self.vcs, self.cold, index) else {
                    continue;
                };
                (vc, cold) = again;
                if !stage(fold, vc, cold, self.board, &sdu) {
                    self.refuse(grant.vc);
                    continue;
                }
            }
            let wanted = self.space.min(vc.sender.outgoing.left());
            let granted = match wanted {
                0 | 1 => Some(grant),
                _ => self.schedule.grant(self.now, self.port, wanted),
            };
            let cells = granted.map_or(grant.cells, |granted| granted.cells);
            let out = &mut self.cells[written..];
            let sent = match &mut vc.sender.outgoing {
                Outgoing::Abr(segmenter) => {
                    let mut out = abr::Out {
                        octets: out,
                        format: self.format,
                    };
                    let mut pace = abr::Pace {
                        now: self.now,
                        vc: grant.vc,
                        congested: abr::is_congested(self.table.discarding(cold.slot)),
                        planted: self.board.abr_planted(),
                        schedule: self.schedule,
                        wanting: self.wanting,
                    };
                    let staging = vc.region.staging();
                    abr::emit(segmenter, staging, cold, cells, &mut out, &mut pace)
                }
                _ => emit(vc, cold.request.address, cells, self.format, out),
            };
            self.schedule.sent(self.now, grant.vc, sent);
            written += sent as usize * stride;
            self.space -= sent;
            cold.stats.cells_transmitted += u64::from(sent);
            self.stats.cells_transmitted += u64::from(sent);
            self.board.charge(Work::TransmitCells, sent);
            if cold
                .request
                .transmit
                .is_some_and(|transmit| transmit.rate.is_some())
            {
                self.board.charge(Work::Schedule, 1);
            }
            if vc.sender.outgoing.left() == 0 {
                let cells = vc.sender.outgoing.cells();
                if core::mem::take(&mut vc.sender.clp) {
                    cold.stats.cells_transmitted_clp1 += u64::from(cells);
                }
                vc.sender.outgoing = Outgoing::None;
                cold.count_left(self.now);
                self.board.charge(Work::Dequeue, 1);
                self.complete(grant.vc, cells);
            }
        }
        if written > 0 {
            self.board
                .transmit(self.port, self.format, &self.cells[..written]);
        }
    }
}

impl<R, A, B> Turn<'_, R, A, B>
where
    R: Region,
    A: Attachment,
    B: Board<Region = R, Attachment = A>,
{
    /// Gives up an SDU that its client may not send. It costs its VC a cell, else that VC would
    /// stay the first to be granted and nobody else could begin a PDU.
    fn refuse(&mut self, index: VcIndex) {
        if let Some(Some(cold)) = self.cold.get_mut(usize::from(index.0)) {
            cold.stats.client_faults += 1;
            cold.turn = self.now;
        }
        self.schedule.sent(self.now, index, 1);
        self.complete(index, 0);
    }

    /// Gives the descriptor of a PDU that has left, or never will, back to its client.
    #[inline(always)]
    pub(super) fn complete(&mut self, index: VcIndex, cells: u32) {
        let at = usize::from(index.0);
        let Some((vc, cold)) = open(self.vcs, self.cold, at) else {
            return;
        };
        if !self.board.planted(Planted::TransmitTailEarly) || cells == 0 {
            vc.sender.queue.release(vc.region.from_adapter(), 1);
        }
        let interruptive = vc.sender.interrupt;
        let event = Event {
            kind: EventKind::TransmitCompleted,
            interruptive,
            vc: cold.vc,
            cells,
            value: vc.sender.queue.tail(),
            time: self.now,
        };
        let urgency = if interruptive {
            Urgency::Interruptive
        } else {
            Urgency::Never
        };
        let notice = Notice {
            client: cold.request.attachment,
            event,
            urgency,
            guaranteed: cold.request.is_guaranteed(),
        };
        self.clients.post(self.now, self.board, self.stats, notice);
    }
}

/// Asks for all that beginning the next PDU of `vc` reads, so that its lines come from the client's
/// core side by side and not one after the other.
#[inline(always)]
fn ask_for_next<R: Region>(vc: &Vc<R>) {
    let memory = vc.region.from_client();
    memory.prefetch(queue::Transmit::HEAD);
    memory.prefetch(vc.sender.queue.slot_at(0));
    vc.region.prefetch_stage(vc.sender.next_offset);
}

/// Both halves of an open VC.
#[inline(always)]
fn open<'a, R>(
    vcs: &'a mut [Option<Vc<R>>],
    cold: &'a mut [Option<Cold>],
    index: usize,
) -> Option<(&'a mut Vc<R>, &'a mut Cold)> {
    Some((
        vcs.get_mut(index)?.as_mut()?,
        cold.get_mut(index)?.as_mut()?,
    ))
}

enum Next {
    Empty,
    Invalid,
    Sdu(TransmitDescriptor),
}

/// The next descriptor, if its client may send that.
#[inline(always)]
fn next<R: Region, B: Board<Region = R>>(vc: &mut Vc<R>, cold: &mut Cold, board: &mut B) -> Next {
    let Vc { region, sender, .. } = vc;
    let faults = sender.queue.faults();
    if sender.hold || sender.queue.available(region.from_client(), 1) == 0 {
        cold.stats.client_faults += u64::from(sender.queue.faults() - faults);
        return Next::Empty;
    }
    let mut octets = [0; 16];
    region
        .from_client()
        .copy_out(sender.queue.slot_at(0), &mut octets);
    let descriptor = TransmitDescriptor::parse(&octets);
    let unchecked = board.planted(Planted::TransmitLenUnchecked);
    let fits = match cold.request.aal {
        Aal::Aal0 => descriptor.len == aal0::SDU_LEN as u32,
        Aal::Aal5 | Aal::Aal34(_) => descriptor.len <= sender.max_sdu.into() || unchecked,
    };
    if fits
        && descriptor.generation == cold.vc.generation
        && descriptor.is_within(region.transmit_len())
        && descriptor.len as usize <= region.staging().len()
    {
        Next::Sdu(descriptor)
    } else {
        Next::Invalid
    }
}

/// Takes an SDU for one that leaves: what that costs, and where the next begins.
#[inline(always)]
pub(super) fn take_off<R, B: Board>(vc: &mut Vc<R>, sdu: &TransmitDescriptor, board: &mut B) {
    let sender = &mut vc.sender;
    let work = match sender.queue.available_seen() {
        1 => Work::EnqueueToEmpty,
        _ => Work::Enqueue,
    };
    board.charge(work, 1);
    sender.next_offset = (sdu.offset + sdu.len).next_multiple_of(PDU_ALIGN as u32);
}

/// The header of the cells of a PDU but the last.
#[inline(always)]
pub(super) fn header_of<B: Board>(cold: &Cold, sdu: &TransmitDescriptor, board: &B) -> Header {
    let clp = sdu.clp && !board.planted(Planted::TransmitClpLost);
    let user = Pti::User {
        congested: false,
        last: false,
    };
    Header::new(cold.request.address, user, clp)
}

/// Makes the PDU of an SDU in staging, if it has room. Every octet of the client's is read once.
#[inline(always)]
fn stage<F: Fold, R: Region, B: Board<Region = R>>(
    fold: F,
    vc: &mut Vc<R>,
    cold: &Cold,
    board: &mut B,
    sdu: &TransmitDescriptor,
) -> bool {
    take_off(vc, sdu, board);
    let Vc { region, sender, .. } = vc;
    let len = sdu.len as usize;
    let staging = region.stage(sdu.offset, len);
    let (uu, cpi) = if board.planted(Planted::TransmitUuLost) {
        (0, 0)
    } else {
        (sdu.uu, sdu.cpi)
    };
    let header = header_of(cold, sdu, board);
    let mut clp = header.clp();
    sender.outgoing = match cold.request.aal {
        Aal::Aal0 => {
            clp = staging.get(3).is_some_and(|octet| octet & 1 == 1);
            Outgoing::Aal0(true)
        }
        Aal::Aal5 => match aal5::Segmenter::seal(fold, staging, len as u16, uu, cpi, header) {
            Some(segmenter) if cold.abr.is_some() && !board.planted(Planted::NoRmCells) => {
                Outgoing::Abr(segmenter)
            }
            Some(segmenter) => Outgoing::Aal5(segmenter),
            None => return false,
        },
        Aal::Aal34(_) => {
            let kept = board.planted(Planted::BtagKept);
            sender.btag = sender.btag.wrapping_add(u8::from(!kept));
            let lost = board.planted(Planted::TransmitMidLost);
            let mid = if lost { 0 } else { sdu.mid };
            let segmenter = aal34::Segmenter::new(len as u16, mid, sender.btag, header);
            Outgoing::Aal34(segmenter)
        }
    };
    sender.clp = clp;
    if board.planted(Planted::TransmitTailEarly) {
        sender.queue.release(region.from_adapter(), 1);
    }
    true
}

/// Writes up to `cells` cells of the PDU in staging to the front of `out`; how many.
#[inline(always)]
fn emit<R: Region>(
    vc: &mut Vc<R>,
    address: VpiVci,
    cells: u32,
    format: CellFormat,
    out: &mut [u8],
) -> u32 {
    let Some(out) = out.get_mut(..cells as usize * format.stride()) else {
        return 0;
    };
    let staging = vc.region.staging();
    match &mut vc.sender.outgoing {
        // A PDU with RM cells between has a way of its own.
        Outgoing::None | Outgoing::Abr(_) => 0,
        Outgoing::Aal0(left) => {
            let sdu = staging.first_chunk();
            *left = false;
            u32::from(sdu.is_some_and(|sdu| aal0::emit_cell(sdu, address, format, out)))
        }
        Outgoing::Aal5(segmenter) => segmenter.emit_cells(staging, format, out).into(),
        Outgoing::Aal34(segmenter) => emit_aal34(segmenter, staging, format, out),
    }
}

/// Apart from AAL5, whose loop is to have all registers.
#[cold]
#[inline(never)]
fn emit_aal34(
    segmenter: &mut aal34::Segmenter,
    staging: &[u8],
    format: CellFormat,
    out: &mut [u8],
) -> u32 {
    segmenter.emit_cells(staging, format, out).into()
}
