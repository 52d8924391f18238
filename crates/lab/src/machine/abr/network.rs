use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use cellgate_core::contract::{
    AbrParameters, AbrPlanted, AbrRate, Destination, NextCell, PrcaDestination, PrcaParameters,
    PrcaSource, Source,
};
use cellgate_core::wire::{Rm, RmRate};

use super::Erica;
use crate::world::Ps;

/// What the switch does with cells where its queue is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// EFCI of cells of data that find so many waiting.
    Efci(u64),
    /// CI of backward RM cells while so many wait.
    Ci(u64),
    /// The explicit rate of ERICA, for so many percent of the link.
    Er(u64),
}

/// Whose rules sources and destinations keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Tm4(AbrParameters),
    Prca(PrcaParameters),
}

/// A link, and who shares it.
#[derive(Clone, Debug)]
pub struct AbrConfig {
    /// From each source to its destination, and back: half of its round trip.
    pub delays: Vec<Ps>,
    pub scheme: Scheme,
    pub line_cell_s: u32,
    /// Cells that the switch has room for.
    pub queue: u64,
    pub mark: Mark,
    /// From then on no RM cell passes the switch on its way back; none: all do.
    pub silent_from: Option<Ps>,
}

/// What came of a span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AbrCounts {
    /// Cells that each destination took, RM cells among them.
    pub taken: Vec<u64>,
    pub lost: u64,
    /// The most that waited in the switch.
    pub longest_queue: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Data { marked: bool },
    Forward(Rm),
    Backward(Rm),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// The source may send.
    Source,
    Switch,
    Destination,
    /// A backward RM cell passes the switch.
    Back,
    /// It is at its source.
    Home,
}

enum End {
    Tm4(Box<(Source, Destination)>),
    Prca(PrcaSource),
}

/// A network that runs.
pub struct Network {
    config: AbrConfig,
    ends: Vec<End>,
    due: BinaryHeap<Reverse<(Ps, u64, Place, usize)>>,
    /// What is on its way, by the number that `due` has.
    cells: BTreeMap<u64, Cell>,
    next: u64,
    now: Ps,
    /// When the link has sent all that waits.
    free: Ps,
    erica: Option<Erica>,
    counts: AbrCounts,
}

const SOUND: fn(AbrPlanted) -> bool = |_| false;

impl Network {
    /// All sources begin at once, and always have cells to send.
    pub fn new(config: AbrConfig) -> Self {
        let end = |_: &Ps| match config.scheme {
            Scheme::Tm4(parameters) => End::Tm4(Box::new((
                Source::new(parameters, SOUND),
                Destination::default(),
            ))),
            Scheme::Prca(parameters) => End::Prca(PrcaSource::new(parameters)),
        };
        let target = |percent: u64| f64::from(config.line_cell_s) * percent as f64 / 100.0;
        // Some hundreds of cells: of fewer the number says too little.
        let interval = Ps::from_ns(20_000_000);
        let erica = match config.mark {
            Mark::Er(percent) => Some(Erica::new(target(percent), interval)),
            Mark::Efci(_) | Mark::Ci(_) => None,
        };
        let mut network = Self {
            ends: config.delays.iter().map(end).collect(),
            due: BinaryHeap::new(),
            cells: BTreeMap::new(),
            next: 0,
            now: Ps::ZERO,
            free: Ps::ZERO,
            erica,
            counts: AbrCounts {
                taken: vec![0; config.delays.len()],
                ..AbrCounts::default()
            },
            config,
        };
        for source in 0..network.ends.len() {
            // Not at one instant: no two PCs do anything so.
            network.at(
                Ps::new(1_000_003 * source as u64),
                Place::Source,
                source,
                None,
            );
        }
        network
    }

    /// Runs on for `span`, and tells what came of that.
    pub fn run(&mut self, span: Ps) -> AbrCounts {
        let end = self.now.plus(span);
        let before = std::mem::take(&mut self.counts.taken);
        self.counts.taken.clone_from(&before);
        (self.counts.lost, self.counts.longest_queue) = (0, 0);
        while let Some(Reverse((at, number, place, who))) = self.due.peek().copied() {
            if at >= end {
                break;
            }
            self.due.pop();
            self.now = at;
            let cell = self.cells.remove(&number);
            self.happens(place, who, cell);
        }
        self.now = end;
        let taken = self.counts.taken.iter().zip(&before);
        AbrCounts {
            taken: taken.map(|(now, then)| now - then).collect(),
            ..self.counts.clone()
        }
    }

    /// The rate that a source is allowed, in cells/s.
    pub fn allowed(&self, source: usize) -> f64 {
        let rate = match self.ends.get(source) {
            Some(End::Tm4(ends)) => ends.0.rate(),
            Some(End::Prca(source)) => source.rate(),
            None => AbrRate::ZERO,
        };
        rate.raw() as f64 / f64::from(1 << 24)
    }

