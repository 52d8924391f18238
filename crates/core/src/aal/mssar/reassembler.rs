use super::{CELLS_MAX, Discard, cells};
use crate::Time;
use crate::wire::{MSSAR_LEN, Mssar};

/// The bounds of one circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Octets of a block in each cell.
    pub data_len: u8,
    /// Octets of the longest block.
    pub max_block: u16,
    /// Blocks in progress at once: more than one where several stations send on the circuit, each
    /// under an identifier of its own.
    pub blocks: u8,
    /// From a block's first cell to its last; then it is given up.
    pub timeout_ns: u64,
}

/// A block that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its octets, each of which was written once.
    pub octets: Vec<u8>,
    pub cells: u8,
    pub rid: u8,
}

/// A block that was in progress and is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    pub rid: u8,
    pub reason: Discard,
    /// Cells that were held: they are discarded for this reason.
    pub cells: u8,
}

/// The fate of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Held in a block in progress.
    Held,
    /// It completed a block.
    Delivered(Block),
    Discarded(Discard),
}

/// The effect of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// A block in progress that the cell ended without completing it.
    pub failed: Option<Failed>,
    /// The fate of the cell itself.
    pub cell: Verdict,
}

/// The reassembly of one circuit.
///
/// ```text
///             Start               next in sequence
///   vacant ----------> in progress --+------------> in progress
///      ^                  |          | the last
///      |  a gap, timeout  |          v
///      +------------------+------ delivered
/// ```
///
/// A bad cell ends the block it would have gone on with; the next block is whole.
#[derive(Clone, Debug)]
pub struct Reassembler {
    limits: Limits,
    /// In the order in which they began.
    in_progress: Vec<InProgress>,
    /// Memory of blocks that were given back.
    spare: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct InProgress {
    rid: u8,
    /// Cells that have come, and that are to come.
    cells: u8,
    left: u8,
    octets: Vec<u8>,
    began: Time,
}

impl Reassembler {
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            in_progress: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Cells of blocks in progress.
    pub fn held_cells(&self) -> u32 {
        let cells = self.in_progress.iter().map(|block| u32::from(block.cells));
        cells.sum()
    }

    /// When [`Reassembler::handle_deadline`] is due.
    pub fn next_deadline(&self) -> Option<Time> {
        let first = self.in_progress.first()?;
        Some(first.began.plus_ns(self.limits.timeout_ns))
    }

    /// Gives a block up that is late. Call it until it has none.
    pub fn handle_deadline(&mut self, now: Time) -> Option<Failed> {
        let is_late = self.next_deadline().is_some_and(|deadline| deadline <= now);
        is_late.then(|| self.give_up(0, Discard::ReassemblyTimeout))
    }

    /// Takes the memory of a block back.
    pub fn recycle(&mut self, mut octets: Vec<u8>) {
        if self.spare.len() < self.limits.blocks.into() {
            octets.clear();
            self.spare.push(octets);
        }
    }

    /// Takes a cell in: its fragmentation header and D octets of a block. One of another length is
    /// a bad one.
    pub fn handle(&mut self, now: Time, cell: &[u8]) -> Outcome {
        let Some((header, data)) = cell.split_first_chunk::<MSSAR_LEN>() else {
            return refused(Discard::LengthError);
        };
        let header = Mssar::parse(*header);
        let mut at = self.find(header.rid);
        let Some(data) = self.valid(header, data) else {
            return self.discard(at, Discard::LengthError);
        };
        let mut failed = None;
        if header.start {
            failed = at.map(|at| self.give_up(at, Discard::LostCell));
            if let Some(reason) = self.refusal(header) {
                let cell = Verdict::Discarded(reason);
                return Outcome { failed, cell };
            }
            at = Some(self.in_progress.len());
            self.in_progress.push(InProgress {
                rid: header.rid,
                cells: 0,
                left: header.sequence,
                octets: self.spare.pop().unwrap_or_default(),
                began: now,
            });
        }
        let block = at.and_then(|at| Some((at, self.in_progress.get_mut(at)?)));
        let Some((at, block)) = block.filter(|(_, block)| block.is_next(header)) else {
            return self.discard(at, Discard::LostCell);
        };
        if block.octets.len() + data.len() > self.limits.max_block.into() {
            let ended = self.give_up(at, Discard::Oversized);
            return Outcome {
                failed: failed.or((ended.cells > 0).then_some(ended)),
                ..refused(Discard::Oversized)
            };
        }
        block.octets.extend_from_slice(data);
        block.cells += 1;
        block.left -= 1;
        let cell = match block.left {
            0 => {
                let block = self.in_progress.remove(at);
                Verdict::Delivered(Block {
                    octets: block.octets,
                    cells: block.cells,
                    rid: block.rid,
                })
            }
            _ => Verdict::Held,
        };
        Outcome { failed, cell }
    }

    /// The block in progress that a cell with this identifier goes on with, or ends: where one
    /// station sends, one block after the other, that is any.
    fn find(&self, rid: u8) -> Option<usize> {
        let is_shared = self.limits.blocks > 1;
        let mut blocks = self.in_progress.iter();
        blocks.position(|block| block.rid == rid || !is_shared)
    }

    /// The octets of a block in a cell; none: the cell cannot be.
    fn valid<'a>(&self, header: Mssar, data: &'a [u8]) -> Option<&'a [u8]> {
        let (count, _) = data.split_last()?;
        if header.sequence == 0 || data.len() != usize::from(self.limits.data_len) {
            return None;
        }
        match header.part {
            true if usize::from(*count) < data.len() => data.get(..usize::from(*count)),
            true => None,
            false => Some(data),
        }
    }

    /// The reason for which no block begins with this cell.
    fn refusal(&self, header: Mssar) -> Option<Discard> {
        let most = cells(self.limits.max_block.into(), self.limits.data_len);
        if header.sequence > most.unwrap_or(CELLS_MAX) {
            return Some(Discard::Oversized);
        }
        let is_full = self.in_progress.len() >= self.limits.blocks.into();
        is_full.then_some(Discard::TooManyBlocks)
    }

    fn discard(&mut self, at: Option<usize>, reason: Discard) -> Outcome {
        Outcome {
            failed: at.map(|at| self.give_up(at, reason)),
            ..refused(reason)
        }
    }

    fn give_up(&mut self, at: usize, reason: Discard) -> Failed {
        let InProgress {
            rid, cells, octets, ..
        } = self.in_progress.remove(at);
        self.recycle(octets);
        Failed { rid, reason, cells }
    }
}

impl InProgress {
    fn is_next(&self, header: Mssar) -> bool {
        (self.rid, self.left) == (header.rid, header.sequence)
    }
}

const fn refused(reason: Discard) -> Outcome {
    Outcome {
        failed: None,
        cell: Verdict::Discarded(reason),
    }
}
