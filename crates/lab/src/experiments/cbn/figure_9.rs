use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::ansa::{self, Manners, Procedure, Timed};
use super::wires::{self, Wire, Wires};
use super::{Error, Experiment, Parameter, Progress, Settings, ps};
use crate::world::Ps;

/// Remote procedure calls on the ring and on an Ethernet.
pub(in crate::experiments) struct Figure9;

const RESULT: Parameter = Parameter::whole(
    "result_percent",
    "octets of an echo's result, per cent of its parameter's",
    100,
    (0, 100),
);
const WORK: Parameter = Parameter::number(
    "ansa_us",
    "what ANSA's own code takes of an exchange, us",
    dec("5000"),
    (dec("0"), dec("100000")),
);
/// Octets of a parameter: with those of REX whole cells, and no more than a packet has.
const OCTETS: [usize; 6] = [0, 192, 448, 704, 1_024, 1_408];
/// The octets of REX in a call without any, in whole cells.
const NULL: usize = 64;

/// A network, a procedure, and its curve: key, name and look.
type Curve = (Wire, Procedure, &'static str, &'static str, Look);

const CURVES: [Curve; 4] = [
    (
        Wire::Ethernet,
        Procedure::Echo(100),
        "ether_echo_us",
        "Ethernet, echo",
        Look::Dashed,
    ),
    (
        Wire::Ethernet,
        Procedure::Sink,
        "ether_sink_us",
        "Ethernet, sink",
        Look::Wide,
    ),
    (
        Wire::Ring,
        Procedure::Echo(100),
        "ring_echo_us",
        "ring, echo",
        Look::Dotted,
    ),
    (
        Wire::Ring,
        Procedure::Sink,
        "ring_sink_us",
        "ring, sink",
        Look::Line,
    ),
];

/// Times of a call, by the curves.
struct Point {
    octets: usize,
    calls: [Timed; 4],
}

impl Point {
    fn us(&self, curve: usize) -> Rational {
        self.calls[curve].us
    }

    /// How far the Ethernet is behind, echo and sink.
    fn behind_ms(&self) -> [Rational; 2] {
        [0, 1].map(|n: usize| (self.us(n) - self.us(n + 2)) / dec("1000"))
    }
}

/// What two ends say of an exchange, and what comes of it.
struct Run {
    manners: Manners,
    points: Vec<Point>,
}

impl Run {
    fn measured(
        wires: &Wires,
        manners: Manners,
        (work, percent): (Ps, u64),
    ) -> Result<Self, Error> {
        let point = |octets| -> Result<Point, Error> {
            let call = |(wire, procedure, ..): Curve| {
                let procedure = match procedure {
                    Procedure::Echo(_) => Procedure::Echo(percent),
                    Procedure::Sink => Procedure::Sink,
                };
                ansa::timed(wires, wire, (manners, work), procedure, octets)
            };
            let [one, two, three, four] = CURVES.map(call);
            let calls = [one?, two?, three?, four?];
            Ok(Point { octets, calls })
        };
        let points = OCTETS.into_iter().map(point).collect::<Result<_, _>>()?;
        Ok(Self { manners, points })
    }

    fn null(&self) -> &Point {
        &self.points[0]
    }

    /// Packets of a call without octets, on the ring.
    fn packets(&self) -> Rational {
        self.null().calls[3].packets
    }

    /// The longest parameter with which both are at most so far behind.
    fn octets_within(&self, ms: Rational) -> usize {
        let within = |point: &&Point| point.behind_ms().into_iter().all(|behind| behind <= ms);
        let points = self.points.iter().take_while(within);
        points.last().map_or(0, |point| point.octets)
    }

    fn least(&self) -> Rational {
        let points = self.points.iter();
        let times = points.flat_map(|point| point.calls.iter().map(|call| call.us));
        times.min().unwrap_or(Rational::ZERO)
    }

    /// How much longer an octet makes an echo than a sink, by the longest and one that is not.
    fn slopes(&self, [echo, sink]: [usize; 2]) -> Option<Rational> {
        let (few, many) = (self.points.get(1)?, self.points.last()?);
        let rise = |curve| many.us(curve) - few.us(curve);
        rise(echo).over(rise(sink))
    }
}

impl Experiment for Figure9 {
    fn name(&self) -> &'static str {
        "ring-figure-9"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, Figure 9: ANSA's calls on the ring and on an Ethernet"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: [Parameter; 11] = super::and([wires::WORD, wires::START, WORK, RESULT]);
        &ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let wires = Wires::new(settings);
        let work = ps(settings.number("ansa_us") * dec("1000"));
        let percent = settings.whole("result_percent");
        let all = Manners::ALL.len() as u64;
        let mut runs = Vec::new();
        for (n, manners) in Manners::ALL.into_iter().enumerate() {
            runs.push(Run::measured(&wires, manners, (work, percent))?);
            progress.step(n as u64 + 1, all);
        }
        let ping = wires.ping(Wire::Ring, NULL)?;
        let shown = &runs[runs.len() - 1];
        Ok(Outcome {
            tables: vec![table(shown), table_of_manners(&runs)],
            figures: vec![figure(shown)],
            checks: checks(&runs, ping),
            notes: vec![
                "The curves and their octets are lost. A ping's packets leave the Ethernet 1.2 to \
                 3.1 ms behind, so \"always between 2 and 3\" needs more packets an exchange. With \
                 three more (REX repeats a call, is told that the server works, and acknowledges \
                 the reply) that holds for a sink of any octets of a packet, and for an echo of \
                 some: an echo of a whole packet is further behind, as a ping is."
                    .to_owned(),
            ],
        })
    }
}

