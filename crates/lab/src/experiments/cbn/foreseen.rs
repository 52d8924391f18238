use cellgate_core::aal::mssar::CELLS_MAX;
use cellgate_report::{
    Check, Claim, Entry, Figure, Outcome, Rational, Table, Tolerance, Value, dec,
};

use super::{
    DATA_BITS, END, Error, Experiment, HostCosts, Model, Network, Notify, Parameter, Progress,
    Script, Seat, Settings, V1sSpec, done, mbit_s, ps, received, slope, to, us,
};
use crate::world::Ps;

/// The interfaces that the paper foresees.
pub(in crate::experiments) struct Foreseen;

const CELL: Parameter = Parameter::number(
    "cell_us",
    "what a cell takes the processor of an interface whose words are copied for it, us",
    dec("5.12"),
    (dec("1"), dec("1000")),
);
/// Bits of data of a cell that has 48 octets.
const LONG_BITS: Rational = dec("384");

/// The ring's clock, in MHz: as it was run, and as it was meant to be.
const CLOCK: u64 = 512;
const FULL_CLOCK: u64 = 1_000;

impl Experiment for Foreseen {
    fn name(&self) -> &'static str {
        "ring-foreseen"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, section 8: interfaces to come (future work)"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: [Parameter; 8] = super::and([CELL]);
        &ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let model = Model::new(settings);
        let dual = model.dual(settings.number("cell_us"));
        let rows = [
            Row::of("as it is", &model)?,
            Row::of("at 1000 MHz", &model.at_full_clock())?,
            Row::of(
                "words copied for it, at 1000 MHz",
                &model.at_full_clock().wordless(),
            )?,
            Row::of("a processor for cells, at 1000 MHz", &dual)?,
        ];
        progress.step(1, 3);
        let floods = [false, true].map(|by_circuit| flooded(&model, by_circuit));
        progress.step(2, 3);
        let pings = [false, true].map(|by_circuit| {
            let model = model.with_fifos(by_circuit);
            model.ping(Notify::Every, CELLS_MAX.into())
        });
        progress.step(3, 3);
        let [one, each] = floods;
        let [shared, own] = pings;
        let fifos = [(one?, shared?), (each?, own?)];
        let mut checks = of_cells(&rows);
        checks.extend(of_fifos(&fifos));
        Ok(Outcome {
            tables: vec![table(&rows), table_of_fifos(&fifos)],
            figures: vec![Figure::of_claims("claims", "Interfaces to come", &checks)],
            checks,
            notes: vec![
                "50 Mbit/s of cells of 32 octets and 75 of 48 are one time, 5.12 us a cell: \
                 between what the 68030's code takes for a cell that is sent (3.9) and for one \
                 that is received (6.03), if the words are copied for it. Blocks cost nothing \
                 there beside their cells."
                    .to_owned(),
            ],
        })
    }
}

impl Model {
    fn at_full_clock(self) -> Self {
        Self {
            station: self.station.at_clock(FULL_CLOCK, CLOCK),
            ring: self.ring.at_clock(FULL_CLOCK as u32, CLOCK as u32),
            ..self
        }
    }

    /// Words are copied without the CPU, beside its work on another cell.
    fn wordless(self) -> Self {
        let station = V1sSpec {
            host_word: Ps::ZERO,
            port: 2 * V1sSpec::WORDS,
            ..self.station
        };
        Self { station, ..self }
    }

    /// A processor that has so many microseconds for a cell either way, and nothing else to do.
    fn dual(self, cell_us: Rational) -> Self {
        let of = self.host.costs.instructions;
        let each = |instructions| ps(cell_us * dec("1000") / Rational::from(instructions));
        let costs = HostCosts {
            transmit: each(of.transmit_cell),
            receive: each(of.receive_cell),
            sent_block: Ps::ZERO,
            received_block: Ps::ZERO,
            blocks_cost: false,
            ..self.host.costs
        };
        self.with(costs).at_full_clock().wordless()
    }

    fn with_fifos(self, by_circuit: bool) -> Self {
        let station = V1sSpec {
            by_circuit,
            ..self.station
        };
        Self { station, ..self }
    }
}

/// Microseconds of a cell within a block.
struct Row {
    name: &'static str,
    sent: Rational,
    received: Rational,
}

impl Row {
    fn of(name: &'static str, model: &Model) -> Result<Self, Error> {
        let [short, long] = [64, 192].map(|cells| -> Result<_, Error> {
            let sent = model.sends(Notify::Every, cells, 1)?;
            let sent = sent.hosts()[0].application().sent[0];
            let came = model.floods(cells)?;
            Ok(((cells, us(sent)), (cells, came)))
        });
        let ((sent, came), (sent_long, came_long)) = (short?, long?);
        Ok(Self {
            name,
            sent: slope([sent, sent_long]),
            received: slope([came, came_long]),
        })
    }
}

/// The distance of cells that come faster than any host here reads them.
const NEAR: Ps = Ps::from_ns(4_500);

impl Model {
    /// When a block has come whose cells come faster than they are read, in microseconds.
    fn floods(&self, cells: usize) -> Result<Rational, Error> {
        let mut network = self.network(Notify::Every, [Script::default(), Script::default()]);
        let cells = to(1, cells).cells(0).into_iter().enumerate();
        let at = |n: usize| Ps::new(NEAR.ps() * n as u64);
        network.stream(1, cells.map(|(n, cell)| (at(n), cell)));
        network.run(END, |network| !received(network, 1).is_empty());
        let network = done(network)?;
        Ok(us(received(&network, 1)[0]))
    }
}

