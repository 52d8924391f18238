use std::collections::BTreeMap;

/// Numbers, as the runs that they form.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    /// From the first of a run to its last.
    runs: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(super) fn contains(&self, number: u64) -> bool {
        let run = self.runs.range(..=number).next_back();
        run.is_some_and(|(_, last)| number <= *last)
    }

    pub(super) fn insert(&mut self, number: u64) {
        if self.contains(number) {
            return;
        }
        let before = self.runs.range(..number).next_back();
        let before = before.filter(|(_, last)| **last + 1 == number);
        let first = before.map_or(number, |(first, _)| *first);
        let after = number.checked_add(1);
        let last = after.and_then(|after| self.runs.remove(&after));
        self.runs.insert(first, last.unwrap_or(number));
    }

    /// Forgets those below `floor`.
    pub(super) fn remove_below(&mut self, floor: u64) {
        while let Some(run) = self.runs.first_entry() {
            if *run.key() >= floor {
                return;
            }
            let last = run.remove();
            if last >= floor {
                self.runs.insert(floor, last);
                return;
            }
        }
    }

    /// Runs.
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_those_of_the_numbers() {
        let mut ranges = Ranges::default();
        let order = [5, 7, 6, 1, 9, u64::MAX, 2, 9];
        let runs = [1, 2, 1, 2, 3, 4, 4, 4];
        for (number, runs) in order.into_iter().zip(runs) {
            ranges.insert(number);
            assert_eq!(ranges.len(), runs, "{number}");
        }
        let all: Vec<_> = (0..12).filter(|number| ranges.contains(*number)).collect();
        assert_eq!(all, [1, 2, 5, 6, 7, 9]);
        ranges.remove_below(6);
        let all: Vec<_> = (0..12).filter(|number| ranges.contains(*number)).collect();
        assert_eq!((all, ranges.len()), (vec![6, 7, 9], 3));
    }
}
