//! Rings, their stations, and what is sent there.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::upper::msna::Notify;

use super::{At, Found};
use crate::world::fault::{FaultSpec, Whom};
use crate::world::scenario::{
    AssociationSpec, Interface, Load, RingHarm, RingSpec, Scenario, SlotEffect, StationHarm,
    StationSpec, TrafficSpec,
};

pub(super) const RINGS_MAX: usize = 64;
pub(super) const STATIONS_MAX: usize = 256;
pub(super) const ASSOCIATIONS_MAX: usize = 4_096;
const PLACES: u32 = crate::cbn::RingSpec::PAPER.places;
const ROTATION_NS: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000;
const SLOTS_MAX: u64 = 1 << 16;
/// Slots that pass stations, in all.
const VISITS_MAX: u64 = 1 << 36;
const FIFO_MAX: u32 = 1 << 16;
const VCI_MAX: u16 = 4_096;
const CALL_S_MAX: u32 = 10_000;
const BLOCK_S_MAX: u32 = 1_000_000;
/// Bits of a slot.
const BITS: u16 = cellgate_core::wire::SLOT_BITS as u16;
const FALSE_NS_MIN: u64 = 100;
const CPU_HZ: std::ops::RangeInclusive<u32> = 100_000..=u32::MAX;

/// The numbers of what has names.
struct Named<'a> {
    rings: BTreeMap<&'a str, &'a RingSpec>,
    stations: BTreeMap<&'a str, &'a StationSpec>,
    associations: BTreeMap<&'a str, &'a AssociationSpec>,
}

pub(super) fn check(scenario: &Scenario, found: &mut Found<'_>) {
    let named = names(scenario, found);
    faults(scenario, &named, found);
    if scenario.rings.is_empty() {
        let nothing = scenario.stations.is_empty()
            && scenario.associations.is_empty()
            && scenario.traffic.is_empty()
            && scenario.bridges.is_empty();
        let what = "stations, associations, traffic and bridges are those of rings";
        found.due(At::Whole, nothing, what);
        return;
    }
    let is_alone = scenario.hosts.is_empty()
        && scenario.links.is_empty()
        && scenario.switches.is_empty()
        && scenario.connections.is_empty()
        && scenario.sources.is_empty()
        && scenario.streams.is_empty()
        && scenario.servers.is_empty()
        && scenario.applications.is_empty()
        && scenario.transfers.is_empty();
    let what = "rings have stations, and no hosts, links or what is theirs beside them";
    found.due(At::Whole, is_alone, what);
    for (n, ring) in scenario.rings.iter().enumerate() {
        one_ring(scenario, ring, |is_so, what| {
            found.due(At::Ring(n), is_so, what)
        });
    }
    stations(scenario, &named, found);
    associations(scenario, &named, found);
    for (n, traffic) in scenario.traffic.iter().enumerate() {
        self::traffic(traffic, At::Traffic(n), scenario, &named, found);
    }
    bridges(scenario, &named, found);
}

fn names<'a>(scenario: &'a Scenario, found: &mut Found<'_>) -> Named<'a> {
    let mut named = Named {
        rings: BTreeMap::new(),
        stations: BTreeMap::new(),
        associations: BTreeMap::new(),
    };
    for (n, ring) in scenario.rings.iter().enumerate() {
        if named.rings.insert(&ring.name, ring).is_some() {
            found.twice(At::Ring(n), &ring.name);
        }
    }
    for (n, station) in scenario.stations.iter().enumerate() {
        if named.stations.insert(&station.name, station).is_some() {
            found.twice(At::Station(n), &station.name);
        }
    }
    for (n, one) in scenario.associations.iter().enumerate() {
        if named.associations.insert(&one.name, one).is_some() {
            found.twice(At::Association(n), &one.name);
        }
    }
    named
}

