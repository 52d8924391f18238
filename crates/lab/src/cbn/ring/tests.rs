use super::*;
use crate::cbn::Saturated;

fn run(spec: RingSpec, places: &[u32], from: &[u64], rotations: u64) -> (Vec<Saturated>, Ring) {
    let stations = from.iter().map(|at| Saturated::from(Ps::new(*at)));
    let mut stations: Vec<_> = stations.collect();
    let mut ring = Ring::new(spec, places);
    let end = Ps::new(spec.rotation.ps() * rotations);
    while ring.next() < end {
        ring.turn(&mut stations);
    }
    (stations, ring)
}

#[test]
fn stations_use_n_of_n_plus_1_slots_wherever_they_are() {
    for places in [
        &[5][..],
        &[0, 1],
        &[3, 200],
        &[0, 1, 2, 255],
        &[7, 9, 80, 90, 91, 250],
    ] {
        let n = places.len() as u64;
        let rotations = 1_000 * (n + 1);
        let (stations, ring) = run(RingSpec::PAPER, places, &vec![0; places.len()], rotations);
        let used = ring.filled(0) as f64 / (7 * rotations) as f64;
        assert!(
            (used * (n + 1) as f64 / n as f64 - 1.0).abs() < 0.005,
            "{places:?}: {used}"
        );
        let longest = stations.iter().map(|station| station.longest).max();
        assert!(longest.unwrap().ps() <= (n + 1) * RingSpec::PAPER.rotation.ps());
    }
}

#[test]
fn with_one_slot_a_station_waits_for_as_many_rotations_as_there_are_and_one() {
    let spec = RingSpec {
        frames: 1,
        ..RingSpec::PAPER
    };
    let places: Vec<_> = (0..16).map(|n| n * 16).collect();
    let (stations, _) = run(spec, &places, &[0; 16], 1_000);
    for station in &stations {
        assert_eq!(station.longest.ps(), 17 * spec.rotation.ps());
    }
}

#[test]
fn with_one_outstanding_one_alone_uses_an_eighth() {
    let spec = RingSpec {
        outstanding: 1,
        ..RingSpec::PAPER
    };
    let (_, ring) = run(spec, &[9], &[0], 8_000);
    assert_eq!(ring.filled(0), 7_000);
}

/// Sends without end, or takes whatever passes.
struct End {
    takes: bool,
    took: u64,
}

impl Attached for End {
    fn passes(&mut self, _: Ps, _: u8, _: &CbnCell) -> bool {
        self.took += u64::from(self.takes);
        self.takes
    }

    fn fills(&mut self, _: Ps, channel: u8) -> Option<CbnCell> {
        (channel == 0 && !self.takes).then_some(CbnCell::EMPTY)
    }
}

#[test]
fn a_destination_that_releases_a_slot_doubles_what_one_sends() {
    let carried = |release| {
        let spec = RingSpec {
            release,
            ..RingSpec::PAPER
        };
        let mut ends = [false, true].map(|takes| End { takes, took: 0 });
        let mut ring = Ring::new(spec, &[0, 128]);
        while ring.next() < Ps::new(1_000 * spec.rotation.ps()) {
            ring.turn(&mut ends);
        }
        ends[1].took
    };
    let (source, destination) = (carried(Release::Source), carried(Release::Destination));
    assert!(source.abs_diff(3_500) <= 7, "{source}");
    assert!(destination.abs_diff(7_000) <= 7, "{destination}");
}

#[test]
fn without_passing_on_a_late_station_starves() {
    let spec = RingSpec {
        reuse: Reuse::AtOnce,
        ..RingSpec::PAPER
    };
    let late = 100 * spec.rotation.ps();
    let (stations, _) = run(spec, &[0, 128], &[0, late], 1_000);
    assert_eq!((stations[0].sent, stations[1].sent), (7_000, 0));
    let (stations, _) = run(RingSpec::PAPER, &[0, 128], &[0, late], 1_000);
    assert!(stations[1].sent > 2_000);
}
