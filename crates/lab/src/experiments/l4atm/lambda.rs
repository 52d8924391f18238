//! Equations 3 and 4: what packets of different sizes cost the P-90.

use cellgate_core::contract::aal5_cells;
use cellgate_core::server::Direction;
use cellgate_core::server::lambda::{Flow, Lambda};
use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::units::{DECIMAL, READINGS, degradation, mbps, percent, rational};
use crate::experiments::{Error, Experiment, Progress, Settings};
use crate::machine::p90::P90;
use crate::world::Ps;

/// `l4atm-lambda`.
pub(in crate::experiments) struct LambdaLaw;

const PAPER: P90 = P90::PAPER;
const CORRECTED: P90 = P90 {
    lambda: Lambda::Continuous,
    ..P90::PAPER
};
const SIZES: [u32; 11] = [
    40, 512, 817, 818, 1_023, 1_024, 2_048, 4_095, 4_096, 8_192, 65_535,
];

impl Experiment for LambdaLaw {
    fn name(&self) -> &'static str {
        "l4atm-lambda"
    }

    fn source(&self) -> &'static str {
        "L4ATM, sections 3.1 and 4, Equations 3 and 4"
    }

    fn run(&self, _: &Settings, _: &mut dyn Progress) -> Result<Outcome, Error> {
        let mut checks = cycle_checks();
        checks.extend(lambda_checks());
        checks.extend(load_checks());
        Ok(Outcome {
            tables: vec![table()?],
            figures: vec![figure()],
            checks,
            notes: vec![
                "Calibrated, from the paper's text: 90 MHz, t_max 133 and r_max 90 * 10^6 bit/s, \
                 300 cycles of usage control in each send."
                    .to_owned(),
                "The hyperbola of Equation 3 is a fixed cost of 132 us per packet. What admission \
                 reserves by is core's own law, calibrated on packets of this model; it is linear \
                 in cells and packets and never below what was measured."
                    .to_owned(),
            ],
        })
    }
}

fn micros(time: Ps) -> Rational {
    Rational::new(time.ps().into(), 1_000_000)
}

fn table() -> Result<Table, Error> {
    let mut table = Table::new(
        "l4atm-lambda",
        "A packet's factor and its send path",
        &[
            ("sdu_octets", "octets"),
            ("lambda_printed", "lambda, Eq. 3"),
            ("lambda_corrected", "lambda, corrected"),
            ("send_printed_us", "send, us, Eq. 3"),
            ("send_corrected_us", "send, us, corrected"),
            ("send_cycles", "cycles, Eq. 3"),
            ("reserved_us", "reserved by core's law, us"),
        ],
    );
    let law = PAPER
        .law(0)
        .map_err(|error| Error::new(error.to_string()))?;
    let cost = law.reserve.of(Direction::Transmit);
    for sdu in SIZES {
        let reserved = cost.cell_ps * u64::from(aal5_cells(sdu)) + cost.pdu_ps;
        table.row([
            Entry::number(sdu, 0),
            Entry::number(rational(PAPER.lambda.of(sdu)), 3),
            Entry::number(rational(CORRECTED.lambda.of(sdu)), 3),
            Entry::number(micros(PAPER.send(sdu)), 1),
            Entry::number(micros(CORRECTED.send(sdu)), 1),
            Entry::number(PAPER.cycles_of(PAPER.send(sdu)), 0),
            Entry::number(micros(Ps::new(reserved)), 1),
        ]);
    }
    Ok(table)
}

fn figure() -> Figure {
    let curve = |p90: P90, name: &str, look| {
        // Both sides of each gap.
        let sizes = (256..=8_192).filter(|sdu| sdu % 64 == 0 || (sdu + 1) % 1_024 == 0);
        let point = |sdu: u32| (f64::from(sdu), rational(p90.lambda.of(sdu)).to_f64());
        Series::new(name, look, sizes.map(point).collect())
    };
    let panel = Panel {
        x: Axis::linear("packet size, octets"),
        y: Axis::linear("lambda"),
        series: vec![
            curve(CORRECTED, "without gaps", Look::Dashed),
            curve(PAPER, "Eq. 3 as printed", Look::Line),
        ],
        marks: Vec::new(),
    };
    Figure::single(
        "l4atm-lambda",
        "Equation 3 as printed and without its gaps",
        panel,
    )
}

/// The send path's cycles, and what of them usage control takes.
fn cycle_checks() -> Vec<Check> {
    let cycles = |sdu: u32| Value::new(PAPER.cycles_of(PAPER.send(sdu)), 0, "cycles");
    let share = |send_cycles: u64| {
        let cycles = Rational::from(100 * PAPER.usage_control_cycles);
        Value::new(cycles / Rational::from(send_cycles), 4, "%")
    };
    let near = |percent: &str| Tolerance::Percent(dec(percent));
    let printed = Tolerance::Absolute(dec("0.00005"));
    let is_small = |sdu: &u32| {
        let one_percent = PAPER.cycles(100 * PAPER.usage_control_cycles);
        PAPER.send(*sdu) > one_percent
    };
    let from = (1..=65_535).find(is_small).unwrap_or(0);
    let what = "usage control's share of the";
    vec![
        Claim::calibrated("L8", "shortest send path, by Eq. 3", "11,577 cycles").number(
            11_577.into(),
            near("3"),
            &cycles(1),
        ),
        Claim::calibrated(
            "L8",
            "send path of 65,535 octets, by Eq. 3",
            "351,060 cycles",
        )
        .number(351_060.into(), near("1.5"), &cycles(65_535)),
        Claim::derived(
            "L8",
            &format!("{what} shortest send path, 11,577 cycles"),
            "",
        )
        .number(dec("2.5913"), printed, &share(11_577)),
        Claim::derived(
            "L8",
            &format!("{what} longest send path, 351,060 cycles"),
            "well below 1 %",
        )
        .number(dec("0.0855"), printed, &share(351_060)),
        Claim::lost(
            "L8",
            "size above which it is less than 1 %, by Eq. 3",
            "except for very small packet sizes",
            &Value::new(from, 0, "octets"),
        ),
    ]
}

