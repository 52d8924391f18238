//! One direction of a link: a rate, a delay, and what happens to cells on the way.

use std::collections::VecDeque;

use cellgate_core::contract::CellRate;
use cellgate_core::line::{Impairments, LineSpec, Passage};
use cellgate_core::wire::{CELL_LEN, CellFormat, VpiVci};
use cellgate_core::{Effect, Fault, FaultCounts, FaultyLine, Time};

use super::{CellRef, Interval, Octets, Pace, Ps};

/// A cell on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flying {
    /// When its last bit arrives.
    pub at: Ps,
    /// The cell.
    pub octets: Octets,
}

/// Cells of a line, counted. Sent + duplicated + inserted = lost + arrived + in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Cells handed to it.
    pub sent: u64,
    /// Cells that reached its end.
    pub arrived: u64,
    /// What faults did.
    pub faults: FaultCounts,
    /// Times that it was held.
    pub held: u64,
    /// Cells that have overtaken one of another VC.
    pub swapped: u64,
}

/// One direction of a link. When a cell arrives follows from when it was sent, by arithmetic: the
/// line waits for no event of its own.
#[derive(Debug)]
pub struct Line {
    cell: Interval,
    delay: Ps,
    free: Pace,
    faulty: Option<Box<Faulty>>,
    impaired: Option<Box<Impaired>>,
    /// Cells on their way.
    flying: VecDeque<Flying>,
    sent: u64,
    arrived: u64,
    /// What has arrived, if somebody wants to know.
    trace: Option<VecDeque<Flying>>,
    /// Names of the nodes where it begins and ends.
    ends: Box<[String; 2]>,
}

/// What befalls cells by a law, and whom it met.
#[derive(Debug)]
struct Impaired {
    law: Impairments,
    met: Vec<VpiVci>,
    is_over: bool,
}

/// A list of faults, and whom they met.
#[derive(Debug)]
struct Faulty {
    /// All but the holds, which are a matter of time.
    line: FaultyLine,
    cells: Vec<u64>,
    holds: VecDeque<(u64, Ps)>,
    held: u64,
    /// Until when it was, the last time.
    held_until: Ps,
    swaps: Vec<u64>,
    swapped: u64,
    met: Vec<VpiVci>,
    is_over: bool,
}

impl Line {
    /// A line of so many bit/s (53 octets a cell), so long.
    pub fn new(bit_s: u64, delay: Ps) -> Self {
        Self {
            cell: Interval::of_line(bit_s),
            delay,
            free: Pace::default(),
            faulty: None,
            impaired: None,
            flying: VecDeque::new(),
            sent: 0,
            arrived: 0,
            trace: None,
            ends: Box::default(),
        }
    }

    /// It leads from one node to another.
    pub(crate) fn between(self, ends: [&str; 2]) -> Self {
        Self {
            ends: Box::new(ends.map(str::to_owned)),
            ..self
        }
    }

    /// Names of the nodes where it begins and ends.
    pub(crate) fn ends(&self) -> &[String; 2] {
        &self.ends
    }

    /// Keeps all that arrives from here on.
    pub(crate) fn record(&mut self) {
        self.trace = Some(VecDeque::new());
    }

    /// The first that has arrived since and was not taken here, if that was before a time.
    pub(crate) fn take_recorded(&mut self, before: Ps) -> Option<Flying> {
        self.trace
            .as_mut()?
            .pop_front_if(|flying| flying.at < before)
    }

    /// The same line with faults, by the ordinal of the cell.
    pub fn with_faults(self, faults: Vec<Fault>) -> Self {
        let faulty = (!faults.is_empty()).then(|| Box::new(Faulty::new(faults)));
        Self { faulty, ..self }
    }

    /// The same line, on which the cells with these ordinals overtake the one before them, if that
    /// is of another VC and under way.
    pub fn with_swaps(self, mut swaps: Vec<u64>) -> Self {
        if swaps.is_empty() {
            return self;
        }
        swaps.sort_unstable();
        let mut faulty = self
            .faulty
            .unwrap_or_else(|| Box::new(Faulty::new(Vec::new())));
        faulty.swaps = swaps;
        let faulty = Some(faulty);
        Self { faulty, ..self }
    }

