//! Usage control of what is received: PDUs beyond credit and tolerance are dismissed.

use crate::Time;
use crate::contract::Credit;

/// What may still be taken, in octets of SDU: a bucket that an interval's length fills by its
/// credit, and that holds the credit and the tolerance.
///
/// The bucket has no grid: sender, adapter and reader have one of their own each, and of two
/// intervals of the sender any part can fall into one of the reader's. The interval is taken a
/// nanosecond short, so that rounding never dismisses what conforms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    interval_ns: u128,
    credit: u128,
    /// Octets that the bucket holds, times `interval_ns`.
    depth: u128,
    /// Octets taken that time has not given back, times `interval_ns`.
    taken: u128,
    at: Time,
}

impl Allowance {
    /// With a tolerance of one credit beyond that of the interval, a burst of so many octets (at
    /// least the largest PDU), and what arrives within `late_ns`: behind a stall of the adapter all
    /// of it comes in a burst.
    pub(super) fn new(now: Time, credit: Credit, burst: u64, late_ns: u64) -> Self {
        let interval_ns = u128::from(credit.interval_ns()).saturating_sub(1).max(1);
        let octets = u128::from(credit.octets());
        // Below 2^32 * 2^65.
        let depth = (2 * octets + u128::from(burst)) * interval_ns + u128::from(late_ns) * octets;
        Self {
            interval_ns,
            credit: octets,
            depth,
            taken: 0,
            at: now,
        }
    }

    /// Whether a PDU of `octets` that arrived at `now` is taken. One that is not costs nothing.
    #[inline]
    pub(super) fn accept(&mut self, now: Time, octets: usize) -> bool {
        let given_back = u128::from(now.since_ns(self.at)) * self.credit;
        self.at = self.at.max(now);
        self.taken = self.taken.saturating_sub(given_back);
        let taken = self.taken + octets as u128 * self.interval_ns;
        let accepted = taken <= self.depth;
        if accepted {
            self.taken = taken;
        }
        accepted
    }
}

#[cfg(test)]
mod tests {
    use crate::contract::{Jitter, Remainder, UsageControl, UsageDecision};

    use super::*;

    const SDU: u16 = 1_500;
    const STALL_NS: u64 = 30_000_000;

    fn credit(octet_s: u64) -> Credit {
        Credit::for_sdu_rate(8 * octet_s, SDU, Jitter::Low).unwrap()
    }

    #[test]
    fn a_sender_that_is_paced_is_never_dismissed_however_it_is_delayed() {
        let credit = credit(1_234_567);
        let mut pace = UsageControl::new(Time::ZERO, credit, Remainder::Carried);
        // The reader's bucket begins in the middle of an interval of the sender's.
        let mut allowance = Allowance::new(Time::from_ns(777_777), credit, SDU.into(), STALL_NS);
        let (mut now, mut arrival) = (Time::ZERO, Time::ZERO);
        let mut stalls = 0;
        for i in 0..200_000_u64 {
            let octets = 1 + (i * 7_919 % u64::from(SDU)) as u32;
            while let UsageDecision::SuspendUntil(next) = pace.request(now, octets) {
                now = next;
            }
            if i % 1_000 == 0 {
                arrival = now.plus_ns(STALL_NS);
                stalls += 1;
            }
            arrival = arrival.max(now);
            assert!(allowance.accept(arrival, octets as usize), "PDU {i}");
        }
        assert_eq!(stalls, 200);
    }

    #[test]
    fn more_than_the_rate_is_dismissed_down_to_the_rate() {
        const OCTET_S: u64 = 1_000_000;
        let mut allowance = Allowance::new(Time::ZERO, credit(OCTET_S), SDU.into(), STALL_NS);
        // Three times the rate for ten seconds.
        let gap_ns = u64::from(SDU) * 1_000_000_000 / (3 * OCTET_S);
        let taken = (0..20_000_u64)
            .filter(|i| allowance.accept(Time::from_ns(i * gap_ns), SDU.into()))
            .count() as u64;
        let octets = taken * u64::from(SDU);
        let depth = 5 * u64::from(SDU) + 30_000;
        assert!(octets >= 10 * OCTET_S, "{octets}");
        assert!(octets <= 10 * OCTET_S + depth + u64::from(SDU), "{octets}");
    }
}
