use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, ensure};
use cellgate_core::Time;
use cellgate_core::aal::tree::Tree;
use cellgate_core::line::{Impairments, LineSpec, Share};
use cellgate_core::terminal::{
    Arq, Board, CellPayload, DiskHeader, Event, Exchange, ExchangeTerms, Kernel, Level, RateTimer,
    Source, Split, Stack, Store, Variant,
};
use cellgate_core::wire::{CELL_LEN_NO_HEC, CellFormat, PAYLOAD_LEN};
use cellgate_simd::{Fold, FoldState, RESIDUE, with_features};

use super::fold::NoCrc;
use crate::bench::measure::{ns_per_tick, ticks};

/// Payload of a PDU of 170 cells of AAL5.
pub(super) const PDU_LEN: u16 = 170 * 48 - 32;
pub(super) const TRANSFER: u16 = 1;
/// Octets of a disk-PDU.
pub(super) const DISK_LEN: u32 = 1 << 20;
/// Longer than any run.
const FILE_LEN: u64 = 1 << 50;
/// Octets of the longest SDU.
pub(super) const SDU_MAX: usize = 65_535;
/// Cells that a board takes from a step.
const ROOM: usize = 64;
/// Longer than a receiver keeps a status back.
const STATUS_NS: u64 = 10_000_000;
/// Who has not sent its cells by then never will.
const GIVE_UP_NS: u64 = 5_000_000_000;
/// Each octet of the file.
const OCTET: u8 = 0x5a;

/// The terms of two terminals.
#[derive(Clone, Copy)]
pub(super) struct Spec {
    pub(super) stack: Stack,
    pub(super) variant: Variant,
    pub(super) crc: Crc,
    pub(super) pdu_len: u16,
    /// Octets that may be on their way.
    pub(super) window: u64,
    /// Bit errors of the way there; none: cells go straight from board to board.
    pub(super) line: Option<Share>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            stack: Stack::Aal5,
            variant: Variant::default(),
            crc: Crc::Folded,
            pdu_len: PDU_LEN,
            window: 1 << 20,
            line: None,
        }
    }
}

/// How the CRC of AAL5 is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Crc {
    /// Along with the move of each cell, at both ends.
    Folded,
    /// The same at the sender; the receiver goes over a PDU's cells first, and then moves them.
    Pass,
    /// Not at all, as if boards did.
    None,
}

/// A file that is the same parts again and again.
pub(super) struct Memory {
    pub(super) parts: Vec<Vec<u8>>,
    part_len: u64,
}

impl Memory {
    /// So many parts of as many octets. What begins in one may end behind it.
    pub(super) fn new(parts: usize, part_len: usize, octet: u8) -> Self {
        Self {
            parts: vec![vec![octet; part_len + SDU_MAX]; parts],
            part_len: part_len as u64,
        }
    }

    #[inline(always)]
    fn place(&mut self, at: u64, len: usize) -> &mut [u8] {
        let part = (at / self.part_len) as usize % self.parts.len();
        let from = (at % self.part_len) as usize;
        &mut self.parts[part][from..from + len]
    }
}

impl Source for Memory {
    #[inline(always)]
    fn read(&mut self, at: u64, into: &mut [u8]) {
        into.copy_from_slice(self.place(at, into.len()));
    }

    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        at..end
    }
}

impl Store for Memory {
    #[inline(always)]
    fn write(&mut self, at: u64, octets: &[u8]) {
        self.place(at, octets.len()).copy_from_slice(octets);
    }
}

/// An end of the line between both.
pub(super) struct End {
    pub(super) came: VecDeque<CellPayload>,
    pub(super) goes: VecDeque<CellPayload>,
    room: usize,
}

impl End {
    pub(super) const fn new() -> Self {
        Self {
            came: VecDeque::new(),
            goes: VecDeque::new(),
            room: ROOM,
        }
    }
}

impl Board for End {
    #[inline(always)]
    fn receive(&mut self) -> Option<CellPayload> {
        self.came.pop_front()
    }

    #[inline(always)]
    fn transmit(&mut self, cell: &CellPayload) -> bool {
        let is_taken = self.goes.len() < self.room;
        if is_taken {
            self.goes.push_back(*cell);
        }
        is_taken
    }
}

/// An end of the exchange.
pub(super) type Ends = Exchange<Memory, Memory>;

