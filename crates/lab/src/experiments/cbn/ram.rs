use cellgate_report::{
    Check, Claim, Entry, Figure, Outcome, Rational, Table, Tolerance, Value, dec,
};

use super::{
    CELL_BITS, DATA_BITS, Error, Experiment, Model, Notify, PARAMETERS, Parameter, Progress,
    Script, Settings, slope, to, us,
};
use crate::world::Ps;

/// The bandwidth of one RAM, and a copy by its clock.
pub(in crate::experiments) struct Ram;

/// Time that is not counted, and time that is.
const WARM: Ps = Ps::from_ns(5_000_000);
const SPAN: Ps = Ps::from_ns(20_000_000);

/// Cells that hosts read and stations sent, a microsecond each.
struct Flow {
    read: Vec<Rational>,
    sent: Vec<Rational>,
}

impl Flow {
    fn mbit_s(cells_us: Rational) -> Rational {
        cells_us * CELL_BITS
    }
}

/// Hosts that cost nothing; each sends without end to these.
fn flow(model: &Model, floods: &[&[u8]]) -> Flow {
    let script = |to_all: &&[u8]| Script::floods(to_all.iter().map(|n| to(*n, 1)).collect());
    let mut network = model
        .costless()
        .network(Notify::Every, floods.iter().map(script));
    network.run(WARM, |_| false);
    let counts = |of: &dyn Fn(&super::Network<Script>, usize) -> u64,
                  network: &super::Network<Script>|
     -> Vec<u64> { (0..floods.len()).map(|n| of(network, n)).collect() };
    let read = |network: &super::Network<Script>, n: usize| network.stations()[n].counts().read;
    let sent = |network: &super::Network<Script>, n: usize| network.stations()[n].counts().sent;
    let before = [counts(&read, &network), counts(&sent, &network)];
    let from = network.now();
    network.run(WARM.plus(SPAN), |_| false);
    let span = us(network.now().since(from));
    let rate = |of: &dyn Fn(&super::Network<Script>, usize) -> u64, before: &[u64]| {
        let now = counts(of, &network).into_iter().zip(before);
        now.map(|(now, then)| Rational::from(now - then) / span)
            .collect()
    };
    Flow {
        read: rate(&read, &before[0]),
        sent: rate(&sent, &before[1]),
    }
}

impl Experiment for Ram {
    fn name(&self) -> &'static str {
        "ring-ram"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, sections 2 and 8: the bandwidth of the RAM"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let model = Model::new(settings);
        let both = flow(&model, &[&[1], &[0]]);
        progress.step(1, 5);
        let one = flow(&model, &[&[1], &[]]);
        progress.step(2, 5);
        let two = flow(&model, &[&[1, 2], &[], &[]]);
        progress.step(3, 5);
        let receiving = flow(&model, &[&[], &[0], &[0]]);
        progress.step(4, 5);
        let [copy, faster] = [(512, 512), (1000, 512)].map(|(numerator, denominator)| {
            let model = Model {
                station: model.station.at_clock(numerator, denominator),
                ..model
            };
            copy(&model)
        });
        progress.step(5, 5);
        let each = both
            .sent
            .iter()
            .fold(Rational::ZERO, |sum, cells| sum + *cells)
            / dec("2");
        let rates = [
            ("both ways, each", each),
            ("sending alone, on one channel", one.sent[0]),
            ("sending alone, on two", two.sent[0]),
            ("receiving alone", receiving.read[0]),
        ];
        let checks = checks(&rates, copy?, faster?);
        Ok(Outcome {
            tables: vec![table(&rates)],
            figures: vec![Figure::of_claims("claims", "The RAM", &checks)],
            checks,
            notes: vec![
                "Hosts that cost nothing. Both ways, who reads first takes more than who sends: \
                 half of the sum is shown. A cell that finds its FIFO full takes no cycle."
                    .to_owned(),
            ],
        })
    }
}

/// The time in which the words of a cell are copied, in microseconds.
fn copy(model: &Model) -> Result<Rational, Error> {
    let time = |cells: usize| {
        let network = model.sends(Notify::Every, cells, 1)?;
        Ok::<_, Error>((cells, us(network.hosts()[0].application().sent[0])))
    };
    let cell = slope([time(50)?, time(150)?]);
    let costs = &model.host.costs;
    let protocol = Rational::from(costs.instructions.transmit_cell) * us(costs.transmit);
    Ok(cell - protocol)
}

fn table(rates: &[(&str, Rational)]) -> Table {
    let mut table = Table::new(
        "rates",
        "Cells through the station",
        &[
            ("way", ""),
            ("cell_mbit_s", "cells, Mbit/s"),
            ("data_mbit_s", "data, Mbit/s"),
        ],
    );
    for (name, cells_us) in rates {
        table.row([
            Entry::text(*name),
            Entry::number(Flow::mbit_s(*cells_us), 2),
            Entry::number(*cells_us * DATA_BITS, 2),
        ]);
    }
    table
}

fn checks(rates: &[(&str, Rational)], copy: Rational, faster: Rational) -> Vec<Check> {
    let near = Tolerance::Percent(dec("2.5"));
    let expected = [dec("25.6"), dec("44.4"), dec("51.2"), dec("51.2")];
    let papers = ["25 Mb/sec in both directions", "", "", ""];
    let mut checks: Vec<_> = rates
        .iter()
        .zip(expected)
        .zip(papers)
        .map(|(((name, cells_us), expected), paper)| {
            let ours = Value::new(Flow::mbit_s(*cells_us), 2, "Mbit/s");
            Claim::derived("C3", name, paper).number(expected, near, &ours)
        })
        .collect();
    checks.push(
        Claim::calibrated("C13", "copy of a cell", "12 microsecond")
            .prints(dec("12"))
            .number(
                dec("12"),
                Tolerance::Percent(dec("1")),
                &Value::new(copy, 2, "us"),
            ),
    );
    checks.push(
        Claim::calibrated("C15", "the same at 1000 MHz", "about 6 microseconds")
            .prints(dec("6"))
            .number(
                dec("6.144"),
                Tolerance::Percent(dec("2")),
                &Value::new(faster, 3, "us"),
            ),
    );
    checks
}
