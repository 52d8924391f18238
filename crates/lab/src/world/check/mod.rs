//! Whether a scenario makes a world: all that is wrong with it, or what its names and contracts
//! come to. What is made of that can rely on it.

mod ends;
pub mod limits;
mod refusal;
mod rings;
mod sources;
mod streams;
mod sums;
mod transfers;

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::contract::TrafficContract;

use super::fault::{FaultSpec, Whom};
use super::host::Opening;
use super::incident::Change;
use super::names::{Names, Node};
use super::plan::Connection;
use super::scenario::{HostSpec, Scenario};
use super::servers::Owners;
use super::time::Interval;
use super::topology::Topology;

pub(super) use ends::Attacked;
use ends::Ends;
use refusal::{At, Found};
pub use refusal::{Refusal, Refusals};
pub(super) use sources::is_shaped_at_once;
use sums::Sums;

/// A scenario that makes a world, and what that needs to know.
#[derive(Debug)]
pub struct Checked<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) topology: Topology,
    pub(super) owners: Owners,
    pub(super) connections: Vec<Connection>,
    /// The connection of each source, and of each stream.
    pub(super) sources: Vec<usize>,
    pub(super) streams: Vec<usize>,
    pub(super) attacked: Attacked,
    /// What hosts open in the beginning, and which host.
    pub(super) openings: Vec<(usize, Opening)>,
    /// What connections are changed to, by the number of the fault.
    pub(super) changes: BTreeMap<u32, Change>,
    pub(super) rooms: Vec<Room>,
    /// More than there can be.
    pub(super) events_max: u64,
}

/// What a host's adapter has room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The first client sends.
    pub(super) clients: usize,
    /// Connections that begin or end there.
    pub(super) vcs: u16,
    /// Clients and VCs that the host's server may need; none: it has no server.
    pub(super) served: Option<u16>,
}

impl Room {
    fn vcs_with(self, host: &HostSpec) -> u32 {
        let all = [self.vcs, host.spare_vcs, self.served.unwrap_or(0)];
        all.into_iter().map(u32::from).sum()
    }
}

/// Looks for all that is wrong with a scenario. Where something is too many to look at it is told
/// that only; and what is wrong by itself has no part in what is wrong together.
pub fn checked(scenario: &Scenario) -> Result<Checked<'_>, Refusals> {
    let mut found = Found::nothing(scenario);
    limits::counts(scenario, &mut found);
    found.told()?;
    limits::quantities(scenario, &mut found);
    let names = Names::of(scenario);
    let network = Network::of(scenario, &names, &mut found);
    servers(&network, &mut found);
    faults(&network, &mut found);
    transfers::check(scenario, &names, &mut found);
    rings::check(scenario, &mut found);
    sources::check(&network, &mut found);
    let streams = streams::check(&network, &mut found);
    let mut sums = Sums::default();
    let rooms = sums.take_network(&network, &mut found);
    let Ends { openings, changes } = Ends::of(&network, &mut found, &mut sums);
    let events_max = sums.events_max(&network, &mut found);
    found.told()?;
    let sources = scenario.sources.iter();
    let sources = sources.map(|one| names.connection(&one.connection));
    Ok(Checked {
        scenario,
        sources: sources.collect(),
        streams,
        topology: network.topology,
        owners: network.owners,
        connections: network.connections.into_iter().flatten().collect(),
        attacked: network.attacked,
        openings,
        changes,
        rooms,
        events_max,
    })
}

/// What a scenario's names come to, as far as they are right.
struct Network<'a> {
    scenario: &'a Scenario,
    names: &'a Names<'a>,
    topology: Topology,
    owners: Owners,
    connections: Vec<Option<Connection>>,
    attacked: Attacked,
}

impl<'a> Network<'a> {
    fn of(scenario: &'a Scenario, names: &'a Names<'a>, found: &mut Found<'_>) -> Self {
        for (n, host) in scenario.hosts.iter().enumerate() {
            if names.node(&host.name) != Some(Node::Host(n)) {
                found.twice(At::Host(n), &host.name);
            }
        }
        for (n, switch) in scenario.switches.iter().enumerate() {
            if names.node(&switch.name) != Some(Node::Switch(n)) {
                found.twice(At::Switch(n), &switch.name);
            }
        }
        for (n, link) in scenario.links.iter().enumerate() {
            for end in &link.ends {
                found.known(At::Link(n), end, names.node(end));
            }
        }
        let mut network = Self {
            scenario,
            names,
            topology: Topology::of(scenario, names),
            owners: Owners::of(scenario, names),
            connections: Vec::new(),
            attacked: Attacked::default(),
        };
        let mut addresses = BTreeSet::new();
        for n in 0..scenario.connections.len() {
            let connection = network.connection(n, &mut addresses, found);
            network.connections.push(connection);
        }
        network.attacked = Attacked::of(&network);
        network
    }

