//! How the ends of connections are opened and changed, and what adapters would refuse of that.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::adapter::{Assumptions, AttachmentIndex, Interleaving, Marks, Terms, Unserved};
use cellgate_core::contract::{Aal, TrafficContract};
use cellgate_core::queue::ConnectionSizes;
use cellgate_core::wire::PAYLOAD_LEN;

use super::Network;
use super::refusal::{At, Found};
use super::sums::Sums;
use crate::memory::RegionSizes;
use crate::world::content::cells_of;
use crate::world::fault::FaultSpec;
use crate::world::host::{GUESTS_VPI, Opening};
use crate::world::incident::Change;
use crate::world::scenario::{ApplicationSpec, Call, SourceSpec};

/// Descriptors that a transmit queue of the lab's memory holds.
const TRANSMIT_SLOTS_MAX: u32 = 512;

/// Where somebody writes who should not.
#[derive(Debug, Default)]
pub(in crate::world) struct Attacked {
    /// Numbers of connections, at the end that sends or the other.
    regions: BTreeSet<(usize, bool)>,
    /// Clients of hosts.
    clients: BTreeSet<(usize, usize)>,
    /// The same as `regions`, of applications.
    pub(in crate::world) applications: BTreeSet<(usize, bool)>,
    /// Hosts with a client that is attacked, be it an application's.
    pub(in crate::world) hosts: BTreeSet<usize>,
}

impl Attacked {
    pub(super) fn of(network: &Network<'_>) -> Self {
        let mut attacked = Self::default();
        for fault in &network.scenario.faults {
            let FaultSpec::Write {
                connection, whose, ..
            } = fault
            else {
                continue;
            };
            let Some((n, connection)) = network.find(connection) else {
                continue;
            };
            let sends = whose.sends();
            let (host, _) = connection.end(!sends);
            if whose.is_clients() {
                attacked.hosts.insert(host);
            }
            if network.owners.serves(host, n) {
                attacked.applications.insert((n, sends));
            } else if whose.is_clients() {
                let client = network.scenario.connections[n].client;
                let client = if sends { 0 } else { client.into() };
                attacked.clients.insert((host, client));
            } else {
                attacked.regions.insert((n, sends));
            }
        }
        attacked
    }
}

/// An end of a connection: its number, and whether it is the one that receives.
type End = (usize, bool);

/// What is opened, and changed.
#[derive(Debug, Default)]
pub(super) struct Ends {
    pub(super) openings: Vec<(usize, Opening)>,
    pub(super) changes: BTreeMap<u32, Change>,
}

