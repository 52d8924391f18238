//! B(2): the PCIs of the CPCS.

use crate::aal::tree::{Place, Record};
use crate::terminal::{Kind, Pci};

/// A cyclic list of PCIs, one for each PDU of the window: what the CPCS and its user say of a PDU,
/// and what the disk layer does if it is the first or the last of a disk-PDU. Places are numbers of
/// PDUs, counted from the run's first, modulo the window.
#[derive(Clone, Debug)]
pub(super) struct PciList {
    pcis: Box<[Pci]>,
    records: Box<[u8]>,
    record: Record,
    /// a(2): what is below it is acknowledged, and its place free.
    pub(super) a: u64,
    /// w(2): behind the last PDU whose PCI is complete.
    pub(super) w: u64,
}

/// A PDU's number against the window.
pub(super) enum Standing {
    Below,
    Inside(u64),
    Beyond,
}

impl PciList {
    /// Each PDU of the window may be sent again as often as the window has PDUs before 16 bits of
    /// a serial number come round by half.
    const WINDOW_MAX: u32 = 1 << 13;

    pub(super) fn new(record: Record, window: u32) -> Self {
        let window = window.clamp(1, Self::WINDOW_MAX) as usize;
        let vacant = Pci {
            kind: Kind::Data,
            place: Place::Middle,
            transfer: 0,
            run: 0,
            sequence: 0,
            serial: 0,
            offset: 0,
            length: 0,
        };
        Self {
            pcis: vec![vacant; window].into_boxed_slice(),
            records: vec![0; window * record.len].into_boxed_slice(),
            record,
            a: 0,
            w: 0,
        }
    }

    pub(super) const fn layout(&self) -> Record {
        self.record
    }

    /// PDUs.
    pub(super) fn window(&self) -> u64 {
        self.pcis.len() as u64
    }

    /// Where the number that a PCI bears stands.
    pub(super) fn standing(&self, sequence: u32) -> Standing {
        let ahead = sequence.wrapping_sub(self.a as u32) % Pci::SEQUENCES;
        let behind = Pci::SEQUENCES - ahead;
        if u64::from(ahead) < self.window() {
            Standing::Inside(self.a + u64::from(ahead))
        } else if behind <= Pci::SEQUENCES / 2 && u64::from(behind) <= self.a {
            Standing::Below
        } else {
            Standing::Beyond
        }
    }

    fn at(&self, sequence: u64) -> usize {
        (sequence % self.window()) as usize
    }

    pub(super) fn pci(&self, sequence: u64) -> Pci {
        self.pcis[self.at(sequence)]
    }

    pub(super) fn set(&mut self, sequence: u64, pci: Pci) {
        let at = self.at(sequence);
        self.pcis[at] = pci;
    }

    /// The octets of a PDU's PCIs.
    pub(super) fn record(&self, sequence: u64) -> &[u8] {
        let at = self.at(sequence) * self.record.len;
        &self.records[at..at + self.record.len]
    }

    pub(super) fn record_mut(&mut self, sequence: u64) -> &mut [u8] {
        let at = self.at(sequence) * self.record.len;
        &mut self.records[at..at + self.record.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aal::tree::{Lengths, Tree};
    use crate::contract::Aal;

    #[test]
    fn numbers_go_on_beyond_what_a_pci_can_bear() {
        let lengths = Lengths {
            pci: 24,
            header: 0,
            tail: 0,
        };
        let tree = Tree::new(Aal::Aal5, lengths).unwrap();
        let mut list = PciList::new(tree.record(), 8);
        let inside = |list: &PciList, sequence| match list.standing(sequence) {
            Standing::Inside(sequence) => Some(sequence),
            Standing::Below | Standing::Beyond => None,
        };
        const ROUND: u64 = Pci::SEQUENCES as u64;
        list.a = ROUND - 3;
        assert_eq!(inside(&list, Pci::SEQUENCES - 3), Some(ROUND - 3));
        assert_eq!(inside(&list, 4), Some(ROUND + 4));
        assert!(matches!(list.standing(5), Standing::Beyond));
        assert!(matches!(list.standing(Pci::SEQUENCES - 4), Standing::Below));
        list.a = 3;
        assert!(matches!(list.standing(2), Standing::Below));
        assert!(matches!(
            list.standing(Pci::SEQUENCES - 1),
            Standing::Beyond
        ));
        assert!(matches!(list.standing(1 << 23), Standing::Beyond));
    }
}
