//! Best effort with peak rates: conforms where it leaves, and loses nothing else of its share.

use cellgate_core::Time;
use cellgate_core::adapter::{Class, PeakRate, PortIndex, Schedule, VcIndex};
use cellgate_core::contract::CellRate;
use cellgate_core::server::{Claim, divide};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::leaky_bucket::Bucket;

const LINE: PortIndex = PortIndex(0);
const LINE_CELL_S: u64 = 353_207;
const S: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Sender {
    weight: u32,
    /// Cells/s and CDVT.
    peak: Option<(u32, u64)>,
}

fn class(sender: Sender) -> Class {
    Class::BestEffort {
        weight: sender.weight,
        peak: sender.peak.map(|(cell_s, cdvt_ns)| PeakRate {
            rate: CellRate::new(cell_s).unwrap(),
            cdvt_ns,
        }),
    }
}

/// Senders that always have cells, best effort before a guaranteed one.
struct Rig {
    now: u64,
    schedule: Schedule,
    buckets: Vec<Option<Bucket>>,
    sent: Vec<u64>,
    max_cells: u32,
}

impl Rig {
    fn new(senders: &[Sender], guaranteed_cell_s: u32, burst_cells: u32) -> Self {
        let mut schedule = Schedule::new(&[CellRate::OC3], burst_cells, senders.len() + 1);
        for (index, sender) in senders.iter().enumerate() {
            schedule.open(VcIndex(index as u16), LINE, class(*sender));
        }
        if let Some(rate) = CellRate::new(guaranteed_cell_s) {
            let cdvt_ns = 1_000_000;
            let last = VcIndex(senders.len() as u16);
            schedule.open(
                last,
                LINE,
                Class::Guaranteed {
                    rate,
                    cdvt_ns,
                    burst: 1,
                    sustained: None,
                },
            );
        }
        for index in 0..=senders.len() {
            schedule.activate(Time::ZERO, VcIndex(index as u16));
        }
        let buckets = senders.iter().map(|sender| {
            let (cell_s, cdvt_ns) = sender.peak?;
            Some(Bucket::new(cell_s, cdvt_ns))
        });
        Self {
            now: 0,
            schedule,
            buckets: buckets.chain([None]).collect(),
            sent: vec![0; senders.len() + 1],
            max_cells: 4,
        }
    }

    fn drain(&mut self) {
        let now = Time::from_ns(self.now);
        while let Some(grant) = self.schedule.grant(now, LINE, self.max_cells) {
            let index = usize::from(grant.vc.0);
            for _ in 0..grant.cells {
                let bucket = &mut self.buckets[index];
                let conforms = bucket
                    .as_mut()
                    .is_none_or(|bucket| bucket.conforms(self.now));
                assert!(conforms, "VC {index} does not conform at {}", self.now);
            }
            self.sent[index] += u64::from(grant.cells);
            self.schedule.sent(now, grant.vc, grant.cells);
        }
    }

    /// Up to and without `end`, with a caller that is always there.
    fn run_until(&mut self, end: u64) {
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
}

/// Each one's part, by the server's own division.
fn expected(senders: &[Sender], rest: u64) -> Vec<u64> {
    let claims: Vec<Claim> = senders
        .iter()
        .map(|sender| Claim {
            weight: sender.weight,
            most: sender.peak.map(|(cell_s, _)| cell_s.into()),
        })
        .collect();
    divide(rest, &claims)
}

fn random_senders(random: &mut Pcg64Mcg, count: u32, everybody: bool) -> Vec<Sender> {
    let one = |random: &mut Pcg64Mcg| {
        let weight = 1 + random.next_u32() % (1 << (random.next_u32() % 6));
        let cell_s = 500 + random.next_u32() % (2 * LINE_CELL_S as u32 / count);
        let peaked = everybody || random.next_u32().is_multiple_of(2);
        Sender {
            weight,
            // As much as a stay in a crowd can take.
            peak: peaked.then_some((cell_s, 10_000_000)),
        }
    };
    (0..count).map(|_| one(random)).collect()
}

#[test]
fn the_rest_is_divided_by_weight_up_to_the_peaks() {
    const SECONDS: u64 = 2;
    for seed in 0..20 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let count = [2, 3, 5, 12, 40][seed as usize % 5];
        let senders = random_senders(&mut random, count, false);
        let guaranteed = [0, 100_000][seed as usize / 5 % 2];
        let mut rig = Rig::new(&senders, guaranteed, 4);
        rig.run_until(SECONDS * S);
        let rest = LINE_CELL_S - u64::from(guaranteed);
        let shares = expected(&senders, rest);
        for (index, share) in shares.iter().enumerate() {
            let (sent, share) = (rig.sent[index], share * SECONDS);
            println!("seed {seed}: {:?}: {sent} of {share}", senders[index]);
            // A VC beside others of its stratum that come and go is up to 3 % off.
            assert!(sent.abs_diff(share) <= share / 25 + 10, "seed {seed}");
        }
        // Nothing is left over while somebody may take it.
        let all: u64 = rig.sent.iter().sum();
        let wanted: u64 = shares.iter().sum::<u64>() + u64::from(guaranteed);
        if wanted == LINE_CELL_S {
            assert_eq!(all, LINE_CELL_S * SECONDS, "seed {seed}");
        }
    }
}

