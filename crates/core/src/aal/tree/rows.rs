//! The rows of the tables, and what they are made from.

use super::Parts;
use crate::contract::Aal;
use crate::wire::{
    CpcsHeader, CpcsTrailer, PAYLOAD_LEN, SAR_PAYLOAD_LEN, SegmentType, TRAILER_LEN,
};

/// Whose octets are. The SAR's (AAL3/4) are the first two and the last two of every cell, and no
/// row lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// The CPCS's header and trailer, and its user's PCI.
    Cpcs,
    /// The disk layer's header and tail.
    Disk,
    /// The file's.
    Payload,
    /// Nobody's; sent as 0.
    Pad,
}

/// Octets in a row of one cell that go to one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Whose.
    pub owner: Owner,
    /// Offset in the 48 octets of the cell.
    pub at: u8,
    /// Octets; 0 for none.
    pub len: u8,
    /// Offset in the PDU's [`Record`] (`Cpcs` and `Disk`); 0 for payload, which goes where the
    /// octet before it ended, and for pad, which goes nowhere.
    pub to: u8,
}

impl Piece {
    const fn none(owner: Owner) -> Self {
        Self {
            owner,
            at: 0,
            len: 0,
            to: 0,
        }
    }

    /// The octets of the cell.
    #[inline(always)]
    pub fn cell(self) -> core::ops::Range<usize> {
        usize::from(self.at)..usize::from(self.at) + usize::from(self.len)
    }

    /// The octets of the record.
    #[inline(always)]
    pub fn record(self) -> core::ops::Range<usize> {
        usize::from(self.to)..usize::from(self.to) + usize::from(self.len)
    }
}

/// How the PCIs of one CPCS-PDU lie in memory: offsets of
/// `CPCS header | PCI | CPCS trailer | disk header | disk tail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where the PCI of the CPCS's user begins: behind the CPCS's header.
    pub pci: usize,
    /// Where the CPCS's trailer begins.
    pub trailer: usize,
    /// Where the disk layer's header begins.
    pub header: usize,
    /// Where its tail begins.
    pub tail: usize,
    /// Octets in all, at most 156.
    pub len: usize,
}

/// The contents of one cell: at most six pieces, and the fields that the SAR fills in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pci: [Piece; 4],
    pcis: u8,
    payload: Piece,
    pad: Piece,
    /// AAL3/4: the cell's; AAL5: `Eom` and `Ssm` for the last cell of the PDU.
    pub segment_type: SegmentType,
    /// Octets of CPCS-PDU in the cell: the length indicator of AAL3/4. What is behind them is sent
    /// as 0.
    pub li: u8,
}

impl Row {
    /// The pieces that go to or come from the PDU's [`Record`], in the order of the cell.
    #[inline(always)]
    pub fn pcis(&self) -> &[Piece] {
        self.pci.get(..self.pcis.into()).unwrap_or_default()
    }

    /// The piece of payload, which may have no octets.
    #[inline(always)]
    pub const fn payload(&self) -> Piece {
        self.payload
    }

    /// The piece of pad, which may have no octets.
    #[inline(always)]
    pub const fn pad(&self) -> Piece {
        self.pad
    }

    /// Whether the PDU ends with this cell.
    #[inline(always)]
    pub const fn is_last(&self) -> bool {
        matches!(self.segment_type, SegmentType::Eom | SegmentType::Ssm)
    }

    /// All pieces that have octets, at most six: those of the record, payload, pad.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        let rest = [self.payload, self.pad];
        let all = self.pcis().iter().copied().chain(rest);
        all.filter(|piece| piece.len > 0)
    }
}

/// What differs between the AALs, in octets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) aal: Aal,
    /// Of CPCS-PDU in a cell, and before them in the cell.
    pub(super) capacity: usize,
    pub(super) before: usize,
    pub(super) header: usize,
    pub(super) trailer: usize,
    /// The PDU (AAL5) or the SDU (AAL3/4) is a multiple of this, by its pad.
    pub(super) multiple: usize,
}

impl Frame {
    pub(super) fn of(aal: Aal) -> Option<Self> {
        match aal {
            Aal::Aal0 => None,
            Aal::Aal34 => Some(Self {
                aal,
                capacity: SAR_PAYLOAD_LEN,
                before: (PAYLOAD_LEN - SAR_PAYLOAD_LEN) / 2,
                header: CpcsHeader::LEN,
                trailer: CpcsTrailer::LEN,
                multiple: 4,
            }),
            Aal::Aal5 => Some(Self {
                aal,
                capacity: PAYLOAD_LEN,
                before: 0,
                header: 0,
                trailer: TRAILER_LEN,
                multiple: PAYLOAD_LEN,
            }),
        }
    }

