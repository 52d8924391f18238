//! Runs the adapter and the reference over the same plan and compares all that can be seen.

mod alongside;
mod host;
mod resting;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter::Peekable;
use std::slice::Iter;

use cellgate_core::Time;
use cellgate_core::adapter::{
    AdapterStats, AttachmentIndex, CellOutcome, Config, Event, EventKind, Outcome, Planted,
    PortIndex, Refusal, Rest, VcId, VcInfo,
};

use crate::board::{LabBoard, LabCompletion, Trace};
use crate::client::LabClients;
use crate::plan::{Order, Plan, Planned, Step};
use crate::reference::{LoopbackLeft, Output, Reference};

pub use resting::{Rested, run_resting};
pub(crate) use resting::{crowded, cut_short};

/// A modification waits this long for the end of a PDU.
pub(crate) const MODIFY_PATIENCE_NS: u64 = 100_000_000;

/// What is run: an adapter, or something around one.
pub trait Firmware {
    fn step(&mut self, now: Time, board: &mut LabBoard);

    /// Whether it rests after a step, and until when. None: it cannot say.
    fn rest(&self, _now: Time, _board: &LabBoard) -> Option<Rest> {
        None
    }

    /// What it has counted, if it says.
    fn counted(&self) -> Option<AdapterStats> {
        None
    }
}

/// A run without a difference, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Cells whose outcome was compared.
    pub cells: u64,
    /// PDUs compared octet by octet.
    pub pdus: u64,
    pub events: u64,
    /// Commands whose end was compared.
    pub commands: u64,
    /// Cells sent, each compared with what was handed over.
    pub transmitted: u64,
    /// Replies sent, each compared octet by octet.
    pub replies: u64,
    /// Loopback cells of the adapter's own that came back.
    pub returned: u64,
    /// PDUs found that were tagged.
    pub tagged: u64,
    /// VCs opened while one of another port had their address.
    pub namesakes: u64,
    /// Of everything the adapter did, in order.
    pub log_hash: u64,
}

/// The first difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Of the plan.
    pub seed: u64,
    /// Ordinal of the step.
    pub step: usize,
    /// The adapter's clock.
    pub now: Time,
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.now.ns();
        write!(
            f,
            "seed {} step {} at {now} ns: {}",
            self.seed, self.step, self.text
        )
    }
}

impl std::error::Error for Failure {}

/// Runs `plan` on `firmware`, which was made for its configuration at time 0.
///
/// Equal plans give equal reports; nothing is drawn.
pub fn run(
    plan: &Plan,
    planted: Option<Planted>,
    firmware: &mut dyn Firmware,
) -> Result<Report, Box<Failure>> {
    conduct(Run::new(plan, planted), firmware)
}

/// As [`run`], but the client of the VC that command `memory` opens is an adversary: before every
/// load of the adapter it scribbles over the memory it may write. What becomes of its own VC is not
/// judged; everybody else must not notice.
pub fn run_attacked(
    plan: &Plan,
    memory: u64,
    firmware: &mut dyn Firmware,
) -> Result<Report, Box<Failure>> {
    let mut run = Run::new(plan, None);
    run.judge.let_go(memory);
    conduct(run, firmware)
}

fn conduct(mut run: Run<'_>, firmware: &mut dyn Firmware) -> Result<Report, Box<Failure>> {
    let plan = run.plan;
    let mut actions = plan.actions.iter().peekable();
    for (n, step) in plan.steps.iter().enumerate() {
        run.act_until(&mut actions, n, step)?;
        run.step(n, step, firmware)?;
    }
    finished(run)
}

/// The end of a run.
fn finished(mut run: Run<'_>) -> Result<Report, Box<Failure>> {
    let plan = run.plan;
    let last = plan.steps.last().copied().unwrap_or(Step {
        poll_ns: 0,
        now_ns: 0,
        transmit_space: 0,
    });
    run.judge
        .finish()
        .map_err(|text| run.failure(plan.steps.len(), &last, text))?;
    run.judge.report.log_hash = run.judge.log.finish();
    Ok(run.judge.report)
}

struct Run<'a> {
    plan: &'a Plan,
    board: LabBoard,
    judge: Judge,
}

