//! What has become of connections, for runs that are compared.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::adapter::{Discard, VcInfo};
use cellgate_core::contract::CellRate;

use super::Oracle;
use crate::world::Interval;
use crate::world::scenario::Traffic;

/// What has come on a connection whose sender does no harm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goodput {
    pub(crate) pdus: u64,
    pub(crate) cells: u64,
    /// Cells that its contract has of those it is sent, if its sender sends at one rate and its
    /// ends stay; but for PDUs at each end.
    pub(crate) due: u64,
    /// Cells that found no room.
    pub(crate) no_room: u64,
    /// How many of its PDUs come is chance.
    pub(crate) is_chancy: bool,
    /// A fault of a host can have cost it something, or an overload.
    pub(crate) disturbed: bool,
}

/// What became of a connection of which no switch has discarded a cell: nobody knows whose it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    /// PDUs, cells and octets read, PDUs lost, repeated and strange, and what adapters hold against
    /// their clients.
    pub(crate) counts: [u64; 7],
    /// How many of its PDUs come is chance.
    pub(crate) is_chancy: bool,
}

impl Fate {
    /// Where the counts begin that are 0 if all is right.
    pub(crate) const WRONG: usize = 3;
}

impl Oracle<'_> {
    /// Names of the connections of which one end, or its client, writes what it should not.
    pub(crate) fn lawless(&self) -> BTreeSet<String> {
        let connections = self.plan.connections.iter().enumerate();
        let own = connections.filter(|(n, _)| self.is_lawless(*n));
        own.map(|(_, connection)| connection.name.clone()).collect()
    }

    /// Whether it is chance how many PDUs of a connection come: some were given up for coming late,
    /// which a microsecond decides, or, where servers open its ends, met none that was open.
    fn is_chancy(&self, n: usize) -> bool {
        let late = |info: &VcInfo| info.stats.cells_discarded.of(Discard::ReassemblyTimeout);
        self.ends_of(n).any(|info| late(info) > 0)
            || self.plan.is_served(n as u32) && self.missing(n) > 0
    }

    /// PDUs of a connection that were sent and did not come.
    pub(super) fn missing(&self, n: usize) -> u64 {
        let (connection, tally) = self.connection(n);
        let sender = connection.sender;
        tally
            .pdus
            .missing(sender.map_or(0, |sender| self.report().sources[sender].sent))
    }

    /// What became of each connection of which no switch has discarded a cell.
    pub(crate) fn fates(&self) -> BTreeMap<String, Fate> {
        let connections = 0..self.plan.connections.len();
        let passed = connections.filter(|n| self.log.connections[*n].discarded == 0);
        let seen = |n: usize| {
            let (connection, tally) = self.connection(n);
            let pdus = &tally.pdus;
            let counts = [
                pdus.delivered,
                pdus.cells,
                pdus.octets,
                pdus.lost,
                pdus.repeated,
                pdus.strangers + pdus.misfits,
                self.ends_of(n).map(|info| info.stats.client_faults).sum(),
            ];
            let is_chancy = self.is_chancy(n);
            (connection.name.clone(), Fate { counts, is_chancy })
        };
        passed.map(seen).collect()
    }

    /// What adapters have said of a connection's ends when these were closed.
    fn ends_of(&self, n: usize) -> impl Iterator<Item = &VcInfo> {
        let closed = self.report().hosts.iter().flat_map(|host| &host.closed);
        let own = closed.filter(move |(whose, _)| *whose == n as u32);
        own.map(|(_, info)| info)
    }

    /// What has come on each connection whose sender does no harm.
    pub(crate) fn goodput(&self) -> BTreeMap<String, Goodput> {
        let senders = self.senders();
        let harmless = senders.harmless.iter();
        let seen = |n: &usize| {
            let (connection, tally) = self.connection(*n);
            let standing = self.standing(&senders, *n);
            let is_told = !(standing.crowded || standing.untold);
            let is_kept = connection.is_open && is_told && !self.plan.is_served(*n as u32);
            let due = connection.sender.filter(|_| is_kept);
            let goodput = Goodput {
                pdus: tally.pdus.delivered,
                cells: tally.pdus.cells,
                due: due.map_or(0, |sender| self.due(*n, sender)),
                no_room: self.found_no_room(*n),
                is_chancy: self.is_chancy(*n),
                disturbed: standing.disturbed || standing.gave_way,
            };
            (connection.name.clone(), goodput)
        };
        harmless.map(seen).collect()
    }

    /// Cells of a connection's contract while its sender sends them, but for PDUs at each end.
    fn due(&self, n: usize, sender: usize) -> u64 {
        let spec = &self.scenario.sources[sender];
        let to = self.plan.connections[n].to;
        let policed = self.host(to).policed_rate(n as u32);
        let said = match spec.traffic {
            Traffic::Paced { cell_s } => CellRate::new(cell_s),
            _ => None,
        };
        let said = said.filter(|_| !self.is_told_too_seldom(sender));
        let Some((policed, said)) = policed.zip(said) else {
            return 0;
        };
        let (start, stop) = spec.span(self.scenario.duration_ns);
        let cells = Interval::of_rate(policed.min(said)).begun_in(stop.since(start));
        let longest = self.plan.sources[sender].longest_pdu() * u64::from(spec.mids.max(1));
        cells.saturating_sub(3 * longest)
    }
}
