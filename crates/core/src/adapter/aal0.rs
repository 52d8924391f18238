//! Reception of AAL0: every cell is a PDU. Cells may make up blocks, which matter only to whom is
//! told of them.

use serde::{Deserialize, Serialize};

use super::reassembly::{Reception, known};
use super::{Board, Notification, Planted, Region, Work};
use crate::aal::{Memory, aal0};
use crate::wire::{Header, Mssar, PAYLOAD_LEN};

/// Marks of the cells of an AAL0 VC that [`Notification`] is about.
///
/// The adapter tells of blocks, and puts none together. Cells at which nobody is told wait in the
/// receive queue, as in the interface of the Cambridge Backbone Ring (Greaves, Zielinski 1991,
/// section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Marks {
    /// Nothing: every cell is the first and the last of its PDU.
    #[default]
    None,
    /// MSSAR ([`Mssar`]): a cell with Start is a block's first, one with Sequence 1 its last.
    /// [`Notification::Silent`] is of both, so that the longest delay tells of a block whose last
    /// cell is lost.
    Mssar,
}

/// Which ends of a PDU, or of a block that is marked, lie in the cells that were delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) first: bool,
    pub(super) last: bool,
}

impl Ends {
    /// Of a PDU in `cells` cells that was told of before its last.
    #[inline(always)]
    pub(super) const fn of_pdu(cells: u32) -> Self {
        Self {
            first: cells == 1,
            last: true,
        }
    }

    /// Whether somebody who is to be told by `notification` is told of them.
    #[inline(always)]
    pub(super) const fn tells(self, notification: Notification) -> bool {
        match notification {
            Notification::EveryCell => true,
            Notification::FirstCell => self.first,
            Notification::LastCell => self.last,
            Notification::FirstAndLastCell | Notification::Silent { .. } => self.first || self.last,
            Notification::Polled => false,
        }
    }
}

impl<R: Region, B: Board<Region = R>> Reception<'_, R, B> {
    /// Takes one cell of an AAL0 VC.
    pub(super) fn aal0(mut self, header: Header, cell: &[u8]) {
        if let Err(reason) = self.begin(header) {
            self.refuse(reason);
            self.discard(reason, 1);
            return;
        }
        let offset = self.offset();
        let Some(sdu) = aal0::receive(cell, self.format) else {
            return;
        };
        let ends = sdu
            .last_chunk()
            .map_or(Ends::of_pdu(1), |payload| self.ends(header, payload));
        self.vc.region.receive_buffer().write(offset, &sdu);
        self.stats.cells_held += 1;
        self.board.charge(Work::ReceiveCells, 1);
        self.vc.receiver.cells_clp1 += u16::from(header.clp());
        self.publish(header, aal0::SDU_LEN as u32, 1, ends, 0, 0);
    }

    /// Those that lie in an AAL0 cell.
    fn ends(&mut self, header: Header, payload: &[u8; PAYLOAD_LEN]) -> Ends {
        let marks = known(self.cold)
            .request
            .receive
            .map(|receive| receive.marks);
        if marks != Some(Marks::Mssar) {
            return Ends::of_pdu(1);
        }
        let [sequence, flags, ..] = *payload;
        let mssar = Mssar::parse([sequence, flags]);
        let mut ends = Ends {
            first: mssar.start && !self.board.planted(Planted::StartMissed),
            last: mssar.is_last(),
        };
        if self.board.planted(Planted::LastAtSequence0) {
            ends.last = mssar.sequence == 0;
        }
        if self.board.planted(Planted::EitherMarkAsBoth) {
            let either = ends.first || ends.last;
            (ends.first, ends.last) = (either, either);
        }
        if self.board.planted(Planted::MarkOfHeader) {
            ends.last = header.is_last();
        }
        ends
    }
}
