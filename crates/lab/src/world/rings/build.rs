//! From a scenario to networks, and what happens to them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use super::application::{Application, Route, Sender, Then};
use super::node::{self, Caller, Harm, Node, NodeSpec};
use super::scenario::{
    BridgeBy, Interface, Load, MessageKind, RingHarm, RingSpec, SlotEffect, StationHarm,
    StationSpec,
};
use crate::cbn::{self, CbnBug, Presence, SlotHarm};
use crate::machine::v1s::{Dma, FalseTraffic, HostCosts, HostSpec, Network, Seat, V1sSpec};
use crate::world::Ps;
use crate::world::fault::FaultSpec;
use crate::world::scenario::Scenario;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Slot(SlotHarm),
    Reset(usize),
    Presence(usize, Presence),
    /// Interrupts are lost, or heard again.
    Unheard(usize, bool),
    /// A host does nothing until then.
    Stop(usize, Ps),
    /// A node is dead until then.
    NodeDies(usize, Ps),
}

/// The places of what a scenario names: of stations by ring, in the order of their places.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The stations of each ring: numbers in the scenario, in the order of places.
    pub(super) seated: Vec<Vec<usize>>,
    /// The ring of each station, and its number there.
    pub(super) seats: Vec<(usize, usize)>,
    pub(super) routes: Vec<Route>,
    /// What happens, by time, and on which ring.
    pub(super) actions: VecDeque<(Ps, usize, Action)>,
}

