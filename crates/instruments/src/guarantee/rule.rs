//! What a guarantee means over time, and when a run says nothing.
//!
//! A rate is kept if every window of a second has its octets within 0.5 % and one credit, but for
//! what a stalled adapter could not carry: rate times stalled time in the window. What it catches
//! up afterwards may be as much more.

use cellgate_core::Time;
use serde::Serialize;

use super::actor::{Done, Promise};
use super::reader::SILENCE;
use super::stalls::Stalls;
use crate::live::weather::{GAP_MAX_NS, too_long};

/// The share of stalled time, in percent, from which on a run says nothing.
const STALLED_MAX_PERCENT: f64 = 2.0;
pub(super) const WINDOW_NS: u64 = 1_000_000_000;
/// How long after a stall what was missed can come.
const CATCH_UP_NS: u64 = 100_000_000;
/// Extra room of readers: how late they may be, in milliseconds.
pub(super) const READER_LATE_MS: u64 = 300;

/// What the machine did to a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Weather {
    gap_threshold_ns: u64,
    gaps: u64,
    gap_max_ns: u64,
    stalled_ns: u64,
    stalled_percent: f64,
}

impl Weather {
    pub(super) fn of(stalls: &Stalls) -> Self {
        let (stalled_ns, watched_ns) = stalls.share();
        Self {
            gap_threshold_ns: stalls.threshold_ns,
            gaps: stalls.count,
            gap_max_ns: stalls.longest_ns,
            stalled_ns,
            stalled_percent: stalled_ns as f64 * 100.0 / watched_ns as f64,
        }
    }

    /// Why the run says nothing, if it does not.
    pub(super) fn void(&self) -> Option<String> {
        let percent = self.stalled_percent;
        let stalled = || format!("the adapter was stalled for {percent:.1} % of the time");
        let too_often = (percent > STALLED_MAX_PERCENT).then(stalled);
        too_long("the adapter stood still", self.gap_max_ns, GAP_MAX_NS).or(too_often)
    }

    /// Whether nothing came for so long that readers may have left before the end.
    pub(super) fn is_silent(&self) -> bool {
        u128::from(self.gap_max_ns) >= SILENCE.as_nanos()
    }

    pub(super) fn text(&self) -> String {
        format!(
            "gaps      {} of {:.1} ms and more, longest {:.2} ms, {:.3} % of the time\n",
            self.gaps,
            self.gap_threshold_ns as f64 / 1e6,
            self.gap_max_ns as f64 / 1e6,
            self.stalled_percent
        )
    }
}

/// One connection's run, as both ends tell it.
pub(super) struct Flow<'a> {
    pub(super) name: &'a str,
    pub(super) promise: Promise,
    pub(super) sent: &'a Done,
    pub(super) received: &'a Done,
    /// From when to when it was to have its rate.
    pub(super) from: Time,
    pub(super) to: Time,
}

/// What a run showed of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Judgement {
    /// Rates that were missed.
    pub(super) faults: Vec<String>,
    /// PDUs that did not arrive.
    pub(super) lost: Vec<String>,
    /// What no machine excuses: PDUs that are wrong or out of order, and wrong answers.
    pub(super) errors: Vec<String>,
    /// Why nothing can be said.
    pub(super) void: Option<String>,
    /// Windows looked at.
    pub(super) windows: u64,
    /// The least and the most that a window had, relative to the rate.
    pub(super) least: f64,
    pub(super) most: f64,
}

/// What was wrong with PDUs that were received.
pub(super) fn flaws(name: &str, received: &Done) -> Option<String> {
    let Done {
        wrong, reordered, ..
    } = received;
    (wrong + reordered > 0).then(|| format!("{name}: {wrong} PDUs wrong, {reordered} out of order"))
}

