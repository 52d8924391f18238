use cellgate_core::adapter::Work;
use cellgate_report::{
    Check, Claim, Entry, Figure, Outcome, Rational, Table, Tolerance, Value, dec,
};

use super::{
    C_CELL, C_PDU, Error, Experiment, LINE_BIT_S, Parameter, Progress, Ps, Settings, address,
    board, cells,
};
use crate::machine::{
    HostCosts, Pacing, Quiet, ReceiveSpec, SendSpec, Stream, Workstation, pdu_cells,
};
use crate::world::Interval;

/// What tasks cost the i960.
pub(in crate::experiments) struct Table1;

const SDU: u16 = 1_024;
const SPAN: Ps = Ps::from_ns(50_000_000);
const PARAMETERS: &[Parameter] = &[C_CELL, C_PDU];

/// A task of the table: its words, its cycles, and the work that the adapter calls so.
struct Task {
    what: &'static str,
    paper: &'static str,
    work: Work,
}

const TASKS: [Task; 5] = [
    Task {
        what: "test if cells are in any of the receive FIFOs",
        paper: "5",
        work: Work::TestReceiveFifos,
    },
    Task {
        what: "parse empty TX FIFO queues",
        paper: "28",
        work: Work::ParseEmptyTransmitQueues,
    },
    Task {
        what: "enqueue a TPD to a FIFO's empty queue",
        paper: "21",
        work: Work::EnqueueToEmpty,
    },
    Task {
        what: "enqueue a TPD to a FIFO's queue",
        paper: "38",
        work: Work::Enqueue,
    },
    Task {
        what: "dequeue a TPD from a FIFO's queue",
        paper: "34",
        work: Work::Dequeue,
    },
];

/// Cycles that a workstation's work took, task by task, and in all.
struct Spent {
    tasks: [Rational; TASKS.len()],
    all: Rational,
}

impl Spent {
    fn by(workstation: &mut Workstation) -> Self {
        Self {
            tasks: TASKS.map(|task| workstation.board().cycles(task.work).number()),
            all: workstation.cycles().number(),
        }
    }

    /// Since `before`, for each of so many.
    fn each(&self, before: &Self, count: u64) -> Self {
        let each = |after: Rational, before| (after - before) / Rational::from(count.max(1));
        let mut tasks = self.tasks;
        for (task, before) in tasks.iter_mut().zip(before.tasks) {
            *task = each(*task, before);
        }
        Self {
            tasks,
            all: each(self.all, before.all),
        }
    }
}

/// A turn of the firmware that finds nothing to do.
fn idle_turn(settings: &Settings) -> Result<Spent, Error> {
    let mut workstation = Workstation::new(board(settings), HostCosts::NONE)?;
    let turns = 100;
    let before = Spent::by(&mut workstation);
    for _ in 0..turns {
        workstation.run(workstation.now().plus(Ps::new(1)), &mut Quiet);
    }
    Ok(Spent::by(&mut workstation).each(&before, turns))
}

/// A PDU of a connection that sends without end.
struct Sent {
    spent: Spent,
    /// Cycles beside those of its cells.
    beside_cells: Rational,
}

impl Sent {
    fn measured(settings: &Settings) -> Result<Self, Error> {
        let config = board(settings);
        let mut workstation = Workstation::new(config, HostCosts::NONE)?;
        workstation.send(&SendSpec {
            address: address(32)?,
            fifo: 0,
            sdu: SDU,
            pacing: Pacing::ByFifo,
        })?;
        let pdus = |workstation: &Workstation| {
            let cells = Rational::from(workstation.stats().cells_transmitted) / cells(SDU);
            u64::try_from(cells.floor()).unwrap_or(0)
        };
        workstation.run(workstation.now().plus(SPAN), &mut Quiet);
        let before = Spent::by(&mut workstation);
        let (sent, began) = (pdus(&workstation), workstation.stats().cells_transmitted);
        workstation.run(workstation.now().plus(SPAN), &mut Quiet);
        let sent = pdus(&workstation) - sent;
        let spent = Spent::by(&mut workstation).each(&before, sent);
        let in_cells = Rational::from(workstation.stats().cells_transmitted - began);
        let in_cells = config.costs.cell.number() * in_cells / Rational::from(sent.max(1));
        Ok(Self {
            beside_cells: spent.all - in_cells,
            spent,
        })
    }
}

