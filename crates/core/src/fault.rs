//! Faults of a line: a list of what happens to which cell, applied to the cells in order. Who draws
//! the list is the caller's affair; the same list does the same to the same cells.
#![warn(missing_docs)]

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::wire::{CELL_LEN, CellFormat, Header, PAYLOAD_LEN, Pti, VpiVci, hec};

/// What happens to one cell. Several can happen to the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It waits for so long at the head of the line, and all that come behind it wait too: then
    /// they arrive in a clump (cell delay variation).
    Hold {
        /// Nanoseconds from when its turn comes.
        ns: u64,
    },
    /// A cell of another VC arrives before it: one whose header was changed into a valid one
    /// elsewhere (misinsertion, I.356 section 6).
    Insert {
        /// Of that cell.
        address: VpiVci,
        /// Whether that cell says that it is the last of its PDU.
        last: bool,
    },
    /// One bit of it is inverted.
    Flip {
        /// Counted from the first bit of its header as the line carries it. Beyond the cell's end
        /// nothing is inverted.
        bit: u16,
    },
    /// It arrives once more.
    Duplicate,
    /// It does not arrive.
    Lose,
}

/// Something that happens to one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Which cell of the line, counted from 0.
    pub cell: u64,
    /// What happens to it.
    pub effect: Effect,
}

/// What faults did. `cells_out` = `cells_in` - `lost` + `duplicated` + `inserted`, but for cells
/// that wait between the two (`FaultyLine::pending`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCounts {
    /// Cells that the line brought.
    pub cells_in: u64,
    /// Cells that were handed on.
    pub cells_out: u64,
    /// Cells that were not handed on.
    pub lost: u64,
    /// Cells handed on beyond the first of their kind.
    pub duplicated: u64,
    /// Cells of others handed on.
    pub inserted: u64,
    /// Cells handed on with a wrong bit in the header, its HEC included.
    pub header_errors: u64,
    /// Cells handed on with a wrong bit in the payload.
    pub payload_errors: u64,
    /// Times that the line was held.
    pub holds: u64,
}

/// A line with faults: stands between the cells that arrive and whoever takes them.
#[derive(Clone, Debug)]
pub struct FaultyLine {
    format: CellFormat,
    /// By cell; a cell's holds before all else that happens to it.
    faults: Vec<Fault>,
    next: usize,
    counts: FaultCounts,
    held_until: Time,
    /// Cells as they came.
    batch: Vec<u8>,
    /// Cells to be handed on, from `ahead` to `behind`.
    pending: Vec<u8>,
    ahead: usize,
    behind: usize,
}

impl FaultyLine {
    /// Cells looked at together where faults are near.
    const BATCH: usize = 256;

    /// A line whose first cell is number 0, with faults in any order.
    pub fn new(format: CellFormat, mut faults: Vec<Fault>) -> Self {
        faults.sort_unstable();
        let pending = Self::BATCH + Self::growth_max(&faults);
        Self {
            format,
            faults,
            next: 0,
            counts: FaultCounts::default(),
            held_until: Time::ZERO,
            batch: vec![0; Self::BATCH * format.stride()],
            pending: vec![0; pending * format.stride()],
            ahead: 0,
            behind: 0,
        }
    }

    /// The most cells that any batch grows by.
    fn growth_max(faults: &[Fault]) -> usize {
        let grows =
            |fault: &&Fault| matches!(fault.effect, Effect::Insert { .. } | Effect::Duplicate);
        let (mut first, mut growth, mut most) = (0, 0, 0);
        for fault in faults.iter().filter(grows) {
            growth += 1;
            while fault.cell - faults[first].cell >= Self::BATCH as u64 {
                growth -= usize::from(grows(&&faults[first]));
                first += 1;
            }
            most = growth.max(most);
        }
        most
    }

    /// What happened so far.
    pub fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// Cells that came, or came of it, and are not handed on yet.
    pub fn pending(&self) -> usize {
        self.format.cells_in(self.behind - self.ahead)
    }

    /// Until when the line is held, if it is at `now`.
    pub fn held_until(&self, now: Time) -> Option<Time> {
        Some(self.held_until).filter(|until| now < *until)
    }

