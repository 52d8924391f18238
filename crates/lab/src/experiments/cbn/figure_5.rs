use cellgate_report::{Check, Claim, Outcome, Tolerance, Value, dec};

use super::curves::{Curves, STAGES};
use super::{
    CELL_BITS, DATA_BITS, Error, Experiment, Model, Notify, PARAMETERS, Parameter, Progress,
    Settings, mbit_s, received, us,
};

/// The rate at which blocks go from process to process.
pub(in crate::experiments) struct Figure5;

impl Experiment for Figure5 {
    fn name(&self) -> &'static str {
        "ring-figure-5"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, Figure 5: user to user rate by the receive software"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let model = Model::new(settings);
        let times = Curves::measured(&STAGES, progress, |stage, cells| {
            let network = model.at_stage(stage).sends(Notify::Every, cells, 1)?;
            let came = received(&network, 1).first().copied();
            came.map(us)
                .ok_or_else(|| Error::new("a block has not come"))
        })?;
        let rates = times.rates();
        let title = "Data, Mbit/s, by the cells of a block and the receive software's stage";
        Ok(Outcome {
            tables: vec![rates.table("rates", title, 2)],
            figures: vec![rates.figure("rates", "User to user", "Mbit/s of data", dec("1"))],
            checks: checks(&times),
            notes: vec![
                "One block at a time, from the call that sends it to the process that has it. \
                 The costs of stages 0 to 2 are lost: ours are instructions of the same kinds (a \
                 copy, a call, code twice as long), so that only their order is judged. The \
                 paper's 15.6 Mbit/s with headers is 14.2 times 36/32, which is 15.97: a slip."
                    .to_owned(),
            ],
        })
    }
}

fn checks(times: &Curves) -> Vec<Check> {
    let cell_us = times.cell_us(3);
    let half = Tolerance::Percent(dec("0.5"));
    let (ordered, rises) = (times.falls_by_variant(), times.rates().rises_with_cells());
    let claim = |what: &str, paper: &str| Claim::calibrated("C11", what, paper);
    let shape = |what: &str, paper: &str| Claim::shape("5", what, paper);
    vec![
        claim("a cell", "18.03 us").prints(dec("18.03")).number(
            dec("18.03"),
            half,
            &Value::new(cell_us, 2, "us"),
        ),
        claim("data within a block", "over 14.2 Mbit/s")
            .prints(dec("14.2"))
            .number(dec("14.20"), half, &mbit_s(DATA_BITS, cell_us)),
        claim("cells within a block", "over 15.6 Mbit/s")
            .prints(dec("15.6"))
            .number(dec("15.97"), half, &mbit_s(CELL_BITS, cell_us)),
        shape("each stage is faster than the one before", "four curves").holds(
            ordered,
            if ordered {
                "0 < 1 < 2 < 3"
            } else {
                "out of order"
            },
        ),
        shape("longer blocks are faster", "rise, and flatten")
            .holds(rises, if rises { "rise" } else { "fall somewhere" }),
    ]
}
