//! The cells of test SDUs.

use cellgate_core::Time;
use cellgate_core::aal::aal5::Segmenter;
use cellgate_core::wire::{Header, PAYLOAD_LEN, Pti, VpiVci};
use cellgate_simd::{Fold, Kernel, with_features};

use super::plan::{FORMAT, PDU_CELLS, SDU};
use crate::live::sdu::{Name, fill};

/// Makes the cells of one connection's PDUs, one PDU at a time.
#[derive(Debug)]
pub(crate) struct PduMaker {
    header: Header,
    staging: Vec<u8>,
    cells: Vec<u8>,
}

impl PduMaker {
    /// For PDUs of `address`.
    pub(crate) fn new(address: VpiVci) -> Self {
        let pti = Pti::User {
            congested: false,
            last: false,
        };
        Self {
            header: Header::new(address, pti, false),
            staging: vec![0; PDU_CELLS * PAYLOAD_LEN],
            cells: vec![0; PDU_CELLS * FORMAT.stride()],
        }
    }

    /// Makes the cells of the PDU that carries the SDU of `name`, sent at `now`.
    pub(crate) fn make(&mut self, name: Name, now: Time) {
        with_features(Making {
            maker: self,
            name,
            now,
        });
    }

    /// The cells made last.
    pub(crate) fn made(&self) -> &[u8] {
        &self.cells
    }
}

struct Making<'a> {
    maker: &'a mut PduMaker,
    name: Name,
    now: Time,
}

impl Kernel for Making<'_> {
    type Output = ();

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) {
        let PduMaker {
            header,
            staging,
            cells,
        } = self.maker;
        fill(&mut staging[..SDU as usize], self.name, self.now);
        //  Staging has room for the PDU by construction, so there always is a segmenter.
        if let Some(mut pdu) = Segmenter::seal(fold, staging, SDU as u16, 0, 0, *header) {
            pdu.emit_cells(staging, FORMAT, cells);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_cells_are_a_pdu() {
        let mut maker = PduMaker::new(VpiVci::from_bits(100));
        let name = Name { flow: 7, number: 9 };
        let now = Time::from_ns(42);
        maker.make(name, now);
        let cells = maker.made();
        assert_eq!(cells.len(), PDU_CELLS * 52);
        let payloads: Vec<u8> = cells
            .chunks(52)
            .flat_map(|cell| &cell[4..])
            .copied()
            .collect();
        let mut sdu = vec![0; SDU as usize];
        fill(&mut sdu, name, now);
        assert_eq!(payloads[..SDU as usize], sdu);
        let last: Vec<bool> = cells
            .chunks(52)
            .map(|cell| Header::parse([cell[0], cell[1], cell[2], cell[3]]).is_last())
            .collect();
        assert_eq!(last.iter().position(|last| *last), Some(PDU_CELLS - 1));
    }
}
