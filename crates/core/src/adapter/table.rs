use serde::{Deserialize, Serialize};

use super::{Discard, PortIndex, VcIndex};
use crate::wire::VpiVci;

/// Addresses of one leaf: the low 14 of the 28 bits.
const LEAF_BITS: u32 = super::Config::BLOCK_BITS;
const LEAF_LEN: usize = 1 << LEAF_BITS;
const LEAF_MASK: u32 = LEAF_LEN as u32 - 1;
/// Leaf 0 is shared by all addresses under which nothing is open, and stays empty.
const EMPTY: u16 = 0;

/// What the table says of one address.
///
/// ```text
///  bits 0-13  14    15         16-21  22             23     24-28
/// +----------+-----+----------+------+--------------+------+--------+
/// | VcIndex  |open |discarding|  0   | transmit used|strays| reason |
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
const _: () = assert!(Discard::ALL.len() <= 1 << 5);

const OPEN: u32 = 1 << 14;
const DISCARDING: u32 = 1 << 15;
const TRANSMIT: u32 = 1 << 22;
const STRAYS: u32 = 1 << 23;
const REASON_SHIFT: u32 = 24;
const REASON_MASK: u32 = 0x1f << REASON_SHIFT;

impl Entry {
    /// Whether a VC that receives is open here.
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

/// The lookup over the whole 28-bit VPI/VCI space of each port: two loads, hit or miss; no address
/// costs memory that is not open.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Table {
    /// Leaf of each block of 16,384 addresses, port by port.
    roots: Vec<u16>,
    /// All leaves of all ports, one after the other, the empty one first.
    entries: Vec<u32>,
    /// The index of the VC that transmits under each of these addresses, if one does.
    transmitters: Vec<u16>,
    /// Open directions in each leaf.
    used: Vec<u32>,
    free: Vec<u16>,
}

impl Table {
    /// A table of so many ports, in which VCs can be open in `leaves` blocks of 16,384 addresses
    /// at once, those of all ports together.
    pub(super) fn new(ports: usize, leaves: u16) -> Self {
        let count = usize::from(leaves) + 1;
        let mut table = Self {
            roots: vec![EMPTY; ports * LEAF_LEN],
            // All zero: of a leaf that is never used, no page is touched.
            entries: vec![0; count * LEAF_LEN],
            transmitters: vec![0; count * LEAF_LEN],
            used: vec![0; count],
            free: (1..=leaves).rev().collect(),
        };
        table.mark_strays(EMPTY);
        table
    }

    /// Marks fillers and the OAM flows of a path. VCIs 16,384 apart share the mark.
    fn mark_strays(&mut self, leaf: u16) {
        let first = usize::from(leaf) << LEAF_BITS;
        for vci in [0, 3, 4] {
            self.entries[first + vci] |= STRAYS;
        }
    }

    /// The entry of an address of `port`, which must be one of the table's.
    #[inline(always)]
    pub(super) fn lookup(&self, port: PortIndex, address: VpiVci) -> Entry {
        Entry {
            bits: self.entries[self.slot(port, address)],
        }
    }

    /// The VC that transmits under an address of `port`, if one does.
    pub(super) fn transmitter(&self, port: PortIndex, address: VpiVci) -> Option<VcIndex> {
        let slot = self.slot(port, address);
        let there = self.entries[slot] & TRANSMIT != 0;
        there.then(|| VcIndex(self.transmitters[slot]))
    }

    #[inline(always)]
    fn slot(&self, port: PortIndex, address: VpiVci) -> usize {
        let leaf = self.roots[root(port, address)];
        (u32::from(leaf) << LEAF_BITS | address.bits() & LEAF_MASK) as usize
    }

    /// Why the VC of `slot` is discarding, if it is.
    pub(super) fn discarding(&self, slot: Slot) -> Option<Discard> {
        Entry {
            bits: self.entries[slot.0 as usize],
        }
        .discarding()
    }

    /// Whether an address of `port` is open for receiving, and whether for transmitting.
    pub(super) fn in_use(&self, port: PortIndex, address: VpiVci) -> (bool, bool) {
        let bits = self.lookup(port, address).bits;
        (bits & OPEN != 0, bits & TRANSMIT != 0)
    }

    /// Opens directions of an address of `port` that are not open yet. None if no leaf is free.
    pub(super) fn open(
        &mut self,
        port: PortIndex,
        address: VpiVci,
        receive: Option<VcIndex>,
        transmit: Option<VcIndex>,
    ) -> Option<Slot> {
        let root = root(port, address);
        if self.roots[root] == EMPTY {
            let leaf = self.free.pop()?;
            self.mark_strays(leaf);
            self.roots[root] = leaf;
        }
        let leaf = self.roots[root];
        let slot = u32::from(leaf) << LEAF_BITS | address.bits() & LEAF_MASK;
        let entry = &mut self.entries[slot as usize];
        if let Some(vc) = receive {
            *entry &= TRANSMIT | STRAYS;
            *entry |= OPEN | u32::from(vc.0);
        }
        if let Some(vc) = transmit {
            *entry |= TRANSMIT;
            self.transmitters[slot as usize] = vc.0;
        }
        self.used[usize::from(leaf)] +=
            u32::from(receive.is_some()) + u32::from(transmit.is_some());
        Some(Slot(slot))
    }

