//! What the schedule promises, on a virtual clock: rates, shares, conformance, catch-up.

use cellgate_core::Time;
use cellgate_core::adapter::{Class, PeakRate, PortIndex, Schedule, VcIndex};
use cellgate_core::contract::{Bursts, CellRate, Gcra, Increment, Shaper};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const LINE: PortIndex = PortIndex(0);
const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn rate(cell_s: u32) -> CellRate {
    CellRate::new(cell_s).unwrap()
}

fn guaranteed(cell_s: u32, cdvt_ns: u64) -> Class {
    bursting(cell_s, cdvt_ns, 1)
}

fn bursting(cell_s: u32, cdvt_ns: u64, burst: u16) -> Class {
    Class::Guaranteed {
        rate: rate(cell_s),
        cdvt_ns,
        burst,
        sustained: None,
    }
}

fn best_effort(weight: u32) -> Class {
    Class::BestEffort { weight, peak: None }
}

/// One OC-3 line whose VCs always have cells to send, and what left it.
struct Rig {
    now: u64,
    schedule: Schedule,
    burst_cells: u32,
    sent: Vec<u64>,
    /// An observer of each guaranteed VC where the schedule lets its cells go.
    observers: Vec<Option<Gcra>>,
    /// The same at the wire behind the transmit FIFO, which holds the line's burst.
    wire_observers: Vec<Option<Gcra>>,
    wire: Shaper,
    /// An observer of the line as a whole.
    line: Gcra,
    max_cells: u32,
}

impl Rig {
    const BURST_CELLS: u32 = 4;

    fn new(start: u64, classes: &[Class]) -> Self {
        let burst_cells = Self::BURST_CELLS;
        let mut rig = Self {
            now: start,
            schedule: Schedule::new(&[CellRate::OC3], burst_cells, classes.len()),
            burst_cells,
            sent: vec![0; classes.len()],
            observers: vec![None; classes.len()],
            wire_observers: vec![None; classes.len()],
            wire: Shaper::new(CellRate::OC3, 0),
            line: Gcra::new(
                CellRate::OC3,
                Increment::of(CellRate::OC3).times_ns(u64::from(burst_cells) - 1),
            ),
            max_cells: 1,
        };
        for (index, &class) in classes.iter().enumerate() {
            rig.open(index, class);
        }
        rig
    }

    fn open(&mut self, index: usize, class: Class) {
        let vc = VcIndex(index as u16);
        self.schedule.open(vc, LINE, class);
        self.schedule.activate(Time::from_ns(self.now), vc);
        self.observe(index, class);
    }

    fn observe(&mut self, index: usize, class: Class) {
        let Class::Guaranteed {
            rate,
            cdvt_ns,
            burst,
            ..
        } = class
        else {
            return;
        };
        let cdvt_ns = cdvt_ns + Bursts::early_ns(Increment::of(rate), burst.into());
        let fifo_ns = Increment::of(CellRate::OC3).times_ns(u64::from(self.burst_cells));
        self.observers[index] = Some(Gcra::new(rate, cdvt_ns));
        self.wire_observers[index] = Some(Gcra::new(rate, cdvt_ns + fifo_ns));
    }

    /// Everything that may leave now, leaves.
    fn drain(&mut self, mut each: impl FnMut(u64, usize)) {
        let now = Time::from_ns(self.now);
        while let Some(grant) = self.schedule.grant(now, LINE, self.max_cells) {
            let index = usize::from(grant.vc.0);
            for _ in 0..grant.cells {
                assert!(self.line.police(now, now), "faster than the line");
                if let Some(observer) = &mut self.observers[index] {
                    assert!(observer.police(now, now), "VC {index} does not conform");
                }
                let departure = self.wire.next().max(now);
                self.wire.emit(departure, 1);
                if let Some(observer) = &mut self.wire_observers[index] {
                    assert!(
                        observer.police(departure, departure),
                        "VC {index} at the wire"
                    );
                }
                each(self.now, index);
            }
            self.sent[index] += u64::from(grant.cells);
            self.schedule.sent(now, grant.vc, grant.cells);
        }
    }

