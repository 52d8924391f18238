use std::collections::{BTreeMap, VecDeque};

use cellgate_core::upper::msna::Notify;
use cellgate_core::wire::{CBN_CELL_LEN, CbnCell, Mssar};

use super::{Dma, FalseTraffic, V1sSpec};
use crate::cbn::Attached;
use crate::world::Ps;

/// A word of a cell: the first has its circuit and its fragmentation header.
pub type Word = [u8; 4];

/// The fates of cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cells that the ring took from the station.
    pub sent: u64,
    /// Cells for one of its circuits that passed, and those of them that found the FIFO full:
    /// nobody is told.
    pub passed: u64,
    pub overflowed: u64,
    /// Cells that have left the RAM for the host.
    pub read: u64,
    pub interrupts: u64,
    /// Cells that had a place in the receive FIFO, at most, and those of them that were there as a
    /// whole and of which nothing was read.
    pub high_water: usize,
    pub backlog: usize,
    /// Accesses to the RAM.
    pub accesses: u64,
    /// The longest time that a cell has waited in the access chip.
    pub longest_wait: Ps,
}

/// A cell that the access chip holds until a slot is empty.
#[derive(Clone, Debug, Default)]
struct Held {
    words: Vec<Word>,
    /// Since when it is whole.
    since: Ps,
}

/// A transmit FIFO.
#[derive(Clone, Debug, Default)]
struct Transmit {
    /// Words in the RAM, of whole cells but for the last.
    words: VecDeque<Word>,
    held: Held,
    /// Cells of false traffic that were sent.
    false_cells: u64,
}

/// A word that waits for its cycle.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    word: Word,
    from: Ps,
}

/// A station.
#[derive(Clone, Debug)]
pub struct Station {
    spec: V1sSpec,
    circuits: BTreeMap<u16, Notify>,
    /// The RAM is free from here on.
    free: Ps,
    /// Words that the ring brings, to be written.
    arriving: VecDeque<Waiting>,
    /// Words in the receive FIFO: those of cells that are there as a whole, and of one that is not.
    received: VecDeque<Word>,
    whole: usize,
    /// Cells that have a place in the FIFO, until their last word has left the RAM.
    places: usize,
    /// Words in it of the cell whose words go to the port.
    leaving: usize,
    transmit: Vec<Transmit>,
    /// Words between host and RAM: of the host's, with their channel, and the RAM's.
    written: VecDeque<(Waiting, u8)>,
    fetched: VecDeque<Word>,
    /// Since when the port has room, or there is something for it.
    fetches_from: Ps,
    interrupts: bool,
    counts: Counts,
}

/// Whose access is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    RingReceive,
    RingTransmit(usize),
    HostWrite,
    HostRead,
}

impl Station {
    pub fn new(spec: V1sSpec, circuits: impl IntoIterator<Item = (u16, Notify)>) -> Self {
        Self {
            circuits: circuits.into_iter().collect(),
            free: Ps::ZERO,
            arriving: VecDeque::new(),
            received: VecDeque::new(),
            whole: 0,
            places: 0,
            leaving: 0,
            transmit: vec![Transmit::default(); spec.channels.into()],
            written: VecDeque::new(),
            fetched: VecDeque::new(),
            fetches_from: Ps::ZERO,
            interrupts: false,
            counts: Counts::default(),
            spec,
        }
    }

    pub const fn spec(&self) -> &V1sSpec {
        &self.spec
    }

    /// Cells that have a place in the receive FIFO.
    pub const fn held(&self) -> usize {
        self.places
    }

    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether the station interrupts its host.
    pub const fn interrupts(&self) -> bool {
        self.interrupts
    }

    /// The host has heard it.
    pub const fn acknowledge(&mut self) {
        self.interrupts = false;
    }

    /// Whether a cell is there for a host that has read all of the one before.
    pub fn has_cell(&self) -> bool {
        self.whole > 0 || self.leaving > 0 || !self.fetched.is_empty()
    }

    /// When [`Station::access`] is due: an access is done at its end.
    pub fn next(&self) -> Ps {
        let next = self.next_access();
        next.map_or(Ps::MAX, |(at, _)| at.plus(self.spec.cycle))
    }

    /// The cycle of the next access, and whose it is: of those that wait when a cycle begins, the
    /// ring's first.
    fn next_access(&self) -> Option<(Ps, Access)> {
        let receives = self.arriving.front();
        let receives = receives.map(|waiting| (waiting.from, Access::RingReceive));
        let transmits = self.transmit.iter().enumerate();
        let transmits = transmits.filter_map(|(channel, transmit)| {
            let from = transmit.fetches_from()?;
            Some((from, Access::RingTransmit(channel)))
        });
        let writes = self.written.front().filter(|(_, channel)| {
            let room = self.spec.fifo * V1sSpec::WORDS;
            self.transmit[usize::from(*channel)].words.len() < room
        });
        let writes = writes.map(|(waiting, _)| (waiting.from, Access::HostWrite));
        let can_fetch = self.fetched.len() < self.spec.port && (self.whole > 0 || self.leaving > 0);
        let reads = can_fetch.then_some((self.fetches_from, Access::HostRead));
        // The host's in their order.
        let host = reads
            .into_iter()
            .chain(writes)
            .min_by_key(|(from, _)| *from);
        let all = receives.into_iter().chain(transmits).chain(host);
        let cycle = |from: Ps| from.max(self.free).round_up(self.spec.cycle);
        all.map(|(from, access)| (cycle(from), access))
            .min_by_key(|(at, _)| *at)
    }

