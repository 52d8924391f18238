//! The packet level: SDUs of a connection, whose adapter makes and reassembles the PDUs.

use cellgate::{Connection, Error};
use cellgate_core::Time;
use cellgate_core::terminal::{DiskHeader, Exchange, Pci, Source, Store};

use super::port::Looked;

/// SDUs that are taken, or sent, before the other way is looked at again.
const BATCH: usize = 64;

/// What is around the payload of an SDU, at most.
pub const OVERHEAD: u16 = (Pci::LEN + DiskHeader::LEN + DiskHeader::TAIL) as u16;

/// Octets of the longest SDU.
pub(super) fn longest<F: Source, S: Store>(exchange: &Exchange<F, S>) -> usize {
    (exchange.terms().pdu_len + OVERHEAD).into()
}

/// Hands the SDUs that have come to the exchange, and to the connection what it has to send.
pub(super) fn look<F: Source, S: Store>(
    connection: &Connection,
    now: Time,
    exchange: &mut Exchange<F, S>,
) -> Result<Looked, Error> {
    let mut looked = Looked::default();
    for _ in 0..BATCH {
        match connection.try_next_pdu() {
            Ok(pdu) => exchange.handle_sdu(now, &pdu),
            Err(Error::WouldBlock(_)) => break,
            Err(error) => return Err(error),
        }
        looked.is_busy = true;
    }
    for _ in 0..BATCH {
        let mut space = match connection.try_reserve(longest(exchange)) {
            Ok(space) => space,
            Err(Error::WouldBlock(_)) => {
                looked.waits = true;
                break;
            }
            Err(error) => return Err(error),
        };
        let Some(len) = exchange.poll_sdu(now, &mut space) else {
            // Its credit is given back.
            space.truncate(0);
            break;
        };
        space.truncate(len.into());
        match space.submit() {
            // What was written is lost on the way, as cells can be.
            Ok(()) | Err(Error::SpaceLost) => {}
            Err(error) => return Err(error),
        }
        looked.is_busy = true;
    }
    Ok(looked)
}
