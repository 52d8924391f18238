//! The end of a PDU, as its VC counts it and the board is told.

use super::reassembly::{Reception, known};
use super::vc::Standing;
use super::{Board, Discard, Planted, Region};

/// The end of a PDU, or of PDUs in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PduEnd {
    /// They are in the receive queue: one, or a row of several of one cell each.
    Delivered {
        /// Their number.
        pdus: u32,
        /// Their cells together.
        cells: u32,
    },
    /// It was not let in, or given up.
    Discarded(Discard),
}

impl<R: Region, B: Board<Region = R>> Reception<'_, R, B> {
    /// Whether the PDU in progress is to be delivered with low priority because it is beyond the
    /// contract.
    #[inline(always)]
    pub(super) fn is_tagged(&self) -> bool {
        self.vc.receiver.flags.standing.is_tagged() && !self.board.planted(Planted::TagLost)
    }

    /// Counts a PDU that is delivered, of `cells` cells, `cells_clp1` of them of CLP 1.
    #[inline(always)]
    pub(super) fn count_delivered(&mut self, cells: u32, cells_clp1: u16, standing: Standing) {
        let stats = &mut known(self.cold).stats;
        stats.cells_delivered += u64::from(cells);
        stats.cells_delivered_clp1 += u64::from(cells_clp1);
        stats.pdus_delivered += 1;
        if standing == Standing::Lent {
            stats.pdus_lent += 1;
        } else if standing.is_tagged() {
            stats.pdus_tagged += 1;
        }
    }

    /// Counts a PDU that was not let in, or given up.
    #[inline(always)]
    pub(super) fn count_discarded(&mut self, reason: Discard) {
        known(self.cold).stats.pdus_discarded.add(reason, 1);
        self.tell_end(PduEnd::Discarded(reason));
    }

    #[inline(always)]
    pub(super) fn tell_end(&mut self, end: PduEnd) {
        let request = &known(self.cold).request;
        self.board.ended(request.port, request.address, end);
    }
}
