//! The composition tree: whose each octet of a cell is (*High Performance ATM Terminals*, section
//! 3.1, Figures 4 and 5), for disk-PDUs over AAL3/4 (I.363.3) and AAL5 (I.363.5).
//!
//! ```text
//!  disk-PDU    | header |               payload                | tail |
//!              +--------+-----------------+--------------------+------+
//!  CPCS-SDUs   | PCI | header | payload   |   PCI | payload | tail     |  first, middle ..., last
//!              +-----+--------+-----------+   +---+---------+----------+
//!  CPCS-PDU    [header] SDU, pad, trailer         AAL3/4: 4, 0-3, 4   AAL5: 0, 0-47, 8
//!              +----------------+----------------+----------------+
//!  cells       | 44 octets and 4 of SAR (AAL3/4), or 48 (AAL5)    |
//! ```
//!
//! The paper's lengths put no header or tail into two cells. Here any may lie in two or three: a
//! tail before a trailer, or before a pad that fills its cell and the next but for the trailer.

mod rows;

pub use rows::{Owner, Piece, Record, Row};

use rows::{BLOCK, Frame, Layers, NEAR};

use crate::contract::Aal;
use crate::wire::PAYLOAD_LEN;

/// Lengths of the headers and the tail that the layers above the CPCS put around the payload:
/// octets, each at most [`Lengths::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Header of the CPCS's user, at the front of each SDU.
    pub pci: u8,
    /// Header of the disk layer, behind the PCI of a disk-PDU's first SDU.
    pub header: u8,
    /// Tail of the disk layer, at the end of a disk-PDU's last SDU.
    pub tail: u8,
}

impl Lengths {
    /// The most octets of each: a cell's payload.
    pub const MAX: u8 = PAYLOAD_LEN as u8;
}

/// Where in its disk-PDU a CPCS-PDU stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Neither first nor last.
    Middle,
    /// It has the disk layer's header.
    First,
    /// It has the disk layer's tail.
    Last,
    /// It has both.
    Only,
}

impl Place {
    /// All, in the order of the tables.
    pub const ALL: [Self; 4] = [Self::Middle, Self::First, Self::Last, Self::Only];

    /// From whether it is the first, and whether it is the last.
    pub const fn new(first: bool, last: bool) -> Self {
        Self::ALL[first as usize | (last as usize) << 1]
    }

    /// Whether it has the disk layer's header.
    pub const fn is_first(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether it has the disk layer's tail.
    pub const fn is_last(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// The cells of one CPCS-PDU: which part of the table they are looked up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    base: u16,
    cells: u16,
}

impl Train {
    /// Cells of the PDU, at least one.
    #[inline(always)]
    pub const fn cells(self) -> u16 {
        self.cells
    }
}

/// The parts of one SDU, in order, in octets: all that is to be looked up where an adapter makes
/// PDUs of cells. Their sum is the length of the SDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Of the CPCS's user.
    pub pci: u16,
    /// Of the disk layer.
    pub header: u16,
    /// Of the file.
    pub payload: u16,
    /// Of the disk layer.
    pub tail: u16,
}

/// The tables of one stack: 48 (AAL5) or 44 (AAL3/4) times 64 rows, some 90 kB, which any number of
/// transfers can share. The key of a row is all that is known before a cell's payload is looked at:
/// where the PDU stands in its disk-PDU, the SDU's length modulo the octets in a cell, and how many
/// cells the PDU has before and behind this one, up to three.
#[derive(Clone, Debug)]
pub struct Tree {
    frame: Frame,
    lengths: Lengths,
    record: Record,
    parts: [Parts; 4],
    rows: Box<[Row]>,
}

impl Tree {
    /// The tables of `aal` with these `lengths`; none for AAL0, and if a length is above 48.
    pub fn new(aal: Aal, lengths: Lengths) -> Option<Self> {
        let frame = Frame::of(aal)?;
        let Lengths { pci, header, tail } = lengths;
        if [pci, header, tail].iter().any(|len| *len > Lengths::MAX) {
            return None;
        }
        let trailer_at = frame.header + usize::from(pci);
        let header_at = trailer_at + frame.trailer;
        let tail_at = header_at + usize::from(header);
        let record = Record {
            pci: frame.header,
            trailer: trailer_at,
            header: header_at,
            tail: tail_at,
            len: tail_at + usize::from(tail),
        };
        let parts = Place::ALL.map(|place| Parts {
            pci: pci.into(),
            header: u16::from(header) * u16::from(place.is_first()),
            payload: 0,
            tail: u16::from(tail) * u16::from(place.is_last()),
        });
        let layers = Layers { frame, record };
        let rows = parts.iter().flat_map(|parts| layers.rows(*parts)).collect();
        Some(Self {
            frame,
            lengths,
            record,
            parts,
            rows,
        })
    }

    /// The AAL.
    pub const fn aal(&self) -> Aal {
        self.frame.aal
    }

    /// Lengths of the headers and the tail around the payload.
    pub const fn lengths(&self) -> Lengths {
        self.lengths
    }

    /// How the PCIs of a PDU lie in memory.
    #[inline(always)]
    pub const fn record(&self) -> Record {
        self.record
    }

    /// The octets of a PDU's first cell that its PCI begins with: all of it, but on AAL3/4 where
    /// it is longer than 40. They are where they are whatever the PDU; what is behind them depends
    /// on what they say.
    #[inline(always)]
    pub fn opening(&self) -> core::ops::Range<usize> {
        let at = self.frame.before + self.frame.header;
        let end = at + usize::from(self.lengths.pci);
        at..end.min(self.frame.before + self.frame.capacity)
    }

    /// The parts of an SDU of `sdu_len` octets; none if it is shorter than what is around the
    /// payload, or has no octet.
    #[inline(always)]
    pub fn parts(&self, place: Place, sdu_len: u16) -> Option<Parts> {
        let mut parts = self.parts[place as usize];
        let payload = sdu_len.checked_sub(parts.pci + parts.header + parts.tail)?;
        parts.payload = payload;
        (sdu_len > 0).then_some(parts)
    }

    /// Octets of the SDU with `payload` octets of the file; none if it would have none, or more
    /// than 65,535.
    #[inline(always)]
    pub fn sdu_len(&self, place: Place, payload: u16) -> Option<u16> {
        let parts = self.parts[place as usize];
        let len = payload.checked_add(parts.pci + parts.header + parts.tail)?;
        (len > 0).then_some(len)
    }

    /// The cells of the PDU of an SDU of `sdu_len` octets; none if there is no such SDU
    /// ([`Tree::parts`]). This is done once a PDU.
    #[inline(always)]
    pub fn train(&self, place: Place, sdu_len: u16) -> Option<Train> {
        self.parts(place, sdu_len)?;
        let sdu_len = usize::from(sdu_len);
        let capacity = self.frame.capacity;
        let block = place as usize * capacity + sdu_len % capacity;
        Some(Train {
            base: (block * BLOCK) as u16,
            cells: self.frame.cells(sdu_len) as u16,
        })
    }

    /// The row of cell `cell` (from 0) of a PDU; none if the PDU has no such cell. One look-up.
    #[inline(always)]
    pub fn row(&self, train: Train, cell: u16) -> Option<&Row> {
        let after = train.cells.checked_sub(cell)?.checked_sub(1)?;
        let near = |cells: u16| usize::from(cells).min(NEAR);
        let at = usize::from(train.base) + near(cell) * (NEAR + 1) + near(after);
        self.rows.get(at)
    }
}
