//! The network below as a host's MSDL has it.

use std::collections::BTreeMap;

use cellgate_core::Time;
use cellgate_core::aal::mssar::block_max;
use cellgate_core::upper::msna::{Access, Association, Msdl, MsdlConfig, Terms, To, Work};
use cellgate_core::wire::MSSAR_RING_LEN;

use super::{Charge, Charges, HostCosts};
use crate::cbn::CbnBug;
use crate::world::Ps;

/// The room of a host for associations, none of which ends.
pub(in crate::machine) const MSDL: MsdlConfig = MsdlConfig {
    first_vci: 1,
    circuits: 255,
    hold_ns: 0,
    timeout_ns: 100_000_000,
    queue_max: 1 << 20,
};

/// The terms of blocks as long as a block may be.
pub(in crate::machine) const fn terms(receives: u16, sends: u16, to: To) -> Terms {
    Terms {
        receives,
        sends,
        to,
        max_block: block_max(MSSAR_RING_LEN as u8),
        senders: 1,
    }
}

/// The associations of a host's destinations.
#[derive(Default)]
pub(in crate::machine) struct Destinations(BTreeMap<(u16, To), Association>);

impl Destinations {
    /// That of a destination, begun with its first block; none: no circuit is left.
    pub(in crate::machine) fn of(
        &mut self,
        (vci, to): (u16, To),
        (now, msdl, below): (Time, &mut Msdl, &Below),
    ) -> Option<Association> {
        if let Some(association) = self.0.get(&(vci, to)) {
            return Some(*association);
        }
        let own = msdl.free_vci(now)?;
        let association = msdl.begin(now, below, terms(own, vci, to))?;
        self.0.insert((vci, to), association);
        Some(association)
    }
}

/// The network below MSDL, and the cost of MSDL's work.
pub(in crate::machine) struct Below {
    /// Octets of a block in a cell; none: blocks go whole.
    pub(in crate::machine) data_len: Option<u8>,
    pub(in crate::machine) channels: u8,
    pub(in crate::machine) costs: HostCosts,
    /// Since it was paid for last.
    pub(in crate::machine) spent: Ps,
    pub(in crate::machine) charges: Charges,
    pub(in crate::machine) bug: Option<CbnBug>,
}

impl Below {
    /// A ring's channels.
    pub(super) fn ring(channels: u8, costs: HostCosts) -> Self {
        Self {
            data_len: Some(MSSAR_RING_LEN as u8),
            channels,
            ..Self::packets(costs)
        }
    }

    /// Packets with room for a block.
    pub(in crate::machine) fn packets(costs: HostCosts) -> Self {
        Self {
            data_len: None,
            channels: 1,
            costs,
            spent: Ps::ZERO,
            charges: Charges::default(),
            bug: None,
        }
    }
}

impl Access for Below {
    fn data_len(&self) -> Option<u8> {
        self.data_len
    }

    fn channels(&self) -> u8 {
        self.channels
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
