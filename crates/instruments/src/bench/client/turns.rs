//! Round trips and flows, in turns.

use anyhow::{bail, ensure};
use cellgate_host::clock::MonotonicClock;

use super::endpoint::{Arrival, Endpoint};
use super::ends::{UDP_MAX, window};
use super::kind::{Kind, Waits};
use super::partner::{Job, Partner, Turn};
use crate::bench::cpus::Cpus;
use crate::bench::measure::{Times, ticks};
use crate::live::sdu::Mark;
use crate::live::spread::{Spread, at_rank};

/// How much is done in a turn.
#[derive(Clone, Copy)]
pub(super) struct Amount {
    /// Round trips by polling; a quarter of them by sleeping.
    pub(super) trips: usize,
    /// Octets of a flow; at least 4 windows.
    pub(super) flow: usize,
}

/// One of those that are measured, with SDUs of one size.
pub(super) struct Contestant {
    pub(super) kind: Kind,
    pub(super) name: String,
    endpoint: Box<dyn Endpoint>,
    len: usize,
    window: usize,
    /// Ticks of each round trip.
    trips: Vec<f64>,
    /// Their median, by repeat.
    pub(super) trip: Times,
    /// Ticks of each SDU that arrives, by repeat.
    pub(super) flow: Times,
    pub(super) sent: u64,
    pub(super) arrived: u64,
    pub(super) wrong: u64,
}

impl Contestant {
    pub(super) fn new(kind: Kind, sdu: u16, endpoint: Box<dyn Endpoint>) -> Self {
        let name = format!("{sdu}: {}", kind.name());
        let times = || Times {
            name: name.clone(),
            ticks: Vec::new(),
        };
        let len = match kind.may_lose() {
            true => usize::from(sdu).min(UDP_MAX),
            false => sdu.into(),
        };
        Self {
            kind,
            endpoint,
            len,
            window: window(sdu),
            trips: Vec::new(),
            trip: times(),
            flow: times(),
            sent: 0,
            arrived: 0,
            wrong: 0,
            name,
        }
    }

    /// Forgets what was measured.
    pub(super) fn start_over(&mut self) {
        self.trips.clear();
        self.trip.ticks.clear();
        self.flow.ticks.clear();
    }

    /// Median, 99th percentile and longest round trip, in ticks.
    pub(super) fn percentiles(&mut self) -> [f64; 3] {
        self.trips.sort_by(f64::total_cmp);
        [0.5, 0.99, 1.0].map(|part| at_rank(&self.trips, part))
    }

    /// Round trips and a flow.
    ///
    /// # Errors
    /// An SDU was lost on a way that loses none.
    pub(super) fn turn(
        &mut self,
        partner: &mut Partner,
        cpus: Cpus,
        amount: Amount,
        ns_per_tick: f64,
    ) -> anyhow::Result<()> {
        let turn = Turn {
            kind: self.kind,
            // Two applications have what the adapter leaves.
            cpu: match self.kind.needs_adapter() {
                true => cpus.first,
                false => cpus.last,
            },
            len: self.len,
            count: 0,
        };
        self.round_trips(partner, turn, amount)?;
        if !self.kind.carries() {
            return Ok(());
        }
        let count = (amount.flow / self.len).clamp(4 * self.window, 64 * self.window);
        let turn = Turn {
            count: count.next_multiple_of(self.window),
            ..turn
        };
        let ns_per_sdu = match self.kind.has_partner() {
            true => self.flow_to(partner, turn)?,
            false => self.flow_to_itself(turn.count)?,
        };
        self.flow.ticks.push(ns_per_sdu / ns_per_tick);
        Ok(())
    }

    fn round_trips(
        &mut self,
        partner: &mut Partner,
        turn: Turn,
        amount: Amount,
    ) -> anyhow::Result<()> {
        let sleeps = match self.kind {
            Kind::Cellgate { waits, .. } | Kind::Socket { waits, .. } => waits == Waits::Sleeping,
            kind => !kind.carries(),
        };
        let count = if sleeps {
            amount.trips / 4
        } else {
            amount.trips
        };
        let has_partner = self.kind.has_partner();
        if has_partner {
            partner.begin(&Job::Answer(Turn { count, ..turn }))?;
        }
        let before = self.trips.len();
        for i in 0..count {
            let from = ticks();
            self.endpoint.send(self.len, Mark::of(i))?;
            let arrival = self.endpoint.receive(self.len)?;
            self.trips.push((ticks() - from) as f64);
            self.judge(arrival, i)?;
        }
        if has_partner {
            self.wrong += partner.done()?.wrong;
        }
        let median = Spread::of(self.trips[before..].to_vec()).median;
        self.trip.ticks.push(median);
        Ok(())
    }

    /// Nanoseconds of each SDU, from the first one's begin to the last one's end.
    fn flow_to(&mut self, partner: &mut Partner, turn: Turn) -> anyhow::Result<f64> {
        // The kernel's ways hold their writer up, or lose; a cell stream does neither.
        let window = self.kind.needs_adapter().then_some(self.window);
        partner.begin(&Job::Take { turn, window })?;
        let from = MonotonicClock.now().ns();
        let mut acknowledged = 0;
        for i in 0..turn.count {
            if let Some(window) = window
                && i - acknowledged == window
            {
                self.acknowledgement()?;
                acknowledged += window / 4;
            }
            self.endpoint.send(self.len, Mark::of(i))?;
        }
        if self.kind.may_lose() {
            // What waits is read by then, and the end finds room.
            std::thread::sleep(std::time::Duration::from_millis(20));
            self.endpoint.send(self.len, Mark::END)?;
        }
        let done = partner.done()?;
        if let Some(window) = window {
            while acknowledged < turn.count {
                self.acknowledgement()?;
                acknowledged += window / 4;
            }
        }
        ensure!(done.received > 0, "{}: nothing arrived", self.name);
        self.sent += turn.count as u64;
        self.arrived += done.received + done.wrong;
        self.wrong += done.wrong;
        Ok(done.end_ns.saturating_sub(from) as f64 / done.received as f64)
    }

    fn acknowledgement(&mut self) -> anyhow::Result<()> {
        match self.endpoint.receive(1)? {
            Arrival::Whole(_) => Ok(()),
            _ => bail!("{}: an acknowledgement was lost", self.name),
        }
    }

    /// The same where this process receives what it sends.
    fn flow_to_itself(&mut self, count: usize) -> anyhow::Result<f64> {
        let from = MonotonicClock.now().ns();
        for i in 0..count + self.window {
            if i >= self.window {
                let arrival = self.endpoint.receive(self.len)?;
                self.judge(arrival, i - self.window)?;
            }
            if i < count {
                self.endpoint.send(self.len, Mark::of(i))?;
            }
        }
        let end = MonotonicClock.now().ns();
        Ok((end - from) as f64 / count as f64)
    }

    fn judge(&mut self, arrival: Arrival, i: usize) -> anyhow::Result<()> {
        self.sent += 1;
        match arrival {
            Arrival::Nothing => bail!("{}: SDU {i} did not arrive", self.name),
            Arrival::Whole(mark) if mark == Mark::of(i) || !self.kind.carries() => {}
            Arrival::Whole(_) | Arrival::Wrong => self.wrong += 1,
        }
        self.arrived += 1;
        Ok(())
    }
}
