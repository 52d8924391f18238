//! Rings: a few stations or many, what they send, and what happens to slots, stations and hosts.

use cellgate_core::upper::msna::Notify;

use crate::cbn::{Release, Reuse};
use crate::generate::Draw;
use crate::machine::v1s::Order;
use crate::world::fault::FaultSpec;
use crate::world::scenario::{
    AssociationSpec, BridgeBy, BridgeSpec, Interface, Load, MessageEffect, MessageKind, RingHarm,
    RingSpec, Scenario, SlotEffect, StationHarm, StationSpec, TrafficSpec,
};

const SIZES: [u16; 8] = [12, 31, 32, 33, 64, 300, 1_500, 8_160];

pub(super) fn scenario(draw: &mut Draw) -> Scenario {
    if draw.percent(20) {
        return calls(draw);
    }
    let duration_ns = draw.between(1_000_000, 4_000_000);
    let mut scenario = Scenario {
        duration_ns,
        ..Scenario::default()
    };
    let rings = if draw.percent(15) { 2 } else { 1 };
    for n in 0..rings {
        ring(draw, &mut scenario, n);
    }
    for n in 0..draw.between(2, 9) {
        association(draw, &mut scenario, n as u16);
    }
    if rings == 2 {
        bridge(draw, &mut scenario);
    }
    for n in 0..scenario.associations.len() {
        traffic(draw, &mut scenario, n);
    }
    if draw.percent(25) {
        false_traffic(draw, &mut scenario);
    }
    if draw.percent(55) {
        scenario.heal_ns = duration_ns * 6 / 10;
        for _ in 0..draw.between(1, 8) {
            let fault = fault(draw, &scenario);
            scenario.faults.push(fault);
        }
    }
    scenario
}

/// Nodes that call each other, on a ring that has little else to carry.
fn calls(draw: &mut Draw) -> Scenario {
    let duration_ns = draw.between(12_000_000, 24_000_000);
    let mut scenario = Scenario {
        duration_ns,
        ..Scenario::default()
    };
    ring(draw, &mut scenario, 0);
    scenario.stations.truncate(4);
    for station in &mut scenario.stations {
        station.cpu_hz = station.cpu_hz.max(100_000_000);
        station.fifo_cells = station.fifo_cells.max(40);
    }
    let count = scenario.stations.len();
    for n in 0..draw.between(1, 3) {
        let from = draw.below(count as u64) as usize;
        let to = (from + 1 + draw.below(count as u64 - 1) as usize) % count;
        let name = |n: usize| scenario.stations[n].name.clone();
        let circuit = |what: &str, from, to, vci| AssociationSpec {
            name: format!("{what}{n}"),
            from: name(from),
            to: name(to),
            vci,
            notify: Notify::Every,
        };
        let vci = 2 * n as u16 + 1;
        let both = [
            circuit("call", from, to, vci),
            circuit("back", to, from, vci + 1),
        ];
        let load = Load::Rpc {
            back: both[1].name.clone(),
            call_s: draw.pick(&[50, 200, 500, 1_500]),
            work_ns: draw.pick(&[0, 100_000, 2_000_000]),
        };
        let octets = [draw.pick(&[12, 64, 300]), draw.pick(&[12, 480, 1_500])];
        let start_ns = draw.below(duration_ns / 4);
        scenario.traffic.push(TrafficSpec {
            start_ns,
            ..TrafficSpec::on(&both[0].name, load, &octets)
        });
        scenario.associations.extend(both);
    }
    if draw.percent(80) {
        scenario.heal_ns = duration_ns * 4 / 10;
        if draw.percent(35) {
            let fault = mild_fault(draw, &scenario);
            scenario.faults.push(fault);
            return scenario;
        }
        for _ in 0..draw.between(1, 6) {
            let fault = match draw.percent(75) {
                true => fault_of_node(draw, &scenario),
                false => fault(draw, &scenario),
            };
            scenario.faults.push(fault);
        }
    }
    scenario
}

/// Some of REX's messages are lost or late for less than two of its beats.
fn mild_fault(draw: &mut Draw, scenario: &Scenario) -> FaultSpec {
    let circuit = draw.below(scenario.associations.len() as u64) as usize;
    FaultSpec::Messages {
        station: scenario.associations[circuit].from.clone(),
        at_ns: draw.below(scenario.heal_ns - 1_900_000),
        for_ns: draw.between(300_000, 1_500_000),
        of: MessageKind::Rex,
        every: draw.pick(&[1, 1, 2]),
        effect: draw.pick(&[
            MessageEffect::Lose,
            MessageEffect::Lose,
            MessageEffect::Late { ns: 400_000 },
        ]),
    }
}

