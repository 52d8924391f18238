use std::collections::{BTreeMap, VecDeque};

use cellgate_core::aal::mssar::{Block, Limits, Reassembler, Segmenter, Verdict, block_max};
use cellgate_core::wire::{CBN_CELL_LEN, MSSAR_RING_LEN, Mssar};

use super::costs::{HostCosts, Instructions};
use super::{Station, V1sSpec, Word};
use crate::world::Ps;

/// A block that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub vci: u16,
    /// The channel on which its destination receives.
    pub channel: u8,
    pub octets: Vec<u8>,
}

/// What a host does beside its network.
pub trait Application {
    /// The CPU is free: a block to send.
    fn idle(&mut self, _at: Ps) -> Option<Outgoing> {
        None
    }

    /// A block has left: its last word is on its way to the RAM.
    fn sent(&mut self, _at: Ps) {}

    /// A block has come.
    fn received(&mut self, _at: Ps, _vci: u16, _block: &[u8]) {}
}

/// Where the CPU goes on after it has spent its time, or got its word.
#[derive(Clone, Debug)]
enum Doing {
    /// A block's buffers, then its cells.
    Sends(Outgoing, Segmenter),
    /// A cell's words that have not been written.
    Writes(Outgoing, Segmenter, [u8; CBN_CELL_LEN], usize),
    /// In the interrupt handler: looks for a cell, as long as it dallies.
    Looks(Ps),
    /// Reads a cell's words.
    Reads([u8; CBN_CELL_LEN], usize),
    /// The last word has come.
    Takes([u8; CBN_CELL_LEN]),
}

/// When interrupts are heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// At once.
    #[default]
    InterruptFirst,
    /// Never: a block that is there is read when one has been sent, and one is sent when one has
    /// been read.
    InTurn,
}

/// The interface that copies cells by itself (section 7): all but the first word of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dma {
    /// Until it has the bus.
    pub arbitration: Ps,
    /// Of each word.
    pub word: Ps,
    /// Nobody else has the bus until a cell is copied. Otherwise who asks for the next too early
    /// gets a bus error, and the cell is lost.
    pub locks: bool,
}

impl Dma {
    /// 7.4 us for a cell, of which 0.3 are arbitration.
    pub const PAPER: Self = Self {
        arbitration: Ps::from_ns(300),
        word: Ps::new(887_500),
        locks: true,
    };

    /// The time of a cell.
    pub const fn cell(&self) -> Ps {
        let words = V1sSpec::WORDS as u64 - 1;
        self.arbitration.plus(Ps::new(self.word.ps() * words))
    }
}

/// What a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSpec {
    pub costs: HostCosts,
    /// How long the handler waits for another cell before it ends.
    pub dally: Ps,
    pub order: Order,
    /// What copies cells that are sent; none: the CPU.
    pub dma: Option<Dma>,
}

/// What a host has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Times that the interrupt handler was entered.
    pub interrupts: u64,
    pub sent_blocks: u64,
    pub received_blocks: u64,
    pub received_octets: u64,
    /// Cells that were thrown away.
    pub discarded: u64,
    /// Cells that were lost since they were asked for while another was copied.
    pub bus_errors: u64,
    /// Time of the CPU, dallying included.
    pub busy: Ps,
}

/// A host, and its application.
pub struct Host<A> {
    spec: HostSpec,
    application: A,
    /// What it does, the interrupt handler last.
    stack: Vec<Doing>,
    /// When it goes on; it waits for the station, or for nothing, if that is the end of time.
    at: Ps,
    waits: bool,
    circuits: BTreeMap<u16, Reassembler>,
    /// Blocks that wait for the end of the handler.
    come: VecDeque<(u16, Block)>,
    rid: u8,
    /// In turn: sending is next.
    may_send: bool,
    /// The DMA is busy until then.
    copies_until: Ps,
    counts: HostCounts,
}

