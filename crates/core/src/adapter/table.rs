use serde::{Deserialize, Serialize};

use super::{Discard, PortIndex, VcIndex};
use crate::wire::VpiVci;

/// Addresses of one leaf: the low 14 of the 28 bits.
const LEAF_BITS: u32 = 14;
const LEAF_LEN: usize = 1 << LEAF_BITS;
const LEAF_MASK: u32 = LEAF_LEN as u32 - 1;
/// Leaf 0 is shared by all addresses under which nothing is open, and stays empty.
const EMPTY: u16 = 0;

/// What the table says of one address.
///
/// ```text
///  bits 0-13  14    15         16-21  22             23     24-28
/// +----------+-----+----------+------+--------------+------+--------+
/// | VcIndex  |open |discarding| port | transmit used|strays| reason |
/// +----------+-----+----------+------+--------------+------+--------+
/// ```
///
/// Bit 23 stands at VCI 0, 3 and 4 of every leaf, the empty one too: cells that no VC receives are
/// perhaps more than strangers there. So a stranger costs one test beyond its lookup.
///
/// Whether a VC is discarding until its last cell, and why, stands here, so that a flood on it
/// never touches the VC's own cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    bits: u32,
}

const _: () = assert!(super::Config::VCS_MAX as u32 <= 1 << 14);
const _: () = assert!(super::Config::PORTS_MAX <= 1 << 6);
const _: () = assert!(Discard::ALL.len() <= 1 << 5);

const OPEN: u32 = 1 << 14;
const DISCARDING: u32 = 1 << 15;
const PORT_SHIFT: u32 = 16;
const PORT_MASK: u32 = 0x3f << PORT_SHIFT;
const TRANSMIT: u32 = 1 << 22;
const STRAYS: u32 = 1 << 23;
const REASON_SHIFT: u32 = 24;
const REASON_MASK: u32 = 0x1f << REASON_SHIFT;

impl Entry {
    /// Whether a VC that receives on `port` is open here.
    #[inline(always)]
    pub(super) fn is_open_on(self, port: PortIndex) -> bool {
        self.bits & (OPEN | PORT_MASK) == OPEN | u32::from(port.0) << PORT_SHIFT
    }

    /// Whether a VC that receives on any port is open here.
    #[inline(always)]
    pub(super) fn is_open(self) -> bool {
        self.bits & OPEN != 0
    }

    /// Whether a VC is open here whose cells are not all discarded.
    #[inline(always)]
    pub(super) fn is_accepting(self) -> bool {
        self.bits & (OPEN | DISCARDING) == OPEN
    }

    /// Whether cells that no VC receives here can be fillers, or OAM cells of a path or of a VC
    /// that transmits.
    #[inline(always)]
    pub(super) fn has_known_strays(self) -> bool {
        self.bits & (TRANSMIT | STRAYS) != 0
    }

    /// The VC that receives, if one does.
    #[inline(always)]
    pub(super) fn vc(self) -> VcIndex {
        VcIndex((self.bits & 0x3fff) as u16)
    }

    /// Why the VC is discarding cells until the last of the PDU, if it is.
    #[inline(always)]
    pub(super) fn discarding(self) -> Option<Discard> {
        if self.bits & DISCARDING == 0 {
            return None;
        }
        Discard::ALL
            .get(((self.bits & REASON_MASK) >> REASON_SHIFT) as usize)
            .copied()
    }
}

/// Where an address's entry is; valid while something is open under the address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Slot(u32);

/// The lookup over the whole 28-bit VPI/VCI space: two loads, hit or miss; no address costs memory
/// that is not open.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Table {
    /// Leaf of each block of 16,384 addresses.
    roots: Vec<u16>,
    /// All leaves, one after the other, the empty one first.
    entries: Vec<u32>,
    /// The VC that transmits under each of these addresses, if one does.
    transmitters: Vec<VcIndex>,
    /// Open directions in each leaf.
    used: Vec<u32>,
    free: Vec<u16>,
}

