//! The slotted ring of *CBN half-duplex stations*: its slots alone beside SimPy, and with sixteen
//! stations that send all they can beside the time that it takes.

use std::ffi::OsStr;

use anyhow::{Context, ensure};
use cellgate_lab::cbn::{Ring, RingSpec, Saturated};
use cellgate_lab::world::Ps;
use cellgate_lab::world::scenario::{
    AssociationSpec, Load, RingSpec as Named, Scenario, StationSpec, TrafficSpec,
};
use cellgate_lab::world::{Options, check};

use super::super::process::Process;
use super::{Contestant, Report, Sizes, pass, take_turns};

const STATIONS: u32 = 16;
/// Places between two stations.
const APART: u32 = 15;
/// The ring, its slots of one channel: that the others cost is not to count.
const SPEC: RingSpec = RingSpec {
    channels: 1,
    ..RingSpec::PAPER
};

fn places() -> Vec<u32> {
    (0..STATIONS).map(|station| APART * station).collect()
}

/// Cells that saturated stations send in so many rotations.
fn slots(rotations: u64) -> u64 {
    let mut stations: Vec<_> = (0..STATIONS).map(|_| Saturated::from(Ps::ZERO)).collect();
    let mut ring = Ring::new(SPEC, &places());
    let end = Ps::new(SPEC.rotation.ps() * rotations);
    while ring.next() < end {
        ring.turn(&mut stations);
    }
    stations.iter().map(|station| station.sent).sum()
}

/// The paper's stations, each of which sends to the next as fast as its host can.
fn saturated(duration_ns: u64) -> Scenario {
    let mut scenario = Scenario {
        duration_ns,
        rings: vec![Named::named("ring")],
        ..Scenario::default()
    };
    for (station, at) in places().into_iter().enumerate() {
        let name = format!("s{station}");
        scenario.stations.push(StationSpec {
            channel: (station % 4) as u8,
            ..StationSpec::named(&name, "ring", at)
        });
        let association = format!("a{station}");
        scenario.associations.push(AssociationSpec {
            name: association.clone(),
            from: name,
            to: format!("s{}", (station + 1) % STATIONS as usize),
            vci: 256 + station as u16,
            notify: cellgate_msna::Notify::Every,
        });
        let traffic = TrafficSpec::on(&association, Load::Greedy, &[8_160]);
        scenario.traffic.push(traffic);
    }
    scenario
}

pub(super) fn run(report: &mut Report, sizes: Sizes, simpy: Option<&OsStr>) -> anyhow::Result<()> {
    let ns_per_tick = report.ns_per_tick();
    let rotations = sizes.cells as u64 / 7;
    let cells = slots(rotations);
    let mut peer = spawn(report, simpy, rotations)?;
    let mut failed = Ok(());
    let mut contestants = vec![Contestant::new("ring, its slots", cells as usize, || {
        let run = || {
            ensure!(slots(rotations) == cells, "other cells were sent");
            Ok(())
        };
        pass(run, ns_per_tick, &mut failed)
    })];
    if let Some(peer) = &mut peer {
        contestants.push(Contestant::new("ring, SimPy", cells as usize, || {
            (peer.round() as f64 / ns_per_tick) as u64
        }));
    }
    let times = take_turns(contestants, sizes.repeats, &mut report.calibrations);
    failed?;
    times.iter().for_each(|times| report.figure(times));
    if let Some(theirs) = times.get(1) {
        let ratio = report.ratio(theirs, &times[0]).median;
        report.ratio_at_least("SimPy's ring over the lab's", ratio, 50.0);
    }
    if let Some(peer) = peer {
        let sent = peer.end()?;
        ensure!(sent == cells, "SimPy's ring sent {sent} cells of {cells}");
    }
    real_time(report, sizes)
}

/// SimPy with the same ring, where its program was named.
fn spawn(
    report: &mut Report,
    simpy: Option<&OsStr>,
    rotations: u64,
) -> anyhow::Result<Option<Process>> {
    let Some(program) = simpy else {
        report.note("skipped the peer of --ring-simpy: no PROGRAM was named");
        return Ok(None);
    };
    let rotation_ps = SPEC.rotation.ps();
    let numbers = [
        rotations,
        rotation_ps,
        SPEC.frames.into(),
        SPEC.places.into(),
    ];
    let numbers = numbers
        .into_iter()
        .chain(places().into_iter().map(u64::from));
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    Ok(Some(Process::spawn(program, &numbers)?))
}

/// Virtual time over CPU time.
fn real_time(report: &mut Report, sizes: Sizes) -> anyhow::Result<()> {
    let ns_per_tick = report.ns_per_tick();
    // A cell of the slots' ring is about two microseconds of this one.
    let duration_ns = 2_000 * sizes.cells as u64;
    let scenario = saturated(duration_ns);
    let ways = [
        ("16 saturated stations", false, 3.0),
        ("16 saturated stations, with the reference", true, 1.0),
    ];
    let mut failed = [const { Ok(()) }; 2];
    let mut contestants = Vec::new();
    for ((name, reference, _), failed) in ways.into_iter().zip(&mut failed) {
        let scenario = &scenario;
        let run = move || {
            let options = Options {
                reference,
                ..Options::default()
            };
            check(scenario, options).context(name).map(drop)
        };
        contestants.push(Contestant::new(name, 1, move || {
            pass(run, ns_per_tick, failed)
        }));
    }
    let repeats = sizes.repeats.min(5);
    let times = take_turns(contestants, repeats, &mut report.calibrations);
    failed.into_iter().collect::<anyhow::Result<()>>()?;
    for (times, (name, _, goal)) in times.iter().zip(ways) {
        let cpu_ns = times.spread().median * ns_per_tick;
        let name = format!("{name}: times as fast as the ring");
        report.rate_at_least(name, duration_ns as f64 / cpu_ns, goal);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_of_seventeen_slots_are_full_and_the_world_runs() {
        // Each of 7 slots, 17 rotations long, is filled 16 times and emptied as often.
        assert_eq!(slots(1_700), 1_700 * 7 * 16 / 17);
        for reference in [false, true] {
            let options = Options {
                reference,
                ..Options::default()
            };
            check(&saturated(2_000_000), options).unwrap();
        }
    }
}