    /// Up to and without `end`, with a caller that is always there.
    fn run_until(&mut self, end: u64, mut each: impl FnMut(u64, usize)) {
        loop {
            self.drain(&mut each);
            match self.schedule.next_deadline(LINE) {
                Some(deadline) if deadline.ns() < end => self.now = deadline.ns(),
                _ => break,
            }
        }
        self.now = end;
    }

    /// Cells of each VC in the next `ns`.
    fn count(&mut self, ns: u64) -> Vec<u64> {
        let before = self.sent.clone();
        self.run_until(self.now + ns, |_, _| {});
        let after = self.sent.iter().zip(before);
        after.map(|(after, before)| after - before).collect()
    }
}

fn assert_within(value: u64, of: u64, per_mille: u64) {
    assert!(
        value.abs_diff(of) * 1000 <= of * per_mille,
        "{value} is not within {per_mille} per mille of {of}"
    );
}

/// Figure 6 of *Policing Offloaded*: two guaranteed VCs undisturbed by a third that changes, and a
/// fourth that takes the rest.
#[test]
fn figure_6_constant_rates_and_the_rest_for_best_effort() {
    let c1 = |cell_s| guaranteed(cell_s, MS);
    let (c2, c3) = (guaranteed(24_000, MS), guaranteed(48_000, MS));
    let mut rig = Rig::new(0, &[c1(1_000), c2, c3, best_effort(1)]);
    for cell_s in [1_000, 10_000, 50_000, 100_000, 200_000, 281_000, 30_000] {
        let now = Time::from_ns(rig.now);
        rig.schedule.modify(now, VcIndex(0), c1(cell_s));
        rig.observe(0, c1(cell_s));
        assert_eq!(
            rig.schedule.guaranteed_cell_s(LINE),
            72_000 + u64::from(cell_s)
        );
        let sent = rig.count(S);
        assert_within(sent[0], cell_s.into(), 1);
        assert_within(sent[1], 24_000, 1);
        assert_within(sent[2], 48_000, 1);
        assert_within(sent.iter().sum(), 353_207, 1);
        let rest = 353_207 - 72_000 - u64::from(cell_s);
        // At 281,000 only 207 cells/s are left: a cell or two at the edges.
        assert!(sent[3].abs_diff(rest) * 1000 <= rest * 5 + 3000);
    }
}

fn random_rates(vcs: u32, sum: u32, random: &mut Pcg64Mcg) -> Vec<u32> {
    let shares: Vec<u64> = (0..vcs).map(|_| 1 + random.next_u64() % 1000).collect();
    let total: u64 = shares.iter().sum();
    let rates = shares.iter().map(|share| share * u64::from(sum) / total);
    rates.map(|rate| rate.max(1) as u32).collect()
}

/// Guaranteed VCs fill 95 % of the line, and all want to start at once, which is the worst that can
/// happen to their order; best effort is behind them.
fn crowded_line(vcs: u32, bursts: &[u16]) {
    const SECONDS: u64 = 4;
    let mut random = Pcg64Mcg::seed_from_u64(u64::from(vcs));
    let rates = random_rates(vcs, 353_207 / 100 * 95, &mut random);
    let classes = |cdvt_ns| -> Vec<Class> {
        let classes = rates.iter().zip(bursts.iter().cycle());
        let classes = classes.map(|(&rate, &burst)| bursting(rate, cdvt_ns, burst));
        classes.chain([best_effort(1)]).collect()
    };
    let contention_ns = Rig::new(0, &classes(0)).schedule.contention_ns(LINE);
    let mut rig = Rig::new(0, &classes(contention_ns));
    let mut latest = 0;
    let mut cells = vec![0; rates.len() + 1];
    rig.run_until(SECONDS * S, |now, index| {
        if let Some(&rate) = rates.get(index) {
            let ideal = cells[index] * S / u64::from(rate);
            latest = latest.max(now.saturating_sub(ideal));
        }
        cells[index] += 1;
    });
    println!("{vcs} VCs: latest {latest} ns, bound {contention_ns} ns");
    assert!(latest <= contention_ns, "{latest} ns late");
    for (&rate, &sent) in rates.iter().zip(&rig.sent) {
        let expected = u64::from(rate) * SECONDS;
        // The first cell leaves at the start; the last may be as late as promised.
        let most = bursts.iter().max().map_or(1, |cells| u64::from(*cells));
        let slowest = most + (u64::from(rate) * contention_ns).div_ceil(S);
        assert!(sent <= expected + most && sent + slowest >= expected);
        if expected >= 2_000 * slowest {
            assert_within(sent, expected, 1);
        }
    }
    assert_within(rig.sent.iter().sum(), 353_207 * SECONDS, 1);
}