fn one_ring(scenario: &Scenario, ring: &RingSpec, mut due: impl FnMut(bool, &str)) {
    let fits = ROTATION_NS.contains(&ring.rotation_ns);
    due(fits, "rotation_ns is 1000 to 10^9");
    let slots = u64::from(ring.frames) * u64::from(ring.channels);
    let fits = (1..=SLOTS_MAX).contains(&slots) && ring.channels <= 16;
    due(fits, "it has 1 to 2^16 slots, and 16 channels at most");
    let here = scenario.stations.iter();
    let here = here.filter(|one| one.ring == ring.name).count() as u64;
    let rotations = scenario.duration_ns / ring.rotation_ns.max(1) + 1;
    let visits = rotations.saturating_mul(slots).saturating_mul(here);
    due(visits <= VISITS_MAX, "at most 2^36 slots pass its stations");
}

fn stations(scenario: &Scenario, named: &Named<'_>, found: &mut Found<'_>) {
    let mut places = BTreeSet::new();
    for (n, station) in scenario.stations.iter().enumerate() {
        let at = At::Station(n);
        let ring = named.rings.get(&*station.ring).copied();
        let ring = found.known(at, &station.ring, ring);
        found.due(at, station.at < PLACES, "places are 0 to 255");
        let is_first = places.insert((&station.ring, station.at));
        found.due(at, is_first, "another station is at its place");
        if let Some(ring) = ring {
            let is_there = station.channel < ring.channels;
            found.due(at, is_there, "its ring has no such channel");
        }
        let fits = CPU_HZ.contains(&station.cpu_hz);
        found.due(at, fits, "cpu_hz is at least 100000");
        found.due(at, station.stage <= 3, "stage is 0 to 3");
        let fits = station.dally_ns <= 1_000_000_000;
        found.due(at, fits, "dally_ns is at most 10^9");
        let fits = (2..=FIFO_MAX).contains(&station.fifo_cells);
        found.due(at, fits, "fifo_cells is 2 to 65536");
        let is_dma = station.interface == Interface::V1sDma;
        found.due(at, station.lock || is_dma, "only v1s-dma has a bus to lock");
    }
}

fn associations(scenario: &Scenario, named: &Named<'_>, found: &mut Found<'_>) {
    let mut receivers = BTreeMap::new();
    for (n, one) in scenario.associations.iter().enumerate() {
        let at = At::Association(n);
        let ends = [&one.from, &one.to];
        let ends = ends.map(|name| found.known(at, name, named.stations.get(&**name).copied()));
        let fits = (1..=VCI_MAX).contains(&one.vci);
        found.due(at, fits, "vci is 1 to 4096: 0 is an empty slot's");
        let [Some(from), Some(to)] = ends else {
            continue;
        };
        found.due(
            at,
            from.name != to.name,
            "it leads from a station to another",
        );
        let is_one = from.ring == to.ring;
        found.due(at, is_one, "its stations are on two rings");
        let is_first = receivers.insert((&to.ring, one.vci), &to.name).is_none();
        found.due(at, is_first, "its vci has a receiver");
    }
}

