//! Stretches of a file, apart from each other and in order.

use std::ops::Range;

/// Stretches that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents(Vec<Range<u64>>);

impl Extents {
    /// None yet.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each, from the first to the last.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> {
        self.0.iter().cloned()
    }

    /// Whether all of `range` is within one of them. An empty range is.
    pub fn cover(&self, range: &Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        let after = self.0.partition_point(|one| one.start <= range.start);
        after > 0 && self.0[after - 1].end >= range.end
    }

    /// Adds a stretch; what it touches becomes one with it.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.0.partition_point(|one| one.end < range.start);
        let end = self.0.partition_point(|one| one.start <= range.end);
        let mut whole = range;
        for one in &self.0[first..end] {
            whole = whole.start.min(one.start)..whole.end.max(one.end);
        }
        self.0.splice(first..end, [whole]);
    }

    /// Takes a stretch away.
    pub fn remove(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.0.partition_point(|one| one.end <= range.start);
        let end = self.0.partition_point(|one| one.start < range.end);
        if first >= end {
            return;
        }
        let before = self.0[first].start..range.start;
        let behind = range.end..self.0[end - 1].end;
        let left = [before, behind].into_iter().filter(|one| !one.is_empty());
        self.0.splice(first..end, left.collect::<Vec<_>>());
    }

    /// Takes away all before `offset`.
    pub fn remove_before(&mut self, offset: u64) {
        self.remove(&(0..offset));
    }

    /// The end of the stretch in which `offset` lies; `offset` itself if it lies in none.
    pub fn end_from(&self, offset: u64) -> u64 {
        let after = self.0.partition_point(|one| one.start <= offset);
        let before = after.checked_sub(1).map(|at| self.0[at].end);
        before.map_or(offset, |end| end.max(offset))
    }
}

impl FromIterator<Range<u64>> for Extents {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut extents = Self::new();
        ranges.into_iter().for_each(|range| extents.insert(range));
        extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a bitmap, over all that can be done to sixteen octets.
    #[test]
    fn stretches_are_those_of_a_bitmap() {
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut extents = Extents::new();
        let mut bits = 0_u32;
        for _ in 0..20_000 {
            let start = draw(16);
            let end = start + draw(17 - start);
            let mask = (1_u32 << end) - (1_u32 << start);
            if draw(2) == 0 {
                extents.insert(start..end);
                bits |= mask;
            } else {
                extents.remove(&(start..end));
                bits &= !mask;
            }
            let within = |at: u64| bits >> at & 1 == 1;
            let mut expected = Extents::new();
            let mut at = 0;
            while at < 16 {
                let from = at;
                while at < 16 && within(at) {
                    at += 1;
                }
                if from < at {
                    expected.0.push(from..at);
                }
                at += 1;
            }
            assert_eq!(extents, expected);
            let (start, end) = (start, start + draw(17 - start));
            let all = (start..end).all(within);
            assert_eq!(
                extents.cover(&(start..end)),
                all,
                "{extents:?} {start}..{end}"
            );
            let reach = (start..16).find(|at| !within(*at)).unwrap_or(16);
            assert_eq!(extents.end_from(start), reach, "{extents:?} {start}");
        }
    }
}
