//! The PDUs that were thrown away, as commands that receive tell them.

use std::time::Duration;

use cellgate::{Connection, Error};
use cellgate_core::adapter::DiscardCounts;
use serde::{Deserialize, Serialize};

/// PDUs that came and were not received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lost {
    /// Thrown away by the adapter, by reason.
    pub(super) discarded: DiscardCounts,
    /// Beyond credit and tolerance, by the library.
    pub(super) dismissed: u64,
}

impl Lost {
    /// Closes the connection, which tells its last counters; of these `before` were there when it
    /// was taken.
    pub(super) fn at_the_end_of(
        connection: Connection,
        before: &DiscardCounts,
    ) -> anyhow::Result<Self> {
        let dismissed = connection.dismissed();
        let discarded = connection.close(Duration::ZERO)?.pdus_discarded;
        let all = Self {
            discarded,
            dismissed,
        };
        Ok(all.since(before, 0))
    }

    /// All so far.
    pub(super) fn of(connection: &Connection) -> Result<Self, Error> {
        Ok(Self {
            discarded: connection.stats()?.pdus_discarded,
            dismissed: connection.dismissed(),
        })
    }

    /// Of these, the ones that were not there before.
    pub(super) fn since(&self, discarded: &DiscardCounts, dismissed: u64) -> Self {
        let mut since = DiscardCounts::default();
        for (reason, pdus) in self.discarded.iter() {
            since.add(reason, pdus.saturating_sub(discarded.of(reason)));
        }
        Self {
            discarded: since,
            dismissed: self.dismissed.saturating_sub(dismissed),
        }
    }

    pub(super) fn pdus(&self) -> u64 {
        self.discarded.total() + self.dismissed
    }

    pub(super) fn words(&self) -> String {
        let reasons = self.discarded.iter().map(|(why, pdus)| (why.name(), pdus));
        let reasons = reasons.chain([("dismissed", self.dismissed)]);
        let reasons = reasons.filter(|(_, pdus)| *pdus > 0);
        let reasons: Vec<_> = reasons.map(|(why, pdus)| format!("{why} {pdus}")).collect();
        format!(
            "{} PDUs were thrown away: {}",
            self.pdus(),
            reasons.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::adapter::Discard;

    use super::*;

    #[test]
    fn says_what_was_thrown_away() {
        let mut lost = Lost {
            discarded: DiscardCounts::default(),
            dismissed: 2,
        };
        lost.discarded.add(Discard::NonConforming, 5);
        let words = "7 PDUs were thrown away: non_conforming 5, dismissed 2";
        assert_eq!((lost.pdus(), &*lost.words()), (7, words));
    }
}
