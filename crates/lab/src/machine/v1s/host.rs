use std::collections::{BTreeMap, VecDeque};

use cellgate_core::Time;
use cellgate_core::upper::msna::{Access, Association, Leaving, Msdl, MsdlConfig, Received, Work};
use cellgate_core::wire::{CBN_CELL_LEN, Mssar};
use serde::{Deserialize, Serialize};

use super::access::{MSDL, Ring, terms};
use super::costs::{HostCosts, Instructions};
use super::{Charge, Charges, Circuits, Stage, Station, V1sSpec, Word};
use crate::cbn::CbnBug;
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

    /// The highest circuit that it may open, and how long one rests when it has been closed; none:
    /// it opens none.
    fn room(&self) -> Option<(u16, Ps)> {
        None
    }

    /// The CPU is free: circuits may come and go.
    fn circuits(&mut self, _: Ps, _: &mut Circuits<'_>) {}

    /// A cell has come. Whether it takes the cell: no block is made of it.
    fn takes_cell(&mut self, _at: Ps, _cell: &[u8; CBN_CELL_LEN]) -> bool {
        false
    }

    /// The CPU is free: a cell that goes on, and the channel on which it does.
    fn passes_on(&mut self, _at: Ps) -> Option<(u8, [u8; CBN_CELL_LEN])> {
        None
    }

    /// When it has a block to send though nothing comes; none: it has none by itself.
    fn due(&self) -> Ps {
        Ps::MAX
    }
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// Cells that it has read, and that it has written or had written.
    pub cells_read: u64,
    pub cells_written: u64,
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
    /// Circuits that the application has opened.
    opened: BTreeMap<u16, Association>,
    /// Blocks that wait for the end of the handler.
    come: VecDeque<Received>,
    /// In turn: sending is next.
    may_send: bool,
    /// The channel on which its station receives.
    channel: u8,
    /// Of bugs: a cell has been written once more, and the cell before was a block's first.
    is_again: bool,
    left_out: Option<bool>,
    /// The DMA is busy until then.
    copies_until: Ps,
    counts: HostCounts,
    charges: Charges,
    /// It does nothing before this time.
    stopped_until: Ps,
    bug: Option<CbnBug>,
}

