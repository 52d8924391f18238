use std::collections::BTreeSet;

use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::model::Discarding;
use super::{Error, Experiment, Parameter, Progress, Settings, board};
use crate::generate::Draw;
use crate::machine::lookup::{Address, Lookup};
use crate::machine::{BoardConfig, Costs, Cycles};

/// How a cell's connection is found, and how cells without one go.
pub(in crate::experiments) struct Section5;

/// Open connections.
const OPEN: [usize; 4] = [16, 64, 256, 1_024];
/// Addresses that are not open.
const STRANGERS: usize = 4_096;
/// VPI and VCI of a UNI.
const ADDRESS_BITS: u32 = 24;
/// The bucket of those that hash alike.
const BUCKET: usize = 7;

const PARAMETERS: &[Parameter] = &[
    Parameter::number(
        "c_entry",
        "cycles of the i960 for looking at an entry (as its test of the FIFOs; ours)",
        dec("5"),
        (dec("0"), dec("1000")),
    ),
    Parameter::number(
        "c_pointers",
        "cycles of the i960 for moving a FIFO's pointers (an address and a write; ours)",
        dec("12"),
        (dec("0"), dec("1000")),
    ),
    super::C_CELL,
    super::C_PDU,
];

/// Entries that are looked at.
#[derive(Clone, Copy)]
struct Entries {
    mean: Rational,
    most: u64,
}

impl Entries {
    fn of<'a>(lookup: &Lookup, addresses: impl Iterator<Item = &'a Address>) -> Self {
        let (mut n, mut sum, mut most) = (0_u64, 0_u64, 0);
        for address in addresses {
            let entries = lookup.entries(*address);
            (n, sum, most) = (n + 1, sum + entries, most.max(entries));
        }
        Self {
            mean: Rational::from(sum) / Rational::from(n.max(1)),
            most,
        }
    }
}

/// A way of looking up, with so many connections.
struct Row {
    way: &'static str,
    connections: usize,
    open: Entries,
    strangers: Entries,
}

/// What a line full of strangers' cells costs.
struct Flood {
    what: &'static str,
    seen: Discarding,
}

impl Experiment for Section5 {
    fn name(&self) -> &'static str {
        "policing-section-5"
    }

    fn source(&self) -> &'static str {
        "Policing Offloaded, sections 5.2 and 5.3: identification of cells, and their discard"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let board = board(settings);
        let rows = rows();
        progress.step(1, 3);
        let lookups = lookups(board, settings.number("c_entry"), &rows)?;
        progress.step(2, 3);
        let discards = discards(board, settings.number("c_pointers"))?;
        progress.step(3, 3);
        let mut checks = entries_checks(&rows);
        checks.extend(lookup_checks(&lookups));
        checks.extend(discard_checks(&discards));
        Ok(Outcome {
            tables: vec![
                table(&rows),
                floods(
                    "lookups",
                    "A full line of strangers, each cell the worst to look up",
                    &lookups,
                ),
                floods(
                    "discards",
                    "A full line of strangers beside a sender, by what discards them",
                    &discards,
                ),
            ],
            figures: vec![figure(&rows)],
            checks,
            notes: vec![
                "The paper chose the table and measured no other. Addresses are drawn from the 24 \
                 bits of a UNI; the hash has 256 buckets. Alike: all connections in one bucket, as \
                 whoever chooses addresses can have it."
                    .to_owned(),
                "The paper found no stable mechanism for moving the pointers. A block is what one \
                 look at a FIFO finds of one address, 16 cells at most."
                    .to_owned(),
            ],
        })
    }
}

/// Addresses without end.
fn addresses(seed: u64) -> impl Iterator<Item = Address> {
    let mut draw = Draw::new(seed);
    std::iter::repeat_with(move || draw.below(1 << ADDRESS_BITS) as Address)
}

