use std::ops::RangeInclusive;

use cellgate_core::contract::CellRate;
use cellgate_core::terminal::{TickCells, Variant};
use cellgate_report::{
    At, Axis, Check, Claim, Entry, Figure, Look, Mark, Outcome, Panel, Rational, Series, Table,
    Tolerance, Value, dec,
};

use super::{
    Error, Experiment, PAPER, Pace, PairConfig, Parameter, Pc386Costs, Progress, Settings, cell_s,
    config, measured,
};

/// Cells that are sent at each tick of the rate timer.
pub(in crate::experiments) struct Figure9;

/// Octets of payload, of PDUs of 24 and of 94 cells.
const SIZES: [u16; 2] = [1_024, 4_096];
/// Octets around the payload in a CPCS-PDU: the terminal's header, CPCS header and trailer.
const AROUND: u16 = 24 + 8;
/// The bursts that are tried.
const BURSTS: RangeInclusive<u32> = 4..=128;
/// Peaks that are looked for: k is 1 to this.
const PEAKS: u32 = 3;

const PRODUCT: Parameter = Parameter::whole(
    "product_cell_ms",
    "cellburst x tick, cells x ms (ours: the paper's is lost)",
    256,
    (64, 1_000),
);
const RATE: Parameter = Parameter::whole(
    "rate_cell_s",
    "the constant rate, cells/s (ours: the paper's is lost)",
    5_000,
    (100, 20_000),
);
const PDU: Parameter = Parameter::number(
    "pdu_us",
    "a PDU beside its cells, us (ours: the paper's is lost)",
    Pc386Costs::PDU,
    (dec("0"), dec("100000")),
);
const STEP: Parameter =
    Parameter::whole("step_cells", "from one burst to the next, cells", 1, (1, 8));
const MILLISECONDS: Parameter = Parameter::whole(
    "milliseconds",
    "virtual time per point, ms",
    1_000,
    (200, 100_000),
);

/// One PDU size: cells per second by burst.
struct Curve {
    size: u16,
    /// Without a timer, as fast as the PC can.
    free: Rational,
    /// 1 / s, with s the time of a cell and of its part of a PDU.
    bound: Rational,
    /// The product of burst and tick constant, a tick without a ready cell missed.
    product: Vec<(u32, Rational)>,
    /// The rate constant, the cells of a tick of one PDU.
    rate: Vec<(u32, Rational)>,
}

/// Cells of a PDU.
const fn cells(size: u16) -> u16 {
    (size + AROUND).div_ceil(44)
}

fn bound(costs: Pc386Costs, size: u16) -> Rational {
    let s = costs.cell + costs.pdu / u64::from(cells(size)).into();
    dec("1000000").over(s).unwrap_or(Rational::ZERO).rounded(1)
}

impl Experiment for Figure9 {
    fn name(&self) -> &'static str {
        "terminals-figure-9"
    }

    fn source(&self) -> &'static str {
        "High Performance ATM Terminals, Figure 9 (section 6.2): several cells at a tick"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[PRODUCT, RATE, PDU, STEP, MILLISECONDS];
        ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let rules = Rules {
            product_cell_ms: settings.whole("product_cell_ms"),
            rate_cell_s: settings.whole("rate_cell_s"),
        };
        let costs = Pc386Costs {
            pdu: settings.number("pdu_us"),
            ..Pc386Costs::final_ones()
        };
        let step = settings.whole("step_cells") as usize;
        let milliseconds = settings.whole("milliseconds");
        let of = |config: PairConfig| {
            let counts = measured(config, milliseconds)?;
            Ok::<_, Error>(cell_s(&counts).rounded(1))
        };
        let bursts = || BURSTS.step_by(step);
        let all = (SIZES.len() * bursts().count()) as u64;
        let mut curves = Vec::new();
        for (at, size) in SIZES.into_iter().enumerate() {
            let config = PairConfig {
                window: 16 * u64::from(size),
                ..config(costs, PAPER, size)
            };
            let mut curve = Curve {
                size,
                free: of(config)?,
                bound: bound(costs, size),
                product: Vec::new(),
                rate: Vec::new(),
            };
            for (done, cellburst) in bursts().enumerate() {
                let pace = rules.product(cellburst);
                let product = of(PairConfig { pace, ..config })?;
                curve.product.push((cellburst, product));
                let tick_cells = TickCells::OfOnePdu;
                let config = PairConfig {
                    variants: [
                        Variant {
                            tick_cells,
                            ..PAPER
                        },
                        PAPER,
                    ],
                    pace: rules.rate(cellburst),
                    ..config
                };
                curve.rate.push((cellburst, of(config)?));
                let done = at * bursts().count() + done + 1;
                progress.step(done as u64, all);
            }
            curves.push(curve);
        }
        Ok(Outcome {
            tables: vec![table(&rules, &curves)],
            figures: vec![figure(&rules, &curves)],
            checks: checks(&rules, &curves, step),
            notes: vec![
                "The text says that the product of cellburst and tick is constant. Then the rate \
                 that is asked for rises with the square of the burst, and a tick is missed once \
                 the cells of a burst take longer than it. At a constant rate the quotient is \
                 constant; what falls is then a burst that ends with its PDU."
                    .to_owned(),
            ],
        })
    }
}

