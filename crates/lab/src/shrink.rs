//! Makes a failing plan smaller, so that a person can read it.

use crate::plan::Plan;

/// Something that consists of lists, of which parts can be left out.
pub trait Shrink: Clone {
    /// How many lists.
    const LISTS: usize;

    /// Entries of a list.
    fn len_of(&self, list: usize) -> usize;

    /// The same without `n` entries of a list from `at` on, and without what makes no sense
    /// without them.
    fn without(&self, list: usize, at: usize, n: usize) -> Self;
}

/// Removes entries as long as `fails` holds for what is left: halves of each list first, then ever
/// smaller pieces, down to single ones.
///
/// `fails` is called at most `calls` times.
pub fn shrink<P: Shrink>(plan: &P, mut calls: usize, mut fails: impl FnMut(&P) -> bool) -> P {
    let mut best = plan.clone();
    let mut try_one = |candidate: P, best: &mut P| {
        if calls == 0 {
            return false;
        }
        calls -= 1;
        let smaller = fails(&candidate);
        if smaller {
            *best = candidate;
        }
        smaller
    };
    let size = |plan: &P| (0..P::LISTS).map(|list| plan.len_of(list)).sum::<usize>();
    loop {
        let before = size(&best);
        for list in 0..P::LISTS {
            let mut piece = best.len_of(list).div_ceil(2);
            while piece > 0 {
                let mut at = 0;
                while at < best.len_of(list) {
                    let candidate = best.without(list, at, piece);
                    if !try_one(candidate, &mut best) {
                        at += piece;
                    }
                }
                piece /= 2;
            }
        }
        if size(&best) == before {
            return best;
        }
    }
}

/// Cells and actions. Steps stay: time is not shortened.
impl Shrink for Plan {
    const LISTS: usize = 2;

    fn len_of(&self, list: usize) -> usize {
        match list {
            0 => self.cells.len(),
            _ => self.actions.len(),
        }
    }

    fn without(&self, list: usize, at: usize, n: usize) -> Self {
        let mut plan = self.clone();
        let end = (at + n).min(self.len_of(list));
        match list {
            0 => drop(plan.cells.drain(at..end)),
            _ => drop(plan.actions.drain(at..end)),
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_of;

    #[test]
    fn finds_the_one_cell_and_the_one_action_that_matter() {
        let plan = plan_of(7);
        let cell = plan.cells[plan.cells.len() / 3].clone();
        let action = plan.actions[plan.actions.len() / 2].clone();
        let small = shrink(&plan, 10_000, |plan| {
            plan.cells.contains(&cell) && plan.actions.contains(&action)
        });
        assert_eq!(small.cells, [cell]);
        assert_eq!(small.actions, [action]);
    }
}
