//! What a scenario and its faults mean for a connection: what it can be held to.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::adapter::{Discard, PDUS_PER_STEP};
use cellgate_core::contract::{Aal, ServiceCategory};

use super::Oracle;
use super::delays::stood_idle;
use crate::world::Ps;
use crate::world::host::{tells_of_all, transmit_fifo};
use crate::world::incident::Change;
use crate::world::plan::Connection;
use crate::world::scenario::{FaultSpec, Traffic};
use crate::world::source::Source;

/// What a scenario says of a connection, beside what happened to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// Who sends PDUs on it keeps to the contract.
    pub(super) conforms: bool,
    /// Its reader is an adversary.
    pub(super) lawless: bool,
    /// Sources that do harm put cells on its first line, before any switch; or all together more
    /// than it carries; or an adapter steps too seldom to fill it.
    pub(super) crowded: bool,
    /// No event tells its reader of every PDU.
    pub(super) untold: bool,
    /// Anybody's cells come along its first line.
    pub(super) mixed: bool,
    /// Something else keeps PDUs from being read for a while.
    pub(super) disturbed: bool,
    /// Its contract is changed.
    pub(super) modified: bool,
    /// It is best effort or ABR before an adapter that was overloaded, or AAL3/4 before one that
    /// has given up slow PDUs.
    pub(super) gave_way: bool,
    /// A change did not wait for the end of its PDUs.
    pub(super) cut: bool,
}

/// Who sends, and along which lines.
#[derive(Debug, Default)]
pub(super) struct Senders {
    /// Connections whose PDUs are of a source that does no harm.
    pub(super) harmless: BTreeSet<usize>,
    /// Connections with one that does, by their first line.
    hazards: BTreeMap<usize, BTreeSet<usize>>,
    /// First lines of cells that are anybody's.
    mixed: BTreeSet<usize>,
    /// Cells per second that sources put on their first lines.
    offered: BTreeMap<usize, u64>,
}

