use std::collections::VecDeque;

use cellgate_core::terminal::{
    Board, CellPayload, Event, Exchange, Kernel, Level, Stack, Stepped, Work,
};
use cellgate_simd::{Fold, with_features};

use super::Pc386Costs;
use super::file::{Looked, Numbers};
use crate::world::Ps;

/// Octets of the longest SDU.
const SDU_MAX: usize = 65_535;

/// What the board and the line move at once.
pub(super) enum Unit {
    Cell(CellPayload),
    /// A board that does SAR and CPCS itself makes cells of it.
    Packet(Vec<u8>),
}

impl Unit {
    /// Cells on the line.
    pub(super) fn cells(&self, stack: Stack) -> u64 {
        match self {
            Self::Cell(_) => 1,
            Self::Packet(sdu) => stack.cells(sdu.len()),
        }
    }
}

/// A board, as its PC's kernel has it.
pub(super) struct PcBoard {
    costs: Pc386Costs,
    /// The PC has worked so far.
    pub(super) at: Ps,
    pub(super) came: VecDeque<(Ps, Unit)>,
    /// Cells or packets for the line, and when they were there.
    pub(super) goes: Vec<(Ps, Unit)>,
}

impl PcBoard {
    fn takes(&mut self) -> Option<Unit> {
        let (_, unit) = self.came.pop_front_if(|(at, _)| *at <= self.at)?;
        Some(unit)
    }

    /// A packet's octets cross the bus.
    fn moves(&mut self, octets: usize) {
        self.at = self.at.plus(self.costs.bus(octets as u64));
        self.charge(Work::Pdu, 1);
    }
}

impl Board for PcBoard {
    fn receive(&mut self) -> Option<CellPayload> {
        match self.takes()? {
            Unit::Cell(cell) => Some(cell),
            Unit::Packet(_) => None,
        }
    }

    fn transmit(&mut self, cell: &CellPayload) -> bool {
        self.goes.push((self.at, Unit::Cell(*cell)));
        true
    }

    fn charge(&mut self, work: Work, times: u64) {
        self.at = self.at.plus(self.costs.of(work, times));
    }
}

pub(super) type Ends = Exchange<Numbers, Looked>;

/// A PC, with an end of the transfer.
pub(super) struct Pc {
    stack: Stack,
    pub(super) kernel: Kernel,
    pub(super) exchange: Ends,
    pub(super) board: PcBoard,
    /// What is last on its line began then, and the line is free again.
    pub(super) begun: Ps,
    pub(super) free: Ps,
}

impl Pc {
    pub(super) fn new(stack: Stack, kernel: Kernel, exchange: Ends, costs: Pc386Costs) -> Self {
        Self {
            stack,
            kernel,
            exchange,
            board: PcBoard {
                costs,
                at: Ps::ZERO,
                came: VecDeque::new(),
                goes: Vec::new(),
            },
            begun: Ps::ZERO,
            free: Ps::ZERO,
        }
    }

    /// A step of its kernel, which looks at what is due.
    pub(super) fn step(&mut self) -> Stepped {
        let now = self.board.at.time();
        let is_due = self.exchange.next_deadline().is_some_and(|due| due <= now);
        match self.stack.level() {
            Level::Cell => {
                if is_due {
                    self.kernel.time_out();
                }
                with_features(Step(self))
            }
            Level::Packet => {
                if is_due {
                    self.exchange.handle_deadline(now);
                }
                self.packets()
            }
        }
    }

    /// A disk-PDU that has come as a whole, if one has.
    pub(super) fn has_disk_pdu(&mut self) -> bool {
        let mut has = false;
        while let Some(event) = self.exchange.poll_event() {
            has |= matches!(event, Event::DiskPdu { .. });
        }
        has
    }

    /// When its board takes something that is there at `at`: a cell at once.
    pub(super) fn has_room(&self, at: Ps) -> Ps {
        match self.stack.level() {
            Level::Cell => at,
            Level::Packet => at.max(self.begun),
        }
    }

    /// Takes a packet that has come, and sends one. The board takes one as soon as the one before
    /// has begun on the line.
    fn packets(&mut self) -> Stepped {
        let mut stepped = Stepped::default();
        let now = self.board.at.time();
        if let Some(Unit::Packet(sdu)) = self.board.takes() {
            self.board.moves(sdu.len());
            self.exchange.handle_sdu(now, &sdu);
            stepped.received = 1;
        }
        let mut sdu = vec![0; SDU_MAX];
        if self.begun <= self.board.at
            && let Some(len) = self.exchange.poll_sdu(now, &mut sdu)
        {
            sdu.truncate(len.into());
            self.board.moves(sdu.len());
            self.board.goes.push((self.board.at, Unit::Packet(sdu)));
            stepped.sent = 1;
        }
        stepped
    }
}

/// How far a PC's processor is, and its line.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    pub(super) at: Ps,
    begun: Ps,
    free: Ps,
}

impl Pc {
    pub(super) const fn clock(&self) -> Clock {
        Clock {
            at: self.board.at,
            begun: self.begun,
            free: self.free,
        }
    }

    pub(super) const fn set_clock(&mut self, clock: Clock) {
        self.board.at = clock.at;
        self.begun = clock.begun;
        self.free = clock.free;
    }
}

struct Step<'a>(&'a mut Pc);

impl cellgate_simd::Kernel for Step<'_> {
    type Output = Stepped;

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Stepped {
        let pc = self.0;
        let now = pc.board.at.time();
        pc.kernel.step(fold, now, &mut pc.exchange, &mut pc.board)
    }
}
