//! The losses of a connection at its adapter, told by and by.

use crate::Time;
use crate::adapter::{Discard, DiscardCounts};

/// From one telling to the next.
const PAUSE_NS: u64 = 1_000_000_000;

/// The losses that an application knows of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    told: DiscardCounts,
    not_before: Time,
}

impl Losses {
    /// `pdus` were thrown away before, and nobody is told.
    pub(super) fn pass(&mut self, pdus: &DiscardCounts) {
        self.told = *pdus;
    }

    /// Of `pdus` that were thrown away so far, the reason that has grown most since it was told,
    /// with its count; none: it is not time, or there is no news.
    pub(super) fn next(&mut self, now: Time, pdus: &DiscardCounts) -> Option<(Discard, u64)> {
        if now < self.not_before {
            return None;
        }
        let grown = |reason: Discard| pdus.of(reason).saturating_sub(self.told.of(reason));
        let reason = Discard::ALL
            .into_iter()
            .rev()
            .max_by_key(|reason| grown(*reason))?;
        let more = grown(reason);
        if more == 0 {
            return None;
        }
        self.told.add(reason, more);
        self.not_before = now.plus_ns(PAUSE_NS);
        Some((reason, pdus.of(reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(Discard, u64)]) -> DiscardCounts {
        let mut counts = DiscardCounts::default();
        for (reason, pdus) in all {
            counts.add(*reason, *pdus);
        }
        counts
    }

    #[test]
    fn each_reason_is_told_in_full_and_one_a_second() {
        let (full, late) = (Discard::BufferFull, Discard::NonConforming);
        let mut losses = Losses::default();
        let at = |ms: u64| Time::from_ns(ms * 1_000_000);
        assert_eq!(losses.next(at(0), &counts(&[])), None);
        let lost = counts(&[(full, 3), (late, 7)]);
        assert_eq!(losses.next(at(10), &lost), Some((late, 7)));
        let lost = counts(&[(full, 3), (late, 9)]);
        assert_eq!(losses.next(at(1_009), &lost), None);
        assert_eq!(losses.next(at(1_010), &lost), Some((full, 3)));
        assert_eq!(losses.next(at(2_010), &lost), Some((late, 9)));
        assert_eq!(losses.next(at(9_000), &lost), None);
    }

    #[test]
    fn what_came_before_is_not_told() {
        let mut losses = Losses::default();
        let mut lost = counts(&[(Discard::CrcError, 4)]);
        losses.pass(&lost);
        assert_eq!(losses.next(Time::ZERO, &lost), None);
        lost.add(Discard::CrcError, 1);
        assert_eq!(losses.next(Time::ZERO, &lost), Some((Discard::CrcError, 5)));
    }
}