/// Two terminals, of which the first sends without end.
pub(super) struct Pair {
    pub(super) spec: Spec,
    pub(super) exchanges: [Ends; 2],
    kernels: [Kernel; 2],
    boards: [End; 2],
    pub(super) now: Time,
    line: Option<Impairments>,
    /// Cells of a PDU that is not whole, with [`Crc::Pass`].
    arriving: Vec<CellPayload>,
    /// PDUs whose CRC was wrong in a pass of its own.
    bad: u64,
    sdu: Vec<u8>,
}

impl Pair {
    /// Two terminals whose receiver writes the same `memory` octets again and again.
    pub(super) fn of_memory(spec: Spec, memory: usize) -> anyhow::Result<Self> {
        Self::new(spec, Memory::new(1, memory, 0), FILE_LEN)
    }

    /// Two terminals whose receiver writes to `store`, up to `limit` at first.
    pub(super) fn new(spec: Spec, store: Memory, limit: u64) -> anyhow::Result<Self> {
        let tree = Tree::new(spec.stack.aal(), DiskHeader::LENGTHS).context("a tree")?;
        let tree = Arc::new(tree);
        let window_pdus = spec.window / u64::from(spec.pdu_len);
        let end = |begins| {
            let terms = ExchangeTerms {
                run: 1 + u32::from(begins),
                arq: Arq::Selective,
                window_pdus: (window_pdus as u32).clamp(1, 1 << 13),
                window: spec.window,
                pdu_len: spec.pdu_len,
                begins,
            };
            Ends::new(Time::ZERO, terms, &tree).context("an exchange")
        };
        let line = spec.line.map(|ber| LineSpec {
            ber,
            ..LineSpec::default()
        });
        let mut pair = Self {
            exchanges: [end(true)?, end(false)?],
            kernels: [0, 1].map(|_| Kernel::new(spec.variant, None)),
            boards: [End::new(), End::new()],
            now: Time::ZERO,
            line: None,
            arriving: Vec::new(),
            bad: 0,
            sdu: vec![0; SDU_MAX],
            spec,
        };
        for _ in 0..1_000 {
            pair.run(1);
        }
        ensure!(
            pair.exchanges.iter().all(Exchange::is_established),
            "the terminals do not know each other"
        );
        pair.line = line.map(|line| Impairments::new(line, CellFormat::NoHec, 0));
        let (now, all) = (pair.now, (0, FILE_LEN));
        pair.exchanges[1].receive(now, TRANSFER, all, limit, store);
        let split = Split {
            pdu_len: spec.pdu_len,
            disk_len: Some(DISK_LEN),
            file_len: None,
        };
        // What is read is in the cache, as a file's page may be.
        let source = Memory::new(1, SDU_MAX, OCTET);
        let edge = spec.window.min(limit);
        pair.exchanges[0].send(TRANSFER, all, edge, split, source);
        Ok(pair)
    }

    /// Octets that are acknowledged.
    pub(super) fn octets(&self) -> anyhow::Result<u64> {
        let received = self.exchanges[1].received(TRANSFER);
        Ok(received.context("nothing was received")?.0)
    }

    fn again(&self) -> anyhow::Result<u64> {
        let sender = self.exchanges[0].outgoing(TRANSFER);
        Ok(sender.context("nothing was sent")?.counts().again)
    }

    /// That what was moved was right. On a line with errors a window's octets may still be wrong.
    pub(super) fn ensure(&mut self) -> anyhow::Result<()> {
        let (octets, again) = (self.octets()?, self.again()?);
        let store = self.exchanges[1].store_mut(TRANSFER);
        let memory = store.context("nothing was received")?;
        let wrong = self.line.as_ref().map_or(0, |_| self.spec.window);
        let looked_at = memory.part_len.saturating_sub(wrong).min(octets);
        let is_right = (octets - looked_at..octets).all(|at| memory.place(at, 1)[0] == OCTET);
        ensure!(octets > 0 && is_right, "other octets came than were sent");
        ensure!(self.bad == 0, "{} CRCs were wrong", self.bad);
        ensure!(
            again == 0 || self.line.is_some(),
            "{again} PDUs were sent again on a line that loses none"
        );
        Ok(())
    }

    /// Until so many cells more have gone there.
    pub(super) fn run(&mut self, cells: usize) {
        let mut sent = 0;
        // Terminals that do not know each other yet send little.
        for _ in 0..20 + cells {
            sent += self.turn().0;
            if sent >= cells {
                break;
            }
        }
    }

    /// Until so many octets more are acknowledged.
    pub(super) fn run_octets(&mut self, octets: u64) -> anyhow::Result<()> {
        let until = self.octets()? + octets;
        for _ in 0..octets {
            self.turn();
            if self.octets()? >= until {
                return Ok(());
            }
        }
        anyhow::bail!("the transfer stands still")
    }

