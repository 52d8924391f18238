use cellgate_report::{
    Check, Claim, Entry, Figure, Outcome, Rational, Table, Tolerance, Value, dec,
};

use super::{
    CELL_BITS, DATA_BITS, Error, Experiment, HostCosts, Model, Notify, Order, PARAMETERS,
    Parameter, Progress, Script, Settings, to, us,
};
use crate::machine::v1s::HostSpec;
use crate::world::Ps;

/// Two hosts that send and receive at a time, which the paper has for future work.
pub(in crate::experiments) struct Duplex;

const CELLS: usize = 128;
const WARM: Ps = Ps::from_ns(50_000_000);
/// How much later the second host begins.
const LATER: Ps = Ps::from_ns(1_000_000);
const SPAN: Ps = Ps::from_ns(100_000_000);

/// Cells that each host has read, a microsecond.
#[derive(Clone, Copy)]
struct Rates([Rational; 2]);

impl Experiment for Duplex {
    fn name(&self) -> &'static str {
        "ring-duplex"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, section 8: duplex communication (future work)"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let model = Model::new(settings);
        let costs = HostCosts {
            sent_block: Ps::ZERO,
            received_block: Ps::ZERO,
            blocks_cost: false,
            ..model.host.costs
        };
        let model = model.with(costs);
        let in_turn = run(&model, Order::InTurn);
        progress.step(1, 2);
        let first = run(&model, Order::InterruptFirst);
        progress.step(2, 2);
        let checks = checks(in_turn, first);
        Ok(Outcome {
            tables: vec![table(in_turn, first)],
            figures: vec![Figure::of_claims("claims", "Both ways at a time", &checks)],
            checks,
            notes: vec![
                "Blocks cost nothing beside their cells. If interrupts come first, who is in its \
                 handler stays there: a cell comes every 15.9 us, and takes 18.03. It sends \
                 nothing any more, which frees the other from receiving: receive livelock (Mogul, \
                 Ramakrishnan 1996)."
                    .to_owned(),
            ],
        })
    }
}

fn run(model: &Model, order: Order) -> Rates {
    let host = HostSpec {
        order,
        ..model.host
    };
    let model = Model { host, ..*model };
    // Without any difference each would wait for the other for ever.
    let scripts = [1, 0].map(|n| Script::sends(to(n, CELLS), u64::MAX));
    let [one, other] = scripts;
    let mut network = model.network(Notify::Every, [one, other.later(LATER)]);
    let read = |network: &super::Network<Script>| {
        [0, 1].map(|n: usize| network.stations()[n].counts().read)
    };
    network.run(WARM, |_| false);
    let (from, before) = (network.now(), read(&network));
    network.run(WARM.plus(SPAN), |_| false);
    let (span, after) = (us(network.now().since(from)), read(&network));
    Rates([0, 1].map(|n: usize| Rational::from(after[n] - before[n]) / span))
}

fn table(in_turn: Rates, first: Rates) -> Table {
    let mut table = Table::new(
        "ways",
        "Data, Mbit/s, each way",
        &[
            ("order", "order"),
            ("more", "one way"),
            ("less", "the other"),
        ],
    );
    for (name, Rates([one, other])) in [("in turn", in_turn), ("interrupt first", first)] {
        table.row([
            Entry::text(name),
            Entry::number(one.max(other) * DATA_BITS, 2),
            Entry::number(one.min(other) * DATA_BITS, 2),
        ]);
    }
    table
}

fn checks(in_turn: Rates, first: Rates) -> Vec<Check> {
    let Rates([one, other]) = in_turn;
    let value = |cells: Rational, bits: Rational| Value::new(cells * bits, 2, "Mbit/s");
    let each = |what: &str, cells: Rational| {
        Claim::calibrated("duplex", what, "").number(
            dec("7.54"),
            Tolerance::Percent(dec("1")),
            &value(cells, DATA_BITS),
        )
    };
    let Rates([left, right]) = first;
    vec![
        each("in turn, data one way", one),
        each("in turn, data the other way", other),
        Claim::calibrated("duplex", "interrupt first, cells one way", "").number(
            dec("15.97"),
            Tolerance::Percent(dec("1")),
            &value(left.max(right), CELL_BITS),
        ),
        Claim::calibrated("duplex", "interrupt first, cells the other way", "").number(
            dec("0.1"),
            Tolerance::AtMost,
            &value(left.min(right), CELL_BITS),
        ),
    ]
}
