//! GCRA by cell and by frame, against published sequences and exact rational references.

use cellgate_core::Time;
use cellgate_core::contract::{CellRate, FrameGcra, Gcra, Increment, Shaper, aal5_cells};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const NS_PER_S: u128 = 1_000_000_000;

fn rate(cell_s: u32) -> CellRate {
    CellRate::new(cell_s).unwrap()
}

fn at(ns: u64) -> Time {
    Time::from_ns(ns)
}

fn verdicts(mut gcra: Gcra, arrivals: &[u64]) -> Vec<bool> {
    let police = |ns: &u64| gcra.police(at(*ns), at(*ns));
    arrivals.iter().map(police).collect()
}

/// GCRA(100, 500) in nanoseconds.
fn hundred_five_hundred() -> Gcra {
    Gcra::new(rate(10_000_000), 500)
}

#[test]
fn judges_the_textbook_sequences() {
    let first = [0, 100, 110, 120, 130, 140, 150, 160, 170, 180, 1000, 1010];
    let conforming = [1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1].map(|bit| bit == 1);
    assert_eq!(verdicts(hundred_five_hundred(), &first), conforming);

    let second = [0, 100, 130, 160, 190, 220, 250, 280, 310, 1000, 1030];
    assert_eq!(verdicts(hundred_five_hundred(), &second), [true; 11]);

    let mut triples = Vec::new();
    for start in [0, 300, 600, 800, 1000, 1200, 1400, 1600] {
        triples.extend([start, start + 10, start + 20]);
    }
    let judged = verdicts(hundred_five_hundred(), &triples);
    let refused: Vec<u64> = (triples.iter().zip(judged))
        .filter_map(|(ns, conforms)| (!conforms).then_some(*ns))
        .collect();
    assert_eq!(refused, [1420, 1620]);
}

#[test]
fn two_buckets_let_an_mbs_of_five_through() {
    const SLOT_NS: u64 = 1_000;
    let mut peak = Gcra::new(rate(500_000), 0);
    let mut sustained = Gcra::new(rate(100_000), 32 * SLOT_NS);
    let mut sent = Vec::new();
    for slot in 0..40 {
        let now = at(slot * SLOT_NS);
        if peak.conforms(now) && sustained.conforms(now) {
            assert!(peak.police(now, now) && sustained.police(now, now));
            sent.push(slot);
        }
    }
    assert_eq!(sent, [0, 2, 4, 6, 8, 18, 28, 38]);
}

/// Virtual scheduling and the continuous leaky bucket of I.371, in units of 1/rate nanoseconds.
struct Exact {
    rate: i128,
    limit: i128,
    tat: i128,
    bucket: i128,
    last: i128,
}

impl Exact {
    fn new(cell_s: u32, limit_ns: u64) -> Self {
        let rate = i128::from(cell_s);
        Self {
            rate,
            limit: i128::from(limit_ns) * rate,
            tat: 0,
            bucket: 0,
            last: 0,
        }
    }

    fn virtual_scheduling(&mut self, now: u64, earliest: u64) -> bool {
        let conforms = self.conforms(now);
        if conforms {
            self.charge(earliest);
        }
        conforms
    }

    fn conforms(&self, now: u64) -> bool {
        i128::from(now) * self.rate >= self.tat - self.limit
    }

    fn charge(&mut self, earliest: u64) {
        let arrival = i128::from(earliest) * self.rate;
        self.tat = self.tat.max(arrival) + NS_PER_S as i128;
    }

    fn leaky_bucket(&mut self, now: u64) -> bool {
        let now = i128::from(now) * self.rate;
        let level = self.bucket - (now - self.last);
        if level > self.limit {
            return false;
        }
        self.bucket = level.max(0) + NS_PER_S as i128;
        self.last = now;
        true
    }

    fn tat_rounded_up_ns(&self) -> u64 {
        (self.tat as u128).div_ceil(self.rate as u128) as u64
    }
}

