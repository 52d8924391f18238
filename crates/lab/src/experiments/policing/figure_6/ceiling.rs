//! How much a cell-level scheduler on the i960 carries, and PDU interleaving beside it.

use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Panel, Rational, Series, Table, Tolerance, Value, dec,
};

use super::shared::{SHARED, Sharing};
use super::{Error, HostCosts, Ps, SDU, address, per_s, rate};
use crate::machine::{BoardConfig, FIFOS, Pacing, Quiet, SendSpec, Workstation};

/// Connections on the FIFO, of equal rates.
const CONNECTIONS: u16 = 4;
/// Cells/s of all of them together.
const ASKED_CELL_S: [u64; 8] = [
    25_000, 50_000, 100_000, 125_000, 150_000, 200_000, 275_000, 350_000,
];
/// The FIFO of best effort.
const BEST_EFFORT: usize = FIFOS - 1;

/// What left, in cells/s.
struct Point {
    asked: u64,
    /// Of the shared FIFO.
    shared: Rational,
    best_effort: Rational,
}

/// All rates, either way of sharing.
pub(super) struct Ceiling {
    by_cell: Vec<Point>,
    by_pdu: Vec<Point>,
}

impl Ceiling {
    pub(super) fn measured(config: BoardConfig, span: Ps) -> Result<Self, Error> {
        let all = |sharing: Sharing| {
            let points = ASKED_CELL_S.iter();
            let points = points.map(|asked| Point::measured(config, span, sharing, *asked));
            points.collect::<Result<_, _>>()
        };
        Ok(Self {
            by_cell: all(Sharing::ByCell)?,
            by_pdu: all(Sharing::ByPdu)?,
        })
    }

    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(
            "ceiling",
            "Four connections of equal rates on one FIFO, best effort beside them, cells/s",
            &[
                ("asked_cell_s", "asked for"),
                ("by_cell_cell_s", "scheduled by cell"),
                ("by_cell_best_effort_cell_s", "best effort"),
                ("by_pdu_cell_s", "interleaved by PDU"),
                ("by_pdu_best_effort_cell_s", "best effort"),
            ],
        );
        for (by_cell, by_pdu) in self.by_cell.iter().zip(&self.by_pdu) {
            table.row([
                Entry::number(by_cell.asked, 0),
                Entry::number(by_cell.shared, 0),
                Entry::number(by_cell.best_effort, 0),
                Entry::number(by_pdu.shared, 0),
                Entry::number(by_pdu.best_effort, 0),
            ]);
        }
        table
    }

    pub(super) fn figure(&self) -> Figure {
        let asked = |point: &Point| point.asked as f64 / 1e3;
        let drawn = |points: &[Point], of: fn(&Point) -> Rational| {
            let points = points.iter();
            points
                .map(|point| (asked(point), of(point).to_f64() / 1e3))
                .collect()
        };
        let wanted = self
            .by_cell
            .iter()
            .map(|point| (asked(point), asked(point)));
        let series = vec![
            Series::new("asked for", Look::Expected, wanted.collect()),
            Series::new(
                "interleaved by PDU",
                Look::Line,
                drawn(&self.by_pdu, |p| p.shared),
            ),
            Series::new(
                "scheduled by cell",
                Look::Line,
                drawn(&self.by_cell, |p| p.shared),
            ),
            Series::new(
                "best effort beside that",
                Look::Line,
                drawn(&self.by_cell, |p| p.best_effort),
            ),
        ];
        let panel = Panel {
            x: Axis::linear("asked for, 1,000 cells/s"),
            y: Axis::linear("1,000 cells/s"),
            series,
            marks: Vec::new(),
        };
        Figure::single(
            "ceiling",
            "What one FIFO of four connections carries",
            panel,
        )
    }

    pub(super) fn checks(&self) -> Vec<Check> {
        let value = |rate: Rational| Value::new(rate, 0, "cells/s");
        let low = self.by_cell.iter().filter(|point| point.asked <= 50_000);
        let mut checks: Vec<_> = low
            .map(|point| {
                let what = format!("scheduled by cell, {} cells/s", point.asked);
                let claim = Claim::derived("P0.10", &what, "quite low data rates");
                let near = Tolerance::Percent(dec("0.5"));
                claim.number(point.asked.into(), near, &value(point.shared))
            })
            .collect();
        if let Some(most) = self.by_pdu.last() {
            let what = format!("interleaved by PDU, {} cells/s", most.asked);
            let claim = Claim::derived("P0.10", &what, "handled similarly");
            let near = Tolerance::Percent(dec("0.5"));
            checks.push(claim.number(most.asked.into(), near, &value(most.shared)));
        }
        if let Some(most) = self.by_cell.last() {
            let what = format!("scheduled by cell, {} cells/s", most.asked);
            let fails = most.shared < dec("0.95") * Rational::from(most.asked);
            let claim = Claim::shape("P0.10", &what, "likely to fail at high rates");
            checks.push(claim.holds(fails, &format!("{:.0} cells/s", most.shared.to_f64())));
        }
        checks
    }
}

impl Point {
    fn measured(
        config: BoardConfig,
        span: Ps,
        sharing: Sharing,
        asked: u64,
    ) -> Result<Self, Error> {
        let mut workstation = Workstation::new(config, HostCosts::NONE)?;
        for n in 0..CONNECTIONS {
            workstation.send(&SendSpec {
                address: address(32 + n)?,
                fifo: SHARED,
                sdu: SDU,
                pacing: sharing.pacing(rate(asked / u64::from(CONNECTIONS))?),
            })?;
        }
        workstation.send(&SendSpec {
            address: address(32 + CONNECTIONS)?,
            fifo: BEST_EFFORT,
            sdu: SDU,
            pacing: Pacing::ByFifo,
        })?;
        workstation.run(workstation.now().plus(Ps::from_ns(20_000_000)), &mut Quiet);
        let (begin, before) = (workstation.now(), workstation.board().counts().departed);
        workstation.run(begin.plus(span), &mut Quiet);
        let span = workstation.now().since(begin);
        let departed = workstation.board().counts().departed;
        let of = |fifo: usize| per_s(departed[fifo] - before[fifo], span);
        Ok(Self {
            asked,
            shared: of(SHARED),
            best_effort: of(BEST_EFFORT),
        })
    }
}
