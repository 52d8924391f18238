use core::fmt;
use core::ops::Range;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use cellgate_core::Time;
use cellgate_core::aal::tree::Tree;
use cellgate_core::contract::{Aal, CellRate};
use cellgate_core::line::{Impairments, LineSpec};
use cellgate_core::terminal::{
    Arq, Board, CellPayload, DiskHeader, Exchange, ExchangeTerms, Kernel, RateTimer, SenderCounts,
    Source, Split, Stepped, Store, Variant, Work,
};
use cellgate_core::wire::{CELL_LEN_NO_HEC, CellFormat, PAYLOAD_LEN};
use cellgate_simd::{Fold, with_features};

use super::Pc386Costs;
use crate::world::Ps;

/// A file of numbers that are known everywhere.
struct Numbers;

fn octet(at: u64) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}

impl Source for Numbers {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        for (to, at) in into.iter_mut().zip(at..) {
            *to = octet(at);
        }
    }

    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        at..end
    }
}

/// Looks at each octet as it is written, and keeps where those are that are wrong.
#[derive(Default)]
struct Looked {
    wrong: BTreeSet<u64>,
    written: u64,
}

impl Store for Looked {
    fn write(&mut self, at: u64, octets: &[u8]) {
        self.written += octets.len() as u64;
        let is_right = |(is, at): (&u8, u64)| *is == octet(at);
        let end = at + octets.len() as u64;
        if !self.wrong.is_empty() {
            let mut behind = self.wrong.split_off(&at);
            self.wrong.extend(behind.split_off(&end));
        }
        if !octets.iter().zip(at..).all(is_right) {
            let pairs = octets.iter().zip(at..);
            let wrong = pairs.filter(|pair| !is_right((pair.0, pair.1)));
            self.wrong.extend(wrong.map(|(_, at)| at));
        }
    }
}

/// What two PCs and the line between them are.
#[derive(Clone, Copy, Debug)]
pub struct PairConfig {
    pub aal: Aal,
    /// Of who sends, and of who receives.
    pub variants: [Variant; 2],
    pub costs: Pc386Costs,
    /// Cells per second that the boards and the line carry.
    pub line_cell_s: u32,
    /// Octets of payload in a PDU.
    pub pdu_len: u16,
    pub arq: Arq,
    pub window: u64,
    /// Bit errors and delay of the way there; the way back has its delay alone. An error in a
    /// header does nothing: a HEC corrects it.
    pub line: LineSpec,
    /// The sender's rate, and cells back to back: none, as fast as it can.
    pub rate: Option<(CellRate, u32)>,
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

/// What must not be.
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

/// A board, as its PC's kernel has it.
struct PcBoard {
    costs: Pc386Costs,
    /// The PC has worked so far.
    at: Ps,
    came: VecDeque<(Ps, CellPayload)>,
    /// Cells for the line, and when they were there.
    goes: Vec<(Ps, CellPayload)>,
}

impl Board for PcBoard {
    fn receive(&mut self) -> Option<CellPayload> {
        let cell = self.came.pop_front_if(|(at, _)| *at <= self.at)?;
        Some(cell.1)
    }

    fn transmit(&mut self, cell: &CellPayload) -> bool {
        self.goes.push((self.at, *cell));
        true
    }

    fn charge(&mut self, work: Work, times: u64) {
        self.at = self.at.plus(self.costs.of(work, times));
    }
}

type Ends = Exchange<Numbers, Looked>;

struct Pc {
    kernel: Kernel,
    exchange: Ends,
    board: PcBoard,
    /// Its line is free again.
    free: Ps,
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

/// Two PCs: the first sends, the second receives.
pub struct Pair {
    config: PairConfig,
    pcs: [Pc; 2],
    cell_time: Ps,
    impairments: Impairments,
    counts: PairCounts,
}

const TRANSFER: u16 = 1;
/// Longer than any run.
const FILE_LEN: u64 = 1 << 40;

impl Pair {
    /// Two PCs that know each other, about to begin.
    ///
    /// # Errors
    /// The AAL has no terminal.
    pub fn new(config: PairConfig) -> Result<Self, PairError> {
        let tree = Tree::new(config.aal, DiskHeader::LENGTHS);
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
            let rate = config.rate.filter(|_| begins);
            let timer = rate.map(|(rate, burst)| RateTimer::new(Time::ZERO, rate, burst, 0));
            Some(Pc {
                kernel: Kernel::new(config.variants[usize::from(!begins)], timer),
                exchange: Ends::new(Time::ZERO, terms, &tree)?,
                board: PcBoard {
                    costs: config.costs,
                    at: Ps::ZERO,
                    came: VecDeque::new(),
                    goes: Vec::new(),
                },
                free: Ps::ZERO,
            })
        };
        let pcs = pc(true).zip(pc(false));
        let (first, second) = pcs.ok_or(PairError::NO_TREE)?;
        let mut pair = Self {
            pcs: [first, second],
            cell_time: Ps::new(1_000_000_000_000 / u64::from(config.line_cell_s.max(1))),
            impairments: Impairments::new(config.line, CellFormat::NoHec, 0),
            counts: PairCounts::default(),
            config,
        };
        pair.begins()?;
        Ok(pair)
    }