impl<A: Application> Host<A> {
    /// A host that receives on these circuits.
    pub fn new(spec: HostSpec, circuits: impl IntoIterator<Item = u16>, application: A) -> Self {
        let ring = Ring {
            costs: spec.costs,
            spent: Ps::ZERO,
            charges: Charges::default(),
            bug: None,
        };
        let circuits: Vec<u16> = circuits.into_iter().collect();
        let highest = circuits.iter().copied().max().unwrap_or(0);
        let (own, hold) = application.room().unwrap_or_default();
        let highest = highest.max(own);
        let mut msdl = Msdl::new(MsdlConfig {
            circuits: MSDL.circuits.saturating_add(highest),
            hold_ns: hold.ns(),
            ..MSDL
        });
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
            opened: BTreeMap::new(),
            come: VecDeque::new(),
            may_send: false,
            channel: 0,
            is_again: false,
            left_out: None,
            copies_until: Ps::ZERO,
            counts: HostCounts::default(),
            charges: Charges::default(),
            stopped_until: Ps::ZERO,
            bug: None,
        }
    }

    /// The same with a bug.
    pub fn with(mut self, bug: Option<CbnBug>, station: &Station) -> Self {
        self.bug = bug;
        self.channel = station.spec().channel;
        self.ring.bug = bug;
        if bug == Some(CbnBug::OtherStage) {
            self.ring.costs.stage = match self.spec.costs.stage {
                Stage::Tight => Stage::Merged,
                _ => Stage::Tight,
            };
        }
        self
    }

    fn has(&self, bug: CbnBug) -> bool {
        self.bug == Some(bug)
    }

    /// The CPU stands still until then.
    pub fn stop(&mut self, until: Ps) {
        if !self.has(CbnBug::StopIgnored) {
            self.stopped_until = self.stopped_until.max(until);
        }
    }

    /// Its station was reset: what it writes or reads of a cell is lost.
    pub(super) fn lacks_its_station(&mut self, now: Ps) {
        for doing in &mut self.stack {
            match doing {
                Doing::Writes(_, _, at) if *at > 0 => *at = V1sSpec::WORDS,
                Doing::Reads(..) => *doing = Doing::Looks(now),
                _ => {}
            }
        }
        self.wake(now);
    }

    /// What its time went for.
    pub fn charges(&self) -> Charges {
        let mut charges = self.charges;
        charges.add(&self.ring.charges);
        charges
    }

    pub const fn msdl(&self) -> &Msdl {
        &self.msdl
    }

    pub const fn application(&self) -> &A {
        &self.application
    }

    /// The application, to which something happens.
    pub const fn application_mut(&mut self) -> &mut A {
        &mut self.application
    }

    /// Circuits that the application has opened and not closed.
    pub fn opened(&self) -> usize {
        self.opened.len()
    }

    pub const fn counts(&self) -> &HostCounts {
        &self.counts
    }

    /// Whether it has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.waits && self.stack.is_empty() && self.come.is_empty()
    }

    /// When [`Host::step`] is due.
    pub fn next(&self) -> Ps {
        let next = match self.waits {
            false => self.at,
            true if self.stack.is_empty() => self.application.due().max(self.at),
            true => Ps::MAX,
        };
        next.max(self.stopped_until)
    }

    /// Something of the station has changed by now.
    pub fn wake(&mut self, now: Ps) {
        if self.waits {
            self.waits = false;
            // It has waited all the time.
            if !self.stack.is_empty() {
                self.charges.spend(Charge::Waits, now.since(self.at));
                self.counts.busy = self.counts.busy.plus(now.since(self.at));
            }
            self.at = self.at.max(now);
        }
    }

    /// The block that an application has by itself, or the end of a stop, has come.
    fn comes_to(&mut self, now: Ps) {
        self.waits = false;
        self.at = self.at.max(now);
    }

    fn spends(&mut self, charge: Charge, span: Ps) {
        self.goes_on(charge, self.at.plus(span));
    }

    /// Spends the time of MSDL's work, which its access has noted.
    fn pays(&mut self) {
        let spent = std::mem::take(&mut self.ring.spent);
        self.counts.busy = self.counts.busy.plus(spent);
        self.at = self.at.plus(spent);
    }

    fn goes_on(&mut self, charge: Charge, at: Ps) {
        let span = at.since(self.at);
        self.charges.spend(charge, span);
        self.counts.busy = self.counts.busy.plus(span);
        if charge == Charge::Interrupt && self.has(CbnBug::ChargedTwice) {
            self.counts.busy = self.counts.busy.plus(span);
        }
        self.at = at;
    }

    const fn is_in_handler(&self) -> bool {
        matches!(
            self.stack.as_slice(),
            [.., Doing::Looks(_) | Doing::Reads(..) | Doing::Takes(_)]
        )
    }

    /// How long the handler waits for another cell.
    fn dally(&self) -> Ps {
        let dally = self.spec.dally;
        match self.bug {
            Some(CbnBug::DallyDoubled) => dally.plus(dally),
            _ => dally,
        }
    }

    /// Does what comes next.
    pub fn step(&mut self, station: &mut Station) {
        let now = self.next();
        self.comes_to(now);
        let costs = self.spec.costs;
        let order = match self.bug {
            Some(CbnBug::NeverInTurn) => Order::InterruptFirst,
            _ => self.spec.order,
        };
        let enters = match order {
            Order::InterruptFirst => station.interrupts() && !self.is_in_handler(),
            Order::InTurn => self.stack.is_empty() && !self.may_send && station.has_cell(),
        };
        if enters {
            station.acknowledge(self.at);
            self.counts.interrupts += 1;
            self.spends(Charge::Interrupt, costs.receives(Instructions::INTERRUPT));
            let until = self.at.plus(self.dally());
            self.stack.push(Doing::Looks(until));
            return;
        }
        match self.stack.pop() {
            None => self.is_free(station),
            Some(Doing::Sends) => self.sends(),
            Some(Doing::Writes(leaving, cell, word)) => self.writes(station, leaving, cell, word),
            Some(Doing::Looks(until)) => self.looks(station, until),
            Some(Doing::Reads(cell, word)) => self.reads(station, cell, word),
            Some(Doing::Takes(cell)) => self.takes(&cell),
        }
    }

    fn is_free(&mut self, station: &mut Station) {
        let first = match self.bug {
            Some(CbnBug::BlocksFromBehind) => self.come.pop_back(),
            _ => self.come.pop_front(),
        };
        if let Some(received) = first {
            self.hands_on(received);
            return;
        }
        let mut circuits = Circuits {
            at: self.at,
            msdl: &mut self.msdl,
            ring: &self.ring,
            station,
            opened: &mut self.opened,
        };
        self.application.circuits(self.at, &mut circuits);
        let had_turn = std::mem::take(&mut self.may_send);
        if let Some((channel, cell)) = self.application.passes_on(self.at) {
            self.ring.work(Work::TransmitCell);
            self.pays();
            let leaving = Leaving {
                vci: u16::from_be_bytes([cell[0], cell[1]]),
                channel,
                is_last: Mssar::parse([cell[2], cell[3]]).is_last(),
            };
            self.stack.push(Doing::Writes(leaving, cell, 0));
            return;
        }
        let Some(block) = self.application.idle(self.at) else {
            // It looks at its station before it waits.
            self.waits = !had_turn;
            return;
        };
        let channel = match self.bug {
            Some(CbnBug::ChannelOfSender) => self.channel,
            _ => block.channel,
        };
        let Some(association) = self.association(block.vci, channel) else {
            // No circuit is left.
            self.waits = true;
            return;
        };
        // A block that is too long does not leave.
        let sent = self.msdl.send(&mut self.ring, association, block.octets);
        self.spends(Charge::SentBlock, self.spec.costs.sent_block);
        self.pays();
        if sent.is_ok() {
            self.stack.push(Doing::Sends);
        }
    }

    /// A block that has come is the application's.
    fn hands_on(&mut self, received: Received) {
        self.spends(Charge::ReceivedBlock, self.spec.costs.received_block);
        self.counts.received_blocks += 1;
        self.counts.received_octets += received.block.len() as u64;
        let vci = received.association.vci();
        let block = match self.bug {
            Some(CbnBug::BlockCutShort) => received.block.split_last().map_or(&[][..], |cut| cut.1),
            _ => &received.block,
        };
        self.application.received(self.at, vci, block);
        if self.has(CbnBug::BlockTwice) && self.counts.received_blocks.is_multiple_of(3) {
            self.application.received(self.at, vci, block);
        }
        self.msdl.recycle(received);
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
            if self.has(CbnBug::RidForgotten) {
                cell[3] &= 3;
            }
            self.pays();
            self.stack.push(Doing::Writes(leaving, cell, 0));
        }
    }

    /// A cell has left, or is lost.
    fn wrote(&mut self, leaving: Leaving, cell: [u8; CBN_CELL_LEN]) {
        self.counts.cells_written += 1;
        let again = self.has(CbnBug::CellTwice) && !std::mem::replace(&mut self.is_again, true);
        if leaving.is_last && again {
            self.stack.push(Doing::Writes(leaving, cell, 0));
            return;
        }
        self.is_again = false;
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
        let is_second = !Mssar::parse([cell[2], cell[3]]).start && self.left_out == Some(true);
        if self.has(CbnBug::CellLeftOut) && at == 0 {
            self.left_out = Some(Mssar::parse([cell[2], cell[3]]).start);
            if is_second {
                return self.wrote(leaving, cell);
            }
        }
        let Some(word) = words.get(at) else {
            return self.wrote(leaving, cell);
        };
        if let Some(dma) = self.spec.dma {
            let is_error = self.at < self.copies_until;
            if is_error && !self.has(CbnBug::NoBusError) {
                self.counts.bus_errors += u64::from(!self.has(CbnBug::BusErrorUncounted));
                return self.wrote(leaving, cell);
            }
            if at > 0 {
                let from = at - usize::from(self.has(CbnBug::DmaOfNineWords));
                station.copy(self.at, leaving.channel, &words[from..], &dma);
                self.copies_until = self.at.plus(dma.cell());
                if dma.locks && !self.has(CbnBug::BusUnlocked) {
                    self.goes_on(Charge::Dma, self.copies_until);
                }
                return self.wrote(leaving, cell);
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
            Some(at) => self.goes_on(Charge::Word, at),
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
            self.spends(Charge::Looks, look.max(station.spec().cycle));
        } else {
            // What has interrupted meanwhile was read.
            station.acknowledge(self.at);
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
        self.counts.cells_read += 1;
        let mut cell = *cell;
        match self.bug {
            Some(CbnBug::RidIgnored) => cell[3] &= 3,
            Some(CbnBug::PartIgnored) => cell[3] &= !2,
            Some(CbnBug::CountOctetEarly) if cell[3] & 2 != 0 => {
                cell[CBN_CELL_LEN - 1] = cell[CBN_CELL_LEN - 2];
            }
            _ => {}
        }
        if self.application.takes_cell(self.at, &cell) {
            self.ring.work(Work::ReceiveCell);
            self.pays();
            self.may_send = self.spec.order == Order::InTurn;
            if !self.may_send {
                let until = self.at.plus(self.dally());
                self.stack.push(Doing::Looks(until));
            }
            return;
        }
        let [high, low, payload @ ..] = &cell;
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
        let until = self.at.plus(self.dally());
        self.stack.push(Doing::Looks(until));
        if self.has(CbnBug::AcknowledgedLate) && !self.come.is_empty() {
            self.stack.pop();
        }
    }
}

/// A host writes and reads words, no octets.
const _: () = assert!(CBN_CELL_LEN == size_of::<Word>() * V1sSpec::WORDS);