#[test]
fn a_thousand_guaranteed_vcs_keep_their_rates() {
    crowded_line(1_000, &[1]);
}

#[test]
fn vcs_that_send_bursts_keep_their_rates_and_leave_others_theirs() {
    crowded_line(100, &[1, 7, 64]);
    crowded_line(1_000, &[1, 1, 1, 2, 300]);
}

#[test]
fn cells_leave_back_to_back_a_burst_every_so_many_cell_times() {
    const RATE: u64 = 50_000;
    for burst in [1, 2, 32, 1_000] {
        let classes = [bursting(RATE as u32, MS, burst), best_effort(1)];
        let mut rig = Rig::new(0, &classes);
        let mut left = Vec::new();
        rig.run_until(S, |now, index| left.extend((index == 0).then_some(now)));
        let burst = usize::from(burst);
        let slot = Increment::of(CellRate::OC3).times_ns(1);
        for (nth, cells) in left.chunks_exact(burst).enumerate() {
            let due = (nth * burst) as u64 * S / RATE;
            assert!(cells[0].abs_diff(due) <= 2 * slot + 1_024, "burst {nth}");
            let took = cells[burst - 1] - cells[0];
            assert!(took <= burst as u64 * (slot + 1), "{took} ns of a burst");
        }
        assert!(left.len().abs_diff(RATE as usize) <= burst);
    }
}

#[test]
fn a_burst_that_was_interrupted_makes_no_longer_one() {
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let (rate, cdvt_ns, burst) = (rate(10_000), 100_000, 16);
    let mut bursts = Bursts::new(Shaper::new(rate, cdvt_ns), burst);
    let early_ns = Bursts::early_ns(Increment::of(rate), burst.into());
    let mut observer = Gcra::new(rate, cdvt_ns + early_ns);
    let (mut now, mut cells) = (0, 0);
    while cells < 100_000 {
        // Idle for up to ten bursts' time, or not at all.
        now += [0, 100, 3_000, 100_000, 16_000_000][(random.next_u64() % 5) as usize];
        let at = Time::from_ns(now);
        for _ in 0..random.next_u64() % 24 {
            if bursts.due(at) {
                assert!(observer.police(at, at), "cell {cells}");
                bursts.emit(at, 1);
                cells += 1;
            }
        }
    }
}

#[test]
fn four_thousand_guaranteed_vcs_keep_their_rates() {
    crowded_line(4_096, &[1]);
}

#[test]
fn shaped_output_conforms_whatever_stalls_happen() {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..200 {
        let magnitude = random.next_u32() % 24;
        let rate = rate(1 + random.next_u32() % (1 << magnitude));
        let cdvt_ns = random.next_u64() % (1 << (random.next_u32() % 30));
        let mut shaper = Shaper::new(rate, cdvt_ns);
        let mut observer = Gcra::new(rate, cdvt_ns);
        let mut now = random.next_u64() % (u64::MAX / 2);
        for _ in 0..500 {
            now += match random.next_u32() % 8 {
                0 => random.next_u64() % (4 * S),
                1..4 => 0,
                _ => random.next_u64() % (2 * S / u64::from(rate.cell_s()) + 2),
            };
            let time = Time::from_ns(now);
            if shaper.due(time) {
                assert!(observer.police(time, time));
                shaper.emit(time, 1);
            } else {
                // Not needlessly late either: a cell now would eat into the tolerance of the
                // next, unless the shaper has all of it to give.
                assert!(shaper.next() > time);
            }
        }
    }
}

