//! What usage control costs a sender.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;

use anyhow::{Context, bail, ensure};
use cellgate::{Connection, Credit, Notification, Time};
use cellgate_core::contract::{Jitter, Remainder, UsageControl, UsageDecision};
use cellgate_host::clock::MonotonicClock;

use super::endpoint::{Arrival, Cellgate, Endpoint, Ways};
use super::kind::Waits;
use crate::bench::measure::{Contestant, take_turns, ticks};
use crate::bench::report::Report;
use crate::live::daemon::Daemon;

/// PDUs of a pass.
const PDUS: usize = 64;
const SDU: u16 = 1_500;
/// The contract of the check that is measured, and how often it is asked: each PDU has credit, and
/// every tenth begins an interval.
const GAP_NS: u64 = 50;
const SDU_BIT_S: u64 = 8 * 1_500 * 1_000_000_000 / GAP_NS;

/// A connection's send path with the check that it has, and with a second one: the difference is
/// the cost of one.
pub(super) fn measure(daemon: &Daemon, quick: bool, report: &mut Report) -> anyhow::Result<()> {
    let connection = Connection::builder()
        .socket(daemon.socket())
        .address("loop.0.91")
        .contract(format!("ubr,aal5:max_sdu={SDU}"))
        .notification(Notification::Polled)
        .completions(false)
        .transmit_pdus(PDUS as u32)
        .receive_pdus(PDUS as u32)
        .open()?;
    let connection = Rc::new(connection);
    let failed = Rc::new(Cell::new(0));
    let mut contestants = Vec::new();
    for (name, in_place, twice) in [
        ("send", false, false),
        ("send, checked twice", false, true),
        ("reserve and submit", true, false),
        ("reserve and submit, checked twice", true, true),
    ] {
        let second = twice.then(Check::new).transpose()?;
        let mut sender = Sender::new(&connection, in_place, second, &failed);
        contestants.push(Contestant::new(name, PDUS, move || sender.pass()));
    }
    let mut sender = Sender::new(&connection, false, None, &failed);
    contestants.push(Contestant::whole("there and back", PDUS, move || {
        sender.pass();
    }));
    let mut check = Check::new()?;
    contestants.push(Contestant::whole("usage control alone", PDUS, move || {
        for _ in 0..PDUS {
            black_box(check.passes());
        }
    }));
    contestants.push(Contestant::whole("reading the clock", PDUS, || {
        for _ in 0..PDUS {
            black_box(MonotonicClock.now());
        }
    }));
    let repeats = if quick { 5 } else { 1_001 };
    let times = take_turns(contestants, repeats, &mut report.calibrations);
    report.count_at_most("SDUs not sent, or not back", f64::from(failed.get()), 0.0);
    report.note(
        "there and back: sent, carried by the adapter, received by the same application. Usage \
         control, paired: what a second check adds to the send path",
    );
    let ns = report.ns_per_tick();
    for times in &times {
        let name = format!("{SDU} octets: {}", times.name);
        report.value(name, "ns/PDU", times.spread().median * ns);
    }
    let [send, send_twice, reserve, reserve_twice, whole, alone, _] = &times[..] else {
        bail!("a contestant is missing");
    };
    for (once, twice) in [(send, send_twice), (reserve, reserve_twice)] {
        let path = &once.name;
        let paired = twice.less(once).median * ns;
        report.value(
            format!("usage control, paired, in {path}"),
            "ns/PDU",
            paired,
        );
    }
    for path in [send, reserve, whole] {
        let share = 100.0 * alone.over(path).median;
        let name = format!("usage control alone, of {}", path.name);
        report.value(name, "%", share);
    }
    let cycles = alone.spread().median;
    report.value("usage control alone", "cycles/PDU", cycles);
    Ok(())
}

/// Usage control at a pace of its own.
struct Check {
    now: Time,
    control: UsageControl,
}

impl Check {
    fn new() -> anyhow::Result<Self> {
        let now = MonotonicClock.now();
        let credit = Credit::for_sdu_rate(SDU_BIT_S, SDU, Jitter::Default);
        let credit = credit.context("no credit")?;
        let control = UsageControl::new(now, credit, Remainder::Carried);
        ensure!(credit.interval_ns() == 10 * GAP_NS, "another interval");
        Ok(Self { now, control })
    }

    #[inline]
    fn passes(&mut self) -> bool {
        self.now = self.now.plus_ns(GAP_NS);
        let decision = self.control.request(black_box(self.now), SDU.into());
        decision == UsageDecision::Transfer
    }
}

struct Sender {
    connection: Rc<Connection>,
    sdu: Vec<u8>,
    in_place: bool,
    second: Option<Check>,
    back: Cellgate,
    failed: Rc<Cell<u32>>,
}

impl Sender {
    fn new(
        connection: &Rc<Connection>,
        in_place: bool,
        second: Option<Check>,
        failed: &Rc<Cell<u32>>,
    ) -> Self {
        let (out, into) = (Rc::clone(connection), Rc::clone(connection));
        Self {
            connection: Rc::clone(connection),
            sdu: vec![1; SDU.into()],
            in_place,
            second,
            back: Cellgate::new(Ways { out, into }, false, Waits::Spinning),
            failed: Rc::clone(failed),
        }
    }

    /// The ticks that sending took; what was sent is taken back behind that.
    fn pass(&mut self) -> u64 {
        let mut failed = 0;
        let from = ticks();
        for _ in 0..PDUS {
            let passes = self.second.as_mut().is_none_or(Check::passes);
            let sent = match self.in_place {
                true => self
                    .connection
                    .try_reserve(SDU.into())
                    .and_then(|s| s.submit()),
                false => self.connection.try_send(&self.sdu),
            };
            failed += u32::from(!passes || sent.is_err());
        }
        let ticks = ticks() - from;
        for _ in 0..PDUS as u32 - failed {
            // What was written in place is whatever was there before.
            let back = self.back.receive(SDU.into());
            failed += u32::from(!matches!(back, Ok(Arrival::Whole(_) | Arrival::Wrong)));
        }
        self.failed.set(self.failed.get() + failed);
        ticks
    }
}
