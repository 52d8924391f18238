//! A block there and back, by the cells that wake its reader (Figure 7): on a line as fast as the
//! paper's station reads, with a reader as slow as the paper's, and as this machine is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use cellgate::Notification;
use cellgate_msna::{Access, Call, Notify};
use cellgate_report::Panel;

use super::station::Station;
use super::way::{Way, configs, msna};
use super::{PATIENCE, daemon, panel, slope};
use crate::bench::measure::calibration;
use crate::bench::report::Report;
use crate::live::daemon::Daemon;
use crate::live::spread::Spread;

const CELLS: [u8; 6] = [1, 16, 48, 96, 160, 255];
/// Cells that wake, as the paper's interface may be told to.
const WAKES: [(&str, Notification, Notify); 3] = [
    ("every", Notification::EveryCell, Notify::Every),
    ("first", Notification::FirstCell, Notify::First),
    ("last", Notification::LastCell, Notify::Last),
];
/// Cells a second of the paper's station: one each 15.9 us.
const LINE: u32 = 62_893;
/// The paper's receive software at a cell.
const WORK: Duration = Duration::from_nanos(18_030);
/// Microseconds a cell there and back: read as they come, and when all have come.
const AS_THEY_COME: f64 = 36.06;
const AT_THE_LAST: f64 = 67.86;

pub(super) fn run(report: &mut Report, quick: bool) -> anyhow::Result<Vec<Panel>> {
    let (turns, blocks) = if quick { (2, 2) } else { (21, 5) };
    let names = |of: usize| (format!("a{of}"), format!("b{of}"));
    let pairs: Vec<_> = (0..2 * WAKES.len())
        .map(|of| {
            let (one, other) = names(of);
            (one, other, (of < WAKES.len()).then_some(LINE))
        })
        .collect();
    let daemon = daemon(&pairs)?;
    let mut stations = Vec::new();
    let mut ways = Vec::new();
    for (of, (name, notification, notify)) in WAKES.into_iter().enumerate() {
        let (one, other) = names(of);
        stations.push(Pair::open(&daemon, [&one, &other], notification)?);
        let (one, other) = names(of + WAKES.len());
        let call = Call {
            notify,
            ..Call::default()
        };
        let configs = configs(&daemon, Access::Cells, [&one, &other]);
        ways.push(msna(name, configs, &call)?);
    }
    let mut paced = [const { [const { Vec::new() }; CELLS.len()] }; WAKES.len()];
    let mut own = paced.clone();
    for _ in 0..turns {
        report.calibrations.push(calibration());
        for (at, &cells) in CELLS.iter().enumerate() {
            for (station, seen) in stations.iter_mut().zip(&mut paced) {
                seen[at].push(station.turn(cells, blocks)?);
            }
            for (way, seen) in ways.iter_mut().zip(&mut own) {
                seen[at].push(turn(way, cells, blocks)?);
            }
        }
    }
    let paced = curves(report, "paced", &paced);
    let own = curves(report, "own", &own);
    let slopes = paced.each_ref().map(|(_, points)| slope(points));
    for ((name, ..), slope) in WAKES.iter().zip(slopes) {
        report.value(format!("paced, {name}: a cell"), "us", slope);
    }
    for ((name, ..), (_, points)) in WAKES.iter().zip(&own) {
        report.value(format!("own, {name}: a cell"), "us", slope(points));
    }
    for (name, slope, expected) in [
        ("every", slopes[0], AS_THEY_COME),
        ("last", slopes[2], AT_THE_LAST),
    ] {
        let name = format!("paced, {name}: |a cell / {expected} us - 1|");
        report.rate_at_most(name, (slope / expected - 1.0).abs(), 0.05);
    }
    let ratio = slopes[2] / slopes[0];
    report.ratio_at_most("paced: |last / every - 1.88|", (ratio - 1.88).abs(), 0.06);
    report.note(format!(
        "paced: lines of {LINE} cells/s, and a reader that works {} us at each cell; own: lines of \
         an OC-3, and no work that is made up",
        WORK.as_nanos() as f64 / 1e3
    ));
    let x = "cells of a block";
    Ok(vec![
        panel(x, "paced, us", &paced),
        panel(x, "own, us", &own),
    ])
}

type Curves = [(String, Vec<(f64, f64)>); WAKES.len()];

fn curves(
    report: &mut Report,
    kind: &str,
    seen: &[[Vec<f64>; CELLS.len()]; WAKES.len()],
) -> Curves {
    std::array::from_fn(|of| {
        let name = WAKES[of].0;
        let points = CELLS.iter().zip(&seen[of]).map(|(cells, us)| {
            let us = Spread::of(us.clone());
            report.row(
                &format!("{kind}, {name}, {cells} cells"),
                &[("round_trip_us", us.median), ("q1", us.q1), ("q3", us.q3)],
            );
            (f64::from(*cells), us.median)
        });
        let points = points.collect();
        (name.to_owned(), points)
    })
}

fn turn(way: &mut Way, cells: u8, blocks: u32) -> anyhow::Result<f64> {
    let octets = 46 * usize::from(cells);
    let turn = way.turn(octets, blocks);
    Ok(turn.with_context(|| way.name.clone())?.us)
}

/// Two stations, of which the other sends back.
struct Pair {
    station: Station,
    stop: Arc<AtomicBool>,
    echo: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Pair {
    fn open(
        daemon: &Daemon,
        interfaces: [&str; 2],
        notification: Notification,
    ) -> anyhow::Result<Self> {
        let [one, other] = interfaces.map(|interface| format!("{interface}.0.100"));
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let socket = daemon.socket();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let echo = std::thread::spawn(move || {
            let mut station = Station::open(&socket, &other, notification, WORK)?;
            ready.send(())?;
            while !stopped.load(Ordering::Relaxed) {
                if let Some(cells) = station.recv(Duration::from_millis(100))? {
                    station.send(cells)?;
                }
            }
            Ok(())
        });
        is_ready.recv().context("the echo has ended early")?;
        Ok(Self {
            station: Station::open(&daemon.socket(), &one, notification, WORK)?,
            stop,
            echo: Some(echo),
        })
    }

    /// Microseconds there and back.
    fn turn(&mut self, cells: u8, blocks: u32) -> anyhow::Result<f64> {
        let began = Instant::now();
        for _ in 0..blocks {
            self.station.send(cells)?;
            let back = self.station.recv(PATIENCE)?;
            ensure!(back == Some(cells), "a block was lost");
        }
        Ok(began.elapsed().as_secs_f64() * 1e6 / f64::from(blocks))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.echo.take().map(JoinHandle::join);
    }
}
