mod bridge;

use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::{
    Error, Experiment, Model, Notify, PARAMETERS, Parameter, Progress, Script, Seat, Settings,
    V1sSpec, done, received, to, us,
};
use crate::machine::v1s::{FalseTraffic, Network};
use crate::world::Ps;

/// A ring with other traffic, which the paper has for future work.
pub(in crate::experiments) struct Load;

const LOADS: [&str; 9] = ["0", "0.2", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "0.95"];
/// Cells of a ping's block, and pings.
const CELLS: usize = 64;
const PINGS: u64 = 12;
/// Stations whose hosts do nothing, and where the two that ping are among all.
const OTHERS: u32 = 15;
const ASKS: usize = 0;
const ANSWERS: usize = 8;

/// Other traffic, and pings beside it.
struct Point {
    load: Rational,
    ping_us: Rational,
    wait_us: Rational,
    interrupts: Rational,
    /// Of the host that answers, a ping.
    busy_us: Rational,
}

impl Experiment for Load {
    fn name(&self) -> &'static str {
        "ring-load"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, section 8: a more heavily loaded network (future work)"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let model = Model::new(settings);
        let mut points = Vec::new();
        for (n, load) in LOADS.into_iter().enumerate() {
            points.push(point(&model, dec(load))?);
            progress.step(n as u64 + 1, LOADS.len() as u64);
        }
        let ways = bridge::ways(&model)?;
        let mut checks = checks(&points);
        checks.extend(bridge::checks(&ways));
        Ok(Outcome {
            tables: vec![table(&points), bridge::table(&ways)],
            figures: vec![figure(&points)],
            checks,
            notes: vec![
                "The false traffic generators of 15 stations offer cells for so many slots of both \
                 channels; passed on, 15 of 16 are the most. A cell that waits for a slot comes \
                 late, so that a receiver finds no next one: the one interrupt a block is the idle \
                 ring's."
                    .to_owned(),
                "A bridge that sends each cell on when it has read it has a cell in hand for \
                 33.9 us, so that its receiver finds none either, unless it waits for the next. \
                 Cut-through saves what a block costs beside its cells, and little of a cell's \
                 36.06 us by block, since one CPU reads and writes it."
                    .to_owned(),
            ],
        })
    }
}

/// A ring whose slots have such a share of other traffic.
fn network(model: &Model, load: Rational) -> Network<Script> {
    let ring = &model.ring;
    let slots_us = Rational::from(ring.frames) / us(ring.rotation);
    // Nanoseconds between two cells of one of them.
    let every = dec("1000").over(load * slots_us / Rational::from(OTHERS));
    let every = every.map(super::ps);
    let stations = OTHERS as usize + 2;
    let seat = |n: usize| {
        let (channel, application) = match n {
            ASKS => (0, Script::pings(to(1, CELLS), PINGS)),
            ANSWERS => (1, Script::answers(to(0, 0))),
            _ => (2, Script::default()),
        };
        let is_other = channel == 2;
        let traffic = every.filter(|_| is_other).map(|every| FalseTraffic {
            every,
            channels: 2,
            from: Ps::new(every.ps() * n as u64 / stations as u64),
            until: Ps::MAX,
        });
        let circuits = (!is_other).then_some((u16::from(channel) + 1, Notify::Every));
        Seat {
            place: n as u32 * ring.places / stations as u32,
            station: V1sSpec {
                channel,
                false_traffic: traffic,
                ..model.station
            },
            host: model.host,
            circuits: circuits.into_iter().collect(),
            application,
        }
    };
    Network::new(*ring, (0..stations).map(seat).collect())
}

