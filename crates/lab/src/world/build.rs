//! A scenario becomes a world.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cellgate_core::adapter::{
    Assumptions, AttachmentIndex, Config, Interleaving, Planted, PortIndex, Terms, Unserved,
};
use cellgate_core::contract::{Aal, TrafficContract};
use cellgate_core::queue;
use cellgate_core::wire::PAYLOAD_LEN;

use super::canary::Canary;
use super::error::ScenarioError;
use super::host::{Host, Opening, Wires};
use super::incident::Change;
use super::limits::{self, Memory};
use super::names::Names;
use super::net::Net;
use super::plan::{Connection, Plan};
use super::refusals;
use super::run::World;
use super::scenario::{Call, ConnectionSpec, FaultSpec, HostSpec, Scenario, SourceSpec, Traffic};
use super::service::{ServerBug, Services};
use super::source::Source;
use super::source_conforms;
use super::topology::{Place, Topology};
use super::{Line, Ps};
use crate::memory::RegionSizes;

/// Descriptors that a transmit queue of the lab's memory holds.
const TRANSMIT_SLOTS_MAX: u32 = 512;

/// Blocks of a virtual path: guests have one of their own.
const GUEST_BLOCKS: usize = 1 << (16 - Config::BLOCK_BITS);

/// What a run is told beside its scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The reference runs beside every adapter and compares what becomes of every cell.
    pub reference: bool,
    /// A bug in every adapter.
    pub planted: Option<Planted>,
    /// A bug in the world itself.
    pub canary: Option<Canary>,
    /// A bug in every server.
    pub server_bug: Option<ServerBug>,
    /// A bug in the queues of all memory.
    pub ring_bug: Option<queue::Planted>,
}

/// A scenario on its way into a world.
struct Builder<'a> {
    scenario: &'a Scenario,
    options: Options,
    topology: Topology,
    lines: Vec<Line>,
    hosts: Vec<Host>,
    connections: Vec<Connection>,
    services: Services,
    names: Names<'a>,
    attacked: Attacked,
    memory: Memory,
    /// Octets that writers can leave with an adapter, by the line that it sends them along.
    unsent: BTreeMap<usize, u64>,
    /// Cells of sources, once for each line on their way.
    work: u64,
}

/// Where somebody writes who should not.
#[derive(Debug, Default)]
struct Attacked {
    /// Numbers of connections, at the end that sends or the other.
    regions: BTreeSet<(usize, bool)>,
    /// Clients of hosts.
    clients: BTreeSet<(usize, usize)>,
    /// The same as `regions`, of applications.
    applications: BTreeSet<(usize, bool)>,
    /// Hosts with a client that is attacked, be it an application's.
    hosts: BTreeSet<usize>,
}

