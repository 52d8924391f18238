//! What the receiver counts.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::verdict::Standing;
use crate::commands::server::lost::Lost;

/// The longest delay that is told from longer ones: a minute.
const DELAY_MAX_NS: u64 = 60_000_000_000;

/// One-way delays. They mean something only where both ends read the same clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Delay {
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
}

/// By how much the transit times of PDUs that came one after the other differ: this needs no
/// common clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Jitter {
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
    /// Interarrival jitter (RFC 3550, section 6.4.1): a mean in which the last PDUs count most.
    pub(super) rfc3550: u64,
}

/// What one run came to, as the server tells it the client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Received {
    pub(super) pdus: u64,
    pub(super) octets: u64,
    /// Nanoseconds from the first data PDU to the last.
    pub(super) time_ns: u64,
    pub(super) pdus_lost: u64,
    /// That came behind one with a higher number, or twice.
    pub(super) pdus_reordered: u64,
    /// None: the ends are on different machines.
    pub(super) delay_ns: Option<Delay>,
    pub(super) jitter_ns: Jitter,
    /// How its adapter has run meanwhile; none: its daemon did not tell.
    #[serde(default)]
    pub(super) adapter: Option<Standing>,
    /// What its adapter and its library have thrown away; none: its daemon did not tell.
    #[serde(default)]
    pub(super) thrown_away: Option<Lost>,
}

/// Counts data PDUs of one run.
pub(super) struct Tally {
    received: Received,
    /// The sequence number that is due.
    next: u64,
    delays: Histogram<u64>,
    /// Differences of two transit times that follow each other.
    differences: Histogram<u64>,
    same_machine: bool,
    first_ns: u64,
    last_ns: u64,
    /// Of the last PDU: arrival less departure. Of two clocks, it can be anything.
    transit_ns: Option<u64>,
    /// Sixteen times the jitter.
    jitter_16: u64,
}

impl Tally {
    pub(super) fn new(same_machine: bool) -> Self {
        let times = Histogram::new_with_bounds(1, DELAY_MAX_NS, 3);
        let times = times.expect("one to a minute with 3 digits is a histogram");
        Self {
            received: Received::default(),
            next: 0,
            delays: times.clone(),
            differences: times,
            same_machine,
            first_ns: 0,
            last_ns: 0,
            transit_ns: None,
            jitter_16: 0,
        }
    }

    /// A data PDU, sent and received at these times.
    pub(super) fn add(&mut self, sequence: u64, octets: usize, sent_ns: u64, now_ns: u64) {
        let received = &mut self.received;
        if received.pdus == 0 {
            self.first_ns = now_ns;
        }
        self.last_ns = now_ns;
        received.pdus += 1;
        received.octets += octets as u64;
        match sequence < self.next {
            true => received.pdus_reordered += 1,
            false => self.next = sequence.saturating_add(1),
        }
        let transit = now_ns.wrapping_sub(sent_ns);
        self.delays.saturating_record(transit);
        if let Some(before) = self.transit_ns.replace(transit) {
            let difference = transit.wrapping_sub(before).cast_signed().unsigned_abs();
            self.differences.saturating_record(difference);
            self.jitter_16 =
                (self.jitter_16 - self.jitter_16.div_ceil(16)).saturating_add(difference);
        }
    }

    /// PDUs, octets, and lost so far.
    pub(super) fn so_far(&self) -> (u64, u64, u64) {
        let received = &self.received;
        (
            received.pdus,
            received.octets,
            self.next.saturating_sub(received.pdus),
        )
    }

    /// The report, once it is known how many were sent.
    pub(super) fn report(&self, sent: u64) -> Received {
        let delay_ns = self.same_machine.then(|| Delay {
            p50: self.delays.value_at_quantile(0.5),
            p99: self.delays.value_at_quantile(0.99),
            max: self.delays.max(),
        });
        Received {
            time_ns: self.last_ns - self.first_ns,
            pdus_lost: sent.saturating_sub(self.received.pdus),
            delay_ns: delay_ns.filter(|_| self.received.pdus > 0),
            jitter_ns: Jitter {
                p50: self.differences.value_at_quantile(0.5),
                p99: self.differences.value_at_quantile(0.99),
                max: self.differences.max(),
                rfc3550: self.jitter_16 / 16,
            },
            ..self.received.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(plan: &[(u64, u64, u64)]) -> Tally {
        let mut tally = Tally::new(true);
        for (sequence, sent_ns, now_ns) in plan {
            tally.add(*sequence, 100, *sent_ns, *now_ns);
        }
        tally
    }

    #[test]
    fn counts_what_is_lost_and_out_of_order() {
        let tally = tally(&[(0, 0, 10), (2, 20, 30), (1, 10, 40), (5, 50, 60)]);
        assert_eq!(tally.so_far(), (4, 400, 2));
        let report = tally.report(8);
        assert_eq!((report.pdus_lost, report.pdus_reordered), (4, 1));
        assert_eq!((report.pdus, report.octets, report.time_ns), (4, 400, 50));
    }

    #[test]
    fn delays_are_told_of_one_clock_only() {
        let plan: Vec<_> = (0..100)
            .map(|i| (i, 1_000 * i, 1_000 * i + 10 * (i + 1)))
            .collect();
        let delay = tally(&plan).report(100).delay_ns.unwrap();
        assert_eq!((delay.p50, delay.p99, delay.max), (500, 990, 1_000));
        let mut far = Tally::new(false);
        far.add(0, 100, u64::MAX, 5);
        assert_eq!(far.report(1).delay_ns, None);
        assert_eq!(Tally::new(true).report(3).delay_ns, None);
    }

    #[test]
    fn jitter_needs_no_common_clock() {
        let steady: Vec<_> = (0..50)
            .map(|i| (i, u64::MAX - 1_000 + 10 * i, 10 * i))
            .collect();
        assert_eq!(tally(&steady).report(50).jitter_ns, Jitter::default());
        // Each transit differs from the one before by 1,600 ns.
        let uneven = (0..1_000).map(|i| (i, 10_000 * i, 10_000 * i + 1_600 * (i % 2)));
        let uneven: Vec<_> = uneven.collect();
        let jitter = tally(&uneven).report(1_000).jitter_ns;
        assert!((1_580..=1_600).contains(&jitter.rfc3550), "{jitter:?}");
        assert_eq!((jitter.p50, jitter.max), (1_600, 1_600));
    }

    #[test]
    fn percentiles_of_jitter_are_of_differences_either_way() {
        // Of 200 differences, four are of 1,000 ns up or down, and the others none.
        let late = |i| 1_000 * u64::from(i == 50 || i == 120);
        let plan: Vec<_> = (0..201)
            .map(|i| (i, 10_000 * i, 10_000 * i + 300 + late(i)))
            .collect();
        let jitter = tally(&plan).report(201).jitter_ns;
        assert_eq!((jitter.p50, jitter.p99, jitter.max), (0, 1_000, 1_000));
        assert!(jitter.rfc3550 < 1_000, "{jitter:?}");
        assert_eq!(Tally::new(false).report(1).jitter_ns, Jitter::default());
    }
}