impl Plan {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let rings = scenario.rings.iter().map(|ring| {
            let stations = scenario.stations.iter().enumerate();
            let here = stations.filter(|(_, one)| one.ring == ring.name);
            let mut here: Vec<usize> = here.map(|(n, _)| n).collect();
            here.sort_by_key(|n| scenario.stations[*n].at);
            here
        });
        let seated: Vec<Vec<usize>> = rings.collect();
        let mut seats = vec![(0, 0); scenario.stations.len()];
        for (ring, here) in seated.iter().enumerate() {
            for (seat, station) in here.iter().enumerate() {
                seats[*station] = (ring, seat);
            }
        }
        let routes = (0..).zip(&scenario.associations).map(|(association, one)| {
            let to = station(scenario, &one.to);
            Route {
                association,
                vci: one.vci,
                channel: scenario.stations[to].channel,
            }
        });
        let mut plan = Self {
            routes: routes.collect(),
            seated,
            seats,
            actions: VecDeque::new(),
        };
        plan.actions = plan.actions(scenario);
        plan
    }

    fn actions(&self, scenario: &Scenario) -> VecDeque<(Ps, usize, Action)> {
        let mut all = Vec::new();
        for fault in &scenario.faults {
            match fault {
                FaultSpec::Slot {
                    ring,
                    at_ns,
                    frame,
                    channel,
                    effect,
                } => {
                    let harm = slot_harm(*frame, *channel, *effect);
                    let ring = self::ring(scenario, ring);
                    all.push((Ps::from_ns(*at_ns), ring, Action::Slot(harm)));
                }
                FaultSpec::Ring {
                    ring,
                    at_ns,
                    for_ns,
                    harm,
                } => {
                    let ring = self::ring(scenario, ring);
                    let action = |is_on| match *harm {
                        RingHarm::SlotStuck { frame, channel } => Action::Slot(SlotHarm::Stuck {
                            frame,
                            channel,
                            is_stuck: is_on,
                        }),
                        RingHarm::Cut => Action::Slot(SlotHarm::Cut(is_on)),
                        RingHarm::MonitorDead => Action::Slot(SlotHarm::Monitored(!is_on)),
                    };
                    all.push((Ps::from_ns(*at_ns), ring, action(true)));
                    let end = Ps::from_ns(at_ns + for_ns);
                    all.push((end, ring, action(false)));
                }
                FaultSpec::Station {
                    station,
                    at_ns,
                    for_ns,
                    harm,
                } => {
                    let (ring, seat) = self.seats[self::station(scenario, station)];
                    let end = Ps::from_ns(at_ns + for_ns);
                    let (from, to) = station_harm(*harm, seat, end);
                    all.push((Ps::from_ns(*at_ns), ring, from));
                    all.extend(to.map(|to| (end, ring, to)));
                }
                _ => {}
            }
        }
        all.sort_by_key(|(at, ..)| *at);
        all.into()
    }

    /// The hosts' programs, by station.
    fn applications(&self, scenario: &Scenario, bug: Option<CbnBug>) -> Vec<Application> {
        let count = scenario.stations.len();
        let mut all: Vec<Application> = (0..count).map(|_| Application::default()).collect();
        let end = |name: &str| station(scenario, name);
        for traffic in &scenario.traffic {
            if matches!(traffic.load, Load::False { .. } | Load::Rpc { .. }) {
                continue;
            }
            let on = association(scenario, &traffic.on);
            let spec = &scenario.associations[on];
            let sender = Sender::new(self.routes[on], traffic, scenario.duration_ns);
            let sender = all[end(&spec.from)].sends(sender);
            if let Load::Ping { back } = &traffic.load {
                let back = association(scenario, back);
                let there = &mut all[end(&spec.to)];
                there.has_come(spec.vci, Then::Back(on as u32, self.routes[back]));
                let vci = self.routes[back].vci;
                all[end(&spec.from)].has_come(vci, Then::Answer(on as u32, sender));
            }
        }
        for bridge in &scenario.bridges {
            let from = &scenario.associations[association(scenario, &bridge.from)];
            let to = association(scenario, &bridge.to);
            if bridge.by == BridgeBy::Cell {
                let cells = all[end(&scenario.associations[to].from)].cells();
                all[end(&from.to)].goes_on(from.vci, self.routes[to], cells);
                continue;
            }
            let letters = all[end(&scenario.associations[to].from)].letters();
            let then = Then::On(self.routes[to], letters);
            all[end(&from.to)].has_come(from.vci, then);
        }
        self.nodes(scenario, bug, &mut all);
        all
    }

    /// The nodes of hosts that call or are called.
    fn nodes(&self, scenario: &Scenario, bug: Option<CbnBug>, all: &mut [Application]) {
        for traffic in &scenario.traffic {
            let Load::Rpc {
                back,
                call_s,
                work_ns,
            } = &traffic.load
            else {
                continue;
            };
            let on = association(scenario, &traffic.on);
            let back = association(scenario, back);
            let spec = &scenario.associations[on];
            let [from, to] = [&spec.from, &spec.to].map(|name| station(scenario, name));
            let mut node = |here: usize, there: usize, route: usize, comes: usize| {
                let own = self.node_spec(scenario, here, bug);
                let node = all[here].node.get_or_insert_with(|| Node::new(own));
                let comes = scenario.associations[comes].vci;
                node.knows(self.host(there), self.routes[route], comes);
            };
            node(from, to, on, back);
            node(to, from, back, on);
            if let Some(node) = &mut all[to].node {
                node.work = node.work.max(Ps::from_ns(*work_ns));
            }
            if let Some(node) = &mut all[from].node {
                node.callers.push(Caller {
                    association: on as u32,
                    to: self.host(to),
                    octets: traffic.octets.clone(),
                    start: Ps::from_ns(traffic.start_ns),
                    stop: Ps::from_ns(match traffic.stop_ns {
                        0 => scenario.duration_ns,
                        stop_ns => stop_ns.min(scenario.duration_ns),
                    }),
                    call_s: *call_s,
                    most: match traffic.blocks {
                        0 => u64::MAX,
                        blocks => blocks,
                    },
                    made: 0,
                });
            }
        }
        for fault in &scenario.faults {
            let FaultSpec::Messages {
                station,
                at_ns,
                for_ns,
                of,
                every,
                effect,
            } = fault
            else {
                continue;
            };
            if let Some(node) = &mut all[self::station(scenario, station)].node {
                node.harms.push(Harm {
                    from: Ps::from_ns(*at_ns),
                    until: Ps::from_ns(at_ns + for_ns),
                    is_rex: *of == MessageKind::Rex,
                    every: *every,
                    effect: *effect,
                    met: 0,
                });
            }
        }
    }

    /// A station's host, as MSNA knows it.
    fn host(&self, station: usize) -> Ipv4Addr {
        let (ring, seat) = self.seats[station];
        Ipv4Addr::new(10, ring as u8, (seat >> 8) as u8, seat as u8)
    }

    fn node_spec(&self, scenario: &Scenario, station: usize, bug: Option<CbnBug>) -> NodeSpec {
        let (_, seat) = self.seats[station];
        NodeSpec {
            host: self.host(station),
            first_vci: NODES_VCI + seat as u16 * node::CIRCUITS,
            beat: beat(scenario),
            hold: hold(scenario, &scenario.stations[station]),
            bug,
        }
    }

    pub(super) fn networks(
        &self,
        scenario: &Scenario,
        bug: Option<CbnBug>,
    ) -> Vec<Network<Application>> {
        let mut applications: BTreeMap<usize, Application> = self
            .applications(scenario, bug)
            .into_iter()
            .enumerate()
            .collect();
        let rings = scenario.rings.iter().zip(&self.seated);
        let networks = rings.map(|(ring, here)| {
            let spec = ring_spec(ring);
            let seats = here.iter().map(|n| {
                let one = &scenario.stations[*n];
                let circuits = scenario.associations.iter();
                let circuits = circuits.filter(|circuit| circuit.to == one.name);
                Seat {
                    place: one.at,
                    station: station_spec(scenario, one, &spec),
                    host: host_spec(one),
                    circuits: circuits.map(|one| (one.vci, one.notify)).collect(),
                    application: applications.remove(n).unwrap_or_default(),
                }
            });
            Network::watched(spec, seats.collect(), bug)
        });
        networks.collect()
    }
}

