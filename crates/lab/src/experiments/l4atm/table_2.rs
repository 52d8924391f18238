//! Precision of usage control: two greedy writers (Table 2), in three readings of the paper.

use cellgate_core::Time;
use cellgate_core::contract::{
    CellRate, Credit, Jitter, PduStream, Remainder, UsageControl, aal5_cells,
};
use cellgate_report::{
    Check, Claim, Entry, Figure, Outcome, Rational, Table, Tolerance, Value, dec,
};

use super::table_2_world::{self, Seconds};
use super::units::{BINARY, READINGS, after_seconds, mbps, rate, writer};
use crate::experiments::{Error, Experiment, Parameter, Progress, Settings};
use crate::machine::p90::{Cpu, Host, HostThread, Level, Waking, Writer};

/// `l4atm-table-2`.
pub(in crate::experiments) struct Table2;

const PARAMETERS: &[Parameter] = &[
    Parameter::whole("seconds", "virtual seconds, s", 1_300, (13, 86_400)),
    Parameter::whole(
        "clock_step_us",
        "step of the kernel's clock, us",
        2_000,
        (1, 50_000),
    ),
    Parameter::whole(
        "world_seconds",
        "virtual seconds in the world, s",
        60,
        (1, 3_600),
    ),
];

/// A row of the table: octets/s, octets of a packet; then as the paper prints it.
pub(super) struct Row {
    pub(super) octet_s: u32,
    sdu: u16,
    mbps: &'static str,
    interval_ms: u64,
    credit: u64,
    pub(super) sent: &'static str,
    pub(super) peer: &'static str,
    /// By the text of section 2.5, and with debts forgiven: derived, not printed.
    lost: &'static str,
    overdrawn: &'static str,
}

pub(super) const ROWS: [Row; 2] = [
    Row {
        octet_s: 8_000_000,
        sdu: 8_192,
        mbps: "61.03",
        interval_ms: 10,
        credit: 79_990,
        sent: "60.98",
        peer: "60.89",
        lost: "56.25",
        overdrawn: "62.50",
    },
    Row {
        octet_s: 3_000_000,
        sdu: 4_096,
        mbps: "22.89",
        interval_ms: 13,
        credit: 39_000,
        sent: "22.91",
        peer: "22.90",
        lost: "21.63",
        overdrawn: "24.04",
    },
];

/// How a worker is paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    name: &'static str,
    remainder: Remainder,
    printed: bool,
}

const PACES: [Reading; 4] = [
    Reading {
        name: "remainder carried to who waits",
        remainder: Remainder::Carried,
        printed: true,
    },
    Reading {
        name: "remainder lost (text of 2.5)",
        remainder: Remainder::Lost,
        printed: true,
    },
    Reading {
        name: "overdrawn, debt forgiven",
        remainder: Remainder::Overdrawn,
        printed: true,
    },
    Reading {
        name: "core's exact credits",
        remainder: Remainder::Carried,
        printed: false,
    },
];

impl Experiment for Table2 {
    fn name(&self) -> &'static str {
        "l4atm-table-2"
    }

    fn source(&self) -> &'static str {
        "L4ATM, Table 2"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let mut runs = Vec::new();
        let world_s = settings.whole("world_seconds");
        let steps = PACES.len() as u64;
        for (i, reading) in PACES.into_iter().enumerate() {
            runs.push((reading, measure(reading, settings)?));
            progress.step(i as u64 + 1, steps + world_s);
        }
        let mut rates = rate_checks(&runs);
        let (world, in_world) = table_2_world::run(world_s, &mut Seconds { progress, steps })?;
        rates.extend(in_world);
        let mut checks = credit_checks()?;
        checks.extend(class_checks());
        let figures = vec![
            Figure::of_numbers("rates", "Two greedy writers, Mbps = 2^20 bit/s", &rates),
            Figure::of_claims("credits", "What follows from the request", &checks),
        ];
        checks.extend(rates);
        Ok(Outcome {
            tables: vec![table(&runs), world],
            figures,
            checks,
            notes: vec![
                "Printed credits: cells/s = floor(rate / 48), octets of a millisecond = \
                 floor(cells/s * 48 / 1000), times an interval of whole milliseconds. That is why \
                 it is 79,990 and not 80,000."
                    .to_owned(),
                "A 13 ms interval outlasts the clock's sixth step and wakes at the seventh; the \
                 grid of intervals does not drift with it, so the rate holds."
                    .to_owned(),
            ],
        })
    }
}

