//! NeXosim as a peer of `cellgate bench lab`: cells from a source over a link to a switch, and over
//! a link to a sink, both links saturated.
//!
//! ```text
//! cargo build --release --manifest-path crates/instruments/peers/nexosim/Cargo.toml \
//!     --target-dir target/nexosim
//! lab-nexosim CELLS BIT_S DELAY_PS QUEUE_CELLS
//! ```
//!
//! It runs on one thread. Times are whole nanoseconds, as its own are. A
//! line on standard input is a round of CELLS; the answer on standard output is the nanoseconds of
//! CPU time that it took, and how many cells the sink got.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::Output;
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

const CELL_BITS: u64 = 424;

/// Cells that sinks have got.
static RECEIVED: AtomicU64 = AtomicU64::new(0);

/// Header and payload, without HEC.
#[derive(Clone, Serialize, Deserialize)]
struct Cell {
    header: u32,
    payload: [u64; 6],
}

#[derive(Serialize, Deserialize)]
struct Source {
    out: Output<Cell>,
    cells: u64,
    cell: Duration,
    delay: Duration,
    sent: u64,
}

#[Model]
impl Source {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        let again = schedulable!(Self::emit);
        cx.schedule_event(self.cell, again, ())
            .expect("a later time");
    }

    #[nexosim(schedulable)]
    fn emit(&mut self, _: (), cx: &Context<Self>) {
        let cell = Cell {
            header: 32 << 4,
            payload: [self.sent; 6],
        };
        cx.schedule_event(self.cell + self.delay, schedulable!(Self::arrive), cell)
            .expect("a later time");
        self.sent += 1;
        if self.sent < self.cells {
            let again = schedulable!(Self::emit);
            cx.schedule_event(self.cell, again, ())
                .expect("a later time");
        }
    }

    /// The cell is at the end of the link.
    #[nexosim(schedulable)]
    async fn arrive(&mut self, cell: Cell) {
        self.out.send(cell).await;
    }
}

#[derive(Serialize, Deserialize)]
struct Switch {
    out: Output<Cell>,
    cell: Duration,
    delay: Duration,
    room: usize,
    waiting: VecDeque<Cell>,
    busy: bool,
}

#[Model]
impl Switch {
    fn input(&mut self, cell: Cell, cx: &Context<Self>) {
        if self.waiting.len() >= self.room {
            return;
        }
        self.waiting.push_back(cell);
        if !self.busy {
            self.busy = true;
            cx.schedule_event(self.cell, schedulable!(Self::leave), ())
                .expect("a later time");
        }
    }

    #[nexosim(schedulable)]
    fn leave(&mut self, _: (), cx: &Context<Self>) {
        if let Some(cell) = self.waiting.pop_front() {
            cx.schedule_event(self.delay, schedulable!(Self::arrive), cell)
                .expect("a later time");
        }
        self.busy = !self.waiting.is_empty();
        if self.busy {
            cx.schedule_event(self.cell, schedulable!(Self::leave), ())
                .expect("a later time");
        }
    }

    /// The cell is at the end of the link.
    #[nexosim(schedulable)]
    async fn arrive(&mut self, cell: Cell) {
        self.out.send(cell).await;
    }
}

#[derive(Serialize, Deserialize)]
struct Sink;

#[Model]
impl Sink {
    fn input(&mut self, cell: Cell) {
        RECEIVED.fetch_add(u64::from(cell.header == 32 << 4), Ordering::Relaxed);
    }
}

fn round(cells: u64, cell: Duration, delay: Duration, room: usize) -> Result<(), Box<dyn Error>> {
    let mut source = Source {
        out: Output::default(),
        cells,
        cell,
        delay,
        sent: 0,
    };
    let mut switch = Switch {
        out: Output::default(),
        cell,
        delay,
        room,
        waiting: VecDeque::new(),
        busy: false,
    };
    let (at_source, at_switch, at_sink) = (Mailbox::new(), Mailbox::new(), Mailbox::new());
    source.out.connect(Switch::input, &at_switch);
    switch.out.connect(Sink::input, &at_sink);
    let mut simulation = SimInit::with_num_threads(1)
        .add_model(source, at_source, "source")
        .add_model(switch, at_switch, "switch")
        .add_model(Sink, at_sink, "sink")
        .init(MonotonicTime::EPOCH)?;
    simulation.run()?;
    Ok(())
}

fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "lab-nexosim CELLS BIT_S DELAY_PS QUEUE_CELLS";
    let numbers = std::env::args()
        .skip(1)
        .map(|word| word.parse::<u64>())
        .collect::<Result<Vec<_>, _>>()?;
    let &[cells, bit_s, delay_ps, queue_cells] = &numbers[..] else {
        return Err(usage.into());
    };
    if bit_s == 0 {
        return Err(usage.into());
    }
    let cell = Duration::from_nanos(CELL_BITS * 1_000_000_000 / bit_s);
    let delay = Duration::from_nanos(delay_ps / 1_000);
    for line in std::io::stdin().lines() {
        line?;
        RECEIVED.store(0, Ordering::Relaxed);
        let from = cpu_ns();
        round(cells, cell, delay, queue_cells as usize)?;
        println!("{} {}", cpu_ns() - from, RECEIVED.load(Ordering::Relaxed));
    }
    Ok(())
}
