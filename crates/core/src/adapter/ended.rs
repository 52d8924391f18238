//! The end of a PDU, as its VC counts it and the board is told.

use super::reassembly::{Reception, known};
use super::{Board, Discard, Region};

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
