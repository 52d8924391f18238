use cellgate_core::upper::msna::Work;
use cellgate_report::{
    Check, Claim, Entry, Figure, Outcome, Rational, Table, Tolerance, Value, dec,
};

use super::{
    Destination, END, Error, Experiment, HostCosts, Model, Network, Notify, Parameter, Progress,
    RingSpec, Script, Settings, To, V1sSpec, received, us,
};
use crate::machine::v1s::{Charge, Instructions};

/// Instructions of the host's code, as they are spent by a run.
pub(in crate::experiments) struct Tables;

const fn instructions(key: &'static str, what: &'static str, default: u64) -> Parameter {
    Parameter::whole(key, what, default as i128, (0, 1_000))
}

const PAPER: Instructions = Instructions::PAPER;
const ALL: &[Parameter] = &[
    Parameter::whole(
        "channels",
        "channels of the ring, on each of which a station hears a broadcast",
        RingSpec::PAPER.channels as i128,
        (2, 8),
    ),
    instructions(
        "transmit_call",
        "instructions of a call to send (Table 1)",
        PAPER.transmit_call,
    ),
    instructions(
        "check_broadcast",
        "of the check for a broadcast (Table 1)",
        PAPER.check_broadcast,
    ),
    instructions(
        "select_channel",
        "of the choice of a channel (Table 1)",
        PAPER.select_channel,
    ),
    instructions(
        "transmit_cell",
        "of a cell that is sent (Table 1)",
        PAPER.transmit_cell,
    ),
    instructions(
        "receive_call",
        "of a call with a block that has come (Table 2)",
        PAPER.receive_call,
    ),
    instructions(
        "look_up",
        "of the look-up of an association (Table 2)",
        PAPER.look_up,
    ),
    instructions(
        "receive_cell",
        "of a cell that is received (Table 2)",
        PAPER.receive_cell,
    ),
    instructions(
        "interrupt_call",
        "of an interrupt's call (Table 3)",
        PAPER.interrupt_call,
    ),
    instructions(
        "interrupt_entry",
        "of its entry (Table 3)",
        PAPER.interrupt_entry,
    ),
    instructions(
        "back_to_routine",
        "of the way back to its routine (Table 3)",
        PAPER.back_to_routine,
    ),
    instructions(
        "deschedule",
        "of descheduling a thread (Table 3)",
        PAPER.deschedule,
    ),
    instructions(
        "save_state",
        "of saving its state (Table 3)",
        PAPER.save_state,
    ),
];

/// Cells of a block, and blocks.
const CELLS: usize = 20;
const BLOCKS: u64 = 3;
const EVERYBODY: u16 = 9;

impl Experiment for Tables {
    fn name(&self) -> &'static str {
        "ring-tables"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, Tables 1 to 3: instructions"
    }

    fn parameters(&self) -> &'static [Parameter] {
        ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let of = |key| settings.whole(key);
        let instructions = Instructions {
            transmit_call: of("transmit_call"),
            check_broadcast: of("check_broadcast"),
            select_channel: of("select_channel"),
            transmit_cell: of("transmit_cell"),
            receive_call: of("receive_call"),
            look_up: of("look_up"),
            receive_cell: of("receive_cell"),
            interrupt_call: of("interrupt_call"),
            interrupt_entry: of("interrupt_entry"),
            back_to_routine: of("back_to_routine"),
            deschedule: of("deschedule"),
            save_state: of("save_state"),
        };
        let costs = HostCosts {
            instructions,
            ..HostCosts::PAPER
        };
        let ring = RingSpec {
            channels: of("channels") as u8,
            ..RingSpec::PAPER
        };
        let model = Model {
            ring,
            station: V1sSpec::on(&ring, 0),
            ..Model::paper().with(costs)
        };
        let rows = Rows::counted(&model)?;
        progress.step(1, 2);
        let mut checks = rows.checks();
        checks.extend(broadcast(&model)?);
        progress.step(2, 2);
        Ok(Outcome {
            tables: vec![rows.table()],
            figures: vec![Figure::of_claims("claims", "Instructions", &checks)],
            checks,
            notes: vec![
                "Counted from the time that hosts spend in a run. An instruction of the transmit \
                 side takes 6.5 cycles of 50 ns (3.9 us for 12), one of the receive side 8.6 \
                 (6.03 us for 14): calibrated, and used wherever instructions cost time."
                    .to_owned(),
            ],
        })
    }
}

/// An operation of the paper's tables, and the instructions that it took each time.
struct Row {
    table: &'static str,
    operation: &'static str,
    each_cell: bool,
    instructions: Rational,
}

struct Rows(Vec<Row>);

