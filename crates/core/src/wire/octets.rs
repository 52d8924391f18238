use super::{
    CELL_LEN, CELL_LEN_NO_HEC, CellFormat, Header, HecReceiver, HecVerdict, PAYLOAD_LEN, Pti,
    VpiVci, hec,
};

/// Octets of the header that the HEC guards, and the HEC itself.
const HEC_LEN: usize = 5;

/// A cell as a value: header and payload. The HEC is computed when octets are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The first four octets.
    pub header: Header,
    /// The information field.
    pub payload: [u8; PAYLOAD_LEN],
}

impl Cell {
    /// What fills an idle cell (I.432.1).
    pub const IDLE_OCTET: u8 = 0x6a;

    /// The cell that the physical layer inserts when there is nothing to send (I.432.1):
    /// header 00 00 00 01, HEC 52.
    pub const IDLE: Self = Self {
        header: Header::from_word(Header::CLP),
        payload: [Self::IDLE_OCTET; PAYLOAD_LEN],
    };

    /// The empty cell of the ATM layer (I.361): header 00 00 00 00, HEC 55. Its payload means
    /// nothing; here it is an idle cell's.
    pub const UNASSIGNED: Self = Self {
        header: Header::from_word(0),
        payload: [Self::IDLE_OCTET; PAYLOAD_LEN],
    };

    /// A cell of user data with GFC 0 and CLP 0; `last` marks the end of an AAL5 PDU.
    pub const fn user(address: VpiVci, last: bool, payload: [u8; PAYLOAD_LEN]) -> Self {
        let pti = Pti::User {
            congested: false,
            last,
        };
        Self {
            header: Header::new(address, pti, false),
            payload,
        }
    }

    /// From 52 octets, as pseudowires carry cells (RFC 4717). Every 52 octets are a cell.
    pub fn parse_without_hec(octets: &[u8; CELL_LEN_NO_HEC]) -> Self {
        let [a, b, c, d, payload @ ..] = *octets;
        Self {
            header: Header::parse([a, b, c, d]),
            payload,
        }
    }

    /// From the 53 octets of a UNI or NNI, as `receiver` judges their header: none if the cell is
    /// to be discarded. A correctable header is corrected in the value, not in `octets`.
    pub fn parse_with_hec(
        octets: &[u8; CELL_LEN],
        receiver: &mut HecReceiver,
    ) -> (HecVerdict, Option<Self>) {
        let [a, b, c, d, e, payload @ ..] = *octets;
        let mut header = [a, b, c, d, e];
        let verdict = receiver.receive(&mut header);
        if verdict == HecVerdict::Discard {
            return (verdict, None);
        }
        let [a, b, c, d, _] = header;
        let cell = Self {
            header: Header::parse([a, b, c, d]),
            payload,
        };
        (verdict, Some(cell))
    }

    /// The 52 octets of a pseudowire.
    pub fn emit_without_hec(&self) -> [u8; CELL_LEN_NO_HEC] {
        let mut octets = [0; CELL_LEN_NO_HEC];
        let (header, payload) = octets.split_at_mut(CELL_LEN_NO_HEC - PAYLOAD_LEN);
        header.copy_from_slice(&self.header.emit());
        payload.copy_from_slice(&self.payload);
        octets
    }

    /// The 53 octets of a UNI or NNI.
    pub fn emit_with_hec(&self) -> [u8; CELL_LEN] {
        let mut octets = [0; CELL_LEN];
        let (header, payload) = octets.split_at_mut(HEC_LEN);
        header.copy_from_slice(&self.header.emit_with_hec());
        payload.copy_from_slice(&self.payload);
        octets
    }
}

impl Header {
    /// The first five octets: these four and their HEC.
    #[inline(always)]
    pub const fn emit_with_hec(self) -> [u8; HEC_LEN] {
        let [a, b, c, d] = self.emit();
        [a, b, c, d, hec([a, b, c, d])]
    }
}

/// A cell where it lies, with or without a HEC octet.
#[derive(Clone, Copy, Debug)]
pub struct CellRef<'a> {
    octets: &'a [u8],
    payload: &'a [u8; PAYLOAD_LEN],
}

impl<'a> CellRef<'a> {
    /// The cells of a train, one stride after the other. Octets after the last whole cell are no
    /// cell and do not come.
    pub fn train(octets: &'a [u8], format: CellFormat) -> impl Iterator<Item = CellRef<'a>> {
        octets
            .chunks_exact(format.stride())
            .filter_map(move |cell| Self::parse(cell, format))
    }

    /// The cell at the start of `octets`; none if they are too few.
    #[inline(always)]
    pub fn parse(octets: &'a [u8], format: CellFormat) -> Option<Self> {
        let octets = octets.get(..format.stride())?;
        let payload = octets.last_chunk()?;
        Some(Self { octets, payload })
    }

    /// The first four octets, as they are: the HEC is not looked at.
    #[inline(always)]
    pub fn header(&self) -> Header {
        match self.octets {
            [a, b, c, d, ..] => Header::parse([*a, *b, *c, *d]),
            // `parse` lets no shorter slice in.
            _ => Header::default(),
        }
    }

    /// The HEC octet, if the format has one.
    pub fn hec(&self) -> Option<u8> {
        match self.octets.len() {
            CELL_LEN => self.octets.get(HEC_LEN - 1).copied(),
            _ => None,
        }
    }

    /// The information field.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8; PAYLOAD_LEN] {
        self.payload
    }
}
