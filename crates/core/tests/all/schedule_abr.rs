//! VCs of ABR in the schedule: a floor that is kept, a rate that is not exceeded.

use cellgate_core::Time;
use cellgate_core::adapter::{Class, PeakRate, PortIndex, Schedule, VcIndex};
use cellgate_core::contract::CellRate;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const LINE: PortIndex = PortIndex(0);
const LINE_RATE: u32 = 100_000;
const CDVT_NS: u64 = 200_000;

fn rate(cell_s: u32) -> CellRate {
    CellRate::new(cell_s).unwrap()
}

fn available(floor: u32, allowed: u32) -> Class {
    Class::Available {
        floor: CellRate::new(floor),
        weight: floor.max(1),
        allowed: PeakRate {
            rate: rate(allowed),
            cdvt_ns: CDVT_NS,
        },
    }
}

struct World {
    schedule: Schedule,
    now: Time,
    /// Cells that each VC has sent.
    sent: [u64; 5],
}

const A: VcIndex = VcIndex(0);
const B: VcIndex = VcIndex(1);
const GUARANTEED: VcIndex = VcIndex(2);
const GREEDY: VcIndex = VcIndex(3);
const OTHER: VcIndex = VcIndex(4);

impl World {
    fn new(classes: [Class; 5]) -> Self {
        let mut world = Self {
            schedule: Schedule::new(&[rate(LINE_RATE)], 64, 5),
            now: Time::from_ns(1_000_000_000),
            sent: [0; 5],
        };
        for (vc, class) in [A, B, GUARANTEED, GREEDY, OTHER].into_iter().zip(classes) {
            world.schedule.open(vc, LINE, class);
            world.schedule.activate(world.now, vc);
        }
        world
    }

    /// All that may leave leaves, and `gap_ns` pass.
    fn step(&mut self, gap_ns: u64) {
        while let Some(grant) = self.schedule.grant(self.now, LINE, 64) {
            assert!(self.schedule.is_active(grant.vc), "{grant:?}");
            self.schedule.sent(self.now, grant.vc, grant.cells);
            self.sent[usize::from(grant.vc.0)] += u64::from(grant.cells);
        }
        self.now = self.now.plus_ns(gap_ns);
    }

    fn run(&mut self, ms: u64) -> [u64; 5] {
        let before = self.sent;
        for _ in 0..ms * 20 {
            self.step(50_000);
        }
        [0, 1, 2, 3, 4].map(|vc| self.sent[vc] - before[vc])
    }
}

const GUARANTEE: Class = Class::Guaranteed {
    rate: CellRate::new(60_000).unwrap(),
    cdvt_ns: CDVT_NS,
    burst: 1,
    sustained: None,
};
const ALL: Class = Class::BestEffort {
    weight: u32::MAX,
    peak: None,
};

#[test]
fn a_floor_is_kept_beside_all_that_is_greedy_and_takes_nothing_of_what_is_guaranteed() {
    let (a, b) = (available(10_000, 90_000), available(20_000, 20_000));
    let mut world = World::new([a, b, GUARANTEE, ALL, available(0, 90_000)]);
    world.run(10);
    let sent = world.run(1_000);
    assert!((10_000..=10_020).contains(&sent[0]), "{sent:?}");
    assert!((19_995..=20_005).contains(&sent[1]), "{sent:?}");
    assert!((59_995..=60_005).contains(&sent[2]), "{sent:?}");
    assert!(sent[3] > 9_900, "the rest: {sent:?}");
    assert_eq!(world.schedule.guaranteed_cell_s(LINE), 90_000);
    // What it has sent beyond its floor is no debt of it.
    world.schedule.deactivate(GREEDY);
    world.schedule.deactivate(GUARANTEED);
    world.run(1_000);
    world.schedule.activate(world.now, GREEDY);
    world.schedule.activate(world.now, GUARANTEED);
    world.run(2);
    let sent = world.run(10);
    assert!((98..=104).contains(&sent[0]), "{sent:?}");
}

#[test]
fn no_more_leaves_than_is_allowed_as_that_changes() {
    for seed in 0..30 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut world = World::new([available(1_000, 1_000), ALL, GUARANTEE, ALL, ALL]);
        // In 2^-20 cells.
        let (mut allowed, mut most) = (1_000_u64, 0_u128);
        let begin = world.now;
        for _ in 0..2_000 {
            if random.next_u32().is_multiple_of(8) {
                allowed = 1_000 + u64::from(random.next_u32() % 50_000);
                world
                    .schedule
                    .allow(world.now, A, CellRate::new(allowed as u32));
            }
            match random.next_u32() % 16 {
                0 => world.schedule.deactivate(A),
                1 | 2 => world.schedule.activate(world.now, A),
                _ => {}
            }
            let gap_ns = 1_000 * u64::from(1 + random.next_u32() % 150);
            world.step(gap_ns);
            most += u128::from(allowed) * u128::from(gap_ns);
        }
        let most = most / 1_000_000_000;
        // What it makes good at its highest rate, a cell, and one for each change that rounds.
        let sent = u128::from(world.sent[0]);
        assert!(sent <= most + 12 + 250, "seed {seed}: {sent} of {most}");
        assert!(sent > most / 40, "seed {seed}: {sent} of {most}");
        let guaranteed = u128::from(world.now.since_ns(begin)) * 60_000 / 1_000_000_000;
        let lost = guaranteed.saturating_sub(world.sent[2].into());
        assert!(lost * 100 < guaranteed, "seed {seed}: {lost}");
    }
}

#[test]
fn a_vc_without_a_rate_waits_and_goes_on() {
    let mut world = World::new([available(0, 5_000), ALL, GUARANTEE, ALL, ALL]);
    world.schedule.deactivate(B);
    world.schedule.deactivate(GUARANTEED);
    world.schedule.deactivate(GREEDY);
    world.schedule.deactivate(OTHER);
    assert!(world.run(100)[0] >= 499);
    world.schedule.allow(world.now, A, None);
    world.run(1);
    assert_eq!(world.run(1_000)[0], 0);
    assert_eq!(world.schedule.next_deadline(LINE), None, "nothing is due");
    world.schedule.allow(world.now, A, CellRate::new(5_000));
    assert!((499..=502).contains(&world.run(100)[0]));
    // A floor is with what is guaranteed as long as it is there.
    for class in [available(7, 70), ALL, available(9, 90), GUARANTEE] {
        world.schedule.modify(world.now, A, class);
    }
    assert_eq!(world.schedule.guaranteed_cell_s(LINE), 120_000);
    world.schedule.modify(world.now, A, available(9, 90));
    world.schedule.close(A);
    assert_eq!(world.schedule.guaranteed_cell_s(LINE), 60_000);
    assert!(!world.schedule.is_active(A));
}
