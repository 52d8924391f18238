use cellgate_simd::{Fold, FoldState, RESIDUE};
use serde::{Deserialize, Serialize};

use crate::aal::Memory;
use crate::contract::aal5_cells;
use crate::wire::{CELL_LEN, CELL_LEN_NO_HEC, CellFormat, PAYLOAD_LEN, TRAILER_LEN, Trailer};

/// What a good PDU says of itself. Its SDU is the first `len` octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdu {
    /// Octets, at least one.
    pub len: u16,
    /// CPCS user-to-user indication.
    pub uu: u8,
    /// Common part indicator.
    pub cpi: u8,
}

/// What is wrong with a PDU; the first of these in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Octets changed, or cells are missing or of another PDU.
    #[error("the CRC does not match")]
    Crc,
    /// The sender gave the PDU up: the length is 0.
    #[error("aborted by the sender")]
    Aborted,
    /// The length does not belong to this number of cells, or is above the bound.
    #[error("the length does not match the cells, or is too large")]
    Length,
}

/// The reassembly of one VC: which cells of the PDU in progress are held, and their CRC.
///
/// The CRC is folded from the cells as they pass while PDUs are short; of long ones it is made at
/// the end in one pass over the memory, where nobody else can write that and the cells come in
/// runs: what came cell by cell among those of others has left the cache by then. Which of the two
/// a PDU begins with is what the one before it ended with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reassembler {
    #[serde(with = "fold_state")]
    fold: FoldState,
    /// The last octets that were pushed. The trailer must come from here: in memory, others may
    /// have changed it since.
    trailer: [u8; TRAILER_LEN],
    cells: u16,
    /// Cells that `fold` has taken in, from the first on.
    folded: u16,
    /// The rest of this PDU is left to the pass at its end.
    deferred: bool,
}

// Touched once per cell for thousands of VCs in turn: one cache line.
const _: () = assert!(size_of::<Reassembler>() <= 64);

impl Reassembler {
    /// Cells held.
    #[inline(always)]
    pub const fn cells(&self) -> u16 {
        self.cells
    }

    /// What the last octets pushed say if they are a trailer. [`Reassembler::finish`] judges it.
    #[inline(always)]
    pub const fn trailer(&self) -> Trailer {
        Trailer::parse(self.trailer)
    }

    /// Begins a PDU; what was held is forgotten.
    #[inline(always)]
    pub fn start<M: Memory, F: Fold>(&mut self, fold: F, memory: &M) {
        self.deferred &= self.cells >= F::ONE_PASS_FROM_CELLS && memory.stable(0, 0).is_some();
        fold.start(&mut self.fold);
        self.cells = 0;
        self.folded = 0;
    }

    /// Takes in a run of whole `cells` of this PDU, whose first octet is at `pdu` in `memory`.
    /// Their payloads are written once, behind those held.
    ///
    /// The caller has found room for them, and keeps a PDU at 1,366 cells or fewer.
    #[inline(always)]
    pub fn push<M: Memory, F: Fold>(
        &mut self,
        fold: F,
        memory: &mut M,
        pdu: usize,
        cells: &[u8],
        format: CellFormat,
    ) {
        memory.write_payloads(pdu + usize::from(self.cells) * PAYLOAD_LEN, cells, format);
        if let Some(trailer) = cells.last_chunk() {
            self.trailer = *trailer;
        }
        let n = match format {
            CellFormat::WithHec => self.take::<CELL_LEN, F>(fold, cells),
            CellFormat::NoHec => self.take::<CELL_LEN_NO_HEC, F>(fold, cells),
        };
        self.cells = self.cells.saturating_add(n);
        if n > 1 && self.cells >= F::ONE_PASS_FROM_CELLS && !self.deferred {
            self.deferred = memory.stable(0, 0).is_some();
        }
    }

    /// Holds `cells` of a PDU that is judged elsewhere ([`only`]). What was held is forgotten.
    #[inline(always)]
    pub fn hold(&mut self, cells: u16) {
        self.cells = cells;
        self.folded = cells;
        self.deferred = false;
    }

    #[inline(always)]
    fn take<const STRIDE: usize, F: Fold>(&mut self, fold: F, cells: &[u8]) -> u16 {
        let (cells, _) = cells.as_chunks::<STRIDE>();
        let n = cells.len() as u16;
        if !self.deferred {
            fold.cells(&mut self.fold, cells);
            self.folded = self.folded.saturating_add(n);
        }
        n
    }

    /// Judges the PDU whose last cell was pushed, whose first octet is at `pdu` in `memory`, and
    /// whose SDU may have `max_sdu` octets.
    #[inline(always)]
    pub fn finish<M: Memory, F: Fold>(
        &mut self,
        fold: F,
        memory: &M,
        pdu: usize,
        max_sdu: u16,
    ) -> Result<Sdu, Error> {
        let register = self.register(fold, memory, pdu);
        judge(register, self.trailer(), self.cells, max_sdu)
    }

    /// The CRC register after all cells.
    #[inline(always)]
    fn register<M: Memory, F: Fold>(&self, fold: F, memory: &M, pdu: usize) -> u32 {
        let register = fold.finish(&self.fold);
        if self.folded == self.cells {
            return register;
        }
        let from = pdu + usize::from(self.folded) * PAYLOAD_LEN;
        let len = usize::from(self.cells.saturating_sub(self.folded)) * PAYLOAD_LEN;
        // No closures around a fold: they would be compiled without its CPU features.
        match memory.stable(from, len) {
            Some(octets) => fold.resume(register, octets),
            // A memory that is not stable after all has no CRC to show.
            None => !RESIDUE,
        }
    }
}

/// Judges a PDU of one cell, whose SDU may have `max_sdu` octets: its trailer, and
/// what [`Reassembler::start`], [`Reassembler::push`] and [`Reassembler::finish`] would make of it,
/// without a state to carry. The payload is the caller's to write.
#[inline(always)]
pub fn only<F: Fold>(
    fold: F,
    payload: &[u8; PAYLOAD_LEN],
    max_sdu: u16,
) -> (Trailer, Result<Sdu, Error>) {
    let [.., a, b, c, d, e, f, g, h] = *payload;
    let trailer = Trailer::parse([a, b, c, d, e, f, g, h]);
    (trailer, judge(fold.one_cell(payload), trailer, 1, max_sdu))
}

#[inline(always)]
fn judge(register: u32, trailer: Trailer, cells: u16, max_sdu: u16) -> Result<Sdu, Error> {
    if register != RESIDUE {
        return Err(Error::Crc);
    }
    let Trailer {
        uu,
        cpi,
        length: len,
        ..
    } = trailer;
    if len == 0 {
        return Err(Error::Aborted);
    }
    if len > max_sdu || aal5_cells(len.into()) != u32::from(cells) {
        return Err(Error::Length);
    }
    Ok(Sdu { len, uu, cpi })
}

/// The words of a [`FoldState`].
mod fold_state {
    use cellgate_simd::FoldState;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(state: &FoldState, to: S) -> Result<S::Ok, S::Error> {
        state.0.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<FoldState, D::Error> {
        Deserialize::deserialize(from).map(FoldState)
    }
}
