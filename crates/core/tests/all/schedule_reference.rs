//! The schedule against a naive one: all VCs looked at for every cell, times as fractions.

use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::adapter::{Class, PeakRate, PortIndex, Schedule, SustainedRate, VcIndex};
use cellgate_core::contract::CellRate;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const S: u128 = 1_000_000_000;
const NEAR: u64 = 4096;

/// A sender at `rate` with `tau` of catch-up; the next time is `numerator / rate` nanoseconds.
#[derive(Clone, Copy)]
struct Pace {
    numerator: u128,
    rate: u128,
    tau: u128,
}

impl Pace {
    fn new(rate: CellRate, tau: u64) -> Self {
        Self {
            numerator: 0,
            rate: u128::from(rate.cell_s()),
            tau: u128::from(tau),
        }
    }

    fn next(&self) -> u64 {
        self.numerator.div_ceil(self.rate) as u64
    }

    fn floor(&mut self, ns: u128) {
        self.numerator = self.numerator.max(ns * self.rate);
    }

    fn emit(&mut self, now: u64) {
        self.floor(u128::from(now).saturating_sub(self.tau));
        self.numerator += S;
    }

    fn modify(&mut self, rate: CellRate, tau: u64) {
        let next = u128::from(self.next());
        *self = Self::new(rate, tau);
        self.floor(next);
    }

    /// The cells that are ahead, and one, at the new rate if that is sooner.
    fn carry_over(&mut self, now: u64, rate: CellRate, tau: u64) {
        let ahead = u128::from(self.next().saturating_sub(now));
        let cells = ahead * self.rate / S + 1;
        let sooner = u128::from(now) + (cells * S).div_ceil(rate.cell_s().into());
        let next = sooner.min(self.next().into());
        *self = Self::new(rate, tau);
        self.floor(next);
    }
}

/// The bursts of a VBR VC.
#[derive(Clone, Copy)]
struct Burst {
    peak: Pace,
    tolerance: u64,
}

/// Where bursts wait for the first of their tick, or behind one that was late.
const BURST_LATE: u64 = 2 * 1_024;

#[derive(Clone)]
struct Vc {
    line: usize,
    class: Class,
    /// Of a guaranteed rate, or of a peak.
    pace: Option<Pace>,
    burst: Option<Burst>,
    active: bool,
    /// Its turn came before its peak allowed a cell.
    held: bool,
    /// The tick it is ordered by.
    key: u64,
    /// When it was put there, if that is known.
    order: Option<u64>,
    deficit: u64,
}

struct Line {
    slots: Pace,
    burst: u32,
    base: u64,
    strata: Vec<VecDeque<usize>>,
    /// Those of each stratum that were held, before the others.
    returned: Vec<VecDeque<usize>>,
    /// What each stratum has spent: for a cell 1 / its weight.
    spent: Vec<u128>,
    spent_last: u128,
}

struct Naive {
    vcs: Vec<Option<Vc>>,
    lines: Vec<Line>,
    orders: u64,
}

fn line_tau(rate: CellRate, burst: u32) -> u64 {
    (u128::from(burst - 1) * S).div_ceil(u128::from(rate.cell_s())) as u64
}

impl Naive {
    fn new(lines: &[CellRate], burst: u32, vcs: usize) -> Self {
        Self {
            vcs: vec![None; vcs],
            lines: lines
                .iter()
                .map(|&rate| Line {
                    slots: Pace::new(rate, line_tau(rate, burst)),
                    burst,
                    base: 0,
                    strata: vec![VecDeque::new(); 32],
                    returned: vec![VecDeque::new(); 32],
                    spent: vec![0; 32],
                    spent_last: 0,
                })
                .collect(),
            orders: 0,
        }
    }

    fn vc(&mut self, index: usize) -> &mut Vc {
        self.vcs[index].as_mut().unwrap()
    }