impl Rows {
    /// One host sends blocks to another.
    fn counted(model: &Model) -> Result<Self, Error> {
        let network = model.sends(Notify::Every, CELLS, BLOCKS)?;
        let [sender, receiver] = [0, 1].map(|n: usize| network.hosts()[n].charges());
        let costs = &model.host.costs;
        let each = |(times, spent), instruction| {
            let all = us(spent) / us(instruction);
            all.over(Rational::from(u64::max(times, 1)))
                .unwrap_or(Rational::ZERO)
        };
        let sent = |work| each(sender.of(Charge::Work(work)), costs.transmit);
        let came = |work| each(receiver.of(Charge::Work(work)), costs.receive);
        let cells = Rational::from(BLOCKS * CELLS as u64);
        let words = |(times, _): (u64, _)| Rational::from(times) / cells;
        let row = |table, operation, each_cell, instructions| Row {
            table,
            operation,
            each_cell,
            instructions,
        };
        Ok(Self(vec![
            row(
                "1",
                "call and passing parameters",
                false,
                sent(Work::TransmitCall),
            ),
            row("1", "check if broadcast", false, sent(Work::CheckBroadcast)),
            row(
                "1",
                "select channel to send",
                false,
                sent(Work::SelectChannel),
            ),
            row(
                "1",
                "descriptor and cell header, each cell",
                true,
                sent(Work::TransmitCell),
            ),
            row(
                "1",
                "copy a cell's body, each cell",
                true,
                words(sender.of(Charge::Word)),
            ),
            row(
                "2",
                "call and passing parameters",
                false,
                came(Work::ReceiveCall),
            ),
            row("2", "look up association", false, came(Work::LookUp)),
            row(
                "2",
                "header and association's state, each cell",
                true,
                came(Work::ReceiveCell),
            ),
            row(
                "2",
                "copy data, each cell",
                true,
                words(receiver.of(Charge::Word)),
            ),
            row(
                "3",
                "an interrupt, until the handler looks for a cell",
                false,
                each(receiver.of(Charge::Interrupt), costs.receive),
            ),
        ]))
    }

    fn sum(&self, table: &str, each_cell: bool) -> Rational {
        let rows = self.0.iter();
        let rows = rows.filter(|row| row.table == table && row.each_cell == each_cell);
        rows.fold(Rational::ZERO, |sum, row| sum + row.instructions)
    }

    fn of(&self, table: &str, operation: &str) -> Rational {
        let mut rows = self.0.iter();
        let row = rows.find(|row| row.table == table && row.operation.starts_with(operation));
        row.map_or(Rational::ZERO, |row| row.instructions)
    }

    fn table(&self) -> Table {
        let mut table = Table::new(
            "instructions",
            "Instructions by operation",
            &[
                ("table", "table"),
                ("operation", "operation"),
                ("instructions", "instructions"),
            ],
        );
        for row in &self.0 {
            table.row([
                Entry::text(row.table),
                Entry::text(row.operation),
                Entry::number(row.instructions, 0),
            ]);
        }
        table
    }

    fn checks(&self) -> Vec<Check> {
        let is = |what: &str, paper: &str, expected: u64, ours: Rational| {
            let claim = Claim::derived("C14", what, paper);
            exactly(claim, expected, ours, "instructions")
        };
        let interrupt = self.sum("3", false);
        let longer = self.sum("2", true) - self.sum("1", true);
        let cell = self.of("2", "header");
        let call = self.of("2", "call");
        let entry = |reading: &str| {
            let what = "switch and entry of the receive routine";
            Claim::derived("C14", what, "up to 42").reading(reading)
        };
        vec![
            is(
                "a block that is sent, beside its cells",
                "10, 2, 10",
                22,
                self.sum("1", false),
            ),
            is("a cell that is sent", "12 and 9", 21, self.sum("1", true)),
            is(
                "a block that is received, beside its cells",
                "13, 10",
                23,
                self.sum("2", false),
            ),
            is(
                "a cell that is received",
                "14 and 9",
                23,
                self.sum("2", true),
            ),
            is("an interrupt", "28", 28, interrupt),
            is(
                "the receive loop beyond the transmit loop",
                "two",
                2,
                longer,
            ),
            exactly(
                entry("28 and a cell's 14").prints(dec("42")),
                42,
                interrupt + cell,
                "instructions",
            ),
            exactly(
                entry("28 and the call's 13"),
                41,
                interrupt + call,
                "instructions",
            ),
        ]
    }
}

fn exactly(claim: Claim, expected: u64, ours: Rational, unit: &'static str) -> Check {
    let value = Value::new(ours, 0, unit);
    claim.number(Rational::from(expected), Tolerance::Exact, &value)
}

/// A block to everybody goes once on each channel.
fn broadcast(model: &Model) -> Result<Vec<Check>, Error> {
    let to = Destination {
        vci: EVERYBODY,
        to: To::All,
        octets: CELLS * super::MSSAR_RING_LEN,
    };
    let channels = model.ring.channels;
    let quiet = (0..channels).map(|_| Script::default());
    let scripts = [Script::sends(to, 1)].into_iter().chain(quiet);
    let seats = model.seats(scripts).map(|mut seat| {
        seat.circuits = vec![(EVERYBODY, Notify::Every)];
        seat
    });
    let mut network = Network::new(model.ring, seats.collect());
    let hearers = 1..=usize::from(channels);
    network.run(END, |network| {
        let mut hearers = hearers.clone();
        hearers.all(|n| !received(network, n).is_empty())
    });
    let network = super::done(network)?;
    let blocks = hearers.map(|n| received(&network, n).len() as u64).sum();
    let (selections, _) = network.hosts()[0]
        .charges()
        .of(Charge::Work(Work::SelectChannel));
    let is = |what: &str, expected: u64, ours: u64, unit| {
        let claim = Claim::derived("C14", what, "check if broadcast");
        exactly(claim, expected, Rational::from(ours), unit)
    };
    let paper = u64::from(RingSpec::PAPER.channels);
    let cells = network.stations()[0].counts().sent;
    Ok(vec![
        is(
            "channels that are chosen for a block to all",
            paper,
            selections,
            "channels",
        ),
        is(
            "its cells that leave, once on each",
            paper * CELLS as u64,
            cells,
            "cells",
        ),
        is(
            "blocks that stations have of it, one on each",
            paper,
            blocks,
            "blocks",
        ),
    ])
}
