//! What lines and nodes have counted when a run ends.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::adapter::{AdapterStats, Discard, Receive, Refusal, Room, VcInfo};
use cellgate_core::contract::CellRate;
use cellgate_core::wire::VpiVci;

use crate::world::host::{HostCounts, RestCounts, VcAccount};
use crate::world::line::LineCounts;
use crate::world::run::World;
use crate::world::streams::{Film, PlayerReport};
use crate::world::{Line, Ps, SwitchOutcome};

/// A run in numbers, as its parts have counted.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// When the last thing happened.
    pub(crate) ended: Ps,
    /// Turns.
    pub(crate) events: u64,
    pub(crate) hash: u64,
    pub(crate) lines: Vec<LineReport>,
    pub(crate) switches: Vec<SwitchOutcome>,
    pub(crate) sources: Vec<SourceReport>,
    pub(crate) streams: Vec<StreamReport>,
    pub(crate) hosts: Vec<HostReport>,
}

/// A line.
#[derive(Debug)]
pub(crate) struct LineReport {
    /// Names of the nodes where it begins and ends.
    pub(crate) ends: [String; 2],
    pub(crate) counts: LineCounts,
    /// Cells on their way.
    pub(crate) in_flight: usize,
    /// Addresses of the cells that a fault met, and of those it made.
    pub(crate) met: BTreeSet<VpiVci>,
    /// Until when a fault has held it, the last time.
    pub(crate) held_until: Ps,
}

/// A source.
#[derive(Debug)]
pub(crate) struct SourceReport {
    /// PDUs begun.
    pub(crate) begun: u64,
    /// PDUs of which the last cell was sent, or that an adapter has.
    pub(crate) sent: u64,
    pub(crate) cells: u64,
    /// SDUs that had to wait for room at the adapter.
    pub(crate) waited: u64,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct StreamReport {
    /// PDUs that were handed over, and times that one found no room.
    pub(crate) sent: u64,
    pub(crate) waited: u64,
    pub(crate) player: PlayerReport,
}

/// A host.
#[derive(Debug)]
pub(crate) struct HostReport {
    pub(crate) counts: HostCounts,
    pub(crate) rests: RestCounts,
    /// Of all VCs that its adapter has had.
    pub(crate) accounts: Vec<VcAccount>,
    /// Cells on its lines that no VC has sent.
    pub(crate) answers: u64,
    /// Of all adapters that it has had, the present one last.
    pub(crate) stats: Vec<AdapterStats>,
    /// Cells in FIFOs.
    pub(crate) waiting: u64,
    /// Cells that found a FIFO full, or no adapter, by their address.
    pub(crate) overflowed: BTreeMap<VpiVci, u64>,
    /// The last counters of VCs that were closed, with their connections.
    pub(crate) closed: Vec<(u32, VcInfo)>,
    /// How the host itself has opened what it receives, by connection.
    pub(crate) receives: BTreeMap<u32, Receive>,
    /// The longest that its adapter has stood still.
    pub(crate) stood_still: Ps,
    /// Connections whose PDUs in progress were given up for new memory, or could have been.
    pub(crate) cut: BTreeSet<u32>,
    /// Connections whose end here belongs to somebody who writes where it should not.
    pub(crate) lawless: BTreeSet<u32>,
    pub(crate) ports: Vec<PortReport>,
    /// Connections whose readers have found descriptors that cannot be, and are no liars.
    pub(crate) faulty: Vec<u32>,
    /// Connections whose readers sleep though PDUs wait that events tell them of.
    pub(crate) dozing: Vec<u32>,
    pub(crate) refusals: Vec<Refusal>,
    /// VCs and commands that have not ended.
    pub(crate) open: usize,
    /// What its adapter had to give at first, and has.
    pub(crate) room: [Room; 2],
    /// Times that clients have run, and were told to.
    pub(crate) runs: u64,
    pub(crate) told: u64,
    /// Cells that the reference has compared.
    pub(crate) judged_cells: u64,
    /// Events that clients have taken, by kind.
    pub(crate) seen: [u64; 6],
    /// Clients whose event queues, and doorbells, have come round.
    pub(crate) rounds: [u64; 2],
    /// What its clock says, in nanoseconds.
    pub(crate) clock_ns: u64,
}

/// A port of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortReport {
    /// The line that leads away.
    pub(crate) output: usize,
    /// The most cells that all VCs together could make good at once, and one of each.
    pub(crate) late: u64,
    /// The most steps in a row that could send no more.
    pub(crate) full: u64,
}

impl HostReport {
    /// Whether its adapters have ever discarded a cell for this reason.
    pub(crate) fn has_discarded(&self, reason: Discard) -> bool {
        let mut all = self.stats.iter();
        all.any(|stats| stats.cells_discarded.of(reason) > 0)
    }

    /// The rate by which a connection is policed here.
    pub(crate) fn policed_rate(&self, connection: u32) -> Option<CellRate> {
        let receive = self.receives.get(&connection)?;
        let sustained = receive.sustained.map(|sustained| sustained.rate);
        sustained.or(receive.rate)
    }

    /// How early a cell of a connection may be that is received here.
    pub(crate) fn cdvt(&self, connection: u32) -> Ps {
        let receive = self.receives.get(&connection);
        Ps::from_ns(receive.map_or(0, |receive| receive.cdvt_ns))
    }

    /// The port that leads to a line: what is due there could ever wait for cells of others, and
    /// for steps in a row that could send no more.
    pub(crate) fn before(&self, line: usize) -> (u64, u64) {
        let mut ports = self.ports.iter().filter(|port| port.output == line);
        ports.next().map_or((0, 0), |port| (port.late, port.full))
    }
}

impl From<&Line> for LineReport {
    fn from(line: &Line) -> Self {
        Self {
            ends: line.ends().clone(),
            counts: line.counts(),
            in_flight: line.in_flight(),
            met: line.met().collect(),
            held_until: line.held_until(),
        }
    }
}

impl World {
    /// What its parts have counted so far is written down.
    pub(in crate::world) fn reports(&mut self) {
        let sources = (0..self.sources.len()).map(|n| {
            let source = self.source(n);
            SourceReport {
                begun: source.begun,
                sent: source.sent,
                cells: source.cells_sent,
                waited: source.waited,
            }
        });
        let sources = sources.collect();
        let films = self.hosts.iter().flat_map(|host| &host.films);
        let mut films: Vec<(&u32, &Film)> = films.collect();
        films.sort_by_key(|(stream, _)| **stream);
        let streams = films.into_iter().filter_map(|(_, film)| {
            let to = self.net.plan.connections[film.connection as usize].to;
            Some(StreamReport {
                sent: film.sent,
                waited: film.waited,
                player: self.hosts[to].players.get(&film.connection)?.report(),
            })
        });
        let streams = streams.collect();
        let switches = self.switches.iter().map(|switch| SwitchOutcome {
            name: switch.name().to_owned(),
            unrouted_cells: switch.unrouted(),
            outputs: switch.counts().collect(),
        });
        let now = self.net.now;
        self.net.log.report = Report {
            ended: now,
            events: self.events,
            hash: self.net.hash,
            lines: self.net.lines.iter().map(LineReport::from).collect(),
            switches: switches.collect(),
            sources,
            streams,
            hosts: self
                .hosts
                .iter_mut()
                .map(|host| host.reports(now))
                .collect(),
        };
    }
}