impl Table {
    /// A table in which VCs can be open in `leaves` blocks of 16,384 addresses at once.
    pub(super) fn new(leaves: u16) -> Self {
        let count = usize::from(leaves) + 1;
        let mut entries = vec![0; count * LEAF_LEN];
        for leaf in entries.chunks_exact_mut(LEAF_LEN) {
            // Fillers, and the OAM flows of a path. VCIs 16,384 apart share the mark.
            for vci in [0, 3, 4] {
                leaf[vci] = STRAYS;
            }
        }
        Self {
            roots: vec![EMPTY; LEAF_LEN],
            entries,
            transmitters: vec![VcIndex(0); count * LEAF_LEN],
            used: vec![0; count],
            free: (1..=leaves).rev().collect(),
        }
    }

    /// The entry of an address.
    #[inline(always)]
    pub(super) fn lookup(&self, address: VpiVci) -> Entry {
        Entry {
            bits: self.entries[self.slot(address)],
        }
    }

    /// The VC that transmits under an address, if one does.
    pub(super) fn transmitter(&self, address: VpiVci) -> Option<VcIndex> {
        let slot = self.slot(address);
        let there = self.entries[slot] & TRANSMIT != 0;
        there.then(|| self.transmitters[slot])
    }

    #[inline(always)]
    fn slot(&self, address: VpiVci) -> usize {
        let bits = address.bits();
        let leaf = self.roots[(bits >> LEAF_BITS) as usize & (LEAF_LEN - 1)];
        (u32::from(leaf) << LEAF_BITS | bits & LEAF_MASK) as usize
    }

    /// Why the VC of `slot` is discarding, if it is.
    pub(super) fn discarding(&self, slot: Slot) -> Option<Discard> {
        Entry {
            bits: self.entries[slot.0 as usize],
        }
        .discarding()
    }

    /// Whether `address` is open for receiving, and whether for transmitting.
    pub(super) fn in_use(&self, address: VpiVci) -> (bool, bool) {
        let bits = self.lookup(address).bits;
        (bits & OPEN != 0, bits & TRANSMIT != 0)
    }

    /// Opens directions of an address that are not open yet. None if no leaf is free.
    pub(super) fn open(
        &mut self,
        address: VpiVci,
        receive: Option<(PortIndex, VcIndex)>,
        transmit: Option<VcIndex>,
    ) -> Option<Slot> {
        let root = (address.bits() >> LEAF_BITS) as usize;
        if self.roots[root] == EMPTY {
            self.roots[root] = self.free.pop()?;
        }
        let leaf = self.roots[root];
        let slot = u32::from(leaf) << LEAF_BITS | address.bits() & LEAF_MASK;
        let entry = &mut self.entries[slot as usize];
        if let Some((port, vc)) = receive {
            *entry &= TRANSMIT | STRAYS;
            *entry |= OPEN | u32::from(port.0) << PORT_SHIFT | u32::from(vc.0);
        }
        if let Some(vc) = transmit {
            *entry |= TRANSMIT;
            self.transmitters[slot as usize] = vc;
        }
        self.used[usize::from(leaf)] +=
            u32::from(receive.is_some()) + u32::from(transmit.is_some());
        Some(Slot(slot))
    }

    /// Closes directions that [`Table::open`] opened.
    pub(super) fn close(&mut self, address: VpiVci, slot: Slot, receive: bool, transmit: bool) {
        let entry = &mut self.entries[slot.0 as usize];
        if receive {
            *entry &= TRANSMIT | STRAYS;
        }
        if transmit {
            *entry &= !TRANSMIT;
        }
        let leaf = (slot.0 >> LEAF_BITS) as u16;
        let used = &mut self.used[usize::from(leaf)];
        *used -= u32::from(receive) + u32::from(transmit);
        if *used == 0 {
            self.roots[(address.bits() >> LEAF_BITS) as usize] = EMPTY;
            self.free.push(leaf);
        }
    }

