//! The stack with a copy at layers' boundaries, to be measured against the one without (*High
//! Performance ATM Terminals*, section 6.1).
//!
//! ```text
//!   cell --copy--> CPCS-PDU --copy--> disk layer's SDU --copy--> application's SDU --> its place
//!            sar, all           all                       all                   always
//! ```

use cellgate_simd::{Fold, RESIDUE};

use super::{Board, CellPayload, Work};
use crate::Time;
use crate::contract::Aal;
use crate::terminal::{Exchange, Source, Store};
use crate::wire::{
    CpcsHeader, CpcsTrailer, Header, PAYLOAD_LEN, SarPci, SarPdu, SegmentType, TRAILER_LEN, Trailer,
};

/// Octets of the longest SDU, and of what a CPCS puts around it.
const PDU_MAX: usize = 65_535 + 64;

/// At which boundaries octets are copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Copies {
    /// None: the composition tree says where each goes.
    #[default]
    None,
    /// Between SAR and CPCS.
    Sar,
    /// Between all layers: SAR, CPCS, disk layer, application.
    All,
}

/// The copies, and the PDU that is in each.
#[derive(Clone, Debug)]
pub(super) struct Layered {
    copies: Copies,
    /// The CPCS-PDU that is received, without what AAL3/4 has in each cell.
    coming: Vec<u8>,
    /// It is of no use: a cell is missing.
    is_spoilt: bool,
    next_sn: u8,
    disk: Vec<u8>,
    application: Vec<u8>,
    /// The SDU that is sent, and its cells.
    going: Going,
    btag: u8,
}

#[derive(Clone, Debug, Default)]
struct Going {
    pdu: Vec<u8>,
    sent: usize,
}

impl Layered {
    /// None where nothing is copied.
    pub(super) fn new(copies: Copies) -> Option<Self> {
        (copies != Copies::None).then(|| Self {
            copies,
            coming: Vec::with_capacity(PDU_MAX),
            is_spoilt: false,
            next_sn: 0,
            disk: Vec::with_capacity(PDU_MAX),
            application: Vec::with_capacity(PDU_MAX),
            going: Going::default(),
            btag: 0,
        })
    }

    /// SAR: copies a cell's payload to its PDU, and hands that up when it is whole.
    #[inline(always)]
    pub(super) fn receive<C: Fold, B: Board, F: Source, S: Store>(
        &mut self,
        fold: C,
        now: Time,
        cell: &CellPayload,
        exchange: &mut Exchange<F, S>,
        board: &mut B,
    ) {
        if self.coming.len() + PAYLOAD_LEN > PDU_MAX {
            self.coming.clear();
            self.is_spoilt = true;
        }
        let sdu = match exchange.aal() {
            Aal::Aal34 => self.receive_aal34(cell, board),
            Aal::Aal5 | Aal::Aal0 => self.receive_aal5(fold, cell, board),
        };
        let Some((from, to)) = sdu else { return };
        let sdu = &self.coming[from..to];
        if self.copies == Copies::All {
            copy(sdu, &mut self.disk, board);
            copy(&self.disk, &mut self.application, board);
            exchange.handle_sdu(now, &self.application);
        } else {
            exchange.handle_sdu(now, sdu);
        }
        self.coming.clear();
    }

    /// Where the SDU lies, behind the last cell of a PDU that was good.
    fn receive_aal5<C: Fold, B: Board>(
        &mut self,
        fold: C,
        cell: &CellPayload,
        board: &mut B,
    ) -> Option<(usize, usize)> {
        self.coming.extend_from_slice(&cell.octets);
        board.charge(Work::CopyOctets, PAYLOAD_LEN as u64);
        if !cell.last {
            return None;
        }
        let trailer = self.coming.last_chunk::<TRAILER_LEN>();
        let length = trailer.map_or(0, |octets| usize::from(Trailer::parse(*octets).length));
        let cells = (length + TRAILER_LEN).div_ceil(PAYLOAD_LEN);
        let is_good = length > 0
            && cells * PAYLOAD_LEN == self.coming.len()
            && fold.one_pass(&self.coming) == RESIDUE
            && !self.is_spoilt;
        self.is_spoilt = false;
        if !is_good {
            self.coming.clear();
        }
        is_good.then_some((0, length))
    }

