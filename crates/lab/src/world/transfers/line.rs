use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::line::{Impairments, LineSpec};
use cellgate_core::terminal::CellPayload;
use cellgate_core::wire::{CELL_LEN_NO_HEC, CellFormat, PAYLOAD_LEN};

use super::scenario::RepeatSpec;
use crate::world::{Interval, Ps};

/// A terminal acts behind so many cells of the line.
pub(super) const TURN_CELLS: u64 = 32;

/// A line in one direction.
pub(super) struct Line {
    impairments: Impairments,
    pub(super) cell: Ps,
    delay_ns: u64,
    pub(super) free: Ps,
    pub(super) cells: VecDeque<(Time, CellPayload)>,
    /// Those that have come last.
    came: VecDeque<CellPayload>,
}

impl Line {
    pub(super) fn new(spec: LineSpec, number: u64, bit_s: u64, delay_ns: u64) -> Self {
        Self {
            impairments: Impairments::new(spec, CellFormat::NoHec, number),
            cell: Interval::of_line(bit_s).times(1),
            delay_ns,
            free: Ps::ZERO,
            cells: VecDeque::new(),
            came: VecDeque::new(),
        }
    }

    /// Whether a cell may be put on it.
    pub(super) fn takes(&self, now: Time) -> bool {
        self.free.ns() <= now.ns() + TURN_CELLS * self.cell.ns()
    }

    pub(super) fn put(&mut self, now: Time, cell: &CellPayload) {
        self.free = self.free.max(Ps::from_ns(now.ns())).plus(self.cell);
        let at = Time::from_ns(self.free.ns());
        let mut whole = [0; CELL_LEN_NO_HEC];
        whole[CELL_LEN_NO_HEC - PAYLOAD_LEN..].copy_from_slice(&cell.octets);
        let passage = self.impairments.pass(at, &mut whole);
        let mut octets = [0; PAYLOAD_LEN];
        octets.copy_from_slice(&whole[CELL_LEN_NO_HEC - PAYLOAD_LEN..]);
        let due = passage.due.plus_ns(self.delay_ns);
        for _ in 0..passage.copies {
            let last = cell.last;
            self.cells.push_back((due, CellPayload { octets, last }));
        }
    }

    pub(super) fn next(&mut self, now: Time) -> Option<CellPayload> {
        let (_, cell) = self.cells.pop_front_if(|(at, _)| *at <= now)?;
        self.came.push_back(cell);
        if self.came.len() > RepeatSpec::CELLS_MAX.into() {
            self.came.pop_front();
        }
        Some(cell)
    }

    /// The last cells come once more.
    pub(super) fn repeats(&mut self, now: Time, repeat: &RepeatSpec) {
        let first = self.came.len().saturating_sub(repeat.back.into());
        let cells = self.came.iter().skip(first).take(repeat.cells.into());
        let cells: Vec<CellPayload> = cells.copied().collect();
        for (n, cell) in cells.iter().enumerate().rev() {
            let mut cell = *cell;
            cell.octets[40] ^= u8::from(repeat.damaged && n % 2 == 0);
            self.cells.push_front((now, cell));
        }
    }
}
