use cellgate_core::contract::CellRate;
use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::{
    C_CELL, C_PDU, Error, Experiment, INTERRUPT_US, LINE_BIT_S, PDU_US, Parameter, Progress, Ps,
    Settings, address, board, cells, host, line_sdu_bit_s, per_s, whole_pdus,
};
use crate::machine::{
    BoardConfig, Host, HostCosts, Quiet, ReceiveSpec, Stream, Workstation, pdu_cells,
};
use crate::world::Interval;

/// The host's CPU by the size of PDUs.
pub(in crate::experiments) struct Figure8;

/// SDU rate of the slower connection.
const SLOW_BIT_S: u64 = 40_000_000;
/// PDUs that the receive buffer holds.
const BUFFER_PDUS: u32 = 8;
const VCI: u16 = 32;
const WARM: Ps = Ps::from_ns(10_000_000);

const SIZES: [u16; 14] = [
    256, 512, 760, 1_024, 1_240, 1_500, 2_048, 2_584, 3_000, 4_096, 5_000, 6_144, 8_192, 9_180,
];

const PARAMETERS: &[Parameter] = &[
    C_CELL,
    C_PDU,
    INTERRUPT_US,
    PDU_US,
    Parameter::whole(
        "milliseconds",
        "least virtual time per point, ms",
        40,
        (10, 10_000),
    ),
];

/// What a host sees of one connection.
struct Load {
    cpu_percent: Rational,
    pdu_s: Rational,
    /// Of all PDUs that arrived.
    damaged_percent: Rational,
}

struct Point {
    sdu: u16,
    line: Load,
    slow: Load,
}

/// A host behind a line with a stream of PDUs, `open` or not.
fn measured(
    config: BoardConfig,
    costs: HostCosts,
    sdu: u16,
    interval: Interval,
    (span, open): (Ps, bool),
) -> Result<Load, Error> {
    let mut workstation = Workstation::new(config, costs)?;
    if open {
        workstation.receive(&ReceiveSpec {
            address: address(VCI)?,
            sdu,
            buffer_pdus: BUFFER_PDUS,
            drain: Ps::ZERO,
        })?;
    }
    workstation.run(workstation.now().plus(Ps::from_ns(100_000)), &mut Quiet);
    let mut stream = Stream::new(pdu_cells(address(VCI)?, sdu)?, interval, workstation.now());
    workstation.run(workstation.now().plus(WARM), &mut stream);
    let received = |workstation: &Workstation| {
        if open {
            workstation.host().received(0)
        } else {
            0
        }
    };
    let span = whole_pdus(interval, sdu, span);
    let (begin, busy) = (workstation.now(), workstation.host().busy());
    let (pdus, arrived) = (received(&workstation), workstation.board().counts().arrived);
    workstation.run(begin.plus(span), &mut stream);
    let span = workstation.now().since(begin);
    let pdus = received(&workstation) - pdus;
    let arrived = Rational::from(workstation.board().counts().arrived - arrived) / cells(sdu);
    let loops = Host::idler_loops(span, workstation.host().busy().since(busy));
    let reference = Host::idler_loops(span, Ps::ZERO);
    let share = |part: Rational, of: Rational| {
        let part = part.over(of).unwrap_or(Rational::ZERO);
        Rational::whole(100) * (Rational::ONE - part)
    };
    Ok(Load {
        cpu_percent: share(loops.into(), reference.into()),
        pdu_s: per_s(pdus, span),
        damaged_percent: share(pdus.into(), arrived).max(Rational::ZERO),
    })
}

impl Experiment for Figure8 {
    fn name(&self) -> &'static str {
        "policing-figure-8"
    }

    fn source(&self) -> &'static str {
        "Policing Offloaded, Figure 8: host CPU utilization"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let (config, costs) = (board(settings), host(settings));
        let span = Ps::from_ns(settings.whole("milliseconds") * 1_000_000);
        let line = Interval::of_line(LINE_BIT_S);
        let mut points = Vec::new();
        for (i, sdu) in SIZES.into_iter().enumerate() {
            let rate = CellRate::for_sdu_rate(SLOW_BIT_S, sdu.into());
            let slow = Interval::of_rate(rate.ok_or_else(|| Error::new("no such rate"))?);
            points.push(Point {
                sdu,
                line: measured(config, costs, sdu, line, (span, true))?,
                slow: measured(config, costs, sdu, slow, (span, true))?,
            });
            progress.step(i as u64 + 1, SIZES.len() as u64);
        }
        let closed = measured(config, costs, 8_192, line, (span, false))?;
        let per_pdu = settings.number("interrupt_us") + settings.number("pdu_us");
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points, per_pdu)],
            checks: checks(&points, &closed, per_pdu),
            notes: vec![
                "What a PDU costs the host is lost. Ours is 16 us for the interrupt and 16 us for \
                 the PDU: together the 32 us that the paper's introduction gives for a packet \
                 of the Linux driver on the same CPU (interrupt_us, pdu_us)."
                    .to_owned(),
                "Small PDUs at line speed are damaged here for the reason that the paper \
                 suspects: the firmware is too slow for them, and its receive FIFO overflows."
                    .to_owned(),
            ],
        })
    }
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "load",
        "Host CPU by PDU size",
        &[
            ("sdu_octets", "octets"),
            ("line_pdu_s", "line speed, PDU/s"),
            ("line_cpu_percent", "CPU, %"),
            ("line_damaged_percent", "damaged, %"),
            ("slow_pdu_s", "40 Mbit/s, PDU/s"),
            ("slow_cpu_percent", "CPU, %"),
            ("slow_damaged_percent", "damaged, %"),
        ],
    );
    for point in points {
        let load = |load: &Load| {
            let Load {
                pdu_s,
                cpu_percent,
                damaged_percent,
            } = load;
            [(pdu_s, 1), (cpu_percent, 2), (damaged_percent, 1)]
                .map(|(number, decimals)| Entry::number(*number, decimals))
        };
        let [a, b, c] = load(&point.line);
        let [d, e, f] = load(&point.slow);
        table.row([Entry::number(u32::from(point.sdu), 0), a, b, c, d, e, f]);
    }
    table
}

