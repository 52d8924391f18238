use cellgate_core::terminal::{Copies, Variant};
use cellgate_report::{
    At, Axis, Check, Claim, Entry, Figure, Look, Mark, Outcome, Panel, Rational, Series, Table,
    Tolerance, Value, dec,
};

use super::{
    Error, Experiment, HARDWARE_CELL_S, MILLISECONDS, PAPER, Parameter, Pc386Costs, Progress,
    Settings, cell_s, config, measured,
};

/// A copy between SAR and CPCS, and none.
pub(in crate::experiments) struct Figure8;

const SIZES: [u16; 9] = [64, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768];

const COPY: Parameter = Parameter::number(
    "copy_us",
    "an octet copied from one layer to the next, us (calibrated)",
    Pc386Costs::COPY,
    (dec("0"), dec("100")),
);
const PDU: Parameter = Parameter::number(
    "pdu_us",
    "a PDU beside its cells, us (ours: the paper's is lost)",
    Pc386Costs::PDU,
    (dec("0"), dec("100000")),
);

/// Of the hardware's cells, at a PDU size.
struct Point {
    size: u16,
    tree: Rational,
    copy: Rational,
    all: Rational,
}

impl Experiment for Figure8 {
    fn name(&self) -> &'static str {
        "terminals-figure-8"
    }

    fn source(&self) -> &'static str {
        "High Performance ATM Terminals, Figure 8 (section 6.1): data copies or pointers"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[COPY, PDU, MILLISECONDS];
        ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let costs = Pc386Costs {
            copy: settings.number("copy_us"),
            pdu: settings.number("pdu_us"),
            ..Pc386Costs::final_ones()
        };
        let of = |copies: Copies, size: u16| -> Result<Rational, Error> {
            let config = config(costs, Variant { copies, ..PAPER }, size);
            let counts = measured(config, settings.whole("milliseconds"))?;
            Ok(cell_s(&counts) / HARDWARE_CELL_S.into())
        };
        let mut points = Vec::new();
        for (at, size) in SIZES.into_iter().enumerate() {
            points.push(Point {
                size,
                tree: of(Copies::None, size)?,
                copy: of(Copies::Sar, size)?,
                all: of(Copies::All, size)?,
            });
            progress.step(at as u64 + 1, SIZES.len() as u64);
        }
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points)],
            checks: checks(&points),
            notes: vec![
                "The text calls this figure Figure 9. What 100 % are it does not say: 60 % are \
                 taken for the 410,000 octets/s of the file transfer."
                    .to_owned(),
                "A copy at each of three boundaries is ours: the paper measured one.".to_owned(),
            ],
        })
    }
}

fn percent(share: Rational) -> Rational {
    share * Rational::whole(100)
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "utilization",
        "Share of the hardware's cells",
        &[
            ("PDU", "octets"),
            ("no copy", "%"),
            ("SAR to CPCS", "%"),
            ("all layers", "%"),
        ],
    );
    for point in points {
        table.row([
            Entry::number(u64::from(point.size), 0),
            Entry::number(percent(point.tree), 1),
            Entry::number(percent(point.copy), 1),
            Entry::number(percent(point.all), 1),
        ]);
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let curve = |of: &dyn Fn(&Point) -> Rational| -> Vec<(f64, f64)> {
        let point = |p: &Point| (f64::from(p.size), percent(of(p)).to_f64());
        points.iter().map(point).collect()
    };
    let panel = Panel {
        x: Axis::log("CPCS-PDU size, octets", 32.0),
        y: Axis::linear("% of the hardware").to(70.0),
        series: vec![
            Series::new("no copy", Look::Dotted, curve(&|p| p.tree)),
            Series::new(
                "a copy between SAR and CPCS",
                Look::Dashed,
                curve(&|p| p.copy),
            ),
            Series::new(
                "a copy between all layers",
                Look::Expected,
                curve(&|p| p.all),
            ),
        ],
        marks: vec![Mark {
            at: At::Y(60.0),
            label: "60 %".to_owned(),
        }],
    };
    Figure::single("utilization", "Data copies or pointers", panel)
}

fn checks(points: &[Point]) -> Vec<Check> {
    let last = points.last();
    let of = |of: &dyn Fn(&Point) -> Rational| last.map_or(Rational::ZERO, of);
    let (tree, copy) = (of(&|p| p.tree), of(&|p| p.copy));
    let value = |share: Rational| Value::new(percent(share), 1, "%");
    let rises =
        |of: &dyn Fn(&Point) -> Rational| points.is_sorted_by(|a, b| of(a) <= of(b) * dec("1.02"));
    let rises = rises(&|p| p.tree) && rises(&|p| p.copy);
    vec![
        Claim::calibrated("T3", "without copies, long PDUs", "60 %")
            .prints(dec("60"))
            .number(dec("60"), Tolerance::Absolute(dec("2")), &value(tree)),
        Claim::calibrated("T3", "with a copy between SAR and CPCS", "35 %")
            .prints(dec("35"))
            .number(dec("35"), Tolerance::Absolute(dec("2")), &value(copy)),
        Claim::calibrated("T3", "one over the other", "approximately doubled")
            .prints(dec("2"))
            .reading("60 / 35")
            .number(
                dec("1.71"),
                Tolerance::Absolute(dec("0.1")),
                &Value::ratio(tree.over(copy), 2, "times"),
            ),
        Claim::shape(
            "8",
            "both rise with the PDU until they are flat",
            "two curves that saturate",
        )
        .holds(rises, if rises { "rise" } else { "fall somewhere" }),
    ]
}
