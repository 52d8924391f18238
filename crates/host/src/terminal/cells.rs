//! The cell level: SAR, CPCS and CRC in the terminal, over a connection of AAL0, or over a line that
//! this process owns, as the paper's PC owned its board.

use std::time::Duration;

use cellgate::{Connection, Error};
use cellgate_core::Time;
use cellgate_core::terminal::{Exchange, RateTimer, Source, Store};
use cellgate_core::wire::{CELL_LEN_NO_HEC, Header, HeaderForm, PAYLOAD_LEN, Pti, VpiVci};
use cellgate_simd::{Fold, Kernel, with_features};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::port::Looked;
use crate::link::udp::{UdpReceiver, UdpSender};

/// Cells that are taken, or sent, before the other way is looked at again.
const BATCH: usize = 1_024;

/// A line that this process owns.
pub struct OwnedLine {
    receiver: UdpReceiver,
    sender: UdpSender,
    address: VpiVci,
    /// None: as fast as it goes.
    timer: Option<RateTimer>,
    cells: Vec<u8>,
    /// Cells of other addresses, and those that are no user's.
    pub foreign: u64,
}

impl OwnedLine {
    /// Cells of `address` over these ends, at most as fast as `timer` says.
    pub fn new(
        receiver: UdpReceiver,
        sender: UdpSender,
        address: VpiVci,
        timer: Option<RateTimer>,
    ) -> Self {
        Self {
            receiver,
            sender,
            address,
            timer,
            cells: vec![0; BATCH * CELL_LEN_NO_HEC],
            foreign: 0,
        }
    }

    /// Hands what has come to the exchange, and to the line what the exchange has to send.
    pub(super) fn look<F: Source, S: Store>(
        &mut self,
        now: Time,
        exchange: &mut Exchange<F, S>,
    ) -> Looked {
        let line = self;
        with_features(LineLook {
            line,
            now,
            exchange,
        })
    }

    /// Waits until something comes, the next tick if `waits`, or `until`.
    pub(super) fn wait(&mut self, now: Time, waits: bool, until: Time) {
        let tick = self.timer.as_ref().map(RateTimer::next_deadline);
        let ends = [
            Some(until),
            tick.filter(|_| waits),
            self.sender.next_deadline(),
        ];
        let until = ends.into_iter().flatten().min().unwrap_or(until);
        let left = Duration::from_nanos(until.since_ns(now));
        let timeout = Timespec::try_from(left).ok();
        let socket = self.receiver.socket();
        // A wait that a signal ends is over.
        let _ = poll(
            &mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)],
            timeout.as_ref(),
        );
        self.receiver.resume();
    }
}

struct LineLook<'a, F, S> {
    line: &'a mut OwnedLine,
    now: Time,
    exchange: &'a mut Exchange<F, S>,
}

impl<F: Source, S: Store> Kernel for LineLook<'_, F, S> {
    type Output = Looked;

    #[inline(always)]
    fn run<C: Fold>(self, fold: C) -> Looked {
        let Self {
            line,
            now,
            exchange,
        } = self;
        let mut looked = Looked::default();
        line.receiver.poll(now);
        let taken = line.receiver.take(&mut line.cells);
        let (cells, _) = line.cells.as_chunks::<CELL_LEN_NO_HEC>();
        for cell in cells.iter().take(taken) {
            line.foreign += u64::from(!receive(fold, now, line.address, cell, exchange));
        }
        looked.is_busy = taken > 0;
        let room = line.sender.free().min(BATCH);
        let mut sent = 0;
        while sent < room {
            let tick = match &mut line.timer {
                None => room - sent,
                Some(timer) => match timer.poll(now) {
                    Some(burst) => (burst as usize).min(room - sent),
                    None => {
                        looked.waits = true;
                        break;
                    }
                },
            };
            let (cells, _) = line.cells.as_chunks_mut::<CELL_LEN_NO_HEC>();
            let mut filled = 0;
            for cell in &mut cells[sent..sent + tick] {
                if !send(fold, now, line.address, cell, exchange) {
                    break;
                }
                filled += 1;
            }
            sent += filled;
            if filled < tick {
                break;
            }
        }
        looked.waits |= sent == room;
        looked.is_busy |= sent > 0;
        line.sender.send(&line.cells[..sent * CELL_LEN_NO_HEC]);
        line.sender.end_step(now);
        looked
    }
}

