use cellgate_report::{
    Check, Claim, Entry, Figure, Outcome, Rational, Table, Tolerance, Value, dec,
};

use super::{Error, Experiment, Progress, Settings, V1sSpec};
use crate::machine::v1s::Instructions;

/// Instructions of the host's code.
pub(in crate::experiments) struct Tables;

const WORDS: u64 = V1sSpec::WORDS as u64;

/// Operation and instructions, in the order of the paper's tables.
const ROWS: [(&str, &str, u64); 13] = [
    (
        "1",
        "call and passing parameters",
        Instructions::TRANSMIT_CALL,
    ),
    ("1", "check if broadcast", Instructions::CHECK_BROADCAST),
    ("1", "select channel to send", Instructions::SELECT_CHANNEL),
    (
        "1",
        "descriptor and cell header, each cell",
        Instructions::TRANSMIT_CELL,
    ),
    ("1", "copy a cell's body, each cell", WORDS),
    (
        "2",
        "call and passing parameters",
        Instructions::RECEIVE_CALL,
    ),
    ("2", "look up association", Instructions::LOOK_UP),
    (
        "2",
        "header and association's state, each cell",
        Instructions::RECEIVE_CELL,
    ),
    ("2", "copy data, each cell", WORDS),
    (
        "3",
        "call and passing parameters",
        Instructions::INTERRUPT_CALL,
    ),
    ("3", "interrupt entry", Instructions::INTERRUPT_ENTRY),
    (
        "3",
        "going back to the routine",
        Instructions::BACK_TO_ROUTINE,
    ),
    (
        "3",
        "descheduling, saving the state",
        Instructions::DESCHEDULE + Instructions::SAVE_STATE,
    ),
];

impl Experiment for Tables {
    fn name(&self) -> &'static str {
        "ring-tables"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, Tables 1 to 3: instructions"
    }

    fn run(&self, _: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let mut table = Table::new(
            "instructions",
            "Instructions by operation",
            &[
                ("table", "table"),
                ("operation", "operation"),
                ("instructions", "instructions"),
            ],
        );
        for (of, operation, instructions) in ROWS {
            table.row([
                Entry::text(of),
                Entry::text(operation),
                Entry::number(instructions, 0),
            ]);
        }
        let checks = checks();
        progress.step(1, 1);
        Ok(Outcome {
            tables: vec![table],
            figures: vec![Figure::of_claims("claims", "Instructions", &checks)],
            checks,
            notes: vec![
                "An instruction of the transmit side takes 6.5 cycles of 50 ns (3.9 us for 12), \
                 one of the receive side 8.6 (6.03 us for 14): calibrated, and used wherever \
                 instructions cost time."
                    .to_owned(),
            ],
        })
    }
}

fn checks() -> Vec<Check> {
    let sum = |of: &str, each_cell: bool| -> u64 {
        let rows = ROWS.iter().filter(|(table, operation, _)| {
            *table == of && operation.ends_with("each cell") == each_cell
        });
        rows.map(|(_, _, instructions)| instructions).sum()
    };
    let is = |id: &str, what: &str, paper: &str, expected: &str, ours: u64| {
        Claim::derived(id, what, paper).number(
            dec(expected),
            Tolerance::Exact,
            &Value::new(Rational::from(ours), 0, "instructions"),
        )
    };
    let interrupt = sum("3", false);
    let longer = sum("2", true) - sum("1", true);
    vec![
        is(
            "C14",
            "a block that is sent, beside its cells",
            "",
            "22",
            sum("1", false),
        ),
        is(
            "C14",
            "a block that is received, beside its cells",
            "",
            "23",
            sum("2", false),
        ),
        is("C14", "an interrupt", "28", "28", interrupt),
        is(
            "C14",
            "the receive loop beyond the transmit loop",
            "two",
            "2",
            longer,
        ),
        Claim::derived("C14", "switch and entry of the receive routine", "up to 42")
            .prints(dec("42"))
            .reading("28 and a cell's 14")
            .number(
                dec("42"),
                Tolerance::Exact,
                &Value::new(interrupt + Instructions::RECEIVE_CELL, 0, "instructions"),
            ),
        Claim::derived("C14", "switch and entry of the receive routine", "up to 42")
            .reading("28 and the call's 13")
            .number(
                dec("41"),
                Tolerance::Exact,
                &Value::new(interrupt + Instructions::RECEIVE_CALL, 0, "instructions"),
            ),
    ]
}
