use cellgate_core::wire::CbnSlot;

use crate::world::Ps;

/// What becomes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotDeed {
    Filled,
    Taken,
    /// By its source.
    Emptied,
    /// By its destination.
    Released,
    /// By the monitor.
    Cleared,
    /// By a fault: the frame is gone, or the ring is cut.
    Lost,
    /// Its VCI has become 0.
    Damaged,
    /// A bit of it is another.
    Flipped,
    /// It is full from here on, whoever empties it.
    Stuck,
}

/// A deed, and what the slot had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingDeed {
    pub at: Ps,
    /// A station, or one of the two below.
    pub who: usize,
    /// Of the frame, as often as it came by there; of a fault the frame itself.
    pub number: u64,
    pub channel: u8,
    pub what: SlotDeed,
    pub slot: CbnSlot,
}

impl RingDeed {
    pub const MONITOR: usize = usize::MAX;
    pub const FAULT: usize = usize::MAX - 1;
}

/// The fates of cells that stations have sent: each that is not under way has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    pub sent: u64,
    /// Somebody has taken it.
    pub taken: u64,
    /// Nobody has.
    pub untaken: u64,
    pub damaged: u64,
    pub lost: u64,
    /// The monitor was first, and nobody had taken it.
    pub cleared: u64,
    /// Times that a cell was taken: one that comes round again is taken again.
    pub copies: u64,
}

impl RingCounts {
    pub(super) const fn ends(&mut self, what: SlotDeed, is_taken: bool, is_damaged: bool) {
        let count = match what {
            _ if is_taken => &mut self.taken,
            SlotDeed::Lost => &mut self.lost,
            _ if is_damaged => &mut self.damaged,
            SlotDeed::Cleared => &mut self.cleared,
            _ => &mut self.untaken,
        };
        *count += 1;
    }

    /// Of those that have ended.
    pub const fn ended(&self) -> u64 {
        self.taken + self.untaken + self.damaged + self.lost + self.cleared
    }
}
