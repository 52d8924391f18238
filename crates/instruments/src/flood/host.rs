//! The host: sleeps until the adapter interrupts, and checks every PDU octet by octet.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use anyhow::Context;
use cellgate_core::adapter::{Event, EventKind};
use cellgate_host::client::{Attached, ClientCounters, Control, OpenVc};
use cellgate_host::clock::{MonotonicClock, process_cpu_ns};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::plan::{ATTACHMENT, Connection, HAZARD};
use crate::live::actor::{Mouth, prefer, started};
use crate::live::sdu;

/// How often a sleeping host looks whether it is told something: often enough that nobody waits for
/// it, so seldom that it costs nothing.
const LOOK: Duration = Duration::from_millis(20);

/// What the host is told, once it has said that all VCs are open.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Count from zero. Answered by nothing but that it does.
    Begin {
        /// SDUs of another run are strangers.
        run: u32,
    },
    /// Answered by a [`Glance`].
    Look,
    /// Whether the hazard's PDUs are to be read from here on. Answered by nothing but that it is
    /// so.
    Read {
        /// The third connection.
        hazard: bool,
    },
    /// Answered by a [`HostReport`].
    End,
}

/// What the host has counted so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Glance {
    /// PDUs of each connection.
    pub(crate) delivered: Vec<u64>,
    /// CPU time of the process.
    pub(crate) cpu_ns: u64,
}

/// What the host counted in a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct HostReport {
    /// Of each connection.
    pub(crate) connections: Vec<ReaderReport>,
    /// Of its event queue.
    pub(crate) counters: ClientCounters,
    /// Events that were none of a whole PDU.
    pub(crate) other_events: u64,
    /// CPU time of the process.
    pub(crate) cpu_ns: u64,
    /// The longest time from an event to its handling.
    pub(crate) late_max_ns: u64,
}

/// What the reader of one connection counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReaderReport {
    /// PDUs of this run whose octets are right.
    pub(crate) delivered: u64,
    /// PDUs that are not what was sent, or not of this connection and run.
    pub(crate) corrupt: u64,
    /// PDUs that came twice or too late.
    pub(crate) repeated: u64,
    /// From the release at the source to the check at the host.
    pub(crate) latency_p50_ns: u64,
    pub(crate) latency_p99_ns: u64,
    pub(crate) latency_max_ns: u64,
}

struct Reader {
    /// Whether it reads; one that does not leaves all in its buffer.
    reads: bool,
    vc: OpenVc,
    connection: Connection,
    next: u64,
    report: ReaderReport,
    latency: Histogram<u64>,
}

impl Reader {
    fn begin(&mut self) {
        self.next = 0;
        self.report = ReaderReport::default();
        self.latency.reset();
    }

    /// Takes one PDU; whether there was one.
    fn read(&mut self, run: u32) -> bool {
        if !self.reads {
            return false;
        }
        let Some(pdu) = self.vc.next_pdu() else {
            return false;
        };
        let checked = self.vc.sdu(&pdu).and_then(sdu::check);
        match checked {
            Some(found) if found.is_whole && found.name.flow == self.connection.flow(run) => {
                self.count(found.name.number, MonotonicClock.now().since_ns(found.sent));
            }
            _ => self.report.corrupt += 1,
        }
        self.vc.release(pdu);
        true
    }

    fn count(&mut self, sequence: u64, latency_ns: u64) {
        self.report.delivered += 1;
        self.report.repeated += u64::from(sequence < self.next);
        self.next = self.next.max(sequence + 1);
        self.latency.saturating_record(latency_ns.max(1));
    }

    fn report(&self) -> ReaderReport {
        ReaderReport {
            latency_p50_ns: self.latency.value_at_quantile(0.5),
            latency_p99_ns: self.latency.value_at_quantile(0.99),
            latency_max_ns: self.latency.max(),
            ..self.report.clone()
        }
    }
}

struct Host {
    attached: Attached,
    readers: Vec<Reader>,
    run: u32,
    before: ClientCounters,
    cpu_before_ns: u64,
    other_events: u64,
    late_max_ns: u64,
}