    /// Closes directions that [`Table::open`] opened.
    pub(super) fn close(
        &mut self,
        port: PortIndex,
        address: VpiVci,
        slot: Slot,
        receive: bool,
        transmit: bool,
    ) {
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
            self.roots[root(port, address)] = EMPTY;
            self.free.push(leaf);
        }
    }

    /// Leaves that no port's block has.
    pub(super) fn free_leaves(&self) -> usize {
        self.free.len()
    }

    /// A leaf less to give: a bug on purpose.
    pub(super) fn lose_leaf(&mut self) {
        self.free.pop();
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

/// Where in the roots the leaf of an address of `port` is named.
#[inline(always)]
fn root(port: PortIndex, address: VpiVci) -> usize {
    let block = (address.bits() >> LEAF_BITS) as usize & (LEAF_LEN - 1);
    usize::from(port.0) << LEAF_BITS | block
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: PortIndex = PortIndex(1);

    fn address(vpi: u16, vci: u16) -> VpiVci {
        VpiVci::new(vpi, vci).unwrap()
    }

    #[test]
    fn an_address_is_another_vcs_on_each_port() {
        let mut table = Table::new(3, 2);
        let there = address(3, 100);
        let ports = [PortIndex(0), PortIndex(2)];
        let vcs = [VcIndex(7), VcIndex(8)];
        let slots: Vec<_> = (0..2)
            .map(|at| table.open(ports[at], there, Some(vcs[at]), Some(vcs[at])))
            .map(Option::unwrap)
            .collect();
        for at in 0..2 {
            assert!(table.lookup(ports[at], there).is_open());
            assert_eq!(table.lookup(ports[at], there).vc(), vcs[at]);
            assert_eq!(table.transmitter(ports[at], there), Some(vcs[at]));
            assert!(!table.lookup(ports[at], address(3, 101)).is_open());
        }
        assert_eq!(table.in_use(PORT, there), (false, false));
        assert_eq!(table.lookup(PORT, there), Entry { bits: 0 });
        // What one of them does shows on no other port.
        table.set_discarding(slots[0], Some(Discard::CrcError));
        assert_eq!(table.lookup(ports[1], there).discarding(), None);
        table.close(ports[0], there, slots[0], true, true);
        assert_eq!(table.in_use(ports[0], there), (false, false));
        assert_eq!(table.in_use(ports[1], there), (true, true));
        assert_eq!(table.lookup(ports[1], there).vc(), vcs[1]);
    }

    #[test]
    fn needs_a_free_leaf_for_each_block_of_a_port_and_gives_it_back() {
        let mut table = Table::new(2, 1);
        let vc = Some(VcIndex(3));
        let blocks = [
            (PORT, address(0, 100)),
            (PORT, address(1, 100)),
            (PortIndex(0), address(0, 100)),
        ];
        for open in blocks {
            let slot = table.open(open.0, open.1, None, vc).unwrap();
            for other in blocks.into_iter().filter(|other| *other != open) {
                assert!(table.open(other.0, other.1, None, vc).is_none());
                assert_eq!(table.lookup(other.0, other.1), Entry { bits: 0 });
            }
            table.close(open.0, open.1, slot, false, true);
        }
    }

    #[test]
    fn directions_of_one_address_come_and_go_alone() {
        let mut table = Table::new(2, 2);
        let there = address(5, 5);
        let transmit = table.open(PORT, there, None, Some(VcIndex(3))).unwrap();
        let receive = table.open(PORT, there, Some(VcIndex(1)), None).unwrap();
        assert_eq!(table.in_use(PORT, there), (true, true));
        assert_eq!(table.transmitter(PORT, there), Some(VcIndex(3)));
        assert_eq!(table.transmitter(PORT, address(5, 6)), None);
        table.close(PORT, there, receive, true, false);
        assert_eq!(table.in_use(PORT, there), (false, true));
        table.close(PORT, there, transmit, false, true);
        assert_eq!(table.in_use(PORT, there), (false, false));
        assert_eq!(table.transmitter(PORT, there), None);
    }

    #[test]
    fn discarding_names_its_reason_and_leaves_the_rest_alone() {
        let mut table = Table::new(2, 1);
        let (there, vc) = (address(0, 33), Some(VcIndex(9)));
        let slot = table.open(PORT, there, vc, vc).unwrap();
        for reason in Discard::ALL {
            table.set_discarding(slot, Some(reason));
            let entry = table.lookup(PORT, there);
            assert_eq!(entry.discarding(), Some(reason));
            assert!(entry.is_open());
            assert_eq!(entry.vc(), VcIndex(9));
        }
        table.set_discarding(slot, None);
        assert_eq!(table.lookup(PORT, there).discarding(), None);
    }

    #[test]
    fn strays_are_looked_at_where_they_can_be_more_than_strangers() {
        let mut table = Table::new(2, 1);
        let known =
            |table: &Table, vpi, vci| table.lookup(PORT, address(vpi, vci)).has_known_strays();
        for vpi in [0, 7] {
            let found = (0..200).filter(|&vci| known(&table, vpi, vci));
            assert_eq!(found.collect::<Vec<_>>(), [0, 3, 4]);
        }
        // Also after VCs have come and gone.
        for vci in [3, 100] {
            let (receive, transmit) = (Some(VcIndex(1)), Some(VcIndex(2)));
            let slot = table
                .open(PORT, address(7, vci), receive, transmit)
                .unwrap();
            assert!([0, 3, 4, vci].iter().all(|vci| known(&table, 7, *vci)));
            assert!(!known(&table, 7, 5));
            table.close(PORT, address(7, vci), slot, true, true);
            assert_eq!(known(&table, 7, vci), vci == 3);
        }
    }

    #[test]
    fn the_whole_address_space_misses_without_growing() {
        let table = Table::new(2, 1);
        let before = table.entries.len();
        for port in [PortIndex(0), PORT] {
            for bits in (0..1u32 << 28).step_by(4_099) {
                assert!(!table.lookup(port, VpiVci::from_bits(bits)).is_open());
            }
        }
        assert_eq!(table.entries.len(), before);
    }
}
