//! What a run brought, in numbers.

use std::collections::BTreeMap;

use cellgate_core::adapter::AdapterStats;
use cellgate_core::contract::aal5_cells;
use cellgate_core::wire::TS_LEN;
use serde::{Deserialize, Serialize};

use super::TransferOutcome;
use super::host::Host;
use super::log::{HostReport, LineReport, StreamReport, Tally};
use super::plan::Connection;
use super::run::World;
use super::streams::StreamOutcome;
use super::{AssociationOutcome, OutputCounts, Ps, RingOutcome, ServerOutcome, StationOutcome};

/// A run in numbers. Times are of the scenario: 0 is when everything is open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// When the last event happened.
    pub ended_ns: u64,
    pub events: u64,
    /// Cells that left a source.
    pub cells: u64,
    /// Cells whose fate the reference has compared.
    pub judged_cells: u64,
    /// Of all that was done, and when: equal runs have equal ones.
    pub trace_hash: u64,
    pub connections: BTreeMap<String, ConnectionOutcome>,
    /// In the scenario's order.
    pub hosts: Vec<HostOutcome>,
    /// In the scenario's order, each output in the order of its links.
    pub switches: Vec<SwitchOutcome>,
    /// In the scenario's order, two for each link.
    pub lines: Vec<LineOutcome>,
    /// By host, those that have one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, ServerOutcome>,
    /// By their connections.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub streams: BTreeMap<String, StreamOutcome>,
    /// In the scenario's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<TransferOutcome>,
    /// By name, as what follows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rings: BTreeMap<String, RingOutcome>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stations: BTreeMap<String, StationOutcome>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub associations: BTreeMap<String, AssociationOutcome>,
}

/// What became of a connection's PDUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionOutcome {
    /// PDUs whose last cell was sent, or that were handed to an adapter.
    pub sent_pdus: u64,
    /// Their cells.
    pub sent_cells: u64,
    /// PDUs read.
    pub delivered_pdus: u64,
    /// Their cells.
    pub delivered_cells: u64,
    /// Octets of their SDUs.
    pub delivered_octets: u64,
    /// Bit/s of SDUs read, over the scenario's duration.
    pub sdu_bit_s: u64,
    /// PDUs sent that did not come.
    pub lost_pdus: u64,
    /// PDUs that came again.
    pub repeated_pdus: u64,
    /// PDUs that nobody sent.
    pub strange_pdus: u64,
    /// PDUs with low priority.
    pub tagged_pdus: u64,
    /// Cells that switches discarded.
    pub discarded_cells: u64,
    /// To a PDU's being read, from its last cell's being sent, or from its being handed to an
    /// adapter. None: of none it was measured.
    pub latency_min_ns: Option<u64>,
    /// The mean, rounded down.
    pub latency_mean_ns: Option<u64>,
    pub latency_max_ns: Option<u64>,
}

/// What a host's adapter counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostOutcome {
    pub name: String,
    /// Cells that found the receive FIFO full.
    pub fifo_overflow_cells: u64,
    /// Steps of the adapter.
    pub steps: u64,
    /// Cells taken.
    pub received_cells: u64,
    /// Cells in delivered PDUs.
    pub delivered_cells: u64,
    /// Cells sent.
    pub transmitted_cells: u64,
    pub events: u64,
    /// Events that found their queue full.
    pub events_lost: u64,
    pub interrupts: u64,
    /// Cells discarded, by reason; those that are not zero.
    pub discarded_cells: BTreeMap<String, u64>,
}

/// What a switch counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchOutcome {
    pub name: String,
    /// Cells of addresses without a route.
    pub unrouted_cells: u64,
    pub outputs: Vec<OutputCounts>,
}

/// What a line counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineOutcome {
    /// Names of the nodes where it begins and ends.
    pub ends: [String; 2],
    /// Cells handed to it.
    pub sent_cells: u64,
    /// Cells that reached its end.
    pub arrived_cells: u64,
    /// Cells lost on the way.
    pub lost_cells: u64,
    /// Cells that arrived twice.
    pub duplicated_cells: u64,
    /// Cells that nobody sent.
    pub inserted_cells: u64,
    /// Cells with a wrong bit.
    pub damaged_cells: u64,
}

impl From<&LineReport> for LineOutcome {
    fn from(line: &LineReport) -> Self {
        let counts = line.counts;
        let faults = counts.faults;
        Self {
            ends: line.ends.clone(),
            sent_cells: counts.sent,
            arrived_cells: counts.arrived,
            lost_cells: faults.lost,
            duplicated_cells: faults.duplicated,
            inserted_cells: faults.inserted,
            damaged_cells: faults.header_errors + faults.payload_errors,
        }
    }
}

