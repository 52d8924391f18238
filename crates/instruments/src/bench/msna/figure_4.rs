//! The rate of blocks in a row, by their cells (Figure 4): a block costs its sender something, and
//! so does each of its cells.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use cellgate_msna::{Access, Address, Call, Event, Liaison, Node, Sap};
use cellgate_report::Panel;

use super::way::configs;
use super::{PATIENCE, daemon, panel, slope};
use crate::bench::measure::calibration;
use crate::bench::report::Report;
use crate::live::daemon::Daemon;
use crate::live::spread::Spread;

const CELLS: [usize; 7] = [1, 4, 16, 64, 128, 200, 255];
/// Octets that a cell of ATM carries of a block.
const DATA: usize = 46;
/// Cells of a turn.
const TURN: usize = 4_096;
const COUNTS: Sap = Sap(11);
/// A count that has not come by then is asked for again.
const ASK: Duration = Duration::from_millis(200);

pub(super) fn run(report: &mut Report, quick: bool) -> anyhow::Result<Vec<Panel>> {
    let turns = if quick { 3 } else { 21 };
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned(), None);
    let daemon = daemon(&[pair("a", "b"), pair("c", "d")])?;
    let mut streams = [
        Stream::open("cells", &daemon, Access::Cells, ["a", "b"])?,
        Stream::open("aal5", &daemon, Access::Aal5, ["c", "d"])?,
    ];
    let mut seen = [const { [const { Vec::new() }; CELLS.len()] }; 2];
    let mut lost = [[0; CELLS.len()]; 2];
    for _ in 0..turns {
        report.calibrations.push(calibration());
        for (at, &cells) in CELLS.iter().enumerate() {
            for (of, stream) in streams.iter_mut().enumerate() {
                let turn = stream.turn(cells).context(stream.name)?;
                seen[of][at].push(turn.us);
                lost[of][at] += turn.lost;
            }
        }
    }
    let mut curves = Vec::new();
    for (of, stream) in streams.iter().enumerate() {
        let spreads = seen[of].each_ref().map(|us| Spread::of(us.clone()));
        let times = CELLS.iter().zip(&spreads);
        let times: Vec<_> = times.map(|(n, us)| (*n as f64, us.median)).collect();
        let a_cell = slope(&times);
        let mean = |of: fn(&(f64, f64)) -> f64| times.iter().map(of).sum::<f64>();
        let a_block = (mean(|time| time.1) - a_cell * mean(|time| time.0)) / times.len() as f64;
        for ((n, us), lost) in CELLS.iter().zip(&spreads).zip(&lost[of]) {
            let bits = (8 * DATA * n) as f64;
            let law = a_block + a_cell * *n as f64;
            report.row(
                &format!("{n} cells, {}", stream.name),
                &[
                    ("us_a_block", us.median),
                    ("q1", us.q1),
                    ("q3", us.q3),
                    ("mbit_s", bits / us.median),
                    ("law_mbit_s", bits / law),
                    ("lost", f64::from(*lost)),
                ],
            );
        }
        report.value(format!("a block, {}", stream.name), "us", a_block);
        report.value(format!("a cell, {}", stream.name), "us", a_cell);
        let rates = times.iter().map(|(n, us)| (*n, (8 * DATA) as f64 * n / us));
        curves.push((stream.name.to_owned(), rates.collect()));
    }
    report.note(format!(
        "each turn sends blocks of {TURN} cells in all, and ends when the other end has told how \
         many it has; the law is the straight line through a block's times, not what was measured"
    ));
    Ok(vec![panel("cells of a block", "data Mbit/s", &curves)])
}

/// Blocks to an end that counts them.
struct Stream {
    name: &'static str,
    liaison: Liaison,
    _node: Node,
    stop: Arc<AtomicBool>,
    counter: Option<JoinHandle<anyhow::Result<()>>>,
}

/// Microseconds a block, and blocks that did not come.
struct Turn {
    us: f64,
    lost: u32,
}

impl Stream {
    fn open(
        name: &'static str,
        daemon: &Daemon,
        access: Access,
        interfaces: [&str; 2],
    ) -> anyhow::Result<Self> {
        let [caller, called] = configs(daemon, access, interfaces);
        let to = Address {
            host: called.host(),
            sap: COUNTS,
        };
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let counter = std::thread::spawn(move || {
            let mut node = Node::open(called)?;
            node.serve(COUNTS);
            ready.send(())?;
            let Some(Event::Connected { liaison, .. }) = node.next_event(Some(PATIENCE))? else {
                return Err(anyhow!("nobody has called"));
            };
            count(liaison, &stopped)
        });
        is_ready.recv().context("the counter has ended early")?;
        let mut node = Node::open(caller)?;
        let liaison = node.connect(to, &Call::default())?;
        Ok(Self {
            name,
            liaison,
            _node: node,
            stop,
            counter: Some(counter),
        })
    }

    fn turn(&mut self, cells: usize) -> anyhow::Result<Turn> {
        let blocks = TURN.div_ceil(cells);
        let mut block = vec![0; DATA * cells];
        let mut counted = Vec::new();
        let began = Instant::now();
        for _ in 1..blocks {
            self.liaison.send(&block)?;
        }
        block[0] = 1;
        let last = Instant::now();
        loop {
            self.liaison.send(&block)?;
            if self.liaison.recv(&mut counted, Some(ASK))? {
                break;
            }
            ensure!(last.elapsed() < PATIENCE, "nobody counts");
        }
        let count = u32::from_be_bytes(counted.as_slice().try_into()?);
        Ok(Turn {
            us: began.elapsed().as_secs_f64() * 1e6 / blocks as f64,
            lost: (blocks as u32).saturating_sub(count),
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.counter.take().map(JoinHandle::join);
    }
}

/// Counts blocks, and tells how many when one asks.
fn count(mut liaison: Liaison, stopped: &AtomicBool) -> anyhow::Result<()> {
    let (mut block, mut blocks) = (Vec::new(), 0u32);
    while !stopped.load(Ordering::Relaxed) {
        if liaison.recv(&mut block, Some(Duration::from_millis(100)))? {
            blocks += 1;
            if block.first() == Some(&1) {
                liaison.send(&blocks.to_be_bytes())?;
                blocks = 0;
            }
        }
    }
    Ok(())
}
