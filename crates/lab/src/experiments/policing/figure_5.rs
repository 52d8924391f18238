use cellgate_report::{
    At, Axis, Check, Claim, Entry, Figure, Look, Mark, Outcome, Panel, Rational, Series, Table,
    Tolerance, Value, dec,
};

use super::{
    BoardConfig, C_CELL, C_PDU, Costs, Error, Experiment, HostCosts, Parameter, Progress, Ps,
    Settings, address, board, cells, line_cell_s, millions, per_s, rate,
};
use crate::machine::{I960_CYCLE_S, Pacing, Quiet, SendSpec, Workstation};

/// The rate at which PDUs leave by their size.
pub(in crate::experiments) struct Figure5;

/// Cells/s of the connection with a reduced rate.
const REDUCED_CELL_S: u64 = 100_000;
/// What the i960 needs to fill its FIFO before anything is counted.
const WARM: Ps = Ps::from_ns(10_000_000);

const SIZES: [u16; 24] = [
    40, 64, 88, 136, 184, 256, 280, 328, 400, 512, 640, 664, 800, 904, 1_000, 1_024, 1_048, 1_500,
    2_048, 3_000, 4_096, 6_144, 8_192, 9_180,
];

const PARAMETERS: &[Parameter] = &[
    C_CELL,
    C_PDU,
    Parameter::whole(
        "milliseconds",
        "virtual time per point, ms",
        100,
        (10, 10_000),
    ),
];

/// Cells per second that left, at line speed and at the reduced rate.
struct Point {
    sdu: u16,
    line: Rational,
    reduced: Rational,
}

impl Point {
    fn sdu_bit_s(&self, cell_s: Rational) -> Rational {
        cell_s / cells(self.sdu) * Rational::whole(8) * Rational::from(u32::from(self.sdu))
    }

    /// What the costs allow.
    fn law(&self, costs: &Costs) -> Rational {
        let n = cells(self.sdu);
        let cycles = costs.cell.number() * n + costs.pdu.number();
        line_cell_s().min(Rational::from(I960_CYCLE_S) * n / cycles)
    }
}

/// Cells per second of one greedy connection in FIFO 0.
fn measured(
    config: BoardConfig,
    sdu: u16,
    cell_s: Option<u64>,
    span: Ps,
) -> Result<Rational, Error> {
    let mut workstation = Workstation::new(config, HostCosts::NONE)?;
    if let Some(cell_s) = cell_s {
        let rate = rate(cell_s)?;
        workstation.board().transmitter().set_rate(0, rate);
    }
    workstation.send(&SendSpec {
        address: address(32)?,
        fifo: 0,
        sdu,
        pacing: Pacing::ByFifo,
    })?;
    workstation.run(workstation.now().plus(WARM), &mut Quiet);
    let (begin, before) = (workstation.now(), workstation.board().counts().departed[0]);
    workstation.run(begin.plus(span), &mut Quiet);
    let departed = workstation.board().counts().departed[0] - before;
    Ok(per_s(departed, workstation.now().since(begin)))
}

impl Experiment for Figure5 {
    fn name(&self) -> &'static str {
        "policing-figure-5"
    }

    fn source(&self) -> &'static str {
        "Policing Offloaded, Figure 5: maximum transmit rate"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let config = board(settings);
        let span = Ps::from_ns(settings.whole("milliseconds") * 1_000_000);
        let mut points = Vec::new();
        for (i, sdu) in SIZES.into_iter().enumerate() {
            points.push(Point {
                sdu,
                line: measured(config, sdu, None, span)?,
                reduced: measured(config, sdu, Some(REDUCED_CELL_S), span)?,
            });
            progress.step(i as u64 + 1, SIZES.len() as u64);
        }
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points, &config.costs)],
            checks: checks(&points),
            notes: vec![format!(
                "Calibrated: a cell costs the i960 {} cycles (12 at the ESP, the rest on the PCI \
                 bus: {} a word), a PDU {} beside its cells. With 12 cycles a cell the paper's \
                 two statements about this figure exclude each other: policing-arithmetic, P0.11.",
                config.costs.cell.number().fixed(1),
                ((config.costs.cell.number() - dec("12")) / dec("12")).fixed(2),
                config.costs.pdu.number().fixed(0),
            )],
        })
    }
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "rates",
        "Cells per second and SDU rate by PDU size",
        &[
            ("sdu_octets", "octets"),
            ("cells", "cells"),
            ("line_cell_s", "line speed, cells/s"),
            ("line_sdu_bit_s", "line speed, bit/s of SDU"),
            ("reduced_cell_s", "reduced, cells/s"),
            ("reduced_sdu_bit_s", "reduced, bit/s of SDU"),
        ],
    );
    for point in points {
        table.row([
            Entry::number(u32::from(point.sdu), 0),
            Entry::number(cells(point.sdu), 0),
            Entry::number(point.line, 0),
            Entry::number(point.sdu_bit_s(point.line), 0),
            Entry::number(point.reduced, 0),
            Entry::number(point.sdu_bit_s(point.reduced), 0),
        ]);
    }
    table
}

