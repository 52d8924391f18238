//! How long an adapter stood still while something was tried, by its gap detector.

#![allow(dead_code, reason = "each test program uses what it needs")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cellgate_host::client::Control;
use cellgate_host::gap::GapReport;

use crate::daemon::Daemon;

/// What an adapter may stand still without a loss.
const ADMITTED_NS: u64 = 30_000_000;
/// Runs of one kind before it counts as void: the machine was too busy to show it.
pub(crate) const TRIES: usize = 3;
/// From one reading to the next.
const LOOK: Duration = Duration::from_millis(5);

/// Reads the detector of a daemon's adapter until it ends.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Stalls>>,
}

/// How long the adapter stood still, and when.
#[derive(Debug)]
pub(crate) struct Stalls {
    first: GapReport,
    /// Instants, and nanoseconds of all stalls before them.
    readings: Vec<(Instant, u64)>,
    /// The longest stall, or no longer than that.
    longest_ns: u64,
}

impl Watch {
    pub(crate) fn begin(daemon: &Daemon) -> Self {
        let path = daemon.path("state/adapter.sock");
        let mut control = Control::at(&path).expect("the adapter listens");
        let mut stalls = Stalls::since(control.gaps(true).expect("gaps"));
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            loop {
                let last = told.load(Ordering::Relaxed);
                std::thread::sleep(LOOK);
                stalls.take(&control.gaps(false).expect("gaps"));
                if last {
                    return stalls;
                }
            }
        });
        let thread = Some(thread);
        Self { stop, thread }
    }

    pub(crate) fn end(mut self) -> Stalls {
        let stalls = self.join().expect("it ends once");
        stalls.expect("it does not panic")
    }

    fn join(&mut self) -> Option<std::thread::Result<Stalls>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // What it saw is of no use to anybody.
        let _ = self.join();
    }
}

impl Stalls {
    fn since(first: GapReport) -> Self {
        Self {
            readings: vec![(Instant::now(), first.total_ns)],
            first,
            longest_ns: 0,
        }
    }

    /// An adapter that has run ever since.
    pub(crate) fn none(since: Instant) -> Self {
        Self {
            first: report(&[], 0),
            readings: vec![(since, 0)],
            longest_ns: 0,
        }
    }

    fn take(&mut self, report: &GapReport) {
        self.readings.push((Instant::now(), report.total_ns));
        // The daemon restarts the maximum, too. A gap that was between two readings is in the
        // histogram, and was at least as long as its bucket says.
        let since = report.since(&self.first);
        let highest = since.histogram.iter().rposition(|count| *count > 0);
        let least_ns = highest.map_or(0, |bucket| 1 << bucket);
        self.longest_ns = self.longest_ns.max(report.max_ns).max(least_ns);
    }

    /// Why PDUs may be missing; none: the adapter admits what it stood still.
    pub(crate) fn excuse(&self) -> Option<String> {
        let ms = self.longest_ns as f64 / 1e6;
        (self.longest_ns > ADMITTED_NS).then(|| format!("the adapter did not run for {ms:.1} ms"))
    }

    /// Time of stalls between two instants, of those about its edges all.
    pub(crate) fn within(&self, from: Instant, to: Instant) -> Duration {
        // The adapter's clock and this reader's are looked at one after the other.
        within(&self.readings, from - LOOK, to + LOOK)
    }
}

/// Why PDUs may be missing where several adapters had to run.
pub(crate) fn excuse<const N: usize>(watches: [Watch; N]) -> Option<String> {
    // All end, whichever has the excuse.
    let stalls = watches.map(Watch::end);
    stalls.iter().find_map(Stalls::excuse)
}

/// What a run came to; why the last one was void, if all tries were.
pub(crate) fn or_void<T>(mut run: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let mut last = run();
    for _ in 1..TRIES {
        match &last {
            Ok(_) => break,
            Err(reason) => println!("void run: {reason}"),
        }
        last = run();
    }
    last
}

/// By how much nanoseconds that were read again and again have grown between two instants.
pub(crate) fn within(readings: &[(Instant, u64)], from: Instant, to: Instant) -> Duration {
    let before = readings.partition_point(|(at, _)| *at <= from);
    let after = readings.partition_point(|(at, _)| *at < to);
    let total = |index: usize| readings[index.min(readings.len() - 1)].1;
    Duration::from_nanos(total(after) - total(before.saturating_sub(1)))
}

/// What a detector tells of some gaps.
fn report(gaps_ns: &[u64], max_ns: u64) -> GapReport {
    let mut histogram = vec![0; cellgate_host::gap::BUCKETS];
    for ns in gaps_ns {
        histogram[ns.ilog2() as usize] += 1;
    }
    GapReport {
        threshold_ns: 100_000,
        count: gaps_ns.len() as u64,
        max_ns,
        total_ns: gaps_ns.iter().sum(),
        histogram,
        ..GapReport::default()
    }
}

#[test]
fn what_the_adapter_admits_excuses_nothing() {
    const MS: u64 = 1_000_000;
    for (gap_ns, max_ns, excused) in [
        (17 * MS, 17 * MS, false),
        (30 * MS, 30 * MS, false),
        (30 * MS + 1, 30 * MS + 1, true),
        (33 * MS, 0, false),
        (34 * MS, 0, true),
        (34 * MS, 200_000, true),
    ] {
        let mut stalls = Stalls::since(report(&[90 * MS], 0));
        stalls.take(&report(&[90 * MS, gap_ns], max_ns));
        stalls.take(&report(&[90 * MS, gap_ns], 0));
        let told = stalls.excuse();
        assert_eq!(told.is_some(), excused, "{gap_ns}, {max_ns}: {told:?}");
        let [(from, _), _, (to, _)] = stalls.readings[..] else {
            panic!("{stalls:?}");
        };
        assert_eq!(stalls.within(from, to), Duration::from_nanos(gap_ns));
    }
}
