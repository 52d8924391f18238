//! A station, as the ring has it.

use cellgate_core::wire::{CBN_CELL_LEN, CbnCell};

use super::{Station, Waiting};
use crate::cbn::{Attached, CbnBug, Presence};
use crate::machine::v1s::{Deed, V1sSpec};
use crate::world::Ps;

impl Station {
    /// Whether a cell is for it.
    fn knows(&self, channel: u8, vci: u16) -> bool {
        let beside = u8::from(self.has(CbnBug::WrongChannel));
        let own = (self.spec.channel + beside) % self.spec.channels;
        let is_known = match self.bug {
            Some(CbnBug::AnyCircuit) => true,
            Some(CbnBug::CircuitByOctet) => {
                let octet = |vci: u16| vci.to_be_bytes()[1];
                self.circuits
                    .keys()
                    .any(|known| octet(*known) == octet(vci))
            }
            _ => self.circuits.contains_key(&vci),
        };
        channel == own && is_known
    }

    /// A cell finds its FIFO full: nobody is told. Whether it is written all the same.
    fn overflows(&mut self, number: usize) -> bool {
        self.counts.overflowed += 1;
        let leaving = if number == self.reading {
            self.leaving
        } else {
            0
        };
        let fifo = &mut self.receive[number];
        match self.bug {
            Some(CbnBug::OldestLost) if fifo.whole > 0 => {
                fifo.drops_oldest(leaving);
                true
            }
            Some(CbnBug::OverflowWritten) => true,
            Some(CbnBug::OverflowKeepsPlace) => {
                fifo.places += 1;
                false
            }
            _ => false,
        }
    }
}

impl Attached for Station {
    fn passes(&mut self, at: Ps, channel: u8, cell: &CbnCell) -> bool {
        if !self.knows(channel, cell.vci) {
            return false;
        }
        self.counts.passed += 1;
        let number = self.fifo_of(cell.vci);
        let is_full = self.receive[number].places >= self.spec.fifo;
        self.tell(Deed::Passes {
            at,
            cell: *cell,
            is_full,
        });
        if is_full && !self.overflows(number) {
            return true;
        }
        let fifo = &mut self.receive[number];
        fifo.places += 1;
        self.counts.high_water = self.counts.high_water.max(fifo.places);
        let octets = cell.emit();
        let (words, _) = octets.as_chunks::<4>();
        for (word, n) in words.iter().zip(1..) {
            let n = match self.bug {
                Some(CbnBug::ArrivesWhole) => 0,
                _ => n,
            };
            let from = at.plus(Ps::new(self.spec.ring_word.ps() * n));
            let word = Waiting { word: *word, from };
            self.arriving.push_back((word, number));
        }
        true
    }

    fn fills(&mut self, at: Ps, channel: u8) -> Option<CbnCell> {
        let lacks = usize::from(self.has(CbnBug::SentUnfinished));
        let transmit = &mut self.transmit[usize::from(channel)];
        let held = &mut transmit.held;
        if held.words.len() < V1sSpec::WORDS - lacks || held.since > at {
            let cell = transmit.false_cell(at, channel, self.spec.false_traffic);
            if cell.is_some() {
                self.tell(Deed::FalseCell { at, channel });
            }
            return cell;
        }
        let mut octets = [0; CBN_CELL_LEN];
        for (to, word) in octets.chunks_exact_mut(4).zip(&held.words) {
            to.copy_from_slice(word);
        }
        if self.bug == Some(CbnBug::WordDoubled) {
            octets.copy_within(28..32, 32);
        }
        let since = held.since;
        held.words.clear();
        held.since = at;
        self.counts.sent += 1;
        self.counts.longest_wait = self.counts.longest_wait.max(at.since(since));
        let cell = CbnCell::parse(&octets);
        self.tell(Deed::Fills {
            at,
            channel,
            since,
            cell,
        });
        if self.has(CbnBug::TransmitInterrupts) {
            self.interrupts_at(at);
        }
        Some(cell)
    }

    fn presence(&self) -> Presence {
        self.presence
    }
}