    fn at(&mut self, at: Ps, place: Place, who: usize, cell: Option<Cell>) {
        self.next += 1;
        if let Some(cell) = cell {
            self.cells.insert(self.next, cell);
        }
        self.due.push(Reverse((at, self.next, place, who)));
    }

    /// Half of the way between the switch and an end.
    fn delay(&self, who: usize) -> Ps {
        Ps::new(
            self.config
                .delays
                .get(who)
                .map_or(0, |delay| delay.ps() / 2),
        )
    }

    fn happens(&mut self, place: Place, who: usize, cell: Option<Cell>) {
        match (place, cell) {
            (Place::Source, _) => self.sends(who),
            (Place::Switch, Some(cell)) => self.passes(who, cell),
            (Place::Destination, Some(cell)) => self.arrives(who, cell),
            (Place::Back, Some(Cell::Backward(rm))) => self.returns(who, rm),
            (Place::Home, Some(Cell::Backward(rm))) => self.is_told(who, &rm),
            _ => {}
        }
    }

    /// The source's turn: a cell leaves, and the next when its rate allows.
    fn sends(&mut self, who: usize) {
        let (now, delay) = (self.now, self.delay(who));
        let cell = match &mut self.ends[who] {
            End::Tm4(ends) => match ends.0.next(now.time(), true, false, SOUND) {
                NextCell::Forward(rm, _) => Cell::Forward(rm),
                _ => Cell::Data { marked: false },
            },
            End::Prca(source) => Cell::Data {
                marked: source.cell(),
            },
        };
        self.at(now.plus(delay), Place::Switch, who, Some(cell));
        // What hardly sends looks again after a second.
        let apart = 1e12 / self.allowed(who).max(1.0);
        self.at(now.plus(Ps::new(apart as u64)), Place::Source, who, None);
    }

    /// A cell comes to the switch, and waits there for the link.
    fn passes(&mut self, who: usize, cell: Cell) {
        let time = 1_000_000_000_000 / u64::from(self.config.line_cell_s.max(1));
        if let Some(erica) = &mut self.erica {
            erica.cell(self.now, who);
            if let Cell::Forward(rm) = cell {
                erica.forward(who, rm.ccr.cell_s_512ths() as f64 / 512.0);
            }
        }
        let waiting = self.waiting();
        if waiting >= self.config.queue {
            self.counts.lost += 1;
            return;
        }
        self.counts.longest_queue = self.counts.longest_queue.max(waiting + 1);
        let cell = match (cell, self.config.mark) {
            (Cell::Data { marked }, Mark::Efci(threshold)) => Cell::Data {
                marked: marked || waiting >= threshold,
            },
            _ => cell,
        };
        self.free = self.free.max(self.now).plus(Ps::new(time));
        let at = self.free.plus(self.delay(who));
        self.at(at, Place::Destination, who, Some(cell));
    }

    fn waiting(&self) -> u64 {
        let time = 1_000_000_000_000 / u64::from(self.config.line_cell_s.max(1));
        self.free.since(self.now).ps().div_ceil(time)
    }

    fn arrives(&mut self, who: usize, cell: Cell) {
        self.counts.taken[who] += 1;
        let back = match (&mut self.ends[who], cell) {
            (End::Tm4(ends), Cell::Data { marked }) => {
                ends.1.data(marked, SOUND);
                None
            }
            (End::Tm4(ends), Cell::Forward(rm)) => {
                ends.1.forward(rm, SOUND);
                ends.1.turn(false, SOUND)
            }
            (End::Prca(_), Cell::Data { marked }) => PrcaDestination.data(marked).then(Rm::default),
            _ => None,
        };
        if let Some(rm) = back {
            let at = self.now.plus(self.delay(who));
            self.at(at, Place::Back, who, Some(Cell::Backward(rm)));
        }
    }

    fn returns(&mut self, who: usize, mut rm: Rm) {
        if self.config.silent_from.is_some_and(|from| self.now >= from) {
            return;
        }
        match self.config.mark {
            Mark::Ci(threshold) => rm.congestion |= self.waiting() >= threshold,
            Mark::Er(_) => {
                let rate = self.erica.as_mut().map(|erica| erica.rate(self.now, who));
                let er = RmRate::at_most(rate.unwrap_or(0.0) as u32);
                let lower = er.cell_s_512ths() < rm.er.cell_s_512ths();
                rm.er = if lower { er } else { rm.er };
            }
            Mark::Efci(_) => {}
        }
        let at = self.now.plus(self.delay(who));
        self.at(at, Place::Home, who, Some(Cell::Backward(rm)));
    }

    fn is_told(&mut self, who: usize, rm: &Rm) {
        match &mut self.ends[who] {
            End::Tm4(ends) => _ = ends.0.backward(self.now.time(), rm, SOUND),
            End::Prca(source) => source.rm(),
        }
    }
}
