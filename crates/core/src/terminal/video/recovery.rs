//! The sender's clock, as the receiver sees it.
//!
//! Both recoveries look at a second after the other, and take the best of each. A packet that
//! nothing has delayed comes soonest, and finds the buffer fullest: the delays of the rest are the
//! network's, not the clock's.
//!
//! - By timestamps: of each second the packet with the least delay (arrival less stream time). The
//!   clock's line lies below all of them and touches them: the lower convex hull of the last 128,
//!   and of it the edge over the middle. That is the line below all points which is nearest to them
//!   in sum.
//! - By occupancy: of each second the fullest that the buffer was. An observer of two states (phase
//!   and drift) follows it, with the gains of a least-squares line through the seconds so far, at
//!   most 64; what the output's own rate has done to the fill is known and taken off.

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

/// Of what the best is taken, in ns.
const WINDOW_NS: u64 = 1_000_000_000;
/// Windows that timestamps are looked at for.
const WINDOWS: usize = 128;
/// A line through fewer says nothing of the drift.
const WINDOWS_MIN: u64 = 8;
/// Gains of the observer stay as they are from so many windows on.
const GAINS: u64 = 64;

/// What is to be done about the output's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steer {
    pub(super) drift_ppt: i64,
    /// By how much the output is to be later.
    pub(super) phase_ns: i64,
}

/// The present window, and what those before it say.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    recovery: Recovery,
    begun: Option<Time>,
    /// Of the window: stream time, and delay against the anchor or want of fill, in ns.
    best: Option<(i64, i64)>,
    /// Of the windows before.
    minima: VecDeque<(i64, i64)>,
    windows: u64,
    /// The observer's.
    phase_ns: i64,
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
            phase_ns: 0,
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
        self.phase_ns = 0;
        self.observed_ppt = self.drift_ppt;
    }

    /// A clock reference of `stream_ns` has arrived, or with occupancy anything up to there. At the
    /// end of a window it says how to steer.
    pub(super) fn observe(
        &mut self,
        arrival: Time,
        stream_ns: i64,
        playing: &Playing,
        latency_ns: i64,
        flaws: &impl Flaws,
    ) -> Option<Steer> {
        let begun = *self.begun.get_or_insert(arrival);
        let seen = match self.recovery {
            Recovery::Off => return None,
            Recovery::Timestamps => signed(arrival).saturating_sub(stream_ns),
            Recovery::Occupancy => latency_ns - (stream_ns - playing.at(arrival)),
        };
        let of_now = (stream_ns, seen);
        let best = self.best.get_or_insert(of_now);
        // A drift bends a window by less than what the best of it is good for.
        let drift = i128::from(stream_ns - best.0) * i128::from(self.drift_ppt) / i128::from(PPT);
        if i128::from(seen) <= i128::from(best.1) + drift {
            *best = of_now;
        }
        let lasted = arrival.since_ns(begun);
        if lasted < WINDOW_NS {
            return None;
        }
        let best = *best;
        self.begun = Some(arrival);
        self.best = None;
        self.windows += 1;
        let mut steer = match self.recovery {
            Recovery::Occupancy => self.observer(best.1, lasted, playing.rate_ppt()),
            _ => self.line(best, stream_ns, playing, latency_ns),
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
    fn line(
        &mut self,
        best: (i64, i64),
        stream_ns: i64,
        playing: &Playing,
        latency_ns: i64,
    ) -> Steer {
        if self.minima.len() == WINDOWS {
            self.minima.pop_front();
        }
        self.minima.push_back(best);
        let (at, drift_ppt) = match self.windows < WINDOWS_MIN {
            true => (lowest(&self.minima, self.drift_ppt), self.drift_ppt),
            false => edge(&self.minima),
        };
        let since = i128::from(stream_ns - at.0) * i128::from(drift_ppt) / i128::from(PPT);
        let line_ns = i128::from(at.1) + since;
        let has = i128::from(playing.due_ns(stream_ns)) - i128::from(stream_ns);
        let phase = line_ns + i128::from(latency_ns) - has;
        Steer {
            drift_ppt,
            phase_ns: i64::try_from(phase).unwrap_or(0),
        }
    }

    /// A step of the observer: `missing_ns` is what the buffer lacked at its fullest.
    fn observer(&mut self, missing_ns: i64, lasted_ns: u64, rate_ppt: i64) -> Steer {
        let lasted = i128::from(lasted_ns.max(1));
        let part = |ppt: i64| (i128::from(ppt) * lasted / i128::from(PPT)) as i64;
        let n = self.windows.min(GAINS);
        if n <= 1 {
            self.phase_ns = missing_ns;
        } else {
            let before = self.phase_ns + part(self.observed_ppt - rate_ppt);
            let off = i128::from(missing_ns - before);
            let n = i128::from(n);
            let phase = off * 2 * (2 * n - 1) / (n * (n + 1));
            let drift = off * i128::from(PPT) * 6 / (n * (n + 1) * lasted);
            self.phase_ns = before + i64::try_from(phase).unwrap_or(0);
            let observed = i128::from(self.observed_ppt) + drift;
            let most = i128::from(2 * DRIFT_PPM_MAX * PPT_OF_PPM);
            self.observed_ppt = observed.clamp(-most, most) as i64;
        }
        Steer {
            drift_ppt: match self.windows < WINDOWS_MIN {
                true => self.drift_ppt,
                false => self.observed_ppt,
            },
            phase_ns: self.phase_ns,
        }
    }
}

/// The point that a line of this drift below all of them touches.
fn lowest(points: &VecDeque<(i64, i64)>, drift_ppt: i64) -> (i64, i64) {
    let level = |point: &(i64, i64)| {
        i128::from(point.1) - i128::from(point.0) * i128::from(drift_ppt) / i128::from(PPT)
    };
    points
        .iter()
        .copied()
        .min_by_key(level)
        .unwrap_or_default()
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
