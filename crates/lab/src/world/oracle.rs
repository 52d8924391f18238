//! The invariants that must hold during and after every run.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::adapter::{AdapterStats, Discard, PDUS_PER_STEP, VcInfo, VcStats};
use cellgate_core::contract::{Aal, CellRate, ServiceCategory};

use super::check::is_shaped_at_once;
use super::host::{Host, tells_of_all};
use super::incident::{Change, SETTLED};
use super::latency::{Crowds, stood_idle};
use super::run::{Connection, World};
use super::scenario::{FaultSpec, Scenario, Traffic};
use super::source::Source;
use super::topology::Place;
use super::trace::Watch;
use super::{Interval, Ps, Violation};

/// What a scenario says of a connection, beside what happened to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Standing {
    /// Who sends PDUs on it keeps to the contract.
    conforms: bool,
    /// Its reader is an adversary.
    lawless: bool,
    /// Sources that do harm put cells on its first line, before any switch; or all together more
    /// than it carries; or an adapter steps too seldom to fill it.
    crowded: bool,
    /// No event tells its reader of every PDU.
    untold: bool,
    /// Anybody's cells come along its first line.
    mixed: bool,
    /// Something else keeps PDUs from being read for a while.
    disturbed: bool,
    /// Its contract is changed.
    modified: bool,
    /// It is best effort before an adapter that was overloaded, or AAL3/4 before one that has
    /// given up slow PDUs.
    gave_way: bool,
    /// A change did not wait for the end of its PDUs.
    cut: bool,
}

/// What has come on a connection whose sender does no harm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goodput {
    pub(super) pdus: u64,
    pub(super) cells: u64,
    /// Cells that its contract has of those it is sent, if its sender sends at one rate and its
    /// ends stay; but for PDUs at each end.
    pub(super) due: u64,
    /// Cells that found no room.
    pub(super) no_room: u64,
    /// How many of its PDUs come is chance.
    pub(super) is_chancy: bool,
    /// A fault of a host can have cost it something, or an overload.
    pub(super) disturbed: bool,
}

/// What became of a connection of which no switch has discarded a cell: nobody knows whose it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    /// PDUs, cells and octets read, PDUs lost, repeated and strange, and what adapters hold against
    /// their clients.
    pub(super) counts: [u64; 7],
    /// How many of its PDUs come is chance.
    pub(super) is_chancy: bool,
}

impl Fate {
    /// Where the counts begin that are 0 if all is right.
    pub(super) const WRONG: usize = 3;
}

/// Who sends, and along which lines.
#[derive(Debug, Default)]
struct Senders {
    /// Connections whose PDUs are of a source that does no harm.
    harmless: BTreeSet<usize>,
    /// Connections with one that does, by their first line.
    hazards: BTreeMap<usize, BTreeSet<usize>>,
    /// First lines of cells that are anybody's.
    mixed: BTreeSet<usize>,
    /// Cells per second that sources put on their first lines.
    offered: BTreeMap<usize, u64>,
}

impl World {
    /// Runs to the end, closes everything, and looks whether all was right. `Err`: it was not.
    pub fn judge(&mut self, scenario: &Scenario, watch: &mut Watch<'_>) -> Result<(), Violation> {
        self.run_watched(scenario.duration_ns, watch);
        self.servers_look_again();
        self.first_violation()?;
        self.nothing_waits()?;
        self.cells_are_conserved()?;
        let senders = self.senders(scenario);
        let crowds = self.crowds(scenario);
        for (n, connection) in self.connections.iter().enumerate() {
            let standing = self.standing(scenario, &senders, n);
            self.pdus_are_right(connection, standing)?;
            self.pdus_are_there(scenario, &crowds, n, standing)?;
        }
        self.readers_sleep_only_on_empty_queues()?;
        self.service_is_right(scenario)?;
        self.close();
        self.run();
        self.first_violation()?;
        self.hosts
            .iter()
            .try_for_each(|node| self.is_left_clean(node))?;
        self.service_is_left_clean()
    }

