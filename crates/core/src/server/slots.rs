//! The slots of a connection, in both directions.

use serde::{Deserialize, Serialize};

use super::Demand;
use crate::Time;
use crate::adapter::VcStats;
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
    pub(super) fn begin(now: Time, demand: &Demand) -> Self {
        Self {
            transmit: SlotClock::begin(now, demand.transmit.guaranteed),
            receive: SlotClock::begin(now, demand.receive.guaranteed),
        }
    }

    /// Of one whose contract changes.
    pub(super) fn changed(&self, now: Time, demand: &Demand) -> Self {
        Self {
            transmit: self.transmit.changed(now, demand.transmit.guaranteed),
            receive: self.receive.changed(now, demand.receive.guaranteed),
        }
    }

    /// The slots until `now`, when the counters were `stats`.
    pub(super) fn slots(&self, now: Time, stats: &VcStats) -> ConnectionSlots {
        ConnectionSlots {
            transmit: Slots::of(
                self.transmit.begun(now),
                stats.cells_transmitted,
                stats.cells_transmitted_clp1,
            ),
            receive: Slots::of(
                self.receive.begun(now),
                stats.cells_delivered,
                stats.cells_delivered_clp1,
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
