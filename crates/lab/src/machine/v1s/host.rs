use std::collections::{BTreeMap, VecDeque};

use cellgate_core::Time;
use cellgate_core::aal::mssar::block_max;
use cellgate_core::upper::msna::{
    Access, Association, Leaving, Msdl, MsdlConfig, Received, Terms, To, Work,
};
use cellgate_core::wire::{CBN_CELL_LEN, MSSAR_RING_LEN};

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

/// The work of a host beside its network.
pub trait Application {
    /// The CPU is free: a block to send.
    fn idle(&mut self, at: Ps) -> Option<Outgoing>;

    /// A block has left: its last word is on its way to the RAM.
    fn sent(&mut self, at: Ps);

    /// A block has come.
    fn received(&mut self, at: Ps, vci: u16, block: &[u8]);
}

/// The work with which the CPU goes on.
#[derive(Clone, Debug)]
enum Doing {
    /// A block's cells, one after the other.
    Sends,
    /// A cell's words that have not been written.
    Writes(Leaving, [u8; CBN_CELL_LEN], usize),
    /// In the interrupt handler: looks for a cell, as long as it dallies.
    Looks(Ps),
    /// Reads a cell's words.
    Reads([u8; CBN_CELL_LEN], usize),
    /// The last word has come.
    Takes([u8; CBN_CELL_LEN]),
}

/// The order of interrupts and sending.
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

/// A host's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSpec {
    pub costs: HostCosts,
    /// How long the handler waits for another cell before it ends.
    pub dally: Ps,
    pub order: Order,
    /// Copies cells that are sent; none: the CPU does.
    pub dma: Option<Dma>,
}

/// The deeds of a host.
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
    /// Its work, the interrupt handler's last.
    stack: Vec<Doing>,
    /// The time at which it goes on, unless it waits for its station.
    at: Ps,
    waits: bool,
    msdl: Msdl,
    ring: Ring,
    /// Those of destinations, by circuit and channel.
    associations: BTreeMap<(u16, u8), Association>,
    /// Blocks that wait for the end of the handler.
    come: VecDeque<Received>,
    /// In turn: sending is next.
    may_send: bool,
    /// The DMA is busy until then.
    copies_until: Ps,
    counts: HostCounts,
}