    /// Whether nothing on its way has met a connection, and nobody crowds it.
    pub(super) fn is_sound(&self, scenario: &Scenario, n: usize) -> bool {
        let connection = &self.connections[n];
        let standing = self.standing(scenario, &self.senders(scenario), n);
        let passed = self.found_no_room(connection) == 0;
        let met = self.is_met(scenario, n) || self.is_held(connection);
        let promised =
            !(standing.crowded || standing.lawless || standing.gave_way || standing.untold);
        passed && !met && promised
    }

    /// Cells of a connection's address that switches have discarded, or that found a FIFO full, or
    /// no adapter, at its end.
    pub(super) fn found_no_room(&self, connection: &Connection) -> u64 {
        let overflowed = &self.hosts[connection.to].overflowed;
        connection.discarded + overflowed.get(&connection.address).copied().unwrap_or(0)
    }

    /// Names of the connections of which one end, or its client, writes what it should not.
    pub(super) fn lawless(&self) -> BTreeSet<String> {
        let connections = self.connections.iter().zip(0..);
        let own = connections.filter(|(connection, n)| {
            let mut ends = [connection.from, connection.to].into_iter();
            ends.any(|host| self.hosts[host].is_lawless(*n))
        });
        own.map(|(connection, _)| connection.name.clone()).collect()
    }

    /// Whether servers open a connection: its ends come, go and change while it is used.
    fn is_served(&self, n: u32) -> bool {
        let Connection { from, to, .. } = self.connections[n as usize];
        let mut hosts = [from, to].into_iter();
        hosts.any(|host| self.service.serves(host, n))
    }

    /// Whether it is chance how many PDUs of a connection come: some were given up for coming late,
    /// which a microsecond decides, or, where servers open its ends, met none that was open.
    fn is_chancy(&self, n: u32) -> bool {
        let connection = &self.connections[n as usize];
        let sent = connection
            .sender
            .map_or(0, |sender| self.sources[sender].sent);
        let late = |info: &VcInfo| info.stats.cells_discarded.of(Discard::ReassemblyTimeout);
        self.ends_of(n).any(|info| late(info) > 0)
            || self.is_served(n) && connection.pdus.missing(sent) > 0
    }

