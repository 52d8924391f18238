//! *High Performance ATM Terminals*: files from PC to PC over AAL3/4.

mod abr;
mod arithmetic;
mod crc;
mod disk;
mod figure_10;
mod figure_11;
mod figure_12;
mod figure_8;
mod figure_9;
mod polling;
mod stacks;

pub(in crate::experiments) use abr::Abr;
pub(in crate::experiments) use arithmetic::Arithmetic;
pub(in crate::experiments) use crc::HardwareCrc;
pub(in crate::experiments) use disk::Disk;
pub(in crate::experiments) use figure_8::Figure8;
pub(in crate::experiments) use figure_9::Figure9;
pub(in crate::experiments) use figure_10::Figure10;
pub(in crate::experiments) use figure_11::Figure11;
pub(in crate::experiments) use figure_12::Figure12;
pub(in crate::experiments) use polling::Polling;
pub(in crate::experiments) use stacks::Stacks;

use cellgate_core::line::LineSpec;
use cellgate_core::terminal::{Arq, Copies, Crc, Events, Stack, TickCells, Variant};
use cellgate_report::{Rational, dec};

use super::{Error, Experiment, Parameter, Progress, Settings};
use crate::machine::pc386::{Pace, Pair, PairConfig, PairCounts, PairError, Pc386Costs, Pc386Work};
use crate::world::Ps;

/// Cells per second of the paper's hardware: 60 % of it are the 410,000 octets per second of the
/// file transfer (the paper does not give 100 %).
const HARDWARE_CELL_S: u32 = 15_530;

const MILLISECONDS: Parameter = Parameter::whole(
    "milliseconds",
    "virtual time per point, ms",
    2_000,
    (200, 100_000),
);

/// As the paper's: AAL3/4, the board makes the CRC, nothing is copied, flags are polled.
const PAPER: Variant = Variant {
    events: Events::Flags,
    copies: Copies::None,
    crc: Crc::Hardware,
    tick_cells: TickCells::Any,
};

fn config(costs: Pc386Costs, variant: Variant, pdu_len: u16) -> PairConfig {
    PairConfig {
        stack: Stack::Aal34,
        variants: [variant; 2],
        costs,
        line_cell_s: HARDWARE_CELL_S,
        pdu_len,
        arq: Arq::GoBackN,
        window: 4 * u64::from(pdu_len),
        line: LineSpec::default(),
        pace: None,
        disk: None,
    }
}

/// Virtual time that does not count, and twice as much that does.
fn spans(milliseconds: u64) -> (Ps, Ps) {
    let ms = |ns| Ps::from_ns(milliseconds * ns);
    (ms(500_000), ms(1_000_000))
}

/// What comes of a span of virtual time, behind half as much.
fn measured(config: PairConfig, milliseconds: u64) -> Result<PairCounts, Error> {
    let told = |error: PairError| Error::new(error.to_string());
    let (warm, span) = spans(milliseconds);
    Pair::new(config)
        .and_then(|mut pair| pair.run(warm, span))
        .map_err(told)
}

/// Octets of the file per second.
fn octet_s(counts: &PairCounts) -> Rational {
    Rational::from(counts.octets) * dec("1000000000000") / Rational::from(counts.span.ps())
}

/// Cells that the sender had on the line, per second.
fn cell_s(counts: &PairCounts) -> Rational {
    Rational::from(counts.cells) * dec("1000000000000") / Rational::from(counts.span.ps())
}

/// Octets in cells of AAL3/4 per second, as the paper counts.
fn cell_octet_s(counts: &PairCounts) -> Rational {
    cell_s(counts) * Pc386Work::CELL_OCTETS
}

/// For drawing: thousands.
fn thousands(number: Rational) -> f64 {
    number.to_f64() / 1e3
}