    /// A step of each end: cells that went there, and disk-PDUs that are complete.
    pub(super) fn turn(&mut self) -> (usize, usize) {
        self.now = self.now.plus_ns(20_000);
        let sent = match self.spec.stack.level() {
            Level::Cell => with_features(Turn(self)),
            Level::Packet => self.packets(),
        };
        let mut disk_pdus = 0;
        for exchange in &mut self.exchanges {
            while let Some(event) = exchange.poll_event() {
                disk_pdus += usize::from(matches!(event, Event::DiskPdu { .. }));
            }
        }
        (sent, disk_pdus)
    }

    #[inline(always)]
    fn cells<A: Fold, B: Fold, C: Fold>(&mut self, folds: (A, B), pass: Option<C>) -> usize {
        self.step(folds.0, 0);
        let sent = self.boards[0].goes.len();
        self.carry(pass);
        self.step(folds.1, 1);
        let [first, second] = &mut self.boards;
        if let Some(fold) = pass {
            seal(fold, &mut second.goes);
        }
        first.came.extend(second.goes.drain(..));
        sent
    }

    #[inline(always)]
    fn step<F: Fold>(&mut self, fold: F, end: usize) {
        let (kernel, exchange) = (&mut self.kernels[end], &mut self.exchanges[end]);
        if exchange.next_deadline().is_some_and(|due| due <= self.now) {
            kernel.time_out();
        }
        kernel.step(fold, self.now, exchange, &mut self.boards[end]);
    }

    /// Cells go there.
    #[inline(always)]
    fn carry<F: Fold>(&mut self, pass: Option<F>) {
        let [first, second] = &mut self.boards;
        if let Some(line) = &mut self.line {
            for cell in &mut first.goes {
                damage(line, self.now, cell);
            }
        }
        let Some(fold) = pass else {
            second.came.extend(first.goes.drain(..));
            return;
        };
        for cell in first.goes.drain(..) {
            self.arriving.push(cell);
            if cell.last {
                let mut state = FoldState::default();
                fold.start(&mut state);
                for cell in &self.arriving {
                    fold.cell(&mut state, &cell.octets);
                }
                self.bad += u64::from(fold.finish(&state) != RESIDUE);
                second.came.extend(self.arriving.drain(..));
            }
        }
    }

    /// SDUs, as over a board that makes the cells.
    fn packets(&mut self) -> usize {
        let mut sent = 0;
        for end in 0..2 {
            if self.exchanges[end]
                .next_deadline()
                .is_some_and(|due| due <= self.now)
            {
                self.exchanges[end].handle_deadline(self.now);
            }
            if let Some(len) = self.exchanges[end].poll_sdu(self.now, &mut self.sdu) {
                let sdu = &self.sdu[..len.into()];
                self.exchanges[1 - end].handle_sdu(self.now, sdu);
                let cells = self.spec.stack.cells(sdu.len()) as usize;
                sent += if end == 0 { cells } else { 0 };
            }
        }
        sent
    }

    /// The first sends so many cells by the clock, alone: the ticks that it took. Where it
    /// `misses_ticks`, one that comes while the cells of the one before are made is missed. The
    /// cells are on the board behind it.
    pub(super) fn sends(&mut self, timer: RateTimer, misses_ticks: bool, cells: usize) -> u64 {
        self.boards[0].room = usize::MAX;
        self.boards[0].goes.reserve(2 * cells);
        self.kernels[0] = Kernel::new(self.spec.variant, Some(timer));
        let took = with_features(Sends(self, misses_ticks, cells, ns_per_tick()));
        self.boards[0].room = ROOM;
        took
    }

    /// What the first has sent comes to the second, and its answers back: cells that were sent.
    pub(super) fn settles(&mut self) -> usize {
        let goes = std::mem::take(&mut self.boards[0].goes);
        let sent = goes.len();
        self.boards[1].came.extend(goes);
        while !self.boards[1].came.is_empty() {
            self.now = self.now.plus_ns(20_000);
            with_features(Settles(self));
        }
        self.now = self.now.plus_ns(STATUS_NS);
        with_features(Settles(self));
        sent
    }

    /// Both ends, and the time.
    pub(super) fn into_ends(self) -> ([Ends; 2], Time) {
        (self.exchanges, self.now)
    }
}