    /// The active guaranteed VCs of a line.
    fn guaranteed(&self, line: usize) -> impl Iterator<Item = (usize, &Vc)> {
        self.vcs.iter().enumerate().filter_map(move |(index, vc)| {
            let vc = vc.as_ref()?;
            (vc.line == line && vc.active && vc.is_guaranteed()).then_some((index, vc))
        })
    }

    /// The held VCs of a line, by when they may send.
    fn held(&self, line: usize) -> Vec<(u64, usize)> {
        let all = self.vcs.iter().enumerate();
        let mut held: Vec<(u64, usize)> = all
            .filter_map(|(index, vc)| {
                let vc = vc.as_ref().filter(|vc| vc.line == line && vc.held)?;
                Some((vc.pace.unwrap().next(), index))
            })
            .collect();
        held.sort_unstable();
        held
    }

    /// When bursts may send, by VC.
    fn bursts(&self, line: usize) -> impl Iterator<Item = (usize, u64)> {
        self.guaranteed(line).filter_map(|(index, vc)| {
            let burst = vc.burst?;
            let sustained = vc.pace?.next().saturating_sub(burst.tolerance);
            Some((index, burst.peak.next().max(sustained)))
        })
    }

    fn first_key(&self, line: usize) -> Option<u64> {
        self.guaranteed(line).map(|(_, vc)| vc.key).min()
    }

    fn weight_of(&self, index: usize) -> u64 {
        match self.vcs[index].as_ref().unwrap().class {
            Class::BestEffort { weight, .. } => u64::from(weight.max(1)),
            Class::Guaranteed { .. } | Class::Available { .. } => unreachable!(),
        }
    }

    fn place(&mut self, index: usize) {
        self.orders += 1;
        let order = self.orders;
        let line = self.vc(index).line;
        let base = self.lines[line].base;
        let vc = self.vc(index);
        vc.key = (vc.pace.unwrap().next() >> 10).max(base);
        vc.order = (vc.key - base < NEAR).then_some(order);
    }

    fn activate(&mut self, now: u64, index: usize) {
        let Some(vc) = &mut self.vcs[index] else {
            return;
        };
        if vc.active {
            return;
        }
        let line = vc.line;
        if let (true, Some(pace)) = (vc.is_guaranteed(), &mut vc.pace) {
            let floor = u128::from(now).saturating_sub(pace.tau);
            pace.floor(floor);
            if let Some(burst) = &mut vc.burst {
                burst.peak.floor(floor);
            }
            let tick = now.min(pace.next()) >> 10;
            if self.first_key(line).is_none() {
                let base = &mut self.lines[line].base;
                *base = tick.max(*base);
            }
            self.place(index);
        } else {
            vc.deficit = 0;
            let stratum = self.weight_of(index).ilog2() as usize;
            let line = &mut self.lines[line];
            line.join(stratum);
            line.strata[stratum].push_back(index);
        }
        self.vc(index).active = true;
    }

    fn deactivate(&mut self, index: usize) {
        let Some(vc) = &mut self.vcs[index] else {
            return;
        };
        vc.active = false;
        let held = core::mem::take(&mut vc.held);
        let line = vc.line;
        if vc.is_guaranteed() || held {
            return;
        }
        let stratum = self.weight_of(index).ilog2() as usize;
        self.lines[line].leave(stratum, index);
    }

    fn modify(&mut self, now: u64, index: usize, class: Class) {
        let Some(active) = self.vcs[index].as_ref().map(|vc| vc.active) else {
            return;
        };
        self.deactivate(index);
        let vc = self.vc(index);
        vc.class = class;
        vc.pace = rate_of(class).map(|(rate, tau)| {
            let mut pace = Pace::new(rate, tau);
            match vc.pace {
                Some(before) if vc.burst.is_some() => {
                    pace = before;
                    pace.carry_over(now, rate, tau);
                }
                Some(before) => {
                    pace = before;
                    pace.modify(rate, tau);
                }
                None => pace.floor(u128::from(now)),
            }
            pace
        });
        let before = vc.burst;
        vc.burst = burst_of(class).map(|mut burst| {
            let next = vc.pace.map_or(0, |pace| pace.next());
            let paid = before.map_or(next, |before| before.peak.next().min(next));
            burst.peak.floor(paid.into());
            burst
        });
        if active {
            self.activate(now, index);
        }
    }