impl Oracle<'_> {
    /// Whether nothing on its way has met a connection, and nobody crowds it.
    pub(super) fn is_sound(&self, n: usize) -> bool {
        let standing = self.standing(&self.senders(), n);
        let promised =
            !(standing.crowded || standing.lawless || standing.gave_way || standing.untold);
        self.found_no_room(n) == 0 && !self.is_met(n) && promised
    }

    /// Whether a source's cells come from an adapter that is given more PDUs in one of its steps
    /// than it begins.
    pub(super) fn is_told_too_seldom(&self, sender: usize) -> bool {
        let sender = &self.plan.sources[sender];
        let host = self.plan.host_before(sender.line);
        let step = host.map_or(0, |host| self.scenario.hosts[host].step_ns);
        let same = |source: &&Source| source.is_by_adapter() && source.line == sender.line;
        let given = self.plan.sources.iter().filter(same);
        let given = given.map(|source| source.begins_in(Ps::from_ns(step)));
        sender.is_by_adapter() && given.sum::<u64>() > PDUS_PER_STEP.into()
    }

    /// Whether a connection's cells come from an adapter whose line is empty before its next step.
    fn is_slow(&self, n: usize) -> bool {
        let Connection {
            from, sender, path, ..
        } = &self.plan.connections[n];
        let by_adapter = sender.is_some_and(|sender| self.plan.sources[sender].is_by_adapter());
        let by_adapter = by_adapter || self.plan.connections[n].stream.is_some();
        let spec = &self.scenario.hosts[*from];
        let full = self.plan.cells[path[0]].times(transmit_fifo(spec));
        by_adapter && Ps::from_ns(spec.step_ns) > full
    }

    pub(super) fn senders(&self) -> Senders {
        let mut senders = Senders::default();
        let sources = self.scenario.sources.iter().zip(&self.plan.sources);
        for (n, (spec, source)) in sources.enumerate() {
            let connection = source.connection as usize;
            if spec.hazard {
                let hazards = senders.hazards.entry(source.line).or_default();
                hazards.insert(connection);
            } else if self.plan.connections[connection].sender == Some(n) {
                senders.harmless.insert(connection);
            }
            if matches!(spec.traffic, Traffic::Cells(_)) {
                senders.mixed.insert(source.line);
            }
            let cell_s = match spec.traffic {
                _ if spec.by_adapter => 0,
                Traffic::Paced { cell_s }
                | Traffic::OnOff { cell_s, .. }
                | Traffic::Scan { cell_s } => cell_s.into(),
                Traffic::Greedy => self.plan.cell_s(source.line),
                Traffic::Cells(_) => 0,
            };
            *senders.offered.entry(source.line).or_default() += cell_s;
        }
        let connections = self.plan.connections.iter().enumerate();
        let streams = connections.filter(|(_, connection)| connection.stream.is_some());
        senders.harmless.extend(streams.map(|(n, _)| n));
        senders
    }

    pub(super) fn standing(&self, senders: &Senders, n: usize) -> Standing {
        let connection = &self.plan.connections[n];
        let spec = &self.scenario.connections[n];
        let (to, from) = (&spec.to, &spec.from);
        let line = connection.path[0];
        let mut hazards = senders.hazards.get(&line).into_iter().flatten();
        let offered = senders.offered.get(&line).copied().unwrap_or(0);
        let mut standing = Standing {
            conforms: senders.harmless.contains(&n),
            crowded: hazards.any(|other| *other != n)
                || offered > self.plan.cell_s(line)
                || self.is_slow(n),
            untold: !tells_of_all(spec.notification),
            mixed: senders.mixed.contains(&line),
            ..Standing::default()
        };
        // What ABR sends beyond MCR is best effort, too.
        let category = connection.contract.category;
        let mut best_effort = matches!(category, ServiceCategory::Ubr | ServiceCategory::Abr);
        let receiver = self.host(connection.to);
        // What a source puts on its line itself no fault of its host can touch.
        let of_host = |sender: usize| self.plan.sources[sender].is_by_adapter();
        let is_sent = connection.sender.is_none_or(of_host);
        let touched = |host: &String| host == to || host == from && is_sent;
        // The buffer has room for what comes while the adapter or its client stands still, as long
        // as that is no more than the longest gap.
        let stood_still = receiver.stood_still.plus(stood_idle(self.scenario, to));
        let gap_max_ns = self.scenario.hosts[connection.to].gap_max_ns;
        standing.disturbed = stood_still > Ps::from_ns(gap_max_ns);
        standing.cut = receiver.cut.contains(&(n as u32));
        standing.lawless = self.is_lawless(n);
        for (n, fault) in (0..).zip(&self.scenario.faults) {
            match fault {
                // At the receiver it matters how long it stood still in all.
                FaultSpec::AdapterStall { host, .. }
                | FaultSpec::HostStall { host, .. }
                | FaultSpec::ClockStep { host, .. } => {
                    standing.disturbed |= host == from && is_sent;
                }
                FaultSpec::AdapterCrash { host, .. }
                | FaultSpec::Kills { host, .. }
                | FaultSpec::MemoryLimit { host, .. }
                | FaultSpec::InterruptsLost { host, .. } => standing.disturbed |= touched(host),
                FaultSpec::ReaderCrash { connection, .. } => {
                    standing.disturbed |= *connection == spec.name;
                }
                FaultSpec::Modify {
                    connection,
                    sender,
                    memory,
                    ..
                } => {
                    let here = *connection == spec.name;
                    standing.modified |= here;
                    best_effort |= here
                        && self
                            .plan
                            .changes
                            .get(&n)
                            .is_some_and(Change::is_best_effort);
                    // The adapter does not send the PDUs that wait in the old memory.
                    standing.disturbed |= here && *sender && *memory;
                }
                FaultSpec::Write { .. }
                | FaultSpec::Cell { .. }
                | FaultSpec::Swap { .. }
                | FaultSpec::SpuriousWakeUp { .. }
                | FaultSpec::EarlyTimers { .. }
                | FaultSpec::CommandQueueFull { .. }
                | FaultSpec::Guests { .. }
                | FaultSpec::StateDirectory { .. }
                | FaultSpec::Lend { .. }
                | FaultSpec::Slot { .. }
                | FaultSpec::Ring { .. }
                | FaultSpec::Station { .. }
                | FaultSpec::Messages { .. } => {}
            }
        }
        let aal34 = connection.contract.aal == Some(Aal::Aal34);
        let gives_way = best_effort || self.log.promises.is_best_effort(n as u32);
        standing.gave_way = gives_way && receiver.has_discarded(Discard::Overload)
            || aal34 && receiver.has_discarded(Discard::ReassemblyTimeout);
        standing
    }

    /// Whether an end of a connection, or its client, writes what it should not.
    pub(super) fn is_lawless(&self, n: usize) -> bool {
        let Connection { from, to, .. } = self.plan.connections[n];
        let mut ends = [from, to].into_iter();
        ends.any(|host| self.host(host).lawless.contains(&(n as u32)))
    }
}
