//! The output's clock: when each instant of the stream is played.

use super::{Flaws, Planted};
use crate::Time;

/// Parts of a whole: rates are kept as so many of 10^12, a millionth of a ppm.
pub(super) const PPT: i64 = 1_000_000_000_000;
/// The same in a ppm.
pub(super) const PPT_OF_PPM: i64 = 1_000_000;
/// The output's rate is at most so far from the receiver's clock, in ppm: a display that locks to
/// it follows.
pub const RATE_PPM_MAX: i64 = 500;

/// Time constant by which the output's phase follows, in ns.
const PHASE_NS: i64 = 10_000_000_000;

/// Stream time to the time of the receiver's clock, by one straight line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Playing {
    /// An instant of the stream, in ns, and when it is played.
    stream_ns: i64,
    at_ns: i64,
    /// By how much a second of the stream is longer than one of the receiver.
    rate_ppt: i64,
}

impl Playing {
    /// `stream_ns` is played at `at`.
    pub(super) fn new(stream_ns: i64, at: Time, rate_ppt: i64) -> Self {
        Self {
            stream_ns,
            at_ns: signed(at),
            rate_ppt,
        }
    }

    /// When `stream_ns` is played, in ns of the receiver's clock.
    pub(super) fn due_ns(&self, stream_ns: i64) -> i64 {
        let since = stream_ns.saturating_sub(self.stream_ns);
        let longer = i128::from(since) * i128::from(self.rate_ppt) / i128::from(PPT);
        let all = i128::from(self.at_ns) + i128::from(since) + longer;
        i64::try_from(all).unwrap_or(i64::MAX)
    }

    /// The same as a time: the clock's start, if it is before that.
    pub(super) fn due(&self, stream_ns: i64) -> Time {
        Time::from_ns(u64::try_from(self.due_ns(stream_ns)).unwrap_or(0))
    }

    /// The instant of the stream that is played at `now`.
    pub(super) fn at(&self, now: Time) -> i64 {
        let since = i128::from(signed(now) - self.at_ns);
        let whole = i128::from(PPT);
        let passed = since * whole / (whole + i128::from(self.rate_ppt));
        self.stream_ns
            .saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }

    /// The rate, in parts of 10^12.
    pub(super) const fn rate_ppt(&self) -> i64 {
        self.rate_ppt
    }

    /// From `now` on the rate is that of a clock that drifts by `drift_ppt`, and as much more as
    /// makes good `phase_ns` with the time constant, within the bound. What is played at `now`
    /// stays.
    pub(super) fn steer(&mut self, now: Time, drift_ppt: i64, phase_ns: i64, flaws: &impl Flaws) {
        let stream_ns = self.at(now);
        let phase = i128::from(phase_ns) * i128::from(PPT) / i128::from(PHASE_NS);
        let phase = match flaws.has(Planted::PhaseIgnored) {
            true => 0,
            false => phase,
        };
        let most = match flaws.has(Planted::RateUnbounded) {
            true => i128::from(PPT / 2),
            false => i128::from(RATE_PPM_MAX * PPT_OF_PPM),
        };
        let rate = (i128::from(drift_ppt) + phase).clamp(-most, most);
        // Within the bound, which 64 bits hold.
        *self = Self::new(stream_ns, now, rate as i64);
    }
}

/// A time as a signed number: 292 years fit.
pub(super) fn signed(time: Time) -> i64 {
    i64::try_from(time.ns()).unwrap_or(i64::MAX)
}
