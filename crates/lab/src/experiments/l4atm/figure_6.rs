//! CPU load of a 40 Mbps connection by packet size (Figure 6), measured on the model.

use cellgate_core::Time;
use cellgate_core::contract::{Credit, Jitter};
use cellgate_core::server::lambda::{Flow, Lambda};
use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::units::{DECIMAL, after_seconds, mbps, paced, percent, rate, rational, seconds, writer};
use crate::experiments::{Error, Experiment, Parameter, Progress, Settings};
use crate::machine::p90::{Cpu, Host, HostThread, Level, P90};

/// `l4atm-figure-6`.
pub(in crate::experiments) struct Figure6;

const BIT_S: u64 = 40 * DECIMAL;
const SIZES: [u16; 16] = [
    256, 512, 661, 662, 700, 800, 900, 1_023, 1_024, 1_536, 2_048, 3_072, 4_095, 4_096, 6_144,
    8_192,
];
const PARAMETERS: &[Parameter] = &[Parameter::whole(
    "seconds",
    "virtual seconds that each packet size is sent, s",
    20,
    (1, 3_600),
)];

impl Experiment for Figure6 {
    fn name(&self) -> &'static str {
        "l4atm-figure-6"
    }

    fn source(&self) -> &'static str {
        "L4ATM, Figure 6"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let time = settings.whole("seconds");
        let mut points = Vec::new();
        for (i, sdu) in SIZES.into_iter().enumerate() {
            points.push(Point::measured(sdu, time)?);
            progress.step(i as u64 + 1, SIZES.len() as u64);
        }
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points)],
            checks: checks(&points, time)?,
            notes: vec![
                "An interval of fewer than two steps of the kernel's 2 ms clock cannot be kept: a \
                 suspended worker sleeps until the next step, and the credits of intervals that it \
                 sleeps through lapse. Intervals of 50 packets are used for the load."
                    .to_owned(),
            ],
        })
    }
}

/// What a writer of packets of one size makes of the machine.
struct Point {
    sdu: u16,
    /// By Equation 4, with lambda as printed and without its gaps.
    estimate: Rational,
    corrected: Rational,
    /// With a clock without steps.
    ideal: Load,
    /// With the kernel's clock.
    stepped: Load,
    /// The same with intervals of 10 packets.
    default: Load,
}

/// Shares of one, and bit/s.
struct Load {
    cpu: Rational,
    bit_s: u64,
}

impl Point {
    fn measured(sdu: u16, time_s: u64) -> Result<Self, Error> {
        Ok(Self {
            sdu,
            estimate: estimate(Lambda::Printed, sdu),
            corrected: estimate(Lambda::Continuous, sdu),
            ideal: load(sdu, 1, Jitter::High, time_s)?,
            stepped: load(sdu, Host::CLOCK_STEP_NS, Jitter::High, time_s)?,
            default: load(sdu, Host::CLOCK_STEP_NS, Jitter::Default, time_s)?,
        })
    }
}

fn estimate(lambda: Lambda, sdu: u16) -> Rational {
    let flow = [Flow {
        bit_s: BIT_S,
        sdu: sdu.into(),
    }];
    let p90 = P90::PAPER;
    let share = lambda.utilisation(&flow, p90.transmit_max_bit_s, &[], p90.receive_max_bit_s);
    share.map_or(Rational::ZERO, rational).min(Rational::ONE)
}

fn load(sdu: u16, step_ns: u64, jitter: Jitter, time_s: u64) -> Result<Load, Error> {
    let credit = Credit::for_sdu_rate(BIT_S, sdu, jitter);
    let credit = credit.ok_or(Error::new("packets without octets"))?;
    let mut cpu = Cpu::new(Host::new(step_ns));
    let thread = HostThread::Writer(paced(Time::ZERO, sdu.into(), credit));
    let id = cpu.start(Level::RealTime, thread);
    cpu.run(after_seconds(time_s));
    Ok(Load {
        cpu: seconds(cpu.busy()) / Rational::from(time_s),
        bit_s: writer(cpu.activity(id)).sent.octets * 8 / time_s,
    })
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "l4atm-figure-6",
        "CPU load of a connection of 40 * 10^6 bit/s, and the rate that it gets",
        &[
            ("sdu_octets", "octets"),
            ("estimate_percent", "Eq. 4, %"),
            ("corrected_percent", "corrected, %"),
            ("cpu_percent", "measured, %"),
            ("sdu_mbit_s", "Mbit/s"),
            ("cpu_clock_2ms_percent", "2 ms clock, %"),
            ("sdu_clock_2ms_mbit_s", "Mbit/s"),
            (
                "sdu_clock_2ms_10_pdus_mbit_s",
                "10-packet intervals, Mbit/s",
            ),
        ],
    );
    for point in points {
        let mbit_s = |load: &Load| Entry::number(mbps(load.bit_s, DECIMAL), 2);
        let of = |share: Rational| Entry::number(share * Rational::whole(100), 2);
        table.row([
            Entry::number(i32::from(point.sdu), 0),
            of(point.estimate),
            of(point.corrected),
            of(point.ideal.cpu),
            mbit_s(&point.ideal),
            of(point.stepped.cpu),
            mbit_s(&point.stepped),
            mbit_s(&point.default),
        ]);
    }
    table
}

