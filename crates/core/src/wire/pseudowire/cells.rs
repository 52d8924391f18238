use super::{ControlWord, PseudowireError, Sequence, with_sequence};
use crate::wire::{CELL_LEN_NO_HEC, Cell, Header, PAYLOAD_LEN, Prefix, Pti, VpiVci};

/// The ATM-specific octet of the one-to-one modes (RFC 4717 section 9): M, V, two reserved bits,
/// PTI, C.
const FRAME: u8 = 0x80;
const VCI_PRESENT: u8 = 0x40;

/// How a pseudowire packs cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellMode {
    /// 52 octets a cell, header and all, of any number of VCs (RFC 4717 section 8).
    NToOne {
        /// Whether a control word stands before the cells.
        control_word: bool,
    },
    /// One VC: its address is not sent, 49 octets a cell (RFC 4717 section 9.1).
    OneToOneVcc,
    /// One VP: its VPI is not sent, 51 octets a cell (RFC 4717 section 9.2).
    OneToOneVpc,
}

impl CellMode {
    /// N to one, nothing before the cells.
    pub const PLAIN: Self = Self::NToOne {
        control_word: false,
    };

    /// Whether packets have a place for their number.
    pub const fn is_numbered(self) -> bool {
        self.header_len() > 0
    }

    /// Octets of each cell.
    pub const fn stride(self) -> usize {
        match self {
            Self::NToOne { .. } => CELL_LEN_NO_HEC,
            Self::OneToOneVcc => 1 + PAYLOAD_LEN,
            Self::OneToOneVpc => 3 + PAYLOAD_LEN,
        }
    }

    /// Octets before the first cell.
    pub const fn header_len(self) -> usize {
        match self {
            Self::NToOne {
                control_word: false,
            } => 0,
            Self::NToOne { control_word: true } => 4,
            Self::OneToOneVcc | Self::OneToOneVpc => 3,
        }
    }

    /// What stands before the first cell. An N-to-one packet without control word has no number.
    ///
    /// The length field stays 0: with one cell the packet is longer than a link pads to.
    pub fn emit_header(self, sequence: Sequence) -> Prefix<4> {
        match self {
            Self::NToOne {
                control_word: false,
            } => Prefix::EMPTY,
            Self::NToOne { control_word: true } => {
                Prefix::of(&[&ControlWord::new(sequence).emit()])
            }
            Self::OneToOneVcc | Self::OneToOneVpc => Prefix::of(&[&with_sequence(sequence)]),
        }
    }

    /// A cell from the octets that the packet has of it: none if they are too few. `address` fills
    /// in what the mode does not send.
    pub fn parse_cell(self, address: VpiVci, octets: &[u8]) -> Option<Cell> {
        let payload = *octets.last_chunk::<PAYLOAD_LEN>()?;
        let header = match (self, octets) {
            (Self::NToOne { .. }, [a, b, c, d, ..]) => Header::parse([*a, *b, *c, *d]),
            (Self::OneToOneVcc, [specific, ..]) => one_to_one(address, *specific),
            (Self::OneToOneVpc, [specific, high, low, ..]) => {
                let vci = u16::from_be_bytes([*high, *low]);
                let bits = address.bits() & !0xffff | u32::from(vci);
                one_to_one(VpiVci::from_bits(bits), *specific)
            }
            _ => return None,
        };
        Some(Cell { header, payload })
    }

    /// One cell as the packet has it.
    pub fn emit_cell(self, cell: &Cell) -> Prefix<CELL_LEN_NO_HEC> {
        let specific = cell.header.pti().bits() << 1 | u8::from(cell.header.clp());
        match self {
            Self::NToOne { .. } => Prefix::of(&[&cell.emit_without_hec()]),
            Self::OneToOneVcc => Prefix::of(&[&[specific], &cell.payload]),
            Self::OneToOneVpc => {
                let vci = (cell.header.word() >> 4) as u16;
                Prefix::of(&[&[VCI_PRESENT | specific], &vci.to_be_bytes(), &cell.payload])
            }
        }
    }
}

/// The cells of one packet, of which every one is whole and of its mode.
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    mode: CellMode,
    address: VpiVci,
    octets: &'a [u8],
}

impl<'a> Cells<'a> {
    /// From what follows the packet's header. `address` fills in what the mode does not send.
    pub(super) fn parse(
        mode: CellMode,
        address: VpiVci,
        octets: &'a [u8],
    ) -> Result<Self, PseudowireError> {
        if octets.is_empty() || !octets.len().is_multiple_of(mode.stride()) {
            return Err(PseudowireError::CellOctets {
                octets: octets.len(),
                stride: mode.stride(),
            });
        }
        let wanted = match mode {
            CellMode::NToOne { .. } => None,
            CellMode::OneToOneVcc => Some(0),
            CellMode::OneToOneVpc => Some(VCI_PRESENT),
        };
        for cell in octets.chunks_exact(mode.stride()) {
            match (wanted, cell.first()) {
                (Some(wanted), Some(found)) if found & (FRAME | VCI_PRESENT) != wanted => {
                    return Err(PseudowireError::AtmSpecific(*found));
                }
                _ => {}
            }
        }
        Ok(Self {
            mode,
            address,
            octets,
        })
    }

    /// The cells as the packet has them, [`CellMode::stride`] octets each. Those of an N-to-one
    /// pseudowire are whole cells without HEC.
    pub const fn octets(&self) -> &'a [u8] {
        self.octets
    }
}

fn one_to_one(address: VpiVci, specific: u8) -> Header {
    Header::new(address, Pti::from_bits(specific >> 1), specific & 1 != 0)
}

impl Iterator for Cells<'_> {
    type Item = Cell;

    fn next(&mut self) -> Option<Cell> {
        let (octets, rest) = self.octets.split_at_checked(self.mode.stride())?;
        let cell = self.mode.parse_cell(self.address, octets)?;
        self.octets = rest;
        Some(cell)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let cells = self.octets.len() / self.mode.stride();
        (cells, Some(cells))
    }
}

impl ExactSizeIterator for Cells<'_> {}

/// Whether the first octet behind number and sequence says frame (M = 1).
pub(super) fn is_frame(specific: u8) -> bool {
    specific & FRAME != 0
}