#[test]
fn lateness_within_the_tolerance_costs_nothing_and_beyond_it_is_lost() {
    // 100,000 ns a cell; a stall of 10 ms is 100 cells.
    for (cdvt_ns, burst) in [(0, 1), (MS, 11), (3 * MS, 31), (20 * MS, 100)] {
        let mut rig = Rig::new(
            0,
            &[guaranteed(10_000, cdvt_ns), guaranteed(1_000, cdvt_ns)],
        );
        rig.run_until(S, |_, _| {});
        let before = rig.sent[0];
        rig.now += 10 * MS - 1;
        let stalled_until = rig.now;
        // What is made good takes up to 110 slots, and four more cells come due meanwhile.
        let mut late = 0;
        rig.run_until(stalled_until + 4 * MS / 10, |_, index| {
            late += u64::from(index == 0)
        });
        assert!(late.abs_diff(burst + 4) <= 1, "{late} cells for {burst}");
        rig.run_until(2 * S, |_, _| {});
        let lost = 100_u64.saturating_sub(burst);
        assert!((rig.sent[0] - before + lost).abs_diff(10_000) <= 1);
    }
}

#[test]
fn a_line_makes_good_no_more_than_its_burst() {
    let mut rig = Rig::new(5 * S, &[best_effort(1)]);
    rig.run_until(6 * S, |_, _| {});
    let before = rig.sent[0];
    rig.now += 10 * MS;
    rig.drain(|_, _| {});
    assert_eq!(rig.sent[0] - before, u64::from(rig.burst_cells));
}

#[test]
fn slots_that_nobody_wanted_are_lost() {
    let mut rig = Rig::new(0, &[best_effort(1)]);
    rig.schedule.deactivate(VcIndex(0));
    assert_eq!(rig.schedule.next_deadline(LINE), None);
    for _ in 0..10 {
        rig.now += MS;
        rig.drain(|_, _| {});
    }
    rig.schedule.activate(Time::from_ns(rig.now), VcIndex(0));
    rig.drain(|_, _| {});
    assert_eq!(rig.sent[0], 1);
}

#[test]
fn a_backlogged_line_uses_every_slot() {
    let classes = [
        guaranteed(100_000, MS),
        guaranteed(7, 0),
        best_effort(3),
        best_effort(1_000_000),
    ];
    let mut rig = Rig::new(0, &classes);
    for second in 1..=4 {
        rig.run_until(second * S, |_, _| {});
        assert_eq!(rig.sent.iter().sum::<u64>(), 353_207 * second);
    }
    // So it does when the caller comes only every 3 slots: the burst is 4.
    while rig.now < 5 * S {
        rig.drain(|_, _| {});
        rig.now += 8_493;
    }
    rig.now = 5 * S - 1;
    rig.drain(|_, _| {});
    assert_eq!(rig.sent.iter().sum::<u64>(), 353_207 * 5);
}

#[test]
fn best_effort_is_shared_by_weight() {
    // The smallest share is a few dozen cells.
    for (seconds, weights) in [
        (1, vec![1, 1, 1]),
        (1, vec![1, 2, 3, 4, 5, 6, 7, 8]),
        (1, vec![100, 353_207, 40_000, 12_345]),
        (1, vec![3_000_000_000, 4_000_000_000, 50_000_000]),
        (10, (1..=500).collect::<Vec<u32>>()),
    ] {
        let classes: Vec<Class> = weights.iter().copied().map(best_effort).collect();
        let mut rig = Rig::new(0, &classes);
        let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        for (index, sent) in rig.count(seconds * S).into_iter().enumerate() {
            let share = seconds * 353_207 * u64::from(weights[index]) / total;
            // Two cells is the most that a visit can be ahead or behind.
            assert!(
                sent.abs_diff(share) <= (share / 100).max(2),
                "{sent} for {share} of {weights:?}"
            );
        }
    }
}

