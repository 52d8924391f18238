//! The run: what is due first happens first, and who judges hears of all of it.

use cellgate_core::wire::CBN_CELL_LEN;

use super::application::Application;
use super::build::{self, Action, Plan};
use super::laws::Laws;
use super::literal::Literal;
use super::node::{self, Tally};
use super::promises;
use super::scenario::Load;
use crate::cbn::{CbnBug, RingDeed};
use crate::machine::v1s::{Deed, Network};
use crate::world::scenario::Scenario;
use crate::world::{CellTrace, Options, Ps, Violation};

/// After the scenario's end all comes to rest within four times what it has lasted, or 99 times
/// if there are bridges, and this.
const PATIENCE_NS: u64 = 20_000_000;
/// Turns between two looks into the books.
const TURNS: u64 = 512;

/// What a run has counted, beside what it tells: for marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) deeds: [u64; 9],
    pub(crate) overflowed: u64,
    pub(crate) interrupts: u64,
    pub(crate) false_cells: u64,
    pub(crate) bus_errors: u64,
    pub(crate) discarded: u64,
    pub(crate) strange: u64,
    pub(crate) nodes: Tally,
}

pub(super) struct Run<'a> {
    pub(super) scenario: &'a Scenario,
    trace: Option<&'a mut dyn CellTrace>,
    pub(super) plan: Plan,
    pub(super) networks: Vec<Network<Application>>,
    pub(super) laws: Vec<Laws>,
    literals: Vec<Literal>,
    pub(super) now: Ps,
    pub(super) events: u64,
    pub(super) hash: u64,
    deeds: [u64; 9],
    /// The first thing that the reference has seen: a law says more, if there is one.
    differs: Option<Violation>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        options: Options,
        trace: Option<&'a mut dyn CellTrace>,
    ) -> Self {
        let plan = Plan::of(scenario);
        let rings = 0..scenario.rings.len();
        let mut run = Self {
            networks: plan.networks(scenario, options.cbn_bug),
            laws: rings
                .clone()
                .map(|ring| Laws::of(scenario, &plan, ring))
                .collect(),
            literals: match options.reference {
                true => rings
                    .map(|ring| Literal::of(scenario, &plan, ring))
                    .collect(),
                false => Vec::new(),
            },
            now: Ps::ZERO,
            events: 0,
            hash: 0,
            deeds: [0; 9],
            differs: None,
            trace,
            plan,
            scenario,
        };
        if options.cbn_bug == Some(CbnBug::RunRemembers) {
            run.hash = remembered();
        }
        run
    }

    pub(super) fn run(&mut self) -> Result<(), Violation> {
        let duration_ns = self.scenario.duration_ns;
        let end = Ps::from_ns(duration_ns);
        // A bridge's slow host has to send what a fast one has given it.
        let times = if self.scenario.bridges.is_empty() {
            5
        } else {
            100
        };
        let late = Ps::from_ns(
            duration_ns
                .saturating_mul(times)
                .saturating_add(PATIENCE_NS)
                .saturating_add(self.patience_of_stations())
                .saturating_add(self.patience_of_nodes()),
        );
        loop {
            let next = self.networks.iter().map(Network::next).enumerate();
            let (ring, next) = next.min_by_key(|(_, at)| *at).unwrap_or((0, Ps::MAX));
            if let Some((at, ..)) = self.plan.actions.front()
                && *at <= next
            {
                self.look()?;
                self.acts();
                continue;
            }
            let rests = |network: &Network<Application>| network.is_at_rest();
            let is_over = next >= end && self.networks.iter().all(rests);
            if is_over && self.plan.actions.is_empty() {
                return self.look();
            }
            if next > late {
                let text = "it never comes to rest".into();
                return Err(Violation::new("R11", next, text));
            }
            self.now = next;
            self.events += 1;
            self.networks[ring].turn();
            if self.events.is_multiple_of(TURNS) {
                self.look()?;
            }
        }
    }

    /// Each station may have a block and a FIFO to send, and fills at least every second slot that
    /// the others leave it.
    fn patience_of_stations(&self) -> u64 {
        let rings = self.scenario.rings.iter().zip(&self.plan.seated);
        let times = rings.map(|(ring, seated)| {
            let slots = match ring.outstanding {
                0 => ring.frames,
                most => ring.frames.min(most),
            };
            let cells = seated.iter().map(|station| {
                let fifo = self.scenario.stations[*station].fifo_cells;
                u64::from(fifo) + u64::from(u8::MAX)
            });
            cells.sum::<u64>() * 2 * ring.rotation_ns / u64::from(slots.max(1))
        });
        times.max().unwrap_or(0)
    }

    /// Nodes keep what they know for a while.
    fn patience_of_nodes(&self) -> u64 {
        let mut traffic = self.scenario.traffic.iter();
        match traffic.any(|one| matches!(one.load, Load::Rpc { .. })) {
            true => 64 * build::beat(self.scenario).ns(),
            false => 0,
        }
    }

    /// Something happens.
    fn acts(&mut self) {
        let Some((at, ring, action)) = self.plan.actions.pop_front() else {
            return;
        };
        self.now = at;
        self.laws[ring].acts(at, action);
        if let Some(literal) = self.literals.get_mut(ring) {
            literal.acts(at, action);
        }
        let network = &mut self.networks[ring];
        match action {
            Action::Slot(harm) => network.harm(at, harm),
            Action::Reset(seat) => network.reset(at, seat),
            Action::Presence(seat, presence) => network.seat(seat).0.be(presence),
            Action::Unheard(seat, is_unheard) => network.seat(seat).0.unheard(is_unheard),
            Action::Stop(seat, until) => network.seat(seat).1.stop(until),
            Action::NodeDies(seat, until) => {
                let application = network.seat(seat).1.application_mut();
                if let Some(node) = &mut application.node {
                    node.dies(until);
                }
            }
        }
    }

    /// Looks into the books: what was done is added up and judged.
    fn look(&mut self) -> Result<(), Violation> {
        let networks = self.networks.iter_mut();
        let logs: Vec<_> = networks.map(Network::take_log).collect();
        self.tells(&logs);
        for (ring, (slots, stations)) in logs.into_iter().enumerate() {
            for deed in &slots {
                self.deeds[deed.what as usize] += 1;
                self.notes(slot_digest(deed));
                self.laws[ring].slot(deed)?;
            }
            for (seat, deeds) in stations.iter().enumerate() {
                for deed in deeds {
                    self.notes(station_digest(seat, deed));
                    self.laws[ring].station(seat, deed)?;
                }
            }
            if self.differs.is_none()
                && let Some(literal) = self.literals.get_mut(ring)
            {
                let told = literal.look(self.now, &slots, &stations);
                self.differs = told.err();
            }
        }
        Ok(())
    }

    /// Tells of slots what was done since it was asked last.
    fn tells(&mut self, logs: &[(Vec<RingDeed>, Vec<Vec<Deed>>)]) {
        let Some(trace) = &mut self.trace else {
            return;
        };
        let mut deeds: Vec<(usize, &RingDeed)> = Vec::new();
        for (ring, (slots, _)) in logs.iter().enumerate() {
            deeds.extend(slots.iter().map(|deed| (ring, deed)));
        }
        deeds.sort_by_key(|(_, deed)| deed.at);
        for (ring, deed) in deeds {
            let station = self.plan.seated[ring].get(deed.who).copied();
            trace.slot(ring, station, deed);
        }
    }

    const fn notes(&mut self, digest: u64) {
        self.hash = self.hash.rotate_left(5) ^ digest;
        self.hash = self.hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// What only the end shows.
    pub(super) fn judge(&mut self) -> Result<(), Violation> {
        for (laws, network) in self.laws.iter().zip(&self.networks) {
            laws.ends(self.now, network)?;
        }
        promises::judge(self)?;
        node::judge(self)?;
        let literals = self.literals.iter_mut().zip(&self.networks);
        for (literal, network) in literals {
            if self.differs.is_none() {
                self.differs = literal.ends(self.now, network).err();
            }
        }
        self.differs.take().map_or(Ok(()), Err)
    }

    pub(super) fn judged(&self) -> u64 {
        self.literals.iter().map(|literal| literal.judged).sum()
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts {
            deeds: self.deeds,
            ..Counts::default()
        };
        for network in &self.networks {
            for (station, host) in network.stations().iter().zip(network.hosts()) {
                counts.overflowed += station.counts().overflowed;
                counts.interrupts += station.counts().interrupts;
                counts.bus_errors += host.counts().bus_errors;
                counts.discarded += host.counts().discarded;
                if let Some(node) = &host.application().node {
                    counts.nodes.add(&node.book.tally());
                }
            }
        }
        counts.false_cells = self.laws.iter().map(|laws| laws.false_cells).sum();
        counts.strange = promises::strange(self);
        counts
    }
}

