//! Is a rest what it says? Between the steps of a plan the firmware is asked whether it rests, and
//! tried: whoever rests has nothing to do right before the time it names, and whoever does not has.

use cellgate_core::Time;
use cellgate_core::adapter::{AdapterStats, EventKind, Planted, PortIndex, Rest, Transmit};

use super::{Failure, Firmware, Report, Run, finished};
use crate::board::Trace;
use crate::plan::{Action, Order, Plan, Planned, VcName};

/// Clients without a VC that attach before all others.
const IDLERS: u16 = 20;
/// Their tickets, which no other command has.
const IDLERS_FROM: u64 = 1 << 40;
/// Tickets of changes that end a plan.
const CHANGES_FROM: u64 = 1 << 41;
/// Cells that a line takes which took none before.
const ROOM: usize = 8;
/// Steps in a row without an effect of firmware that says it has something to do: one looks at 16
/// clients, and at 33 transmit queues of a port.
const IN_VAIN: u32 = 8;
/// Slots of its line by which what is shaped may be late, and the part of its CDVT.
const LINE_SLOTS: u64 = 128;
const PART_OF_CDVT: u64 = 4;

/// What was tried, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rested {
    /// Steps right before the end of a rest.
    pub rests: u64,
    /// Of these, those before a time that allows no lateness.
    pub exact: u64,
    /// Those in which something was sent that may be late.
    pub shaped: u64,
    /// Those while a line was held.
    pub held: u64,
    /// Steps of one that had something to do.
    pub busy: u64,
}

impl Rested {
    /// Adds those of another plan.
    pub fn add(&mut self, other: Self) {
        self.rests += other.rests;
        self.exact += other.exact;
        self.shaped += other.shaped;
        self.held += other.held;
        self.busy += other.busy;
    }
}

/// As [`super::run`], with steps between those of the plan that try what the firmware says of its
/// rest. The caller made it for the configuration of this same plan.
pub fn run_resting(
    plan: &Plan,
    planted: Option<Planted>,
    firmware: &mut dyn Firmware,
) -> Result<(Report, Rested), Box<Failure>> {
    let mut run = Run::new(plan, planted);
    let mut rested = Rested::default();
    let mut actions = plan.actions.iter().peekable();
    for (n, step) in plan.steps.iter().enumerate() {
        run.act_until(&mut actions, n, step)?;
        run.step(n, step, firmware)?;
        let next_ns = plan.steps.get(n + 1).map_or(0, |next| next.poll_ns);
        let mut trial = Trial {
            run: &mut run,
            firmware: &mut *firmware,
            rested: &mut rested,
            next_ns,
        };
        let tried = trial.rest_from(Time::from_ns(step.now_ns));
        tried.map_err(|text| run.failure(n, step, text))?;
    }
    Ok((finished(run)?, rested))
}

/// A plan with more clients than a step looks at, all of which come before its own.
pub(crate) fn crowded(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.config.attachments += IDLERS;
    for planned in &mut plan.actions {
        if let Action::Order(_, order) = &mut planned.action {
            match order {
                Order::Open(request, _) | Order::Modify(_, request, _) => {
                    request.attachment.0 = request.attachment.0.saturating_add(IDLERS);
                }
                Order::Detach(index) | Order::Reattach(_, index) => {
                    index.0 = index.0.saturating_add(IDLERS);
                }
                _ => {}
            }
        }
    }
    let idlers = (0..u64::from(IDLERS)).map(|n| Planned {
        at_ns: 0,
        action: Action::Order(IDLERS_FROM + n, Order::Attach(4, 64)),
    });
    plan.actions.splice(0..0, idlers);
    plan
}

/// A plan whose cells end when two thirds have come, and whose first VCs are to get other memory
/// then: where a PDU is not complete, that waits for as long as it may.
pub(crate) fn cut_short(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    let Some(last_ns) = plan.cells.get(2 * plan.cells.len() / 3) else {
        return plan;
    };
    let last_ns = last_ns.at_ns;
    plan.cells.retain(|cell| cell.at_ns <= last_ns);
    let opened = plan
        .actions
        .iter()
        .filter_map(|planned| match &planned.action {
            Action::Order(ticket, Order::Open(request, sizes)) => Some((*ticket, *request, *sizes)),
            _ => None,
        });
    let changes = opened.map(|(ticket, request, sizes)| Planned {
        at_ns: last_ns,
        action: Action::Order(
            CHANGES_FROM + ticket,
            Order::Modify(VcName::Of(ticket), request, Some(sizes)),
        ),
    });
    let changes: Vec<_> = changes.collect();
    let at = plan
        .actions
        .partition_point(|planned| planned.at_ns <= last_ns);
    plan.actions.splice(at..at, changes);
    plan
}

/// What a step did.
#[derive(Clone, Debug, Default)]
struct Did {
    /// What it should not have had to do.
    wrong: Option<String>,
    /// Ports on which it sent.
    sent: Vec<PortIndex>,
    cells: u64,
    anything: bool,
}

/// The time between two steps of the plan.
struct Trial<'a, 'b> {
    run: &'a mut Run<'b>,
    firmware: &'a mut dyn Firmware,
    rested: &'a mut Rested,
    next_ns: u64,
}

