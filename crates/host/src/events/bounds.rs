//! The rate of events that others bring about.
//!
//! A kind of event that clients, lines or other programs bring about has a few tokens. Each event
//! takes one, and one comes back every so often. Without a token an event is only counted, and
//! told together with the others as `suppressed`.

use std::collections::BTreeMap;

use cellgate_core::Time;

use super::{Event, Field, Kind};

/// Events of a kind that are told at once.
const BURST: u64 = 20;
/// From one token to the next.
const TOKEN_NS: u64 = 30_000_000_000;

/// The tokens that each kind has left.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    kinds: BTreeMap<Kind, Bucket>,
}

#[derive(Debug)]
struct Bucket {
    tokens: u64,
    /// When the last one came.
    filled: Time,
    suppressed: u64,
}

impl Bounds {
    /// Whether an event of this kind is to be told now; it is counted if not.
    pub(crate) fn admits(&mut self, now: Time, kind: Kind) -> bool {
        if !kind.is_bounded() {
            return true;
        }
        let bucket = self.kinds.entry(kind).or_insert(Bucket {
            tokens: BURST,
            filled: now,
            suppressed: 0,
        });
        bucket.fill(now);
        match bucket.tokens.checked_sub(1) {
            Some(rest) => bucket.tokens = rest,
            None => bucket.suppressed += 1,
        }
        bucket.suppressed == 0
    }

    /// How many were only counted, of kinds that have tokens again: that takes one of them.
    pub(crate) fn suppressed(&mut self, now: Time) -> Vec<Event> {
        let mut all = Vec::new();
        for (kind, bucket) in &mut self.kinds {
            bucket.fill(now);
            if bucket.suppressed == 0 || bucket.tokens == 0 {
                continue;
            }
            bucket.tokens -= 1;
            all.push(suppressed(*kind, std::mem::take(&mut bucket.suppressed)));
        }
        all
    }

    /// How many were only counted, whether there are tokens or not: there will be no other time.
    pub(crate) fn rest(&mut self) -> Vec<Event> {
        let all = self.kinds.iter_mut();
        let all = all.map(|(kind, bucket)| (*kind, std::mem::take(&mut bucket.suppressed)));
        all.filter(|(_, count)| *count > 0)
            .map(|(kind, count)| suppressed(kind, count))
            .collect()
    }
}

impl Bucket {
    fn fill(&mut self, now: Time) {
        let came = now.since_ns(self.filled) / TOKEN_NS;
        self.tokens = (self.tokens + came).min(BURST);
        self.filled = self.filled.plus_ns(came * TOKEN_NS);
    }
}

fn suppressed(kind: Kind, count: u64) -> Event {
    let name = kind.name();
    Event::of(Kind::Suppressed, format!("{count} more of {name} not told"))
        .with(Field::Count, count)
        .with(Field::Subject, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Time {
        Time::from_ns((1_000 + s) * 1_000_000_000)
    }

    #[test]
    fn others_are_bounded_and_the_rest_is_counted() {
        let mut bounds = Bounds::default();
        let told = (0..100).filter(|_| bounds.admits(at(0), Kind::PagesTaken));
        assert_eq!(told.count() as u64, BURST);
        assert!(bounds.suppressed(at(29)).is_empty(), "no token yet");
        assert!(bounds.admits(at(29), Kind::DeviceEnded), "another kind");
        let told = bounds.suppressed(at(30));
        let texts: Vec<_> = told.iter().map(Event::text).collect();
        assert_eq!(texts, ["80 more of pages_taken not told"]);
        assert!(!bounds.admits(at(31), Kind::PagesTaken));
        assert!(bounds.suppressed(at(31)).is_empty());
        assert_eq!(bounds.rest().len(), 1);
        assert!(bounds.rest().is_empty());
        assert!(bounds.admits(at(60), Kind::PagesTaken));
    }

    #[test]
    fn tokens_come_back_and_not_more_than_there_were() {
        let mut bounds = Bounds::default();
        let told = (0..50).filter(|_| bounds.admits(at(0), Kind::AdapterLost));
        assert_eq!(told.count() as u64, BURST);
        bounds.rest();
        let told = (0..100).filter(|_| bounds.admits(at(1_000_000), Kind::AdapterLost));
        assert_eq!(told.count() as u64, BURST);
    }

    #[test]
    fn the_daemons_own_words_are_all_told() {
        let mut bounds = Bounds::default();
        assert!((0..1_000).all(|_| bounds.admits(at(0), Kind::ConfiguredRefused)));
        assert!(bounds.suppressed(at(0)).is_empty());
    }
}
