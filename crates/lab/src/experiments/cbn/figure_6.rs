use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::figure_5::NAMES;
use super::{
    Condition, Error, Experiment, HostCosts, Model, PARAMETERS, Parameter, Progress, Settings,
    Stage, slope,
};

/// The time of a ping, by the receive software.
pub(in crate::experiments) struct Figure6;

const CELLS: [usize; 9] = [1, 2, 4, 16, 32, 64, 128, 192, 255];

/// A block's cells, and a ping's time in microseconds, by stage.
struct Point {
    cells: usize,
    us: [Rational; 4],
}

impl Experiment for Figure6 {
    fn name(&self) -> &'static str {
        "ring-figure-6"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, Figure 6: ping time by the receive software"
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
                *time = model.with(costs).ping(Condition::Every, cells)?;
            }
            points.push(Point { cells, us: times });
            progress.step(n as u64 + 1, CELLS.len() as u64);
        }
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points)],
            checks: checks(&points),
            notes: vec![
                "What a ping costs beside its cells is lost: ours is twice the buffers of Figure \
                 4, and what a received block costs."
                    .to_owned(),
            ],
        })
    }
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "times",
        "A ping, us, by the cells of its block",
        &[
            ("cells", "cells"),
            ("stage_0", "stage 0"),
            ("stage_1", "stage 1"),
            ("stage_2", "stage 2"),
            ("stage_3", "stage 3"),
        ],
    );
    for point in points {
        let [original, no_copy, merged, tight] = point.us;
        table.row([
            Entry::number(point.cells as u64, 0),
            Entry::number(original, 1),
            Entry::number(no_copy, 1),
            Entry::number(merged, 1),
            Entry::number(tight, 1),
        ]);
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let looks = [Look::Expected, Look::Line, Look::Dashed, Look::Dotted];
    let curve = |stage: usize| -> Vec<(f64, f64)> {
        let point = |p: &Point| (p.cells as f64, p.us[stage].to_f64() / 1e3);
        points.iter().map(point).collect()
    };
    let series = NAMES.into_iter().zip(looks).enumerate();
    let panel = Panel {
        x: Axis::linear("cells of a block").to(260.0),
        y: Axis::linear("ping, ms"),
        series: series
            .map(|(stage, (name, look))| Series::new(name, look, curve(stage)))
            .collect(),
        marks: Vec::new(),
    };
    Figure::single("times", "Two-way response time", panel)
}

fn checks(points: &[Point]) -> Vec<Check> {
    let at = |cells: usize| points.iter().find(|point| point.cells == cells);
    let time = |cells: usize| (cells, at(cells).map_or(Rational::ZERO, |point| point.us[3]));
    let each = slope([time(64), time(192)]);
    let (first, last) = (time(16), time(255));
    let whole = slope([first, last]);
    let off = |point: &&Point| {
        let line = first.1 + whole * Rational::whole(point.cells as i128 - 16);
        ((point.us[3] - line) / line).abs()
    };
    let bend = points
        .iter()
        .filter(|point| point.cells >= 16)
        .map(|point| off(&point))
        .max();
    let ordered = points
        .iter()
        .all(|point| point.us.is_sorted_by(|slow, fast| slow > fast));
    vec![
        Claim::calibrated(
            "6",
            "stage 3, a cell both ways",
            "the receive time of a cell, twice",
        )
        .number(
            dec("36.06"),
            Tolerance::Percent(dec("1")),
            &Value::new(each, 2, "us"),
        ),
        Claim::shape(
            "6",
            "furthest from a straight line, of 16 cells and more",
            "straight lines",
        )
        .number(
            dec("1"),
            Tolerance::AtMost,
            &Value::ratio(bend.map(|bend| bend * dec("100")), 2, "%"),
        ),
        Claim::shape(
            "6",
            "each stage is faster than the one before, at every size",
            "four lines",
        )
        .holds(
            ordered,
            if ordered {
                "0 > 1 > 2 > 3"
            } else {
                "out of order"
            },
        ),
    ]
}
