//! One kernel for all layers, and a thread and a channel for each (section 4).
//!
//! ```text
//!   central:  cells --> kernel --> the file
//!   threads:  cells --> SAR ==> CPCS ==> disk layer --> the file      ==> a channel
//! ```

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use anyhow::{Context, ensure};
use cellgate_core::Time;
use cellgate_core::terminal::{CellPayload, Copies, Kernel, Variant};
use cellgate_core::wire::{TRAILER_LEN, Trailer};
use cellgate_report::Panel;
use cellgate_simd::{Fold, RESIDUE, with_features};

use super::pair::{End, Ends, Pair, SDU_MAX, Spec, TRANSFER};
use super::{MEMORIES, plot};
use crate::bench::measure::{Contestant, Sizes, ticks};
use crate::bench::report::Report;
use crate::live::spread::at_rank;

/// PDUs of a pass that are given at once, and one by one.
const PDUS: usize = 1_000;
const SINGLE: usize = 200;
/// PDUs that wait in a channel, at most.
const CHANNEL: usize = 64;
/// Octets that may be on their way: a pass.
const WINDOW: u64 = 16 << 20;

/// Cells that go back to the sender.
enum Said {
    Cell(CellPayload),
    Sdu(Vec<u8>),
}

/// Whoever takes PDUs, and tells what goes back to the sender.
trait Takes {
    fn give(&mut self, now: Time, cells: Vec<CellPayload>);

    /// What goes back behind the next PDU that is in its place.
    fn done(&mut self) -> Option<Vec<Said>>;

    /// The exchange, at the end.
    fn end(self: Box<Self>) -> Option<Ends>;
}

pub(super) fn run(report: &mut Report, sizes: Sizes) -> anyhow::Result<Panel> {
    let mut all = Vec::new();
    for (place, len) in MEMORIES {
        let mut lines = vec![
            Line::new("one kernel, no copy", len, |exchange| {
                Box::new(Central::new(Copies::None, exchange))
            })?,
            Line::new("one kernel, a copy at each boundary", len, |exchange| {
                Box::new(Central::new(Copies::All, exchange))
            })?,
            Line::new("a thread and a channel a layer", len, |exchange| {
                Box::new(Threads::new(exchange))
            })?,
        ];
        let contestants = lines.iter_mut().map(|line| {
            let name = format!("a PDU, {}, {place}", line.name);
            Contestant::new(name, PDUS, || line.pass())
        });
        let contestants: Vec<_> = contestants.collect();
        let times = report.take_turns(contestants, sizes.repeats);
        let ns_per_tick = report.ns_per_tick();
        for (line, times) in lines.iter_mut().zip(&times) {
            line.latencies.sort_by(f64::total_cmp);
            let us = |part| at_rank(&line.latencies, part) * ns_per_tick / 1_000.0;
            let pdus = 1e9 / (times.spread().median * ns_per_tick);
            report.row(
                &format!("{}, {place}", line.name),
                &[
                    ("1000 PDUs/s", pdus / 1_000.0),
                    ("p50, us", us(0.5)),
                    ("p99, us", us(0.99)),
                ],
            );
        }
        for central in 0..2 {
            let ratio = report.ratio(&times[2], &times[central]).median;
            let name = format!("threads over {}, {place}", lines[central].name);
            report.value(name, "times", ratio);
        }
        for line in lines {
            line.ensure()?;
        }
        all.extend(times);
    }
    report.note(
        "scheduler: the receiving end alone; a thousand PDUs of 170 cells at once, and then 200 \
         one by one, each from its cells to the place of its payload (p50, p99)",
    );
    Ok(plot::repeats(&all, report.ns_per_tick()))
}

/// A sender, and whoever takes what it sends.
struct Line {
    name: &'static str,
    sender: Ends,
    now: Time,
    taker: Box<dyn Takes>,
    /// Ticks of each PDU that was given by itself.
    latencies: Vec<f64>,
    lost: u64,
}

