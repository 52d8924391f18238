//! *Policing Offloaded* (Dannowski and Härtig): firmware on a PCA-200E that polices, shapes and
//! reassembles.

mod arithmetic;
mod figure_4;
mod figure_5;
mod figure_6;
mod figure_8;
mod figure_9;
mod model;
mod section_5;
mod table_1;

pub(in crate::experiments) use arithmetic::Arithmetic;
pub(in crate::experiments) use figure_4::Figure4;
pub(in crate::experiments) use figure_5::Figure5;
pub(in crate::experiments) use figure_6::Figure6;
pub(in crate::experiments) use figure_8::Figure8;
pub(in crate::experiments) use figure_9::Figure9;
pub(in crate::experiments) use section_5::Section5;
pub(in crate::experiments) use table_1::Table1;

use cellgate_core::contract::{CellRate, aal5_cells};
use cellgate_core::wire::VpiVci;
use cellgate_report::{Rational, dec};

use super::{Error, Experiment, Parameter, Progress, Settings};
use crate::machine::{BoardConfig, Costs, HostCosts};
use crate::world::{Interval, Ps};

/// Bit/s of cells on an OC-3c.
const LINE_BIT_S: u64 = BoardConfig::PAPER.line_bit_s;

/// Cycles of a cell, in every experiment that runs the i960.
const C_CELL: Parameter = Parameter::number(
    "c_cell",
    "cycles of the i960 for a cell (calibrated)",
    Costs::CELL,
    (dec("1"), dec("10000")),
);
/// Cycles of a PDU.
const C_PDU: Parameter = Parameter::number(
    "c_pdu",
    "cycles of the i960 for a PDU beside its cells (calibrated)",
    Costs::PDU,
    (dec("77"), dec("100000")),
);
/// Of the host's interrupt handler.
const INTERRUPT_US: Parameter = Parameter::number(
    "interrupt_us",
    "host CPU of an interrupt, us (ours: the paper's is lost)",
    dec("16"),
    (dec("0"), dec("1000")),
);
/// Of a PDU in it.
const PDU_US: Parameter = Parameter::number(
    "pdu_us",
    "host CPU of a received PDU, us (ours: the paper's is lost)",
    dec("16"),
    (dec("0"), dec("1000")),
);

fn board(settings: &Settings) -> BoardConfig {
    BoardConfig {
        costs: Costs::calibrated(settings.number("c_cell"), settings.number("c_pdu")),
        ..BoardConfig::PAPER
    }
}

fn host(settings: &Settings) -> HostCosts {
    HostCosts {
        interrupt: us(settings.number("interrupt_us")),
        pdu: us(settings.number("pdu_us")),
        event: Ps::from_ns(200),
    }
}

/// The least whole number of PDUs at this interval of cells that takes `least`, and how long they
/// take: a window of these is exact.
fn whole_pdus(interval: Interval, sdu: u16, least: Ps) -> Ps {
    let cells = u64::from(aal5_cells(sdu.into()));
    let pdus = least.ps().div_ceil(interval.times(cells).ps().max(1));
    interval.times(pdus * cells)
}

/// So many microseconds, rounded down.
fn us(us: Rational) -> Ps {
    let ps = (us * dec("1000000")).floor();
    Ps::new(u64::try_from(ps).unwrap_or(0))
}

/// Cells per second of an OC-3c, exact.
fn line_cell_s() -> Rational {
    Rational::from(LINE_BIT_S) / dec("424")
}

/// Cells of the PDU of an SDU of so many octets.
fn cells(sdu: u16) -> Rational {
    aal5_cells(sdu.into()).into()
}

/// Bit/s of SDUs of so many octets on a full line.
fn line_sdu_bit_s(sdu: u16) -> Rational {
    line_cell_s() / cells(sdu) * Rational::whole(8) * Rational::from(u32::from(sdu))
}

/// `count` in `span`, per second.
fn per_s(count: u64, span: Ps) -> Rational {
    Rational::from(count) * dec("1000000000000") / Rational::from(span.ps())
}

/// A VC of the experiments: VPI 0, so that its cells come into receive FIFO `vci` modulo 4.
fn address(vci: u16) -> Result<VpiVci, Error> {
    VpiVci::new(0, vci).ok_or_else(|| Error::new(format!("no VCI {vci}")))
}

fn rate(cell_s: u64) -> Result<CellRate, Error> {
    let rate = u32::try_from(cell_s).ok().and_then(CellRate::new);
    rate.ok_or_else(|| Error::new(format!("no rate of {cell_s} cells/s")))
}

/// For drawing: 10^6 of `number`.
fn millions(number: Rational) -> f64 {
    number.to_f64() / 1e6
}
