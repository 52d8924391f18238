use cellgate_report::{
    At, Axis, Check, Claim, Entry, Figure, Look, Mark, Outcome, Panel, Rational, Series, Table,
    Tolerance, Value, dec,
};

use super::{BoardConfig, Error, Experiment, HostCosts, Progress, Ps, Settings, address, cells};
use crate::machine::{Esp, Pacing, Quiet, SendSpec, Workstation};

/// Accesses to the ESP with header coalescing.
pub(in crate::experiments) struct Figure4;

/// The largest PDU of the figure, in cells: 9,180 octets.
const CELLS_MAX: u16 = 192;

/// One size of PDU.
struct Point {
    sdu: u16,
    coalesced: u64,
    single: u64,
}

impl Point {
    /// Sends one PDU with the real adapter and counts what the i960 would write.
    fn measured(sdu: u16) -> Result<Self, Error> {
        let mut esp = Esp::default();
        esp.begin_pdu();
        for cell in sent(sdu)? {
            esp.write(&cell);
        }
        Ok(Self {
            sdu,
            coalesced: esp.coalesced(),
            single: esp.single(),
        })
    }

    fn percent(&self) -> Rational {
        Rational::from(self.coalesced) * Rational::whole(100) / Rational::from(self.single)
    }
}

/// The cells of a PDU, as they leave the board.
fn sent(sdu: u16) -> Result<Vec<crate::world::Octets>, Error> {
    let mut workstation = Workstation::new(BoardConfig::PAPER, HostCosts::NONE)?;
    workstation.board().keep_departed();
    workstation.send(&SendSpec {
        address: address(32)?,
        fifo: 0,
        sdu,
        pacing: Pacing::ByFifo,
    })?;
    let count = usize::try_from(cells(sdu).floor()).unwrap_or(0);
    let mut sent = Vec::new();
    // 192 cells are on the line after 1 ms.
    for _ in 0..100 {
        workstation.run(workstation.now().plus(Ps::from_ns(50_000)), &mut Quiet);
        sent.extend(
            workstation
                .board()
                .take_departed()
                .iter()
                .map(|cell| cell.octets),
        );
        if sent.len() >= count {
            sent.truncate(count);
            return Ok(sent);
        }
    }
    Err(Error::new(format!("no PDU of {sdu} octets left the board")))
}

/// The largest SDU in so many cells.
fn largest_in(cells: u16) -> u16 {
    cells * 48 - 8
}

/// What the number of accesses is, by counting: n cells take 12 n words and a header each, or two
/// headers (one, if the first cell is the last).
fn law(cells: u16) -> Rational {
    let headers = cells.min(2);
    let with = u32::from(12 * cells + headers);
    Rational::whole(100) * with.into() / u32::from(13 * cells).into()
}

impl Experiment for Figure4 {
    fn name(&self) -> &'static str {
        "policing-figure-4"
    }

    fn source(&self) -> &'static str {
        "Policing Offloaded, Figure 4: effects of header coalescing"
    }

    fn run(&self, _: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let mut points = Vec::new();
        for n in 1..=CELLS_MAX {
            // Both ends of the step, so that its width is seen.
            let first = if n == 1 { 1 } else { largest_in(n - 1) + 1 };
            for sdu in [first, largest_in(n)] {
                points.push(Point::measured(sdu)?);
            }
            progress.step(n.into(), CELLS_MAX.into());
        }
        let at_mtu = Point::measured(9_180)?;
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points)],
            checks: checks(&points, &at_mtu),
            notes: vec![
                "Each PDU is sent by the adapter, and its cells are written to a header register \
                 and a payload port as section 5.1 describes them."
                    .to_owned(),
            ],
        })
    }
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "accesses",
        "Accesses to the ESP for one PDU",
        &[
            ("sdu_octets", "octets"),
            ("cells", "cells"),
            ("accesses", "accesses"),
            ("accesses_single", "without coalescing"),
            ("percent", "%"),
        ],
    );
    let shown = [1, 2, 3, 6, 11, 22, 23, 32, 80, 86, 171, 192];
    for n in shown {
        let of = |point: &&Point| point.sdu == largest_in(n);
        if let Some(point) = points.iter().find(of) {
            table.row([
                Entry::number(u32::from(point.sdu), 0),
                Entry::number(u32::from(n), 0),
                Entry::number(point.coalesced, 0),
                Entry::number(point.single, 0),
                Entry::number(point.percent(), 3),
            ]);
        }
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let ours = points
        .iter()
        .map(|p| (f64::from(p.sdu), p.percent().to_f64()));
    let law = points
        .iter()
        .map(|p| (f64::from(p.sdu), law_of(p).to_f64()));
    let panel = Panel {
        x: Axis::linear("PDU size, octets of SDU"),
        y: Axis::linear("accesses with header coalescing, % of those without")
            .from(91.0)
            .to(100.0),
        series: vec![
            Series::new("expected: (12 n + 2) / 13 n", Look::Expected, law.collect()),
            Series::new("ours", Look::Line, ours.collect()),
            Series::new(
                "printed: 92.3 % at 9,180",
                Look::Printed,
                vec![(9_180.0, 92.3)],
            ),
        ],
        marks: vec![Mark {
            at: At::Y(1_200.0 / 13.0),
            label: "asymptote 12/13".to_owned(),
        }],
    };
    Figure::single("accesses", "Header coalescing", panel)
}

