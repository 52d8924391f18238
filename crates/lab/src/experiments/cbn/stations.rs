use cellgate_core::wire::CbnCell;
use cellgate_report::{
    At, Axis, Check, Claim, Entry, Figure, Look, Mark, Outcome, Panel, Rational, Series, Table,
    Tolerance, Value, dec,
};

use super::{Error, Experiment, FRAMES, Parameter, Progress, ROTATION, RingSpec, Settings, us};
use crate::cbn::{Attached, Ring};
use crate::world::Ps;

/// How many stations a ring carries that send as fast as a V1S can.
pub(in crate::experiments) struct Stations;

const STATION: Parameter = Parameter::number(
    "station_mbit_s",
    "what each station sends, Mbit/s of cells with their headers",
    dec("25.6"),
    (dec("1"), dec("88")),
);
const MOST: u32 = 18;
const ROTATIONS: u64 = 2_000;

/// A station with a cell every so often, on each channel in turn.
struct Paced {
    distance: Ps,
    offset: Ps,
    channels: u64,
    /// Cells that were sent, by channel.
    sent: Vec<u64>,
}

impl Attached for Paced {
    fn passes(&mut self, _: Ps, _: u8, _: &CbnCell) -> bool {
        false
    }

    fn fills(&mut self, at: Ps, channel: u8) -> Option<CbnCell> {
        let sent = self.sent.get_mut(usize::from(channel))?;
        let number = *sent * self.channels + u64::from(channel);
        let due = self.offset.plus(Ps::new(self.distance.ps() * number));
        (due <= at).then(|| {
            *sent += 1;
            CbnCell::EMPTY
        })
    }
}

/// The share of their cells that the ring carries.
fn carried(ring: RingSpec, stations: u32, distance: Ps) -> Rational {
    let places: Vec<_> = (0..stations).map(|n| n * ring.places / stations).collect();
    let new = |n: u32| Paced {
        distance,
        offset: Ps::new(distance.ps() * u64::from(n) / u64::from(stations)),
        channels: ring.channels.into(),
        sent: vec![0; ring.channels.into()],
    };
    let mut all: Vec<_> = (0..stations).map(new).collect();
    let mut slots = Ring::new(ring, &places);
    let end = Ps::new(ring.rotation.ps() * ROTATIONS);
    while slots.next() < end {
        slots.turn(&mut all);
    }
    let sent = (0..ring.channels)
        .map(|channel| slots.filled(channel))
        .sum::<u64>();
    let had = Rational::from(stations) * us(end) / us(distance);
    Rational::from(sent) / had
}

impl Experiment for Stations {
    fn name(&self) -> &'static str {
        "ring-stations"
    }

    fn source(&self) -> &'static str {
        "CBN half-duplex stations, section 2: the ring will support 16 such stations"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: &[Parameter] = &[STATION, ROTATION, FRAMES];
        ALL
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let distance_us = super::CELL_BITS / settings.number("station_mbit_s");
        let distance = super::ps(distance_us * dec("1000"));
        let ring = super::ring(settings);
        let mut points = Vec::new();
        for stations in 8..=MOST {
            points.push((stations, carried(ring, stations, distance)));
            progress.step(u64::from(stations) - 7, u64::from(MOST) - 7);
        }
        Ok(Outcome {
            tables: vec![table(&points)],
            figures: vec![figure(&points)],
            checks: checks(&points),
            notes: vec![
                "The paper has 16 x 25 = 400 of 409.6 Mbit/s, which are line bits. Slots carry \
                 355.2 Mbit/s of cells, enough for 13.88 stations of 25.6 (14.2 of 25.0); a \
                 source passes its slot on, so N stations use N of N + 1: 12.88."
                    .to_owned(),
            ],
        })
    }
}

fn table(points: &[(u32, Rational)]) -> Table {
    let mut table = Table::new(
        "stations",
        "What the ring carries of what stations send",
        &[("stations", "stations"), ("carried_percent", "carried, %")],
    );
    for (stations, carried) in points {
        table.row([
            Entry::number(*stations, 0),
            Entry::number(*carried * dec("100"), 1),
        ]);
    }
    table
}

fn figure(points: &[(u32, Rational)]) -> Figure {
    let point = |p: &(u32, Rational)| (f64::from(p.0), p.1.to_f64() * 100.0);
    let panel = Panel {
        x: Axis::linear("stations").from(7.0).to(19.0),
        y: Axis::linear("carried, %").to(105.0),
        series: vec![Series::new(
            "ours",
            Look::Dotted,
            points.iter().map(point).collect(),
        )],
        marks: vec![Mark {
            at: At::X(16.0),
            label: "the paper's 16".to_owned(),
        }],
    };
    Figure::single("stations", "Stations that a ring carries", panel)
}

fn checks(points: &[(u32, Rational)]) -> Vec<Check> {
    // But for what waits in the end.
    let whole = points
        .iter()
        .take_while(|(_, carried)| *carried > dec("0.995"));
    let all = points.iter().find(|(stations, _)| *stations == 16);
    let of_all = all.map_or(Rational::ZERO, |(_, carried)| *carried);
    let most = whole.last().map_or(0, |(stations, _)| *stations);
    vec![
        Claim::derived("C4", "stations of which all is carried", "16")
            .prints(dec("16"))
            .reading("slots passed on")
            .number(
                dec("12"),
                Tolerance::Exact,
                &Value::new(most, 0, "stations"),
            ),
        Claim::derived("C4", "what is carried of 16 of them", "16")
            .prints(dec("100"))
            .reading("16 / 17 of the slots")
            .number(
                dec("81.6"),
                Tolerance::Percent(dec("1")),
                &Value::new(of_all * dec("100"), 1, "%"),
            ),
    ]
}
