//! A host whose adapter rests: it steps when something comes to it, and when the core says.

use cellgate_core::Time;
use cellgate_core::adapter::{Board, PortIndex, Rest};

use super::Host;
use crate::world::line::Line;
use crate::world::net::Net;
use crate::world::scenario::HostSpec;
use crate::world::{Interval, Ps};

/// Cells that wait in a port's transmit FIFO of an adapter that rests: fewer than are due at once
/// when what is shaped has waited as long as it may, so that lines are full at times.
const FIFO: u64 = 96;
/// Cells that leave a full one before its adapter looks again.
const ROOM: u64 = 64;
/// Cells of its line by which what an adapter shapes is late.
const SHAPED_LATE: u64 = 128;
/// Steps in a row that may do nothing though the adapter has something to do: they look at 16
/// clients and at 33 transmit queues of a port each.
const IN_VAIN: u32 = 8;

/// How often an adapter has rested, and what has ended that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RestCounts {
    /// Rests in all.
    pub(crate) rests: u64,
    /// Ended by a cell.
    pub(crate) cell: u64,
    /// By a doorbell.
    pub(crate) doorbell: u64,
    /// By a command.
    pub(crate) command: u64,
    /// Over when something was due that allows no lateness.
    pub(crate) due: u64,
    /// Over when something shaped was due.
    pub(crate) shaped: u64,
    /// Begun while a line took nothing more.
    pub(crate) held: u64,
}

/// What a host knows of its adapter's rest.
#[derive(Clone, Debug, Default)]
pub(super) struct Rests {
    /// What the adapter has said, if it rests.
    rest: Option<Rest>,
    /// A doorbell was rung, or a command given.
    pub(super) is_rung: bool,
    pub(super) is_ordered: bool,
    /// What was there before the step.
    before: [u64; 8],
    in_vain: u32,
    /// Answers to OAM cells that have left.
    pub(super) answers: u64,
    pub(super) counts: RestCounts,
}

impl Rests {
    /// Another adapter begins.
    pub(super) fn forget(&mut self) {
        *self = Self {
            counts: self.counts,
            ..Self::default()
        };
    }
}

/// Cells that wait in the transmit FIFO of a host's port.
pub(crate) fn transmit_fifo(host: &HostSpec) -> u64 {
    match host.rests {
        true => FIFO,
        false => super::TRANSMIT_FIFO,
    }
}

/// By how much what a host's adapter sends, on a line that needs `cell` for each cell, may be late
/// because it rests; with a rate, no more than the contract makes good.
pub(crate) fn shaped_late(host: &HostSpec, cell: Interval, cdvt: Option<Ps>) -> Ps {
    let of_line = cell.times(SHAPED_LATE);
    match (host.rests, cdvt) {
        (false, _) => Ps::ZERO,
        (true, None) => of_line,
        (true, Some(cdvt)) => of_line.min(Ps::new(cdvt.ps() / 4)),
    }
}

impl Host {
    /// A step begins: what has ended the rest, if there was one?
    pub(super) fn rest_ends(&mut self, time: Time) {
        let called = (self.rests.is_rung, self.rests.is_ordered);
        (self.rests.is_rung, self.rests.is_ordered) = (false, false);
        if !self.spec.rests {
            return;
        }
        self.rests.before = self.seen_of_work();
        let Some(Rest::Until { exact, shaped }) = self.rests.rest.take() else {
            return;
        };
        let is_there = self.waiting() > 0;
        let is_past = |at: Option<Time>| at.is_some_and(|at| at <= time);
        let counts = &mut self.rests.counts;
        counts.rests += 1;
        let by = match called {
            _ if is_there => &mut counts.cell,
            (true, _) => &mut counts.doorbell,
            (_, true) => &mut counts.command,
            _ if is_past(exact) => &mut counts.due,
            _ if is_past(shaped) => &mut counts.shaped,
            _ => return,
        };
        *by += 1;
    }

