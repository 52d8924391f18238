//! A scenario becomes a world.

use std::collections::BTreeSet;
use std::rc::Rc;

use cellgate_core::adapter::{Config, Planted};
use cellgate_core::contract::{Aal, AbrPlanted, charging};
use cellgate_core::queue;
use cellgate_core::terminal::video::Camera;

use super::canary::Canary;
use super::check::{Checked, Refusals, Room, checked};
use super::host::{Host, Wires};
use super::net::Net;
use super::plan::{Connection, Plan};
use super::run::World;
use super::scenario::{FaultSpec, Scenario, Traffic};
use super::servers::ServerBug;
use super::source::Source;
use super::streams::{Bugs, Film, Player, StreamBug};
use super::topology::lines;
use super::{FileBug, Line, Ps};
use crate::cbn::CbnBug;

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
    /// A bug in terminals that move files.
    pub file_bug: Option<FileBug>,
    /// A bug in streams of video.
    pub stream_bug: Option<StreamBug>,
    /// A bug in sources and destinations of ABR.
    pub abr_bug: Option<AbrPlanted>,
    /// A bug in how slots are counted, charged and compared.
    pub charge_bug: Option<charging::Planted>,
    /// A bug in rings, their stations and hosts.
    pub cbn_bug: Option<CbnBug>,
}

