//! What VCs a capture names, and how much of an adapter they need.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::wire::{
    CELL_LEN, Cell, Checked, CpcsHeader, CpcsTrailer, HeaderForm, HeaderKind, HecReceiver,
    HecVerdict, PAYLOAD_LEN, Pti, SAR_PAYLOAD_LEN, SarPdu, SegmentType, VpiVci,
};

/// Whatever a line is, the shunter makes cells of this form.
pub(super) const FORM: HeaderForm = HeaderForm::Nni;
/// VCIs that name no VC: 0, and the OAM flows of the path (I.361).
const NO_VC: [u16; 3] = [0, 3, 4];
/// VCs that are opened: so much memory is bounded, whatever a file says.
const VCS_MAX: usize = 1_024;
/// Addresses that share their first 14 bits share a block of the adapter's table.
const BLOCK_BITS: u32 = 14;

/// What the cells of a VC look like.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    /// Cells of user data.
    user_cells: u64,
    /// Of these, those that can be of AAL3/4.
    aal34_cells: u64,
    /// A bit for each MID of these.
    mids: [u64; (SarPdu::MIDS / 64) as usize],
}

impl Look {
    fn add(&mut self, cell: &Cell) {
        let Pti::User { last, .. } = cell.header.pti() else {
            return;
        };
        self.user_cells += 1;
        // Every PDU of AAL5 has a last cell, none of AAL3/4 has one that says so in its header.
        if let (false, Some(mid)) = (last, mid_of(&cell.payload)) {
            self.aal34_cells += 1;
            self.mids[usize::from(mid / 64)] |= 1 << (mid % 64);
        }
    }

    /// Whether most of the cells can be of AAL3/4. Of random ones hardly one in 10,000 can.
    pub(super) const fn is_aal34(&self) -> bool {
        2 * self.aal34_cells > self.user_cells
    }

    /// How many MIDs of AAL3/4 there are.
    pub(super) fn mids(&self) -> u16 {
        let ones = self.mids.iter().map(|word| word.count_ones() as u16);
        ones.sum()
    }
}

/// The MID, if the payload can be a cell of AAL3/4: its CRC-10 is right, and its length indicator
/// one that its place in the PDU allows.
fn mid_of(payload: &[u8; PAYLOAD_LEN]) -> Option<u16> {
    const FULL: usize = SAR_PAYLOAD_LEN;
    let Checked { value, crc_valid } = SarPdu::parse(payload);
    let shortest = match value.segment_type {
        SegmentType::Bom | SegmentType::Com => FULL,
        SegmentType::Eom => CpcsTrailer::LEN,
        SegmentType::Ssm => CpcsHeader::LEN + CpcsTrailer::LEN,
    };
    let li = usize::from(value.li);
    let aborts = value.segment_type == SegmentType::Eom && value.li == SarPdu::ABORT;
    let fits = (shortest..=FULL).contains(&li) && li.is_multiple_of(4) || aborts;
    (crc_valid && fits).then_some(value.mid)
}

/// The VCs of a capture.
#[derive(Default)]
pub(super) struct Survey {
    vcs: BTreeMap<VpiVci, Look>,
    beyond: BTreeSet<VpiVci>,
    start_ns: Option<u64>,
}

impl Survey {
    /// Looks at the cells of one record. A damaged header names no VC.
    pub(super) fn look(&mut self, cells: &[[u8; CELL_LEN]], time_ns: Option<u64>) {
        self.start_ns = self.start_ns.or(time_ns);
        for octets in cells {
            let (HecVerdict::Valid, Some(cell)) =
                Cell::parse_with_hec(octets, &mut HecReceiver::new())
            else {
                continue;
            };
            let address = cell.header.address(FORM);
            let assigned = cell.header.kind(FORM) == HeaderKind::Assigned;
            if !assigned || NO_VC.contains(&address.vci()) {
                continue;
            }
            if self.vcs.len() < VCS_MAX || self.vcs.contains_key(&address) {
                self.vcs.entry(address).or_default().add(&cell);
            } else if self.beyond.len() < VCS_MAX {
                self.beyond.insert(address);
            }
        }
    }

    /// The VCs to open, and what their cells look like.
    pub(super) fn vcs(&self) -> impl ExactSizeIterator<Item = (VpiVci, &Look)> {
        self.vcs.iter().map(|(address, look)| (*address, look))
    }

    /// Whether there are more, which are not opened.
    pub(super) fn is_cut(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// Blocks of the adapter's table that the VCs are in.
    pub(super) fn blocks(&self) -> usize {
        let blocks = self.vcs.keys().map(|vc| vc.bits() >> BLOCK_BITS);
        blocks.collect::<BTreeSet<_>>().len()
    }

    /// The first time of the capture.
    pub(super) const fn start_ns(&self) -> Option<u64> {
        self.start_ns
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::wire::SegmentType::{Bom, Com, Eom, Ssm};

    use super::*;

    const ADDRESS: VpiVci = VpiVci::from_bits(100);

    fn sar(segment_type: SegmentType, mid: u16, li: u8) -> [u8; PAYLOAD_LEN] {
        let (sn, payload) = (0, [1; SAR_PAYLOAD_LEN]);
        let sar = SarPdu {
            segment_type,
            sn,
            mid,
            payload,
            li,
        };
        sar.emit()
    }

    fn look(payloads: &[[u8; PAYLOAD_LEN]]) -> Look {
        let mut look = Look::default();
        for payload in payloads {
            look.add(&Cell::user(ADDRESS, false, *payload));
        }
        look
    }

    #[test]
    fn most_cells_of_user_data_decide() {
        let (good, other) = (sar(Com, 1, 44), [0x55; PAYLOAD_LEN]);
        assert!(look(&[good]).is_aal34());
        assert!(look(&[good, good, other]).is_aal34());
        assert!(!look(&[good, other]).is_aal34());
        assert!(!look(&[]).is_aal34());
        let mut last = Look::default();
        last.add(&Cell::user(ADDRESS, true, good));
        assert!(!last.is_aal34(), "a last cell is of AAL5");
    }

    #[test]
    fn a_right_crc_alone_makes_no_cell_of_aal34() {
        assert!(!look(&[[0; PAYLOAD_LEN]]).is_aal34());
        for (segment_type, least) in [(Bom, 44), (Com, 44), (Eom, 4), (Ssm, 8)] {
            for li in 0..64 {
                let whole = (least..=44).contains(&li) && li % 4 == 0;
                let aborts = segment_type == Eom && li == 63;
                let seen = look(&[sar(segment_type, 1, li)]).is_aal34();
                assert_eq!(seen, whole || aborts, "{segment_type:?} with LI {li}");
            }
        }
    }

    #[test]
    fn each_mid_counts_once() {
        let cells = [0, 1_023, 63, 64, 1_023].map(|mid| sar(Bom, mid, 44));
        assert_eq!(look(&cells).mids(), 4);
    }
}
