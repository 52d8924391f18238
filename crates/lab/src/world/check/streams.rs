//! Whether a stream has a connection for itself, and keeps its contract.

use std::collections::BTreeSet;

use cellgate_core::contract::{Aal, Peak, TrafficContract};
use cellgate_core::terminal::video::{DRIFT_PPM_MAX, PACK_MAX};

use super::Network;
use super::refusal::{At, Found};
use crate::world::fault::{FaultSpec, Whom};
use crate::world::scenario::StreamSpec;

pub(super) const STREAMS_MAX: usize = 256;
const FPS_MAX: u32 = 1_000;
const BIT_S_MAX: u64 = 1_000_000_000;
const LATENCY_MAX_NS: u64 = 60_000_000_000;
const PACKETS_MAX: u32 = 1 << 17;

/// Finds what is beyond its bounds.
pub(super) fn quantities(
    spec: &StreamSpec,
    duration_ns: u64,
    mut due: impl FnMut(bool, &'static str),
) {
    due((1..=FPS_MAX).contains(&spec.fps), "fps is 1 to 1,000");
    due((1..=BIT_S_MAX).contains(&spec.bit_s), "bit_s is 1 to 10^9");
    let drifts = i64::from(spec.ppm).abs() <= DRIFT_PPM_MAX;
    due(drifts, "ppm is -400 to 400");
    let fits = (1..=PACK_MAX).contains(&spec.pack.into());
    due(fits, "pack is 1 to 348");
    due(
        spec.latency_ns <= LATENCY_MAX_NS,
        "latency_ns is at most 6 * 10^10",
    );
    let fits = spec.packets_max <= PACKETS_MAX;
    due(fits, "packets_max is at most 131,072");
    let begins = spec.start_ns < duration_ns;
    due(begins, "a stream begins (start_ns) before duration_ns");
    let ends = spec.stop_ns == 0 || spec.start_ns < spec.stop_ns;
    due(ends, "a stream begins (start_ns) before it ends (stop_ns)");
}

/// Looks at all streams: their connections.
pub(super) fn check(network: &Network<'_>, found: &mut Found<'_>) -> Vec<usize> {
    let scenario = network.scenario;
    let mut taken: BTreeSet<&String> = BTreeSet::new();
    taken.extend(scenario.sources.iter().map(|source| &source.connection));
    let applications = scenario.applications.iter();
    taken.extend(applications.map(|application| &application.connection));
    let mut numbers = Vec::new();
    for (n, spec) in scenario.streams.iter().enumerate() {
        let (at, name) = (At::Stream(n), &spec.connection);
        numbers.push(network.number(found, at, name).unwrap_or(0));
        let what = "its connection carries nothing else: no source, application or other stream";
        found.due(at, taken.insert(name), what);
        let Some((number, connection)) = network.find(name) else {
            continue;
        };
        let contract = &connection.contract;
        let is_aal5 = contract.aal == Some(Aal::Aal5);
        found.due(at, is_aal5, "its connection is of aal5");
        found.due(
            at,
            scenario.connections[number].open,
            "its connection is open",
        );
        if !found.is_right(at) || !found.is_right(At::Link(connection.path[0] / 2)) {
            continue;
        }
        let max_sdu = contract.transmit.or(contract.receive);
        let max_sdu = max_sdu.and_then(|descriptor| descriptor.max_sdu);
        let max_sdu = max_sdu.map_or(65_535, |octets| octets.get() as usize);
        let what =
            "pack: PDUs of 188 octets for each packet are longer than the contract's max_sdu";
        found.due(at, spec.sdu_len() <= max_sdu, what);
        let line = network.cell(connection.path[0]).rate();
        let carried = sustained(contract, line.cell_s().into());
        let cell_s = spec.cell_s();
        if cell_s > carried {
            let what = format!("bit_s: of its {cell_s} cells/s its contract carries {carried}");
            found.wrong(at, what);
        }
    }
    faults(network, found);
    numbers
}

/// Cells/s that a contract lets a direction keep up, on a line of so many.
fn sustained(contract: &TrafficContract, line: u64) -> u64 {
    let ends = [contract.transmit, contract.receive].into_iter().flatten();
    let rates = ends.map(|end| match (end.scr, end.peak()) {
        (Some(scr), _) => scr.cell_s().into(),
        (None, Peak::Rate(rate)) => rate.cell_s().into(),
        (None, Peak::Max) => line,
    });
    rates.min().unwrap_or(line).min(line)
}

/// What happens to the ends of a stream's connection: they stay.
fn faults(network: &Network<'_>, found: &mut Found<'_>) {
    let streams = network.scenario.streams.iter();
    let names: BTreeSet<&str> = streams.map(|stream| stream.connection.as_str()).collect();
    for (n, fault) in network.scenario.faults.iter().enumerate() {
        let Whom::Connection(name) = fault.whom() else {
            continue;
        };
        let is_lease = matches!(fault, FaultSpec::Lend { .. });
        let what = "the ends of a stream's connection stay as they are";
        found.due(At::Fault(n), is_lease || !names.contains(name), what);
    }
}