fn random_rate(random: &mut Pcg64Mcg) -> u32 {
    match random.next_u32() % 8 {
        0 => 1,
        1 => 353_207,
        2 => 999_999_937,
        3 => u32::MAX,
        shift => (random.next_u32() >> (4 * shift - 13)).max(1),
    }
}

#[test]
fn both_algorithms_and_exact_rationals_agree_on_random_arrivals() {
    let mut random = Pcg64Mcg::seed_from_u64(10);
    let mut refused = 0;
    for _ in 0..400 {
        let cell_s = random_rate(&mut random);
        let t_ns = 1_000_000_000 / u64::from(cell_s);
        let limit_ns = random.next_u64() % (5 * t_ns + 5);
        let mut gcra = Gcra::new(rate(cell_s), limit_ns);
        let mut scheduled = Exact::new(cell_s, limit_ns);
        let mut leaked = Exact::new(cell_s, limit_ns);
        let mut now = 0;
        for _ in 0..500 {
            now += random.next_u64() % (2 * t_ns + 2);
            let verdict = gcra.police(at(now), at(now));
            assert_eq!(verdict, scheduled.virtual_scheduling(now, now));
            assert_eq!(verdict, leaked.leaky_bucket(now));
            assert_eq!(gcra.tat(), at(scheduled.tat_rounded_up_ns()));
            refused += u32::from(!verdict);
        }
    }
    assert!(refused > 10_000, "the arrivals were too tame: {refused}");
}

#[test]
fn lateness_of_the_judge_is_charged_to_nobody() {
    let mut random = Pcg64Mcg::seed_from_u64(11);
    for _ in 0..200 {
        let cell_s = random_rate(&mut random);
        let t_ns = 1_000_000_000 / u64::from(cell_s);
        let mut gcra = Gcra::new(rate(cell_s), 3 * t_ns);
        let mut exact = Exact::new(cell_s, 3 * t_ns);
        let (mut earliest, mut now) = (0, 0);
        for _ in 0..500 {
            earliest = now.max(earliest);
            now = earliest + random.next_u64() % (3 * t_ns + 2);
            for _ in 0..random.next_u32() % 4 {
                let verdict = gcra.police(at(now), at(earliest));
                assert_eq!(verdict, exact.virtual_scheduling(now, earliest));
                assert_eq!(gcra.tat(), at(exact.tat_rounded_up_ns()));
            }
        }
    }
}

#[test]
fn a_tie_conforms_and_a_fraction_less_does_not() {
    // T = 333,333,333 1/3 ns: the second cell is due between two nanoseconds.
    let mut gcra = Gcra::new(rate(3), 0);
    gcra.charge(1);
    assert!(!gcra.conforms(at(333_333_333)));
    assert!(gcra.conforms(at(333_333_334)));
    gcra.charge(2);
    assert!(!gcra.conforms(at(999_999_999)));
    assert!(gcra.conforms(at(1_000_000_000)));
}

#[test]
fn cells_charged_at_once_are_charged_as_one_by_one() {
    let mut random = Pcg64Mcg::seed_from_u64(15);
    for cell_s in [
        1,
        7,
        353_207,
        999_999_937,
        1_000_000_000,
        1_000_000_001,
        u32::MAX,
    ] {
        let mut at_once = Gcra::new(rate(cell_s), 0);
        let mut one_by_one = at_once;
        for _ in 0..200 {
            let cells = 2 + random.next_u32() % 300;
            at_once.charge(cells);
            (0..cells).for_each(|_| one_by_one.charge(1));
            assert_eq!(at_once, one_by_one, "{cell_s} {cells}");
        }
    }
}

