//! When a host's adapter steps: at the instants of a grid, and not while it stands still.

use crate::world::Ps;

/// The steps of one adapter.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    /// From one instant of the grid to the next.
    pub(super) grid: Ps,
    /// The one that is due.
    pub(super) due: Option<Ps>,
    pub(super) last: Ps,
    /// An instant of the grid.
    on_grid: Ps,
    /// Since when the adapter stands still, or did last, and until when.
    stalled_from: Ps,
    pub(super) stalled_until: Ps,
    /// The longest that it has stood still.
    pub(super) stood_still: Ps,
}

impl Steps {
    /// None yet.
    pub(super) fn new(grid: Ps) -> Self {
        Self {
            grid,
            due: None,
            last: Ps::ZERO,
            on_grid: Ps::ZERO,
            stalled_from: Ps::ZERO,
            stalled_until: Ps::ZERO,
            stood_still: Ps::ZERO,
        }
    }

    /// The first one that is not before `at`.
    pub(super) fn from(&self, at: Ps) -> Ps {
        let at = at.max(self.stalled_until);
        let at = at.max(self.last.plus(Ps::new(1)));
        let next = self.on_grid.plus(self.grid);
        // The instant most often asked for needs no division.
        if at > self.on_grid && at <= next {
            next
        } else {
            at.round_up(self.grid)
        }
    }

    /// One is taken.
    pub(super) fn take(&mut self, now: Ps) {
        (self.last, self.on_grid) = (now, now);
    }

    /// Another adapter begins.
    pub(super) fn begin_anew(&mut self, now: Ps) {
        (self.due, self.last, self.stalled_until) = (None, now, Ps::ZERO);
    }

    /// Whether all before the one at `now` have been taken.
    pub(super) fn keep_up(&self, now: Ps) -> bool {
        self.on_grid.plus(self.grid) == now
    }

    /// Those of the last two before `now` that were left out.
    pub(super) fn left_out(&self, now: Ps) -> impl Iterator<Item = Ps> + use<> {
        let (last, stalled_until, grid) = (self.last, self.stalled_until, self.grid);
        let next = now.round_up(grid);
        let both = [2, 1].map(|back| Ps::new(next.ps().saturating_sub(back * grid.ps())));
        let mut last = last;
        both.into_iter().filter(move |at| {
            let is_left_out = *at > last && *at < now && *at >= stalled_until;
            last = if is_left_out { *at } else { last };
            is_left_out
        })
    }

    /// The adapter stands still for so long from here on; for how long in all, where no step parts
    /// this from what was before.
    pub(crate) fn stall(&mut self, now: Ps, span: Ps) -> Ps {
        if self.stood_still == Ps::ZERO || now > self.stalled_until.plus(self.grid) {
            self.stalled_from = now;
        }
        self.stalled_until = self.stalled_until.max(now.plus(span));
        let in_all = self.stalled_until.since(self.stalled_from);
        self.stood_still = self.stood_still.max(in_all);
        in_all
    }
}
