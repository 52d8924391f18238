//! Out of the buffer, into cells or SDUs.

use std::sync::Arc;

use cellgate_simd::{Fold, FoldState};

use crate::aal::tree::{Row, Train, Tree};
use crate::contract::Aal;
use crate::terminal::{Pci, Source, TransmitBuffer};
use crate::wire::{CpcsHeader, CpcsTrailer, PAYLOAD_LEN, SarPci, SarPdu, Trailer};

/// Puts the cells of one VC (AAL5) or of one MID (AAL3/4), or the SDUs of either, together.
#[derive(Clone, Debug)]
pub struct Multiplexer {
    tree: Arc<Tree>,
    mid: u16,
    /// Of the last PDU.
    btag: u8,
    fold: FoldState,
    progress: Option<(Train, u16)>,
}

impl Multiplexer {
    /// For PDUs as `tree` makes them, whose PCIs must have [`Pci::LEN`] octets: none if not. Of
    /// `mid`, which AAL5 has no use for, ten bits count.
    pub fn new(tree: Arc<Tree>, mid: u16) -> Option<Self> {
        let fits = usize::from(tree.lengths().pci) == Pci::LEN;
        fits.then(|| Self {
            tree,
            mid,
            btag: 0,
            fold: FoldState::default(),
            progress: None,
        })
    }

    /// Cells of the PDU in progress that have not left.
    pub fn left(&self) -> u16 {
        self.progress
            .map_or(0, |(train, sent)| train.cells() - sent)
    }

    /// Begins PDU `sequence` of `buffer`: its cells; none if it is not cut, or too long for the
    /// AAL. What was in progress ends: its receiver will find it damaged.
    pub fn start<F: Fold, S: Source>(
        &mut self,
        fold: F,
        buffer: &mut TransmitBuffer<S>,
        sequence: u64,
    ) -> Option<u16> {
        self.progress = None;
        let pci = buffer.begin(sequence)?;
        let length = self.tree.sdu_len(pci.place, pci.length)?;
        let train = self.tree.train(pci.place, length)?;
        self.btag = self.btag.wrapping_add(1);
        let (btag, layout) = (self.btag, self.tree.record());
        let record = buffer.record_mut()?;
        let (header, rest) = record.split_at_mut(layout.pci);
        let trailer = &mut rest[layout.trailer - layout.pci..layout.header - layout.pci];
        match self.tree.aal() {
            Aal::Aal34 => {
                let cpcs = CpcsHeader {
                    cpi: 0,
                    btag,
                    ba_size: length,
                };
                header.copy_from_slice(&cpcs.emit());
                trailer.copy_from_slice(
                    &CpcsTrailer {
                        al: 0,
                        etag: btag,
                        length,
                    }
                    .emit(),
                );
            }
            Aal::Aal5 | Aal::Aal0 => {
                let cpcs = Trailer {
                    length,
                    ..Trailer::default()
                };
                trailer.copy_from_slice(&cpcs.emit());
            }
        }
        fold.start(&mut self.fold);
        self.progress = Some((train, 0));
        Some(train.cells())
    }

    /// Fills `cell` with the payload of the next cell of the PDU in progress, whose `buffer` it
    /// is: whether it is the last (AAL5: to be marked so in its header). None without a PDU in
    /// progress, or if the buffer has another.
    #[inline(always)]
    pub fn cell<F: Fold, S: Source>(
        &mut self,
        fold: F,
        buffer: &mut TransmitBuffer<S>,
        cell: &mut [u8; PAYLOAD_LEN],
    ) -> Option<bool> {
        let (train, sent) = self.progress?;
        let row = self.tree.row(train, sent)?;
        *cell = [0; PAYLOAD_LEN];
        if !buffer.take(cell.get_mut(row.payload().cell())?) {
            self.progress = None;
            return None;
        }
        let record = buffer.record()?;
        for piece in row.pcis() {
            let to = cell.get_mut(piece.cell())?;
            to.copy_from_slice(record.get(piece.record())?);
        }
        let last = row.is_last();
        match self.tree.aal() {
            Aal::Aal34 => sar(row, sent, self.mid).emit(cell),
            Aal::Aal5 | Aal::Aal0 if last => {
                let [before @ .., a, b, c, d] = cell;
                let register = fold.resume(fold.finish(&self.fold), before);
                [*a, *b, *c, *d] = (!register).to_be_bytes();
            }
            Aal::Aal5 | Aal::Aal0 => fold.cell(&mut self.fold, cell),
        }
        self.progress = Some((train, sent + 1)).filter(|_| !last);
        if last {
            buffer.sent();
        }
        Some(last)
    }

    /// Writes PDU `sequence` of `buffer` to the front of `out` as an SDU, whose cells an adapter
    /// makes: its octets; none if it is not cut, or does not fit.
    pub fn sdu<S: Source>(
        &self,
        buffer: &mut TransmitBuffer<S>,
        sequence: u64,
        out: &mut [u8],
    ) -> Option<u16> {
        let pci = buffer.pci(sequence)?;
        let len = self.tree.sdu_len(pci.place, pci.length)?;
        let parts = self.tree.parts(pci.place, len)?;
        let (header, rest) = out
            .get_mut(..len.into())?
            .split_at_mut((parts.pci + parts.header).into());
        let (payload, tail) = rest.split_at_mut(parts.payload.into());
        buffer.begin(sequence)?;
        buffer.take(payload);
        let (record, layout) = (buffer.record()?, self.tree.record());
        let (pci, header) = header.split_at_mut(parts.pci.into());
        for (at, octets) in [
            (layout.pci, pci),
            (layout.header, header),
            (layout.tail, tail),
        ] {
            let len = octets.len();
            octets.copy_from_slice(record.get(at..at + len)?);
        }
        buffer.sent();
        Some(len)
    }
}

/// The SAR fields of a cell of AAL3/4.
#[inline(always)]
const fn sar(row: &Row, sent: u16, mid: u16) -> SarPci {
    SarPci {
        segment_type: row.segment_type,
        sn: (sent % SarPdu::SNS as u16) as u8,
        mid,
        li: row.li,
    }
}
