use std::collections::VecDeque;

use cellgate_core::adapter::{
    AttachmentIndex, Board, Command, Completion, Event, EventKind, PortIndex, Work,
};
use cellgate_core::wire::{CELL_LEN, CellFormat};

use super::cost::{Costs, Cycles, FIFOS};
use super::transmitter::{Departed, Transmitter};
use crate::memory::{LabAttachment, LabRegion};
use crate::world::{Octets, Ps};

/// A command of the lab's memory.
pub type BoardCommand = Command<LabRegion, LabAttachment>;
/// What became of one.
pub type BoardCompletion = Completion<LabRegion, LabAttachment>;

/// Kinds of work, in the order of [`Work`].
const WORKS: usize = Work::HandleCommand as usize + 1;

/// What a PCA-200E is built with.
#[derive(Clone, Copy, Debug)]
pub struct BoardConfig {
    /// What work costs.
    pub costs: Costs,
    /// Whether it costs that, and is counted; else a turn of the firmware takes a cycle.
    pub charged: bool,
    /// Cells of each FIFO. The paper does not say; the ESP has 128 KB for eight.
    pub fifo_cells: usize,
    /// The line, in bit/s of cells.
    pub line_bit_s: u64,
    /// Whether a receive queue without room interrupts the host: section 4.2 says so, section 6.5
    /// measures without.
    pub full_interrupts: bool,
}

impl BoardConfig {
    /// Cells that a turn of the firmware puts into one FIFO at most.
    pub const BURST: usize = 64;
    /// As in the paper, on an OC-3c.
    pub const PAPER: Self = Self {
        costs: Costs::PAPER,
        charged: true,
        fifo_cells: 256,
        line_bit_s: 149_760_000,
        full_interrupts: true,
    };
}

/// Cells at the board, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoardCounts {
    /// Came from the line.
    pub arrived: u64,
    /// Found their receive FIFO full.
    pub overflowed: u64,
    /// Left on the line, by FIFO.
    pub departed: [u64; FIFOS],
}

/// The board around the i960: FIFOs, token generators, the interrupt line, and the cycles that its
/// work takes. Each port of the adapter is a receive and a transmit FIFO.
#[derive(Debug)]
pub struct Pca200e {
    config: BoardConfig,
    /// When the step in progress began.
    began: Ps,
    spent: Cycles,
    receive: [VecDeque<Octets>; FIFOS],
    transmitter: Transmitter,
    departed: Vec<Departed>,
    keeps_departed: bool,
    counts: BoardCounts,
    work: [u64; WORKS],
    cycles: [Cycles; WORKS],
    commands: VecDeque<BoardCommand>,
    pub(super) completions: VecDeque<BoardCompletion>,
    /// Interruptive events that the host was not told of.
    pub(super) interrupts: u32,
    /// Events so far that tell of a receive queue without room.
    full_told: u64,
    /// The event that is about to interrupt tells of one.
    is_full: bool,
}

impl Pca200e {
    /// A board with empty FIFOs.
    pub fn new(config: BoardConfig) -> Self {
        Self {
            began: Ps::ZERO,
            spent: Cycles::default(),
            receive: std::array::from_fn(|_| VecDeque::with_capacity(config.fifo_cells)),
            transmitter: Transmitter::new(config.fifo_cells, config.line_bit_s),
            departed: Vec::new(),
            keeps_departed: false,
            counts: BoardCounts::default(),
            work: [0; WORKS],
            cycles: [Cycles::default(); WORKS],
            commands: VecDeque::new(),
            completions: VecDeque::new(),
            interrupts: 0,
            full_told: 0,
            is_full: false,
            config,
        }
    }

    /// A cell comes from the line: its FIFO is named by the low bits of the VCI (section 4.3).
    pub fn arrive(&mut self, octets: Octets) {
        self.counts.arrived += 1;
        let fifo = &mut self.receive[usize::from(octets[3] >> 4) % FIFOS];
        if fifo.len() < self.config.fifo_cells {
            fifo.push_back(octets);
        } else {
            self.counts.overflowed += 1;
        }
    }

