//! VBR in the schedule: bursts leave at PCR, conform to both buckets, and cost nobody a promise.

use cellgate_core::Time;
use cellgate_core::adapter::{Class, PortIndex, Schedule, SustainedRate, VcIndex};
use cellgate_core::contract::{CellRate, Increment, Peak, TrafficDescriptor};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::leaky_bucket::Bucket;

const LINE: PortIndex = PortIndex(0);
const LINE_CELL_S: u32 = 353_207;
const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const US: u64 = 1_000;

fn rate(cell_s: u32) -> CellRate {
    CellRate::new(cell_s).unwrap()
}

#[derive(Clone, Copy, Debug)]
struct Vbr {
    pcr: u32,
    scr: u32,
    mbs: u32,
    cdvt_ns: u64,
}

impl Vbr {
    fn tolerance_ns(self) -> u64 {
        let descriptor = TrafficDescriptor {
            pcr: Some(Peak::Rate(rate(self.pcr))),
            scr: Some(rate(self.scr)),
            mbs: self.mbs.try_into().ok(),
            ..TrafficDescriptor::default()
        };
        descriptor.burst_tolerance_ns(CellRate::OC3)
    }

    fn class(self) -> Class {
        Class::Guaranteed {
            rate: rate(self.pcr),
            cdvt_ns: self.cdvt_ns,
            burst: 1,
            sustained: Some(SustainedRate {
                rate: rate(self.scr),
                burst_tolerance_ns: self.tolerance_ns(),
            }),
        }
    }

    /// PCR with CDVT, SCR with burst tolerance and CDVT.
    fn buckets(self) -> Vec<Bucket> {
        vec![
            Bucket::new(self.pcr, self.cdvt_ns),
            Bucket::new(self.scr, self.tolerance_ns() + self.cdvt_ns),
        ]
    }
}

fn cbr(cell_s: u32, cdvt_ns: u64) -> Class {
    Class::Guaranteed {
        rate: rate(cell_s),
        cdvt_ns,
        burst: 1,
        sustained: None,
    }
}

const FLOOD: Class = Class::BestEffort {
    weight: 1,
    peak: None,
};

/// An OC-3 line. What leaves is judged, and written down.
struct Rig {
    now: u64,
    schedule: Schedule,
    buckets: Vec<Vec<Bucket>>,
    /// When each cell of each VC left.
    left: Vec<Vec<u64>>,
    max_cells: u32,
}

impl Rig {
    fn new(classes: &[Class]) -> Self {
        let mut rig = Self {
            now: 1_000 * S,
            schedule: Schedule::new(&[CellRate::OC3], 256, classes.len()),
            buckets: vec![Vec::new(); classes.len()],
            left: vec![Vec::new(); classes.len()],
            max_cells: 7,
        };
        for (index, &class) in classes.iter().enumerate() {
            rig.schedule.open(VcIndex(index as u16), LINE, class);
        }
        rig
    }

    fn of(vbr: Vbr) -> Self {
        let mut rig = Self::new(&[vbr.class()]);
        rig.buckets[0] = vbr.buckets();
        rig
    }

    fn activate(&mut self, index: usize) {
        let vc = VcIndex(index as u16);
        self.schedule.activate(Time::from_ns(self.now), vc);
    }

    fn rest(&mut self, index: usize, ns: u64) {
        self.schedule.deactivate(VcIndex(index as u16));
        self.run(ns);
    }

    fn drain(&mut self) {
        let now = Time::from_ns(self.now);
        while let Some(grant) = self.schedule.grant(now, LINE, self.max_cells) {
            let index = usize::from(grant.vc.0);
            for _ in 0..grant.cells {
                for (n, bucket) in self.buckets[index].iter_mut().enumerate() {
                    let conforms = bucket.conforms(self.now);
                    assert!(conforms, "VC {index}, bucket {n}, at {}", self.now);
                }
                self.left[index].push(self.now);
            }
            self.schedule.sent(now, grant.vc, grant.cells);
        }
    }

