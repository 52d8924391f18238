//! Who paces: an adapter's process, or a thread that sleeps until each PDU is due.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use cellgate_core::adapter::PortIndex;
use cellgate_core::contract::{CellRate, aal5_cells};
use cellgate_core::queue::{PortGeometry, PortSizes, SduOptions};
use cellgate_core::server::Idle;
use cellgate_core::wire::CellFormat;
use cellgate_host::clock::{MonotonicClock, thread_cpu_ns};
use cellgate_host::doctor::steal;
use cellgate_host::link::CellReceiver;
use cellgate_host::sys::{self, AdapterCpus, Duty, fine_timers, pin_thread, take_duty};
use cellgate_shm::PortSender;
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::Timespec;

use super::lateness::{Lateness, Spacing};
use super::observer::{Each, Seen, observe};
use crate::bench::cpus::{Cpus, be_prompt};
use crate::bench::train::{Order, Train, addresses};
use crate::live::rig::{Rig, request, transmit};
use crate::live::weather::too_long;

/// The octets of an SDU.
pub(super) const SDU: u16 = 8_192;
/// Cells that a line can have waiting while the observer stands still: at OC-3, 0.7 s of them.
const LINE_CELLS: u32 = 1 << 18;
/// From the start of who paces until the first PDU: the observer's start is within it.
const HEAD_START_NS: u64 = 20_000_000;
/// An adapter that stood still for longer shows the machine, not itself.
const GAP_VOID_NS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// An adapter, which has a VC with a guaranteed rate.
    Adapter { idle: Idle, cdvt_ns: u64 },
    /// A thread that sleeps until the PDU is due, then sends all its cells.
    Thread,
}

/// Whose lateness is measured.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) name: &'static str,
    pub(super) by: By,
    pub(super) rate: CellRate,
    pub(super) each: Each,
}

/// What a turn showed.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) lateness: Lateness,
    pub(super) paced: Paced,
    /// Why it says nothing, if it does not.
    pub(super) void: Option<String>,
}

/// What was seen, and who paced it.
#[derive(Debug)]
pub(super) struct Paced {
    pub(super) seen: Seen,
    /// Of the adapter's process, or of the thread, of a core.
    pub(super) cpu_percent: f64,
    /// Of the thread: sleeps.
    pub(super) rests_s: f64,
    /// How it was scheduled.
    pub(super) scheduling: String,
    gap_max_ns: u64,
}

impl Source {
    /// PDUs for `window`, and what was seen of them.
    pub(super) fn turn(&self, window: Duration, cpus: Cpus) -> anyhow::Result<Turn> {
        let pdu_cells = aal5_cells(SDU.into());
        let cells = u64::from(self.rate.cell_s()) * window.as_millis() as u64 / 1_000;
        let pdus = (cells / u64::from(pdu_cells)) as u32;
        let stolen = stolen_ticks(cpus.last)?;
        let paced = match self.by {
            By::Adapter { idle, cdvt_ns } => self.by_adapter(idle, cdvt_ns, pdus, cpus),
            By::Thread => self.by_thread(pdus, cpus),
        }?;
        let stolen = stolen_ticks(cpus.last)?.saturating_sub(stolen);
        let lost = paced.seen.lost;
        let stolen = (stolen > 0)
            .then(|| format!("other machines had its CPU for {stolen} of the kernel's ticks"));
        let lost = (lost > 0).then(|| format!("the observer stood still, and {lost} were lost"));
        let void = too_long("the adapter stood still", paced.gap_max_ns, GAP_VOID_NS);
        let void = void.or(stolen).or(lost);
        let lateness = Lateness::of(&paced.seen.stamps, self.spacing());
        Ok(Turn {
            lateness: lateness.context("too little was seen")?,
            paced,
            void,
        })
    }

    fn spacing(&self) -> Spacing {
        let cells = match self.each {
            Each::Cell => 1,
            Each::Pdu => aal5_cells(SDU.into()),
        };
        let rate = self.rate;
        Spacing { cells, rate }
    }

    /// Stamps that so many PDUs make.
    fn stamps(&self, pdus: u32) -> u64 {
        let of_pdu = match self.each {
            Each::Cell => aal5_cells(SDU.into()),
            Each::Pdu => 1,
        };
        u64::from(pdus) * u64::from(of_pdu)
    }

