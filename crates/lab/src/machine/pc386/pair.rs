use core::fmt;
use std::sync::Arc;

use cellgate_core::Time;
use cellgate_core::aal::tree::Tree;
use cellgate_core::contract::CellRate;
use cellgate_core::line::{Impairments, LineSpec};
use cellgate_core::terminal::{
    Arq, CellPayload, DiskHeader, ExchangeTerms, Kernel, RateTimer, SenderCounts, Split, Stack,
    Variant,
};
use cellgate_core::wire::{CELL_LEN_NO_HEC, CellFormat, PAYLOAD_LEN};

use super::Pc386Costs;
use super::disk::{Disk, Writes};
use super::file::{Looked, Numbers};
use super::pc::{Ends, Pc, Unit};
use crate::world::Ps;

/// What two PCs and the line between them are.
#[derive(Clone, Copy, Debug)]
pub struct PairConfig {
    pub stack: Stack,
    /// Of who sends, and of who receives.
    pub variants: [Variant; 2],
    pub costs: Pc386Costs,
    /// Cells per second that the boards and the line carry.
    pub line_cell_s: u32,
    /// Octets of payload in a PDU.
    pub pdu_len: u16,
    pub arq: Arq,
    pub window: u64,
    /// Bit errors of cells and delay of the way there; the way back has its delay alone. An error
    /// in a header does nothing: a HEC corrects it.
    pub line: LineSpec,
    /// How the sender's cells leave: none, as fast as it can.
    pub pace: Option<Pace>,
    /// The receiver's; none: what has come is at its end.
    pub disk: Option<Disk>,
}

/// A rate timer's ticks.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub rate: CellRate,
    /// Cells at each tick.
    pub cellburst: u32,
    /// A tick that comes while the PC makes the cells of the one before is missed: no cell is
    /// ready. Otherwise the last of them is used as soon as the PC is free.
    pub misses_ticks: bool,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct PairCounts {
    /// Octets of the file that were acknowledged.
    pub octets: u64,
    /// What the receiver wrote, all in all.
    pub written: u64,
    /// Cells of the sender, and those that were damaged on their way.
    pub cells: u64,
    pub damaged: u64,
    pub sender: SenderCounts,
    pub span: Ps,
}

impl PairCounts {
    /// The difference to `before`, of a `span`.
    pub(super) fn since(&self, before: &Self, span: Ps) -> Self {
        let (now, then) = (&self.sender, &before.sender);
        Self {
            octets: self.octets - before.octets,
            written: self.written - before.written,
            cells: self.cells - before.cells,
            damaged: self.damaged - before.damaged,
            sender: SenderCounts {
                pdus: now.pdus - then.pdus,
                again: now.again - then.again,
                octets: now.octets - then.octets,
                octets_again: now.octets_again - then.octets_again,
                heard: now.heard - then.heard,
                octets_heard: now.octets_heard - then.octets_heard,
                lost: now.lost - then.lost,
                timeouts: now.timeouts - then.timeouts,
            },
            span,
        }
    }
}

/// A broken rule of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairError(&'static str);

impl PairError {
    const WRONG: Self = Self("octets other than those of the file were acknowledged");
    const STUCK: Self = Self("the transfer stands still");
    const NO_TREE: Self = Self("there is no terminal of such an AAL");
}

impl fmt::Display for PairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Two PCs: the first sends, the second receives.
pub struct Pair {
    config: PairConfig,
    pub(super) pcs: [Pc; 2],
    cell_time: Ps,
    impairments: Impairments,
    writes: Writes,
    counts: PairCounts,
}

const TRANSFER: u16 = 1;
/// Octets of a disk-PDU without a disk.
const DISK_LEN: u32 = 1 << 20;
/// Longer than any run.
const FILE_LEN: u64 = 1 << 40;

