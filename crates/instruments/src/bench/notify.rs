//! `cellgate bench notify`: Figure 8 of *Policing Offloaded* on this machine: what a PDU costs the
//! host that gets it, by SDU size and notification.
//!
//! ```text
//! sender thread -> memory link -> adapter's process -> eventfd -> this thread, asleep
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use cellgate_core::adapter::{Notification, PortIndex};
use cellgate_core::contract::{CellRate, aal5_cells};
use cellgate_core::server::Idle;
use cellgate_core::wire::CELL_LEN_NO_HEC;
use cellgate_host::client::{Attached, ClientCounters, OpenVc};
use cellgate_host::clock::{MonotonicClock, thread_cpu_ns};
use cellgate_host::link::CellSender;
use cellgate_host::sys::pin_thread;
use cellgate_report::output::Exit;

use super::Args;
use super::cpus::Cpus;
use super::measure::calibration;
use super::report::Report;
use super::train::{Order, Train, addresses};
use crate::live::rig::{Rig, receive, request};

const SDUS: [u16; 6] = [512, 1024, 1500, 4096, 8192, 65_535];
/// The paper's two rates, bit/s of SDU; none: line speed.
const RATES: [Option<u64>; 2] = [Some(40_000_000), None];
/// PDUs that may wait for the client.
const ROOM_PDUS: u32 = 512;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new("notify", args.quick);
    report.calibrations.push(calibration());
    let window = Duration::from_millis(if args.quick { 30 } else { 300 });
    let silent = |threshold| Notification::Silent {
        threshold,
        longest_delay_ns: 2_000_000,
    };
    let modes = [
        ("last cell", Notification::LastCell),
        ("silent 8", silent(8)),
        ("silent 64", silent(64)),
    ];
    let sdus: &[u16] = if args.quick { &[1500, 8192] } else { &SDUS };
    let mut more = 0.0;
    for rate in RATES {
        for &sdu in sdus {
            for (name, notification) in modes {
                let speed = rate.map_or("line speed".to_owned(), |rate| {
                    format!("{} Mbit/s", rate / 1_000_000)
                });
                let name = format!("{sdu} octets, {speed}, {name}");
                let found =
                    Window::of(sdu, rate, notification, window).with_context(|| name.clone())?;
                found.tell(&mut report, &name);
                // The last event before the window may wake within it.
                more += found.wakeups.saturating_sub(found.events + 1) as f64;
            }
        }
    }
    report.count_at_most("wake-ups beyond events", more, 0.0);
    report.note(
        "host CPU: the client's thread, asleep between interrupts, which reads every event and \
         gives every PDU back; the sender is another thread on the same CPU",
    );
    report.finish(args.json)
}

/// What a client saw while a sender sent at one rate.
struct Window {
    seconds: f64,
    pdus: u64,
    events: u64,
    wakeups: u64,
    cpu_ns: u64,
}

impl Window {
    fn of(
        sdu: u16,
        rate: Option<u64>,
        notification: Notification,
        window: Duration,
    ) -> anyhow::Result<Self> {
        let Cpus { first, last } = Cpus::allowed()?;
        pin_thread(first)?;
        let mut rig = Rig::start(Idle::default(), last, None)?;
        let request = request(addresses(1)[0], Some(receive(sdu, notification)), None);
        let mut vc = rig.open(request, sdu, [ROOM_PDUS, 0])?;
        let sender = rig.control.cell_sender(PortIndex(0))?;
        let stop = Arc::new(AtomicBool::new(false));
        let sending = Sending::new(sdu, rate, sender, Arc::clone(&stop))?;
        let thread = std::thread::Builder::new()
            .name("sender".to_owned())
            .spawn(move || sending.run())?;
        let attached = &mut rig.attached;
        //  The first PDUs meet cold caches and a sender that has just started.
        let _settled = drain_for(attached, &mut vc, window / 10)?;
        let (from, before, cpu) = (MonotonicClock.now(), attached.counters(), thread_cpu_ns());
        let pdus = drain_for(attached, &mut vc, window)?;
        let cpu_ns = thread_cpu_ns() - cpu;
        let seconds = MonotonicClock.now().since_ns(from) as f64 / 1e9;
        let after = attached.counters();
        stop.store(true, Ordering::Relaxed);
        let sent = thread
            .join()
            .map_err(|_| anyhow!("the sender has ended early"))?;
        ensure!(pdus > 0, "nothing arrived of {sent} PDUs");
        rig.end()?;
        let more = |of: fn(&ClientCounters) -> u64| of(&after) - of(&before);
        Ok(Self {
            seconds,
            pdus,
            events: more(|counters| counters.events),
            wakeups: more(|counters| counters.wakeups),
            cpu_ns,
        })
    }

    fn tell(&self, report: &mut Report, name: &str) {
        let per_pdu = self.cpu_ns as f64 / self.pdus as f64;
        let load = self.cpu_ns as f64 / 1e7 / self.seconds;
        let wakeups = self.wakeups as f64 / self.pdus as f64;
        let values = [
            ("cpu_ns_per_pdu", per_pdu),
            ("cpu_percent", load),
            ("wakeups_per_pdu", wakeups),
            ("pdu_s", self.pdus as f64 / self.seconds),
        ];
        report.row(name, &values);
    }
}

/// Takes PDUs and events for `window`, asleep whenever none is there; how many PDUs.
fn drain_for(attached: &mut Attached, vc: &mut OpenVc, window: Duration) -> anyhow::Result<u64> {
    let from = MonotonicClock.now();
    let mut pdus = 0;
    loop {
        let ran = Duration::from_nanos(MonotonicClock.now().since_ns(from));
        let Some(left) = window.checked_sub(ran) else {
            return Ok(pdus);
        };
        attached.wait(Some(left))?;
        while attached.next_event().is_some() {}
        while let Some(pdu) = vc.memory().next_pdu() {
            vc.memory().release(pdu);
            pdus += 1;
        }
    }
}

/// A sender that keeps a rate by the clock, a PDU at a time.
struct Sending {
    train: Train,
    period_ns: f64,
    sender: CellSender,
    stop: Arc<AtomicBool>,
}

impl Sending {
    fn new(
        sdu: u16,
        rate: Option<u64>,
        sender: CellSender,
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        let cells = aal5_cells(sdu.into());
        let period_ns = match rate {
            Some(bit_s) => f64::from(sdu) * 8e9 / bit_s as f64,
            None => f64::from(cells) * 1e9 / f64::from(CellRate::OC3.cell_s()),
        };
        Ok(Self {
            train: Train::aal5(&addresses(1), sdu, Order::Contiguous, 1),
            period_ns,
            sender,
            stop,
        })
    }

    /// PDUs sent. Between two it sleeps, so that the client has the CPU.
    fn run(mut self) -> u64 {
        let from = MonotonicClock.now();
        let mut sent = 0u64;
        let pdu_cells = self.train.octets().len() / CELL_LEN_NO_HEC;
        while !self.stop.load(Ordering::Relaxed) {
            let ran_ns = MonotonicClock.now().since_ns(from) as f64;
            let due = (ran_ns / self.period_ns) as u64;
            while sent < due && self.sender.free_for(pdu_cells) >= pdu_cells {
                self.sender.send(self.train.octets());
                sent += 1;
            }
            let next_ns = (sent + 1) as f64 * self.period_ns - ran_ns;
            if next_ns > 0.0 {
                std::thread::sleep(Duration::from_nanos(next_ns as u64));
            }
        }
        sent
    }
}