impl<A: Application> Host<A> {
    /// A host that receives on these circuits.
    pub fn new(spec: HostSpec, circuits: impl IntoIterator<Item = u16>, application: A) -> Self {
        let data_len = MSSAR_RING_LEN as u8;
        let limits = Limits {
            data_len,
            max_block: block_max(data_len),
            blocks: 1,
            timeout_ns: 100_000_000,
        };
        let circuits = circuits.into_iter();
        Self {
            spec,
            application,
            stack: Vec::new(),
            at: Ps::ZERO,
            waits: false,
            circuits: circuits
                .map(|vci| (vci, Reassembler::new(limits)))
                .collect(),
            come: VecDeque::new(),
            rid: 0,
            may_send: false,
            copies_until: Ps::ZERO,
            counts: HostCounts::default(),
        }
    }

    pub const fn application(&self) -> &A {
        &self.application
    }

    pub const fn counts(&self) -> &HostCounts {
        &self.counts
    }

    /// Whether it has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.waits && self.stack.is_empty() && self.come.is_empty()
    }

    /// When [`Host::step`] is due.
    pub(super) const fn next(&self) -> Ps {
        if self.waits { Ps::MAX } else { self.at }
    }

    /// Something of the station has changed by now.
    pub(super) fn wake(&mut self, now: Ps) {
        if self.waits {
            self.waits = false;
            // It has waited all the time.
            if !self.stack.is_empty() {
                self.counts.busy = self.counts.busy.plus(now.since(self.at));
            }
            self.at = self.at.max(now);
        }
    }

    fn spends(&mut self, span: Ps) {
        self.goes_on(self.at.plus(span));
    }

    fn goes_on(&mut self, at: Ps) {
        self.counts.busy = self.counts.busy.plus(at.since(self.at));
        self.at = at;
    }

    const fn is_in_handler(&self) -> bool {
        matches!(
            self.stack.as_slice(),
            [.., Doing::Looks(_) | Doing::Reads(..) | Doing::Takes(_)]
        )
    }

    /// Does what comes next.
    pub(super) fn step(&mut self, station: &mut Station) {
        let costs = self.spec.costs;
        let enters = match self.spec.order {
            Order::InterruptFirst => station.interrupts() && !self.is_in_handler(),
            Order::InTurn => self.stack.is_empty() && !self.may_send && station.has_cell(),
        };
        if enters {
            station.acknowledge();
            self.counts.interrupts += 1;
            self.spends(costs.receives(Instructions::INTERRUPT));
            let until = self.at.plus(self.spec.dally);
            self.stack.push(Doing::Looks(until));
            return;
        }
        match self.stack.pop() {
            None => self.is_free(),
            Some(Doing::Sends(block, segmenter)) => self.sends(block, segmenter),
            Some(Doing::Writes(block, segmenter, cell, word)) => {
                self.writes(station, block, segmenter, cell, word);
            }
            Some(Doing::Looks(until)) => self.looks(station, until),
            Some(Doing::Reads(cell, word)) => self.reads(station, cell, word),
            Some(Doing::Takes(cell)) => self.takes(&cell),
        }
    }

    fn is_free(&mut self) {
        if let Some((vci, block)) = self.come.pop_front() {
            self.spends(self.spec.costs.received_block);
            self.counts.received_blocks += 1;
            self.counts.received_octets += block.octets.len() as u64;
            self.application.received(self.at, vci, &block.octets);
            if let Some(reassembler) = self.circuits.get_mut(&vci) {
                reassembler.recycle(block.octets);
            }
            return;
        }
        let had_turn = std::mem::take(&mut self.may_send);
        let Some(block) = self.application.idle(self.at) else {
            // What has come is looked at before it waits.
            self.waits = !had_turn;
            return;
        };
        let segmenter = Segmenter::new(block.octets.len(), self.rid, MSSAR_RING_LEN as u8);
        self.rid = (self.rid + 1) % Mssar::RIDS;
        // No block is longer than the longest: it would not leave.
        if let Some(segmenter) = segmenter {
            let costs = &self.spec.costs;
            self.spends(costs.sent_block.plus(costs.sent_call()));
            self.stack.push(Doing::Sends(block, segmenter));
        }
    }

    /// Makes the next cell, if there is one.
    fn sends(&mut self, block: Outgoing, mut segmenter: Segmenter) {
        let mut cell = [0; CBN_CELL_LEN];
        let [high, low, payload @ ..] = &mut cell;
        [*high, *low] = block.vci.to_be_bytes();
        if segmenter.emit_cell(&block.octets, payload) {
            self.spends(self.spec.costs.transmits(Instructions::TRANSMIT_CELL));
            self.stack.push(Doing::Writes(block, segmenter, cell, 0));
        } else {
            self.counts.sent_blocks += 1;
            self.application.sent(self.at);
        }
    }

    fn writes(
        &mut self,
        station: &mut Station,
        block: Outgoing,
        segmenter: Segmenter,
        cell: [u8; CBN_CELL_LEN],
        at: usize,
    ) {
        let (words, _) = cell.as_chunks::<4>();
        let Some(word) = words.get(at) else {
            return self.sends(block, segmenter);
        };
        if let Some(dma) = self.spec.dma {
            if self.at < self.copies_until {
                self.counts.bus_errors += 1;
                return self.sends(block, segmenter);
            }
            if at > 0 {
                station.copy(self.at, block.channel, &words[at..], &dma);
                self.copies_until = self.at.plus(dma.cell());
                if dma.locks {
                    self.goes_on(self.copies_until);
                }
                return self.sends(block, segmenter);
            }
        }
        let written = station.write(self.at, block.channel, *word);
        let next = at + usize::from(written.is_some());
        self.stack.push(Doing::Writes(block, segmenter, cell, next));
        self.went(written);
    }

    /// Goes on at this time, or waits for the station.
    fn went(&mut self, at: Option<Ps>) {
        match at {
            Some(at) => self.goes_on(at),
            None => self.waits = true,
        }
    }

    fn looks(&mut self, station: &mut Station, until: Ps) {
        if station.has_cell() {
            self.stack.push(Doing::Reads([0; CBN_CELL_LEN], 0));
        } else if self.at < until {
            self.stack.push(Doing::Looks(until));
            // A look takes an instruction.
            self.spends(self.spec.costs.receives(1));
        } else {
            // What has interrupted meanwhile was read.
            station.acknowledge();
        }
    }

    fn reads(&mut self, station: &mut Station, mut cell: [u8; CBN_CELL_LEN], at: usize) {
        let read = station.read(self.at);
        let (words, _) = cell.as_chunks_mut::<4>();
        let count = words.len();
        if let (Some(to), Some((word, _))) = (words.get_mut(at), read) {
            *to = word;
        }
        let next = at + usize::from(read.is_some());
        self.stack.push(match next {
            _ if next == count => Doing::Takes(cell),
            _ => Doing::Reads(cell, next),
        });
        self.went(read.map(|(_, at)| at));
    }

    /// A cell has been read.
    fn takes(&mut self, cell: &[u8; CBN_CELL_LEN]) {
        let [high, low, payload @ ..] = cell;
        let vci = u16::from_be_bytes([*high, *low]);
        let now = self.at.time();
        let mut spent = self.spec.costs.received_cell();
        match self.circuits.get_mut(&vci) {
            None => self.counts.discarded += 1,
            Some(reassembler) => {
                let outcome = reassembler.handle(now, payload);
                let failed = outcome.failed.map_or(0, |failed| failed.cells);
                self.counts.discarded += u64::from(failed);
                match outcome.cell {
                    Verdict::Held => {}
                    Verdict::Discarded(_) => self.counts.discarded += 1,
                    Verdict::Delivered(block) if self.spec.order == Order::InTurn => {
                        self.spends(spent.plus(self.spec.costs.received_call()));
                        self.come.push_back((vci, block));
                        self.may_send = true;
                        return;
                    }
                    Verdict::Delivered(block) => {
                        spent = spent.plus(self.spec.costs.received_call());
                        self.come.push_back((vci, block));
                    }
                }
            }
        }
        self.spends(spent);
        let until = self.at.plus(self.spec.dally);
        self.stack.push(Doing::Looks(until));
    }
}

/// A host writes and reads words, no octets.
const _: () = assert!(CBN_CELL_LEN == size_of::<Word>() * V1sSpec::WORDS);