/// The gaps of Equation 3, and that the corrected one has none.
fn lambda_checks() -> Vec<Check> {
    let printed = |sdu| rational(Lambda::Printed.of(sdu));
    let factor = |number| Value::new(number, 3, "");
    let cheapest = (1..1_024).find(|sdu| printed(*sdu) < printed(1_024));
    let corrected = |sdu: u32| rational(Lambda::Continuous.of(sdu));
    // Relative, from each size to the next: of the hyperbola 1 / size.
    let step = |sdu: u32| corrected(sdu) / corrected(sdu + 1) - Rational::ONE;
    let never_rises = (1..8_192).all(|sdu| step(sdu) >= Rational::ZERO);
    let steps = (512..8_192).map(step);
    let largest = steps.fold(Rational::ZERO, Rational::max);
    let rises = if never_rises { "never rises" } else { "rises" };
    let found = format!("{rises}, steps up to {}", percent(largest));
    let near = Tolerance::Absolute(dec("0.0005"));
    let jump = |number: Rational| percent(number - Rational::ONE);
    let hyperbola = printed(1_023) * Rational::new(1_023, 1_024);
    vec![
        Claim::derived("L9", "lambda just below 4,096", "1 from 4,096 on").number(
            dec("1.057"),
            near,
            &factor(printed(4_095)),
        ),
        Claim::derived("L9", "gap at 4,096", "").number(
            dec("5.7"),
            Tolerance::Absolute(dec("0.05")),
            &jump(printed(4_095) / printed(4_096)),
        ),
        Claim::derived("L9", "lambda at 1,024", "").number(
            dec("2.693"),
            near,
            &factor(printed(1_024)),
        ),
        Claim::derived("L9", "gap at 1,024", "").number(
            dec("25"),
            Tolerance::Absolute(dec("0.5")),
            &jump(printed(1_024) / hyperbola),
        ),
        Claim::derived("L9", "smallest packet that is cheaper than 1,024", "").number(
            818.into(),
            Tolerance::Exact,
            &Value::new(cheapest.unwrap_or(0), 0, "octets"),
        ),
        Claim::derived(
            "L9",
            "falls in steps of less than 0.2 % above 512 octets",
            "",
        )
        .reading("corrected")
        .holds(never_rises && largest < dec("0.002"), &found),
    ]
}

/// Equation 4 of the connection that Figures 6 and 9 have, on a machine that sends at most so much.
fn load(transmit_max_bit_s: u64, bit_s: u64, sdu: u32) -> Rational {
    let flow = [Flow { bit_s, sdu }];
    let load = Lambda::Printed.utilisation(&flow, transmit_max_bit_s, &[], PAPER.receive_max_bit_s);
    load.map_or(Rational::ZERO, rational)
}

fn load_checks() -> Vec<Check> {
    let mut checks = Vec::new();
    let expected = [dec("30.08"), dec("31.54")];
    // The t_max from which the 31.2 % of section 4.2 would follow.
    let peaks = [128_200_000, 134_400_000];
    let t_max = PAPER.transmit_max_bit_s;
    for (((reading, unit), load_percent), peak) in READINGS.into_iter().zip(expected).zip(peaks) {
        let forty = load(t_max, 40 * unit, 8_192);
        let near = Tolerance::Absolute(dec("0.005"));
        let what = "load of 40 Mbps, 8 KB (Eq. 4)";
        let claim = Claim::derived("L10", what, "30 % (Figure 6)").reading(reading);
        checks.push(claim.number(load_percent, near, &percent(forty)));
        checks.push(degradation(
            "what a connection of 40 Mbps takes",
            reading,
            forty,
        ));
        let what = format!(
            "the same with t_max = {} Mbps",
            mbps(peak, DECIMAL).fixed(1)
        );
        let claim = Claim::derived("L11", &what, "31.2 %").reading(reading);
        let near = Tolerance::Absolute(dec("0.05"));
        let ours = load(peak, 40 * unit, 8_192);
        checks.push(claim.number(dec("31.2"), near, &percent(ours)));
    }
    let saturates = (1..2_048).find(|sdu| load(t_max, 40 * DECIMAL, *sdu) < Rational::ONE);
    let what = "smallest packets of 40 Mbps that do not need the whole CPU (Eq. 4)";
    checks.push(Claim::derived("L13", what, "").number(
        662.into(),
        Tolerance::Exact,
        &Value::new(saturates.unwrap_or(0), 0, "octets"),
    ));
    checks
}
