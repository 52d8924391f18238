use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::{
    Error, Experiment, PAPER, PairConfig, Parameter, Pc386Costs, Progress, Settings, config,
    measured, octet_s, thousands,
};
use crate::machine::pc386;
use crate::world::Ps;

/// A file that goes to a disk, with one buffer B(4) and with two.
pub(in crate::experiments) struct Disk;

/// Octets of a PDU, and of a buffer B(4), which is a disk-PDU.
const PDU_LEN: u16 = 8_192;
const BUFFER_LEN: u32 = 64 << 10;
const ACCESSES_MS: [u64; 6] = [0, 20, 50, 100, 200, 400];
/// The access time of a disk of the time, at which the rate is judged.
const USUAL_MS: u64 = 20;

const OCTETS: Parameter = Parameter::whole(
    "disk_octet_s",
    "what the disk writes, octets/s (ours: the paper has none)",
    1_000_000,
    (10_000, 1_000_000_000),
);
const MILLISECONDS: Parameter = Parameter::whole(
    "milliseconds",
    "virtual time per point, ms",
    10_000,
    (2_000, 1_000_000),
);

/// Octets per second with an access time.
struct Point {
    access_ms: u64,
    /// What the disk alone writes.
    disk: Rational,
    /// With one buffer, and with two.
    rates: [Rational; 2],
}

impl Point {
    /// One buffer is filled or written; of two one is filled while the other is written.
    fn laws(&self, net: Rational) -> [Rational; 2] {
        let one = (net * self.disk).over(net + self.disk);
        let one = one.unwrap_or(Rational::ZERO);
        [one.rounded(1), net.min(self.disk)]
    }
}

impl Experiment for Disk {
    fn name(&self) -> &'static str {
        "terminals-disk"
    }

    fn source(&self) -> &'static str {
        "High Performance ATM Terminals, sections 3.2 and 8: the disk's access time"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[OCTETS, MILLISECONDS];
        ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let of = |disk: Option<pc386::Disk>| {
            let config = PairConfig {
                window: 2 * u64::from(BUFFER_LEN),
                disk,
                ..config(Pc386Costs::final_ones(), PAPER, PDU_LEN)
            };
            let counts = measured(config, settings.whole("milliseconds"))?;
            Ok::<_, Error>(octet_s(&counts).rounded(1))
        };
        let net = of(None)?;
        let mut points = Vec::new();
        for (at, access_ms) in ACCESSES_MS.into_iter().enumerate() {
            let disk = |buffers| pc386::Disk {
                access: Ps::from_ns(access_ms * 1_000_000),
                octet_s: settings.whole("disk_octet_s"),
                buffers,
                buffer_len: BUFFER_LEN,
            };
            let ps = Rational::from(disk(1).write().ps());
            points.push(Point {
                access_ms,
                disk: (Rational::from(u64::from(BUFFER_LEN)) * dec("1000000000000") / ps)
                    .rounded(1),
                rates: [of(Some(disk(1)))?, of(Some(disk(2)))?],
            });
            progress.step(at as u64 + 1, ACCESSES_MS.len() as u64);
        }
        Ok(Outcome {
            tables: vec![table(net, &points)],
            figures: vec![figure(net, &points)],
            checks: checks(net, &points),
            notes: vec![
                "The paper names the disk's access time and gives no number. A buffer B(4) is a \
                 disk-PDU of 65,536 octets; the board's and the disk's octets share no time of \
                 the processor."
                    .to_owned(),
            ],
        })
    }
}

fn table(net: Rational, points: &[Point]) -> Table {
    let mut table = Table::new(
        "throughput",
        "Octets of the file per second, by the disk's access time",
        &[
            ("access_ms", "access, ms"),
            ("disk_1000_s", "the disk, 1000/s"),
            ("one_1000_s", "one B(4)"),
            ("one_law_1000_s", "its law"),
            ("two_1000_s", "two"),
            ("two_law_1000_s", "their law"),
        ],
    );
    let thousands = |rate: Rational| Entry::number(rate / dec("1000"), 1);
    for point in points {
        let laws = point.laws(net);
        table.row([
            Entry::number(point.access_ms, 0),
            thousands(point.disk),
            thousands(point.rates[0]),
            thousands(laws[0]),
            thousands(point.rates[1]),
            thousands(laws[1]),
        ]);
    }
    table
}

fn figure(net: Rational, points: &[Point]) -> Figure {
    let curve = |name: &str, look, of: &dyn Fn(&Point) -> Rational| {
        let point = |p: &Point| (p.access_ms as f64, thousands(of(p)));
        Series::new(name, look, points.iter().map(point).collect())
    };
    let panel = Panel {
        x: Axis::linear("access time, ms"),
        y: Axis::linear("1,000 octets/s"),
        series: vec![
            curve("one B(4)", Look::Dotted, &|p| p.rates[0]),
            curve("1 / (1 / net + 1 / disk)", Look::Expected, &|p| {
                p.laws(net)[0]
            }),
            curve("two B(4)s", Look::Dashed, &|p| p.rates[1]),
            curve("the least of net and disk", Look::Expected, &|p| {
                p.laws(net)[1]
            }),
        ],
        marks: Vec::new(),
    };
    Figure::single("throughput", "A disk behind the terminal", panel)
}

fn checks(net: Rational, points: &[Point]) -> Vec<Check> {
    let near = Tolerance::Percent(dec("5"));
    let mut checks = Vec::new();
    for (of, what) in [
        (0, "one B(4), of 1 / (1 / net + 1 / disk)"),
        (1, "two B(4)s, of the least of net and disk"),
    ] {
        for point in points {
            let share = point.rates[of].over(point.laws(net)[of]);
            let what = format!("{what}, access {} ms", point.access_ms);
            checks.push(Claim::derived("C", &what, "").number(
                dec("100"),
                near,
                &Value::ratio(share.map(|share| share * dec("100")), 1, "%"),
            ));
        }
    }
    let falls = |of: usize| points.is_sorted_by(|a, b| a.rates[of] >= b.rates[of] * dec("0.99"));
    let is_critical = falls(0) && falls(1);
    let shown = if is_critical {
        "falls"
    } else {
        "rises somewhere"
    };
    checks.push(
        Claim::shape(
            "C",
            "throughput by access time",
            "a critical parameter of the throughput",
        )
        .holds(is_critical, shown),
    );
    let usual = points.iter().find(|point| point.access_ms == USUAL_MS);
    let usual = usual.map(|point| point.rates[1] / dec("1000"));
    checks.push(
        Claim::calibrated(
            "T8",
            "two B(4)s, access 20 ms",
            "over 300 Kbytes/sec with a 386",
        )
        .number(
            dec("300"),
            Tolerance::AtLeast,
            &Value::ratio(usual, 1, "x 1000 octets/s"),
        ),
    );
    checks
}
