//! A slotted ring out of octets, and the reference that is as slow as it likes.

use cellgate_core::upper::msna::Notify;
use cellgate_lab::cbn::{Release, Reuse};
use cellgate_lab::machine::v1s::Order;
use cellgate_lab::world::scenario::{
    AssociationSpec, FaultSpec, Interface, Load, RingHarm, RingSpec, Scenario, SlotEffect,
    StationHarm, StationSpec, TrafficSpec,
};
use cellgate_lab::world::{Options, check};

use crate::take::Take;

const SIZES: [u16; 6] = [12, 31, 32, 33, 200, 1_500];

/// Octets are a ring, its stations, what is sent there and what goes wrong: the run is right, and
/// each slot, place and octet is as the reference has it.
pub fn cbn(data: &[u8]) {
    let scenario = scenario(&mut Take::new(data));
    let options = Options {
        reference: true,
        ..Options::default()
    };
    if let Err(failure) = check(&scenario, options) {
        panic!("{failure}: {scenario:?}");
    }
}

fn scenario(take: &mut Take<'_>) -> Scenario {
    let duration_ns = 100_000 + u64::from(take.u8()) * 4_000;
    let mut scenario = Scenario {
        duration_ns,
        heal_ns: duration_ns,
        ..Scenario::default()
    };
    ring(take, &mut scenario);
    for n in 0..1 + take.below(4) {
        association(take, &mut scenario, n.into());
    }
    while !take.is_empty() && scenario.faults.len() < 12 {
        let fault = fault(take, &scenario);
        scenario.faults.push(fault);
    }
    scenario
}

fn ring(take: &mut Take<'_>, scenario: &mut Scenario) {
    let mut ring = RingSpec::named("r");
    ring.frames = 1 + u32::from(take.below(7));
    ring.channels = 1 + take.below(4);
    ring.release = take.pick(&[Release::Source, Release::Source, Release::Destination]);
    ring.reuse = take.pick(&[Reuse::PassedOn, Reuse::PassedOn, Reuse::AtOnce]);
    ring.outstanding = take.below(3).into();
    let mut at = u32::from(take.below(40));
    for n in 0..2 + take.below(3) {
        let mut station = StationSpec::named(&format!("s{n}"), "r", at);
        at += 1 + u32::from(take.below(60));
        station.channel = take.below(ring.channels);
        let interface = [Interface::V1s, Interface::Ideal, Interface::V1sDma];
        station.interface = take.pick(&interface);
        station.lock = station.interface != Interface::V1sDma || take.flag();
        station.cpu_hz = take.pick(&[20_000_000, 100_000_000, 400_000_000]);
        station.stage = take.below(4);
        station.dally_ns = take.pick(&[0, 12_000, 40_000]);
        station.order = take.pick(&[Order::InterruptFirst, Order::InTurn]);
        station.fifo_cells = take.pick(&[256, 2, 5, 12]);
        scenario.stations.push(station);
    }
    scenario.rings.push(ring);
}

fn association(take: &mut Take<'_>, scenario: &mut Scenario, n: u16) {
    let count = scenario.stations.len() as u8;
    let from = take.below(count);
    let to = (from + 1 + take.below(count - 1)) % count;
    let station = |n: u8| scenario.stations[usize::from(n)].name.clone();
    let one = AssociationSpec {
        name: format!("a{n}"),
        from: station(from),
        to: station(to),
        // Circuits whose low octets are alike, too.
        vci: 1 + n / 2 + 256 * (n % 2),
        notify: take.pick(&Notify::ALL),
    };
    let load = match take.below(3) {
        0 => Load::Greedy,
        1 => Load::Paced {
            block_s: take.pick(&[2_000, 10_000, 50_000]),
        },
        _ => Load::OnOff {
            block_s: 40_000,
            on_ns: 40_000,
            off_ns: 1_000 * (1 + u64::from(take.u8())),
        },
    };
    let octets = [take.pick(&SIZES), take.pick(&SIZES)];
    scenario
        .traffic
        .push(TrafficSpec::on(&one.name, load, &octets));
    scenario.associations.push(one);
}

fn fault(take: &mut Take<'_>, scenario: &Scenario) -> FaultSpec {
    let ring = &scenario.rings[0];
    let at_ns = scenario.duration_ns * u64::from(take.u8()) / 512;
    let for_ns = scenario.duration_ns * u64::from(take.u8()) / 512;
    let frame = u32::from(take.below(ring.frames as u8));
    let channel = take.below(ring.channels);
    let name = ring.name.clone();
    let station = take.below(scenario.stations.len() as u8);
    let station = scenario.stations[usize::from(station)].name.clone();
    match take.below(8) {
        0 => FaultSpec::Slot {
            ring: name,
            at_ns,
            frame,
            channel: None,
            effect: SlotEffect::Lose,
        },
        1..4 => FaultSpec::Slot {
            ring: name,
            at_ns,
            frame,
            channel: Some(channel),
            effect: SlotEffect::Flip {
                bit: take.u16() % 290,
            },
        },
        4 => FaultSpec::Ring {
            ring: name,
            at_ns,
            for_ns,
            harm: take.pick(&[
                RingHarm::Cut,
                RingHarm::MonitorDead,
                RingHarm::SlotStuck { frame, channel },
            ]),
        },
        5 => FaultSpec::Station {
            station,
            at_ns,
            for_ns: 0,
            harm: StationHarm::Reset,
        },
        _ => FaultSpec::Station {
            station,
            at_ns,
            for_ns,
            harm: take.pick(&[
                StationHarm::Dead,
                StationHarm::Stopped,
                StationHarm::InterruptsLost,
                StationHarm::HostStopped,
            ]),
        },
    }
}