/// Both readings of what stays constant.
struct Rules {
    product_cell_ms: u64,
    rate_cell_s: u64,
}

impl Rules {
    /// Cells per second that a burst asks for: with the product K a tick is K / b.
    fn asked(&self, cellburst: u32) -> u64 {
        u64::from(cellburst).pow(2) * 1_000 / self.product_cell_ms
    }

    fn product(&self, cellburst: u32) -> Option<Pace> {
        CellRate::new(self.asked(cellburst).max(1) as u32).map(|rate| Pace {
            rate,
            cellburst,
            misses_ticks: true,
        })
    }

    fn rate(&self, cellburst: u32) -> Option<Pace> {
        CellRate::new(self.rate_cell_s as u32).map(|rate| Pace {
            rate,
            cellburst,
            misses_ticks: false,
        })
    }

    /// Where the law of the product has its peaks: sqrt(k K / s). The last whole burst before is
    /// the highest.
    fn product_peaks(&self, curve: &Curve) -> Vec<f64> {
        let (product, bound) = (self.product_cell_ms as f64 / 1e3, curve.bound.to_f64());
        let peak = |k: u32| (f64::from(k) * product * bound).sqrt();
        (1..=PEAKS).map(peak).collect()
    }

    /// Where the law of the rate has its peaks, with n cells in a PDU: n / k. The first whole burst
    /// behind is the highest.
    fn rate_peaks(curve: &Curve) -> Vec<f64> {
        let cells = f64::from(cells(curve.size));
        (1..=PEAKS).map(|k| cells / f64::from(k)).collect()
    }
}

/// Rates by burst.
type Points = [(u32, Rational)];

/// The burst near `law` at which the rate changes most: behind it, it `falls`, or up to it, it
/// rises.
fn peak(points: &Points, law: f64, falls: bool) -> Option<u32> {
    let is_near = |burst: u32| (f64::from(burst) / law - 1.0).abs() < 0.07;
    let steps = points.windows(2).filter_map(|pair| match pair {
        [(burst, high), (_, low)] if falls => Some((*high - *low, *burst)),
        [(_, low), (burst, high)] => Some((*high - *low, *burst)),
        _ => None,
    });
    let near = steps.filter(|(_, burst)| is_near(*burst));
    let (step, burst) = near.max_by(|a, b| a.0.cmp(&b.0))?;
    (step > Rational::ZERO).then_some(burst)
}

fn highest(points: &Points) -> Rational {
    let rates = points.iter().map(|(_, rate)| *rate);
    rates.max().unwrap_or(Rational::ZERO)
}

