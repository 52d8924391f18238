use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cellgate_core::wire::CbnCell;

use super::{Release, Reuse, RingSpec};
use crate::world::Ps;

/// A station, as the ring sees it.
pub trait Attached {
    /// A cell passes, in a slot of `channel` whose front is there at `at`. Whether it is taken.
    fn passes(&mut self, at: Ps, channel: u8, cell: &CbnCell) -> bool;

    /// An empty slot of `channel` is there: what it is filled with.
    fn fills(&mut self, at: Ps, channel: u8) -> Option<CbnCell>;
}

/// The content of a full slot.
#[derive(Clone, Copy, Debug)]
struct Full {
    cell: CbnCell,
    /// The station that has filled it.
    source: usize,
    /// The number of its frame when its source is there again.
    returns: u64,
}

/// A station's place, and its slots on the ring.
#[derive(Clone, Debug)]
struct Seat {
    place: u32,
    /// The frame that passes next.
    next: u64,
    /// Slots that it has filled, by channel.
    filled: Vec<u32>,
}

/// The slots, and where stations are.
#[derive(Clone, Debug)]
pub struct Ring {
    spec: RingSpec,
    /// By frame, then by channel.
    slots: Vec<Option<Full>>,
    seats: Vec<Seat>,
    /// The passes to come: when, which station.
    due: BinaryHeap<Reverse<(Ps, usize)>>,
    /// Slots that were filled, by channel.
    filled: Vec<u64>,
}

impl Ring {
    /// An empty ring with stations at these places, each of which is another, in rising order.
    pub fn new(spec: RingSpec, places: &[u32]) -> Self {
        let channels = usize::from(spec.channels);
        let seat = |place: &u32| Seat {
            place: *place,
            next: 0,
            filled: vec![0; channels],
        };
        let seats: Vec<_> = places.iter().map(seat).collect();
        let due = seats.iter().enumerate();
        let due = due.map(|(station, seat)| Reverse((spec.passes(0, seat.place), station)));
        Self {
            slots: vec![None; spec.frames as usize * channels],
            due: due.collect(),
            seats,
            filled: vec![0; channels],
            spec,
        }
    }

    pub const fn spec(&self) -> &RingSpec {
        &self.spec
    }

    /// Slots of a channel that were filled so far.
    pub fn filled(&self, channel: u8) -> u64 {
        self.filled[usize::from(channel)]
    }

    /// When [`Ring::turn`] is due: the next frame's front is at a station.
    pub fn next(&self) -> Ps {
        self.due.peek().map_or(Ps::MAX, |Reverse((at, _))| *at)
    }

    /// A frame passes a station: the one of the earliest pass, and of equal ones that of the
    /// lowest place. Which one.
    pub fn turn(&mut self, stations: &mut [impl Attached]) -> Option<usize> {
        let Reverse((at, station)) = self.due.pop()?;
        let seat = &mut self.seats[station];
        let number = seat.next;
        seat.next += 1;
        let next = self.spec.passes(seat.next, seat.place);
        self.due.push(Reverse((next, station)));
        for channel in 0..self.spec.channels {
            self.pass(at, number, station, channel, &mut stations[station]);
        }
        Some(station)
    }

    fn pass(
        &mut self,
        at: Ps,
        number: u64,
        station: usize,
        channel: u8,
        attached: &mut impl Attached,
    ) {
        let frame = (number % u64::from(self.spec.frames)) as usize;
        let slot = &mut self.slots[frame * usize::from(self.spec.channels) + usize::from(channel)];
        let filled = &mut self.seats[station].filled[usize::from(channel)];
        let mut may_fill = true;
        if let Some(full) = slot {
            if full.source == station && full.returns == number {
                *filled -= 1;
                *slot = None;
                may_fill = self.spec.reuse == Reuse::AtOnce;
            } else {
                let is_taken = attached.passes(at, channel, &full.cell);
                if is_taken && self.spec.release == Release::Destination {
                    let source = full.source;
                    *slot = None;
                    self.seats[source].filled[usize::from(channel)] -= 1;
                }
                if slot.is_some() {
                    return;
                }
            }
        }
        let filled = &mut self.seats[station].filled[usize::from(channel)];
        let has_too_many = self.spec.outstanding > 0 && *filled >= self.spec.outstanding;
        if !may_fill || has_too_many {
            return;
        }
        if let Some(cell) = attached.fills(at, channel) {
            *filled += 1;
            self.filled[usize::from(channel)] += 1;
            *slot = Some(Full {
                cell,
                source: station,
                returns: number + u64::from(self.spec.frames),
            });
        }
    }
}

#[cfg(test)]
mod tests {
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
}