    /// The same line, which is impaired by a law, as the `number`th of those that are.
    pub(crate) fn impaired(self, spec: Option<LineSpec>, number: u64) -> Self {
        let impaired = spec.map(|spec| {
            Box::new(Impaired {
                law: Impairments::new(spec, CellFormat::WithHec, number),
                met: Vec::new(),
                is_over: false,
            })
        });
        Self { impaired, ..self }
    }

    /// The time a cell takes.
    pub fn cell(&self) -> Interval {
        self.cell
    }

    /// Cells per second, rounded down.
    pub(crate) fn rate(&self) -> CellRate {
        self.cell.rate()
    }

    /// When the last bit of all that was sent has left.
    pub fn free_at(&self) -> Ps {
        self.free.at()
    }

    /// Cells that have not left at `now`, the one that is leaving included.
    pub fn backlog(&self, now: Ps) -> u64 {
        self.cell.begun_in(self.free.at().since(now))
    }

    /// Sends a cell that is ready at `ready`, behind all that were sent before; when it has left.
    #[inline(always)]
    pub fn send<'a>(&mut self, ready: Ps, cell: impl Into<CellRef<'a>>) -> Ps {
        let cell = cell.into();
        self.free.wait_for(ready);
        if let Some(faulty) = &mut self.faulty {
            let held = faulty.hold(self.sent);
            if held > Ps::ZERO {
                self.free.wait_for(self.free.at().plus(held));
                faulty.held_until = self.free.at();
            }
        }
        self.sent += 1;
        self.free.advance(self.cell);
        let before = self.flying.len();
        let left = self.free.at();
        let at = left.plus(self.delay);
        let (flying, mut impaired) = (&mut self.flying, self.impaired.as_mut());
        let mut put = |mut octets: Octets| match impaired.as_mut().filter(|one| !one.is_over) {
            None => flying.push_back(Flying { at, octets }),
            Some(impaired) => {
                let Passage { due, copies } = impaired.pass(left, &mut octets);
                let later = Ps::from_ns(due.since_ns(Time::from_ns(left.ns())));
                // Times are rounded to a nanosecond there: cells keep their order.
                let last = flying.back().map_or(Ps::ZERO, |flying| flying.at);
                let at = at.plus(later).max(last);
                flying.extend((0..copies).map(|_| Flying { at, octets }));
            }
        };
        match &mut self.faulty.as_mut().filter(|faulty| !faulty.is_over) {
            None => put(cell.octets()),
            Some(faulty) => {
                faulty.pass(&cell.octets(), put);
                if faulty.swaps(self.sent - 1) {
                    self.overtake(before, ready);
                }
            }
        }
        left
    }

    /// The cell that was sent behind `before` others arrives before the last of them, unless that
    /// is of the same VC or may have been taken already.
    fn overtake(&mut self, before: usize, ready: Ps) {
        let Some(first) = before.checked_sub(1).filter(|_| self.flying.len() > before) else {
            return;
        };
        let (one, other) = (self.flying[first], self.flying[before]);
        if one.at <= ready || address_of(&one.octets) == address_of(&other.octets) {
            return;
        }
        self.flying[first].octets = other.octets;
        self.flying[before].octets = one.octets;
        if let Some(faulty) = &mut self.faulty {
            faulty.swapped += 1;
        }
    }

    /// Counts a cell that it does not carry: a bug on purpose.
    pub(crate) fn lose(&mut self) {
        self.sent += 1;
    }

    /// Carries the last cell once more: a bug on purpose.
    pub(crate) fn repeat(&mut self) {
        let last = self.flying.back().copied();
        self.flying.extend(last);
    }

    /// Gets 1 ms longer: a bug on purpose.
    pub(crate) fn prolong(&mut self) {
        self.delay = self.delay.plus(Ps::from_ns(1_000_000));
    }

    /// Exchanges the octets of a cell for those of the next: a bug on purpose.
    pub(crate) fn exchange(&mut self, flying: &mut Flying) {
        if let Some(next) = self.flying.front_mut() {
            std::mem::swap(&mut next.octets, &mut flying.octets);
        }
    }

    /// Nothing happens to cells that are sent from here on.
    pub fn heal(&mut self) {
        if let Some(impaired) = &mut self.impaired {
            impaired.is_over = true;
        }
        if let Some(faulty) = &mut self.faulty {
            faulty.is_over = true;
        }
    }

    /// When the next cell arrives.
    #[inline]
    pub fn next_arrival(&self) -> Option<Ps> {
        self.flying.front().map(|flying| flying.at)
    }

    /// The next cell, if it arrives at `now` or before.
    pub fn take(&mut self, now: Ps) -> Option<Flying> {
        let flying = self.flying.pop_front_if(|flying| flying.at <= now)?;
        self.arrived += 1;
        if let Some(trace) = &mut self.trace {
            trace.push_back(flying);
        }
        Some(flying)
    }

    pub fn counts(&self) -> LineCounts {
        let faulty = self.faulty.as_ref();
        let mut faults = faulty.map_or_else(FaultCounts::default, |one| one.line.counts());
        let mut held = faulty.map_or(0, |faulty| faulty.held);
        if let Some(impaired) = &self.impaired {
            let counts = impaired.law.counts();
            faults.lost += counts.lost + counts.queue_full;
            faults.duplicated += counts.duplicated;
            faults.header_errors += counts.header_errors;
            faults.payload_errors += counts.payload_errors;
            held += u64::from(impaired.law.delays()) * counts.cells_in;
        }
        LineCounts {
            sent: self.sent,
            arrived: self.arrived,
            faults,
            held,
            swapped: faulty.map_or(0, |faulty| faulty.swapped),
        }
    }

    /// Until when a fault has held it, the last time.
    pub(crate) fn held_until(&self) -> Ps {
        let faulty = self.faulty.as_ref();
        faulty.map_or(Ps::ZERO, |faulty| faulty.held_until)
    }

    /// Cells on their way.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// Addresses of the cells that a fault met, and of those it made, in order.
    pub fn met(&self) -> impl Iterator<Item = VpiVci> {
        let of_list = self.faulty.as_ref().map(|faulty| &faulty.met);
        let of_law = self.impaired.as_ref().map(|impaired| &impaired.met);
        of_list.into_iter().chain(of_law).flatten().copied()
    }

    /// Whether no cell was lost or gained but by a fault that says so.
    pub fn is_conserved(&self) -> bool {
        let counts = self.counts();
        let gained = counts.faults.duplicated + counts.faults.inserted;
        let gone = counts.faults.lost + counts.arrived + self.flying.len() as u64;
        counts.sent + gained == gone
    }
}

