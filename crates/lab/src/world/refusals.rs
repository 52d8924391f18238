//! What adapters would refuse, told before anything runs.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::contract::Aal;
use cellgate_core::wire::PAYLOAD_LEN;

use super::content::cells_of;
use super::error::ScenarioError;
use super::host::{GUESTS_VPI, Host, Opening};
use super::incident::Change;
use super::plan::Connection;
use super::scenario::{FaultSpec, Scenario};

/// The largest VPI of a UNI.
const VPI_MAX: u16 = 255;

/// Octets of a receive and of a transmit buffer.
type Lens = (u32, u32);

/// `Err` if an adapter would refuse to open a connection, or to change it.
pub(super) fn check(
    scenario: &Scenario,
    connections: &[Connection],
    hosts: &[Host],
    changes: &BTreeMap<u32, Change>,
) -> Result<(), ScenarioError> {
    addresses(scenario)?;
    sdus(scenario, connections, changes)?;
    memory(connections, hosts, changes)?;
    lines(connections, hosts, changes)
}

fn addresses(scenario: &Scenario) -> Result<(), ScenarioError> {
    let guests = scenario.faults.iter().filter_map(|fault| match fault {
        FaultSpec::Guests { host, .. } => Some(host),
        _ => None,
    });
    let guests: BTreeSet<&String> = guests.collect();
    for spec in &scenario.connections {
        let (vpi, is_first) = (spec.address.vpi(), spec.address.bits() == 0);
        let wrong = |what| Err(ScenarioError::Quantity(spec.name.clone(), what));
        if vpi > VPI_MAX || is_first {
            return wrong("an address is 0.1 to 255.65535");
        }
        if vpi == GUESTS_VPI && guests.contains(&spec.to) {
            return wrong("at a host with guests these have all addresses of VPI 254");
        }
    }
    Ok(())
}

/// Whether what is sent through an adapter stays within what its sender is changed to.
fn sdus(
    scenario: &Scenario,
    connections: &[Connection],
    changes: &BTreeMap<u32, Change>,
) -> Result<(), ScenarioError> {
    let mut longest: BTreeMap<&String, u16> = BTreeMap::new();
    for source in scenario.sources.iter().filter(|source| source.by_adapter) {
        let sdu = source.sdus.iter().max().copied().unwrap_or(0);
        longest.insert(&source.connection, sdu);
    }
    for change in changes.values() {
        let connection = &connections[change.opening.connection as usize];
        let transmit = change.opening.request.transmit;
        let most = transmit.map_or(u16::MAX, |transmit| transmit.max_sdu);
        let sdu = longest.get(&connection.name).copied().unwrap_or(0);
        if sdu > most {
            return Err(ScenarioError::Sdu(connection.name.clone()));
        }
    }
    Ok(())
}

/// Whether what is changed without new memory fits whichever its connection has then.
fn memory(
    connections: &[Connection],
    hosts: &[Host],
    changes: &BTreeMap<u32, Change>,
) -> Result<(), ScenarioError> {
    let mut least: BTreeMap<(usize, u32), Lens> = BTreeMap::new();
    let brought = changes.values().filter(|change| change.memory);
    let brought = brought.map(|change| (change.host, &change.opening));
    for (host, opening) in opened(hosts).chain(brought) {
        let lens = (opening.sizes.receive_buffer, opening.sizes.transmit_len);
        let least = least.entry((host, opening.connection)).or_insert(lens);
        *least = (least.0.min(lens.0), least.1.min(lens.1));
    }
    for change in changes.values().filter(|change| !change.memory) {
        let opening = &change.opening;
        let Some((receive_len, transmit_len)) = least.get(&(change.host, opening.connection))
        else {
            continue;
        };
        let connection = &connections[opening.connection as usize];
        let aal = connection.contract.aal.unwrap_or(Aal::Aal5);
        let pdu_len = |sdu| PAYLOAD_LEN as u32 * cells_of(aal, sdu);
        let request = &opening.request;
        let received = request
            .receive
            .map_or(0, |receive| pdu_len(receive.max_sdu));
        let sent = request.transmit.map_or(0, |transmit| transmit.max_sdu);
        if received > *receive_len || u32::from(sent) > *transmit_len {
            return Err(ScenarioError::Memory(connection.name.clone()));
        }
    }
    Ok(())
}

/// Whether a line carries what an adapter guarantees there, whichever change comes first.
fn lines(
    connections: &[Connection],
    hosts: &[Host],
    changes: &BTreeMap<u32, Change>,
) -> Result<(), ScenarioError> {
    let mut most: BTreeMap<(usize, u32), u64> = BTreeMap::new();
    let mut sums: BTreeMap<(usize, u8), u64> = BTreeMap::new();
    let opened: Vec<(usize, &Opening)> = opened(hosts).collect();
    let whose = opened.iter().map(|(host, one)| (*host, one.connection));
    let whose: BTreeSet<(usize, u32)> = whose.collect();
    let changed = changes
        .values()
        .map(|change| (change.host, &change.opening));
    let changed = changed.filter(|(host, one)| whose.contains(&(*host, one.connection)));
    for (host, opening) in opened.iter().copied().chain(changed) {
        let rate = opening.request.transmit.and_then(|transmit| transmit.rate);
        let cell_s: u64 = rate.map_or(0, |rate| rate.cell_s().into());
        let most = most.entry((host, opening.connection)).or_default();
        let port = opening.request.port.0;
        let sum = sums.entry((host, port)).or_default();
        *sum += cell_s.saturating_sub(*most);
        *most = cell_s.max(*most);
        let rates = hosts[host].rates();
        let line = rates.get(usize::from(port)).map_or(0, |rate| rate.cell_s());
        if *sum > line.into() {
            let name = connections[opening.connection as usize].name.clone();
            let what = "with it, adapters guarantee more on its first line than that carries";
            return Err(ScenarioError::Quantity(name, what));
        }
    }
    Ok(())
}

/// What is opened at the beginning, and where.
fn opened(hosts: &[Host]) -> impl Iterator<Item = (usize, &Opening)> {
    let hosts = hosts.iter().enumerate();
    hosts.flat_map(|(host, node)| node.openings.values().map(move |one| (host, one)))
}
