mod ceiling;
mod shared;

use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::{
    C_CELL, C_PDU, Error, Experiment, HostCosts, Parameter, Progress, Ps, Settings, address, board,
    cells, line_cell_s, per_s, rate,
};
use crate::machine::{BoardConfig, Costs, Cycles, FIFOS, Pacing, Quiet, SendSpec, Workstation};
use ceiling::Ceiling;
use shared::{Shared, Sharing};

/// Four connections out at once.
pub(in crate::experiments) struct Figure6;

/// Octets of every SDU: the paper does not say.
const SDU: u16 = 8_192;
/// C2 and C3.
const FIXED_CELL_S: [u64; 2] = [24_000, 48_000];
/// C1, step by step: the paper's steps are lost.
const STEPS_CELL_S: [u64; 7] = [25_000, 50_000, 100_000, 150_000, 200_000, 250_000, 100_000];
/// Points of a curve in a step.
const BINS: u64 = 10;
/// Bins of a step until the FIFO of C1 is empty and has its new rate.
const SETTLES: usize = 3;

const PARAMETERS: &[Parameter] = &[
    C_CELL,
    C_PDU,
    Parameter::number(
        "c_schedule",
        "cycles of the i960 for choosing whose cells are next (of Table 1's tasks)",
        dec("100"),
        (dec("0"), dec("100000")),
    ),
    Parameter::whole(
        "milliseconds",
        "virtual time per step of C1, ms",
        100,
        (50, 10_000),
    ),
];

/// Steps, and what follows them.
const TURNS: u64 = STEPS_CELL_S.len() as u64 + 1;

/// A step of C1.
struct Step {
    cell_s: u64,
    /// Cells per second of each FIFO, once it has settled.
    settled: [Rational; FIFOS],
}

impl Experiment for Figure6 {
    fn name(&self) -> &'static str {
        "policing-figure-6"
    }

    fn source(&self) -> &'static str {
        "Policing Offloaded, Figure 6: concurrency of outbound connections"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let board = board(settings);
        let config = BoardConfig {
            costs: Costs {
                schedule: Cycles::of(settings.number("c_schedule")),
                ..board.costs
            },
            ..board
        };
        let span = Ps::from_ns(settings.whole("milliseconds") * 1_000_000);
        let (steps, curves) = exclusive(config, span, progress)?;
        let by_cell = Shared::measured(config, span, Sharing::ByCell)?;
        let by_pdu = Shared::measured(config, span, Sharing::ByPdu)?;
        let ceiling = Ceiling::measured(config, span)?;
        progress.step(TURNS, TURNS);
        let mut checks = checks(&steps);
        checks.extend(by_cell.checks());
        checks.extend(by_pdu.checks());
        checks.extend(ceiling.checks());
        Ok(Outcome {
            tables: vec![
                table(&steps),
                by_cell.table(),
                by_pdu.table(),
                ceiling.table(),
            ],
            figures: vec![figure(curves), ceiling.figure()],
            checks,
            notes: vec![
                "The steps of C1 are ours: the paper's are only in its figure. A FIFO's rate \
                 changes when it is empty: until then C1 is not fed, and C4 has its slots."
                    .to_owned(),
                "The paper gives no cost of deciding which of several connections sends the next \
                 cell. c_schedule is what its firmware does once a PDU: it parses the queues (28 \
                 cycles), takes one out (34) and puts it back (38). By PDU it is decided once for \
                 each part of one that a FIFO takes at once."
                    .to_owned(),
            ],
        })
    }
}

type Curves = [Vec<(f64, f64)>; FIFOS + 1];

/// C1, C2 and C3 have a FIFO each, C4 the last one.
fn exclusive(
    config: BoardConfig,
    span: Ps,
    progress: &mut dyn Progress,
) -> Result<(Vec<Step>, Curves), Error> {
    let mut workstation = Workstation::new(config, HostCosts::NONE)?;
    for fifo in 0..FIFOS {
        workstation.send(&SendSpec {
            address: address(32 + fifo as u16)?,
            fifo,
            sdu: SDU,
            pacing: Pacing::ByFifo,
        })?;
    }
    for (i, cell_s) in FIXED_CELL_S.into_iter().enumerate() {
        let rate = rate(cell_s)?;
        workstation.board().transmitter().set_rate(i + 1, rate);
    }
    let bin = Ps::new(span.ps() / BINS);
    let (mut steps, mut curves) = (Vec::new(), Curves::default());
    for (i, cell_s) in STEPS_CELL_S.into_iter().enumerate() {
        let rate = rate(cell_s)?;
        workstation.board().transmitter().set_rate(0, rate);
        let mut settled = None;
        for n in 0..BINS as usize {
            if n == SETTLES {
                settled = Some((workstation.now(), workstation.board().counts().departed));
            }
            let (begin, before) = (workstation.now(), workstation.board().counts().departed);
            workstation.run(begin.plus(bin), &mut Quiet);
            let rates = rates(&mut workstation, begin, before);
            let at = begin.ps() as f64 / 1e12;
            let sum = rates
                .into_iter()
                .fold(Rational::ZERO, |sum, rate| sum + rate);
            for (curve, rate) in curves.iter_mut().zip(rates.into_iter().chain([sum])) {
                curve.push((at, rate.to_f64() / 1e3));
            }
        }
        let (begin, before) = settled.unwrap_or_default();
        let settled = rates(&mut workstation, begin, before);
        steps.push(Step { cell_s, settled });
        progress.step(i as u64 + 1, TURNS);
    }
    Ok((steps, curves))
}

