//! What lines and slots carry, told while a run goes on.

use super::run::World;
use super::{Flying, Ps};
use crate::Progress;
use crate::cbn::RingDeed;

/// Is told of the cells that arrive at the ends of lines, and of what becomes of slots.
pub trait CellTrace {
    /// One of this line, not before any that was told earlier; at one time lines come in order.
    fn arrives(&mut self, line: usize, flying: &Flying);

    /// A slot of this ring; the station by its number in the scenario, if it was one. In the order
    /// of times.
    fn slot(&mut self, _ring: usize, _station: Option<usize>, _deed: &RingDeed) {}
}

impl CellTrace for Vec<(usize, Flying)> {
    fn arrives(&mut self, line: usize, flying: &Flying) {
        self.push((line, *flying));
    }
}

/// Who looks at a run from outside.
pub struct Watch<'a> {
    pub(super) progress: &'a mut dyn Progress,
    pub(super) trace: Option<&'a mut dyn CellTrace>,
}

impl<'a> Watch<'a> {
    /// Somebody who waits for it.
    pub fn of(progress: &'a mut dyn Progress) -> Self {
        Self {
            progress,
            trace: None,
        }
    }
}

impl World {
    /// Tells what lines have carried before a time.
    pub(super) fn play(&mut self, before: Ps, trace: &mut dyn CellTrace) {
        let mut cells = Vec::new();
        for (n, line) in self.net.lines.iter_mut().enumerate() {
            cells.extend(std::iter::from_fn(|| line.take_recorded(before)).map(|cell| (n, cell)));
        }
        cells.sort_by_key(|(_, flying): &(usize, Flying)| flying.at);
        for (n, flying) in cells {
            trace.arrives(n, &flying);
        }
    }

    /// Before then nothing more arrives: the next event is not before `now`, but a host makes up
    /// for its last two steps, and what they send.
    pub(super) fn has_all_before(&self, now: Ps) -> Ps {
        let steps = self.hosts.iter().map(|node| node.spec.step_ns);
        let made_up = Ps::from_ns(2 * steps.max().unwrap_or(0));
        let arrivals = self.net.lines.iter().filter_map(|line| line.next_arrival());
        arrivals.fold(now.since(made_up), Ps::min)
    }
}
