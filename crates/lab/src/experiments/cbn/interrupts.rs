use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::{
    Error, Experiment, Model, Notify, Parameter, Progress, Script, Settings, done, ps, received,
    to, us,
};
use crate::world::Ps;

/// The cost of an interrupt a cell where cells come slowly, and the use of waiting for them.
pub(in crate::experiments) struct Interrupts;

/// A cell's time at the receiver, in microseconds, and the cells of a block.
const CELL_US: Rational = dec("18.03");
const CELLS: usize = 255;
/// Cells of a block for what a dally costs.
const FEW: usize = 40;
/// The time of a cell from RAM to host at most, and of a look.
const LATE_US: Rational = dec("0.5");
/// Longer than any block here takes.
const LONG: Ps = Ps::from_ns(200_000_000);
const SLOW: Parameter = Parameter::number(
    "slow_us",
    "distance of cells that come slowly, us",
    dec("50"),
    (dec("5"), dec("500")),
);
/// Dallies, in times of what an interrupt costs.
const DALLIES: [&str; 6] = ["0", "0.25", "0.5", "1", "2", "4"];

/// Interrupts of a block whose cells come at these distances, in microseconds (none, if nobody
/// reads all of them), and how long it kept the CPU busy.
fn block(
    model: &Model,
    condition: Notify,
    cells: usize,
    distance: impl Fn(usize) -> Rational,
) -> Result<(u64, Rational), Error> {
    let mut network = model.network(condition, [Script::default(), Script::default()]);
    let cells = to(1, cells).cells(0).into_iter().enumerate();
    let mut at = Rational::ZERO;
    network.stream(
        1,
        cells.map(|(n, cell)| {
            at = at + distance(n);
            (ps(at * dec("1000")), cell)
        }),
    );
    network.run(LONG, |network| !received(network, 1).is_empty());
    super::is_right(&network)?;
    let counts = network.hosts()[1].counts();
    let interrupts = match received(&network, 1).is_empty() {
        true => 0,
        false => counts.interrupts,
    };
    Ok((interrupts, us(counts.busy)))
}

impl Model {
    fn dallying(self, dally: Ps) -> Self {
        let host = super::HostSpec { dally, ..self.host };
        Self { host, ..self }
    }
}

/// The cost of an interrupt, in microseconds.
fn switch(model: &Model) -> Rational {
    us(model.host.costs.interrupt())
}

/// A distance of cells, and interrupts of a block by dally.
struct Point {
    gap: Rational,
    none: u64,
    dallies: u64,
}

const GAPS: [&str; 12] = [
    "16", "17", "18", "18.5", "20", "22", "25", "28", "30", "32", "40", "50",
];
/// Of the second curve, in microseconds.
const DALLY_US: Rational = dec("10");

impl Experiment for Interrupts {
    fn name(&self) -> &'static str {
        "ring-interrupts"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, section 4.2: interrupt conditions and dally loops"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: [Parameter; 8] = super::and([SLOW]);
        &ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let model = Model::new(settings);
        let all = (GAPS.len() + DALLIES.len() + 1) as u64;
        let mut points = Vec::new();
        let dallying = model.dallying(ps(DALLY_US * dec("1000")));
        for (n, gap) in GAPS.into_iter().enumerate() {
            let gap = dec(gap);
            points.push(Point {
                gap,
                none: block(&model, Notify::Every, CELLS, |_| gap)?.0,
                dallies: block(&dallying, Notify::Every, CELLS, |_| gap)?.0,
            });
            progress.step(n as u64 + 1, all);
        }
        let mut worst = Vec::new();
        for (n, dally) in DALLIES.into_iter().enumerate() {
            worst.push((dec(dally), worst_of(&model, dec(dally))?));
            progress.step((GAPS.len() + n) as u64 + 1, all);
        }
        let mut checks = vec![knee(&model, "0")?, knee(&model, "10")?];
        let slow = settings.number("slow_us");
        checks.extend(at_ends(&model, slow)?);
        checks.push(left_unread(&model, slow)?);
        checks.extend(of_dallies(&worst));
        progress.step(all, all);
        Ok(Outcome {
            tables: vec![table(&points), table_of_dallies(&worst)],
            figures: vec![figure(&points)],
            checks,
            notes: vec![
                "Between the knee and an interrupt's own 12 us beyond it a block costs fewer \
                 interrupts than it has cells: while the CPU enters the handler, cells come. What \
                 a dally costs is compared with one that knows when the next cell comes: it \
                 waits, or is interrupted, whichever is cheaper."
                    .to_owned(),
            ],
        })
    }
}

