use cellgate_report::{Check, Claim, Outcome, Tolerance, Value, dec};

use super::curves::{Curves, STAGES};
use super::{Error, Experiment, Model, Notify, PARAMETERS, Parameter, Progress, Settings};

/// The time of a ping, by the receive software.
pub(in crate::experiments) struct Figure6;

impl Experiment for Figure6 {
    fn name(&self) -> &'static str {
        "ring-figure-6"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, Figure 6: ping time by the receive software"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let model = Model::new(settings);
        let times = Curves::measured(&STAGES, progress, |stage, cells| {
            model.at_stage(stage).ping(Notify::Every, cells)
        })?;
        let title = "A ping, us, by the cells of its block and the receive software's stage";
        Ok(Outcome {
            tables: vec![times.table("times", title, 1)],
            figures: vec![times.figure("times", "Two-way response time", "ping, ms", dec("1000"))],
            checks: checks(&times),
            notes: vec![
                "The cost of a ping beside its cells is lost: ours is twice the buffers of \
                 Figure 4, and the cost of a received block."
                    .to_owned(),
            ],
        })
    }
}

fn checks(times: &Curves) -> Vec<Check> {
    let ordered = times.falls_by_variant();
    let percent = Value::new(times.bend(3) * dec("100"), 2, "%");
    let shape = |what: &str, paper: &str| Claim::shape("6", what, paper);
    vec![
        Claim::calibrated(
            "6",
            "stage 3, a cell both ways",
            "the receive time of a cell, twice",
        )
        .number(
            dec("36.06"),
            Tolerance::Percent(dec("1")),
            &Value::new(times.cell_us(3), 2, "us"),
        ),
        shape(
            "furthest from a straight line, of 16 cells and more",
            "straight lines",
        )
        .number(dec("1"), Tolerance::AtMost, &percent),
        shape("each stage is faster than the one before", "four lines").holds(
            ordered,
            if ordered {
                "0 > 1 > 2 > 3"
            } else {
                "out of order"
            },
        ),
    ]
}
