//! The firmware thread at rest: when it lies down, what for, and how it is up again in time.
//!
//! ```text
//!  step ... nothing came for `linger` --> does the adapter want anything? --> say "asleep", fence
//!   ^                                                                               |
//!   +---- "awake" <--- epoll_pwait2 until the deadline <--- nothing --- look again --+
//! ```

use std::sync::Arc;

use cellgate_core::Time;
use cellgate_core::adapter::Rest;
use cellgate_core::server::Idle;
use cellgate_shm::AdapterPage;

use super::firmware::Firmware;
use super::sources::{Source, Sources};
use crate::clock::MonotonicClock;
use crate::gap::GapDetector;
use crate::rests::{EndedBy, Rests};
use crate::sys::probes;
use crate::sys::{Scheduling, WakeUp, fine_timers};

/// The longest rest, and so the longest that somebody waits who does not look whether the adapter
/// sleeps.
const REST_MAX_NS: u64 = 1_000_000_000;
/// Resting for less takes longer than it lasts.
const REST_MIN_NS: u64 = 10_000;
/// The longest that the firmware goes on looking before it rests, unless it is told how long.
const LINGER_MAX_NS: u64 = 200_000;
/// After so many rests in a row that looking on would not have spared the firmware gives it up.
const IN_VAIN: u32 = 8;
/// What half of all wake-ups take where that was not measured.
const WAKE_UP_NS: u64 = 25_000;
/// Clients that are told to have ended one rest.
const NAMED: usize = 4;

/// What a firmware thread needs to rest.
pub(super) struct Rester {
    idle: Idle,
    page: AdapterPage,
    sources: Arc<Sources>,
    /// What a wake-up takes at most, where contracts rely on it.
    late_ns: u64,
    /// The same, less a quarter: a shaper makes good an eighth less than the CDVT, and the core
    /// knows the least to an eighth, rounded down.
    allowed_ns: u64,
    gap_max_ns: u64,
    linger: Linger,
    /// When something came from outside last.
    came: Time,
    /// Who ended the last rest, if nothing has come since.
    callers: [Option<usize>; NAMED],
    woken: bool,
}

/// How long the firmware goes on looking before it rests: longer while that would spare rests, as
/// who was just heard is soon heard again; hardly at all where all come too late for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Linger {
    ns: u64,
    /// Where it begins, and begins again.
    first_ns: u64,
    /// Rests in a row that it would not have spared.
    in_vain: u32,
    is_fixed: bool,
}

impl Linger {
    fn new(wake_up: Option<WakeUp>, fixed_ns: Option<u64>) -> Self {
        let first_ns = 2 * wake_up.map_or(WAKE_UP_NS, |wake_up| wake_up.p50_ns);
        let first_ns = first_ns.clamp(REST_MIN_NS, LINGER_MAX_NS);
        Self {
            ns: fixed_ns.unwrap_or(first_ns),
            first_ns,
            in_vain: 0,
            is_fixed: fixed_ns.is_some(),
        }
    }

    /// Something came `idle_ns` after what came before it, and no rest was between.
    fn caught(&mut self, idle_ns: u64) {
        if (REST_MIN_NS..=self.ns).contains(&idle_ns) {
            self.in_vain = 0;
        }
    }

    /// Somebody ended a rest, or its time was over: nothing had come for `idle_ns`.
    fn rested(&mut self, idle_ns: u64, by_somebody: bool) {
        if self.is_fixed {
            return;
        }
        if idle_ns > LINGER_MAX_NS {
            self.in_vain = (self.in_vain + 1).min(IN_VAIN);
            self.ns = match self.in_vain {
                IN_VAIN => REST_MIN_NS,
                _ => (self.ns / 2).max(self.first_ns),
            };
        } else if by_somebody {
            self.in_vain = 0;
            self.ns = (self.ns * 2).clamp(self.first_ns, LINGER_MAX_NS);
        }
    }
}

/// Until when to rest, and what is due then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    until: Time,
    due: Option<Time>,
}