    /// I22, after a step: an adapter that has something to do does it, sooner or later, and one
    /// that rests has nothing to do before the time it says.
    pub(super) fn rest_begins(&mut self, now: Ps, net: &mut Net) {
        if !self.spec.rests {
            return;
        }
        let rest = self.looks(now, &net.lines);
        let did = self.seen_of_work() != self.rests.before;
        self.rests.rest = (rest != Rest::Busy).then_some(rest);
        let missed = self.is_missed(now, &net.lines, rest);
        self.is_wrong("I22", now, missed, net);
        if did || rest != Rest::Busy {
            self.rests.in_vain = 0;
            return;
        }
        self.rests.in_vain += 1;
        if self.rests.in_vain > IN_VAIN && !self.is_lied_to_by_client() {
            let text = format!("it is busy, and {IN_VAIN} steps did nothing");
            self.is_wrong("I22", now, Some(text), net);
        }
    }

    /// What an adapter that rests leaves undone, if anything.
    fn is_missed(&self, now: Ps, lines: &[Line], rest: Rest) -> Option<String> {
        if rest == Rest::Busy {
            return None;
        }
        let time = self.time(now);
        let is_up_at = |at: Option<Time>| match (rest.until(), at) {
            (Some(until), Some(at)) => until <= at,
            (None, Some(_)) => false,
            (_, None) => true,
        };
        let room = self.board.next_deadline();
        if !is_up_at(room) {
            return Some(format!("it rests, and a line has room at {room:?}"));
        }
        if room.is_some() {
            // What waits for that line it need not know.
            return None;
        }
        let answers = self.adapter.stats().cells_answered;
        // RM cells that came back are among them, and are not answered.
        if answers > self.rests.answers && !self.follows_abr {
            return Some(format!("it rests, and {answers} cells are to be answered"));
        }
        let ports = self.ports.iter().enumerate();
        let late = ports.map(|(port, wires)| {
            let cdvt = self.watch.least_cdvt(port);
            shaped_late(&self.spec, lines[wires.output].cell(), cdvt)
        });
        // Rounded up.
        let late_ns = late.max().map_or(0, |late| late.ns() + 1);
        let due = self.adapter.next_deadline();
        let due = due.map(|due| due.max(time.plus_ns(late_ns)));
        (!is_up_at(due))
            .then(|| format!("it rests until {:?}, and is due at {due:?}", rest.until()))
    }

    /// Whether one of its clients writes what it should not: its doorbells can be such that nobody
    /// can answer them.
    fn is_lied_to_by_client(&self) -> bool {
        self.clients.iter().any(|client| client.is_lawless)
    }

    /// When an adapter that rests has something to do next, if nothing comes.
    pub(super) fn next_step_of_rest(&mut self, now: Ps, lines: &[Line]) -> Option<Ps> {
        if self.rests.is_rung || self.rests.is_ordered {
            return Some(self.steps.from(now));
        }
        let wires = self.ports.iter();
        let arrivals = wires.filter_map(|wires| lines[wires.input].next_arrival());
        let arrival = arrivals.min();
        let until = match self.looks(now, lines) {
            Rest::Busy if self.rests.in_vain <= IN_VAIN => Some(now),
            // It would never end.
            Rest::Busy => None,
            rest => rest.until().map(|time| self.instant(time)),
        };
        let next = until.into_iter().chain(arrival).min();
        next.map(|at| self.steps.from(at))
    }

    /// What the adapter says of its rest. A line that takes nothing more is looked at again.
    fn looks(&mut self, now: Ps, lines: &[Line]) -> Rest {
        let ports = (0..).map(PortIndex).zip(&self.ports);
        let held = ports.filter(|(port, _)| self.board.is_held(*port));
        let room = held.map(|(_, wires)| now.plus(lines[wires.output].cell().times(ROOM)));
        let room = room.min().map(|at| self.time(at));
        self.rests.counts.held += u64::from(room.is_some());
        self.board.set_deadline(room);
        self.adapter.rest(self.time(now), &self.board)
    }

    /// Numbers of which one is another when a step has done something.
    fn seen_of_work(&self) -> [u64; 8] {
        let stats = self.adapter.stats();
        [
            stats.cells_received,
            stats.cells_transmitted,
            stats.cells_discarded.total(),
            stats.events + stats.events_lost,
            stats.interrupts,
            self.adapter.doorbells_answered() + stats.doorbell_faults,
            self.ordered.len() as u64,
            self.tickets,
        ]
    }
}
