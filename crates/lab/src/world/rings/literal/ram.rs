use std::collections::{BTreeMap, VecDeque};

use cellgate_core::upper::msna::Notify;
use cellgate_core::wire::{CBN_CELL_LEN, CbnCell, Mssar};

use crate::cbn::Presence;
use crate::machine::v1s::{Accessed, Deed, FalseTraffic, V1sSpec, Word};
use crate::world::Ps;

const WORDS: usize = V1sSpec::WORDS;

/// A station: its RAM with the FIFOs, the cells in its access chip, and the host's port.
pub(super) struct Ram {
    spec: V1sSpec,
    circuits: BTreeMap<u16, Notify>,
    pub(super) presence: Presence,
    pub(super) is_unheard: bool,
    is_raised: bool,
    /// Words from the ring, each from when on it can be written.
    arriving: VecDeque<(Ps, Word)>,
    received: VecDeque<Word>,
    /// Cells that have a place, and words that have come since the last whole cell, and that have
    /// gone since.
    places: usize,
    come: usize,
    gone: usize,
    whole: usize,
    port: VecDeque<Word>,
    wanted_since: Option<Ps>,
    written: VecDeque<(Ps, u8, Word)>,
    transmit: Vec<VecDeque<Word>>,
    held: Vec<Vec<Word>>,
    held_since: Vec<Ps>,
    false_cells: Vec<u64>,
    /// Who has the RAM in this cycle.
    chosen: Option<Accessed>,
    /// Words that the host has read of a cell.
    read: Vec<Word>,
    pub(super) deeds: VecDeque<Deed>,
    pub(super) differs: Option<String>,
}

impl Ram {
    pub(super) fn new(spec: V1sSpec, circuits: BTreeMap<u16, Notify>) -> Self {
        let channels = usize::from(spec.channels);
        Self {
            circuits,
            presence: Presence::Works,
            is_unheard: false,
            is_raised: false,
            arriving: VecDeque::new(),
            received: VecDeque::new(),
            places: 0,
            come: 0,
            gone: 0,
            whole: 0,
            port: VecDeque::new(),
            wanted_since: None,
            written: VecDeque::new(),
            transmit: vec![VecDeque::new(); channels],
            held: vec![Vec::new(); channels],
            held_since: vec![Ps::ZERO; channels],
            false_cells: vec![0; channels],
            chosen: None,
            read: Vec::new(),
            deeds: VecDeque::new(),
            differs: None,
            spec,
        }
    }

    /// Nothing is held any more, and nobody has the rest of this cycle.
    pub(super) fn resets(&mut self) {
        self.is_raised = false;
        self.arriving.clear();
        self.received.clear();
        (self.places, self.come, self.gone, self.whole) = (0, 0, 0, 0);
        self.port.clear();
        self.wanted_since = None;
        self.written.clear();
        self.transmit.iter_mut().for_each(VecDeque::clear);
        self.held.iter_mut().for_each(Vec::clear);
        self.chosen = None;
        self.read.clear();
    }

    pub(super) fn circuits(&self) -> impl Iterator<Item = u16> {
        self.circuits.keys().copied()
    }

    /// A cell passes: whether it is for this station.
    pub(super) fn takes(&mut self, now: Ps, channel: u8, cell: &CbnCell) -> bool {
        if channel != self.spec.channel || !self.circuits.contains_key(&cell.vci) {
            return false;
        }
        let is_full = self.places == self.spec.fifo;
        self.deeds.push_back(Deed::Passes {
            at: now,
            cell: *cell,
            is_full,
        });
        if !is_full {
            self.places += 1;
            for (n, word) in (1..).zip(cell.emit().as_chunks::<4>().0) {
                let at = now.plus(Ps::new(n * self.spec.ring_word.ps()));
                self.arriving.push_back((at, *word));
            }
        }
        true
    }

    /// An empty slot passes: the cell that leaves in it.
    pub(super) fn leaves(&mut self, now: Ps, channel: u8) -> Option<CbnCell> {
        let n = usize::from(channel);
        if self.held[n].len() < WORDS {
            return self.false_cell(now, channel);
        }
        let mut octets = [0; CBN_CELL_LEN];
        octets.copy_from_slice(&self.held[n].concat());
        self.held[n].clear();
        let cell = CbnCell::parse(&octets);
        self.deeds.push_back(Deed::Fills {
            at: now,
            channel,
            since: self.held_since[n],
            cell,
        });
        Some(cell)
    }

    fn false_cell(&mut self, now: Ps, channel: u8) -> Option<CbnCell> {
        let traffic = self.spec.false_traffic?;
        let made = &mut self.false_cells[usize::from(channel)];
        let due = traffic.from.plus(Ps::new(traffic.every.ps() * *made));
        if channel >= traffic.channels || due > now || now >= traffic.until {
            return None;
        }
        *made += 1;
        self.deeds.push_back(Deed::FalseCell { at: now, channel });
        Some(CbnCell {
            vci: FalseTraffic::VCI,
            ..CbnCell::EMPTY
        })
    }

