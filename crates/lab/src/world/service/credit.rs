//! What a writer has handed over, against the credit that its connection has.

use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::contract::Credit;

/// Windows that are looked at, in credit intervals.
const WINDOWS: [u64; 5] = [1, 2, 4, 8, 16];

/// What was handed over under one credit: of long ago only the sum.
#[derive(Debug)]
pub(crate) struct Ledger {
    credit: Credit,
    largest: u64,
    /// Octets that credits before may have left, in an interval of at most so many nanoseconds.
    left: (u64, u64),
    since: Time,
    /// When, and how many octets: those of the longest window.
    recent: VecDeque<(u64, u64)>,
    /// Octets in each window, and how many of the recent are before it.
    windows: [(u64, usize); WINDOWS.len()],
    whole: u64,
    /// The first window that had more than it may.
    wrong: Option<String>,
}

impl Ledger {
    /// Nothing yet, of SDUs of at most `largest` octets; credits before may have `left` some.
    pub(crate) fn new(now: Time, credit: Credit, largest: u16, left: (u64, u64)) -> Self {
        Self {
            credit,
            largest: largest.into(),
            left,
            since: now,
            recent: VecDeque::new(),
            windows: Default::default(),
            whole: 0,
            wrong: None,
        }
    }

    /// What may be left of it when another credit comes, and how long its intervals are.
    pub(crate) fn left(&self, now: Time) -> (u64, u64) {
        let own = (self.credit.octets(), self.credit.interval_ns());
        match now.since_ns(self.since) < self.left.1 {
            true => (own.0.max(self.left.0), own.1.max(self.left.1)),
            false => own,
        }
    }

    /// An SDU of so many octets.
    pub(crate) fn sent(&mut self, now: Time, octets: u16) {
        let (at, len) = (now.ns(), u64::from(octets));
        let (interval, octets) = (self.credit.interval_ns(), self.credit.octets());
        self.recent.push_back((at, len));
        self.whole += len;
        for (k, (sum, before)) in WINDOWS.iter().zip(&mut self.windows) {
            let span = interval.saturating_mul(*k);
            *sum += len;
            while self.recent[*before].0.saturating_add(span) <= at {
                *sum -= self.recent[*before].1;
                *before += 1;
            }
            let most = octets * (k + 1) + self.largest + self.left.0;
            if *sum > most && self.wrong.is_none() {
                let text =
                    format!("{sum} octets in {k} intervals of {interval} ns, at most {most}");
                self.wrong = Some(text);
            }
        }
        let [.., (_, gone)] = self.windows;
        self.recent.drain(..gone);
        self.windows
            .iter_mut()
            .for_each(|(_, before)| *before -= gone);
    }

    /// I14: how much more than it may have passed in some window, if anything.
    ///
    /// A window as long as `k` intervals touches `k + 1` of them, and a credit can be one PDU more
    /// than its octets for what waited before. The whole time is held to a thousandth.
    pub(crate) fn excess(&self, now: Time) -> Option<String> {
        if self.wrong.is_some() {
            return self.wrong.clone();
        }
        let (interval, octets, whole) =
            (self.credit.interval_ns(), self.credit.octets(), self.whole);
        let intervals = now.since_ns(self.since) / interval + 2;
        let most = octets * intervals;
        let most = most + most / 1_000 + self.largest + self.left.0;
        (whole > most).then(|| format!("{whole} octets in {intervals} intervals, at most {most}"))
    }
}

/// I14: whether a credit is what a rate brings, to a thousandth.
pub(crate) fn is_of_rate(credit: &Credit, cell_s: u64, pdu_cells: u64, sdu: u64) -> bool {
    // Octets per second, times the cells of a PDU.
    let brings = u128::from(credit.octets()) * u128::from(pdu_cells) * 1_000_000_000;
    let due = u128::from(cell_s) * u128::from(sdu) * u128::from(credit.interval_ns());
    brings.abs_diff(due) <= due / 1_000
}

#[cfg(test)]
mod tests {
    use cellgate_core::contract::Jitter;

    use super::*;

    /// 2 PDUs of 100 octets in each interval of 2 ms.
    fn ledger() -> Ledger {
        let credit = Credit::for_sdu_rate(800_000, 100, Jitter::Low).expect("a credit");
        assert_eq!((credit.octets(), credit.interval_ns()), (200, 2_000_000));
        Ledger::new(Time::ZERO, credit, 100, (0, 0))
    }

    #[test]
    fn a_ledger_lets_pass_what_has_credit_and_nothing_else() {
        let mut paced = ledger();
        for n in 0..100 {
            paced.sent(Time::from_ns(n * 1_000_000), 100);
        }
        assert_eq!(paced.excess(Time::from_ns(100_000_000)), None);
        let mut burst = ledger();
        (0..6).for_each(|_| burst.sent(Time::from_ns(5), 100));
        assert!(burst.excess(Time::from_ns(10)).is_some());
        // A tenth too much is seen in the long run.
        let mut fast = ledger();
        for n in 0..110 {
            fast.sent(Time::from_ns(n * 909_090), 100);
        }
        assert!(fast.excess(Time::from_ns(100_000_000)).is_some());
    }

    #[test]
    fn a_ledger_of_a_day_is_as_long_as_one_of_an_hour() {
        let mut paced = ledger();
        for n in 0..100_000 {
            paced.sent(Time::from_ns(n * 1_000_000), 100);
        }
        assert_eq!(paced.excess(Time::from_ns(100_000_000_000)), None);
        assert!(paced.recent.len() < 40, "{}", paced.recent.len());
    }

    #[test]
    fn a_credit_is_of_its_rate_to_a_thousandth() {
        let credit = ledger().credit;
        // 3 cells of 1,000 PDUs a second.
        assert!(is_of_rate(&credit, 3_000, 3, 100));
        assert!(is_of_rate(&credit, 3_002, 3, 100));
        assert!(!is_of_rate(&credit, 3_010, 3, 100) && !is_of_rate(&credit, 2_990, 3, 100));
    }
}
