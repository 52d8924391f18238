//! `cellgate bench shape`: Figure 6 of *Policing Offloaded* on this machine, and thousands of
//! shaped VCs.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use cellgate_core::Time;
use cellgate_core::adapter::{Command, Transmit};
use cellgate_core::contract::CellRate;
use cellgate_core::wire::VpiVci;
use cellgate_host::clock::MonotonicClock;
use cellgate_report::output::Exit;

use super::Args;
use super::measure::Contestant;
use super::report::Report;
use super::rig::Rig;
use super::train::{Train, addresses};
use crate::live::rig::{request, transmit};
use crate::live::weather::until_sound;

/// The paper's constant VCs.
const C2_CELL_S: u32 = 24_000;
const C3_CELL_S: u32 = 48_000;
/// The steps of its varied one: the paper's own are lost.
const C1_CELL_S: [u32; 6] = [24_000, 72_000, 144_000, 216_000, 96_000, 12_000];
const SDU: u16 = 8192;
/// How late a guaranteed VC may be and still make it good.
const CDVT_NS: u64 = 5_000_000;
/// A stall of this thread beyond which a line loses cells: its burst is 256 of 2.83 us.
const GAP_MAX_NS: u64 = 700_000;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new("shape", args.quick);
    let window = Duration::from_millis(if args.quick { 20 } else { 400 });
    figure_6(&mut report, window)?;
    let repeats = if args.quick { 1 } else { 9 };
    let counts: &[usize] = if args.quick {
        &[1, 100]
    } else {
        &[1, 100, 1000, 4000]
    };
    thousands(&mut report, counts, repeats)?;
    report.note(
        "rates are counted at the adapter's output; a step during which this thread stood still \
         for longer than the line's burst is tried again, three times at most",
    );
    report.finish(args.json)
}

fn guaranteed(cell_s: u32) -> anyhow::Result<Transmit> {
    let rate = CellRate::new(cell_s).context("a rate")?;
    Ok(transmit(Some(rate), CDVT_NS, SDU))
}

/// What one step of the figure showed.
struct Step {
    cell_s: [f64; 4],
    gap_max_ns: u64,
}

fn figure_6(report: &mut Report, window: Duration) -> anyhow::Result<()> {
    let mut rig = Rig::new(4, CellRate::OC3, Rc::new(Train::of_headers([])))?;
    let addresses = addresses(4);
    let contracts = [
        guaranteed(C1_CELL_S[0])?,
        guaranteed(C2_CELL_S)?,
        guaranteed(C3_CELL_S)?,
        transmit(None, CDVT_NS, SDU),
    ];
    for (&address, transmit) in addresses.iter().zip(contracts) {
        rig.open_transmitting(address, transmit, 16)?;
    }
    rig.board.sent_by_vci = vec![0; 64];
    let mut worst = [0f64; 3];
    let mut void = 0;
    for cell_s in C1_CELL_S {
        let try_once = |_| step(&mut rig, addresses[0], cell_s, window);
        let step = until_sound(try_once, |step| step.gap_max_ns > GAP_MAX_NS)?;
        let line = f64::from(CellRate::OC3.cell_s());
        let rest = line - f64::from(cell_s + C2_CELL_S + C3_CELL_S);
        let sum: f64 = step.cell_s.iter().sum();
        let [c1, c2, c3, c4] = step.cell_s;
        let values = [
            ("c1_cell_s", c1),
            ("c2_cell_s", c2),
            ("c3_cell_s", c3),
            ("c4_cell_s", c4),
            ("sum_cell_s", sum),
            ("gap_max_us", step.gap_max_ns as f64 / 1e3),
        ];
        report.row(&format!("C1 at {cell_s}"), &values);
        if step.gap_max_ns > GAP_MAX_NS {
            void += 1;
            continue;
        }
        let error = |value: f64, goal: f64| (value / goal - 1.0).abs();
        let constant = error(step.cell_s[1], C2_CELL_S.into())
            .max(error(step.cell_s[2], C3_CELL_S.into()))
            .max(error(step.cell_s[0], cell_s.into()));
        let found = [constant, error(sum, line), error(step.cell_s[3], rest)];
        for (worst, found) in worst.iter_mut().zip(found) {
            *worst = worst.max(found);
        }
    }
    report.value("void steps", "", f64::from(void));
    report.ratio_at_most("C1, C2, C3: rate error, %", worst[0] * 100.0, 0.1);
    report.ratio_at_most("sum: rate error, %", worst[1] * 100.0, 0.1);
    report.ratio_at_most("C4 (best effort): error, %", worst[2] * 100.0, 0.5);
    Ok(())
}

