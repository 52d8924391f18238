//! The schedule against a naive one: all VCs looked at for every cell, times as fractions.

use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::adapter::{Class, PortIndex, Schedule, VcIndex};
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
}

#[derive(Clone)]
struct Vc {
    line: usize,
    class: Class,
    pace: Option<Pace>,
    active: bool,
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
    credit: Vec<i64>,
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
                    credit: vec![0; 32],
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
            (vc.line == line && vc.active && vc.pace.is_some()).then_some((index, vc))
        })
    }

    fn first_key(&self, line: usize) -> Option<u64> {
        self.guaranteed(line).map(|(_, vc)| vc.key).min()
    }

    fn weight_of(&self, index: usize) -> u64 {
        match self.vcs[index].as_ref().unwrap().class {
            Class::BestEffort { weight } => u64::from(weight.max(1)),
            Class::Guaranteed { .. } => unreachable!(),
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
        if let Some(pace) = &mut vc.pace {
            pace.floor(u128::from(now).saturating_sub(pace.tau));
            let tick = now.min(pace.next()) >> 10;
            if self.first_key(line).is_none() {
                let base = &mut self.lines[line].base;
                *base = tick.max(*base);
            }
            self.place(index);
        } else {
            vc.deficit = 0;
            let stratum = self.weight_of(index).ilog2() as usize;
            self.lines[line].strata[stratum].push_back(index);
        }
        self.vc(index).active = true;
    }

    fn deactivate(&mut self, index: usize) {
        let Some(vc) = &mut self.vcs[index] else {
            return;
        };
        vc.active = false;
        let line = &mut self.lines[vc.line];
        for (stratum, credit) in line.strata.iter_mut().zip(&mut line.credit) {
            stratum.retain(|&other| other != index);
            if stratum.is_empty() {
                *credit = 0;
            }
        }
    }

    fn modify(&mut self, now: u64, index: usize, class: Class) {
        let Some(active) = self.vcs[index].as_ref().map(|vc| vc.active) else {
            return;
        };
        self.deactivate(index);
        let vc = self.vc(index);
        vc.class = class;
        vc.pace = match (class, vc.pace) {
            (Class::Guaranteed { rate, cdvt_ns }, Some(mut pace)) => {
                pace.modify(rate, cdvt_ns);
                Some(pace)
            }
            (Class::Guaranteed { rate, cdvt_ns }, None) => {
                let mut pace = Pace::new(rate, cdvt_ns);
                pace.floor(u128::from(now));
                Some(pace)
            }
            (Class::BestEffort { .. }, _) => None,
        };
        if active {
            self.activate(now, index);
        }
    }

    fn open(&mut self, index: usize, line: usize, class: Class) {
        self.deactivate(index);
        self.vcs[index] = Some(Vc {
            line,
            class,
            pace: match class {
                Class::Guaranteed { rate, cdvt_ns } => Some(Pace::new(rate, cdvt_ns)),
                Class::BestEffort { .. } => None,
            },
            active: false,
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

    fn stratum(&self, line: usize) -> Option<usize> {
        let line = &self.lines[line];
        (0..32)
            .filter(|&stratum| !line.strata[stratum].is_empty())
            .max_by_key(|&stratum| line.credit[stratum] + self.weight(line, stratum))
    }

    fn weight(&self, line: &Line, stratum: usize) -> i64 {
        let weights = line.strata[stratum]
            .iter()
            .map(|&index| self.weight_of(index) as i64);
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
        self.vc(index).pace.as_mut().unwrap().emit(now);
        self.place(index);
    }

    fn sent_best_effort(&mut self, now: u64, line: usize) {
        self.lines[line].slots.emit(now);
        let turn = self.stratum(line).unwrap();
        let total: i64 = (0..32).map(|s| self.weight(&self.lines[line], s)).sum();
        let occupied: Vec<usize> = (0..32)
            .filter(|&s| !self.lines[line].strata[s].is_empty())
            .collect();
        if occupied.len() > 1 {
            for &stratum in &occupied {
                let gain = self.weight(&self.lines[line], stratum);
                let credit = &mut self.lines[line].credit[stratum];
                *credit = (*credit + gain).clamp(-64 * total, 64 * total);
            }
            self.lines[line].credit[turn] -= total;
        }
        let index = self.lines[line].strata[turn][0];
        let (weight, cell) = (self.weight_of(index), 1 << turn);
        let deficit = &mut self.vc(index).deficit;
        if *deficit < cell {
            *deficit += weight;
        }
        *deficit -= cell;
        if *deficit < cell {
            self.lines[line].strata[turn].rotate_left(1);
        }
    }
}

struct Storm {
    random: Pcg64Mcg,
    now: u64,
    schedule: Schedule,
    naive: Naive,
    granted: u64,
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
            let magnitude = self.below(26);
            Class::Guaranteed {
                rate: self.rate(),
                cdvt_ns: self.below(1 << magnitude),
            }
        } else {
            let magnitude = self.below(33);
            Class::BestEffort {
                weight: self.below(1 << magnitude) as u32,
            }
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
                Class::Guaranteed { rate, .. } if vc.line == line => u64::from(rate.cell_s()),
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
                assert_eq!(self.naive.stratum(line), None);
                self.naive.lines[line].slots.floor(u128::from(self.now));
            }
            self.check_deadline(line);
            return false;
        };
        assert!(slot_due && (1..=max).contains(&grant.cells));
        let index = usize::from(grant.vc.0);
        let taken = 1 + self.below(u64::from(grant.cells)) as u32;
        let best_effort = self.naive.vc(index).pace.is_none();
        for cell in 0..taken {
            assert!(self.naive.slot_due(self.now, line));
            if best_effort {
                assert!(self.naive.none_first(self.now, line));
                let turn = self.naive.stratum(line).unwrap();
                assert_eq!(self.naive.lines[line].strata[turn][0], index);
                self.naive.sent_best_effort(self.now, line);
            } else {
                assert!(self.naive.may_be_first(self.now, line, index));
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
        let latest = best_effort.or(first.map(|first| (first | 1023).max(slot)));
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
    let (mut granted, mut runs, mut refused) = (0, 0, 0);
    for seed in 0..12 {
        let storm = storm(seed, seed * 1_000_000_007, 20_000);
        granted += storm.granted;
        runs += storm.runs;
        refused += storm.refused;
    }
    println!("{granted} grants, {runs} runs, {refused} refused");
    assert!(granted > 50_000 && runs > 1_000 && refused > 50_000);
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
