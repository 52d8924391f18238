//! When the adapter's firmware did not run, by its gap detector.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow};
use cellgate_core::Time;
use cellgate_host::client::{ClientError, Control};
use cellgate_host::clock::MonotonicClock;
use cellgate_host::gap::GapReport;

/// From one reading to the next.
const LOOK: Duration = Duration::from_millis(10);
/// By how much an instant of the detector can differ from that of a reading.
const BLUR_NS: u64 = 30_000_000;

/// Reads the detector until it is told to stop.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Stalls, ClientError>>,
}

/// How long the firmware stood still, and when.
#[derive(Clone, Debug, Default)]
pub(super) struct Stalls {
    /// Instants, and nanoseconds of all stalls before them.
    readings: Vec<(Time, u64)>,
    /// The longest stall. The detector's maximum is restarted by others too: where its histogram
    /// shows a longer one, as long as that can have been.
    pub(super) longest_ns: u64,
    /// Distances from which on a stall counts.
    pub(super) threshold_ns: u64,
    /// How many there were.
    pub(super) count: u64,
}

impl Watch {
    /// Begins to read the detector of the adapter that listens at `socket`.
    pub(super) fn begin(socket: PathBuf) -> anyhow::Result<Self> {
        let mut control = Control::at(&socket).context("the adapter's gap detector")?;
        let first = control.gaps(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut stalls = Stalls {
                readings: vec![(MonotonicClock.now(), first.total_ns)],
                threshold_ns: first.threshold_ns,
                ..Stalls::default()
            };
            loop {
                let last = told.load(Ordering::Relaxed);
                std::thread::sleep(LOOK);
                stalls.take(&first, &control.gaps(false)?);
                if last {
                    return Ok(stalls);
                }
            }
        });
        Ok(Self { stop, thread })
    }

    /// What it saw.
    pub(super) fn end(self) -> anyhow::Result<Stalls> {
        self.stop.store(true, Ordering::Relaxed);
        let stalls = self.thread.join();
        stalls
            .map_err(|_| anyhow!("the thread that reads the gap detector panicked"))?
            .context("the adapter's gap detector")
    }
}

impl Stalls {
    fn take(&mut self, first: &GapReport, report: &GapReport) {
        self.readings.push((MonotonicClock.now(), report.total_ns));
        self.longest_ns = self.longest_ns.max(report.max_ns);
        let since = report.since(first);
        self.count = since.count;
        let highest = since.histogram.iter().rposition(|count| *count > 0);
        if let Some(bucket) = highest.filter(|bucket| self.longest_ns >> bucket == 0) {
            self.longest_ns = (2 << bucket) - 1;
        }
    }

    /// Nanoseconds of stalls between two instants, of those about its edges all.
    pub(super) fn within(&self, from: Time, to: Time) -> u64 {
        let before = self
            .readings
            .partition_point(|(at, _)| at.plus_ns(BLUR_NS) <= from);
        let after = self
            .readings
            .partition_point(|(at, _)| *at < to.plus_ns(BLUR_NS));
        let total = |index: usize| self.readings.get(index).map_or(0, |(_, total)| *total);
        total(after.min(self.readings.len().saturating_sub(1)))
            .saturating_sub(total(before.saturating_sub(1)))
    }

    /// Nanoseconds of all stalls, and of the time that was watched.
    pub(super) fn share(&self) -> (u64, u64) {
        match (self.readings.first(), self.readings.last()) {
            (Some(first), Some(last)) => (last.1 - first.1, last.0.since_ns(first.0).max(1)),
            _ => (0, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_ns(ms * 1_000_000)
    }

    #[test]
    fn stalls_about_a_window_are_found_and_no_others() {
        let stalls = Stalls {
            readings: (0..100)
                .map(|i| (ms(1_000 + i * 10), if i < 50 { 7 } else { 12 }))
                .collect(),
            ..Stalls::default()
        };
        assert_eq!(stalls.within(ms(1_400), ms(1_600)), 5);
        assert_eq!(
            stalls.within(ms(1_480), ms(1_490)),
            5,
            "the edge is blurred"
        );
        assert_eq!(stalls.within(ms(1_000), ms(1_200)), 0);
        assert_eq!(stalls.within(ms(1_700), ms(1_900)), 0);
        assert_eq!(stalls.within(ms(0), ms(9_000)), 5);
        assert_eq!(stalls.share(), (5, 990_000_000));
        assert_eq!(Stalls::default().within(ms(0), ms(5)), 0);
    }

    #[test]
    fn a_stall_that_only_the_histogram_shows_counts_as_long_as_it_can_have_been() {
        let report = |histogram: &[usize], max_ns| {
            let mut buckets = vec![0; cellgate_host::gap::BUCKETS];
            for bucket in histogram {
                buckets[*bucket] += 1;
            }
            GapReport {
                threshold_ns: 0,
                count: histogram.len() as u64,
                max_ns,
                histogram: buckets,
                ..GapReport::default()
            }
        };
        let mut stalls = Stalls::default();
        let first = report(&[30], 0);
        stalls.take(&first, &report(&[30, 18], 300_000));
        assert_eq!((stalls.longest_ns, stalls.count), (300_000, 1));
        stalls.take(&first, &report(&[30, 18, 20], 200_000));
        assert_eq!(stalls.longest_ns, (1 << 21) - 1);
    }
}