/// The life of the host's process.
pub(crate) fn run() -> anyhow::Result<()> {
    let (mut mouth, mut ear, connections): (_, _, Vec<Connection>) = started()?;
    let mut control = Control::from_stdin()?;
    prefer("cg-host", -5, &control.hello().scheduling);
    let attached = control.attach(ATTACHMENT, false)?;
    let mut readers = Vec::new();
    for connection in &connections {
        readers.push(Reader {
            reads: true,
            vc: control.open(connection.open(attached.index()), connection.sizes())?,
            connection: *connection,
            next: 0,
            report: ReaderReport::default(),
            //  To 10 s, with three digits.
            latency: Histogram::new_with_bounds(1, 10_000_000_000, 3)?,
        });
    }
    let mut host = Host {
        before: attached.counters(),
        attached,
        readers,
        run: 0,
        cpu_before_ns: 0,
        other_events: 0,
        late_max_ns: 0,
    };
    mouth.say(&())?;
    //  The conversation is read by a thread of its own, so that this one waits for events alone.
    let (orders, told) = channel();
    std::thread::spawn(move || {
        while let Ok(Some(order)) = ear.hear::<Order>() {
            if orders.send(order).is_err() {
                return;
            }
        }
    });
    host.serve(&told, &mut mouth)
}

impl Host {
    /// Serves until the conversation ends.
    fn serve(&mut self, told: &Receiver<Order>, mouth: &mut Mouth) -> anyhow::Result<()> {
        loop {
            self.attached
                .wait(Some(LOOK))
                .context("waiting for events")?;
            while let Some(event) = self.attached.next_event() {
                self.handle(&event);
            }
            if self.attached.events_lost() > 0 {
                let run = self.run;
                for reader in &mut self.readers {
                    while reader.read(run) {}
                }
            }
            match told.try_recv() {
                Ok(order) => self.obey(order, mouth)?,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }

    fn handle(&mut self, event: &Event) {
        let reader = self.readers.iter_mut().find(|r| r.vc.id() == event.vc);
        match (event.kind, reader) {
            (EventKind::PduReceived, Some(reader)) => {
                let late_ns = MonotonicClock.now().since_ns(event.time);
                self.late_max_ns = self.late_max_ns.max(late_ns);
                reader.read(self.run);
            }
            _ => self.other_events += 1,
        }
    }

    fn obey(&mut self, order: Order, mouth: &mut Mouth) -> anyhow::Result<()> {
        match order {
            Order::Begin { run } => {
                self.run = run;
                self.readers.iter_mut().for_each(Reader::begin);
                self.other_events = 0;
                self.late_max_ns = 0;
                self.before = self.attached.counters();
                self.cpu_before_ns = process_cpu_ns();
                mouth.say(&())
            }
            Order::Look => mouth.say(&Glance {
                delivered: self.readers.iter().map(|r| r.report.delivered).collect(),
                cpu_ns: process_cpu_ns() - self.cpu_before_ns,
            }),
            Order::Read { hazard } => {
                let reader = &mut self.readers[HAZARD];
                reader.reads = hazard;
                // Events of what was left there are gone.
                while reader.read(self.run) {}
                mouth.say(&())
            }
            Order::End => mouth.say(&self.report()),
        }
    }

    fn report(&self) -> HostReport {
        let (now, before) = (self.attached.counters(), self.before);
        HostReport {
            cpu_ns: process_cpu_ns() - self.cpu_before_ns,
            connections: self.readers.iter().map(Reader::report).collect(),
            counters: ClientCounters {
                events: now.events - before.events,
                interruptive: now.interruptive - before.interruptive,
                sleeps: now.sleeps - before.sleeps,
                wakeups: now.wakeups - before.wakeups,
                doorbells: now.doorbells - before.doorbells,
                lost: now.lost - before.lost,
                malformed: now.malformed - before.malformed,
            },
            other_events: self.other_events,
            late_max_ns: self.late_max_ns,
        }
    }
}