impl Trial<'_, '_> {
    /// Tries what the firmware says from `now` on, up to the next step of the plan.
    fn rest_from(&mut self, mut now: Time) -> Result<(), String> {
        let mut in_vain = 0;
        loop {
            self.run.board.look(now);
            let again = self.run.board.any_is_held().then(|| self.room_at(now));
            self.run.board.set_deadline(again);
            let Some(rest) = self.firmware.rest(now, &self.run.board) else {
                return Ok(());
            };
            let until = rest.until();
            let at = match rest {
                Rest::Busy => now.plus_ns(1),
                Rest::Until { exact, .. } => {
                    let next = self.run.board.next_arrival().into_iter().chain(until);
                    let next = next.fold(Time::from_ns(self.next_ns), Time::min);
                    self.rested.exact += u64::from(exact.is_some_and(|exact| exact == next));
                    next.minus_ns(1)
                }
            };
            if at <= now || at.ns() >= self.next_ns {
                return Ok(());
            }
            if again.is_some_and(|again| again <= at) {
                self.run.board.hold_no_more(ROOM);
            }
            let did = self.step(at)?;
            if rest == Rest::Busy {
                self.rested.busy += 1;
                in_vain = if did.anything { 0 } else { in_vain + 1 };
                if in_vain > IN_VAIN {
                    return Err(format!("busy, and {in_vain} steps did nothing"));
                }
                now = at;
                continue;
            }
            self.rested.rests += 1;
            self.rested.held += u64::from(again.is_some());
            self.rested.shaped += u64::from(!did.sent.is_empty());
            if let Some(wrong) = did.wrong {
                return Err(format!(
                    "rested at {now:?} until {until:?}, missed: {wrong}"
                ));
            }
            for port in did.sent {
                let (late_ns, most_ns) = (at.since_ns(now), self.patience_ns(port));
                if late_ns > most_ns {
                    return Err(format!(
                        "rested {late_ns} ns with cells for port {}, {most_ns} at most",
                        port.0
                    ));
                }
            }
            return Ok(());
        }
    }

    /// When a line that is held has room again: in the middle of the time up to the next step.
    fn room_at(&self, now: Time) -> Time {
        let left_ns = self.next_ns.saturating_sub(now.ns());
        now.plus_ns(1 + left_ns / 2)
    }

    fn step(&mut self, at: Time) -> Result<Did, String> {
        let board = &mut self.run.board;
        let spaces = board.spaces();
        let judge = &self.run.judge;
        let (before, data) = (judge.clients.unanswered(), judge.report.transmitted);
        let counted = self.firmware.counted();
        self.run.judge.begin(at);
        self.firmware.step(at, board);
        let mut trace = std::mem::take(&mut board.trace);
        let mut did = seen(&trace);
        let judge = &mut self.run.judge;
        judge.end(at, &mut trace, board, |port| spaces[port])?;
        if counted.map(but_sent) != self.firmware.counted().map(but_sent) {
            did.wrong.get_or_insert("what it counts".into());
            did.anything = true;
        }
        if judge.report.transmitted - data < did.cells {
            did.wrong.get_or_insert("an OAM cell".into());
        }
        if judge.clients.unanswered() != before {
            did.wrong.get_or_insert("a doorbell".into());
            did.anything = true;
        }
        Ok(did)
    }

    /// How late what leaves on a port may be.
    fn patience_ns(&self, port: PortIndex) -> u64 {
        let judge = &self.run.judge;
        let rate = judge.config.ports[usize::from(port.0)].line_rate;
        let of_line = (LINE_SLOTS * 1_000_000_000).div_ceil(rate.cell_s().into());
        let open = judge.memories.keys();
        let open = open.filter_map(|vc| judge.reference.request(*vc));
        let here = open.filter(|request| request.port == port);
        let shaped = |transmit: &Transmit| transmit.rate.is_some() || transmit.peak.is_some();
        let sends = here.filter_map(|request| request.transmit).filter(shaped);
        let of_vcs = sends.map(|transmit| transmit.cdvt_ns / PART_OF_CDVT);
        of_vcs.fold(of_line, u64::min)
    }
}

/// Counters but those of what is sent and told.
fn but_sent(stats: AdapterStats) -> AdapterStats {
    AdapterStats {
        cells_transmitted: 0,
        events: 0,
        events_lost: 0,
        interrupts: 0,
        ..stats
    }
}

/// What a step did, by the trace.
fn seen(trace: &[Trace]) -> Did {
    let mut did = Did::default();
    let mut tells = false;
    for one in trace {
        let wrong = match one {
            Trace::Received { cells, .. } if cells.is_empty() => continue,
            Trace::Command(None) => continue,
            Trace::Transmitted {
                port,
                format,
                cells,
            } => {
                did.sent.push(*port);
                did.cells += format.cells_in(cells.len()) as u64;
                None
            }
            Trace::Posted(_, event) if event.kind == EventKind::TransmitCompleted => {
                tells = true;
                None
            }
            Trace::Interrupted(..) if tells => None,
            // Its VC is between PDUs by what was sent, which may be late.
            Trace::Completed(completion) if completion.region.is_some() && !did.sent.is_empty() => {
                None
            }
            Trace::Completed(completion) => Some(format!("command {}", completion.ticket)),
            other => Some(format!("{other:?}")),
        };
        did.anything = true;
        did.wrong = did.wrong.or(wrong);
    }
    did
}