fn point(model: &Model, load: Rational) -> Result<Point, Error> {
    let mut network = network(model, load);
    network.run(super::END, |network| {
        received(network, ASKS).len() as u64 == PINGS
    });
    let network = done(network)?;
    let pinger = &network.hosts()[ASKS];
    let (begun, came) = (&pinger.application().begun, received(&network, ASKS));
    let times = begun
        .iter()
        .zip(came)
        .map(|(begun, came)| us(came.since(*begun)));
    let pings = Rational::from(PINGS);
    let counts = network.hosts()[ANSWERS].counts();
    Ok(Point {
        load,
        ping_us: times.fold(Rational::ZERO, |sum, time| sum + time) / pings,
        wait_us: us(network.stations()[ASKS].counts().longest_wait),
        interrupts: Rational::from(counts.interrupts) / pings,
        busy_us: us(counts.busy) / pings,
    })
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "load",
        "Pings of 64 cells on a loaded ring",
        &[
            ("load", "other traffic, of the slots"),
            ("ping_us", "ping, us"),
            ("wait_us", "longest wait of a cell, us"),
            ("interrupts", "interrupts a block"),
            ("busy_us", "CPU of a ping, us"),
        ],
    );
    for point in points {
        table.row([
            Entry::number(point.load, 2),
            Entry::number(point.ping_us, 0),
            Entry::number(point.wait_us, 1),
            Entry::number(point.interrupts, 1),
            Entry::number(point.busy_us, 0),
        ]);
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let curve = |of: &dyn Fn(&Point) -> Rational| -> Vec<(f64, f64)> {
        let point = |p: &Point| (p.load.to_f64(), of(p).to_f64());
        points.iter().map(point).collect()
    };
    let panel = |label: &str, y: &str, of: &dyn Fn(&Point) -> Rational| Panel {
        x: Axis::linear(label).to(1.0),
        y: Axis::linear(y),
        series: vec![Series::new("", Look::Dotted, curve(of))],
        marks: Vec::new(),
    };
    Figure::stacked(
        "load",
        "Pings of 64 cells on a loaded ring",
        vec![
            panel("", "ping, ms", &|p| p.ping_us / dec("1000")),
            panel("", "interrupts a block", &|p| p.interrupts),
            panel("other traffic, of the slots", "CPU of a ping, ms", &|p| {
                p.busy_us / dec("1000")
            }),
        ],
    )
}

fn checks(points: &[Point]) -> Vec<Check> {
    let falls = |of: &dyn Fn(&Point) -> Rational| {
        let mut most = Rational::ZERO;
        let falls = points.iter().map(|point| {
            most = most.max(of(point));
            most.over(of(point))
                .map_or(Rational::ZERO, |over| over - dec("1"))
        });
        falls.max().unwrap_or(Rational::ZERO)
    };
    let claim = |what: &str, of: &dyn Fn(&Point) -> Rational| {
        Claim::shape("load", what, "to be measured").number(
            dec("2"),
            Tolerance::AtMost,
            &Value::new(falls(of) * dec("100"), 1, "%"),
        )
    };
    let first = points
        .first()
        .map_or(Rational::ZERO, |point| point.interrupts);
    let last = points
        .last()
        .map_or(Rational::ZERO, |point| point.interrupts);
    let interrupts = |of: Rational| Value::new(of, 1, "interrupts");
    // All others send on the channel, and who pings.
    let bound = us(super::RingSpec::PAPER.rotation) * Rational::from(OTHERS + 2);
    let longest = points
        .iter()
        .map(|point| point.wait_us)
        .max()
        .unwrap_or(Rational::ZERO);
    vec![
        claim("ping falls with the load by at most", &|p| p.ping_us),
        claim("interrupts fall with the load by at most", &|p| {
            p.interrupts
        }),
        claim("CPU time falls with the load by at most", &|p| p.busy_us),
        Claim::derived("load", "interrupts of a block on an idle ring", "").number(
            dec("1"),
            Tolerance::Exact,
            &interrupts(first),
        ),
        Claim::shape(
            "load",
            "the same where others offer 95 %",
            "not necessarily",
        )
        .number(dec("2"), Tolerance::AtLeast, &interrupts(last)),
        Claim::derived(
            "load",
            "longest wait of a cell, N + 1 rotations at most",
            "",
        )
        .number(bound, Tolerance::AtMost, &Value::new(longest, 1, "us")),
    ]
}
