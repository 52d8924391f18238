//! What follows from a scenario alone: which way its connections go, and who sends on them.

use std::collections::BTreeMap;

use cellgate_core::contract::{ServiceCategory, TrafficContract};
use cellgate_core::wire::VpiVci;

use super::incident::Change;
use super::source::Source;
use super::topology::Place;
use super::{Interval, Ps};

/// A connection of a scenario.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) name: String,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Its lines, in travel order.
    pub(crate) path: Vec<usize>,
    pub(crate) address: VpiVci,
    pub(crate) contract: TrafficContract,
    /// Its reader's host opens it at the beginning.
    pub(crate) is_open: bool,
    /// The source of its PDUs.
    pub(crate) sender: Option<usize>,
    /// Or their stream, and octets of each SDU.
    pub(crate) stream: Option<(usize, usize)>,
}

impl Connection {
    /// Whether RM cells come back on it: both its ends send and receive.
    pub(crate) fn is_abr(&self) -> bool {
        self.contract.category == ServiceCategory::Abr
    }

    /// The lines on which they do.
    pub(crate) fn way_back(&self) -> Vec<usize> {
        let lines = self.path.iter().rev().map(|line| line ^ 1);
        lines.filter(|_| self.is_abr()).collect()
    }

    /// The host at one of its ends, and the line there.
    pub(crate) fn end(&self, receives: bool) -> (usize, usize) {
        let (host, line) = match receives {
            true => (self.to, self.path.last()),
            false => (self.from, self.path.first()),
        };
        (host, *line.expect("no host is both ends of a connection"))
    }
}

/// A scenario, with numbers for names.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) connections: Vec<Connection>,
    /// As they are to send.
    pub(crate) sources: Vec<Source>,
    /// Where each line ends: line 2n leads from the first to the second end of link n, line 2n + 1
    /// back.
    pub(crate) places: Vec<Place>,
    /// The time that a cell takes on each line.
    pub(crate) cells: Vec<Interval>,
    /// What connections are changed to, by the number of the fault.
    pub(crate) changes: BTreeMap<u32, Change>,
    /// Ends of connections that applications use: host, connection.
    pub(crate) served: Vec<(usize, usize)>,
    /// From here on what hosts open themselves is open; servers begin.
    pub(crate) hosts_opened: Ps,
    /// From here on everything is open, and the scenario's time counts.
    pub(crate) opened: Ps,
}

impl Plan {
    /// Octets that an SDU has if it was sent; none: nobody knows.
    pub(crate) fn sdu_len(&self, connection: u32, number: u64) -> Option<usize> {
        let connection = &self.connections[connection as usize];
        let of_stream = connection.stream.map(|(_, len)| len);
        let sender = connection.sender.map(|sender| &self.sources[sender]);
        of_stream.or_else(|| Some(sender?.sdu_len(number).into()))
    }

    /// Whether a server opens the end of a connection at this host.
    pub(crate) fn serves(&self, host: usize, connection: u32) -> bool {
        self.served.contains(&(host, connection as usize))
    }

    /// Whether servers open a connection: its ends come, go and change while it is used.
    pub(crate) fn is_served(&self, connection: u32) -> bool {
        let Connection { from, to, .. } = self.connections[connection as usize];
        self.serves(from, connection) || self.serves(to, connection)
    }

    /// The host from which a line leads.
    pub(crate) fn host_before(&self, line: usize) -> Option<usize> {
        match self.places[line ^ 1] {
            Place::Host { host } => Some(host),
            Place::Switch { .. } => None,
        }
    }

    /// The lines behind the outputs of a switch.
    pub(crate) fn outputs_of(&self, switch: usize) -> impl Iterator<Item = usize> {
        let is_behind = move |line: &usize| match self.places[line ^ 1] {
            Place::Switch { switch: at, .. } => at == switch,
            Place::Host { .. } => false,
        };
        (0..self.places.len()).filter(is_behind)
    }

    /// Cells per second of a line.
    pub(crate) fn cell_s(&self, line: usize) -> u64 {
        1_000_000_000_000 / self.cells[line].ps().max(1)
    }
}
