//! Time-sharing beside a guaranteed connection (Figure 9): jobs per minute of an AIM-like load.

use cellgate_core::contract::{CellRate, Credit, Jitter};
use cellgate_core::server::lambda::{Flow, Lambda};
use cellgate_report::{
    At, Axis, Check, Claim, Entry, Figure, Look, Mark, Outcome, Panel, Rational, Series, Table,
    Tolerance, Value, dec,
};

use super::units::{
    BINARY, DECIMAL, READINGS, after_seconds, degradation, mbps, paced, percent, rate, rational,
    writer,
};
use crate::experiments::{Error, Experiment, Parameter, Progress, Settings};
use crate::machine::p90::{Application, Cpu, Host, HostThread, Level, P90, User};

/// `l4atm-figure-9`.
pub(in crate::experiments) struct Figure9;

const SDU: u16 = 8_192;
const CROSSOVER: u64 = 75;
const LOADS: [u64; 14] = [1, 2, 5, 10, 15, 20, 30, 40, 50, 55, 60, 70, 75, 90];
const WARM_UP_S: u64 = 300;

const PARAMETERS: &[Parameter] = &[
    Parameter::whole(
        "job_cpu_ms",
        "CPU time of a job, calibrated: 75 jobs a minute take the whole CPU, ms",
        800,
        (1, 60_000),
    ),
    Parameter::choice("mbps", "what Mbps means, bit/s", "2^20", &["2^20", "10^6"]),
    Parameter::whole("minutes", "virtual minutes of each load, min", 20, (1, 600)),
];

impl Experiment for Figure9 {
    fn name(&self) -> &'static str {
        "l4atm-figure-9"
    }

    fn source(&self) -> &'static str {
        "L4ATM, Figure 9"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let unit = match settings.choice("mbps") {
            "2^20" => BINARY,
            _ => DECIMAL,
        };
        let bench = Bench::new(settings, unit)?;
        let mut points = Vec::new();
        for (i, load) in LOADS.into_iter().enumerate() {
            points.push(bench.point(load));
            progress.step(i as u64 + 1, LOADS.len() as u64);
        }
        Ok(Outcome {
            tables: vec![table(&points, &bench)],
            figures: vec![figure(&points, &bench)],
            checks: [checks(&points, &bench)?, degradation_checks(settings)?].concat(),
            notes: vec![
                "Calibrated: a job takes 0.8 s of the CPU, so that jobs per minute fall below one \
                 per user at a load of 75 without real-time work. The mix of computing and waiting \
                 is ours: only the shape of the rising part can be compared."
                    .to_owned(),
                "With the reservation off, the same writer is a process among the others: it keeps \
                 its pace only while the machine has time to spare."
                    .to_owned(),
            ],
        })
    }
}

struct Bench {
    job_cpu_ms: u64,
    minutes: u64,
    unit: u64,
    /// As the server granted it.
    credit: Credit,
    /// Of the CPU: by Equation 4, and as core's server reserves and expects it.
    estimate: Rational,
    reserved: Rational,
    expected: Rational,
}

/// How the writer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    None,
    Reserved,
    Unreserved,
}

/// One load: jobs per minute, and the writer's bit/s.
struct Point {
    load: u64,
    alone: Rational,
    reserved: Rational,
    reserved_bit_s: u64,
    unreserved: Rational,
    unreserved_bit_s: u64,
}

impl Bench {
    fn new(settings: &Settings, unit: u64) -> Result<Self, Error> {
        let bit_s = 40 * unit;
        let p90 = P90::PAPER;
        let law = p90.law(0).map_err(|error| Error::new(error.to_string()))?;
        let now = cellgate_core::Time::ZERO;
        let mut application = Application::new(now, CellRate::OC3, law)?;
        let pcr = CellRate::for_sdu_rate(bit_s, SDU.into()).map_or(0, CellRate::cell_s);
        let contract = format!("cbr:tx:pcr={pcr},max_sdu={SDU},rx:none");
        let (_, opened) = application.open(now, 100, &contract)?;
        let granted = opened.transmit_credit;
        let cpu = application.cpu(now)?;
        let of_cpu = |ppm: u64| Rational::new(ppm.into(), cpu.capacity.into());
        let flow = [Flow {
            bit_s,
            sdu: SDU.into(),
        }];
        let most = (p90.transmit_max_bit_s, p90.receive_max_bit_s);
        let estimate = Lambda::Printed.utilisation(&flow, most.0, &[], most.1);
        Ok(Self {
            job_cpu_ms: settings.whole("job_cpu_ms"),
            minutes: settings.whole("minutes"),
            unit,
            credit: granted.ok_or(Error::new("the writer was given no credit"))?,
            estimate: estimate.map_or(Rational::ZERO, rational),
            reserved: of_cpu(cpu.reserved),
            expected: of_cpu(cpu.expected),
        })
    }

