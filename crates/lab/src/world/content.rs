//! What is in SDUs: whose it is and which, and octets that follow from that, so that a reader can
//! check every one of them.

use cellgate_core::aal::aal5::Segmenter;
use cellgate_core::contract::aal5_cells;
use cellgate_core::wire::{CELL_LEN, CellFormat, Header, PAYLOAD_LEN, Pti, VpiVci};
use cellgate_simd::{Fold, Kernel, with_features};

use super::scenario::SourceSpec;

/// Begins of noise that an SDU can have; and beyond the last, as much as the longest SDU.
const BEGINS: usize = 1 << 16;
const OWN: usize = SourceSpec::SDU_MIN as usize;

/// The octets of all SDUs.
#[derive(Debug)]
pub(crate) struct Content {
    noise: Box<[u8]>,
}

impl Default for Content {
    fn default() -> Self {
        let mut state = 0x1995_u64;
        let noise = (0..2 * BEGINS).map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        Self {
            noise: noise.collect(),
        }
    }
}

impl Content {
    fn noise(&self, connection: u32, number: u64, len: usize) -> &[u8] {
        let place = (number ^ u64::from(connection) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let begin = (place >> 48) as usize;
        &self.noise[begin..begin + len]
    }

    /// SDU `number` of a connection, at least [`SourceSpec::SDU_MIN`] octets.
    pub(crate) fn fill(&self, connection: u32, number: u64, sdu: &mut [u8]) {
        let (own, rest) = sdu.split_at_mut(OWN);
        own[..8].copy_from_slice(&number.to_le_bytes());
        own[8..].copy_from_slice(&connection.to_le_bytes());
        rest.copy_from_slice(self.noise(connection, number, rest.len()));
    }

    /// The number of an SDU that a connection has brought. None: it is none of its SDUs.
    pub(crate) fn number(&self, connection: u32, sdu: &[u8]) -> Option<u64> {
        let (own, rest) = sdu.split_at_checked(OWN)?;
        let number = u64::from_le_bytes(*own.first_chunk()?);
        let whose = own[8..] == connection.to_le_bytes();
        (whose && rest == self.noise(connection, number, rest.len())).then_some(number)
    }
}

/// The cells of an AAL5 PDU on a line.
#[derive(Debug, Default)]
pub(crate) struct Pdu {
    staging: Vec<u8>,
    cells: Vec<u8>,
}

struct Seal<'a> {
    staging: &'a mut [u8],
    len: u16,
    header: Header,
}

impl Kernel for Seal<'_> {
    type Output = Option<Segmenter>;

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) -> Self::Output {
        Segmenter::seal(fold, self.staging, self.len, 0, 0, self.header)
    }
}

impl Pdu {
    /// Makes SDU `number` of `len` octets into cells.
    pub(crate) fn make(
        &mut self,
        content: &Content,
        (connection, number): (u32, u64),
        address: VpiVci,
        len: u16,
    ) {
        let cells = aal5_cells(len.into()) as usize;
        self.staging.resize(cells * PAYLOAD_LEN, 0);
        self.cells.resize(cells * CELL_LEN, 0);
        content.fill(connection, number, &mut self.staging[..usize::from(len)]);
        let pti = Pti::User {
            congested: false,
            last: false,
        };
        let header = Header::new(address, pti, false);
        let staging = &mut self.staging;
        let sealed = with_features(Seal {
            staging,
            len,
            header,
        });
        if let Some(mut segmenter) = sealed {
            segmenter.emit_cells(&self.staging, CellFormat::WithHec, &mut self.cells);
        }
    }

    /// The cells.
    pub(crate) fn cells(&self) -> &[[u8; CELL_LEN]] {
        self.cells.as_chunks().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_octets_have_a_number() {
        let content = Content::default();
        let mut sdu = [0; 500];
        for len in [OWN, OWN + 1, 500] {
            content.fill(7, 1 << 40, &mut sdu[..len]);
            assert_eq!(content.number(7, &sdu[..len]), Some(1 << 40));
            assert_eq!(content.number(8, &sdu[..len]), None);
            assert_eq!(content.number(7, &sdu[..len - 1]).is_some(), len > OWN);
        }
        sdu[300] ^= 1;
        assert_eq!(content.number(7, &sdu), None);
    }
}
