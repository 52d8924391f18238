use std::collections::BTreeMap;
use std::ops::Range;

/// Numbers, as ranges that neither meet nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs(BTreeMap<u64, u64>);

impl Runs {
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&other, &other_end)) = self.0.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            start = start.min(other);
            end = end.max(other_end);
            self.0.remove(&other);
        }
        self.0.insert(start, end);
    }

    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&start, &end)) = self.0.range(..range.end).next_back() {
            if end <= range.start {
                break;
            }
            self.0.remove(&start);
            if range.end < end {
                self.0.insert(range.end, end);
            }
            if start < range.start {
                self.0.insert(start, range.start);
            }
        }
    }

    pub fn contains(&self, number: u64) -> bool {
        let before = self.0.range(..=number).next_back();
        before.is_some_and(|(_, end)| number < *end)
    }

    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(start, end)| *start..*end)
    }

    /// What of `within` is in no run.
    pub fn gaps(&self, within: Range<u64>) -> Vec<Range<u64>> {
        let mut at = within.start;
        let mut gaps = Vec::new();
        let before = self.0.range(..=at).next_back();
        let runs = before.into_iter().chain(self.0.range(at..within.end));
        for (&start, &end) in runs {
            if at < start {
                gaps.push(at..start);
            }
            at = at.max(end);
        }
        if at < within.end {
            gaps.push(at..within.end);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_a_set_of_numbers_is() {
        let mut runs = Runs::default();
        let mut set = [false; 40];
        let mut state = 7_u64;
        for step in 0..5_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let from = (state >> 33) % 40;
            let to = (from + (state >> 40) % 9).min(40);
            let is_in = state >> 63 == 0;
            match is_in {
                true => runs.insert(from..to),
                false => runs.remove(from..to),
            }
            set[from as usize..to as usize].fill(is_in);
            let inside: Vec<u64> = runs.iter().flatten().collect();
            let expected = |is_in| (0..40).filter(move |n| set[*n as usize] == is_in);
            assert_eq!(inside, expected(true).collect::<Vec<_>>(), "step {step}");
            let outside: Vec<u64> = runs.gaps(0..40).into_iter().flatten().collect();
            assert_eq!(outside, expected(false).collect::<Vec<_>>(), "step {step}");
            let part: Vec<u64> = runs.gaps(from..to).into_iter().flatten().collect();
            let expected = expected(false).filter(|n| (from..to).contains(n));
            assert_eq!(part, expected.collect::<Vec<_>>(), "step {step}");
            assert_eq!(runs.contains(from), set[from as usize], "step {step}");
        }
    }
}
