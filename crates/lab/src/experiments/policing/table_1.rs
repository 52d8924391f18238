use cellgate_core::adapter::Work;

use super::{
    C_CELL, C_PDU, Error, Experiment, Parameter, Progress, Ps, Settings, address, board, cells,
};
use crate::machine::{Costs, Cycles, HostCosts, Quiet, SendSpec, Station};
use crate::report::{Check, Claim, Entry, Outcome, Rational, Table, Tolerance, Value, dec};

/// What tasks cost the i960.
pub(in crate::experiments) struct Table1;

const SDU: u16 = 1_024;
const SPAN: Ps = Ps::from_ns(50_000_000);
const PARAMETERS: &[Parameter] = &[C_CELL, C_PDU];

/// A task of the table: its words, its cycles, and the work that the adapter calls so.
struct Task {
    what: &'static str,
    paper: u64,
    ours: Cycles,
    work: Work,
}

fn tasks(costs: &Costs) -> [Task; 5] {
    let task = |what, paper, ours, work| Task {
        what,
        paper,
        ours,
        work,
    };
    [
        task(
            "test if cells are in any of the receive FIFOs",
            5,
            costs.test_receive_fifos,
            Work::TestReceiveFifos,
        ),
        task(
            "parse empty TX FIFO queues",
            28,
            costs.parse_empty,
            Work::ParseEmptyTransmitQueues,
        ),
        task(
            "enqueue a TPD to a FIFO's empty queue",
            21,
            costs.enqueue_to_empty,
            Work::EnqueueToEmpty,
        ),
        task(
            "enqueue a TPD to a FIFO's queue",
            38,
            costs.enqueue,
            Work::Enqueue,
        ),
        task(
            "dequeue a TPD from a FIFO's queue",
            34,
            costs.dequeue,
            Work::Dequeue,
        ),
    ]
}

/// What one greedy connection brings.
struct Greedy {
    /// Times that each task was done per PDU.
    per_pdu: Vec<Rational>,
    /// Cycles per PDU, beside those of its cells.
    cycles: Rational,
}

impl Greedy {
    fn measured(settings: &Settings) -> Result<Self, Error> {
        let config = board(settings);
        let mut station = Station::new(config, HostCosts::NONE)?;
        station.send(&SendSpec {
            address: address(32)?,
            fifo: 0,
            sdu: SDU,
            scheduled: None,
        })?;
        let works = tasks(&config.costs).map(|task| task.work);
        let counts = |station: &mut Station| works.map(|work| station.board().work(work));
        let events = |station: &mut Station| station.board().work(Work::Dequeue);
        station.run(station.now().plus(SPAN), &mut Quiet);
        let (before, began) = (counts(&mut station), station.cycles());
        let (pdus, sent) = (
            events(&mut station),
            station.board().work(Work::TransmitCells),
        );
        station.run(station.now().plus(SPAN), &mut Quiet);
        let pdus = Rational::from(events(&mut station) - pdus);
        let sent = station.board().work(Work::TransmitCells) - sent;
        let per_pdu = counts(&mut station).into_iter().zip(before);
        let per_pdu = per_pdu.map(|(after, before)| Rational::from(after - before) / pdus);
        let cycles = station.cycles().number() - began.number();
        let in_cells = config.costs.cell.number() * Rational::from(sent);
        Ok(Self {
            per_pdu: per_pdu.collect(),
            cycles: (cycles - in_cells) / pdus,
        })
    }
}

/// Cycles of a turn of the firmware that finds nothing to do.
fn idle_turn(settings: &Settings) -> Result<Rational, Error> {
    let mut station = Station::new(board(settings), HostCosts::NONE)?;
    let turns = 100;
    let tests = |station: &mut Station| station.board().work(Work::TestReceiveFifos) / 4;
    let (before, began) = (tests(&mut station), station.cycles());
    while tests(&mut station) < before + turns {
        station.run(station.now().plus(Ps::from_ns(1)), &mut Quiet);
    }
    Ok((station.cycles().number() - began.number()) / Rational::from(turns))
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
        let costs = board(settings).costs;
        let greedy = Greedy::measured(settings)?;
        let mut table = Table::new(
            "tasks",
            "Cycles of the i960 at 25 MHz",
            &[
                ("task", "task"),
                ("paper_cycles", "paper"),
                ("ours_cycles", "ours"),
                ("per_pdu", "times per PDU of 1,024 octets"),
            ],
        );
        let mut checks = Vec::new();
        for (task, per_pdu) in tasks(&costs).into_iter().zip(&greedy.per_pdu) {
            let ours = task.ours.number();
            table.row([
                Entry::text(task.what),
                Entry::number(task.paper, 0),
                Entry::number(ours, 0),
                Entry::number(*per_pdu, 2),
            ]);
            let claim = Claim::derived("P0.6", task.what, &task.paper.to_string());
            let ours = Value::new(ours, 0, "cycles");
            checks.push(claim.number(task.paper.into(), Tolerance::Exact, &ours));
        }
        checks.extend(run_checks(settings, &greedy)?);
        Ok(Outcome {
            tables: vec![table],
            checks,
            notes: vec![
                "The adapter looks at four FIFOs one by one where the paper's firmware looks at \
                 all at once: each look costs a quarter. A PDU costs c_pdu in all; what Table 1 \
                 does not name of it is charged where its event is written."
                    .to_owned(),
            ],
            ..Outcome::default()
        })
    }
}

/// What comes out when the adapter runs with these costs.
fn run_checks(settings: &Settings, greedy: &Greedy) -> Result<Vec<Check>, Error> {
    let value = |cycles: Rational| Value::new(cycles, 1, "cycles");
    let Costs {
        test_receive_fifos,
        enqueue,
        dequeue,
        enqueue_to_empty,
        ..
    } = board(settings).costs;
    let sum = |parts: &[Cycles]| {
        parts
            .iter()
            .fold(Rational::ZERO, |sum, part| sum + part.number())
    };
    let derived = |what: &str, paper: &str| Claim::derived("P0.6", what, paper);
    let c_pdu = settings.number("c_pdu");
    Ok(vec![
        derived("a turn with nothing to do, run", "5 + 28").number(
            dec("33"),
            Tolerance::Exact,
            &value(idle_turn(settings)?),
        ),
        derived("known tasks of a PDU to send", "5 + 38 + 34").number(
            dec("77"),
            Tolerance::Exact,
            &value(sum(&[test_receive_fifos, enqueue, dequeue])),
        ),
        derived("the same with an empty queue", "5 + 21 + 34").number(
            dec("60"),
            Tolerance::Exact,
            &value(sum(&[test_receive_fifos, enqueue_to_empty, dequeue])),
        ),
        Claim::calibrated("P0.11", "all of a PDU beside its cells, run", "").number(
            c_pdu,
            Tolerance::Percent(dec("5")),
            &value(greedy.cycles),
        ),
        derived("PDUs of 1,024 octets: cells each", "").number(
            dec("22"),
            Tolerance::Exact,
            &Value::new(cells(SDU), 0, "cells"),
        ),
    ])
}