impl Pair {
    /// Two PCs that know each other, about to begin.
    ///
    /// # Errors
    /// The AAL has no terminal.
    pub fn new(config: PairConfig) -> Result<Self, PairError> {
        let tree = Tree::new(config.stack.aal(), DiskHeader::LENGTHS);
        let tree = Arc::new(tree.ok_or(PairError::NO_TREE)?);
        let window_pdus = config.window / u64::from(config.pdu_len);
        let pc = |begins: bool| {
            let terms = ExchangeTerms {
                run: 1 + u32::from(begins),
                arq: config.arq,
                window_pdus: (window_pdus as u32).clamp(1, 1 << 13),
                window: config.window,
                pdu_len: config.pdu_len,
                begins,
            };
            let pace = config.pace.filter(|_| begins);
            let timer = |pace: Pace| RateTimer::new(Time::ZERO, pace.rate, pace.cellburst, 0);
            let variant = config.variants[usize::from(!begins)];
            let kernel = Kernel::new(variant, pace.map(timer));
            let exchange = Ends::new(Time::ZERO, terms, &tree)?;
            Some(Pc::new(config.stack, kernel, exchange, config.costs))
        };
        let pcs = pc(true).zip(pc(false));
        let (first, second) = pcs.ok_or(PairError::NO_TREE)?;
        let mut pair = Self {
            pcs: [first, second],
            cell_time: Ps::new(1_000_000_000_000 / u64::from(config.line_cell_s.max(1))),
            impairments: Impairments::new(config.line, CellFormat::NoHec, 0),
            writes: Writes::default(),
            counts: PairCounts::default(),
            config,
        };
        pair.begins()?;
        Ok(pair)
    }

    fn begins(&mut self) -> Result<(), PairError> {
        for _ in 0..100_000 {
            if self.pcs.iter().all(|pc| pc.exchange.is_established()) {
                let now = self.pcs[1].board.at.time();
                let room = self.config.disk.map(|disk| disk.room());
                let edge = self.config.window.min(room.unwrap_or(u64::MAX));
                let all = (0, FILE_LEN);
                let [sender, receiver] = &mut self.pcs;
                let (exchange, limit) = (&mut receiver.exchange, room.unwrap_or(FILE_LEN));
                exchange.receive(now, TRANSFER, all, limit, Looked::default());
                let split = Split {
                    pdu_len: self.config.pdu_len,
                    disk_len: Some(self.config.disk.map_or(DISK_LEN, |disk| disk.buffer_len)),
                    file_len: None,
                };
                let exchange = &mut sender.exchange;
                exchange.send(TRANSFER, all, edge, split, Numbers);
                return Ok(());
            }
            self.turn();
        }
        Err(PairError::STUCK)
    }

    /// The PC that is behind does a step, or waits for what comes next.
    fn turn(&mut self) {
        let who = usize::from(self.pcs[1].board.at < self.pcs[0].board.at);
        if let Some(next) = self.works(who) {
            let board = &mut self.pcs[who].board;
            board.at = board.at.max(next);
        }
    }

    /// A PC does a step. If it did nothing, when to look again.
    pub(super) fn works(&mut self, who: usize) -> Option<Ps> {
        let pc = &mut self.pcs[who];
        let before = pc.board.at;
        let due = pc.exchange.next_deadline();
        let stepped = pc.step();
        let misses_ticks = self.config.pace.is_some_and(|pace| pace.misses_ticks);
        if misses_ticks && stepped.sent > 0 {
            pc.kernel.miss_ticks(pc.board.at.time());
        }
        let is_full = pc.has_disk_pdu();
        if let Some(disk) = self.config.disk.filter(|_| who == 1) {
            self.writes_to(&disk, is_full);
        }
        let goes = std::mem::take(&mut self.pcs[who].board.goes);
        self.carries(who, goes);
        if stepped.received + stepped.sent > 0 || stepped.has_more {
            return None;
        }
        // Idle until something comes: to look once more costs a look.
        let (pc, other) = (&self.pcs[who], self.pcs[1 - who].board.at);
        let due = due.map(|due| pc.has_room(Ps::from_ns(due.ns())));
        let next = [
            pc.board.came.front().map(|(at, _)| *at),
            due,
            pc.kernel.next_tick().map(|tick| Ps::from_ns(tick.ns())),
            self.writes.next().filter(|_| who == 1),
            Some(pc.has_room(before)).filter(|room| *room > before),
        ];
        let next = next.into_iter().flatten().min().unwrap_or(other);
        let soon = before.plus(Ps::from_ns(100_000));
        Some(next.min(soon).max(before.plus(Ps::new(1))))
    }