    /// Up to and without the end of `ns`, with a caller that is always there.
    fn run(&mut self, ns: u64) {
        let end = self.now + ns;
        loop {
            self.drain();
            match self.schedule.next_deadline(LINE) {
                Some(next) if next.ns() < end => {
                    assert!(next.ns() > self.now, "a deadline that has passed");
                    self.now = next.ns();
                }
                _ => break,
            }
        }
        self.now = end;
    }

    /// What has left since, by VC.
    fn take(&mut self) -> Vec<Vec<u64>> {
        self.left.iter_mut().map(core::mem::take).collect()
    }
}

const VIDEO: Vbr = Vbr {
    pcr: 50_000,
    scr: 5_000,
    mbs: 200,
    cdvt_ns: 0,
};

/// A tick of the wheel and a slot: what a lone VC may be late.
const LATE_NS: u64 = 1_024 + 2_832;

#[test]
fn a_burst_of_mbs_leaves_at_pcr_and_what_follows_at_scr() {
    let mut rig = Rig::of(VIDEO);
    for pause in 0..3 {
        let begun = rig.now;
        rig.activate(0);
        rig.run(100 * MS);
        let left = rig.take().remove(0);
        for (k, at) in (0..).zip(&left) {
            let beyond = u64::saturating_sub(k, 199);
            // 20 us each at the peak rate, 200 at the sustained.
            let due = begun + (k - beyond) * 20 * US + beyond * 200 * US;
            assert!(
                at.abs_diff(due) <= LATE_NS,
                "{pause}: cell {k} at {at}, {due}"
            );
        }
        // 199 of the burst until 3.98 ms.
        assert_eq!(
            left.len(),
            200 + (100 * US - 3_980).div_euclid(200) as usize
        );
        rig.rest(0, 40 * MS);
    }
}

#[test]
fn as_much_of_a_burst_is_regained_as_time_was_idle_and_no_more_than_mbs() {
    let burst_after = |idle_ns| {
        let mut rig = Rig::of(VIDEO);
        rig.activate(0);
        rig.run(100 * MS);
        rig.rest(0, idle_ns);
        rig.take();
        rig.activate(0);
        rig.run(20 * MS);
        let left = rig.take().remove(0);
        let gaps = left.windows(2).map(|pair| pair[1] - pair[0]);
        1 + gaps.take_while(|gap| *gap < 100 * US).count() as u64
    };
    // An idle time t is worth t SCR cells, and they are sent while more come in: 10/9 of them.
    for (idle_ns, cells) in [
        (4 * MS, 22),
        (20 * MS, 111),
        (36 * MS, 200),
        (S, 200),
        (900 * S, 200),
    ] {
        let burst = burst_after(idle_ns);
        assert!(burst.abs_diff(cells) <= 1, "{idle_ns} ns: {burst}");
    }
}

#[test]
fn bursts_go_before_best_effort_and_share_what_is_not_guaranteed() {
    let big = Vbr {
        pcr: LINE_CELL_S,
        scr: 20_000,
        mbs: 10_000,
        cdvt_ns: 250 * US,
    };
    let mut rig = Rig::new(&[big.class(), big.class(), FLOOD, cbr(100_000, 250 * US)]);
    (0..2).for_each(|n| rig.buckets[n] = big.buckets());
    rig.activate(2);
    rig.activate(3);
    rig.run(10 * MS);
    rig.take();
    rig.activate(0);
    rig.activate(1);
    rig.run(20 * MS);
    let cells: Vec<usize> = rig.take().iter().map(Vec::len).collect();
    // 7,064 slots, 2,000 of which are guaranteed to CBR.
    assert_eq!(cells[2], 0, "{cells:?}");
    assert!(cells[3].abs_diff(2_000) <= 1, "{cells:?}");
    assert!(cells[0].abs_diff(cells[1]) <= 2, "{cells:?}");
    assert!(
        (7_060..=7_066).contains(&cells.iter().sum::<usize>()),
        "{cells:?}"
    );
    // Bursts are used up, at 20,000 each after that: the rest is best effort's.
    rig.run(300 * MS);
    rig.take();
    rig.run(100 * MS);
    let cells: Vec<usize> = rig.take().iter().map(Vec::len).collect();
    for (cells, expected) in cells.iter().zip([2_000, 2_000, 21_320, 10_000]) {
        assert!(cells.abs_diff(expected) <= 2, "{cells} {expected}");
    }
}