#[test]
fn as_many_cells_are_due_as_may_leave_one_by_one() {
    let mut random = Pcg64Mcg::seed_from_u64(16);
    for cell_s in [1, 7, 353_207, 999_999_937, 1_000_000_001, u32::MAX] {
        let cell_ns = 1 + 1_000_000_000 / u64::from(cell_s);
        for tolerance in [0, 1, 40 * cell_ns, u64::MAX] {
            let mut shaper = Shaper::new(rate(cell_s), tolerance);
            let mut now = 0;
            for _ in 0..500 {
                now += random.next_u64() % (20 * cell_ns);
                let max = random.next_u32() % 300;
                let mut one_by_one = shaper;
                let mut cells = 0;
                while cells < max && one_by_one.due(at(now)) {
                    one_by_one.emit(at(now), 1);
                    cells += 1;
                }
                let due = shaper.due_cells(at(now), max);
                assert_eq!(due, cells, "{cell_s} {tolerance} {max}");
                shaper = one_by_one;
            }
        }
    }
}

#[test]
fn a_virtual_day_drifts_by_nothing() {
    const DAY_S: u64 = 86_400;
    for cell_s in [1, 7, 353_207, 706_415, 999_999_937, u32::MAX] {
        let mut gcra = Gcra::new(rate(cell_s), 0);
        for _ in 0..DAY_S {
            gcra.charge(cell_s);
        }
        assert_eq!(gcra.tat(), at(DAY_S * 1_000_000_000), "{cell_s}");

        // One by one and in random batches, as far as patience goes.
        let mut random = Pcg64Mcg::seed_from_u64(12);
        let mut gcra = Gcra::new(rate(cell_s), 0);
        let mut cells = 0u64;
        for step in 0..100_000u32 {
            let batch = if step % 2 == 0 {
                1
            } else {
                random.next_u32() >> (random.next_u32() % 32)
            };
            gcra.charge(batch);
            cells += u64::from(batch);
            let due = (u128::from(cells) * NS_PER_S).div_ceil(u128::from(cell_s));
            assert_eq!(u128::from(gcra.tat().ns()), due.min(u128::from(u64::MAX)));
            if due > u128::from(u64::MAX / 2) {
                break;
            }
        }
    }
}

#[test]
fn the_end_of_time_neither_panics_nor_lets_everything_pass() {
    for cell_s in [1, 353_207, u32::MAX] {
        for limit_ns in [0, 1, 1 << 62, u64::MAX] {
            let mut gcra = Gcra::new(rate(cell_s), limit_ns);
            let mut frame = FrameGcra::new(rate(cell_s), limit_ns, 1_366, 28);
            for back in (0..2_000_000_000u64).rev().step_by(99_999_989) {
                let now = at(u64::MAX - back);
                gcra.police(now, now);
                if frame.begin(now, now) {
                    frame.charge(1_366);
                }
                gcra.charge(u32::MAX);
                assert!(gcra.tat() >= now.minus_ns(1));
            }
            gcra.modify(rate(7), u64::MAX);
            let mut other = FrameGcra::new(rate(7), u64::MAX, u32::MAX, u32::MAX);
            other.carry_over(at(u64::MAX), &frame);
            frame = other;
            frame.charge(u32::MAX);
            assert_eq!(frame.tat(), at(u64::MAX));
        }
    }
    // No tolerance left over: what lies at the end of time is refused before it.
    let mut gcra = Gcra::new(rate(1), 0);
    gcra.catch_up(at(u64::MAX - 1));
    gcra.charge(5);
    assert!(!gcra.conforms(at(u64::MAX - 1)));
    assert_eq!(Increment::of(rate(1)).times_ns(u64::MAX), u64::MAX);
}

