//! Nodes, and what is between them: lines, whose turn it is when, and the log.

use super::build::Options;
use super::content::Content;
use super::incident::Incident;
use super::log::{Fact, Log};
use super::plan::Plan;
use super::servers::{ServerBug, ServerTurn};
use super::{EventQueue, Line, Ps, Violation};

/// Something that cells come to and leave by lines. A line is no node: when a cell arrives at its
/// end is arithmetic, and whoever is there takes it when it looks.
pub(crate) trait Node {
    /// The first cell under way on a line to this node arrives at `at`.
    fn expects(&mut self, line: u32, at: Ps, net: &mut Net);

    /// It is this node's turn. When the same turn comes again, if it does.
    fn acts(&mut self, turn: Turn, net: &mut Net) -> Option<Ps>;
}

/// A node, by its number among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeId {
    /// All of them.
    World,
    Source(u32),
    Switch(u32),
    Host(u32),
}

/// What a node does next. At one time in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    /// Something goes wrong, or right again.
    Incident(Incident),
    /// Something happens to a host's server or applications.
    Server(ServerTurn),
    /// A cell or an SDU of this source is due.
    Source(u32),
    /// This stream's camera has made something, or what waits is tried again.
    Film(u32),
    /// A cell has come along this line.
    Arrival(u32),
    /// This client of a host runs.
    Client(u32),
    /// What a connection's player has is due.
    Player(u32),
    /// An adapter takes a step.
    Step,
}

/// What nodes have in common while one of them acts.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) now: Ps,
    /// The latest that has happened.
    pub(crate) reached: Ps,
    pub(crate) lines: Vec<Line>,
    pub(crate) content: Content,
    pub(crate) plan: Plan,
    pub(crate) log: Log,
    pub(crate) options: Options,
    pub(super) queue: EventQueue<(Turn, NodeId)>,
    /// Lines on which cells were put: who is at their ends is to be told.
    pub(super) filled: Vec<usize>,
    /// Of all that was done, and when.
    pub(crate) hash: u64,
    /// Things that a bug can lose.
    lost: u64,
}

impl Net {
    pub(crate) fn new(plan: Plan, lines: Vec<Line>, options: Options) -> Self {
        Self {
            now: Ps::ZERO,
            reached: Ps::ZERO,
            lines,
            content: Content::default(),
            log: Log::new(&plan),
            plan,
            options,
            queue: EventQueue::default(),
            filled: Vec::new(),
            hash: 0,
            lost: 0,
        }
    }

    /// It is a node's turn at `at`, or at once if that is past.
    pub(crate) fn later(&mut self, at: Ps, turn: Turn, node: NodeId) {
        self.queue.push(at, (turn, node));
    }

    /// Notes that a line has a first cell, of which the node at its end is told.
    #[inline]
    pub(crate) fn fills(&mut self, line: usize) {
        self.filled.push(line);
    }

    /// Writes down what has happened.
    #[inline]
    pub(crate) fn tell(&mut self, fact: Fact) {
        self.log.note(self.now, &self.plan, fact);
    }

    /// Something is wrong.
    pub(crate) fn violate(&mut self, invariant: &str, text: String) {
        self.log.violate(Violation::new(invariant, self.now, text));
    }

    /// Adds something that happened to the hash: what happens at one time to several has no order.
    #[inline]
    pub(crate) fn mix(&mut self, at: Ps, what: u64) {
        let mixed = (what ^ at.ps().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.hash = self.hash.wrapping_add(mixed ^ mixed >> 32);
    }

    /// Whether servers have this bug.
    pub(crate) fn has(&self, bug: ServerBug) -> bool {
        self.options.server_bug == Some(bug)
    }

    /// Whether this time a bug loses something.
    pub(crate) fn loses(&mut self, bug: super::Canary) -> bool {
        if self.options.canary != Some(bug) {
            return false;
        }
        self.lost += 1;
        self.lost % 200 > 100
    }
}
