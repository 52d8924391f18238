//! The CPU of a host: whose turn it is, and what its time goes for.

mod application;
mod receiving;
mod relaying;
mod sending;
mod spec;

pub use application::{Application, Outgoing};
pub use relaying::Onward;
pub use spec::{Dma, HostSpec, Order};

use std::collections::{BTreeMap, VecDeque};

use cellgate_core::Time;
use cellgate_core::upper::msna::{
    Access, Association, Leaving, Msdl, MsdlConfig, Received, To, Work,
};
use cellgate_core::wire::{CBN_CELL_LEN, Mssar};

use super::access::{Below, Destinations, MSDL, terms};
use super::{Charge, Charges, Circuits, Stage, Station, V1sSpec, Word};
use crate::cbn::CbnBug;
use crate::world::Ps;

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
    /// A bridge: a cell's words that go on, and their channel.
    Relays([u8; CBN_CELL_LEN], u8, usize),
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
    below: Below,
    associations: Destinations,
    /// Circuits that the application has opened.
    opened: BTreeMap<u16, Association>,
    /// Circuits whose cells go on, and where.
    relays: BTreeMap<u16, Onward>,
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
    /// A host that receives on these circuits, at a ring of so many channels.
    pub fn new(
        spec: HostSpec,
        channels: u8,
        circuits: impl IntoIterator<Item = u16>,
        application: A,
    ) -> Self {
        let below = Below::ring(channels, spec.costs);
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
            msdl.begin(Time::ZERO, &below, terms(vci, vci, To::Channel(0)));
        }
        Self {
            spec,
            application,
            stack: Vec::new(),
            at: Ps::ZERO,
            waits: false,
            msdl,
            below,
            associations: Destinations::default(),
            opened: BTreeMap::new(),
            relays: BTreeMap::new(),
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
        self.below.bug = bug;
        if bug == Some(CbnBug::OtherStage) {
            self.below.costs.stage = match self.spec.costs.stage {
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

    /// What its time went for.
    pub fn charges(&self) -> Charges {
        let mut charges = self.charges;
        charges.add(&self.below.charges);
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

    /// Its station was reset: what it writes or reads of a cell is lost.
    pub(super) fn lacks_its_station(&mut self, now: Ps) {
        for doing in &mut self.stack {
            match doing {
                Doing::Writes(_, _, at) | Doing::Relays(_, _, at) if *at > 0 => {
                    *at = V1sSpec::WORDS;
                }
                Doing::Reads(..) => *doing = Doing::Looks(now),
                _ => {}
            }
        }
        self.wake(now);
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
        let spent = std::mem::take(&mut self.below.spent);
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
            [
                ..,
                Doing::Looks(_) | Doing::Reads(..) | Doing::Takes(_) | Doing::Relays(..)
            ]
        )
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
            self.spends(Charge::Interrupt, costs.interrupt());
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
            Some(Doing::Relays(cell, channel, word)) => {
                self.goes_on_with(station, cell, channel, word);
            }
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
            below: &self.below,
            station,
            opened: &mut self.opened,
        };
        self.application.circuits(self.at, &mut circuits);
        let had_turn = std::mem::take(&mut self.may_send);
        if let Some((channel, cell)) = self.application.passes_on(self.at) {
            self.below.work(Work::TransmitCell);
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
            let slice = self.application.works();
            if slice > Ps::ZERO {
                return self.spends(Charge::Application, slice);
            }
            // It looks at its station before it waits.
            self.waits = !had_turn;
            return;
        };
        let to = match self.bug {
            Some(CbnBug::ChannelOfSender) => To::Channel(self.channel),
            _ => block.to,
        };
        let at = (self.at.time(), &mut self.msdl, &self.below);
        let Some(association) = self.associations.of((block.vci, to), at) else {
            // No circuit is left.
            self.waits = true;
            return;
        };
        // A block that is too long does not leave.
        let sent = self.msdl.send(&mut self.below, association, block.octets);
        self.spends(Charge::SentBlock, self.spec.costs.sent_block);
        self.pays();
        if sent.is_ok() {
            self.stack.push(Doing::Sends);
        }
    }

    /// Goes on at this time, or waits for the station.
    fn went(&mut self, at: Option<Ps>) {
        match at {
            Some(at) => self.goes_on(Charge::Word, at),
            None => self.waits = true,
        }
    }
}

/// A host writes and reads words, no octets.
const _: () = assert!(CBN_CELL_LEN == size_of::<Word>() * V1sSpec::WORDS);
