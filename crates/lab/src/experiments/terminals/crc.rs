use cellgate_core::terminal::{Crc, Variant};
use cellgate_report::{Check, Claim, Figure, Outcome, Rational, Tolerance, Value, dec};

use super::{
    Error, Experiment, MILLISECONDS, PAPER, Parameter, Pc386Costs, Progress, Settings,
    cell_octet_s, config, measured,
};

/// The CRC in hardware, against software.
pub(in crate::experiments) struct HardwareCrc;

const CRC: Parameter = Parameter::number(
    "crc_us",
    "the CRC of an octet in software, us (calibrated)",
    Pc386Costs::CRC,
    (dec("0"), dec("100")),
);

impl Experiment for HardwareCrc {
    fn name(&self) -> &'static str {
        "terminals-crc"
    }

    fn source(&self) -> &'static str {
        "High Performance ATM Terminals, section 6.3: hardware or software CRC"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[CRC, MILLISECONDS];
        ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let of = |crc: Crc, octet: Rational| {
            let costs = Pc386Costs {
                crc: octet,
                ..Pc386Costs::final_ones()
            };
            let config = config(costs, Variant { crc, ..PAPER }, 8_192);
            measured(config, settings.whole("milliseconds")).map(|counts| cell_octet_s(&counts))
        };
        let octet = settings.number("crc_us");
        let hardware = of(Crc::Hardware, octet)?;
        progress.step(1, 3);
        let first = hardware.over(of(Crc::Software, octet)?);
        progress.step(2, 3);
        // 1/0.7 - 1 of a cell's time, not 0.3 of it.
        let second = hardware.over(of(Crc::Software, octet * dec("10") / dec("7"))?);
        progress.step(3, 3);
        let checks = checks(first, second);
        Ok(Outcome {
            figures: vec![Figure::of_claims(
                "claims",
                "Hardware or software CRC",
                &checks,
            )],
            checks,
            ..Outcome::default()
        })
    }
}

fn checks(first: Option<Rational>, second: Option<Rational>) -> Vec<Check> {
    let claim = |reading: &str| {
        Claim::calibrated("T6", "rate with the CRC in hardware", "an increase of 30 %")
            .reading(reading)
    };
    vec![
        claim("30 % more than in software").number(
            dec("1.30"),
            Tolerance::Absolute(dec("0.02")),
            &Value::ratio(first, 3, "times"),
        ),
        claim("30 % of the overall performance: 1 / 0.7").number(
            dec("1.43"),
            Tolerance::Absolute(dec("0.02")),
            &Value::ratio(second, 3, "times"),
        ),
    ]
}
