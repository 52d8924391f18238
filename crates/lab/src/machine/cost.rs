use cellgate_core::adapter::Work;
use cellgate_report::{Rational, dec};

use crate::world::Ps;

/// Processor cycles, to a thousandth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cycles(u64);

impl Cycles {
    pub const fn whole(cycles: u64) -> Self {
        Self(cycles * 1_000)
    }

    /// The next lower thousandth of a number that is not negative.
    pub fn of(cycles: Rational) -> Self {
        let thousandths = (cycles * Rational::whole(1_000)).floor();
        Self(u64::try_from(thousandths).unwrap_or(0))
    }

    /// As a number.
    pub fn number(self) -> Rational {
        Rational::new(self.0.into(), 1_000)
    }

    /// The time they take on the i960 of the board.
    pub const fn time(self) -> Ps {
        Ps::new(self.0 * (I960_CYCLE_PS / 1_000))
    }

    const fn times(self, n: u64) -> Self {
        Self(self.0 * n)
    }

    pub const fn add(&mut self, other: Self) {
        self.0 += other.0;
    }
}

/// Cycles per second of the i960CA (section 3.2).
pub const I960_CYCLE_S: u64 = 25_000_000;
/// Picoseconds of one of them.
const I960_CYCLE_PS: u64 = 1_000_000_000_000 / I960_CYCLE_S;

/// Cycles of a cell's burst to or from the ESP: twelve words (section 6.2).
pub const BURST_CYCLES: u64 = 12;
/// Receive and transmit FIFOs of the board.
pub const FIFOS: usize = 4;

/// What work costs the i960 of a PCA-200E.
///
/// Table 1 and the loop that discards are the paper's. The paper does not say what a cell and a
/// PDU cost altogether. Two of its claims bound both: PDUs of three cells reach 100,000 cells/s, so
/// `3 c_cell + c_pdu <= 750`, and the line is filled from 1,024 octets on, so `22 c_cell + c_pdu =
/// 1,557`. Both are tight only for [`Costs::PAPER`]: a cell costs [`BURST_CYCLES`] at the ESP and
/// the rest on the PCI bus, a PDU its tasks of Table 1 and the rest in descriptors and events,
/// across the PCI bus, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Looking whether any receive FIFO holds cells.
    pub test_receive_fifos: Cycles,
    /// Looking through all transmit queues while they are empty.
    pub parse_empty: Cycles,
    /// Taking a PDU into an empty queue.
    pub enqueue_to_empty: Cycles,
    /// Taking a PDU into a queue.
    pub enqueue: Cycles,
    /// Taking a PDU off its queue.
    pub dequeue: Cycles,
    /// Removing a cell from its FIFO unread.
    pub discard_cell: Cycles,
    /// All that a cell costs, received or transmitted. Calibrated.
    pub cell: Cycles,
    /// All that a PDU costs beside its cells, received or transmitted. Calibrated.
    pub pdu: Cycles,
    /// Choosing whose cells leave next, where a FIFO has several connections. Derived.
    pub schedule: Cycles,
    /// Finding what an address belongs to. A table's is in the cost of a cell.
    pub lookup: Cycles,
    /// Removing all cells that are to go at once by the FIFO's pointers (section 5.3); none: they
    /// are read, each for [`Self::discard_cell`].
    pub discard_block: Option<Cycles>,
}

impl Costs {
    /// Of the paper, with the two calibrated ones.
    pub const PAPER: Self = Self {
        test_receive_fifos: Cycles::whole(5),
        parse_empty: Cycles::whole(28),
        enqueue_to_empty: Cycles::whole(21),
        enqueue: Cycles::whole(38),
        dequeue: Cycles::whole(34),
        discard_cell: Cycles::whole(12),
        cell: Cycles(42_500),
        pdu: Cycles::whole(623),
        schedule: Self::TASKS_OF_A_CHOICE,
        lookup: Cycles::whole(0),
        discard_block: None,
    };

    /// The paper gives no cost of a cell-level scheduler. It does for a cell what the firmware does
    /// for a PDU: it parses the queues, takes one out and puts it back (Table 1).
    const TASKS_OF_A_CHOICE: Cycles = Cycles::whole(28 + 34 + 38);

    /// Cycles of a cell, calibrated: `dec("42.5")`.
    pub const CELL: Rational = dec("42.5");
    /// Cycles of a PDU, calibrated.
    pub const PDU: Rational = dec("623");

    /// The same with other calibrated costs.
    pub fn calibrated(cell: Rational, pdu: Rational) -> Self {
        Self {
            cell: Cycles::of(cell),
            pdu: Cycles::of(pdu),
            ..Self::PAPER
        }
    }

    /// The tasks of Table 1 that every PDU brings.
    fn tasks_of_pdu(&self) -> Cycles {
        Cycles(self.test_receive_fifos.0 + self.enqueue.0 + self.dequeue.0)
    }

    /// What the adapter's work costs, done so often at once. It looks at the FIFOs one by one, the
    /// board at all at once.
    pub(super) fn of(&self, work: Work, times: u64) -> Cycles {
        let fifos = FIFOS as u64;
        let one = match work {
            Work::TestReceiveFifos => Cycles(self.test_receive_fifos.0 / fifos),
            Work::ParseEmptyTransmitQueues => Cycles(self.parse_empty.0 / fifos),
            Work::EnqueueToEmpty => self.enqueue_to_empty,
            Work::Enqueue => self.enqueue,
            Work::Dequeue => self.dequeue,
            Work::DiscardCells => match self.discard_block {
                Some(block) => return block,
                None => self.discard_cell,
            },
            Work::Lookup => self.lookup,
            Work::Schedule => self.schedule,
            Work::ReceiveCells | Work::TransmitCells | Work::AnswerOam => self.cell,
            Work::ReceivePdu => self.tasks_of_pdu(),
            Work::PostEvent => Cycles(self.pdu.0.saturating_sub(self.tasks_of_pdu().0)),
            // Rare, and the paper does not time it.
            Work::HandleCommand => Cycles(0),
        };
        one.times(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_constants_make_both_claims_tight() {
        let Costs { cell, pdu, .. } = Costs::PAPER;
        assert_eq!((cell.number(), pdu.number()), (Costs::CELL, Costs::PDU));
        let cycles = |cells: i128| cell.number() * Rational::whole(cells) + pdu.number();
        let per_s = Rational::from(I960_CYCLE_S);
        // Three cells in the time of three at 100,000 cells/s, to one cycle.
        assert!((cycles(3) - per_s * dec("0.00003")).abs() <= dec("1"));
        // 1,024 octets in the time of their cells on the line, to two.
        let line = per_s * dec("22") * dec("424") / dec("149760000");
        assert!((cycles(22) - line).abs() <= dec("2"));
    }

    #[test]
    fn a_pdu_costs_what_is_said_either_way() {
        let costs = Costs::PAPER;
        let sum = |works: &[Work]| works.iter().map(|work| costs.of(*work, 1).0).sum::<u64>();
        let received = sum(&[Work::ReceivePdu, Work::PostEvent]);
        let sent = sum(&[Work::Enqueue, Work::Dequeue, Work::PostEvent]);
        assert_eq!(received, costs.pdu.0);
        assert_eq!(sent + costs.test_receive_fifos.0, costs.pdu.0);
    }
}