impl Line {
    fn new(
        name: &'static str,
        memory: usize,
        taker: impl FnOnce(Ends) -> Box<dyn Takes>,
    ) -> anyhow::Result<Self> {
        let spec = Spec {
            window: WINDOW,
            ..Spec::default()
        };
        let ([sender, receiver], now) = Pair::of_memory(spec, memory)?.into_ends();
        Ok(Self {
            name,
            sender,
            now,
            taker: taker(receiver),
            latencies: Vec::new(),
            lost: 0,
        })
    }

    /// Cells of the next PDUs.
    fn pdus(&mut self, pdus: usize) -> Vec<Vec<CellPayload>> {
        self.now = self.now.plus_ns(1_000_000);
        (0..pdus)
            .map(|_| with_features(Cells(&mut self.sender, self.now)))
            .collect()
    }

    fn pass(&mut self) -> u64 {
        let pdus = self.pdus(PDUS);
        let (now, from) = (self.now, ticks());
        let mut back = Vec::new();
        for cells in pdus {
            self.taker.give(now, cells);
        }
        for _ in 0..PDUS {
            back.push(self.taker.done());
        }
        let took = ticks() - from;
        back.into_iter().for_each(|back| self.goes_back(back));
        for cells in self.pdus(SINGLE) {
            let from = ticks();
            self.taker.give(now, cells);
            let back = self.taker.done();
            self.latencies.push((ticks() - from) as f64);
            self.goes_back(back);
        }
        took
    }

    fn goes_back(&mut self, back: Option<Vec<Said>>) {
        self.lost += u64::from(back.is_none());
        for said in back.into_iter().flatten() {
            match said {
                Said::Cell(cell) => with_features(Hears(&mut self.sender, self.now, &cell)),
                Said::Sdu(sdu) => self.sender.handle_sdu(self.now, &sdu),
            }
        }
    }

    /// That every PDU came to its place, once.
    fn ensure(self) -> anyhow::Result<()> {
        let counts = self.sender.outgoing(TRANSFER).context("no sender")?;
        let counts = counts.counts();
        let receiver = self.taker.end().context("a thread ended")?;
        let (octets, _) = receiver.received(TRANSFER).context("no receiver")?;
        ensure!(
            self.lost == 0 && counts.again == 0 && octets == counts.octets,
            "{}: {octets} of {} octets came",
            self.name,
            counts.octets
        );
        Ok(())
    }
}

/// The cells of a PDU.
struct Cells<'a>(&'a mut Ends, Time);

impl cellgate_simd::Kernel for Cells<'_> {
    type Output = Vec<CellPayload>;

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Vec<CellPayload> {
        let mut cells = Vec::with_capacity(170);
        let mut octets = [0; 48];
        while let Some(last) = self.0.poll_cell(fold, self.1, &mut octets) {
            cells.push(CellPayload { octets, last });
            if last {
                break;
            }
        }
        cells
    }
}

struct Hears<'a>(&'a mut Ends, Time, &'a CellPayload);

impl cellgate_simd::Kernel for Hears<'_> {
    type Output = ();

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) {
        self.0
            .handle_cell(fold, self.1, self.2.last, &self.2.octets);
    }
}

/// The kernel, in the thread that gives.
struct Central {
    exchange: Ends,
    kernel: Kernel,
    board: End,
    done: VecDeque<Vec<Said>>,
}

impl Central {
    fn new(copies: Copies, exchange: Ends) -> Self {
        let variant = Variant {
            copies,
            ..Variant::default()
        };
        Self {
            exchange,
            kernel: Kernel::new(variant, None),
            board: End::new(),
            done: Default::default(),
        }
    }
}

struct Step<'a>(&'a mut Central, Time);

impl cellgate_simd::Kernel for Step<'_> {
    type Output = ();

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) {
        let Self(central, now) = self;
        let (exchange, board) = (&mut central.exchange, &mut central.board);
        while !board.came.is_empty() {
            central.kernel.step(fold, now, exchange, board);
        }
    }
}

