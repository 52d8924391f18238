//! `transmit()`: PDUs from the transmit queues to cells, when the schedule says so.

use cellgate_simd::{Fold, Kernel, with_features};

use super::clients::{Clients, Urgency};
use super::firmware::TRANSMIT_BUDGET;
use super::schedule::Schedule;
use super::vc::{Cold, Outgoing, Vc};
use super::{
    Aal, Adapter, AdapterStats, Attachment, Board, Event, EventKind, Planted, PortIndex, Region,
    VcIndex, Work, oam,
};
use crate::Time;
use crate::aal::{aal0, aal5, aal34};
use crate::ring::layout::PDU_ALIGN;
use crate::ring::{Queue, TransmitDescriptor, Words, queue};
use crate::wire::{CellFormat, Header, Pti, VpiVci};

/// PDUs begun on one port in one step: each costs a copy and a CRC of up to 65,535 octets.
const PDUS_PER_STEP: u32 = 8;

/// Transmit queues found empty on one port in one step: more than doorbells and finished PDUs can
/// bring about, so that idle rings hold nobody up for long.
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
        clients.answer_doorbells(|client, bell| {
            let named = cold.get(bell.vc as usize).and_then(Option::as_ref);
            let valid = named.is_some_and(|cold| {
                cold.vc.generation == bell.generation
                    && (cold.request.attachment == client
                        || board.planted(Planted::DoorbellUnchecked))
            });
            match vcs.get(bell.vc as usize).and_then(Option::as_ref) {
                Some(vc) if valid && vc.sender.enabled => {
                    ask_for_next(vc);
                    schedule.activate(now, VcIndex(bell.vc as u16));
                }
                _ => stats.doorbell_faults += 1,
            }
        });
        for port in 0..self.ports.len() {
            self.transmit_port(now, board, PortIndex(port as u8));
        }
    }

    fn transmit_port<B: Board<Region = R, Attachment = A>>(
        &mut self,
        now: Time,
        board: &mut B,
        port: PortIndex,
    ) {
        let mut space = board.transmit_space(port).min(TRANSMIT_BUDGET) as u32;
        space -= self.send_oam(now, board, port, space);
        if space == 0 || self.schedule.grant(now, port, 1).is_none() {
            board.charge(Work::ParseEmptyTransmitQueues, 1);
            return;
        }
        let format = self.format(port);
        with_features(Turn {
            vcs: &mut self.vcs,
            cold: &mut self.cold,
            clients: &mut self.clients,
            schedule: &mut self.schedule,
            stats: &mut self.stats,
            cells: &mut self.outgoing,
            board,
            now,
            port,
            format,
            space,
        });
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
        let format = state.config.format;
        let mut sent = state
            .replies
            .take(space as usize, format, &mut self.outgoing);
        let out = self.outgoing.chunks_exact_mut(format.stride());
        for out in out.take(space as usize).skip(sent) {
            let Some((route, oam)) = self.loopbacks.leave(now, port) else {
                break;
            };
            let header = route.flow.header(route.address).emit();
            oam::emit(header, &oam.emit(), format, out);
            sent += 1;
        }
        if sent > 0 {
            let octets = sent * format.stride();
            board.transmit(port, format, &self.outgoing[..octets]);
        }
        sent as u32
    }
}