/// Cycles of the tasks of a PDU that is received.
fn received(settings: &Settings) -> Result<Rational, Error> {
    let mut workstation = Workstation::new(board(settings), HostCosts::NONE)?;
    workstation.receive(&ReceiveSpec {
        address: address(32)?,
        sdu: SDU,
        buffer_pdus: 8,
        drain: Ps::ZERO,
    })?;
    let cells = pdu_cells(address(32)?, SDU)?;
    let mut stream = Stream::new(cells, Interval::of_line(LINE_BIT_S / 4), workstation.now());
    workstation.run(workstation.now().plus(SPAN), &mut stream);
    let cycles = workstation.board().cycles(Work::ReceivePdu).number();
    Ok(cycles / Rational::from(workstation.host().received(0).max(1)))
}

impl Experiment for Table1 {
    fn name(&self) -> &'static str {
        "policing-table-1"
    }

    fn source(&self) -> &'static str {
        "Policing Offloaded, Table 1: execution times"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, _: &mut dyn Progress) -> Result<Outcome, Error> {
        let sent = Sent::measured(settings)?;
        let tasks = task_checks(&idle_turn(settings)?, &sent, received(settings)?);
        let pdu = pdu_checks(settings, &sent);
        Ok(Outcome {
            tables: vec![table(&sent)],
            figures: vec![
                Figure::of_numbers("tasks", "Cycles of the i960 at 25 MHz", &tasks),
                Figure::of_claims("pdu", "All of a PDU of 1,024 octets", &pdu),
            ],
            checks: [tasks, pdu].concat(),
            notes: vec![
                "What a task costs is the paper's: the table of the model, nothing that could be \
                 compared. What is compared is what a run of the adapter takes of it, which names \
                 its tasks by itself. The 21 and 38 cycles of an enqueue cannot be told apart in \
                 a run: which of them it is depends on how far ahead the host is."
                    .to_owned(),
                "The adapter looks at four FIFOs one by one where the paper's firmware looks at \
                 all at once: each look costs a quarter. A PDU costs c_pdu in all; what Table 1 \
                 does not name of it is charged where its event is written."
                    .to_owned(),
            ],
        })
    }
}

fn table(sent: &Sent) -> Table {
    let mut table = Table::new(
        "tasks",
        "Cycles of the i960 at 25 MHz, and a connection that sends 1,024 octets without end",
        &[
            ("task", "task"),
            ("paper_cycles", "paper"),
            ("per_pdu", "times per PDU"),
            ("per_pdu_cycles", "cycles per PDU"),
        ],
    );
    for (task, cycles) in TASKS.iter().zip(sent.spent.tasks) {
        table.row([
            Entry::text(task.what),
            Entry::number(dec(task.paper), 0),
            Entry::number(cycles / dec(task.paper), 2),
            Entry::number(cycles, 1),
        ]);
    }
    table
}

fn value(cycles: Rational) -> Value {
    Value::new(cycles, 1, "cycles")
}

/// What a run takes of the tasks of the table.
fn task_checks(idle: &Spent, sent: &Sent, received: Rational) -> Vec<Check> {
    let judged = |what: &str, printed: &str, sum: &'static str, ours| {
        let claim = Claim::derived("P0.6", what, printed).prints(dec(sum));
        claim.number(dec(sum), Tolerance::Exact, &value(ours))
    };
    let [test, parse, _, _, _] = idle.tasks;
    let [.., dequeue] = sent.spent.tasks;
    vec![
        judged("test of the receive FIFOs, idle turn", "5", "5", test),
        judged("parsing of empty queues, idle turn", "28", "28", parse),
        judged("all of an idle turn", "5 + 28", "33", idle.all),
        judged("dequeueing, PDU sent", "34", "34", dequeue),
        judged("tasks of a PDU received", "5 + 38 + 34", "77", received),
    ]
}

/// All that a PDU takes.
fn pdu_checks(settings: &Settings, sent: &Sent) -> Vec<Check> {
    vec![
        Claim::calibrated("P0.11", "all of a PDU sent beside its cells, run", "").number(
            settings.number("c_pdu"),
            Tolerance::Percent(dec("0.5")),
            &value(sent.beside_cells),
        ),
        Claim::derived("P0.11", "PDUs of 1,024 octets: cells each", "").number(
            dec("22"),
            Tolerance::Exact,
            &Value::new(cells(SDU), 0, "cells"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_that_looks_twice_fails_the_checks() {
        let twice = |cycles: [&'static str; TASKS.len()], all| Spent {
            tasks: cycles.map(dec),
            all: dec(all),
        };
        let sent = Sent {
            spent: twice(["10", "29", "2", "34", "68"], "700"),
            beside_cells: dec("630"),
        };
        let idle = twice(["10", "56", "0", "0", "0"], "66");
        let checks = task_checks(&idle, &sent, dec("154"));
        let passed: Vec<_> = checks.iter().filter(|check| check.pass).collect();
        assert!(passed.is_empty(), "{passed:#?}");
    }
}
