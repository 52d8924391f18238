//! Reception of AAL3/4 (I.363.3): PDUs with different MIDs, interleaved on one VC.
//!
//! A PDU is judged at its first cell, as with AAL5. It is charged cell by cell: others begin before
//! it ends, and must find what it has used.

use super::aal0::Ends;
use super::reassembly::{Reception, known};
use super::timeouts::Timeouts;
use super::vc::{Standing, Tell};
use super::{Board, CellOutcome, Discard, PduEnd, Planted, Region, Work};
use crate::aal::aal34::{Discard as Reason, Failed, Outcome, Received, Verdict};
use crate::queue::{ReceiveDescriptor, Words};
use crate::wire::{Checked, Header, PAYLOAD_LEN, SarPdu};

/// A cell of the VC.
struct Cell {
    sar: Checked<SarPdu>,
    header: Header,
}

impl Cell {
    fn begins(&self) -> bool {
        self.sar.crc_valid && self.sar.value.segment_type.begins()
    }
}

impl<R: Region, B: Board<Region = R>> Reception<'_, R, B> {
    /// Takes one cell of user data.
    #[inline(never)]
    pub(super) fn aal34(mut self, header: Header, cell: &[u8], timeouts: &mut Timeouts) {
        let Some(payload) = cell.last_chunk::<PAYLOAD_LEN>() else {
            return;
        };
        let mut sar = SarPdu::parse(payload);
        sar.crc_valid |= self.board.planted(Planted::Crc10NotChecked);
        let cell = Cell { sar, header };
        let mid = cell.sar.value.mid;
        let overloaded =
            cell.begins() && self.arrival.overloaded && self.apart().gives_way(header.clp());
        let standing = if overloaded {
            Standing::None
        } else if cell.begins() {
            self.judge_first(header.clp())
        } else {
            self.standing_of(mid)
        };
        let refused = match overloaded {
            true => Some(Reason::Overload),
            false => (cell.begins() && standing == Standing::None).then_some(Reason::Refused),
        };
        let Some(outcome) = self.reassemble(&cell, refused, timeouts) else {
            return;
        };
        if let Some(failed) = outcome.failed {
            self.give_up(failed);
        }
        self.vc.receiver.flags.standing = standing;
        match outcome.cell {
            Verdict::Held => self.hold(&cell),
            Verdict::Delivered(received) => self.deliver_aal34(&cell, &received),
            Verdict::Refused(reason) => self.refuse_aal34(reason.into()),
            Verdict::Discarded(reason) => self.discard(reason.into(), 1),
        }
        // Between cells no PDU is more in progress than others.
        self.vc.receiver.flags.standing = Standing::None;
    }

    /// How a PDU stands whose first cell has this loss priority; looks whether the client has given
    /// space back if it might be needed.
    fn judge_first(&mut self, clp: bool) -> Standing {
        let mut standing = self.police(clp);
        if standing == Standing::None && self.board.planted(Planted::Aal34Unpoliced) {
            standing = Standing::Peak;
        }
        if standing != Standing::None && self.is_short() {
            self.apart().refresh();
        }
        standing
    }

    fn is_short(&mut self) -> bool {
        let reassembler = self.vc.region.aal34();
        reassembler.is_some_and(|(reassembler, _)| reassembler.is_short())
    }

    /// How the PDU in progress on `mid` stands.
    fn standing_of(&mut self, mid: u16) -> Standing {
        let reassembler = self.vc.region.aal34();
        let pdu = reassembler.and_then(|(reassembler, _)| reassembler.in_progress(mid));
        pdu.map_or(Standing::None, |pdu| Standing::of_mark(pdu.mark))
    }

    fn reassemble(
        &mut self,
        cell: &Cell,
        refused: Option<Reason>,
        timeouts: &mut Timeouts,
    ) -> Option<Outcome> {
        let (reassembler, buffer) = self.vc.region.aal34()?;
        if let Some(reason) = refused {
            return Some(reassembler.refuse(&cell.sar, reason));
        }
        let now = self.arrival.now;
        let outcome = reassembler.receive(now, buffer, &cell.sar, cell.header.clp());
        timeouts.note(reassembler.deadline());
        Some(outcome)
    }

    /// The first cell of a PDU that was let in.
    fn begin_aal34(&mut self) {
        let standing = self.vc.receiver.flags.standing;
        let ignored = self.board.planted(Planted::EarliestIgnored);
        let arrival = self.arrival;
        self.catch_up(if ignored {
            arrival.now
        } else {
            arrival.earliest
        });
        let kept = self.board.planted(Planted::Aal34LeaseNotCounted);
        if standing == Standing::Lent && !kept {
            known(self.cold).lease.pdus -= 1;
        }
    }

    /// A cell of a PDU in progress.
    fn hold(&mut self, cell: &Cell) {
        let mid = cell.sar.value.mid;
        if cell.begins() {
            self.begin_aal34();
            let mark = self.vc.receiver.flags.standing.mark();
            if let Some((reassembler, _)) = self.vc.region.aal34() {
                reassembler.mark(mid, mark);
            }
        }
        if cell.begins() || !self.board.planted(Planted::Aal34ChargedOnce) {
            self.charge(1);
        }
        self.stats.cells_held += 1;
        known(self.cold).stats.cells_held += 1;
        self.board.charge(Work::ReceiveCells, 1);
        self.board.judged(CellOutcome::Accepted, 1);
        self.tell_progress_on(mid);
    }

    fn tell_progress_on(&mut self, mid: u16) {
        let tell = self.vc.receiver.flags.tell;
        if tell == Tell::Nothing {
            return;
        }
        let Some((reassembler, _)) = self.vc.region.aal34() else {
            return;
        };
        let pdu = reassembler.in_progress(mid);
        let mut cells = pdu.map_or(0, |pdu| u32::from(pdu.cells));
        let first = cells == 1;
        if self.board.planted(Planted::ProgressOfAllMids) {
            cells = reassembler.held_cells();
        }
        if tell == Tell::Every || first {
            self.apart().tell(cells);
        }
    }

    /// The last cell of a PDU, or its only one.
    fn deliver_aal34(&mut self, cell: &Cell, received: &Received) {
        if cell.begins() {
            self.begin_aal34();
        }
        if cell.begins() || !self.board.planted(Planted::Aal34ChargedOnce) {
            self.charge(1);
        }
        let tagged = self.is_tagged();
        let receiver = &mut self.vc.receiver;
        let standing = receiver.flags.standing;
        let congested =
            cell.header.word() & (Header::NOT_USER | Header::CONGESTED) == Header::CONGESTED;
        let lost = self.board.planted(Planted::MidLost);
        let descriptor = ReceiveDescriptor {
            position: received.position,
            time: self.arrival.now,
            len: received.len.into(),
            cells: received.cells.into(),
            generation: known(self.cold).vc.generation,
            uu: 0,
            cpi: 0,
            clp: received.cells_clp1 > 0 || tagged,
            congestion: congested,
            lent: standing == Standing::Lent,
            mid: if lost { 0 } else { received.mid },
        };
        let from_adapter = self.vc.region.from_adapter();
        from_adapter.copy_in(receiver.queue.slot_at(0), &descriptor.emit());
        receiver.queue.publish(from_adapter, 1);
        let head = receiver.queue.head();

        let cells = u64::from(received.cells);
        self.stats.cells_held -= cells - 1;
        self.stats.cells_delivered += cells;
        let stats = &mut known(self.cold).stats;
        stats.cells_held -= cells - 1;
        self.count_delivered(received.cells.into(), received.cells_clp1, standing);
        self.board.charge(Work::ReceiveCells, 1);
        self.board.charge(Work::ReceivePdu, 1);
        self.board.judged(CellOutcome::Delivered, 1);
        let cells = received.cells.into();
        self.tell_end(PduEnd::Delivered { pdus: 1, cells });
        self.tell_delivery(cells, Ends::of_pdu(cells), head);
    }

    /// The first cell of a PDU that was not let in.
    fn refuse_aal34(&mut self, reason: Discard) {
        self.count_discarded(reason);
        let full = matches!(reason, Discard::BufferFull | Discard::QueueFull);
        if full && !self.board.planted(Planted::Aal34FullSilent) {
            self.apart().tell_full();
        }
        self.discard(reason, 1);
    }

    /// Counts a PDU that was in progress.
    fn give_up(&mut self, failed: Failed) {
        let wrongly =
            failed.reason == Reason::MissingEom && self.board.planted(Planted::MissingEomAsLength);
        let reason = if wrongly {
            Discard::LengthError
        } else {
            failed.reason.into()
        };
        let cells = u64::from(failed.cells);
        self.stats.cells_held -= cells;
        self.stats.cells_discarded.add(reason, cells);
        let stats = &mut known(self.cold).stats;
        stats.cells_held -= cells;
        stats.cells_discarded.add(reason, cells);
        self.count_discarded(reason);
    }

    /// Gives up PDUs that are late; when to look again.
    pub(super) fn expire(&mut self) -> Option<crate::Time> {
        loop {
            let (reassembler, _) = self.vc.region.aal34()?;
            let Some(failed) = reassembler.poll_timeout(self.arrival.now) else {
                return reassembler.deadline();
            };
            self.give_up(failed);
        }
    }

    /// Ends all PDUs in progress because their memory goes.
    pub(super) fn abandon_all(&mut self) {
        while let Some(failed) = self
            .vc
            .region
            .aal34()
            .and_then(|(reassembler, _)| reassembler.poll_close())
        {
            self.give_up(failed);
        }
    }
}