/// `count` different ones of these.
fn first(count: usize, all: impl Iterator<Item = Address>) -> BTreeSet<Address> {
    let mut set = BTreeSet::new();
    for address in all {
        if set.len() == count {
            break;
        }
        set.insert(address);
    }
    set
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for connections in OPEN {
        let open = first(connections, addresses(1));
        let alike = |address: &Address| Lookup::bucket(*address) == BUCKET;
        let same = first(connections, addresses(2).filter(alike));
        let stranger = |address: &Address| !open.contains(address) && !same.contains(address);
        let strangers = first(STRANGERS, addresses(3).filter(stranger));
        let ways = [
            ("table", Lookup::Table, &open),
            ("tree", Lookup::tree(&open), &open),
            ("hash", Lookup::hash(&open), &open),
            (ALIKE, Lookup::hash(&same), &same),
        ];
        rows.extend(ways.map(|(way, lookup, open)| Row {
            way,
            connections,
            open: Entries::of(&lookup, open.iter()),
            strangers: Entries::of(&lookup, strangers.iter()),
        }));
    }
    rows
}

const ALIKE: &str = "hash, alike";

/// The rows with as many connections as a board has.
fn full(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter()
        .filter(|row| row.connections == OPEN[OPEN.len() - 1])
}

/// What the worst address costs, each way, at the rate of the line.
fn lookups(board: BoardConfig, c_entry: Rational, rows: &[Row]) -> Result<Vec<Flood>, Error> {
    let flood = |row: &Row| {
        // The table's look-up is inside what a cell costs.
        let entries = row.strangers.most - u64::from(row.way == "table");
        let costs = Costs {
            lookup: Cycles::of(c_entry * Rational::from(entries)),
            ..board.costs
        };
        let seen = Discarding::of_many(BoardConfig { costs, ..board })?;
        Ok(Flood {
            what: row.way,
            seen,
        })
    };
    full(rows).map(flood).collect()
}

/// What it costs to read cells, and to move the pointers, in long blocks and cell by cell.
fn discards(board: BoardConfig, c_pointers: Rational) -> Result<Vec<Flood>, Error> {
    let pointers = BoardConfig {
        costs: Costs {
            discard_block: Some(Cycles::of(c_pointers)),
            ..board.costs
        },
        ..board
    };
    let flood = |what, seen: Result<_, _>| seen.map(|seen| Flood { what, seen });
    [
        flood(READING, Discarding::of_one_while_sending(board)),
        flood(POINTERS, Discarding::of_one_while_sending(pointers)),
        flood(READING_TWO, Discarding::of_two_while_sending(board)),
        flood(POINTERS_TWO, Discarding::of_two_while_sending(pointers)),
    ]
    .into_iter()
    .collect()
}

const READING: &str = "reading them, one address";
const POINTERS: &str = "pointers, one address";
const READING_TWO: &str = "reading them, two in turn";
const POINTERS_TWO: &str = "pointers, two in turn";

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "entries",
        "Entries that a look-up looks at",
        &[
            ("way", "way"),
            ("connections", "connections"),
            ("open_mean", "open: mean"),
            ("open_most", "most"),
            ("strangers_mean", "not open: mean"),
            ("strangers_most", "most"),
        ],
    );
    for row in rows {
        table.row([
            Entry::text(row.way),
            Entry::number(row.connections as u64, 0),
            Entry::number(row.open.mean, 1),
            Entry::number(row.open.most, 0),
            Entry::number(row.strangers.mean, 1),
            Entry::number(row.strangers.most, 0),
        ]);
    }
    table
}

fn floods(name: &str, title: &str, floods: &[Flood]) -> Table {
    let mut table = Table::new(
        name,
        title,
        &[
            ("what", "by"),
            ("most_cell_s", "cells/s at most"),
            ("share_percent", "of the i960, %"),
            ("lost_percent", "found their FIFO full, %"),
            ("sent_cell_s", "sent beside, cells/s"),
        ],
    );
    for flood in floods {
        let most = flood
            .seen
            .ceiling
            .map_or(Entry::Empty, |most| Entry::number(most, 0));
        table.row([
            Entry::text(flood.what),
            most,
            Entry::number(flood.seen.share * Rational::whole(100), 1),
            Entry::number(lost(&flood.seen) * Rational::whole(100), 1),
            Entry::number(flood.seen.sent_cell_s, 0),
        ]);
    }
    table
}