impl World {
    /// The world of a scenario, at its beginning.
    pub fn new(scenario: &Scenario, options: Options) -> Result<Self, ScenarioError> {
        limits::check(scenario)?;
        let topology = Topology::of(scenario)?;
        let mut lines = topology.lines(scenario);
        if options.canary == Some(Canary::LineLong) {
            lines.iter_mut().for_each(Line::prolong);
        }
        let mut builder = Builder {
            scenario,
            options,
            topology,
            lines,
            hosts: Vec::new(),
            connections: Vec::new(),
            services: Services::of(scenario)?,
            names: Names::of(scenario),
            attacked: Attacked::default(),
            memory: Memory::default(),
            unsent: BTreeMap::new(),
            work: 0,
        };
        builder.connections()?;
        builder.attacked()?;
        builder.memory.take_rest(scenario)?;
        builder.hosts()?;
        builder.open()?;
        let steps = |node: &Host| (node.orders() as u64 + 4) * node.spec.step_ns;
        let hosts_ns = builder.hosts.iter().map(steps).max().unwrap_or(0);
        let opened_ns = hosts_ns + builder.services.begin_ns(scenario, &builder.topology.ports);
        let sources = builder.sources(Ps::from_ns(opened_ns))?;
        let changes = builder.changes()?;
        refusals::check(scenario, &builder.connections, &builder.hosts, &changes)?;
        builder.applications()?;
        let events_max = builder.events_max()?;
        let Builder {
            topology,
            lines,
            mut hosts,
            connections,
            services,
            ..
        } = builder;
        services.settle(scenario, &connections, &mut hosts, options.server_bug);
        let plan = Plan {
            connections,
            sources,
            places: topology.places,
            cells: lines.iter().map(Line::cell).collect(),
            changes,
            served: services.ends().to_vec(),
            hosts_opened: Ps::from_ns(hosts_ns),
            opened: Ps::from_ns(opened_ns),
        };
        for (n, change) in &plan.changes {
            hosts[change.host].changes.insert(*n, *change);
        }
        let mut sources = Vec::new();
        for (n, source) in (0..).zip(&plan.sources) {
            let mut source = source.clone();
            spoil(&mut source, n as usize, scenario, options.canary);
            let by_adapter = source.is_by_adapter();
            if by_adapter {
                let host = plan.connections[source.connection as usize].from;
                hosts[host].writers.insert(n, source.clone());
            }
            sources.push((!by_adapter).then_some(source));
        }
        let mut world = Self {
            sources,
            switches: topology.switches,
            hosts,
            net: Net::new(plan, lines, options),
            events: 0,
            events_max,
        };
        world.begin(scenario);
        Ok(world)
    }
}

/// Has a source send otherwise than it was told: a bug on purpose.
fn spoil(source: &mut Source, n: usize, scenario: &Scenario, canary: Option<Canary>) {
    let mut faults = scenario.faults.iter();
    let mut stalls = || faults.any(|fault| matches!(fault, FaultSpec::AdapterStall { .. }));
    let is_hazard = scenario.sources[n].hazard;
    let harmed = || !is_hazard && scenario.sources.iter().any(|other| other.hazard);
    match canary {
        Some(Canary::SourceHurries) => source.hurry(),
        Some(Canary::SourceYields) if harmed() => source.slow_down(),
        Some(Canary::YieldsToStalls) if harmed() && stalls() => source.slow_down(),
        Some(Canary::SourceSlows) => source.slow_down(),
        _ => {}
    }
}