/// The distance, to a RAM cycle, from which on a block costs more interrupts than one.
fn knee(model: &Model, dally: &str) -> Result<Check, Error> {
    let dallying = model.dallying(ps(dec(dally) * dec("1000")));
    let cycle = us(model.station.cycle);
    let (mut low, mut high) = (0_i128, 256_i128);
    while high - low > 1 {
        let middle = (low + high) / 2;
        let gap = cycle * Rational::whole(middle);
        match block(&dallying, Notify::Every, CELLS, |_| gap)?.0 {
            1 => low = middle,
            _ => high = middle,
        }
    }
    let ours = cycle * Rational::whole(high);
    let what =
        format!("distance of cells beyond which a block costs more than one, dally {dally} us");
    // A cell is seen a cycle after it has come, to a cycle, and to a look of who dallies.
    let looks = if dally == "0" { "0" } else { "1" };
    let near = cycle + us(model.host.costs.receive) * dec(looks);
    Ok(Claim::calibrated("interrupts", &what, "").number(
        CELL_US + cycle + dec(dally),
        Tolerance::Absolute(near),
        &Value::new(ours, 2, "us"),
    ))
}

/// Interrupts of a block whose cells come slowly.
fn at_ends(model: &Model, slow: Rational) -> Result<Vec<Check>, Error> {
    let mut checks = Vec::new();
    for (condition, name, dally, expected) in [
        (Notify::Every, "every", "0", CELLS as u64),
        (
            Notify::Every,
            "every, dallying beyond their distance,",
            "60",
            1,
        ),
        (
            Notify::First,
            "first, dallying beyond their distance,",
            "60",
            1,
        ),
        (Notify::Last, "last", "0", 1),
        (Notify::Both, "first and last", "0", 2),
    ] {
        let model = model.dallying(ps(dec(dally) * dec("1000")));
        let (interrupts, _) = block(&model, condition, CELLS, |_| slow)?;
        let what = format!("{name} of a block of 255 cells, 50 us apart");
        checks.push(Claim::derived("interrupts", &what, "").number(
            Rational::from(expected),
            Tolerance::Exact,
            &Value::new(interrupts, 0, "interrupts"),
        ));
    }
    Ok(checks)
}

/// With the first cell alone interrupting, and no dally, a block waits for the next.
fn left_unread(model: &Model, slow: Rational) -> Result<Check, Error> {
    let mut network = model.network(Notify::First, [Script::default(), Script::default()]);
    let cells = [0, 1].map(|rid| to(1, FEW).cells(rid));
    let distance = ps(slow * dec("1000"));
    let at = |n: usize| Ps::new(distance.ps() * n as u64);
    let second = at(FEW);
    network.stream(
        1,
        cells
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(n, cell)| (at(n), cell)),
    );
    network.run(super::END, |network| !received(network, 1).is_empty());
    let network = done(network)?;
    let came = received(&network, 1)[0];
    // The next one's interrupt, while its own cells are there.
    let waits = network.hosts()[1].counts().interrupts > 1;
    Ok(Claim::derived(
        "interrupts",
        "first: a block that comes slowly waits for the next",
        "",
    )
    .holds(
        waits,
        &format!(
            "read {} us behind the next's begin",
            us(came.since(second)).fixed(0)
        ),
    ))
}

