//! The programs of a station's host: they send blocks that say whose they are, answer, and hand
//! over what a bridge takes on.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use cellgate_core::upper::msna::To;
use cellgate_core::wire::CBN_CELL_LEN;

use super::block::{Block, Seen};
use super::node::Node;
use crate::machine::v1s::{self, Circuits, Outgoing};
use crate::world::Ps;
use crate::world::scenario::{Load, TrafficSpec};

const PS_PER_S: u128 = 1_000_000_000_000;

/// Where blocks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Number of the association.
    pub(super) association: u32,
    pub(super) vci: u16,
    pub(super) channel: u8,
}

/// Blocks that another host has handed over, and when.
pub(super) type Letterbox = Rc<RefCell<VecDeque<(Ps, Outgoing)>>>;

/// Cells that another host has handed over: when, on which channel, and what.
pub(super) type Cells = Rc<RefCell<VecDeque<(Ps, u8, [u8; CBN_CELL_LEN])>>>;

/// What becomes of a block that has come on a circuit, beside its being read.
#[derive(Clone, Debug)]
pub(super) enum Then {
    /// If it is of this association it goes back, or is the answer that a sender waits for.
    Back(u32, Route),
    Answer(u32, usize),
    /// It goes on from another host.
    On(Route, Letterbox),
}

/// A block that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) at: Ps,
    pub(super) association: u32,
    pub(super) serial: u64,
    pub(super) len: u16,
}

/// A block that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) at: Ps,
    pub(super) vci: u16,
    pub(super) len: u16,
    /// A digest of its octets.
    pub(super) digest: u64,
    pub(super) seen: Seen,
}

/// Traffic on an association.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    to: Route,
    load: Load,
    octets: Vec<u16>,
    start: Ps,
    stop: Ps,
    most: u64,
    sent: u64,
    /// Until it has come back, or until then.
    waits_until: Ps,
}

impl Sender {
    pub(super) fn new(to: Route, spec: &TrafficSpec, duration_ns: u64) -> Self {
        let stop_ns = match spec.stop_ns {
            0 => duration_ns,
            stop_ns => stop_ns.min(duration_ns),
        };
        Self {
            to,
            load: spec.load.clone(),
            octets: spec.octets.clone(),
            start: Ps::from_ns(spec.start_ns),
            stop: Ps::from_ns(stop_ns),
            most: if spec.blocks == 0 {
                u64::MAX
            } else {
                spec.blocks
            },
            sent: 0,
            waits_until: Ps::ZERO,
        }
    }

    /// When its next block is due.
    fn due(&self) -> Ps {
        let due = match self.load {
            Load::Paced { block_s } => self.start.plus(distance(self.sent, block_s)),
            Load::OnOff {
                block_s,
                on_ns,
                off_ns,
            } => {
                let within = distance(self.sent, block_s).ps();
                let (on, off) = (Ps::from_ns(on_ns).ps(), Ps::from_ns(off_ns).ps());
                let away = (within / on).saturating_mul(off);
                self.start.plus(Ps::new(within.saturating_add(away)))
            }
            Load::Blocks(ref blocks) => match blocks.get(self.sent as usize) {
                Some(block) => self.start.plus(Ps::from_ns(block.at_ns)),
                None => Ps::MAX,
            },
            Load::Ping { .. } => self.start.max(self.waits_until),
            Load::Greedy | Load::False { .. } | Load::Rpc { .. } => self.start,
        };
        match due < self.stop && self.sent < self.most {
            true => due,
            false => Ps::MAX,
        }
    }

    /// Whether its next block may begin. Once it may begin no more it is done.
    fn may_begin(&mut self, at: Ps) -> bool {
        if at >= self.stop {
            self.most = self.sent;
        }
        self.due() <= at
    }

    fn block(&mut self, at: Ps) -> Block {
        let len = match &self.load {
            Load::Blocks(blocks) => blocks[self.sent as usize].octets,
            _ => self.octets[(self.sent % self.octets.len() as u64) as usize],
        };
        let serial = self.sent;
        self.sent += 1;
        if matches!(self.load, Load::Ping { .. }) {
            self.waits_until = at.plus(Ps::from_ns(Load::PATIENCE_NS));
        }
        Block {
            association: self.to.association,
            serial,
            len,
        }
    }
}

/// The time from the first of so many blocks to the next.
pub(super) fn distance(blocks: u64, block_s: u32) -> Ps {
    let ps = u128::from(blocks) * PS_PER_S / u128::from(block_s.max(1));
    Ps::new(u64::try_from(ps).unwrap_or(u64::MAX))
}

/// All programs of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Application {
    senders: Vec<Sender>,
    /// Whose turn it is.
    turn: usize,
    then: BTreeMap<u16, Vec<Then>>,
    answers: VecDeque<Outgoing>,
    letters: Letterbox,
    /// Cells that go on from here, and where those of some circuits go.
    cells: Cells,
    onward: BTreeMap<u16, (Route, Cells)>,
    pub(super) node: Option<Node>,
    pub(super) begun: Vec<Begun>,
    pub(super) read: Vec<Read>,
}

