//! Trains of cells, made in advance.

use cellgate_core::contract::aal5_cells;
use cellgate_core::wire::{CELL_LEN_NO_HEC, Header, PAYLOAD_LEN, Pti, Trailer, VpiVci};
use crc::{CRC_32_BZIP2, Crc, Table};

/// The CRC of AAL5 under the catalogue's name.
static CRC_32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_BZIP2);

/// How the cells of several VCs follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// A whole PDU of one VC, then one of the next.
    Contiguous,
    /// A cell of each VC in turn, all in step: their PDUs begin and end together.
    Interleaved,
    /// A cell of each VC in turn, each at another place of its PDU: trains of these are to be run
    /// again and again, and begin in the middle of PDUs.
    Staggered,
}

/// Cells of 52 octets, one after the other.
pub(super) struct Train {
    octets: Vec<u8>,
}

impl Train {
    /// Whole PDUs of SDUs of `sdu` octets on VCs at `addresses`, at least `cells_min` cells, as
    /// many PDUs on each VC.
    pub(super) fn aal5(addresses: &[VpiVci], sdu: u16, order: Order, cells_min: usize) -> Self {
        let pdu = pdu(sdu);
        let (payloads, _) = pdu.as_chunks::<PAYLOAD_LEN>();
        let round = payloads.len() * addresses.len();
        let rounds = cells_min.div_ceil(round).max(1);
        let mut octets = Vec::with_capacity(rounds * round * CELL_LEN_NO_HEC);
        let mut push = |address, at: usize| {
            let header = user_cell(address, at + 1 == payloads.len(), false);
            octets.extend_from_slice(&header.emit());
            octets.extend_from_slice(&payloads[at]);
        };
        for _ in 0..rounds {
            match order {
                Order::Contiguous => {
                    for &address in addresses {
                        (0..payloads.len()).for_each(|at| push(address, at));
                    }
                }
                Order::Interleaved => {
                    for at in 0..payloads.len() {
                        addresses.iter().for_each(|&address| push(address, at));
                    }
                }
                Order::Staggered => {
                    for at in 0..payloads.len() {
                        for (vc, &address) in addresses.iter().enumerate() {
                            let ahead = vc * payloads.len() / addresses.len();
                            push(address, (at + ahead) % payloads.len());
                        }
                    }
                }
            }
        }
        Self { octets }
    }

    /// One cell for each header.
    pub(super) fn of_headers(headers: impl IntoIterator<Item = Header>) -> Self {
        let mut octets = Vec::new();
        for header in headers {
            octets.extend_from_slice(&header.emit());
            octets.extend_from_slice(&[0x6a; PAYLOAD_LEN]);
        }
        Self { octets }
    }

    /// One-cell PDUs, one for each header, which says that it is the last.
    pub(super) fn of_small_pdus(headers: impl IntoIterator<Item = Header>) -> Self {
        let pdu = pdu(40);
        let mut octets = Vec::new();
        for header in headers {
            octets.extend_from_slice(&header.emit());
            octets.extend_from_slice(&pdu);
        }
        Self { octets }
    }

    pub(super) fn octets(&self) -> &[u8] {
        &self.octets
    }

    pub(super) fn cells(&self) -> usize {
        self.octets.len() / CELL_LEN_NO_HEC
    }
}

/// The header of a cell of user data.
pub(super) fn user_cell(address: VpiVci, last: bool, congested: bool) -> Header {
    Header::new(address, Pti::User { congested, last }, false)
}

/// The addresses of `count` VCs side by side, as networks give them out: VPI 0, VCI 32 and on.
pub(super) fn addresses(count: usize) -> Vec<VpiVci> {
    let at = |at: usize| VpiVci::from_bits(32 + at as u32);
    (0..count).map(at).collect()
}

/// The AAL5 PDU of an SDU of `sdu` octets.
fn pdu(sdu: u16) -> Vec<u8> {
    let len = aal5_cells(sdu.into()) as usize * PAYLOAD_LEN;
    let mut pdu: Vec<u8> = (0..len).map(|at| (at * 31 % 251) as u8).collect();
    pdu[sdu.into()..].fill(0);
    let mut trailer = Trailer {
        uu: 0,
        cpi: 0,
        length: sdu,
        crc: 0,
    };
    let octets = trailer.emit();
    pdu[len - octets.len()..].copy_from_slice(&octets);
    trailer.crc = CRC_32.checksum(&pdu[..len - 4]);
    pdu[len - octets.len()..].copy_from_slice(&trailer.emit());
    pdu
}