/// The most that a dally costs of what it costs to know when the next cell comes: each comes so
/// long after the CPU has done with the one before, for all lengths of that.
fn worst_of(model: &Model, dally: Rational) -> Result<Rational, Error> {
    let switch = switch(model);
    let dally = dally * switch;
    let dallying = model.dallying(ps(dally * dec("1000")));
    let cells = Rational::whole(FEW as i128);
    let mut worst = Rational::ZERO;
    for sixteenths in 1..=80 {
        let idle = switch * Rational::new(sixteenths, 16) + LATE_US;
        let interrupts = idle > dally + LATE_US;
        let again = if interrupts { switch } else { Rational::ZERO };
        let distance = |n: usize| {
            let before = if n == 1 { switch } else { again };
            CELL_US + idle + before
        };
        let (_, busy) = block(&dallying, Notify::Every, FEW, distance)?;
        let costs = &model.host.costs;
        let block_us = us(costs.received_block)
            + us(costs.receive) * Rational::from(costs.instructions.receive_block());
        // The first interrupt, and the block, cost the same whatever is done.
        let more = busy - cells * CELL_US - block_us - switch - dally;
        let hindsight = idle.min(switch) * (cells - dec("1"));
        worst = worst.max(more.over(hindsight).unwrap_or(Rational::ZERO));
    }
    Ok(worst)
}

fn of_dallies(worst: &[(Rational, Rational)]) -> Vec<Check> {
    let at = |dally: &str| {
        let found = worst.iter().find(|(of, _)| *of == dec(dally));
        found.map_or(Rational::ZERO, |(_, worst)| *worst)
    };
    let own = at("1");
    let others = worst
        .iter()
        .filter(|(dally, _)| *dally != dec("1"))
        .map(|(_, worst)| *worst);
    let least = others.min().unwrap_or(Rational::ZERO);
    vec![
        Claim::derived(
            "interrupts",
            "a dally of an interrupt's cost, over hindsight, at most",
            "",
        )
        .number(dec("2.1"), Tolerance::AtMost, &Value::new(own, 2, "times")),
        Claim::derived(
            "interrupts",
            "the best other dally, over hindsight, at most",
            "",
        )
        .number(
            dec("2.4"),
            Tolerance::AtLeast,
            &Value::new(least, 2, "times"),
        ),
    ]
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "interrupts",
        "Interrupts of a block of 255 cells, every cell interrupting",
        &[
            ("distance_us", "distance, us"),
            ("none", "no dally"),
            ("dallying", "dally of 10 us"),
        ],
    );
    for point in points {
        table.row([
            Entry::number(point.gap, 1),
            Entry::number(point.none, 0),
            Entry::number(point.dallies, 0),
        ]);
    }
    table
}

fn table_of_dallies(worst: &[(Rational, Rational)]) -> Table {
    let mut table = Table::new(
        "dallies",
        "What a dally costs at most, over hindsight",
        &[("dally", "dally, of an interrupt"), ("cost", "cost, times")],
    );
    for (dally, worst) in worst {
        table.row([Entry::number(*dally, 2), Entry::number(*worst, 2)]);
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let curve = |of: &dyn Fn(&Point) -> u64| -> Vec<(f64, f64)> {
        let point = |p: &Point| (p.gap.to_f64(), of(p) as f64);
        points.iter().map(point).collect()
    };
    let panel = Panel {
        x: Axis::linear("distance of cells, us").to(52.0),
        y: Axis::linear("interrupts of a block").to(260.0),
        series: vec![
            Series::new("no dally", Look::Dotted, curve(&|p| p.none)),
            Series::new("dally of 10 us", Look::Dashed, curve(&|p| p.dallies)),
        ],
        marks: Vec::new(),
    };
    Figure::single("interrupts", "Interrupts by the distance of cells", panel)
}