impl Application {
    /// Its number among the host's senders.
    pub(super) fn sends(&mut self, sender: Sender) -> usize {
        self.senders.push(sender);
        self.senders.len() - 1
    }

    pub(super) fn has_come(&mut self, vci: u16, then: Then) {
        self.then.entry(vci).or_default().push(then);
    }

    pub(super) fn cells(&self) -> Cells {
        Rc::clone(&self.cells)
    }

    /// Cells that come on a circuit go on from another host.
    pub(super) fn goes_on(&mut self, vci: u16, route: Route, cells: Cells) {
        self.onward.insert(vci, (route, cells));
    }

    pub(super) fn letters(&self) -> Letterbox {
        Rc::clone(&self.letters)
    }
}

impl v1s::Application for Application {
    fn idle(&mut self, at: Ps) -> Option<Outgoing> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        let mut letters = self.letters.borrow_mut();
        if letters.front().is_some_and(|(from, _)| *from <= at) {
            return letters.pop_front().map(|(_, letter)| letter);
        }
        if let Some(block) = self.node.as_mut().and_then(|node| node.leaves(at)) {
            return Some(block);
        }
        let count = self.senders.len();
        let turn = self.turn;
        let mut turns = (0..count).map(|n| (turn + n) % count);
        let next = turns.find(|n| self.senders[*n].may_begin(at))?;
        self.turn = next + 1;
        let sender = &mut self.senders[next];
        let (block, to) = (sender.block(at), sender.to);
        self.begun.push(Begun {
            at,
            association: block.association,
            serial: block.serial,
            len: block.len,
        });
        Some(to.carries(block.octets()))
    }

    fn sent(&mut self, _: Ps) {}

    fn takes_cell(&mut self, at: Ps, cell: &[u8; CBN_CELL_LEN]) -> bool {
        let vci = u16::from_be_bytes([cell[0], cell[1]]);
        let Some((route, cells)) = self.onward.get(&vci) else {
            return false;
        };
        let mut cell = *cell;
        cell[..2].copy_from_slice(&route.vci.to_be_bytes());
        cells.borrow_mut().push_back((at, route.channel, cell));
        true
    }

    fn passes_on(&mut self, at: Ps) -> Option<(u8, [u8; CBN_CELL_LEN])> {
        let mut cells = self.cells.borrow_mut();
        let (from, ..) = cells.front()?;
        let is_there = *from <= at;
        let (_, channel, cell) = is_there.then(|| cells.pop_front()).flatten()?;
        Some((channel, cell))
    }

    fn room(&self) -> Option<(u16, Ps)> {
        self.node.as_ref().map(Node::room)
    }

    fn circuits(&mut self, at: Ps, circuits: &mut Circuits<'_>) {
        if let Some(node) = &mut self.node {
            node.turn(circuits, at);
        }
    }

    fn received(&mut self, at: Ps, vci: u16, block: &[u8]) {
        let seen = Block::seen(block);
        self.read.push(Read {
            at,
            vci,
            len: block.len() as u16,
            digest: super::digest(block),
            seen,
        });
        if let Some(node) = self.node.as_mut().filter(|node| node.owns(vci)) {
            node.has_come(vci, block);
        }
        for then in self.then.get(&vci).into_iter().flatten() {
            let is_of = |own: &u32| matches!(seen, Seen::Whole(one) if one.association == *own);
            match then {
                Then::Back(own, route) if is_of(own) => {
                    self.answers.push_back(route.carries(block.to_vec()));
                }
                Then::Answer(own, sender) if is_of(own) => self.senders[*sender].waits_until = at,
                Then::Back(..) | Then::Answer(..) => {}
                Then::On(route, letterbox) => {
                    let letter = route.carries(block.to_vec());
                    letterbox.borrow_mut().push_back((at, letter));
                }
            }
        }
    }

    fn due(&self) -> Ps {
        let letters = self.letters.borrow();
        let letter = letters.front().map_or(Ps::MAX, |(at, _)| *at);
        let cells = self.cells.borrow();
        let letter = cells.front().map_or(letter, |(at, ..)| letter.min(*at));
        let answer = match self.answers.is_empty() {
            true => Ps::MAX,
            false => Ps::ZERO,
        };
        let node = self.node.as_ref().map_or(Ps::MAX, Node::due);
        let senders = self.senders.iter().map(Sender::due);
        senders.fold(letter.min(answer).min(node), Ps::min)
    }
}

impl Route {
    fn carries(self, octets: Vec<u8>) -> Outgoing {
        Outgoing {
            vci: self.vci,
            to: To::Channel(self.channel),
            octets,
        }
    }
}
