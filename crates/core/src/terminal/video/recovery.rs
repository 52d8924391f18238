//! The sender's clock, as the receiver sees it.
//!
//! Both recoveries look at one window after the other, and take the best of each. A packet that
//! nothing has delayed comes soonest, and finds the buffer fullest: the delays of the rest are the
//! network's, not the clock's.
//!
//! - By timestamps: of each second the packet with the least delay (arrival less stream time). The
//!   clock's line lies below all of them and touches them: the lower convex hull of the last 128,
//!   and of it the edge over the middle. That is the line below all points which is nearest to them
//!   in sum.
//! - By occupancy: of each 4 s the fullest that the buffer was. An observer of two states (phase
//!   and drift) follows it, with the gains of a least-squares line through the windows so far, at
//!   most 96; what the output's own rate has done to the fill is known and taken off.

use std::collections::VecDeque;

use super::playing::{PPT, PPT_OF_PPM, Playing, signed};
use super::{Flaws, Planted};
use crate::Time;

/// How the sender's clock is recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// By timestamps: arrivals of clock references.
    #[default]
    Timestamps,
    /// By the fill of the playout buffer.
    Occupancy,
    /// Not at all: the receiver's clock is taken for the sender's.
    Off,
}

/// A clock drifts by no more, in ppm.
pub const DRIFT_PPM_MAX: i64 = 400;

/// Of what the best is taken, in ns: by timestamps, by occupancy.
const WINDOW_NS: u64 = 1_000_000_000;
const FILL_NS: u64 = 4 * WINDOW_NS;
/// Windows that timestamps are looked at for.
const WINDOWS: usize = 128;
/// A line through fewer says nothing of the drift: by timestamps, by occupancy.
const WINDOWS_MIN: u64 = 8;
const FILLS_MIN: u64 = 4;
/// Gains of the observer stay as they are from so many windows on.
const GAINS: u64 = 96;

/// What is to be done about the output's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steer {
    pub(super) drift_ppt: i64,
    /// By how much the output is to be later.
    pub(super) phase_ns: i64,
}

/// What the best of a window was.
#[derive(Clone, Copy, Debug)]
struct Best {
    /// Its arrival, its instant, and the instant that was played then; all in ns.
    arrival_ns: i64,
    stream_ns: i64,
    played_ns: i64,
    /// Its delay against the stream, or what the buffer lacked.
    seen_ns: i64,
}

/// The present window, and what those before it say.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    recovery: Recovery,
    begun: Option<Time>,
    best: Option<Best>,
    /// Of the windows before: stream time and delay.
    minima: VecDeque<(i64, i64)>,
    windows: u64,
    /// The observer's: the best before, what the buffer lacks, and the drift.
    before: Option<Best>,
    lacks_ns: i64,
    observed_ppt: i64,
    /// What is known of the drift.
    drift_ppt: i64,
}

impl Clock {
    pub(super) fn new(recovery: Recovery) -> Self {
        Self {
            recovery,
            begun: None,
            best: None,
            minima: VecDeque::with_capacity(WINDOWS + 1),
            windows: 0,
            before: None,
            lacks_ns: 0,
            observed_ppt: 0,
            drift_ppt: 0,
        }
    }

    /// By how much a second of the stream is longer than one of the receiver, in parts of 10^12.
    pub(super) const fn drift_ppt(&self) -> i64 {
        self.drift_ppt
    }

    /// The output has a new anchor: what was seen before says nothing of its phase. The drift stays
    /// until more is known.
    pub(super) fn begin_anew(&mut self) {
        self.begun = None;
        self.best = None;
        self.minima.clear();
        self.windows = 0;
        self.before = None;
        self.lacks_ns = 0;
        self.observed_ppt = self.drift_ppt;
    }

    /// A clock reference of `stream_ns` has arrived. At the end of a window it says how to steer.
    pub(super) fn observe(
        &mut self,
        arrival: Time,
        stream_ns: i64,
        playing: &Playing,
        latency_ns: i64,
        flaws: &impl Flaws,
    ) -> Option<Steer> {
        let begun = *self.begun.get_or_insert(arrival);
        let played_ns = playing.at(arrival);
        let arrival_ns = signed(arrival);
        let fills = match self.recovery {
            Recovery::Off => return None,
            Recovery::Timestamps => false,
            Recovery::Occupancy => true,
        };
        let now = Best {
            arrival_ns,
            stream_ns,
            played_ns,
            seen_ns: match fills {
                false => arrival_ns.saturating_sub(stream_ns),
                true => latency_ns.saturating_sub(stream_ns.saturating_sub(played_ns)),
            },
        };
        let best = self.best.get_or_insert(now);
        // What the clock alone has changed within the window.
        let rate_ppt = if fills { playing.rate_ppt() } else { 0 };
        let drift_ppt = if fills {
            self.observed_ppt
        } else {
            self.drift_ppt
        };
        let of_clock = part(stream_ns - best.stream_ns, drift_ppt - rate_ppt);
        if now.seen_ns <= best.seen_ns.saturating_add(of_clock) {
            *best = now;
        }
        let window = if fills { FILL_NS } else { WINDOW_NS };
        if arrival.since_ns(begun) < window {
            return None;
        }
        let best = *best;
        self.begun = Some(arrival);
        self.best = None;
        self.windows += 1;
        let mut steer = match fills {
            true => self.observer(best, arrival_ns, rate_ppt),
            false => self.line(best, stream_ns, playing, latency_ns),
        };
        let most = DRIFT_PPM_MAX * PPT_OF_PPM;
        steer.drift_ppt = steer.drift_ppt.clamp(-most, most);
        if flaws.has(Planted::DriftIgnored) {
            steer = Steer {
                drift_ppt: 0,
                phase_ns: 0,
            };
        }
        self.drift_ppt = steer.drift_ppt;
        Some(steer)
    }