/// The reference beside one adapter: it is told what hosts and clients do, and compares what the
/// adapter does.
#[derive(Debug)]
pub(crate) struct Judge {
    config: Config,
    reference: Reference,
    output: Output,
    clients: LabClients,
    orders: BTreeMap<u64, Ordered>,
    /// VCs by the ticket of the command that opened them.
    names: BTreeMap<u64, VcId>,
    /// Which memory each open VC uses, and which VC each memory.
    memories: BTreeMap<VcId, u64>,
    users: BTreeMap<u64, VcId>,
    outcomes: u64,
    interrupts: u64,
    rung_wrongly: u64,
    /// VCs whose client has yet to ring for them.
    unrung: BTreeSet<VcId>,
    /// Commands that brought memory to an adversary's VC.
    lawless: BTreeSet<u64>,
    report: Report,
    log: DefaultHasher,
}

#[derive(Debug)]
struct Ordered {
    order: Order,
    vc: Option<VcId>,
    taken_ns: Option<u64>,
    completed: bool,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, planted: Option<Planted>) -> Self {
        let mut board = LabBoard::new(plan.config.ports.len(), planted);
        for cell in &plan.cells {
            board.arrive(Time::from_ns(cell.at_ns), cell.port, cell.octets.clone());
        }
        Self {
            plan,
            board,
            judge: Judge::new(&plan.config, Time::ZERO),
        }
    }

    fn failure(&self, step: usize, at: &Step, text: String) -> Box<Failure> {
        let now = Time::from_ns(at.now_ns);
        Box::new(Failure {
            seed: self.plan.seed,
            step,
            now,
            text,
        })
    }

    /// The host and the clients do what they have to do before a step.
    fn act_until(
        &mut self,
        actions: &mut Peekable<Iter<'_, Planned>>,
        n: usize,
        step: &Step,
    ) -> Result<(), Box<Failure>> {
        while let Some(planned) = actions.next_if(|planned| planned.at_ns <= step.poll_ns) {
            if let Err(text) = self.judge.act(&planned.action, &mut self.board) {
                return Err(self.failure(n, step, text));
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        n: usize,
        step: &Step,
        firmware: &mut dyn Firmware,
    ) -> Result<(), Box<Failure>> {
        let now = Time::from_ns(step.now_ns);
        self.judge.ring_all();
        let space = step.transmit_space as usize;
        self.board.poll(Time::from_ns(step.poll_ns), space);
        self.judge.begin(now);
        firmware.step(now, &mut self.board);
        let mut trace = std::mem::take(&mut self.board.trace);
        self.judge
            .end(now, &mut trace, &mut self.board, |_| space)
            .map_err(|text| self.failure(n, step, text))
    }
}

impl Judge {
    /// A judge of an adapter that is made for `config` at `now`.
    pub(crate) fn new(config: &Config, now: Time) -> Self {
        Self {
            config: config.clone(),
            reference: Reference::new(config, now),
            output: Output::default(),
            clients: LabClients::default(),
            orders: BTreeMap::new(),
            names: BTreeMap::new(),
            memories: BTreeMap::new(),
            users: BTreeMap::new(),
            outcomes: 0,
            interrupts: 0,
            rung_wrongly: 0,
            unrung: BTreeSet::new(),
            lawless: BTreeSet::new(),
            report: Report::default(),
            log: DefaultHasher::new(),
        }
    }

    /// The owner of the memory that a command brings is an adversary.
    pub(crate) fn let_go(&mut self, memory: u64) {
        self.reference.lawless.insert(memory);
        self.lawless.insert(memory);
    }

    /// A step of the adapter begins.
    pub(crate) fn begin(&mut self, now: Time) {
        self.reference.step(now);
    }

    /// A step has ended, in which the adapter did what `trace` says, and port n took `space(n)`
    /// cells; what is wrong about that, if anything.
    pub(crate) fn end(
        &mut self,
        now: Time,
        trace: &mut Vec<Trace>,
        board: &mut LabBoard,
        space: impl Fn(usize) -> usize,
    ) -> Result<(), String> {
        let budgets = self.reference.budgets();
        let mut taken = vec![0; budgets.len()];
        let mut seen = Seen {
            now_ns: now.ns(),
            ..Seen::default()
        };
        for did in trace.drain(..) {
            if let Trace::Received {
                port,
                format,
                cells,
                ..
            } = &did
            {
                taken[usize::from(port.0)] += format.cells_in(cells.len());
            }
            self.judge(did, &mut seen, board)?;
        }
        for (port, (taken, budget)) in taken.into_iter().zip(budgets).enumerate() {
            let waiting = board.waiting(PortIndex(port as u8));
            if taken > budget || (taken < budget && waiting > 0) {
                return Err(format!(
                    "port {port}: took {taken} cells of a budget of {budget}, {waiting} wait"
                ));
            }
        }
        self.end_of_step(&seen, space)
    }

    /// What is left when the adapter has returned.
    fn end_of_step(&mut self, seen: &Seen, space: impl Fn(usize) -> usize) -> Result<(), String> {
        if let Some((outcome, text)) = self.reference.expected.outcomes.front() {
            return Err(format!(
                "cell {} ({text}) not judged, expected {outcome:?}",
                self.outcomes
            ));
        }
        let events = &self.reference.expected.events;
        if let Some(event) = events.values().flatten().next() {
            return Err(format!("not posted: {event:?}"));
        }
        while let Some(pdu) = self.reference.expected.pdus.pop_front() {
            self.report.pdus += 1;
            self.report.tagged += u64::from(pdu.tagged);
            let freed = self.reference.accepted_tail(pdu.memory);
            none_or(self.clients.find(pdu, freed))?;
        }
        // What nobody has written, and of which nothing else is expected, was looked at before.
        let changed = self.clients.changed();
        none_or(self.clients.heads_difference(&changed, &self.lawless))?;
        none_or(self.output.step_difference())?;
        none_or(self.output.held_up(seen.now_ns, &self.config.ports, &space))?;
        none_or(self.reference.replies_difference(space))?;
        none_or(self.reference.loopbacks_difference())?;
        let written = changed.iter().filter_map(|memory| self.users.get(memory));
        let written: Vec<VcId> = written.copied().collect();
        for vc in self.output.take_touched().into_iter().chain(written) {
            none_or(self.tail_difference(vc))?;
        }
        let due = self.reference.interrupts();
        if due != seen.interrupts {
            return Err(format!(
                "interrupts {:?}, expected {due:?}",
                seen.interrupts
            ));
        }
        if seen.commands > 1 {
            return Err(format!("{} commands in one step", seen.commands));
        }
        Ok(())
    }

    /// Whether the transmit tail that a VC's client sees is what its client was told.
    fn tail_difference(&self, vc: VcId) -> Option<String> {
        let memory = self.memories.get(&vc)?;
        let tail = self.clients.transmit_tail(*memory);
        let told = self.output.told(vc);
        (tail != told && !self.reference.is_lawless(vc))
            .then(|| format!("{vc:?}: transmit tail {tail:?}, expected {told:?}"))
    }

    fn judge(&mut self, did: Trace, seen: &mut Seen, board: &mut LabBoard) -> Result<(), String> {
        match did {
            Trace::Received {
                port,
                asked,
                format,
                cells,
            } => {
                let real_time = self.reference.is_real_time(port);
                if real_time && seen.others {
                    return Err(format!("port {}: taken after others", port.0));
                }
                seen.others |= !real_time;
                let cells = cells.chunks(format.stride());
                let (n, emptied) = (cells.len(), cells.len() < asked);
                self.reference.received(port, cells, emptied, &self.clients);
                (port, n).hash(&mut self.log);
                Ok(())
            }
            Trace::Judged(outcome, cells) => {
                (outcome, cells).hash(&mut self.log);
                (0..cells).try_for_each(|_| self.judged(outcome))
            }
            Trace::Posted(index, event) => {
                (index, event.emit()).hash(&mut self.log);
                self.report.events += 1;
                self.posted(index, event)
            }
            Trace::Interrupted(index, guaranteed) => {
                (index, guaranteed).hash(&mut self.log);
                seen.interrupts.entry(index.0).or_default().push(guaranteed);
                self.interrupts += 1;
                Ok(())
            }
            Trace::Command(ticket) => {
                // Commands come last in a step.
                self.reference.expire();
                self.output.settle();
                if let Some(ordered) = ticket.and_then(|ticket| self.orders.get_mut(&ticket)) {
                    ordered.taken_ns = Some(seen.now_ns);
                    seen.commands += 1;
                    self.reference
                        .taken(ticket.unwrap_or(0), &ordered.order, ordered.vc);
                }
                Ok(())
            }
            Trace::Completed(completion) => {
                self.report.commands += 1;
                self.reference.expire_reassembly();
                (completion.ticket, format!("{:?}", completion.result)).hash(&mut self.log);
                let ticket = completion.ticket;
                self.completed(*completion, seen.now_ns).map_err(|text| {
                    let order = self.orders.get(&ticket).map(|ordered| &ordered.order);
                    format!("command {ticket} {order:?}: {text}")
                })
            }
            Trace::Transmitted {
                port,
                format,
                cells,
            } => {
                cells.hash(&mut self.log);
                let form = self.config.ports[usize::from(port.0)].form;
                self.output.leaves(seen.now_ns, port);
                cells.chunks(format.stride()).try_for_each(|octets| {
                    if let Some(reply) = self.reference.next_reply(port) {
                        self.report.replies += 1;
                        return same_reply(port, &reply, octets);
                    }
                    if let Some(left) = self.reference.next_loopback(port, octets) {
                        return self.loopback_left(left?, seen.now_ns, board);
                    }
                    self.report.transmitted += 1;
                    none_or(self.output.cell(seen.now_ns, port, format, form, octets))
                })
            }
        }
    }

    /// A loopback cell has left: from here on its echoes are on their way.
    fn loopback_left(
        &mut self,
        left: LoopbackLeft,
        now_ns: u64,
        board: &mut LabBoard,
    ) -> Result<(), String> {
        let ordered = self.orders.get(&left.ticket);
        let Some(Order::Loopback(.., echoes)) = ordered.map(|ordered| &ordered.order) else {
            return Err(format!("command {} is no test", left.ticket));
        };
        for echo in echoes {
            let (port, octets) = left.echo(echo.twist, &self.config);
            let at = Time::from_ns(now_ns + echo.after_ns);
            board.arrive_between(at, port, octets);
        }
        Ok(())
    }

    fn judged(&mut self, outcome: CellOutcome) -> Result<(), String> {
        let ordinal = self.outcomes;
        self.outcomes += 1;
        self.report.cells += 1;
        let Some((expected, text)) = self.reference.expected.outcomes.pop_front() else {
            return Err(format!("cell {ordinal} judged, but not taken: {outcome:?}"));
        };
        if expected.is_some_and(|expected| expected != outcome) {
            return Err(format!(
                "cell {ordinal} ({text}): expected {expected:?}, got {outcome:?}"
            ));
        }
        Ok(())
    }

    fn posted(&mut self, index: AttachmentIndex, event: Event) -> Result<(), String> {
        let owner = self.reference.attachment_of(event.vc);
        if self.reference.is_lawless(event.vc) {
            // Whatever it is.
        } else if event.kind == EventKind::TransmitCompleted {
            none_or(self.output.completed(&event)).map_err(|text| format!("{event:?}: {text}"))?;
        } else {
            let expected = self.reference.expected.events.get_mut(&index.0);
            let expected = expected.and_then(|events| events.pop_front());
            if expected != Some(event) {
                return Err(format!("posted\n  {event:?}, expected\n  {expected:?}"));
            }
        }
        if owner != Some(index) {
            return Err(format!("{event:?} posted to {index:?}, expected {owner:?}"));
        }
        self.reference.posted(index.0, event, &self.clients);
        Ok(())
    }

    fn completed(&mut self, completion: LabCompletion, now_ns: u64) -> Result<(), String> {
        let LabCompletion {
            ticket,
            result,
            region,
            attachment,
        } = completion;
        let Some(ordered) = self.orders.get_mut(&ticket) else {
            return Err("nobody gave it".into());
        };
        if std::mem::replace(&mut ordered.completed, true) {
            return Err("ended twice".into());
        }
        let (order, vc) = (ordered.order.clone(), ordered.vc);
        let waited_ns = now_ns - ordered.taken_ns.unwrap_or(now_ns);
        let (region, attachment) = (region.is_some(), attachment.is_some());
        let back = match &order {
            Order::Open(..) => (result.is_err(), false),
            Order::Modify(_, _, sizes) => (sizes.is_some(), false),
            Order::Close(_) => (result.is_ok(), false),
            Order::Attach(..) => (false, result.is_err()),
            Order::Detach(_) => (false, result.is_ok()),
            _ => (false, false),
        };
        if (region, attachment) != back {
            return Err(format!(
                "memory that came back: {region} {attachment}, expected {back:?}"
            ));
        }
        if let (Order::Modify(_, _, Some(_)), Some(vc), Ok(_)) = (&order, vc, &result) {
            let busy = self.reference.held_by(vc) > 0 || self.output.in_progress(vc);
            if busy && waited_ns < MODIFY_PATIENCE_NS {
                return Err(format!(
                    "did not wait for the PDU's end, only {waited_ns} ns"
                ));
            }
        }
        let state = match &result {
            Ok(Outcome::State(state)) => &state.vcs[..],
            Ok(Outcome::Closed(info)) => std::slice::from_ref(info),
            _ => &[],
        };
        for info in state {
            self.check_sender(info)?;
        }
        if let Ok(Outcome::State(state)) = &result {
            self.check_adapter(&state.stats)?;
        }
        self.report.returned += u64::from(matches!(result, Ok(Outcome::Returned { .. })));
        if let (Order::Modify(_, _, Some(_)), Err(Refusal::StaleVc)) = (&order, &result)
            && waited_ns > 0
        {
            // The VC was closed meanwhile: that is the command which ends next.
            return Ok(());
        }
        none_or(self.reference.completed(ticket, &order, vc, &result))?;
        if let (Order::Open(request, _), Ok(_)) = (&order, &result) {
            self.report.namesakes += u64::from(self.reference.has_namesake(request));
        }
        if let Ok(outcome) = result {
            self.carried_out(ticket, &order, vc, &outcome);
        }
        Ok(())
    }

    fn check_sender(&self, info: &VcInfo) -> Result<(), String> {
        if self.reference.is_lawless(info.vc) {
            return Ok(());
        }
        let faults = self.reference.tail_faults(info.vc);
        none_or(self.output.difference(info.vc, faults, &info.stats))
    }

    fn check_adapter(&self, stats: &AdapterStats) -> Result<(), String> {
        let pairs = [
            (
                "cells_transmitted",
                self.output.cells,
                stats.cells_transmitted,
            ),
            ("interrupts", self.interrupts, stats.interrupts),
        ];
        match pairs.iter().find(|(_, expected, got)| expected != got) {
            Some((name, expected, got)) => Err(format!("{name}: expected {expected}, got {got}")),
            // A doorbell may be answered when its VC has another name or client, or be taken away
            // with its client.
            None if self.clients.unanswered() == 0
                && self.names_are_stable()
                && stats.doorbell_faults != self.rung_wrongly =>
            {
                let (expected, got) = (self.rung_wrongly, stats.doorbell_faults);
                Err(format!("doorbell_faults: expected {expected}, got {got}"))
            }
            None => Ok(()),
        }
    }

    fn names_are_stable(&self) -> bool {
        self.orders.values().all(|ordered| {
            !matches!(
                ordered.order,
                Order::Detach(_)
                    | Order::Close(_)
                    | Order::Reattach(..)
                    | Order::Modify(_, _, Some(_))
            )
        })
    }

    fn carried_out(&mut self, ticket: u64, order: &Order, vc: Option<VcId>, outcome: &Outcome) {
        match (order, outcome) {
            (Order::Attach(..), Outcome::Attached(index)) => self.clients.attached(ticket, *index),
            (Order::Detach(index), _) => self.clients.detached(*index),
            (Order::Open(request, _), Outcome::Vc(id)) => {
                self.names.insert(ticket, *id);
                self.uses(*id, ticket);
                let lawless = self.reference.is_lawless(*id);
                self.output.open(*id, *request, lawless);
            }
            (Order::Modify(_, request, sizes), Outcome::Vc(id)) => {
                let Some(old) = vc else { return };
                for name in self.names.values_mut().filter(|name| **name == old) {
                    *name = *id;
                }
                if let Some(memory) = self.uses_none(old) {
                    self.uses(*id, if sizes.is_some() { ticket } else { memory });
                }
                self.output.modify(old, *id, *request);
                if self.reference.is_lawless(*id) {
                    self.lawless.insert(ticket);
                }
            }
            (Order::Reattach(..), _) => self.unrung.extend(vc),
            (Order::Close(_), _) => {
                if let Some(vc) = vc {
                    self.uses_none(vc);
                    self.output.close(vc);
                }
            }
            _ => {}
        }
    }

    fn uses(&mut self, vc: VcId, memory: u64) {
        self.memories.insert(vc, memory);
        self.users.insert(memory, vc);
    }

    fn uses_none(&mut self, vc: VcId) -> Option<u64> {
        let memory = self.memories.remove(&vc)?;
        self.users.remove(&memory);
        Some(memory)
    }

    /// Plans end with a quiet time: nothing may be left over.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        if let Some((ticket, _)) = self.orders.iter().find(|(_, ordered)| !ordered.completed) {
            return Err(format!("command {ticket} never ended"));
        }
        if let Some((vc, sdus)) = self.output.waiting() {
            return Err(format!("{vc:?}: {sdus} SDUs were handed over and not sent"));
        }
        match self.clients.unanswered() {
            0 => Ok(()),
            doorbells => Err(format!("{doorbells} doorbells not answered")),
        }
    }
}

/// What was seen in one step.
#[derive(Default)]
struct Seen {
    now_ns: u64,
    /// Whether each was for a guaranteed connection.
    interrupts: BTreeMap<u16, Vec<bool>>,
    /// Cells were asked for of a port that is not real-time.
    others: bool,
    commands: u32,
}

fn same_reply(port: PortIndex, expected: &[u8], found: &[u8]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!(
        "port {}: a reply must leave first\n  expected {expected:02x?}\n  got      {found:02x?}",
        port.0
    ))
}

fn none_or(difference: Option<String>) -> Result<(), String> {
    difference.map_or(Ok(()), Err)
}