/// A slow stream of blocks of a cell beside a flood of long ones, to one station.
struct Flooded {
    sent: u64,
    came: u64,
    flood_lost: u64,
}

const SLOW: u64 = 100;
/// Blocks of the flood, which takes longer.
const FLOOD: u64 = 40;
const SLOW_EVERY: Ps = Ps::from_ns(1_000_000);
/// Circuits of the flood and of the slow stream.
const FLOOD_VCI: u16 = 2;
const SLOW_VCI: u16 = 9;

fn flooded(model: &Model, by_circuit: bool) -> Result<Flooded, Error> {
    let model = model.with_fifos(by_circuit);
    let flood = Script::sends(to(1, CELLS_MAX.into()), FLOOD);
    let scripts = [flood, Script::default()];
    let seats = model.seats(scripts).zip(0_u8..).map(|(seat, n)| Seat {
        circuits: match n {
            0 => Vec::new(),
            _ => vec![(FLOOD_VCI, Notify::Every), (SLOW_VCI, Notify::Every)],
        },
        ..seat
    });
    let mut network = Network::new(model.ring, seats.collect());
    let slow = super::Destination {
        vci: SLOW_VCI,
        ..to(1, 1)
    };
    let cells = (0..SLOW).flat_map(|n| {
        let at = Ps::new(SLOW_EVERY.ps() * (n + 1));
        slow.cells((n % 64) as u8)
            .into_iter()
            .map(move |cell| (at, cell))
    });
    network.stream(1, cells);
    network.run(END, |network| {
        network.hosts()[0].counts().sent_blocks == FLOOD && network.hosts()[1].is_idle()
    });
    let network = done(network)?;
    let script = network.hosts()[1].application();
    let came = script
        .lengths
        .iter()
        .filter(|len| **len == super::MSSAR_RING_LEN);
    let came = came.count() as u64;
    Ok(Flooded {
        sent: SLOW,
        came,
        flood_lost: network.stations()[1].counts().overflowed - (SLOW - came),
    })
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "cells",
        "A cell within a block",
        &[
            ("interface", "interface"),
            ("sent_us", "sent, us"),
            ("received_us", "received, us"),
            ("sent_mbit_s", "sent, Mbit/s of data"),
            ("received_mbit_s", "received, Mbit/s of data"),
        ],
    );
    for row in rows {
        table.row([
            Entry::text(row.name),
            Entry::number(row.sent, 2),
            Entry::number(row.received, 2),
            Entry::number(DATA_BITS / row.sent, 1),
            Entry::number(DATA_BITS / row.received, 1),
        ]);
    }
    table
}

fn table_of_fifos(fifos: &[(Flooded, Rational)]) -> Table {
    let mut table = Table::new(
        "fifos",
        "100 blocks of a cell beside a flood of blocks of 255, by the receive FIFOs",
        &[
            ("fifos", "receive FIFOs"),
            ("came", "came"),
            ("flood_lost", "cells lost of the flood"),
            ("ping_us", "a ping of 255 cells alone, us"),
        ],
    );
    for (name, (flooded, ping)) in ["one", "one for each circuit"].iter().zip(fifos) {
        table.row([
            Entry::text(*name),
            Entry::number(flooded.came, 0),
            Entry::number(flooded.flood_lost, 0),
            Entry::number(*ping, 1),
        ]);
    }
    table
}

fn of_cells([_, faster, wordless, dual]: &[Row; 4]) -> Vec<Check> {
    let near = Tolerance::Percent(dec("1"));
    let exactly = Tolerance::Percent(dec("0.02"));
    let rate = |id: &str, what: &str, paper: &str, expected: &str| {
        let claim = Claim::calibrated(id, what, paper);
        (claim, dec(expected))
    };
    let mut checks = Vec::new();
    for (what, us, expected) in [
        ("sent at 1000 MHz", faster.sent, "25.49"),
        ("received at 1000 MHz", faster.received, "21.03"),
        ("sent, its words copied for the CPU", wordless.sent, "65.64"),
        (
            "received, its words copied for the CPU",
            wordless.received,
            "42.45",
        ),
    ] {
        let (claim, expected) = rate("C15", &format!("data {what}"), "", expected);
        checks.push(claim.number(expected, near, &mbit_s(DATA_BITS, us)));
    }
    for (what, us) in [("sent", dual.sent), ("received", dual.received)] {
        for (bits, octets, paper) in [
            (DATA_BITS, "32 octets", "50"),
            (LONG_BITS, "48 octets", "75"),
        ] {
            let what = format!("cells of {octets} {what} by a processor for them");
            let (claim, expected) = rate("C16", &what, &format!("about {paper} Mbit/s"), paper);
            let ours = mbit_s(bits, us);
            checks.push(claim.prints(expected).number(expected, exactly, &ours));
        }
    }
    checks
}

fn of_fifos([(one, shared), (each, own)]: &[(Flooded, Rational); 2]) -> Vec<Check> {
    let claim = |what: &str, paper: &str| Claim::derived("foreseen", what, paper);
    let lost = |flooded: &Flooded| Value::new(flooded.sent - flooded.came, 0, "blocks");
    vec![
        claim("lost of a slow stream beside a flood, one FIFO", "").number(
            dec("1"),
            Tolerance::AtLeast,
            &lost(one),
        ),
        claim("the same, a FIFO for each circuit", "demultiplexing").number(
            dec("0"),
            Tolerance::Exact,
            &lost(each),
        ),
        claim(
            "a ping of one circuit alone over the same with one FIFO",
            "would not show to advantage",
        )
        .number(
            dec("1"),
            Tolerance::Exact,
            &Value::ratio(own.over(*shared), 3, "times"),
        ),
    ]
}
