//! Makes a failing plan smaller, so that a person can read it.

use crate::plan::Plan;

/// Removes cells and actions as long as `fails` holds for what is left: halves first, then ever
/// smaller pieces, down to single ones. Steps stay: time is not shortened.
///
/// `fails` is called at most `calls` times.
pub fn shrink(plan: &Plan, mut calls: usize, mut fails: impl FnMut(&Plan) -> bool) -> Plan {
    let mut best = plan.clone();
    let mut try_one = |candidate: Plan, best: &mut Plan| {
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
    loop {
        let before = best.cells.len() + best.actions.len();
        for list in [List::Cells, List::Actions] {
            let mut piece = list.len(&best).div_ceil(2);
            while piece > 0 {
                let mut at = 0;
                while at < list.len(&best) {
                    let candidate = list.without(&best, at, piece);
                    if !try_one(candidate, &mut best) {
                        at += piece;
                    }
                }
                piece /= 2;
            }
        }
        if best.cells.len() + best.actions.len() == before {
            return best;
        }
    }
}

#[derive(Clone, Copy)]
enum List {
    Cells,
    Actions,
}

impl List {
    fn len(self, plan: &Plan) -> usize {
        match self {
            Self::Cells => plan.cells.len(),
            Self::Actions => plan.actions.len(),
        }
    }

    fn without(self, plan: &Plan, at: usize, piece: usize) -> Plan {
        let mut plan = plan.clone();
        let end = (at + piece).min(self.len(&plan));
        match self {
            Self::Cells => drop(plan.cells.drain(at..end)),
            Self::Actions => drop(plan.actions.drain(at..end)),
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
