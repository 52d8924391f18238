use cellgate_core::wire::{
    CBN_CELL_LEN, CbnCell, CbnSlot, DATA_LEN, MSSAR_LEN, Mssar, SLOT_BITS, SLOT_LEN,
};
use cellgate_report::{
    Check, Claim, Entry, Figure, Outcome, Rational, Table, Tolerance, Value, dec,
};

use super::{Error, Experiment, Parameter, Progress, Settings};

const fn printed(key: &'static str, what: &'static str, bits: i128) -> Parameter {
    Parameter::whole(key, what, bits, (0, 1_000))
}

/// The widths that the figures print.
const ALL: [Parameter; 4] = [
    printed("vci_bits", "bits of a VCI, as printed", 16),
    printed("data_bits", "bits of a slot's data field, as printed", 272),
    printed("sequence_bits", "bits of a sequence number, as printed", 8),
    printed("rid_bits", "bits of a RID, as printed", 6),
];

/// The formats of slot and cell, read off the octets that are made.
pub(in crate::experiments) struct Formats;

impl Experiment for Formats {
    fn name(&self) -> &'static str {
        "ring-formats"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, Figures 2 and 3: the formats of slot and cell"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let (slot, word) = (fields_of_slot(), fields_of_word());
        let [vci, data, sequence, rid] = ALL.map(|one| settings.whole(one.key));
        let checks = vec![
            check(
                "2",
                "Type, VCI, data, response",
                "1, 16, 272, 1 bits",
                &slot,
                &[1, vci, data, 1],
            ),
            Claim::derived("C8", "bits of a slot", "1 + 16 + 272 + 1")
                .prints(dec("290"))
                .number(
                    Rational::from(1 + vci + data + 1),
                    Tolerance::Exact,
                    &Value::new(slot.iter().map(|field| field.bits).sum::<u64>(), 0, "bits"),
                ),
            check(
                "3",
                "VCI, sequence, RID, part, start",
                "16, 8, 6, 1, 1 bits",
                &word,
                &[vci, sequence, rid, 1, 1],
            ),
        ];
        progress.step(1, 1);
        Ok(Outcome {
            tables: vec![
                table("slot", "Figure 2: a slot", &slot),
                table("word", "Figure 3: the first word of a cell", &word),
            ],
            figures: vec![Figure::of_claims("claims", "Formats", &checks)],
            checks,
            ..Outcome::default()
        })
    }
}

/// A field, its first bit, and its bits.
struct Field {
    name: &'static str,
    first: u64,
    bits: u64,
}

/// Each bit that is set alone belongs to the field that it changes.
fn fields(bits: usize, names: &[&'static str], which: impl Fn(usize) -> usize) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for bit in 0..bits {
        let name = names.get(which(bit)).copied().unwrap_or("none");
        match fields.last_mut() {
            Some(last) if last.name == name => last.bits += 1,
            _ => fields.push(Field {
                name,
                first: bit as u64,
                bits: 1,
            }),
        }
    }
    fields
}

fn fields_of_slot() -> Vec<Field> {
    fields(
        SLOT_BITS,
        &["Type", "VCI", "Data Field", "Response"],
        |bit| {
            let mut octets = [0; SLOT_LEN];
            octets[bit / 8] = 0x80 >> (bit % 8);
            match CbnSlot::parse(&octets) {
                CbnSlot { type_bit: true, .. } => 0,
                CbnSlot { response: true, .. } => 3,
                CbnSlot { cell, .. } if cell.vci != 0 => 1,
                CbnSlot { cell, .. } if cell.data != [0; DATA_LEN] => 2,
                _ => 4,
            }
        },
    )
}

fn fields_of_word() -> Vec<Field> {
    let names = ["VCI", "Sequence", "RID", "Part", "Start"];
    fields(32, &names, |bit| {
        let mut octets = [0; CBN_CELL_LEN];
        octets[bit / 8] = 0x80 >> (bit % 8);
        let cell = CbnCell::parse(&octets);
        let header = cell
            .data
            .first_chunk::<MSSAR_LEN>()
            .map(|octets| Mssar::parse(*octets));
        match header.unwrap_or_default() {
            _ if cell.vci != 0 => 0,
            Mssar { start: true, .. } => 4,
            Mssar { part: true, .. } => 3,
            Mssar { sequence: 1.., .. } => 1,
            Mssar { rid: 1.., .. } => 2,
            _ => 5,
        }
    })
}

fn check(id: &str, what: &str, paper: &str, fields: &[Field], bits: &[u64]) -> Check {
    let ours: Vec<_> = fields.iter().map(|field| field.bits).collect();
    let shown: Vec<_> = fields.iter().map(|field| field.bits.to_string()).collect();
    Claim::derived(id, what, paper).holds(ours == bits, &(shown.join(", ") + " bits"))
}

fn table(name: &str, title: &str, fields: &[Field]) -> Table {
    let mut table = Table::new(
        name,
        title,
        &[
            ("field", "field"),
            ("first_bit", "first bit"),
            ("bits", "bits"),
        ],
    );
    for field in fields {
        table.row([
            Entry::text(field.name),
            Entry::number(field.first, 0),
            Entry::number(field.bits, 0),
        ]);
    }
    table
}
