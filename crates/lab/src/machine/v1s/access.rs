//! The ring as a host's MSDL has it.

use cellgate_core::aal::mssar::block_max;
use cellgate_core::upper::msna::{Access, MsdlConfig, Terms, To, Work};
use cellgate_core::wire::MSSAR_RING_LEN;

use super::{Charge, Charges, HostCosts};
use crate::cbn::CbnBug;
use crate::world::Ps;

/// The room of a host for associations, none of which ends.
pub(super) const MSDL: MsdlConfig = MsdlConfig {
    first_vci: 1,
    circuits: 255,
    hold_ns: 0,
    timeout_ns: 100_000_000,
    queue_max: 1 << 20,
};

pub(super) const fn terms(receives: u16, sends: u16, channel: u8) -> Terms {
    Terms {
        receives,
        sends,
        to: To::Channel(channel),
        max_block: block_max(MSSAR_RING_LEN as u8),
        senders: 1,
    }
}

/// The ring as MSDL has it, and what its work costs.
pub(super) struct Ring {
    pub(super) costs: HostCosts,
    /// Since it was paid for last.
    pub(super) spent: Ps,
    pub(super) charges: Charges,
    pub(super) bug: Option<CbnBug>,
}

impl Access for Ring {
    fn data_len(&self) -> u8 {
        MSSAR_RING_LEN as u8
    }

    fn work(&mut self, work: Work) {
        if self.bug == Some(CbnBug::CellForNothing) && work == Work::ReceiveCell {
            return;
        }
        let cost = self.costs.of(work);
        self.spent = self.spent.plus(cost);
        self.charges.spend(Charge::Work(work), cost);
    }
}
