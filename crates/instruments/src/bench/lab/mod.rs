//! `cellgate bench lab`: what a cell costs the simulated world, beside other simulators.

mod machine;
mod network;
mod peer;
mod ring;

use std::ffi::OsString;

use cellgate_host::clock::process_cpu_ns;
use cellgate_report::output::Exit;

use super::measure::{Contestant, Sizes, Times, take_turns};
use super::report::Report;
use crate::live::spread::Spread;
use machine::Charged;
use network::{BIT_S, Mode, Network};
use peer::{KINDS, Peer};

/// Cells of a pass.
const CELLS: u64 = 96_000;
/// Passes beside peers are so many times as long: that these have had the caches is not to count.
const BESIDE: u64 = 4;
/// At least, where there are many hosts or sources.
const CELLS_A_HOST: u64 = 38_400;
const CELLS_A_SOURCE: u64 = 3_840;

/// The simulated world beside ns-3, NeXosim and SimPy, and how its cost grows
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    shared: super::Args,
    /// Program that runs ns-3, built from peers/lab_ns3.cc
    #[arg(long, value_name = "PROGRAM")]
    ns3: Option<OsString>,
    /// Program that runs NeXosim, built from peers/nexosim
    #[arg(long, value_name = "PROGRAM")]
    nexosim: Option<OsString>,
    /// Program that runs SimPy: peers/lab_simpy.py
    #[arg(long, value_name = "PROGRAM")]
    simpy: Option<OsString>,
    /// Program that runs a ring in SimPy: peers/ring_simpy.py
    #[arg(long, value_name = "PROGRAM")]
    ring_simpy: Option<OsString>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new("lab", args.shared.quick);
    let sizes = Sizes::of(args.shared.quick, CELLS as usize, 11);
    beside(&mut report, sizes, args)?;
    growth(&mut report, sizes)?;
    ring::run(&mut report, sizes, args.ring_simpy.as_deref())?;
    report.note(
        "source, line, switch, line, sink; every line at 149.76 Mbit/s and full; SDUs of 1,500 \
         octets. The lab's sink is the adapter with its queues and a client that compares every \
         octet; making and closing the world is in its time. A peer moves cells of 53 octets and \
         looks at none",
    );
    report.note(
        "the i960: the same adapter on the board of Policing Offloaded, which receives such SDUs, \
         a cell for each turn of the firmware; with its cost table, each work that the adapter \
         names is counted and turned into cycles. The P-90 of L4ATM has no adapter in its loop: \
         its table is asked once for a packet",
    );
    report.note(
        "the ring: 16 stations that have always a cell, slots of one channel, 22.7 us round; as \
         fast as the ring: the paper's V1S stations on four channels, blocks of 255 cells",
    );
    report.note("times are CPU time; the same number of cells reaches the sink in every pass");
    report.finish(args.shared.json)
}

/// A pass of ours: its CPU time in ticks. The first error is kept.
fn pass(
    run: impl FnOnce() -> anyhow::Result<()>,
    ns_per_tick: f64,
    failed: &mut anyhow::Result<()>,
) -> u64 {
    let from = process_cpu_ns();
    let ran = run();
    if failed.is_ok() {
        *failed = ran;
    }
    ((process_cpu_ns() - from) as f64 / ns_per_tick) as u64
}

