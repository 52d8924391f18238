//! PDUs that a caller holds, by number.

use client::Pdu;

/// PDUs that a connection can hold at once: `CG_HELD_MAX`.
pub(crate) const HELD_MAX: u32 = 1_024;

/// Places for held PDUs, made at once. The number of a PDU is its place and how often that was
/// used before, so that a number that was released is not another PDU's for long.
pub(crate) struct Held {
    places: Vec<(u32, Option<Pdu<'static>>)>,
    free: Vec<u32>,
}

impl Held {
    pub(crate) fn new() -> Self {
        Self {
            places: (0..HELD_MAX).map(|_| (0, None)).collect(),
            free: (0..HELD_MAX).rev().collect(),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Keeps a PDU; its number, if there is a place.
    pub(crate) fn keep(&mut self, pdu: Pdu<'static>) -> Option<u32> {
        let place = self.free.pop()?;
        let (uses, kept) = self.places.get_mut(place as usize)?;
        *kept = Some(pdu);
        Some(place | (*uses).wrapping_mul(HELD_MAX))
    }

    /// Gives a PDU up, if it is held.
    pub(crate) fn give_up(&mut self, number: u32) -> Option<Pdu<'static>> {
        let place = number % HELD_MAX;
        let (uses, kept) = self.places.get_mut(place as usize)?;
        if uses.wrapping_mul(HELD_MAX) | place != number {
            return None;
        }
        let pdu = kept.take()?;
        *uses = uses.wrapping_add(1);
        self.free.push(place);
        Some(pdu)
    }
}