#[test]
fn a_modified_contract_keeps_what_was_charged() {
    let mut gcra = Gcra::new(rate(3), 0);
    gcra.charge(1);
    gcra.modify(rate(10), 1_000);
    assert_eq!(gcra.tat(), at(333_333_334));
    assert!(!gcra.conforms(at(333_332_333)));
    assert!(gcra.police(at(333_332_334), at(333_332_334)));
    assert_eq!(gcra.tat(), at(433_333_334));

    let mut frame = FrameGcra::new(rate(1_000), 0, 10, 1);
    frame.charge(10);
    assert!(frame.conforms(at(0)));
    let mut shorter = FrameGcra::new(rate(1_000), 0, 5, 1);
    shorter.carry_over(at(0), &frame);
    assert!(!shorter.conforms(at(4_999_999)));
    assert!(shorter.conforms(at(5_000_000)));
}

#[test]
fn at_a_higher_rate_the_same_cells_are_owed_and_at_a_lower_one_the_same_time() {
    // Of 32 cells at 1 cell/s, 20 are owed still.
    let mut starved = FrameGcra::new(rate(1), 0, 32, 1);
    starved.charge(32);
    let now = at(12_000_000_000);
    let other = |cell_s| {
        let mut other = FrameGcra::new(rate(cell_s), 0, 0, 1);
        other.carry_over(now, &starved);
        other
    };
    // 20 / 353,207 s.
    assert_eq!(other(353_207).tat(), now.plus_ns(56_625));
    assert_eq!(other(1).tat(), at(32_000_000_000));
    let mut slower = FrameGcra::new(rate(3), 0, 0, 1);
    slower.carry_over(now, &other(353_207));
    assert_eq!(slower.tat(), now.plus_ns(56_625));
    // The same cells of a rate that is no 1: 20 of 32 at 1,000 cells/s.
    let mut faster = FrameGcra::new(rate(1_000), 0, 32, 1);
    faster.charge(32);
    let mut fastest = FrameGcra::new(rate(353_207), 0, 0, 1);
    fastest.carry_over(at(12_000_000), &faster);
    assert_eq!(fastest.tat(), at(12_000_000 + 56_625));
    // Nothing is owed any more.
    let late = at(40_000_000_000);
    let mut paid = FrameGcra::new(rate(353_207), 0, 0, 1);
    paid.carry_over(late, &starved);
    assert_eq!(paid.tat(), starved.tat());
}

#[test]
fn the_frame_limit_is_cdvt_a_pdu_and_a_clump() {
    // T = 1 ms; 250 us + (10 + 28 - 1) ms.
    let mut frame = FrameGcra::new(rate(1_000), 250_000, 10, 28);
    frame.charge(38);
    assert!(!frame.conforms(at(749_999)));
    assert!(frame.conforms(at(750_000)));
    assert_eq!(frame.tat(), at(38_000_000));
    assert!(frame.begin(at(60_000_000), at(50_000_000)));
    assert_eq!(frame.tat(), at(50_000_000));
    assert!(frame.begin(at(50_000_000), at(10_000_000)));
    assert_eq!(frame.tat(), at(50_000_000), "TAT never moves back");
}

/// Ten seconds of 8,192-octet SDUs at 2.5 times a contract of 40 Mbit/s, the cells evenly spaced.
struct Flood {
    rate: CellRate,
    pdu_cells: u32,
}

impl Flood {
    const SDU: u32 = 8_192;
    const SECONDS: u64 = 10;

    fn new() -> Self {
        Self {
            rate: CellRate::for_sdu_rate(40_000_000, Self::SDU).unwrap(),
            pdu_cells: aal5_cells(Self::SDU),
        }
    }

    fn cells(&self) -> u64 {
        Self::SECONDS * u64::from(self.rate.cell_s()) * 5 / 2
    }

    fn arrival(&self, cell: u64) -> Time {
        at(cell * 2_000_000_000 / (5 * u64::from(self.rate.cell_s())))
    }

    /// Index of a cell within its PDU.
    fn position(&self, cell: u64) -> u32 {
        (cell % u64::from(self.pdu_cells)) as u32
    }

    fn sdu_bit_s(&self, pdus: u64) -> u64 {
        pdus * u64::from(Self::SDU) * 8 / Self::SECONDS
    }
}

