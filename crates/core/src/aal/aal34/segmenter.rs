use serde::{Deserialize, Serialize};

use super::{FIRST_LEN, PAD_TO, cells};
use crate::wire::{
    CellFormat, CpcsHeader, CpcsTrailer, Header, PAYLOAD_LEN, SAR_PAYLOAD_LEN, SarPdu, SegmentType,
    hec,
};

/// A PDU on its way out: its SDU lies in staging, which the caller keeps as it is until the last
/// cell has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segmenter {
    /// Header of all cells.
    header: u32,
    sdu_len: u16,
    mid: u16,
    btag: u8,
    sent: u16,
}

impl Segmenter {
    /// The PDU of an SDU of `sdu_len` octets (at least one).
    ///
    /// `btag` is to differ from that of the PDU before it with the same MID, of which ten bits
    /// count. All cells have the header `header`, whose payload type is user data and not last.
    pub const fn new(sdu_len: u16, mid: u16, btag: u8, header: Header) -> Self {
        Self {
            header: header.word() & !Header::LAST,
            sdu_len,
            mid,
            btag,
            sent: 0,
        }
    }

    /// Cells of the PDU.
    pub const fn cells(&self) -> u16 {
        cells(self.sdu_len)
    }

    /// Cells that have not left.
    pub const fn left(&self) -> u16 {
        self.cells() - self.sent
    }

    /// Writes the next cells of the PDU, whose SDU begins `staging`, to the front of `out`: as
    /// many whole cells as fit and are left; returns how many. None leave if `staging` is shorter
    /// than the SDU.
    pub fn emit_cells(&mut self, staging: &[u8], format: CellFormat, out: &mut [u8]) -> u16 {
        let Some(sdu) = staging.get(..self.sdu_len.into()) else {
            return 0;
        };
        let header = self.header.to_be_bytes();
        let mut n = 0;
        for cell in out.chunks_exact_mut(format.stride()) {
            if self.left() == 0 {
                break;
            }
            let (before, payload) = cell.split_at_mut(format.header_len());
            if let Some((octets, check)) = before.split_first_chunk_mut() {
                *octets = header;
                check.fill(hec(header));
            }
            payload.copy_from_slice(&self.payload(sdu));
            self.sent += 1;
            n += 1;
        }
        n
    }

    /// The payload of the next cell.
    fn payload(&self, sdu: &[u8]) -> [u8; PAYLOAD_LEN] {
        let only = self.cells() == 1;
        let (first, last) = (self.sent == 0, self.left() == 1);
        let mut payload = [0; SAR_PAYLOAD_LEN];
        let mut li = SAR_PAYLOAD_LEN;
        if first {
            payload[..CpcsHeader::LEN].copy_from_slice(&self.cpcs_header().emit());
        }
        // The SDU's octets before this cell, and the place of the next in it.
        let (done, at) = match self.sent {
            0 => (0, CpcsHeader::LEN),
            sent => (FIRST_LEN + usize::from(sent - 1) * SAR_PAYLOAD_LEN, 0),
        };
        // The last cell of several can be one of pad and trailer only.
        let rest = sdu.get(done..).unwrap_or_default();
        let now = rest.len().min(SAR_PAYLOAD_LEN - at);
        payload[at..at + now].copy_from_slice(&rest[..now]);
        if last {
            let padded = usize::from(self.sdu_len).next_multiple_of(PAD_TO as usize);
            let trailer = at + padded.saturating_sub(done);
            li = trailer + CpcsTrailer::LEN;
            payload[trailer..li].copy_from_slice(&self.cpcs_trailer().emit());
        }
        let segment_type = match (first, last) {
            _ if only => SegmentType::Ssm,
            (true, _) => SegmentType::Bom,
            (_, true) => SegmentType::Eom,
            _ => SegmentType::Com,
        };
        SarPdu {
            segment_type,
            sn: (self.sent % u16::from(SarPdu::SNS)) as u8,
            mid: self.mid,
            payload,
            li: li as u8,
        }
        .emit()
    }

    fn cpcs_header(&self) -> CpcsHeader {
        CpcsHeader {
            cpi: 0,
            btag: self.btag,
            ba_size: self.sdu_len,
        }
    }

    fn cpcs_trailer(&self) -> CpcsTrailer {
        CpcsTrailer {
            al: 0,
            etag: self.btag,
            length: self.sdu_len,
        }
    }
}
