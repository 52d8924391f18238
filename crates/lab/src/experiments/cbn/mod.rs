//! *Preliminary Performance Results for CBN Half-Duplex VME Stations (V1S)*: the ring, the
//! station, and what a host makes of them.

mod ansa;
mod arithmetic;
mod curves;
mod dma;
mod duplex;
mod figure_4;
mod figure_5;
mod figure_6;
mod figure_7;
mod figure_8;
mod figure_9;
mod foreseen;
mod formats;
mod interrupts;
mod load;
mod overflow;
mod ram;
mod slots;
mod stations;
mod tables;
mod wires;

pub(in crate::experiments) use arithmetic::Arithmetic;
pub(in crate::experiments) use dma::Direct;
pub(in crate::experiments) use duplex::Duplex;
pub(in crate::experiments) use figure_4::Figure4;
pub(in crate::experiments) use figure_5::Figure5;
pub(in crate::experiments) use figure_6::Figure6;
pub(in crate::experiments) use figure_7::Figure7;
pub(in crate::experiments) use figure_8::Figure8;
pub(in crate::experiments) use figure_9::Figure9;
pub(in crate::experiments) use foreseen::Foreseen;
pub(in crate::experiments) use formats::Formats;
pub(in crate::experiments) use interrupts::Interrupts;
pub(in crate::experiments) use load::Load;
pub(in crate::experiments) use overflow::Overflow;
pub(in crate::experiments) use ram::Ram;
pub(in crate::experiments) use slots::Slots;
pub(in crate::experiments) use stations::Stations;
pub(in crate::experiments) use tables::Tables;

use cellgate_core::upper::msna::{Notify, To};
use cellgate_core::wire::MSSAR_RING_LEN;
use cellgate_report::{Rational, Value, dec};

use super::{Error, Experiment, Kind, Parameter, Progress, Settings};
use crate::cbn::RingSpec;
use crate::machine::v1s::{
    Destination, HostCosts, HostSpec, Network, Order, Script, Seat, Stage, V1sSpec,
};
use crate::world::Ps;

/// Bits of a cell's data, and with its header.
const DATA_BITS: Rational = Rational::whole(8 * MSSAR_RING_LEN as i128);
const CELL_BITS: Rational = Rational::whole(288);

const HANDSHAKE: Parameter = Parameter::number(
    "handshake_ns",
    "what a word costs the host beside its cycle, ns (calibrated)",
    Rational::new(V1sSpec::HANDSHAKE.ps() as i128, 1_000),
    (dec("0"), dec("5000")),
);
const TRANSMIT_CYCLES: Parameter = Parameter::number(
    "transmit_cycles",
    "cycles of an instruction of the transmit side (calibrated)",
    cycles(HostCosts::TRANSMIT),
    (dec("0"), dec("50")),
);
const RECEIVE_CYCLES: Parameter = Parameter::number(
    "receive_cycles",
    "cycles of an instruction of the receive side and of interrupts (calibrated)",
    cycles(HostCosts::RECEIVE),
    (dec("0"), dec("50")),
);
const BUFFERS: Parameter = Parameter::number(
    "buffers_us",
    "what a block costs who sends it beside its instructions, us (calibrated)",
    Rational::new(HostCosts::SENT_BLOCK.ps() as i128, 1_000_000),
    (dec("0"), dec("1000")),
);
const ROTATION: Parameter = Parameter::number(
    "rotation_us",
    "a slot's time for its way round, us",
    Rational::new(RingSpec::PAPER.rotation.ps() as i128, 1_000_000),
    (dec("15"), dec("40")),
);
const FRAMES: Parameter = Parameter::whole(
    "frames",
    "frames on the ring, each of a slot a channel",
    RingSpec::PAPER.frames as i128,
    (1, 64),
);
const RAM_CYCLE: Parameter = Parameter::number(
    "ram_cycle_ns",
    "from one access to the station's RAM to the next, ns",
    Rational::new(V1sSpec::CYCLE.ps() as i128, 1_000),
    (dec("200"), dec("500")),
);
const FIFO: Parameter = Parameter::whole(
    "fifo_cells",
    "cells of each of the station's FIFOs",
    V1sSpec::FIFO as i128,
    (192, 4_096),
);
const MODEL: [Parameter; 7] = [
    HANDSHAKE,
    TRANSMIT_CYCLES,
    RECEIVE_CYCLES,
    BUFFERS,
    ROTATION,
    RAM_CYCLE,
    FIFO,
];
const PARAMETERS: &[Parameter] = &MODEL;