    /// An access to the RAM.
    pub fn access(&mut self) {
        let Some((at, access)) = self.next_access() else {
            return;
        };
        self.free = at.plus(self.spec.cycle);
        self.counts.accesses += 1;
        match access {
            Access::RingReceive => self.receives(),
            Access::RingTransmit(channel) => {
                let free = self.free;
                self.transmit[channel].fetches(free);
            }
            Access::HostWrite => {
                if let Some((waiting, channel)) = self.written.pop_front() {
                    self.transmit[usize::from(channel)].write(waiting.word, self.free);
                }
            }
            Access::HostRead => self.fetches(),
        }
    }

    fn receives(&mut self) {
        let Some(Waiting { word, .. }) = self.arriving.pop_front() else {
            return;
        };
        self.received.push_back(word);
        if !(self.received.len() - self.leaving).is_multiple_of(V1sSpec::WORDS) {
            return;
        }
        self.whole += 1;
        self.counts.backlog = self.counts.backlog.max(self.whole);
        let first = self.received.len() - V1sSpec::WORDS;
        let [high, low, sequence, flags] = self.received[first];
        let condition = self.circuits.get(&u16::from_be_bytes([high, low]));
        if condition.is_some_and(|condition| condition.is_met(Mssar::parse([sequence, flags]))) {
            self.counts.interrupts += u64::from(!self.interrupts);
            self.interrupts = true;
        }
        if self.fetched.is_empty() {
            self.fetches_from = self.fetches_from.max(self.free);
        }
    }

    /// A word goes to the port.
    fn fetches(&mut self) {
        let Some(word) = self.received.pop_front() else {
            return;
        };
        if self.leaving == 0 {
            self.leaving = V1sSpec::WORDS;
            self.whole -= 1;
        }
        self.leaving -= 1;
        if self.leaving == 0 {
            self.places -= 1;
            self.counts.read += 1;
        }
        self.fetched.push_back(word);
        self.fetches_from = self.free;
    }

    /// The host writes a word of a cell for `channel`: when it can go on; none: the port is full,
    /// and it tries again behind the next access.
    pub fn write(&mut self, at: Ps, channel: u8, word: Word) -> Option<Ps> {
        if self.written.len() >= self.spec.port {
            return None;
        }
        self.written
            .push_back((Waiting { word, from: at }, channel));
        Some(at.plus(self.spec.host_word))
    }

    /// The DMA writes the words of a cell that it begins to copy.
    pub fn copy(&mut self, at: Ps, channel: u8, words: &[Word], dma: &Dma) {
        for (word, n) in words.iter().zip(1..) {
            let from = at.plus(dma.arbitration).plus(Ps::new(dma.word.ps() * n));
            self.written
                .push_back((Waiting { word: *word, from }, channel));
        }
    }

    /// The host reads a word: the word, and when it can go on; none: it is not there yet.
    pub fn read(&mut self, at: Ps) -> Option<(Word, Ps)> {
        let word = self.fetched.pop_front()?;
        self.fetches_from = self.fetches_from.max(at);
        Some((word, at.plus(self.spec.host_word)))
    }
}

impl Transmit {
    /// A cell of false traffic, if one is due.
    fn false_cell(
        &mut self,
        at: Ps,
        channel: u8,
        traffic: Option<FalseTraffic>,
    ) -> Option<CbnCell> {
        let traffic = traffic.filter(|traffic| channel < traffic.channels)?;
        let behind = Ps::new(traffic.every.ps() * self.false_cells);
        if traffic.from.plus(behind) > at {
            return None;
        }
        self.false_cells += 1;
        Some(CbnCell {
            vci: FalseTraffic::VCI,
            ..CbnCell::EMPTY
        })
    }

    /// Since when a word can go to the access chip.
    fn fetches_from(&self) -> Option<Ps> {
        let is_begun = !self.held.words.is_empty() && self.held.words.len() < V1sSpec::WORDS;
        let is_there = self.words.len() >= V1sSpec::WORDS || is_begun;
        (is_there && self.held.words.len() < V1sSpec::WORDS).then_some(self.held.since)
    }

    fn fetches(&mut self, free: Ps) {
        if let Some(word) = self.words.pop_front() {
            self.held.words.push(word);
            self.held.since = free;
        }
    }

    fn write(&mut self, word: Word, free: Ps) {
        self.words.push_back(word);
        if self.held.words.is_empty() {
            self.held.since = self.held.since.max(free);
        }
    }
}

impl Attached for Station {
    fn passes(&mut self, at: Ps, channel: u8, cell: &CbnCell) -> bool {
        if channel != self.spec.channel || !self.circuits.contains_key(&cell.vci) {
            return false;
        }
        self.counts.passed += 1;
        if self.places >= self.spec.fifo {
            self.counts.overflowed += 1;
            return true;
        }
        self.places += 1;
        self.counts.high_water = self.counts.high_water.max(self.places);
        let octets = cell.emit();
        let (words, _) = octets.as_chunks::<4>();
        for (word, n) in words.iter().zip(1..) {
            let from = at.plus(Ps::new(self.spec.ring_word.ps() * n));
            self.arriving.push_back(Waiting { word: *word, from });
        }
        true
    }

    fn fills(&mut self, at: Ps, channel: u8) -> Option<CbnCell> {
        let transmit = &mut self.transmit[usize::from(channel)];
        let held = &mut transmit.held;
        if held.words.len() < V1sSpec::WORDS || held.since > at {
            return transmit.false_cell(at, channel, self.spec.false_traffic);
        }
        let mut octets = [0; CBN_CELL_LEN];
        for (to, word) in octets.chunks_exact_mut(4).zip(&held.words) {
            to.copy_from_slice(word);
        }
        self.counts.sent += 1;
        self.counts.longest_wait = self.counts.longest_wait.max(at.since(held.since));
        held.words.clear();
        held.since = at;
        Some(CbnCell::parse(&octets))
    }
}