impl<A: Application> Host<A> {
    /// A host that receives on these circuits.
    pub fn new(spec: HostSpec, circuits: impl IntoIterator<Item = u16>, application: A) -> Self {
        let ring = Ring {
            costs: spec.costs,
            spent: Ps::ZERO,
        };
        let mut msdl = Msdl::new(MSDL);
        for vci in circuits {
            msdl.begin(Time::ZERO, &ring, terms(vci, vci, 0));
        }
        Self {
            spec,
            application,
            stack: Vec::new(),
            at: Ps::ZERO,
            waits: false,
            msdl,
            ring,
            associations: BTreeMap::new(),
            come: VecDeque::new(),
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

    /// Spends the time of MSDL's work.
    fn pays(&mut self) {
        let spent = std::mem::take(&mut self.ring.spent);
        self.spends(spent);
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
            Some(Doing::Sends) => self.sends(),
            Some(Doing::Writes(leaving, cell, word)) => self.writes(station, leaving, cell, word),
            Some(Doing::Looks(until)) => self.looks(station, until),
            Some(Doing::Reads(cell, word)) => self.reads(station, cell, word),
            Some(Doing::Takes(cell)) => self.takes(&cell),
        }
    }

    fn is_free(&mut self) {
        if let Some(received) = self.come.pop_front() {
            self.spends(self.spec.costs.received_block);
            self.counts.received_blocks += 1;
            self.counts.received_octets += received.block.len() as u64;
            let vci = received.association.vci();
            self.application.received(self.at, vci, &received.block);
            self.msdl.recycle(received);
            return;
        }
        let had_turn = std::mem::take(&mut self.may_send);
        let Some(block) = self.application.idle(self.at) else {
            // It looks at its station before it waits.
            self.waits = !had_turn;
            return;
        };
        let Some(association) = self.association(block.vci, block.channel) else {
            // No circuit is left.
            self.waits = true;
            return;
        };
        // A block that is too long does not leave.
        let sent = self.msdl.send(&mut self.ring, association, block.octets);
        self.spends(self.spec.costs.sent_block);
        self.pays();
        if sent.is_ok() {
            self.stack.push(Doing::Sends);
        }
    }

    /// The association of a destination, begun with the first block.
    fn association(&mut self, vci: u16, channel: u8) -> Option<Association> {
        if let Some(association) = self.associations.get(&(vci, channel)) {
            return Some(*association);
        }
        let now = self.at.time();
        let own = self.msdl.free_vci(now)?;
        let association = self.msdl.begin(now, &self.ring, terms(own, vci, channel))?;
        self.associations.insert((vci, channel), association);
        Some(association)
    }

    /// Makes the next cell.
    fn sends(&mut self) {
        let mut cell = [0; CBN_CELL_LEN];
        let [high, low, payload @ ..] = &mut cell;
        if let Some(leaving) = self.msdl.poll_cell(&mut self.ring, payload) {
            [*high, *low] = leaving.vci.to_be_bytes();
            self.pays();
            self.stack.push(Doing::Writes(leaving, cell, 0));
        }
    }

    /// A cell has left, or is lost.
    fn wrote(&mut self, leaving: Leaving) {
        if leaving.is_last {
            self.counts.sent_blocks += 1;
            self.application.sent(self.at);
        } else {
            self.sends();
        }
    }

    fn writes(
        &mut self,
        station: &mut Station,
        leaving: Leaving,
        cell: [u8; CBN_CELL_LEN],
        at: usize,
    ) {
        let (words, _) = cell.as_chunks::<4>();
        let Some(word) = words.get(at) else {
            return self.wrote(leaving);
        };
        if let Some(dma) = self.spec.dma {
            if self.at < self.copies_until {
                self.counts.bus_errors += 1;
                return self.wrote(leaving);
            }
            if at > 0 {
                station.copy(self.at, leaving.channel, &words[at..], &dma);
                self.copies_until = self.at.plus(dma.cell());
                if dma.locks {
                    self.goes_on(self.copies_until);
                }
                return self.wrote(leaving);
            }
        }
        let written = station.write(self.at, leaving.channel, *word);
        let next = at + usize::from(written.is_some());
        self.stack.push(Doing::Writes(leaving, cell, next));
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
            // A look takes an instruction, and no less than a cycle of the RAM.
            let look = self.spec.costs.receives(1);
            self.spends(look.max(station.spec().cycle));
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
        self.msdl.handle_cell(now, &mut self.ring, vci, payload);
        self.pays();
        let counts = self.msdl.counts();
        self.counts.discarded = counts.discarded.total();
        if let Some(received) = self.msdl.poll_received() {
            self.come.push_back(received);
            if self.spec.order == Order::InTurn {
                self.may_send = true;
                return;
            }
        }
        let until = self.at.plus(self.spec.dally);
        self.stack.push(Doing::Looks(until));
    }
}

/// The room of a host for associations, none of which ends.
const MSDL: MsdlConfig = MsdlConfig {
    first_vci: 1,
    circuits: 255,
    hold_ns: 0,
    timeout_ns: 100_000_000,
    queue_max: 1 << 20,
};

const fn terms(receives: u16, sends: u16, channel: u8) -> Terms {
    Terms {
        receives,
        sends,
        to: To::Channel(channel),
        max_block: block_max(MSSAR_RING_LEN as u8),
        senders: 1,
    }
}

/// The ring as MSDL has it, and what its work costs.
struct Ring {
    costs: HostCosts,
    /// Since it was paid for last.
    spent: Ps,
}

impl Access for Ring {
    fn data_len(&self) -> u8 {
        MSSAR_RING_LEN as u8
    }

    fn work(&mut self, work: Work) {
        self.spent = self.spent.plus(self.costs.of(work));
    }
}

/// A host writes and reads words, no octets.
const _: () = assert!(CBN_CELL_LEN == size_of::<Word>() * V1sSpec::WORDS);