    /// The transmit FIFOs.
    pub fn transmitter(&mut self) -> &mut Transmitter {
        &mut self.transmitter
    }

    /// Keeps cells that leave for [`Pca200e::take_departed`].
    pub fn keep_departed(&mut self) {
        self.keeps_departed = true;
    }

    /// Cells that have left since the last call.
    pub fn take_departed(&mut self) -> Vec<Departed> {
        std::mem::take(&mut self.departed)
    }

    pub fn counts(&self) -> BoardCounts {
        self.counts
    }

    /// How often work was charged.
    pub fn work(&self, work: Work) -> u64 {
        self.work[work as usize]
    }

    /// The cycles that it took.
    pub fn cycles(&self, work: Work) -> Cycles {
        self.cycles[work as usize]
    }

    /// Events so far of receive queues without room.
    pub fn full_told(&self) -> u64 {
        self.full_told
    }

    /// Hands the adapter a command.
    pub fn order(&mut self, command: BoardCommand) {
        self.commands.push_back(command);
    }

    /// A step begins.
    pub(super) fn begin(&mut self, now: Ps) {
        self.began = now;
        self.run_line(now);
    }

    /// The step ends; what it took.
    pub(super) fn end(&mut self) -> Cycles {
        let spent = std::mem::take(&mut self.spent);
        self.run_line(self.began.plus(spent.time()));
        spent
    }

    fn run_line(&mut self, until: Ps) {
        let (counts, departed) = (&mut self.counts, &mut self.departed);
        let keeps = self.keeps_departed;
        self.transmitter.run(until, |cell| {
            counts.departed[cell.fifo] += 1;
            if keeps {
                departed.push(cell);
            }
        });
    }
}

impl Board for Pca200e {
    type Region = LabRegion;
    type Attachment = LabAttachment;

    fn receive(&mut self, port: PortIndex, format: CellFormat, fifo: &mut [u8]) -> usize {
        let stride = format.stride();
        let waiting = &mut self.receive[usize::from(port.0)];
        let n = waiting.len().min(format.cells_in(fifo.len()));
        for (cell, place) in waiting.drain(..n).zip(fifo.chunks_exact_mut(stride)) {
            place.copy_from_slice(&cell[..stride]);
        }
        n
    }

    fn transmit_space(&mut self, port: PortIndex) -> usize {
        let space = self.transmitter.space(port.0.into());
        space.min(BoardConfig::BURST)
    }

    fn transmit(&mut self, port: PortIndex, format: CellFormat, cells: &[u8]) {
        let now = self.began.plus(self.spent.time());
        self.run_line(now);
        for octets in cells.chunks_exact(format.stride()) {
            let mut cell = [0; CELL_LEN];
            cell[..octets.len()].copy_from_slice(octets);
            self.transmitter.put(now, port.0.into(), cell);
        }
    }

    fn interrupt(&mut self, _index: AttachmentIndex, _guaranteed: bool) {
        let masked = std::mem::take(&mut self.is_full) && !self.config.full_interrupts;
        self.interrupts += u32::from(!masked);
    }

    fn command(&mut self) -> Option<BoardCommand> {
        self.commands.pop_front()
    }

    fn complete(&mut self, completion: BoardCompletion) {
        self.completions.push_back(completion);
    }

    fn posted(&mut self, _index: AttachmentIndex, event: &Event) {
        self.is_full = event.kind == EventKind::ReceiveQueueFull;
        self.full_told += u64::from(self.is_full);
    }

    fn charge(&mut self, work: Work, times: u32) {
        if self.config.charged {
            let cycles = self.config.costs.of(work, times.into());
            self.work[work as usize] += u64::from(times);
            self.cycles[work as usize].add(cycles);
            self.spent.add(cycles);
        }
    }
}