    fn receive_aal34<B: Board>(
        &mut self,
        cell: &CellPayload,
        board: &mut B,
    ) -> Option<(usize, usize)> {
        let sar = SarPci::parse(&cell.octets);
        let Some(sar) = sar.valid() else {
            self.is_spoilt = true;
            return None;
        };
        if sar.segment_type.begins() {
            self.coming.clear();
            self.is_spoilt = false;
        } else if sar.sn != self.next_sn {
            self.is_spoilt = true;
        }
        self.next_sn = (sar.sn + 1) % SarPdu::SNS;
        let octets = cell
            .octets
            .get(2..2 + usize::from(sar.li))
            .unwrap_or_default();
        self.coming.extend_from_slice(octets);
        board.charge(Work::CopyOctets, octets.len() as u64);
        if !matches!(sar.segment_type, SegmentType::Eom | SegmentType::Ssm) {
            return None;
        }
        let header = CpcsHeader::parse(*self.coming.first_chunk()?);
        let trailer = CpcsTrailer::parse(*self.coming.last_chunk()?);
        let length = usize::from(trailer.length);
        let pdu_len = CpcsHeader::LEN + length.next_multiple_of(4) + CpcsTrailer::LEN;
        let is_good =
            !self.is_spoilt && header.btag == trailer.etag && pdu_len == self.coming.len();
        if !is_good {
            self.coming.clear();
        }
        is_good.then_some((CpcsHeader::LEN, CpcsHeader::LEN + length))
    }

    /// SAR: copies the next cell's payload out of its PDU, which came down from above as a whole.
    #[inline(always)]
    pub(super) fn transmit<C: Fold, B: Board, F: Source, S: Store>(
        &mut self,
        fold: C,
        now: Time,
        payload: &mut [u8; PAYLOAD_LEN],
        exchange: &mut Exchange<F, S>,
        board: &mut B,
    ) -> Option<bool> {
        let aal = exchange.aal();
        if self.going.sent == self.going.pdu.len() {
            self.next_pdu(fold, now, exchange, board)?;
        }
        let going = &mut self.going;
        let unit = if aal == Aal::Aal34 { 44 } else { PAYLOAD_LEN };
        let end = (going.sent + unit).min(going.pdu.len());
        let octets = &going.pdu[going.sent..end];
        let (first, last) = (going.sent == 0, end == going.pdu.len());
        board.charge(Work::CopyOctets, octets.len() as u64);
        *payload = [0; PAYLOAD_LEN];
        if aal == Aal::Aal34 {
            payload[2..2 + octets.len()].copy_from_slice(octets);
            let pci = SarPci {
                segment_type: SegmentType::from_bits(u8::from(first) << 1 | u8::from(last)),
                sn: (going.sent / unit % usize::from(SarPdu::SNS)) as u8,
                mid: 0,
                li: octets.len() as u8,
            };
            pci.emit(payload);
        } else {
            payload.copy_from_slice(octets);
        }
        going.sent = end;
        Some(last)
    }

    fn next_pdu<C: Fold, B: Board, F: Source, S: Store>(
        &mut self,
        fold: C,
        now: Time,
        exchange: &mut Exchange<F, S>,
        board: &mut B,
    ) -> Option<()> {
        self.application.resize(PDU_MAX, 0);
        let len = exchange.poll_sdu(now, &mut self.application)?;
        let mut sdu = &self.application[..len.into()];
        if self.copies == Copies::All {
            copy(sdu, &mut self.disk, board);
            sdu = &self.disk;
        }
        let pdu = &mut self.going.pdu;
        self.going.sent = 0;
        pdu.clear();
        self.btag = self.btag.wrapping_add(1);
        if exchange.aal() == Aal::Aal34 {
            let header = CpcsHeader {
                cpi: 0,
                btag: self.btag,
                ba_size: len,
            };
            pdu.extend(header.emit());
            pdu.extend_from_slice(sdu);
            pdu.resize(CpcsHeader::LEN + usize::from(len).next_multiple_of(4), 0);
            let trailer = CpcsTrailer {
                al: 0,
                etag: self.btag,
                length: len,
            };
            pdu.extend(trailer.emit());
        } else {
            pdu.extend_from_slice(sdu);
            let cells = (pdu.len() + TRAILER_LEN).div_ceil(PAYLOAD_LEN);
            pdu.resize(cells * PAYLOAD_LEN, 0);
            let sealed =
                crate::aal::aal5::Segmenter::seal(fold, pdu, len, 0, 0, Header::from_word(0));
            sealed?;
        }
        if self.copies == Copies::All {
            board.charge(Work::CopyOctets, len.into());
        }
        Some(())
    }
}

/// One copy more.
fn copy<B: Board>(from: &[u8], to: &mut Vec<u8>, board: &mut B) {
    to.clear();
    to.extend_from_slice(from);
    board.charge(Work::CopyOctets, from.len() as u64);
}