fn traffic(
    spec: &TrafficSpec,
    at: At,
    scenario: &Scenario,
    named: &Named<'_>,
    found: &mut Found<'_>,
) {
    let (start, stop) = (spec.start_ns, spec.stop_ns);
    let fits = start <= scenario.duration_ns && stop <= scenario.duration_ns;
    found.due(at, fits, "start_ns and stop_ns are within duration_ns");
    if let Load::False { every_ns, channels } = spec.load {
        let station = named.stations.get(&*spec.on).copied();
        let station = found.known(at, &spec.on, station);
        let is_plain = spec.octets.is_empty() && spec.blocks == 0;
        found.due(at, is_plain, "false traffic has no blocks");
        found.due(at, every_ns >= FALSE_NS_MIN, "every_ns is at least 100");
        let ring = station.and_then(|one| named.rings.get(&*one.ring));
        let is_there = ring.is_none_or(|ring| (1..=ring.channels).contains(&channels));
        found.due(at, is_there, "its ring has not so many channels");
        let is_other = |one: &TrafficSpec| {
            let is_false = matches!(one.load, Load::False { .. });
            is_false && one.on == spec.on && one != spec
        };
        let is_only = !scenario.traffic.iter().any(is_other);
        found.due(at, is_only, "a station makes false traffic of one kind");
        return;
    }
    let on = named.associations.get(&*spec.on).copied();
    let on = found.known(at, &spec.on, on);
    let most = cellgate_core::aal::mssar::block_max(cellgate_core::wire::MSSAR_RING_LEN as u8);
    let range = TrafficSpec::OCTETS_MIN..=most;
    if let Load::Blocks(blocks) = &spec.load {
        let is_plain = spec.octets.is_empty();
        found.due(at, is_plain, "blocks of a recording have their own octets");
        let fits = blocks.iter().all(|one| range.contains(&one.octets));
        found.due(at, fits, "blocks have 12 to 8160 octets each");
        let is_in_order = blocks.is_sorted_by_key(|one| one.at_ns);
        found.due(
            at,
            is_in_order,
            "its blocks are in the order of their times",
        );
        return;
    }
    let fits = !spec.octets.is_empty() && spec.octets.iter().all(|len| range.contains(len));
    found.due(
        at,
        fits,
        "octets are 12 to 8160 each, of one block at least",
    );
    match &spec.load {
        Load::Paced { block_s } => rate(*block_s, at, found),
        Load::OnOff {
            block_s,
            on_ns,
            off_ns,
        } => {
            rate(*block_s, at, found);
            let fits = *on_ns > 0 && *off_ns > 0;
            found.due(at, fits, "on_ns and off_ns are at least 1");
        }
        Load::Ping { back } => drop(there_and_back((spec, on), back, at, named, found)),
        Load::Rpc {
            back,
            call_s,
            work_ns,
        } => {
            let fits = (1..=CALL_S_MAX).contains(call_s);
            found.due(at, fits, "call_s is 1 to 10000");
            let fits = *work_ns <= 1_000_000_000;
            found.due(at, fits, "work_ns is at most 10^9");
            let Some([on, back]) = there_and_back((spec, on), back, at, named, found) else {
                return;
            };
            let hears = [on, back].iter().all(|one| one.notify == Notify::Every);
            found.due(at, hears, "nodes hear of every cell: notify is every");
            for one in [on, back] {
                let is_its = users(scenario, &one.name) == 1;
                found.due(at, is_its, "its associations are for nothing else");
            }
        }
        Load::Greedy | Load::Blocks(_) | Load::False { .. } => {}
    }
}

/// The association of traffic, and the one on which it comes back.
fn there_and_back<'a>(
    (spec, on): (&TrafficSpec, Option<&'a AssociationSpec>),
    back: &str,
    at: At,
    named: &Named<'a>,
    found: &mut Found<'_>,
) -> Option<[&'a AssociationSpec; 2]> {
    let back = named.associations.get(back).copied();
    let back = found.known(at, &spec.on, back);
    let (on, back) = on.zip(back)?;
    let is_back = on.from == back.to && on.to == back.from;
    found.due(at, is_back, "it does not come back to its sender");
    Some([on, back])
}

/// Whether a station's host has a node.
fn has_node(scenario: &Scenario, station: &str) -> bool {
    scenario.traffic.iter().any(|one| {
        let is_rpc = matches!(one.load, Load::Rpc { .. });
        let mut on = scenario.associations.iter();
        let on = on.find(|circuit| circuit.name == one.on);
        is_rpc && on.is_some_and(|on| on.from == station || on.to == station)
    })
}

/// How much traffic, and how many bridges, use an association.
fn users(scenario: &Scenario, name: &str) -> usize {
    let traffic = scenario.traffic.iter().filter(|one| match &one.load {
        Load::Ping { back } | Load::Rpc { back, .. } => one.on == name || back == name,
        Load::False { .. } => false,
        _ => one.on == name,
    });
    let bridges = scenario.bridges.iter();
    let bridges = bridges.filter(|one| one.from == name || one.to == name);
    traffic.count() + bridges.count()
}