    /// The line below the minima, at `stream_ns`.
    fn line(&mut self, best: Best, stream_ns: i64, playing: &Playing, latency_ns: i64) -> Steer {
        if self.minima.len() == WINDOWS {
            self.minima.pop_front();
        }
        self.minima.push_back((best.stream_ns, best.seen_ns));
        let (at, drift_ppt) = match self.windows < WINDOWS_MIN {
            true => (lowest(&self.minima, self.drift_ppt), self.drift_ppt),
            false => edge(&self.minima),
        };
        let line_ns = at.1.saturating_add(part(stream_ns - at.0, drift_ppt));
        let has_ns = playing.due_ns(stream_ns).saturating_sub(stream_ns);
        Steer {
            drift_ppt,
            phase_ns: line_ns.saturating_add(latency_ns).saturating_sub(has_ns),
        }
    }

    /// A step of the observer.
    fn observer(&mut self, best: Best, now_ns: i64, rate_ppt: i64) -> Steer {
        match self.before.replace(best) {
            None => self.lacks_ns = best.seen_ns,
            Some(before) => {
                let lasted = (best.arrival_ns - before.arrival_ns).max(1);
                // What the output has played more than its time, and the clock's drift.
                let played = best.played_ns - before.played_ns - lasted;
                let expected = self.lacks_ns + played + part(lasted, self.observed_ppt);
                let off = i128::from(best.seen_ns - expected);
                let n = i128::from(self.windows.clamp(2, GAINS));
                let lacks = off * 2 * (2 * n - 1) / (n * (n + 1));
                let drift = off * i128::from(PPT) * 6 / (n * (n + 1) * i128::from(lasted));
                self.lacks_ns = expected.saturating_add(i64::try_from(lacks).unwrap_or(0));
                let most = i128::from(2 * DRIFT_PPM_MAX * PPT_OF_PPM);
                let drift = i128::from(self.observed_ppt) + drift;
                self.observed_ppt = drift.clamp(-most, most) as i64;
            }
        }
        let drift_ppt = match self.windows < FILLS_MIN {
            true => self.drift_ppt,
            false => self.observed_ppt,
        };
        let since = part(now_ns - best.arrival_ns, drift_ppt - rate_ppt);
        Steer {
            drift_ppt,
            phase_ns: self.lacks_ns.saturating_add(since),
        }
    }
}

/// What a drift makes of a time.
fn part(ns: i64, drift_ppt: i64) -> i64 {
    let part = i128::from(ns) * i128::from(drift_ppt) / i128::from(PPT);
    i64::try_from(part).unwrap_or(0)
}

/// The point that a line of this drift below all of them touches.
fn lowest(points: &VecDeque<(i64, i64)>, drift_ppt: i64) -> (i64, i64) {
    let level = |point: &(i64, i64)| {
        i128::from(point.1) - i128::from(point.0) * i128::from(drift_ppt) / i128::from(PPT)
    };
    points.iter().copied().min_by_key(level).unwrap_or_default()
}

/// The edge of the lower convex hull over the middle of all points: a point of it, and its slope in
/// parts of 10^12.
fn edge(points: &VecDeque<(i64, i64)>) -> ((i64, i64), i64) {
    let mut hull: Vec<(i64, i64)> = Vec::with_capacity(points.len());
    for &point in points {
        // As long as the last of the hull does not lie below the chord, it is none of it.
        while let [.., a, b] = *hull
            && !turns_up(a, b, point)
        {
            hull.pop();
        }
        if hull.last().is_none_or(|last| last.0 < point.0) {
            hull.push(point);
        }
    }
    let (Some(first), Some(last)) = (hull.first(), hull.last()) else {
        return ((0, 0), 0);
    };
    let middle = first.0 + (last.0 - first.0) / 2;
    let over = hull.windows(2).find(|pair| pair[1].0 >= middle);
    match over {
        Some(&[a, b]) => {
            let rise = i128::from(b.1 - a.1) * i128::from(PPT) / i128::from(b.0 - a.0);
            (a, i64::try_from(rise).unwrap_or(0))
        }
        _ => (*last, 0),
    }
}

/// Whether the way from `a` by `b` to `c` turns upward at `b`.
fn turns_up(a: (i64, i64), b: (i64, i64), c: (i64, i64)) -> bool {
    let product = |x: i64, y: i64| i128::from(x) * i128::from(y);
    product(b.0 - a.0, c.1 - a.1) > product(c.0 - a.0, b.1 - a.1)
}