    /// Moves cells to `fifo`, as many as there are and fit; how many. Fewer than fit: the line is
    /// empty or held.
    ///
    /// `waiting` cells are there now, and `take` moves so many of them into what it is given as
    /// that holds.
    pub fn receive(
        &mut self,
        now: Time,
        waiting: usize,
        mut take: impl FnMut(&mut [u8]) -> usize,
        fifo: &mut [u8],
    ) -> usize {
        let stride = self.format.stride();
        let room = self.format.cells_in(fifo.len());
        let (mut done, mut waiting) = (0, waiting);
        while done < room {
            let free = &mut fifo[done * stride..room * stride];
            if self.ahead < self.behind {
                let len = free.len().min(self.behind - self.ahead);
                free[..len].copy_from_slice(&self.pending[self.ahead..][..len]);
                self.ahead += len;
                done += self.format.cells_in(len);
                continue;
            }
            let wanted = self.until_hold(now, waiting.min(room - done));
            if wanted == 0 {
                break;
            }
            let taken = if self.is_sound(wanted) {
                let taken = take(&mut free[..wanted * stride]).min(wanted);
                self.counts.cells_in += taken as u64;
                done += taken;
                taken
            } else {
                let wanted = wanted.min(Self::BATCH);
                let taken = take(&mut self.batch[..wanted * stride]).min(wanted);
                self.apply(taken);
                taken
            };
            waiting -= taken;
            if taken == 0 {
                break;
            }
        }
        self.counts.cells_out += done as u64;
        done
    }

    /// How many of `waiting` cells come before the next that is held; begins a hold when its
    /// cell's turn has come.
    fn until_hold(&mut self, now: Time, waiting: usize) -> usize {
        if waiting == 0 || now < self.held_until {
            return 0;
        }
        let turn = self.counts.cells_in;
        if let Some(&Fault { cell, effect }) = self.faults.get(self.next)
            && let (true, Effect::Hold { ns }) = (cell == turn, effect)
        {
            self.next += 1;
            self.counts.holds += 1;
            self.held_until = now.plus_ns(ns);
            return 0;
        }
        let ahead = self.faults[self.next..].iter();
        let mut near = ahead.take_while(|fault| fault.cell - turn < waiting as u64);
        let hold = near.find(|fault| matches!(fault.effect, Effect::Hold { .. }));
        hold.map_or(waiting, |fault| (fault.cell - turn) as usize)
    }

    /// Whether nothing happens to the next `cells` cells.
    fn is_sound(&self, cells: usize) -> bool {
        let fault = self.faults.get(self.next);
        fault.is_none_or(|fault| fault.cell - self.counts.cells_in >= cells as u64)
    }

    /// Does to the first `cells` cells of the batch what the list says, into `pending`, which is
    /// empty and, by its making, long enough.
    fn apply(&mut self, cells: usize) {
        let stride = self.format.stride();
        (self.ahead, self.behind) = (0, 0);
        for at in 0..cells {
            let turn = self.counts.cells_in;
            self.counts.cells_in += 1;
            let mut cell = [0; CELL_LEN];
            let cell = &mut cell[..stride];
            let original = &self.batch[at * stride..][..stride];
            cell.copy_from_slice(original);
            let (mut copies, mut is_lost) = (1, false);
            while let Some(&Fault {
                cell: which,
                effect,
            }) = self.faults.get(self.next)
                && which == turn
            {
                self.next += 1;
                match effect {
                    // `until_hold` has seen to it.
                    Effect::Hold { .. } => {}
                    Effect::Insert { address, last } => {
                        self.behind +=
                            insert(&mut self.pending[self.behind..], stride, address, last);
                        self.counts.inserted += 1;
                    }
                    Effect::Flip { bit } => {
                        if let Some(octet) = cell.get_mut(usize::from(bit / 8)) {
                            *octet ^= 0x80 >> (bit % 8);
                        }
                    }
                    Effect::Duplicate => copies += 1,
                    Effect::Lose => is_lost = true,
                }
            }
            if is_lost {
                self.counts.lost += 1;
                continue;
            }
            let header = stride - PAYLOAD_LEN;
            self.counts.header_errors += u64::from(cell[..header] != original[..header]);
            self.counts.payload_errors += u64::from(cell[header..] != original[header..]);
            self.counts.duplicated += copies - 1;
            for _ in 0..copies {
                self.pending[self.behind..][..stride].copy_from_slice(cell);
                self.behind += stride;
            }
        }
    }
}

/// Writes a cell of `stride` octets; how many.
fn insert(into: &mut [u8], stride: usize, address: VpiVci, last: bool) -> usize {
    let pti = Pti::User {
        congested: false,
        last,
    };
    let header = Header::new(address, pti, false).emit();
    let cell = &mut into[..stride];
    // I.432.1 section 4.4: what idle cells are filled with.
    cell.fill(0x6a);
    cell[..4].copy_from_slice(&header);
    if stride == CELL_LEN {
        cell[4] = hec(header);
    }
    stride
}
