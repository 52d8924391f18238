//! `cellgate bench adapters`: the throughput of two adapters together, beside that of one.
//!
//! ```text
//! feeder thread -- memory link --> adapter's process, spinning --> the feeder's connection
//!    (one of these for each adapter, all at the same time)
//! ```

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use cellgate_core::adapter::{Notification, PortIndex};
use cellgate_core::server::Idle;
use cellgate_host::client::OpenVc;
use cellgate_host::link::CellSender;
use cellgate_host::sys::{allowed_cpus, avoid_cpu};
use cellgate_report::output::Exit;

use super::Args;
use super::cpus::be_prompt;
use super::report::Report;
use super::train::{Order, Train, addresses};
use crate::live::rig::{Rig, receive, request};
use crate::live::spread::Spread;

/// Adapters that the bench compares with one.
const ADAPTERS: usize = 2;
const SDU: u16 = 8_192;
/// Cells that a feeder has ready: whole PDUs.
const CELLS: usize = 8_192;
/// PDUs that may wait for the feeder to read them.
const ROOM_PDUS: u32 = 256;

/// The load that a feeder offers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Cells of no VC.
    Discards,
    /// PDUs of a connection, which are read.
    Pdus,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new("adapters", args.quick);
    let (window, repeats) = match args.quick {
        true => (Duration::from_millis(50), 1),
        false => (Duration::from_secs(1), 9),
    };
    be_prompt();
    let cpus = allowed_cpus();
    let is_judged = cpus.len() >= 2 * ADAPTERS;
    for (load, name, goal) in [
        (Load::Discards, "cells discarded", 1.9),
        (Load::Pdus, "PDUs received", 1.8),
    ] {
        let mut ratios = Vec::new();
        for _ in 0..repeats {
            let [one, two] = [1, ADAPTERS].map(|count| carried(load, count, &cpus, window));
            let (one, two) = (one?, two?);
            let values = [("one_s", one), ("two_s", two), ("ratio", two / one)];
            report.row(name, &values);
            ratios.push(two / one);
        }
        let ratio = Spread::of(ratios);
        report.value(
            format!("{name}: two adapters over one, {}", ratio.text(2)),
            "x",
            ratio.median,
        );
        if is_judged {
            report.ratio_at_least(format!("{name}: two adapters over one"), ratio.median, goal);
        }
    }
    if !is_judged {
        report.note(format!(
            "not judged: two adapters and who feeds them take four CPUs, and here are {}",
            cpus.len()
        ));
    }
    report.finish(args.json)
}

/// An adapter, and a thread's ends of it.
struct Fed {
    rig: Rig,
    vc: OpenVc,
    sender: CellSender,
    train: Train,
}

/// The throughput of `count` adapters together, per second.
fn carried(load: Load, count: usize, cpus: &[usize], window: Duration) -> anyhow::Result<f64> {
    let mut all = Vec::new();
    for place in 0..count {
        // From the last downwards; where there are too few they share.
        let cpu = cpus.iter().rev().cycle().nth(place).copied();
        all.push(Fed::start(
            load,
            cpu.context("the allowed CPUs are unknown")?,
        )?);
    }
    let taken: Vec<_> = cpus.iter().rev().take(count).copied().collect();
    let begin = Barrier::new(count);
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> = all
            .iter_mut()
            .map(|fed| {
                let (taken, begin) = (&taken, &begin);
                scope.spawn(move || {
                    taken.iter().for_each(|cpu| avoid_cpu(*cpu));
                    begin.wait();
                    fed.feed(load, window)
                })
            })
            .collect();
        let counts = threads.into_iter().map(|thread| thread.join());
        counts.collect::<Result<Vec<_>, _>>()
    });
    let counts = counts.map_err(|_| anyhow!("a feeder has ended early"))?;
    counts.into_iter().sum()
}

impl Fed {
    fn start(load: Load, cpu: usize) -> anyhow::Result<Self> {
        let mut rig = Rig::start(Idle::Spin, cpu, None)?;
        let [address, nobodys] = *addresses(2) else {
            return Err(anyhow!("two addresses"));
        };
        let receive = receive(SDU, Notification::Polled);
        let vc = rig.open(request(address, Some(receive), None), SDU, [ROOM_PDUS, 0])?;
        let sender = rig.control.cell_sender(PortIndex(0))?;
        let of = match load {
            Load::Discards => nobodys,
            Load::Pdus => address,
        };
        Ok(Self {
            rig,
            vc,
            sender,
            train: Train::aal5(&[of], SDU, Order::Contiguous, CELLS),
        })
    }

    /// Feeds it for `window`: cells that it has discarded, or PDUs that were read, a second.
    fn feed(&mut self, load: Load, window: Duration) -> anyhow::Result<f64> {
        let before = self.rig.control.stats()?.cells_discarded.total();
        let (from, mut at, mut pdus) = (Instant::now(), 0, 0_u64);
        while from.elapsed() < window {
            let octets = self.train.octets();
            let cell = octets.len() / self.train.cells();
            let left = &octets[at..];
            let fits = self.sender.free_for(left.len() / cell) * cell;
            at += self.sender.send(&left[..fits.min(left.len())]) * cell;
            at %= octets.len();
            while let Some(pdu) = self.vc.memory().next_pdu() {
                self.vc.memory().release(pdu);
                pdus += 1;
            }
            while self.rig.attached.next_event().is_some() {}
        }
        let seconds = from.elapsed().as_secs_f64();
        let discarded = self.rig.control.stats()?.cells_discarded.total() - before;
        Ok(match load {
            Load::Discards => discarded as f64 / seconds,
            Load::Pdus => pdus as f64 / seconds,
        })
    }
}