fn rate(block_s: u32, at: At, found: &mut Found<'_>) {
    let fits = (1..=BLOCK_S_MAX).contains(&block_s);
    found.due(at, fits, "block_s is 1 to 10^6");
}

fn bridges(scenario: &Scenario, named: &Named<'_>, found: &mut Found<'_>) {
    let mut from = BTreeSet::new();
    for (n, bridge) in scenario.bridges.iter().enumerate() {
        let at = At::Bridge(n);
        let ends = [&bridge.from, &bridge.to];
        let ends = ends.map(|name| found.known(at, name, named.associations.get(&**name).copied()));
        found.due(at, from.insert(&bridge.from), "its blocks go on elsewhere");
        let goes = |name: &str| {
            let mut bridges = scenario.bridges.iter();
            bridges.find(|one| one.from == name).map(|one| &*one.to)
        };
        let mut next = Some(&*bridge.to);
        for _ in 0..scenario.bridges.len() {
            next = next.and_then(goes);
        }
        found.due(at, next.is_none(), "its blocks would go round for ever");
        let carries = |name: &str| scenario.traffic.iter().any(|one| one.on == name);
        found.due(
            at,
            !carries(&bridge.to),
            "who else sends on it is not told apart",
        );
        if let [Some(from), Some(to)] = ends {
            found.due(
                at,
                from.to != to.from,
                "it is one station, which needs no bridge",
            );
        }
    }
}

fn faults(scenario: &Scenario, named: &Named<'_>, found: &mut Found<'_>) {
    for (n, fault) in scenario.faults.iter().enumerate() {
        let at = At::Fault(n);
        match fault.whom() {
            Whom::Ring(name) => {
                let ring = named.rings.get(name).copied();
                let Some(ring) = found.known(at, name, ring) else {
                    continue;
                };
                if let FaultSpec::Ring {
                    harm: RingHarm::SlotStuck { frame, channel },
                    ..
                } = fault
                {
                    let is_there = *frame < ring.frames;
                    found.due(at, is_there, "its ring has no such frame");
                    let is_there = *channel < ring.channels;
                    found.due(at, is_there, "its ring has no such channel");
                }
                let FaultSpec::Slot {
                    frame,
                    channel,
                    effect,
                    ..
                } = fault
                else {
                    continue;
                };
                let is_there = *frame < ring.frames;
                found.due(at, is_there, "its ring has no such frame");
                let is_there = channel.is_none_or(|channel| channel < ring.channels);
                found.due(at, is_there, "its ring has no such channel");
                if let SlotEffect::Flip { bit } = effect {
                    found.due(at, *bit < BITS, "bits are 0 to 289");
                    found.due(at, channel.is_some(), "a bit is that of one channel's slot");
                }
            }
            Whom::Station(name) => {
                found.known(at, name, named.stations.get(name).copied());
                let is_of_node = match fault {
                    FaultSpec::Station { harm, .. } => *harm == StationHarm::NodeKilled,
                    FaultSpec::Messages { every, .. } => {
                        found.due(at, *every > 0, "every is at least 1");
                        true
                    }
                    _ => false,
                };
                let has_node = !is_of_node || has_node(scenario, name);
                found.due(at, has_node, "no node is there: none calls, nor is called");
                if let FaultSpec::Station {
                    harm: StationHarm::Reset,
                    for_ns,
                    ..
                } = fault
                {
                    found.due(at, *for_ns == 0, "a reset takes no time: for_ns is 0");
                }
            }
            Whom::Link(_) | Whom::Host(_) | Whom::Connection(_) => {
                let is_right = scenario.rings.is_empty();
                found.due(
                    at,
                    is_right,
                    "rings have faults of slots, rings and stations",
                );
            }
        }
    }
}
