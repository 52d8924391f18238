use cellgate_simd::Fold;
use serde::{Deserialize, Serialize};

use crate::contract::aal5_cells;
use crate::wire::{
    CELL_LEN, CELL_LEN_NO_HEC, CellFormat, Header, PAYLOAD_LEN, TRAILER_LEN, Trailer, hec,
};

/// A PDU on its way out: it lies in staging, which the caller keeps as it is until the last cell
/// has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segmenter {
    /// Header of all cells but the last.
    header: u32,
    cells: u16,
    sent: u16,
}

impl Segmenter {
    /// Makes the PDU of the SDU in the first `sdu_len` octets of `staging`: pad and trailer are
    /// written behind it. None if it does not fit into `staging` ([`aal5_cells`] times 48 octets).
    ///
    /// `header` is that of all cells but the last, whose payload type says that it is the last.
    #[inline(always)]
    pub fn seal<F: Fold>(
        fold: F,
        staging: &mut [u8],
        sdu_len: u16,
        uu: u8,
        cpi: u8,
        header: Header,
    ) -> Option<Self> {
        let cells = aal5_cells(sdu_len.into()) as u16;
        let pdu = staging.get_mut(..usize::from(cells) * PAYLOAD_LEN)?;
        let (_, pad) = pdu.split_at_mut_checked(sdu_len.into())?;
        let (pad, end) = pad.split_last_chunk_mut::<TRAILER_LEN>()?;
        pad.fill(0);
        *end = Trailer {
            uu,
            cpi,
            length: sdu_len,
            crc: 0,
        }
        .emit();
        let (before, crc) = pdu.split_last_chunk_mut::<4>()?;
        *crc = (!fold.one_pass(before)).to_be_bytes();
        Some(Self {
            header: header.word(),
            cells,
            sent: 0,
        })
    }

    /// Cells of the PDU.
    #[inline(always)]
    pub const fn cells(&self) -> u16 {
        self.cells
    }

    /// Cells that have not left.
    #[inline(always)]
    pub const fn left(&self) -> u16 {
        self.cells - self.sent
    }

    /// Writes the next cells of the PDU in `staging` to the front of `out`: as many whole cells as
    /// fit and are left; returns how many.
    #[inline(always)]
    pub fn emit_cells(&mut self, staging: &[u8], format: CellFormat, out: &mut [u8]) -> u16 {
        let (payloads, _) = staging.as_chunks::<PAYLOAD_LEN>();
        let Some(payloads) = payloads.get(self.sent.into()..self.cells.into()) else {
            return 0;
        };
        let word = self.header & !Header::LAST;
        let n = match format {
            CellFormat::WithHec => {
                let (cells, _) = out.as_chunks_mut::<CELL_LEN>();
                write_cells(
                    payloads,
                    cells,
                    with_hec(word),
                    with_hec(word | Header::LAST),
                )
            }
            CellFormat::NoHec => {
                let (cells, _) = out.as_chunks_mut::<CELL_LEN_NO_HEC>();
                let last = (word | Header::LAST).to_be_bytes();
                write_cells(payloads, cells, word.to_be_bytes(), last)
            }
        };
        self.sent += n;
        n
    }
}

#[inline(always)]
fn with_hec(word: u32) -> [u8; 5] {
    let [a, b, c, d] = word.to_be_bytes();
    [a, b, c, d, hec([a, b, c, d])]
}

/// Writes as many of `payloads` as there are `cells`; the last of `payloads` gets the header
/// `last`. The two headers are made once per call: only their payload type differs.
#[inline(always)]
fn write_cells<const STRIDE: usize, const HEADER: usize>(
    payloads: &[[u8; PAYLOAD_LEN]],
    cells: &mut [[u8; STRIDE]],
    header: [u8; HEADER],
    last: [u8; HEADER],
) -> u16 {
    const { assert!(STRIDE == HEADER + PAYLOAD_LEN) }
    let n = payloads.len().min(cells.len());
    for (cell, payload) in cells.iter_mut().zip(payloads) {
        cell[..HEADER].copy_from_slice(&header);
        cell[HEADER..].copy_from_slice(payload);
    }
    if n == payloads.len()
        && let Some(cell) = n.checked_sub(1).and_then(|at| cells.get_mut(at))
    {
        cell[..HEADER].copy_from_slice(&last);
    }
    n as u16
}
