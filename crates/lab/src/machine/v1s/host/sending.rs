//! Blocks that leave: MSDL's cells, word by word to the station, or by the DMA.

use cellgate_core::upper::msna::Leaving;
use cellgate_core::wire::{CBN_CELL_LEN, Mssar};

use super::{Application, Charge, Doing, Host, Station};
use crate::cbn::CbnBug;

impl<A: Application> Host<A> {
    /// Makes the next cell.
    pub(super) fn sends(&mut self) {
        let mut cell = [0; CBN_CELL_LEN];
        let [high, low, payload @ ..] = &mut cell;
        if let Some(leaving) = self.msdl.poll_cell(&mut self.below, payload) {
            [*high, *low] = leaving.vci.to_be_bytes();
            if self.has(CbnBug::RidForgotten) {
                cell[3] &= 3;
            }
            self.pays();
            self.stack.push(Doing::Writes(leaving, cell, 0));
        }
    }

    /// A cell has left, or is lost.
    fn wrote(&mut self, leaving: Leaving, cell: [u8; CBN_CELL_LEN]) {
        self.counts.cells_written += 1;
        let again = self.has(CbnBug::CellTwice) && !std::mem::replace(&mut self.is_again, true);
        if leaving.is_last && again {
            self.stack.push(Doing::Writes(leaving, cell, 0));
            return;
        }
        self.is_again = false;
        if leaving.is_last {
            self.counts.sent_blocks += 1;
            self.application.sent(self.at);
        } else {
            self.sends();
        }
    }

    pub(super) fn writes(
        &mut self,
        station: &mut Station,
        leaving: Leaving,
        cell: [u8; CBN_CELL_LEN],
        at: usize,
    ) {
        let (words, _) = cell.as_chunks::<4>();
        let is_second = !Mssar::parse([cell[2], cell[3]]).start && self.left_out == Some(true);
        if self.has(CbnBug::CellLeftOut) && at == 0 {
            self.left_out = Some(Mssar::parse([cell[2], cell[3]]).start);
            if is_second {
                return self.wrote(leaving, cell);
            }
        }
        let Some(word) = words.get(at) else {
            return self.wrote(leaving, cell);
        };
        if let Some(dma) = self.spec.dma {
            let is_error = self.at < self.copies_until;
            if is_error && !self.has(CbnBug::NoBusError) {
                self.counts.bus_errors += u64::from(!self.has(CbnBug::BusErrorUncounted));
                return self.wrote(leaving, cell);
            }
            if at > 0 {
                let from = at - usize::from(self.has(CbnBug::DmaOfNineWords));
                station.copy(self.at, leaving.channel, &words[from..], &dma);
                self.copies_until = self.at.plus(dma.cell());
                if dma.locks && !self.has(CbnBug::BusUnlocked) {
                    self.goes_on(Charge::Dma, self.copies_until);
                }
                return self.wrote(leaving, cell);
            }
        }
        let written = station.write(self.at, leaving.channel, *word);
        let next = at + usize::from(written.is_some());
        self.stack.push(Doing::Writes(leaving, cell, next));
        self.went(written);
    }
}
