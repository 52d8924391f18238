//! What a writer has handed over, against the credit that its connection has.

use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::contract::Credit;

/// Windows that are looked at, in credit intervals.
const WINDOWS: [u64; 5] = [1, 2, 4, 8, 16];

/// The intervals of a credit: when they begin, what was handed over in the last of them, and since
/// when the writer has waited in each.
#[derive(Debug)]
struct Grid {
    since: Time,
    /// Nanoseconds of an interval, and what they are over.
    length: (u64, u64),
    /// Intervals in which something was handed over: their numbers, octets, and those of intervals
    /// that the writer slept through although a PDU waited.
    recent: VecDeque<(u64, u64, u64)>,
    /// In which interval the writer was to ask again.
    waits_for: Option<u64>,
    /// Intervals in a row in which it was told to wait: the first, the last, and their octets.
    told: Option<(u64, u64, u64)>,
}

impl Grid {
    fn number(&self, now: Time) -> u64 {
        let (length, per) = self.length;
        let since = u128::from(now.since_ns(self.since)) * u128::from(per);
        (since / u128::from(length.max(1))) as u64
    }

    /// When an interval begins, rounded up.
    fn begins(&self, number: u64) -> Time {
        let (length, per) = self.length;
        let since = (u128::from(number) * u128::from(length)).div_ceil(per.max(1).into());
        self.since.plus_ns(since as u64)
    }

    /// The interval of `now`. A credit may be kept for a writer whose PDU waits: of as many
    /// intervals as it has slept through.
    fn at(&mut self, now: Time, octets: u64) -> &mut (u64, u64, u64) {
        let number = self.number(now);
        if self.recent.back().is_none_or(|last| last.0 < number) {
            let slept = self.waits_for.map_or(0, |due| number.saturating_sub(due));
            self.recent.push_back((number, 0, slept * octets));
            let most = WINDOWS[WINDOWS.len() - 1] as usize;
            self.recent.drain(..self.recent.len().saturating_sub(most));
        }
        self.waits_for = None;
        let last = self.recent.len() - 1;
        &mut self.recent[last]
    }

    /// An SDU of `len` octets: what of it is wrong, if anything. In `k` intervals in a row no more
    /// is handed over than `k` credits of `octets` and less than a PDU.
    fn sent(&mut self, now: Time, len: u64, (octets, largest): (u64, u64)) -> Option<String> {
        let of = self.at(now, octets);
        of.1 += len;
        let number = of.0;
        WINDOWS.iter().find_map(|k| {
            let recent = self.recent.iter().rev();
            let inside = recent.take_while(|(at, ..)| at + k > number);
            let (sum, kept) = inside.fold((0, 0), |(sum, kept), of| (sum + of.1, kept + of.2));
            let most = octets * k + kept + largest;
            (sum >= most)
                .then(|| format!("{sum} octets in {k} intervals on end, less than {most} due"))
        })
    }

