//! What is watched of every adapter, also where no reference runs beside it: that a step has no
//! more work than it may have (I17), and that what leaves conforms to its contract and leaves no
//! slot of a line empty for which best effort waits, or a burst of VBR (I13).

use std::collections::BTreeMap;

use cellgate_core::Time;
use cellgate_core::adapter::{Aal, OpenRequest, PortIndex, Schedule, VcId, Work};

use super::Host;
use super::notice_check::Told;
use super::rests::{shaped_late, transmit_fifo};
use crate::board::{KINDS, LabBoard};
use crate::reference::{Policer, policers};
use crate::world::line::{Line, address_of};
use crate::world::net::Net;
use crate::world::{Octets, Ps};

/// PDUs that a step begins on a port, and transmit queues that it finds empty there.
const PDUS_BEGUN: u64 = 8;
const FOUND_EMPTY: u64 = 33;
/// Cells that a step sends on a port.
const CELLS_SENT: u64 = 256;

/// Best effort has rung, been heard, and begun to send after so many steps in a row.
const HEARD: u32 = 4;
/// VCs of a port at which it is looked whether they wait.
const LOOKED_AT: usize = 8;
/// Cells that a line can be ahead of its slots, or behind.
const SLACK: u64 = 3;

/// A kind of work, and how much of it a step may have: so much for each cell of the budgets, so
/// much for each port, and so much.
const BOUNDS: [(Work, u64, u64, u64); 9] = [
    (Work::TestReceiveFifos, 0, 1, 0),
    (Work::Lookup, 1, 0, 0),
    (Work::ReceiveCells, 1, 0, 0),
    (Work::AnswerOam, 1, 0, 0),
    (Work::EnqueueToEmpty, 0, PDUS_BEGUN, 0),
    (Work::Enqueue, 0, PDUS_BEGUN, 0),
    (Work::ParseEmptyTransmitQueues, 0, FOUND_EMPTY, 0),
    (Work::TransmitCells, 0, CELLS_SENT, 0),
    (Work::HandleCommand, 0, 0, 1),
];

/// How a host steps.
#[derive(Clone, Copy, Debug)]
struct Pace {
    step: Ps,
    /// This step is the next after the last.
    follows: bool,
    /// Cells that wait before a line.
    fifo: u64,
    /// How late what is shaped may be because the adapter rests.
    late: Ps,
}

/// A VC that sends.
#[derive(Clone, Copy, Debug)]
struct Sender {
    vc: VcId,
    aal: Aal,
    /// In the middle of a PDU of AAL5.
    is_inside: bool,
    /// Of its rate and, if it is VBR, of its sustained rate. None: best effort, as fast as it can.
    policers: [Option<Policer>; 2],
    /// Cells that it can make good at once, and one.
    late: u64,
    /// Of one with a rate.
    cdvt: Option<Ps>,
    /// Of ABR.
    is_available: bool,
}

impl Sender {
    fn is_greedy(&self) -> bool {
        self.policers[0].is_none() && self.aal == Aal::Aal5
    }

    /// Whether its next cell may leave whenever its line has a slot for it.
    fn has_its_time(&self, now: Time) -> bool {
        let mut policers = self.policers.iter().flatten();
        policers.all(|policer| policer.conforms(now.ns()))
    }

