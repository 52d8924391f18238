//! The worked example of section 2.4: Equations 1 and 2, and what they forget.

use cellgate_core::Time;
use cellgate_core::contract::{CellRate, Lateness, PduStream, aal5_cells};
use cellgate_report::{
    Check, Claim, Entry, Figure, Outcome, Rational, Table, Tolerance, Value, dec,
};

use super::units::{BINARY, DECIMAL, READINGS};
use crate::experiments::{Error, Experiment, Progress, Settings};
use crate::machine::p90::{Application, P90};

/// `l4atm-example`.
pub(in crate::experiments) struct Example;

const SDU: u32 = 8_192;
const TAU_NS: u64 = 2_000_000;

impl Experiment for Example {
    fn name(&self) -> &'static str {
        "l4atm-example"
    }

    fn source(&self) -> &'static str {
        "L4ATM, section 2.4, Equations 1 and 2"
    }

    fn run(&self, _: &Settings, _: &mut dyn Progress) -> Result<Outcome, Error> {
        let [decimal, binary] = READINGS.map(|(_, unit)| stream(unit));
        let (decimal, binary) = (decimal?, binary?);
        let replay = replay(&binary);
        let buffers = buffers()?;
        let mut checks = burst_checks(&decimal, &binary);
        checks.extend(buffer_checks(&binary, &replay));
        checks.extend(footnote_checks());
        checks.extend(server_checks(&buffers));
        Ok(Outcome {
            tables: vec![burst_table(&[decimal, binary]), replay_table(&replay)],
            figures: vec![Figure::of_claims("claims", "The worked example", &checks)],
            checks,
            notes: vec![
                "D = 1/2 ms and T = 2/3 ms are whole cells/s (342,000 and 256,500) if Mbps means \
                 2^20 bit/s, so that the example comes out exactly; with 10^6 it does not."
                    .to_owned(),
                "The packet that is being read stays in the buffer: a buffer of Equation 2 is one \
                 packet short, and each lateness of the way needs more."
                    .to_owned(),
            ],
        })
    }
}

/// 125 and 93.75 Mbps of packets of 8,192 octets.
fn stream(unit: u64) -> Result<PduStream, Error> {
    let rate = |quarters: u64| {
        let rate = CellRate::for_sdu_rate(quarters * unit / 4, SDU);
        rate.ok_or(Error::new("a rate of the example is none"))
    };
    Ok(PduStream {
        peak: rate(500)?,
        sustained: rate(375)?,
        sdu: SDU,
        cells: aal5_cells(SDU),
        dvt_ns: TAU_NS,
    })
}

/// Milliseconds of a packet at a rate.
fn packet_ms(rate: CellRate) -> Rational {
    Rational::new(i128::from(aal5_cells(SDU)) * 1_000, rate.cell_s().into())
}

/// A burst as the contract allows it: when each packet comes, in milliseconds, and how many are
/// there then, that which is being read included.
fn replay(stream: &PduStream) -> Vec<(Rational, u64)> {
    let (d, t) = (packet_ms(stream.peak), packet_ms(stream.sustained));
    let burst = stream.burst_pdus().unwrap_or(0);
    let mut read_until: Vec<Rational> = Vec::new();
    let mut packets = Vec::new();
    for k in 0..burst {
        let arrives = Rational::from(k) * d;
        // A reader takes T, one packet after the other.
        let begins = read_until.last().map_or(arrives, |last| arrives.max(*last));
        read_until.push(begins + t);
        let there = read_until.iter().filter(|until| **until > arrives);
        packets.push((arrives, there.count() as u64));
    }
    packets
}

fn burst_table(streams: &[PduStream]) -> Table {
    let mut table = Table::new(
        "l4atm-example",
        "125 / 93.75 Mbps, 8,192 octets, tau = 2 ms",
        &[
            ("reading", "reading"),
            ("d_ms", "D, ms"),
            ("t_ms", "T, ms"),
            ("tau_by_t_less_d", "tau/(T - D)"),
            ("burst_pdus", "L, packets (Eq. 1)"),
            ("buffer_printed_pdus", "P, packets (Eq. 2)"),
            ("buffer_printed_octets", "P, octets"),
            ("buffer_pdus", "P + 1, packets"),
        ],
    );
    for ((reading, _), stream) in READINGS.iter().zip(streams) {
        let (d, t) = (packet_ms(stream.peak), packet_ms(stream.sustained));
        table.row([
            Entry::text(*reading),
            Entry::number(d, 4),
            Entry::number(t, 4),
            Entry::number(Rational::whole(2) / (t - d), 3),
            Entry::number(stream.burst_pdus().unwrap_or(0), 0),
            Entry::number(stream.buffer_pdus_printed(), 0),
            Entry::number(stream.buffer_octets_printed(), 0),
            Entry::number(stream.buffer_pdus(Lateness::default()), 0),
        ]);
    }
    table
}

fn replay_table(packets: &[(Rational, u64)]) -> Table {
    let mut table = Table::new(
        "l4atm-burst",
        "The longest burst, packet by packet (Mbps = 2^20 bit/s)",
        &[
            ("packet", "packet"),
            ("arrives_ms", "arrives, ms"),
            ("there_pdus", "packets there"),
        ],
    );
    for (i, (arrives, there)) in packets.iter().enumerate() {
        table.row([
            Entry::number(i + 1, 0),
            Entry::number(*arrives, 1),
            Entry::number(*there, 0),
        ]);
    }
    table
}