    fn open(&mut self, index: usize, line: usize, class: Class) {
        self.deactivate(index);
        self.vcs[index] = Some(Vc {
            line,
            class,
            pace: rate_of(class).map(|(rate, tau)| Pace::new(rate, tau)),
            burst: burst_of(class),
            active: false,
            held: false,
            key: 0,
            order: None,
            deficit: 0,
        });
    }

    fn slot_due(&self, now: u64, line: usize) -> bool {
        self.lines[line].slots.next() <= now
    }

    /// Whether granting guaranteed `index` first is right.
    fn may_be_first(&self, now: u64, line: usize, index: usize) -> bool {
        let first = self.first_key(line).unwrap();
        let vc = self.vcs[index].as_ref().unwrap();
        let in_order = |other: &Vc| match (vc.order, other.order) {
            (Some(mine), Some(theirs)) => mine <= theirs,
            _ => true,
        };
        vc.active
            && vc.line == line
            && vc.key == first
            && vc.pace.unwrap().next() <= now
            && self
                .guaranteed(line)
                .filter(|(_, other)| other.key == first)
                .all(|(_, other)| in_order(other))
    }

    /// Whether it is right that no guaranteed VC is granted: none is due, but for those that wait
    /// a tick for the first of their tick.
    fn none_first(&self, now: u64, line: usize) -> bool {
        let tick = now >> 10;
        match self.first_key(line) {
            Some(key) if key < tick => false,
            Some(key) if key == tick => self
                .guaranteed(line)
                .any(|(_, vc)| vc.key == key && vc.pace.unwrap().next() > now),
            _ => true,
        }
    }

    /// Whether it is right to grant `index` a cell of a burst.
    fn may_burst(&self, now: u64, line: usize, index: usize) -> bool {
        self.bursts(line)
            .any(|burst| burst.0 == index && burst.1 <= now)
    }

    /// Whether it is right that no burst is granted.
    fn none_bursts(&self, now: u64, line: usize) -> bool {
        self.bursts(line).all(|(_, from)| from + BURST_LATE > now)
    }

    fn stratum(&self, line: usize) -> Option<usize> {
        let line = &self.lines[line];
        (0..32)
            .filter(|&stratum| line.front(stratum).is_some())
            .rev()
            .min_by_key(|&stratum| line.spent[stratum])
    }

    /// The best-effort VC whose turn it is, if nobody guaranteed is due.
    fn turn(&mut self, now: u64, line: usize) -> Option<usize> {
        for (_, index) in self.held(line).into_iter().filter(|held| held.0 <= now) {
            self.vc(index).held = false;
            let stratum = self.weight_of(index).ilog2() as usize;
            let line = &mut self.lines[line];
            line.join(stratum);
            line.returned[stratum].push_back(index);
        }
        loop {
            let stratum = self.stratum(line)?;
            let index = self.lines[line].front(stratum)?;
            let vc = self.vc(index);
            if vc.pace.is_none_or(|pace| pace.next() <= now) {
                return Some(index);
            }
            vc.held = true;
            self.lines[line].leave(stratum, index);
        }
    }

    fn weight(&self, line: &Line, stratum: usize) -> u64 {
        let weights = line.strata[stratum]
            .iter()
            .chain(&line.returned[stratum])
            .map(|&index| self.weight_of(index));
        weights.sum()
    }

    fn turn_wheel(&mut self, now: u64, line: usize) {
        let first = self.first_key(line).unwrap_or(u64::MAX);
        let base = &mut self.lines[line].base;
        *base = first.min(now >> 10).max(*base);
    }

    fn sent_guaranteed(&mut self, now: u64, index: usize) {
        let line = self.vc(index).line;
        self.lines[line].slots.emit(now);
        let vc = self.vc(index);
        vc.pace.as_mut().unwrap().emit(now);
        if let Some(burst) = &mut vc.burst {
            burst.peak.emit(now);
        }
        self.place(index);
    }

