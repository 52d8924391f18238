//! The adapter's world in a replay: one port that holds the cells of one record at a time.

use cellgate_core::adapter::{
    AttachmentIndex, Board, CellOutcome, Command, Completion, Discard, PortIndex,
};
use cellgate_core::wire::{CELL_LEN, CellFormat};
use cellgate_shm::{AttachmentMemory, ConnectionMemory};

/// Cells that the port takes at once: nothing but answers to OAM cells ever leaves.
const SPACE: usize = 256;

/// A port, and what was told of its cells.
#[derive(Default)]
pub(super) struct ReplayBoard {
    cells: Vec<[u8; CELL_LEN]>,
    taken: usize,
    judged: usize,
    /// Cells at which something was discarded, by their place in `cells`.
    discarded: Vec<(usize, Discard)>,
    pub(super) command: Option<Command<ConnectionMemory, AttachmentMemory>>,
    pub(super) completion: Option<Completion<ConnectionMemory, AttachmentMemory>>,
}

impl ReplayBoard {
    /// Puts cells on the port, which is empty.
    pub(super) fn load(&mut self, cells: &[[u8; CELL_LEN]]) {
        self.cells.clear();
        self.cells.extend_from_slice(cells);
        self.taken = 0;
        self.judged = 0;
        self.discarded.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken == self.cells.len()
    }

    /// The cells at which something was discarded, and why.
    pub(super) fn discarded(&self) -> impl Iterator<Item = (&[u8; CELL_LEN], Discard)> {
        let discarded = self.discarded.iter();
        discarded.filter_map(|(at, reason)| Some((self.cells.get(*at)?, *reason)))
    }
}

impl Board for ReplayBoard {
    type Region = ConnectionMemory;
    type Attachment = AttachmentMemory;

    fn receive(&mut self, _port: PortIndex, _format: CellFormat, fifo: &mut [u8]) -> usize {
        let waiting = self.cells.get(self.taken..).unwrap_or_default();
        let (fifo, _) = fifo.as_chunks_mut::<CELL_LEN>();
        let count = fifo.len().min(waiting.len());
        fifo[..count].copy_from_slice(&waiting[..count]);
        self.taken += count;
        count
    }

    fn transmit_space(&mut self, _port: PortIndex) -> usize {
        SPACE
    }

    fn transmit(&mut self, _port: PortIndex, _format: CellFormat, _cells: &[u8]) {}

    fn interrupt(&mut self, _index: AttachmentIndex, _guaranteed: bool) {}

    fn command(&mut self) -> Option<Command<ConnectionMemory, AttachmentMemory>> {
        self.command.take()
    }

    fn complete(&mut self, completion: Completion<ConnectionMemory, AttachmentMemory>) {
        self.completion = Some(completion);
    }

    fn judged(&mut self, outcome: CellOutcome, cells: u32) {
        let from = self.judged;
        self.judged += cells as usize;
        if let CellOutcome::Discarded(reason) = outcome {
            let places = (from..self.judged).map(|at| (at, reason));
            self.discarded.extend(places);
        }
    }
}