fn table(rules: &Rules, curves: &[Curve]) -> Table {
    let mut table = Table::new(
        "peaks",
        "Bursts at which the rate has a peak",
        &[
            ("pdu_octets", "PDU"),
            ("reading", ""),
            ("k", "k"),
            ("law_cells", "law"),
            ("ours_cells", "ours"),
        ],
    );
    for curve in curves {
        let product = (rules.product_peaks(curve), &curve.product);
        let rate = (Rules::rate_peaks(curve), &curve.rate);
        for (reading, falls, (laws, points)) in [("product", true, product), ("rate", false, rate)]
        {
            for (k, law) in laws.into_iter().enumerate() {
                let ours = peak(points, law, falls).map(u64::from);
                table.row([
                    Entry::number(u64::from(curve.size), 0),
                    Entry::text(reading),
                    Entry::number(k as u64 + 1, 0),
                    Entry::number(tenths(law), 1),
                    ours.map_or(Entry::Empty, |ours| Entry::number(ours, 0)),
                ]);
            }
        }
    }
    table
}

fn tenths(number: f64) -> Rational {
    Rational::new((number * 10.0).round() as i128, 10)
}

fn figure(rules: &Rules, curves: &[Curve]) -> Figure {
    let panel = |of: fn(&Curve) -> &Vec<(u32, Rational)>, bound: f64, label: String| {
        let looks = [Look::Dotted, Look::Dashed];
        let series = curves.iter().zip(looks).map(|(curve, look)| {
            let points = of(curve).iter();
            let points = points.map(|(burst, rate)| (f64::from(*burst), rate.to_f64()));
            Series::new(
                &format!("PDUs of {} octets", curve.size),
                look,
                points.collect(),
            )
        });
        Panel {
            x: Axis::linear("cellburst"),
            y: Axis::linear("cells/s"),
            series: series.collect(),
            marks: vec![Mark {
                at: At::Y(bound),
                label,
            }],
        }
    };
    let most = curves.last().map_or(0.0, |curve| curve.free.to_f64());
    let rate = rules.rate_cell_s as f64;
    Figure::stacked(
        "cellburst",
        "Several cells at a tick: cellburst x tick constant, and their quotient",
        vec![
            panel(|curve| &curve.product, most, "no timer".to_owned()),
            panel(|curve| &curve.rate, rate, "the rate".to_owned()),
        ],
    )
}

fn checks(rules: &Rules, curves: &[Curve], step: usize) -> Vec<Check> {
    let mut checks = Vec::new();
    let percent = |share: Option<Rational>| Value::ratio(share.map(|s| s * dec("100")), 1, "%");
    for curve in curves {
        let size = curve.size;
        let rate = Rational::from(rules.rate_cell_s);
        for (reading, points, falls, laws, bound, of) in [
            (
                "cellburst x tick",
                &curve.product,
                true,
                rules.product_peaks(curve),
                curve.free,
                "the rate without a timer",
            ),
            (
                "cellburst / tick",
                &curve.rate,
                false,
                Rules::rate_peaks(curve),
                rate,
                "the rate",
            ),
        ] {
            let claim = |what: &str, paper: &str| {
                let what = format!("{what}, PDUs of {size}");
                Claim::shape("T5", &what, paper).reading(&format!("{reading} constant"))
            };
            checks.push(
                claim(
                    &format!("the bound that is reached, of {of}"),
                    "an upper bound",
                )
                .number(
                    dec("100"),
                    Tolerance::Percent(dec("2")),
                    &percent(highest(points).over(bound)),
                ),
            );
            let found: Vec<_> = laws.iter().map(|law| peak(points, *law, falls)).collect();
            let is_near = |(peak, law): (&Option<u32>, &f64)| {
                let whole = if falls { law.floor() } else { law.ceil() };
                peak.is_some_and(|peak| (f64::from(peak) - whole).abs() <= step as f64)
            };
            let shown = found
                .iter()
                .map(|peak| peak.map_or("none".to_owned(), |peak| peak.to_string()));
            let shown: Vec<_> = shown.collect();
            checks.push(
                claim(
                    &format!("peaks at {}", law_text(&laws)),
                    "then drops in a repeated fashion",
                )
                .holds(found.iter().zip(&laws).all(is_near), &shown.join(", ")),
            );
        }
    }
    checks
}

fn law_text(laws: &[f64]) -> String {
    let laws: Vec<_> = laws.iter().map(|law| format!("{law:.1}")).collect();
    laws.join(", ")
}