    fn sent_best_effort(&mut self, now: u64, line: usize, index: usize) {
        self.lines[line].slots.emit(now);
        let turn = self.weight_of(index).ilog2() as usize;
        let weight = self.weight(&self.lines[line], turn);
        let line_state = &mut self.lines[line];
        line_state.spent_last = line_state.spent[turn];
        line_state.spent[turn] += u128::from(u64::MAX / weight);
        let (weight, cell) = (self.weight_of(index), 1 << turn);
        let vc = self.vc(index);
        if let Some(pace) = &mut vc.pace {
            pace.emit(now);
        }
        if vc.deficit < cell {
            vc.deficit += weight;
        }
        vc.deficit -= cell;
        if vc.deficit < cell {
            let line = &mut self.lines[line];
            line.leave(turn, index);
            line.strata[turn].push_back(index);
        }
    }
}

impl Vc {
    fn is_guaranteed(&self) -> bool {
        matches!(self.class, Class::Guaranteed { .. })
    }
}

impl Line {
    /// Who is first in a stratum.
    fn front(&self, stratum: usize) -> Option<usize> {
        let first = self.returned[stratum].front();
        first.or(self.strata[stratum].front()).copied()
    }

    /// Somebody is about to come to a stratum.
    fn join(&mut self, stratum: usize) {
        if self.front(stratum).is_none() {
            self.spent[stratum] = self.spent[stratum].max(self.spent_last);
        }
    }

    /// Takes a VC out of its stratum.
    fn leave(&mut self, stratum: usize, index: usize) {
        self.strata[stratum].retain(|&other| other != index);
        self.returned[stratum].retain(|&other| other != index);
    }
}

/// What a class is shaped at.
fn rate_of(class: Class) -> Option<(CellRate, u64)> {
    match class {
        Class::Guaranteed {
            rate,
            cdvt_ns,
            sustained,
            ..
        } => Some((sustained.map_or(rate, |of| of.rate), cdvt_ns)),
        Class::BestEffort { peak, .. } => peak.map(|peak| (peak.rate, peak.cdvt_ns)),
        // Its storms are not drawn: `schedule_abr` has those.
        Class::Available { .. } => unreachable!(),
    }
}

fn burst_of(class: Class) -> Option<Burst> {
    match class {
        Class::Guaranteed {
            rate,
            cdvt_ns,
            sustained: Some(sustained),
            ..
        } => Some(Burst {
            peak: Pace::new(rate, cdvt_ns),
            tolerance: sustained.burst_tolerance_ns,
        }),
        _ => None,
    }
}

struct Storm {
    random: Pcg64Mcg,
    now: u64,
    schedule: Schedule,
    naive: Naive,
    granted: u64,
    peaked: u64,
    bursts: u64,
    runs: u64,
    refused: u64,
}

impl Storm {
    const VCS: usize = 48;

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn rate(&mut self) -> CellRate {
        // Every magnitude from 1 cell/s to 4 million.
        let magnitude = self.below(22);
        let rate = (1 << magnitude) + self.below(1 << magnitude);
        CellRate::new(rate as u32).unwrap()
    }

    fn class(&mut self) -> Class {
        if self.below(3) > 0 {
            let (magnitude, of_burst) = (self.below(26), self.below(34));
            let rate = self.rate();
            let sustained = (self.below(3) == 0).then(|| SustainedRate {
                rate: self.rate().min(rate),
                burst_tolerance_ns: self.below(1 << of_burst),
            });
            Class::Guaranteed {
                rate,
                cdvt_ns: self.below(1 << magnitude),
                burst: 1,
                sustained,
            }
        } else {
            let magnitude = self.below(33);
            let weight = self.below(1 << magnitude) as u32;
            let peak = (self.below(2) > 0).then(|| PeakRate {
                rate: self.rate(),
                cdvt_ns: self.below(10_000_000),
            });
            Class::BestEffort { weight, peak }
        }
    }

