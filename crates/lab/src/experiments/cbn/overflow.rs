use cellgate_report::{
    At, Axis, Check, Claim, Entry, Figure, Look, Mark, Outcome, Panel, Rational, Series, Table,
    Tolerance, Value, dec,
};

use super::{
    DATA_BITS, Error, Experiment, HostCosts, Model, Notify, PARAMETERS, Parameter, Progress,
    Script, Settings, to, us,
};
use crate::machine::v1s::Network;
use crate::world::Ps;

/// The overflow of the receive FIFO, of which nobody is told.
pub(in crate::experiments) struct Overflow;

const CELLS: [usize; 10] = [16, 32, 64, 80, 96, 109, 128, 160, 192, 255];
/// Blocks in a row of a point.
const BLOCKS: u64 = 150;
/// Blocks after which a backlog has grown, or not, since half as many.
const GROWS: u64 = 80;
/// The time of a cell that is received beyond that of one that is sent, in microseconds.
const LONGER_US: Rational = dec("2.13");

/// A block's cells, and the fate of some blocks in a row.
struct Point {
    cells: usize,
    lost: u64,
    /// Mbit/s of data in blocks that came whole.
    whole: Rational,
}

impl Experiment for Overflow {
    fn name(&self) -> &'static str {
        "ring-overflow"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, section 4.2: FIFOs that overflow without a warning"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let model = Model::new(settings);
        let all = CELLS.len() as u64 + 3;
        let mut points = Vec::new();
        for (n, cells) in CELLS.into_iter().enumerate() {
            points.push(point(&model, cells));
            progress.step(n as u64 + 1, all);
        }
        let mut checks = vec![one_block(&model)];
        progress.step(all - 2, all);
        checks.push(first_loss(&model));
        progress.step(all - 1, all);
        checks.push(two_blocks(&model));
        checks.extend(of_rows(&model, &points));
        progress.step(all, all);
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points)],
            checks,
            notes: vec![
                "So \"as large as can reasonably be supported\" holds for a block, not for blocks \
                 in a row: a sender that nothing paces loses most of what it sends once a block's \
                 cells make up for what it costs beside them."
                    .to_owned(),
            ],
        })
    }
}

/// Blocks in a row: the network when the last cells have come, and the microseconds in which all
/// were sent.
fn row(model: &Model, condition: Notify, cells: usize, blocks: u64) -> (Network<Script>, Rational) {
    let scripts = [Script::sends(to(1, cells), blocks), Script::default()];
    let mut network = model.network(condition, scripts);
    network.run(super::END, |network| {
        network.hosts()[0].counts().sent_blocks == blocks
    });
    let span = us(network.now());
    // The cells that wait in the FIFO come, too.
    network.run(network.now().plus(Ps::from_ns(10_000_000)), |_| false);
    (network, span)
}

fn lost(network: &Network<Script>) -> u64 {
    network.stations()[1].counts().overflowed
}

fn point(model: &Model, cells: usize) -> Point {
    let (network, span) = row(model, Notify::Every, cells, BLOCKS);
    let whole = network.hosts()[1].counts().received_octets;
    Point {
        cells,
        lost: lost(&network),
        whole: Rational::from(whole * 8) / span,
    }
}

fn one_block(model: &Model) -> Check {
    let rows = Notify::ALL.map(|condition| lost(&row(model, condition, 255, 1).0));
    let ours = Value::new(rows.iter().sum::<u64>(), 0, "cells");
    Claim::derived(
        "overflow",
        "of one block of 255 cells, whatever interrupts",
        "",
    )
    .number(dec("0"), Tolerance::Exact, &ours)
}

/// Cells until the first is lost, blocks costing nothing beside their cells.
fn first_loss(model: &Model) -> Check {
    let costs = HostCosts {
        sent_block: Ps::ZERO,
        received_block: Ps::ZERO,
        blocks_cost: false,
        ..model.host.costs
    };
    let scripts = [Script::sends(to(1, 255), 100), Script::default()];
    let mut network = model.with(costs).network(Notify::Every, scripts);
    network.run(super::END, |network| {
        network.stations()[1].counts().overflowed > 0
    });
    let passed = network.stations()[1].counts().passed;
    Claim::calibrated("overflow", "cells in a row until one is lost", "").number(
        dec("2167"),
        Tolerance::Percent(dec("1")),
        &Value::new(passed, 0, "cells"),
    )
}

