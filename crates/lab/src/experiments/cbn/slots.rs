use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::{
    Error, Experiment, FRAMES, Kind, Parameter, Progress, ROTATION, RingSpec, Settings, us,
};
use crate::cbn::{Diagram, Reuse, Ring, Saturated};
use crate::world::Ps;

/// Saturated stations, and the slots of a channel.
pub(in crate::experiments) struct Slots;

const STATIONS: [u32; 7] = [1, 2, 3, 4, 8, 12, 16];
const ROTATIONS: u64 = 4_000;
const REUSE: Parameter = Parameter {
    key: "reuse",
    what: "what a source does with a slot that it has emptied",
    kind: Kind::Choice {
        default: "passed_on",
        of: &["passed_on", "at_once"],
    },
};
/// How much later than the first the last station begins, where it comes late.
const LATE: u64 = 100;

/// The outcome of a run.
struct Used {
    /// Of the channel's slots.
    share: Rational,
    /// The longest wait of a cell, in rotations.
    longest: Rational,
    /// Cells of the last station.
    of_last: u64,
}

/// Stations at unequal distances, of which the last comes late.
fn run(spec: RingSpec, stations: u32, late: u64) -> Used {
    let places: Vec<_> = (0..stations).map(|n| n * (n + 3) / 2).collect();
    let from = |n: u32| match n + 1 == stations {
        true => Ps::new(late * spec.rotation.ps()),
        false => Ps::ZERO,
    };
    let mut all: Vec<_> = (0..stations).map(|n| Saturated::from(from(n))).collect();
    let mut ring = Ring::new(spec, &places);
    let end = Ps::new(spec.rotation.ps() * ROTATIONS);
    while ring.next() < end {
        ring.turn(&mut all);
    }
    let slots = Rational::from(ROTATIONS * u64::from(spec.frames));
    let longest = all.iter().map(|station| station.longest_until(end)).max();
    Used {
        share: Rational::from(ring.filled(0)) / slots,
        longest: us(longest.unwrap_or(Ps::ZERO)) / us(spec.rotation),
        of_last: all.last().map_or(0, |station| station.sent),
    }
}

fn law(stations: u32) -> Rational {
    Rational::from(stations) / Rational::from(stations + 1)
}

impl Experiment for Slots {
    fn name(&self) -> &'static str {
        "ring-slots"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, sections 1 and 2: a source releases its slot, and passes it on"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[ROTATION, FRAMES, REUSE];
        ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let ring = RingSpec {
            reuse: match settings.choice("reuse") {
                "at_once" => Reuse::AtOnce,
                _ => Reuse::PassedOn,
            },
            ..super::ring(settings)
        };
        let mut points = Vec::new();
        for (n, stations) in STATIONS.into_iter().enumerate() {
            points.push((stations, run(ring, stations, 0)));
            progress.step(n as u64 + 1, STATIONS.len() as u64 + 1);
        }
        let checks = checks(ring, &points);
        progress.step(STATIONS.len() as u64 + 1, STATIONS.len() as u64 + 1);
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points), in_time()],
            checks,
            notes: vec![
                "A slot goes from one of N saturated stations to the next, and is empty from the \
                 last to the first: N of N + 1 rotations it is full, wherever they are. With more \
                 slots than one a cell waits for less than N + 1 rotations."
                    .to_owned(),
            ],
        })
    }
}

fn table(points: &[(u32, Used)]) -> Table {
    let mut table = Table::new(
        "slots",
        "Saturated stations on a channel of 7 slots",
        &[
            ("stations", "stations"),
            ("used", "share of the slots"),
            ("law", "N/(N+1)"),
            ("longest_rotations", "longest wait, rotations"),
        ],
    );
    for (stations, used) in points {
        table.row([
            Entry::number(*stations, 0),
            Entry::number(used.share, 4),
            Entry::number(law(*stations), 4),
            Entry::number(used.longest, 2),
        ]);
    }
    table
}

fn figure(points: &[(u32, Used)]) -> Figure {
    let curve = |of: &dyn Fn(&(u32, Used)) -> Rational| -> Vec<(f64, f64)> {
        let point = |p: &(u32, Used)| (f64::from(p.0), of(p).to_f64());
        points.iter().map(point).collect()
    };
    let panel = Panel {
        x: Axis::linear("saturated stations").to(17.0),
        y: Axis::linear("share of a channel's slots").to(1.0),
        series: vec![
            Series::new("N / (N + 1)", Look::Expected, curve(&|(n, _)| law(*n))),
            Series::new("ours", Look::Dotted, curve(&|(_, used)| used.share)),
        ],
        marks: Vec::new(),
    };
    Figure::single("slots", "Slots that are used", panel)
}

/// Three saturated stations, slot by slot.
fn in_time() -> Figure {
    let places = [0, 60, 150];
    let names = places.iter().map(|place| format!("at {place}"));
    let mut ring = Ring::new(RingSpec::PAPER, &places).watched(None);
    let mut all = places.map(|_| Saturated::from(Ps::ZERO));
    let mut diagram = Diagram::new("three senders", RingSpec::PAPER, names.collect(), None);
    let end = Ps::new(RingSpec::PAPER.rotation.ps() * (Diagram::ROTATIONS + 1));
    while ring.next() < end {
        ring.turn(&mut all);
        ring.take_log().iter().for_each(|deed| diagram.hears(deed));
    }
    Diagram::figure([diagram])
}

fn checks(ring: RingSpec, points: &[(u32, Used)]) -> Vec<Check> {
    let off = |(n, used): &(u32, Used)| (used.share / law(*n) - dec("1")).abs();
    let furthest = points.iter().map(off).max().unwrap_or(Rational::ZERO);
    let in_time = points
        .iter()
        .all(|(n, used)| used.longest <= Rational::from(n + 1));
    let one_slot = RingSpec { frames: 1, ..ring };
    let longest = run(one_slot, 16, 0).longest;
    let one_outstanding = RingSpec {
        outstanding: 1,
        ..ring
    };
    let at_once = RingSpec {
        reuse: Reuse::AtOnce,
        ..ring
    };
    let claim = Claim::derived;
    vec![
        claim("slots", "furthest from N/(N+1)", "").number(
            dec("0.5"),
            Tolerance::AtMost,
            &Value::new(furthest * dec("100"), 2, "%"),
        ),
        claim("slots", "one alone, one slot outstanding", "").number(
            dec("0.125"),
            Tolerance::Percent(dec("0.5")),
            &Value::new(run(one_outstanding, 1, 0).share, 4, "of the slots"),
        ),
        claim("slots", "no cell waits longer than N + 1 rotations", "")
            .holds(in_time, if in_time { "none" } else { "some do" }),
        claim("slots", "the longest wait of 16 stations with one slot", "").number(
            dec("385.9"),
            Tolerance::Exact,
            &Value::new(longest * us(one_slot.rotation), 1, "us"),
        ),
        claim(
            "slots",
            "cells of a station that comes late, slots passed on",
            "",
        )
        .number(
            dec("1000"),
            Tolerance::AtLeast,
            &Value::new(run(ring, 2, LATE).of_last, 0, "cells"),
        ),
        claim("slots", "the same, slots reused at once", "").number(
            dec("0"),
            Tolerance::Exact,
            &Value::new(run(at_once, 2, LATE).of_last, 0, "cells"),
        ),
    ]
}