fn remembered() -> u64 {
    use std::cell::Cell;
    thread_local!(static RUNS: Cell<u64> = const { Cell::new(0) });
    RUNS.with(|runs| {
        runs.set(runs.get() + 1);
        runs.get()
    })
}

fn slot_digest(deed: &RingDeed) -> u64 {
    let mut octets = Vec::with_capacity(72);
    octets.extend(deed.at.ps().to_be_bytes());
    octets.extend((deed.who as u64).to_be_bytes());
    octets.extend([deed.channel, deed.what as u8]);
    octets.extend(deed.slot.emit());
    super::digest(&octets)
}

fn station_digest(seat: usize, deed: &Deed) -> u64 {
    let mut octets = Vec::with_capacity(64);
    octets.extend((seat as u32).to_be_bytes());
    let mut tell = |kind: u8, at: Ps, more: &[u8]| {
        octets.push(kind);
        octets.extend(at.ps().to_be_bytes());
        octets.extend(more);
    };
    let octets_of = |cell: &cellgate_core::wire::CbnCell| -> [u8; CBN_CELL_LEN] { cell.emit() };
    match deed {
        Deed::Passes { at, cell, is_full } => {
            tell(u8::from(*is_full), *at, &octets_of(cell));
        }
        Deed::Fills { at, cell, .. } => tell(2, *at, &octets_of(cell)),
        Deed::FalseCell { at, .. } => tell(3, *at, &[]),
        Deed::Access { begun, word, .. } => tell(4, *begun, word),
        Deed::Interrupts { at } => tell(5, *at, &[]),
        Deed::Wrote { at, word, .. } => tell(6, *at, word),
        Deed::Read { at, word } => tell(7, *at, word),
        Deed::Acknowledged { at } => tell(8, *at, &[]),
        Deed::Listens { at, vci, notify } => {
            let notify = notify.map_or(u8::MAX, |notify| notify as u8);
            tell(9, *at, &[&vci.to_be_bytes()[..], &[notify]].concat());
        }
    }
    super::digest(&octets)
}