    fn point(&self, load: u64) -> Point {
        let (reserved, reserved_bit_s) = self.run(load, Connection::Reserved);
        let (unreserved, unreserved_bit_s) = self.run(load, Connection::Unreserved);
        Point {
            load,
            alone: self.run(load, Connection::None).0,
            reserved,
            reserved_bit_s,
            unreserved,
            unreserved_bit_s,
        }
    }

    fn run(&self, load: u64, connection: Connection) -> (Rational, u64) {
        let mut cpu = Cpu::new(Host::new(Host::CLOCK_STEP_NS));
        let level = match connection {
            Connection::None => None,
            Connection::Reserved => Some(Level::RealTime),
            Connection::Unreserved => Some(Level::TimeSharing),
        };
        let thread = level.map(|level| {
            let thread = paced(cpu.now().time(), SDU.into(), self.credit);
            cpu.start(level, HostThread::Writer(thread))
        });
        for number in 0..load {
            let user = User::new(number as usize, self.job_cpu_ms);
            cpu.start(Level::TimeSharing, HostThread::User(user));
        }
        let octets = |cpu: &Cpu<HostThread>| {
            thread.map_or(0, |thread| writer(cpu.activity(thread)).sent.octets)
        };
        let warm = after_seconds(WARM_UP_S);
        cpu.run(warm);
        let before = (cpu.machine.work, octets(&cpu));
        cpu.run(warm.plus(after_seconds(self.minutes * 60)));
        let jobs = Rational::new((cpu.machine.work - before.0).into(), User::JOB.into());
        let jobs = jobs / Rational::from(self.minutes);
        (jobs, (octets(&cpu) - before.1) * 8 / (self.minutes * 60))
    }

    fn estimated(&self, alone: Rational) -> Rational {
        alone * (Rational::ONE - self.estimate)
    }
}

fn table(points: &[Point], bench: &Bench) -> Table {
    let mut table = Table::new(
        "l4atm-figure-9",
        "Jobs per minute of the time-sharing system, and the connection's rate",
        &[
            ("load", "load"),
            ("alone_jobs_min", "no real-time work"),
            ("estimated_jobs_min", "estimated (Eq. 4)"),
            ("reserved_jobs_min", "measured, reservation on"),
            ("reserved_mbps", "Mbps"),
            ("unreserved_jobs_min", "reservation off"),
            ("unreserved_mbps", "Mbps"),
        ],
    );
    for point in points {
        table.row([
            Entry::number(point.load, 0),
            Entry::number(point.alone, 2),
            Entry::number(bench.estimated(point.alone), 2),
            Entry::number(point.reserved, 2),
            Entry::number(mbps(point.reserved_bit_s, bench.unit), 2),
            Entry::number(point.unreserved, 2),
            Entry::number(mbps(point.unreserved_bit_s, bench.unit), 2),
        ]);
    }
    table
}

fn figure(points: &[Point], bench: &Bench) -> Figure {
    let curve = |name: &str, look, y: &dyn Fn(&Point) -> Rational| {
        let point = |point: &Point| (point.load as f64, y(point).to_f64());
        Series::new(name, look, points.iter().map(point).collect())
    };
    let jobs = vec![
        curve("estimated", Look::Expected, &|p| bench.estimated(p.alone)),
        curve("without real-time work", Look::Line, &|p| p.alone),
        curve("beside 40 Mbps, reserved", Look::Dotted, &|p| p.reserved),
        curve("beside 40 Mbps, not reserved", Look::Dashed, &|p| {
            p.unreserved
        }),
    ];
    let rates = vec![
        curve("reserved", Look::Dotted, &|p| {
            mbps(p.reserved_bit_s, bench.unit)
        }),
        curve("not reserved", Look::Dashed, &|p| {
            mbps(p.unreserved_bit_s, bench.unit)
        }),
    ];
    let panel = |x: &str, y: &str, series| Panel {
        x: Axis::linear(x),
        y: Axis::linear(y),
        series,
        marks: Vec::new(),
    };
    let mut jobs = panel("", "jobs per minute", jobs);
    jobs.marks.push(Mark {
        at: At::X(CROSSOVER as f64),
        label: "cross-over".to_owned(),
    });
    Figure::stacked(
        "l4atm-figure-9",
        "Time-sharing beside a guaranteed connection of 40 Mbps",
        vec![jobs, panel("load, users", "rate, Mbps", rates)],
    )
}

