use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::wires::{self, Wire, Wires};
use super::{Error, Experiment, Parameter, Progress, Settings};
use crate::machine::ethernet::EtherSpec;

/// Pings on the ring and on an Ethernet.
pub(in crate::experiments) struct Figure8;

/// Octets of a ping: those of whole cells, and those of a packet of 1,500 with MSDL's own.
const OCTETS: [usize; 9] = [
    32,
    128,
    256,
    448,
    640,
    832,
    1_024,
    1_280,
    EtherSpec::BLOCK_MAX,
];

struct Point {
    octets: usize,
    ring_us: Rational,
    ether_us: Rational,
}

impl Point {
    fn behind_ms(&self) -> Rational {
        (self.ether_us - self.ring_us) / dec("1000")
    }
}

impl Experiment for Figure8 {
    fn name(&self) -> &'static str {
        "ring-figure-8"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, Figure 8: pings on the ring and on an Ethernet"
    }

    fn parameters(&self) -> &'static [Parameter] {
        wires::PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let wires = Wires::new(settings);
        let mut points = Vec::new();
        for (n, octets) in OCTETS.into_iter().enumerate() {
            points.push(Point {
                octets,
                ring_us: wires.ping(Wire::Ring, octets)?,
                ether_us: wires.ping(Wire::Ethernet, octets)?,
            });
            progress.step(n as u64 + 1, OCTETS.len() as u64);
        }
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points)],
            checks: checks(&points),
            notes: vec![
                "Both curves are lost; the two gaps are printed, and fix what the Ethernet's \
                 interface takes to start and for a word. A large packet is taken to be one of \
                 1,500 octets, of which MSDL has four. It is on the wire for 1.2 ms each way, and \
                 is sent when all of it is there, and read when all of it has come; a cell of the \
                 ring is read while the next ones are sent."
                    .to_owned(),
            ],
        })
    }
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "times",
        "A ping by its octets",
        &[
            ("octets", "octets"),
            ("ring_us", "ring, us"),
            ("ether_us", "Ethernet, us"),
            ("behind_ms", "behind by, ms"),
        ],
    );
    for point in points {
        table.row([
            Entry::number(point.octets as u64, 0),
            Entry::number(point.ring_us, 1),
            Entry::number(point.ether_us, 1),
            Entry::number(point.behind_ms(), 3),
        ]);
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let curve = |of: &dyn Fn(&Point) -> Rational| -> Vec<(f64, f64)> {
        let point = |p: &Point| (p.octets as f64, of(p).to_f64() / 1_000.0);
        points.iter().map(point).collect()
    };
    let panel = Panel {
        x: Axis::linear("octets").to(1_500.0),
        y: Axis::linear("ping, ms"),
        series: vec![
            Series::new("Ethernet", Look::Dashed, curve(&|p| p.ether_us)),
            Series::new("ring", Look::Dotted, curve(&|p| p.ring_us)),
        ],
        marks: Vec::new(),
    };
    Figure::single("times", "Two-way delay on ring and Ethernet", panel)
}

fn checks(points: &[Point]) -> Vec<Check> {
    let behind = |point: Option<&Point>| point.map_or(Rational::ZERO, Point::behind_ms);
    // Tighter than what is printed: a constant that is wrong by 5 % moves a gap by 2 % or more.
    let near = Tolerance::Percent(dec("1"));
    let gap = |what: &str, printed: &str, ours: Rational| {
        Claim::calibrated("8", what, &format!("{printed} millisecond"))
            .prints(dec(printed))
            .number(dec(printed), near, &Value::new(ours, 3, "ms"))
    };
    let rises = points.is_sorted_by(|fewer, more| fewer.behind_ms() < more.behind_ms());
    vec![
        gap("Ethernet is behind, a cell's octets", "1.2", {
            behind(points.first())
        }),
        gap("Ethernet is behind, a packet of 1,500", "3.1", {
            behind(points.last())
        }),
        Claim::shape("8", "the more octets, the further behind", "two lines")
            .holds(rises, if rises { "rises" } else { "falls somewhere" }),
    ]
}