/// How much later than at even distances cells of `cell_s` come, at most, the first of which was
/// due at `first`: once they have made good what they may.
fn lateness_ns(left: &[u64], first: u64, cell_s: u64) -> u64 {
    let late = |(k, at): (u64, &u64)| (at - first).saturating_sub((k * S).div_ceil(cell_s));
    let late = (0..).zip(left).map(late);
    late.skip(left.len() / 10).max().unwrap_or(0)
}

#[test]
fn bursts_of_all_make_a_guaranteed_cell_later_by_one_cell() {
    // The peaks add up to ten times the line, what is guaranteed to 75 % of it.
    let vbr = |n: u32| Vbr {
        pcr: LINE_CELL_S,
        scr: 2_000 + n,
        mbs: 3_000,
        cdvt_ns: MS,
    };
    let rates = [101_000_u32, 70_001, 30_011, 33_333, 9_973];
    let steady = rates.iter().map(|&cell_s| cbr(cell_s, MS));
    let smooth = (0..10).map(|n| cbr(vbr(n).scr, MS));
    let latenesses = |others: Vec<Class>| {
        let classes: Vec<Class> = steady.clone().chain(others).collect();
        let mut rig = Rig::new(&classes);
        rig.max_cells = 1;
        let first = rig.now - MS;
        for n in 0..rates.len() {
            rig.activate(n);
        }
        // They begin at all phases, and again when they have rested.
        for round in 0..6 {
            for n in rates.len()..classes.len() {
                rig.run(70 * US + round);
                rig.activate(n);
            }
            rig.run(200 * MS);
            for n in rates.len()..classes.len() {
                rig.rest(n, 30 * US);
            }
            rig.run(200 * MS);
        }
        let contention_ns = rig.schedule.contention_ns(LINE);
        let left = rig.take();
        let late = rates.iter().zip(&left);
        let late: Vec<u64> = late
            .map(|(&cell_s, left)| lateness_ns(left, first, cell_s.into()))
            .collect();
        let burst_cells: usize = left[rates.len()..].iter().map(Vec::len).sum();
        (late, burst_cells, contention_ns)
    };
    let (before, smooth_cells, _) = latenesses(smooth.collect());
    let (after, cells, contention_ns) = latenesses((0..10).map(|n| vbr(n).class()).collect());
    println!("{before:?} {after:?} of {contention_ns} ns, {smooth_cells} and {cells} cells");
    assert!(cells > smooth_cells + 15_000);
    // The cell that is on the line.
    let one = Increment::of(CellRate::OC3).times_ns(1);
    for (before, after) in before.iter().zip(&after) {
        // Beside it, order within a tick may be another.
        assert!(*after <= before + one + 1_024, "{before} {after}");
        assert!(*after <= contention_ns, "{after}");
    }
}

#[test]
fn vbr_keeps_its_sustained_rate_beside_bursts_that_do_not_end() {
    // Their peaks alone are the line's; the last tolerates no burst to speak of.
    let greedy = |scr| Vbr {
        pcr: LINE_CELL_S,
        scr,
        mbs: 1_000_000,
        cdvt_ns: 250 * US,
    };
    let small = Vbr {
        pcr: 20_000,
        scr: 10_000,
        mbs: 2,
        cdvt_ns: 250 * US,
    };
    let all = [greedy(150_000), greedy(100_000), greedy(60_000), small];
    let mut rig = Rig::new(&all.map(Vbr::class));
    for (n, vbr) in all.iter().enumerate() {
        rig.buckets[n] = vbr.buckets();
        rig.activate(n);
    }
    rig.run(2 * S);
    for (vbr, left) in all.iter().zip(rig.take()) {
        let promised = 2 * vbr.scr as usize;
        assert!(left.len() + 2 >= promised, "{vbr:?}: {}", left.len());
    }
}