    /// The writer is told to wait: what of it is wrong, if anything. It waits for the next
    /// interval, and who is told so in each has had all its credits but for less than a PDU.
    fn waits(&mut self, now: Time, until: Time, of: (u64, u64)) -> Option<String> {
        let (octets, largest) = of;
        let (number, sent, _) = *self.at(now, octets);
        let next = self.begins(number + 1);
        self.waits_for = Some(number + 1);
        if until != next {
            return Some(format!(
                "it waits until {until:?}, credit comes at {next:?}"
            ));
        }
        let told = match self.told {
            Some((_, last, _)) if last == number => return None,
            Some((first, last, before)) if last + 1 == number => (first, number, before + sent),
            _ => (number, number, sent),
        };
        self.told = Some(told);
        let (first, last, sum) = told;
        let intervals = last - first + 1;
        let due = octets * intervals;
        (sum + largest <= due)
            .then(|| format!("{sum} octets in {intervals} intervals, {due} due to who waits"))
    }
}

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
    /// When the writer was to ask again.
    until: Option<Time>,
    /// Octets of intervals that it has slept through although a PDU waited.
    kept: u64,
    /// Of these, those of its last sleep.
    slept_last: u64,
    /// The same before the first of these.
    slept: u64,
    /// None: its intervals are not known.
    grid: Option<Grid>,
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
            until: None,
            kept: 0,
            slept_last: 0,
            slept: 0,
            grid: None,
            wrong: None,
        }
    }

    /// The writer was told by the credit before to wait, perhaps: it goes on waiting, and what it
    /// has slept through until now is its due, too.
    pub(crate) fn after(mut self, before: Option<&Self>) -> Self {
        self.until = before.and_then(|before| before.until);
        let slept_ns = self.until.map_or(0, |until| self.since.since_ns(until));
        self.slept = slept_ns / self.credit.interval_ns().max(1) * self.credit.octets();
        self
    }

    /// Its first interval begins with it, and each has so many nanoseconds, over so many.
    pub(crate) fn on_grid(mut self, length: (u64, u64)) -> Self {
        self.grid = Some(Grid {
            since: self.since,
            length,
            recent: VecDeque::new(),
            waits_for: None,
            told: None,
        });
        self
    }

    /// The writer is told to wait until then.
    pub(crate) fn waits(&mut self, now: Time, until: Time) {
        self.until = Some(until);
        let of = (self.credit.octets(), self.largest);
        let grid = self.grid.as_mut();
        let wrong = grid.and_then(|grid| grid.waits(now, until, of));
        self.wrong = self.wrong.take().or(wrong);
    }

    /// What may be left of it when another credit comes, of what the writer has slept through, too,
    /// and how long its intervals are.
    pub(crate) fn left(&self, now: Time) -> (u64, u64) {
        let slept = match &self.grid {
            Some(grid) => grid.recent.back().map_or(0, |of| of.2),
            None => self.slept_last,
        };
        let own = (self.credit.octets() + slept, self.credit.interval_ns());
        match now.since_ns(self.since) < self.left.1 {
            true => (own.0.max(self.left.0), own.1.max(self.left.1)),
            false => own,
        }
    }

    /// An SDU of so many octets.
    pub(crate) fn sent(&mut self, now: Time, octets: u16) {
        let (at, len) = (now.ns(), u64::from(octets));
        let of = (self.credit.octets(), self.largest);
        self.whole += len;
        if let Some(grid) = &mut self.grid {
            let wrong = grid.sent(now, len, of);
            self.wrong = self.wrong.take().or(wrong);
            return;
        }
        let (interval, octets) = (self.credit.interval_ns(), self.credit.octets());
        if let Some(until) = self.until.take() {
            self.slept_last = now.since_ns(until) / interval * octets;
            self.kept += self.slept_last;
        }
        self.recent.push_back((at, len));
        for (k, (sum, before)) in WINDOWS.iter().zip(&mut self.windows) {
            let span = interval.saturating_mul(*k);
            *sum += len;
            while self.recent[*before].0.saturating_add(span) <= at {
                *sum -= self.recent[*before].1;
                *before += 1;
            }
            let most = octets * (k + 1) + self.largest + self.left.0 + self.kept;
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
    /// Where its intervals are not known, a window as long as `k` of them touches `k + 1`, and a
    /// credit can be one PDU more than its octets for what waited before. The whole time is held to
    /// a thousandth.
    pub(crate) fn excess(&self, now: Time) -> Option<String> {
        if self.wrong.is_some() {
            return self.wrong.clone();
        }
        let (interval, octets, whole) =
            (self.credit.interval_ns(), self.credit.octets(), self.whole);
        let intervals = now.since_ns(self.since) / interval + 2;
        let most = octets * intervals;
        let most = most + most / 1_000 + self.largest + self.left.0 + self.slept;
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
    fn intervals_of_a_grid_have_their_credits_and_less_than_a_pdu() {
        let at = |ms: u64| Time::from_ns(ms * 1_000_000);
        let grid = || ledger().on_grid((2_000_000, 1));
        // An interval has one PDU too many: in a window that slides it could be of two.
        let mut burst = grid();
        (0..2).for_each(|_| burst.sent(at(1), 100));
        assert_eq!(burst.excess(at(1)), None);
        burst.sent(at(1), 100);
        assert!(burst.excess(at(1)).is_some());
        // Who sleeps although a PDU waits has what the intervals have brought meanwhile.
        for (waits, right) in [(true, true), (false, false)] {
            let mut late = grid();
            (0..2).for_each(|_| late.sent(at(1), 100));
            if waits {
                late.waits(at(1), at(2));
            }
            (0..6).for_each(|_| late.sent(at(7), 100));
            assert_eq!(late.excess(at(7)).is_none(), right, "{late:?}");
        }
    }

    #[test]
    fn who_waits_in_each_interval_has_had_its_credits() {
        let at = |ms: u64| Time::from_ns(ms * 1_000_000);
        for (sent, until, right) in [(2, 2, true), (1, 2, false), (2, 4, false)] {
            let mut greedy = ledger().on_grid((2_000_000, 1));
            for n in 0..3 {
                (0..sent).for_each(|_| greedy.sent(at(2 * n), 100));
                greedy.waits(at(2 * n), at(2 * n + until));
            }
            assert_eq!(greedy.excess(at(6)).is_none(), right, "{greedy:?}");
        }
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