fn law_of(point: &Point) -> Rational {
    law(u16::try_from(cells(point.sdu).floor()).unwrap_or(u16::MAX))
}

/// What one cell more adds to the largest PDU but one, in per cent of what it adds without
/// coalescing.
fn further(points: &[Point]) -> Option<Rational> {
    let of = |n: u16| points.iter().find(|point| point.sdu == largest_in(n));
    let (less, more) = (of(CELLS_MAX - 1)?, of(CELLS_MAX)?);
    let added = |accesses: fn(&Point) -> u64| {
        Rational::from(accesses(more)) - Rational::from(accesses(less))
    };
    let coalesced = added(|point| point.coalesced) * Rational::whole(100);
    coalesced.over(added(|point| point.single))
}

fn checks(points: &[Point], at_mtu: &Point) -> Vec<Check> {
    let near = Tolerance::Absolute(dec("0.01"));
    let percent = |number: Rational| Value::new(number, 3, "%");
    let what = "accesses with header coalescing, 9,180 octets";
    let mut checks = vec![
        Claim::derived("P0.7", what, "92.3 %")
            .reading("the PDU itself: 2,306 of 2,496")
            .number(dec("92.388"), near, &percent(at_mtu.percent())),
        Claim::derived("P0.7", what, "92.3 %")
            .reading("infinitely many cells: each further one")
            .number(dec("92.308"), near, &Value::ratio(further(points), 3, "%")),
        Claim::derived("P0.7", "accesses saved at 9,180 octets", "nearly 8 %").number(
            dec("7.612"),
            near,
            &percent(Rational::whole(100) - at_mtu.percent()),
        ),
    ];
    let of = |n: u16| {
        points
            .iter()
            .filter(move |p| cells(p.sdu) == u32::from(n).into())
    };
    for (n, expected) in [
        (1, "100"),
        (2, "100"),
        (3, "97.436"),
        (11, "93.706"),
        (22, "93.007"),
        (171, "92.398"),
    ] {
        for point in of(n) {
            let what = format!("accesses, {n} cells ({} octets)", point.sdu);
            let claim = Claim::derived("4", &what, "");
            checks.push(claim.number(dec(expected), near, &percent(point.percent())));
        }
    }
    let falls = points.is_sorted_by(|a, b| a.percent() >= b.percent());
    let claim = Claim::derived(
        "4",
        "falls with the size of the PDU, in steps of 48 octets",
        "",
    );
    let steps = points.iter().all(|p| p.percent() == law_of(p));
    checks.push(claim.holds(falls && steps, if falls && steps { "yes" } else { "no" }));
    for (below, expected) in [("95", "6"), ("93", "23"), ("92.5", "80")] {
        let first = points.iter().find(|point| point.percent() <= dec(below));
        let ours = Value::new(first.map_or(Rational::ZERO, |p| cells(p.sdu)), 0, "cells");
        let what = format!("first size with {below} % or less");
        let claim = Claim::derived("4", &what, "");
        checks.push(claim.number(dec(expected), Tolerance::Exact, &ours));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_for_every_cell_fails_the_checks() {
        let all = |n: u16| Point {
            sdu: largest_in(n),
            coalesced: u64::from(13 * n),
            single: u64::from(13 * n),
        };
        let points: Vec<_> = (1..=CELLS_MAX).map(all).collect();
        let checks = checks(&points, &all(CELLS_MAX));
        let fails = |id: &str, words: &str| {
            let mut of = checks
                .iter()
                .filter(|c| c.id == id && c.what.contains(words));
            of.any(|check| !check.pass)
        };
        assert!(fails("P0.7", "9,180") && fails("4", "22 cells") && fails("4", "steps of 48"));
    }
}
