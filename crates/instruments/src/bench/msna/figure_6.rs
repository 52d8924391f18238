//! A block there and back by its way and length, beside UDP and TCP (Figure 6: by the receiving
//! software).

use anyhow::Context;
use cellgate_msna::{Access, Call};
use cellgate_report::Panel;

use super::sockperf::Sockperf;
use super::way::{Turn, Way, configs, msna, tcp, udp};
use super::{daemon, panel};
use crate::bench::measure::calibration;
use crate::bench::report::Report;
use crate::live::spread::Spread;

const OCTETS: [usize; 4] = [64, 1_000, 8_000, 11_730];
/// The length of which a goal speaks.
const LONG: usize = 8_000;

pub(super) fn run(report: &mut Report, quick: bool) -> anyhow::Result<Vec<Panel>> {
    let (turns, blocks) = if quick { (3, 20) } else { (21, 200) };
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned(), None);
    let daemon = daemon(&[pair("a", "b"), pair("c", "d")])?;
    let way = |name, access, interfaces| {
        msna(name, configs(&daemon, access, interfaces), &Call::default())
    };
    let mut ways = [
        way("cells", Access::Cells, ["a", "b"])?,
        way("aal5", Access::Aal5, ["c", "d"])?,
        way("packets", Access::Packets, ["", ""])?,
        udp()?,
        tcp()?,
    ];
    let mut peers = Sockperf::both()?;
    if peers.is_empty() {
        report.note("sockperf is not installed: it is no peer of this run");
    }
    let mut seen = vec![[const { Vec::new() }; OCTETS.len()]; ways.len()];
    let mut theirs = vec![[const { Vec::new() }; OCTETS.len()]; peers.len()];
    for _ in 0..turns {
        report.calibrations.push(calibration());
        for (at, &octets) in OCTETS.iter().enumerate() {
            for (way, seen) in ways.iter_mut().zip(&mut seen) {
                seen[at].push(way.turn(octets, blocks).with_context(|| way.name.clone())?);
            }
            for (peer, seen) in peers.iter_mut().zip(&mut theirs) {
                seen[at].push(peer.round_trip_us(octets)?);
            }
        }
    }
    rows(report, &ways, &seen);
    for (peer, seen) in peers.iter().zip(&theirs) {
        for (octets, us) in OCTETS.iter().zip(seen) {
            let us = Spread::of(us.clone());
            let values = [("round_trip_us", us.median), ("q1", us.q1), ("q3", us.q3)];
            report.row(&format!("{octets} octets, {}", peer.name), &values);
        }
    }
    judge(report, &seen)?;
    report.note(
        "CPU: of the thread that sends a block and sleeps until it is back; its other end is a \
         thread of this process that sleeps, too. A block is woken for at its last cell",
    );
    let curves: Vec<_> = ways
        .iter()
        .zip(&seen)
        .map(|(way, seen)| curve(way, seen))
        .collect();
    Ok(vec![panel("octets", "there and back, us", &curves)])
}

fn rows(report: &mut Report, ways: &[Way], seen: &[[Vec<Turn>; OCTETS.len()]]) {
    for (way, seen) in ways.iter().zip(seen) {
        for (octets, turns) in OCTETS.iter().zip(seen) {
            let of = |value: fn(&Turn) -> f64| Spread::of(turns.iter().map(value).collect());
            let [us, cpu] = [of(|turn| turn.us), of(|turn| turn.cpu_us)];
            report.row(
                &format!("{octets} octets, {}", way.name),
                &[
                    ("round_trip_us", us.median),
                    ("q1", us.q1),
                    ("q3", us.q3),
                    ("cpu_us_a_block", cpu.median),
                    ("sleeps_a_block", of(|turn| turn.sleeps).median),
                ],
            );
        }
    }
}

fn judge(report: &mut Report, seen: &[[Vec<Turn>; OCTETS.len()]]) -> anyhow::Result<()> {
    let at = OCTETS.iter().position(|octets| *octets == LONG);
    let at = at.context("a length")?;
    let pairs = seen[1][at].iter().zip(&seen[0][at]);
    let ratios = pairs.map(|(aal5, cells)| aal5.cpu_us / cells.cpu_us);
    let ratio = Spread::of(ratios.collect());
    let name = format!("{LONG} octets: CPU of aal5 over that of cells");
    report.ratio_at_most(name, ratio.median, 0.2);
    Ok(())
}

fn curve(way: &Way, seen: &[Vec<Turn>; OCTETS.len()]) -> (String, Vec<(f64, f64)>) {
    let points = OCTETS.iter().zip(seen).map(|(octets, turns)| {
        let us = Spread::of(turns.iter().map(|turn| turn.us).collect());
        (*octets as f64, us.median)
    });
    (way.name.clone(), points.collect())
}