fn fault_of_node(draw: &mut Draw, scenario: &Scenario) -> FaultSpec {
    let heal_ns = scenario.heal_ns;
    let circuit = draw.below(scenario.associations.len() as u64) as usize;
    let station = scenario.associations[circuit].from.clone();
    let for_ns = draw.between(heal_ns / 20, heal_ns / 2);
    let ns = draw.between(20_000, heal_ns / 3);
    let at_ns = draw.below(heal_ns - for_ns - ns + 1);
    if draw.percent(30) {
        return FaultSpec::Station {
            station,
            at_ns,
            for_ns: draw.between(10_000, for_ns),
            harm: StationHarm::NodeKilled,
        };
    }
    FaultSpec::Messages {
        station,
        at_ns,
        for_ns,
        of: draw.pick(&[MessageKind::Msnl, MessageKind::Rex, MessageKind::Rex]),
        every: draw.pick(&[1, 1, 2, 3]),
        effect: draw.pick(&[
            MessageEffect::Lose,
            MessageEffect::Double { ns },
            MessageEffect::Double { ns },
            MessageEffect::Late { ns },
        ]),
    }
}

fn ring(draw: &mut Draw, scenario: &mut Scenario, n: usize) {
    let name = format!("r{n}");
    let mut ring = RingSpec::named(&name);
    ring.frames = draw.pick(&[7, 7, 7, 1, 3]);
    ring.channels = draw.pick(&[4, 4, 1, 2]);
    ring.release = draw.pick(&[
        Release::Source,
        Release::Source,
        Release::Source,
        Release::Destination,
    ]);
    ring.reuse = draw.pick(&[
        Reuse::PassedOn,
        Reuse::PassedOn,
        Reuse::PassedOn,
        Reuse::AtOnce,
    ]);
    ring.outstanding = draw.pick(&[0, 0, 0, 1, 2]);
    let count = draw.pick(&[2, 3, 3, 4, 6, 10]);
    let mut places: Vec<u32> = Vec::new();
    while places.len() < count {
        let place = draw.below(256) as u32;
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let is_ideal = draw.percent(30);
    for (seat, at) in places.into_iter().enumerate() {
        let mut station = StationSpec::named(&format!("{name}s{seat}"), &name, at);
        station.channel = draw.below(ring.channels.into()) as u8;
        station.interface = match draw.below(10) {
            0..3 => Interface::V1sDma,
            3..6 if is_ideal => Interface::Ideal,
            _ => Interface::V1s,
        };
        let is_dma = station.interface == Interface::V1sDma;
        station.lock = !(is_dma && draw.percent(40));
        station.cpu_hz = draw.pick(&[20_000_000, 20_000_000, 100_000_000, 400_000_000]);
        station.stage = draw.below(4) as u8;
        station.dally_ns = draw.pick(&[0, 0, 12_000, 40_000]);
        station.order = draw.pick(&[Order::InterruptFirst, Order::InterruptFirst, Order::InTurn]);
        station.fifo_cells = draw.pick(&[256, 256, 2, 5, 12, 40]);
        scenario.stations.push(station);
    }
    scenario.rings.push(ring);
}

/// From a station to another of its ring.
fn association(draw: &mut Draw, scenario: &mut Scenario, n: u16) {
    let from = draw.below(scenario.stations.len() as u64) as usize;
    let from = &scenario.stations[from];
    let others = scenario.stations.iter();
    let others: Vec<_> = others
        .filter(|one| one.ring == from.ring && one.name != from.name)
        .collect();
    let to = others[draw.below(others.len() as u64) as usize];
    // Two in five have low octets that are another's, too.
    let high = if draw.percent(40) {
        256 * u16::from(n % 2 == 1)
    } else {
        0
    };
    let vci = 1 + high + n / 2 * 2 + if high == 0 { n % 2 } else { 0 };
    let vci = match scenario.associations.iter().any(|one| one.vci == vci) {
        true => 600 + n,
        false => vci,
    };
    let one = AssociationSpec {
        name: format!("a{n}"),
        from: from.name.clone(),
        to: to.name.clone(),
        vci,
        notify: draw.pick(&Notify::ALL),
    };
    scenario.associations.push(one);
}

/// Blocks of an association of the first ring go on in one of the second's.
fn bridge(draw: &mut Draw, scenario: &mut Scenario) {
    let on = |ring: &str| {
        let associations = scenario.associations.iter();
        let name = associations
            .filter(|one| one.from.starts_with(ring))
            .map(|one| &one.name);
        let names: Vec<String> = name.cloned().collect();
        names
    };
    let (from, to) = (on("r0"), on("r1"));
    if !from.is_empty() && !to.is_empty() {
        scenario.bridges.push(BridgeSpec {
            from: super::pick(draw, &from),
            to: super::pick(draw, &to),
            by: draw.pick(&[BridgeBy::Block, BridgeBy::Cell]),
        });
    }
}

fn traffic(draw: &mut Draw, scenario: &mut Scenario, n: usize) {
    let name = scenario.associations[n].name.clone();
    if scenario.bridges.iter().any(|bridge| bridge.to == name) {
        return;
    }
    let count = draw.between(1, 3);
    let octets: Vec<u16> = (0..count).map(|_| draw.pick(&SIZES)).collect();
    let one = &scenario.associations[n];
    let back = scenario.associations.iter().find(|back| {
        let is_free = !scenario.bridges.iter().any(|bridge| bridge.to == back.name);
        is_free && back.from == one.to && back.to == one.from
    });
    let load = match (draw.below(6), back) {
        (0 | 1, Some(back)) => Load::Ping {
            back: back.name.clone(),
        },
        (0..3, _) => Load::Greedy,
        (3, _) => Load::OnOff {
            block_s: draw.pick(&[2_000, 20_000]),
            on_ns: draw.between(100_000, 1_000_000),
            off_ns: draw.between(100_000, 1_000_000),
        },
        _ => Load::Paced {
            block_s: draw.pick(&[300, 1_000, 3_000]),
        },
    };
    let start_ns = draw.below(scenario.duration_ns / 2);
    scenario.traffic.push(TrafficSpec {
        start_ns,
        ..TrafficSpec::on(&name, load, &octets)
    });
}

fn false_traffic(draw: &mut Draw, scenario: &mut Scenario) {
    let station = draw.below(scenario.stations.len() as u64) as usize;
    let station = &scenario.stations[station];
    let rings = scenario.rings.iter();
    let channels = rings
        .filter(|ring| ring.name == station.ring)
        .map(|ring| ring.channels);
    let load = Load::False {
        every_ns: draw.pick(&[3_000, 10_000, 40_000]),
        channels: draw.between(1, channels.max().unwrap_or(1).into()) as u8,
    };
    scenario
        .traffic
        .push(TrafficSpec::on(&station.name, load, &[]));
}

fn fault(draw: &mut Draw, scenario: &Scenario) -> FaultSpec {
    let for_ns = draw.between(5_000, 600_000).min(scenario.heal_ns);
    let at_ns = draw.below(scenario.heal_ns - for_ns + 1);
    let ring = draw.below(scenario.rings.len() as u64) as usize;
    let ring = &scenario.rings[ring];
    let frame = draw.below(ring.frames.into()) as u32;
    let channel = draw.below(ring.channels.into()) as u8;
    let name = ring.name.clone();
    let station = draw.below(scenario.stations.len() as u64) as usize;
    let station = scenario.stations[station].name.clone();
    match draw.below(12) {
        0 => FaultSpec::Slot {
            ring: name,
            at_ns,
            frame,
            channel: None,
            effect: SlotEffect::Lose,
        },
        1..5 => FaultSpec::Slot {
            ring: name,
            at_ns,
            frame,
            channel: Some(channel),
            effect: match draw.below(3) {
                0 => SlotEffect::Lose,
                // The VCI, the fragmentation header, or anywhere.
                1 => SlotEffect::Flip {
                    bit: draw.between(1, 33) as u16,
                },
                _ => SlotEffect::Flip {
                    bit: draw.below(290) as u16,
                },
            },
        },
        5 | 7 => FaultSpec::Ring {
            ring: name,
            at_ns,
            for_ns: for_ns / 4,
            harm: draw.pick(&[
                RingHarm::Cut,
                RingHarm::MonitorDead,
                RingHarm::SlotStuck { frame, channel },
                RingHarm::SlotStuck { frame, channel },
            ]),
        },
        6 => FaultSpec::Station {
            station,
            at_ns,
            for_ns: 0,
            harm: StationHarm::Reset,
        },
        _ => FaultSpec::Station {
            station,
            at_ns,
            for_ns,
            harm: draw.pick(&[
                StationHarm::Dead,
                StationHarm::Stopped,
                StationHarm::InterruptsLost,
                StationHarm::HostStopped,
            ]),
        },
    }
}