fn crossover(points: &[Point]) -> Result<&Point, Error> {
    let full = points.iter().find(|point| point.load == CROSSOVER);
    full.ok_or(Error::new("the load of the cross-over is missing"))
}

/// What the connection costs the time-sharing system at the cross-over, in both readings of 40
/// Mbps.
fn degradation_checks(settings: &Settings) -> Result<Vec<Check>, Error> {
    let mut checks = Vec::new();
    for (reading, unit) in READINGS {
        let mut bench = Bench::new(settings, unit)?;
        // Jobs that are in progress at its ends blur a shorter time by more than a tenth.
        bench.minutes = bench.minutes.max(60);
        let (alone, _) = bench.run(CROSSOVER, Connection::None);
        let (reserved, _) = bench.run(CROSSOVER, Connection::Reserved);
        let less = (alone - reserved).over(alone);
        let what = "fewer jobs beside 40 Mbps, at a load of 75";
        checks.push(degradation(what, reading, less));
    }
    Ok(checks)
}

fn checks(points: &[Point], bench: &Bench) -> Result<Vec<Check>, Error> {
    let full = crossover(points)?;
    let per_user = full.alone / Rational::from(CROSSOVER);
    let crossed = points
        .iter()
        .find(|point| point.reserved < point.load.into());
    let contract = Rational::from(40 * bench.unit);
    // An interval's packets may leave before the time that is measured, or after it.
    let interval = Rational::from(bench.credit.octets() * 8);
    let time = Rational::from(bench.minutes * 60);
    let slowest = points
        .iter()
        .map(|point| point.reserved_bit_s)
        .min()
        .unwrap_or(0);
    let near = |number: &str| Tolerance::Absolute(dec(number));
    let busy = points.iter().filter(|point| point.load >= 30);
    let off = |point: &Point| {
        let estimated = bench.estimated(point.alone);
        let off = (point.reserved - estimated).over(estimated)?;
        Some(off.abs() * Rational::whole(100))
    };
    let off = busy.map(off).collect::<Option<Vec<_>>>();
    let off = off.and_then(|all| all.into_iter().max());
    let rises = points
        .windows(2)
        .all(|two| two[1].alone * dec("1.01") >= two[0].alone);
    let shape = format!("{} to {}", points[0].alone.fixed(1), full.alone.fixed(1));
    let unreserved = mbps(full.unreserved_bit_s, bench.unit);
    let other = Credit::for_sdu_rate(40 * bench.unit, SDU, Jitter::Default);
    let granted = other.is_some_and(|credit| {
        credit.octets() == bench.credit.octets()
            && credit.interval_ns().abs_diff(bench.credit.interval_ns()) <= 1_000
    });
    Ok(vec![
        Claim::calibrated(
            "L11",
            "jobs per minute and user at a load of 75",
            "cross-over",
        )
        .number(Rational::ONE, near("0.01"), &Value::new(per_user, 3, "")),
        Claim::shape(
            "Figure 9",
            "largest distance from the estimate, load 30 and more",
            "",
        )
        .number(Rational::ZERO, near("1"), &Value::ratio(off, 2, "%")),
        Claim::shape("Figure 9", "jobs per minute rise to a plateau", "").holds(rises, &shape),
        Claim::lost(
            "Figure 9",
            "first load measured beyond the cross-over beside 40 Mbps",
            "",
            &Value::new(crossed.map_or(0, |point| point.load), 0, "users"),
        ),
        Claim::derived(
            "L15",
            "the connection keeps its rate at every load",
            "40 Mbps",
        )
        .number(
            (contract - interval / time) / bench.unit.into(),
            Tolerance::AtLeast,
            &rate(mbps(slowest, bench.unit)),
        ),
        Claim::shape(
            "Figure 9",
            "without reservation it does not, at a load of 75",
            "",
        )
        .number(20.into(), Tolerance::AtMost, &rate(unreserved)),
        Claim::derived("L5", "the server's credit is 10 packets in their time", "")
            .holds(granted, &format!("{} octets", bench.credit.octets())),
        Claim::derived("L11", "CPU reserved by core's admission covers Eq. 4", "").number(
            bench.estimate * Rational::whole(100),
            Tolerance::AtLeast,
            &percent(bench.reserved),
        ),
        Claim::lost(
            "L11",
            "CPU that core's admission expects",
            "31.2 %",
            &percent(bench.expected),
        ),
    ])
}