impl Rester {
    /// For the calling thread.
    pub(super) fn new(
        scheduling: &Scheduling,
        linger_ns: Option<u64>,
        gap_max_ns: u64,
        page: AdapterPage,
        sources: Arc<Sources>,
    ) -> Self {
        fine_timers();
        Self {
            idle: scheduling.idle,
            page,
            sources,
            late_ns: scheduling.late_ns,
            allowed_ns: scheduling.late_ns - scheduling.late_ns / 4,
            gap_max_ns,
            linger: match (scheduling.idle, linger_ns) {
                // It rests whenever nothing waits.
                (Idle::Sleep, None) => Linger::new(None, Some(0)),
                _ => Linger::new(scheduling.wake_up, linger_ns),
            },
            came: MonotonicClock.now(),
            callers: [None; NAMED],
            woken: false,
        }
    }

    /// After a step at `now`, in which something `came` from outside: rests, if nothing is to do.
    #[inline]
    pub(super) fn after_step(
        &mut self,
        now: Time,
        came: bool,
        firmware: &mut Firmware,
        detector: &mut GapDetector<'_>,
        rests: &Rests,
    ) {
        if came {
            self.linger.caught(now.since_ns(self.came));
            self.came = now;
            self.woken = false;
        } else if now.since_ns(self.came) >= self.linger.ns {
            self.rest(now, firmware, detector, rests);
        }
    }

    /// Rests, unless something is to do, or soon.
    fn rest(
        &mut self,
        now: Time,
        firmware: &mut Firmware,
        detector: &mut GapDetector<'_>,
        rests: &Rests,
    ) {
        if std::mem::take(&mut self.woken) {
            rests.for_nothing();
            for place in self.callers.iter().flatten() {
                rests.client_for_nothing(*place);
            }
        }
        let (adapter, board) = firmware;
        let planned = match self.must_watch(adapter.least_cdvt_ns()) {
            true => None,
            false => self.plan(now, adapter.rest(now, board)),
        };
        if planned.is_none() {
            if self.idle == Idle::Sleep {
                std::thread::yield_now();
            }
            return;
        }
        board.show(|port| adapter.port_stats(port));
        self.page.announce();
        // Whoever has published something before it could see that has not rung.
        board.look();
        let from = MonotonicClock.now();
        if let Some(plan) = self.plan(from, adapter.rest(from, board)) {
            board.await_room(&self.sources);
            probes::rest(plan.until.since_ns(from));
            let ended = self.wait(from, plan, rests);
            let late_ns = self.lateness(ended, plan, rests);
            let callers = self.callers.iter().flatten().count();
            probes::wake(ended.since_ns(from), late_ns, callers);
            detector.resume(ended, late_ns, self.gap_max_ns);
            board.resume(ended);
        }
        self.page.end();
    }

    /// Whether a VC allows less lateness than a wake-up may bring about.
    fn must_watch(&self, least_cdvt_ns: Option<u64>) -> bool {
        self.idle == Idle::Adaptive && least_cdvt_ns.is_some_and(|ns| ns / 4 < self.allowed_ns)
    }

    /// Until when to rest; none: it is not worth it.
    fn plan(&self, now: Time, rest: Rest) -> Option<Plan> {
        let Rest::Until { exact, shaped } = rest else {
            return None;
        };
        let adaptive = self.idle == Idle::Adaptive;
        let early_ns = if adaptive { self.late_ns } else { 0 };
        let least_ns = if adaptive {
            self.linger.ns.max(REST_MIN_NS)
        } else {
            REST_MIN_NS
        };
        // What is shaped may be late by a wake-up if it may by as much as it waits.
        if shaped.is_some_and(|at| at.since_ns(now) < self.allowed_ns) {
            return None;
        }
        let due = exact.into_iter().chain(shaped).min();
        let exact = exact.map(|at| at.minus_ns(early_ns));
        let longest = now.plus_ns(REST_MAX_NS);
        let until = exact.into_iter().chain(shaped).fold(longest, Time::min);
        let is_long = until.since_ns(now) > least_ns;
        is_long.then_some(Plan { until, due })
    }

