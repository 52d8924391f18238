use cellgate_core::terminal::Work;
use cellgate_report::{Rational, dec};

use crate::world::Ps;

/// What work costs the PC, in microseconds.
///
/// The paper gives rates of whole transfers. Each constant is what makes one of them come out; the
/// rest then has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pc386Costs {
    /// All that a cell costs, sent or received, with its flag looked at and its CRC made by the
    /// board.
    pub cell: Rational,
    /// A look at a flag; part of `cell`.
    pub poll: Rational,
    /// The board's interrupt, and a turn into and out of a queue.
    pub interrupt: Rational,
    pub enqueue: Rational,
    pub dequeue: Rational,
    /// A PDU, beside its cells.
    pub pdu: Rational,
    /// An octet that is copied from one layer to the next.
    pub copy: Rational,
    /// An octet's CRC.
    pub crc: Rational,
    /// An octet of a packet that crosses the bus, where the board makes the cells.
    pub bus: Rational,
}

/// Numbers of the paper, and what follows from them.
pub struct Pc386Work;

impl Pc386Work {
    /// Octets of payload in a cell of AAL3/4.
    pub const CELL_OCTETS: Rational = dec("44");
    /// Octets per second of the file transfer, as it was in the end (section 6.6).
    pub const FILE_OCTET_S: Rational = dec("410000");
    /// The same when the board was polled first (section 6.4), and with interrupts.
    pub const POLLED_OCTET_S: Rational = dec("330000");
    pub const INTERRUPT_OCTET_S: Rational = dec("250000");

    /// Microseconds of a cell at a rate of its octets.
    pub fn cell_us(octet_s: Rational) -> Rational {
        Self::CELL_OCTETS * dec("1000000") / octet_s
    }
}

impl Pc386Costs {
    /// A look at a flag: some instructions of a 386, ours.
    pub const POLL: Rational = dec("1");
    /// Of the interrupt's 42.7 us and the look that it spares: 25.7 for the interrupt, 9 for each
    /// turn of a queue. The paper has their sum.
    pub const INTERRUPT: Rational = dec("25.7");
    pub const QUEUE: Rational = dec("9");
    /// Of a PDU; ours: the paper's is lost.
    pub const PDU: Rational = dec("200");
    /// An octet that is copied: 0.35 and 0.6 of the hardware's bandwidth.
    pub const COPY: Rational = dec("1.742");
    /// The CRC of an octet: 0.3 of a cell's time for 48 octets.
    pub const CRC: Rational = dec("0.67073");
    /// An octet over an ISA bus of 8 bits at 8 MHz (section 2.3: 64 Mbit/s).
    pub const BUS: Rational = dec("0.125");

    /// A packet of TCP/IP, sent or received, beside its cells and a copy: 220,000 octets/s.
    pub const TCP: Rational = dec("2000");
    /// The same of XTP: 90,000 octets/s. No XTP runs here.
    pub const XTP: Rational = dec("63000");

    /// Of the file transfer as it was in the end: 410,000 octets/s, no PDU's cost in them.
    pub fn final_ones() -> Self {
        Self::of_cell(Pc386Work::cell_us(Pc386Work::FILE_OCTET_S))
    }

    /// With another cost of a cell.
    pub const fn of_cell(cell: Rational) -> Self {
        Self {
            cell,
            poll: Self::POLL,
            interrupt: Self::INTERRUPT,
            enqueue: Self::QUEUE,
            dequeue: Self::QUEUE,
            pdu: dec("0"),
            copy: Self::COPY,
            crc: Self::CRC,
            bus: Self::BUS,
        }
    }

    /// The time that work takes, to a picosecond.
    pub(super) fn of(&self, work: Work, times: u64) -> Ps {
        let one = match work {
            Work::PollFlag => self.poll,
            Work::Interrupt => self.interrupt,
            Work::Enqueue => self.enqueue,
            Work::Dequeue => self.dequeue,
            Work::ReceiveCell | Work::TransmitCell => self.cell - self.poll,
            Work::Pdu => self.pdu,
            Work::CopyOctets => self.copy,
            Work::CrcOctets => self.crc,
        };
        span(one, times)
    }

    /// The time of so many octets of packets on the bus.
    pub(super) fn bus(&self, octets: u64) -> Ps {
        span(self.bus, octets)
    }
}

/// So many times so many microseconds.
pub(super) fn span(us: Rational, times: u64) -> Ps {
    let ps = (us * dec("1000000") * Rational::from(times)).floor();
    Ps::new(u64::try_from(ps).unwrap_or(0))
}
