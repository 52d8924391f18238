//! What VCs a capture names, and how much of an adapter they need.

use std::collections::BTreeSet;

use cellgate_core::wire::{
    CELL_LEN, Cell, HeaderForm, HeaderKind, HecReceiver, HecVerdict, VpiVci,
};

/// VCIs that name no VC: 0, and the OAM flows of the path (I.361).
const NO_VC: [u16; 3] = [0, 3, 4];
/// VCs that are opened: so much memory is bounded, whatever a file says.
const VCS_MAX: usize = 1_024;
/// Addresses that share their first 14 bits share a block of the adapter's table.
const BLOCK_BITS: u32 = 14;

/// The VCs of a capture.
pub(super) struct Survey {
    form: HeaderForm,
    vcs: BTreeSet<VpiVci>,
    beyond: BTreeSet<VpiVci>,
    start_ns: Option<u64>,
}

impl Survey {
    pub(super) fn new(form: HeaderForm) -> Self {
        Self {
            form,
            vcs: BTreeSet::new(),
            beyond: BTreeSet::new(),
            start_ns: None,
        }
    }

    /// Looks at the cells of one record. A damaged header names no VC.
    pub(super) fn look(&mut self, cells: &[[u8; CELL_LEN]], time_ns: Option<u64>) {
        self.start_ns = self.start_ns.or(time_ns);
        for octets in cells {
            let (HecVerdict::Valid, Some(cell)) =
                Cell::parse_with_hec(octets, &mut HecReceiver::new())
            else {
                continue;
            };
            let address = cell.header.address(self.form);
            let assigned = cell.header.kind(self.form) == HeaderKind::Assigned;
            if !assigned || NO_VC.contains(&address.vci()) || self.vcs.contains(&address) {
                continue;
            }
            if self.vcs.len() < VCS_MAX {
                self.vcs.insert(address);
            } else if self.beyond.len() < VCS_MAX {
                self.beyond.insert(address);
            }
        }
    }

    /// The VCs to open.
    pub(super) fn vcs(&self) -> impl ExactSizeIterator<Item = VpiVci> {
        self.vcs.iter().copied()
    }

    /// Whether there are more, which are not opened.
    pub(super) fn is_cut(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// Blocks of the adapter's table that the VCs are in.
    pub(super) fn blocks(&self) -> usize {
        let blocks = self.vcs.iter().map(|vc| vc.bits() >> BLOCK_BITS);
        blocks.collect::<BTreeSet<_>>().len()
    }

    /// The first time of the capture.
    pub(super) const fn start_ns(&self) -> Option<u64> {
        self.start_ns
    }
}