/// The address of a cell on a UNI.
pub(crate) fn address_of(octets: &Octets) -> VpiVci {
    CellRef::from(octets).address()
}

impl Impaired {
    /// What becomes of a cell that has left at `left`.
    fn pass(&mut self, left: Ps, octets: &mut Octets) -> Passage {
        let sent = *octets;
        let passage = self.law.pass(Time::from_ns(left.ns()), octets);
        if passage.copies != 1 || *octets != sent {
            self.met.push(address_of(&sent));
            if address_of(octets) != address_of(&sent) {
                self.met.push(address_of(octets));
            }
        }
        passage
    }
}

impl Faulty {
    fn new(faults: Vec<Fault>) -> Self {
        let mut cells: Vec<u64> = faults.iter().map(|fault| fault.cell).collect();
        cells.sort_unstable();
        cells.dedup();
        let (mut holds, mut others) = (Vec::new(), Vec::new());
        for fault in faults {
            match fault.effect {
                Effect::Hold { ns } => holds.push((fault.cell, Ps::from_ns(ns))),
                _ => others.push(fault),
            }
        }
        holds.sort_unstable();
        Self {
            line: FaultyLine::new(CellFormat::WithHec, others),
            cells,
            holds: holds.into(),
            held: 0,
            held_until: Ps::ZERO,
            swaps: Vec::new(),
            swapped: 0,
            met: Vec::new(),
            is_over: false,
        }
    }

    /// How long the line is held before this cell.
    fn hold(&mut self, cell: u64) -> Ps {
        let mut sum = Ps::ZERO;
        if self.is_over {
            return sum;
        }
        while let Some((_, span)) = self.holds.pop_front_if(|(held, _)| *held == cell) {
            self.held += 1;
            sum = sum.plus(span);
        }
        sum
    }

