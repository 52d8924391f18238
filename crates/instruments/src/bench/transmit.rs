//! `cellgate bench transmit`: PDUs in, cells out; Figure 5 of *Policing Offloaded* on this machine.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use cellgate_core::contract::{CellRate, aal5_cells};
use cellgate_core::wire::PAYLOAD_LEN;
use cellgate_host::clock::MonotonicClock;
use cellgate_report::output::Exit;

use super::Args;
use super::measure::Contestant;
use super::peers::{BareCopy, Segmentation};
use super::report::Report;
use super::rig::Rig;
use super::train::{Order, Train, addresses};
use crate::live::rig::transmit;
use crate::live::weather::until_sound;

/// SDUs of the figure.
const SDUS: [u16; 12] = [
    40, 88, 136, 232, 512, 760, 1024, 1500, 2048, 4096, 8192, 65_535,
];
/// The slower VC of the figure.
const SLOW_CELL_S: u32 = 100_000;
/// Cells of a pass.
const CELLS: usize = 65_536;
/// The line's burst: where an adapter stands still for longer, slots are lost.
const BURST_NS: u64 = 700_000;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new("transmit", args.quick);
    for sdu in [8192, 1500, 40] {
        cost(&mut report, sdu, if args.quick { 3 } else { 21 })?;
    }
    let window = Duration::from_millis(if args.quick { 10 } else { 150 });
    let sdus: &[u16] = if args.quick { &[40, 8192] } else { &SDUS };
    for &sdu in sdus {
        let line = Speed::of(sdu, CellRate::OC3, None, window)?;
        let slow = CellRate::new(SLOW_CELL_S).context("a rate")?;
        let slow = Speed::of(sdu, CellRate::OC3, Some(slow), window)?;
        let names = [
            ("line speed", line, CellRate::OC3.cell_s()),
            ("100,000 cells/s", slow, SLOW_CELL_S),
        ];
        for (name, speed, cell_s) in names {
            let name = format!("{sdu} octets at {name}");
            let values = [
                ("sdu_bit_s", speed.sdu_bit_s),
                ("cell_s", speed.cell_s),
                ("share", speed.cell_s / f64::from(cell_s)),
                ("gap_max_us", speed.gap_max_ns as f64 / 1e3),
            ];
            report.row(&name, &values);
        }
    }
    report.note(
        "segmentation: one copy out of the client's memory, pad, trailer, CRC, headers, cells; \
         the adapter adds doorbell, descriptor, schedule, and the link's copy of every cell",
    );
    report.finish(args.json)
}

/// A VC that always has SDUs to send.
fn sender(sdu: u16, line: CellRate, rate: Option<CellRate>) -> anyhow::Result<Rig> {
    let mut rig = Rig::new(1, line, Rc::new(Train::of_headers([])))?;
    let pdus = 4096 / aal5_cells(sdu.into()) + 2;
    rig.open_transmitting(addresses(1)[0], transmit(rate, 5_000_000, sdu), pdus)?;
    Ok(rig)
}

/// Ticks per cell.
fn cost(report: &mut Report, sdu: u16, repeats: usize) -> anyhow::Result<()> {
    let line = CellRate::new(1_000_000_000).context("a rate")?;
    let mut rig = sender(sdu, line, None)?;
    let pdu_cells = aal5_cells(sdu.into()) as usize;
    let train = Rc::new(Train::aal5(&addresses(1), sdu, Order::Contiguous, CELLS));
    let mut copy = BareCopy::new(Rc::clone(&train), train.cells() * PAYLOAD_LEN);
    let mut segmentation = Segmentation::new(sdu, CELLS);
    let (cells, own_cells) = (train.cells(), segmentation.cells());
    let contestants = vec![
        Contestant::whole(
            format!("segmentation, {sdu} octets"),
            own_cells,
            move || {
                segmentation.pass();
            },
        ),
        Contestant::new(format!("adapter, {sdu} octets"), CELLS, move || {
            let until = rig.stats().cells_transmitted + CELLS as u64;
            let mut total = 0;
            while rig.stats().cells_transmitted < until {
                rig.fill_transmit(0, sdu);
                rig.now = rig.now.plus_ns(1_000);
                total += rig.timed_step();
            }
            total
        }),
        Contestant::whole("bare copy 52 -> 48", cells, move || copy.pass()),
    ];
    let times = report.take_turns(contestants, repeats);
    let ratio = report.ratio(&times[0], &times[2]).median;
    let whole = report.ratio(&times[1], &times[2]).median;
    let ns = times[1].spread().median * report.ns_per_tick();
    report.value(
        format!("adapter at its fastest, {sdu} octets"),
        "cells/s",
        1e9 / ns,
    );
    if pdu_cells > 100 {
        report.ratio_at_most(
            format!("segmentation of {sdu} octets over bare copy"),
            ratio,
            3.5,
        );
        report.value(
            format!("adapter, {sdu} octets, over bare copy"),
            "ratio",
            whole,
        );
    }
    Ok(())
}

/// What left the adapter by the clock.
#[derive(Clone, Copy)]
struct Speed {
    cell_s: f64,
    sdu_bit_s: f64,
    /// The longest time between two steps.
    gap_max_ns: u64,
}

impl Speed {
    /// The first of three tries in which no slots were lost, or the last: on a busy machine this
    /// thread is stopped now and then.
    fn of(
        sdu: u16,
        line: CellRate,
        rate: Option<CellRate>,
        window: Duration,
    ) -> anyhow::Result<Self> {
        let is_void = |speed: &Self| speed.gap_max_ns > BURST_NS;
        until_sound(|_| Self::once(sdu, line, rate, window), is_void)
    }

    fn once(
        sdu: u16,
        line: CellRate,
        rate: Option<CellRate>,
        window: Duration,
    ) -> anyhow::Result<Self> {
        let mut rig = sender(sdu, line, rate)?;
        rig.now = MonotonicClock.now();
        let mut from = (rig.now, 0);
        let mut warm = false;
        let mut gap_max_ns = 0;
        loop {
            rig.fill_transmit(0, sdu);
            let last = std::mem::replace(&mut rig.now, MonotonicClock.now());
            gap_max_ns = rig.now.since_ns(last).max(gap_max_ns);
            rig.timed_step();
            let ran = Duration::from_nanos(rig.now.since_ns(from.0));
            let cells = rig.stats().cells_transmitted;
            if !warm && ran > window / 10 {
                (from, warm, gap_max_ns) = ((rig.now, cells), true, 0);
            } else if warm && ran >= window {
                let cell_s = (cells - from.1) as f64 / ran.as_secs_f64();
                let octets = f64::from(sdu) / f64::from(aal5_cells(sdu.into()));
                return Ok(Self {
                    cell_s,
                    sdu_bit_s: cell_s * octets * 8.0,
                    gap_max_ns,
                });
            }
        }
    }
}