fn lost(seen: &Discarding) -> Rational {
    Rational::from(seen.overflowed) / Rational::from(seen.arrived.max(1))
}

fn figure(rows: &[Row]) -> Figure {
    let of = |way: &str| {
        let rows = rows.iter().filter(|row| row.way == way);
        rows.map(|row| (row.connections as f64, row.strangers.most as f64))
            .collect()
    };
    let series = ["table", "tree", "hash", ALIKE].map(|way| Series::new(way, Look::Line, of(way)));
    let panel = Panel {
        x: Axis::log("open connections", 1.0),
        y: Axis::log("entries for the worst address that is not open", 1.0),
        series: series.into(),
        marks: Vec::new(),
    };
    Figure::single("entries", "What a stranger's cell costs", panel)
}

fn entries_checks(rows: &[Row]) -> Vec<Check> {
    let value = |entries: u64| Value::new(entries, 0, "entries");
    let mut checks = Vec::new();
    for row in full(rows) {
        let Row {
            open, strangers, ..
        } = row;
        let (what, paper, expected) = match row.way {
            "table" => ("table: open or not, the same", "constant lookup time", 1),
            // A path of a balanced tree of 1,024.
            "tree" => (
                "tree of 1,024: the longest path",
                "depends on the number",
                11,
            ),
            "hash" => {
                let uneven = Rational::from(strangers.most) > dec("2") * strangers.mean;
                let what = "hash: the longest look-up over twice the mean";
                let claim = Claim::shape("5.2", what, "heavily different lookup times");
                let shown = format!("{} and {:.1}", strangers.most, strangers.mean.to_f64());
                checks.push(claim.holds(uneven, &shown));
                continue;
            }
            _ => (
                "hash, alike: of one that is not open",
                "can be enormous",
                1_024,
            ),
        };
        let claim = Claim::derived("5.2", what, paper);
        let most = strangers.most.max(open.most);
        checks.push(claim.number(Rational::from(expected), Tolerance::Exact, &value(most)));
    }
    checks
}

fn lookup_checks(floods: &[Flood]) -> Vec<Check> {
    let lost = |flood: &Flood| (flood.what, lost(&flood.seen));
    let percent = |share: Rational| Value::new(share * Rational::whole(100), 1, "%");
    floods
        .iter()
        .map(lost)
        .filter_map(|(way, lost)| match way {
            "table" | "tree" => {
                let what = format!("flood: lost before it is looked at, {way}");
                let claim = Claim::derived("5.2", &what, "very cheap, or bounded");
                Some(claim.number(Rational::ZERO, Tolerance::Exact, &percent(lost)))
            }
            ALIKE => {
                let what = "flood: most is lost, whoever sent it, with the hash alike";
                let claim = Claim::shape("5.2", what, "can be enormous");
                Some(claim.holds(
                    lost > dec("0.5"),
                    &format!("{:.1} %", lost.to_f64() * 100.0),
                ))
            }
            _ => None,
        })
        .collect()
}

fn discard_checks(floods: &[Flood]) -> Vec<Check> {
    let most = |what: &str| {
        let flood = floods.iter().find(|flood| flood.what == what);
        let most = flood.and_then(|flood| flood.seen.ceiling);
        most.unwrap_or(Rational::ONE)
    };
    let large = most(POINTERS) / most(READING);
    let small = most(POINTERS_TWO) / most(READING_TWO);
    let times = |ratio: Rational| format!("{:.2} times", ratio.to_f64());
    let what = "pointers over reading, large blocks";
    let reduces = Claim::shape("5.3", what, "significantly reduces the overhead");
    let what = "pointers over reading, cell by cell";
    let depends = Claim::shape("5.3", what, "most efficient for large blocks");
    vec![
        reduces.holds(large > Rational::whole(2), &times(large)),
        depends.holds(small < large, &times(small)),
    ]
}