#[test]
fn zero_and_huge_weights_starve_nobody_of_their_share() {
    let mut rig = Rig::new(0, &[best_effort(0), best_effort(u32::MAX), best_effort(1)]);
    let sent = rig.count(S);
    assert!(sent[1] + 2 >= 353_207);
    // The giant goes; whoever had to wait for it is served at once.
    rig.schedule.deactivate(VcIndex(1));
    let sent = rig.count(S);
    assert!(sent[0].abs_diff(sent[2]) <= 2 && sent[0] + sent[2] == 353_207);
}

#[test]
fn a_light_vc_waits_for_a_light_one_no_longer_than_a_round() {
    let classes: Vec<Class> = (0..200).map(|index| best_effort(1000 + index)).collect();
    let mut rig = Rig::new(0, &classes);
    let mut last = vec![0; classes.len()];
    let (mut slot, mut gap) = (0_u64, 0);
    rig.run_until(S, |_, index| {
        slot += 1;
        gap = gap.max(slot - last[index]);
        last[index] = slot;
    });
    // 200 visits of at most two cells, in two strata.
    assert!(gap <= 2 * 200 + 2 * 200 / 4, "{gap} slots");
}

#[test]
fn an_overcommitted_line_serves_everyone() {
    // Twice the line, promised before the line was slowed down.
    let classes: Vec<Class> = (1..=64).map(|n| guaranteed(n * 170, MS)).collect();
    let mut rig = Rig::new(0, &classes);
    rig.schedule.set_line_rate(LINE, rate(176_800));
    for sent in rig.count(5 * S) {
        assert!(sent > 100);
    }
}

/// Many timers in one far slot, jumps far beyond the wheel, and rates of one cell in a second.
#[test]
fn slow_vcs_are_served_after_jumps_in_time() {
    let classes: Vec<Class> = (0..2000).map(|n| guaranteed(1 + n % 3, 10 * MS)).collect();
    let mut rig = Rig::new(0, &classes);
    let sent = rig.count(10 * S);
    for (index, sent) in sent.into_iter().enumerate() {
        assert!(sent.abs_diff(10 * (1 + index as u64 % 3)) <= 1);
    }
    for jump in [3 * S, 100 * S, 1_000_000 * S] {
        rig.now += jump;
        let sent = rig.count(S / 10);
        assert!(sent.into_iter().all(|sent| sent == 1));
    }
}

#[test]
fn a_timer_at_the_edge_of_the_near_slots_blocks_nobody() {
    // A cell of VC 0 takes 4,184,100.4 ns. The caller comes so late that the second one is due
    // 4,096 ticks of 1,024 ns after the first should have left, and one tick less or more.
    for ahead in [4095, 4096, 4097] {
        let late = ahead * 1024 - 4_184_101;
        let mut rig = Rig::new(S, &[guaranteed(239, 0), guaranteed(1_000, 0)]);
        rig.now += late;
        let mut cells = Vec::new();
        rig.run_until(S + 5 * MS, |now, index| cells.push((now - S, index)));
        let second = cells.iter().filter(|(_, index)| *index == 0).nth(1);
        assert_eq!(second, Some(&(ahead * 1024, 0)));
        let others = cells.iter().filter(|(_, index)| *index == 1);
        for (number, (at, _)) in others.enumerate() {
            assert!(at.abs_diff(late + number as u64 * MS) < 3_000);
        }
        assert_eq!(cells.len(), 7);
    }
}

#[test]
fn runs_change_nothing_but_the_number_of_grants() {
    let classes = [
        guaranteed(100_000, 50_000),
        guaranteed(50_000, 200_000),
        best_effort(10),
    ];
    let (mut singles, mut runs) = (Rig::new(0, &classes), Rig::new(0, &classes));
    runs.max_cells = 28;
    let mut random = Pcg64Mcg::seed_from_u64(5);
    let mut total = 0;
    for _ in 0..20_000 {
        let step = random.next_u64() % 40_000;
        let mut grants = [Vec::new(), Vec::new()];
        for (rig, grants) in [&mut singles, &mut runs].into_iter().zip(&mut grants) {
            rig.now += step;
            rig.drain(|now, index| grants.push((now, index)));
        }
        assert_eq!(grants[0], grants[1]);
        total += grants[0].len();
    }
    assert!(total > 60_000);
}

