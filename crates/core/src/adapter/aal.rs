use serde::{Deserialize, Serialize};

use crate::contract::TrafficContract;

/// How the cells of a VC make up PDUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aal {
    /// Every cell is an SDU of 52 octets.
    Aal0,
    /// I.363.5.
    Aal5,
    /// I.363.3.
    Aal34(Interleaving),
}

/// PDUs of AAL3/4 in progress at once on one VC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Interleaving {
    /// PDUs, each with a MID of its own: 1 to [`Interleaving::MIDS_MAX`]. Each may take the room of
    /// the largest SDU.
    pub mids: u16,
    /// From the first cell of a PDU to its last; then it is given up, or a lost last cell would
    /// keep the space of everything behind it for ever. 0 for no limit.
    pub reassembly_timeout_ns: u64,
}

impl Interleaving {
    /// The most PDUs in progress on one VC: a cell is looked for among all of them.
    pub const MIDS_MAX: u16 = TrafficContract::MIDS_MAX as u16;
}

impl Aal {
    /// Of AAL3/4.
    pub const fn interleaving(self) -> Option<Interleaving> {
        match self {
            Self::Aal34(interleaving) => Some(interleaving),
            Self::Aal0 | Self::Aal5 => None,
        }
    }

    /// Whether it is the same but for numbers.
    pub(super) fn is_kind_of(self, other: Self) -> bool {
        core::mem::discriminant(&self) == core::mem::discriminant(&other)
    }
}