fn pdus(count: u64) -> Value {
    Value::new(count, 0, "packets")
}

fn burst_checks(decimal: &PduStream, binary: &PduStream) -> Vec<Check> {
    let [decimal_reading, binary_reading] = READINGS.map(|(name, _)| name);
    let burst = |stream: &PduStream| pdus(stream.burst_pdus().unwrap_or(0));
    let long = || {
        let claim = Claim::derived("L1", "longest burst L (Eq. 1)", "13 packets");
        claim.prints(13.into())
    };
    let octets = Value::new(binary.buffer_octets_printed(), 0, "octets");
    vec![
        long()
            .reading(binary_reading)
            .number(13.into(), Tolerance::Exact, &burst(binary)),
        long()
            .reading(decimal_reading)
            .number(12.into(), Tolerance::Exact, &burst(decimal)),
        Claim::derived("L1", "buffer P (Eq. 2)", "24 KB")
            .prints(24_576.into())
            .reading(binary_reading)
            .number(24_576.into(), Tolerance::Exact, &octets),
    ]
}

fn buffer_checks(binary: &PduStream, replay: &[(Rational, u64)]) -> Vec<Check> {
    let last = replay.last().map_or(0, |(_, there)| *there);
    let most = replay.iter().map(|(_, there)| *there).max().unwrap_or(0);
    let ours = binary.buffer_pdus(Lateness::default());
    let short = most - binary.buffer_pdus_printed();
    let what = "packets there when the 13th arrives";
    vec![
        Claim::derived("L2", what, "at most 3 (Eq. 2)")
            .prints(3.into())
            .number(4.into(), Tolerance::Exact, &pdus(last)),
        Claim::derived("L2", "what Eq. 2 is short of", "0 packets").number(
            1.into(),
            Tolerance::Exact,
            &pdus(short),
        ),
        Claim::derived(
            "L2",
            "buffer of core's contract, at least the most there",
            "",
        )
        .number(most.into(), Tolerance::AtLeast, &pdus(ours)),
    ]
}

fn footnote_checks() -> Vec<Check> {
    let time = |unit: u64| {
        let ms = Rational::new(i128::from(SDU) * 8 * 1_000, 80 * i128::from(unit));
        Value::new(ms, 5, "ms")
    };
    let claim = || {
        let claim = Claim::derived("L3", "packet of 8 KB at 80 Mbps (footnote 2)", "0.78 ms");
        claim.prints(dec("0.78"))
    };
    let [(decimal, _), (binary, _)] = READINGS;
    vec![
        claim().reading(binary).number(
            dec("0.78"),
            Tolerance::Absolute(dec("0.005")),
            &time(BINARY),
        ),
        claim()
            .reading(decimal)
            .number(dec("0.8192"), Tolerance::Exact, &time(DECIMAL)),
    ]
}

/// What core's server makes of the example: octets of the transmit and of the receive buffer.
struct Buffers {
    transmit: u64,
    receive: u64,
    needed: u64,
}

fn buffers() -> Result<Buffers, Error> {
    let law = P90::PAPER
        .law(0)
        .map_err(|error| Error::new(error.to_string()))?;
    let mut application = Application::new(Time::ZERO, CellRate::OC3, law)?;
    let mut open = |vci, contract: &str| application.open(Time::ZERO, vci, contract);
    let transmit = format!("cbr:tx:pcr=100,max_sdu={SDU},rx:none");
    let (_, transmit) = open(32, &transmit)?;
    let binary = stream(BINARY)?;
    let (peak, sustained) = (binary.peak.cell_s(), binary.sustained.cell_s());
    // All that the example asks for would take more than the CPU has: a tenth of both rates and
    // ten times the tolerance are the same burst.
    let (peak, sustained) = (peak / 10, sustained / 10);
    let mbs = binary.burst_pdus().unwrap_or(0) * u64::from(binary.cells);
    let receive =
        format!("vbr:tx:none,rx:pcr={peak},scr={sustained},mbs={mbs},dvt=20ms,max_sdu={SDU}");
    let (_, receive) = open(33, &receive)?;
    Ok(Buffers {
        transmit: transmit.sizes.transmit_len.into(),
        receive: receive.sizes.receive_len.into(),
        needed: binary.buffer_octets(Lateness::default()),
    })
}

fn server_checks(buffers: &Buffers) -> Vec<Check> {
    let octets = |octets: u64| Value::new(octets, 0, "octets");
    vec![
        Claim::derived("L16", "transmit buffer of core's server", "max. SDU")
            .prints(SDU.into())
            .number(SDU.into(), Tolerance::AtLeast, &octets(buffers.transmit)),
        Claim::derived(
            "L16",
            "receive buffer of core's server, P + 1 packets",
            "P (Eq. 2)",
        )
        .number(
            buffers.needed.into(),
            Tolerance::AtLeast,
            &octets(buffers.receive),
        ),
    ]
}