#[test]
fn by_frame_a_flooded_vc_keeps_its_contract() {
    let flood = Flood::new();
    let mut frame = FrameGcra::new(flood.rate, 0, flood.pdu_cells, 1);
    let (mut accepted, mut pdus) = (false, 0);
    for cell in 0..flood.cells() {
        let now = flood.arrival(cell);
        if flood.position(cell) == 0 {
            accepted = frame.begin(now, now);
        }
        if flood.position(cell) == flood.pdu_cells - 1 && accepted {
            frame.charge(flood.pdu_cells);
            pdus += 1;
        }
    }
    // Since the VC never pauses, its TAT is exactly the time that its accepted PDUs take. It ends
    // between one PDU gap short of the limit and one PDU beyond it.
    let pdu_ns = flood.rate_pdu_ns();
    let end = flood.arrival(flood.cells());
    let charged = u64::from(flood.pdu_cells) * pdus;
    let lead = Increment::of(flood.rate).times_ns(charged) - end.ns();
    assert_eq!(frame.tat(), at(end.ns() + lead));
    assert!(lead >= pdu_ns / 5 && lead <= 2 * pdu_ns, "{lead}");
    let sdu_bit_s = flood.sdu_bit_s(pdus);
    assert!((40_000_000..40_020_000).contains(&sdu_bit_s), "{sdu_bit_s}");
}

impl Flood {
    fn rate_pdu_ns(&self) -> u64 {
        Increment::of(self.rate).times_ns(u64::from(self.pdu_cells))
    }
}

#[test]
fn by_cell_with_whole_pdus_discarded_it_would_starve() {
    let flood = Flood::new();
    // The same limit as by frame.
    let mut gcra = Gcra::new(flood.rate, flood.rate_pdu_ns());
    let (mut whole, mut pdus, mut conforming) = (true, 0, 0u64);
    for cell in 0..flood.cells() {
        let now = flood.arrival(cell);
        let conforms = gcra.police(now, now);
        conforming += u64::from(conforms);
        whole = conforms && (whole || flood.position(cell) == 0);
        if flood.position(cell) == flood.pdu_cells - 1 {
            pdus += u64::from(whole);
        }
    }
    // The policer did let the contract's cells through; they are just never all of one PDU.
    let contract = u64::from(flood.rate.cell_s()) * Flood::SECONDS;
    assert!(conforming >= contract);
    let sdu_bit_s = flood.sdu_bit_s(pdus);
    assert!(sdu_bit_s <= 30_000, "{sdu_bit_s}");
}

/// What came while the adapter slept counts as come right after it fell asleep, at most the gap
/// ago. Over any window that lets in what the contract does and what the gap is worth, no more.
#[test]
fn over_any_window_a_rest_lets_in_no_more_than_the_gap_is_worth() {
    const GAP_NS: u64 = 30_000_000;
    const CELLS: u32 = 32;
    for seed in 0..200 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let rate = rate(1_000 + random.next_u32() % 50_000);
        let cdvt_ns = random.next_u64() % 2_000_000;
        let mut frame = FrameGcra::new(rate, cdvt_ns, CELLS, 28);
        let pdu_ns = Increment::of(rate).times_ns(CELLS.into());
        let limit_ns = cdvt_ns + Increment::of(rate).times_ns(u64::from(CELLS) + 27);
        let (mut now, mut awake) = (1_000_000_000, 0);
        let mut accepted = Vec::new();
        while accepted.len() < 200 {
            // Too fast, as a rule, and silent for a while now and then.
            now += match random.next_u32() % 30 {
                0 => random.next_u64() % (4 * GAP_NS),
                _ => random.next_u64() % pdu_ns,
            };
            // A step takes one right after another step, or all that came while it slept.
            let rested = random.next_u32().is_multiple_of(3);
            let earliest = if rested { awake.max(now - GAP_NS) } else { now };
            let together = if rested { random.next_u32() % 400 } else { 1 };
            awake = now;
            for _ in 0..together {
                if frame.begin(at(now), at(earliest)) {
                    frame.charge(CELLS);
                    accepted.push(now);
                }
            }
        }
        for (first, from) in accepted.iter().enumerate() {
            for (count, until) in (0..).zip(&accepted[first..]) {
                let let_in_ns = Increment::of(rate).times_ns(count * u64::from(CELLS));
                let most_ns = until - from + limit_ns + GAP_NS + 1;
                assert!(
                    let_in_ns <= most_ns,
                    "seed {seed}: {count} PDUs from {from}"
                );
            }
        }
        let bound = accepted.len() as u64 * pdu_ns;
        let took = accepted.last().unwrap() - accepted[0];
        assert!(
            bound <= took + limit_ns + GAP_NS + pdu_ns,
            "the average stays"
        );
    }
}