impl Builder<'_> {
    fn connections(&mut self) -> Result<(), ScenarioError> {
        let mut addresses = BTreeSet::new();
        for (n, spec) in self.scenario.connections.iter().enumerate() {
            // Of two with one name the last has it.
            if self.names.connection(&spec.name)? != n {
                return Err(ScenarioError::TwoOfAName(spec.name.clone()));
            }
            let from = self.topology.host(&spec.from)?;
            let to = self.topology.host(&spec.to)?;
            let path = self.topology.path(from, to);
            let path = path.filter(|path| !path.is_empty());
            let path = path.ok_or_else(|| ScenarioError::NoPath(spec.name.clone()))?;
            if !path
                .iter()
                .all(|line| addresses.insert((*line, spec.address)))
            {
                return Err(ScenarioError::AddressInUse(spec.name.clone()));
            }
            self.topology.route(self.scenario, n, &path)?;
            let contract = spec.contract.parse::<TrafficContract>();
            let contract =
                contract.map_err(|error| ScenarioError::Contract(spec.name.clone(), error))?;
            self.connections.push(Connection {
                name: spec.name.clone(),
                from,
                to,
                path,
                address: spec.address,
                contract,
                is_open: spec.open && !self.services.serves(to, n),
                sender: None,
            });
        }
        Ok(())
    }

    fn hosts(&mut self) -> Result<(), ScenarioError> {
        for (host, spec) in self.scenario.hosts.iter().enumerate() {
            let at = |connection: &&ConnectionSpec| connection.to == spec.name;
            let readers = self.scenario.connections.iter().filter(at);
            let clients = readers.map(|connection| connection.client).max();
            // The first client sends.
            let clients = usize::from(clients.unwrap_or(0)) + 1;
            for _ in 0..clients {
                self.memory.take_client(spec)?;
            }
            let here = |connection: &&Connection| connection.from == host || connection.to == host;
            let vcs = self.connections.iter().filter(here).count();
            let vcs = u16::try_from(vcs).map_err(|_| {
                ScenarioError::Quantity(spec.name.clone(), "more than 65,535 connections")
            })?;
            let ports = self.topology.ports[host].iter();
            let ports = ports.map(|&(input, output)| Wires {
                input,
                output,
                rate: self.lines[output].rate(),
                space: 0,
            });
            let ports = ports.collect();
            let served = self.services.room(host);
            let all = vcs.saturating_add(spec.spare_vcs);
            let all = all.saturating_add(served.unwrap_or(0));
            self.memory.take_adapter(spec, all)?;
            let room = (clients, vcs, self.blocks(host));
            let node = Host::new(host as u32, spec.clone(), ports, room, served, self.options);
            let refused = |refusal| ScenarioError::Refused(spec.name.clone(), refusal);
            self.hosts.push(node.map_err(refused)?);
        }
        Ok(())
    }

    /// Blocks of addresses, port by port, in which a host's VCs can be.
    fn blocks(&self, host: usize) -> usize {
        let mut blocks = BTreeSet::new();
        for (spec, connection) in self.scenario.connections.iter().zip(&self.connections) {
            let lines = [
                connection.path.first().filter(|_| connection.from == host),
                connection.path.last().filter(|_| connection.to == host),
            ];
            for line in lines.into_iter().flatten() {
                blocks.insert((line / 2, spec.address.bits() >> Config::BLOCK_BITS));
            }
        }
        let name = &self.scenario.hosts[host].name;
        let mut guests = self.scenario.faults.iter();
        let has_guests = guests.any(|fault| match fault {
            FaultSpec::Guests { host, .. } => host == name,
            _ => false,
        });
        blocks.len() + if has_guests { GUEST_BLOCKS } else { 0 }
    }

    /// Readers, and senders whose SDUs go through an adapter.
    fn open(&mut self) -> Result<(), ScenarioError> {
        let by_adapter: BTreeSet<&String> = (self.scenario.sources.iter())
            .filter(|source| source.by_adapter)
            .map(|source| &source.connection)
            .collect();
        for (n, spec) in self.scenario.connections.iter().enumerate() {
            let Connection { from, to, .. } = self.connections[n];
            let contract = self.connections[n].contract;
            if self.connections[n].is_open {
                let opening = self.opening(n, &contract, true)?;
                self.hosts[to].open(opening);
            }
            if by_adapter.contains(&spec.name) && !self.services.serves(from, n) {
                let opening = self.opening(n, &contract, false)?;
                self.hosts[from].open(opening);
            }
        }
        for host in &self.attacked.hosts {
            self.hosts[*host].let_go();
        }
        for (n, sends) in &self.attacked.applications {
            let connection = &self.connections[*n];
            let (host, line) = match sends {
                true => (connection.from, connection.path.first()),
                false => (connection.to, connection.path.last()),
            };
            let port = self.port_of(host, line.copied().unwrap_or(0));
            self.hosts[host].is_lied_to_at((port, connection.address), *n as u32);
        }
        // Each time that a reader comes again it brings new memory.
        for fault in &self.scenario.faults {
            if let FaultSpec::ReaderCrash { connection, .. } = fault {
                let n = self.names.connection(connection)?;
                let contract = self.connections[n].contract;
                self.opening(n, &contract, true)?;
            }
        }
        Ok(())
    }

    fn attacked(&mut self) -> Result<(), ScenarioError> {
        for fault in &self.scenario.faults {
            let FaultSpec::Write {
                connection, whose, ..
            } = fault
            else {
                continue;
            };
            let n = self.names.connection(connection)?;
            let Connection { from, to, .. } = self.connections[n];
            let host = if whose.sends() { from } else { to };
            if self.services.serves(host, n) {
                self.attacked.applications.insert((n, whose.sends()));
                self.attacked
                    .hosts
                    .extend(whose.is_clients().then_some(host));
            } else if whose.is_clients() {
                let client = match whose.sends() {
                    true => 0,
                    false => usize::from(self.scenario.connections[n].client),
                };
                self.attacked.clients.insert((host, client));
                self.attacked.hosts.insert(host);
            } else {
                self.attacked.regions.insert((n, whose.sends()));
            }
        }
        Ok(())
    }

    /// What connections are changed to, by the number of the fault.
    fn changes(&mut self) -> Result<BTreeMap<u32, Change>, ScenarioError> {
        let mut changes = BTreeMap::new();
        for (n, fault) in (0..).zip(&self.scenario.faults) {
            let FaultSpec::Modify {
                connection,
                contract,
                sender,
                memory,
                ..
            } = fault
            else {
                continue;
            };
            let number = self.names.connection(connection)?;
            let contract = contract.parse::<TrafficContract>();
            let contract =
                contract.map_err(|error| ScenarioError::Contract(connection.clone(), error))?;
            let Connection {
                from,
                to,
                contract: old,
                ..
            } = &self.connections[number];
            if contract.aal != old.aal || (old.aal == Some(Aal::Aal34) && !memory) {
                return Err(ScenarioError::Change(connection.clone()));
            }
            let host = if *sender { *from } else { *to };
            let change = Change {
                host,
                opening: self.opening(number, &contract, !sender)?,
                memory: *memory,
            };
            changes.insert(n, change);
        }
        Ok(changes)
    }

    /// The largest memory that each application may ask its server for: while it is changed the old
    /// one is there, too.
    fn applications(&mut self) -> Result<(), ScenarioError> {
        let servers = self.scenario.servers.iter();
        let servers = servers.map(|server| (&server.host, server.memory));
        let servers: BTreeMap<&String, u64> = servers.collect();
        for application in &self.scenario.applications {
            let n = self.names.connection(&application.connection)?;
            let spec = &self.scenario.connections[n];
            let receives = spec.to == application.host;
            let calls = application
                .calls
                .iter()
                .filter_map(|call| match &call.call {
                    Call::OpenWith(text) | Call::Modify(text) => Some(text),
                    _ => None,
                });
            let promised = servers.get(&application.host).copied().unwrap_or(0);
            let promised = u32::try_from(promised).unwrap_or(u32::MAX);
            let (mut receive_len, mut transmit_len) = (0, 0);
            for text in calls.chain([&spec.contract]) {
                // What cannot be read or served is refused.
                let contract = text.parse::<TrafficContract>().ok();
                let aal = |contract: TrafficContract| contract.aal.unwrap_or(Aal::Aal5);
                if contract.is_some_and(|one| aal(one) != aal(self.connections[n].contract)) {
                    return Err(ScenarioError::Change(spec.name.clone()));
                }
                let terms = contract.and_then(|contract| self.terms(n, &contract, receives).ok());
                if let Some(Ok(sizes)) = terms.map(|terms| terms.sizes()) {
                    receive_len = sizes.receive_len.min(promised).max(receive_len);
                    transmit_len = sizes.transmit_len.min(promised).max(transmit_len);
                }
            }
            let name = &application.name;
            self.memory.take_region(name, receive_len, transmit_len)?;
            self.memory.take_region(name, receive_len, transmit_len)?;
            if !receives {
                self.leaves(n, transmit_len);
            }
        }
        Ok(())
    }

    /// A writer of a connection can leave so many octets with its adapter.
    fn leaves(&mut self, connection: usize, octets: u32) {
        let line = self.connections[connection].path[0];
        *self.unsent.entry(line).or_default() += u64::from(octets);
    }

    /// How one end of a connection would be opened.
    fn terms(
        &self,
        connection: usize,
        contract: &TrafficContract,
        receives: bool,
    ) -> Result<Terms, Unserved> {
        let spec = &self.scenario.connections[connection];
        let Connection { path, from, to, .. } = &self.connections[connection];
        let mut contract = *contract;
        let (host, line) = if receives {
            contract.transmit = None;
            (*to, path.last())
        } else {
            contract.receive = None;
            (*from, path.first())
        };
        let line = &self.lines[line.copied().unwrap_or(0)];
        let assumed = assumptions(&self.scenario.hosts[host], spec, line);
        Terms::of(&contract, &assumed)
    }

    /// A host's port to a line.
    fn port_of(&self, host: usize, line: usize) -> PortIndex {
        let mut ports = self.topology.ports[host].iter();
        let port = ports.position(|(input, output)| [*input, *output].contains(&line));
        PortIndex(port.unwrap_or(0) as u8)
    }

    fn opening(
        &mut self,
        connection: usize,
        contract: &TrafficContract,
        receives: bool,
    ) -> Result<Opening, ScenarioError> {
        let spec = &self.scenario.connections[connection];
        let Connection { path, from, to, .. } = &self.connections[connection];
        let (host, client) = if receives {
            (*to, usize::from(spec.client))
        } else {
            (*from, 0)
        };
        let line = if receives { path.last() } else { path.first() };
        let line = line.copied().unwrap_or(0);
        let port = self.port_of(host, line);
        let unserved = |error| ScenarioError::Unserved(spec.name.clone(), error);
        let terms = self.terms(connection, contract, receives);
        let terms = terms.map_err(unserved)?;
        let sizes = terms.sizes().map_err(unserved)?;
        let (receive_len, transmit_len) = (sizes.receive_len, sizes.transmit_len);
        self.memory
            .take_region(&spec.name, receive_len, transmit_len)?;
        if !receives {
            self.leaves(connection, transmit_len);
        }
        let lawless = self.attacked.regions.contains(&(connection, !receives))
            || self.attacked.clients.contains(&(host, client));
        Ok(Opening {
            connection: connection as u32,
            client,
            request: terms.request(spec.address, port, AttachmentIndex(client as u16)),
            sizes: RegionSizes {
                receive_buffer: sizes.receive_len,
                receive_slots: sizes.receive_slots,
                transmit_slots: sizes.transmit_slots.min(TRANSMIT_SLOTS_MAX),
                transmit_len: sizes.transmit_len,
                stable: true,
            },
            lawless,
        })
    }

    /// More events than there can be: each line always busy, each host always stepping, each cell
    /// on its way by itself, many times.
    fn events_max(&self) -> Result<u64, ScenarioError> {
        let span_ps = Ps::from_ns(self.scenario.duration_ns).ps();
        let cells = self
            .lines
            .iter()
            .map(|line| span_ps / line.cell().ps().max(1));
        let steps = self.scenario.hosts.iter();
        let steps = steps.map(|host| self.scenario.duration_ns / host.step_ns);
        let all = cells.chain(steps).sum::<u64>();
        let sources = self.scenario.sources.len() as u64 + 1;
        let mut after = 0_u64;
        for (line, octets) in &self.unsent {
            let Place::Host { host } = self.topology.places[*line ^ 1] else {
                continue;
            };
            let step = Ps::from_ns(self.scenario.hosts[host].step_ns);
            // An SDU takes 64 octets at least, which can be two cells.
            let sent = self.lines[*line].cell().times(octets / 32);
            let name = self.scenario.links[*line / 2].ends.join(" - ");
            after += limits::check_unsent(&name, sent.ps() / step.ps().max(1))?;
        }
        let more = self.work.saturating_add(after).saturating_mul(16);
        let most = all.saturating_mul(16 * sources).saturating_add(more);
        Ok(most.saturating_add(1_000_000))
    }

    fn sources(&mut self, opened: Ps) -> Result<Vec<Source>, ScenarioError> {
        let names = self.scenario.sources.iter();
        let connections = names.map(|source| self.names.connection(&source.connection));
        let connections = connections.collect::<Result<Vec<usize>, _>>()?;
        let path = |connection: &usize| &*self.connections[*connection].path;
        let paths: Vec<&[usize]> = connections.iter().map(path).collect();
        let cell_s = |line: usize| 1_000_000_000_000 / self.lines[line].cell().ps().max(1);
        self.work = limits::check_offered(self.scenario, &paths, cell_s)?;
        let of_sources = connections.iter().map(|n| &self.connections[*n]);
        source_conforms::check(self.scenario, of_sources, &self.lines)?;
        let mut sources = Vec::new();
        let mut sending = BTreeSet::new();
        let mut sdus: Rc<[u16]> = Rc::default();
        for (spec, connection) in self.scenario.sources.iter().zip(connections) {
            let name = &spec.connection;
            let to = &mut self.connections[connection];
            check(spec, to)?;
            let strays = matches!(spec.traffic, Traffic::Scan { .. });
            // Of recorded cells nobody knows what PDUs are in them.
            if !strays && !sending.insert(connection) {
                return Err(ScenarioError::TwoSources(name.clone()));
            }
            if !strays && !matches!(spec.traffic, Traffic::Cells(_)) {
                to.sender = Some(sources.len());
            }
            let (start, stop) = spec.span(self.scenario.duration_ns);
            let span = [start, stop].map(|at| opened.plus(at));
            let address = self.scenario.connections[connection].address;
            let line = to.path[0];
            let aal = self.connections[connection].contract.aal;
            // Where thousands send the like, the list of their SDUs is near, too.
            if *sdus != *spec.sdus {
                sdus = spec.sdus.as_slice().into();
            }
            sources.push(Source::new(
                (spec, Rc::clone(&sdus)),
                (connection as u32, address, aal.unwrap_or(Aal::Aal5)),
                (span[0], span[1]),
                (line, self.lines[line].cell()),
            ));
        }
        Ok(sources)
    }
}

