use cellgate_report::{Check, Claim, Look, Outcome, Rational, Tolerance, Value, dec};

use super::curves::{Curves, Variant};
use super::{Error, Experiment, Model, Notify, PARAMETERS, Parameter, Progress, Settings};

/// The time of a ping, by the cells that interrupt.
pub(in crate::experiments) struct Figure7;

const CONDITIONS: [(Notify, Variant); 3] = [
    (Notify::Every, Variant("every_us", "every", Look::Wide)),
    (Notify::First, Variant("first_us", "first", Look::Dotted)),
    (Notify::Last, Variant("last_us", "last", Look::Dashed)),
];

impl Experiment for Figure7 {
    fn name(&self) -> &'static str {
        "ring-figure-7"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, Figure 7: ping time by the cells that interrupt"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let model = Model::new(settings);
        let times = Curves::measured(&CONDITIONS, progress, |condition, cells| {
            model.ping(condition, cells)
        })?;
        let mut checks = checks(&times);
        checks.extend(of_one_block(&model)?);
        let (title, y) = ("Two-way time by interrupt condition", "ping, ms");
        Ok(Outcome {
            tables: vec![times.table("times", "A ping, us, by the cells that interrupt", 1)],
            figures: vec![times.figure("times", title, y, dec("1000"))],
            checks,
            ..Outcome::default()
        })
    }
}

fn checks(times: &Curves) -> Vec<Check> {
    let [every, first, last] = [0, 1, 2].map(|variant| times.cell_us(variant));
    let claim = |what: &str, paper: &str, expected: Rational, us: Rational| {
        Claim::calibrated("7", what, paper).number(
            expected,
            Tolerance::Percent(dec("1")),
            &Value::new(us, 2, "us"),
        )
    };
    let (short, long) = (dec("36.06"), dec("67.86"));
    vec![
        claim(
            "every: a cell both ways",
            "almost independent",
            short,
            every,
        ),
        claim("first: a cell both ways", "of start or every", short, first),
        claim(
            "last: a cell both ways",
            "a substantial increase",
            long,
            last,
        ),
        Claim::calibrated("7", "last over every", "breaks the pipelining").number(
            dec("1.88"),
            Tolerance::Percent(dec("0.5")),
            &Value::ratio(last.over(every), 3, "times"),
        ),
    ]
}

/// Interrupts and backlog of the longest block.
fn of_one_block(model: &Model) -> Result<Vec<Check>, Error> {
    let network = model.sends(Notify::Every, 255, 1)?;
    let (station, host) = (network.stations()[1].counts(), network.hosts()[1].counts());
    Ok(vec![
        Claim::calibrated(
            "7",
            "cells that wait of a block of 255",
            "absorbed in the FIFO",
        )
        .number(
            dec("30"),
            Tolerance::Absolute(dec("1")),
            &Value::new(station.backlog as u64, 0, "cells"),
        ),
        Claim::derived(
            "7",
            "interrupts of a block though every cell may",
            "no further interrupts",
        )
        .prints(dec("1"))
        .number(
            dec("1"),
            Tolerance::Exact,
            &Value::new(host.interrupts, 0, "interrupts"),
        ),
    ])
}
