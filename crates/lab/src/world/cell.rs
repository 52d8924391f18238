//! Cells: as lines carry them, and where they lie before.

use cellgate_core::wire::{CELL_LEN, Header, HeaderForm, PAYLOAD_LEN, VpiVci};

/// With the HEC.
pub(crate) const HEADER_LEN: usize = CELL_LEN - PAYLOAD_LEN;

/// A cell as lines carry it, with its HEC.
pub type Octets = [u8; CELL_LEN];

/// A cell where it lies. Its payload need not follow its header: a cell is put together where it
/// goes, and not copied from place to place.
#[derive(Clone, Copy, Debug)]
pub struct CellRef<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8; PAYLOAD_LEN],
}

impl<'a> From<&'a Octets> for CellRef<'a> {
    #[inline]
    fn from(octets: &'a Octets) -> Self {
        let (header, payload) = octets.split_first_chunk().expect("a cell begins so");
        let payload = payload.first_chunk().expect("a cell ends so");
        Self { header, payload }
    }
}

impl<'a> CellRef<'a> {
    /// A cell of these two.
    #[inline]
    pub(crate) fn new(header: &'a [u8; HEADER_LEN], payload: &'a [u8; PAYLOAD_LEN]) -> Self {
        Self { header, payload }
    }

    /// What its header says.
    #[inline]
    pub fn header(self) -> Header {
        let [a, b, c, d, _] = *self.header;
        Header::parse([a, b, c, d])
    }

    /// Its address on a UNI.
    #[inline]
    pub fn address(self) -> VpiVci {
        self.header().address(HeaderForm::Uni)
    }

    /// Puts it together.
    #[inline]
    pub fn write(self, octets: &mut Octets) {
        let (header, payload) = octets.split_at_mut(HEADER_LEN);
        header.copy_from_slice(self.header);
        payload.copy_from_slice(self.payload);
    }

    /// All of it.
    pub fn octets(self) -> Octets {
        let mut octets = [0; CELL_LEN];
        self.write(&mut octets);
        octets
    }
}
