//! What goes wrong at a time: stalls, crashes, hostile writes; and the healing.

use cellgate_core::ring::Words;

use super::canary::Canary;
use super::error::ScenarioError;
use super::run::{Event, World};
use super::scenario::{FaultSpec, Scenario};
use super::{Ps, Violation};

/// So long after the healing everything that conforms arrives.
pub(crate) const SETTLED: Ps = Ps::from_ns(5_000_000);

/// Something that happens to hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Incident {
    /// An adapter stands still.
    AdapterStall(u32, Ps),
    /// A host's clients are not run.
    HostStall(u32, Ps),
    /// The reader of a connection dies.
    ReaderDies(u32),
    /// Another opens it.
    ReaderOpens(u32),
    /// A host's adapter dies.
    AdapterDies(u32),
    /// Another begins.
    AdapterBegins(u32),
    /// The reader of a connection writes a word of its own memory.
    Write(u32, u64, u64),
    /// From here on nothing goes wrong.
    Heal,
    /// From here on everything has to be right again.
    Settled,
    /// What was sent has arrived: a run ends here, in trains and cell by cell.
    End,
}

impl World {
    pub(super) fn schedule_incidents(&mut self, scenario: &Scenario) -> Result<(), ScenarioError> {
        for fault in &scenario.faults {
            let Some((at_ns, for_ns, begin, end)) = incidents(scenario, fault)? else {
                continue;
            };
            let at = self.opened.plus(Ps::from_ns(at_ns));
            self.plan(at, begin);
            if let Some(end) = end {
                let at = at.plus(Ps::from_ns(for_ns));
                self.plan(at, end);
            }
        }
        let end = self.opened.plus(Ps::from_ns(scenario.duration_ns));
        let end = end.plus(SETTLED);
        self.plan(end, Incident::End);
        if scenario.heal_ns > 0 {
            let heal = self.opened.plus(Ps::from_ns(scenario.heal_ns));
            self.plan(heal, Incident::Heal);
            let settled = heal.plus(SETTLED);
            self.plan(settled, Incident::Settled);
        }
        Ok(())
    }

    fn plan(&mut self, at: Ps, incident: Incident) {
        self.ahead.expect(at);
        self.queue.push(at, Event::Incident(incident));
    }

    pub(super) fn incident(&mut self, incident: Incident) {
        self.ahead.has_come();
        match incident {
            Incident::AdapterStall(host, span) => {
                self.stations[host as usize].stall(self.now.plus(span));
                let gap_ns = self.stations[host as usize].spec.gap_max_ns;
                self.adapter_is_stalled(host as usize, span, Ps::from_ns(gap_ns));
            }
            Incident::HostStall(host, span) => {
                let until = &mut self.host_stalls[host as usize];
                *until = (*until).max(self.now.plus(span));
                let until = *until;
                self.host_is_disturbed(host as usize, until);
            }
            Incident::ReaderDies(connection) => {
                let host = self.connections[connection as usize].to;
                self.stations[host].close(connection);
                self.wake_station(host, self.now);
            }
            Incident::ReaderOpens(connection) => {
                let host = self.connections[connection as usize].to;
                self.stations[host].reopen(connection);
                self.wake_station(host, self.now);
            }
            Incident::AdapterDies(host) if self.stations[host as usize].is_down => {}
            Incident::AdapterBegins(host) if !self.stations[host as usize].is_down => {}
            Incident::AdapterDies(host) => {
                self.stations[host as usize].crash();
                self.service_loses_adapter(host as usize);
            }
            Incident::AdapterBegins(host) => {
                let host = host as usize;
                if let Err(refusal) = self.stations[host].restart(self.now, &mut self.lines) {
                    let text = format!("an adapter does not begin again: {refusal}");
                    self.violate(Violation::new("I19", self.now, text));
                }
                self.stations[host].due = None;
                self.wake_station(host, self.now.plus(Ps::new(1)));
                self.service_finds_adapter(host);
            }
            Incident::Write(connection, word, value) => self.write(connection, word, value),
            Incident::Heal => {
                if self.options.canary != Some(Canary::HealForgotten) {
                    self.lines.iter_mut().for_each(super::Line::heal);
                }
            }
            Incident::End => {}
            Incident::Settled => {
                for connection in &mut self.connections {
                    let sender = connection.sender.map(|sender| &self.sources[sender]);
                    let begun = sender.map_or(0, |source| source.begun);
                    let discarded = connection.discarded;
                    connection.tally.settle(begun, discarded);
                }
            }
        }
    }

    fn write(&mut self, connection: u32, word: u64, value: u64) {
        let host = self.connections[connection as usize].to;
        let station = &mut self.stations[host];
        let vc = station.by_connection.get(&connection);
        if let Some(endpoint) = vc.and_then(|vc| station.endpoints.get(vc)) {
            let words = (endpoint.from_client.len() / 8) as u64;
            let at = (word % words.max(1)) as usize * 8;
            endpoint.from_client.store(at, value);
        }
    }
}

/// When a fault begins, how long it lasts, and what that means.
type Span = (u64, u64, Incident, Option<Incident>);

fn incidents(scenario: &Scenario, fault: &FaultSpec) -> Result<Option<Span>, ScenarioError> {
    let host = |name: &String| {
        let host = scenario.hosts.iter().position(|host| host.name == *name);
        host.map(|host| host as u32)
            .ok_or_else(|| ScenarioError::Unknown(name.clone()))
    };
    let connection = |name: &String| {
        let mut connections = scenario.connections.iter();
        let connection = connections.position(|connection| connection.name == *name);
        connection
            .map(|connection| connection as u32)
            .ok_or_else(|| ScenarioError::Unknown(name.clone()))
    };
    let span = match fault {
        FaultSpec::Cell { link, .. } if *link >= scenario.links.len() => {
            return Err(ScenarioError::Unknown(format!("link {link}")));
        }
        FaultSpec::Cell { .. } => return Ok(None),
        FaultSpec::AdapterStall {
            host: name,
            at_ns,
            for_ns,
        } => {
            let stall = Incident::AdapterStall(host(name)?, Ps::from_ns(*for_ns));
            (*at_ns, 0, stall, None)
        }
        FaultSpec::HostStall {
            host: name,
            at_ns,
            for_ns,
        } => {
            let stall = Incident::HostStall(host(name)?, Ps::from_ns(*for_ns));
            (*at_ns, 0, stall, None)
        }
        FaultSpec::ReaderCrash {
            connection: name,
            at_ns,
            for_ns,
        } => {
            let who = connection(name)?;
            let end = Some(Incident::ReaderOpens(who));
            (*at_ns, *for_ns, Incident::ReaderDies(who), end)
        }
        FaultSpec::AdapterCrash {
            host: name,
            at_ns,
            for_ns,
        } => {
            let who = host(name)?;
            let end = Some(Incident::AdapterBegins(who));
            (*at_ns, *for_ns, Incident::AdapterDies(who), end)
        }
        FaultSpec::Write {
            connection: name,
            at_ns,
            word,
            value,
        } => (
            *at_ns,
            0,
            Incident::Write(connection(name)?, *word, *value),
            None,
        ),
    };
    Ok(Some(span))
}