impl Ends {
    pub(super) fn of(network: &Network<'_>, found: &mut Found<'_>, sums: &mut Sums) -> Self {
        let scenario = network.scenario;
        let sources = scenario.sources.iter().filter(|source| source.by_adapter);
        let streams = scenario.streams.iter().map(|stream| &stream.connection);
        let by_adapter = sources.map(|source| &source.connection).chain(streams);
        let by_adapter: BTreeSet<&String> = by_adapter.collect();
        let mut ends = Self::default();
        let mut opening = |found: &mut Found<'_>, at, end, contract: &TrafficContract| {
            opened(network, found, sums, at, end, contract)
        };
        for (n, connection) in network.connections.iter().enumerate() {
            let (at, Some(one)) = (At::Connection(n), connection) else {
                continue;
            };
            let sends = by_adapter.contains(&one.name) && !network.owners.serves(one.from, n);
            for (receives, is_open) in [(true, one.is_open), (false, sends)] {
                if is_open {
                    let opening = opening(found, at, (n, receives), &one.contract);
                    ends.openings.extend(opening);
                }
            }
        }
        for (n, fault) in scenario.faults.iter().enumerate() {
            let at = At::Fault(n);
            match fault {
                // Each time that a reader comes again it brings new memory.
                FaultSpec::ReaderCrash { connection, .. } => {
                    if let Some((n, one)) = network.find(connection)
                        && found.is_right(At::Connection(n))
                    {
                        opening(found, at, (n, true), &one.contract);
                    }
                }
                FaultSpec::Modify {
                    connection,
                    contract,
                    sender,
                    memory,
                    ..
                } => {
                    let contract = contract.parse::<TrafficContract>();
                    let contract = contract.map_err(|error| found.wrong(at, error)).ok();
                    let old = network.find(connection);
                    let Some(((number, old), contract)) = old.zip(contract) else {
                        continue;
                    };
                    let aal = old.contract.aal;
                    let keeps = contract.aal == aal && (aal != Some(Aal::Aal34) || *memory);
                    let what = "a change keeps the AAL, and on aal34 brings new memory";
                    found.due(at, keeps, what);
                    let opening = opening(found, at, (number, !sender), &contract);
                    let change = opening.map(|(host, opening)| Change {
                        host,
                        opening,
                        memory: *memory,
                    });
                    ends.changes.extend(change.map(|change| (n as u32, change)));
                }
                _ => {}
            }
        }
        for (n, application) in scenario.applications.iter().enumerate() {
            asked_for(network, found, sums, (n, application));
        }
        ends.guests(network, found);
        ends.sdus(network, found);
        ends.memory(network, found);
        ends.lines(network, found);
        ends
    }

    /// Whether guests leave all addresses that they take.
    fn guests(&self, network: &Network<'_>, found: &mut Found<'_>) {
        let faults = network.scenario.faults.iter();
        let hosts = faults.filter_map(|fault| match fault {
            FaultSpec::Guests { host, .. } => Some(host),
            _ => None,
        });
        let hosts: BTreeSet<&String> = hosts.collect();
        for (n, spec) in network.scenario.connections.iter().enumerate() {
            let is_taken = spec.address.vpi() == GUESTS_VPI && hosts.contains(&spec.to);
            let what = "at a host with guests these have all addresses of VPI 254";
            found.due(At::Connection(n), !is_taken, what);
        }
    }

    /// Checks that SDUs sent through an adapter stay within the lengths its sender is changed to.
    fn sdus(&self, network: &Network<'_>, found: &mut Found<'_>) {
        let mut longest: BTreeMap<&str, u16> = BTreeMap::new();
        let sources = network.scenario.sources.iter();
        for source in sources.filter(|source| source.by_adapter) {
            let sdu = source.sdus.iter().max().copied().unwrap_or(0);
            longest.insert(&source.connection, sdu);
        }
        for (n, change) in &self.changes {
            let opening = &change.opening;
            let connection = &network.scenario.connections[opening.connection as usize];
            let transmit = opening.request.transmit;
            let most = transmit.map_or(u16::MAX, |transmit| transmit.max_sdu);
            let sdu = longest.get(connection.name.as_str()).copied().unwrap_or(0);
            let what = "SDUs have at most the new contract's max_sdu: its source has longer ones";
            found.due(At::Fault(*n as usize), sdu <= most, what);
        }
    }

    /// Checks that a change without new memory fits whichever memory its connection has then.
    fn memory(&self, network: &Network<'_>, found: &mut Found<'_>) {
        let mut least: BTreeMap<(usize, u32), Lens> = BTreeMap::new();
        let brought = self.changes.values().filter(|change| change.memory);
        let brought = brought.map(|change| (change.host, &change.opening));
        for (host, opening) in self.opened().chain(brought) {
            let lens = (opening.sizes.receive_buffer, opening.sizes.transmit_len);
            let least = least.entry((host, opening.connection)).or_insert(lens);
            *least = (least.0.min(lens.0), least.1.min(lens.1));
        }
        for (n, change) in self.changes.iter().filter(|(_, change)| !change.memory) {
            let opening = &change.opening;
            let least = least.get(&(change.host, opening.connection));
            let connection = network.connections[opening.connection as usize].as_ref();
            let Some(((receive_len, transmit_len), connection)) = least.zip(connection) else {
                continue;
            };
            let aal = connection.contract.aal.unwrap_or(Aal::Aal5);
            let pdu_len = |sdu| PAYLOAD_LEN as u32 * cells_of(aal, sdu);
            let request = &opening.request;
            let received = request.receive;
            let received = received.map_or(0, |receive| pdu_len(receive.max_sdu));
            let sent = request.transmit.map_or(0, |transmit| transmit.max_sdu);
            let fits = received <= *receive_len && u32::from(sent) <= *transmit_len;
            let what = "a change to SDUs that its memory was not made for needs `memory = true`";
            found.due(At::Fault(*n as usize), fits, what);
        }
    }

    /// Whether a line carries what an adapter guarantees there, whichever change comes first.
    fn lines(&self, network: &Network<'_>, found: &mut Found<'_>) {
        let mut most: BTreeMap<(usize, u32), u64> = BTreeMap::new();
        let mut sums: BTreeMap<(usize, u8), u64> = BTreeMap::new();
        let whose = self.opened().map(|(host, one)| (host, one.connection));
        let whose: BTreeSet<(usize, u32)> = whose.collect();
        let opened = self.opened().map(|(host, one)| {
            let at = At::Connection(one.connection as usize);
            (at, host, one)
        });
        let changed = self.changes.iter().map(|(n, change)| {
            let at = At::Fault(*n as usize);
            (at, change.host, &change.opening)
        });
        let changed = changed.filter(|(_, host, one)| whose.contains(&(*host, one.connection)));
        for (at, host, opening) in opened.chain(changed) {
            let transmit = opening.request.transmit;
            let rate = transmit.and_then(|transmit| transmit.guaranteed());
            let cell_s: u64 = rate.map_or(0, |rate| rate.cell_s().into());
            let most = most.entry((host, opening.connection)).or_default();
            let port = opening.request.port.0;
            let sum = sums.entry((host, port)).or_default();
            let before = *sum;
            *sum += cell_s.saturating_sub(*most);
            *most = cell_s.max(*most);
            let line = network.topology.ports[host].get(usize::from(port));
            let line = line.map_or(0, |(_, line)| network.cell(*line).rate().cell_s());
            // Once is enough.
            let fits = *sum <= line.into() || before > line.into();
            let what = "with it, adapters guarantee more on its first line than that carries";
            found.due(at, fits, what);
        }
    }

    /// What is opened at the beginning, and where.
    fn opened(&self) -> impl Iterator<Item = (usize, &Opening)> {
        self.openings.iter().map(|(host, opening)| (*host, opening))
    }
}

