use cellgate_report::{
    Check, Claim, Entry, Figure, Outcome, Rational, Table, Tolerance, Value, dec,
};

use super::{
    CELL_BITS, DATA_BITS, Error, Experiment, HostCosts, Kind, Model, Notify, Parameter, Progress,
    Settings, mbit_s, ps, slope, us,
};
use crate::machine::v1s::{Dma, HostSpec};

/// The interface that copies cells by itself.
pub(in crate::experiments) struct Direct;

const PROTOCOL: Parameter = Parameter::number(
    "protocol_us",
    "what a cell takes beside its copy, us",
    dec("3.3"),
    (dec("2"), dec("100")),
);
const WORD: Parameter = Parameter::number(
    "dma_word_ns",
    "of each of the eight words that are copied, ns",
    Rational::new(Dma::PAPER.word.ps() as i128, 1_000),
    (dec("1"), dec("10000")),
);
const ARBITRATION: Parameter = Parameter::number(
    "arbitration_ns",
    "until the interface has the bus, ns",
    Rational::new(Dma::PAPER.arbitration.ps() as i128, 1_000),
    (dec("0"), dec("10000")),
);
const LOCK: Parameter = Parameter {
    key: "lock",
    what: "whether the bus is locked while a cell is copied",
    kind: Kind::Choice {
        default: "1",
        of: &["0", "1"],
    },
};

impl Experiment for Direct {
    fn name(&self) -> &'static str {
        "ring-dma"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, section 7: direct memory access"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: [Parameter; 11] = super::and([LOCK, PROTOCOL, WORD, ARBITRATION]);
        &ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let model = Model::new(settings);
        let word = us(model.station.host_word);
        // The first word is the CPU's, and among what the protocol takes.
        let rest = settings.number("protocol_us") - word;
        let instruction = rest / Rational::from(model.host.costs.instructions.transmit_cell);
        let costs = HostCosts {
            transmit: ps(instruction * dec("1000")),
            ..model.host.costs
        };
        let model = model.with(costs);
        let arbitration = ps(settings.number("arbitration_ns"));
        let within = Dma {
            arbitration,
            word: ps(settings.number("dma_word_ns")),
            locks: settings.choice("lock") == "1",
        };
        let unlocked = Dma {
            locks: false,
            ..within
        };
        // Beside the 7.4 us that are measured for the copy.
        let beside = Dma {
            arbitration: arbitration.plus(arbitration),
            ..within
        };
        let mut cells = Vec::new();
        for (n, dma) in [within, beside, unlocked].into_iter().enumerate() {
            cells.push(cell(&model, dma)?);
            progress.step(n as u64 + 1, 3);
        }
        let [within, beside, unlocked] = [cells[0], cells[1], cells[2]];
        let checks = checks(within, beside, unlocked, rest);
        Ok(Outcome {
            tables: vec![table(within, beside, unlocked)],
            figures: vec![Figure::of_claims("claims", "DMA", &checks)],
            checks,
            notes: vec![format!(
                "The copy of 7.4 us is of eight words: the first is the CPU's, {} us of the 3.3 \
                 that \"remained\", which leaves {} us of what took 3.9 without DMA. 24 and 27 \
                 Mbit/s fit if the 0.3 us of arbitration are among the 7.4.",
                word.fixed(2),
                rest.fixed(2)
            )],
        })
    }
}

/// A cell's microseconds, and bus errors of two blocks.
#[derive(Clone, Copy)]
struct Cell {
    us: Rational,
    bus_errors: u64,
    lost: u64,
}

fn cell(model: &Model, dma: Dma) -> Result<Cell, Error> {
    let host = HostSpec {
        dma: Some(dma),
        ..model.host
    };
    let model = Model { host, ..*model };
    let mut bus_errors = 0;
    let mut lost = 0;
    let mut time = |cells: usize| -> Result<_, Error> {
        let scripts = [
            super::Script::sends(super::to(1, cells), 1),
            super::Script::default(),
        ];
        let mut network = model.network(Notify::Every, scripts);
        network.run(super::END, |network| {
            network.hosts()[0].counts().sent_blocks == 1
        });
        let sent = us(network.now());
        network.run(
            network.now().plus(crate::world::Ps::from_ns(10_000_000)),
            |_| false,
        );
        bus_errors += network.hosts()[0].counts().bus_errors;
        lost += cells as u64 - network.stations()[1].counts().passed;
        Ok((cells, sent))
    };
    let us = slope([time(50)?, time(150)?]);
    Ok(Cell {
        us,
        bus_errors,
        lost,
    })
}

fn table(within: Cell, beside: Cell, unlocked: Cell) -> Table {
    let mut table = Table::new(
        "dma",
        "Cells that an interface copies by itself",
        &[
            ("variant", "variant"),
            ("cell_us", "a cell, us"),
            ("bus_errors", "bus errors"),
            ("lost_cells", "cells lost"),
        ],
    );
    for (name, cell) in [
        ("arbitration within the 7.4 us", within),
        ("arbitration beside them", beside),
        ("the bus not locked", unlocked),
    ] {
        table.row([
            Entry::text(name),
            Entry::number(cell.us, 2),
            Entry::number(cell.bus_errors, 0),
            Entry::number(cell.lost, 0),
        ]);
    }
    table
}

fn checks(within: Cell, beside: Cell, unlocked: Cell, rest: Rational) -> Vec<Check> {
    let near = Tolerance::Percent(dec("1"));
    let claim = |what: &str, paper: &str| Claim::calibrated("C12", what, paper);
    let value = |us: Rational| Value::new(us, 2, "us");
    let count = |of: u64| Value::new(of, 0, "");
    vec![
        claim("a cell", "7.4 and 3.3 us")
            .reading("arbitration within the copy")
            .number(dec("10.7"), near, &value(within.us)),
        claim("a cell", "7.4, 3.3 and 0.3 us")
            .reading("arbitration beside it")
            .number(dec("11.0"), near, &value(beside.us)),
        claim("data within a block", "24 Mbit/s")
            .prints(dec("24"))
            .number(dec("23.93"), near, &mbit_s(DATA_BITS, within.us)),
        claim("cells within a block", "27 Mbit/s")
            .prints(dec("27"))
            .number(dec("26.92"), near, &mbit_s(CELL_BITS, within.us)),
        claim("protocol without the first word", "remained at 3.3 us").number(
            dec("1.97"),
            Tolerance::Absolute(dec("0.01")),
            &value(rest),
        ),
        claim("bus errors with the lock", "no explicit synchronisation").number(
            dec("0"),
            Tolerance::Exact,
            &count(within.bus_errors + beside.bus_errors),
        ),
        claim("bus errors without", "a bus error").number(
            dec("1"),
            Tolerance::AtLeast,
            &count(unlocked.bus_errors),
        ),
        claim("cells lost, each by a bus error", "").number(
            Rational::from(unlocked.bus_errors),
            Tolerance::Exact,
            &count(unlocked.lost),
        ),
    ]
}
