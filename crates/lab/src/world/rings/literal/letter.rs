use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::adapter::Discard;

use super::super::application::Application;
use super::super::digest;
use crate::machine::v1s::Host;

/// Octets of a block in a cell.
const DATA: usize = 32;

/// A block that is not complete.
#[derive(Debug)]
struct Begun {
    rid: u8,
    due: u8,
    cells: u64,
    octets: Vec<u8>,
}

/// MSSAR by its text, where one station sends on a circuit.
#[derive(Debug, Default)]
pub(super) struct Letter {
    begun: BTreeMap<u16, Begun>,
    /// Circuits that have a reader.
    open: BTreeSet<u16>,
    onward: BTreeSet<u16>,
    /// By circuit: lengths and digests.
    blocks: BTreeMap<u16, Vec<(u16, u64)>>,
    lost: u64,
    wrong: u64,
    /// Of blocks whose circuit was closed, and of nobody's circuits.
    closed: u64,
    unknown: u64,
    pub(super) cells: u64,
}

impl Letter {
    /// Of these circuits, of which some are sent on by cell.
    pub(super) fn of(circuits: impl Iterator<Item = u16>, onward: BTreeSet<u16>) -> Self {
        Self {
            onward,
            open: circuits.collect(),
            ..Self::default()
        }
    }

    /// A circuit has a reader from here on, or none.
    pub(super) fn listens(&mut self, vci: u16, is_open: bool) {
        if is_open {
            self.open.insert(vci);
            return;
        }
        self.open.remove(&vci);
        self.closed += self.begun.remove(&vci).map_or(0, |block| block.cells);
    }

    pub(super) fn reads(&mut self, cell: &[u8]) {
        self.cells += 1;
        let vci = u16::from_be_bytes([cell[0], cell[1]]);
        if self.onward.contains(&vci) {
            return;
        }
        if !self.open.contains(&vci) {
            self.unknown += 1;
            return;
        }
        let (sequence, rid) = (cell[2], cell[3] >> 2);
        let (part, start) = (cell[3] & 2 != 0, cell[3] & 1 != 0);
        let data = &cell[4..];
        let count = match part {
            true => usize::from(data[DATA - 1]),
            false => DATA,
        };
        let before = self.begun.remove(&vci);
        if sequence == 0 || (part && count >= DATA) {
            self.wrong += 1 + before.map_or(0, |block| block.cells);
            return;
        }
        let block = match (start, before) {
            (true, before) => {
                self.lost += before.map_or(0, |block| block.cells);
                Some(Begun {
                    rid,
                    due: sequence,
                    cells: 0,
                    octets: Vec::new(),
                })
            }
            (false, Some(block)) if (block.rid, block.due) == (rid, sequence) => Some(block),
            (false, before) => {
                self.lost += 1 + before.map_or(0, |block| block.cells);
                None
            }
        };
        let Some(mut block) = block else {
            return;
        };
        block.octets.extend(&data[..count]);
        block.cells += 1;
        block.due -= 1;
        if block.due > 0 {
            self.begun.insert(vci, block);
            return;
        }
        let told = (block.octets.len() as u16, digest(&block.octets));
        self.blocks.entry(vci).or_default().push(told);
    }

    /// Whether a host has read these blocks, and thrown these cells away.
    pub(super) fn compare(&self, host: &Host<Application>) -> Result<(), String> {
        let mut read: BTreeMap<u16, Vec<(u16, u64)>> = BTreeMap::new();
        for one in &host.application().read {
            read.entry(one.vci).or_default().push((one.len, one.digest));
        }
        if read != self.blocks {
            let counts = |all: &BTreeMap<u16, Vec<(u16, u64)>>| -> Vec<(u16, usize)> {
                all.iter()
                    .map(|(vci, blocks)| (*vci, blocks.len()))
                    .collect()
            };
            let (told, due) = (counts(&read), counts(&self.blocks));
            return Err(format!(
                "blocks by circuit {told:?}, by the letter {due:?}, or others"
            ));
        }
        let discarded = &host.msdl().counts().discarded;
        let held: u64 = self.begun.values().map(|block| block.cells).sum();
        let told = (
            discarded.of(Discard::LostCell),
            discarded.of(Discard::LengthError),
            discarded.of(Discard::Closed),
            discarded.of(Discard::UnknownVc),
            u64::from(host.msdl().held_cells()),
        );
        let due = (self.lost, self.wrong, self.closed, self.unknown, held);
        match told == due {
            true => Ok(()),
            false => Err(format!(
                "lost, wrong, closed, unknown, held {told:?}, by the letter {due:?}"
            )),
        }
    }
}
