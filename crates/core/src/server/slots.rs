//! The slots of a connection, in both directions.

use serde::{Deserialize, Serialize};

use super::Demand;
use crate::Time;
use crate::adapter::VcStats;
use crate::contract::charging::{Flaws, Sound};
use crate::contract::{SlotClock, Slots};

/// What a connection's contract has reserved since it was opened. The adapter keeps it with the VC,
/// so that a successor goes on with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotClocks {
    pub transmit: SlotClock,
    pub receive: SlotClock,
}

impl SlotClocks {
    /// Of a connection that is opened.
    pub fn begin(now: Time, demand: &Demand) -> Self {
        Self::begin_with(now, demand, &Sound)
    }

    /// The same, perhaps with a bug.
    pub fn begin_with(now: Time, demand: &Demand, flaws: &impl Flaws) -> Self {
        Self {
            transmit: SlotClock::begin_with(now, demand.transmit.guaranteed, flaws),
            receive: SlotClock::begin_with(now, demand.receive.guaranteed, flaws),
        }
    }

    /// Of one whose contract changes.
    #[must_use]
    pub fn changed(&self, now: Time, demand: &Demand) -> Self {
        self.changed_with(now, demand, &Sound)
    }

    /// The same, perhaps with a bug.
    #[must_use]
    pub fn changed_with(&self, now: Time, demand: &Demand, flaws: &impl Flaws) -> Self {
        let (transmit, receive) = (&demand.transmit, &demand.receive);
        Self {
            transmit: self.transmit.changed_with(now, transmit.guaranteed, flaws),
            receive: self.receive.changed_with(now, receive.guaranteed, flaws),
        }
    }

    /// The slots until `now`, when the counters were `stats`.
    pub fn slots(&self, now: Time, stats: &VcStats) -> ConnectionSlots {
        self.slots_with(now, stats, &Sound)
    }

    /// The same, perhaps with a bug.
    pub fn slots_with(&self, now: Time, stats: &VcStats, flaws: &impl Flaws) -> ConnectionSlots {
        ConnectionSlots {
            transmit: Slots::of_with(
                self.transmit.begun(now),
                stats.cells_transmitted,
                stats.cells_transmitted_clp1,
                flaws,
            ),
            receive: Slots::of_with(
                self.receive.begun(now),
                stats.cells_delivered,
                stats.cells_delivered_clp1,
                flaws,
            ),
        }
    }
}

/// The slots of a connection since it was opened, or opened again on a new adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionSlots {
    pub transmit: Slots,
    /// Cells that were delivered occupy them. Cells that were discarded are counted by reason.
    pub receive: Slots,
}