    /// A cycle begins: whose it is.
    pub(super) fn choose(&mut self, now: Ps) {
        let receives = self.arriving.front().is_some_and(|(at, _)| *at <= now);
        let transmits = (0..self.spec.channels).find(|channel| {
            let n = usize::from(*channel);
            let held = self.held[n].len();
            (held > 0 && held < WORDS) || (held == 0 && self.transmit[n].len() >= WORDS)
        });
        let writes = self.written.front().filter(|(at, channel, _)| {
            let words = self.transmit[usize::from(*channel)].len();
            *at <= now && words < self.spec.fifo * WORDS
        });
        let writes = writes.map(|(at, channel, _)| (*at, *channel));
        self.chosen = match (transmits, self.wanted_since, writes) {
            _ if receives => Some(Accessed::RingReceive),
            (Some(channel), ..) => Some(Accessed::RingTransmit(channel)),
            (_, Some(since), Some((at, channel))) if at < since => {
                Some(Accessed::HostWrite(channel))
            }
            (_, Some(_), _) => Some(Accessed::HostRead),
            (_, None, Some((_, channel))) => Some(Accessed::HostWrite(channel)),
            (None, None, None) => None,
        };
    }

    /// A cycle ends.
    pub(super) fn end(&mut self, begun: Ps, now: Ps) {
        let Some(access) = self.chosen.take() else {
            return;
        };
        let word = match access {
            Accessed::RingReceive => self.arriving.pop_front().map(|(_, word)| word),
            Accessed::RingTransmit(channel) => self.transmit[usize::from(channel)].pop_front(),
            Accessed::HostWrite(_) => self.written.pop_front().map(|(.., word)| word),
            Accessed::HostRead => self.received.pop_front(),
        };
        let Some(word) = word else {
            self.differs = Some(format!("{access:?} of nothing"));
            return;
        };
        match access {
            Accessed::RingReceive => self.comes(now, word),
            Accessed::RingTransmit(channel) => {
                let n = usize::from(channel);
                self.held[n].push(word);
                self.held_since[n] = now;
            }
            Accessed::HostWrite(channel) => self.transmit[usize::from(channel)].push_back(word),
            Accessed::HostRead => self.goes(now, word),
        }
        self.deeds.push_back(Deed::Access {
            begun,
            access,
            word,
        });
    }

    fn comes(&mut self, now: Ps, word: Word) {
        self.received.push_back(word);
        self.come += 1;
        if self.come < WORDS {
            return;
        }
        self.come = 0;
        self.whole += 1;
        let [high, low, sequence, flags] = self.received[self.received.len() - WORDS];
        let condition = self.circuits.get(&u16::from_be_bytes([high, low]));
        let header = Mssar::parse([sequence, flags]);
        let is_met = match condition {
            None => false,
            Some(Notify::Every) => true,
            Some(Notify::First) => header.start,
            Some(Notify::Last) => header.sequence == 1,
            Some(Notify::Both) => header.start || header.sequence == 1,
        };
        if is_met && !self.is_raised && !self.is_unheard {
            self.is_raised = true;
            self.deeds.push_back(Deed::Interrupts { at: now });
        }
        self.wants(now);
    }

    fn goes(&mut self, now: Ps, word: Word) {
        self.whole -= usize::from(self.gone == 0);
        self.gone = (self.gone + 1) % WORDS;
        self.places -= usize::from(self.gone == 0);
        self.port.push_back(word);
        self.wanted_since = None;
        self.wants(now);
    }

    /// A word is wanted for the port, as long as it has room and a whole cell is there, or the rest
    /// of one.
    fn wants(&mut self, now: Ps) {
        let wants = self.port.len() < self.spec.port && (self.whole > 0 || self.gone > 0);
        self.wanted_since = wants.then_some(self.wanted_since.unwrap_or(now));
    }

    /// The host does something; a cell, if it has read all of one.
    pub(super) fn host(&mut self, deed: &Deed) -> Option<Vec<u8>> {
        match *deed {
            Deed::Wrote { at, channel, word } => self.written.push_back((at, channel, word)),
            Deed::Acknowledged { .. } => self.is_raised = false,
            Deed::Listens { vci, notify, .. } => {
                self.circuits.remove(&vci);
                self.circuits.extend(notify.map(|notify| (vci, notify)));
            }
            Deed::Read { at, word } => {
                let due = self.port.pop_front();
                if due != Some(word) {
                    self.differs = Some(format!("{word:?} is read, by the letter {due:?}"));
                }
                self.wants(at);
                self.read.push(word);
                if self.read.len() == WORDS {
                    return Some(std::mem::take(&mut self.read).concat());
                }
            }
            _ => {}
        }
        None
    }
}