/// One host with one source, beside the peers that are there.
fn beside(report: &mut Report, sizes: Sizes, args: &Args) -> anyhow::Result<()> {
    let network = Network::new(1, 1, BESIDE * sizes.cells as u64)?;
    let (cells, ns_per_tick) = (network.cells(), report.ns_per_tick());
    let programs = [&args.ns3, &args.ns3, &args.nexosim, &args.simpy];
    let (mut peers, mut skipped) = (Vec::new(), Vec::new());
    for (kind, program) in KINDS.iter().zip(programs) {
        match program {
            Some(program) => peers.push(Peer::spawn(kind, program, &network)?),
            None => skipped.push(kind.option),
        }
    }
    skipped.dedup();
    for option in skipped {
        report.note(format!(
            "skipped the peer of {option}: no PROGRAM was named"
        ));
    }
    let mut failed: Vec<_> = (0..MODES.len() + TABLES.len()).map(|_| Ok(())).collect();
    let (of_modes, of_tables) = failed.split_at_mut(MODES.len());
    let mut contestants = Vec::new();
    for ((mode, name), failed) in MODES.into_iter().zip(of_modes) {
        let network = &network;
        contestants.push(Contestant::new(name, cells as usize, move || {
            pass(|| network.run(mode), ns_per_tick, failed)
        }));
    }
    for ((charged, name), failed) in TABLES.into_iter().zip(of_tables) {
        contestants.push(Contestant::new(name, cells as usize, move || {
            pass(|| machine::run(charged, cells), ns_per_tick, failed)
        }));
    }
    for peer in &mut peers {
        contestants.push(Contestant::new(peer.kind.name, cells as usize, || {
            peer.round(ns_per_tick)
        }));
    }
    let times = take_turns(contestants, sizes.repeats, &mut report.calibrations);
    failed.into_iter().collect::<anyhow::Result<()>>()?;
    let (ours, theirs) = times.split_at(MODES.len() + TABLES.len());
    let (ours, machine) = ours.split_at(MODES.len());
    for times in &times {
        report.figure(times);
        report.value(
            times.name.clone(),
            "M cells per CPU-second",
            million(times, ns_per_tick),
        );
    }
    for judged in &ours[1..] {
        report.ratio(judged, &ours[0]);
    }
    for charged in &machine[1..] {
        report.ratio(charged, &machine[0]);
    }
    report.ratio(&machine[1], &ours[0]);
    for (times, peer) in theirs.iter().zip(peers) {
        let ratio = report.ratio(times, &ours[0]).median;
        if let Some(goal) = peer.kind.at_least {
            report.ratio_at_least(format!("{} over the lab", times.name), ratio, goal);
        }
        peer.end(cells)?;
    }
    let line = BIT_S as f64 / 424.0;
    let real = million(&ours[0], ns_per_tick) * 1e6 / line;
    report.rate_at_least("times as fast as the line itself", real, 20.0);
    let judged = million(&ours[1], ns_per_tick);
    report.rate_at_least("M cells per CPU-second, with the reference", judged, 2.5);
    Ok(())
}

const MODES: [(Mode, &str); 3] = [
    (Mode::Plain, "lab"),
    (Mode::Judged, "lab, with the reference"),
    (
        Mode::Differential,
        "lab, with the reference, two runs compared",
    ),
];

const TABLES: [(Charged, &str); 3] = [
    (Charged::Nothing, "i960, nothing charged"),
    (Charged::Board, "i960, its cost table"),
    (Charged::Both, "i960 and its host, both cost tables"),
];

/// Millions of cells in a second of CPU time.
fn million(times: &Times, ns_per_tick: f64) -> f64 {
    1e3 / (times.spread().median * ns_per_tick)
}

/// How a cell's cost grows with the number of sources at one host, and of hosts.
fn growth(report: &mut Report, sizes: Sizes) -> anyhow::Result<()> {
    let ns_per_tick = report.ns_per_tick();
    let size = sizes.cells as u64;
    for (mode, with) in [(Mode::Plain, ""), (Mode::Judged, ", with the reference")] {
        let mut networks = Vec::new();
        for (hosts, sources) in [(1, 1), (1, 10), (1, 100), (1, 1_000), (10, 1), (100, 1)] {
            // So many that what a host and a connection cost once does not count.
            let cells = CELLS.max(CELLS_A_HOST * hosts as u64);
            let cells = cells.max(CELLS_A_SOURCE * sources as u64);
            if !(size < CELLS && hosts * sources > 100) {
                networks.push(Network::new(hosts, sources, cells * size / CELLS)?);
            }
        }
        let mut failed: Vec<_> = networks.iter().map(|_| Ok(())).collect();
        let contestants = networks.iter().zip(&mut failed).map(|(network, failed)| {
            let name = format!(
                "{} hosts x {} sources{with}",
                network.hosts, network.sources
            );
            let cells = network.cells() as usize;
            Contestant::new(name, cells, move || {
                pass(|| network.run(mode), ns_per_tick, failed)
            })
        });
        let contestants = contestants.collect();
        let repeats = sizes.repeats.min(5);
        let times = take_turns(contestants, repeats, &mut report.calibrations);
        failed.into_iter().collect::<anyhow::Result<()>>()?;
        report.figure(&times[0]);
        for times_of in &times[1..] {
            report.figure(times_of);
            let Spread { median, .. } = report.ratio(times_of, &times[0]);
            let name = format!("{} over one of each", times_of.name);
            report.ratio_at_most(name, median, 2.5);
        }
    }
    Ok(())
}