/// Two blocks in a row, the last cell of each interrupting.
fn two_blocks(model: &Model) -> Check {
    let lost = lost(&row(model, Notify::Last, 255, 2).0);
    Claim::derived(
        "overflow",
        "of two blocks in a row, their last cells interrupting",
        "",
    )
    .number(dec("1"), Tolerance::AtLeast, &Value::new(lost, 0, "cells"))
}

/// The fewest cells of blocks in a row of which ever more wait in the FIFO.
fn knee(model: &Model) -> usize {
    let grows = |cells: usize| {
        let scripts = [Script::sends(to(1, cells), GROWS), Script::default()];
        let mut network = model.network(Notify::Every, scripts);
        let [half, all] = [GROWS / 2, GROWS].map(|blocks| {
            network.run(super::END, |network| {
                network.hosts()[0].counts().sent_blocks == blocks
            });
            network.stations()[1].held()
        });
        all > half + 2
    };
    let (mut low, mut high) = (1, 255);
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if grows(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// The same by what blocks cost beside their cells. While cells wait, the receiver enters no
/// handler and no process.
fn law(costs: &HostCosts) -> Rational {
    let sent = Rational::from(costs.instructions.transmit_block()) * us(costs.transmit);
    let received = Rational::from(costs.instructions.receive_block()) * us(costs.receive);
    (us(costs.sent_block) + sent - received) / LONGER_US
}

fn of_rows(model: &Model, points: &[Point]) -> Vec<Check> {
    let at = |cells: usize| points.iter().find(|point| point.cells == cells);
    let whole = |cells: usize| at(cells).map_or(Rational::ZERO, |point| point.whole);
    let mbit_s = |of: Rational| Value::new(of, 2, "Mbit/s");
    vec![
        Claim::calibrated(
            "overflow",
            "cells of blocks in a row of which ever more wait",
            "",
        )
        .reading("(T0 - R0) / 2.13")
        .number(
            law(&model.host.costs),
            Tolerance::Percent(dec("5")),
            &Value::new(knee(model) as u64, 0, "cells"),
        ),
        Claim::shape("overflow", "data in whole blocks of 109 cells in a row", "").number(
            dec("13.8"),
            Tolerance::AtLeast,
            &mbit_s(whole(109)),
        ),
        Claim::shape("overflow", "the same of 255 cells", "").number(
            dec("1.5"),
            Tolerance::AtMost,
            &mbit_s(whole(255)),
        ),
    ]
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "rows",
        "150 blocks in a row, from a sender that nothing paces",
        &[
            ("cells", "cells"),
            ("lost_cells", "cells lost"),
            ("whole_mbit_s", "in whole blocks, Mbit/s of data"),
        ],
    );
    for point in points {
        table.row([
            Entry::number(point.cells as u64, 0),
            Entry::number(point.lost, 0),
            Entry::number(point.whole, 2),
        ]);
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let sent = |cells: usize| {
        let cells = Rational::whole(cells as i128);
        DATA_BITS * cells / (dec("232") + dec("15.9") * cells)
    };
    let curve = |of: &dyn Fn(&Point) -> Rational| -> Vec<(f64, f64)> {
        let point = |p: &Point| (p.cells as f64, of(p).to_f64());
        points.iter().map(point).collect()
    };
    let panel = Panel {
        x: Axis::linear("cells of a block").to(260.0),
        y: Axis::linear("Mbit/s of data").to(16.0),
        series: vec![
            Series::new("sent", Look::Expected, curve(&|p| sent(p.cells))),
            Series::new(
                "in blocks that come whole",
                Look::Dotted,
                curve(&|p| p.whole),
            ),
        ],
        marks: vec![Mark {
            at: At::Y(14.2),
            label: "14.2".to_owned(),
        }],
    };
    Figure::single("rows", "Blocks in a row", panel)
}