    /// Whether this cell is to overtake the one before it.
    fn swaps(&self, cell: u64) -> bool {
        self.swaps.binary_search(&cell).is_ok()
    }

    fn pass(&mut self, octets: &Octets, mut out: impl FnMut(Octets)) {
        let turn = self.line.counts().cells_in;
        let meets = self.cells.binary_search(&turn).is_ok();
        if meets {
            self.met.push(address_of(octets));
        }
        let mut waiting = 1;
        loop {
            let mut cell = [0; CELL_LEN];
            let give = |into: &mut [u8]| {
                into[..CELL_LEN].copy_from_slice(octets);
                1
            };
            let n = self.line.receive(Time::ZERO, waiting, give, &mut cell);
            waiting = 0;
            if n == 0 {
                return;
            }
            if meets && address_of(&cell) != address_of(octets) {
                self.met.push(address_of(&cell));
            }
            out(cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIT_S: u64 = 149_760_000;

    fn cell(n: u8) -> Octets {
        [n; CELL_LEN]
    }

    fn arrivals(line: &mut Line) -> Vec<(u64, u8)> {
        let all = std::iter::from_fn(|| line.take(Ps::MAX));
        all.map(|flying| (flying.at.ns(), flying.octets[52]))
            .collect()
    }

    #[test]
    fn cells_leave_one_after_the_other_and_arrive_after_the_delay() {
        let mut line = Line::new(BIT_S, Ps::from_ns(5_000));
        for n in 0..3 {
            line.send(Ps::from_ns(100), &cell(n));
        }
        assert_eq!(line.backlog(Ps::from_ns(100)), 3);
        assert_eq!(line.backlog(Ps::from_ns(100 + 2_832)), 2);
        line.send(Ps::from_ns(1_000_000), &cell(3));
        assert_eq!(line.in_flight(), 4);
        let expected = [(7_931, 0), (10_762, 1), (13_593, 2), (1_007_831, 3)];
        assert_eq!(arrivals(&mut line), expected);
        assert!(line.is_conserved());
    }

    #[test]
    fn cells_overtake_those_of_other_vcs_that_are_under_way() {
        let mut line = Line::new(BIT_S, Ps::from_ns(5_000)).with_swaps(vec![0, 1, 2, 4, 9]);
        // The third is of the first's VC, which it meets; the fifth comes when the fourth has
        // arrived.
        for (vc, n, at_ns) in [(1, 0, 0), (2, 1, 0), (1, 2, 0), (3, 3, 0), (4, 4, 900_000)] {
            let mut cell = cell(n);
            cell[..4].fill(vc);
            line.send(Ps::from_ns(at_ns), &cell);
        }
        let order: Vec<u8> = arrivals(&mut line)
            .iter()
            .map(|(_, octet)| *octet)
            .collect();
        assert_eq!(order, [1, 0, 2, 3, 4]);
        assert_eq!(line.counts().swapped, 1);
    }

    #[test]
    fn faults_happen_to_the_cells_they_name() {
        let fault = |cell, effect| Fault { cell, effect };
        let address = VpiVci::new(1, 99).expect("an address");
        let faults = vec![
            fault(1, Effect::Lose),
            fault(2, Effect::Duplicate),
            fault(3, Effect::Hold { ns: 50_000 }),
            fault(
                4,
                Effect::Insert {
                    address,
                    last: true,
                },
            ),
            fault(5, Effect::Flip { bit: 423 }),
        ];
        let mut line = Line::new(BIT_S, Ps::ZERO).with_faults(faults);
        for n in 0..6 {
            line.send(Ps::ZERO, &cell(2 * n));
        }
        let seen = arrivals(&mut line);
        let order: Vec<u8> = seen.iter().map(|(_, octet)| *octet).collect();
        assert_eq!(order, [0, 4, 4, 6, 0x6a, 8, 11]);
        assert!(seen[3].0 - seen[2].0 > 50_000, "{seen:?}");
        assert!(line.met().any(|met| met == address) && line.is_conserved());
        assert_eq!((line.counts().faults.lost, line.counts().held), (1, 1));
    }
}