/// Octets of a receive and of a transmit buffer.
type Lens = (u32, u32);

/// How one end of a connection would be opened, if nothing is wrong with its host and line.
fn terms(
    network: &Network<'_>,
    found: &Found<'_>,
    (n, receives): End,
    contract: &TrafficContract,
) -> Option<Result<(Terms, ConnectionSizes), Unserved>> {
    let connection = network.connections[n].as_ref()?;
    let mut contract = *contract;
    match receives {
        // RM cells go both ways.
        _ if connection.is_abr() => {}
        true => contract.transmit = None,
        false => contract.receive = None,
    }
    let (host, line) = connection.end(receives);
    if !found.is_right(At::Host(host)) || !found.is_right(At::Link(line / 2)) {
        return None;
    }
    let host = &network.scenario.hosts[host];
    let terms = Terms::of(
        &contract,
        &Assumptions {
            marks: Marks::None,
            line: network.cell(line).rate(),
            cdvt_ns: 0,
            interleaving: Interleaving {
                mids: SourceSpec::MIDS_MAX,
                reassembly_timeout_ns: host.reassembly_timeout_ns,
            },
            notification: network.scenario.connections[n].notification,
            transmit_pdus: None,
            receive_pdus: 4,
            wake_up_ns: host.wake_up_ns + 2 * host.step_ns,
            gap_max_ns: host.gap_max_ns,
            clump_cells: host.clump_cells,
        },
    );
    Some(terms.and_then(|terms| Ok((terms, terms.sizes()?))))
}

/// Opens one end of a connection by a contract for the sake of `at`.
fn opened(
    network: &Network<'_>,
    found: &mut Found<'_>,
    sums: &mut Sums,
    at: At,
    (n, receives): End,
    contract: &TrafficContract,
) -> Option<(usize, Opening)> {
    let spec = &network.scenario.connections[n];
    let (host, line) = network.connections[n].as_ref()?.end(receives);
    let client = if receives { spec.client.into() } else { 0 };
    let terms = terms(network, found, (n, receives), contract)?;
    let (terms, sizes) = terms.map_err(|error| found.wrong(at, error)).ok()?;
    sums.take_region(found, at, (sizes.receive_len, sizes.transmit_len));
    if !receives {
        sums.leave(line, sizes.transmit_len);
    }
    let attacked = &network.attacked;
    let lawless =
        attacked.regions.contains(&(n, !receives)) || attacked.clients.contains(&(host, client));
    let port = network.topology.port_of(host, line);
    Some((
        host,
        Opening {
            connection: n as u32,
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
        },
    ))
}

/// The largest memory that an application may ask its server for: while it is changed the old one
/// is there, too.
fn asked_for(
    network: &Network<'_>,
    found: &mut Found<'_>,
    sums: &mut Sums,
    (number, application): (usize, &ApplicationSpec),
) {
    let at = At::Application(number);
    let Some((n, connection)) = network.find(&application.connection) else {
        return;
    };
    let spec = &network.scenario.connections[n];
    let receives = spec.to == application.host;
    let calls = application.calls.iter();
    let calls = calls.filter_map(|call| match &call.call {
        Call::OpenWith(text) | Call::Modify(text) => Some(text),
        _ => None,
    });
    let mut servers = network.scenario.servers.iter();
    let server = servers.find(|server| server.host == application.host);
    let promised = server.map_or(0, |server| server.memory);
    let promised = u32::try_from(promised).unwrap_or(u32::MAX);
    let (mut receive_len, mut transmit_len) = (0, 0);
    for text in calls.chain([&spec.contract]) {
        // A contract that cannot be read or served is refused, and takes no memory.
        let Ok(contract) = text.parse::<TrafficContract>() else {
            continue;
        };
        let aal = |contract: &TrafficContract| contract.aal.unwrap_or(Aal::Aal5);
        let keeps = aal(&contract) == aal(&connection.contract);
        found.due(at, keeps, "a call keeps the AAL of its connection");
        if let Some(Ok((_, sizes))) = terms(network, found, (n, receives), &contract) {
            receive_len = sizes.receive_len.min(promised).max(receive_len);
            transmit_len = sizes.transmit_len.min(promised).max(transmit_len);
        }
    }
    sums.take_region(found, at, (receive_len, transmit_len));
    sums.take_region(found, at, (receive_len, transmit_len));
    if !receives {
        sums.leave(connection.path[0], transmit_len);
    }
}