/// What a writer was told to keep to, and kept to.
struct Measured {
    credit: Credit,
    sent_bit_s: u64,
    peer_bit_s: u64,
}

fn credit(row: &Row, printed: bool) -> Result<Credit, Error> {
    let none = || Error::new("a rate of the table is none");
    let sdu_bit_s = u64::from(row.octet_s) * 8;
    if !printed {
        return Credit::for_sdu_rate(sdu_bit_s, row.sdu, Jitter::Default).ok_or_else(none);
    }
    let cells = CellRate::new(row.octet_s / 48).ok_or_else(none)?;
    let stream = PduStream {
        peak: cells,
        sustained: cells,
        sdu: row.sdu.into(),
        cells: aal5_cells(row.sdu.into()),
        dvt_ns: 0,
    };
    Ok(stream.credit_printed(Jitter::Default))
}

/// Both writers at once, in tight loops.
fn measure(reading: Reading, settings: &Settings) -> Result<Vec<Measured>, Error> {
    let time_s = settings.whole("seconds");
    let mut cpu = Cpu::new(Host::new(settings.whole("clock_step_us") * 1_000));
    let mut threads = Vec::new();
    for row in &ROWS {
        let credit = credit(row, reading.printed)?;
        let control = UsageControl::new(Time::ZERO, credit, reading.remainder);
        let thread = Writer::new(row.sdu.into(), Some(control), Waking::AsksTheClock);
        let id = cpu.start(Level::RealTime, HostThread::Writer(thread));
        threads.push((id, credit));
    }
    cpu.run(after_seconds(time_s));
    let measured = threads.into_iter().map(|(id, credit)| {
        let writer = writer(cpu.activity(id));
        Measured {
            credit,
            sent_bit_s: writer.sent.octets * 8 / time_s,
            peer_bit_s: writer.received.bit_s(),
        }
    });
    Ok(measured.collect())
}

fn table(runs: &[(Reading, Vec<Measured>)]) -> Table {
    let mut table = Table::new(
        "l4atm-table-2",
        "Two concurrent real-time writers (Mbps = 2^20 bit/s)",
        &[
            ("reading", "reading"),
            ("requested_octet_s", "requested, octets/s"),
            ("requested_mbps", "Mbps"),
            ("sdu_octets", "data size"),
            ("interval_ms", "interval, ms"),
            ("credit_octets", "credits"),
            ("sent_mbps", "rate sent"),
            ("peer_mbps", "peer rate"),
        ],
    );
    let requested = |row: &Row| mbps(u64::from(row.octet_s) * 8, BINARY);
    for row in &ROWS {
        table.row([
            Entry::text("the paper"),
            Entry::number(row.octet_s, 0),
            Entry::number(dec(row.mbps), 2),
            Entry::number(i32::from(row.sdu), 0),
            Entry::number(row.interval_ms, 3),
            Entry::number(row.credit, 0),
            Entry::number(dec(row.sent), 2),
            Entry::number(dec(row.peer), 2),
        ]);
    }
    for (reading, measured) in runs {
        for (row, measured) in ROWS.iter().zip(measured) {
            let interval_ms = Rational::new(measured.credit.interval_ns().into(), 1_000_000);
            table.row([
                Entry::text(reading.name),
                Entry::number(row.octet_s, 0),
                Entry::number(requested(row), 2),
                Entry::number(i32::from(row.sdu), 0),
                Entry::number(interval_ms, 3),
                Entry::number(measured.credit.octets(), 0),
                Entry::number(mbps(measured.sent_bit_s, BINARY), 2),
                Entry::number(mbps(measured.peer_bit_s, BINARY), 2),
            ]);
        }
    }
    table
}

