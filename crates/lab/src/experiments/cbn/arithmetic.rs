use cellgate_core::aal::mssar::{CELLS_MAX, block_max};
use cellgate_core::wire::{CBN_CELL_LEN, MSSAR_RING_LEN, SLOT_BITS};
use cellgate_report::{
    Check, Claim, Entry, Figure, Outcome, Rational, Table, Tolerance, Value, dec,
};

use super::{
    CELL_BITS, Error, Experiment, FIFO, FRAMES, Parameter, Progress, RAM_CYCLE, ROTATION, RingSpec,
    Settings, mbit_s, us,
};

/// Numbers in the text, of the ring and of the station.
pub(in crate::experiments) struct Arithmetic;

/// Constants of the text that the model does not have.
const TEXT: [Parameter; 6] = [
    Parameter::number(
        "line_mhz",
        "the line's clock, MHz",
        dec("512"),
        (dec("1"), dec("10000")),
    ),
    Parameter::number(
        "channel_mbit_s",
        "line bits of a channel, Mbit/s",
        dec("102.4"),
        (dec("1"), dec("10000")),
    ),
    Parameter::whole(
        "data_octets",
        "octets of data of a cell",
        MSSAR_RING_LEN as i128,
        (1, 255),
    ),
    Parameter::number(
        "copy_us",
        "the copy of a cell, us",
        dec("12"),
        (dec("1"), dec("1000")),
    ),
    Parameter::number(
        "short_mbit_s",
        "foreseen, with cells of 32 octets, Mbit/s",
        dec("50"),
        (dec("1"), dec("1000")),
    ),
    Parameter::number(
        "long_mbit_s",
        "foreseen, with cells of 48 octets, Mbit/s",
        dec("75"),
        (dec("1"), dec("1000")),
    ),
];
const ALL: [Parameter; 10] = {
    let [line, channel, data, copy, short, long] = TEXT;
    [
        ROTATION, FRAMES, RAM_CYCLE, FIFO, line, channel, data, copy, short, long,
    ]
};

impl Experiment for Arithmetic {
    fn name(&self) -> &'static str {
        "ring-arithmetic"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, numbers in the text (C1 to C8, C15, C16)"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let mut checks = ring(settings);
        checks.extend(station(settings));
        progress.step(1, 1);
        Ok(Outcome {
            tables: vec![table(settings)],
            figures: vec![Figure::of_claims("claims", "Numbers in the text", &checks)],
            checks,
            notes: vec![
                "A line that is 10 km long has 50 us of light in it, not 22.7: the model has the \
                 rotation and the slots as they were measured. Elsewhere the line is said to run \
                 at 503 Mbit/s (Greaves, Cambridge Backbone Ring Hardware). The 42 bits of a slot \
                 that are not its cell's frame it."
                    .to_owned(),
            ],
        })
    }
}

fn number(n: impl Into<u64>) -> Rational {
    Rational::from(n.into())
}

/// Slots of a channel, in a second.
fn slots_s(ring: &RingSpec) -> Rational {
    number(ring.frames) * dec("1000000") / us(ring.rotation)
}

fn ring(settings: &Settings) -> Vec<Check> {
    let ring = super::ring(settings);
    let [line, channel, data] = ["line_mhz", "channel_mbit_s", "data_octets"];
    let [line, channel, data] = [line, channel, data].map(|key| settings.number(key));
    let slots = number(ring.frames) * number(ring.channels);
    let slot_bits = us(ring.rotation) * line / slots;
    let channels = number(ring.channels) * channel;
    let claim = Claim::derived;
    let exact = Tolerance::Exact;
    let within = |of: &str| Tolerance::Absolute(dec(of));
    vec![
        claim(
            "C1",
            "four channels of the line's bits",
            "512 MHz, four 102.4 Mbit/s channels",
        )
        .number(
            dec("0.8"),
            exact,
            &Value::new(channels / line, 2, "of them"),
        ),
        claim("C5", "slots on the ring", "28 slots")
            .prints(dec("28"))
            .number(dec("28"), exact, &Value::new(slots, 0, "slots")),
        claim("C5", "line bits of a slot", "").number(
            dec("415.09"),
            within("0.01"),
            &Value::new(slot_bits, 2, "bits"),
        ),
        claim("C5", "bits of a slot that are not its cell's", "").number(
            dec("42"),
            within("0.1"),
            &Value::new(
                slot_bits * channels / line - number(SLOT_BITS as u64),
                2,
                "bits",
            ),
        ),
        claim("C6", "slots of a channel, a second", "").number(
            dec("308370"),
            exact,
            &Value::new(Rational::whole(slots_s(&ring).floor()), 0, "slots/s"),
        ),
        claim(
            "C6",
            "cells of a channel with their headers",
            "102.4 Mbit/s",
        )
        .prints(dec("102.4"))
        .reading("slots, not line bits")
        .number(
            dec("88.8"),
            within("0.02"),
            &mbit_s(slots_s(&ring) * CELL_BITS, dec("1000000")),
        ),
        claim("C6", "their data", "").number(
            dec("78.9"),
            within("0.05"),
            &mbit_s(slots_s(&ring) * data * dec("8"), dec("1000000")),
        ),
    ]
}