    fn step(&mut self) {
        self.now += match self.below(10_000) {
            0 => self.below(20 * 1_000_000_000),
            1 => self.below(7200 * 1_000_000_000),
            2..20 => self.below(30_000_000),
            20..100 => self.below(1_000_000),
            _ => self.below(4_000),
        };
        let (now, vc) = (Time::from_ns(self.now), self.below(Self::VCS as u64));
        let (index, vc) = (vc as usize, VcIndex(vc as u16));
        match self.below(2_000) {
            0..500 => {
                self.schedule.activate(now, vc);
                self.naive.activate(self.now, index);
            }
            500..530 => {
                self.schedule.deactivate(vc);
                self.naive.deactivate(index);
            }
            530..550 => {
                let (line, class) = (self.below(2), self.class());
                self.schedule.open(vc, PortIndex(line as u8), class);
                self.naive.open(index, line as usize, class);
            }
            550..554 => {
                self.schedule.close(vc);
                self.naive.deactivate(index);
                self.naive.vcs[index] = None;
            }
            554..570 => {
                let class = self.class();
                self.schedule.modify(now, vc, class);
                self.naive.modify(self.now, index, class);
            }
            570..574 => {
                let (line, magnitude) = (self.below(2), self.below(8));
                let rate = CellRate::new(353_207 >> magnitude).unwrap();
                self.schedule.set_line_rate(PortIndex(line as u8), rate);
                let line = &mut self.naive.lines[line as usize];
                line.slots.modify(rate, line_tau(rate, line.burst));
            }
            574 => {
                let text = serde_json::to_string(&self.schedule).unwrap();
                self.schedule = serde_json::from_str(&text).unwrap();
            }
            _ => {
                let line = self.below(2) as usize;
                while self.grant(line) {}
            }
        }
        self.check_sums();
    }

    fn check_sums(&self) {
        for line in 0..2 {
            let rates = self.naive.vcs.iter().flatten().map(|vc| match vc.class {
                Class::Guaranteed { .. } if vc.line == line => {
                    rate_of(vc.class).map_or(0, |(rate, _)| u64::from(rate.cell_s()))
                }
                _ => 0,
            });
            let sum: u64 = rates.sum();
            assert_eq!(self.schedule.guaranteed_cell_s(PortIndex(line as u8)), sum);
        }
        for (index, vc) in self.naive.vcs.iter().enumerate() {
            let active = vc.as_ref().is_some_and(|vc| vc.active);
            assert_eq!(self.schedule.is_active(VcIndex(index as u16)), active);
        }
    }

    /// One grant, taken at least in part. False when there is none.
    fn grant(&mut self, line: usize) -> bool {
        let (now, port) = (Time::from_ns(self.now), PortIndex(line as u8));
        let max = 1 + self.below(6) as u32;
        let slot_due = self.naive.slot_due(self.now, line);
        let grant = self.schedule.grant(now, port, max);
        if slot_due {
            self.naive.turn_wheel(self.now, line);
        }
        let Some(grant) = grant else {
            self.refused += 1;
            if slot_due {
                assert!(self.naive.none_first(self.now, line));
                assert!(self.naive.none_bursts(self.now, line));
                assert_eq!(self.naive.turn(self.now, line), None);
                self.naive.lines[line].slots.floor(u128::from(self.now));
            }
            self.check_deadline(line);
            return false;
        };
        assert!(slot_due && (1..=max).contains(&grant.cells));
        let index = usize::from(grant.vc.0);
        let taken = 1 + self.below(u64::from(grant.cells)) as u32;
        let best_effort = !self.naive.vc(index).is_guaranteed();
        self.peaked += u64::from(best_effort && self.naive.vc(index).pace.is_some());
        for cell in 0..taken {
            assert!(self.naive.slot_due(self.now, line));
            if best_effort {
                assert!(self.naive.none_first(self.now, line));
                assert!(self.naive.none_bursts(self.now, line));
                assert_eq!(self.naive.turn(self.now, line), Some(index));
                self.naive.sent_best_effort(self.now, line, index);
            } else if !self.naive.may_be_first(self.now, line, index) {
                assert!(self.naive.none_first(self.now, line));
                assert!(self.naive.may_burst(self.now, line, index));
                self.bursts += 1;
                self.naive.sent_guaranteed(self.now, index);
            } else {
                if cell > 0 {
                    let key = self.naive.first_key(line);
                    let sharing = self.naive.guaranteed(line);
                    assert_eq!(sharing.filter(|(_, vc)| Some(vc.key) == key).count(), 1);
                }
                self.naive.sent_guaranteed(self.now, index);
            }
        }
        self.schedule.sent(now, grant.vc, taken);
        self.granted += 1;
        self.runs += u64::from(grant.cells > 1);
        if self.below(24) == 0 {
            self.schedule.deactivate(grant.vc);
            self.naive.deactivate(index);
        }
        true
    }