/// Takes a cell; false if it is of another address, or no user's.
#[inline(always)]
fn receive<C: Fold, F: Source, S: Store>(
    fold: C,
    now: Time,
    address: VpiVci,
    cell: &[u8; CELL_LEN_NO_HEC],
    exchange: &mut Exchange<F, S>,
) -> bool {
    let (header, payload) = cell.split_at(CELL_LEN_NO_HEC - PAYLOAD_LEN);
    let (Some(header), Some(payload)) = (header.first_chunk(), payload.first_chunk()) else {
        return false;
    };
    let header = Header::parse(*header);
    // A GFC is no part of the address.
    let form = if address.vpi() < 256 {
        HeaderForm::Uni
    } else {
        HeaderForm::Nni
    };
    let is_ours = header.address(form) == address && header.word() & Header::NOT_USER == 0;
    if is_ours {
        exchange.handle_cell(fold, now, header.is_last(), payload);
    }
    is_ours
}

/// Fills a cell with the next payload; false if there is none.
#[inline(always)]
fn send<C: Fold, F: Source, S: Store>(
    fold: C,
    now: Time,
    address: VpiVci,
    cell: &mut [u8; CELL_LEN_NO_HEC],
    exchange: &mut Exchange<F, S>,
) -> bool {
    let (header, payload) = cell.split_at_mut(CELL_LEN_NO_HEC - PAYLOAD_LEN);
    let Some(payload) = payload.first_chunk_mut() else {
        return false;
    };
    let Some(last) = exchange.poll_cell(fold, now, payload) else {
        return false;
    };
    let pti = Pti::from_bits(u8::from(last));
    header.copy_from_slice(&Header::new(address, pti, false).emit());
    true
}

/// One look at a connection of AAL0.
struct ConnectionLook<'a, F, S> {
    connection: &'a Connection,
    address: VpiVci,
    now: Time,
    exchange: &'a mut Exchange<F, S>,
}

impl<F: Source, S: Store> Kernel for ConnectionLook<'_, F, S> {
    type Output = Result<Looked, Error>;

    #[inline(always)]
    fn run<C: Fold>(self, fold: C) -> Result<Looked, Error> {
        let Self {
            connection,
            address,
            now,
            exchange,
        } = self;
        let mut looked = Looked::default();
        for _ in 0..BATCH {
            match connection.try_next_pdu() {
                Ok(pdu) => {
                    looked.is_busy = true;
                    if let Some(cell) = pdu.first_chunk() {
                        receive(fold, now, address, cell, exchange);
                    }
                }
                Err(Error::WouldBlock(_)) => break,
                Err(error) => return Err(error),
            }
        }
        for _ in 0..BATCH {
            let mut space = match connection.try_reserve(CELL_LEN_NO_HEC) {
                Ok(space) => space,
                Err(Error::WouldBlock(_)) => {
                    looked.waits = true;
                    break;
                }
                Err(error) => return Err(error),
            };
            let filled = match space.first_chunk_mut() {
                Some(cell) => send(fold, now, address, cell, exchange),
                None => false,
            };
            if !filled {
                // Its credit is given back.
                space.truncate(0);
                break;
            }
            match space.submit() {
                Ok(()) | Err(Error::SpaceLost) => {}
                Err(error) => return Err(error),
            }
            looked.is_busy = true;
        }
        Ok(looked)
    }
}

/// Hands the cells that have come to the exchange, and to the connection what it has to send.
pub(super) fn look<F: Source, S: Store>(
    connection: &Connection,
    address: VpiVci,
    now: Time,
    exchange: &mut Exchange<F, S>,
) -> Result<Looked, Error> {
    with_features(ConnectionLook {
        connection,
        address,
        now,
        exchange,
    })
}