fn station(settings: &Settings) -> Vec<Check> {
    let cell = CBN_CELL_LEN as u64;
    let places = settings.whole("fifo_cells");
    let fifo = cell * places;
    let fifos = 1 + u64::from(RingSpec::PAPER.channels);
    let ram = dec("32000") / settings.number("ram_cycle_ns");
    let data_len = settings.whole("data_octets") as u8;
    let data_bits = settings.number("data_octets") * dec("8");
    let claim = Claim::derived;
    let exact = Tolerance::Exact;
    vec![
        claim("C2", "the RAM's bits", "102.4 Mbit/sec")
            .prints(dec("102.4"))
            .number(dec("102.4"), exact, &Value::new(ram, 1, "Mbit/s")),
        claim(
            "C3",
            "each way, when every bit crosses the RAM twice",
            "25 Mb/sec",
        )
        .prints(dec("25"))
        .number(dec("25.6"), exact, &Value::new(ram / dec("4"), 1, "Mbit/s")),
        claim("C7", "a FIFO", "256 cells").number(
            dec("9216"),
            exact,
            &Value::new(fifo, 0, "octets"),
        ),
        claim("C7", "all of them", "").number(
            dec("46080"),
            exact,
            &Value::new(fifo * fifos, 0, "octets"),
        ),
        claim("C8", "the longest block", "").number(
            dec("8160"),
            exact,
            &Value::new(u64::from(block_max(data_len)), 0, "octets"),
        ),
        claim("C8", "its cells, and the places of a FIFO", "").holds(
            u64::from(CELLS_MAX) < places,
            if u64::from(CELLS_MAX) < places {
                "one block always fits"
            } else {
                "too few"
            },
        ),
        claim(
            "C15",
            "the copy of 12 us at 1000 MHz",
            "about 6 microseconds",
        )
        .prints(dec("6"))
        .number(
            dec("6.144"),
            exact,
            &Value::new(
                settings.number("copy_us") * settings.number("line_mhz") / dec("1000"),
                3,
                "us",
            ),
        ),
        claim(
            "C16",
            "a cell of 32 octets at 50 Mbit/s",
            "up to about 50 Mbit/s",
        )
        .number(
            dec("5.12"),
            exact,
            &Value::new(data_bits / settings.number("short_mbit_s"), 2, "us"),
        ),
        claim(
            "C16",
            "a cell of 48 octets at 75 Mbit/s",
            "75 Mbit/s with 48 byte cells",
        )
        .number(
            dec("5.12"),
            exact,
            &Value::new(dec("384") / settings.number("long_mbit_s"), 2, "us"),
        ),
    ]
}

fn table(settings: &Settings) -> Table {
    let mut table = Table::new(
        "stations",
        "Stations that a ring carries",
        &[
            ("each_mbit_s", "each sends, Mbit/s"),
            ("by_slots", "stations by slots"),
            ("passed_on", "slots passed on"),
        ],
    );
    let ring = super::ring(settings);
    let all = slots_s(&ring) * number(ring.channels) * CELL_BITS / dec("1000000");
    for each in [dec("25"), dec("25.6")] {
        let stations = all / each;
        table.row([
            Entry::number(each, 1),
            Entry::number(stations, 2),
            Entry::number(stations - dec("1"), 2),
        ]);
    }
    table
}
