//! A PDU that crosses a memory link between two ports of one adapter as a whole: it is judged,
//! counted and told as its cells would be, and its octets are copied once, from the sender's
//! transmit buffer to the receiver's.
//!
//! ```text
//!                    .-> as cells: stage, CRC, FIFO, lookup, police, copy, CRC -.
//!  transmit queue ---+                                                          +-> receive queue
//!                    '-> whole:                     lookup, police, copy -------'
//! ```
//!
//! Only the plain case crosses: nothing is on the way, all cells are granted at once, AAL5
//! receives, and there is room. Everything else goes as cells, so that what is rare is done in one
//! place. A PDU of more cells than a port sends in a step has a step of its port for itself: it
//! takes a third of the time that its cells would. A PDU that crosses needs no CRC: its octets were
//! never on a line.

use super::aal0::Ends;
use super::firmware::TRANSMIT_BUDGET;
use super::reassembly::{Arrival, Reception};
use super::transmit::{Turn, header_of, take_off};
use super::vc::Framing;
use super::{Aal, Attachment, Board, CellOutcome, PortIndex, Region, VcIndex, Work};
use crate::aal::Memory;
use crate::contract::aal5_cells;
use crate::queue::TransmitDescriptor;
use crate::wire::{Header, HeaderForm, PAYLOAD_LEN};

/// The way from the port in hand to another of the same board.
pub(super) struct Crossing {
    pub(super) to: PortIndex,
    pub(super) form: HeaderForm,
    /// Of what crosses.
    pub(super) arrival: Arrival,
    /// Cells that the other port may yet receive in this step.
    pub(super) room: u32,
    /// Cells that have crossed.
    pub(super) cells: u32,
}

/// What became of a PDU that might cross.
pub(super) enum Crossed {
    /// It did, or was refused.
    Whole,
    /// The next step will have room for it.
    Later,
    /// It has to go as cells.
    AsCells,
}

/// From where to where a PDU crosses.
struct Way {
    from: usize,
    to: usize,
    header: Header,
    cells: u32,
}