    /// Lets every cell until the last of the PDU be discarded for `reason`, or (none) lets the
    /// next cell begin a PDU.
    #[inline(always)]
    pub(super) fn set_discarding(&mut self, slot: Slot, reason: Option<Discard>) {
        let entry = &mut self.entries[slot.0 as usize];
        *entry &= !(DISCARDING | REASON_MASK);
        if let Some(reason) = reason {
            *entry |= DISCARDING | (reason as u32) << REASON_SHIFT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(vpi: u16, vci: u16) -> VpiVci {
        VpiVci::new(vpi, vci).unwrap()
    }

    #[test]
    fn finds_a_vc_on_its_own_port_only() {
        let mut table = Table::new(1);
        let slot = table
            .open(address(3, 100), Some((PortIndex(2), VcIndex(7))), None)
            .unwrap();
        let entry = table.lookup(address(3, 100));
        assert!(entry.is_open_on(PortIndex(2)));
        assert!(!entry.is_open_on(PortIndex(1)));
        assert_eq!(entry.vc(), VcIndex(7));
        assert!(!table.lookup(address(3, 101)).is_open_on(PortIndex(2)));
        table.close(address(3, 100), slot, true, false);
        assert!(!table.lookup(address(3, 100)).is_open_on(PortIndex(2)));
    }

    #[test]
    fn needs_a_free_leaf_for_each_block_and_gives_it_back() {
        let mut table = Table::new(1);
        let slot = table.open(address(0, 100), None, Some(VcIndex(3))).unwrap();
        assert!(
            table
                .open(address(1, 100), None, Some(VcIndex(3)))
                .is_none()
        );
        assert_eq!(table.lookup(address(1, 100)), Entry { bits: 0 });
        table.close(address(0, 100), slot, false, true);
        assert!(
            table
                .open(address(1, 100), None, Some(VcIndex(3)))
                .is_some()
        );
    }

    #[test]
    fn directions_of_one_address_come_and_go_alone() {
        let mut table = Table::new(2);
        let there = address(5, 5);
        let transmit = table.open(there, None, Some(VcIndex(3))).unwrap();
        let receive = table
            .open(there, Some((PortIndex(0), VcIndex(1))), None)
            .unwrap();
        assert_eq!(table.in_use(there), (true, true));
        assert_eq!(table.transmitter(there), Some(VcIndex(3)));
        assert_eq!(table.transmitter(address(5, 6)), None);
        table.close(there, receive, true, false);
        assert_eq!(table.in_use(there), (false, true));
        table.close(there, transmit, false, true);
        assert_eq!(table.in_use(there), (false, false));
        assert_eq!(table.transmitter(there), None);
    }

    #[test]
    fn discarding_names_its_reason_and_leaves_the_rest_alone() {
        let mut table = Table::new(1);
        let slot = table
            .open(
                address(0, 33),
                Some((PortIndex(1), VcIndex(9))),
                Some(VcIndex(9)),
            )
            .unwrap();
        for reason in Discard::ALL {
            table.set_discarding(slot, Some(reason));
            let entry = table.lookup(address(0, 33));
            assert_eq!(entry.discarding(), Some(reason));
            assert!(entry.is_open_on(PortIndex(1)));
            assert_eq!(entry.vc(), VcIndex(9));
        }
        table.set_discarding(slot, None);
        assert_eq!(table.lookup(address(0, 33)).discarding(), None);
    }

    #[test]
    fn strays_are_looked_at_where_they_can_be_more_than_strangers() {
        let mut table = Table::new(1);
        let known = |table: &Table, vpi, vci| table.lookup(address(vpi, vci)).has_known_strays();
        for vpi in [0, 7] {
            let found = (0..200).filter(|&vci| known(&table, vpi, vci));
            assert_eq!(found.collect::<Vec<_>>(), [0, 3, 4]);
        }
        // Also after VCs have come and gone.
        for vci in [3, 100] {
            let receive = Some((PortIndex(0), VcIndex(1)));
            let slot = table
                .open(address(7, vci), receive, Some(VcIndex(2)))
                .unwrap();
            assert!(known(&table, 7, vci));
            table.close(address(7, vci), slot, true, true);
            assert_eq!(known(&table, 7, vci), vci == 3);
        }
    }

    #[test]
    fn the_whole_address_space_misses_without_growing() {
        let table = Table::new(1);
        let before = table.entries.len();
        for bits in (0..1u32 << 28).step_by(4_099) {
            assert!(
                !table
                    .lookup(VpiVci::from_bits(bits))
                    .is_open_on(PortIndex(0))
            );
        }
        assert_eq!(table.entries.len(), before);
    }
}
