use serde::{Deserialize, Serialize};

use super::Discard;
use crate::Time;

/// No MID: MIDs have ten bits.
const VACANT: u16 = u16::MAX;

/// What is known of one MID.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Mid {
    /// A PDU is in progress.
    Open(Pdu),
    /// The PDU failed for this reason; its cells go the same way until it ends.
    Failing(Discard),
}

/// A PDU in progress.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Pdu {
    /// When its BOM came.
    pub(super) since: Time,
    /// Of the SDU in the receive buffer.
    pub(super) offset: u32,
    /// Octets of SDU and pad held.
    pub(super) held: u32,
    /// Octets of SDU and pad that there is room for.
    pub(super) room: u32,
    pub(super) extent: u32,
    pub(super) ba_size: u16,
    pub(super) cells: u16,
    pub(super) btag: u8,
    pub(super) next_sn: u8,
    pub(super) mark: u8,
    pub(super) cells_clp1: u16,
}

/// The few MIDs of a VC on which something is in progress. Few, so they are searched in a row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Mids {
    names: Box<[u16]>,
    states: Box<[Mid]>,
}

impl Mids {
    pub(super) fn new(count: u16) -> Self {
        let vacant = Mid::Failing(Discard::MissingBom);
        Self {
            names: vec![VACANT; count.into()].into_boxed_slice(),
            states: vec![vacant; count.into()].into_boxed_slice(),
        }
    }

    /// Octets that [`Mids::new`] allocates.
    pub(super) const fn memory_len(count: u16) -> usize {
        count as usize * (size_of::<u16>() + size_of::<Mid>())
    }

    pub(super) fn find(&self, mid: u16) -> Option<usize> {
        self.names.iter().position(|name| *name == mid)
    }

    /// The state of the slot that [`Mids::find`] or [`Mids::free`] gave.
    pub(super) fn state(&mut self, at: usize) -> &mut Mid {
        &mut self.states[at]
    }

    /// The PDU in progress on `mid`.
    pub(super) fn open_on(&self, mid: u16) -> Option<&Pdu> {
        match self.states.get(self.find(mid)?)? {
            Mid::Open(pdu) => Some(pdu),
            Mid::Failing(_) => None,
        }
    }

    /// A slot of no MID.
    pub(super) fn vacant(&self) -> Option<usize> {
        self.find(VACANT)
    }

    /// A slot for another MID: a vacant one, else one that only remembers a failure.
    pub(super) fn free(&self) -> Option<usize> {
        let failing = || {
            let mut states = self.states.iter();
            states.position(|state| matches!(state, Mid::Failing(_)))
        };
        self.vacant().or_else(failing)
    }

    /// MIDs of PDUs that failed and have not ended, and why, by slot.
    pub(super) fn failing(&self) -> impl Iterator<Item = (u16, Discard)> {
        let pairs = self.names.iter().zip(&self.states);
        pairs.filter_map(|(name, state)| match state {
            Mid::Failing(reason) if *name != VACANT => Some((*name, *reason)),
            Mid::Failing(_) | Mid::Open(_) => None,
        })
    }

    pub(super) fn set(&mut self, at: usize, mid: u16, state: Mid) {
        self.names[at] = mid;
        self.states[at] = state;
    }

    pub(super) fn vacate(&mut self, at: usize) {
        self.set(at, VACANT, Mid::Failing(Discard::MissingBom));
    }

    /// Slots, MIDs and PDUs in progress.
    pub(super) fn open(&self) -> impl Iterator<Item = (usize, u16, &Pdu)> {
        let pairs = self.names.iter().zip(&self.states).enumerate();
        pairs.filter_map(|(at, (name, state))| match state {
            Mid::Open(pdu) => Some((at, *name, pdu)),
            Mid::Failing(_) => None,
        })
    }
}