    /// What became of each connection of which no switch has discarded a cell.
    pub(super) fn fates(&self) -> BTreeMap<String, Fate> {
        let connections = (0..).zip(&self.connections);
        let passed = connections.filter(|(_, connection)| connection.discarded == 0);
        let seen = |(n, connection): (u32, &Connection)| {
            let pdus = &connection.pdus;
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
    fn ends_of(&self, n: u32) -> impl Iterator<Item = &VcInfo> {
        let closed = self.hosts.iter().flat_map(|node| &node.closed);
        closed
            .filter(move |(whose, _)| *whose == n)
            .map(|(_, info)| info)
    }

    /// What has come on each connection whose sender does no harm.
    pub(super) fn goodput(&self, scenario: &Scenario) -> BTreeMap<String, Goodput> {
        let senders = self.senders(scenario);
        let harmless = senders.harmless.iter();
        let seen = |n: &usize| {
            let connection = &self.connections[*n];
            let standing = self.standing(scenario, &senders, *n);
            let is_told = !(standing.crowded || standing.untold);
            let is_kept = connection.is_open && is_told && !self.is_served(*n as u32);
            let due = connection.sender.filter(|_| is_kept);
            let goodput = Goodput {
                pdus: connection.pdus.delivered,
                cells: connection.pdus.cells,
                due: due.map_or(0, |sender| self.due(scenario, *n, sender)),
                no_room: self.found_no_room(connection),
                is_chancy: self.is_chancy(*n as u32),
                disturbed: standing.disturbed || standing.gave_way,
            };
            (connection.name.clone(), goodput)
        };
        harmless.map(seen).collect()
    }

    /// Cells of a connection's contract while its sender sends them, but for PDUs at each end.
    fn due(&self, scenario: &Scenario, n: usize, sender: usize) -> u64 {
        let spec = &scenario.sources[sender];
        let policed = self.hosts[self.connections[n].to].policed_rate(n as u32);
        let said = match spec.traffic {
            Traffic::Paced { cell_s } => CellRate::new(cell_s),
            _ => None,
        };
        let said = said.filter(|_| !self.is_told_too_seldom(sender));
        let Some((policed, said)) = policed.zip(said) else {
            return 0;
        };
        let (start, stop) = spec.span(scenario.duration_ns);
        let cells = Interval::of_rate(policed.min(said)).begun_in(stop.since(start));
        let longest = self.sources[sender].longest_pdu() * u64::from(spec.mids.max(1));
        cells.saturating_sub(3 * longest)
    }

    /// Whether a source's cells come from an adapter that is given more PDUs in one of its steps
    /// than it begins.
    fn is_told_too_seldom(&self, sender: usize) -> bool {
        let sender = &self.sources[sender];
        let host = self.host_before(sender.line);
        let step = host.map_or(0, |host| self.hosts[host].spec.step_ns);
        let same = |source: &&Source| source.is_by_adapter() && source.line == sender.line;
        let given = self.sources.iter().filter(same);
        let given = given.map(|source| source.begins_in(Ps::from_ns(step)));
        sender.is_by_adapter() && given.sum::<u64>() > PDUS_PER_STEP.into()
    }

    fn wrong(&self, invariant: &str, text: String) -> Violation {
        Violation::new(invariant, self.now, text)
    }

    fn first_violation(&self) -> Result<(), Violation> {
        let hosts = self.hosts.iter();
        let found = hosts.filter_map(|node| node.violation.as_ref());
        let first = self
            .violation
            .iter()
            .chain(found)
            .min_by_key(|found| found.at_ns);
        first.map_or(Ok(()), |violation| Err(violation.clone()))
    }

    /// I18, I16: what was under way has arrived, what has arrived was taken.
    fn nothing_waits(&self) -> Result<(), Violation> {
        for (n, line) in self.lines.iter().enumerate() {
            if line.in_flight() > 0 {
                let text = format!("line {n}: {} cells are still under way", line.in_flight());
                return Err(self.wrong("I18", text));
            }
        }
        for node in &self.hosts {
            if node.waiting() > 0 {
                let text = format!("host {}: cells wait in its FIFOs", node.spec.name);
                return Err(self.wrong("I18", text));
            }
        }
        Ok(())
    }

    /// I1: lines, switches, FIFOs. I2: adapters.
    fn cells_are_conserved(&self) -> Result<(), Violation> {
        let same = |invariant, what: String, here: u64, there: u64| {
            if here == there {
                return Ok(());
            }
            let text = format!("{what}: {here} cells went in, {there} are accounted for");
            Err(self.wrong(invariant, text))
        };
        let mut into_switch = vec![0; self.switches.len()];
        let mut into_host = vec![0; self.hosts.len()];
        let mut out_of_host = vec![0; self.hosts.len()];
        for (n, line) in self.lines.iter().enumerate() {
            let counts = line.counts();
            let gained = counts.faults.duplicated + counts.faults.inserted;
            let gone = counts.arrived + counts.faults.lost;
            same("I1", format!("line {n}"), counts.sent + gained, gone)?;
            match self.places[n] {
                Place::Switch { switch, .. } => into_switch[switch] += counts.arrived,
                Place::Host { host } => into_host[host] += counts.arrived,
            }
            if let Place::Host { host } = self.places[n ^ 1] {
                out_of_host[host] += counts.sent;
            }
        }
        for (n, switch) in self.switches.iter().enumerate() {
            let outputs = switch
                .counts()
                .map(|counts| counts.queued + counts.discarded);
            let gone = outputs.sum::<u64>() + switch.unrouted();
            same("I1", format!("switch {n}"), into_switch[n], gone)?;
            self.outputs_are_conserved(n)?;
        }
        for (n, node) in self.hosts.iter().enumerate() {
            let name = &node.spec.name;
            let counts = node.counts;
            let gone = counts.arrived + counts.overflowed;
            same("I1", format!("ports of host {name}"), into_host[n], gone)?;
            let stats = node.stats();
            let sum = |count: fn(&AdapterStats) -> u64| stats.clone().map(count).sum::<u64>();
            let gone = sum(|stats| stats.cells_received) + counts.buried + node.waiting();
            same(
                "I2",
                format!("adapter of host {name}"),
                counts.arrived,
                gone,
            )?;
            if !stats.clone().all(AdapterStats::is_conserved) {
                let text = format!("adapter of host {name}: cells have vanished");
                return Err(self.wrong("I2", text));
            }
            let by_line = self.sources.iter().filter(|source| !source.is_by_adapter());
            let by_line = by_line.filter(|source| self.host_before(source.line) == Some(n));
            let sent = by_line.map(|source| source.cells_sent).sum::<u64>();
            let sent = sent + counts.sent;
            same("I1", format!("lines of host {name}"), sent, out_of_host[n])?;
        }
        Ok(())
    }

    /// Whether a connection's cells come from an adapter whose line is empty before its next step.
    fn is_slow(&self, n: usize) -> bool {
        let Connection {
            from, sender, path, ..
        } = &self.connections[n];
        let by_adapter = sender.is_some_and(|sender| self.sources[sender].is_by_adapter());
        let full = self.lines[path[0]]
            .cell()
            .times(self.hosts[*from].transmit_fifo());
        by_adapter && Ps::from_ns(self.hosts[*from].spec.step_ns) > full
    }

    /// Cells per second of a line.
    fn cell_s(&self, line: usize) -> u64 {
        1_000_000_000_000 / self.lines[line].cell().ps().max(1)
    }

    fn host_before(&self, line: usize) -> Option<usize> {
        match self.places[line ^ 1] {
            Place::Host { host } => Some(host),
            Place::Switch { .. } => None,
        }
    }

    /// The lines behind the outputs of a switch.
    pub(super) fn outputs_of(&self, switch: usize) -> impl Iterator<Item = usize> {
        (0..self.lines.len()).filter(move |line| {
            matches!(self.places[line ^ 1], Place::Switch { switch: at, .. } if at == switch)
        })
    }

    /// What a switch has queued it has sent.
    fn outputs_are_conserved(&self, switch: usize) -> Result<(), Violation> {
        let behind = self.outputs_of(switch);
        for (line, counts) in behind.zip(self.switches[switch].counts()) {
            let sent = self.lines[line].counts().sent;
            if sent != counts.queued {
                let text = format!("line {line}: {} queued, {sent} sent", counts.queued);
                return Err(self.wrong("I1", text));
            }
        }
        Ok(())
    }

    fn senders(&self, scenario: &Scenario) -> Senders {
        let mut senders = Senders::default();
        for (n, (spec, source)) in scenario.sources.iter().zip(&self.sources).enumerate() {
            let connection = source.connection as usize;
            if spec.hazard {
                let hazards = senders.hazards.entry(source.line).or_default();
                hazards.insert(connection);
            } else if self.connections[connection].sender == Some(n) {
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
                Traffic::Greedy => self.cell_s(source.line),
                Traffic::Cells(_) => 0,
            };
            *senders.offered.entry(source.line).or_default() += cell_s;
        }
        senders
    }

    fn standing(&self, scenario: &Scenario, senders: &Senders, n: usize) -> Standing {
        let connection = &self.connections[n];
        let spec = &scenario.connections[n];
        let (to, from) = (&spec.to, &spec.from);
        let line = connection.path[0];
        let mut hazards = senders.hazards.get(&line).into_iter().flatten();
        let offered = senders.offered.get(&line).copied().unwrap_or(0);
        let mut standing = Standing {
            conforms: senders.harmless.contains(&n),
            crowded: hazards.any(|other| *other != n)
                || offered > self.cell_s(line)
                || self.is_slow(n),
            untold: !tells_of_all(spec.notification),
            mixed: senders.mixed.contains(&line),
            ..Standing::default()
        };
        let mut best_effort = connection.contract.category == ServiceCategory::Ubr;
        let node = &self.hosts[connection.to];
        // What a source puts on its line itself no fault of its host can touch.
        let of_host = |sender: usize| self.sources[sender].is_by_adapter();
        let is_sent = connection.sender.is_none_or(of_host);
        let touched = |host: &String| host == to || host == from && is_sent;
        // The buffer has room for what comes while the adapter or its client stands still, as long
        // as that is no more than the longest gap.
        let stood_still = node.stood_still().plus(stood_idle(scenario, to));
        standing.disturbed = stood_still > Ps::from_ns(node.spec.gap_max_ns);
        let lawless = |node: &Host| node.is_lawless(n as u32);
        standing.cut = node.cut.contains(&(n as u32));
        standing.lawless = lawless(node) || lawless(&self.hosts[connection.from]);
        for (n, fault) in (0..).zip(&scenario.faults) {
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
                    best_effort |= here && self.changes.get(&n).is_some_and(Change::is_best_effort);
                    // What waits in the old memory is not sent.
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
                | FaultSpec::Lend { .. } => {}
            }
        }
        let aal34 = connection.contract.aal == Some(Aal::Aal34);
        let gives_way = best_effort || self.service.is_best_effort(n as u32);
        standing.gave_way = gives_way && node.has_discarded(Discard::Overload)
            || aal34 && node.has_discarded(Discard::ReassemblyTimeout);
        standing
    }

    /// Whether a fault of a line met it, or could have moved its cells.
    fn is_met(&self, scenario: &Scenario, n: usize) -> bool {
        let address = scenario.connections[n].address;
        let mut path = self.connections[n].path.iter();
        path.any(|line| self.lines[*line].met().any(|met| met == address))
    }

    fn is_held(&self, connection: &Connection) -> bool {
        let mut path = connection.path.iter();
        path.any(|line| self.lines[*line].counts().held > 0)
    }

    /// I3: a PDU that is delivered is one that was sent. I4: in order, and once. Both but for
    /// single-cell PDUs that a fault has put there, which AAL5 cannot tell.
    fn pdus_are_right(&self, connection: &Connection, standing: Standing) -> Result<(), Violation> {
        let pdus = &connection.pdus;
        // A cell of AAL0 has no CRC: neither damage shows, nor that somebody has made it up.
        let blind = connection.contract.aal == Some(Aal::Aal0);
        let known = !(standing.lawless || blind && standing.mixed);
        let Some(sender) = connection.sender.filter(|_| known) else {
            return Ok(());
        };
        let name = &connection.name;
        let inserted = self.lines.iter().map(|line| {
            let faults = line.counts().faults;
            let damaged = if blind { faults.payload_errors } else { 0 };
            let inserted = faults.inserted + faults.header_errors + damaged;
            (inserted, faults.duplicated)
        });
        let (inserted, duplicated) = inserted.fold((0, 0), |(a, b), (inserted, twice)| {
            (a + inserted, b + twice)
        });
        // What a fault has put there can be doubled further on.
        let doubled = if inserted > 0 { duplicated } else { 0 };
        if pdus.strangers + pdus.misfits > inserted + doubled {
            let strange = pdus.strangers + pdus.misfits;
            let text = format!("connection {name}: {strange} PDUs that nobody sent");
            return Err(self.wrong("I3", text));
        }
        if pdus.repeated > duplicated + inserted {
            let text = format!("connection {name}: {} PDUs came again", pdus.repeated);
            return Err(self.wrong("I4", text));
        }
        let sent = self.sources[sender].begun;
        if pdus.delivered > sent + duplicated + inserted {
            let text = format!("connection {name}: {} of {sent} PDUs came", pdus.delivered);
            return Err(self.wrong("I3", text));
        }
        Ok(())
    }

    /// I6: what conforms and is not disturbed arrives, I7: in time. I9: what floods keeps its
    /// contract. I21: after the healing, all is well.
    fn pdus_are_there(
        &self,
        scenario: &Scenario,
        crowds: &Crowds,
        n: usize,
        standing: Standing,
    ) -> Result<(), Violation> {
        let (connection, number) = (&self.connections[n], n as u32);
        // What a server opens it promises by itself.
        let is_ours = connection.is_open && !self.service.serves(connection.from, number);
        let Some(sender) = connection.sender.filter(|_| is_ours) else {
            return Ok(());
        };
        let (name, pdus) = (&connection.name, &connection.pdus);
        let sent = self.sources[sender].sent;
        let no_room = self.found_no_room(connection);
        let passed = no_room == 0;
        let met = self.is_met(scenario, n) || self.is_held(connection);
        let quiet = !(standing.crowded
            || standing.lawless
            || standing.gave_way
            || standing.cut
            || standing.untold);
        let sound = passed && !met && !standing.disturbed && quiet;
        if standing.conforms && sound {
            let missing = pdus.missing(sent);
            if missing > 0 {
                let text = format!("connection {name}: {missing} of {sent} PDUs did not arrive");
                return Err(self.wrong("I6", text));
            }
            self.pdus_are_in_time(scenario, crowds, n, sender)?;
        }
        // Whoever writes where it should not harms itself alone, and that is promised nothing.
        let flooded = !(standing.conforms
            || standing.lawless
            || standing.mixed
            || standing.modified
            || standing.untold);
        if flooded && passed && !met && !standing.disturbed && !standing.gave_way {
            self.flooded_keeps_contract(scenario, crowds, n, sender)?;
        }
        // Who is held for longer than that pays for it in what comes after the healing.
        let healed = self
            .opened
            .plus(Ps::from_ns(scenario.heal_ns).plus(SETTLED));
        let mut path = connection.path.iter();
        let held = path.any(|line| self.lines[*line].held_until() > healed);
        let settles = standing.conforms && quiet && !held;
        let Some(settled) = pdus.settled.filter(|_| settles) else {
            return Ok(());
        };
        let due = sent.saturating_sub(settled.from);
        let untouched = no_room == settled.no_room;
        // Of a PDU that a fault cut short the reader may still hold cells: the next is lost with
        // them, however late it comes.
        if untouched && settled.delivered + 1 < due {
            let came = settled.delivered;
            let text = format!("connection {name}: after the healing {came} of {due} PDUs came");
            return Err(self.wrong("I21", text));
        }
        Ok(())
    }

    /// I7: no PDU takes longer than it may, if its adapter can begin it when it is handed over.
    fn pdus_are_in_time(
        &self,
        scenario: &Scenario,
        crowds: &Crowds,
        n: usize,
        sender: usize,
    ) -> Result<(), Violation> {
        let Connection { name, pdus, .. } = &self.connections[n];
        let source = &self.sources[sender];
        let bound = self.delay_bound(scenario, crowds, n);
        let mut bound = bound.plus(stood_idle(scenario, &scenario.connections[n].to));
        if source.is_by_adapter() {
            if !crowds.lets_pass(source.line) || !self.is_shaped_at_once(scenario, n, sender) {
                return Ok(());
            }
            let shaped = source.shaping().plus(self.shaping_bound(scenario, n));
            bound = bound.plus(shaped);
        }
        if pdus.latency.most > bound.ps() {
            let (most, bound) = (Ps::new(pdus.latency.most).ns(), bound.ns());
            let text = format!("connection {name}: a PDU took {most} ns, bound {bound} ns");
            return Err(self.wrong("I7", text));
        }
        Ok(())
    }

    /// Whether what an adapter is handed conforms to what it shapes to, and that lets it make good
    /// what passes from step to step.
    fn is_shaped_at_once(&self, scenario: &Scenario, n: usize, sender: usize) -> bool {
        let Connection { from, contract, .. } = &self.connections[n];
        let spec = &scenario.sources[sender];
        let line = &self.lines[self.sources[sender].line];
        let step = Ps::from_ns(self.hosts[*from].spec.step_ns);
        let step = step.plus(self.rest_bound(n));
        is_shaped_at_once(spec, contract, line, (scenario.duration_ns, step))
    }

    /// A VC that is flooded with whole PDUs gets what its contract says, but for one at each end,
    /// and for what comes too late to be in time for the next: who tolerates less than cells wait
    /// on their way, and for each other, loses that.
    fn flooded_keeps_contract(
        &self,
        scenario: &Scenario,
        crowds: &Crowds,
        n: usize,
        sender: usize,
    ) -> Result<(), Violation> {
        let (connection, number) = (&self.connections[n], n as u32);
        let (source, reader) = (&self.sources[sender], &self.hosts[connection.to]);
        let policed = reader.policed_rate(number).map(Interval::of_rate);
        let Some((due, gap)) = policed.zip(source.steady()) else {
            return Ok(());
        };
        let (start, stop) = scenario.sources[sender].span(scenario.duration_ns);
        let span = stop.since(start);
        let (shortest, longest) = (source.shortest_pdu(), source.longest_pdu());
        let between = gap.times(longest * source.at_once());
        // A cell of AAL0 is judged alone, of others a PDU, which may come all at once.
        let at_once = match connection.contract.aal {
            Some(Aal::Aal0) => Ps::ZERO,
            _ => due.times(longest),
        };
        let tolerated = reader.cdvt(number).plus(at_once);
        let late = between.plus(self.wait_bound(crowds, n)).since(tolerated);
        let each = due.times(shortest).plus(late).ps().max(1);
        let due = span.ps() / each * shortest;
        let got = connection.pdus.cells;
        if source.cells_sent >= due && got + 3 * longest < due {
            let name = &connection.name;
            let text = format!("connection {name}: {got} cells of a contract for {due} came");
            return Err(self.wrong("I9", text));
        }
        Ok(())
    }

    /// I16: a reader that sleeps has an empty queue, where events tell it.
    fn readers_sleep_only_on_empty_queues(&mut self) -> Result<(), Violation> {
        let now = self.now;
        for node in &mut self.hosts {
            for endpoint in node.endpoints.values_mut() {
                if endpoint.faults() > 0 && !endpoint.is_lawless {
                    let name = &self.connections[endpoint.connection as usize].name;
                    let text = format!("connection {name}: descriptors that cannot be");
                    return Err(Violation::new("I3", now, text));
                }
                if endpoint.is_told && !endpoint.is_empty() {
                    let name = &self.connections[endpoint.connection as usize].name;
                    let text = format!("connection {name}: its reader sleeps and PDUs wait");
                    return Err(Violation::new("I16", now, text));
                }
            }
        }
        Ok(())
    }

    /// I12: nothing is open, nothing held, the adapter has as much to give as at first, and its
    /// counters are the sums of its VCs'. I10: no client has run that nobody had woken.
    fn is_left_clean(&self, node: &Host) -> Result<(), Violation> {
        let name = &node.spec.name;
        let open = node.by_connection.len() + node.orders();
        if open > 0 || !node.refusals.is_empty() {
            let text = format!("host {name}: {open} VCs left, refused {:?}", node.refusals);
            return Err(self.wrong("I12", text));
        }
        let [first, room] = node.room();
        if room != first {
            let text = format!("host {name}: {room:?} is left to give, at first {first:?}");
            return Err(self.wrong("I12", text));
        }
        let stats = node.adapter.stats();
        let sum = |count: fn(&VcStats) -> u64| {
            let closed = node.closed.iter();
            closed.map(|(_, info)| count(&info.stats)).sum::<u64>()
        };
        let pairs = [
            ("held", stats.cells_held, 0),
            (
                "delivered",
                stats.cells_delivered,
                sum(|vc| vc.cells_delivered),
            ),
            (
                "transmitted",
                stats.cells_transmitted,
                sum(|vc| vc.cells_transmitted),
            ),
        ];
        for (what, adapter, vcs) in pairs {
            if adapter != vcs {
                let text = format!("host {name}: {adapter} cells {what}, {vcs} by its VCs");
                return Err(self.wrong("I2", text));
            }
        }
        let counts = node.counts;
        let told = counts.interrupts + node.unasked;
        if node.runs > told {
            let runs = node.runs;
            let text = format!("host {name}: clients ran {runs} times, {told} interrupts");
            return Err(self.wrong("I10", text));
        }
        Ok(())
    }
}