/// The columns that follow from the request.
fn credit_checks() -> Result<Vec<Check>, Error> {
    let mut checks = Vec::new();
    let [_, (binary, _)] = READINGS;
    for row in &ROWS {
        let what = |what: &str| format!("{what} of {} octets/s", row.octet_s);
        let requested = mbps(u64::from(row.octet_s) * 8, BINARY);
        // 61.035 is printed as 61.03.
        checks.push(
            Claim::derived("L4", &what("requested rate"), row.mbps)
                .prints(dec(row.mbps))
                .reading(binary)
                .number(
                    dec(row.mbps),
                    Tolerance::Absolute(dec("0.01")),
                    &rate(requested),
                ),
        );
        let credit = credit(row, true)?;
        let interval = Rational::new(credit.interval_ns().into(), 1_000_000);
        let printed = format!("{} ms", row.interval_ms);
        let claim = Claim::derived("L5", &what("interval"), &printed);
        checks.push(claim.prints(row.interval_ms.into()).number(
            row.interval_ms.into(),
            Tolerance::Exact,
            &Value::new(interval, 0, "ms"),
        ));
        let printed = format!("{} octets", row.credit);
        let claim = Claim::derived("L5", &what("credits"), &printed);
        checks.push(claim.prints(row.credit.into()).number(
            row.credit.into(),
            Tolerance::Exact,
            &Value::new(credit.octets(), 0, "octets"),
        ));
    }
    Ok(checks)
}

fn rate_checks(runs: &[(Reading, Vec<Measured>)]) -> Vec<Check> {
    let mut checks = Vec::new();
    for (reading, measured) in runs {
        for (row, measured) in ROWS.iter().zip(measured) {
            let contract = mbps(u64::from(row.octet_s) * 8, BINARY);
            // What the contract demands, or what the reading comes to.
            let (expected, near) = match reading.remainder {
                Remainder::Carried => (contract, Tolerance::Percent(dec("0.1"))),
                Remainder::Lost => (dec(row.lost), Tolerance::Absolute(dec("0.01"))),
                Remainder::Overdrawn => (dec(row.overdrawn), Tolerance::Absolute(dec("0.01"))),
            };
            let bit_s = [
                ("rate sent", row.sent, measured.sent_bit_s),
                ("peer rate", row.peer, measured.peer_bit_s),
            ];
            for (what, printed, bit_s) in bit_s {
                let what = format!("{what}, {} octets/s requested", row.octet_s);
                let claim = Claim::derived("L6", &what, printed).prints(dec(printed));
                let claim = claim.reading(reading.name);
                checks.push(claim.number(expected, near, &rate(mbps(bit_s, BINARY))));
            }
        }
    }
    checks
}

/// Intervals of the three classes of jitter.
fn class_checks() -> Vec<Check> {
    let classes = [(Jitter::Low, 2), (Jitter::Default, 10), (Jitter::High, 50)];
    let check = |(jitter, pdus): (Jitter, u32)| {
        let what = format!("packets of an interval, jitter={}", jitter.word());
        // A rate of one packet per second: the interval has as many seconds.
        let credit = Credit::for_sdu_rate(8 * 1_000, 1_000, jitter);
        let ns = credit.map_or(0, |credit| credit.interval_ns());
        let ours = Value::new(Rational::new(ns.into(), 1_000_000_000), 0, "packets");
        let claim = Claim::derived("L7", &what, &pdus.to_string()).prints(pdus.into());
        claim.number(pdus.into(), Tolerance::Exact, &ours)
    };
    classes.map(check).into()
}