#[test]
fn a_run_of_a_lone_vc_is_charged_as_its_cells_are() {
    for weight in [1, 2, 3, 5, 1_000, u32::MAX] {
        let rig = Rig::new(0, &[best_effort(weight), best_effort(7)]);
        let [mut run, mut cells] = [rig.schedule.clone(), rig.schedule];
        let mut random = Pcg64Mcg::seed_from_u64(weight.into());
        for schedule in [&mut run, &mut cells] {
            schedule.deactivate(VcIndex(1));
        }
        for i in 0..200 {
            let now = Time::from_ns(i * MS);
            let sent = 1 + random.next_u32() % 256;
            run.sent(now, VcIndex(0), sent);
            (0..sent).for_each(|_| cells.sent(now, VcIndex(0), 1));
            assert_eq!(run, cells, "weight {weight}, {sent} cells");
        }
    }
}

#[test]
fn a_lone_vc_gets_the_slots_that_are_due_in_one_run() {
    let mut rig = Rig::new(0, &[guaranteed(353_207, MS), best_effort(1)]);
    rig.run_until(MS, |_, _| {});
    rig.now += MS;
    let now = Time::from_ns(rig.now);
    let grant = rig.schedule.grant(now, LINE, 28).unwrap();
    assert_eq!((grant.vc, grant.cells), (VcIndex(0), rig.burst_cells));
    // Fewer may be sent than granted.
    rig.schedule.sent(now, grant.vc, 3);
    assert_eq!(rig.schedule.grant(now, LINE, 28).unwrap().cells, 1);
    rig.schedule.deactivate(VcIndex(0));
    assert_eq!(rig.schedule.grant(now, LINE, 28).unwrap().vc, VcIndex(1));
}

#[test]
fn goes_on_from_its_serialised_state() {
    let classes: Vec<Class> = (1..300)
        .map(|n| {
            if n % 3 == 0 {
                best_effort(n)
            } else {
                guaranteed(n, MS)
            }
        })
        .collect();
    let mut rig = Rig::new(0, &classes);
    rig.run_until(S + 12_345, |_, _| {});
    let text = serde_json::to_string(&rig.schedule).unwrap();
    let mut again = Rig::new(rig.now, &classes);
    again.schedule = serde_json::from_str(&text).unwrap();
    assert!(again.schedule == rig.schedule);
    let mut grants = [Vec::new(), Vec::new()];
    for (rig, grants) in [&mut rig, &mut again].into_iter().zip(&mut grants) {
        rig.run_until(2 * S, |now, index| grants.push((now, index)));
    }
    assert!(grants[0] == grants[1]);
    assert!(rig.schedule == again.schedule);
}

#[test]
fn lines_know_nothing_of_each_other() {
    let (one, two) = (PortIndex(0), PortIndex(1));
    let mut schedule = Schedule::new(&[CellRate::OC3, CellRate::OC3], 4, 2);
    schedule.open(VcIndex(0), one, guaranteed(1_000, 0));
    schedule.open(VcIndex(1), two, best_effort(1));
    assert_eq!(schedule.guaranteed_cell_s(one), 1_000);
    assert_eq!(schedule.guaranteed_cell_s(two), 0);
    let now = Time::from_ns(77);
    schedule.activate(now, VcIndex(0));
    schedule.activate(now, VcIndex(1));
    assert_eq!(schedule.grant(now, one, 1).unwrap().vc, VcIndex(0));
    assert_eq!(schedule.grant(now, two, 1).unwrap().vc, VcIndex(1));
    schedule.close(VcIndex(0));
    assert_eq!(schedule.guaranteed_cell_s(one), 0);
    assert_eq!(schedule.grant(now, one, 1), None);
    assert_eq!(schedule.next_deadline(one), None);
}