fn figure(points: &[Point], costs: &Costs) -> Figure {
    let curve = |of: &dyn Fn(&Point) -> Rational| -> Vec<(f64, f64)> {
        let point = |p: &Point| (f64::from(p.sdu), of(p).to_f64() / 1e3);
        points.iter().map(point).collect()
    };
    let sdu = |of: &dyn Fn(&Point) -> Rational| -> Vec<(f64, f64)> {
        let point = |p: &Point| (f64::from(p.sdu), millions(p.sdu_bit_s(of(p))));
        points.iter().map(point).collect()
    };
    let axis = |label: &str| Axis::linear(label).to(4_200.0);
    let mark = || Mark {
        at: At::X(1_024.0),
        label: "1,024 octets".to_owned(),
    };
    Figure::stacked(
        "rates",
        "Maximum transmit rate",
        vec![
            Panel {
                x: axis(""),
                y: Axis::linear("1,000 cells/s"),
                series: vec![
                    Series::new(
                        "expected from the costs",
                        Look::Expected,
                        curve(&|p| p.law(costs)),
                    ),
                    Series::new("ours, line speed", Look::Dotted, curve(&|p| p.line)),
                    Series::new("ours, 100,000 cells/s", Look::Dashed, curve(&|p| p.reduced)),
                ],
                marks: vec![mark()],
            },
            Panel {
                x: axis("PDU size, octets of SDU"),
                y: Axis::linear("10^6 bit/s of SDU"),
                series: vec![
                    Series::new("", Look::Dotted, sdu(&|p| p.line)),
                    Series::new("", Look::Dashed, sdu(&|p| p.reduced)),
                ],
                marks: vec![mark()],
            },
        ],
    )
}

fn checks(points: &[Point]) -> Vec<Check> {
    let percent = |share: Rational| Value::new(share * Rational::whole(100), 2, "%");
    let at = |sdu: u16| points.iter().find(|point| point.sdu == sdu);
    let of_line = |sdu: u16| percent(at(sdu).map_or(Rational::ZERO, |p| p.line / line_cell_s()));
    let reduced = at(88 + 48).map_or(Rational::ZERO, |p| p.reduced / REDUCED_CELL_S.into());
    let claim = |what: &str, paper: &str| Claim::calibrated("P0.11", what, paper);
    let longer = points.iter().filter(|point| point.sdu >= 136);
    let flat = longer
        .clone()
        .all(|p| p.reduced >= Rational::from(REDUCED_CELL_S) * dec("0.99"));
    let rises = points.is_sorted_by(|a, b| a.line <= b.line * dec("1.001"));
    vec![
        claim("line speed, 1,024 octets, of the line's cells", "full").number(
            dec("99"),
            Tolerance::AtLeast,
            &of_line(1_024),
        ),
        claim(
            "line speed, 512 octets, of the line's cells",
            "overhead significant",
        )
        .number(dec("95"), Tolerance::AtMost, &of_line(512)),
        claim(
            "3-cell PDUs (136 octets) at 100,000 cells/s",
            "requested rate",
        )
        .number(dec("99"), Tolerance::AtLeast, &percent(reduced)),
        Claim::shape(
            "5",
            "the solid line rises until it is flat",
            "rises, saturates near 1 KB",
        )
        .holds(rises, if rises { "rises" } else { "falls somewhere" }),
        Claim::shape("5", "the dashed line is flat from 3 cells on", "flat")
            .holds(flat, if flat { "flat" } else { "not flat" }),
    ]
}