/// A sender that keeps GCRA(T, CDVT) for every cell, over a link that packs cells.
struct Sender {
    gcra: Gcra,
    now: u64,
}

impl Sender {
    fn next_cell(&mut self, random: &mut Pcg64Mcg, t_ns: u64) -> u64 {
        if random.next_u32().is_multiple_of(50) {
            self.now += random.next_u64() % (20 * t_ns);
        }
        // Greedy: as soon as it conforms.
        while !self.gcra.police(at(self.now), at(self.now)) {
            self.now += (t_ns / 8).max(1);
        }
        self.now
    }
}

#[test]
fn a_conforming_vc_is_never_refused_by_frame() {
    let mut random = Pcg64Mcg::seed_from_u64(13);
    for _ in 0..100 {
        let cell_s = 1_000 + random.next_u32() % 400_000;
        let t_ns = Increment::of(rate(cell_s)).times_ns(1);
        let cdvt_ns = random.next_u64() % (10 * t_ns);
        let clump = 1 + random.next_u32() % 28;
        let max_cells = 1 + random.next_u32() % 40;
        let mut sender = Sender {
            gcra: Gcra::new(rate(cell_s), cdvt_ns),
            now: 0,
        };
        let mut frame = FrameGcra::new(rate(cell_s), cdvt_ns, max_cells, clump);
        let cells: Vec<u64> = (0..3_000)
            .map(|_| sender.next_cell(&mut random, t_ns))
            .collect();
        let hold_ns = u64::from(clump - 1) * (t_ns - 1);
        let mut left = 0u32;
        let mut pdu_cells = 0u32;
        let mut from = 0;
        while from < cells.len() {
            // A packet leaves when full, or when its first cell has waited long enough.
            let oldest = cells[from];
            let packed = cells[from..]
                .iter()
                .take(clump as usize)
                .take_while(|sent| **sent <= oldest + hold_ns)
                .count();
            let full = packed == clump as usize;
            let left_at = if full {
                cells[from + packed - 1]
            } else {
                oldest + hold_ns
            };
            let now = at(left_at + random.next_u64() % (5 * t_ns));
            for _ in 0..packed {
                if left == 0 {
                    pdu_cells = 1 + random.next_u32() % max_cells;
                    left = pdu_cells;
                    assert!(frame.begin(now, at(left_at)), "refused at {now:?}");
                }
                left -= 1;
                if left == 0 {
                    frame.charge(pdu_cells);
                }
            }
            from += packed;
        }
    }
}

#[test]
fn a_shaper_is_due_at_its_time_and_not_before() {
    let mut shaper = Shaper::new(rate(1_000), 0);
    assert!(shaper.due(at(0)));
    shaper.emit(at(0), 1);
    assert_eq!(shaper.next(), at(1_000_000));
    assert!(!shaper.due(at(999_999)));
    assert!(shaper.due(at(1_000_000)) && shaper.due(at(1_000_001)));
}
