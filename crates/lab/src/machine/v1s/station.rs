mod attached;
mod receive;

use std::collections::{BTreeMap, VecDeque};

use cellgate_core::upper::msna::Notify;
use cellgate_core::wire::{CbnCell, Mssar};

use super::deed::{Accessed, Deed};
use super::{Dma, FalseTraffic, V1sSpec};
use crate::cbn::{CbnBug, Presence};
use crate::world::Ps;
use receive::Receive;

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
    /// Cells that had a place when the station was reset.
    pub reset: u64,
    pub interrupts: u64,
    /// Cells that had a place in a receive FIFO, at most, and those of them that were there as a
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
    /// Words that the ring brings, to be written, and of which receive FIFO.
    arriving: VecDeque<(Waiting, usize)>,
    /// One, or one of each circuit.
    receive: Vec<Receive>,
    /// That of the cell whose words go to the port, and its words that are in the RAM.
    reading: usize,
    leaving: usize,
    transmit: Vec<Transmit>,
    /// Words between host and RAM: of the host's, with their channel, and the RAM's.
    written: VecDeque<(Waiting, u8)>,
    fetched: VecDeque<Word>,
    /// Since when there is something for the port, and room in it; none: one of them is not.
    fetches_from: Option<Ps>,
    interrupts: bool,
    /// Interrupts are lost.
    is_unheard: bool,
    presence: Presence,
    counts: Counts,
    log: Option<Vec<Deed>>,
    bug: Option<CbnBug>,
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
        let circuits: BTreeMap<_, _> = circuits.into_iter().collect();
        let fifos = if spec.by_circuit { circuits.len() } else { 1 };
        Self {
            circuits,
            free: Ps::ZERO,
            arriving: VecDeque::new(),
            receive: vec![Receive::default(); fifos],
            reading: 0,
            leaving: 0,
            transmit: vec![Transmit::default(); spec.channels.into()],
            written: VecDeque::new(),
            fetched: VecDeque::new(),
            fetches_from: None,
            interrupts: false,
            is_unheard: false,
            presence: Presence::Works,
            counts: Counts::default(),
            log: None,
            bug: None,
            spec,
        }
    }

    /// The same with a book of what is done.
    pub fn watched(mut self, bug: Option<CbnBug>) -> Self {
        self.log = Some(Vec::new());
        self.bug = bug;
        match bug {
            Some(CbnBug::FifoOf257) => self.spec.fifo += 1,
            Some(CbnBug::FifoOf255) => self.spec.fifo -= 1,
            _ => {}
        }
        self
    }

    /// The deeds since they were taken last.
    pub fn take_log(&mut self) -> Vec<Deed> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn tell(&mut self, deed: Deed) {
        if let Some(log) = &mut self.log {
            log.push(deed);
        }
    }

    fn has(&self, bug: CbnBug) -> bool {
        self.bug == Some(bug)
    }

    /// Its hardware takes another part in the ring from here on.
    pub const fn be(&mut self, presence: Presence) {
        self.presence = presence;
    }

    /// Its interrupts are lost from here on, or heard again.
    pub const fn unheard(&mut self, is_unheard: bool) {
        self.is_unheard = is_unheard;
    }

    /// All that it holds is lost, and what it holds of a cell that is coming or going.
    pub fn reset(&mut self) {
        for transmit in &mut self.transmit {
            transmit.words.clear();
            transmit.held.words.clear();
        }
        self.written.clear();
        if !self.has(CbnBug::ResetKeepsInterrupt) {
            self.interrupts = false;
        }
        if self.has(CbnBug::ResetKeepsCells) {
            return;
        }
        self.counts.reset += self.held() as u64;
        self.arriving.clear();
        self.receive.fill(Receive::default());
        self.fetched.clear();
        self.fetches_from = None;
        (self.reading, self.leaving) = (0, 0);
    }

    /// A circuit is the host's from here on, or nobody's.
    pub fn listens(&mut self, at: Ps, vci: u16, notify: Option<Notify>) {
        match notify {
            Some(notify) => drop(self.circuits.insert(vci, notify)),
            None => drop(self.circuits.remove(&vci)),
        }
        self.tell(Deed::Listens { at, vci, notify });
    }

    /// Whether no word waits to leave.
    pub fn has_sent_all(&self) -> bool {
        let mut leaving = self.transmit.iter();
        self.written.is_empty()
            && leaving.all(|one| one.words.is_empty() && one.held.words.is_empty())
    }

    pub const fn spec(&self) -> &V1sSpec {
        &self.spec
    }

    /// Cells that have a place in a receive FIFO.
    pub fn held(&self) -> usize {
        self.receive.iter().map(|fifo| fifo.places).sum()
    }

    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether the station interrupts its host.
    pub const fn interrupts(&self) -> bool {
        self.interrupts
    }

    /// The host has heard it.
    pub fn acknowledge(&mut self, at: Ps) {
        self.interrupts = false;
        self.tell(Deed::Acknowledged { at });
    }

    /// Whether a cell is there for a host that has read all of the one before.
    pub fn has_cell(&self) -> bool {
        self.has_words() || !self.fetched.is_empty()
    }

    /// Whether there are words for the port.
    fn has_words(&self) -> bool {
        self.leaving > 0 || self.receive.iter().any(|fifo| fifo.whole > 0)
    }

    /// The receive FIFO of a circuit.
    fn fifo_of(&self, vci: u16) -> usize {
        let mut circuits = self.circuits.keys();
        let number = circuits.position(|circuit| *circuit == vci);
        number.filter(|_| self.spec.by_circuit).unwrap_or(0)
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
        let receives = receives.map(|(waiting, _)| (waiting.from, Access::RingReceive));
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
        let reads = self.fetches_from.map(|from| (from, Access::HostRead));
        // The host's in their order.
        let mut host = reads
            .into_iter()
            .chain(writes)
            .min_by_key(|(from, _)| *from);
        if self.bug == Some(CbnBug::ReadsBeforeWrites) && reads.is_some() {
            host = reads;
        }
        let cycle = |(from, access): (Ps, Access)| {
            let at = from.max(self.free).round_up(self.spec.cycle);
            (at, access)
        };
        let (receives, host) = (receives.map(cycle), host.map(cycle));
        let transmits = transmits.map(cycle).min_by_key(|(at, _)| *at);
        let order = match self.bug {
            Some(CbnBug::HostBeforeRing) => [host, receives, transmits],
            Some(CbnBug::TransmitBeforeReceive) => [transmits, receives, host],
            _ => [receives, transmits, host],
        };
        let all = order.into_iter().flatten();
        all.min_by_key(|(at, _)| *at)
    }

    /// Something has changed by now, on which it depends whether the port wants a word.
    fn wants(&mut self, now: Ps) {
        let wants = self.fetched.len() < self.spec.port && self.has_words();
        self.fetches_from = wants.then_some(self.fetches_from.unwrap_or(now));
    }

    /// An access to the RAM.
    pub fn access(&mut self) {
        let Some((at, access)) = self.next_access() else {
            return;
        };
        self.free = at.plus(self.spec.cycle);
        self.counts.accesses += 1;
        let done = match access {
            Access::RingReceive => self.receives(),
            Access::RingTransmit(channel) => self.transmits(channel),
            Access::HostWrite => self.takes_written(),
            Access::HostRead => self.fetches(),
        };
        let begun = at;
        if let Some((access, word)) = done {
            self.tell(Deed::Access {
                begun,
                access,
                word,
            });
        }
        if access == Access::RingReceive && self.has(CbnBug::AccessInHalfACycle) {
            self.free = at;
        }
    }

    fn transmits(&mut self, channel: usize) -> Option<(Accessed, Word)> {
        let free = self.free;
        let word = self.transmit[channel].fetches(free)?;
        Some((Accessed::RingTransmit(channel as u8), word))
    }

    fn takes_written(&mut self) -> Option<(Accessed, Word)> {
        let (waiting, channel) = self.written.pop_front()?;
        let (word, free) = (waiting.word, self.free);
        self.transmit[usize::from(channel)].write(word, free);
        Some((Accessed::HostWrite(channel), word))
    }

    fn receives(&mut self) -> Option<(Accessed, Word)> {
        let (Waiting { word, .. }, number) = self.arriving.pop_front()?;
        let leaving = if number == self.reading {
            self.leaving
        } else {
            0
        };
        let swaps = self.has(CbnBug::WordsSwapped);
        let fifo = &mut self.receive[number];
        if let Some([high, low, sequence, flags]) = fifo.write(word, leaving, swaps) {
            self.counts.backlog = self.counts.backlog.max(fifo.whole);
            let vci = u16::from_be_bytes([high, low]);
            if self.is_met(vci, Mssar::parse([sequence, flags])) {
                self.interrupts_at(self.free);
            }
            self.wants(self.free);
        }
        Some((Accessed::RingReceive, word))
    }

    /// Whether a cell interrupts.
    fn is_met(&self, vci: u16, header: Mssar) -> bool {
        let Some(condition) = self.circuits.get(&vci) else {
            return false;
        };
        match (self.bug, condition) {
            (Some(CbnBug::InterruptsForAll), _) => true,
            (Some(CbnBug::FirstMissed), Notify::First) => false,
            (Some(CbnBug::LastAtSequenceZero), Notify::Last) => header.sequence == 0,
            (Some(CbnBug::BothAsEither), Notify::Both) => header.start && header.is_last(),
            _ => condition.is_met(header),
        }
    }

    fn interrupts_at(&mut self, at: Ps) {
        if self.is_unheard && !self.has(CbnBug::LostInterruptHeard) {
            return;
        }
        if !self.interrupts || self.has(CbnBug::InterruptUnmasked) {
            self.counts.interrupts += 1;
            self.interrupts = true;
            self.tell(Deed::Interrupts { at });
        }
    }

    /// A word goes to the port: of the FIFOs that have cells, in turn.
    fn fetches(&mut self) -> Option<(Accessed, Word)> {
        let (early, kept) = (CbnBug::PlaceFreedEarly, CbnBug::PlaceKept);
        if self.leaving == 0 {
            let count = self.receive.len();
            let mut turns = (1..=count).map(|n| (self.reading + n) % count);
            self.reading = turns.find(|fifo| self.receive[*fifo].whole > 0)?;
            self.leaving = V1sSpec::WORDS;
            let is_freed = usize::from(self.has(early));
            let fifo = &mut self.receive[self.reading];
            fifo.whole -= 1;
            fifo.places -= is_freed;
        }
        let is_kept = self.has(kept) && self.counts.read.is_multiple_of(9) || self.has(early);
        let fifo = &mut self.receive[self.reading];
        let word = fifo.words.pop_front()?;
        self.leaving -= 1;
        if self.leaving == 0 {
            fifo.places -= usize::from(!is_kept);
            self.counts.read += 1;
        }
        self.fetched.push_back(word);
        self.fetches_from = None;
        self.wants(self.free);
        Some((Accessed::HostRead, word))
    }

    /// The host writes a word of a cell for `channel`: when it can go on; none: the port is full,
    /// and it tries again behind the next access.
    pub fn write(&mut self, at: Ps, channel: u8, word: Word) -> Option<Ps> {
        if self.written.len() >= self.spec.port {
            return None;
        }
        self.written
            .push_back((Waiting { word, from: at }, channel));
        self.tell(Deed::Wrote { at, channel, word });
        Some(at.plus(self.spec.host_word))
    }

    /// The DMA writes the words of a cell that it begins to copy.
    pub fn copy(&mut self, at: Ps, channel: u8, words: &[Word], dma: &Dma) {
        for (word, n) in words.iter().zip(1..) {
            let from = at.plus(dma.arbitration).plus(Ps::new(dma.word.ps() * n));
            let word = *word;
            self.written.push_back((Waiting { word, from }, channel));
            self.tell(Deed::Wrote {
                at: from,
                channel,
                word,
            });
        }
    }

    /// The host reads a word: the word, and when it can go on; none: it is not there yet.
    pub fn read(&mut self, at: Ps) -> Option<(Word, Ps)> {
        let word = self.fetched.pop_front()?;
        self.wants(at);
        self.tell(Deed::Read { at, word });
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
        if traffic.from.plus(behind) > at || at >= traffic.until {
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

    fn fetches(&mut self, free: Ps) -> Option<Word> {
        let word = self.words.pop_front()?;
        self.held.words.push(word);
        self.held.since = free;
        Some(word)
    }

    fn write(&mut self, word: Word, free: Ps) {
        self.words.push_back(word);
        if self.held.words.is_empty() {
            self.held.since = self.held.since.max(free);
        }
    }
}