    /// Whether a cell of its begins a PDU.
    fn begins(&mut self, cell: &Octets) -> bool {
        match self.aal {
            Aal::Aal0 => true,
            // BOM or SSM.
            Aal::Aal34(_) => cell[5] & 0x80 != 0,
            Aal::Aal5 => {
                let is_last = cell[3] & 2 != 0;
                !std::mem::replace(&mut self.is_inside, !is_last)
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Port {
    /// By the bits of their addresses.
    senders: BTreeMap<u32, Sender>,
    /// Of these, best effort on AAL5 that may send as fast as it can.
    greedy: Vec<VcId>,
    /// Of these, VBR on AAL5 that was not changed: its shaper knows what it has sent before, and
    /// its policers do not.
    bursting: Vec<(VcId, u32)>,
    /// The most cells that all of them together could make good at once, and one of each.
    late: u64,
    /// Of these, sources of ABR. Each may have begun a PDU in a step of which no cell has left: an
    /// RM cell is before it, or its rate has changed.
    available: u64,
    /// Steps in a row after which best effort waited.
    waiting: u32,
    /// Of a client that lies about its SDUs no PDU may be seen, and yet the step begins each.
    is_lied_to: bool,
    /// PDUs begun in the last step, and its cells.
    begun: u64,
    sent: u64,
    /// Steps in a row that could begin or send no more, up to the last one, and the most.
    full: u64,
    full_most: u64,
}

/// Whether a step has begun as many PDUs as it may, or has sent as many cells.
fn has_no_more(begun: u64, sent: u64) -> bool {
    begun >= PDUS_BEGUN || sent >= CELLS_SENT
}

impl Port {
    /// Nothing was sent, and nobody waits: what follows says nothing of the slots.
    #[inline]
    fn is_at_rest(&self) -> bool {
        u64::from(self.waiting) | self.begun | self.sent | self.full == 0
    }
}

/// What was seen of an adapter.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    ports: Vec<Port>,
    /// How much of each work a step may have, and how much there was up to the last one.
    bounds: [u64; KINDS],
    charged: [u64; KINDS],
    pub(super) told: Told,
    /// The last step.
    last: Ps,
}

impl Watch {
    /// Of an adapter with so many ports, from each of which a step takes so many cells.
    pub(super) fn new(ports: usize, budget: u16) -> Self {
        let mut bounds = [u64::MAX / 2; KINDS];
        for (work, by_cell, by_port, more) in BOUNDS {
            let of_port = by_cell * u64::from(budget) + by_port;
            bounds[work as usize] = of_port * ports as u64 + more;
        }
        Self::of(ports, bounds)
    }

    fn of(ports: usize, bounds: [u64; KINDS]) -> Self {
        Self {
            ports: vec![Port::default(); ports],
            bounds,
            charged: [0; KINDS],
            told: Told::default(),
            last: Ps::ZERO,
        }
    }

    /// Of another adapter in the place of this one.
    pub(super) fn of_next(&self) -> Self {
        let mut next = Self::of(self.ports.len(), self.bounds);
        for (port, before) in next.ports.iter_mut().zip(&self.ports) {
            (port.late, port.is_lied_to) = (before.late, before.is_lied_to);
            port.full_most = before.full_most;
        }
        next
    }

    /// A VC is open, or changed.
    pub(super) fn opens(&mut self, vc: VcId, request: &OpenRequest) {
        let address = request.address.bits();
        let senders = &self.ports[usize::from(request.port.0)].senders;
        let is_changed = senders.contains_key(&address);
        self.closes(request);
        let Some(transmit) = request.transmit else {
            return;
        };
        let rate = transmit.rate.or(transmit.peak);
        let mut policers = policers(request).into_iter();
        let cell_s = rate.map_or(0, |rate| rate.cell_s().into());
        let sender = Sender {
            vc,
            late: transmit.cdvt_ns.saturating_mul(cell_s) / 1_000_000_000 + 1,
            cdvt: rate.map(|_| Ps::from_ns(transmit.cdvt_ns)),
            aal: request.aal,
            is_available: transmit.abr.is_some(),
            is_inside: false,
            policers: [policers.next(), policers.next()],
        };
        let port = &mut self.ports[usize::from(request.port.0)];
        port.available += u64::from(sender.is_available);
        port.senders.insert(address, sender);
        let late = port.senders.values().map(|sender| sender.late).sum();
        port.late = port.late.max(late);
        if sender.is_greedy() {
            port.greedy.push(vc);
        }
        if transmit.sustained.is_some() && sender.aal == Aal::Aal5 && !is_changed {
            port.bursting.push((vc, address));
        }
    }

    /// Whoever sends on this port may say what is not so.
    pub(super) fn is_lied_to(&mut self, port: PortIndex) {
        self.ports[usize::from(port.0)].is_lied_to = true;
    }

    /// The least that a VC of a port with a rate can make good.
    pub(super) fn least_cdvt(&self, port: usize) -> Option<Ps> {
        let senders = self.ports[port].senders.values();
        senders.filter_map(|sender| sender.cdvt).min()
    }

    /// The most cells of a port that its VCs together could make good at once, and one of each, and
    /// the most steps in a row that could send no more.
    pub(super) fn crowd(&self, port: usize) -> (u64, u64) {
        (self.ports[port].late, self.ports[port].full_most)
    }

    /// Whether a port could begin or send no more in the last step.
    pub(super) fn has_no_more(&self, port: usize) -> bool {
        let port = &self.ports[port];
        has_no_more(port.begun + port.available, port.sent)
    }

    /// It is closed.
    pub(super) fn closes(&mut self, request: &OpenRequest) {
        let port = &mut self.ports[usize::from(request.port.0)];
        let address = request.address.bits();
        let gone = port.senders.remove(&address);
        port.available -= u64::from(gone.is_some_and(|gone| gone.is_available));
        port.bursting.retain(|(_, other)| *other != address);
        if let Some(gone) = gone.filter(Sender::is_greedy) {
            port.greedy.retain(|vc| *vc != gone.vc);
        }
    }

    /// I17: what is wrong with the work of a step, if anything.
    #[inline]
    pub(super) fn work(&mut self, board: &LabBoard) -> Option<String> {
        let now = board.charged();
        // Of what is too much, the highest bit is set.
        let left = |n: usize| self.bounds[n].wrapping_sub(now[n] - self.charged[n]);
        let over = (0..KINDS).fold(0, |over, n| over | left(n));
        let wrong = (over > u64::MAX / 2).then(|| self.too_much(now));
        self.charged = *now;
        wrong
    }

    #[cold]
    fn too_much(&self, now: &[u64; KINDS]) -> String {
        let of = |work: Work| {
            let n = work as usize;
            (now[n] - self.charged[n], self.bounds[n])
        };
        let works = BOUNDS.iter().map(|(work, ..)| (work, of(*work)));
        let over = works.filter(|(_, (done, bound))| done > bound);
        let over = over.map(|(work, (done, bound))| format!("{work:?} {done}, at most {bound}"));
        format!("work of a step: {}", over.collect::<Vec<_>>().join("; "))
    }

    /// I13: what is wrong with a cell that leaves, if anything.
    pub(super) fn cell(&mut self, now: Time, port: usize, cell: &Octets) -> Option<String> {
        // OAM cells are of no contract.
        if cell[3] & 8 != 0 {
            return None;
        }
        let address = address_of(cell);
        let port = &mut self.ports[port];
        port.sent += 1;
        let sender = port.senders.get_mut(&address.bits())?;
        port.begun += u64::from(sender.begins(cell));
        if !sender.has_its_time(now) {
            return Some(format!("a cell of {address} leaves before its time"));
        }
        for policer in sender.policers.iter_mut().flatten() {
            policer.arrive(now.ns());
            policer.charge(1);
        }
        None
    }

    /// I13: the cells of the last step have left; what is wrong with the slots since, if anything.
    fn rest(&mut self, now: Ps, host: Pace, port: usize, line: &Line) -> Option<String> {
        let step = host.step;
        let follows = host.follows;
        let port = &mut self.ports[port];
        let (begun, sent) = (port.begun, port.sent);
        (port.begun, port.sent) = (0, 0);
        if !follows {
            port.waiting = 0;
        }
        let has_no_more = has_no_more(begun + port.available, sent);
        port.full = if has_no_more { port.full + 1 } else { 0 };
        port.full_most = port.full_most.max(port.full);
        if port.waiting < HEARD || port.is_lied_to || has_no_more {
            return None;
        }
        // Longer than its FIFO lasts an adapter cannot keep its line busy from step to step.
        let beyond = step.since(line.cell().times(host.fifo));
        let late = line.cell().times(SLACK).plus(beyond).plus(host.late);
        let idle = now.since(line.free_at().plus(late)).ns();
        (idle > 0).then(|| format!("a VC waits, and its line has had nothing for {idle} ns"))
    }
}

impl Host {
    /// I13, before a step: best effort has had what was left of each line.
    pub(super) fn rest_is_used(&mut self, now: Ps, net: &mut Net) {
        let step = Ps::from_ns(self.spec.step_ns);
        // One that rests may have left out any steps, but for those of a stall.
        let follows = match self.spec.rests {
            true => self.steps.stalled_until <= self.watch.last,
            false => self.watch.last.plus(step) == now,
        };
        let fifo = transmit_fifo(&self.spec);
        for port in 0..self.ports.len() {
            if self.watch.ports[port].is_at_rest() {
                continue;
            }
            let line = &net.lines[self.ports[port].output];
            let late = shaped_late(&self.spec, line.cell(), None);
            let pace = Pace {
                step,
                follows,
                fifo,
                late,
            };
            let wrong = self.watch.rest(now, pace, port, line);
            self.is_wrong("I13", now, wrong, net);
        }
        self.watch.last = now;
    }

    /// After a step: where best effort waits, or VBR whose next cell both its buckets admit.
    pub(super) fn look_who_waits(&mut self, now: Time) {
        for port in 0..self.watch.ports.len() {
            let Port {
                greedy, bursting, ..
            } = &self.watch.ports[port];
            let is_asked = !greedy.is_empty() || !bursting.is_empty();
            let waits = is_asked && self.waits(now, port);
            let port = &mut self.watch.ports[port];
            port.waiting = if waits { port.waiting + 1 } else { 0 };
        }
    }

    /// Whether somebody waits at a port.
    #[inline(never)]
    fn waits(&mut self, now: Time, port: usize) -> bool {
        let port = &self.watch.ports[port];
        // The adapter tells times apart to so much.
        let due = now.minus_ns(Schedule::TICK_NS);
        let bursting = port.bursting.iter().filter(|(_, address)| {
            let sender = port.senders.get(address);
            sender.is_some_and(|sender| sender.has_its_time(due))
        });
        let bursting = bursting.map(|(vc, _)| vc);
        let mut waiting = port.greedy.iter().chain(bursting).take(LOOKED_AT);
        waiting.any(|vc| {
            let Some(endpoint) = self.endpoints.get_mut(vc) else {
                return false;
            };
            // While it is changed it begins nothing, and who lies about doorbells has not rung.
            let lies = self.clients[endpoint.client].is_lawless;
            let changes = self.changing.contains(&endpoint.connection);
            !lies && !changes && !endpoint.has_sent_all()
        })
    }
}
