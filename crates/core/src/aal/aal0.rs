//! AAL0: a cell is an SDU: its header without HEC, as it was on the wire, and its payload.

use crate::wire::{CellFormat, Header, PAYLOAD_LEN, VpiVci, hec};

/// Octets of an SDU.
pub const SDU_LEN: usize = 4 + PAYLOAD_LEN;

/// The SDU that `cell` is; none if `cell` is not of this format's length.
#[inline(always)]
pub fn receive(cell: &[u8], format: CellFormat) -> Option<[u8; SDU_LEN]> {
    if cell.len() != format.stride() {
        return None;
    }
    let mut sdu = [0; SDU_LEN];
    let (header, payload) = sdu.split_first_chunk_mut::<4>()?;
    *header = *cell.first_chunk()?;
    payload.copy_from_slice(cell.last_chunk::<PAYLOAD_LEN>()?);
    Some(sdu)
}

/// The header that goes out: the address is the VC's whatever the client wrote, GFC 0; payload type
/// and loss priority are those of the SDU.
#[inline(always)]
pub fn header(sdu: &[u8; SDU_LEN], address: VpiVci) -> Header {
    let [_, _, _, octet, ..] = *sdu;
    Header::from_word(address.bits() << 4 | u32::from(octet & 0x0f))
}

/// Writes the cell of `sdu` to the front of `out`; false if it does not fit.
#[inline(always)]
pub fn emit_cell(sdu: &[u8; SDU_LEN], address: VpiVci, format: CellFormat, out: &mut [u8]) -> bool {
    let Some(cell) = out.get_mut(..format.stride()) else {
        return false;
    };
    let header = header(sdu, address).emit();
    let (before, payload) = cell.split_at_mut(format.header_len());
    match before {
        [a, b, c, d] => [*a, *b, *c, *d] = header,
        [a, b, c, d, check] => {
            [*a, *b, *c, *d] = header;
            *check = hec(header);
        }
        _ => return false,
    }
    payload.copy_from_slice(&sdu[4..]);
    true
}
