//! How the length of the interval decides what conforms (Figure 5), as a scenario.

use cellgate_core::Time;
use cellgate_core::contract::{Credit, Jitter, Remainder, UsageControl};
use cellgate_report::{
    At, Axis, Check, Claim, Entry, Figure, Look, Mark, Outcome, Panel, Series, Table,
};

use crate::experiments::{Error, Experiment, Progress, Settings};

/// `l4atm-figure-5`.
pub(in crate::experiments) struct Figure5;

/// A unit of the figure's time axis. A packet takes one on the line, so that a connection with half
/// of it has a packet due every other.
const UNIT_NS: u64 = 1_000_000;
const SDU: u16 = 1_000;
const UNITS: u64 = 16;
/// When each packet is due, and when it comes.
const PACKETS: [(u64, u64); 8] = [
    (0, 0),
    (2, 2),
    (4, 4),
    (6, 4),
    (8, 8),
    (10, 10),
    (12, 12),
    (14, 14),
];

impl Experiment for Figure5 {
    fn name(&self) -> &'static str {
        "l4atm-figure-5"
    }

    fn source(&self) -> &'static str {
        "L4ATM, Figure 5 and footnote 4"
    }

    fn run(&self, _: &Settings, _: &mut dyn Progress) -> Result<Outcome, Error> {
        let mut scenarios = Vec::new();
        for (name, jitter, first) in SCENARIOS {
            scenarios.push(Scenario::played(name, jitter, first)?);
        }
        Ok(Outcome {
            tables: vec![table(&scenarios)],
            figures: vec![figure(&scenarios)],
            checks: checks(&scenarios),
            notes: vec![
                "The figure's drawing is lost. Here the connection has half the line and a packet \
                 due every other unit; what is not accepted is dismissed: inbound, nothing waits."
                    .to_owned(),
            ],
        })
    }
}

/// A name, packets of an interval, and when the first packet comes after an interval began.
const SCENARIOS: [(&str, Jitter, u64); 3] = [
    ("a) long: 10 packets", Jitter::Default, 0),
    ("b) short: 2 packets", Jitter::Low, 2),
    ("b) short, begun with the first packet", Jitter::Low, 0),
];

/// Packets, each with the unit that it was due at, the one it came at, and whether it was accepted.
struct Scenario {
    name: &'static str,
    first: u64,
    interval_units: u64,
    packets: [(u64, u64, bool); PACKETS.len()],
}

impl Scenario {
    fn played(name: &'static str, jitter: Jitter, first: u64) -> Result<Self, Error> {
        // A packet every two units.
        let sdu_bit_s = u64::from(SDU) * 8 * (1_000_000_000 / (2 * UNIT_NS));
        let credit = Credit::for_sdu_rate(sdu_bit_s, SDU, jitter);
        let credit = credit.ok_or(Error::new("packets without octets"))?;
        let mut control = UsageControl::new(Time::ZERO, credit, Remainder::Carried);
        let packets = PACKETS.map(|(due, came)| {
            let now = Time::from_ns((first + came) * UNIT_NS);
            (due, came, control.accept(now, SDU.into()))
        });
        Ok(Self {
            name,
            first,
            interval_units: credit.interval_ns() / UNIT_NS,
            packets,
        })
    }

    fn dismissed(&self) -> Vec<u64> {
        let dismissed = self.packets.iter().filter(|(.., accepted)| !accepted);
        dismissed.map(|(due, ..)| *due).collect()
    }
}

fn table(scenarios: &[Scenario]) -> Table {
    let mut table = Table::new(
        "l4atm-figure-5",
        "A connection with half of the line: packets due at 0, 2, 4, ...",
        &[
            ("scenario", "interval"),
            ("due", "due"),
            ("came", "came"),
            ("interval", "in interval"),
            ("verdict", "verdict"),
        ],
    );
    for scenario in scenarios {
        for (due, came, accepted) in &scenario.packets {
            table.row([
                Entry::text(scenario.name),
                Entry::number(*due, 0),
                Entry::number(*came, 0),
                Entry::number((scenario.first + came) / scenario.interval_units + 1, 0),
                Entry::text(if *accepted { "accepted" } else { "dismissed" }),
            ]);
        }
    }
    table
}

fn figure(scenarios: &[Scenario]) -> Figure {
    let panel = |scenario: &Scenario| {
        let series = |name, look, which: bool| {
            let of = scenario
                .packets
                .iter()
                .filter(|(.., accepted)| *accepted == which);
            let points = of.map(|(_, came, _)| (*came as f64, 1.0));
            Series::new(name, look, points.collect())
        };
        let begins = (0..UNITS)
            .filter(|unit| (unit + scenario.first).is_multiple_of(scenario.interval_units));
        let mark = |unit: u64| Mark {
            at: At::X(unit as f64),
            label: "credit".to_owned(),
        };
        Panel {
            x: Axis::linear("time, units").to(UNITS as f64),
            y: Axis::linear(scenario.name).to(2.0),
            series: vec![
                series("accepted", Look::Dots, true),
                series("dismissed", Look::Printed, false),
            ],
            marks: begins.map(mark).collect(),
        }
    };
    Figure::stacked(
        "l4atm-figure-5",
        "The packet due at 6 comes at 4",
        scenarios.iter().take(2).map(panel).collect(),
    )
}

fn checks(scenarios: &[Scenario]) -> Vec<Check> {
    let [long, short, aligned] = scenarios else {
        return Vec::new();
    };
    let told = |scenario: &Scenario| match &*scenario.dismissed() {
        [] => "all accepted".to_owned(),
        due => format!("dismissed: due at {due:?}"),
    };
    let claim = |what| Claim::derived("Figure 5", what, "");
    vec![
        claim("a long interval accepts the early packet")
            .holds(long.dismissed().is_empty(), &told(long)),
        claim("a short one may dismiss it").holds(short.dismissed() == [6], &told(short)),
        claim("a short one accepts it if it falls into its own interval")
            .holds(aligned.dismissed().is_empty(), &told(aligned)),
    ]
}