impl Takes for Central {
    fn give(&mut self, now: Time, cells: Vec<CellPayload>) {
        self.board.came.extend(cells);
        with_features(Step(self, now));
        while self.exchange.poll_event().is_some() {}
        let back = self.board.goes.drain(..).map(Said::Cell);
        self.done.push_back(back.collect());
    }

    fn done(&mut self) -> Option<Vec<Said>> {
        self.done.pop_front()
    }

    fn end(self: Box<Self>) -> Option<Ends> {
        Some(self.exchange)
    }
}

/// The cells of an exchange's answer to a PDU.
fn goes_back(exchange: &mut Ends, now: Time, out: &mut [u8]) -> Vec<Said> {
    while exchange.poll_event().is_some() {}
    let mut back = Vec::new();
    while let Some(len) = exchange.poll_sdu(now, out) {
        back.push(Said::Sdu(out[..len.into()].to_vec()));
    }
    back
}

/// A thread for each layer, and channels between them.
struct Threads {
    cells: SyncSender<(Time, Vec<CellPayload>)>,
    done: Receiver<Vec<Said>>,
    disk: JoinHandle<Ends>,
}

impl Threads {
    fn new(mut exchange: Ends) -> Self {
        let (cells, sar) = sync_channel::<(Time, Vec<CellPayload>)>(CHANNEL);
        let (pdus, cpcs) = sync_channel::<(Time, Vec<u8>)>(CHANNEL);
        let (sdus, disk) = sync_channel::<(Time, Vec<u8>)>(CHANNEL);
        let (told, done) = channel();
        std::thread::spawn(move || {
            for (now, cells) in sar {
                let octets = cells.iter().flat_map(|cell| cell.octets).collect();
                if pdus.send((now, octets)).is_err() {
                    break;
                }
            }
        });
        std::thread::spawn(move || {
            for (now, mut pdu) in cpcs {
                let Some(length) = with_features(Checks(&pdu)) else {
                    continue;
                };
                pdu.truncate(length);
                if sdus.send((now, pdu)).is_err() {
                    break;
                }
            }
        });
        let disk = std::thread::spawn(move || {
            let mut out = vec![0; SDU_MAX];
            for (now, sdu) in disk {
                exchange.handle_sdu(now, &sdu);
                let back = goes_back(&mut exchange, now, &mut out);
                if told.send(back).is_err() {
                    break;
                }
            }
            exchange
        });
        Self { cells, done, disk }
    }
}

impl Takes for Threads {
    fn give(&mut self, now: Time, cells: Vec<CellPayload>) {
        // A thread that ended is missed by `done`.
        let _given = self.cells.send((now, cells));
    }

    fn done(&mut self) -> Option<Vec<Said>> {
        self.done.recv().ok()
    }

    fn end(self: Box<Self>) -> Option<Ends> {
        drop(self.cells);
        self.disk.join().ok()
    }
}

/// CPCS: octets of the SDU of a PDU that is right.
struct Checks<'a>(&'a [u8]);

impl cellgate_simd::Kernel for Checks<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Option<usize> {
        let trailer = self.0.last_chunk::<TRAILER_LEN>()?;
        let length = usize::from(Trailer::parse(*trailer).length);
        let is_right = fold.one_pass(self.0) == RESIDUE && length <= self.0.len() - TRAILER_LEN;
        is_right.then_some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pdu_comes_to_its_place_by_one_kernel_and_by_threads() {
        let mut line = Line::new("kernel", 64 << 10, |exchange| {
            Box::new(Central::new(Copies::All, exchange))
        })
        .unwrap();
        line.pass();
        line.ensure().unwrap();
        let threads = |exchange| -> Box<dyn Takes> { Box::new(Threads::new(exchange)) };
        let mut line = Line::new("threads", 64 << 10, threads).unwrap();
        line.pass();
        line.ensure().unwrap();
    }
}