    fn begins(&mut self) -> Result<(), PairError> {
        for _ in 0..10_000 {
            if self.pcs.iter().all(|pc| pc.exchange.is_established()) {
                let now = self.pcs[1].board.at.time();
                let store = Looked::default();
                let all = (0, FILE_LEN);
                let [sender, receiver] = &mut self.pcs;
                let exchange = &mut receiver.exchange;
                exchange.receive(now, TRANSFER, all, FILE_LEN, store);
                let split = Split {
                    pdu_len: self.config.pdu_len,
                    disk_len: Some(1 << 20),
                    file_len: None,
                };
                let exchange = &mut sender.exchange;
                exchange.send(TRANSFER, all, self.config.window, split, Numbers);
                return Ok(());
            }
            self.turn();
        }
        Err(PairError::STUCK)
    }

    /// The PC that is behind does a step, or waits for what comes next.
    fn turn(&mut self) {
        let who = usize::from(self.pcs[1].board.at < self.pcs[0].board.at);
        let pc = &mut self.pcs[who];
        let before = pc.board.at;
        let due = pc.exchange.next_deadline();
        if due.is_some_and(|due| due <= before.time()) {
            pc.kernel.time_out();
        }
        let stepped = with_features(Step(pc));
        while pc.exchange.poll_event().is_some() {}
        let goes = std::mem::take(&mut pc.board.goes);
        self.carries(who, goes);
        let pc = &mut self.pcs[who];
        if stepped.received + stepped.sent == 0 && !stepped.has_more {
            // Idle until something comes: to look once more costs a look.
            let next = [
                pc.board.came.front().map(|(at, _)| *at),
                due.map(|due| Ps::from_ns(due.ns())),
                pc.kernel.next_tick().map(|tick| Ps::from_ns(tick.ns())),
            ];
            let other = self.pcs[1 - who].board.at;
            let pc = &mut self.pcs[who];
            let next = next.into_iter().flatten().min().unwrap_or(other);
            let soon = before.plus(Ps::from_ns(100_000));
            pc.board.at = pc.board.at.max(next.min(soon)).max(before.plus(Ps::new(1)));
        }
    }

    /// The line takes cells one after the other; some are damaged.
    fn carries(&mut self, from: usize, cells: Vec<(Ps, CellPayload)>) {
        let delay = Ps::from_ns(self.config.line.delay_ns);
        for (at, mut cell) in cells {
            let out = self.pcs[from].free.max(at).plus(self.cell_time);
            self.pcs[from].free = out;
            if from == 0 {
                self.counts.cells += 1;
                self.damages(out, &mut cell);
            }
            let came = &mut self.pcs[1 - from].board.came;
            came.push_back((out.plus(delay), cell));
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
        let after = self.now()?;
        let sender = SenderCounts {
            pdus: after.sender.pdus - before.sender.pdus,
            again: after.sender.again - before.sender.again,
            octets: after.sender.octets - before.sender.octets,
            octets_again: after.sender.octets_again - before.sender.octets_again,
            heard: after.sender.heard - before.sender.heard,
            octets_heard: after.sender.octets_heard - before.sender.octets_heard,
            lost: after.sender.lost - before.sender.lost,
            timeouts: after.sender.timeouts - before.sender.timeouts,
        };
        Ok(PairCounts {
            octets: after.octets - before.octets,
            written: after.written - before.written,
            cells: after.cells - before.cells,
            damaged: after.damaged - before.damaged,
            sender,
            span: self.pcs[1].board.at.since(begin),
        })
    }

    fn until(&mut self, end: Ps) -> Result<(), PairError> {
        while self.pcs.iter().any(|pc| pc.board.at < end) {
            self.turn();
        }
        Ok(())
    }

    fn now(&mut self) -> Result<PairCounts, PairError> {
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
