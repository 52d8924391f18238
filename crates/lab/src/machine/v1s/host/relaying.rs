//! A bridge by cell: what comes on a circuit goes on in another, each cell when it has been read.

use cellgate_core::upper::msna::{Access, Work};
use cellgate_core::wire::CBN_CELL_LEN;

use super::{Application, Doing, Host, Station};

/// The circuit in which cells go on, and the channel of its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Onward {
    pub vci: u16,
    pub channel: u8,
}

impl<A: Application> Host<A> {
    /// Cells of this circuit go on from now on. They are put together by nobody here.
    pub fn relays(&mut self, vci: u16, onward: Onward) {
        self.relays.insert(vci, onward);
    }

    /// A cell has been read that goes on: its header is looked at, and another is made.
    pub(super) fn takes_on(&mut self, mut cell: [u8; CBN_CELL_LEN], onward: Onward) {
        let [high, low, ..] = &mut cell;
        [*high, *low] = onward.vci.to_be_bytes();
        self.below.work(Work::ReceiveCell);
        self.below.work(Work::TransmitCell);
        self.pays();
        self.stack.push(Doing::Relays(cell, onward.channel, 0));
    }

    pub(super) fn goes_on_with(
        &mut self,
        station: &mut Station,
        cell: [u8; CBN_CELL_LEN],
        channel: u8,
        at: usize,
    ) {
        let (words, _) = cell.as_chunks::<4>();
        let Some(word) = words.get(at) else {
            self.counts.cells_written += 1;
            let until = self.at.plus(self.dally());
            self.stack.push(Doing::Looks(until));
            return;
        };
        let written = station.write(self.at, channel, *word);
        let next = at + usize::from(written.is_some());
        self.stack.push(Doing::Relays(cell, channel, next));
        self.went(written);
    }
}