/// Cells per second of each FIFO from `begin` on.
fn rates(workstation: &mut Workstation, begin: Ps, before: [u64; FIFOS]) -> [Rational; FIFOS] {
    let span = workstation.now().since(begin);
    let departed = workstation.board().counts().departed;
    std::array::from_fn(|fifo| per_s(departed[fifo] - before[fifo], span))
}

impl Step {
    fn sum(&self) -> Rational {
        self.settled
            .into_iter()
            .fold(Rational::ZERO, |sum, rate| sum + rate)
    }

    /// What is left for C4.
    fn rest(&self) -> Rational {
        let fixed = FIXED_CELL_S.iter().sum::<u64>();
        line_cell_s() - Rational::from(fixed + self.cell_s)
    }
}

fn table(steps: &[Step]) -> Table {
    let mut table = Table::new(
        "steps",
        "Cells per second, once C1's FIFO has its rate",
        &[
            ("c1_set_cell_s", "C1 set to"),
            ("c1_cell_s", "C1"),
            ("c2_cell_s", "C2"),
            ("c3_cell_s", "C3"),
            ("c4_cell_s", "C4"),
            ("sum_cell_s", "sum"),
        ],
    );
    for step in steps {
        let [c1, c2, c3, c4] = step.settled.map(|rate| Entry::number(rate, 0));
        let sum = Entry::number(step.sum(), 0);
        table.row([Entry::number(step.cell_s, 0), c1, c2, c3, c4, sum]);
    }
    table
}

fn figure(curves: Curves) -> Figure {
    let names = ["C1", "C2: 24,000", "C3: 48,000", "C4: best effort", "sum"];
    let end = curves[0].last().map_or(1.0, |point| point.0);
    let mut series = vec![Series::new(
        "the line: 353,207",
        Look::Expected,
        vec![
            (0.0, line_cell_s().to_f64() / 1e3),
            (end, line_cell_s().to_f64() / 1e3),
        ],
    )];
    let ours = names.into_iter().zip(curves);
    series.extend(ours.map(|(name, points)| Series::new(name, Look::Line, points)));
    let panel = Panel {
        x: Axis::linear("seconds"),
        y: Axis::linear("1,000 cells/s"),
        series,
        marks: Vec::new(),
    };
    Figure::single("rates", "Four connections out at once", panel)
}

/// The value of `of` that is furthest from its expectation.
fn worst(steps: &[Step], of: impl Fn(&Step) -> (Rational, Rational)) -> (Rational, Rational) {
    let pairs = steps.iter().map(of);
    let off = |(expected, ours): &(Rational, Rational)| (*ours - *expected).abs() / *expected;
    pairs
        .max_by_key(off)
        .unwrap_or((Rational::ONE, Rational::ZERO))
}

fn checks(steps: &[Step]) -> Vec<Check> {
    let value = |rate: Rational| Value::new(rate, 0, "cells/s");
    let near = |percent: &'static str| Tolerance::Percent(dec(percent));
    let judged = |what: &str, paper: &str, tolerance, (expected, ours)| {
        Claim::derived("P0.12", what, paper).number(expected, tolerance, &value(ours))
    };
    let fixed = |i: usize| {
        let expected = Rational::from(FIXED_CELL_S[i - 1]);
        worst(steps, move |step| (expected, step.settled[i]))
    };
    let c1 = worst(steps, |step| (step.cell_s.into(), step.settled[0]));
    let sum = worst(steps, |step| (line_cell_s(), step.sum()));
    let rest = worst(steps, |step| (step.rest(), step.settled[3]));
    vec![
        judged("C1, worst step", "changed", near("0.1"), c1),
        judged("C2, worst step", "24,000, stable", near("0.1"), fixed(1)),
        judged("C3, worst step", "48,000, stable", near("0.1"), fixed(2)),
        judged("C4, worst step: the rest", "adapted", near("0.5"), rest),
        judged("sum, worst step", "", near("0.1"), sum),
    ]
}
