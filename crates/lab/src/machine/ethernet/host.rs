use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::upper::msna::{Msdl, MsdlConfig, Received, To};

use super::EtherSpec;
use crate::machine::v1s::{
    Application, Below, Charge, Charges, Destinations, HostCosts, HostCounts, MSDL, terms,
};
use crate::world::Ps;

/// A block on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) vci: u16,
    pub(super) block: Vec<u8>,
}

/// The work with which the CPU goes on.
#[derive(Clone, Debug)]
enum Doing {
    /// Writes a packet's words.
    Copies(Packet),
    /// Starts the interface that has all of them.
    Starts(Packet),
}

/// A host that has an Ethernet, and its application.
pub struct EtherHost<A> {
    spec: EtherSpec,
    costs: HostCosts,
    application: A,
    at: Ps,
    waits: bool,
    doing: Option<Doing>,
    is_in_handler: bool,
    msdl: Msdl,
    below: Below,
    associations: Destinations,
    /// Circuits on which it receives.
    circuits: Vec<u16>,
    /// Packets in the interface, and blocks that wait for the end of the handler.
    arrived: VecDeque<Packet>,
    come: VecDeque<Received>,
    counts: HostCounts,
    charges: Charges,
}

impl<A: Application> EtherHost<A> {
    pub(super) fn new(
        spec: EtherSpec,
        costs: HostCosts,
        circuits: Vec<u16>,
        application: A,
    ) -> Self {
        let below = Below::packets(costs);
        let highest = circuits.iter().copied().max().unwrap_or(0);
        let mut msdl = Msdl::new(MsdlConfig {
            circuits: MSDL.circuits.saturating_add(highest),
            ..MSDL
        });
        for vci in &circuits {
            msdl.begin(Time::ZERO, &below, terms(*vci, *vci, To::Channel(0)));
        }
        Self {
            spec,
            costs,
            application,
            at: Ps::ZERO,
            waits: false,
            doing: None,
            is_in_handler: false,
            msdl,
            below,
            associations: Destinations::default(),
            circuits,
            arrived: VecDeque::new(),
            come: VecDeque::new(),
            counts: HostCounts::default(),
            charges: Charges::default(),
        }
    }

    pub const fn application(&self) -> &A {
        &self.application
    }

    pub const fn counts(&self) -> &HostCounts {
        &self.counts
    }

    /// What its time went for.
    pub fn charges(&self) -> Charges {
        let mut charges = self.charges;
        charges.add(&self.below.charges);
        charges
    }

    /// When [`EtherHost::step`] is due.
    pub(super) fn next(&self) -> Ps {
        match self.waits {
            false => self.at,
            true => self.application.due().max(self.at),
        }
    }

    /// A packet is in the interface; false: it is for others.
    pub(super) fn arrives(&mut self, at: Ps, packet: &Packet) -> bool {
        let is_own = self.circuits.contains(&packet.vci);
        if is_own {
            self.arrived.push_back(packet.clone());
            self.waits = false;
            self.at = self.at.max(at);
        }
        is_own
    }

    fn spends(&mut self, charge: Charge, span: Ps) {
        self.charges.spend(charge, span);
        self.counts.busy = self.counts.busy.plus(span);
        self.at = self.at.plus(span);
    }

    /// Spends the time of MSDL's work, which its access has noted.
    fn pays(&mut self) {
        let spent = std::mem::take(&mut self.below.spent);
        self.counts.busy = self.counts.busy.plus(spent);
        self.at = self.at.plus(spent);
    }

    fn copies(&mut self, packet: &Packet) {
        let words = EtherSpec::words(packet.block.len());
        self.spends(Charge::Word, Ps::new(self.spec.word.ps() * words));
    }

    /// Does what comes next: a packet that leaves, and when.
    pub(super) fn step(&mut self) -> Option<(Ps, Packet)> {
        self.at = self.next();
        self.waits = false;
        if let Some(packet) = self.arrived.pop_front() {
            self.takes(&packet);
            return None;
        }
        self.is_in_handler = false;
        match self.doing.take() {
            None => self.is_free(),
            Some(Doing::Copies(packet)) => {
                self.copies(&packet);
                self.doing = Some(Doing::Starts(packet));
            }
            Some(Doing::Starts(packet)) => {
                self.spends(Charge::Starts, self.spec.start);
                self.counts.sent_blocks += 1;
                self.application.sent(self.at);
                return Some((self.at, packet));
            }
        }
        None
    }

    /// A packet that has come is read.
    fn takes(&mut self, packet: &Packet) {
        if !std::mem::replace(&mut self.is_in_handler, true) {
            self.counts.interrupts += 1;
            self.spends(Charge::Interrupt, self.costs.interrupt());
        }
        self.copies(packet);
        let Packet { vci, block } = packet;
        self.msdl.handle_packet(&mut self.below, *vci, block);
        self.pays();
        self.counts.discarded = self.msdl.counts().discarded.total();
        self.come.extend(self.msdl.poll_received());
    }

    fn is_free(&mut self) {
        if let Some(received) = self.come.pop_front() {
            return self.hands_on(received);
        }
        let Some(outgoing) = self.application.idle(self.at) else {
            let slice = self.application.works();
            self.waits = slice == Ps::ZERO;
            if !self.waits {
                self.spends(Charge::Application, slice);
            }
            return;
        };
        let to = (outgoing.vci, outgoing.to);
        let at = (self.at.time(), &mut self.msdl, &self.below);
        let Some(association) = self.associations.of(to, at) else {
            // No circuit is left.
            self.waits = true;
            return;
        };
        // A block that no packet has room for does not leave.
        if outgoing.octets.len() > EtherSpec::BLOCK_MAX {
            return;
        }
        let sent = self
            .msdl
            .send(&mut self.below, association, outgoing.octets);
        self.spends(Charge::SentBlock, self.costs.sent_block);
        let packet = sent
            .ok()
            .and_then(|()| self.msdl.poll_packet(&mut self.below));
        self.pays();
        self.doing = packet.map(|(leaving, block)| {
            let vci = leaving.vci;
            Doing::Copies(Packet { vci, block })
        });
    }

    fn hands_on(&mut self, received: Received) {
        self.spends(Charge::ReceivedBlock, self.costs.received_block);
        self.counts.received_blocks += 1;
        self.counts.received_octets += received.block.len() as u64;
        let vci = received.association.vci();
        self.application.received(self.at, vci, &received.block);
        self.msdl.recycle(received);
    }
}