/// One port's turn to transmit.
struct Turn<'a, R, A, B> {
    vcs: &'a mut [Option<Vc<R>>],
    cold: &'a mut [Option<Cold>],
    clients: &'a mut Clients<A>,
    schedule: &'a mut Schedule,
    stats: &'a mut AdapterStats,
    cells: &'a mut [u8],
    board: &'a mut B,
    now: Time,
    port: PortIndex,
    format: CellFormat,
    space: u32,
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
            let (Some(Some(vc)), Some(Some(cold))) =
                (self.vcs.get_mut(index), self.cold.get_mut(index))
            else {
                self.schedule.deactivate(grant.vc);
                continue;
            };
            if vc.sender.outgoing.left() == 0 {
                if begun == PDUS_PER_STEP || empty == EMPTY_PER_STEP {
                    break;
                }
                match begin(fold, vc, cold, self.board) {
                    Begin::Empty => {
                        empty += 1;
                        self.board.charge(Work::ParseEmptyTransmitQueues, 1);
                        self.schedule.deactivate(grant.vc);
                        continue;
                    }
                    Begin::Invalid => {
                        begun += 1;
                        cold.stats.client_faults += 1;
                        // It costs its VC a cell, else that VC would stay the first to be granted
                        // and nobody else could begin a PDU.
                        self.schedule.sent(self.now, grant.vc, 1);
                        self.complete(grant.vc, 0);
                        continue;
                    }
                    Begin::Ready => begun += 1,
                }
            }
            let wanted = self.space.min(vc.sender.outgoing.left());
            let granted = match wanted {
                0 | 1 => Some(grant),
                _ => self.schedule.grant(self.now, self.port, wanted),
            };
            let cells = granted.map_or(grant.cells, |granted| granted.cells);
            let out = &mut self.cells[written..];
            let sent = emit(vc, cold.request.address, cells, self.format, out);
            self.schedule.sent(self.now, grant.vc, sent);
            written += sent as usize * stride;
            self.space -= sent;
            cold.stats.cells_transmitted += u64::from(sent);
            self.stats.cells_transmitted += u64::from(sent);
            self.board.charge(Work::TransmitCells, sent);
            if vc.sender.outgoing.left() == 0 {
                let cells = vc.sender.outgoing.cells();
                vc.sender.outgoing = Outgoing::None;
                cold.stats.pdus_transmitted += 1;
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
    /// Gives the descriptor of a PDU that has left, or never will, back to its client.
    #[inline(always)]
    fn complete(&mut self, index: VcIndex, cells: u32) {
        let at = usize::from(index.0);
        let (Some(Some(vc)), Some(Some(cold))) = (self.vcs.get_mut(at), self.cold.get_mut(at))
        else {
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
        let client = cold.request.attachment;
        self.clients
            .post(self.now, self.board, self.stats, client, event, urgency);
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

enum Begin {
    Empty,
    Invalid,
    Ready,
}

/// Takes the next descriptor and makes its PDU in staging. Every octet of the client's is read
/// once.
#[inline(always)]
fn begin<F: Fold, R: Region, B: Board<Region = R>>(
    fold: F,
    vc: &mut Vc<R>,
    cold: &mut Cold,
    board: &mut B,
) -> Begin {
    let Vc { region, sender, .. } = vc;
    let faults = sender.queue.faults();
    if sender.hold || sender.queue.available(region.from_client(), 1) == 0 {
        cold.stats.client_faults += u64::from(sender.queue.faults() - faults);
        return Begin::Empty;
    }
    let mut octets = [0; 16];
    region
        .from_client()
        .copy_out(sender.queue.slot_at(0), &mut octets);
    let descriptor = TransmitDescriptor::parse(&octets);
    let request = &cold.request;
    let unchecked = board.planted(Planted::TransmitLenUnchecked);
    let fits = match request.aal {
        Aal::Aal0 => descriptor.len == aal0::SDU_LEN as u32,
        Aal::Aal5 | Aal::Aal34(_) => descriptor.len <= sender.max_sdu.into() || unchecked,
    };
    let len = descriptor.len as usize;
    if !fits
        || descriptor.generation != cold.vc.generation
        || !descriptor.is_within(region.transmit_len())
        || len > region.staging().len()
    {
        return Begin::Invalid;
    }
    let work = match sender.queue.available_seen() {
        1 => Work::EnqueueToEmpty,
        _ => Work::Enqueue,
    };
    board.charge(work, 1);
    sender.next_offset = (descriptor.offset + descriptor.len).next_multiple_of(PDU_ALIGN as u32);
    let staging = region.stage(descriptor.offset, len);
    let clp = descriptor.clp && !board.planted(Planted::TransmitClpLost);
    let (uu, cpi) = if board.planted(Planted::TransmitUuLost) {
        (0, 0)
    } else {
        (descriptor.uu, descriptor.cpi)
    };
    let user = Pti::User {
        congested: false,
        last: false,
    };
    let header = Header::new(request.address, user, clp);
    sender.outgoing = match request.aal {
        Aal::Aal0 => Outgoing::Aal0(true),
        Aal::Aal5 => match aal5::Segmenter::seal(fold, staging, len as u16, uu, cpi, header) {
            Some(segmenter) => Outgoing::Aal5(segmenter),
            None => return Begin::Invalid,
        },
        Aal::Aal34(_) => {
            let kept = board.planted(Planted::BtagKept);
            sender.btag = sender.btag.wrapping_add(u8::from(!kept));
            let lost = board.planted(Planted::TransmitMidLost);
            let mid = if lost { 0 } else { descriptor.mid };
            let segmenter = aal34::Segmenter::new(len as u16, mid, sender.btag, header);
            Outgoing::Aal34(segmenter)
        }
    };
    if board.planted(Planted::TransmitTailEarly) {
        sender.queue.release(region.from_adapter(), 1);
    }
    Begin::Ready
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
        Outgoing::None => 0,
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