#[test]
fn peaks_that_fit_are_kept_to_the_cell() {
    const SECONDS: u64 = 4;
    let senders: Vec<Sender> = (0..50)
        .map(|n| Sender {
            weight: 1 + n % 7,
            peak: Some((1 + 97 * n, 1_000_000)),
        })
        .collect();
    let mut rig = Rig::new(&senders, 0, 4);
    rig.run_until(SECONDS * S);
    for (sender, sent) in senders.iter().zip(&rig.sent) {
        let (cell_s, _) = sender.peak.unwrap();
        assert!(
            sent.abs_diff(u64::from(cell_s) * SECONDS) <= 1,
            "{cell_s}: {sent}"
        );
    }
}

#[test]
fn what_stalls_and_what_comes_and_goes_conforms() {
    let mut cells = 0;
    for seed in 0..20 {
        let mut random = Pcg64Mcg::seed_from_u64(1000 + seed);
        let mut senders = random_senders(&mut random, 8, true);
        for sender in &mut senders {
            let magnitude = random.next_u32() % 25;
            sender.peak = sender
                .peak
                .map(|(cell_s, _)| (cell_s, random.next_u64() % (1 << magnitude)));
        }
        let mut rig = Rig::new(&senders, 50_000, [1, 4, 64][seed as usize % 3]);
        rig.max_cells = 1 + random.next_u32() % 8;
        for _ in 0..300 {
            let vc = VcIndex((random.next_u32() % 8) as u16);
            let now = Time::from_ns(rig.now);
            match random.next_u32() % 64 {
                0..8 => rig.now += random.next_u64() % 40_000_000,
                8..16 => rig.schedule.deactivate(vc),
                16..32 => rig.schedule.activate(now, vc),
                32 => {
                    let text = serde_json::to_string(&rig.schedule).unwrap();
                    rig.schedule = serde_json::from_str(&text).unwrap();
                }
                _ => rig.run_until(rig.now + random.next_u64() % 1_000_000),
            }
        }
        cells += rig.sent.iter().take(8).sum::<u64>();
    }
    println!("{cells} cells");
    assert!(cells > 50_000);
}

#[test]
fn a_peak_changes_under_way_and_what_has_left_stays_paid() {
    let sender = |cell_s| Sender {
        weight: 1,
        peak: Some((cell_s, 0)),
    };
    let mut rig = Rig::new(&[sender(10)], 0, 4);
    rig.run_until(S / 100);
    assert_eq!(rig.sent[0], 1);
    // Its next cell is due after 100 ms, whatever its peak becomes.
    let class = class(sender(1_000));
    rig.schedule
        .modify(Time::from_ns(rig.now), VcIndex(0), class);
    rig.buckets[0] = None;
    rig.run_until(S / 10);
    assert_eq!(rig.sent[0], 1);
    rig.run_until(S / 5);
    assert_eq!(rig.sent[0], 101);
    // Without a peak it has the line at once.
    let free = Class::BestEffort {
        weight: 1,
        peak: None,
    };
    rig.schedule
        .modify(Time::from_ns(rig.now), VcIndex(0), free);
    rig.run_until(S / 5 + S);
    assert!(rig.sent[0] >= 101 + LINE_CELL_S);
}
