//! The gap detector: how long the firmware was not running, and how long its steps take.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use cellgate_core::keeper::GapReport;

use cellgate_core::Time;

use crate::rests::Rests;
use crate::sys::probes;

/// Buckets of the histograms: bucket `i` counts distances of `2^i` to `2^(i+1) - 1` nanoseconds,
/// the last one everything longer (2^39 ns are nine minutes).
pub const BUCKETS: usize = 40;

/// One step in this many is timed whatever it did.
const SAMPLE_EVERY: u64 = 64;

/// What the gap detector of an adapter saw, for readers in other threads.
///
/// The firmware thread alone writes; each value is exact, but a snapshot may mix values of two
/// neighbouring steps.
#[derive(Debug)]
pub struct Gaps {
    threshold_ns: u64,
    count: AtomicU64,
    max_ns: AtomicU64,
    total_ns: AtomicU64,
    histogram: [AtomicU64; BUCKETS],
    steps: AtomicU64,
    steps_timed: AtomicU64,
    steps_interrupted: AtomicU64,
    step_max_ns: AtomicU64,
    step_histogram: [AtomicU64; BUCKETS],
    step_total_ns: AtomicU64,
    /// What is no gap: the firmware rested.
    pub rests: Rests,
}

impl Gaps {
    /// What counts as a gap unless configured otherwise.
    pub const THRESHOLD_NS_DEFAULT: u64 = 100_000;

    /// A detector's counters, all zero, of an adapter that never rests.
    pub fn new(threshold_ns: u64) -> Self {
        Self::with_clients(threshold_ns, 0)
    }

    /// The same of one that has so many clients, any of whom can end its rests.
    pub fn with_clients(threshold_ns: u64, clients: usize) -> Self {
        Self {
            rests: Rests::new(clients),
            threshold_ns,
            count: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
            total_ns: AtomicU64::new(0),
            histogram: [const { AtomicU64::new(0) }; BUCKETS],
            steps: AtomicU64::new(0),
            steps_timed: AtomicU64::new(0),
            steps_interrupted: AtomicU64::new(0),
            step_max_ns: AtomicU64::new(0),
            step_histogram: [const { AtomicU64::new(0) }; BUCKETS],
            step_total_ns: AtomicU64::new(0),
        }
    }

    /// Reads the counters without disturbing their writer.
    pub fn report(&self) -> GapReport {
        let all = |counts: &[AtomicU64; BUCKETS]| counts.iter().map(|c| c.load(Relaxed)).collect();
        GapReport {
            threshold_ns: self.threshold_ns,
            count: self.count.load(Relaxed),
            max_ns: self.max_ns.load(Relaxed),
            total_ns: self.total_ns.load(Relaxed),
            histogram: all(&self.histogram),
            steps: self.steps.load(Relaxed),
            steps_timed: self.steps_timed.load(Relaxed),
            steps_interrupted: self.steps_interrupted.load(Relaxed),
            step_max_ns: self.step_max_ns.load(Relaxed),
            step_histogram: all(&self.step_histogram),
            step_total_ns: self.step_total_ns.load(Relaxed),
            rests: self.rests.report(|_| None),
            unlocked: 0,
        }
    }

    /// Begins the two maxima anew, for a measurement that starts here. A gap that ends at this very
    /// moment counts on one side or the other.
    pub fn restart_maxima(&self) {
        self.max_ns.store(0, Relaxed);
        self.step_max_ns.store(0, Relaxed);
        self.rests.restart_maxima();
    }
}

/// The firmware thread's end of [`Gaps`].
#[derive(Debug)]
pub struct GapDetector<'a> {
    gaps: &'a Gaps,
    last: Option<Time>,
    steps: u64,
}

impl<'a> GapDetector<'a> {
    /// Cells that a step must have handled to be timed always; a second clock read is small
    /// beside their work.
    pub const CELLS_TIMED: usize = 64;

    /// A detector that counts in `gaps`.
    pub fn new(gaps: &'a Gaps) -> Self {
        Self {
            gaps,
            last: None,
            steps: 0,
        }
    }

    /// Takes the clock read before a step: its distance from the one before the last step is a gap
    /// if it reaches the threshold.
    #[inline(always)]
    pub fn observe(&mut self, now: Time) {
        let distance_ns = self.last.map_or(0, |last| now.since_ns(last));
        self.last = Some(now);
        self.steps += 1;
        self.gaps.steps.store(self.steps, Relaxed);
        if distance_ns >= self.gaps.threshold_ns {
            self.count(distance_ns);
        }
    }

    /// The firmware is up again at `now` after a rest, which is no gap. It was up `late_ns` after
    /// what was due: that is one if it is more than `late_max_ns`.
    pub fn resume(&mut self, now: Time, late_ns: u64, late_max_ns: u64) {
        self.last = Some(now);
        if late_ns > late_max_ns {
            self.count(late_ns);
        }
    }