/// The circuits of nodes, above those of a scenario's associations.
const NODES_VCI: u16 = 4_097;

/// From a message of a node's to its repetition: ours. Within it the slowest host sends and reads a
/// block, and answers.
pub(super) fn beat(scenario: &Scenario) -> Ps {
    let slow = scenario.stations.iter().map(|one| match one.interface {
        Interface::Ideal => 0,
        Interface::V1s | Interface::V1sDma => 8_000_000 * 20_000_000 / u64::from(one.cpu_hz),
    });
    Ps::from_ns(slow.max().unwrap_or(0).max(1_000_000))
}

/// A circuit rests so long when it was closed that the last cell of the one before has come: two
/// rotations, and a FIFO, whose cells the host reads in 20 us each.
pub(super) fn hold(scenario: &Scenario, station: &StationSpec) -> Ps {
    let ring = scenario.rings.iter().find(|ring| ring.name == station.ring);
    let rotations = 2 * ring.map_or(0, |ring| ring.rotation_ns);
    Ps::from_ns(rotations + 20_000 * u64::from(station.fifo_cells))
}

/// The circuits whose cells a bridge takes at a station, or that it sends on there, cell by cell.
pub(super) fn by_cell(scenario: &Scenario, station: &str) -> BTreeSet<u16> {
    let bridges = scenario.bridges.iter();
    let bridges = bridges.filter(|bridge| bridge.by == BridgeBy::Cell);
    let circuits = bridges.flat_map(|bridge| {
        let [from, to] = [&bridge.from, &bridge.to].map(|name| association(scenario, name));
        let [from, to] = [from, to].map(|n| &scenario.associations[n]);
        let taken = (from.to == station).then_some(from.vci);
        taken
            .into_iter()
            .chain((to.from == station).then_some(to.vci))
    });
    circuits.collect()
}

/// Whether MSNL's messages go on an association.
pub(super) fn is_of_rpc(scenario: &Scenario, association: &str) -> bool {
    scenario.traffic.iter().any(|one| match &one.load {
        Load::Rpc { back, .. } => one.on == association || back == association,
        _ => false,
    })
}

/// Numbers that a checked scenario's names have.
pub(super) fn station(scenario: &Scenario, name: &str) -> usize {
    let mut all = scenario.stations.iter();
    all.position(|one| one.name == name)
        .expect("what was checked names stations")
}