/// The model's parameters, and those of an experiment.
const fn and<const M: usize, const N: usize>(own: [Parameter; M]) -> [Parameter; N] {
    assert!(N == M + MODEL.len(), "as many as there are");
    let mut all = [HANDSHAKE; N];
    let mut n = 0;
    while n < N {
        all[n] = if n < M { own[n] } else { MODEL[n - M] };
        n += 1;
    }
    all
}

/// The 68030's clock: 20 MHz.
const CPU_CYCLE_NS: i128 = 50;

const fn cycles(span: Ps) -> Rational {
    Rational::new(span.ps() as i128, 1_000 * CPU_CYCLE_NS)
}

/// The ring of these settings.
fn ring(settings: &Settings) -> RingSpec {
    RingSpec {
        rotation: ps(settings.number("rotation_us") * dec("1000")),
        frames: settings.whole("frames") as u32,
        ..RingSpec::PAPER
    }
}

/// Longer than any run: what is not done by then stands still.
const END: Ps = Ps::from_ns(2_000_000_000);

/// Ring, station and host.
#[derive(Clone, Copy)]
struct Model {
    ring: RingSpec,
    station: V1sSpec,
    host: HostSpec,
}

impl Model {
    /// The paper's, with the settings' constants.
    fn new(settings: &Settings) -> Self {
        let instruction = |key| ps(settings.number(key) * Rational::whole(CPU_CYCLE_NS));
        let costs = HostCosts {
            transmit: instruction("transmit_cycles"),
            receive: instruction("receive_cycles"),
            sent_block: ps(settings.number("buffers_us") * dec("1000")),
            ..HostCosts::PAPER
        };
        let (cycle, handshake) = (
            settings.number("ram_cycle_ns"),
            settings.number("handshake_ns"),
        );
        let ring = RingSpec {
            rotation: ps(settings.number("rotation_us") * dec("1000")),
            ..RingSpec::PAPER
        };
        Self {
            ring,
            station: V1sSpec {
                cycle: ps(cycle),
                host_word: ps(cycle).plus(ps(handshake)),
                fifo: settings.whole("fifo_cells") as usize,
                ..V1sSpec::on(&ring, 0)
            },
            ..Self::paper().with(costs)
        }
    }

    fn paper() -> Self {
        let ring = RingSpec::PAPER;
        Self {
            ring,
            station: V1sSpec::on(&ring, 0),
            host: HostSpec {
                costs: HostCosts::PAPER,
                dally: Ps::ZERO,
                order: Order::InterruptFirst,
                dma: None,
            },
        }
    }

    /// Hosts that cost nothing.
    fn costless(self) -> Self {
        let costs = HostCosts {
            transmit: Ps::ZERO,
            receive: Ps::ZERO,
            sent_block: Ps::ZERO,
            received_block: Ps::ZERO,
            blocks_cost: false,
            stage: Stage::Tight,
            ..self.host.costs
        };
        Self {
            station: V1sSpec {
                host_word: Ps::ZERO,
                ..self.station
            },
            host: HostSpec { costs, ..self.host },
            ..self
        }
    }

    fn at_stage(self, stage: Stage) -> Self {
        let costs = self.host.costs;
        self.with(HostCosts { stage, ..costs })
    }

    fn with(self, costs: HostCosts) -> Self {
        Self {
            host: HostSpec { costs, ..self.host },
            ..self
        }
    }