/// Sets C1's rate, lets it settle, and counts.
fn step(rig: &mut Rig, c1: VpiVci, cell_s: u32, window: Duration) -> anyhow::Result<Step> {
    let request = request(c1, None, Some(guaranteed(cell_s)?));
    rig.now = MonotonicClock.now();
    let vc = rig.vcs[0].id;
    rig.carry_out(Command::Modify {
        ticket: 0,
        vc,
        request,
        region: None,
    })?;
    live(rig, window / 8);
    let before = rig.board.sent_by_vci.clone();
    let from = rig.now;
    let gap_max_ns = live(rig, window);
    let seconds = rig.now.since_ns(from) as f64 / 1e9;
    let sent = |at: usize| (rig.board.sent_by_vci[32 + at] - before[32 + at]) as f64 / seconds;
    Ok(Step {
        cell_s: [sent(0), sent(1), sent(2), sent(3)],
        gap_max_ns,
    })
}

/// Runs by the clock for `window`: the longest time between two steps.
fn live(rig: &mut Rig, window: Duration) -> u64 {
    let from = MonotonicClock.now();
    let mut last = from;
    let mut gap_max_ns = 0;
    let mut turn = 0;
    while last.since_ns(from) < window.as_nanos() as u64 {
        turn = (turn + 1) % 4;
        rig.fill_transmit(turn, SDU);
        rig.now = MonotonicClock.now();
        gap_max_ns = gap_max_ns.max(rig.now.since_ns(last));
        last = rig.now;
        rig.timed_step();
    }
    gap_max_ns
}

/// Equal VCs that share 95 % of the line, on a clock of its own.
fn thousands(report: &mut Report, counts: &[usize], repeats: usize) -> anyhow::Result<()> {
    const SMALL_SDU: u16 = 1500;
    const CELLS: usize = 65_536;
    let mut rigs = Vec::new();
    for &count in counts {
        let rate = CellRate::OC3.cell_s() / 100 * 95 / count as u32;
        let mut rig = Rig::new(count, CellRate::OC3, Rc::new(Train::of_headers([])))?;
        for address in addresses(count) {
            let transmit = Transmit {
                max_sdu: SMALL_SDU,
                //  All others may be before a VC, and a step takes 16 cells of the line.
                cdvt_ns: (count as u64 + 20) * 2_832,
                ..guaranteed(rate)?
            };
            rig.open_transmitting(address, transmit, (3 + 64 / count) as u32)?;
        }
        rig.board.sent_by_vci = vec![0; 32 + count];
        rigs.push((rig, rate, None::<(Time, Vec<u64>)>));
    }
    let contestants = rigs.iter_mut().zip(counts).map(|((rig, _, start), count)| {
        Contestant::new(format!("{count} shaped VCs"), CELLS, move || {
            let until = rig.stats().cells_transmitted + CELLS as u64;
            let mut total = 0;
            while rig.stats().cells_transmitted < until {
                for at in 0..rig.vcs.len() {
                    rig.fill_transmit(at, SMALL_SDU);
                }
                //  64 steps of 16 cell times before every client looks again.
                for _ in 0..64 {
                    rig.now = rig.now.plus_ns(45_300);
                    total += rig.timed_step();
                }
            }
            if start.is_none() {
                *start = Some((rig.now, rig.board.sent_by_vci.clone()));
            }
            total
        })
    });
    report.take_turns(contestants, repeats);
    for ((rig, rate, start), count) in rigs.iter().zip(counts) {
        let Some((from, before)) = start else {
            continue;
        };
        let expected = f64::from(*rate) * rig.now.since_ns(*from) as f64 / 1e9;
        let sent = rig.board.sent_by_vci.iter().zip(before).skip(32);
        let errors = sent.map(|(after, before)| ((after - before) as f64 - expected).abs());
        let worst = errors.fold(0.0, f64::max);
        report.value(
            format!("{count} shaped VCs: each"),
            "cells/s",
            f64::from(*rate),
        );
        report.value(
            format!("{count} shaped VCs: cells expected of each"),
            "cells",
            expected,
        );
        //  At either end one cell is due, and a cell of every other VC may be before it.
        let bound = 2.0 * (1.0 + 0.95);
        report.count_at_most(
            format!("{count} shaped VCs: worst error, cells"),
            worst,
            bound,
        );
    }
    Ok(())
}