    /// Waits; when that was over.
    fn wait(&mut self, from: Time, plan: Plan, rests: &Rests) -> Time {
        let (mut named, mut calls) = (0, [None; NAMED]);
        let count = self.sources.wait(plan.until.since_ns(from), |source| {
            let who = match source {
                Source::Client(place) => {
                    if let Some(call) = calls.get_mut(named) {
                        *call = Some(place);
                        named += 1;
                    }
                    EndedBy::Client
                }
                Source::Link => EndedBy::Link,
                Source::Service => EndedBy::Service,
            };
            rests.ended_by(who);
        });
        let ended = MonotonicClock.now();
        let rested_ns = ended.since_ns(from);
        rests.rested(rested_ns);
        self.linger.rested(ended.since_ns(self.came), count > 0);
        rests.show_linger(self.linger.ns);
        (self.callers, self.woken) = (calls, count > 0);
        if count == 0 {
            rests.ended_by(EndedBy::Time);
        }
        ended
    }

    /// How late `ended` was for what was due.
    fn lateness(&self, ended: Time, plan: Plan, rests: &Rests) -> u64 {
        let late_ns = plan.due.map_or(0, |due| ended.since_ns(due));
        if ended >= plan.until && plan.due.is_some() {
            rests.late(late_ns);
        }
        late_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake_up(p50_ns: u64) -> Option<WakeUp> {
        Some(WakeUp {
            p50_ns,
            p99_ns: 2 * p50_ns,
            p999_ns: 3 * p50_ns,
            max_ns: 4 * p50_ns,
        })
    }

    #[test]
    fn who_is_called_again_soon_looks_longer_and_who_is_not_less() {
        let mut linger = Linger::new(wake_up(20_000), None);
        let mut ns = |idle_ns, by_somebody| {
            linger.rested(idle_ns, by_somebody);
            linger.ns
        };
        // Looking on for longer would not have heard him.
        assert_eq!(ns(200_001, true), 40_000);
        // Nobody was to be heard.
        assert_eq!(ns(90_000, false), 40_000);
        assert_eq!(ns(90_000, true), 80_000);
        assert_eq!(ns(200_000, true), 160_000);
        assert_eq!(ns(199_000, true), 200_000);
        assert_eq!(ns(200_000, true), 200_000);
        assert_eq!(ns(1_000_000, false), 100_000);
        assert_eq!(ns(250_000, true), 50_000);
        assert_eq!(ns(250_000, true), 40_000);
        assert_eq!(ns(250_000, true), 40_000);
        let mut fixed = Linger::new(wake_up(20_000), Some(0));
        fixed.rested(0, true);
        assert_eq!(fixed.ns, 0);
        // It can grow from whatever a wake-up takes.
        assert!(Linger::new(wake_up(0), None).ns > 0);
        assert_eq!(Linger::new(None, None).ns, 50_000);
    }

    #[test]
    fn looking_on_is_given_up_where_it_spares_no_rest_and_begins_again_where_it_would() {
        let mut linger = Linger::new(wake_up(20_000), None);
        for round in 0..3 * IN_VAIN {
            linger.rested(250_000, true);
            // One in four comes soon after another: that is worth looking on.
            if round % 4 == 0 {
                linger.caught(30_000);
            }
            assert_eq!(linger.ns, 40_000, "{round}");
        }
        for round in 0..2 * IN_VAIN {
            // Parts of one burst are no reason to look on, nor is who came after a rest.
            linger.caught(2_000);
            linger.caught(250_000);
            linger.rested(250_000, round % 2 == 0);
        }
        assert_eq!(linger.ns, REST_MIN_NS);
        linger.rested(250_000, true);
        assert_eq!(linger.ns, REST_MIN_NS);
        linger.rested(60_000, true);
        assert_eq!(linger.ns, 40_000);
    }
}
