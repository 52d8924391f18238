//! A bridge between two stations: blocks go on as a whole, or cell by cell.

use cellgate_report::{Check, Claim, Entry, Rational, Table, Tolerance, Value, dec};

use super::super::{
    END, Error, HostSpec, Model, Network, Notify, Script, done, ps, received, slope, to, us,
};
use crate::machine::v1s::Onward;
use crate::world::Ps;

/// Cells of the block, and of one that is longer.
const CELLS: usize = 64;
const MORE: usize = 128;
/// Longer than a bridge by cell leaves its receiver without one.
const DALLY_US: Rational = dec("20");

/// The way of blocks to the last host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Nobody,
    Block,
    Cell,
}

/// What a way does to the last host.
pub(super) struct Way {
    name: &'static str,
    interrupts: u64,
    /// From the call that sends the block to the process that has it.
    delay_us: Rational,
    /// Of that, what a cell more takes.
    cell_us: Rational,
    /// Of the last host's CPU.
    busy_us: Rational,
}

const SENDER: usize = 0;
const BRIDGE: u8 = 1;
const LAST: u8 = 2;

pub(super) fn ways(model: &Model) -> Result<[Way; 4], Error> {
    let dally = ps(DALLY_US * dec("1000"));
    Ok([
        way(model, "no bridge", By::Nobody, Ps::ZERO)?,
        way(model, "by block", By::Block, Ps::ZERO)?,
        way(model, "by cell", By::Cell, Ps::ZERO)?,
        way(model, "by cell, a dally of 20 us", By::Cell, dally)?,
    ])
}

fn way(model: &Model, name: &'static str, by: By, dally: Ps) -> Result<Way, Error> {
    let block = |cells| -> Result<_, Error> {
        let network = one_block(model, by, dally, cells)?;
        let begun = network.hosts()[SENDER].application().begun[0];
        let came = received(&network, LAST.into())[0];
        let counts = *network.hosts()[usize::from(LAST)].counts();
        Ok((counts, us(came.since(begun))))
    };
    let ((counts, delay_us), (_, longer_us)) = (block(CELLS)?, block(MORE)?);
    Ok(Way {
        name,
        interrupts: counts.interrupts,
        delay_us,
        cell_us: slope([(CELLS, delay_us), (MORE, longer_us)]),
        busy_us: us(counts.busy),
    })
}

fn one_block(model: &Model, by: By, dally: Ps, cells: usize) -> Result<Network<Script>, Error> {
    let first = if by == By::Nobody { LAST } else { BRIDGE };
    let middle = match by {
        By::Block => Script::answers(to(LAST, 0)),
        By::Nobody | By::Cell => Script::default(),
    };
    let scripts = [
        Script::sends(to(first, cells), 1),
        middle,
        Script::default(),
    ];
    let seats = (1..).zip(model.seats(scripts)).map(|(vci, mut seat)| {
        seat.circuits = vec![(vci, Notify::Every)];
        if vci == u16::from(LAST) + 1 {
            let host = seat.host;
            seat.host = HostSpec { dally, ..host };
        }
        seat
    });
    let mut network = Network::new(model.ring, seats.collect());
    if by == By::Cell {
        let onward = Onward {
            vci: u16::from(LAST) + 1,
            channel: LAST,
        };
        let (_, host) = network.seat(BRIDGE.into());
        host.relays(u16::from(BRIDGE) + 1, onward);
    }
    network.run(END, |network| !received(network, LAST.into()).is_empty());
    done(network)
}

pub(super) fn table(ways: &[Way]) -> Table {
    let mut table = Table::new(
        "bridges",
        "A block of 64 cells behind a bridge, every cell interrupting",
        &[
            ("bridge", "bridge"),
            ("interrupts", "interrupts"),
            ("delay_us", "delay, us"),
            ("cell_us", "a cell of it, us"),
            ("busy_us", "last CPU, us"),
        ],
    );
    for way in ways {
        table.row([
            Entry::text(way.name),
            Entry::number(way.interrupts, 0),
            Entry::number(way.delay_us, 0),
            Entry::number(way.cell_us, 2),
            Entry::number(way.busy_us, 0),
        ]);
    }
    table
}

pub(super) fn checks([alone, block, cell, dallying]: &[Way; 4]) -> Vec<Check> {
    const PAPER: &str = "not necessarily true when cells are bridged";
    let interrupts = |what: &str, way: &Way, expected: u64| {
        Claim::derived("bridge", what, PAPER).number(
            Rational::from(expected),
            Tolerance::Exact,
            &Value::new(way.interrupts, 0, "interrupts"),
        )
    };
    let slope_of = |what: &str, way: &Way, expected: &str| {
        Claim::calibrated("bridge", &format!("{what}, delay"), "").number(
            dec(expected),
            Tolerance::Percent(dec("1")),
            &Value::new(way.cell_us, 2, "us"),
        )
    };
    vec![
        interrupts("interrupts of a block without a bridge", alone, 1),
        interrupts("of one that a bridge sends on as a whole", block, 1),
        interrupts("of one that a bridge sends on by cell", cell, CELLS as u64),
        interrupts("the same, the last host dallying", dallying, 1),
        slope_of("a cell more of a block without a bridge", alone, "18.03"),
        slope_of("of one that a bridge sends on as a whole", block, "36.06"),
        slope_of("of one that a bridge sends on by cell", cell, "33.93"),
    ]
}
