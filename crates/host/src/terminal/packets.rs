//! The packet level: SDUs of a connection, whose adapter makes and reassembles the PDUs.

use std::time::Duration;

use cellgate::{Connection, Error, Interest, Wait};
use cellgate_core::Time;
use cellgate_core::terminal::{DiskHeader, Event, Exchange, Pci, Source, Store};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::clock::MonotonicClock;

/// SDUs that are taken, or sent, before the other way is looked at again.
const BATCH: usize = 64;

/// What is around the payload of an SDU, at most.
pub const OVERHEAD: u16 = (Pci::LEN + DiskHeader::LEN + DiskHeader::TAIL) as u16;

/// One look at a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Something came or was sent.
    pub is_busy: bool,
    /// There is more to send than the connection takes now, for so long at least.
    pub waits: Option<Wait>,
}

/// Hands what has come to the exchange, and to the connection what the exchange has to send. Events
/// go to `events`. Where the other terminal begins anew, the SDU that told of it is in `first`.
///
/// # Errors
/// The connection has ended.
pub(super) fn look<F: Source, S: Store>(
    connection: &Connection,
    exchange: &mut Exchange<F, S>,
    events: &mut Vec<Event>,
    first: &mut Vec<u8>,
) -> Result<Looked, Error> {
    let now = MonotonicClock.now();
    let mut looked = Looked::default();
    exchange.handle_deadline(now);
    for _ in 0..BATCH {
        let pdu = match connection.try_next_pdu() {
            Ok(pdu) => pdu,
            Err(Error::WouldBlock(_)) => break,
            Err(error) => return Err(error),
        };
        looked.is_busy = true;
        exchange.handle_sdu(now, &pdu);
        while let Some(event) = exchange.poll_event() {
            if event == Event::Restarted {
                first.clear();
                first.extend_from_slice(&pdu);
            }
            events.push(event);
        }
    }
    let room = usize::from(exchange.terms().pdu_len + OVERHEAD);
    for _ in 0..BATCH {
        let mut space = match connection.try_reserve(room) {
            Ok(space) => space,
            Err(Error::WouldBlock(wait)) => {
                looked.waits = Some(wait);
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

/// Waits until something comes, room is there again if it was missing, or `until`.
///
/// # Errors
/// The kernel refuses, or the connection has ended.
pub fn wait(connection: &Connection, waits: bool, until: Time) -> Result<(), Error> {
    let len = connection.transmit_max_sdu().unwrap_or(1).into();
    let interest = match waits {
        true => Interest::RECEIVE.or(Interest::send(len)),
        false => Interest::RECEIVE,
    };
    if !connection.arm(interest)? {
        return Ok(());
    }
    let left = Duration::from_nanos(until.since_ns(MonotonicClock.now()));
    let timeout = Timespec::try_from(left).ok();
    // A wait that a signal ends is over.
    let _ = poll(
        &mut [PollFd::new(connection, PollFlags::IN)],
        timeout.as_ref(),
    );
    connection.disarm()
}