fn check(spec: &SourceSpec, connection: &Connection) -> Result<(), ScenarioError> {
    let descriptor = connection.contract.receive.or(connection.contract.transmit);
    let max_sdu = descriptor.and_then(|descriptor| descriptor.max_sdu);
    let max_sdu = max_sdu.map_or(65_535, |octets| octets.get());
    let cells = connection.contract.aal == Some(Aal::Aal0);
    let fits = |sdu: &u16| {
        let octets = u32::from(*sdu);
        let whole = !cells || octets == PAYLOAD_LEN as u32;
        *sdu >= SourceSpec::SDU_MIN && octets <= max_sdu && whole
    };
    match &spec.traffic {
        Traffic::Scan { .. } => {}
        Traffic::Cells(cells) => {
            let ordered = cells.is_sorted_by_key(|cell| cell.at_ns);
            if !ordered || cells.iter().any(|cell| cell.octets.len() != 52) {
                return Err(ScenarioError::Recording(spec.connection.clone()));
            }
        }
        _ if spec.sdus.is_empty() => {
            return Err(ScenarioError::NoSdus(spec.connection.clone()));
        }
        _ if !spec.sdus.iter().all(fits) => {
            return Err(ScenarioError::Sdu(spec.connection.clone()));
        }
        _ => {}
    }
    Ok(())
}

fn assumptions(host: &HostSpec, spec: &ConnectionSpec, line: &Line) -> Assumptions {
    Assumptions {
        line: line.rate(),
        cdvt_ns: 0,
        interleaving: Interleaving {
            mids: SourceSpec::MIDS_MAX,
            reassembly_timeout_ns: host.reassembly_timeout_ns,
        },
        notification: spec.notification,
        transmit_pdus: None,
        receive_pdus: 4,
        wake_up_ns: host.wake_up_ns + 2 * host.step_ns,
        gap_max_ns: host.gap_max_ns,
        clump_cells: host.clump_cells,
    }
}