#[test]
fn a_burst_that_is_paid_for_by_minutes_leaves_and_holds_nobody_up() {
    let slow = Vbr {
        pcr: 100_000,
        scr: 1,
        mbs: 1_000,
        cdvt_ns: 250 * US,
    };
    let mut rig = Rig::new(&[slow.class(), slow.class(), cbr(1_000, 250 * US)]);
    for n in 0..3 {
        rig.activate(n);
    }
    (0..2).for_each(|n| rig.buckets[n] = slow.buckets());
    rig.run(30 * S);
    let cells: Vec<usize> = rig.take().iter().map(Vec::len).collect();
    // What is tolerated beyond a burst is less than a cell of its sustained rate.
    assert_eq!(cells, [1_029, 1_029, 30_001]);
    // With another contract it owes a thousand cells of that.
    rig.buckets[0].clear();
    let (now, fast) = (Time::from_ns(rig.now), cbr(10_000, 250 * US));
    rig.schedule.modify(now, VcIndex(0), fast);
    rig.run(S);
    let cells = rig.take()[0].len();
    assert!((8_990..=9_010).contains(&cells), "{cells}");
    // And a burst of the next has no more than what is paid for.
    let now = Time::from_ns(rig.now);
    rig.buckets[0] = VIDEO.buckets();
    rig.schedule.modify(now, VcIndex(0), VIDEO.class());
    rig.run(100 * MS);
    assert!(rig.take()[0].len() <= 200 + 500);
}

/// VCs that come and go, and a caller that is late.
#[test]
fn whatever_happens_both_buckets_admit_what_leaves() {
    let (mut early, mut cells) = (0, 0);
    for seed in 0..30 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut below = |bound: u64| random.next_u64() % bound;
        let mut all = Vec::new();
        for _ in 0..8 {
            let bits = [1 + below(19), below(12), below(22)];
            let pcr = 1 + below(1 << bits[0]) as u32;
            let scr = 1 + below(pcr.into()) as u32;
            all.push(Vbr {
                pcr,
                scr,
                mbs: 1 + below(1 << bits[1]) as u32,
                cdvt_ns: below(1 << bits[2]),
            });
        }
        let classes: Vec<Class> = all.iter().map(|vbr| vbr.class()).collect();
        let mut rig = Rig::new(&[&classes[..], &[FLOOD]].concat());
        for (n, vbr) in all.iter().enumerate() {
            rig.buckets[n] = vbr.buckets();
        }
        rig.activate(8);
        for step in 0..4_000_u64 {
            let (n, bits) = (below(8) as usize, below(28));
            match below(10) {
                0..4 => rig.activate(n),
                4 => rig.schedule.deactivate(VcIndex(n as u16)),
                5 => rig.run(below(300 * US)),
                6 => rig.now += below(1 << bits),
                7 if step.is_multiple_of(50) => {
                    let text = serde_json::to_string(&rig.schedule).unwrap();
                    rig.schedule = serde_json::from_str(&text).unwrap();
                }
                _ => rig.now += below(100 * US),
            }
            rig.max_cells = 1 + below(9) as u32;
            rig.drain();
        }
        for (vbr, left) in all.iter().zip(rig.take()) {
            cells += left.len();
            let tenth = Increment::of(rate(vbr.scr)).times_ns(9) / 10;
            early += left
                .windows(2)
                .filter(|pair| pair[1] - pair[0] < tenth)
                .count();
        }
    }
    println!("{cells} cells, {early} of them early");
    assert!(early > 10_000);
}