    /// All PDUs wait in the transmit queue from the begin: the adapter alone says when each leaves.
    fn by_adapter(&self, idle: Idle, cdvt_ns: u64, pdus: u32, cpus: Cpus) -> anyhow::Result<Paced> {
        let mut rig = Rig::start(idle, cpus.last, Some(LINE_CELLS))?;
        let transmit = transmit(Some(self.rate), cdvt_ns, SDU);
        let request = request(addresses(1)[0], None, Some(transmit));
        let mut vc = rig.open(request, SDU, [0, pdus])?;
        for _ in 0..pdus {
            let space = vc.memory().reserve(SDU.into()).context("no space")?;
            ensure!(vc.memory().submit(space, SduOptions::default()), "no room");
        }
        let mut line = rig.control.cell_receiver(PortIndex(0))?;
        std::thread::sleep(Duration::from_nanos(HEAD_START_NS));
        let before = rig.control.gaps(true)?;
        let (cpu_ns, from) = (rig.process.cpu_ns()?, MonotonicClock.now());
        let (id, count) = (vc.id(), self.stamps(pdus));
        let seen = observed(cpus, || {
            rig.attached.ring(id);
            observe(&mut line, self.each, count)
        })?;
        let ran_ns = MonotonicClock.now().since_ns(from) as f64;
        let cpu_ns = rig.process.cpu_ns()? - cpu_ns;
        let gaps = rig.control.gaps(false)?.since(&before);
        let scheduling = rig.control.hello().scheduling.to_string();
        rig.end()?;
        Ok(Paced {
            seen,
            cpu_percent: cpu_ns as f64 / ran_ns * 1e2,
            rests_s: gaps.rests.rests as f64 / ran_ns * 1e9,
            scheduling,
            gap_max_ns: gaps.max_ns,
        })
    }

    fn by_thread(&self, pdus: u32, cpus: Cpus) -> anyhow::Result<Paced> {
        let geometry = PortGeometry::new(PortSizes {
            cells: LINE_CELLS,
            format: CellFormat::NoHec,
        })?;
        let (sender, files) = PortSender::create(&geometry, 1)?;
        let mut line = CellReceiver::open(&files, &geometry, 1)?;
        let (spacing, count) = (self.spacing(), self.stamps(pdus));
        let (ready, is_ready) = mpsc::channel();
        std::thread::scope(|scope| {
            let pacer = scope.spawn(move || pace(sender, ready, spacing, pdus, cpus));
            // One that has ended early says why below.
            let _ = is_ready.recv();
            let seen = observed(cpus, || observe(&mut line, self.each, count))?;
            let paced = pacer.join().map_err(|_| anyhow!("it has ended early"))?;
            let (cpu_percent, scheduling) = paced?;
            Ok(Paced {
                seen,
                cpu_percent,
                rests_s: f64::from(pdus) * 1e9 / spacing.after_ns(pdus.into()) as f64,
                scheduling,
                gap_max_ns: 0,
            })
        })
    }
}

/// Ticks of the kernel's clock in which other virtual machines had this CPU, so far.
fn stolen_ticks(cpu: usize) -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
    Ok(steal(&stat, Some(cpu)).map_or(0, |(_, stolen)| stolen))
}

/// What `look` sees, in a thread of its own on the first CPU. It is not real-time: whoever else
/// uses the machine would be left the adapter's CPU alone.
fn observed(cpus: Cpus, look: impl FnOnce() -> Seen + Send) -> anyhow::Result<Seen> {
    std::thread::scope(|scope| {
        let observer = scope.spawn(|| {
            be_prompt();
            pin_thread(cpus.first)?;
            Ok(look())
        });
        let seen = observer.join();
        seen.map_err(|_| anyhow!("the observer has ended early"))?
    })
}

/// Says that it is `ready`, and sends a PDU whenever one is due from [`HEAD_START_NS`] later on:
/// per cent of a core that this took, and how it was scheduled.
fn pace(
    mut sender: PortSender,
    ready: mpsc::Sender<()>,
    spacing: Spacing,
    pdus: u32,
    cpus: Cpus,
) -> anyhow::Result<(f64, String)> {
    // Of the CPUs, those but the observer's.
    let mut got = take_duty(
        Duty::RealTime,
        &sys::Cpus::present(),
        &AdapterCpus::of([Some(cpus.first)]),
    );
    pin_thread(cpus.last)?;
    fine_timers();
    got.cpus = vec![cpus.last];
    let pdu = Train::aal5(&addresses(1), SDU, Order::Contiguous, 1);
    ready.send(())?;
    let (cpu_ns, from) = (thread_cpu_ns(), MonotonicClock.now());
    let begin = from.plus_ns(HEAD_START_NS);
    for at in 0..pdus {
        let due_ns = begin.plus_ns(spacing.after_ns(at.into())).ns();
        let due = Timespec::try_from(Duration::from_nanos(due_ns))?;
        while clock_nanosleep_absolute(ClockId::Monotonic, &due).is_err() {}
        // Cells that find the line full are lost, as the observer sees.
        let _fitted = sender.send(pdu.octets());
    }
    let ran_ns = MonotonicClock.now().since_ns(from) as f64;
    let cpu_ns = thread_cpu_ns() - cpu_ns;
    Ok((cpu_ns as f64 / ran_ns * 1e2, got.to_string()))
}