impl World {
    /// The run so far in numbers, of a scenario that lasts `duration_ns`.
    pub fn outcome(&mut self, duration_ns: u64) -> Outcome {
        self.reports();
        let (plan, log) = (&self.net.plan, &self.net.log);
        let report = &log.report;
        let connections = plan.connections.iter().zip(&log.connections);
        let hosts = self.hosts.iter().zip(&report.hosts);
        let of = |(connection, tally): (&Connection, &Tally)| {
            let sender = connection.sender.map(|sender| &report.sources[sender]);
            let stream = connection.stream.map(|(stream, _)| &report.streams[stream]);
            let sent = match (sender, stream) {
                (Some(source), _) => (source.sent, source.cells),
                (None, Some(stream)) => (stream.sent, self.stream_cells(stream)),
                (None, None) => (0, 0),
            };
            let outcome = outcome_of(tally, sent, duration_ns);
            (connection.name.clone(), outcome)
        };
        Outcome {
            ended_ns: report.ended.since(plan.opened).ns(),
            events: report.events,
            cells: report
                .sources
                .iter()
                .map(|source| source.cells)
                .sum::<u64>()
                + report
                    .streams
                    .iter()
                    .map(|one| self.stream_cells(one))
                    .sum::<u64>(),
            judged_cells: report.hosts.iter().map(|host| host.judged_cells).sum(),
            trace_hash: report.hash,
            connections: connections.map(of).collect(),
            hosts: hosts
                .map(|(host, report)| host_outcome(&host.spec.name, report))
                .collect(),
            switches: report.switches.clone(),
            lines: report.lines.iter().map(LineOutcome::from).collect(),
            servers: self.server_outcomes(),
            streams: self.stream_outcomes(),
            transfers: Vec::new(),
            rings: BTreeMap::new(),
            stations: BTreeMap::new(),
            associations: BTreeMap::new(),
        }
    }

    /// Cells that a stream has handed over.
    fn stream_cells(&self, stream: &StreamReport) -> u64 {
        let connection = &self.net.plan.connections[stream.player.connection as usize];
        let len = connection.stream.map_or(0, |(_, len)| len);
        stream.sent * u64::from(aal5_cells(len as u32))
    }

    /// Streams in numbers, by connection.
    fn stream_outcomes(&self) -> BTreeMap<String, StreamOutcome> {
        let of = |stream: &StreamReport| {
            let connection = &self.net.plan.connections[stream.player.connection as usize];
            let len = connection.stream.map_or(0, |(_, len)| len);
            let sent_packets = stream.sent * (len / TS_LEN) as u64;
            (connection.name.clone(), stream.player.outcome(sent_packets))
        };
        self.net.log.report.streams.iter().map(of).collect()
    }

    /// Servers in numbers, by host.
    fn server_outcomes(&self) -> BTreeMap<String, ServerOutcome> {
        let log = &self.net.log;
        let hosts = self.hosts.iter().enumerate();
        let of = |(n, host): (usize, &Host)| {
            let mut counts = host.server_outcome(log.audited(host.number)?)?;
            let kept = log.promises.iter();
            let here = |at: u32| self.net.plan.connections[at as usize].to == n;
            let kept = kept.filter(|(at, _)| here(*at));
            counts.kept_pdus = kept.map(|(_, promise)| promise.kept).sum();
            Some((host.spec.name.clone(), counts))
        };
        hosts.filter_map(of).collect()
    }
}

/// PDUs and cells of a connection that were sent, and what became of them.
fn outcome_of(
    tally: &Tally,
    (sent_pdus, sent_cells): (u64, u64),
    duration_ns: u64,
) -> ConnectionOutcome {
    let pdus = &tally.pdus;
    let bits = u128::from(pdus.octets) * 8 * 1_000_000_000;
    let latency = |ps: u64| (pdus.latency.count > 0).then(|| Ps::new(ps).ns());
    ConnectionOutcome {
        sent_pdus,
        sent_cells,
        delivered_pdus: pdus.delivered,
        delivered_cells: pdus.cells,
        delivered_octets: pdus.octets,
        sdu_bit_s: bits.checked_div(duration_ns.into()).unwrap_or(0) as u64,
        lost_pdus: pdus.missing(sent_pdus),
        repeated_pdus: pdus.repeated,
        strange_pdus: pdus.strangers + pdus.misfits,
        tagged_pdus: pdus.tagged,
        discarded_cells: tally.discarded,
        latency_min_ns: latency(pdus.latency.least),
        latency_mean_ns: latency(pdus.latency.mean_ps()),
        latency_max_ns: latency(pdus.latency.most),
    }
}

fn host_outcome(name: &str, host: &HostReport) -> HostOutcome {
    let all = host.stats.iter();
    let sum = |count: fn(&AdapterStats) -> u64| all.clone().map(count).sum();
    let mut discarded_cells = BTreeMap::new();
    for (reason, cells) in all.clone().flat_map(|stats| stats.cells_discarded.iter()) {
        if cells > 0 {
            *discarded_cells
                .entry(reason.name().to_string())
                .or_default() += cells;
        }
    }
    HostOutcome {
        name: name.to_owned(),
        fifo_overflow_cells: host.counts.overflowed,
        steps: host.counts.steps,
        interrupts: host.counts.interrupts,
        received_cells: sum(|stats| stats.cells_received),
        delivered_cells: sum(|stats| stats.cells_delivered),
        transmitted_cells: sum(|stats| stats.cells_transmitted),
        events: sum(|stats| stats.events),
        events_lost: sum(|stats| stats.events_lost),
        discarded_cells,
    }
}