impl World {
    /// The world of a scenario, at its beginning.
    pub fn new(scenario: &Scenario, options: Options) -> Result<Self, Refusals> {
        let checked = checked(scenario)?;
        let mut lines = lines(scenario);
        if options.canary == Some(Canary::LineLong) {
            lines.iter_mut().for_each(Line::prolong);
        }
        let mut hosts = hosts(&checked, &lines, options);
        let steps = |node: &Host| (node.orders() as u64 + 4) * node.spec.step_ns;
        let hosts_ns = hosts.iter().map(steps).max().unwrap_or(0);
        let (topology, owners) = (&checked.topology, &checked.owners);
        let opened = Ps::from_ns(hosts_ns + owners.begin_ns(scenario, &topology.ports));
        let mut connections = checked.connections;
        let of_sources = (&mut connections[..], &checked.sources[..]);
        let sources = sources(scenario, of_sources, &lines, opened);
        let of_streams = (&checked.streams[..], scenario);
        let options_at = (opened, options);
        streams(
            of_streams,
            &mut connections,
            (&mut hosts, &lines),
            options_at,
        );
        owners.settle(scenario, &connections, &mut hosts, options.server_bug);
        for (n, change) in &checked.changes {
            hosts[change.host].changes.insert(*n, *change);
        }
        let (places, switches) = topology.wired(scenario, &connections);
        let plan = Plan {
            connections,
            sources,
            places,
            cells: lines.iter().map(Line::cell).collect(),
            changes: checked.changes,
            served: owners.ends().to_vec(),
            hosts_opened: Ps::from_ns(hosts_ns),
            opened,
        };
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
            switches,
            hosts,
            net: Net::new(plan, lines, options),
            events: 0,
            events_max: checked.events_max,
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

/// The hosts, with what they open in the beginning.
fn hosts(checked: &Checked<'_>, lines: &[Line], options: Options) -> Vec<Host> {
    let (scenario, topology) = (checked.scenario, &checked.topology);
    let specs = scenario.hosts.iter().enumerate();
    let hosts = specs.map(|(host, spec)| {
        let ports = topology.ports[host].iter();
        let ports = ports.map(|&(input, output)| Wires {
            input,
            output,
            rate: lines[output].rate(),
            space: 0,
        });
        let Room {
            clients,
            vcs,
            served,
        } = checked.rooms[host];
        let room = (clients, vcs, blocks(checked, host));
        let number = host as u32;
        let node = Host::new(number, spec.clone(), ports.collect(), room, served, options);
        node.expect("what an adapter refuses was checked")
    });
    let mut hosts: Vec<Host> = hosts.collect();
    for (host, opening) in &checked.openings {
        hosts[*host].open(*opening);
    }
    // The reference knows nothing of ABR, which has one of its own.
    let abr = checked.connections.iter().filter(|one| one.is_abr());
    for host in abr.flat_map(|one| [one.from, one.to]) {
        hosts[host].let_go();
        hosts[host].has_abr();
    }
    for host in &checked.attacked.hosts {
        hosts[*host].let_go();
    }
    for (n, sends) in &checked.attacked.applications {
        let connection = &checked.connections[*n];
        let (host, line) = connection.end(!sends);
        let port = topology.port_of(host, line);
        hosts[host].is_lied_to_at((port, connection.address), *n as u32);
    }
    hosts
}

/// Blocks of addresses, port by port, in which a host's VCs can be.
fn blocks(checked: &Checked<'_>, host: usize) -> usize {
    let mut blocks = BTreeSet::new();
    for connection in &checked.connections {
        let lines = [
            connection.path.first().filter(|_| connection.from == host),
            connection.path.last().filter(|_| connection.to == host),
        ];
        for line in lines.into_iter().flatten() {
            blocks.insert((line / 2, connection.address.bits() >> Config::BLOCK_BITS));
        }
    }
    let name = &checked.scenario.hosts[host].name;
    let mut guests = checked.scenario.faults.iter();
    let has_guests = guests.any(|fault| match fault {
        FaultSpec::Guests { host, .. } => host == name,
        _ => false,
    });
    blocks.len() + if has_guests { GUEST_BLOCKS } else { 0 }
}

/// The ends of streams, each at its host.
fn streams(
    (checked, scenario): (&[usize], &Scenario),
    connections: &mut [Connection],
    (hosts, lines): (&mut [Host], &[Line]),
    (opened, options): (Ps, Options),
) {
    let bugs = Bugs(options.stream_bug.and_then(StreamBug::inside));
    for ((n, spec), number) in (0..).zip(&scenario.streams).zip(checked) {
        let connection = &mut connections[*number];
        connection.stream = Some((n as usize, spec.sdu_len()));
        let (number, from, to) = (*number as u32, connection.from, connection.to);
        let (start, _) = spec.span(scenario.duration_ns);
        let begun = hosts[from].time(opened.plus(start));
        let camera = Camera::new(begun, spec.camera(scenario.duration_ns));
        let pdu = spec.pdu_time(&connection.contract, lines[connection.path[0]].rate());
        let film = Film::new((number, spec), camera.clone(), pdu.ns().max(1), bugs);
        hosts[from].films.insert(n, film);
        let sender_ns = hosts[from].spec.clock_ns;
        let terms = spec.playout(&connection.contract);
        let player = Player::new(number, terms, (camera, spec.fps, sender_ns), bugs);
        hosts[to].players.insert(number, player);
    }
}

/// The sources; each is told its connection, and that who sends its PDUs.
fn sources(
    scenario: &Scenario,
    (connections, numbers): (&mut [Connection], &[usize]),
    lines: &[Line],
    opened: Ps,
) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut sdus: Rc<[u16]> = Rc::default();
    for (spec, number) in scenario.sources.iter().zip(numbers) {
        let to = &mut connections[*number];
        // Of recorded cells nobody knows what PDUs are in them.
        if !matches!(spec.traffic, Traffic::Scan { .. } | Traffic::Cells(_)) {
            to.sender = Some(sources.len());
        }
        let (start, stop) = spec.span(scenario.duration_ns);
        let span = [start, stop].map(|at| opened.plus(at));
        let line = to.path[0];
        // Thousands that send the like share one list of SDUs, which stays in the cache.
        if *sdus != *spec.sdus {
            sdus = spec.sdus.as_slice().into();
        }
        sources.push(Source::new(
            (spec, Rc::clone(&sdus)),
            (
                *number as u32,
                to.address,
                to.contract.aal.unwrap_or(Aal::Aal5),
            ),
            (span[0], span[1]),
            (line, lines[line].cell()),
        ));
    }
    sources
}
