use std::collections::BTreeMap;

use cellgate_core::wire::{CELL_LEN, Header, HeaderForm, PAYLOAD_LEN};
use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::{
    C_CELL, C_PDU, Error, Experiment, HostCosts, Parameter, Progress, Ps, Settings, address, board,
    cells, line_cell_s, per_s, rate,
};
use crate::machine::{BoardConfig, FIFOS, Quiet, SendSpec, Workstation};

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

/// More connections than FIFOs: the two of the highest rates have one each, the firmware's cell
/// scheduler shares the third among the others (section 5.4).
const SCHEDULED_CELL_S: [(usize, u64); 6] = [
    (0, 120_000),
    (1, 60_000),
    (SHARED, 24_000),
    (SHARED, 12_000),
    (SHARED, 6_000),
    (SHARED, 3_000),
];
/// The FIFO of several of them.
const SHARED: usize = 2;

const PARAMETERS: &[Parameter] = &[
    C_CELL,
    C_PDU,
    Parameter::whole(
        "milliseconds",
        "virtual time per step of C1, ms",
        100,
        (50, 10_000),
    ),
];

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
        let config = board(settings);
        let span = Ps::from_ns(settings.whole("milliseconds") * 1_000_000);
        let (steps, curves) = exclusive(config, span, progress)?;
        let scheduled = Scheduled::measured(config, span)?;
        let mut checks = checks(&steps);
        checks.extend(scheduled.checks());
        Ok(Outcome {
            tables: vec![table(&steps), scheduled.table()],
            figures: vec![figure(curves)],
            checks,
            notes: vec![
                "The steps of C1 are ours: the paper's are only in its figure. A FIFO's rate \
                 changes when it is empty: until then C1 is not fed, and C4 has its slots."
                    .to_owned(),
                "The cost of deciding which of several connections sends the next cell is not in \
                 the paper, and not charged."
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
            scheduled: None,
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
        progress.step(i as u64 + 1, STEPS_CELL_S.len() as u64 + 1);
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

/// Six connections on three FIFOs, and best effort on the last.
struct Scheduled {
    /// Cells per second by VCI.
    rates: BTreeMap<u16, Rational>,
    /// A cell in the time that was measured, per second.
    one_cell_s: Rational,
    /// PDUs of which a cell was out of its place.
    disordered: u64,
}

/// VCI of the first of them.
const FIRST_VCI: u16 = 40;

impl Scheduled {
    fn measured(config: BoardConfig, span: Ps) -> Result<Self, Error> {
        let mut workstation = Workstation::new(config, HostCosts::NONE)?;
        for (i, (fifo, cell_s)) in SCHEDULED_CELL_S.into_iter().enumerate() {
            let rate = rate(cell_s)?;
            let shared = fifo == SHARED;
            if !shared {
                workstation.board().transmitter().set_rate(fifo, rate);
            }
            workstation.send(&SendSpec {
                address: address(FIRST_VCI + i as u16)?,
                fifo,
                sdu: SDU,
                scheduled: shared.then_some(rate),
            })?;
        }
        let best_effort = FIRST_VCI + SCHEDULED_CELL_S.len() as u16;
        workstation.send(&SendSpec {
            address: address(best_effort)?,
            fifo: 3,
            sdu: SDU,
            scheduled: None,
        })?;
        workstation.run(workstation.now().plus(Ps::from_ns(20_000_000)), &mut Quiet);
        workstation.board().keep_departed();
        let begin = workstation.now();
        let end = begin.plus(span).plus(span);
        let one_cell_s = per_s(1, end.since(begin));
        let mut taken = Taken::default();
        while workstation.now() < end {
            workstation.run(workstation.now().plus(Ps::from_ns(1_000_000)), &mut Quiet);
            for cell in workstation.board().take_departed() {
                taken.add(cell.octets);
            }
        }
        let span = workstation.now().since(begin);
        let rates = taken.cells.iter().map(|(vci, n)| (*vci, per_s(*n, span)));
        Ok(Self {
            rates: rates.collect(),
            one_cell_s,
            disordered: taken.disordered,
        })
    }

    fn of(&self, index: usize) -> Rational {
        let vci = FIRST_VCI + index as u16;
        self.rates.get(&vci).copied().unwrap_or(Rational::ZERO)
    }

    fn table(&self) -> Table {
        let mut table = Table::new(
            "scheduled",
            "Six real-time connections on three FIFOs (section 5.4)",
            &[
                ("connection", "connection"),
                ("fifo", "FIFO"),
                ("set_cell_s", "set to, cells/s"),
                ("cell_s", "ours, cells/s"),
            ],
        );
        for (i, (fifo, cell_s)) in SCHEDULED_CELL_S.into_iter().enumerate() {
            table.row([
                Entry::text(format!("R{}", i + 1)),
                Entry::number(fifo, 0),
                Entry::number(cell_s, 0),
                Entry::number(self.of(i), 0),
            ]);
        }
        let best_effort = Entry::number(self.of(SCHEDULED_CELL_S.len()), 0);
        let name = Entry::text("best effort");
        table.row([name, Entry::number(3, 0), Entry::Empty, best_effort]);
        table
    }

    fn checks(&self) -> Vec<Check> {
        let rated = SCHEDULED_CELL_S.into_iter().enumerate();
        let mut checks: Vec<_> = rated
            .map(|(i, (fifo, cell_s))| {
                let how = if fifo == SHARED { "scheduled" } else { "alone" };
                let what = format!("R{}, {how} on FIFO {fifo}", i + 1);
                let ours = Value::new(self.of(i), 0, "cells/s");
                let claim = Claim::derived("P0.10", &what, "section 5.4, not measured");
                // Exact: a cell more or less in any time is its phase.
                claim.number(cell_s.into(), Tolerance::Absolute(self.one_cell_s), &ours)
            })
            .collect();
        let ours = Value::new(self.disordered, 0, "PDUs");
        let claim = Claim::derived(
            "P0.10",
            "PDUs with cells out of order",
            "cells keep in order",
        );
        checks.push(claim.number(Rational::ZERO, Tolerance::Exact, &ours));
        checks
    }
}

/// Cells that left, by VCI.
#[derive(Default)]
struct Taken {
    cells: BTreeMap<u16, u64>,
    /// Of the PDU in progress, and whether each was in its place; none before the first PDU seen
    /// begins.
    of_pdu: BTreeMap<u16, (u16, bool)>,
    disordered: u64,
}

impl Taken {
    fn add(&mut self, octets: crate::world::Octets) {
        let [a, b, c, d, ..] = octets;
        let header = Header::parse([a, b, c, d]);
        let vci = header.address(HeaderForm::Uni).vci();
        *self.cells.entry(vci).or_default() += 1;
        if let Some((held, right)) = self.of_pdu.get_mut(&vci) {
            // The host numbers what each cell carries of its SDU.
            let sdu = usize::from(SDU) - usize::from(*held) * PAYLOAD_LEN;
            let payload = &octets[CELL_LEN - PAYLOAD_LEN..][..sdu.min(PAYLOAD_LEN)];
            let number = held.to_be_bytes();
            *right &= payload.chunks(2).all(|pair| pair == number);
            *held += 1;
            let ends = Rational::from(u32::from(*held)) == cells(SDU);
            if header.is_last() || ends {
                self.disordered += u64::from(!*right || header.is_last() != ends);
                self.of_pdu.remove(&vci);
            }
        }
        if header.is_last() {
            self.of_pdu.insert(vci, (0, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::pdu_cells;

    #[test]
    fn cells_that_change_places_are_seen() {
        let pdu = pdu_cells(address(FIRST_VCI).expect("an address"), SDU).expect("a PDU");
        let disordered = |of: &[crate::world::Octets]| {
            let mut taken = Taken::default();
            let all = pdu.iter().chain(of).chain(&pdu);
            all.for_each(|cell| taken.add(*cell));
            taken.disordered
        };
        assert_eq!(disordered(&pdu), 0);
        let mut swapped = pdu.clone();
        swapped.swap(3, 4);
        assert_eq!(disordered(&swapped), 1);
        assert_eq!(disordered(&pdu[1..]), 1);
    }
}