    fn check_deadline(&self, line: usize) {
        let deadline = self.schedule.next_deadline(PortIndex(line as u8));
        let slot = self.naive.lines[line].slots.next();
        let best_effort = self.naive.stratum(line).map(|_| slot);
        let guaranteed = self.naive.guaranteed(line);
        let first = guaranteed.map(|(_, vc)| vc.pace.unwrap().next()).min();
        // Within a tick the first may not be the earliest.
        let first = first.map(|first| (first | 1023).max(slot));
        let held = self.naive.held(line).first().map(|held| held.0.max(slot));
        let burst = self.naive.bursts(line).map(|burst| burst.1).min();
        let burst = burst.map(|from| (from + BURST_LATE).max(slot));
        let later = [first, held, burst].into_iter().flatten().min();
        let latest = best_effort.or(later);
        assert_eq!(deadline.is_some(), latest.is_some());
        if let (Some(deadline), Some(latest)) = (deadline, latest) {
            assert!(deadline.ns() > self.now, "a deadline that has passed");
            assert!(deadline.ns() <= latest, "a deadline too late");
        }
    }
}

fn storm(seed: u64, start: u64, steps: u32) -> Storm {
    let lines = [CellRate::OC3, CellRate::new(5_000).unwrap()];
    let mut storm = Storm {
        random: Pcg64Mcg::seed_from_u64(seed),
        now: start,
        schedule: Schedule::new(&lines, 8, Storm::VCS),
        naive: Naive::new(&lines, 8, Storm::VCS),
        granted: 0,
        peaked: 0,
        bursts: 0,
        runs: 0,
        refused: 0,
    };
    for _ in 0..steps {
        storm.step();
    }
    storm
}

#[test]
fn grants_what_a_scan_of_all_vcs_would() {
    let (mut granted, mut peaked, mut bursts, mut runs, mut refused) = (0, 0, 0, 0, 0);
    for seed in 0..12 {
        let storm = storm(seed, seed * 1_000_000_007, 20_000);
        granted += storm.granted;
        peaked += storm.peaked;
        bursts += storm.bursts;
        runs += storm.runs;
        refused += storm.refused;
    }
    println!(
        "{granted} grants, {peaked} to peaks, {bursts} cells of bursts, {runs} runs, {refused} \
         refused"
    );
    assert!(granted > 50_000 && peaked > 5_000 && runs > 1_000 && refused > 50_000);
    assert!(bursts > 1_000);
}

#[test]
fn keeps_order_close_to_the_end_of_time() {
    // Fifty hours of storm fit before it.
    let start = u64::MAX - 200_000 * 1_000_000_000;
    let storm = storm(99, start, 10_000);
    println!("{} grants", storm.granted);
    assert!(storm.granted > 2_000);
}

#[test]
fn the_same_calls_give_the_same_grants() {
    let (one, two) = (storm(7, 0, 10_000), storm(7, 0, 10_000));
    assert!(one.schedule == two.schedule);
    assert_eq!(one.granted, two.granted);
}
