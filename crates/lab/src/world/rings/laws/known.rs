//! The laws of one station and its host.

use cellgate_core::upper::msna::{Notify, Work};
use cellgate_core::wire::Mssar;

use super::{Known, WORDS};
use crate::machine::v1s::{Accessed, Charge, Host, Instructions, Word};
use crate::world::Ps;
use crate::world::rings::application::Application;

impl Known {
    /// R7 and R8 of an access.
    pub(super) fn accesses(
        &mut self,
        begun: Ps,
        access: Accessed,
        word: Word,
    ) -> Result<(), (&'static str, String)> {
        let end = begun.plus(self.spec.cycle);
        if begun < self.free || begun.round_up(self.spec.cycle) != begun {
            return Err(("R7", format!("{access:?} within a cycle that is taken")));
        }
        self.free = end;
        let mut must = false;
        match access {
            Accessed::RingReceive => {
                self.coming.push(word);
                if self.coming.len() == WORDS {
                    must = self.interrupts();
                    self.coming.clear();
                }
            }
            Accessed::HostRead => {
                self.going += 1;
                if self.going == WORDS {
                    self.going = 0;
                    self.places = self.places.saturating_sub(1);
                }
            }
            Accessed::RingTransmit(_) | Accessed::HostWrite(_) => {}
        }
        let told = self.unexplained.take();
        if told.is_some() != must {
            return Err((
                "R8",
                format!("a cell interrupts: {must}, and it did: {}", !must),
            ));
        }
        Ok(())
    }

    /// Whether the cell that is there now interrupts, by the letter of its condition.
    fn interrupts(&self) -> bool {
        let [high, low, sequence, flags] = self.coming[0];
        let (is_first, is_last) = (flags & 1 == 1, sequence == 1);
        let vci = u16::from_be_bytes([high, low]);
        let is_met = match self.conditions.get(&vci) {
            None => false,
            Some(Notify::Every) => true,
            Some(Notify::First) => is_first,
            Some(Notify::Last) => is_last,
            Some(Notify::Both) => is_first || is_last,
        };
        // A bit that raised it just now counts as raised by this cell.
        let was_raised = self.is_raised && self.unexplained.is_none();
        is_met && !was_raised && !self.is_unheard
    }

    /// A circuit is opened or closed: an open one is not opened, and one that was closed rests.
    pub(super) fn listens(
        &mut self,
        at: Ps,
        vci: u16,
        notify: Option<Notify>,
    ) -> Result<(), String> {
        let Some(notify) = notify else {
            self.closed.insert(vci, at);
            let was_open = self.conditions.remove(&vci).is_some();
            return was_open
                .then_some(())
                .ok_or_else(|| format!("circuit {vci} is closed, and was not open"));
        };
        if self.conditions.insert(vci, notify).is_some() {
            return Err(format!("circuit {vci} is opened, and has a reader"));
        }
        match self.closed.get(&vci) {
            Some(closed) if at < closed.plus(self.hold) => {
                let rested = at.since(*closed).ns();
                Err(format!("circuit {vci} is used again after {rested} ns"))
            }
            _ => Ok(()),
        }
    }

    /// The station holds nothing any more; of a cell of which some was written or read the rest is
    /// not.
    pub(super) fn is_reset(&mut self) {
        self.reset += self.places as u64;
        self.places = 0;
        self.coming.clear();
        self.going = 0;
        self.is_raised = false;
        self.unexplained = None;
        self.read_words -= self.read_words % WORDS as u64;
        if let Some([high, low, sequence, flags]) = self.writing.first().copied() {
            let vci = u16::from_be_bytes([high, low]);
            self.follows(vci, Mssar::parse([sequence, flags]));
        }
        self.writing.clear();
    }

    /// A host that is stopped does nothing.
    pub(super) fn host_acts(&self, at: Ps) -> Result<(), String> {
        // The DMA does not stop.
        match at < self.stopped_until && self.host.dma.is_none() {
            true => Err("a host that is stopped goes on".into()),
            false => Ok(()),
        }
    }

    /// R3: the cells of a block are counted down, under one identifier, which the next does not
    /// have.
    pub(super) fn wrote(&mut self, word: Word) -> Result<(), String> {
        self.writing.push(word);
        if self.writing.len() < WORDS {
            return Ok(());
        }
        let [high, low, sequence, flags] = self.writing[0];
        self.writing.clear();
        let vci = u16::from_be_bytes([high, low]);
        let header = Mssar::parse([sequence, flags]);
        let due = self.headers.get(&vci).copied().unwrap_or_default();
        let rid = header.rid == due.rid;
        let is_next = match due.sequence {
            0 => header.start && header.sequence > 0,
            left => !header.start && header.sequence == left,
        };
        // What a bus error has taken is not written.
        let is_lossy = self.host.dma.is_some_and(|dma| !dma.locks) || self.by_cell.contains(&vci);
        let is_right = rid && is_next;
        if !is_lossy && !is_right {
            return Err(format!(
                "{header:?} is written on circuit {vci}, due is {due:?}"
            ));
        }
        self.follows(vci, header);
        Ok(())
    }

    /// The header that comes behind this one.
    fn follows(&mut self, vci: u16, header: Mssar) {
        let sequence = header.sequence.saturating_sub(1);
        let next = match sequence {
            0 => (header.rid + 1) % Mssar::RIDS,
            _ => header.rid,
        };
        let due = Mssar {
            sequence,
            rid: next,
            ..Mssar::default()
        };
        self.headers.insert(vci, due);
    }

    /// R9: the CPU's time is the sum of what was charged, and each charge what its work costs.
    pub(super) fn spent(&self, host: &Host<Application>) -> Result<(), String> {
        let (charges, counts) = (host.charges(), host.counts());
        if charges.total() != counts.busy {
            let (busy, sum) = (counts.busy.ns(), charges.total().ns());
            return Err(format!("busy for {busy} ns, charged {sum}"));
        }
        let costs = self.host.costs;
        let receive = |instructions: u64| Ps::new(costs.receive.ps() * instructions);
        let transmit = |instructions: u64| Ps::new(costs.transmit.ps() * instructions);
        let per_cell = Instructions::PAPER.receive_cell + costs.stage.more();
        let all = [
            (
                Charge::Interrupt,
                receive(Instructions::PAPER.interrupt()),
                counts.interrupts,
            ),
            (
                Charge::Work(Work::ReceiveCell),
                receive(per_cell),
                counts.cells_read,
            ),
            (
                Charge::Work(Work::TransmitCell),
                transmit(Instructions::PAPER.transmit_cell),
                counts.cells_written,
            ),
            (
                Charge::ReceivedBlock,
                costs.received_block,
                counts.received_blocks,
            ),
        ];
        for (charge, each, times) in all {
            let told = charges.of(charge);
            let due = (times, Ps::new(each.ps() * times));
            if told != due {
                return Err(format!("{charge:?}: {told:?}, due {due:?}"));
            }
        }
        let read = self.read_words / WORDS as u64;
        if counts.cells_read != read {
            return Err(format!("{} cells were taken of {read}", counts.cells_read));
        }
        let (looks, spent) = charges.of(Charge::Looks);
        let look = spent.ps().checked_div(looks).unwrap_or(0);
        let dallies = counts.interrupts + counts.cells_read;
        let most = (self.host.dally.ps() + look) * dallies;
        if spent.ps() > most {
            let text = format!("{} ns of looks in {dallies} dallies", spent.ns());
            return Err(text);
        }
        Ok(())
    }
}
