use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::{
    Condition, END, Error, Experiment, Model, PARAMETERS, Parameter, Progress, Settings, slope, us,
};

/// The time of a ping, by the cells that interrupt.
pub(in crate::experiments) struct Figure7;

const CELLS: [usize; 9] = [1, 2, 4, 16, 32, 64, 128, 192, 255];
const CONDITIONS: [Condition; 3] = [Condition::Every, Condition::First, Condition::Last];

/// A block's cells, and a ping's time in microseconds, by condition.
struct Point {
    cells: usize,
    us: [Rational; 3],
}

impl Experiment for Figure7 {
    fn name(&self) -> &'static str {
        "ring-figure-7"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, Figure 7: ping time by the cells that interrupt"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let model = Model::new(settings);
        let mut points = Vec::new();
        for (n, cells) in CELLS.into_iter().enumerate() {
            let mut times = [Rational::ZERO; 3];
            for (condition, time) in CONDITIONS.into_iter().zip(&mut times) {
                // With the first cell alone interrupting a block may wait for ever.
                *time = model.ping(condition, cells).unwrap_or(us(END));
            }
            points.push(Point { cells, us: times });
            progress.step(n as u64 + 1, CELLS.len() as u64);
        }
        let mut checks = checks(&points);
        checks.extend(of_one_block(&model)?);
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points)],
            checks,
            ..Outcome::default()
        })
    }
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "times",
        "A ping, us, by the cells that interrupt",
        &[
            ("cells", "cells"),
            ("every_us", "every"),
            ("first_us", "first"),
            ("last_us", "last"),
        ],
    );
    for point in points {
        let [every, first, last] = point.us;
        table.row([
            Entry::number(point.cells as u64, 0),
            Entry::number(every, 1),
            Entry::number(first, 1),
            Entry::number(last, 1),
        ]);
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let curve = |of: usize| -> Vec<(f64, f64)> {
        let point = |p: &Point| (p.cells as f64, p.us[of].to_f64() / 1e3);
        points.iter().map(point).collect()
    };
    let panel = Panel {
        x: Axis::linear("cells of a block").to(260.0),
        y: Axis::linear("ping, ms"),
        series: vec![
            Series::new("every cell", Look::Wide, curve(0)),
            Series::new("the first", Look::Dotted, curve(1)),
            Series::new("the last", Look::Dashed, curve(2)),
        ],
        marks: Vec::new(),
    };
    Figure::single("times", "Two-way time by interrupt condition", panel)
}

fn checks(points: &[Point]) -> Vec<Check> {
    let at = |cells: usize| points.iter().find(|point| point.cells == cells);
    let each = |of: usize| {
        let time = |cells| {
            (
                cells,
                at(cells).map_or(Rational::ZERO, |point| point.us[of]),
            )
        };
        slope([time(64), time(192)])
    };
    let (every, first, last) = (each(0), each(1), each(2));
    let near = Tolerance::Percent(dec("1"));
    let value = |us: Rational| Value::new(us, 2, "us");
    let claim = Claim::calibrated;
    vec![
        claim("7", "every: a cell both ways", "almost independent").number(
            dec("36.06"),
            near,
            &value(every),
        ),
        claim("7", "first: a cell both ways", "of start or every").number(
            dec("36.06"),
            near,
            &value(first),
        ),
        claim("7", "last: a cell both ways", "a substantial increase").number(
            dec("67.86"),
            near,
            &value(last),
        ),
        claim("7", "last over every", "breaks the pipelining").number(
            dec("1.88"),
            near,
            &Value::ratio(last.over(every), 3, "times"),
        ),
    ]
}

/// Interrupts and backlog of the longest block.
fn of_one_block(model: &Model) -> Result<Vec<Check>, Error> {
    let network = model.sends(Condition::Every, 255, 1)?;
    let (station, host) = (network.stations()[1].counts(), network.hosts()[1].counts());
    Ok(vec![
        Claim::calibrated(
            "7",
            "cells that wait of a block of 255",
            "absorbed in the FIFO",
        )
        .number(
            dec("30"),
            Tolerance::Absolute(dec("1")),
            &Value::new(station.backlog as u64, 0, "cells"),
        ),
        Claim::derived(
            "7",
            "interrupts of a block though every cell may",
            "no further interrupts",
        )
        .prints(dec("1"))
        .number(
            dec("1"),
            Tolerance::Exact,
            &Value::new(host.interrupts, 0, "interrupts"),
        ),
    ])
}