    /// Stations at equal distances, each on a channel of its own.
    fn seats<A>(&self, scripts: impl IntoIterator<Item = A>) -> impl Iterator<Item = Seat<A>> {
        let scripts: Vec<_> = scripts.into_iter().collect();
        let distance = self.ring.places / scripts.len().max(1) as u32;
        let model = *self;
        let seat = move |(n, application): (u8, A)| Seat {
            place: u32::from(n) * distance,
            station: V1sSpec {
                channel: n % model.ring.channels,
                ..model.station
            },
            host: model.host,
            circuits: Vec::new(),
            application,
        };
        (0..).zip(scripts).map(seat)
    }

    /// The same: station n receives on channel n and circuit n + 1.
    fn network(
        &self,
        condition: Notify,
        scripts: impl IntoIterator<Item = Script>,
    ) -> Network<Script> {
        let seats = (1..).zip(self.seats(scripts)).map(|(vci, mut seat)| {
            seat.circuits = vec![(vci, condition)];
            seat
        });
        Network::new(self.ring, seats.collect())
    }

    /// One station sends blocks of so many cells to another: how it ended.
    fn sends(
        &self,
        condition: Notify,
        cells: usize,
        blocks: u64,
    ) -> Result<Network<Script>, Error> {
        let scripts = [Script::sends(to(1, cells), blocks), Script::default()];
        let mut network = self.network(condition, scripts);
        network.run(END, |network| {
            let [sender, receiver] = network.hosts() else {
                return true;
            };
            let station = network.stations()[1].counts();
            let all = blocks * cells as u64;
            sender.counts().sent_blocks == blocks
                && station.passed == all
                && station.read + station.overflowed == all
                && receiver.is_idle()
        });
        done(network)
    }

    /// The time of a ping, in microseconds; that of the run, if nobody reads its block.
    fn ping(&self, condition: Notify, cells: usize) -> Result<Rational, Error> {
        let scripts = [Script::pings(to(1, cells), 1), Script::answers(to(0, 0))];
        let mut network = self.network(condition, scripts);
        network.run(END, |network| !received(network, 0).is_empty());
        is_right(&network)?;
        Ok(us(received(&network, 0).first().copied().unwrap_or(END)))
    }
}

/// The network, if it has not stood still.
fn done(network: Network<Script>) -> Result<Network<Script>, Error> {
    is_right(&network)?;
    if network.now() < END {
        return Ok(network);
    }
    Err(Error::new("the network stands still"))
}

fn is_right(network: &Network<Script>) -> Result<(), Error> {
    let mut hosts = network.hosts().iter();
    if hosts.any(|host| host.application().wrong > 0) {
        return Err(Error::new("a block has come with other octets"));
    }
    Ok(())
}

/// The times at which blocks came to a host.
fn received(network: &Network<Script>, host: usize) -> &[Ps] {
    &network.hosts()[host].application().received
}

/// To station `n`, in blocks of so many full cells.
const fn to(n: u8, cells: usize) -> Destination {
    Destination {
        vci: n as u16 + 1,
        to: To::Channel(n),
        octets: cells * MSSAR_RING_LEN,
    }
}

/// Of nanoseconds, rounded down.
fn ps(ns: Rational) -> Ps {
    let ps = (ns * dec("1000")).floor();
    Ps::new(u64::try_from(ps).unwrap_or(0))
}

fn us(span: Ps) -> Rational {
    Rational::new(span.ps().into(), 1_000_000)
}

/// How far the times of two numbers of cells are apart, a cell.
fn slope(times: [(usize, Rational); 2]) -> Rational {
    let [(few, short), (many, long)] = times;
    (long - short) / Rational::whole(many as i128 - few as i128)
}

/// Megabits per second, of so many bits in so many microseconds.
fn mbit_s(bits: Rational, us: Rational) -> Value {
    Value::ratio(bits.over(us), 2, "Mbit/s")
}