    fn connection(
        &self,
        n: usize,
        addresses: &mut BTreeSet<(usize, u32)>,
        found: &mut Found<'_>,
    ) -> Option<Connection> {
        let (at, spec) = (At::Connection(n), &self.scenario.connections[n]);
        if self.names.find_connection(&spec.name) != Some(n) {
            found.twice(at, &spec.name);
        }
        let contract = spec.contract.parse::<TrafficContract>();
        let contract = contract.map_err(|error| found.wrong(at, error)).ok();
        let [from, to] = [&spec.from, &spec.to].map(|name| self.host(found, at, name));
        let (from, to) = from.zip(to)?;
        let path = self.topology.path(from, to);
        let path = path.filter(|path| !path.is_empty());
        // It may lead along a link whose end is not known.
        let is_due = path.is_none() && self.topology.is_whole(self.scenario);
        found.due(at, !is_due, "no path between its hosts");
        let path = path?;
        for line in &path {
            let is_new = addresses.insert((*line, spec.address.bits()));
            found.due(at, is_new, "its address is taken on a line");
        }
        let connection = Connection {
            name: spec.name.clone(),
            from,
            to,
            address: spec.address,
            contract: contract?,
            path,
            is_open: spec.open && !self.owners.serves(to, n),
            sender: None,
            stream: None,
        };
        for line in connection.way_back() {
            let is_new = addresses.insert((line, spec.address.bits()));
            found.due(
                at,
                is_new,
                "RM cells come back: its address is taken on a line of theirs",
            );
        }
        Some(connection)
    }

    /// The number of a host that something names.
    fn host(&self, found: &mut Found<'_>, at: At, name: &str) -> Option<usize> {
        found.known(at, name, self.names.find_host(name))
    }

    /// The same, which must have a server.
    fn served_host(&self, found: &mut Found<'_>, at: At, name: &str) -> Option<usize> {
        let host = self.host(found, at, name)?;
        if self.owners.room(host).is_none() {
            found.wrong(at, format!("host {name:?} has no server"));
        }
        Some(host)
    }

    /// The number of a connection that something names.
    fn number(&self, found: &mut Found<'_>, at: At, name: &str) -> Option<usize> {
        found.known(at, name, self.names.find_connection(name))
    }

    /// The connection of a name, and its number.
    fn find(&self, name: &str) -> Option<(usize, &Connection)> {
        let n = self.names.find_connection(name)?;
        Some((n, self.connections[n].as_ref()?))
    }

    /// The time that a cell takes on a line.
    fn cell(&self, line: usize) -> Interval {
        Interval::of_line(self.scenario.links[line / 2].bit_s)
    }

    /// From one step to the next of the adapter before a line.
    fn step_ns_before(&self, line: usize) -> Option<u64> {
        let begins = &self.scenario.links[line / 2].ends[line % 2];
        let host = self.names.find_host(begins)?;
        Some(self.scenario.hosts[host].step_ns)
    }

    fn room(&self, host: usize, found: &Found<'_>) -> Room {
        let connections = self.connections.iter().enumerate();
        let right = connections.filter(|(n, _)| found.is_right(At::Connection(*n)));
        let (mut clients, mut vcs) = (1, 0);
        for (n, connection) in right {
            let ends = connection.as_ref().map(|one| (one.from, one.to));
            let Some((from, to)) = ends else {
                continue;
            };
            vcs += u16::from(from == host || to == host);
            if to == host {
                clients = clients.max(usize::from(self.scenario.connections[n].client) + 1);
            }
        }
        Room {
            clients,
            vcs,
            served: self.owners.room(host),
        }
    }
}

/// Servers, applications, and where these are.
fn servers(network: &Network<'_>, found: &mut Found<'_>) {
    let mut hosts = BTreeSet::new();
    for (n, server) in network.scenario.servers.iter().enumerate() {
        let (at, host) = (At::Server(n), &server.host);
        if network.host(found, at, host).is_some() && !hosts.insert(host) {
            found.twice(at, host);
        }
    }
    for (n, application) in network.scenario.applications.iter().enumerate() {
        let at = At::Application(n);
        let host = network.served_host(found, at, &application.host);
        network.number(found, at, &application.connection);
        if let (Some(host), Some((_, one))) = (host, network.find(&application.connection)) {
            let is_end = [one.from, one.to].contains(&host);
            found.due(at, is_end, "its host is at no end of its connection");
        }
    }
}

