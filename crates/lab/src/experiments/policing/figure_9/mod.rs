mod network;
mod point;
mod sweep;

use cellgate_core::contract::aal5_cells;
use cellgate_report::{
    At, Axis, Entry, Figure, Look, Mark, Outcome, Panel, Rational, Series, Table, dec,
};

use self::network::interval;
use self::point::{Point, Setup};
use self::sweep::Sweep;
use super::{
    C_CELL, C_PDU, Error, Experiment, INTERRUPT_US, PDU_US, Parameter, Progress, Ps, Settings,
    address, board, host, line_sdu_bit_s,
};
use crate::machine::{BoardConfig, pdu_cells};
use crate::world::QueueDiscard;

/// The host's CPU while one sender exceeds its contract.
pub(in crate::experiments) struct Figure9;

const SDU: u16 = 8_192;
/// Bit/s of SDU of the two streams of host A, and of the contract of the hazard.
const STREAM_BIT_S: u64 = 20_000_000;
const CONTRACT_BIT_S: u64 = 40_000_000;
/// VCIs of A's two streams and of the hazard.
const VCIS: [u16; 3] = [32, 33, 34];
const HAZARD: usize = 2;
/// PDUs that each receive buffer holds.
const BUFFER_PDUS: u32 = 8;
/// Until everything has settled that is not the hazard's buffer.
const WARM: Ps = Ps::from_ns(70_000_000);

/// A rate on the plateau, for the other reading of what interrupts.
const TOLD: u32 = 90;
/// Where the hazard's rate is 10 % beyond what the port has left for it.
const BEYOND: u32 = 105;
/// 10^6 bit/s of SDU: the curve of the figure.
const RATES_MBIT_S: [u32; 29] = [
    0, 2, 5, 10, 20, 30, 38, 40, 41, 42, 43, 44, 45, 46, 47, 48, 50, 60, 70, 80, 90, 93, 94, 95,
    96, 100, BEYOND, 115, 130,
];
/// The least of them that the checks speak of.
const FEW_MBIT_S: [u32; 7] = [0, 2, 20, 60, 94, 96, BEYOND];
const PLATEAU: std::ops::RangeInclusive<u32> = 40..=95;

const RATES: &[&str] = &["all", "few"];
const DISCARDS: &[&str] = &["shared", "per-vc", "ppd", "epd"];
const PARAMETERS: &[Parameter] = &[
    C_CELL,
    C_PDU,
    INTERRUPT_US,
    PDU_US,
    Parameter::whole(
        "pdus",
        "PDUs of each of A's streams per point",
        60,
        (20, 10_000),
    ),
    Parameter::choice(
        "rates",
        "of the hazard: the curve, or what checks need",
        "all",
        RATES,
    ),
    Parameter::choice("discard", "what the switch discards", "per-vc", DISCARDS),
    Parameter::whole(
        "port_cells",
        "cells of the switch port's buffer",
        256,
        (8, 65_536),
    ),
];

fn discard(name: &str, port_cells: u32) -> QueueDiscard {
    match name {
        "shared" => QueueDiscard::Shared,
        "ppd" => QueueDiscard::Ppd,
        "epd" => QueueDiscard::Epd {
            threshold: port_cells / 4 * 3,
        },
        _ => QueueDiscard::PerVc {
            quota: port_cells / 2,
        },
    }
}

impl Experiment for Figure9 {
    fn name(&self) -> &'static str {
        "policing-figure-9"
    }

    fn source(&self) -> &'static str {
        "Policing Offloaded, Figure 9: host CPU utilization with \"hazard\""
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let measured = Measured::with(settings, progress)?;
        let mut checks = Vec::new();
        if let Some(sweep) = Sweep::of(&measured.points) {
            checks = sweep.checks(&measured.beyond);
            checks.push(sweep.told_check(&measured.told));
        }
        Ok(Outcome {
            tables: vec![table(&measured.points), discards(&measured.beyond)],
            figures: vec![figure(&measured.points, settings)],
            checks,
            notes: NOTES.map(str::to_owned).into(),
        })
    }
}

const NOTES: [&str; 3] = [
    "Rates are of SDU. The paper does not say which it means: with rates of cells the fall would \
     begin at 109.8 instead of 95.4; its \"100\" lies between.",
    "The fall needs a switch that loses cells of the hazard alone and goes on with the rest of a \
     damaged PDU (discard=per-vc). Discarding whole PDUs would keep the load up, one queue for \
     all would damage the other two connections.",
    "Section 4.2 has an interrupt when a receive queue is full, section 6.5 none for what is \
     discarded. The curve is of section 6.5: the event is written, but interrupts nobody. The \
     adapter writes it once for each PDU that the host gives back.",
];