fn figure(points: &[Point]) -> Figure {
    let curve = |name: &str, look, y: fn(&Point) -> Rational| {
        let point = |point: &Point| (f64::from(point.sdu), y(point).to_f64());
        Series::new(name, look, points.iter().map(point).collect())
    };
    let size = || Axis::linear("packet size, octets");
    Figure::stacked(
        "l4atm-figure-6",
        "A 40 Mbit/s transmit connection on the P-90",
        vec![
            Panel {
                x: Axis {
                    label: String::new(),
                    ..size()
                },
                y: Axis::linear("CPU, %").to(100.0),
                series: vec![
                    curve("Eq. 4", Look::Expected, |p| p.estimate * 100.into()),
                    curve("Eq. 4, corrected", Look::Dashed, |p| {
                        p.corrected * 100.into()
                    }),
                    curve("measured", Look::Dotted, |p| p.ideal.cpu * 100.into()),
                ],
                marks: Vec::new(),
            },
            Panel {
                x: size(),
                y: Axis::linear("rate, Mbit/s"),
                series: vec![
                    curve("clock without steps", Look::Line, |p| {
                        mbps(p.ideal.bit_s, DECIMAL)
                    }),
                    curve("2 ms clock", Look::Dashed, |p| {
                        mbps(p.stepped.bit_s, DECIMAL)
                    }),
                    curve("2 ms clock, 10 packets an interval", Look::Dotted, |p| {
                        mbps(p.default.bit_s, DECIMAL)
                    }),
                ],
                marks: Vec::new(),
            },
        ],
    )
}

fn checks(points: &[Point], time_s: u64) -> Result<Vec<Check>, Error> {
    let of = |sdu: u16| points.iter().find(|point| point.sdu == sdu);
    let missing = || Error::new("a packet size is missing");
    let (large, knee) = (
        of(8_192).ok_or_else(missing)?,
        of(4_096).ok_or_else(missing)?,
    );
    let flat = (large.ideal.cpu - knee.ideal.cpu).abs() < dec("0.001");
    // The rate is lost as soon as the whole CPU is not enough.
    let mut kept = None;
    for sdu in 650..=680 {
        let got = load(sdu, 1, Jitter::High, time_s)?;
        if got.bit_s * 1_000 >= BIT_S * 999 {
            kept = Some(sdu);
            break;
        }
    }
    let off = points
        .iter()
        .map(|point| (point.ideal.cpu - point.estimate).abs());
    let off = off.fold(Rational::ZERO, Rational::max);
    let shares = format!(
        "{} and {}",
        percent(knee.ideal.cpu),
        percent(large.ideal.cpu)
    );
    let starved = load(500, Host::CLOCK_STEP_NS, Jitter::Default, time_s)?;
    Ok(vec![
        Claim::derived("L10", "measured load, 8 KB", "about 30 %").number(
            dec("30.08"),
            Tolerance::Absolute(dec("0.1")),
            &percent(large.ideal.cpu),
        ),
        Claim::shape("Figure 6", "flat from 4 KB on", "").holds(flat, &shares),
        Claim::shape("Figure 6", "largest distance from Eq. 4", "").number(
            Rational::ZERO,
            Tolerance::Absolute(dec("0.1")),
            &percent(off),
        ),
        Claim::derived("L13", "smallest packets that keep 40 Mbps, measured", "").number(
            662.into(),
            Tolerance::Exact,
            &Value::new(i32::from(kept.unwrap_or(0)), 0, "octets"),
        ),
        Claim::lost(
            "L7",
            "rate of 500-octet packets with 10-packet intervals and the 2 ms clock",
            "\"very short intervals suffer\"",
            &rate(mbps(starved.bit_s, DECIMAL)),
        ),
    ])
}
