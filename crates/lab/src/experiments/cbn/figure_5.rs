use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::{
    CELL_BITS, Condition, DATA_BITS, Error, Experiment, HostCosts, Model, PARAMETERS, Parameter,
    Progress, Settings, Stage, mbit_s, received, slope, us,
};

/// The rate at which blocks go from process to process.
pub(in crate::experiments) struct Figure5;

const CELLS: [usize; 10] = [1, 4, 8, 16, 32, 64, 96, 128, 192, 255];
pub(super) const NAMES: [&str; 4] = [
    "stage 0: a copy more, up-calls",
    "stage 1: no copy",
    "stage 2: merged",
    "stage 3: tight",
];

/// A block's cells, and its time in microseconds, by stage.
struct Point {
    cells: usize,
    us: [Rational; 4],
}

impl Point {
    fn mbit_s(&self, stage: usize) -> Rational {
        DATA_BITS * Rational::whole(self.cells as i128) / self.us[stage]
    }
}

impl Experiment for Figure5 {
    fn name(&self) -> &'static str {
        "ring-figure-5"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, Figure 5: user to user rate by the receive software"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let model = Model::new(settings);
        let mut points = Vec::new();
        for (n, cells) in CELLS.into_iter().enumerate() {
            let mut times = [Rational::ZERO; 4];
            for (stage, time) in Stage::ALL.into_iter().zip(&mut times) {
                let costs = HostCosts {
                    stage,
                    ..model.host.costs
                };
                let network = model.with(costs).sends(Condition::Every, cells, 1)?;
                let came = received(&network, 1).first().copied();
                *time = us(came.ok_or_else(|| Error::new("a block has not come"))?);
            }
            points.push(Point { cells, us: times });
            progress.step(n as u64 + 1, CELLS.len() as u64);
        }
        let checks = checks(&points);
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points)],
            checks,
            notes: vec![
                "One block at a time, from the call that sends it to the process that has it. \
                 What stages 0 to 2 cost is lost: ours are instructions of the same kinds (a \
                 copy, a call, code twice as long), so that only their order is judged. The \
                 paper's 15.6 Mbit/s with headers is 14.2 times 36/32, which is 15.97: a slip."
                    .to_owned(),
            ],
        })
    }
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "rates",
        "Data, Mbit/s, by the cells of a block",
        &[
            ("cells", "cells"),
            ("stage_0", "stage 0"),
            ("stage_1", "stage 1"),
            ("stage_2", "stage 2"),
            ("stage_3", "stage 3"),
        ],
    );
    for point in points {
        table.row([
            Entry::number(point.cells as u64, 0),
            Entry::number(point.mbit_s(0), 2),
            Entry::number(point.mbit_s(1), 2),
            Entry::number(point.mbit_s(2), 2),
            Entry::number(point.mbit_s(3), 2),
        ]);
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let looks = [Look::Expected, Look::Line, Look::Dashed, Look::Dotted];
    let curve = |stage: usize| -> Vec<(f64, f64)> {
        let point = |p: &Point| (p.cells as f64, p.mbit_s(stage).to_f64());
        points.iter().map(point).collect()
    };
    let series = NAMES.into_iter().zip(looks).enumerate();
    let panel = Panel {
        x: Axis::linear("cells of a block").to(260.0),
        y: Axis::linear("Mbit/s of data"),
        series: series
            .map(|(stage, (name, look))| Series::new(name, look, curve(stage)))
            .collect(),
        marks: Vec::new(),
    };
    Figure::single("rates", "User to user", panel)
}

fn checks(points: &[Point]) -> Vec<Check> {
    let at = |cells: usize| points.iter().find(|point| point.cells == cells);
    let time = |cells: usize| (cells, at(cells).map_or(Rational::ZERO, |point| point.us[3]));
    let cell_us = slope([time(64), time(192)]);
    let half = Tolerance::Percent(dec("0.5"));
    let ordered = points
        .iter()
        .all(|point| point.us.is_sorted_by(|slow, fast| slow > fast));
    let rises = points.is_sorted_by(|a, b| (0..4).all(|stage| a.mbit_s(stage) < b.mbit_s(stage)));
    vec![
        Claim::calibrated("C11", "a cell", "18.03 us")
            .prints(dec("18.03"))
            .number(dec("18.03"), half, &Value::new(cell_us, 2, "us")),
        Claim::calibrated("C11", "data within a block", "over 14.2 Mbit/s")
            .prints(dec("14.2"))
            .number(dec("14.20"), half, &mbit_s(DATA_BITS, cell_us)),
        Claim::calibrated("C11", "cells within a block", "over 15.6 Mbit/s")
            .prints(dec("15.6"))
            .number(dec("15.97"), half, &mbit_s(CELL_BITS, cell_us)),
        Claim::shape(
            "5",
            "each stage is faster than the one before, at every size",
            "four curves",
        )
        .holds(
            ordered,
            if ordered {
                "0 < 1 < 2 < 3"
            } else {
                "out of order"
            },
        ),
        Claim::shape(
            "5",
            "longer blocks are faster, in every stage",
            "rise, and flatten",
        )
        .holds(rises, if rises { "rise" } else { "fall somewhere" }),
    ]
}