/// All that is run.
struct Measured {
    /// The sweep, behind the switch that was chosen.
    points: Vec<Point>,
    /// [`BEYOND`], behind each switch.
    beyond: Vec<(&'static str, Point)>,
    /// [`TOLD`], where a full receive queue interrupts the host.
    told: Point,
}

impl Measured {
    fn with(settings: &Settings, progress: &mut dyn Progress) -> Result<Self, Error> {
        let port_cells = u32::try_from(settings.whole("port_cells")).unwrap_or(u32::MAX);
        let mut setup = setup(settings, port_cells)?;
        let chosen = setup.discard;
        let rates = match settings.choice("rates") {
            "few" => &FEW_MBIT_S[..],
            _ => &RATES_MBIT_S,
        };
        let all = (rates.len() + DISCARDS.len() + 1) as u64;
        let mut done = 0;
        let mut step = || {
            done += 1;
            progress.step(done, all);
        };
        let mut points = Vec::new();
        for mbit_s in rates {
            points.push(Point::measured(&setup, *mbit_s)?);
            step();
        }
        let mut beyond = Vec::new();
        for name in DISCARDS {
            setup.discard = discard(name, port_cells);
            beyond.push((*name, Point::measured(&setup, BEYOND)?));
            step();
        }
        setup.discard = chosen;
        setup.config.full_interrupts = true;
        let told = Point::measured(&setup, TOLD)?;
        step();
        Ok(Self {
            points,
            beyond,
            told,
        })
    }
}

fn setup(settings: &Settings, port_cells: u32) -> Result<Setup, Error> {
    let mut cells = Vec::new();
    for vci in VCIS {
        cells.push(pdu_cells(address(vci)?, SDU)?);
    }
    let pdus = settings.whole("pdus") * u64::from(aal5_cells(SDU.into()));
    Ok(Setup {
        config: BoardConfig {
            full_interrupts: false,
            ..board(settings)
        },
        costs: host(settings),
        discard: discard(settings.choice("discard"), port_cells),
        port_cells,
        span: interval(STREAM_BIT_S).times(pdus),
        seed: settings.seed,
        cells,
    })
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "load",
        "Host C by the rate of the hazard",
        &[
            ("hazard_sdu_mbit_s", "hazard, 10^6 bit/s"),
            ("cpu_percent", "CPU, %"),
            ("interrupts_s", "interrupts/s"),
            ("full_s", "queue full, events/s"),
            ("a1_pdu_s", "A1, PDU/s"),
            ("a2_pdu_s", "A2, PDU/s"),
            ("hazard_pdu_s", "hazard, PDU/s"),
        ],
    );
    for point in points {
        let [a1, a2, hazard] = point.pdu_s.map(|rate| Entry::number(rate, 1));
        table.row([
            Entry::number(point.hazard_mbit_s, 0),
            Entry::number(point.cpu_percent, 3),
            Entry::number(point.interrupts_s, 1),
            Entry::number(point.full_s, 1),
            a1,
            a2,
            hazard,
        ]);
    }
    table
}

fn discards(beyond: &[(&str, Point)]) -> Table {
    let mut table = Table::new(
        "discards",
        "What the switch discards, hazard at 105 x 10^6 bit/s",
        &[
            ("discard", "discard"),
            ("cpu_percent", "CPU, %"),
            ("a1_sdu_mbit_s", "A1, 10^6 bit/s"),
            ("a2_sdu_mbit_s", "A2, 10^6 bit/s"),
            ("hazard_sdu_mbit_s", "hazard, 10^6 bit/s"),
        ],
    );
    for (name, point) in beyond {
        let bit = Rational::from(8 * u32::from(SDU)) / dec("1000000");
        let [a1, a2, hazard] = point.pdu_s.map(|rate| Entry::number(rate * bit, 1));
        let cpu = Entry::number(point.cpu_percent, 3);
        table.row([Entry::text(*name), cpu, a1, a2, hazard]);
    }
    table
}

/// PDU/s at so many bit/s of SDU.
fn pdu_s(bit_s: u64) -> Rational {
    Rational::from(bit_s) / Rational::from(8 * u32::from(SDU))
}

/// 10^6 bit/s that the port has left for the hazard.
fn saturation_mbit_s() -> Rational {
    (line_sdu_bit_s(SDU) - Rational::from(2 * STREAM_BIT_S)) / dec("1000000")
}

fn figure(points: &[Point], settings: &Settings) -> Figure {
    let ours = points
        .iter()
        .map(|p| (f64::from(p.hazard_mbit_s), p.cpu_percent.to_f64()));
    let per_pdu = settings.number("interrupt_us") + settings.number("pdu_us");
    let percent = |bit_s: u64| (pdu_s(bit_s) * per_pdu / dec("10000")).to_f64();
    let (base, top) = (2 * STREAM_BIT_S, 2 * STREAM_BIT_S + CONTRACT_BIT_S);
    let saturated = saturation_mbit_s().to_f64();
    let expected = vec![
        (0.0, percent(base)),
        (CONTRACT_BIT_S as f64 / 1e6, percent(top)),
        (saturated, percent(top)),
        (saturated + 2.0, percent(base)),
        (130.0, percent(base)),
    ];
    let panel = Panel {
        x: Axis::linear("sent by the hazard, 10^6 bit/s of SDU").to(140.0),
        y: Axis::linear("host CPU, %"),
        series: vec![
            Series::new("expected", Look::Expected, expected),
            Series::new("ours", Look::Dotted, ours.collect()),
        ],
        marks: vec![
            Mark {
                at: At::X(CONTRACT_BIT_S as f64 / 1e6),
                label: "contract".to_owned(),
            },
            Mark {
                at: At::X(100.0),
                label: "paper: falls".to_owned(),
            },
        ],
    };
    Figure::single(
        "load",
        "Host CPU while one sender exceeds its contract",
        panel,
    )
}