impl<R, A, B> Turn<'_, R, A, B>
where
    R: Region,
    A: Attachment,
    B: Board<Region = R, Attachment = A>,
{
    /// Lets the next SDU of `vc`, which has the turn, cross if it can.
    #[inline(never)]
    pub(super) fn cross(&mut self, vc: VcIndex, sdu: &TransmitDescriptor) -> Crossed {
        let cells = aal5_cells(sdu.len);
        let Some(crossing) = &self.crossing else {
            return Crossed::AsCells;
        };
        let room = self.space.min(crossing.room);
        // One that no step has room for takes all of it.
        if cells.min(TRANSMIT_BUDGET) > room {
            return match crossing.cells {
                0 => Crossed::AsCells,
                _ => Crossed::Later,
            };
        }
        if self.schedule.grant_whole(self.now, self.port, cells) != Some(vc) {
            return Crossed::AsCells;
        }
        let Some(way) = self.way(vc, sdu, cells) else {
            return Crossed::AsCells;
        };
        self.leave(&way, vc, sdu);
        self.arrive(&way, sdu);
        self.complete(vc, cells);
        Crossed::Whole
    }

    /// The way of a PDU that is sure to arrive, or to be refused, as a whole.
    fn way(&mut self, vc: VcIndex, sdu: &TransmitDescriptor, cells: u32) -> Option<Way> {
        let crossing = self.crossing.as_ref()?;
        let from = usize::from(vc.0);
        let cold = self.cold.get(from)?.as_ref()?;
        let header = header_of(cold, sdu, self.board);
        let entry = self
            .table
            .lookup(crossing.to, header.address(crossing.form));
        let plain = cold.request.aal == Aal::Aal5 && cold.abr.is_none();
        if !plain || !entry.is_accepting() {
            return None;
        }
        let way = Way {
            from,
            to: usize::from(entry.vc().0),
            header,
            cells,
        };
        let holds = self.reception(&way)?.holds_whole(cells, sdu.len);
        holds.then_some(way)
    }

    fn reception(&mut self, way: &Way) -> Option<Reception<'_, R, B>> {
        Some(Reception {
            table: self.table,
            clients: self.clients,
            stats: self.stats,
            vc: self.vcs.get_mut(way.to)?.as_mut()?,
            cold: self.cold.get_mut(way.to)?,
            arrival: self.crossing.as_ref()?.arrival,
            format: self.format,
            board: self.board,
        })
    }

    /// The sender's half.
    fn leave(&mut self, way: &Way, vc: VcIndex, sdu: &TransmitDescriptor) {
        let (Some(Some(sender)), Some(Some(cold)), Some(crossing)) = (
            self.vcs.get_mut(way.from),
            self.cold.get_mut(way.from),
            &mut self.crossing,
        ) else {
            return;
        };
        let cells = way.cells;
        take_off(sender, sdu, self.board);
        self.schedule.sent(self.now, vc, cells);
        self.space = self.space.saturating_sub(cells);
        crossing.room = crossing.room.saturating_sub(cells);
        crossing.cells += cells;
        cold.stats.cells_transmitted += u64::from(cells);
        if way.header.clp() {
            cold.stats.cells_transmitted_clp1 += u64::from(cells);
        }
        cold.count_left(self.now);
        cold.stats.pdus_crossed += 1;
        self.stats.cells_transmitted += u64::from(cells);
        self.stats.cells_received += u64::from(cells);
        self.board.charge(Work::TransmitCells, cells);
        self.board.charge(Work::Dequeue, 1);
        self.board.charge(Work::Lookup, 1);
        self.board.crossed(self.port, crossing.to, cells);
    }

    /// The receiver's half.
    fn arrive(&mut self, way: &Way, sdu: &TransmitDescriptor) {
        let Some(mut reception) = self.reception(way) else {
            return;
        };
        if let Err(reason) = reception.begin(way.header) {
            reception.refuse(reason);
            reception.discard(reason, way.cells);
            return;
        }
        let at = reception.vc.receiver.offset as usize;
        let len = sdu.len as usize;
        if way.from == way.to {
            reception.vc.region.carry(sdu.offset, len, None, at);
        } else if let Ok([Some(from), Some(to)]) = self.vcs.get_disjoint_mut([way.from, way.to]) {
            from.region.carry(sdu.offset, len, Some(&mut to.region), at);
        }
        if let Some(reception) = self.reception(way) {
            reception.take_whole(way, sdu);
        }
    }
}

impl<R: Region, B: Board<Region = R>> Reception<'_, R, B> {
    /// Whether a PDU of `cells`, with an SDU of `len` octets, is held in whole if it is let in.
    fn holds_whole(&mut self, cells: u32, len: u32) -> bool {
        let receiver = &self.vc.receiver;
        let max_sdu = receiver.bounds.max_sdu;
        let stable = self.vc.region.receive_buffer().stable(0, 0).is_some();
        if receiver.flags.framing != Framing::Aal5
            || receiver.receiving()
            || len > max_sdu.into()
            || !stable
        {
            return false;
        }
        if !self.has_room(cells) {
            self.apart().refresh();
        }
        self.has_room(cells)
    }

    fn has_room(&self, cells: u32) -> bool {
        let receiver = &self.vc.receiver;
        let end = receiver.position + u64::from(cells) * PAYLOAD_LEN as u64;
        end <= receiver.limit
    }

    /// Takes a PDU that was let in and whose octets are in place.
    fn take_whole(mut self, way: &Way, sdu: &TransmitDescriptor) {
        if way.header.clp() {
            self.vc.receiver.cells_clp1 = way.cells as u16;
        }
        // The last cell is told with the PDU.
        let before = way.cells - 1;
        if before > 0 {
            self.count_held(before, before);
            self.board.judged(CellOutcome::Accepted, before);
            self.tell_progress(before);
        }
        self.count_held(1, way.cells);
        let ends = Ends::of_pdu(way.cells);
        self.publish(way.header, sdu.len, way.cells, ends, sdu.uu, sdu.cpi);
    }

    /// Holds `further` cells, `cells` in all.
    fn count_held(&mut self, further: u32, cells: u32) {
        self.vc.receiver.reassembler.hold(cells as u16);
        self.stats.cells_held += u64::from(further);
        self.board.charge(Work::ReceiveCells, further);
    }
}
