//! What is in SDUs: whose it is and which, and octets that follow from that, so that a reader can
//! check every one of them.

use std::sync::LazyLock;

use cellgate_core::aal::aal5::Segmenter;
use cellgate_core::contract::aal5_cells;
use cellgate_core::wire::{CELL_LEN, Header, PAYLOAD_LEN, Pti, TRAILER_LEN, VpiVci, hec};
use cellgate_simd::{Fold, Kernel, with_features};

use super::scenario::SourceSpec;

/// Begins of noise that an SDU can have; and beyond the last, as much as the longest SDU.
const BEGINS: usize = 1 << 16;
const OWN: usize = SourceSpec::SDU_MIN as usize;

/// Noise, the same in every run.
static NOISE: LazyLock<Box<[u8]>> = LazyLock::new(|| {
    let mut state = 0x1995_u64;
    let noise = (0..2 * BEGINS).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
    noise.collect()
});

/// The octets of all SDUs.
#[derive(Debug)]
pub(crate) struct Content {
    noise: &'static [u8],
    /// The PDU that is being made.
    staging: Vec<u8>,
}

impl Default for Content {
    fn default() -> Self {
        Self {
            noise: &NOISE,
            staging: Vec::new(),
        }
    }
}

impl Content {
    /// Where the noise of an SDU begins.
    fn begin(connection: u32, number: u64) -> usize {
        let place = (number ^ u64::from(connection) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (place >> 48) as usize
    }

    fn noise(&self, connection: u32, number: u64, len: usize) -> &[u8] {
        let begin = Self::begin(connection, number);
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

/// An AAL5 PDU that goes onto a line. Its cells are made when they are due: where thousands are
/// under way, no memory holds the octets of all.
#[derive(Debug, Default)]
pub(crate) struct Pdu {
    /// Of the SDU's noise.
    begin: u32,
    len: u16,
    cells: u16,
    own: [u8; OWN],
    trailer: [u8; TRAILER_LEN],
    /// Of all cells but the last, and of the last.
    headers: [[u8; 5]; 2],
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
    /// Makes SDU `number` of `len` octets into a PDU.
    pub(crate) fn make(
        &mut self,
        content: &mut Content,
        (connection, number): (u32, u64),
        address: VpiVci,
        len: u16,
    ) {
        let mut staging = std::mem::take(&mut content.staging);
        self.cells = aal5_cells(len.into()) as u16;
        staging.resize(usize::from(self.cells) * PAYLOAD_LEN, 0);
        content.fill(connection, number, &mut staging[..usize::from(len)]);
        let header = |last| {
            let pti = Pti::User {
                congested: false,
                last,
            };
            Header::new(address, pti, false)
        };
        let sealed = with_features(Seal {
            staging: &mut staging,
            len,
            header: header(false),
        });
        debug_assert!(sealed.is_some(), "it was made to fit");
        self.begin = Content::begin(connection, number) as u32;
        self.len = len;
        self.own.copy_from_slice(&staging[..OWN]);
        if let Some(trailer) = staging.last_chunk() {
            self.trailer = *trailer;
        }
        self.headers = [false, true].map(|last| {
            let [a, b, c, d] = header(last).emit();
            [a, b, c, d, hec([a, b, c, d])]
        });
        content.staging = staging;
    }

    /// How many cells it has.
    pub(crate) fn cells(&self) -> u16 {
        self.cells
    }

    /// One of its cells.
    #[inline]
    pub(crate) fn cell(&self, content: &Content, n: u16) -> [u8; CELL_LEN] {
        let mut cell = [0; CELL_LEN];
        let is_last = n + 1 == self.cells;
        let (header, payload) = cell.split_at_mut(CELL_LEN - PAYLOAD_LEN);
        header.copy_from_slice(&self.headers[usize::from(is_last)]);
        let noise = &content.noise[self.begin as usize..];
        let (from, len) = (usize::from(n) * PAYLOAD_LEN, usize::from(self.len));
        if n > 0 && from + PAYLOAD_LEN <= len {
            payload.copy_from_slice(&noise[from - OWN..from - OWN + PAYLOAD_LEN]);
            return cell;
        }
        let end = len.min(from + PAYLOAD_LEN);
        if n == 0 {
            payload[..OWN].copy_from_slice(&self.own);
            payload[OWN..end].copy_from_slice(&noise[..end - OWN]);
        } else if from < end {
            payload[..end - from].copy_from_slice(&noise[from - OWN..end - OWN]);
        }
        if is_last {
            payload[PAYLOAD_LEN - TRAILER_LEN..].copy_from_slice(&self.trailer);
        }
        cell
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::wire::CellFormat;

    use super::*;

    #[test]
    fn cells_are_those_of_the_segmenter() {
        let mut content = Content::default();
        let address = VpiVci::new(3, 77).expect("an address");
        for len in [
            12, 13, 39, 40, 41, 47, 48, 49, 88, 89, 96, 97, 1_500, 65_535,
        ] {
            let mut pdu = Pdu::default();
            pdu.make(&mut content, (5, 9), address, len);
            let mut staging = vec![0; usize::from(pdu.cells()) * PAYLOAD_LEN];
            content.fill(5, 9, &mut staging[..usize::from(len)]);
            let pti = Pti::User {
                congested: false,
                last: false,
            };
            let mut expected = vec![0; usize::from(pdu.cells()) * CELL_LEN];
            let sealed = with_features(Seal {
                staging: &mut staging,
                len,
                header: Header::new(address, pti, false),
            });
            let mut segmenter = sealed.expect("it fits");
            segmenter.emit_cells(&staging, CellFormat::WithHec, &mut expected);
            let cells: Vec<_> = (0..pdu.cells()).map(|n| pdu.cell(&content, n)).collect();
            assert_eq!(cells.as_flattened(), expected, "{len} octets");
        }
    }

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