    /// Whether the step just made, which handled `cells` cells, is to be timed.
    #[inline(always)]
    pub fn wants_time(&self, cells: usize) -> bool {
        cells >= Self::CELLS_TIMED || self.steps.is_multiple_of(SAMPLE_EVERY)
    }

    /// Takes the duration of the step just made.
    #[inline]
    pub fn step_took(&mut self, step_ns: u64) {
        let gaps = self.gaps;
        add(&gaps.steps_timed, 1);
        if step_ns >= gaps.threshold_ns {
            add(&gaps.steps_interrupted, 1);
            probes::step(step_ns, gaps.threshold_ns);
            return;
        }
        add(&gaps.step_histogram[bucket(step_ns)], 1);
        add(&gaps.step_total_ns, step_ns);
        raise(&gaps.step_max_ns, step_ns);
    }

    #[cold]
    fn count(&mut self, distance_ns: u64) {
        let gaps = self.gaps;
        add(&gaps.count, 1);
        add(&gaps.total_ns, distance_ns);
        add(&gaps.histogram[bucket(distance_ns)], 1);
        raise(&gaps.max_ns, distance_ns);
    }
}

pub(crate) fn bucket(distance_ns: u64) -> usize {
    (distance_ns.max(1).ilog2() as usize).min(BUCKETS - 1)
}

/// One writer: a load and a store do, and cost no locked instruction.
#[inline(always)]
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

#[inline(always)]
pub(crate) fn raise(maximum: &AtomicU64, value: u64) {
    if value > maximum.load(Relaxed) {
        maximum.store(value, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_only_distances_that_reach_the_threshold() {
        let gaps = Gaps::new(100_000);
        let mut detector = GapDetector::new(&gaps);
        let mut now_ns = 5_000_000;
        for distance_ns in [0, 99_999, 100_000, 50, 3_000_000, 99_999] {
            now_ns += distance_ns;
            detector.observe(Time::from_ns(now_ns));
        }
        let report = gaps.report();
        assert_eq!((report.count, report.max_ns), (2, 3_000_000));
        assert_eq!(report.total_ns, 3_100_000);
        assert_eq!(report.histogram[16], 1, "100,000 ns lie in [2^16, 2^17)");
        assert_eq!(report.histogram[21], 1, "3,000,000 ns lie in [2^21, 2^22)");
        assert_eq!(report.histogram.iter().sum::<u64>(), 2);
        assert_eq!(report.steps, 6);
    }

    #[test]
    fn a_rest_is_no_gap_unless_it_ends_too_late() {
        let gaps = Gaps::new(100_000);
        let mut detector = GapDetector::new(&gaps);
        detector.observe(Time::from_ns(1_000));
        detector.resume(Time::from_ns(900_000_000), 30_000_000, 30_000_000);
        detector.observe(Time::from_ns(900_000_100));
        assert_eq!(gaps.report().count, 0);
        detector.resume(Time::from_ns(1_900_000_000), 30_000_001, 30_000_000);
        detector.observe(Time::from_ns(1_900_000_100));
        let report = gaps.report();
        assert_eq!((report.count, report.max_ns), (1, 30_000_001));
        detector.observe(Time::from_ns(1_900_200_100));
        assert_eq!(gaps.report().count, 2);
    }

    #[test]
    fn the_first_read_is_no_gap() {
        let gaps = Gaps::new(1);
        GapDetector::new(&gaps).observe(Time::from_ns(u64::MAX));
        assert_eq!(gaps.report().count, 0);
    }

    #[test]
    fn an_interrupted_step_is_not_the_longest() {
        let gaps = Gaps::new(100_000);
        let mut detector = GapDetector::new(&gaps);
        detector.step_took(20_000);
        detector.step_took(7_000_000);
        detector.step_took(300);
        let report = gaps.report();
        assert_eq!((report.step_max_ns, report.steps_interrupted), (20_000, 1));
        assert_eq!(report.steps_timed, 3);
        assert_eq!(report.step_histogram[14], 1);
        assert_eq!(report.step_total_ns, 20_300);
    }

    #[test]
    fn a_difference_of_reports_holds_what_lies_between() {
        let gaps = Gaps::new(10);
        let mut detector = GapDetector::new(&gaps);
        detector.observe(Time::from_ns(0));
        detector.observe(Time::from_ns(64));
        let before = gaps.report();
        gaps.restart_maxima();
        detector.observe(Time::from_ns(80));
        let between = gaps.report().since(&before);
        assert_eq!(
            (between.count, between.total_ns, between.max_ns),
            (1, 16, 16)
        );
        assert_eq!(between.histogram.iter().sum::<u64>(), 1);
        assert_eq!(between.steps, 1);
    }

    #[test]
    fn no_distance_is_too_long_for_the_histogram() {
        let gaps = Gaps::new(1);
        let mut detector = GapDetector::new(&gaps);
        detector.observe(Time::ZERO);
        detector.observe(Time::from_ns(u64::MAX));
        assert_eq!(gaps.report().histogram[BUCKETS - 1], 1);
    }
}
