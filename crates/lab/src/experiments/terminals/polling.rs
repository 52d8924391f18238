use cellgate_core::contract::CellRate;
use cellgate_core::terminal::{Events, Variant};
use cellgate_report::{
    Check, Claim, Entry, Figure, Outcome, Rational, Table, Tolerance, Value, dec,
};

use super::{
    Error, Experiment, MILLISECONDS, PAPER, Pace, PairConfig, Parameter, Pc386Costs, Pc386Work,
    Progress, Settings, cell_octet_s, config, measured,
};

/// Flags that are polled, against interrupts and queue messages.
pub(in crate::experiments) struct Polling;

const INTERRUPT: Parameter = Parameter::number(
    "interrupt_us",
    "the board's interrupt, us (calibrated)",
    Pc386Costs::INTERRUPT,
    (dec("0"), dec("1000")),
);
const QUEUE: Parameter = Parameter::number(
    "queue_us",
    "a message into a queue, or out of it, us (calibrated)",
    Pc386Costs::QUEUE,
    (dec("0"), dec("1000")),
);

impl Experiment for Polling {
    fn name(&self) -> &'static str {
        "terminals-polling"
    }

    fn source(&self) -> &'static str {
        "High Performance ATM Terminals, section 6.4: polling or interrupts"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[INTERRUPT, QUEUE, MILLISECONDS];
        ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let queue = settings.number("queue_us");
        let costs = Pc386Costs {
            interrupt: settings.number("interrupt_us"),
            enqueue: queue,
            dequeue: queue,
            ..Pc386Costs::of_cell(Pc386Work::cell_us(Pc386Work::POLLED_OCTET_S))
        };
        let of = |events: [Events; 2], pace| {
            let config = PairConfig {
                variants: events.map(|events| Variant { events, ..PAPER }),
                pace,
                ..config(costs, PAPER, 8_192)
            };
            measured(config, settings.whole("milliseconds")).map(|counts| cell_octet_s(&counts))
        };
        let flags = of([Events::Flags; 2], None)?;
        progress.step(1, 3);
        let upstream = of([Events::Flags, Events::Queue], None)?;
        progress.step(2, 3);
        // Ticks that are due as soon as the PC is ready.
        let ready = CellRate::new(1_000_000).map(|rate| Pace {
            rate,
            cellburst: 1,
            misses_ticks: false,
        });
        let timer = of([Events::Queue, Events::Flags], ready)?;
        progress.step(3, 3);
        let checks = checks(flags, upstream, timer);
        Ok(Outcome {
            tables: vec![table(flags, upstream, timer)],
            figures: vec![Figure::of_claims(
                "claims",
                "Polling or interrupts",
                &checks,
            )],
            checks,
            ..Outcome::default()
        })
    }
}

/// Microseconds of a cell at such a rate of octets; none, if none went.
fn cell_us(rate: Rational) -> Option<Rational> {
    (rate != Rational::ZERO).then(|| Pc386Work::cell_us(rate))
}

fn table(flags: Rational, upstream: Rational, timer: Rational) -> Table {
    let mut table = Table::new(
        "polling",
        "How frequent events reach the kernel",
        &[("events", ""), ("octets", "1000/s"), ("a cell", "us")],
    );
    for (name, rate) in [
        ("flags, polled", flags),
        ("interrupt and queue for each cell that comes", upstream),
        ("interrupt and queue for each tick of the rate timer", timer),
    ] {
        table.row([
            Entry::text(name),
            Entry::number(rate / dec("1000"), 1),
            cell_us(rate).map_or(Entry::Empty, |us| Entry::number(us, 1)),
        ]);
    }
    table
}

fn checks(flags: Rational, upstream: Rational, timer: Rational) -> Vec<Check> {
    let value = |rate: Rational| Value::new(rate / dec("1000"), 1, "x 1000 octets/s");
    let spared = |rate: Rational| {
        let us = cell_us(rate).zip(cell_us(flags));
        Value::ratio(us.map(|(us, of_flags)| us - of_flags), 1, "us")
    };
    let near = |percent: &str| Tolerance::Percent(dec(percent));
    let claim = |what: &str, paper: &str| Claim::derived("T7", what, paper);
    let mut checks = vec![
        Claim::calibrated("T7", "rate with flags", "approximately 330 Kbytes/sec")
            .prints(dec("330"))
            .number(dec("330"), near("2"), &value(flags)),
        claim("what interrupts cost a receiver", "about 80 Kbytes/sec")
            .prints(dec("80"))
            .reading("with KB = 1,000")
            .number(dec("80"), near("5"), &value(flags - upstream)),
    ];
    for (what, rate) in [("a cell that comes", upstream), ("a tick", timer)] {
        checks.push(
            claim(
                &format!("interrupt and message of {what}, beyond a look at a flag"),
                "",
            )
            .reading("1 / 250 - 1 / 330, of 44 octets")
            .number(dec("42.7"), near("5"), &spared(rate)),
        );
    }
    checks
}