/// Whom faults happen to, and whether they can.
fn faults(network: &Network<'_>, found: &mut Found<'_>) {
    for (n, fault) in network.scenario.faults.iter().enumerate() {
        let at = At::Fault(n);
        let connection = match fault.whom() {
            Whom::Link(link) => {
                let is_there = link < network.scenario.links.len();
                let what = format!("nothing has the name \"link {link}\"");
                found.due(at, is_there, &what);
                None
            }
            Whom::Host(host) => {
                network.host(found, at, host);
                None
            }
            Whom::Ring(_) | Whom::Station(_) => None,
            Whom::Connection(name) => {
                network.number(found, at, name);
                network.find(name)
            }
        };
        let serves = |host, n| network.owners.serves(host, n);
        match (fault, connection) {
            (FaultSpec::StateDirectory { host, .. } | FaultSpec::MemoryLimit { host, .. }, _) => {
                network.served_host(found, at, host);
            }
            (FaultSpec::Kills { host, .. }, one) => {
                let host = network.served_host(found, at, host);
                let is_end = host.zip(one).is_none_or(|(host, (n, _))| serves(host, n));
                found.due(at, is_end, "no application at its host uses its connection");
            }
            (
                FaultSpec::ReaderCrash { .. } | FaultSpec::Lend { .. } | FaultSpec::Modify { .. },
                Some((n, one)),
            ) => {
                let sends = matches!(fault, FaultSpec::Modify { sender: true, .. });
                let (host, _) = one.end(!sends);
                let what = "this end belongs to an application of a server, which has calls of \
                            its own";
                found.due(at, !serves(host, n), what);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::wire::VpiVci;

    use super::*;
    use crate::world::scenario::{ConnectionSpec, LinkSpec, SourceSpec, Traffic};
    use crate::world::{WITH_SERVERS, scenario_of};

    fn told(scenario: &Scenario) -> Vec<String> {
        let refusals = checked(scenario).expect_err("something is wrong");
        refusals.iter().map(Refusal::to_string).collect()
    }

    #[test]
    fn what_is_drawn_makes_a_world() {
        for first in [0, WITH_SERVERS] {
            for seed in first..first + 1_000 {
                let checked = checked(&scenario_of(seed)).map(drop);
                assert_eq!(checked, Ok(()), "seed {seed}");
            }
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_in_the_scenarios_order() {
        let connection = |name: &str, to: &str, vci, contract: &str| {
            let address = VpiVci::new(0, vci).expect("an address");
            ConnectionSpec::between(name, ["a", to], address, contract)
        };
        let cbr = "cbr,aal5:pcr=5000cps,max_sdu=400";
        let paced =
            |name: &str, cell_s, sdu| SourceSpec::on(name, Traffic::Paced { cell_s }, &[sdu]);
        let scenario = Scenario {
            duration_ns: 1_000_000,
            hosts: vec![
                HostSpec {
                    budget: 0,
                    fifo_cells: 0,
                    ..HostSpec::named("a")
                },
                HostSpec::named("b"),
            ],
            links: vec![LinkSpec::between("a", "b")],
            connections: vec![
                connection("one", "b", 32, cbr),
                connection("two", "zz", 33, "x"),
                connection("three", "b", 32, cbr),
            ],
            // The check keeps silent on what follows from another mistake: whom "two" leads to.
            sources: vec![
                paced("one", 5_001, 500),
                paced("two", 400_000, 400),
                paced("four", 1, 400),
            ],
            faults: vec![
                FaultSpec::EarlyTimers {
                    host: "b".into(),
                    at_ns: 1_000_001,
                },
                FaultSpec::Swap {
                    link: 7,
                    back: false,
                    cell: 0,
                },
            ],
            ..Scenario::default()
        };
        let places = told(&scenario);
        let places: Vec<&str> = places
            .iter()
            .filter_map(|line| Some(line.split_once(": ")?.0))
            .collect();
        let expected = [
            "host \"a\"",
            "host \"a\"",
            "connection \"two\"",
            "connection \"two\"",
            "connection \"three\"",
            "source 0 of connection \"one\"",
            "source 2 of connection \"four\"",
            "fault 0 at host \"b\"",
            "fault 1 on link 7",
        ];
        assert_eq!(places, expected, "{:#?}", told(&scenario));
    }

    #[test]
    fn a_sum_is_refused_once_where_it_is_too_large() {
        let mut scenario = scenario_of(1);
        for host in &mut scenario.hosts {
            host.fifo_cells = 1 << 20;
            host.spare_vcs = 16_000;
        }
        scenario.links.extend(vec![scenario.links[1].clone(); 60]);
        let told = told(&scenario);
        let octets = told
            .iter()
            .filter(|line| line.contains("octets are needed"));
        assert_eq!(octets.count(), 1, "{told:?}");
    }
}
