use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::{
    CELL_BITS, DATA_BITS, Error, Experiment, Model, Notify, PARAMETERS, Parameter, Progress,
    Settings, mbit_s, slope, us,
};

/// The rate at which blocks are sent.
pub(in crate::experiments) struct Figure4;

const CELLS: [usize; 14] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 200, 255];
/// Blocks of a point, of which the first is not counted.
const BLOCKS: usize = 5;
/// Figure 4's law: a block's time, and a cell's, in microseconds.
const BLOCK_US: Rational = dec("232");
const CELL_US: Rational = dec("15.9");

/// A block's cells, and its time in microseconds.
struct Point {
    cells: usize,
    us: Rational,
}

impl Point {
    fn bits(&self) -> Rational {
        DATA_BITS * Rational::whole(self.cells as i128)
    }

    fn law(&self) -> Rational {
        self.bits() / (BLOCK_US + CELL_US * Rational::whole(self.cells as i128))
    }
}

impl Experiment for Figure4 {
    fn name(&self) -> &'static str {
        "ring-figure-4"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, Figure 4: transmit rate by the cells of a block"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let model = Model::new(settings);
        let mut points = Vec::new();
        for (n, cells) in CELLS.into_iter().enumerate() {
            let network = model.sends(Notify::Every, cells, BLOCKS as u64)?;
            let sent = &network.hosts()[0].application().sent;
            let span = sent[BLOCKS - 1].since(sent[0]);
            points.push(Point {
                cells,
                us: us(span) / Rational::whole(BLOCKS as i128 - 1),
            });
            progress.step(n as u64 + 1, CELLS.len() as u64);
        }
        let checks = checks(&points);
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points)],
            checks,
            notes: vec![
                "The 15.23 Mbit/s of section 7 are of whole blocks: with 255 cells a block they \
                 leave 232 us for what it costs beside its cells, of which the 22 instructions of \
                 Table 1 are 7 and buffers the rest. The curve is lost; the law is drawn."
                    .to_owned(),
            ],
        })
    }
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "rates",
        "Transmit rate by the cells of a block",
        &[
            ("cells", "cells"),
            ("block_us", "a block, us"),
            ("data_mbit_s", "data, Mbit/s"),
            ("law_mbit_s", "law, Mbit/s"),
        ],
    );
    for point in points {
        table.row([
            Entry::number(point.cells as u64, 0),
            Entry::number(point.us, 1),
            Entry::number(point.bits() / point.us, 3),
            Entry::number(point.law(), 3),
        ]);
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let curve = |of: &dyn Fn(&Point) -> Rational| -> Vec<(f64, f64)> {
        let point = |p: &Point| (p.cells as f64, of(p).to_f64());
        points.iter().map(point).collect()
    };
    let panel = Panel {
        x: Axis::linear("cells of a block").to(260.0),
        y: Axis::linear("Mbit/s of data").to(18.0),
        series: vec![
            Series::new("256 n / (232 + 15.9 n)", Look::Expected, curve(&Point::law)),
            Series::new("ours", Look::Dotted, curve(&|p| p.bits() / p.us)),
        ],
        marks: Vec::new(),
    };
    Figure::single("rates", "Transmit data rate", panel)
}

fn checks(points: &[Point]) -> Vec<Check> {
    let at = |cells: usize| points.iter().find(|point| point.cells == cells);
    let time = |cells: usize| (cells, at(cells).map_or(Rational::ZERO, |point| point.us));
    let cell_us = slope([time(64), time(200)]);
    let half = Tolerance::Percent(dec("0.5"));
    let last = at(255).map(|point| point.bits() / point.us);
    let off = |point: &Point| (point.bits() / point.us / point.law() - dec("1")).abs();
    let furthest = points.iter().map(off).max().unwrap_or(Rational::ZERO);
    vec![
        Claim::calibrated("C9", "a cell", "15.9 microsecond")
            .prints(dec("15.9"))
            .number(dec("15.9"), half, &Value::new(cell_us, 2, "us")),
        Claim::calibrated("C9", "data within a block", "over 16 Mbit/s")
            .prints(dec("16"))
            .number(dec("16.10"), half, &mbit_s(DATA_BITS, cell_us)),
        Claim::calibrated("C9", "cells within a block", "over 18 Mbit/s")
            .prints(dec("18"))
            .number(dec("18.11"), half, &mbit_s(CELL_BITS, cell_us)),
        Claim::calibrated(
            "C10",
            "data of blocks of 255 cells in a row",
            "15.23 Mbit/s",
        )
        .prints(dec("15.23"))
        .number(dec("15.23"), half, &Value::ratio(last, 2, "Mbit/s")),
        Claim::calibrated(
            "4",
            "furthest from 256 n / (232 + 15.9 n)",
            "rises, and flattens",
        )
        .number(
            dec("0.5"),
            Tolerance::AtMost,
            &Value::new(furthest * dec("100"), 2, "%"),
        ),
    ]
}
