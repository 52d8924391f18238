//! Cells that no VC receives: fillers, OAM cells of a path or of a VC that only transmits, and
//! strangers.

use super::clients::{Notice, Urgency};
use super::loopback::Route;
use super::oam::{self, Desk};
use super::reassembly::Reception;
use super::receive::Batch;
use super::{
    Aal, Attachment, AttachmentIndex, Board, CellOutcome, Discard, Event, EventKind, Planted,
    PortIndex, Region, VcId, VcIndex, Work,
};
use crate::wire::{Header, HeaderKind, OamFlow, VpiVci};

impl<R, A, B> Batch<'_, R, A, B>
where
    R: Region,
    A: Attachment,
    B: Board<Region = R, Attachment = A>,
{
    /// The batch, for a function that is called and not inlined: a batch whose address no call has
    /// seen lives in registers.
    #[inline(always)]
    pub(super) fn apart(&mut self) -> Batch<'_, R, A, B> {
        Batch {
            table: self.table,
            vcs: self.vcs,
            cold: self.cold,
            skipped: self.skipped,
            clients: self.clients,
            stats: self.stats,
            unknown: self.unknown,
            hec: self.hec,
            replies: self.replies,
            paths: self.paths,
            loopbacks: self.loopbacks,
            timeouts: self.timeouts,
            wanting: self.wanting,
            board: self.board,
            form: self.form,
            port: self.port,
            format: self.format,
            arrival: self.arrival,
            cells: &mut [],
        }
    }

    /// Takes `count` cells from `at` on, with one header, that no VC receives.
    #[cold]
    #[inline(never)]
    pub(super) fn take_strays<const STRIDE: usize>(
        mut self,
        cells: &[[u8; STRIDE]],
        at: usize,
        count: usize,
    ) {
        let cells = cells.get(at..at + count).unwrap_or_default();
        let count = cells.len() as u32;
        let Some(&header) = cells.first().and_then(|cell| cell.first_chunk()) else {
            return;
        };
        let header = Header::parse(header);
        let address = header.address(self.form);
        if header.kind(self.form) != HeaderKind::Assigned
            && !self.board.planted(Planted::IdleAsUnknown)
        {
            self.discard(Discard::Idle, count);
            return;
        }
        let transmitter = match header.word() & Header::NOT_USER {
            0 => None,
            _ => self.transmitter(address),
        };
        let flow = OamFlow::of_vci(address.vci());
        if transmitter.is_none() && flow.is_none() {
            *self.unknown = Some(address);
            self.discard(Discard::UnknownVc, count);
            if self.board.planted(Planted::UnknownVcTold) {
                self.tell_of_stranger();
            }
            return;
        }
        for cell in cells {
            if let Some(vc) = transmitter {
                self.take_oam_of(vc, header, cell);
            } else if let Some(flow) = flow {
                self.take_oam_of_path(address, flow, cell);
            }
        }
    }

    /// Tells the first client of a cell of nobody's: a bug on purpose.
    fn tell_of_stranger(&mut self) {
        let event = Event {
            kind: EventKind::PduReceived,
            interruptive: true,
            vc: VcId {
                index: VcIndex(0),
                generation: 0,
            },
            cells: 1,
            value: 0,
            time: self.arrival.now,
        };
        let notice = Notice {
            client: AttachmentIndex(0),
            event,
            urgency: Urgency::Interruptive,
            guaranteed: false,
        };
        self.clients
            .post(self.arrival.now, self.board, self.stats, notice);
    }

    /// The VC that transmits under an address of the port in hand, if its OAM cells are such.
    fn transmitter(&self, address: VpiVci) -> Option<usize> {
        let mut vc = self.table.transmitter(self.port, address);
        if self.board.planted(Planted::TransmitterOnAnyPort) {
            vc = vc.or(self.table.transmitter(PortIndex(0), address));
        }
        let vc = usize::from(vc?.0);
        let request = &self.cold.get(vc)?.as_ref()?.request;
        let deaf = request.aal == Aal::Aal0 || self.board.planted(Planted::TransmitterDeaf);
        (!deaf).then_some(vc)
    }

    fn take_oam_of(&mut self, vc: usize, header: Header, cell: &[u8]) {
        let (Some(Some(vc)), Some(cold)) = (self.vcs.get_mut(vc), self.cold.get_mut(vc)) else {
            return;
        };
        let reception = Reception {
            table: self.table,
            clients: self.clients,
            stats: self.stats,
            vc,
            cold,
            arrival: self.arrival,
            format: self.format,
            board: self.board,
        };
        reception.oam(header, cell, self.replies, self.loopbacks);
    }

    fn take_oam_of_path(&mut self, address: VpiVci, flow: OamFlow, cell: &[u8]) {
        let port = self.port;
        let mut unused = oam::police();
        let mut police = self.paths.police(port, address.vpi());
        if self.board.planted(Planted::EveryPathAnswers) {
            police = police.or(Some(&mut unused));
        }
        let mut desk = Desk {
            arrival: self.arrival,
            replies: self.replies,
            loopbacks: self.loopbacks,
            board: &*self.board,
        };
        let route = Route {
            port,
            address,
            flow,
        };
        let taken = match police {
            Some(police) => desk.take(route, police, cell),
            None => Err(Discard::UnknownVc),
        };
        match taken {
            Ok(()) => {
                self.stats.cells_answered += 1;
                self.board.charge(Work::AnswerOam, 1);
                self.board.judged(CellOutcome::Answered, 1);
            }
            Err(reason) => self.discard(reason, 1),
        }
    }
}