/// Makes the CRCs of whole PDUs whose cells have none.
fn seal<F: Fold>(fold: F, cells: &mut VecDeque<CellPayload>) {
    let mut register = u32::MAX;
    for cell in cells {
        let end = PAYLOAD_LEN - if cell.last { 4 } else { 0 };
        register = fold.resume(register, &cell.octets[..end]);
        if cell.last {
            cell.octets[end..].copy_from_slice(&(!register).to_be_bytes());
            register = u32::MAX;
        }
    }
}

#[inline(always)]
fn damage(line: &mut Impairments, now: Time, cell: &mut CellPayload) {
    let mut whole = [0; CELL_LEN_NO_HEC];
    let at = CELL_LEN_NO_HEC - PAYLOAD_LEN;
    whole[at..].copy_from_slice(&cell.octets);
    line.pass(now, &mut whole);
    cell.octets.copy_from_slice(&whole[at..]);
}

struct Turn<'a>(&'a mut Pair);

impl cellgate_simd::Kernel for Turn<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> usize {
        match self.0.spec.crc {
            Crc::Folded => self.0.cells((fold, fold), None::<F>),
            Crc::Pass => self.0.cells((fold, NoCrc), Some(fold)),
            Crc::None => self.0.cells((NoCrc, NoCrc), None::<F>),
        }
    }
}

struct Settles<'a>(&'a mut Pair);

impl cellgate_simd::Kernel for Settles<'_> {
    type Output = ();

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) {
        let pair = self.0;
        pair.step(fold, 1);
        for cell in pair.boards[1].goes.drain(..) {
            pair.exchanges[0].handle_cell(fold, pair.now, cell.last, &cell.octets);
        }
        for exchange in &mut pair.exchanges {
            while exchange.poll_event().is_some() {}
        }
    }
}

struct Sends<'a>(&'a mut Pair, bool, usize, f64);

impl cellgate_simd::Kernel for Sends<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> u64 {
        let Self(pair, misses_ticks, cells, ns_per_tick) = self;
        let (from, begin) = (ticks(), pair.now);
        let now = || begin.plus_ns(((ticks() - from) as f64 * ns_per_tick) as u64);
        let (kernel, exchange) = (&mut pair.kernels[0], &mut pair.exchanges[0]);
        let board = &mut pair.boards[0];
        let end = begin.plus_ns(GIVE_UP_NS);
        while board.goes.len() < cells && now() < end {
            let stepped = kernel.step(fold, now(), exchange, board);
            if misses_ticks && stepped.sent > 0 {
                kernel.miss_ticks(now());
            }
        }
        pair.now = now();
        ticks() - from
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::contract::CellRate;

    use super::*;

    const MEMORY: usize = 64 << 10;

    #[test]
    fn what_is_sent_comes_over_each_stack_and_with_each_crc() {
        for stack in Stack::ALL {
            for crc in [Crc::Folded, Crc::Pass, Crc::None] {
                let is_aal5 = stack == Stack::Aal5;
                let spec = Spec {
                    stack,
                    crc,
                    ..Spec::default()
                };
                if is_aal5 || crc == Crc::Folded {
                    let mut pair = Pair::of_memory(spec, MEMORY).unwrap();
                    pair.run(5_000);
                    pair.run_octets(200_000).unwrap();
                    pair.ensure().unwrap();
                }
            }
        }
    }

    #[test]
    fn a_pass_of_its_own_sees_what_is_damaged() {
        let spec = Spec {
            crc: Crc::Pass,
            line: Share::new(10_000_000),
            ..Spec::default()
        };
        let mut pair = Pair::of_memory(spec, MEMORY).unwrap();
        pair.run(10_000);
        assert!(pair.bad > 0 && pair.ensure().is_err());
    }

    #[test]
    fn damaged_pdus_are_sent_again_until_all_is_there() {
        let spec = Spec {
            line: Share::new(10_000_000),
            ..Spec::default()
        };
        let mut pair = Pair::of_memory(spec, MEMORY).unwrap();
        pair.run_octets(1_000_000).unwrap();
        assert!(pair.again().unwrap() > 0);
        pair.ensure().unwrap();
    }

    #[test]
    fn what_is_sent_alone_comes_when_it_settles() {
        let spec = Spec {
            window: 8 << 20,
            ..Spec::default()
        };
        let mut pair = Pair::of_memory(spec, MEMORY).unwrap();
        for _ in 0..3 {
            let rate = CellRate::new(u32::MAX).unwrap();
            let timer = RateTimer::new(pair.now, rate, 64, 0);
            pair.sends(timer, false, 3_000);
            assert!(pair.settles() >= 3_000);
        }
        pair.ensure().unwrap();
    }
}
