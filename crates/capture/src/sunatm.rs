//! SunATM (link type 123): four octets before each SDU.
//!
//! ```text
//! +-+-------+-------+---------------+-------------------------------+
//! |T|   0   | type  |      VPI      |              VCI              |  SDU, or an F4 OAM cell
//! +-+-------+-------+---------------+-------------------------------+
//! ```
//!
//! T is set on what the host sent. VPIs above 255 have no place here.

use cellgate_core::wire::{CELL_LEN, Header, VpiVci};

use crate::error::Reason;
use crate::link::{Decoded, SDU_LEN_MAX, check_sdu};
use crate::record::{Content, Direction, Marks, SduKind};

/// Octets before the SDU.
const HEADER_LEN: usize = 4;
const TRANSMIT: u8 = 0x80;
/// The VCIs of the F4 flows (I.610), on which libpcap and tcpdump expect whole cells.
const OAM_F4: [u16; 2] = [3, 4];

pub(crate) fn parse(octets: &[u8], missing: usize) -> Result<Decoded, Reason> {
    let ([flags, vpi, v0, v1], rest) =
        octets
            .split_first_chunk::<HEADER_LEN>()
            .ok_or(Reason::TooShort {
                what: "SunATM packet",
                len: octets.len(),
                least: HEADER_LEN,
            })?;
    let direction = match flags & TRANSMIT {
        0 => Direction::Receive,
        _ => Direction::Transmit,
    };
    let vci = u16::from_be_bytes([*v0, *v1]);
    let content = if OAM_F4.contains(&vci) {
        match (<[u8; CELL_LEN]>::try_from(rest), rest) {
            (Ok(cell), _) => Content::CellWithHec(cell),
            (Err(_), [a, b, c, d, _, payload @ ..]) if rest.len() + missing == CELL_LEN => {
                Content::PartOfCell {
                    header: Header::parse([*a, *b, *c, *d]),
                    payload: payload.to_vec(),
                }
            }
            _ => return Err(Reason::CellLength(rest.len() + missing)),
        }
    } else {
        check_sdu(rest, missing, SDU_LEN_MAX)?;
        Content::Sdu {
            // Eight bits of VPI always fit.
            address: VpiVci::new((*vpi).into(), vci),
            kind: SduKind::from_bits(*flags),
            sdu: rest.to_vec(),
        }
    };
    Ok(Decoded {
        direction,
        content,
        missing,
        marks: Marks::default(),
    })
}

/// Appends the packet of an SDU, or of a whole F4 cell on VCI 3 or 4. False, and nothing, if the
/// VPI does not fit.
pub(crate) fn emit(
    direction: Direction,
    kind: SduKind,
    address: VpiVci,
    octets: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let Ok(vpi) = u8::try_from(address.vpi()) else {
        return false;
    };
    let transmit = match direction {
        Direction::Transmit => TRANSMIT,
        Direction::Receive | Direction::Unknown => 0,
    };
    let [v0, v1] = address.vci().to_be_bytes();
    out.extend([transmit | kind.bits(), vpi, v0, v1]);
    out.extend(octets);
    true
}