#[test]
fn calls_about_what_does_not_exist_do_nothing() {
    let mut schedule = Schedule::new(&[CellRate::OC3], 4, 2);
    let untouched = schedule.clone();
    let (nowhere, nobody, now) = (PortIndex(9), VcIndex(2), Time::from_ns(5));
    schedule.open(nobody, LINE, best_effort(1));
    schedule.open(VcIndex(0), nowhere, best_effort(1));
    schedule.modify(now, VcIndex(1), best_effort(1));
    schedule.activate(now, VcIndex(1));
    schedule.activate(now, nobody);
    schedule.deactivate(nobody);
    schedule.sent(now, VcIndex(1), 3);
    schedule.close(nobody);
    schedule.set_line_rate(nowhere, rate(1));
    assert_eq!(schedule.grant(now, nowhere, 1), None);
    assert_eq!(schedule.next_deadline(nowhere), None);
    assert_eq!(schedule.guaranteed_cell_s(nowhere), 0);
    assert!(schedule == untouched);
}

/// A line of 10^9 cells/s, on which these have cells to send.
fn lender(classes: &[Class]) -> Schedule {
    let mut schedule = Schedule::new(&[rate(1_000_000_000)], 256, classes.len() + 1);
    for (index, &class) in classes.iter().enumerate() {
        schedule.open(VcIndex(index as u16), LINE, class);
        schedule.activate(Time::from_ns(MS), VcIndex(index as u16));
    }
    schedule
}

#[test]
fn a_line_lends_a_whole_pdu_its_slots_and_keeps_its_rate() {
    let mut schedule = lender(&[best_effort(1)]);
    let (mut sent, mut grants) = (0, 0);
    for now in (MS..2 * MS).map(Time::from_ns) {
        if let Some(vc) = schedule.grant_whole(now, LINE, 1_366) {
            schedule.sent(now, vc, 1_366);
            (sent, grants) = (sent + 1_366, grants + 1);
            // Until it has made up for them.
            let next = schedule.next_deadline(LINE).unwrap();
            assert!(next.since_ns(now) > 1_366 - 256, "{next:?} after {now:?}");
            assert_eq!(schedule.grant(now, LINE, 1), None);
        }
    }
    assert_within(sent, MS, 2);
    assert_eq!(grants, sent / 1_366);
}

#[test]
fn a_line_lends_no_more_than_its_time_and_not_at_the_cost_of_others() {
    let now = Time::from_ns(MS);
    let lent = Schedule::LENT_NS as u32;
    let peaked = |cdvt_ns| Class::BestEffort {
        weight: 1,
        peak: Some(PeakRate {
            rate: rate(1_000_000),
            cdvt_ns,
        }),
    };
    let first = Some(VcIndex(0));
    for (classes, cells, granted) in [
        (&[best_effort(1)][..], lent, first),
        (&[best_effort(1)], lent + 1, None),
        // Cells that are due need not be lent.
        (&[best_effort(1), best_effort(1)], 1, first),
        (&[best_effort(1), best_effort(1)], 2, None),
        (&[guaranteed(1_000_000, 99_000)], 100, first),
        (&[guaranteed(1_000_000, 99_000)], 101, None),
        (&[peaked(999_000)], 1_000, first),
        (&[peaked(999_000)], 1_001, None),
    ] {
        let mut schedule = lender(classes);
        let whole = schedule.grant_whole(now, LINE, cells);
        assert_eq!(whole, granted, "{classes:?}, {cells}");
    }
    // One that is guaranteed a rate may come at any time.
    let mut schedule = lender(&[best_effort(1)]);
    schedule.open(VcIndex(1), LINE, guaranteed(1, 0));
    assert_eq!(schedule.grant_whole(now, LINE, 257), None);
    schedule.close(VcIndex(1));
    assert_eq!(schedule.grant_whole(now, LINE, 257), first);
}