impl Flow<'_> {
    /// Nothing is lost, nothing is wrong, each window has its octets.
    pub(super) fn judge(&self, stalls: &Stalls) -> Judgement {
        let mut judgement = Judgement {
            least: f64::INFINITY,
            ..Judgement::default()
        };
        self.judge_octets(&mut judgement);
        let bins = &self.received.bins;
        let ideal = self.promise.octet_s() * WINDOW_NS as f64 / 1e9;
        let tolerance = ideal * 0.005 + self.promise.credit() as f64;
        for from in bins.windows(self.from, self.to, WINDOW_NS) {
            let to = from.plus_ns(WINDOW_NS);
            let octets = bins.between(from, to) as f64;
            judgement.windows += 1;
            judgement.least = judgement.least.min(octets / ideal);
            judgement.most = judgement.most.max(octets / ideal);
            let before = Time::from_ns(from.ns().saturating_sub(CATCH_UP_NS));
            let stalled_ns = match octets < ideal {
                true => stalls.within(from, to),
                false => stalls.within(before, to),
            };
            let allowed = tolerance + ideal * stalled_ns as f64 / 1e9;
            if (octets - ideal).abs() > allowed && judgement.faults.is_empty() {
                self.explain(from, octets, ideal, allowed, &mut judgement);
            }
        }
        if judgement.windows == 0 {
            judgement.least = 0.0;
        }
        judgement
    }

    fn judge_octets(&self, judgement: &mut Judgement) {
        let (name, sent, received) = (self.name, self.sent, self.received);
        judgement.errors.extend(flaws(name, received));
        if received.pdus == sent.pdus {
            return;
        }
        let lost = format!(
            "{name}: {} PDUs sent, {} received",
            sent.pdus, received.pdus
        );
        if received.pause_max_ns > READER_LATE_MS * 1_000_000 {
            let ms = received.pause_max_ns as f64 / 1e6;
            judgement.void = Some(format!("{lost}: its reader was late by {ms:.0} ms"));
        } else {
            judgement.lost.push(lost);
        }
    }

    /// A window has too little or too much. A source that had no CPU has missed its rate by itself.
    fn explain(
        &self,
        from: Time,
        octets: f64,
        ideal: f64,
        allowed: f64,
        judgement: &mut Judgement,
    ) {
        let sent = self.sent.bins.between(from, from.plus_ns(WINDOW_NS)) as f64;
        let waited = ideal * self.sent.waited_ns as f64 / 1e9;
        let at = from.since_ns(self.from) as f64 / 1e9;
        let text = format!(
            "{}: {octets:.0} octets in the window at {at:.2} s, {ideal:.0} promised, {allowed:.0} \
             may be missing or too many",
            self.name
        );
        let missing = ideal - sent - allowed;
        if octets < ideal && missing > 0.0 && missing < waited {
            let ms = self.sent.waited_ns as f64 / 1e6;
            judgement.void = Some(format!(
                "{text}; its source sent {sent:.0} and waited {ms:.0} ms for a CPU in all"
            ));
        } else {
            judgement.faults.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::actor::Task;
    use super::*;

    const SDU: u16 = 1_000;

    fn at(ms: u64) -> Time {
        Time::from_ns((10_000 + ms) * 1_000_000)
    }

    /// 1,000 octets each millisecond for 3 s, but those of `skipped`.
    fn done(skipped: std::ops::Range<u64>) -> Done {
        let task = Task::new(at(0), at(3_000));
        let mut done = Done::new(&task);
        for ms in (0..3_000).filter(|ms| !skipped.contains(ms)) {
            done.count(at(ms), SDU.into());
        }
        done
    }

    fn judge(sent: &Done, received: &Done, stalls: &Stalls) -> Judgement {
        let flow = Flow {
            name: "x",
            promise: Promise::of(1_000_000, SDU),
            sent,
            received,
            from: at(0),
            to: at(3_000),
        };
        flow.judge(stalls)
    }

    #[test]
    fn a_kept_rate_is_kept_and_each_rule_can_be_broken() {
        let (all, quiet) = (done(0..0), Stalls::default());
        let kept = judge(&all, &all, &quiet);
        assert!(kept.faults.is_empty() && kept.errors.is_empty(), "{kept:?}");
        assert_eq!((kept.lost.len(), kept.void), (0, None));
        assert_eq!(kept.windows, 201);
        // 0.5 % and one credit of ten PDUs: fifteen may be missing, sixteen not.
        assert!(
            judge(&done(1_500..1_514), &done(1_500..1_514), &quiet)
                .faults
                .is_empty()
        );
        assert_eq!(
            judge(&done(1_500..1_520), &done(1_500..1_520), &quiet)
                .faults
                .len(),
            1
        );
        assert_eq!(
            judge(&all, &done(7..8), &quiet).lost.len(),
            1,
            "one is lost"
        );
        let mut wrong = all.clone();
        wrong.wrong = 1;
        assert_eq!(judge(&all, &wrong, &quiet).errors.len(), 1);
        let mut disordered = all.clone();
        disordered.reordered = 1;
        assert_eq!(judge(&all, &disordered, &quiet).errors.len(), 1);
        let mut more = all.clone();
        (0..30).for_each(|_| more.count(at(1_000), SDU.into()));
        assert_eq!(
            judge(&more, &more, &quiet).faults.len(),
            1,
            "more than promised"
        );
    }

    #[test]
    fn a_source_without_a_cpu_and_a_late_reader_say_nothing() {
        let quiet = Stalls::default();
        let mut sent = done(1_500..1_540);
        sent.waited_ns = 50_000_000;
        let judgement = judge(&sent, &done(1_500..1_540), &quiet);
        assert!(judgement.faults.is_empty() && judgement.void.is_some());
        let mut late = done(7..8);
        late.pause_max_ns = 400_000_000;
        let judgement = judge(&done(0..0), &late, &quiet);
        assert!(judgement.lost.is_empty() && judgement.void.is_some());
        // The source did its part: waiting explains nothing.
        let mut sent = done(0..0);
        sent.waited_ns = 50_000_000;
        assert!(!judge(&sent, &done(1_500..1_540), &quiet).faults.is_empty());
    }

    #[test]
    fn a_long_gap_and_many_short_ones_are_void() {
        let weather = |gap_max_ns, stalled_percent| Weather {
            gap_threshold_ns: 100_000,
            gaps: 1,
            gap_max_ns,
            stalled_ns: 0,
            stalled_percent,
        };
        assert_eq!(weather(30_000_000, 2.0).void(), None);
        assert!(weather(30_000_001, 0.0).void().is_some());
        assert!(weather(0, 2.1).void().is_some());
    }
}