pub(super) fn association(scenario: &Scenario, name: &str) -> usize {
    let mut all = scenario.associations.iter();
    let found = all.position(|one| one.name == name);
    found.expect("what was checked names associations")
}

fn ring(scenario: &Scenario, name: &str) -> usize {
    let mut all = scenario.rings.iter();
    all.position(|one| one.name == name)
        .expect("what was checked names rings")
}

fn slot_harm(frame: u32, channel: Option<u8>, effect: SlotEffect) -> SlotHarm {
    match effect {
        SlotEffect::Lose => SlotHarm::Lost { frame, channel },
        SlotEffect::Flip { bit } => SlotHarm::Flipped {
            frame,
            channel: channel.unwrap_or(0),
            bit,
        },
    }
}

/// What begins, and what ends it, if something must.
fn station_harm(harm: StationHarm, seat: usize, end: Ps) -> (Action, Option<Action>) {
    let presence = |presence| Action::Presence(seat, presence);
    let works = Some(presence(Presence::Works));
    match harm {
        StationHarm::Dead => (presence(Presence::Bypassed), works),
        StationHarm::Stopped => (presence(Presence::Repeats), works),
        StationHarm::InterruptsLost => {
            let heard = Action::Unheard(seat, false);
            (Action::Unheard(seat, true), Some(heard))
        }
        StationHarm::HostStopped => {
            let goes_on = Action::Stop(seat, Ps::ZERO);
            (Action::Stop(seat, end), Some(goes_on))
        }
        StationHarm::Reset => (Action::Reset(seat), None),
        StationHarm::NodeKilled => (Action::NodeDies(seat, end), None),
    }
}

/// The shape of a scenario's ring.
pub fn ring_spec(ring: &RingSpec) -> cbn::RingSpec {
    cbn::RingSpec {
        rotation: Ps::from_ns(ring.rotation_ns),
        frames: ring.frames,
        channels: ring.channels,
        release: ring.release,
        reuse: ring.reuse,
        outstanding: ring.outstanding,
        ..cbn::RingSpec::PAPER
    }
}

pub(super) fn station_spec(
    scenario: &Scenario,
    station: &StationSpec,
    ring: &cbn::RingSpec,
) -> V1sSpec {
    let spec = V1sSpec::on(ring, station.channel);
    let false_traffic = scenario.traffic.iter().find_map(|one| match one.load {
        Load::False { every_ns, channels } if one.on == station.name => Some(FalseTraffic {
            every: Ps::from_ns(every_ns),
            channels,
            from: Ps::from_ns(one.start_ns),
            until: Ps::from_ns(match one.stop_ns {
                0 => scenario.duration_ns,
                stop_ns => stop_ns,
            }),
        }),
        _ => None,
    });
    V1sSpec {
        host_word: match station.interface {
            Interface::Ideal => Ps::ZERO,
            Interface::V1s | Interface::V1sDma => spec.host_word,
        },
        fifo: station.fifo_cells as usize,
        false_traffic,
        ..spec
    }
}

/// The costs of a host's work, which a faster CPU has in less time.
pub(super) fn costs(station: &StationSpec) -> HostCosts {
    let faster = |span: Ps| match station.interface {
        Interface::Ideal => Ps::ZERO,
        Interface::V1s | Interface::V1sDma => {
            let (paper, own) = (StationSpec::CPU_HZ, station.cpu_hz);
            Ps::new((u128::from(span.ps()) * u128::from(paper) / u128::from(own)) as u64)
        }
    };
    let paper = HostCosts::PAPER;
    HostCosts {
        transmit: faster(paper.transmit),
        receive: faster(paper.receive),
        sent_block: faster(paper.sent_block),
        received_block: faster(paper.received_block),
        stage: station.stage(),
        ..paper
    }
}

pub(super) fn host_spec(station: &StationSpec) -> HostSpec {
    HostSpec {
        costs: costs(station),
        dally: Ps::from_ns(station.dally_ns),
        order: station.order,
        dma: (station.interface == Interface::V1sDma).then_some(Dma {
            locks: station.lock,
            ..Dma::PAPER
        }),
    }
}
