//! Several cells at each tick of the rate timer, cellburst x tick constant (Figure 9).
//!
//! With the product K the rate b / tick = b^2 / K that is asked for rises with the burst, until the
//! cells of a burst take longer than its tick: then every second tick is missed, then two of three.
//! At s for a cell, b^2 / (K ceil(b^2 s / K)) has its peaks at b = sqrt(k K / s), all 1 / s.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use anyhow::Context;
use cellgate_core::contract::CellRate;
use cellgate_core::terminal::RateTimer;
use cellgate_report::{At, Axis, Look, Mark, Panel, Series};

use super::MEMORIES;
use super::pair::{Pair, Spec};
use crate::bench::measure::{Contestant, Sizes, Times};
use crate::bench::report::Report;
use crate::live::spread::Spread;

/// Bursts that are tried, in steps: 256 to 1,280 cells.
const STEP: u32 = 16;
const STEPS: RangeInclusive<u32> = 16..=80;
/// The first peak: K is its square times s.
const FIRST: f64 = 512.0;
const PEAKS: usize = 4;
/// Passes from which K follows: one of them was not disturbed.
const TRIALS: usize = 100;
/// Cells of a pass: some bursts of the longest.
const CELLS: usize = 40_000;
/// Octets that a pass has on their way.
const WINDOW: u64 = 8 << 20;

pub(super) fn run(report: &mut Report, sizes: Sizes) -> anyhow::Result<Panel> {
    let spec = Spec {
        window: WINDOW,
        ..Spec::default()
    };
    let pair = RefCell::new(Pair::of_memory(spec, MEMORIES[0].1)?);
    let pass = |rate: CellRate, burst: u32, misses_ticks: bool| {
        let mut pair = pair.borrow_mut();
        let timer = RateTimer::new(pair.now, rate, burst, 0);
        let took = pair.sends(timer, misses_ticks, CELLS);
        took * CELLS as u64 / pair.settles().max(1) as u64
    };
    // A tick is due whenever the one before is done.
    let most = CellRate::new(u32::MAX).context("a rate")?;
    let free = || pass(most, FIRST as u32, false);
    // s, for K: what it is in the run itself is measured beside the bursts.
    let ns_per_tick = report.ns_per_tick();
    let trials = (0..TRIALS).map(|_| free() as f64 * ns_per_tick / CELLS as f64);
    let cell_ns = Spread::of(trials.collect()).min;
    let product = FIRST * FIRST * cell_ns;
    let bursts: Vec<u32> = STEPS.map(|at| at * STEP).collect();
    let mut contestants = vec![Contestant::new("no tick is waited for", CELLS, free)];
    for burst in &bursts {
        let asked = f64::from(*burst).powi(2) * 1e9 / product;
        let rate = CellRate::new(asked as u32).context("a rate")?;
        let name = format!("{burst} cells at a tick");
        contestants.push(Contestant::new(name, CELLS, move || {
            pass(rate, *burst, true)
        }));
    }
    let times = report.take_turns(contestants, sizes.repeats);
    pair.into_inner().ensure()?;
    // Whoever takes the CPU away in between can only add to it.
    let least_ns = |times: &Times| times.spread().min * ns_per_tick;
    let rate = |times: &Times| 1_000.0 / least_ns(times);
    let (free, timed) = times.split_first().context("nothing was measured")?;
    let (free_ns, free) = (least_ns(free), rate(free));
    let points: Vec<(f64, f64)> = bursts
        .iter()
        .map(|burst| f64::from(*burst))
        .zip(timed.iter().map(rate))
        .collect();
    let highest = points.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    report.value("s, a cell where no tick is waited for", "ns", free_ns);
    report.value("cellburst x tick", "cells x us", product / 1_000.0);
    report.ratio_at_least("the upper bound over 1 / s", highest / free, 0.98);
    report.ratio_at_most("the upper bound over 1 / s", highest / free, 1.02);
    for k in 1..=PEAKS {
        let law = (k as f64 * product / free_ns).sqrt();
        let ours = peak(&points, law);
        let off = (ours.unwrap_or(0.0) - law).abs() / f64::from(STEP);
        report.value(format!("peak {k}, by the law"), "cells", law);
        report.value(format!("peak {k}"), "cells", ours.unwrap_or(0.0));
        report.ratio_at_most(format!("peak {k} off the law"), off, 1.0);
    }
    report.note(
        "cellburst: the kernel of who sends, by the clock, its octets in the cache; what it has \
         sent is received between passes; of each burst the least of its repeats",
    );
    Ok(Panel {
        x: Axis::linear("cellburst"),
        y: Axis::linear("10^6 cells/s"),
        series: vec![Series::new(
            "cellburst x tick constant",
            Look::Dotted,
            points,
        )],
        marks: vec![Mark {
            at: At::Y(free),
            label: "1 / s".to_owned(),
        }],
    })
}

/// The burst near `law` behind which the rate falls most.
fn peak(points: &[(f64, f64)], law: f64) -> Option<f64> {
    let falls = points.windows(2).filter_map(|pair| match pair {
        [(burst, high), (_, low)] => Some((high - low, *burst)),
        _ => None,
    });
    let near = falls.filter(|(_, burst)| (burst / law - 1.0).abs() < 0.08);
    let most = near.max_by(|a, b| a.0.total_cmp(&b.0));
    most.filter(|(fall, _)| *fall > 0.0).map(|(_, burst)| burst)
}
