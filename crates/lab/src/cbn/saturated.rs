use cellgate_core::wire::CbnCell;

use super::Attached;
use crate::world::Ps;

/// A station that has always a cell to send on channel 0, from some time on.
#[derive(Clone, Debug)]
pub struct Saturated {
    from: Ps,
    /// The time of its last cell.
    last: Ps,
    /// Cells that were sent, and the longest time that one has waited.
    pub sent: u64,
    pub longest: Ps,
}

impl Saturated {
    pub const fn from(from: Ps) -> Self {
        Self {
            from,
            last: Ps::ZERO,
            sent: 0,
            longest: Ps::ZERO,
        }
    }
}

impl Saturated {
    /// The longest wait, that of a cell that has waited until then among them.
    pub fn longest_until(&self, end: Ps) -> Ps {
        self.longest.max(self.waits(end))
    }

    fn waits(&self, at: Ps) -> Ps {
        at.since(self.last.max(self.from))
    }
}

impl Attached for Saturated {
    fn passes(&mut self, _: Ps, _: u8, _: &CbnCell) -> bool {
        false
    }

    fn fills(&mut self, at: Ps, channel: u8) -> Option<CbnCell> {
        if channel > 0 || at < self.from {
            return None;
        }
        self.longest = self.longest.max(self.waits(at));
        self.last = at;
        self.sent += 1;
        Some(CbnCell::EMPTY)
    }
}