    /// A buffer that is full is written; each that is on the disk takes octets again.
    fn writes_to(&mut self, disk: &Disk, is_full: bool) {
        let pc = &mut self.pcs[1];
        if is_full {
            self.writes.begin(pc.board.at, disk);
        }
        if let Some(written) = self.writes.done(pc.board.at) {
            let limit = written * u64::from(disk.buffer_len) + disk.room();
            pc.exchange.allow(pc.board.at.time(), TRANSFER, limit);
        }
    }

    /// So many cells on the line.
    pub(super) const fn time_of(&self, cells: u64) -> Ps {
        Ps::new(self.cell_time.ps() * cells)
    }

    /// The line takes cells one after the other; some are damaged. A packet is there with its last.
    fn carries(&mut self, from: usize, units: Vec<(Ps, Unit)>) {
        let delay = Ps::from_ns(self.config.line.delay_ns);
        for (at, mut unit) in units {
            let cells = unit.cells(self.config.stack);
            let time = self.time_of(cells);
            let pc = &mut self.pcs[from];
            pc.begun = pc.free.max(at);
            let out = pc.begun.plus(time);
            pc.free = out;
            if from == 0 {
                self.counts.cells += cells;
                if let Unit::Cell(cell) = &mut unit {
                    self.damages(out, cell);
                }
            }
            let came = &mut self.pcs[1 - from].board.came;
            came.push_back((out.plus(delay), unit));
        }
    }

    fn damages(&mut self, now: Ps, cell: &mut CellPayload) {
        let before = self.impairments.counts().payload_errors;
        let mut whole = [0; CELL_LEN_NO_HEC];
        let (_, payload) = whole.split_at_mut(CELL_LEN_NO_HEC - PAYLOAD_LEN);
        payload.copy_from_slice(&cell.octets);
        self.impairments.pass(now.time(), &mut whole);
        let (_, payload) = whole.split_at(CELL_LEN_NO_HEC - PAYLOAD_LEN);
        cell.octets.copy_from_slice(payload);
        self.counts.damaged += self.impairments.counts().payload_errors - before;
    }

    /// Runs on for `warm`, and then counts for `span`.
    ///
    /// # Errors
    /// Something wrong was acknowledged, or the transfer is over before its time.
    pub fn run(&mut self, warm: Ps, span: Ps) -> Result<PairCounts, PairError> {
        self.until(self.pcs[1].board.at.plus(warm))?;
        let (begin, before) = (self.pcs[1].board.at, self.now()?);
        self.until(begin.plus(span))?;
        let span = self.pcs[1].board.at.since(begin);
        Ok(self.now()?.since(&before, span))
    }

    fn until(&mut self, end: Ps) -> Result<(), PairError> {
        while self.pcs.iter().any(|pc| pc.board.at < end) {
            self.turn();
        }
        Ok(())
    }

    /// The counts by now.
    pub(super) fn now(&mut self) -> Result<PairCounts, PairError> {
        let receiver = &mut self.pcs[1].exchange;
        let (ap, _) = receiver.received(TRANSFER).ok_or(PairError::STUCK)?;
        let looked = receiver.store_mut(TRANSFER).ok_or(PairError::STUCK)?;
        if looked.wrong.first().is_some_and(|at| *at < ap) {
            return Err(PairError::WRONG);
        }
        let written = looked.written;
        let sender = self.pcs[0].exchange.outgoing(TRANSFER);
        Ok(PairCounts {
            octets: ap,
            written,
            sender: sender.ok_or(PairError::STUCK)?.counts(),
            ..self.counts
        })
    }
}