/// CPU per cent if every PDU of this SDU rate costs so many microseconds.
fn law(sdu_bit_s: Rational, sdu: u16, per_pdu_us: Rational) -> Rational {
    let pdu_s = sdu_bit_s / Rational::whole(8) / u32::from(sdu).into();
    pdu_s * per_pdu_us / dec("10000")
}

/// Nothing of a connection is damaged: the paper shows only such sizes.
fn is_whole(load: &Load) -> bool {
    load.damaged_percent < Rational::ONE
}

fn figure(points: &[Point], per_pdu_us: Rational) -> Figure {
    let curve = |of: &dyn Fn(&Point) -> &Load| -> Vec<(f64, f64)> {
        let whole = points.iter().filter(|point| is_whole(of(point)));
        whole
            .map(|p| (f64::from(p.sdu), of(p).cpu_percent.to_f64()))
            .collect()
    };
    let expected = |sdu_bit_s: &dyn Fn(u16) -> Rational, from: u16| -> Vec<(f64, f64)> {
        let sizes = (from..9_180).step_by(64);
        let point = |sdu| {
            (
                f64::from(sdu),
                law(sdu_bit_s(sdu), sdu, per_pdu_us).to_f64(),
            )
        };
        sizes.map(point).collect()
    };
    let panel = Panel {
        x: Axis::linear("PDU size, octets of SDU").to(9_400.0),
        y: Axis::linear("host CPU, %").to(70.0),
        series: vec![
            Series::new(
                "expected: PDU/s x 32 us",
                Look::Expected,
                expected(&line_sdu_bit_s, 800),
            ),
            Series::new("", Look::Expected, expected(&|_| SLOW_BIT_S.into(), 300)),
            Series::new(
                "ours, line speed",
                Look::Dotted,
                curve(&|point| &point.line),
            ),
            Series::new("ours, 40 Mbit/s", Look::Dotted, curve(&|point| &point.slow)),
        ],
        marks: Vec::new(),
    };
    Figure::single("load", "Host CPU by PDU size", panel)
}

/// The largest deviation of a connection's CPU from what its SDU rate makes it, in per cent; none
/// if that is nothing.
fn worst_off(
    points: &[Point],
    per_pdu_us: Rational,
    of: fn(&Point) -> (&Load, Rational),
) -> Option<Rational> {
    let whole = points.iter().filter(|point| is_whole(of(point).0));
    let off = |point: &Point| {
        let (load, sdu_bit_s) = of(point);
        let expected = law(sdu_bit_s, point.sdu, per_pdu_us);
        Some((load.cpu_percent - expected).over(expected)?.abs())
    };
    let all = whole.map(off).collect::<Option<Vec<_>>>()?;
    let worst = all.into_iter().max().unwrap_or(Rational::ONE);
    Some(worst * Rational::whole(100))
}

fn checks(points: &[Point], closed: &Load, per_pdu_us: Rational) -> Vec<Check> {
    let shape = |what: &str, paper: &str| Claim::shape("8", what, paper);
    let percent = |number: Rational| Value::new(number, 2, "%");
    let mut checks = Vec::new();
    let Some(at_8k) = points.iter().find(|point| point.sdu == 8_192) else {
        return checks;
    };
    let ratio = at_8k.line.cpu_percent.over(at_8k.slow.cpu_percent);
    checks.push(
        Claim::derived("8", "line speed over 40 Mbit/s, 8,192 octets", "").number(
            dec("3.384"),
            Tolerance::Percent(dec("1")),
            &Value::ratio(ratio, 3, "times"),
        ),
    );
    let worst = [
        (
            "line speed",
            worst_off(points, per_pdu_us, |p| (&p.line, line_sdu_bit_s(p.sdu))),
        ),
        (
            "40 Mbit/s",
            worst_off(points, per_pdu_us, |p| (&p.slow, SLOW_BIT_S.into())),
        ),
    ];
    for (name, worst) in worst {
        let what = format!("{name}: off the hyperbola R/8S x t, worst size that arrives");
        let claim = shape(&what, "falls");
        let worst = Value::ratio(worst, 2, "%");
        checks.push(claim.number(dec("2"), Tolerance::AtMost, &worst));
    }
    checks.push(
        Claim::derived("8", "no connection open, line speed", "not even noticed").number(
            Rational::ZERO,
            Tolerance::Exact,
            &percent(closed.cpu_percent),
        ),
    );
    let (small, large): (Vec<_>, Vec<_>) = points.iter().partition(|point| point.sdu <= 1_024);
    let damaged = small.iter().all(|point| !is_whole(&point.line));
    let whole = large.iter().all(|point| is_whole(&point.line));
    let found = match (damaged, whole) {
        (true, true) => "up to 1,024 octets",
        (false, _) => "not all up to 1,024 octets",
        (_, false) => "also above 1,024 octets",
    };
    let claim = shape(
        "line speed: PDUs are damaged",
        "\"smaller PDU sizes\": massive CRC errors",
    );
    checks.push(claim.holds(damaged && whole, found));
    checks.push(Claim::lost(
        "8",
        "line speed, 8,192 octets: CPU",
        "only in the figure",
        &percent(at_8k.line.cpu_percent),
    ));
    checks
}
