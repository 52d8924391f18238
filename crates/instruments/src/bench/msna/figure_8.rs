//! A block through relays (Figure 8): a relay that hands on by cell makes a block late by one cell,
//! one that hands on by block by all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Context;
use cellgate_msna::{Access, By, Call, NodeConfig, Relay};
use cellgate_report::Panel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::way::{Way, configs, msna};
use super::{daemon, panel};
use crate::bench::measure::calibration;
use crate::bench::report::Report;
use crate::live::daemon::Daemon;
use crate::live::spread::Spread;

/// Cells a second of a line of 10 Mbit/s.
const LINE: u32 = 23_585;
/// Cells a second of an association: the most that is admitted, nearly.
const RATE: u32 = 18_000;
/// Octets of the longest block.
const OCTETS: usize = 46 * 255;
/// A relay looks at its times so often.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Relays in a row, and how they hand on.
const CHAINS: [(usize, By, &str); 5] = [
    (0, By::Cell, "no relay"),
    (1, By::Cell, "one by cell"),
    (1, By::Block, "one by block"),
    (3, By::Cell, "three by cell"),
    (3, By::Block, "three by block"),
];

pub(super) fn run(report: &mut Report, quick: bool) -> anyhow::Result<Vec<Panel>> {
    let (turns, blocks) = if quick { (2, 1) } else { (21, 3) };
    let name = |chain: usize, line: usize, end: &str| format!("{chain}{end}{line}");
    let pairs: Vec<_> = CHAINS
        .iter()
        .enumerate()
        .flat_map(|(chain, (relays, ..))| {
            (0..=*relays)
                .map(move |line| (name(chain, line, "a"), name(chain, line, "b"), Some(LINE)))
        })
        .collect();
    let daemon = daemon(&pairs)?;
    // Best effort would share the line with circuit 32.
    let call = Call {
        contract: format!("cbr:pcr={RATE}"),
        ..Call::default()
    };
    let mut relays = Vec::new();
    let mut ways = Vec::new();
    for (chain, (count, by, words)) in CHAINS.into_iter().enumerate() {
        for line in 0..count {
            let lines = [name(chain, line, "b"), name(chain, line + 1, "a")];
            relays.push(Running::start(&daemon, lines, by)?);
        }
        let ends = [name(chain, 0, "a"), name(chain, count, "b")];
        let configs = configs(&daemon, Access::Cells, ends.each_ref().map(String::as_str));
        ways.push(msna(words, configs, &call).context(words)?);
    }
    let mut seen = [const { Vec::new() }; CHAINS.len()];
    for _ in 0..turns {
        report.calibrations.push(calibration());
        for (way, seen) in ways.iter_mut().zip(&mut seen) {
            seen.push(turn(way, blocks)?);
        }
    }
    for (way, us) in ways.iter().zip(&seen) {
        let us = Spread::of(us.clone());
        let values = [("round_trip_us", us.median), ("q1", us.q1), ("q3", us.q3)];
        report.row(&format!("255 cells, {}", way.name), &values);
    }
    for (what, by_cell, by_block) in [("one relay", 1, 2), ("three relays", 3, 4)] {
        let turns = (0..turns).map(|turn| {
            let added = |chain: usize| seen[chain][turn] - seen[0][turn];
            added(by_cell) / added(by_block)
        });
        let ratio = Spread::of(turns.collect());
        let name = format!("{what}: time added by cell over that by block");
        report.ratio_at_most(name, ratio.median, 0.03);
    }
    report.note(format!(
        "lines of {LINE} cells/s, associations of {RATE}; times are there and back"
    ));
    let curve = |name: &str, chains: [usize; 3]| {
        let points = chains.map(|chain| {
            let us = Spread::of(seen[chain].clone());
            (CHAINS[chain].0 as f64, us.median)
        });
        (name.to_owned(), points.to_vec())
    };
    let curves = [curve("by cell", [0, 1, 3]), curve("by block", [0, 2, 4])];
    Ok(vec![panel("relays", "there and back, us", &curves)])
}

fn turn(way: &mut Way, blocks: u32) -> anyhow::Result<f64> {
    let turn = way.turn(OCTETS, blocks);
    Ok(turn.with_context(|| way.name.clone())?.us)
}

/// A relay on a thread.
struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Running {
    fn start(daemon: &Daemon, lines: [String; 2], by: By) -> anyhow::Result<Self> {
        let host = core::net::Ipv4Addr::UNSPECIFIED;
        let socket = daemon.socket();
        let lines = lines.map(|itf| NodeConfig::new(host, Access::Cells).on(itf).at(&socket));
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut relay = Relay::open(lines, by)?;
            ready.send(())?;
            while !stopped.load(Ordering::Relaxed) {
                if !relay.turn()? && relay.arm()? {
                    let fds = relay.fds().into_iter();
                    let mut fds: Vec<_> = fds
                        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                        .collect();
                    poll(&mut fds, Some(&LOOK))?;
                }
            }
            Ok(())
        });
        is_ready.recv().context("a relay has ended early")?;
        let thread = Some(thread);
        Ok(Self { stop, thread })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
