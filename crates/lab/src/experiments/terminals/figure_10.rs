use cellgate_core::line::{LineSpec, Share};
use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, dec,
};

use super::{
    Error, Experiment, PAPER, Parameter, Pc386Costs, Progress, Settings, config, measured, octet_s,
    thousands,
};

/// Throughput by PDU size, with bit errors.
pub(in crate::experiments) struct Figure10;

const SIZES: [u16; 8] = [256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768];
/// Parts of 10^12 of all bits, and what is written beside the curve.
const ERRORS: [(u64, &str); 3] = [(0, "none"), (1_000_000, "1e-6"), (10_000_000, "1e-5")];

const MILLISECONDS: Parameter = Parameter::whole(
    "milliseconds",
    "virtual time per point, ms",
    20_000,
    (2_000, 1_000_000),
);
const PDU: Parameter = Parameter::number(
    "pdu_us",
    "a PDU beside its cells, us (ours: the paper's is lost)",
    Pc386Costs::PDU,
    (dec("0"), dec("100000")),
);

/// Octets per second at a PDU size, for each error rate; and PDUs that were lost.
struct Point {
    size: u16,
    rates: [Rational; 3],
    lost: [u64; 3],
}

impl Experiment for Figure10 {
    fn name(&self) -> &'static str {
        "terminals-figure-10"
    }

    fn source(&self) -> &'static str {
        "High Performance ATM Terminals, Figure 10 (section 6.5): bit errors"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[PDU, MILLISECONDS];
        ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let costs = Pc386Costs {
            pdu: settings.number("pdu_us"),
            ..Pc386Costs::final_ones()
        };
        let mut points = Vec::new();
        for (at, size) in SIZES.into_iter().enumerate() {
            let mut point = Point {
                size,
                rates: [Rational::ZERO; 3],
                lost: [0; 3],
            };
            for (of, (parts, _)) in ERRORS.into_iter().enumerate() {
                let mut config = config(costs, PAPER, size);
                config.window = 64 << 10;
                config.line = LineSpec {
                    ber: Share::new(parts).unwrap_or(Share::NONE),
                    seed: settings.seed,
                    ..LineSpec::default()
                };
                let counts = measured(config, settings.whole("milliseconds"))?;
                point.rates[of] = octet_s(&counts);
                point.lost[of] = counts.sender.lost;
            }
            points.push(point);
            progress.step(at as u64 + 1, SIZES.len() as u64);
        }
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points)],
            checks: checks(&points),
            notes: vec![
                "The paper's rates of errors are 1e-9 and 1e-8. At these no PDU of up to 65,535 \
                 octets has a peak before the AAL's end, unless a loss costs far more than what \
                 is sent again; the curves here have a thousand times as many, and the same shape."
                    .to_owned(),
            ],
        })
    }
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "throughput",
        "Octets of the file per second, and PDUs lost",
        &[
            ("PDU", "octets"),
            ("no errors", "1000/s"),
            ("1e-6", "1000/s"),
            ("lost", ""),
            ("1e-5", "1000/s"),
            ("lost", ""),
        ],
    );
    for point in points {
        let rate = |of: usize| Entry::number(point.rates[of] / dec("1000"), 1);
        table.row([
            Entry::number(u64::from(point.size), 0),
            rate(0),
            rate(1),
            Entry::number(point.lost[1], 0),
            rate(2),
            Entry::number(point.lost[2], 0),
        ]);
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let looks = [Look::Dotted, Look::Dashed, Look::Expected];
    let series = ERRORS.iter().zip(looks).enumerate();
    let series = series.map(|(of, ((_, name), look))| {
        let point = |p: &Point| (f64::from(p.size), thousands(p.rates[of]));
        Series::new(
            &format!("bit errors: {name}"),
            look,
            points.iter().map(point).collect(),
        )
    });
    let panel = Panel {
        x: Axis::log("CS-PDU size, octets", 128.0),
        y: Axis::linear("1,000 octets/s"),
        series: series.collect(),
        marks: Vec::new(),
    };
    Figure::single("throughput", "Bit errors", panel)
}

/// The size at which a curve is highest, if it falls on both sides.
fn peak(points: &[Point], of: usize) -> Option<u16> {
    let highest = (0..points.len()).max_by_key(|at| points[*at].rates[of])?;
    let is_inside = highest > 0 && highest + 1 < points.len();
    is_inside.then(|| points[highest].size)
}

fn checks(points: &[Point]) -> Vec<Check> {
    let rises = points.is_sorted_by(|a, b| a.rates[0] <= b.rates[0] * dec("1.01"));
    let (few, many) = (peak(points, 1), peak(points, 2));
    let shown =
        |peak: Option<u16>| peak.map_or("no peak".to_owned(), |at| format!("at {at} octets"));
    let ordered = points
        .iter()
        .all(|p| p.rates[0] >= p.rates[1] && p.rates[1] >= p.rates[2]);
    let earlier = few.zip(many).is_some_and(|(few, many)| many < few);
    let claim = |what: &str, paper: &str| Claim::shape("T9", what, paper);
    vec![
        claim(
            "without errors it rises with the PDU",
            "error-free: monotone",
        )
        .holds(rises, if rises { "rises" } else { "falls somewhere" }),
        claim(
            "with errors it has a peak",
            "reaches a peak value, then decreases",
        )
        .holds(few.is_some(), &shown(few)),
        claim(
            "the same with ten times as many",
            "reaches a peak value, then decreases",
        )
        .holds(many.is_some(), &shown(many)),
        claim(
            "the peak comes earlier with more errors",
            "for smaller CS-PDU",
        )
        .holds(earlier, if earlier { "earlier" } else { "not earlier" }),
        claim("more errors, less throughput", "three curves in order")
            .holds(ordered, if ordered { "in order" } else { "they cross" }),
    ]
}