fn table(run: &Run) -> Table {
    let curves = CURVES.iter().map(|(.., key, name, _)| (*key, *name));
    let first = [("octets", "octets")].into_iter();
    let last = [
        ("echo_behind_ms", "echo behind, ms"),
        ("sink_behind_ms", "sink behind, ms"),
    ];
    let columns: Vec<_> = first.chain(curves).chain(last).collect();
    let title = format!(
        "A call, us, by the octets of its parameter: {}",
        run.manners.name
    );
    let mut table = Table::new("times", &title, &columns);
    for point in &run.points {
        let times = point.calls.iter().map(|call| Entry::number(call.us, 0));
        let behind = point.behind_ms().map(|ms| Entry::number(ms, 2));
        let octets = Entry::number(point.octets as u64, 0);
        let row = [octets].into_iter().chain(times).chain(behind);
        table.rows.push(row.collect());
    }
    table
}

fn table_of_manners(runs: &[Run]) -> Table {
    let mut table = Table::new(
        "packets",
        "How far the Ethernet is behind, ms, by what is said of an exchange",
        &[
            ("said", "said"),
            ("packets", "packets"),
            ("null_ms", "no octets"),
            ("echo_ms", "echo of 1,408"),
            ("sink_ms", "sink of 1,408"),
            ("octets", "octets within 3 ms"),
        ],
    );
    for run in runs {
        let [_, null] = run.null().behind_ms();
        let [echo, sink] = run.points[run.points.len() - 1].behind_ms();
        table.row([
            Entry::text(run.manners.name),
            Entry::number(run.packets(), 2),
            Entry::number(null, 2),
            Entry::number(echo, 2),
            Entry::number(sink, 2),
            Entry::number(run.octets_within(dec("3")) as u64, 0),
        ]);
    }
    table
}

fn figure(run: &Run) -> Figure {
    let series = CURVES.iter().enumerate().map(|(n, (.., name, look))| {
        let points = run.points.iter();
        let points = points.map(|point| (point.octets as f64, point.us(n).to_f64() / 1_000.0));
        Series::new(name, *look, points.collect())
    });
    let panel = Panel {
        x: Axis::linear("octets of the parameter").to(1_500.0),
        y: Axis::linear("call, ms"),
        series: series.collect(),
        marks: Vec::new(),
    };
    Figure::single("times", "ANSA's calls on ring and Ethernet", panel)
}

/// Of the ways in which two ends speak the first says least, and the last most.
fn checks(runs: &[Run], ping: Rational) -> Vec<Check> {
    let [patient, .., chatty] = runs else {
        return Vec::new();
    };
    let least = runs.iter().map(Run::least).min().unwrap_or(Rational::ZERO);
    let mut checks = vec![
        Claim::shape("C18", "the shortest call", "a minimum of 5 milliseconds")
            .prints(dec("5"))
            .number(dec("5"), Tolerance::AtLeast, &ms(least / dec("1000"))),
        Claim::calibrated(
            "C18",
            "a call beyond a ping of its packets",
            "5 milliseconds",
        )
        .prints(dec("5"))
        .number(
            dec("5"),
            Tolerance::Percent(dec("1")),
            &ms((patient.null().us(3) - ping) / dec("1000")),
        ),
    ];
    for (curves, on) in [([2, 3], "ring"), ([0, 1], "Ethernet")] {
        let what = format!("an octet of echo over one of sink, {on}");
        let ours = Value::ratio(patient.slopes(curves), 3, "times");
        checks.push(
            Claim::derived("C18", &what, "transmitted twice")
                .prints(dec("2"))
                .number(dec("2"), Tolerance::Percent(dec("1")), &ours),
        );
    }
    checks.extend(gaps(patient, chatty));
    checks
}

fn ms(ms: Rational) -> Value {
    Value::new(ms, 2, "ms")
}

fn gaps(patient: &Run, chatty: &Run) -> Vec<Check> {
    const PAPER: &str = "between 2 and 3 ms";
    let claim = |what: &str| Claim::shape("9", what, PAPER);
    let [_, as_ping] = patient.null().behind_ms();
    let sinks = || chatty.points.iter().map(|point| point.behind_ms()[1]);
    let echoes = || chatty.points.iter().map(|point| point.behind_ms()[0]);
    let more = chatty.packets() - patient.packets();
    vec![
        claim("Ethernet behind, no octets, with the packets of a ping")
            .reading("too little")
            .number(dec("2"), Tolerance::AtMost, &ms(as_ping)),
        Claim::derived(
            "9",
            "packets more, for which it is far enough behind",
            PAPER,
        )
        .number(dec("3"), Tolerance::Exact, &Value::new(more, 2, "packets")),
        claim("with these, sink, the least").number(
            dec("2"),
            Tolerance::AtLeast,
            &ms(sinks().min().unwrap_or(Rational::ZERO)),
        ),
        claim("sink, the most").number(
            dec("3"),
            Tolerance::AtMost,
            &ms(sinks().max().unwrap_or(Rational::ZERO)),
        ),
        claim("echo, the least").number(
            dec("2"),
            Tolerance::AtLeast,
            &ms(echoes().min().unwrap_or(Rational::ZERO)),
        ),
        Claim::lost(
            "9",
            "octets up to which an echo is so, too",
            PAPER,
            &Value::new(chatty.octets_within(dec("3")) as u64, 0, "octets"),
        ),
    ]
}