    /// Octets of the CPCS-PDU: both headers are multiples of the AAL3/4 pad, so that one rule
    /// does for both.
    const fn pdu_len(self, sdu_len: usize) -> usize {
        (self.header + sdu_len + self.trailer).next_multiple_of(self.multiple)
    }

    pub(super) const fn cells(self, sdu_len: usize) -> usize {
        self.pdu_len(sdu_len).div_ceil(self.capacity)
    }
}

/// Cells from either end of a PDU that may hold anything but payload: headers take 100 octets at
/// most and end in the third cell, tail, pad and trailer take 103 and begin in the last but two.
pub(super) const NEAR: usize = 3;
/// Rows of one place and one residue.
pub(super) const BLOCK: usize = (NEAR + 1) * (NEAR + 1);

/// The frame and the record that rows are made from.
#[derive(Clone, Copy)]
pub(super) struct Layers {
    pub(super) frame: Frame,
    pub(super) record: Record,
}

impl Layers {
    /// The rows of PDUs with these parts (but for the payload), by residue, cells before, cells
    /// behind.
    pub(super) fn rows(self, parts: Parts) -> impl Iterator<Item = Row> {
        (0..self.frame.capacity * BLOCK).map(move |key| {
            let (residue, near) = (key / BLOCK, key % BLOCK);
            // The last index stands for any greater distance; this one is beyond all headers.
            let far = |near: usize| if near == NEAR { 3 * NEAR } else { near };
            let (before, behind) = (far(near / (NEAR + 1)), far(near % (NEAR + 1)));
            let cells = before + behind + 1;
            // A PDU has the cells that its SDU fills, or one more, or (AAL3/4) yet one more.
            let whole = (cells - 1).saturating_sub(2)..cells + 1;
            let mut lens = whole.map(|whole| whole * self.frame.capacity + residue);
            let around = usize::from(parts.pci + parts.header + parts.tail);
            let fits = |len: &usize| *len >= around && self.frame.cells(*len) == cells;
            match lens.find(fits) {
                Some(sdu_len) => self.row(parts, sdu_len, before, cells),
                None => self.none(),
            }
        })
    }

    /// Of a PDU that [`Tree::train`] gives no train to.
    fn none(self) -> Row {
        Row {
            pci: [Piece::none(Owner::Cpcs); 4],
            pcis: 0,
            payload: Piece::none(Owner::Payload),
            pad: Piece::none(Owner::Pad),
            segment_type: SegmentType::Com,
            li: 0,
        }
    }

    /// What of the PDU lies in cell `cell` of `cells`.
    fn row(self, parts: Parts, sdu_len: usize, cell: usize, cells: usize) -> Row {
        let Self { frame, record } = self;
        let around = usize::from(parts.pci + parts.header + parts.tail);
        let (head, end) = (
            frame.header + usize::from(parts.pci),
            frame.pdu_len(sdu_len),
        );
        let pad = end - frame.header - sdu_len - frame.trailer;
        let pdu = [
            (Owner::Cpcs, head, 0),
            (Owner::Disk, parts.header.into(), record.header),
            (Owner::Payload, sdu_len - around, 0),
            (Owner::Disk, parts.tail.into(), record.tail),
            (Owner::Pad, pad, 0),
            (Owner::Cpcs, frame.trailer, record.trailer),
        ];
        let mut row = self.none();
        let (from, mut start) = (cell * frame.capacity, 0);
        let to = (from + frame.capacity).min(end);
        for (owner, len, place) in pdu {
            let (first, last) = (from.max(start), to.min(start + len));
            if first < last {
                let piece = Piece {
                    owner,
                    at: (frame.before + first - from) as u8,
                    len: (last - first) as u8,
                    to: (place + first - start) as u8,
                };
                match owner {
                    Owner::Payload => row.payload = Piece { to: 0, ..piece },
                    Owner::Pad => row.pad = Piece { to: 0, ..piece },
                    Owner::Cpcs | Owner::Disk => {
                        row.pci[usize::from(row.pcis)] = piece;
                        row.pcis += 1;
                    }
                }
            }
            start += len;
        }
        row.segment_type = match (cell == 0, cell + 1 == cells) {
            (true, true) => SegmentType::Ssm,
            (true, false) => SegmentType::Bom,
            (false, true) => SegmentType::Eom,
            (false, false) => SegmentType::Com,
        };
        row.li = (to - from) as u8;
        row
    }
}
