//! Cells that come: the interrupt handler's work, and the blocks that it hands on.

use cellgate_core::upper::msna::{Access, Received, Work};
use cellgate_core::wire::CBN_CELL_LEN;

use super::{Application, Charge, Doing, Host, Order, Station};
use crate::cbn::CbnBug;
use crate::world::Ps;

impl<A: Application> Host<A> {
    /// How long the handler waits for another cell.
    pub(super) fn dally(&self) -> Ps {
        let dally = self.spec.dally;
        match self.bug {
            Some(CbnBug::DallyDoubled) => dally.plus(dally),
            _ => dally,
        }
    }

    /// A block that has come is the application's.
    pub(super) fn hands_on(&mut self, received: Received) {
        self.spends(Charge::ReceivedBlock, self.spec.costs.received_block);
        self.counts.received_blocks += 1;
        self.counts.received_octets += received.block.len() as u64;
        let vci = received.association.vci();
        let block = match self.bug {
            Some(CbnBug::BlockCutShort) => received.block.split_last().map_or(&[][..], |cut| cut.1),
            _ => &received.block,
        };
        self.application.received(self.at, vci, block);
        if self.has(CbnBug::BlockTwice) && self.counts.received_blocks.is_multiple_of(3) {
            self.application.received(self.at, vci, block);
        }
        self.msdl.recycle(received);
    }

    pub(super) fn looks(&mut self, station: &mut Station, until: Ps) {
        if station.has_cell() {
            self.stack.push(Doing::Reads([0; CBN_CELL_LEN], 0));
        } else if self.at < until {
            self.stack.push(Doing::Looks(until));
            // A look takes an instruction, and no less than a cycle of the RAM.
            let look = self.spec.costs.receives(1);
            self.spends(Charge::Looks, look.max(station.spec().cycle));
        } else {
            // What has interrupted meanwhile was read.
            station.acknowledge(self.at);
        }
    }

    pub(super) fn reads(&mut self, station: &mut Station, mut cell: [u8; CBN_CELL_LEN], at: usize) {
        let read = station.read(self.at);
        let (words, _) = cell.as_chunks_mut::<4>();
        let count = words.len();
        if let (Some(to), Some((word, _))) = (words.get_mut(at), read) {
            *to = word;
        }
        let next = at + usize::from(read.is_some());
        self.stack.push(match next {
            _ if next == count => Doing::Takes(cell),
            _ => Doing::Reads(cell, next),
        });
        self.went(read.map(|(_, at)| at));
    }

    /// A cell has been read.
    pub(super) fn takes(&mut self, cell: &[u8; CBN_CELL_LEN]) {
        self.counts.cells_read += 1;
        let mut cell = *cell;
        match self.bug {
            Some(CbnBug::RidIgnored) => cell[3] &= 3,
            Some(CbnBug::PartIgnored) => cell[3] &= !2,
            Some(CbnBug::CountOctetEarly) if cell[3] & 2 != 0 => {
                cell[CBN_CELL_LEN - 1] = cell[CBN_CELL_LEN - 2];
            }
            _ => {}
        }
        if self.application.takes_cell(self.at, &cell) {
            self.below.work(Work::ReceiveCell);
            self.pays();
            self.may_send = self.spec.order == Order::InTurn;
            if !self.may_send {
                let until = self.at.plus(self.dally());
                self.stack.push(Doing::Looks(until));
            }
            return;
        }
        let [high, low, payload @ ..] = &cell;
        let vci = u16::from_be_bytes([*high, *low]);
        if let Some(onward) = self.relays.get(&vci) {
            return self.takes_on(cell, *onward);
        }
        let now = self.at.time();
        self.msdl.handle_cell(now, &mut self.below, vci, payload);
        self.pays();
        let counts = self.msdl.counts();
        self.counts.discarded = counts.discarded.total();
        if let Some(received) = self.msdl.poll_received() {
            self.come.push_back(received);
            if self.spec.order == Order::InTurn {
                self.may_send = true;
                return;
            }
        }
        let until = self.at.plus(self.dally());
        self.stack.push(Doing::Looks(until));
        if self.has(CbnBug::AcknowledgedLate) && !self.come.is_empty() {
            self.stack.pop();
        }
    }
}
